// SPDX-License-Identifier: Apache-2.0
/// @file
/// The public interface of worlds. A world of one rank forwards to the engine.
#include "weir/runtime/world.hpp"

#include <array>
#include <utility>

#include "weir/runtime/stop_signals.hpp"
#include "world/ranked.hpp"

namespace weir::runtime {

void run_all(engine& tasks) {
  while (tasks.in_flight() != 0) {
    if (!tasks.run_one()) {
      tasks.idle(1'000'000);
    }
  }
}

world::world(engine& tasks) : tasks_(&tasks) {}

world::world(engine& tasks, transport* link) : tasks_(&tasks) {
  if (link != nullptr && link->ranks() > 1) {
    rank_ = link->rank();
    ranks_ = link->ranks();
    ranked_ = std::make_unique<ranked>(tasks, *link);
  }
}
world::~world() {
  if (!ranked_) {
    run_all(*tasks_);
  }
}

result<storage> world::allocate(std::int64_t bytes, std::string_view owner) {
  return ranked_ ? ranked_->allocate(bytes, owner) : tasks_->allocate(bytes, owner);
}
result<void> world::release(storage_id id) {
  return ranked_ ? ranked_->release(id) : tasks_->release(id);
}
result<void> world::bring_everywhere(const tensor& t) {
  const std::array<access, 1> accesses{reads(t)};
  return ranked_ ? ranked_->bring(accesses) : result<void>();
}
result<void> world::wait() {
  result<void> outcome = ranked_ ? ranked_->wait() : tasks_->wait_all();
  kept_.clear();
  return outcome;
}

/// Objects behind one whose task runs for long are looked at as well, each time that the
/// number of objects has doubled.
void world::drop_kept() {
  while (!kept_.empty() && tasks_->ended(kept_.front().first)) {
    kept_.pop_front();
  }
  if (kept_.size() >= sweep_at_) {
    std::erase_if(kept_, [this](const auto& one) { return tasks_->ended(one.first); });
    sweep_at_ = 2 * kept_.size() + 64;
  }
}
result<bool> world::submit_with(const world_submission& with, const char* name,
                                std::span<const access> accesses) {
  return ranked_->submit(with, name, accesses);
}
error world::fail(error cause) {
  return ranked_->fail(std::move(cause));
}
std::uint64_t world::step() const noexcept {
  return ranked_->step();
}
void world::note_failure(std::uint64_t step, const char* name, const error& cause) {
  ranked_->note_failure(step, name, cause);
}
result<bool> world::stops_here() {
  return ranked_ ? ranked_->stops_here()
                 : result<bool>(asked_to_stop_.load(std::memory_order_relaxed) ||
                                stop_signal_arrived());
}
void world::ask_to_stop() noexcept {
  asked_to_stop_.store(true, std::memory_order_relaxed);
  if (ranked_) {
    ranked_->ask_to_stop();
  }
}
const world_counters& world::counters() const noexcept {
  static constexpr world_counters none;
  return ranked_ ? ranked_->counters() : none;
}

result<std::vector<world_counters>> world::gather_counters() {
  if (ranked_) {
    return ranked_->gather_counters();
  }
  WEIR_CHECK(wait());
  return std::vector<world_counters>{counters()};
}

}  // namespace weir::runtime
