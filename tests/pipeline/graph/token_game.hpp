// SPDX-License-Identifier: Apache-2.0
/// @file
/// An abstract run of a graph: items are numbers, and only credits decide who may go on.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "weir/pipeline/graph.hpp"

namespace weir::test {

/// Runs a graph whose windows are final, one random step at a time, until nothing can go
/// on. A stage goes on only if each of its edges has credits for all items that one call
/// may give, and it releases items as late as it may: those that it holds when it needs
/// them no more, those of a late stage when they are done.
/// @threads{confined to one thread}
class token_game {
 public:
  /// @param items  Number of items of each source.
  /// @param full  True if each call gives as many items as it may.
  token_game(const flow::graph& g, std::int64_t items, bool full, std::uint64_t seed);

  /// Plays until no stage can go on.
  /// @returns True if all stages have ended.
  bool play();
  /// Returns the names of the stages that have not ended, in the order of definition.
  [[nodiscard]] std::string waiting() const;
  /// Returns the largest number of items of a stage that were alive at the same time,
  /// with those that the stage was making.
  [[nodiscard]] std::int64_t max_alive(std::size_t stage) const {
    return stages_[stage].max_alive;
  }
  /// Returns the largest number of items that were alive on an edge at the same time.
  [[nodiscard]] std::int64_t max_on_edge(std::size_t edge) const {
    return edges_[edge].max_alive;
  }

 private:
  struct stage_state {
    std::vector<std::uint32_t> in, out;
    std::int64_t taken = 0;  ///< items taken from each inlet
    std::int64_t done = 0;   ///< of these, items whose tasks have ended
    std::int64_t made = 0;
    std::int64_t max_alive = 0;
    bool ended = false;
  };
  struct edge_state {
    std::int64_t entered = 0;
    std::int64_t released = 0;
    std::int64_t max_alive = 0;
  };

  [[nodiscard]] const flow::stage_info& info(std::size_t s) const {
    return graph_.stages[s].info;
  }
  /// Returns true if a stage hands an item on only when its tasks have ended.
  [[nodiscard]] bool is_late(std::size_t s) const;
  [[nodiscard]] std::int64_t available(std::size_t s) const;
  [[nodiscard]] bool input_has_ended(std::size_t s) const;
  [[nodiscard]] bool has_credits(std::size_t s, std::int64_t items) const;
  [[nodiscard]] std::int64_t oldest(std::size_t s) const;
  void note_alive();
  void emit(std::size_t s, std::int64_t items);
  void release(std::size_t s, std::int64_t items);
  void end(std::size_t s);
  std::int64_t amount(std::int64_t low, std::int64_t high);
  bool step(std::size_t s);
  bool step_source(std::size_t s);
  bool take(std::size_t s);
  bool finish(std::size_t s);
  bool flush(std::size_t s);

  const flow::graph& graph_;
  std::int64_t items_;
  bool full_;
  std::mt19937_64 random_;
  std::vector<stage_state> stages_;
  std::vector<edge_state> edges_;
};

}  // namespace weir::test
