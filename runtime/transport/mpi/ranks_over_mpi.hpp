// SPDX-License-Identifier: Apache-2.0
/// @file
/// The transport over the calls of a plug-in.
///
/// A message of a channel is a message of MPI whose tag is made of the channel and of the
/// low 20 bits of its number. MPI delivers messages of one tag in order, so these bits
/// are enough while fewer than 2^20 messages are under way. A message without bytes is
/// sent as one byte, since a message of no bytes says that its sender has failed. All
/// memory that MPI reads and writes belongs to the transport, because MPI cannot give up
/// a transfer to or from a rank that has died.
///
/// Signs of life and the ends of channels are messages of two tags of their own. A
/// thread, the pump, sends the signs of life and moves messages on while nobody polls.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "calls.hpp"
#include "control.hpp"
#include "weir/mpi/ranks.hpp"
#include "weir/runtime/transport/silence.hpp"

namespace weir::mpi {

using runtime::message_key;
using runtime::rank_id;
using runtime::transfer_end;
using runtime::transfer_id;

/// Channels that one communicator has. Tags of channel c begin at (c + 1) * 2^20, and MPI
/// libraries have at least 2^28 tags.
constexpr std::uint32_t channels_of_communicator = 255;

/// The ranks of a launcher or of a communicator.
/// @threads{as `runtime::transport` says; the pump is a thread of the object}
class ranks_over_mpi final : public runtime::transport {
 public:
  /// Takes over calls that have been started.
  ranks_over_mpi(const calls& plugin, const start_facts& facts, mpi_options options);
  /// Waits until own messages are sent and all ranks are here, and ends MPI if it was
  /// started for this object. Does neither if a rank has failed.
  ~ranks_over_mpi() override;

  [[nodiscard]] rank_id rank() const noexcept override { return rank_; }
  [[nodiscard]] rank_id ranks() const noexcept override { return ranks_; }
  [[nodiscard]] std::uint32_t open_channel() override;
  void close_channel(std::uint32_t channel) noexcept override;
  void abandon(std::uint32_t channel, const error& cause) override;
  [[nodiscard]] result<transfer_id> send(rank_id to, message_key key,
                                         std::span<const std::byte> bytes) override;
  [[nodiscard]] result<transfer_id> send_failure(rank_id to, message_key key) override;
  [[nodiscard]] result<transfer_id> receive(rank_id from, message_key key,
                                            std::span<std::byte> into) override;
  void poll(std::uint32_t channel, std::vector<transfer_end>& ended) override;
  void take_ends(std::uint32_t channel, std::vector<transfer_end>& ended) override;
  [[nodiscard]] bool take_end(std::uint32_t channel, transfer_id last) override;

 private:
  /// A send or a receive that MPI has not ended.
  struct operation {
    transfer_id id = 0;
    rank_id other = 0;
    message_key key;
    bool is_send = false;
    bool is_forgotten = false;   ///< its channel is closed, or its end was told
    bool is_cancelled = false;   ///< MPI was asked to end it
    bool is_taken_over = false;  ///< begun for a receive that was given up
    std::vector<std::byte> buffer{};
    std::span<std::byte> into{};
    std::int64_t begun_ns = 0;
    std::optional<error> cause{};  ///< reason for which it was cancelled
  };
  /// A message that has come for a receive that was given up.
  struct late_message {
    operation_end end;
    std::vector<std::byte> buffer;
  };
  using operation_map = std::map<const operation*, std::unique_ptr<operation>>;
  /// A sender and a key.
  using sender_and_key = std::pair<rank_id, message_key>;
  /// A rank and a channel.
  using rank_and_channel = std::pair<rank_id, std::uint32_t>;
  struct channel_state {
    bool open = true;
    std::vector<transfer_end> ended{};  ///< ends that its user has not asked for
  };

  [[nodiscard]] result<void> check_open(rank_id other, const message_key& key,
                                        std::size_t bytes) const;
  [[nodiscard]] result<transfer_id> begin_send(rank_id to, message_key key,
                                               std::vector<std::byte> buffer);
  [[nodiscard]] int begin_receive(std::unique_ptr<operation> owned);
  [[nodiscard]] result<bool> resume_receive(rank_id from, const message_key& key,
                                            std::span<std::byte> into);
  [[nodiscard]] std::vector<std::byte> take_buffer(std::size_t bytes);
  void keep_buffer(std::vector<std::byte> buffer);
  bool send_control(rank_id to, int tag, std::vector<std::byte> bytes);
  void close(std::uint32_t channel) noexcept;
  void cancel(operation& one, std::optional<error> cause);

