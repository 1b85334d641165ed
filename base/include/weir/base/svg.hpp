// SPDX-License-Identifier: Apache-2.0
/// @file
/// Writes drawings as SVG: lines, rectangles, texts, and texts under the pointer.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weir {

/// A drawing. x grows to the right and y downwards. Coordinates are written with at most
/// two decimals.
///
/// Attributes are XML as it stands in the element, such as `class="grid"`, and may be
/// empty. Texts and tips are escaped; a tip appears under the pointer.
/// @threads{thread-compatible}
class svg {
 public:
  /// Begins a drawing.
  /// @param style  Attributes of the element `svg`.
  explicit svg(std::string_view style);

  /// Draws a line from (x1, y1) to (x2, y2).
  void line(double x1, double y1, double x2, double y2, std::string_view style,
            std::string_view tip = {});
  /// Draws a rectangle; (x, y) is its upper left corner.
  void rect(double x, double y, double width, double height, std::string_view style,
            std::string_view tip = {});
  /// Draws a text on the base line y.
  void text(double x, double y, std::string_view style, std::string_view content);
  /// Draws a line through points.
  void polyline(const std::vector<std::pair<double, double>>& points,
                std::string_view style, std::string_view tip = {});
  /// Adds elements that are written already, such as definitions.
  void add(std::string_view xml);
  /// Ends the drawing and returns its SVG.
  [[nodiscard]] std::string finish() &&;

 private:
  /// Ends an element that has no other content than its tip.
  void end_element(std::string_view name, std::string_view style, std::string_view tip);

  std::string out_;
};

}  // namespace weir
