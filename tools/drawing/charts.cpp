// SPDX-License-Identifier: Apache-2.0
/// @file
/// Curves and bars.
///
/// A figure has a fixed width in units of its own, and the page scales it. Coordinates
/// begin at the upper left corner, so larger values of y are lower.
#include "charts.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "weir/base/text.hpp"

namespace weir::tools {

namespace {

/// Units of a drawing from left to right.
constexpr double page_width = 960;

// The area of the curves within their drawing, and the numbers at its edges.
struct frame {
  double left = 44;                 ///< the vertical axis stands here
  double right = page_width - 150;  ///< right end; labels stand behind it
  double top = 26;                  ///< upper end of the vertical axis
  double bottom = 352;              ///< the horizontal axis stands here
  double tokens = 1;                ///< value at the right end
  double low = 0;                   ///< value at the lower end
  double high = 8;                  ///< value at the upper end

  // Returns the place of a number of tokens.
  [[nodiscard]] double x(double token) const {
    return left + (right - left) * token / tokens;
  }
  // Returns the place of a value. Values outside the axis are drawn at its end.
  [[nodiscard]] double y(double bits) const {
    const double part = (std::clamp(bits, low, high) - low) / (high - low);
    return bottom - (bottom - top) * part;
  }
};

// Returns a number of tokens as "1.5 M", "20 k" or "500".
std::string short_number(double value) {
  // A little below a million, so that rounding does not give "1000 k".
  if (value >= 999'999) {
    return fmt::format("{:g} M", value / 1e6);
  }
  return value >= 1000 ? fmt::format("{:g} k", value / 1000) : fmt::format("{:g}", value);
}

// Chooses the range of the vertical axis: multiples of half a bit around the curves.
frame frame_of(const std::vector<curve_line>& lines, double tokens) {
  frame f;
  // The lower end is at most 8 bits and the upper end at least 1 bit.
  f.tokens = std::max(tokens, 1.0);
  double low = 8;
  double high = 1;
  for (const curve_line& line : lines) {
    // The first hundredth does not count for the upper end of the axis: a new model
    // begins at eight bits per byte, and that scale would flatten the rest of the curve.
    for (const auto& [token, bits] : line.points) {
      low = std::min(low, bits);
      high = token > tokens / 100 ? std::max(high, bits) : high;
    }
  }
  // Some space stays below the lowest curve. No curve has a negative value.
  f.low = std::max(0.0, std::floor(2 * (low - 0.15)) / 2);
  // At least one bit between the ends. More than eight bits per byte are cut off.
  f.high = std::min(8.0, std::max(f.low + 1, std::ceil(2 * high) / 2));
  return f;
}

// Draws the grid, the ticks and the names of both axes.
// Lines go over the whole width; marks are only below the axis.
void draw_axes(svg& s, const frame& f, std::string_view x_name, std::string_view y_name) {
  for (const double bits : axis_ticks(f.low, f.high, 8)) {
    s.line(f.left, f.y(bits), f.right, f.y(bits), css("grid"));
    draw_text(s, f.left - 8, f.y(bits) + 4, "tick", "end", fmt::format("{:g}", bits));
  }
  for (const double token : axis_ticks(0, f.tokens, 8)) {
    s.line(f.x(token), f.bottom, f.x(token), f.bottom + 5, css("axis"));
    draw_text(s, f.x(token), f.bottom + 19, "tick", "middle", short_number(token));
  }
  s.line(f.left, f.bottom, f.right, f.bottom, css("axis"));
  draw_text(s, (f.left + f.right) / 2, f.bottom + 38, "tick", "middle", x_name);
  draw_text(s, f.left - 30, f.top - 12, "tick", "start", y_name);
}

// Moves labels apart: first downwards, then back up from the bottom of the drawing.
// The second pass may move labels above their curves, but never over each other.
void spread(std::vector<std::pair<double, const curve_line*>>& labels, double bottom) {
  constexpr double distance = 16;
  // Stable, so that equal ends keep the order of the curves.
  std::stable_sort(labels.begin(), labels.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (std::size_t i = 1; i < labels.size(); ++i) {
    labels[i].first = std::max(labels[i].first, labels[i - 1].first + distance);
  }
  double limit = bottom;
  for (std::size_t i = labels.size(); i-- > 0; limit -= distance) {
    labels[i].first = std::min(labels[i].first, limit);
    limit = labels[i].first;
  }
}

}  // namespace

svg begin_figure(double width, double height, std::string_view title) {
  // The title is read aloud by programs for blind readers.
  return svg(fmt::format(R"(viewBox="0 0 {:g} {:g}" role="img" aria-label="{}")", width,
                         height, xml_escape(title)));
}

std::string css(std::string_view name) {
  return fmt::format("class=\"{}\"", name);
}

void draw_text(svg& s, double x, double y, std::string_view css_name,
               std::string_view anchor, std::string_view text) {
  s.text(x, y, fmt::format(R"(class="{}" text-anchor="{}")", css_name, anchor), text);
}

/// Returns round numbers between `low` and `high`, about `count` of them: multiples of 1,
/// 2 or 5 times a power of ten. Multiples are computed from whole numbers, so that
/// rounding errors do not add up.
std::vector<double> axis_ticks(double low, double high, int count) {
  std::vector<double> out;
  if (!(high > low) || count < 1) {
    return out;
  }
  // The step that would give exactly `count` ticks. It is rounded up to 1, 2, 5 or 10
  // times a power of ten.
  const double raw = (high - low) / count;
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  const double head = raw / power;
  const double step = power * (head <= 1 ? 1 : head <= 2 ? 2 : head <= 5 ? 5 : 10);
  // The tolerance keeps a tick that rounding has moved slightly beyond an end.
  for (double n = std::ceil(low / step - 1e-9); n * step <= high + step * 1e-9; n += 1) {
    out.push_back(n * step + 0.0);  // + 0.0 turns a negative zero into zero
  }
  return out;
}

/// Draws curves with their names at the right ends. Labels that would overlap are moved
/// apart.
std::string draw_curves(const std::vector<curve_line>& lines, double tokens) {
  const frame f = frame_of(lines, tokens);
  svg s =
      // Below the axis there is room for the numbers and the name.
      begin_figure(page_width, f.bottom + 48, "Bits per byte over the tokens of the run");
  draw_axes(s, f, "tokens", "bits per byte");
  std::vector<std::pair<double, const curve_line*>> labels;
  // A curve without points has no label either.
  for (const curve_line& line : lines) {
    std::vector<std::pair<double, double>> points;
    for (const auto& [token, bits] : line.points) {
      points.emplace_back(f.x(token), f.y(bits));
    }
    if (!points.empty()) {
      s.polyline(points, css("curve " + line.css), line.name);
      // The label stands at the height of the last point, a little lower because text has
      // its base line there.
      labels.emplace_back(points.back().second + 4, &line);
    }
  }
  spread(labels, f.bottom);
  for (const auto& [y, line] : labels) {
    draw_text(s, f.right + 8, y, "label " + line->css, "start", line->name);
  }
  return std::move(s).finish();
}

/// The general form of a curve: any range of values, but the horizontal axis begins at 0.
std::string draw_line(const std::vector<std::pair<double, double>>& points,
                      std::string_view title, std::string_view x_name,
                      std::string_view y_name) {
  frame f;
  f.low = 0;
  f.high = 0;
  f.tokens = 0;
  // Both axes contain zero.
  for (const auto& [x, y] : points) {
    f.tokens = std::max(f.tokens, x);
    f.low = std::min(f.low, y);
    f.high = std::max(f.high, y);
  }
  // A curve without any extent would divide by zero.
  f.tokens = f.tokens > 0 ? f.tokens : 1;
  f.high = f.high > f.low ? f.high : f.low + 1;
  svg s = begin_figure(page_width, f.bottom + 48, title);
  draw_axes(s, f, x_name, y_name);
  std::vector<std::pair<double, double>> places;
  for (const auto& [x, y] : points) {
    // The axis begins at zero, so earlier points are drawn there.
    places.emplace_back(f.x(std::max(x, 0.0)), f.y(y));
  }
  if (!places.empty()) {
    s.polyline(places, css("curve run"), title);
  }
  return std::move(s).finish();
}

/// Draws horizontal bars, the longest first. Even a bar of value 0 has a width that can
/// be seen.
/// Names stand at the left and values behind the bars.
std::string draw_bars(std::vector<bar> bars, std::string_view title) {
  std::stable_sort(bars.begin(), bars.end(),
                   [](const bar& a, const bar& b) { return a.value > b.value; });
  constexpr double row = 24;
  // Place for names at the left and for values at the right.
  constexpr double left = 190;
  constexpr double right = page_width - 130;
  svg s = begin_figure(page_width, row * static_cast<double>(bars.size()) + 8, title);
  // Values of zero alone would divide by zero.
  const double longest = bars.empty() ? 1 : std::max(bars.front().value, 1e-12);
  double y = 4;
  for (const bar& b : bars) {
    const double width = std::max(1.0, (right - left) * b.value / longest);
    draw_text(s, left - 8, y + 15, "label", "end", b.name);
    // The text of the bar appears under the pointer.
    s.rect(left, y + 3, width, row - 8, css("bar"), b.name + ": " + b.text);
    draw_text(s, left + width + 8, y + 15, "tick", "start", b.text);
    y += row;
  }
  return std::move(s).finish();
}

}  // namespace weir::tools
