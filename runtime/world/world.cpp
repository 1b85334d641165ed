// SPDX-License-Identifier: Apache-2.0
/// @file
/// The public interface of worlds. A world of one rank forwards to the engine.
///
/// `world::ranked` does the work if there are several ranks.
#include "weir/runtime/world.hpp"

#include <unistd.h>

#include <array>
#include <utility>

#include <fmt/core.h>

#include "weir/base/hash.hpp"
#include "world/ranked.hpp"

namespace weir::runtime {

namespace {

/// Returns the failure of a task with the code, the location and the hint of its kernel.
///
/// So a program sees the same error with one rank and with several.
error as_on_several_ranks(const error& failed) {
  const error cause = *failed.cause();
  return error(cause.code(), failed.text())
      .located(cause.location())
      .hint(cause.hint())
      .because(cause);
}

}  // namespace

/// Waits for the end of all tasks of the engine, and runs tasks meanwhile.
/// Sleeps at most a millisecond at a time, since tasks may be ended by other threads.
void run_all(engine& tasks) {
  while (tasks.in_flight() != 0) {
    if (!tasks.run_one()) {
      tasks.idle(1'000'000);
    }
  }
}

/// For messages only.
std::string machine_name() {
  std::array<char, 64> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

/// Each line of a rank begins with it, so that lines of several ranks can be told apart.
std::string line_prefix(rank_id rank) {
  return fmt::format("[rank {} {}] ", rank, machine_name());
}

/// Arguments of a kernel are part of its identity.
void kernel_identity::add(std::span<const std::byte> bytes) noexcept {
  add(xxh3_64(bytes));
}

world::world(engine& tasks) : tasks_(&tasks) {}

/// A transport with one rank is the same as none.
world::world(engine& tasks, transport* link) : tasks_(&tasks) {
  if (link != nullptr && link->ranks() > 1) {
    rank_ = link->rank();
    ranks_ = link->ranks();
    is_pretended_ = link->is_pretended();
    watcher_ = link->watches_kernels() ? link : nullptr;
    ranked_ = std::make_unique<ranked>(tasks, *link);
  }
}
/// Kernels may refer to objects that the world keeps.
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
/// With one rank all bytes are there.
result<void> world::bring_everywhere(const tensor& t) {
  const std::array<access, 1> accesses{reads(t)};
  return ranked_ ? ranked_->bring(accesses) : result<void>();
}
result<void> world::wait() {
  result<void> outcome = ranked_ ? ranked_->wait() : tasks_->wait_all();
  // The engine wraps the error of the kernel.
  if (!ranked_ && !outcome && outcome.error().cause() != nullptr) {
    outcome = as_on_several_ranks(outcome.error());
  }
  // All tasks have ended, so no kept object is in use.
  kept_.clear();
  return outcome;
}

/// Drops the kept objects whose tasks have ended: those at the front each time, and all
/// others each time that their number has doubled, because a task that runs for long may
/// stand in front of them.
void world::drop_kept() {
  while (!kept_.empty() && tasks_->ended(kept_.front().first)) {
    kept_.pop_front();
  }
  if (kept_.size() >= sweep_at_) {
    std::erase_if(kept_, [this](const auto& one) { return tasks_->ended(one.first); });
    // The next sweep comes when the number has doubled.
    sweep_at_ = 2 * kept_.size() + 64;
  }
}
// Called only if there are several ranks; a single rank submits to the engine directly.
result<bool> world::submit_with(const world_submission& with, const char* name,
                                std::span<const access> accesses,
                                std::uint64_t identity) {
  return ranked_->submit(with, name, accesses, identity);
}
/// On one rank the tasks of a series are submitted one after another.
result<void> world::submit_series(const std::shared_ptr<const task_series>& all) {
  if (!kept_.empty()) {
    drop_kept();
  }
  if (ranked_) {
    return ranked_->submit_series(all);
  }
  for (std::int64_t task = 0; task < all->size(); ++task) {
    WEIR_CHECK(all->start(task, 0));
  }
  return {};
}
bool world::records() const noexcept {
  return ranked_->records();
}
void world::record_start(std::function<result<void>(std::uint64_t)> again) {
  ranked_->record_start(std::move(again));
}
void world::record_kept(kept_object keep) {
  ranked_->record_kept(std::move(keep));
}
void world::begin_step() {
  if (ranked_) {
    ranked_->begin_step();
  }
}
// A single rank passes no steps: the program makes every call.
result<bool> world::pass_step() {
  return ranked_ ? ranked_->pass_step() : result<bool>(false);
}
std::int64_t world::take_back_steps() noexcept {
  return ranked_ ? ranked_->take_back_steps() : 0;
}
result<void> world::end_step() {
  return ranked_ ? ranked_->end_step() : result<void>();
}
result<void> world::end_steps() {
  return ranked_ ? ranked_->end_steps() : result<void>();
}
/// In a replay the step of the recording is shifted.
std::uint64_t world::step_of(std::uint64_t step, const task_context& context) noexcept {
  const auto* const replay = static_cast<const replay_run*>(context.argument);
  return replay == nullptr ? step : step + replay->steps;
}
error world::fail(error cause) {
  return ranked_->fail(std::move(cause));
}
std::uint64_t world::step() const noexcept {
  return ranked_->step();
}
// Of one rank there are no pieces.
bool world::needs_pieces() const noexcept {
  return ranked_ != nullptr && ranked_->needs_pieces();
}
void world::note_failure(std::uint64_t step, const char* name, const error& cause) {
  ranked_->note_failure(step, name, cause);
}
/// With one rank, the answer is its own.
result<bool> world::stops_here() {
  return ranked_ ? ranked_->stops_here()
                 : result<bool>(asked_to_stop_.load(std::memory_order_relaxed) ||
                                stop_signal_arrived());
}
/// May be called from any thread.
void world::ask_to_stop() noexcept {
  asked_to_stop_.store(true, std::memory_order_relaxed);
  if (ranked_) {
    ranked_->ask_to_stop();
  }
}
/// With one rank nothing is counted, so all counters are 0.
const world_counters& world::counters() const noexcept {
  static constexpr world_counters none;
  return ranked_ ? ranked_->counters() : none;
}

void world::explain_failures(std::function<std::string()> advice) {
  if (ranked_) {
    ranked_->explain_failures(std::move(advice));
  }
}

result<std::vector<world_counters>> world::gather_counters() {
  if (ranked_) {
    return ranked_->gather_counters();
  }
  WEIR_CHECK(wait());
  return std::vector<world_counters>{counters()};
}

}  // namespace weir::runtime