  void progress();
  void move_ends(std::uint32_t channel, std::vector<transfer_end>& ended);
  void end_operation(const operation_end& end, std::int64_t now);
  [[nodiscard]] bool keeps_receiving(operation& one, const operation_end& end);
  [[nodiscard]] result<void> outcome_of(operation& one, const operation_end& end) const;
  void look_for_control_messages(std::int64_t now);
  void take_farewell(rank_id from, std::span<const std::byte> bytes);
  void end_overdue();
  void give_up(operation& one);
  void move_copy_on(std::int64_t begun);
  void tell_end(const operation& one, result<void> outcome, bool abandoned = false);
  [[nodiscard]] error failure_of_mpi(const operation& one, int code) const;

  void pump();
  void send_farewells(std::uint32_t channel, const error& cause);
  void fail(const std::string& why);
  /// Returns true if a rank has left a channel, or all of them.
  [[nodiscard]] bool has_left(rank_id other, std::uint32_t channel) const {
    return gone_.contains({other, channel}) || gone_.contains({other, control_channel});
  }
  [[nodiscard]] bool has_transfers() const;
  [[nodiscard]] bool all_are_here();
  /// Returns a rank that has shown no sign of life for the deadline, counted from `begun`
  /// or from its last sign.
  [[nodiscard]] std::optional<rank_id> silent_rank(std::int64_t begun) const;
  /// Returns a rank that has ended its transport the deadline ago, counted in the same
  /// way.
  [[nodiscard]] std::optional<rank_id> left_rank(std::int64_t begun) const;
  [[nodiscard]] std::string words_of_mpi(int code) const;
  [[nodiscard]] std::string words_of_silence(rank_id other, std::int64_t since) const;

  const calls& mpi_;
  const mpi_options options_;
  const bool started_mpi_;  ///< false: MPI belongs to the program
  const rank_id rank_;
  const rank_id ranks_;

  std::mutex mutex_;  ///< guards all below, and the calls of MPI
  std::condition_variable stopping_;
  bool stops_ = false;
  bool is_leaving_ = false;  ///< no more signs of life are sent
  bool has_failed_ = false;  ///< a user has failed, or MPI has reported an error
  std::uint32_t communicators_ = 1;
  bool is_copying_ = false;  ///< one more communicator is being made
  std::string failure_;      ///< why the first failure has happened, in words
  std::vector<channel_state> channels_;
  operation_map operations_;
  std::map<sender_and_key, operation*> receives_;  ///< receives that are not forgotten
  /// Receives that were reported as failures because their sender was silent, and that
  /// MPI has not ended: their messages may still come.
  std::map<sender_and_key, operation*> given_up_;
  std::map<sender_and_key, late_message> late_;  ///< messages that have come after that
  std::vector<operation_end> ends_;
  std::vector<std::vector<std::byte>> spare_;  ///< buffers that are not in use
  std::int64_t unsent_ = 0;                    ///< bytes of sends that have not ended
  std::vector<std::uint32_t> small_;           ///< small messages to each rank
  std::vector<std::int64_t> heard_;            ///< last sign of life of each rank
  runtime::silence_clock silence_;             ///< looks at the others in `progress`
  /// Time at which each rank has ended its transport; 0 before.
  std::vector<std::int64_t> left_ns_;
  std::vector<bool>
      sends_life_;  ///< true if the last sign of life to a rank is under way
  std::map<rank_and_channel, error> gone_;  ///< causes of channels that ranks have left
  transfer_id next_transfer_ = 1;
  std::int64_t polled_ns_ = 0;
  std::int64_t looked_ns_ = 0;
  std::int64_t lived_ns_ = 0;
  std::thread pump_;
};

/// Returns the words for a message in errors.
[[nodiscard]] std::string name_of_transfer(rank_id from, const message_key& key);

}  // namespace weir::mpi
