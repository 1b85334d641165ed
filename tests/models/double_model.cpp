// SPDX-License-Identifier: Apache-2.0
/// @file
/// The graph in double precision, and the records and clocks that tests need for it.
#include "models/double_model.hpp"

#include "prose/graph/parts.hpp"
#include "prose/kernels/select.hpp"
#include "prose/record.hpp"

namespace weir::models {

template class graph<double>;

}  // namespace weir::models

namespace weir::test {

double_model::double_model(const prose_config& config)
    : graph_(or_throw(graph<double>::create(models::task_runner(nullptr), config,
                                            models::double_kernels()))),
      clocks_(config.lanes) {}

double double_model::run(const std::vector<lane_text>& lanes, bool builds,
                         std::uint32_t active, std::uint64_t update,
                         std::uint64_t total) {
  std::vector<models::prose::lane_input> inputs;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    models::prose::lane_input in;
    in.tokens = lanes[i].tokens;
    in.position = clocks_[i].position;
    if (lanes[i].lookahead >= 0) {
      in.lookahead = static_cast<std::uint32_t>(lanes[i].lookahead);
    }
    inputs.push_back(in);
  }
  models::pulse p;
  p.phase = builds ? models::pulse_phase::build : models::pulse_phase::test;
  p.active_levels = active;
  p.update = update;
  p.total_updates = total;
  models::fill_record(record_, p, inputs, clocks_);
  or_throw(graph_->submit_pulse(record_));
  double nats = 0;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    clocks_[i] = record_.lanes[i].after;
    for (const auto& w : record_.lanes[i].windows) {
      nats += w.nats[0] + w.nats[1];
    }
  }
  return nats / static_cast<double>(record_.scored);
}

template <class F>
void double_model::each_context_buffer(F f) {
  for (auto& lane : graph_->state().lanes) {
    for (auto& block : lane.blocks) {
      f(block.tail);
      for (auto& open : block.open) {
        f(open);
      }
      for (auto& level : block.memories) {
        for (auto& m : level) {
          f(m.memory);
          f(m.accumulator);
          f(m.open);
        }
      }
    }
    f(lane.pending);
  }
}

std::vector<double> double_model::save_contexts() {
  std::vector<double> out;
  each_context_buffer([&](auto& b) { out.insert(out.end(), b.data, b.data + b.count); });
  for (const auto& clock : clocks_) {
    out.push_back(static_cast<double>(clock.position));
    out.push_back(static_cast<double>(clock.pending));
  }
  return out;
}

void double_model::load_contexts(const std::vector<double>& saved) {
  std::size_t next = 0;
  each_context_buffer([&](auto& b) {
    std::copy_n(saved.begin() + static_cast<std::ptrdiff_t>(next), b.count, b.data);
    next += static_cast<std::size_t>(b.count);
  });
  for (auto& clock : clocks_) {
    clock.position = static_cast<std::uint64_t>(saved[next++]);
    clock.pending = static_cast<std::uint64_t>(saved[next++]);
  }
}

}  // namespace weir::test
