// SPDX-License-Identifier: Apache-2.0
/// @file
/// Drawings of pipelines: stages as boxes in layers from left to right, edges with the
/// names of their ports and their types.
/// @threads{all functions: safe to call concurrently}
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "facts.hpp"

namespace weir::tools {

/// A stage in a drawing.
struct pictured_stage {
  std::string name;
  std::string use;      ///< name of the stage among those that the program knows
  std::string face;     ///< "task", "late", "source" or "sink"
  std::string tip;      ///< text under the pointer
  std::string rate{};   ///< items per second of a run; empty without a run
  bool limits = false;  ///< true if the stage limited the rate of a run
};

/// An edge in a drawing.
struct pictured_edge {
  std::size_t from = 0;  ///< index of a stage
  std::size_t to = 0;    ///< index of a stage
  std::string outlet;
  std::string inlet;
  std::string type;
  std::size_t delay = 0;  ///< greater than 0 for feedback edges
  std::string tip;        ///< text under the pointer
  std::string depth{};    ///< most items alive in a run, of its window; may be empty
};

/// A pipeline in a drawing.
struct graph_picture {
  std::string name;
  std::vector<pictured_stage> stages;
  std::vector<pictured_edge> edges;
};

/// Makes a picture of facts as `plan_facts` or `run_facts` return them. Stages and edges
/// that lack a name or an end are left out, because the facts may come from a file. Facts
/// of a run add the rate of each stage and the depth of each edge.
[[nodiscard]] graph_picture picture_of(const facts& plan);

/// Returns a drawing as an SVG file with its own style, which a page may contain too.
[[nodiscard]] std::string picture_svg(const graph_picture& picture);

/// Returns a picture as a graph in the language of Graphviz.
[[nodiscard]] std::string picture_dot(const graph_picture& picture);

}  // namespace weir::tools
