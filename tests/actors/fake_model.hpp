// SPDX-License-Identifier: Apache-2.0
/// @file
/// A model without an engine. Its state is a hash of all tokens that it was given, in
/// their order, and a pulse takes a number of steps.
#pragma once

#include <deque>
#include <memory>
#include <optional>

#include "orchestrator/pulse_model.hpp"
#include "weir/base/hash.hpp"

namespace weir::test {

/// Counts and settings that the model and the test share, so that the test sees what
/// happens inside an actor.
struct fake_log {
  std::uint64_t pulses = 0;
  std::uint64_t snapshots = 0;
  std::optional<std::uint64_t> fail_at;  ///< pulse whose kernel fails
  std::uint64_t steps = 3;               ///< calls of run_one that a pulse takes
};

/// The model; snapshots hold its hash.
class fake_model final : public actors::pulse_model {
 public:
  explicit fake_model(std::shared_ptr<fake_log> log, std::uint64_t start = 0)
      : log_(std::move(log)), state_(start) {}
  std::size_t depth() const override { return 3; }

  result<actors::work_ticket> submit(const actors::pulse_order& order) override {
    xxh3_stream hash;
    add(hash, state_);
    add(hash, order.pulse.id);
    add(hash, static_cast<std::uint64_t>(order.pulse.phase));
    add(hash, order.pulse.active_levels);
    std::uint64_t tokens = 0;
    for (const auto& lane : order.lanes) {
      for (const std::uint32_t t : lane ? lane->tokens : std::vector<std::uint32_t>{}) {
        add(hash, t);
        ++tokens;
      }
      add(hash, ~std::uint64_t{0});
    }
    state_ = hash.digest();
    work w{++last_, log_->steps, {}, log_->fail_at == order.pulse.id, {}};
    w.result.scored = tokens;
    w.result.nats_q32 = tokens << 32;
    works_.push_back(std::move(w));
    return last_;
  }
  result<actors::work_ticket> snapshot(
      std::shared_ptr<actors::state_snapshot> to) override {
    store_le(to->bytes.data(), state_);
    works_.push_back({++last_, 1, {}, false, std::move(to)});
    return last_;
  }
  bool ended(actors::work_ticket ticket) override {
    return works_.empty() || works_.front().ticket > ticket || works_.front().steps == 0;
  }
  result<models::pulse_result> finish(actors::work_ticket) override {
    const work w = std::move(works_.front());
    works_.pop_front();
    ++log_->pulses;
    if (w.fails) {
      return error(errc::kernel_failed, "task step failed")
          .because(error(errc::out_of_range, "a row is out of range"));
    }
    return w.result;
  }
  result<void> finish_snapshot(actors::work_ticket) override {
    works_.pop_front();
    ++log_->snapshots;
    return {};
  }
  bool run_one() override {
    if (works_.empty() || works_.front().steps == 0) {
      return false;
    }
    --works_.front().steps;
    return true;
  }
  void idle(std::int64_t) override {}
  std::int64_t kernel_ns() const override { return 0; }
  std::uint64_t state_bytes() const override { return 8; }
  void span(const char*, const char*, std::int64_t, std::int64_t) override {}
  result<actors::engine_report> report(const actors::trace_order&) override {
    actors::engine_report r;
    r.parameter_hash = state_;
    return r;
  }

 private:
  struct work {
    actors::work_ticket ticket = 0;
    std::uint64_t steps = 0;
    models::pulse_result result;
    bool fails = false;
    std::shared_ptr<actors::state_snapshot> snapshot;
  };
  static void add(xxh3_stream& hash, std::uint64_t value) {
    std::byte raw[8];
    store_le(raw, value);
    hash.update(raw);
  }

  std::shared_ptr<fake_log> log_;
  std::uint64_t state_;
  std::uint64_t last_ = 0;
  std::deque<work> works_;
};

}  // namespace weir::test
