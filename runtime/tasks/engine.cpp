// SPDX-License-Identifier: Apache-2.0
/// @file
/// The engine's public face: creation, storages, waits, counters.
#include "weir/runtime/engine.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <exception>

#include <fmt/format.h>

#include "tasks/engine_impl.hpp"

namespace weir::runtime {
namespace {

constexpr unsigned max_workers = 1024;
constexpr std::uint32_t most_window = 1U << 24;

}  // namespace

result<std::unique_ptr<engine>> engine::create(const engine_options& options) {
  if (options.workers < 1 || options.workers > max_workers) {
    return error(errc::invalid_argument,
                 fmt::format("engine not created: expected 1 to {} workers, found {}",
                             max_workers, options.workers));
  }
  if (options.first_task == 0) {
    return error(errc::invalid_argument,
                 "engine not created: expected a first task of at least 1, found 0");
  }
  if (options.max_workers > max_workers ||
      (options.max_workers != 0 && options.max_workers < options.workers)) {
    return error(errc::invalid_argument,
                 fmt::format("engine not created: expected {} to {} places for workers, "
                             "found {}",
                             options.workers, max_workers, options.max_workers));
  }
  if (options.heap < 0) {
    return error(errc::invalid_argument,
                 fmt::format("engine not created: expected a heap of at least 0 bytes, "
                             "found {}",
                             options.heap));
  }
  if (!std::has_single_bit(options.window) || options.window < 2 ||
      options.window > most_window) {
    return error(
        errc::invalid_argument,
        fmt::format("engine not created: expected a window that is a power of two in "
                    "[2, {}], found {}",
                    most_window, options.window));
  }
  try {
    return std::unique_ptr<engine>(new engine(std::make_unique<impl>(options)));
  } catch (const std::exception& e) {  // no memory for the window, no more threads
    return error(
        errc::out_of_memory,
        fmt::format("engine not created: expected room for a window of {} and {} "
                    "workers, found: {}",
                    options.window, options.workers, e.what()));
  }
}

engine::engine(std::unique_ptr<impl> state) : impl_(std::move(state)) {}
engine::~engine() = default;

result<storage> engine::allocate(std::int64_t bytes, std::string_view owner) {
  WEIR_TRY(storage s, impl_->storages.allocate(bytes, owner));
  impl_->search.map().add_storage(s.id.index);
  return s;
}

storage engine::adopt(std::byte* base, std::int64_t bytes, std::string_view owner) {
  WEIR_EXPECT(bytes >= 0 && (base != nullptr || bytes == 0));
  storage s = impl_->storages.adopt(base, bytes, owner);
  impl_->search.map().add_storage(s.id.index);
  return s;
}

result<void> engine::release(storage_id id) {
  if (!impl_->storages.valid(id)) {
    return error(
        errc::not_found,
        fmt::format("release of an unknown storage: expected a live one, found index {} "
                    "generation {}",
                    id.index, id.generation));
  }
  footprint all;
  all.id = id;
  all.hi = all.run = impl_->storages.size(id);
  task_id failed = 0;
  if (!all.empty()) {
    // A pruned access was ordered before the write that covers it, so waiting for the
    // rest waits for all.
    for (const task_id user : impl_->users(all, true, failed)) {
      static_cast<void>(impl_->wait_for(user));
    }
  }
  impl_->retire(impl_->window);
  // A user may have ended behind an older task that still runs: its entries must go
  // before the index does.
  while (!all.empty() && !impl_->users(all, true, failed).empty()) {
    impl_->workers.help_until_ended(impl_->at(impl_->oldest));
    impl_->retire(impl_->window);
  }
  // Who only keeps it is not in the map.
  while (impl_->oldest <= impl_->storages.kept_by(id)) {
    impl_->workers.help_until_ended(impl_->at(impl_->oldest));
    impl_->retire(impl_->window);
  }
  if (impl_->storages.fresh(id)) {
    return give_up(id);  // its place in the ring goes after those of older ones
  }
  impl_->search.map().remove_storage(id.index);
  impl_->storages.release(id);
  ++impl_->releases;
  return {};
}

std::uint64_t engine::impl::ended_tasks() const noexcept {
  std::uint64_t out = 0;
  for (unsigned w = 0; w < workers.workers(); ++w) {
    out += workers.tally_of(w).finished.load(std::memory_order_relaxed);
  }
  return out;
}

void engine::impl::start_watchdog() {
  watchdog::view view;
  view.ended = [this] { return ended_tasks(); };
  view.busy = [this] {
    return tallies.submitted.load(std::memory_order_relaxed) != ended_tasks();
  };
  view.describe = [this] {
    const std::uint64_t ended = ended_tasks();
    return fmt::format("{}; {} tasks have not ended{}",
                       workers.board()->describe_workers(),
                       tallies.submitted.load(std::memory_order_relaxed) - ended,
                       workers.board()->describe_waits());
  };
  view.report = options.on_stall;
  if (view.report == nullptr) {
    view.report = [](const std::string& text) {
      std::fprintf(stderr, "weir: %s\n", text.c_str());
    };
  }
  dog = std::make_unique<watchdog>(options.watchdog_ns, std::move(view));
}

std::vector<task_id> engine::impl::users(const footprint& bytes, bool readers_too,
                                         task_id& failed) {
  show_replays(0);
  std::vector<task_id> out;
  const auto note = [&](access_ref, const access_entry& e) { out.push_back(e.task); };
  failed = search.map().failure_in(bytes);
  search.map().conflicts(bytes, true, note);
  if (readers_too) {
    search.map().conflicts(bytes, false, note);
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

result<void> engine::impl::wait_for(task_id id) {
  if (id == 0 || id >= next) {
    return error(
        errc::invalid_argument,
        fmt::format("wait for an unknown task: expected an id in [1, {}), found {}", next,
                    id));
  }
  if (id < oldest) {
    if (auto failed = failures.retired(id)) {
      return std::move(*failed);
    }
    return {};
  }
  task& t = at(id);
  workers.help_until_ended(t);
  if (const task_id root = t.root.load(std::memory_order_relaxed); root != 0) {
    return failures.answer(id, t.name, root);
  }
  return {};
}

result<void> engine::wait(task_id id) {
  return impl_->wait_for(id);
}

result<void> engine::wait(const tensor& t) {
  if (t.bytes().empty()) {
    return {};
  }
  if (!impl_->storages.valid(t.bytes().id)) {
    return error(
        errc::not_found,
        fmt::format("wait for a tensor of an unknown storage: expected a live one, found "
                    "index {} generation {}",
                    t.bytes().id.index, t.bytes().id.generation));
  }
  task_id failed = 0;
  result<void> out;
  for (const task_id writer : impl_->users(t.bytes(), false, failed)) {
    if (auto one = impl_->wait_for(writer); !one && out) {
      out = std::move(one);
    }
  }
  if (failed != 0 && out) {
    return impl_->failures.tensor_answer(failed);
  }
  return out;
}

result<void> engine::wait_all() {
  impl& s = *impl_;
  if (s.oldest < s.next) {  // going from task to task would mean many starts and stops
    s.workers.help_until_ended(s.at(s.next - 1));
  }
  while (s.oldest < s.next) {
    s.workers.help_until_ended(s.at(s.oldest));
    s.retire(s.window);
  }
  s.search.map().forget_failures();
  if (auto first = s.failures.take_first()) {
    return std::move(*first);
  }
  return {};
}

bool engine::ended(task_id id) const noexcept {
  return impl_->has_ended(id);
}
std::uint32_t engine::free_slots() {
  impl_->retire(impl_->window);
  return impl_->window - static_cast<std::uint32_t>(impl_->next - impl_->oldest);
}
std::uint32_t engine::window() const noexcept {
  return impl_->window;
}
bool engine::run_one() {
  return impl_->workers.run_one();
}
void engine::idle(std::int64_t timeout_ns) {
  impl_->workers.idle(timeout_ns);
}
void engine::wake() noexcept {
  impl_->workers.wake();
}
void engine::begin_batch() noexcept {
  impl_->workers.begin_batch();
}
void engine::end_batch() {
  impl_->workers.end_batch();
}

result<void> engine::serve(const std::stop_token& leave) {
  if (!impl_->workers.serve(leave)) {
    return error(errc::out_of_range,
                 fmt::format("thread not taken as a worker: expected a free place of {}, "
                             "found none",
                             impl_->workers.workers()))
        .hint("engine_options::max_workers says how many there are");
  }
  return {};
}

engine_counters engine::counters() const noexcept {
  const impl::submitter_tally& s = impl_->tallies;
  const auto get = [](const auto& counter) {
    return counter.load(std::memory_order_relaxed);
  };
  engine_counters out;
  out.submitted = get(s.submitted);
  out.replayed = get(s.replayed);
  const auto edges = [&](hazard why) {
    return get(s.edges[static_cast<std::size_t>(why)]);
  };
  out.edges_raw = edges(hazard::raw);
  out.edges_war = edges(hazard::war);
  out.edges_waw = edges(hazard::waw);
  out.edges_asked = edges(hazard::asked) + edges(hazard::told);
  out.lookups = get(s.lookups);
  const dependency_map::counters& found = impl_->search.map().counted();
  out.candidates = get(found.candidates);
  out.exact_tests = get(found.tests);
  out.maybe = get(found.maybe);
  out.pruned = get(found.pruned);
  out.edges_pruned = impl_->search.implied();
  out.window_stalls = get(s.window_stalls);
  out.access_stalls = get(s.access_stalls);
  out.edge_stalls = get(s.edge_stalls);
  out.heap_stalls = get(s.heap_stalls);
  std::int64_t ticks = 0;
  for (unsigned w = 0; w < impl_->workers.workers(); ++w) {
    const worker_tally& t = impl_->workers.tally_of(w);
    out.finished += t.finished.load(std::memory_order_acquire);
    out.failed += get(t.failed);
    out.poisoned += get(t.poisoned);
    out.parks += get(t.parks);
    out.kernel_ns += get(t.kernel_ns);
    ticks += get(t.kernel_ticks);
  }
  out.kernel_ns += impl_->workers.clock().to_ns(ticks);
  return out;
}

unsigned engine::workers() const noexcept {
  return impl_->workers.workers();
}
std::vector<std::pair<std::string, std::int64_t>> engine::memory() const {
  return impl_->storages.memory();
}
trace& engine::tracer() noexcept {
  return impl_->tracer;
}

}  // namespace weir::runtime
