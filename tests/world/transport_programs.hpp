// SPDX-License-Identifier: Apache-2.0
/// @file
/// Programs that use a transport without a world, and what they share with the others.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "weir/runtime/transport.hpp"

namespace weir::test {

/// Writes the number of this process for the test, and sends itself a signal.
void raise_known(int signal);

using transport_program = std::function<result<std::uint64_t>(runtime::transport&)>;

/// Returns the programs by their names.
const std::map<std::string, transport_program>& transport_programs();

/// A transport whose users have numbers of messages with gaps: each is multiplied by a
/// power of two.
class sparse_link final : public runtime::transport {
 public:
  sparse_link(runtime::transport& link, unsigned bits) : link_(link), bits_(bits) {}

  /// Returns the largest number that a message had.
  [[nodiscard]] std::uint64_t largest() const noexcept { return largest_; }

  [[nodiscard]] runtime::rank_id rank() const noexcept override { return link_.rank(); }
  [[nodiscard]] runtime::rank_id ranks() const noexcept override { return link_.ranks(); }
  [[nodiscard]] std::uint32_t open_channel() override { return link_.open_channel(); }
  void close_channel(std::uint32_t channel) noexcept override {
    link_.close_channel(channel);
  }
  void abandon(std::uint32_t channel, const error& cause) override {
    link_.abandon(channel, cause);
  }
  [[nodiscard]] result<runtime::transfer_id> send(
      runtime::rank_id to, runtime::message_key key,
      std::span<const std::byte> bytes) override {
    return link_.send(to, sparse(key), bytes);
  }
  [[nodiscard]] result<runtime::transfer_id> send_failure(
      runtime::rank_id to, runtime::message_key key) override {
    return link_.send_failure(to, sparse(key));
  }
  [[nodiscard]] result<runtime::transfer_id> receive(runtime::rank_id from,
                                                     runtime::message_key key,
                                                     std::span<std::byte> into) override {
    return link_.receive(from, sparse(key), into);
  }
  void poll(std::uint32_t channel, std::vector<runtime::transfer_end>& ended) override {
    link_.poll(channel, ended);
  }
  void take_ends(std::uint32_t channel,
                 std::vector<runtime::transfer_end>& ended) override {
    link_.take_ends(channel, ended);
  }
  [[nodiscard]] bool take_end(std::uint32_t channel, runtime::transfer_id last) override {
    return link_.take_end(channel, last);
  }

 private:
  [[nodiscard]] runtime::message_key sparse(runtime::message_key key) {
    key.number <<= bits_;
    std::uint64_t before = largest_;
    while (before < key.number && !largest_.compare_exchange_weak(before, key.number)) {
    }
    return key;
  }

  runtime::transport& link_;
  unsigned bits_;
  std::atomic<std::uint64_t> largest_{0};
};

}  // namespace weir::test
