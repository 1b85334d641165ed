// SPDX-License-Identifier: Apache-2.0
/// @file
/// Mailboxes between threads. A send copies its bytes into the mailbox of the receiver,
/// whose next polls take them out, so no rank touches the memory of another one.
///
/// Tests use it to run several ranks in one process. Options lose or delay messages on
/// purpose, by a seed, so that rare orders of events can be repeated. mpi/ is the
/// transport between processes.
#include "weir/runtime/in_process.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <utility>

#include <fmt/core.h>

#include "weir/base/clock.hpp"
#include "weir/runtime/transport/silence.hpp"

namespace weir::runtime {
namespace {

/// A message on its way.
///
/// A letter belongs to the mailbox until the receiver has taken it.
struct letter {
  rank_id from = 0;
  message_key key;
  std::optional<std::vector<std::byte>> bytes;  ///< none: the sender has failed
  std::uint32_t polls_left = 0;                 ///< polls before it arrives
  /// Present if it says that the sender has abandoned the channel.
  std::optional<error> farewell{};

  /// Returns its share of the memory of a mailbox. So empty messages are counted, too.
  [[nodiscard]] std::int64_t size() const {
    return static_cast<std::int64_t>(sizeof(letter) + (bytes ? bytes->size() : 0));
  }
};

/// A sender and a key.
/// A message is named by its sender and its key; the receiver is the owner of the table.
using sender_and_key = std::pair<rank_id, message_key>;
/// A sender and a channel.
using sender_and_channel = std::pair<rank_id, std::uint32_t>;

/// Messages that a rank has sent to another one in a channel, lost ones included.
///
/// Compared with the letters that came, the number tells whether any were lost.
struct sent_messages {
  std::uint64_t count = 0;
  // Time at which the last one was sent.
  std::int64_t newest_ns = 0;
};

/// Returns true if a letter belongs to a sender and a channel.
bool belongs(const letter& l, const sender_and_channel& which) {
  return l.from == which.first && l.key.channel == which.second;
}

/// Returns the words for a message in errors. All errors name a message by these
/// numbers.
std::string name_of_message(rank_id from, const message_key& key) {
  return fmt::format("message {} of channel {} from rank {}", key.number, key.channel,
                     from);
}

}  // namespace

/// The part of the network that all ranks use.
///
/// The lock of an endpoint is taken before that of a mailbox, and of mailboxes only one
/// at a time, so there is no deadlock.
struct in_process_network::shared {
  /// Letters for one rank, and its last sign of life.
  struct mailbox {
    // Time of its last poll or end of a kernel, read by ranks that wait for it.
    std::atomic<std::int64_t> alive_ns{0};
    // Kernels that it runs now. It cannot poll meanwhile if all workers are in them.
    std::atomic<std::int32_t> kernels{0};
    std::mutex mutex;  ///< guards all below
    std::vector<letter> letters;
    std::map<sender_and_channel, sent_messages> sent;
    std::vector<bool> closed;  ///< by channel: its letters are dropped
    std::int64_t waiting = 0;  ///< bytes that were sent and not received

    // Letters to a closed channel have no reader.
    [[nodiscard]] bool drops(std::uint32_t channel) const {
      return channel < closed.size() && closed[channel];
    }
  };
  explicit shared(in_process_options o)
      : options(std::move(o)), mailboxes(options.ranks) {}

  // Tests may give a clock of their own.
  [[nodiscard]] std::int64_t now() const {
    return options.clock ? options.clock() : now_ns();
  }
  in_process_options options;
  std::vector<mailbox> mailboxes;
};

/// The transport of one rank.
///
/// All methods may be called by any thread of the rank.
class in_process_network::endpoint final : public transport {
 public:
  endpoint(shared& network, rank_id own)
      // Each rank has random numbers of its own, which depend on the seed alone.
      : network_(network),
        own_(own),
        random_(network.options.seed * 1000 + own),
        silence_(network.options.deadline_ns) {}

  [[nodiscard]] rank_id rank() const noexcept override { return own_; }
  [[nodiscard]] rank_id ranks() const noexcept override { return network_.options.ranks; }
  // Channels are numbered; ranks must open them in the same order.
  [[nodiscard]] std::uint32_t open_channel() override {
    const std::lock_guard lock(mutex_);
    channels_.push_back({true, {}});
    return static_cast<std::uint32_t>(channels_.size() - 1);
  }
  void close_channel(std::uint32_t channel) noexcept override {
    const std::lock_guard lock(mutex_);
    close(channel);
  }
  // Tells the other ranks why nothing more comes in this channel.
  void abandon(std::uint32_t channel, const error& cause) override;

