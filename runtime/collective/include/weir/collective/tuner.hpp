// SPDX-License-Identifier: Apache-2.0
/// @file
/// Measures which schedule of a collective is the fastest here.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <utility>

#include "weir/collective/choice.hpp"
#include "weir/runtime/tuning.hpp"

namespace weir::collective {

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

using tuning_store = runtime::measured_choice<tuning_key, algorithm>::store;

/// Measures collectives. Results at level 1 and 2 do not depend on what it proposes.
/// @threads{safe from any thread}
class collective_tuner {
 public:
  static constexpr int trials = runtime::measured_choice<tuning_key, algorithm>::trials;

  explicit collective_tuner(tuning_store store = {}) : known_(std::move(store)) {}

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
  [[nodiscard]] bool took(const tuning_trial& trial, std::int64_t ns) {
    return known_.took(trial.key, trial.how, ns);
  }
  /// Passes what is known of these calls to the store.
  void keep(const tuning_key& key) { known_.keep(key); }

 private:
  runtime::measured_choice<tuning_key, algorithm> known_;
};

}  // namespace weir::collective
