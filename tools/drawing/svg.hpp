// SPDX-License-Identifier: Apache-2.0
/// @file
/// Draws the figures of a report as inline SVG. Colours are classes of the style sheet of
/// `html_page`, so that drawings are light or dark like the page.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weir::tools {

/// A rectangular drawing. x grows to the right and y downwards, in units of its own; the
/// page scales the drawing to its width.
///
/// `css` is a class of the style sheet. `tip` is a text that appears under the pointer.
/// @threads{thread-compatible}
class svg {
 public:
  /// Begins a drawing.
  /// @param title  Description for readers who cannot see the drawing.
  svg(double width, double height, std::string_view title);

  /// Draws a line.
  void line(double x1, double y1, double x2, double y2, std::string_view css);
  /// Draws a filled rectangle; (x, y) is its upper left corner.
  void rect(double x, double y, double width, double height, std::string_view css,
            std::string_view tip = {});
  /// Draws a text on the base line y.
  /// @param anchor  The part of the text that is at x: "start", "middle" or "end".
  void text(double x, double y, std::string_view css, std::string_view anchor,
            std::string_view text);
  /// Draws a line through points.
  void polyline(const std::vector<std::pair<double, double>>& points,
                std::string_view css, std::string_view tip = {});
  /// Ends the drawing and returns its SVG.
  [[nodiscard]] std::string finish() &&;

 private:
  std::string out_;
};

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

/// One bar of a bar chart.
struct bar {
  std::string name;  ///< label at its left
  double value = 0;  ///< length, in any unit
  std::string text;  ///< the value as text, at its right
};
/// Draws a bar chart, the longest bar first.
[[nodiscard]] std::string draw_bars(std::vector<bar> bars, std::string_view title);

}  // namespace weir::tools
