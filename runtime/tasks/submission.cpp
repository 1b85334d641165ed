// SPDX-License-Identifier: Apache-2.0
/// @file
/// From a submission to a wired task: slot, look-ups, registration, edges, publication.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "tasks/engine_impl.hpp"

namespace weir::runtime {
namespace {

/// Who looks whether the newest tasks have ended takes their cache lines from the workers
/// that run them, so they are left alone for a while; then some are retired together,
/// more than have come in between, so that a backlog shrinks.
constexpr std::uint64_t left_alone = 128;
constexpr std::uint32_t submissions_per_look = 32;
constexpr std::uint32_t retired_per_look = 64;
/// Slots ahead of the one in use whose lines are asked back from who ran them last.
constexpr std::uint64_t slots_ahead = 8;
constexpr std::uint32_t usual_accesses = 16;  // of a task
constexpr std::uint32_t usual_edges = 16;
constexpr std::uint32_t most_accesses = UINT16_MAX;
constexpr std::uint64_t most_freed_at_once = 64;

/// The access whose tasks run in any order: the first that wants it, if any. A second
/// one goes by submission, lest two tasks wait for each other.
const access* in_any_order(std::span<const access> accesses) noexcept {
  for (const access& a : accesses) {
    if (a.mode == access_mode::commute_any && !a.bytes.empty()) {
      return &a;
    }
  }
  return nullptr;
}

std::uint64_t next_serial() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

}  // namespace

engine::impl::impl(const engine_options& o)
    : options(o),
      window(o.window),
      records(o.window, engine::max_capture),
      heap(static_cast<std::uint64_t>(o.heap)),
      search(o.accesses != 0 ? o.accesses : o.window * usual_accesses, o.window),
      serial(next_serial()),
      most_blocks(((o.edges != 0 ? o.edges : o.window * std::size_t{usual_edges}) +
                   successor_block::room - 1) /
                  successor_block::room),
      group_of_slot(o.window),
      tracer(o.trace, std::max(o.workers, o.max_workers)),
      workers(o, failures, tracer) {
  next = oldest = o.first_task;
  if (o.watchdog_ns > 0) {
    start_watchdog();
  }
  records.join(slots);
  slots.groups = group_of_slot.data();
  if (o.trace.mode != trace_mode::off) {
    histories = std::make_unique<task_history[]>(o.window);
  }
}

bool engine::impl::too_many(std::span<const access> accesses) const noexcept {
  return accesses.size() > std::min(search.map().most(), most_accesses);
}

bool engine::impl::allowed(std::span<const access> accesses) const noexcept {
  return !too_many(accesses) &&
         std::all_of(accesses.begin(), accesses.end(), [this](const access& a) {
           const footprint& bytes = a.bytes;
           return bytes.empty() || storages.holds(bytes.id, bytes.lo, bytes.hi);
         });
}

bool engine::impl::all_plain(std::span<const access> accesses) const noexcept {
  for (const access& a : accesses) {
    if (a.mode > access_mode::read_write ||
        !storages.holds(a.bytes.id, a.bytes.lo, a.bytes.hi)) {
      return false;
    }
  }
  return !too_many(accesses);
}

error engine::impl::refusal(std::span<const access> accesses) const {
  for (const access& a : accesses) {
    const footprint& bytes = a.bytes;
    if (bytes.empty()) {
      continue;
    }
    if (!storages.valid(bytes.id)) {
      return error(
          errc::not_found,
          fmt::format("submission with an unknown storage: expected a live one, found "
                      "index {} generation {}",
                      bytes.id.index, bytes.id.generation));
    }
    if (!storages.holds(bytes.id, bytes.lo, bytes.hi)) {
      return error(
          errc::out_of_range,
          fmt::format("submission leaves its storage: expected bytes below {}, found "
                      "[{}, {})",
                      storages.size(bytes.id), bytes.lo, bytes.hi));
    }
  }
  return error(
      errc::out_of_range,
      fmt::format("submission with many accesses: expected at most {}, found {}",
                  std::min(search.map().most(), most_accesses), accesses.size()));
}

bool engine::impl::has_room(std::size_t accesses) const noexcept {
  return next % submissions_per_look != 0 && !full(1) && search.map().room() >= accesses;
}

void engine::impl::make_room(std::uint32_t count, std::size_t accesses) {
  if (count == 1 && next % submissions_per_look == 0 && next - oldest >= left_alone) {
    retire(retired_per_look);
  }
  if (count != 1 || full(count) || search.map().room() < accesses) {
    retire(window);
  }
  if (full(count) || search.map().room() < accesses) {
    wait_for_room(count, accesses);
  }
}

void engine::impl::wait_for_room(std::uint32_t count, std::size_t accesses) {
  if (full(count)) {
    stall(count);
  }
  if (search.map().room() < accesses) {
    tally<std::uint64_t>(tallies.access_stalls);
  }
  while (full(count) || search.map().room() < accesses) {
    workers.help_until_ended(at(oldest));
    retire(window);
  }
}

void engine::impl::stall(std::uint32_t count) {
  tally<std::uint64_t>(tallies.window_stalls);
  // Several at once: starting and stopping to help costs more than many tasks.
  const std::uint64_t batch = std::clamp<std::uint64_t>(
      window / 8, count, std::max(most_freed_at_once, std::uint64_t{count}));
  workers.help_until_ended(at(std::min(oldest + batch, next) - 1));
  retire(window);
}

void engine::impl::retire(std::uint32_t most) {
  while (oldest < next) {
    if (!replays.empty() && replays.front().first <= oldest) {
      if (!retire_replay(replays.front())) {
        return;
      }
      continue;
    }
    task& t = records.tasks[oldest & (window - 1)];
    if (most-- == 0 || !t.ended()) {
      return;
    }
    retire_one(t);
  }
}

void engine::impl::clean_up(task& t) {
  const task_id root = t.root.load(std::memory_order_relaxed);
  if (root != 0) {
    failures.retire(t.id, t.name, root);
  }
  search.map().retire(t.accesses, root);
  t.accesses = 0;
  if (t.exclusive) {
    leave_group(t);
  }
  const std::uint32_t count =
      t.successors.load(std::memory_order_relaxed) & (task::closed - 1);
  if (count > successor_block::room) {
    return_blocks(t, count);
  }
}

void engine::impl::begin_history(task& t, task_history& h, std::int64_t now) {
  h = task_history{};
  h.submitted = now;
  h.pulse = tracer.pulse();
  h.keep = tracer.keeps();
  t.history = &h;
}

result<void> engine::impl::check(const submit_options& with) const {
  for (const task_id id : with.after) {
    if (id == 0 || id >= next) {
      return error(errc::invalid_argument,
                   fmt::format("submission after an unknown task: expected an id in "
                               "[1, {}), found {}",
                               next, id));
    }
  }
  return {};
}

[[gnu::always_inline]] inline task& engine::impl::prepare(const char* name,
                                                          const erased_kernel& kernel,
                                                          const submit_options& with) {
  const std::size_t index = next & (window - 1);
  const std::size_t ahead = (next + slots_ahead) & (window - 1);
  prefetch_to_write(&records.tasks[ahead]);
  prefetch_to_write(&records.successors[ahead]);
  task& t = records.tasks[index];
  t.id = next;
  t.fn = kernel.fn;
  t.name = name;
  t.urgent = with.urgent;
  t.exclusive = false;
  t.worker = with.worker;
  t.root.store(0, std::memory_order_relaxed);
  t.pending.store(wiring_guard, std::memory_order_relaxed);
  t.batch = recording == nullptr ? &slots : &recording->recording;
  t.history = nullptr;
  if (tracer.recording()) {
    begin_history(t, histories[index], now_ns());
  }
  if (kernel.size != 0) {
    std::memcpy(values_of(t), kernel.captures, kernel.size);
  }
  // Nobody can reach the slot before an edge or the queue shows it.
  t.successors.store(0, std::memory_order_relaxed);
  return t;
}

void engine::impl::look_up(task& t, std::span<const access> accesses, bool prune,
                           const access* grouped) {
  search.start(t.id);
  const std::uint64_t count = search.look_up_all(accesses, prune, grouped);
  if (search.failure() != 0) {
    t.poison(search.failure());
  }
  tally(tallies.lookups, count);
}

void engine::impl::join_group(task& t) {
  exclusion* group = nullptr;
  if (const task_id other = search.companion(); other != 0) {
    group = group_of(at(other));
  } else if (!free_groups.empty()) {
    group = free_groups.back();
    free_groups.pop_back();
  } else {
    groups.push_back(std::make_unique<exclusion>());
    free_groups.reserve(groups.size());
    group = groups.back().get();
  }
  ++group->members;
  t.exclusive = true;
  group_of(t) = group;
}

void engine::impl::leave_group(task& t) noexcept {
  exclusion* const group = group_of(t);
  t.exclusive = false;
  if (--group->members == 0) {
    free_groups.push_back(group);
  }
}

[[gnu::always_inline]] inline void engine::impl::enter_plain(
    task& t, std::span<const access> accesses) {
  search.start(t.id);
  search.enter_plain(accesses, t.id);
  t.accesses = static_cast<std::uint16_t>(accesses.size());
  if (search.failure() != 0) {
    t.poison(search.failure());
  }
  tally<std::uint64_t>(tallies.lookups, accesses.size());
  if (storages.any_fresh()) {
    keep_unregistered(t, accesses, false);
  }
}

void engine::impl::register_accesses(task& t, std::span<const access> accesses,
                                     bool manual, const access* grouped) {
  t.accesses = 0;
  if (!manual) {
    t.accesses = static_cast<std::uint16_t>(search.insert_all(accesses, t.id, grouped));
  }
  keep_unregistered(t, accesses, manual);
}

void engine::impl::keep_unregistered(const task& t, std::span<const access> accesses,
                                     bool manual) {
  for (const access& a : accesses) {
    const bool ordered = !manual && a.mode != access_mode::none;
    if (!a.bytes.empty() && (!ordered || storages.fresh(a.bytes.id))) {
      storages.keep(a.bytes.id, t.id);
    }
  }
}

void engine::impl::add_asked(task& t, task_id before, bool manual) {
  if (before >= oldest) {
    search.add(before, manual ? hazard::told : hazard::asked);
  } else if (const task_id root = manual ? failures.retired_root(before) : 0; root != 0) {
    t.poison(root);
  }
}

successor_block* engine::impl::take_block() {
  if (free_blocks == nullptr) {
    if (blocks.size() == most_blocks) {
      return nullptr;
    }
    blocks.push_back(std::make_unique<successor_block>());
    free_blocks = blocks.back().get();
  }
  return std::exchange(free_blocks, free_blocks->next);
}

void engine::impl::return_block(successor_block& block) noexcept {
  block.next = std::exchange(free_blocks, &block);
}

void engine::impl::return_blocks(const task& t, std::uint32_t successors) noexcept {
  successor_block* block = successors_of(t).next;
  for (std::uint32_t i = successor_block::room; i < successors;
       i += successor_block::room) {
    return_block(*std::exchange(block, block->next));
  }
}

void engine::impl::inherit(task& t, const task& ended, hazard why) noexcept {
  const task_id root = ended.root.load(std::memory_order_relaxed);
  if (root != 0 && carries_failure(why)) {
    t.poison(root);
  }
}

successor* engine::impl::add_room(task& before, std::uint32_t count) {
  successor_block& first = successors_of(before);
  if (count % successor_block::room != 0) {
    return &first.newest->tasks[count % successor_block::room];
  }
  successor_block* const block = take_block();
  if (block == nullptr) {
    // It depends on older tasks alone, so it ends whatever becomes of this one.
    tally<std::uint64_t>(tallies.edge_stalls);
    workers.help_until_ended(before);
    return nullptr;
  }
  // Nobody looks at these two before there are more successors.
  (count == successor_block::room ? first : *first.newest).next = block;
  first.newest = block;
  return block->tasks.data();
}

[[gnu::always_inline]] inline bool engine::impl::hang(task& t, task& before,
                                                      successor_block& successors,
                                                      hazard why) {
  const std::uint32_t count = before.successors.load(std::memory_order_acquire);
  successor* place = nullptr;
  if (count < successor_block::room) {
    place = &successors.tasks[count];
  } else if (count < task::closed) {
    place = add_room(before, count);
  }
  if (place != nullptr) {
    *place = successor(t, carries_failure(why));
    if (workers.count_successor(before, count)) {
      tally<std::uint64_t>(tallies.edges[static_cast<std::size_t>(why)]);
      return true;
    }
    if (count >= successor_block::room && count % successor_block::room == 0) {
      return_block(*successors.newest);
    }
  }
  inherit(t, before, why);
  return false;
}

bool engine::impl::wire_one(task& t, task& before, hazard why) {
  return hang(t, before, successors_of(before), why);
}

template <class Find>
[[gnu::always_inline]] inline std::uint32_t engine::impl::wire_to(task& t, Find&& find) {
  std::uint32_t edges = 0;
  for (const predecessor_list::item p : search.found()) {
    const auto [before, successors] = find(p.id);
    edges += static_cast<std::uint32_t>(hang(t, *before, *successors, p.why));
  }
  return edges;
}

[[gnu::always_inline]] inline std::uint32_t engine::impl::wire_in_window(task& t) {
  task* const tasks = records.tasks.get();
  successor_block* const successors = records.successors.get();
  const std::uint64_t mask = window - 1;
  return wire_to(t, [=](task_id id) {
    return std::pair(tasks + (id & mask), successors + (id & mask));
  });
}

std::uint32_t engine::impl::wire(task& t) {
  return replays.empty() ? wire_in_window(t) : wire_to(t, [this](task_id id) {
    task& before = at(id);
    return std::pair(&before, &successors_of(before));
  });
}

void engine::impl::show_waits(const task& t) {
  for (const predecessor_list::item p : search.found()) {
    workers.board()->add_wait(t.id, p.id);
  }
}

result<task_id> engine::submit_erased(const char* name, std::span<const access> accesses,
                                      const erased_kernel& kernel,
                                      const submit_options& with) {
  impl& s = *impl_;
  bool plain = s.all_plain(accesses);
  if (!plain && !s.allowed(accesses)) {
    return s.refusal(accesses);
  }
  if (!with.after.empty()) {
    WEIR_CHECK(s.check(with));
  }
  if (!s.has_room(accesses.size())) {
    s.make_room(1, accesses.size());
  }
  if (!s.replays.empty()) {
    s.show_replays(accesses.size());
  }
  task& t = s.prepare(name, kernel, with);
  const bool manual = s.scopes.manual();
  plain = plain && !manual;
  const access* grouped = nullptr;
  if (plain) {
    s.enter_plain(t, accesses);
  } else if (manual) {
    s.search.start(t.id);
  } else {
    grouped = in_any_order(accesses);
    s.look_up(t, accesses, true, grouped);
  }
  if (grouped != nullptr) {
    s.join_group(t);
  }
  for (const task_id before : with.after) {
    s.add_asked(t, before, manual);
  }
  if (!plain) {
    s.register_accesses(t, accesses, manual, grouped);
  }
  ++s.next;
  if (s.dog != nullptr) {
    s.workers.board()->add(t.id, name);
    s.show_waits(t);
  }
  const std::uint32_t edges = s.replays.empty() ? s.wire_in_window(t) : s.wire(t);
  tally<std::uint64_t>(s.tallies.submitted);
  if (s.recording != nullptr) {
    s.recording->add({name, kernel.fn, static_cast<std::uint32_t>(kernel.size)},
                     kernel.captures, accesses, with, manual);
  }
  const task_id id = t.id;
  if (edges == 0) {
    s.workers.publish(t);
  } else {
    s.workers.publish(t, wiring_guard - static_cast<std::int32_t>(edges));
  }
  return id;
}

}  // namespace weir::runtime
