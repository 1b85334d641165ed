// SPDX-License-Identifier: Apache-2.0
/// @file
/// The rank actor: pulls the chunks of its lanes from the hub, and checks that each chunk
/// continues its lane exactly.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>

#include "shim/shim.hpp"
#include "weir/actors/interfaces.hpp"

namespace weir::actors {

/// The logic of a rank, without actors. Rank r of n ranks has the lanes l with l mod n =
/// r.
/// @threads{thread-compatible}
/// @source{Context Stream, "Multi-GPU Considerations"}
class rank_state {
 public:
  /// Makes rank number `rank` of `ranks`.
  rank_state(std::uint32_t rank, std::uint32_t ranks) : rank_(rank), ranks_(ranks) {}
  /// Checks that the orders are for lanes of this rank.
  /// @error{internal, a lane belongs to another rank}
  [[nodiscard]] result<void> check_orders(const chunk_orders& orders) const;
  /// Checks that each chunk is of the lane that was ordered, and begins where the last
  /// chunk of that lane ended.
  /// @error{internal, a chunk does not}
  [[nodiscard]] result<void> check_replies(const chunk_replies& replies);

 private:
  std::uint32_t rank_;
  std::uint32_t ranks_;
  /// By lane: position behind its last chunk. A lane is missing until its first chunk.
  std::map<std::uint32_t, std::uint64_t> next_position_;
};

/// Configuration of a rank.
struct rank_config {
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;
  stream_hub_actor hub;
  std::chrono::seconds deadline{600};  ///< for the answers of the hub
};
/// State that CAF keeps for a rank.
struct rank_shell {
  static constexpr const char* name = "weir.rank_io";
  std::unique_ptr<rank_state> core;
};
/// Returns the behavior of a rank; CAF calls this when it spawns the actor.
rank_actor::behavior_type rank_io(rank_actor::stateful_pointer<rank_shell> self,
                                  rank_config config);

}  // namespace weir::actors
