// SPDX-License-Identifier: Apache-2.0
/// @file
/// The steps of a plan as tasks of an engine. Their order comes from the regions that
/// they touch, so the edges of the plan itself are not needed.
///
/// The regions of all tasks are computed once, when the collective is made. A run only
/// submits tasks, and the engine orders them among each other and with all other tasks
/// that touch the same tensors.
#include "weir/collective/region_collective.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/core.h>

namespace weir::collective {
namespace {

using runtime::access;
using runtime::access_mode;
using runtime::decide_overlap;
using runtime::engine;
using runtime::footprint;
using runtime::keeps;
using runtime::overlap;
using runtime::storage;
using runtime::storage_id;
using runtime::submit_options;
using runtime::task_context;
using runtime::tensor;

using place = plan_operand::place;

/// Number of workers that a task can name as its preferred one.
constexpr unsigned max_chosen_worker = 128;

/// Returns the error of a collective that cannot be planned.
error refuse(const collective_call& call, std::string_view expected,
             std::string_view found) {
  return error(errc::invalid_argument,
               fmt::format("collective not planned \"{}\": expected {}, found {}",
                           name_of(call.kind), expected, found));
}

/// For each rank, the bytes from the beginning of its input or output that steps touch.
struct touched_bytes {
  std::vector<std::size_t> inputs;
  std::vector<std::size_t> outputs;
};

/// Finds how much of each tensor the plan touches. Tensors that it does not touch may be
/// missing.
touched_bytes touched_by(const collective_plan& plan) {
  touched_bytes out;
  out.inputs.resize(static_cast<std::size_t>(plan.ranks()));
  out.outputs.resize(out.inputs.size());
  for (const plan_step& step : plan.steps()) {
    for (const auto operands : {plan.sources(step), plan.targets(step)}) {
      for (const plan_operand& o : operands) {
        if (o.buffer == place::scratch) {
          continue;
        }
        auto& bytes = o.buffer == place::input ? out.inputs : out.outputs;
        for (int i = 0; i < o.ranks; ++i) {
          std::size_t& end = bytes[static_cast<std::size_t>(o.rank + i)];
          end = std::max(end, o.offset + plan.bytes(step, o));
        }
      }
    }
  }
  return out;
}

/// Checks the type, strides and size of a tensor that the plan touches.
result<void> check_tensor(const collective_call& call, const tensor& t, std::size_t bytes,
                          std::string_view role, std::size_t rank) {
  if (bytes == 0) {
    return {};
  }
  const auto named = [&](std::string_view expected) {
    return fmt::format("{} as {} of rank {}", expected, role, rank);
  };
  if (t.type() != call.type) {
    return refuse(call, named(fmt::format("type {}", info_of(call.type).tessera)),
                  info_of(t.type()).tessera);
  }
  if (!t.row_major()) {
    return refuse(call, named("a row-major tensor"), "other strides");
  }
  const auto there = static_cast<std::size_t>(t.bytes().hi - t.bytes().lo);
  if (there < bytes) {
    return refuse(call, named(fmt::format("at least {} bytes", bytes)),
                  fmt::format("{}", there));
  }
  return {};
}

/// Checks that no rank's output overlaps another operand that the collective uses. Input
/// and output of one rank may be the same region.
result<void> check_apart(const collective_call& call, const touched_bytes& touched,
                         std::span<const tensor> inputs,
                         std::span<const tensor> outputs) {
  const auto overlap_of = [](const tensor& a, const tensor& b) {
    return decide_overlap(a.bytes(), b.bytes()) != overlap::no;
  };
  for (std::size_t r = 0; r < outputs.size(); ++r) {
    if (touched.outputs[r] == 0) {
      continue;
    }
    for (std::size_t other = 0; other < inputs.size(); ++other) {
      if (other != r && touched.outputs[other] != 0 &&
          overlap_of(outputs[r], outputs[other])) {
        return refuse(call, fmt::format("an output of rank {} of its own", r),
                      fmt::format("one that overlaps the output of rank {}", other));
      }
      const bool in_place =
          other == r && inputs[r].bytes() == outputs[r].bytes() && !call.packed_shards;
      if (!in_place && touched.inputs[other] != 0 &&
          overlap_of(outputs[r], inputs[other])) {
        return refuse(call, fmt::format("an output of rank {} beside all inputs", r),
                      fmt::format("one that overlaps the input of rank {}", other));
      }
    }
  }
  return {};
}

/// Adds a region to the accesses of a task, from `first` on. A region that the task both
/// reads and writes gets one access for both.
void add_region(std::vector<access>& to, std::size_t first, const access& a) {
  const auto known =
      std::find_if(to.begin() + static_cast<std::ptrdiff_t>(first), to.end(),
                   [&](const access& other) { return other.bytes == a.bytes; });
  if (known == to.end()) {
    to.push_back(a);
  } else if (known->mode != a.mode) {
    known->mode = access_mode::read_write;
  }
}

}  // namespace

/// The plan, its tensors and the accesses of its tasks. Computed once for all runs.
struct region_collective::state {
  state(engine& e, collective_plan p) : owner(e), plan(std::move(p)) {}

