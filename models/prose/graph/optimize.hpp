// SPDX-License-Identifier: Apache-2.0
/// @file
/// The outer loop: reduction over lanes, clipping, AdamW per level with error buffers.
/// @source{Context stream design, 3.4}
#pragma once

#include <algorithm>
#include <cmath>

#include "prose/graph/graph.hpp"
#include "prose/schedule.hpp"

namespace weir::models {

/// Adds the lanes' gradients into lane 0, by the tree and the arithmetic of a level 1
/// all-reduce: lanes that are spread over ranks have the same sum.
template <class R>
void graph<R>::run_reduce(int group) {
  std::vector<const std::byte*> lanes(static_cast<std::size_t>(n_.lanes));
  for (int parameter : layout_.groups()[static_cast<std::size_t>(group)].parameters) {
    for (int lane = 0; lane < n_.lanes; ++lane) {
      lanes[static_cast<std::size_t>(lane)] =
          reinterpret_cast<const std::byte*>(gradient(lane, parameter));
    }
    auto* const sum = reinterpret_cast<std::byte*>(gradient(0, parameter));
    over_lanes_.reduce(lanes, {&sum, 1},
                       static_cast<std::size_t>(info(parameter).padded()));
  }
}

template <class R>
void graph<R>::run_squares(int group) {
  for (int parameter : layout_.groups()[static_cast<std::size_t>(group)].parameters) {
    squares_.data[parameter] =
        k_->squares(gradient(0, parameter), static_cast<int>(info(parameter).padded()));
  }
}

template <class R>
void graph<R>::reduce(pulse_record& record) {
  if (n_.lanes == 1 && !shares_) {
    return;
  }
  for (int lane = 0; lane < n_.lanes; ++lane) {
    if (!record.lanes[static_cast<std::size_t>(lane)].windows.empty()) {
      continue;
    }
    const buffer<R> all = gradients_[static_cast<std::size_t>(lane)].all;
    accesses_.writes(all.all());
    task("no_gradients", [all](const runtime::task_context&) -> result<void> {
      std::fill_n(all.data, all.count, R(0));
      return {};
    });
  }
  for (int g = 0; n_.lanes > 1 && g < static_cast<int>(layout_.groups().size()); ++g) {
    const auto& parameters = layout_.groups()[static_cast<std::size_t>(g)].parameters;
    for (int parameter : parameters) {
      if (!shares_) {  // of a shared sum they come later
        accesses_.writes(squares_part(parameter));
      }
    }
    for (int lane = 0; lane < n_.lanes; ++lane) {
      for (int parameter : parameters) {
        accesses_.updates(gradient_part(lane, parameter));
      }
    }
    task("reduce", [this, g](const runtime::task_context&) -> result<void> {
      run_reduce(g);
      if (!shares_) {
        run_squares(g);
      }
      return {};
    });
  }
  if (shares_) {
    hand_over();
  }
}

/// One task behind all that make this graph's part of the sum.
template <class R>
void graph<R>::hand_over() {
  accesses_.reads(gradients_[0].all.all());
  task("gradients", [](const runtime::task_context&) -> result<void> { return {}; });
}

/// Sums of squares of a sum that others have completed; those of a sum of our own are
/// there already.
template <class R>
void graph<R>::measure() {
  for (int g = 0; shares_ && g < static_cast<int>(layout_.groups().size()); ++g) {
    for (int parameter : layout_.groups()[static_cast<std::size_t>(g)].parameters) {
      accesses_.reads(gradient_part(0, parameter)).writes(squares_part(parameter));
    }
    task("squares", [this, g](const runtime::task_context&) -> result<void> {
      run_squares(g);
      return {};
    });
  }
}

template <class R>
double graph<R>::rate_at(const pulse_record& record) const {
  return scheduled_rate(config_, record.update, record.total_updates);
}

template <class R>
void graph<R>::clip(pulse_record& record) {
  accesses_.reads(squares_.all()).updates(state_.counters.all()).writes(plan_.all());
  pulse_record* r = &record;
  record.results.push_back(
      task("clip", [this, r](const runtime::task_context& context) -> result<void> {
        return run_clip(pulse_of(context, r));
      }));
}

template <class R>
result<void> graph<R>::run_clip(pulse_record& record) {
  double total = 0;
  for (std::int64_t i = 0; i < squares_.count; ++i) {
    total += squares_.data[i];
  }
  record.gradient_norm = std::sqrt(total);
  if (!std::isfinite(record.gradient_norm)) {
    return error(errc::kernel_failed,
                 "norm of the gradient: expected a finite number, found none");
  }
  const double scale = std::min(1.0, config_.clip / (record.gradient_norm + 1e-6));
  step_counters counters;
  counters.load_from(state_.counters.data);
  counters.updates += 1;
  for (int l = 0; l < n_.levels; ++l) {
    const auto level = static_cast<std::size_t>(l);
    step_plan<R>& plan = plan_.data[l];
    plan.scale = static_cast<R>(scale);
    counters.accumulated[level] += 1;
    if ((record.active >> l & 1U) == 0) {
      continue;
    }
    counters.steps[level] += 1;
    plan.mean = static_cast<R>(1.0 / static_cast<double>(counters.accumulated[level]));
    counters.accumulated[level] = 0;
    plan.rate = static_cast<R>(rate_at(record));
    plan.correction1 =
        static_cast<R>(1 / (1 - power(config_.beta1, counters.steps[level])));
    plan.correction2 =
        static_cast<R>(1 / std::sqrt(1 - power(config_.beta2, counters.steps[level])));
    plan.beta1 = static_cast<R>(config_.beta1);
    plan.beta2 = static_cast<R>(config_.beta2);
    plan.epsilon = static_cast<R>(config_.epsilon);
  }
  counters.store_to(state_.counters.data);
  return {};
}

template <class R>
void graph<R>::run_step(int group, bool active, bool accumulated) {
  const step_group& g = layout_.groups()[static_cast<std::size_t>(group)];
  const step_plan<R>& plan = plan_.data[g.level];
  R* moments = state_.moments[static_cast<std::size_t>(group)].data;
  R* errors = state_.errors[static_cast<std::size_t>(group)].data;
  for (int parameter : g.parameters) {
    const parameter_info& i = info(parameter);
    const auto count = static_cast<int>(i.padded());
    const R* grad = gradient(0, parameter);
    R* error = errors + i.group_offset;
    if (active) {
      k_->step(state_.parameters.data + i.offset, grad, moments + i.group_offset,
               moments + g.size + i.group_offset, accumulated ? error : nullptr, count,
               plan, i.decays ? static_cast<R>(config_.decay) : R(0));
    } else {
      k_->accumulate(error, grad, count, plan.scale);
    }
  }
}

template <class R>
void graph<R>::step(const pulse_record& record) {
  for (int g = 0; g < static_cast<int>(layout_.groups().size()); ++g) {
    const step_group& group = layout_.groups()[static_cast<std::size_t>(g)];
    const bool active = (record.active >> group.level & 1U) != 0;
    const bool accumulated = counters_.accumulated[group.level] > 0;
    accesses_.reads(plan_.part(group.level, 1));
    for (int parameter : group.parameters) {
      accesses_.reads(gradient_part(0, parameter));
    }
    if (active) {
      for (int parameter : group.parameters) {
        accesses_.updates(values(parameter));
      }
      accesses_.updates(state_.moments[static_cast<std::size_t>(g)].all());
    }
    if (!active || accumulated) {
      accesses_.updates(state_.errors[static_cast<std::size_t>(g)].all());
    }
    task(
        active ? "step" : "accumulate",
        [this, g, active, accumulated](const runtime::task_context&) -> result<void> {
          run_step(g, active, accumulated);
          return {};
        },
        priority::filler);
  }
}

}  // namespace weir::models
