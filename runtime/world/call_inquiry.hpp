// SPDX-License-Identifier: Apache-2.0
/// @file
/// Questions between ranks that wait: each tells the other its newest calls, so that a
/// piece is not awaited for ever from a rank that has made other calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <vector>

#include "weir/runtime/transport.hpp"
#include "world/call_log.hpp"

namespace weir::runtime {

/// Asks all other ranks for their calls and answers their questions, in a channel of its
/// own. A question may stay open for any time; then the answer is used when it comes.
/// @threads{belongs to the thread of its transport}
class call_inquiry {
 public:
  /// Opens the channel. @pre the transport outlives this object
  explicit call_inquiry(transport& link);
  ~call_inquiry() { close(); }
  call_inquiry(const call_inquiry&) = delete;
  call_inquiry& operator=(const call_inquiry&) = delete;
  /// Ends the use of the transport.
  void close() noexcept { link_.close_channel(channel_); }

  /// Asks each rank that has no open question. @pre move_on was called before
  [[nodiscard]] result<void> ask();
  /// Answers questions and compares the answers that have come with the own calls. Does
  /// not wait. @error{diverged; the text names the first call that differs}
  [[nodiscard]] result<void> move_on(const call_log& own);

 private:
  /// A rank, its open question and the own one.
  struct peer {
    rank_id rank = 0;
    std::uint64_t answered = 0;  ///< questions of the rank that were answered
    std::uint64_t asked = 0;     ///< questions to the rank whose answer has come
    bool open = false;           ///< true if a question to the rank is open
    transfer_id question = 0;    ///< receive of its next question
    transfer_id count = 0;       ///< receive of the first part of its answer
    transfer_id calls = 0;       ///< receive of the second part
    /// Memory of the receive of its question, whose content does not matter.
    std::byte asks{};
    call_history answer;
  };
  /// Bytes that the transport sends.
  struct outgoing {
    transfer_id id;
    std::vector<std::byte> bytes;
  };

  [[nodiscard]] result<void> send(rank_id to, std::uint64_t number,
                                  std::vector<std::byte> bytes);
  [[nodiscard]] result<void> await_question(peer& p);
  [[nodiscard]] result<void> await_count(peer& p);
  [[nodiscard]] result<void> await_calls(peer& p);
  [[nodiscard]] result<void> take(peer& p, const transfer_end& one, const call_log& own);
  [[nodiscard]] result<void> reply(peer& p, const call_log& own);
  [[nodiscard]] result<void> compare(peer& p, const call_log& own);

  transport& link_;
  std::uint32_t channel_;
  std::vector<peer> peers_;  ///< empty until the rank waits for the first time
  std::list<outgoing> sends_;
};

}  // namespace weir::runtime