  /// Fills in `accesses` and `first_access`.
  result<void> find_regions();
  /// Returns the region of an operand; `i` counts the ranks of a range.
  result<footprint> region_of(const plan_step& step, const plan_operand& o, int i) const;
  result<void> run(std::uint32_t step) const noexcept;

  engine& owner;
  collective_plan plan;
  std::vector<tensor> inputs;
  std::vector<tensor> outputs;
  std::vector<const std::byte*> input_bytes;
  std::vector<std::byte*> output_bytes;
  /// At least one byte. Every task keeps it, so releasing it waits for all tasks.
  storage scratch;
  std::vector<access> accesses;           ///< accesses of all steps
  std::vector<std::size_t> first_access;  ///< first access of each step, and the end
};

// Inputs and outputs are tensors, which may begin anywhere in their storage.
result<footprint> region_collective::state::region_of(const plan_step& step,
                                                      const plan_operand& o,
                                                      int i) const {
  const auto rank = static_cast<std::size_t>(o.rank + i);
  storage_id id = scratch.id;
  std::size_t begin = o.offset;
  switch (o.buffer) {
    case place::input:
      id = inputs[rank].store().id;
      begin += static_cast<std::size_t>(inputs[rank].offset());
      break;
    case place::output:
      id = outputs[rank].store().id;
      begin += static_cast<std::size_t>(outputs[rank].offset());
      break;
    case place::scratch: begin += o.slot * plan.slot_bytes(); break;
  }
  const auto length = static_cast<std::int64_t>(plan.bytes(step, o));
  const std::int64_t stride = 1;
  return footprint::of_view(id, static_cast<std::int64_t>(begin), {&length, 1},
                            {&stride, 1}, 1);
}

result<void> region_collective::state::find_regions() {
  for (const plan_step& step : plan.steps()) {
    const std::size_t first = accesses.size();
    first_access.push_back(first);
    const auto add = [&](std::span<const plan_operand> operands,
                         access_mode mode) -> result<void> {
      for (const plan_operand& o : operands) {
        // Scratch exists once, also where an operand stands for several ranks.
        const int ranks = o.buffer == place::scratch ? 1 : o.ranks;
        for (int i = 0; i < ranks; ++i) {
          WEIR_TRY(const footprint bytes, region_of(step, o, i));
          add_region(accesses, first, {bytes, mode});
        }
      }
      return {};
    };
    WEIR_CHECK(add(plan.sources(step), access_mode::read));
    WEIR_CHECK(add(plan.targets(step), access_mode::write));
    WEIR_TRY(const tensor all, tensor::over(scratch, dtype::uint8, {&scratch.size, 1}));
    accesses.push_back(keeps(all));
    if (first_access.size() == 1) {
      // The first task keeps all tensors. If one has been released, the engine refuses
      // this task, so no step has run.
      for (const std::vector<tensor>* tensors : {&inputs, &outputs}) {
        for (const tensor& t : *tensors) {
          accesses.push_back(keeps(t));
        }
      }
    }
  }
  first_access.push_back(accesses.size());
  return {};
}

// Called by workers, several steps at a time. Nothing here is changed by a run.
result<void> region_collective::state::run(std::uint32_t step) const noexcept {
  collective_buffers buffers;
  buffers.inputs = input_bytes;
  buffers.outputs = output_bytes;
  buffers.scratch = scratch.base;
  return run_step(plan, step, buffers);
}

result<region_collective> region_collective::create(engine& e,
                                                    const collective_call& call,
                                                    std::span<const tensor> inputs,
                                                    std::span<const tensor> outputs,
                                                    const plan_options& how) {
  if (call.kind == collective_kind::barrier) {
    return error(errc::unsupported,
                 "collective not planned \"barrier\": expected a collective with inputs "
                 "and outputs, found one that only orders ranks")
        .hint("tasks of an engine are ordered by the regions that they touch");
  }
  if (inputs.size() != outputs.size() || inputs.size() > max_ranks) {
    return refuse(call,
                  fmt::format("as many outputs as inputs, at most {} of each", max_ranks),
                  fmt::format("{} inputs and {} outputs", inputs.size(), outputs.size()));
  }
  topology shape;
  shape.workers = static_cast<int>(e.workers());
  WEIR_TRY(collective_plan plan,
           plan_collective(call, static_cast<int>(inputs.size()), shape, how));
  const touched_bytes touched = touched_by(plan);
  auto s = std::make_unique<state>(e, std::move(plan));
  for (std::size_t r = 0; r < inputs.size(); ++r) {
    WEIR_CHECK(check_tensor(call, inputs[r], touched.inputs[r], "input", r));
    WEIR_CHECK(check_tensor(call, outputs[r], touched.outputs[r], "output", r));
    // Tensors that the plan does not touch are replaced by empty ones, so that the
    // collective does not keep them.
    s->inputs.push_back(touched.inputs[r] != 0 ? inputs[r] : tensor());
    s->outputs.push_back(touched.outputs[r] != 0 ? outputs[r] : tensor());
    s->input_bytes.push_back(s->inputs[r].data());
    s->output_bytes.push_back(s->outputs[r].data());
  }
  WEIR_CHECK(check_apart(call, touched, inputs, outputs));
  const auto scratch = static_cast<std::int64_t>(s->plan.scratch_bytes());
  WEIR_TRY(s->scratch, e.allocate(std::max<std::int64_t>(scratch, 1), "collectives"));
  // its destructor releases the scratch if the rest fails
  region_collective out(std::move(s));
  WEIR_CHECK(out.state_->find_regions());
  return out;
}

region_collective::region_collective(std::unique_ptr<state> s) noexcept
    : state_(std::move(s)) {}
region_collective::region_collective(region_collective&& from) noexcept = default;

region_collective& region_collective::operator=(region_collective&& from) noexcept {
  std::swap(state_, from.state_);
  return *this;
}

region_collective::~region_collective() {
  if (state_ != nullptr) {
    static_cast<void>(state_->owner.release(state_->scratch.id));
  }
}

std::size_t region_collective::tasks() const noexcept {
  return state_->plan.steps().size();
}

result<void> region_collective::submit() {
  const state& s = *state_;
  // ends with a zero, because it is a literal
  const char* const name = name_of(s.plan.call().kind).data();
  // A step goes to the same worker in each run, because its piece is in that worker's
  // cache. Worker 0 is the submitter.
  const unsigned own = std::min(s.owner.workers() - 1, max_chosen_worker);
  const bool chooses = own > 1 && s.plan.options().how == algorithm::direct;
  for (std::uint32_t i = 0; i < tasks(); ++i) {
    submit_options with;
    if (chooses) {
      with.worker = static_cast<std::uint8_t>(1 + i % own);
    }
    const std::span accesses =
        std::span(s.accesses)
            .subspan(s.first_access[i], s.first_access[i + 1] - s.first_access[i]);
    WEIR_CHECK(s.owner.submit(
        name, accesses, [&s, i](const task_context&) { return s.run(i); }, with));
  }
  return {};
}

}  // namespace weir::collective
