// SPDX-License-Identifier: Apache-2.0
/// @file
/// Elements of SVG.
///
/// Elements are appended to one text. Coordinates have two decimals, so that equal
/// drawings are equal texts on every machine. Texts are escaped, attributes are not: they
/// come from the program.
#include "weir/base/svg.hpp"

#include <fmt/core.h>

#include "weir/base/text.hpp"

namespace weir {

namespace {

/// Returns a coordinate with at most two decimals and without zeros at its end.
std::string coordinate(double value) {
  // Zeros at the end are cut, and then a point that is left.
  std::string out = fmt::format("{:.2f}", value);
  out.erase(out.find_last_not_of('0') + 1);
  if (out.back() == '.') {
    out.pop_back();
  }
  // -0.00 becomes -0 above.
  return out == "-0" ? "0" : out;
}

/// Returns attributes with the space that separates them from what stands before them.
std::string separated(std::string_view attributes) {
  return attributes.empty() ? std::string() : fmt::format(" {}", attributes);
}

}  // namespace

svg::svg(std::string_view attributes)
    // The name space is among the attributes, as drawings in a page need none.
    : out_(fmt::format("<svg{}>\n", separated(attributes))) {}

/// A tip is the element "title", which browsers show under the pointer.
void svg::end_element(std::string_view name, std::string_view attributes,
                      std::string_view tip) {
  out_ += separated(attributes);
  out_ += tip.empty() ? "/>\n"
                      : fmt::format("><title>{}</title></{}>\n", xml_escape(tip), name);
}

void svg::line(double x1, double y1, double x2, double y2, std::string_view attributes,
               std::string_view tip) {
  // The elements differ in their geometry alone.
  out_ += fmt::format(R"(<line x1="{}" y1="{}" x2="{}" y2="{}")", coordinate(x1),
                      coordinate(y1), coordinate(x2), coordinate(y2));
  end_element("line", attributes, tip);
}

void svg::rect(double x, double y, double width, double height,
               std::string_view attributes, std::string_view tip) {
  out_ += fmt::format(R"(<rect x="{}" y="{}" width="{}" height="{}")", coordinate(x),
                      coordinate(y), coordinate(width), coordinate(height));
  end_element("rect", attributes, tip);
}

void svg::text(double x, double y, std::string_view attributes,
               std::string_view content) {
  // A text may contain any character, so it is escaped.
  out_ += fmt::format("<text x=\"{}\" y=\"{}\"{}>{}</text>\n", coordinate(x),
                      coordinate(y), separated(attributes), xml_escape(content));
}

void svg::polyline(const std::vector<std::pair<double, double>>& points,
                   std::string_view attributes, std::string_view tip) {
  out_ += "<polyline points=\"";
  // The space behind the last point does no harm.
  for (const auto& [x, y] : points) {
    out_ += fmt::format("{},{} ", coordinate(x), coordinate(y));
  }
  out_ += '"';
  end_element("polyline", attributes, tip);
}

/// Appends finished XML.
void svg::add(std::string_view xml) {
  out_ += xml;
}

std::string svg::finish() && {
  // Nothing can be added afterwards.
  return std::move(out_) + "</svg>\n";
}

}  // namespace weir
