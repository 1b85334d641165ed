// SPDX-License-Identifier: Apache-2.0
/// @file
/// Descriptions of running and waiting tasks. All fields are atomic, so the watchdog
/// reads them while tasks run; the texts may mix two moments but never read freed memory.
///
/// One place for each slot of the window, and one entry for each worker:
///
///   add        name, waits = 0, then the id: a reader that sees the id sees the rest
///   add_wait   the first predecessors, and how many there are
///   ended      id = 0
#include "tasks/wait_board.hpp"

#include <algorithm>

#include <fmt/core.h>

#include "weir/base/clock.hpp"

namespace weir::runtime {
namespace {

/// Largest number of waiting tasks that a report describes.
constexpr std::size_t max_described = 8;

}  // namespace

void wait_board::add(task_id id, const char* name) noexcept {
  place& p = places_[id & mask_];
  p.name.store(name, std::memory_order_release);
  p.waits.store(0, std::memory_order_release);
  p.postponed.store(false, std::memory_order_release);
  p.id.store(id, std::memory_order_release);
}

// The count goes on beyond the places, so that a report can say that there are more.
void wait_board::add_wait(task_id id, task_id before) noexcept {
  place& p = places_[id & mask_];
  const std::uint32_t count = p.waits.load(std::memory_order_relaxed);
  if (count < max_waits) {
    p.before[count].store(before, std::memory_order_release);
  }
  p.waits.store(count + 1, std::memory_order_release);
}

// The name is read before the id is compared: an equal id says that the name belongs to
// it.
std::string wait_board::named(task_id id) const {
  const place& p = places_[id & mask_];
  const char* const name = p.name.load(std::memory_order_acquire);
  if (p.id.load(std::memory_order_acquire) != id || name == nullptr) {
    return {};
  }
  return fmt::format("task {} \"{}\"", id, name);
}

/// Says what the task at `p` waits for. Only the first predecessors are noted. If all of
/// those have ended, but there were more, the others are called older tasks.
std::string wait_board::reasons_of(const place& p) const {
  if (p.postponed.load(std::memory_order_acquire)) {
    return "its completion";
  }
  const std::uint32_t count = p.waits.load(std::memory_order_acquire);
  std::string out;
  for (std::uint32_t i = 0; i < std::min(count, max_waits); ++i) {
    const std::string one = named(p.before[i].load(std::memory_order_acquire));
    out += one.empty() || out.empty() ? one : " and " + one;
  }
  if (out.empty()) {
    return count > max_waits ? "older tasks" : "a worker or its turn";
  }
  return out;
}

// Tasks without a trace have no time of their start, so it is taken here.
void wait_board::runs(unsigned worker, const task* t) noexcept {
  current_task& now = workers_[worker];
  now.name.store(t == nullptr ? nullptr : t->name, std::memory_order_relaxed);
  now.since.store(now_ns(), std::memory_order_relaxed);
  now.id.store(t == nullptr ? 0 : t->id, std::memory_order_relaxed);
}

void wait_board::submitter_waits(const task* t) noexcept {
  awaited_.name.store(t == nullptr ? nullptr : t->name, std::memory_order_relaxed);
  awaited_.id.store(t == nullptr ? 0 : t->id, std::memory_order_relaxed);
}

/// Says what each worker does. The watchdog reads while the workers write, and an entry
/// may mix two tasks; that is good enough for a message.
std::string wait_board::describe_workers() const {
  std::string out;
  const std::int64_t now = now_ns();
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    const task_id id = workers_[w].id.load(std::memory_order_relaxed);
    const char* name = workers_[w].name.load(std::memory_order_relaxed);
    out += w == 0 ? "" : "; ";
    if (id == 0 || name == nullptr) {
      out += fmt::format("worker {} runs nothing", w);
    } else {
      out += fmt::format(
          "worker {} runs task {} \"{}\" since {} ms", w, id, name,
          (now - workers_[w].since.load(std::memory_order_relaxed)) / 1'000'000);
    }
  }
  const task_id awaited = awaited_.id.load(std::memory_order_relaxed);
  const char* name = awaited_.name.load(std::memory_order_relaxed);
  if (awaited != 0 && name != nullptr) {
    out += fmt::format("; the submitter waits for task {} \"{}\"", awaited, name);
  }
  return out;
}

/// Says which tasks wait, oldest first and at most a few. Names are read again at the
/// end: a task that has ended in the meantime is left out.
std::string wait_board::describe_waits() const {
  // Tasks that run are described by their workers.
  const auto runs = [this](task_id id) {
    return std::any_of(workers_.begin(), workers_.end(), [id](const current_task& one) {
      return one.id.load(std::memory_order_relaxed) == id;
    });
  };
  std::vector<task_id> waiting;
  for (std::uint64_t i = 0; i <= mask_; ++i) {
    const task_id id = places_[i].id.load(std::memory_order_acquire);
    if (id != 0 && !runs(id)) {
      waiting.push_back(id);
    }
  }
  std::sort(waiting.begin(), waiting.end());
  std::string out;
  for (std::size_t i = 0; i < std::min(waiting.size(), max_described); ++i) {
    // The name is looked at last: it is empty if the place has got another task
    // meanwhile.
    const std::string reasons = reasons_of(places_[waiting[i] & mask_]);
    const std::string task_name = named(waiting[i]);
    out += task_name.empty() ? "" : fmt::format("; {} waits for {}", task_name, reasons);
  }
  if (waiting.size() > max_described) {
    out += fmt::format("; and {} more wait", waiting.size() - max_described);
  }
  return out;
}

}  // namespace weir::runtime
