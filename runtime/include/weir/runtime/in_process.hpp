// SPDX-License-Identifier: Apache-2.0
/// @file
/// The transport between ranks that are threads of one process. It can delay, reorder and
/// lose messages, for tests.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "weir/runtime/transport.hpp"

namespace weir::runtime {

/// Options of a network inside of one process.
struct in_process_options {
  rank_id ranks = 1;  ///< number of ranks, at least 1
  /// Largest number of calls of `poll` by which the receiver gets a message later. Each
  /// message has a random delay, so messages overtake each other.
  std::uint32_t max_delay = 0;
  std::uint64_t seed = 1;  ///< seed of the delays
  /// Decides if a message is lost; empty: none is. Called by the thread that sends.
  std::function<bool(rank_id from, rank_id to, message_key key)> loses{};
  /// Time without a sign of life of a rank, that is without a call of `poll` by it and
  /// without a kernel that it runs, after which receives from it fail. It is also the
  /// time after which a message that was sent counts as lost. @units{nanoseconds}
  std::int64_t deadline_ns = 60'000'000'000;
  /// Largest number of bytes that wait for one rank: messages that were sent to it and
  /// have no receive. A send beyond it fails. @units{bytes}
  std::int64_t max_waiting = std::int64_t{4} << 30;
  /// Returns the present time in nanoseconds; empty: the steady clock. Called by all
  /// ranks.
  std::function<std::int64_t()> clock{};
};

/// The ranks of one process and the messages between them.
/// @threads{thread-compatible; its transports as `transport` says}
class in_process_network {
 public:
  /// Makes the transports of all ranks. @pre options.ranks >= 1
  explicit in_process_network(in_process_options options);
  ~in_process_network();
  in_process_network(const in_process_network&) = delete;
  in_process_network& operator=(const in_process_network&) = delete;

  /// Returns the transport of a rank, which lives as long as the network.
  /// @pre rank < options.ranks
  [[nodiscard]] transport& transport_of(rank_id rank) noexcept;
  /// Returns the size of the messages that were sent to a rank and that no receive has
  /// taken. @pre rank < options.ranks @units{bytes} @threads{safe from any thread}
  [[nodiscard]] std::int64_t waiting(rank_id rank) const;

 private:
  struct shared;
  class endpoint;
  std::unique_ptr<shared> shared_;
  std::vector<std::unique_ptr<endpoint>> endpoints_;
};

}  // namespace weir::runtime
