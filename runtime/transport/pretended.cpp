// SPDX-License-Identifier: Apache-2.0
/// @file
/// The transport to ranks that do not exist, for measurements: a program submits as one
/// of many ranks, on one machine and without a launcher.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string_view>

#include <fmt/core.h>

#include "weir/runtime/copy_ledger.hpp"
#include "weir/runtime/transport.hpp"

namespace weir::runtime {
namespace {

/// Ends each transfer at the next poll of its channel.
class pretended_transport final : public transport {
 public:
  pretended_transport(rank_id rank, rank_id ranks) : rank_(rank), ranks_(ranks) {}
  rank_id rank() const noexcept override { return rank_; }
  rank_id ranks() const noexcept override { return ranks_; }
  bool is_pretended() const noexcept override { return true; }
  std::uint32_t open_channel() override {
    const std::lock_guard lock(mutex_);
    ended_[channels_];
    return channels_++;
  }
  void close_channel(std::uint32_t channel) noexcept override {
    const std::lock_guard lock(mutex_);
    ended_.erase(channel);
  }
  void abandon(std::uint32_t channel, const error& /*cause*/) override {
    close_channel(channel);
  }
  result<transfer_id> send(rank_id to, message_key key,
                           std::span<const std::byte> /*bytes*/) override {
    return end_of_transfer(to, key);
  }
  result<transfer_id> send_failure(rank_id to, message_key key) override {
    return end_of_transfer(to, key);
  }
  result<transfer_id> receive(rank_id from, message_key key,
                              std::span<std::byte> into) override {
    std::fill(into.begin(), into.end(), std::byte{0});
    return end_of_transfer(from, key);
  }
  void poll(std::uint32_t channel, std::vector<transfer_end>& ended) override {
    const std::lock_guard lock(mutex_);
    const auto found = ended_.find(channel);
    if (found == ended_.end()) {
      return;
    }
    for (const transfer_id id : found->second) {
      ended.emplace_back().id = id;
    }
    found->second.clear();
  }

 private:
  result<transfer_id> end_of_transfer(rank_id other, message_key key) {
    if (other >= ranks_) {
      return error(errc::out_of_range,
                   fmt::format("transfer not begun: expected a rank in [0, {}), found {}",
                               ranks_, other));
    }
    const std::lock_guard lock(mutex_);
    const auto found = ended_.find(key.channel);
    if (found == ended_.end()) {
      return error(errc::stopping,
                   fmt::format("transfer not begun: expected an open channel, found "
                               "channel {}, which is closed",
                               key.channel));
    }
    found->second.push_back(++transfers_);
    return transfers_;
  }

  rank_id rank_;
  rank_id ranks_;
  std::mutex mutex_;  ///< guards all below
  std::uint32_t channels_ = 0;
  transfer_id transfers_ = 0;
  /// Transfers that have ended, by channel.
  std::map<std::uint32_t, std::vector<transfer_id>> ended_;
};

/// Reads a number up to `end` and returns true if the text has nothing else.
bool read_number(std::string_view text, rank_id& number) {
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  return read.ec == std::errc() && read.ptr == end;
}

}  // namespace

/// The limit is that of worlds. Rank 0 is refused because it writes the results of a
/// program.
result<std::unique_ptr<transport>> make_pretended_ranks(rank_id rank, rank_id ranks) {
  if (ranks < 2 || ranks > copy_ledger::max_holders || rank == 0 || rank >= ranks) {
    return error(errc::out_of_range,
                 fmt::format("cannot pretend to be a rank: expected 2 to {} ranks and a "
                             "rank from 1 on below their number, found rank {} of {}",
                             copy_ledger::max_holders, rank, ranks));
  }
  return std::unique_ptr<transport>(std::make_unique<pretended_transport>(rank, ranks));
}

/// The warning is for users who have the variable in their environment by mistake.
result<std::unique_ptr<transport>> pretended_ranks_of_environment() {
  const char* const value = std::getenv("WEIR_PRETEND");
  if (value == nullptr) {
    return std::unique_ptr<transport>();
  }
  const std::string_view text(value);
  const std::size_t slash = std::min(text.find('/'), text.size());
  rank_id rank = 0;
  rank_id ranks = 0;
  if (slash == text.size() || !read_number(text.substr(0, slash), rank) ||
      !read_number(text.substr(slash + 1), ranks)) {
    return error(errc::invalid_argument,
                 fmt::format("cannot pretend to be a rank: expected RANK/RANKS in the "
                             "environment variable WEIR_PRETEND, found \"{}\"",
                             text))
        .hint("unset it, unless the cost of a rank of many is to be measured");
  }
  WEIR_TRY(auto link, make_pretended_ranks(rank, ranks));
  std::fprintf(stderr,
               "warning: WEIR_PRETEND is set: this process pretends to be rank %u of %u, "
               "calls no kernels, and its results are of no meaning\n",
               rank, ranks);
  return link;
}

}  // namespace weir::runtime
