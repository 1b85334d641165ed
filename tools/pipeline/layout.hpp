// SPDX-License-Identifier: Apache-2.0
/// @file
/// Positions of stages and edges in a drawing.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "picture.hpp"

namespace weir::tools {

/// A point of a drawing, x and y.
using point = std::pair<double, double>;

/// The box of a stage. Ports stand at the left and right side, each in a row of its own.
struct placed_stage {
  std::size_t layer = 0;
  double x = 0;  ///< left side
  double y = 0;  ///< upper side
  double width = 0;
  double height = 0;
  std::vector<std::string> inlets;  ///< inlets that an edge uses, from top to bottom
  std::vector<std::string> inlet_labels;  ///< name of each inlet, and depth of its edge
  std::vector<std::string> outlets;  ///< outlets that an edge uses, from top to bottom
  std::vector<std::string> outlet_labels;  ///< name and type of each outlet

  /// Returns the height of a port. @param ports  `inlets` or `outlets`.
  [[nodiscard]] double port_y(const std::vector<std::string>& ports,
                              const std::string& name) const;
};

/// A drawing with positions.
struct placed_picture {
  double width = 0;
  double height = 0;
  std::vector<placed_stage> stages;       ///< in the order of the picture
  std::vector<std::vector<point>> edges;  ///< points of each edge, from its outlet on
  std::vector<point> delay_labels;        ///< for each edge, used if it has a delay
};

/// Returns the approximate width of a text in the font of the drawing.
[[nodiscard]] double text_width(const std::string& text);

/// Places all stages and edges. Boxes do not overlap, and edges without a delay lead from
/// left to right around the boxes of other stages.
/// @threads{safe to call concurrently}
[[nodiscard]] placed_picture place_picture(const graph_picture& picture);

}  // namespace weir::tools
