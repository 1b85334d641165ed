// SPDX-License-Identifier: Apache-2.0
/// @file
/// Finding the fastest of several ways by measuring them in the program's own work.
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

/// The first uses of a key take each candidate in turn, `trials` times; then the one with
/// the shortest time is proposed. `Key` has an order; `Choice` can be compared.
/// @threads{safe from any thread}
template <class Key, class Choice>
class measured_choice {
 public:
  static constexpr int trials = 3;
  /// So many keys are known at a time; others keep to what is usual.
  static constexpr std::size_t most_keys = 4096;

  /// Where results outlive the process. Both may be empty.
  struct store {
    /// @error{cache_corrupt, what was kept is damaged, and that is not to be passed over}
    std::function<result<std::optional<Choice>>(const Key&)> load;
    std::function<void(const Key&, const Choice&)> keep;
  };

  explicit measured_choice(store kept) : store_(std::move(kept)) {}

  /// What is known to be the fastest; nothing where that is not known, or where there are
  /// no two candidates. @error as of store::load, which is asked again the next time
  template <class Candidates>
  [[nodiscard]] result<std::optional<Choice>> fastest(const Key& key,
                                                      Candidates&& candidates) {
    const std::lock_guard lock(mutex_);
    WEIR_TRY(const entry* const e, find(key, candidates));
    return e == nullptr ? std::nullopt : e->fastest;
  }
  /// What to try now; nothing where the fastest is known, where the store fails, or where
  /// there are no two candidates.
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
  /// A trial took so long. True if the fastest is known from now on: `keep` is to be
  /// called, by somebody who may wait for a file.
  [[nodiscard]] bool took(const Key& key, const Choice& how, std::int64_t ns) {
    const std::lock_guard lock(mutex_);
    const auto at = entries_.find(key);
    if (at == entries_.end() || at->second.fastest) {
      return false;
    }
    std::vector<candidate>& all = at->second.candidates;
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
    at->second.fastest = std::min_element(all.begin(), all.end(),
                                          [](const candidate& a, const candidate& b) {
                                            return a.shortest_ns < b.shortest_ns;
                                          })
                             ->how;
    return true;
  }
  /// Passes what is known of the key to the store.
  void keep(const Key& key) {
    std::optional<Choice> how;
    {
      const std::lock_guard lock(mutex_);
      const auto at = entries_.find(key);
      how = at == entries_.end() ? std::nullopt : at->second.fastest;
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
    if (all.size() < 2 || entries_.size() >= most_keys) {
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
