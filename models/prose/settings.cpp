// SPDX-License-Identifier: Apache-2.0
/// @file
/// The settings of the prose model: names, ranges, units and documentation.
#include "weir/base/settings.hpp"
#include "prose/kernels/table.hpp"
#include "prose/state.hpp"
#include "weir/collective/reduction.hpp"
#include "weir/models/prose.hpp"

namespace weir::models {

namespace {

/// Kernels process the features of a row in blocks of this many. Vector registers are
/// filled exactly.
constexpr std::int64_t row_multiple = 16;

/// Returns whether the periods ascend from 1 and fit the windows of 64 rows in which rows
/// are computed: each period divides a window or is a multiple of it.
///
/// The list is not empty, because the table checks the count first.
bool can_be_levels(const std::vector<std::uint64_t>& periods) {
  std::uint64_t last = 0;
  for (const std::uint64_t period : periods) {
    const bool fits =
        period < window_rows ? window_rows % period == 0 : period % window_rows == 0;
    if (period <= last || !fits) {
      return false;
    }
    last = period;
  }
  return periods.front() == 1;
}

/// What cannot be changed between runs.
void add_shape(settings_table<prose_config>& t) {
  using c = prose_config;
  t.add("vocab", &c::vocab, "Number of token ids; every token is below it")
      .range(2, 1 << 20);
  t.add("width", &c::width, "Features of a row")
      .range(row_multiple, 4096)
      .multiple_of(row_multiple)
      .unit("features");
  t.add("blocks", &c::blocks, "Blocks, one after another").range(1, 64);
  t.add("heads", &c::heads, "Memories per level, of 32 features each").range(1, 16);
  t.add("hidden", &c::hidden, "Features of the two-layer part")
      .range(row_multiple, 16384)
      .multiple_of(row_multiple)
      .unit("features");
  t.add("frequencies", &c::frequencies,
        "Period of each level of memory, the fastest level first")
      .count(1, max_levels)
      .range(1, 1 << 30)
      .rule("1 first, then ascending divisors or multiples of 64", can_be_levels)
      .unit("tokens");
}

/// What may differ from run to run.
void add_schedule(settings_table<prose_config>& t) {
  using c = prose_config;
  t.add("rate", &c::rate, "Step size after the warm-up").range(0, 1);
  t.add("warm_up", &c::warm_up, "Updates over which the step size rises")
      .range(0, 1 << 24)
      .unit("updates");
  t.add("final_rate", &c::final_rate,
        "Fraction of the step size that is left at the end of the budget")
      .range(0, 1);
  t.add("beta1", &c::beta1, "Decay rate of the first moment").range(0, 1);
  t.add("beta2", &c::beta2, "Decay rate of the second moment").range(0, 1);
  t.add("epsilon", &c::epsilon, "Number added to the root of the second moment")
      .range(0, 1);
  t.add("decay", &c::decay, "Rate at which an update pulls matrices towards zero")
      .range(0, 1);
  t.add("clip", &c::clip, "Largest norm of the gradient of a pulse").range(0, 1e9);
}

/// Where the model runs, and how much fits into a pulse.
void add_geometry(settings_table<prose_config>& t) {
  using c = prose_config;
  t.add("lanes", &c::lanes, "Lanes, each with a context of its own")
      .range(1, collective::max_ranks);
  t.add("max_chunk", &c::max_chunk, "Most tokens of a lane in one pulse")
      .range(1, 1 << 16)
      .unit("tokens");
  t.add("seed", &c::seed, "Seed of the random numbers that parameters begin with");
}

}  // namespace

/// Made by the first call.
const settings_table<prose_config>& prose_settings() {
  static const settings_table<prose_config> table = [] {
    settings_table<prose_config> t("the prose model");
    add_shape(t);
    add_schedule(t);
    add_geometry(t);
    return t;
  }();
  return table;
}

/// The error names the first setting that is wrong.
result<void> check_config(const prose_config& config) {
  return prose_settings().check(config);
}

}  // namespace weir::models
