// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tables of handles, statuses, and the texts of errors.
///
/// The text of an error belongs to the thread that made the call. It is kept until the
/// next error of that thread.
///
/// The path of a call: `run` sets up the watch of profilers and the guard against
/// exceptions, the body turns handles into objects with `find`, checks its arguments and
/// calls the layer below, and an error becomes a status with a text for the thread.
///
/// A handle is a number with the kind of object, a slot of the table and a generation, so
/// a handle of another kind or of an object that was destroyed names nothing.
#include "capi/objects.hpp"

#include <pthread.h>

#include <atomic>
#include <cstring>
#include <utility>

#include <fmt/core.h>

#include "weir/base/clock.hpp"

namespace weir::tessera::capi {
namespace {

// The last error of each thread, for tessGetLastErrorMessage.
// Freed with the thread.
thread_local last_error_text last;  // NOLINT

// Null until the first call. Replaced in children of `fork`.
std::atomic<tables*> current{nullptr};  // NOLINT

// The innermost watched call of this thread.
thread_local call_watch* current_watch = nullptr;  // NOLINT

// Return the context that an object belongs to, or null.
// One function for each kind of object; the template covers those with a member
// `context`.
std::shared_ptr<context> context_of(const std::shared_ptr<context>& c) {
  return c;
}
std::shared_ptr<context> context_of(const std::shared_ptr<stream_object>& s) {
  return s->stream->mesh()->context;
}
/// An event that was never recorded has no context.
std::shared_ptr<context> context_of(const std::shared_ptr<event_object>& e) {
  const std::lock_guard lock(e->mutex);
  return e->context.lock();
}
/// A module under construction needs no context.
std::shared_ptr<context> context_of(const std::shared_ptr<fatbin_object>&) {
  return nullptr;
}
template <class Object>
std::shared_ptr<context> context_of(const std::shared_ptr<Object>& o) {
  return o->context;
}

/// Notes the context of an object for the profilers, if there is one.
template <class Object>
void watch(const std::shared_ptr<Object>& found) {
  if (!call_watch::nobody_listens()) {
    call_watch::concerns(context_of(found));
  }
}

/// Returns the object of a handle. @error{`code`; the handle names no object}
/// The object is held by the result, so a thread that destroys the handle meanwhile does
/// no harm.
template <class Table, class Handle>
auto look_up(Table& table, Handle h, std::string_view call, std::string_view object,
             errc code = errc::invalid_argument) -> result<decltype(table.get(0))> {
  auto found = table.get(number_of(h));
  if (found == nullptr) {
    return no_object(call, object, code);
  }
  watch(found);
  return found;
}

}  // namespace

// The child of a fork begins with empty tables of a much higher generation, so handles of
// the parent name no object there. The parent's tables are not destroyed, because their
// contexts would wait for threads that the child does not have.
// The handler runs in the child before `fork` returns, when only one thread exists.
tables& all() {
  static const bool watches = [] {
    current = new tables(1);
    pthread_atfork(nullptr, nullptr, [] {
      // Handles of both could only agree if the parent had used one slot 65,536 times.
      constexpr std::uint32_t apart = 1U << 16;
      current = new tables(current.load()->first + apart);
    });
    return true;
  }();
  static_cast<void>(watches);
  return *current.load(std::memory_order_relaxed);
}

// True in all children of a process that had used the library, and in their children.
bool forked() noexcept {
  const tables* const now = current.load(std::memory_order_relaxed);
  return now != nullptr && now->first != 1;
}

// Watches of one thread form a list, because a callback may call a function of the
// interface inside of another call.
call_watch::call_watch(const char* name) noexcept
    : name_(name), start_ns_(now_ns()), before_(std::exchange(current_watch, this)) {}

call_watch::~call_watch() {
  current_watch = before_;
}

// Only the first context counts, which is that of the object named first.
void call_watch::concerns(const std::shared_ptr<context>& found) noexcept {
  if (current_watch != nullptr && current_watch->context_ == nullptr) {
    current_watch->context_ = found;
  }
}

// A call that has found no object concerns no context and is not reported.
void call_watch::end(tessStatus_t status) noexcept {
  if (context_ == nullptr) {
    return;
  }
  if (const auto observer = context_->observer()) {
    observer->called({name_, tessera::number_of_this_thread(), start_ns_, now_ns(),
                      tessGetErrorName(status)});
  }
}

// Keeps a literal: this cannot fail, so it is used when memory is short.
tessStatus_t fail(tessStatus_t status, const char* text) noexcept {
  last.keep_literal(text);
  return status;
}

// Keeping the text may need memory. Without it, the status is still the right one.
tessStatus_t fail(const error& e) noexcept {
  try {
    last.keep(e.message());
    return status_of(e.code());
  } catch (...) {
    return fail(status_of(e.code()), "call failed: no memory for the reason");
  }
}

// Every error code has a status; codes without one of their own are invalid values.
tessStatus_t status_of(errc code) noexcept {
  switch (code) {
    case errc::out_of_memory:
    case errc::no_space: return TESS_ERR_OUT_OF_MEMORY;
    case errc::not_initialized: return TESS_ERR_NOT_INITIALIZED;
    case errc::kernel_failed:
    case errc::upstream_failed:
    case errc::stopping:
    case errc::abandoned:
    case errc::rank_lost:
    case errc::device_lost:
    case errc::cancelled:
    case errc::internal: return TESS_ERR_LAUNCH_FAILED;
    case errc::arch_mismatch: return TESS_ERR_ARCH_MISMATCH;
    case errc::unsupported: return TESS_ERR_UNSUPPORTED;
    case errc::diverged:
    case errc::collective_mismatch: return TESS_ERR_COLLECTIVE_MISMATCH;
    case errc::determinism_violation: return TESS_ERR_DETERMINISM_VIOLATION;
    case errc::timeout: return TESS_ERR_TIMEOUT;
    case errc::unsupported_version: return TESS_ERR_ABI_VERSION_MISMATCH;
    case errc::cache_corrupt: return TESS_ERR_CACHE_CORRUPT;
    default: return TESS_ERR_INVALID_VALUE;
  }
}

// A missing argument is an error of the call and names what is missing.
error null_argument(std::string_view call, std::string_view argument) {
  return {errc::invalid_argument,
          fmt::format("{} failed: expected {}, found null", call, argument)};
}

// In the child of a fork, every handle of the parent fails; the hint says why.
error no_object(std::string_view call, std::string_view object, errc code) {
  error e(forked() ? errc::not_initialized : code,
          fmt::format("{} failed: expected a live {}, found null or one that is gone",
                      call, object));
  if (!forked()) {
    return e;
  }
  return std::move(e).hint(
      "this process was forked from one that had called tessInit, "
      "whose handles it cannot use: call tessInit here, too");
}

// The limit in nanoseconds must fit into 64 bits.
result<void> check_limit(std::string_view call, std::int64_t least,
                         std::int64_t milliseconds) {
  constexpr std::int64_t max_milliseconds = INT64_MAX / 1'000'000;
  // `least` is -1 for calls with a default, and 0 for all others.
  if (milliseconds < least || milliseconds > max_milliseconds) {
    return error(errc::invalid_argument,
                 fmt::format("{} failed: expected milliseconds in [{}, {}], found {}",
                             call, least, max_milliseconds, milliseconds));
  }
  return {};
}

// A later version may give the member a meaning, so programs must not put anything there.
result<void> check_reserved(std::string_view call, std::int64_t found) {
  if (found != 0) {
    return error(errc::invalid_argument,
                 fmt::format("{} failed: expected 0 in the reserved member, found {}",
                             call, found));
  }
  return {};
}

// A worker that waits for other tasks could wait for itself.
result<void> outside_tasks(std::string_view call) {
  if (tessera::inside_task()) {
    return error(errc::invalid_argument,
                 fmt::format("{} failed: expected a thread of the program, found a "
                             "kernel, a function in a stream or a callback",
                             call));
  }
  return {};
}

result<std::shared_ptr<context>> find(tessContext_t h, std::string_view call) {
  return look_up(all().contexts, h, call, "context", errc::not_initialized);
}
result<std::shared_ptr<mesh>> find(tessMesh_t h, std::string_view call) {
  return look_up(all().meshes, h, call, "mesh", errc::not_initialized);
}
result<std::shared_ptr<stream_object>> find(tessStream_t h, std::string_view call) {
  return look_up(all().streams, h, call, "stream");
}
result<std::shared_ptr<event_object>> find(tessEvent_t h, std::string_view call) {
  return look_up(all().events, h, call, "event");
}
result<std::shared_ptr<module_object>> find(tessModule_t h, std::string_view call) {
  return look_up(all().modules, h, call, "module");
}
result<std::shared_ptr<kernel_object>> find(tessKernel_t h, std::string_view call) {
  return look_up(all().kernels, h, call, "kernel");
}
result<std::shared_ptr<graph_object>> find(tessGraph_t h, std::string_view call) {
  return look_up(all().graphs, h, call, "graph");
}
result<std::shared_ptr<exec_object>> find(tessGraphExec_t h, std::string_view call) {
  return look_up(all().execs, h, call, "executable graph");
}

result<std::shared_ptr<fatbin_object>> find(tessFatbin_t h, std::string_view call) {
  return look_up(all().fatbins, h, call, "module in the making");
}

// An event belongs to the context of the stream that records it first, until that context
// is gone. The raw pointer is compared only while the context is alive.
result<void> bind_event(event_object& e, context& to, std::string_view call) {
  // The lock of the event is held by the caller.
  const bool there = !e.context.expired();
  if (there && e.bound == &to) {
    return {};
  }
  if (there) {
    return error(errc::invalid_argument,
                 fmt::format("{} failed: expected an event and a stream of one context, "
                             "found two",
                             call));
  }
  e.context = to.weak_from_this();
  e.bound = &to;
  return {};
}

result<std::shared_ptr<context>> any_context(std::string_view call) {
  if (auto found = all().contexts.any()) {
    return found;
  }
  return error(errc::not_initialized,
               fmt::format("{} failed: expected a context, found none", call))
      .hint("tessInit makes one");
}

// `*size` is set to the needed size in any case, and a null buffer asks for it.
result<void> copy_text(std::string_view call, std::string_view text, char* buffer,
                       std::size_t* size) {
  if (size == nullptr) {
    return null_argument(call, "a size");
  }
  // The zero at the end counts, so a program can allocate exactly this size.
  const std::size_t needed = text.size() + 1;
  const std::size_t capacity = std::exchange(*size, needed);
  if (buffer == nullptr) {
    return {};
  }
  if (capacity < needed) {
    return error(errc::invalid_argument,
                 fmt::format("{} failed: expected space for {} bytes, found {}", call,
                             needed, capacity));
  }
  std::memcpy(buffer, text.data(), text.size());
  buffer[text.size()] = '\0';
  return {};
}

}  // namespace weir::tessera::capi

