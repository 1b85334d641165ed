// SPDX-License-Identifier: Apache-2.0
/// @file
/// Measurement on a machine that is shared with others. The host may run something else
/// on the other half of a core, which takes a third or more of its speed, and may move
/// virtual processors onto one core or onto cores that share no cache. Such a spell lasts
/// from milliseconds to seconds. A sample is therefore clean if there was no spell just
/// before and just after it.
#pragma once

#include <dirent.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench.hpp"
#include "weir/base/system/processors.hpp"
#include "work.hpp"

namespace weir::bench {

namespace detail {

/// Additions, loads and stores that use all of a core, as code without arithmetic does.
__attribute__((noinline)) inline void integer_work(std::int64_t iterations) {
  static thread_local std::array<std::uint32_t, 4096> table{};
  std::array<std::uint32_t, 8> sums{};
  for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(iterations); ++i) {
    for (std::uint32_t k = 0; k < sums.size(); ++k) {
      sums[k] += table[(i * 17 + k * 511) % table.size()] ^ (i << k);
    }
    table[i * 5 % table.size()] = sums[i % 8];
  }
  keep(sums);
}

struct alignas(128) counter {
  std::atomic<int> value{0};
};

/// Measures the nanoseconds in which a counter travels from one thread to another: half
/// of a round trip.
class exchange {
 public:
  /// Runs on the thread that begins. Returns the shortest time of some rounds.
  double lead_ns() {
    double best = 1e30;
    // The numbers go on over the rounds, so the other thread needs no signal that a new
    // round has begun.
    int trip = 0;
    for (int round = 0; round < rounds; ++round) {
      best = std::min(best, seconds_of([&] {
                        for (int i = 0; i < trips; ++i) {
                          there_.value.store(++trip, std::memory_order_release);
                          while (back_.value.load(std::memory_order_acquire) != trip) {
                          }
                        }
                      }));
    }
    return best * 1e9 / (2 * trips);
  }
  /// Runs on the other thread, which answers.
  void follow() {
    for (int trip = 1; trip <= rounds * trips; ++trip) {
      while (there_.value.load(std::memory_order_acquire) != trip) {
      }
      back_.value.store(trip, std::memory_order_release);
    }
  }

 private:
  static constexpr int rounds = 3;
  static constexpr int trips = 300;
  counter there_;
  counter back_;
};

}  // namespace detail

/// Nanoseconds per iteration of arithmetic, and of code with integers and memory
/// accesses. A neighbour on the same core slows the latter even where it leaves the
/// former alone.
struct pace {
  double work_ns = 1e30;
  double integer_ns = 1e30;

  [[nodiscard]] static pace now() {
    constexpr std::int64_t count = 2'000;
    return {min_seconds(3, [] { work(count); }) * 1e9 / count,
            min_seconds(3, [] { detail::integer_work(count); }) * 1e9 / count};
  }
  void keep_least(const pace& other) {
    work_ns = std::min(work_ns, other.work_ns);
    integer_ns = std::min(integer_ns, other.integer_ns);
  }
  /// Returns how many times as long as `other` this pace takes, for the worse of the two
  /// kinds.
  [[nodiscard]] double over(const pace& other) const {
    return std::max(work_ns / other.work_ns, integer_ns / other.integer_ns);
  }
};

/// The best pace that this process has seen. The first call measures for half a second.
inline pace& best_pace() {
  static pace best = [] {
    pace least;
    for (int i = 0; i < 200; ++i) {
      least.keep_least(pace::now());
      std::this_thread::sleep_for(std::chrono::microseconds(2500));
    }
    return least;
  }();
  return best;
}

/// How the host treats this process at a moment.
struct machine_state {
  double slowness =
      1;  ///< time of work now over the least time, on the slowest processor
  double one_way_ns = 0;  ///< of a message between two processors; 0: not measured

  [[nodiscard]] bool one_core() const { return one_way_ns > 0 && one_way_ns < 32; }
  [[nodiscard]] bool far_apart() const { return one_way_ns > 120; }
  /// Returns 1 for no disturbance, and more the stronger it is.
  [[nodiscard]] double disturbance() const {
    return slowness + (one_core() || far_apart() ? 1 : 0);
  }
};

/// Runs two functions at once, the second on a new thread. A runtime whose threads poll
/// between passes supplies a pair of its own, which runs the functions on these threads.
struct thread_pair {
  template <class First, class Second>
  void operator()(First&& first, Second&& second) const {
    std::thread other(second);
    first();
    other.join();
  }
};

