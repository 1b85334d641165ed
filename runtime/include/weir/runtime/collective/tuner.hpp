// SPDX-License-Identifier: Apache-2.0
/// @file
/// Measures which schedule of a collective is the fastest here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "weir/runtime/collective/choice.hpp"

namespace weir::runtime {

/// Calls that are measured together: alike but for the exact count.
struct tuning_key {
  collective_kind kind = collective_kind::all_reduce;
  dtype type = dtype::fp32;
  reduction_op op = reduction_op::sum;  ///< sum for kinds that do not reduce
  int level = 0;                        ///< 0 for kinds that do not reduce
  bool wide = false;
  int ranks = 1;
  int domains = 1;
  int workers = 1;
  int size_class = 0;  ///< bits of the number of bytes

  [[nodiscard]] static tuning_key of(const collective_call& call, int ranks,
                                     const topology& shape) noexcept;
  friend auto operator<=>(const tuning_key&, const tuning_key&) = default;
};

/// A call that is to be measured.
struct tuning_trial {
  tuning_key key;
  algorithm how = algorithm::direct;
};

/// Where results outlive the process. Both may be empty.
struct tuning_store {
  /// @error{cache_corrupt, what was kept is damaged, and that is not to be passed over}
  std::function<result<std::optional<algorithm>>(const tuning_key&)> load;
  std::function<void(const tuning_key&, algorithm)> keep;
};

/// The first calls of a kind take each schedule in turn, `trials` times; then the one
/// with the shortest time is proposed. Results at level 1 and 2 do not depend on it.
/// @threads{safe from any thread}
class collective_tuner {
 public:
  static constexpr int trials = 3;

  explicit collective_tuner(tuning_store store = {}) : store_(std::move(store)) {}

  /// What is known to be the fastest; nothing where that is not known, or where there is
  /// no choice. @error as of tuning_store::load
  [[nodiscard]] result<std::optional<algorithm>> fastest(const collective_call& call,
                                                         int ranks,
                                                         const topology& shape);
  /// What to try with this call; nothing where the fastest is known, where the store
  /// fails, or where there is no choice.
  [[nodiscard]] std::optional<tuning_trial> next(const collective_call& call, int ranks,
                                                 const topology& shape);
  /// A trial took so long. True if the fastest is known from now on: `keep` is to be
  /// called, by somebody who may wait for a file.
  [[nodiscard]] bool took(const tuning_trial& trial, std::int64_t ns);
  /// Passes what is known of these calls to the store.
  void keep(const tuning_key& key);

 private:
  struct candidate {
    algorithm how = algorithm::direct;
    int given = 0;
    int measured = 0;
    std::int64_t shortest_ns = 0;
  };
  struct entry {
    std::vector<candidate> candidates;
    std::optional<algorithm> fastest;
  };

  /// Null where there is no choice. With the mutex. @error as of tuning_store::load,
  /// which is asked again the next time
  [[nodiscard]] result<entry*> find(const collective_call& call, int ranks,
                                    const topology& shape);

  tuning_store store_;
  std::mutex mutex_;
  std::map<tuning_key, entry> entries_;
};

}  // namespace weir::runtime