  result<transfer_id> send(rank_id to, message_key key,
                           std::span<const std::byte> bytes) override {
    // The bytes are copied, so the caller may change them afterwards.
    const std::lock_guard lock(mutex_);
    return post(to, key, std::vector<std::byte>(bytes.begin(), bytes.end()));
  }
  result<transfer_id> send_failure(rank_id to, message_key key) override {
    const std::lock_guard lock(mutex_);
    return post(to, key, std::nullopt);
  }
  // `into` must stay until the receive has ended.
  result<transfer_id> receive(rank_id from, message_key key,
                              std::span<std::byte> into) override {
    const std::lock_guard lock(mutex_);
    WEIR_CHECK(check_open(from, key));
    const open_receive next{next_transfer_, into, network_.now()};
    silence_.look(next.begun_ns);
    // Two receives of one message could not both end.
    if (!receives_.try_emplace({from, key}, next).second) {
      return error(errc::already_exists,
                   fmt::format("receive not begun: expected one receive of {}, found a "
                               "second one",
                               name_of_message(from, key)));
    }
    return next_transfer_++;
  }
  void poll(std::uint32_t channel, std::vector<transfer_end>& ended) override;
  [[nodiscard]] bool watches_kernels() const noexcept override { return true; }
  void kernel_begins() noexcept override {
    network_.mailboxes[own_].kernels.fetch_add(1, std::memory_order_relaxed);
  }
  // The time is stored before the kernel stops counting, so that no look between the two
  // finds a silent rank.
  void kernel_ends() noexcept override {
    shared::mailbox& box = network_.mailboxes[own_];
    box.alive_ns.store(network_.now(), std::memory_order_relaxed);
    box.kernels.fetch_sub(1, std::memory_order_release);
  }

 private:
  // A receive that waits for its message.
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
  void close(std::uint32_t channel) noexcept;
  result<transfer_id> post(rank_id to, message_key key,
                           std::optional<std::vector<std::byte>> bytes);
  void take_letters();
  [[nodiscard]] bool take_letter(letter& l, std::span<const letter> before);
  [[nodiscard]] static result<void> deliver(const letter& l, const open_receive& r);
  [[nodiscard]] std::optional<error> overdue(const sender_and_key& which,
                                             const open_receive& r) const;
  [[nodiscard]] std::optional<error> lost(const sender_and_key& which) const;

