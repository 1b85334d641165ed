// SPDX-License-Identifier: Apache-2.0
/// @file
/// Graphs that a device runs by itself instead of the engine.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "weir/tessera/device/backend.hpp"
#include "weir/tessera/stream/graph.hpp"

namespace weir::tessera {

class graph_body;

/// Work of an operation on its only device chain, in order.
struct native_pieces {
  std::vector<device_work> work;
  /// Objects that the work points to, for as long as a device makes a graph of it.
  std::vector<std::shared_ptr<const void>> keeps;
};

/// A body as pieces of work of one device, with their order.
struct native_plan {
  std::int32_t device = 0;
  std::vector<graph_piece> pieces;
  /// Objects that the pieces point to. They include the operations, because an update may
  /// replace them while a device makes the graph.
  std::vector<std::shared_ptr<const void>> keeps;
  std::vector<ref<operation>> operations;
};

/// Returns the pieces of a body; nothing if one device cannot do all of its work without
/// the host. @threads{the thread that holds the submission lock}
[[nodiscard]] std::optional<native_plan> native_plan_of(const graph_body& body);

}  // namespace weir::tessera
