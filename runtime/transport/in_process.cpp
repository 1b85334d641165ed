// SPDX-License-Identifier: Apache-2.0
/// @file
/// Mailboxes between threads. A send copies its bytes into the mailbox of the receiver,
/// whose next polls take them out, so no rank touches the memory of another one.
#include "weir/runtime/in_process.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <utility>

#include <fmt/core.h>

namespace weir::runtime {
namespace {

/// A message on its way.
struct letter {
  rank_id from = 0;
  message_key key;
  std::optional<std::vector<std::byte>> bytes;  ///< none: the sender has failed
  std::uint32_t polls_left = 0;                 ///< polls before it arrives
};

/// A sender and a key.
using sender_and_key = std::pair<rank_id, message_key>;

std::int64_t steady_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Returns the words for a message in errors.
std::string name_of_message(rank_id from, const message_key& key) {
  return fmt::format("message {} of channel {} from rank {}", key.number, key.channel,
                     from);
}

}  // namespace

/// The part of the network that all ranks use.
struct in_process_network::shared {
  /// Letters for one rank, and its last sign of life.
  struct mailbox {
    std::mutex mutex;
    std::vector<letter> letters;
    std::atomic<std::int64_t> polled_ns{0};
  };
  explicit shared(in_process_options o)
      : options(std::move(o)), mailboxes(options.ranks) {}

  [[nodiscard]] std::int64_t now() const {
    return options.clock ? options.clock() : steady_ns();
  }
  in_process_options options;
  std::vector<mailbox> mailboxes;
};

/// The transport of one rank.
class in_process_network::endpoint final : public transport {
 public:
  endpoint(shared& network, rank_id own)
      : network_(network), own_(own), random_(network.options.seed * 1000 + own) {}

  [[nodiscard]] rank_id rank() const noexcept override { return own_; }
  [[nodiscard]] rank_id ranks() const noexcept override { return network_.options.ranks; }
  [[nodiscard]] std::uint32_t open_channel() override {
    channels_.push_back({true, {}});
    return static_cast<std::uint32_t>(channels_.size() - 1);
  }
  void close_channel(std::uint32_t channel) noexcept override;

  result<transfer_id> send(rank_id to, message_key key,
                           std::span<const std::byte> bytes) override {
    return post(to, key, std::vector<std::byte>(bytes.begin(), bytes.end()));
  }
  result<transfer_id> send_failure(rank_id to, message_key key) override {
    return post(to, key, std::nullopt);
  }
  result<transfer_id> receive(rank_id from, message_key key,
                              std::span<std::byte> into) override {
    WEIR_CHECK(check_open(from, key));
    const open_receive next{next_transfer_, into, network_.now()};
    if (!receives_.try_emplace({from, key}, next).second) {
      return error(errc::already_exists,
                   fmt::format("receive not begun: expected one receive of {}, found a "
                               "second one",
                               name_of_message(from, key)));
    }
    return next_transfer_++;
  }
  void poll(std::uint32_t channel, std::vector<transfer_end>& ended) override;

 private:
  struct open_receive {
    transfer_id id;
    std::span<std::byte> into;
    std::int64_t begun_ns;
  };
  struct channel_state {
    bool open;
    std::vector<transfer_end> ended;  ///< ends that its user has not asked for
  };

  [[nodiscard]] result<void> check_open(rank_id other, const message_key& key) const;
  result<transfer_id> post(rank_id to, message_key key,
                           std::optional<std::vector<std::byte>> bytes);
  void take_letters();
  [[nodiscard]] static result<void> deliver(const letter& l, const open_receive& r);
  [[nodiscard]] std::optional<error> overdue(const sender_and_key& which,
                                             const open_receive& r,
                                             std::int64_t now) const;

