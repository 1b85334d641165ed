// SPDX-License-Identifier: Apache-2.0
/// @file
/// The public interface of the engine: creation, storages, scopes, captures, threads. The
/// work is done by the parts in engine_impl.hpp.
#include "weir/runtime/engine.hpp"

#include <bit>
#include <exception>
#include <utility>

#include <fmt/core.h>

#include "engine/engine_impl.hpp"

namespace weir::runtime {
namespace {

/// Limits of the options. Memory for records is proportional to the window.
constexpr unsigned max_workers = 1024;
constexpr std::uint32_t max_window = 1U << 24;

}  // namespace

/// Checks all options before any part is made. Lack of memory or threads becomes an
/// error.
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
      options.window > max_window) {
    return error(
        errc::invalid_argument,
        fmt::format("engine not created: expected a window that is a power of two in "
                    "[2, {}], found {}",
                    max_window, options.window));
  }
  try {
    return std::unique_ptr<engine>(new engine(std::make_unique<impl>(options)));
  } catch (const std::exception& e) {  // no memory for the window, or no more threads
    return error(
        errc::out_of_memory,
        fmt::format("engine not created: expected memory for a window of {} and {} "
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

// The memory stays the program's; the engine only gives it an id.
storage engine::adopt(std::byte* base, std::int64_t bytes, std::string_view owner) {
  WEIR_EXPECT(bytes >= 0 && (base != nullptr || bytes == 0));
  storage s = impl_->storages.adopt(base, bytes, owner);
  impl_->search.map().add_storage(s.id.index);
  return s;
}

// Scopes and fresh memory.

// The object that was moved from closes nothing.
scope::scope(scope&& from) noexcept
    : engine_(std::exchange(from.engine_, nullptr)), serial_(from.serial_) {}

scope& scope::operator=(scope&& from) noexcept {
  if (this != &from) {
    close();
    engine_ = std::exchange(from.engine_, nullptr);
    serial_ = from.serial_;
  }
  return *this;
}

// Closes inner scopes as well. A second call does nothing.
void scope::close() noexcept {
  if (engine_ != nullptr) {
    std::exchange(engine_, nullptr)->close_scope(serial_);
  }
}

result<scope> engine::open_scope(std::string_view name, scope_kind kind) {
  WEIR_TRY(const std::uint64_t serial, impl_->fresh.open_scope(name, kind));
  return scope(this, serial);
}
void engine::close_scope(std::uint64_t serial) noexcept {
  impl_->fresh.close_scope(serial);
}
result<storage> engine::fresh(std::int64_t bytes) {
  return impl_->fresh.make(bytes);
}
result<tensor> engine::fresh_like(const tensor& before) {
  return impl_->fresh.make_like(before, false);
}
result<tensor> engine::renew(const tensor& before) {
  return impl_->fresh.make_like(before, true);
}
result<void> engine::give_up(storage_id id) {
  return impl_->fresh.give_up(id);
}

// Captures.

result<void> engine::begin_capture(const void* argument) {
  return impl_->captured.begin(argument);
}
bool engine::is_capturing() const noexcept {
  return impl_->captured.is_recording();
}
result<capture> engine::end_capture(capture_use use) {
  WEIR_TRY(auto graph, impl_->captured.end(use));
  return capture(std::move(graph));
}
result<task_id> engine::replay(const capture& recording, const void* argument) {
  return impl_->captured.replay(recording.graph_, argument);
}
result<void> engine::rebind_erased(const capture& recording, std::size_t index,
                                   const void* captures, std::size_t size, call_fn fn) {
  if (recording.graph_ == nullptr) {
    return error(errc::invalid_argument,
                 "captured values not replaced: expected a capture, found none");
  }
  return recording.graph_->rebind(index, captures, size, fn);
}

// The submitter's thread, and others.

bool engine::ended(task_id id) const noexcept {
  return impl_->window.has_ended(id);
}
// Counts the places of ended tasks as free.
std::uint32_t engine::free_slots() {
  task_window& w = impl_->window;
  w.retire_ended();
  return w.capacity() - static_cast<std::uint32_t>(w.next() - w.oldest());
}
// Retires ended tasks only if that may change the answer.
bool engine::accepts(std::size_t accesses) {
  task_window& w = impl_->window;
  if (!w.has_space(accesses)) {
    w.retire_ended();
  }
  return w.fits(accesses);
}
std::uint64_t engine::add_poller(std::function<bool()> poller) {
  return impl_->workers.add_poller(std::move(poller));
}
void engine::remove_poller(std::uint64_t number) noexcept {
  impl_->workers.remove_poller(number);
}
std::uint32_t engine::window() const noexcept {
  return impl_->window.capacity();
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

// Returns when the thread was asked to leave or the engine ends.
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
