// SPDX-License-Identifier: Apache-2.0
/// @file
/// Chooses the fastest of several ways by measuring them while the program works.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "weir/base/error.hpp"

namespace weir::runtime {

/// Measures candidates: the first uses of a key take each candidate in turn, `trials`
/// times; afterwards the candidate with the shortest time is proposed. `Key` has an
/// order; `Choice` can be compared.
/// @threads{safe from any thread}
template <class Key, class Choice>
class measured_choice {
 public:
  /// Number of times that each candidate is measured.
  static constexpr int trials = 3;
  /// Largest number of keys. Further keys are not measured.
  static constexpr std::size_t max_keys = 4096;

  /// Functions that keep results beyond the process. Both may be empty.
  struct store {
    /// Returns the result of an earlier process, or nothing.
    /// @error{cache_corrupt; the stored result is damaged}
    std::function<result<std::optional<Choice>>(const Key&)> load;
    /// Stores a result.
    std::function<void(const Key&, const Choice&)> keep;
  };

  /// Makes an empty choice that uses this store.
  explicit measured_choice(store stored) : store_(std::move(stored)) {}

  /// Returns the fastest candidate, or nothing if it is not known yet or if there are
  /// fewer than two candidates. @error{cache_corrupt; the store failed; it is asked again
  /// next time}
  template <class Candidates>
  [[nodiscard]] result<std::optional<Choice>> fastest(const Key& key,
                                                      Candidates&& candidates) {
    const std::lock_guard lock(mutex_);
    WEIR_TRY(const entry* const e, find(key, candidates));
    return e == nullptr ? std::nullopt : e->fastest;
  }
  /// Returns the candidate to measure now, or nothing if the fastest is known, if the
  /// store fails, or if there are fewer than two candidates.
  template <class Candidates>
  [[nodiscard]] std::optional<Choice> next(const Key& key, Candidates&& candidates) {
    const std::lock_guard lock(mutex_);
    const auto found = find(key, candidates);
    if (!found || *found == nullptr || (*found)->fastest) {
      return std::nullopt;
    }
    auto& all = (*found)->candidates;
    candidate& c = *std::min_element(
        all.begin(), all.end(),
        [](const candidate& a, const candidate& b) { return a.given < b.given; });
    ++c.given;
    return c.how;
  }
  /// Reports the time of a trial. Returns true if the fastest candidate is known from now
  /// on: the caller then calls `keep`, from a thread that may wait for a file.
  [[nodiscard]] bool took(const Key& key, const Choice& how, std::int64_t ns) {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(key);
    if (found == entries_.end() || found->second.fastest) {
      return false;
    }
    std::vector<candidate>& all = found->second.candidates;
    for (candidate& c : all) {
      if (c.how == how) {
        c.shortest_ns = c.measured == 0 ? ns : std::min(c.shortest_ns, ns);
        ++c.measured;
      }
    }
    if (!std::all_of(all.begin(), all.end(),
                     [](const candidate& c) { return c.measured >= trials; })) {
      return false;
    }
    found->second.fastest = std::min_element(all.begin(), all.end(),
                                             [](const candidate& a, const candidate& b) {
                                               return a.shortest_ns < b.shortest_ns;
                                             })
                                ->how;
    return true;
  }
  /// Passes the fastest candidate of a key to the store.
  void keep(const Key& key) {
    std::optional<Choice> how;
    {
      const std::lock_guard lock(mutex_);
      const auto found = entries_.find(key);
      how = found == entries_.end() ? std::nullopt : found->second.fastest;
    }
    if (how && store_.keep) {
      store_.keep(key, *how);
    }
  }

 private:
  struct candidate {
    Choice how{};
    int given = 0;
    int measured = 0;
    std::int64_t shortest_ns = 0;
  };
  struct entry {
    std::vector<candidate> candidates;
    std::optional<Choice> fastest;
  };

  /// Null where there is no choice. With the mutex.
  template <class Candidates>
  [[nodiscard]] result<entry*> find(const Key& key, Candidates&& candidates) {
    if (const auto known = entries_.find(key); known != entries_.end()) {
      return &known->second;
    }
    const std::vector<Choice> all = candidates();
    if (all.size() < 2 || entries_.size() >= max_keys) {
      return nullptr;
    }
    entry e;
    for (const Choice& how : all) {
      e.candidates.push_back({how, 0, 0, 0});
    }
    if (store_.load) {
      WEIR_TRY(e.fastest, store_.load(key));
    }
    return &entries_.emplace(key, std::move(e)).first->second;
  }

  store store_;
  std::mutex mutex_;
  std::map<Key, entry> entries_;
};

}  // namespace weir::runtime
