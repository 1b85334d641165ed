// SPDX-License-Identifier: Apache-2.0
/// @file
/// Describes the nodes of a graph as work of one device.
///
/// The order of the pieces is that of the recording: a node follows the node before it in
/// its stream and the points that it waits for. Replays have the same order, because each
/// recorded stream has one device chain.
#include "stream/graphs/native_graph.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "stream/graphs/graph_body.hpp"

namespace weir::tessera {
namespace {

/// Returns the device that does a piece of work, or -1.
std::int32_t device_of(const device_work& work) noexcept {
  if (const auto* const copy = std::get_if<copy_work>(&work)) {
    return copy->to_device;
  }
  if (const auto* const fill = std::get_if<fill_work>(&work)) {
    return fill->device;
  }
  const auto* const grid = std::get_if<grid_work>(&work);
  return grid != nullptr ? grid->launch.device : -1;
}

/// Adds the pieces of one node behind those with the numbers `after`, each behind the one
/// before it. Returns the number of the last; `after` if the node has no work.
std::vector<std::size_t> add_pieces(native_plan& to, native_pieces pieces,
                                    std::vector<std::size_t> after) {
  for (device_work& work : pieces.work) {
    to.pieces.push_back({std::move(work), std::move(after)});
    after.assign(1, to.pieces.size() - 1);
  }
  to.keeps.insert(to.keeps.end(), std::make_move_iterator(pieces.keeps.begin()),
                  std::make_move_iterator(pieces.keeps.end()));
  return after;
}

}  // namespace

// A point has no work. What follows it follows the work in front of it.
std::optional<native_plan> native_plan_of(const graph_body& body) {
  // Streams of several devices have an order between their devices, too.
  const bool single =
      std::all_of(body.chains.begin(), body.chains.end(),
                  [](const auto& chain) { return chain->devices() == 1; });
  if (!single || !body.memories.empty()) {
    return std::nullopt;
  }
  native_plan out;
  // For each node, the pieces with which it and everything before it has ended.
  std::vector<std::vector<std::size_t>> ends;
  for (const graph_node& node : body.nodes) {
    native_pieces pieces;
    if (!node.operation->add_native_work(pieces)) {
      return std::nullopt;
    }
    std::vector<std::size_t> after;
    for (const std::size_t before : node.after) {
      after.insert(after.end(), ends[before].begin(), ends[before].end());
    }
    std::sort(after.begin(), after.end());
    after.erase(std::unique(after.begin(), after.end()), after.end());
    ends.push_back(add_pieces(out, std::move(pieces), std::move(after)));
    out.operations.push_back(node.operation);
  }
  // A graph of points alone has nothing for a device.
  if (out.pieces.empty()) {
    return std::nullopt;
  }
  out.device = device_of(out.pieces.front().work);
  const bool one_device =
      std::all_of(out.pieces.begin(), out.pieces.end(),
                  [&](const graph_piece& p) { return device_of(p.work) == out.device; });
  return one_device ? std::optional(std::move(out)) : std::nullopt;
}

}  // namespace weir::tessera
