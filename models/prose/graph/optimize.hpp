// SPDX-License-Identifier: Apache-2.0
/// @file
/// The optimizer's tasks: the sum of the gradients over lanes, clipping, and AdamW steps.
///
/// A level steps in the pulses whose `active` mask has its bit. In all other pulses its
/// gradients are added to an error buffer, and the next step takes their mean.
/// @source{Context stream design, 3.4}
#pragma once

#include <algorithm>
#include <cmath>

#include "prose/graph/graph.hpp"
#include "prose/schedule.hpp"

namespace weir::models {

/// Adds the gradients of all lanes to those of lane 0, along the tree and with the
/// arithmetic of an all-reduce at determinism level 1. Lanes that are spread over devices
/// are added by such an all-reduce, so both have the same sum.
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

/// Computes the sums of squares of the gradients of a group.
///
/// In the order of the parameters, each on its own.
template <class R>
void graph<R>::run_squares(int group) {
  for (int parameter : layout_.groups()[static_cast<std::size_t>(group)].parameters) {
    squares_.data[parameter] =
        k_->squares(gradient(0, parameter), static_cast<int>(info(parameter).padded()));
  }
}

/// Submits the sum of the gradients over the graph's lanes. A lane without tokens has no
/// backward tasks, so its gradients are set to zero first. One lane has the sum already.
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
    // Groups are independent of each other.
    const auto& parameters = layout_.groups()[static_cast<std::size_t>(g)].parameters;
    for (int parameter : parameters) {
      if (!shares_) {  // else `measure` computes the squares, of the larger sum
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
  // Other devices wait for this part.
  if (shares_) {
    hand_over();
  }
}

/// Submits a task that ends when this graph's part of the shared sum is complete. It does
/// nothing else: its id stands for all tasks that contribute.
template <class R>
void graph<R>::hand_over() {
  accesses_.reads(gradients_[0].all.all());
  task("gradients", [](const runtime::task_context&) -> result<void> { return {}; });
}

/// Submits the sums of squares of a shared sum. Those of a sum that the graph has made
/// alone were computed together with the sum.
///
/// Each device computes all of them, from equal sums.
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

/// The same on all devices.
template <class R>
double graph<R>::rate_at(const pulse_record& record) const {
  return scheduled_rate(config_, record.update, record.total_updates);
}

/// Submits the task that plans the steps: see `run_clip`.
///
/// Its result is that of the pulse.
template <class R>
void graph<R>::clip(pulse_record& record) {
  accesses_.reads(squares_.all()).updates(state_.counters.all()).writes(plan_.all());
  pulse_record* r = &record;
  record.results.push_back(
      task("clip", [this, r](const runtime::task_context& context) -> result<void> {
        return run_clip(pulse_of(context, r));
      }));
}

/// Computes the norm of the whole gradient, the factor that clips it, and the numbers of
/// each level's step; advances the counters. A gradient that is not finite stops the
/// pulse here, before it has changed a parameter.
template <class R>
result<void> graph<R>::run_clip(pulse_record& record) {
  // The order of the sum is fixed.
  double total = 0;
  for (std::int64_t i = 0; i < squares_.count; ++i) {
    total += squares_.data[i];
  }
  record.gradient_norm = std::sqrt(total);
  if (!std::isfinite(record.gradient_norm)) {
    return error(errc::kernel_failed,
                 "norm of the gradient: expected a finite number, found " +
                     std::string(std::isnan(record.gradient_norm) ? "nan" : "infinity"));
  }
  // The small number keeps the quotient finite.
  const double scale = std::min(1.0, config_.clip / (record.gradient_norm + 1e-6));
  step_counters counters;
  counters.load_from(state_.counters.data);
  counters.updates += 1;
  for (int l = 0; l < n_.levels; ++l) {
    const auto level = static_cast<std::size_t>(l);
    step_plan<R>& plan = plan_.data[l];
    // Also levels that do not step scale their gradients.
    plan.scale = static_cast<R>(scale);
    counters.accumulated[level] += 1;
    if ((record.active >> l & 1U) == 0) {
      continue;
    }
    counters.steps[level] += 1;
    // The present gradient counts as one.
    plan.mean = static_cast<R>(1.0 / static_cast<double>(counters.accumulated[level]));
    counters.accumulated[level] = 0;
    // Corrections of the moments, by the number of steps.
    plan.rate = static_cast<R>(rate_at(record));
    plan.correction1 =
        static_cast<R>(1 / (1 - power(config_.beta1, counters.steps[level])));
    plan.correction2 =
        static_cast<R>(1 / std::sqrt(1 - power(config_.beta2, counters.steps[level])));
    plan.beta1 = static_cast<R>(config_.beta1);
    plan.beta2 = static_cast<R>(config_.beta2);
    plan.epsilon = static_cast<R>(config_.epsilon);
  }
  // The state has them, so that a run can go on.
  counters.store_to(state_.counters.data);
  return {};
}

/// Steps the parameters of a group, or adds its gradients to its error buffers.
///
/// Which of the two is decided at the submission.
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

/// Submits one task for each group. Whether a group's error buffer is read is decided
/// here, by counters of the pulses submitted so far: a buffer that is empty anyway is no
/// access.
///
/// Only groups of levels that step read their moments.
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
