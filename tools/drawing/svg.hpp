// SPDX-License-Identifier: Apache-2.0
/// @file
/// Drawings of a report as inline SVG. Colours are classes of the page, so that they
/// follow light and dark.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weir::tools {

/// A rectangular drawing in a coordinate system of its own; the page scales it to its
/// width.
class svg {
 public:
  svg(double width, double height, std::string_view title);

  void line(double x1, double y1, double x2, double y2, std::string_view css);
  void rect(double x, double y, double width, double height, std::string_view css,
            std::string_view tip = {});
  /// `anchor`: start, middle or end.
  void text(double x, double y, std::string_view css, std::string_view anchor,
            std::string_view text);
  void polyline(const std::vector<std::pair<double, double>>& points,
                std::string_view css, std::string_view tip = {});
  [[nodiscard]] std::string finish() &&;

 private:
  std::string out_;
};

/// Round steps for an axis from `low` to `high`, about `count` of them, ends included
/// where they are round.
[[nodiscard]] std::vector<double> axis_ticks(double low, double high, int count);

/// One curve over the tokens of a run.
struct curve_line {
  std::string name;                               ///< label at its right end
  std::string css;                                ///< class of the line and of its label
  std::vector<std::pair<double, double>> points;  ///< tokens, bits per byte
};

/// Curves with axes, and labels at their ends that do not cover each other.
[[nodiscard]] std::string draw_curves(const std::vector<curve_line>& lines,
                                      double tokens);

/// One bar per entry, longest first, with its text at the right.
struct bar {
  std::string name;
  double value = 0;
  std::string text;
};
[[nodiscard]] std::string draw_bars(std::vector<bar> bars, std::string_view title);

}  // namespace weir::tools