using namespace weir::tessera::capi;  // NOLINT: the functions of the interface are global

extern "C" {

// The text belongs to the library. An unknown number is no error.
const char* tessGetErrorName(tessStatus_t status) {
  switch (status) {
    case TESS_OK: return "TESS_OK";
    case TESS_ERR_INVALID_VALUE: return "TESS_ERR_INVALID_VALUE";
    case TESS_ERR_OUT_OF_MEMORY: return "TESS_ERR_OUT_OF_MEMORY";
    case TESS_ERR_NOT_INITIALIZED: return "TESS_ERR_NOT_INITIALIZED";
    case TESS_ERR_LAUNCH_FAILED: return "TESS_ERR_LAUNCH_FAILED";
    case TESS_ERR_ARCH_MISMATCH: return "TESS_ERR_ARCH_MISMATCH";
    case TESS_ERR_UNSUPPORTED: return "TESS_ERR_UNSUPPORTED";
    case TESS_ERR_COLLECTIVE_MISMATCH: return "TESS_ERR_COLLECTIVE_MISMATCH";
    case TESS_ERR_DETERMINISM_VIOLATION: return "TESS_ERR_DETERMINISM_VIOLATION";
    case TESS_ERR_TIMEOUT: return "TESS_ERR_TIMEOUT";
    case TESS_ERR_ABI_VERSION_MISMATCH: return "TESS_ERR_ABI_VERSION_MISMATCH";
    case TESS_ERR_CACHE_CORRUPT: return "TESS_ERR_CACHE_CORRUPT";
  }
  return "unknown status";
}

// Words for people; details of the last error come from `tessGetLastErrorMessage`.
const char* tessGetErrorString(tessStatus_t status) {
  switch (status) {
    case TESS_OK: return "success";
    case TESS_ERR_INVALID_VALUE: return "invalid argument or configuration";
    case TESS_ERR_OUT_OF_MEMORY: return "allocation failed";
    case TESS_ERR_NOT_INITIALIZED: return "context or mesh not initialized";
    case TESS_ERR_LAUNCH_FAILED: return "kernel launch failed";
    case TESS_ERR_ARCH_MISMATCH: return "module lacks a target for this device";
    case TESS_ERR_UNSUPPORTED: return "operation not supported";
    case TESS_ERR_COLLECTIVE_MISMATCH: return "participants disagree on a collective";
    case TESS_ERR_DETERMINISM_VIOLATION: return "numerics policy violated";
    case TESS_ERR_TIMEOUT: return "operation exceeded its time limit";
    case TESS_ERR_ABI_VERSION_MISMATCH: return "module of an incompatible ABI";
    case TESS_ERR_CACHE_CORRUPT: return "persistent cache failed validation";
  }
  return "unknown status";
}

const char* tessStatusString(tessStatus_t status) {
  return tessGetErrorString(status);
}

const char* tessGetLastErrorMessage(void) {
  return last.text();
}

}  // extern "C"
