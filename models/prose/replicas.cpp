// SPDX-License-Identifier: Apache-2.0
/// @file
/// Spreading lanes over devices, submitting a pulse on all devices, and keeping the
/// replicas equal.
#include "prose/replicas.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

namespace weir::models {

namespace {

/// One array of a replica, with its name for error messages.
struct replica_part {
  const char* name;
  void* data;
  std::size_t bytes;
};

/// The whole buffer, with its padding.
template <class R>
replica_part part_of(const char* name, const buffer<R>& b) {
  return {name, b.data, static_cast<std::size_t>(b.count) * sizeof(R)};
}

/// Returns the arrays that every device has a copy of, in the same order for each device.
///
/// Contexts are not among them, because each lane is on one device.
std::vector<replica_part> parts_of(const model_state<float>& s) {
  std::vector<replica_part> out{part_of("parameters", s.parameters),
                                part_of("counters", s.counters)};
  for (const auto& moments : s.moments) {
    out.push_back(part_of("moments", moments));
  }
  for (const auto& errors : s.errors) {
    out.push_back(part_of("error buffers", errors));
  }
  return out;
}

}  // namespace

/// The tree over lanes must be cut between subtrees, so that sums have the same order on
/// any number of devices.
result<std::uint32_t> lanes_per_device(std::uint32_t lanes, std::uint32_t devices) {
  std::string possible;
  // Few lengths are possible, so all are tried.
  for (std::uint32_t run = 1; run < 2 * lanes; run *= 2) {
    const std::uint32_t needed = (lanes + run - 1) / run;
    if (needed == devices) {
      return run;
    }
    possible = fmt::format("{}{}{}", needed, possible.empty() ? "" : ", ", possible);
  }
  return error(
      errc::invalid_argument,
      fmt::format("spreading {} lanes over devices: expected {} of them, so that "
                  "each has a run of neighbours whose length is a power of two, "
                  "found {}",
                  lanes, possible, devices));
}

/// `state_` has the arrays of the first device and the lanes of all devices.
result<std::unique_ptr<replicas>> replicas::create(runtime::engine& engine,
                                                   const prose_config& config,
                                                   const kernel_table<float>& kernels,
                                                   std::uint32_t devices) {
  WEIR_TRY(const std::uint32_t run, lanes_per_device(config.lanes, devices));
  std::unique_ptr<replicas> r(new replicas(config));
  // One device needs no sum.
  if (devices > 1) {
    WEIR_TRY(r->sum_,
             device_sum::create(engine, devices, parameter_layout(config).size()));
  }
  prose_config own = config;
  // Each graph has its share of the lanes.
  for (std::uint32_t d = 0; d < devices; ++d) {
    own.lanes = std::min(run, config.lanes - d * run);
    WEIR_TRY(auto g, graph<float>::create(task_runner(&engine), own, kernels,
                                          r->sum_ ? r->sum_->part(d) : buffer<float>()));
    const auto& lanes = g->state().lanes;
    if (d == 0) {
      r->state_ = g->state();
    } else {
      // The lanes of all devices, in order.
      r->state_.lanes.insert(r->state_.lanes.end(), lanes.begin(), lanes.end());
    }
    r->graphs_.push_back(std::move(g));
  }
  return r;
}

/// Each device gets its neighbours.
void replicas::fill(std::vector<pulse_record>& records, const pulse& p,
                    std::span<const prose::lane_input> lanes,
                    std::span<const lane_clock> clocks) const {
  records.resize(graphs_.size());
  std::size_t first = 0;
  std::uint64_t scored = 0;
  for (std::size_t d = 0; d < graphs_.size(); ++d) {
    const std::size_t run = graphs_[d]->config().lanes;
    fill_record(records[d], p, lanes.subspan(first, run), clocks.subspan(first, run));
    first += run;
    scored += records[d].scored;
  }
  // The loss is the mean over the lanes of all devices, so each device divides by the
  // number of all scored rows.
  for (pulse_record& record : records) {
    record.scored = scored;
  }
}

/// All gradients come before the sum, and all steps behind it.
result<void> replicas::submit_pulse(std::vector<pulse_record>& records) {
  if (!sum_) {
    return graphs_.front()->submit_pulse(records.front());
  }
  for (std::size_t d = 0; d < graphs_.size(); ++d) {
    WEIR_CHECK(graphs_[d]->submit_gradients(records[d]));
  }
  // A pulse that does not build has no gradients.
  if (!records.front().builds) {
    return {};
  }
  WEIR_CHECK(sum_->submit());
  for (std::size_t d = 0; d < graphs_.size(); ++d) {
    // Every device does the same step.
    WEIR_CHECK(graphs_[d]->submit_step(records[d]));
  }
  return {};
}

/// Called while no task runs.
void replicas::spread() {
  const auto from = parts_of(state_);
  for (const auto& g : graphs_) {
    const auto to = parts_of(g->state());
    for (std::size_t i = 0; i < from.size(); ++i) {
      // The first device has the originals.
      if (to[i].data != from[i].data) {
        std::memcpy(to[i].data, from[i].data, from[i].bytes);
      }
    }
    // Counters that are known at submission must follow.
    g->submitted_counters().load_from(state_.counters.data);
  }
}

/// Compares bits, so it also finds two different zeros.
result<void> replicas::check() const {
  const auto first = parts_of(state_);
  for (std::size_t d = 1; d < graphs_.size(); ++d) {
    const auto other = parts_of(graphs_[d]->state());
    for (std::size_t i = 0; i < first.size(); ++i) {
      if (std::memcmp(first[i].data, other[i].data, first[i].bytes) != 0) {
        return error(errc::determinism_violation,
                     fmt::format("comparing the replicas: expected the {} of device 0 on "
                                 "device {}, found others",
                                 first[i].name, d));
      }
    }
  }
  return {};
}

}  // namespace weir::models
