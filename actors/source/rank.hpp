// SPDX-License-Identifier: Apache-2.0
/// @file
/// A rank hosts lanes: it pulls their chunks from the hub and sees to it that each
/// continues its lane exactly.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>

#include "shim/shim.hpp"
#include "weir/actors/interfaces.hpp"

namespace weir::actors {

/// A rank without actors. @threads{thread-compatible}
/// @source{Context Stream, "Multi-GPU Considerations"; lanes l with l mod ranks == rank}
class rank_state {
 public:
  rank_state(std::uint32_t rank, std::uint32_t ranks) : rank_(rank), ranks_(ranks) {}
  /// @error{internal, a lane of another rank}
  [[nodiscard]] result<void> check_orders(const chunk_orders& orders) const;
  /// @error{internal, a chunk that does not continue its lane, or that nobody ordered}
  [[nodiscard]] result<void> check_replies(const chunk_replies& replies);

 private:
  std::uint32_t rank_;
  std::uint32_t ranks_;
  std::map<std::uint32_t, std::uint64_t> next_position_;  ///< by lane, once known
};

struct rank_config {
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;
  stream_hub_actor hub;
  std::chrono::seconds deadline{600};
};
struct rank_shell {
  static constexpr const char* name = "weir.rank_io";
  std::unique_ptr<rank_state> core;
};
rank_actor::behavior_type rank_io(rank_actor::stateful_pointer<rank_shell> self,
                                  rank_config config);

}  // namespace weir::actors