  shared& network_;
  rank_id own_;
  std::mt19937_64 random_;
  transfer_id next_transfer_ = 1;
  std::vector<channel_state> channels_;
  std::map<sender_and_key, open_receive> receives_;
  std::map<sender_and_key, letter> arrived_;
};

result<void> in_process_network::endpoint::check_open(rank_id other,
                                                      const message_key& key) const {
  if (other >= network_.options.ranks) {
    return error(errc::out_of_range,
                 fmt::format("message {} of channel {} not moved: expected a rank in "
                             "[0, {}), found {}",
                             key.number, key.channel, network_.options.ranks, other));
  }
  if (key.channel >= channels_.size() || !channels_[key.channel].open) {
    return error(errc::stopping,
                 fmt::format("message {} not moved: expected an open channel of rank {}, "
                             "found channel {}",
                             key.number, own_, key.channel));
  }
  return {};
}

result<transfer_id> in_process_network::endpoint::post(
    rank_id to, message_key key, std::optional<std::vector<std::byte>> bytes) {
  WEIR_CHECK(check_open(to, key));
  const in_process_options& o = network_.options;
  letter l{own_, key, std::move(bytes), 0};
  if (o.max_delay != 0) {
    l.polls_left =
        static_cast<std::uint32_t>(random_() % (std::uint64_t{o.max_delay} + 1));
  }
  if (!o.loses || !o.loses(own_, to, key)) {
    shared::mailbox& box = network_.mailboxes[to];
    const std::lock_guard lock(box.mutex);
    box.letters.push_back(std::move(l));
  }
  channels_[key.channel].ended.push_back({next_transfer_, {}});
  return next_transfer_++;
}

/// Takes the letters that have arrived out of the own mailbox.
void in_process_network::endpoint::take_letters() {
  shared::mailbox& box = network_.mailboxes[own_];
  box.polled_ns.store(network_.now(), std::memory_order_relaxed);
  const std::lock_guard lock(box.mutex);
  std::size_t kept = 0;
  for (letter& l : box.letters) {
    const bool arrives = l.polls_left == 0;
    const sender_and_key which{l.from, l.key};
    if (arrives && arrived_.try_emplace(which, std::move(l)).second) {
      continue;
    }
    l.polls_left -= arrives ? 0 : 1;
    if (&l != &box.letters[kept]) {
      box.letters[kept] = std::move(l);
    }
    ++kept;
  }
  box.letters.resize(kept);
}

/// Copies the bytes of a letter to the memory of its receive.
result<void> in_process_network::endpoint::deliver(const letter& l,
                                                   const open_receive& r) {
  if (!l.bytes) {
    return error(errc::upstream_failed,
                 fmt::format("{} not received: expected bytes, found that the task that "
                             "makes them has failed",
                             name_of_message(l.from, l.key)));
  }
  if (l.bytes->size() != r.into.size()) {
    return error(
        errc::collective_mismatch,
        fmt::format("{} not received: expected {} bytes, found {}",
                    name_of_message(l.from, l.key), r.into.size(), l.bytes->size()));
  }
  std::copy(l.bytes->begin(), l.bytes->end(), r.into.begin());
  return {};
}

/// Returns the error of a receive whose sender has been silent for too long.
std::optional<error> in_process_network::endpoint::overdue(const sender_and_key& which,
                                                           const open_receive& r,
                                                           std::int64_t now) const {
  const shared::mailbox& sender = network_.mailboxes[which.first];
  const std::int64_t silent =
      now - std::max(r.begun_ns, sender.polled_ns.load(std::memory_order_relaxed));
  if (silent <= network_.options.deadline_ns) {
    return std::nullopt;
  }
  return error(errc::timeout,
               fmt::format("{} not received: expected a sign of life of rank {} within "
                           "{} ms, found none for {} ms",
                           name_of_message(which.first, which.second), which.first,
                           network_.options.deadline_ns / 1'000'000, silent / 1'000'000));
}

void in_process_network::endpoint::poll(std::uint32_t channel,
                                        std::vector<transfer_end>& ended) {
  take_letters();
  const std::int64_t now = receives_.empty() ? 0 : network_.now();
  for (auto it = receives_.begin(); it != receives_.end();) {
    std::vector<transfer_end>& ends = channels_[it->first.second.channel].ended;
    if (const auto found = arrived_.find(it->first); found != arrived_.end()) {
      ends.push_back({it->second.id, deliver(found->second, it->second)});
      arrived_.erase(found);
    } else if (auto late = overdue(it->first, it->second, now)) {
      ends.push_back({it->second.id, std::move(*late)});
    } else {
      ++it;
      continue;
    }
    it = receives_.erase(it);
  }
  if (channel < channels_.size()) {
    for (transfer_end& one : std::exchange(channels_[channel].ended, {})) {
      ended.push_back(std::move(one));
    }
  }
}

void in_process_network::endpoint::close_channel(std::uint32_t channel) noexcept {
  if (channel < channels_.size()) {
    channels_[channel] = {false, {}};
    const auto of_channel = [channel](const auto& one) {
      return one.first.second.channel == channel;
    };
    std::erase_if(receives_, of_channel);
    std::erase_if(arrived_, of_channel);
  }
}

in_process_network::in_process_network(in_process_options options) {
  WEIR_EXPECT(options.ranks >= 1);
  shared_ = std::make_unique<shared>(std::move(options));
  for (rank_id r = 0; r < shared_->options.ranks; ++r) {
    endpoints_.push_back(std::make_unique<endpoint>(*shared_, r));
  }
}
in_process_network::~in_process_network() = default;

transport& in_process_network::transport_of(rank_id rank) noexcept {
  return *endpoints_[rank];
}

}  // namespace weir::runtime
