// SPDX-License-Identifier: Apache-2.0
/// @file
/// Ranks for tests of worlds: threads, transports with faults, and small tasks.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "weir/runtime/in_process.hpp"
#include "weir/runtime/world.hpp"

namespace weir::runtime {

/// Runs `body(rank, transport)` on a thread for each rank.
inline void on_ranks(in_process_network& net, rank_id ranks,
                     const std::function<void(rank_id, transport&)>& body) {
  std::vector<std::thread> threads;
  for (rank_id r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] { body(r, net.transport_of(r)); });
  }
  for (std::thread& t : threads) {
    t.join();
  }
}

/// Makes an engine with a small window.
inline std::unique_ptr<engine> engine_of_rank(unsigned workers,
                                              std::uint32_t window = 64) {
  engine_options o;
  o.workers = workers;
  o.window = window;
  return or_throw(engine::create(o));
}

/// Faults that a test plants.
enum class world_fault {
  none,
  noted_writes,      ///< no fault; the tasks of `forgotten_writes` go the same way
  forgotten_writes,  ///< the ledger of copies is not told of them, the engine is
  short_piece,       ///< messages with pieces are one element of 8 bytes too short
  reversed_pieces,   ///< elements of 8 bytes come in reverse order
  reused_tag,
  first_piece_missing,  ///< its receiver is told that it does not exist
  refused_pieces,       ///< sends of pieces are refused
  failed_pieces,        ///< sends of pieces begin and end as failures
};

/// A transport with a fault in channel 0, in which the first world moves its pieces.
class faulty_link final : public transport {
 public:
  faulty_link(transport& real, world_fault fault) : real_(real), fault_(fault) {}
  rank_id rank() const noexcept override { return real_.rank(); }
  rank_id ranks() const noexcept override { return real_.ranks(); }
  std::uint32_t open_channel() override { return real_.open_channel(); }
  void close_channel(std::uint32_t channel) noexcept override {
    real_.close_channel(channel);
  }
  void abandon(std::uint32_t channel, const error& cause) override {
    real_.abandon(channel, cause);
  }
  result<transfer_id> send(rank_id to, message_key key,
                           std::span<const std::byte> bytes) override {
    if (key.channel == 0 && fault_ == world_fault::refused_pieces) {
      return error(errc::io, "injected failure of a send");
    }
    if (key == message_key{0, 0} && fault_ == world_fault::first_piece_missing) {
      return real_.send_failure(to, key);
    }
    std::vector<std::byte> sent(bytes.begin(), bytes.end());
    if (fault_ == world_fault::short_piece && key.channel == 0) {
      sent.resize(sent.size() - std::min(sent.size(), sizeof(double)));
    }
    if (fault_ == world_fault::reversed_pieces && key.channel == 0) {
      for (std::size_t lo = 0, hi = sent.size(); hi - lo >= 2 * sizeof(double);) {
        hi -= sizeof(double);
        std::swap_ranges(&sent[lo], &sent[lo] + sizeof(double), &sent[hi]);
        lo += sizeof(double);
      }
    }
    auto begun = real_.send(to, changed(key), sent);  // the network copies at once
    if (begun && key.channel == 0 && fault_ == world_fault::failed_pieces) {
      const std::lock_guard lock(mutex_);
      failing_.push_back(*begun);
    }
    return begun;
  }
  result<transfer_id> send_failure(rank_id to, message_key key) override {
    return real_.send_failure(to, changed(key));
  }
  result<transfer_id> receive(rank_id from, message_key key,
                              std::span<std::byte> into) override {
    return real_.receive(from, changed(key), into);
  }
  void poll(std::uint32_t channel, std::vector<transfer_end>& ended) override {
    real_.poll(channel, ended);
    const std::lock_guard lock(mutex_);
    for (transfer_end& one : ended) {
      if (std::erase(failing_, one.id) != 0) {
        one.outcome = error(errc::io, "injected failure of a send");
      }
    }
  }

 private:
  [[nodiscard]] message_key changed(message_key key) const {
    const bool reused = fault_ == world_fault::reused_tag && key.channel == 0;
    return {key.channel, reused ? key.number % 2 : key.number};
  }
  transport& real_;
  world_fault fault_;
  std::mutex mutex_;  ///< guards `failing_`
  std::vector<transfer_id> failing_;
};

/// Returns a matrix of a world.
inline tensor matrix_of(world& w, std::int64_t rows, std::int64_t columns) {
  const std::array<std::int64_t, 2> shape{rows, columns};
  return or_throw(
      tensor::over(or_throw(w.allocate(rows * columns * 8, "test")), dtype::fp64, shape));
}

/// Submits a task that sets dense rows to a number.
inline result<void> set_rows(world& w, rank_id executor, const tensor& rows,
                             double value) {
  double* first = rows.as<double>();
  const std::int64_t count = rows.count();
  return w.submit({executor, 1}, "set", std::array{writes(rows)},
                  [=](const task_context&) { std::fill_n(first, count, value); });
}

/// Submits a task that adds the first column of `from` to the elements of `to`.
inline result<void> add_column(world& w, rank_id executor, const tensor& from,
                               const tensor& to) {
  const double* in = from.as<double>();
  const std::int64_t stride = from.strides()[0] / 8;
  double* out = to.as<double>();
  const std::int64_t count = to.count();
  return w.submit({executor, 0}, "add", std::array{reads(from), updates(to)},
                  [=](const task_context&) {
                    for (std::int64_t i = 0; i < count; ++i) {
                      out[i] += in[i * stride];
                    }
                  });
}

}  // namespace weir::runtime
