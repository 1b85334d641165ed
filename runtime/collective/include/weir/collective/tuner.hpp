// SPDX-License-Identifier: Apache-2.0
/// @file
/// Measures the algorithms of collectives and proposes the fastest.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <utility>

#include "weir/collective/choice.hpp"
#include "weir/runtime/tuning.hpp"

namespace weir::collective {

/// Calls that are measured together: they differ in their exact count alone.
struct tuning_key {
  collective_kind kind = collective_kind::all_reduce;  ///< kind
  dtype type = dtype::fp32;                            ///< type of the elements
  reduction_op op = reduction_op::sum;  ///< operation; sum for kinds that do not reduce
  int level = 0;                        ///< level; 0 for kinds that do not reduce
  bool wide = false;                    ///< see `reduction`
  int ranks = 1;                        ///< number of ranks
  int domains = 1;                      ///< number of domains
  int workers = 1;                      ///< number of workers
  int size_class = 0;                   ///< number of binary digits of the size in bytes

  /// Returns the key of a call.
  [[nodiscard]] static tuning_key of_call(const collective_call& call, int ranks,
                                          const topology& shape) noexcept;
  friend auto operator<=>(const tuning_key&, const tuning_key&) = default;
};

/// A call that is to be measured.
struct tuning_trial {
  tuning_key key;                     ///< calls that it is measured for
  algorithm how = algorithm::direct;  ///< algorithm that is measured
};

/// Store of results beyond the process.
using tuning_store = runtime::measured_choice<tuning_key, algorithm>::store;

/// Measures collectives. Results at level 1 and 2 do not depend on what it proposes.
/// @threads{safe from any thread}
class collective_tuner {
 public:
  /// Number of times that each algorithm is measured.
  static constexpr int trials = runtime::measured_choice<tuning_key, algorithm>::trials;

  /// Makes a tuner that knows nothing but its store.
  explicit collective_tuner(tuning_store store = {}) : known_(std::move(store)) {}

  /// Returns the fastest algorithm, or nothing if it is not known or if there is no
  /// choice.
  /// @error{cache_corrupt; the store failed}
  [[nodiscard]] result<std::optional<algorithm>> fastest(const collective_call& call,
                                                         int ranks,
                                                         const topology& shape);
  /// Returns the algorithm to measure with this call, or nothing if the fastest is known,
  /// if the store fails, or if there is no choice.
  [[nodiscard]] std::optional<tuning_trial> next(const collective_call& call, int ranks,
                                                 const topology& shape);
  /// Reports the time of a trial. Returns true if the fastest algorithm is known from now
  /// on: the caller then calls `keep`, from a thread that may wait for a file.
  [[nodiscard]] bool took(const tuning_trial& trial, std::int64_t ns) {
    return known_.took(trial.key, trial.how, ns);
  }
  /// Passes the fastest algorithm for these calls to the store.
  void keep(const tuning_key& key) { known_.keep(key); }

 private:
  runtime::measured_choice<tuning_key, algorithm> known_;
};

}  // namespace weir::collective