  shared& network_;
  rank_id own_;
  std::mutex mutex_;  ///< guards all below; locked before that of a mailbox
  std::mt19937_64 random_;
  silence_clock silence_;  ///< looks at the others while receives are open
  transfer_id next_transfer_ = 1;
  std::vector<channel_state> channels_;
  std::map<sender_and_key, open_receive> receives_;
  std::map<sender_and_key, letter> arrived_;
  std::map<sender_and_channel, std::uint64_t> taken_;  ///< letters out of the mailbox
  std::map<sender_and_channel, error> gone_;           ///< causes of abandoned channels
};

/// A closed channel means that this world has ended.
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

/// Puts a letter into the mailbox of the receiver. A send ends at once, so its end is
/// noted here.
result<transfer_id> in_process_network::endpoint::post(
    rank_id to, message_key key, std::optional<std::vector<std::byte>> bytes) {
  WEIR_CHECK(check_open(to, key));
  const in_process_options& o = network_.options;
  letter l{own_, key, std::move(bytes)};
  if (o.max_delay != 0) {
    // Number of polls of the receiver before the letter arrives.
    l.polls_left =
        static_cast<std::uint32_t>(random_() % (std::uint64_t{o.max_delay} + 1));
  }
  // `loses` is a function of tests, which see each letter once.
  const bool is_lost = o.loses && o.loses(own_, to, key);
  shared::mailbox& box = network_.mailboxes[to];
  const std::lock_guard lock(box.mutex);
  if (!box.drops(key.channel)) {
    // The limit keeps ranks that are far ahead from using all memory.
    if (l.size() > o.max_waiting - box.waiting) {
      return error(
                 errc::out_of_memory,
                 fmt::format("message {} of channel {} not sent to rank {}: expected at "
                             "most {} bytes that wait for the rank, found {}",
                             key.number, key.channel, to, o.max_waiting,
                             box.waiting + l.size()))
          .hint(
              "let the ranks wait for each other more often, or raise "
              "in_process_options::max_waiting");
    }
    // Lost letters are counted as sent.
    sent_messages& sent = box.sent[{own_, key.channel}];
    ++sent.count;
    sent.newest_ns = network_.now();
    if (!is_lost) {
      box.waiting += l.size();
      box.letters.push_back(std::move(l));
    }
  }
  channels_[key.channel].ended.push_back({next_transfer_, {}});
  return next_transfer_++;
}

/// The farewell passes behind letters that were sent before.
void in_process_network::endpoint::abandon(std::uint32_t channel, const error& cause) {
  const std::lock_guard lock(mutex_);
  if (channel >= channels_.size() || !channels_[channel].open) {
    return;
  }
  close(channel);
  for (rank_id to = 0; to < network_.options.ranks; ++to) {
    shared::mailbox& box = network_.mailboxes[to];
    const std::lock_guard box_lock(box.mutex);
    if (!box.drops(channel)) {
      box.letters.push_back({own_, {channel, 0}, std::nullopt, 0, cause});
      box.waiting += box.letters.back().size();
    }
  }
}

/// Takes the letters that have arrived out of the own mailbox.
///
/// Letters that have not arrived stay in their order.
void in_process_network::endpoint::take_letters() {
  shared::mailbox& box = network_.mailboxes[own_];
  box.alive_ns.store(network_.now(), std::memory_order_relaxed);
  const std::lock_guard lock(box.mutex);
  std::size_t kept = 0;
  for (letter& l : box.letters) {
    if (take_letter(l, std::span(box.letters).first(kept))) {
      continue;
    }
    // Moves a letter forward over those that were taken.
    if (&l != &box.letters[kept]) {
      box.letters[kept] = std::move(l);
    }
    ++kept;
  }
  box.letters.resize(kept);
}

/// Takes one letter if it has arrived. A farewell waits for the letters before it; those
/// whose key has arrived already stay in the mailbox and do not count.
bool in_process_network::endpoint::take_letter(letter& l,
                                               std::span<const letter> before) {
  const sender_and_channel which{l.from, l.key.channel};
  if (l.farewell) {
    // Letters with a key that has arrived cannot be taken yet.
    const bool is_last = std::none_of(before.begin(), before.end(), [&](const letter& o) {
      return belongs(o, which) && !arrived_.contains({o.from, o.key});
    });
    if (is_last) {
      network_.mailboxes[own_].waiting -= l.size();
      gone_.try_emplace(which, std::move(*l.farewell));
    }
    return is_last;
  }
  // The letter is still on its way.
  if (l.polls_left != 0) {
    --l.polls_left;
    return false;
  }
  // Nothing is moved if the key is there already.
  if (!arrived_.try_emplace({l.from, l.key}, std::move(l)).second) {
    return false;
  }
  ++taken_[which];
  return true;
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
  // Sender and receiver disagree about the message, so their streams differ.
  if (l.bytes->size() != r.into.size()) {
    return error(
        errc::diverged,
        fmt::format("{} not received: expected {} bytes, found {}",
                    name_of_message(l.from, l.key), r.into.size(), l.bytes->size()));
  }
  std::copy(l.bytes->begin(), l.bytes->end(), r.into.begin());
  return {};
}

/// Returns the error of a receive whose sender has been silent for too long, or whose
/// message was lost.
/// A silent sender is reported as lost; one that polls or is inside of a kernel is alive,
/// so its message may come late, unless the count says that letters are missing.
std::optional<error> in_process_network::endpoint::overdue(const sender_and_key& which,
                                                           const open_receive& r) const {
  const std::int64_t deadline = network_.options.deadline_ns;
  if (!silence_.is_overdue(r.begun_ns)) {
    return std::nullopt;
  }
  const shared::mailbox& sender = network_.mailboxes[which.first];
  const bool computes = sender.kernels.load(std::memory_order_acquire) != 0;
  // Silent since its last sign of life, or since the receive began.
  const std::int64_t heard =
      std::max(r.begun_ns, sender.alive_ns.load(std::memory_order_relaxed));
  // The rank lives, so the message itself may be lost.
  if (computes || !silence_.is_overdue(heard)) {
    return lost(which);
  }
  return error(errc::rank_lost,
               fmt::format("{} not received: expected a sign of life of rank {} within "
                           "{} ms, found none for {} ms",
                           name_of_message(which.first, which.second), which.first,
                           deadline / 1'000'000, silence_.since(heard) / 1'000'000));
}

/// Returns an error if messages of the sender in the channel were lost. It is unknown
/// which ones.
/// Letters in the mailbox have come as well. Lost ones make the sum smaller than the
/// number that was sent.
std::optional<error> in_process_network::endpoint::lost(
    const sender_and_key& which) const {
  const sender_and_channel from{which.first, which.second.channel};
  shared::mailbox& box = network_.mailboxes[own_];
  const std::lock_guard lock(box.mutex);
  const auto sent = box.sent.find(from);
  // A message that was sent lately may still be on its way.
  if (sent == box.sent.end() || !silence_.is_overdue(sent->second.newest_ns)) {
    return std::nullopt;
  }
  const auto taken = taken_.find(from);
  // Taken letters, and those in the mailbox.
  const auto come = (taken == taken_.end() ? 0 : taken->second) +
                    static_cast<std::uint64_t>(std::count_if(
                        box.letters.begin(), box.letters.end(), [&](const letter& l) {
                          return belongs(l, from) && !l.farewell;
                        }));
  if (come == sent->second.count) {
    return std::nullopt;
  }
  return error(
      errc::timeout,
      fmt::format("{} not received: expected the {} messages that the rank has "
                  "sent in the channel, found {}; the others were lost",
                  name_of_message(which.first, which.second), sent->second.count, come));
}

/// Ends receives of all channels, and returns the ends of one.
void in_process_network::endpoint::poll(std::uint32_t channel,
                                        std::vector<transfer_end>& ended) {
  const std::lock_guard lock(mutex_);
  take_letters();
  // The clock is read only if a deadline may pass.
  if (!receives_.empty()) {
    silence_.look(network_.now());
  }
  std::int64_t received = 0;
  for (auto it = receives_.begin(); it != receives_.end();) {
    const auto& [which, receive] = *it;
    std::vector<transfer_end>& ends = channels_[which.second.channel].ended;
    // Three ends: the message, a farewell, or a deadline.
    if (const auto found = arrived_.find(which); found != arrived_.end()) {
      ends.push_back({receive.id, deliver(found->second, receive)});
      received += found->second.size();
      arrived_.erase(found);
    } else if (const auto gone = gone_.find({which.first, which.second.channel});
               gone != gone_.end()) {
      ends.push_back({receive.id, gone->second, true});
    } else if (auto late = overdue(which, receive)) {
      ends.push_back({receive.id, std::move(*late)});
    } else {
      ++it;
      continue;
    }
    it = receives_.erase(it);
  }
  // The memory of received letters is free now.
  if (received != 0) {
    const std::lock_guard box_lock(network_.mailboxes[own_].mutex);
    network_.mailboxes[own_].waiting -= received;
  }
  if (channel < channels_.size()) {
    for (transfer_end& one : std::exchange(channels_[channel].ended, {})) {
      ended.push_back(std::move(one));
    }
  }
}

/// Drops the letters of the channel. Later ones are dropped as they are sent.
/// Called with the mutex of the endpoint locked. The memory of dropped letters is given
/// back to the limit.
void in_process_network::endpoint::close(std::uint32_t channel) noexcept {
  if (channel >= channels_.size() || !channels_[channel].open) {
    return;
  }
  channels_[channel] = {false, {}};
  shared::mailbox& box = network_.mailboxes[own_];
  const std::lock_guard lock(box.mutex);
  // Letters that were taken, then letters in the mailbox.
  for (const auto& [which, l] : arrived_) {
    box.waiting -= which.second.channel == channel ? l.size() : 0;
  }
  std::erase_if(box.letters, [&](const letter& l) {
    box.waiting -= l.key.channel == channel ? l.size() : 0;
    return l.key.channel == channel;
  });
  box.closed.resize(std::max<std::size_t>(box.closed.size(), channel + std::size_t{1}));
  box.closed[channel] = true;
  const auto has_key = [channel](const auto& one) {
    return one.first.second.channel == channel;
  };
  const auto is_of = [channel](const auto& one) { return one.first.second == channel; };
  // Everything that belongs to the channel is forgotten.
  std::erase_if(receives_, has_key);
  std::erase_if(arrived_, has_key);
  std::erase_if(taken_, is_of);
  std::erase_if(gone_, is_of);
  std::erase_if(box.sent, is_of);
}

/// All ranks exist from the beginning.
in_process_network::in_process_network(in_process_options options) {
  WEIR_EXPECT(options.ranks >= 1);
  shared_ = std::make_unique<shared>(std::move(options));
  for (rank_id r = 0; r < shared_->options.ranks; ++r) {
    endpoints_.push_back(std::make_unique<endpoint>(*shared_, r));
  }
}
in_process_network::~in_process_network() = default;

/// The result lives as long as the network.
transport& in_process_network::transport_of(rank_id rank) noexcept {
  return *endpoints_[rank];
}

/// For tests of the limit.
std::int64_t in_process_network::waiting(rank_id rank) const {
  shared::mailbox& box = shared_->mailboxes[rank];
  const std::lock_guard lock(box.mutex);
  return box.waiting;
}

}  // namespace weir::runtime