/// Measures one processor, or two by a pair of threads. For 0 processors, or for 2 where
/// only one is allowed, the result says that all is well: beside threads that never stop
/// polling nothing can be measured, and threads that take turns on one processor say
/// nothing about another.
template <class Pair = thread_pair>
machine_state look(unsigned processors, const Pair& both = {}) {
  detail::exchange between;
  machine_state out;
  pace mine;
  pace others;
  if (processors == 0 || processors > allowed_processors()) {
    return out;
  }
  if (processors == 1) {
    mine = pace::now();
    others = mine;
  } else {
    both(
        [&] {
          out.one_way_ns = between.lead_ns();
          mine = pace::now();
        },
        [&] {
          between.follow();
          others = pace::now();
        });
  }
  best_pace().keep_least(mine);
  best_pace().keep_least(others);
  out.slowness = std::max(mine.over(best_pace()), others.over(best_pace()));
  return out;
}

/// Largest disturbance of a clean sample.
inline constexpr double max_disturbance = 1.12;

/// Returns how long a process waits for clean moments in total: eight minutes, or the
/// number of seconds in WEIR_BENCH_PATIENCE.
inline std::chrono::seconds all_patience() {
  const char* const asked = std::getenv("WEIR_BENCH_PATIENCE");
  return std::chrono::seconds(asked != nullptr ? std::atol(asked) : 8 * 60);
}

/// Waits for a clean moment for at most four seconds. Returns the disturbance at the end.
template <class Pair = thread_pair>
double wait_until_clean(unsigned processors, const Pair& both = {}) {
  using clock = std::chrono::steady_clock;
  static clock::duration patience = all_patience();
  const auto start = clock::now();
  const auto max_patience = std::min<clock::duration>(patience, std::chrono::seconds(4));
  double left = look(processors, both).disturbance();
  while (left > max_disturbance && clock::now() - start < max_patience) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    left = look(processors, both).disturbance();
  }
  if (patience > clock::duration::zero()) {
    patience -= clock::now() - start;
    if (patience <= clock::duration::zero()) {
      std::fprintf(stderr, "the machine is too busy: what follows counts as it comes\n");
    }
  }
  return left;
}

/// Returns the nanoseconds that the threads of this process have waited for a processor.
inline double delay_ns() {
  double sum = 0;
  DIR* folder = ::opendir("/proc/self/task");
  if (folder == nullptr) {
    return 0;
  }
  while (const dirent* one = ::readdir(folder)) {
    std::ifstream stat(std::string("/proc/self/task/") + one->d_name + "/schedstat");
    double ran = 0;
    double waited = 0;
    if (stat >> ran >> waited) {
      sum += waited;
    }
  }
  ::closedir(folder);
  return sum;
}

/// The number of threads of a sample: as many as it has processors, none of which should
/// have to wait, or more.
enum class threads { as_processors, more };

/// Returns the values of `sample()` (a double): `wanted` quiet ones, if the machine
/// allows. A sample is quiet if the processors ran at full speed before and after it and
/// no thread waited for one meanwhile. Gives up after eight times as many attempts, or
/// after having waited for four seconds. If fewer than three samples are quiet, returns
/// the three with the least disturbance; the row then has no verdict
/// (`sampling::decides`).
template <class Sample, class Pair = thread_pair>
[[nodiscard]] std::vector<double> clean_samples(unsigned processors, std::size_t wanted,
                                                Sample&& sample, const Pair& both = {},
                                                threads run = threads::as_processors) {
  std::vector<std::pair<double, double>>
      all;  // with their disturbance first, for sorting
  std::size_t clean = 0;
  double waits = 0;
  for (std::size_t i = 0; i < 8 * wanted && clean < wanted && (waits < 4 || i < wanted);
       ++i) {
    double before = 0;
    waits += seconds_of([&] {
      before = waits < 4 ? wait_until_clean(processors, both)
                         : look(processors, both).disturbance();
    });
    const double waited = delay_ns();
    double value = 0;
    const double took = seconds_of([&] { value = sample(); });
    const bool on_time =
        run == threads::more || delay_ns() - waited <= std::max(20e3, took * 1e7);
    const double after = look(processors, both).disturbance();
    const double worst = std::max(before, after) + (on_time ? 0 : 1);
    all.emplace_back(worst, value);
    clean += static_cast<std::size_t>(worst <= max_disturbance);
  }
  sampling_of_row().add_set(clean, all.size());
  std::sort(all.begin(), all.end());
  all.resize(std::min(all.size(), std::max(clean, sampling::least_quiet)));
  std::vector<double> values;
  for (const auto& [disturbance, value] : all) {
    values.push_back(value);
  }
  return values;
}

/// Returns the median of `count` quiet values.
template <class Sample>
[[nodiscard]] double quiet_median(unsigned processors, std::size_t count,
                                  Sample&& sample) {
  return median(clean_samples(processors, count, sample));
}

}  // namespace weir::bench
