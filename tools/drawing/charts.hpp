// SPDX-License-Identifier: Apache-2.0
/// @file
/// Charts of a report as inline SVG. Colours are classes of the style sheet of
/// `html_page`, so that drawings are light or dark like the page.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weir/base/svg.hpp"

namespace weir::tools {

/// Begins a drawing that the page scales to its width.
/// @param title  Description for readers who cannot see the drawing.
[[nodiscard]] svg begin_figure(double width, double height, std::string_view title);
/// Returns the attribute that gives an element a class of the style sheet.
[[nodiscard]] std::string css(std::string_view name);
/// Draws a text on the base line y with a class of the style sheet.
/// @param anchor  The part of the text that is at x: "start", "middle" or "end".
void draw_text(svg& s, double x, double y, std::string_view css_name,
               std::string_view anchor, std::string_view text);

/// Returns round numbers for the ticks of an axis from `low` to `high`: multiples of 1, 2
/// or 5 times a power of ten, at most about `count` of them. Empty if `high` <= `low`.
[[nodiscard]] std::vector<double> axis_ticks(double low, double high, int count);

/// One curve over the tokens of a run.
struct curve_line {
  std::string name;                               ///< label at its right end
  std::string css;                                ///< class of the line and of its label
  std::vector<std::pair<double, double>> points;  ///< tokens, bits per byte
};

/// Draws curves with axes, and labels at their ends that do not cover each other.
/// @param tokens  The end of the horizontal axis.
[[nodiscard]] std::string draw_curves(const std::vector<curve_line>& lines,
                                      double tokens);

/// Draws one curve with axes that begin at 0, or below it if a value does.
/// @param points  By ascending x, which is not negative.
[[nodiscard]] std::string draw_line(const std::vector<std::pair<double, double>>& points,
                                    std::string_view title, std::string_view x_name,
                                    std::string_view y_name);

/// One bar of a bar chart.
struct bar {
  std::string name;  ///< label at its left
  double value = 0;  ///< length, in any unit
  std::string text;  ///< the value as text, at its right
};
/// Draws a bar chart, the longest bar first.
[[nodiscard]] std::string draw_bars(std::vector<bar> bars, std::string_view title);

}  // namespace weir::tools
