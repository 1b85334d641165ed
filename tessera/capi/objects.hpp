// SPDX-License-Identifier: Apache-2.0
/// @file
/// The objects that handles of the C interface name, their tables, and the code around
/// each call.
///
/// Every function of the interface has the form `run([&] { ... })`: the body returns a
/// result, and `run` converts errors and exceptions to a status and keeps the text for
/// the thread. Objects are shared pointers, so an object that another thread destroys
/// stays alive until the call that uses it returns.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "tessera_ext.h"
#include "weir/base/capi/guard.hpp"
#include "weir/base/capi/handle_table.hpp"
#include "weir/tessera/module/fatbin.hpp"
#include "weir/tessera/stream/context.hpp"
#include "weir/tessera/stream/graph.hpp"
#include "weir/tessera/stream/native_stream.hpp"
#include "weir/tessera/stream/stream.hpp"
#include "weir/tessera/stream/work.hpp"

namespace weir::tessera::capi {

using tessera::context;
using tessera::mesh;

/// A loaded module and the handles of its kernels.
struct module_object {
  std::shared_ptr<tessera::context> context;
  std::shared_ptr<const tessera::loaded_module> code;
  std::mutex mutex;  ///< guards `kernels` and `gone`
  std::map<std::string, std::uintptr_t, std::less<>> kernels;  ///< handles by name
  bool gone = false;                                           ///< true: unloaded
};
/// A kernel of a module.
struct kernel_object {
  std::shared_ptr<tessera::context> context;
  tessera::module_kernel code;
};
/// An event. `mutex` guards `context` and `bound`, and orders recording and waiting.
struct event_object {
  std::mutex mutex;
  /// Context of the streams that record the event; empty: none has.
  std::weak_ptr<tessera::context> context;
  const tessera::context* bound = nullptr;  ///< value of `context`, for comparisons only
  tessera::event point;
};
/// A stream.
struct stream_object {
  std::shared_ptr<tessera::stream> stream;
  /// The native stream that it was made from, if there is one. Set before it has a
  /// handle.
  std::optional<tessera::native_stream> native;
  /// Handle of the stream's mesh, once a launch has named it: later launches compare only
  /// this number.
  std::atomic<std::uintptr_t> checked_mesh{0};
};
/// Lets a stream that was made from a native stream wait for what that stream has now. A
/// capture has nothing to wait for.
[[nodiscard]] inline result<void> wait_for_own_native(const stream_object& s) {
  return s.native && !s.stream->records() ? tessera::wait_native(*s.stream, *s.native)
                                          : result<void>();
}
/// Calls `enqueue`, which gives a stream work. If the stream was made from a native
/// stream, the work comes between what that stream has now and what it gets later.
template <class Enqueue>
[[nodiscard]] result<void> enqueue_in_order(const stream_object& to, Enqueue&& enqueue) {
  return tessera::in_order_with(to.native, *to.stream, std::forward<Enqueue>(enqueue));
}
/// Gives a stream an operation, see `enqueue_in_order`.
[[nodiscard]] inline result<void> post_in_order(const stream_object& to,
                                                tessera::ref<tessera::operation> made) {
  return enqueue_in_order(to, [&] { return to.stream->post(std::move(made)); });
}
/// A recorded graph.
struct graph_object {
  std::shared_ptr<tessera::context> context;
  std::shared_ptr<const tessera::graph> graph;
};
/// An executable graph.
struct exec_object {
  std::shared_ptr<tessera::context> context;
  std::shared_ptr<tessera::graph_exec> exec;
};
/// A module under construction.
struct fatbin_object {
  /// Returns the builder for a change, which makes the built container obsolete.
  [[nodiscard]] tessera::fatbin_builder& change() {
    made.reset();
    return builder;
  }

  std::mutex mutex;
  tessera::fatbin_builder builder;
  /// copies of the code that was added; the builder refers to them
  std::list<byte_vector> code;
  /// The container, from the query of its size until it is fetched or anything is
  /// changed.
  std::optional<byte_vector> made;
  std::optional<tessera::digest256>
      key_digest;  ///< digest of the key that signed `made`; empty: unsigned
};
struct profiler_object;

/// Kinds of objects that handles refer to: numbers of the tables.
namespace handle_kind {
inline constexpr std::uint8_t context = 1, mesh = 2, stream = 3, event = 4, module = 5,
                              kernel = 6, profiler = 7, graph = 8, graph_exec = 9,
                              fatbin = 10;
}  // namespace handle_kind

/// The tables of all handles of the process.
struct tables {
  /// Makes empty tables whose handles begin with this generation.
  explicit tables(std::uint32_t first_generation) : first(first_generation) {}

  std::uint32_t first;  ///< generation of all handles
  handle_table<context> contexts{handle_kind::context, first};
  handle_table<mesh> meshes{handle_kind::mesh, first};
  handle_table<stream_object> streams{handle_kind::stream, first};
  handle_table<event_object> events{handle_kind::event, first};
  handle_table<module_object> modules{handle_kind::module, first};
  handle_table<kernel_object> kernels{handle_kind::kernel, first};
  handle_table<profiler_object> profilers{handle_kind::profiler, first};
  handle_table<graph_object> graphs{handle_kind::graph, first};
  handle_table<exec_object> execs{handle_kind::graph_exec, first};
  handle_table<fatbin_object> fatbins{handle_kind::fatbin, first};
};
/// Returns the tables. They are never destroyed, because threads of the program may call
/// until the process ends. The child of a fork gets empty tables: the threads of its
/// parent's contexts do not exist there, so a wait for them would never end.
[[nodiscard]] tables& all();
/// Returns true if the library was used before this process was forked from its parent.
[[nodiscard]] bool forked() noexcept;

/// Reports one call to the profilers of the context that it concerns.
/// @threads{belongs to the thread that makes the call}
class call_watch {
 public:
  /// Begins the call `name`, whose text lives as long as the process.
  explicit call_watch(const char* name) noexcept;
  ~call_watch();
  call_watch(const call_watch&) = delete;
  call_watch& operator=(const call_watch&) = delete;

  /// Notes the context of an object that this thread's call has found. The first one
  /// counts.
  static void concerns(const std::shared_ptr<context>& found) noexcept;
  /// Reports the call to the observer of its context, if it has found one.
  void end(tessStatus_t status) noexcept;

  /// Returns true if no context of the process is profiled.
  [[nodiscard]] static bool nobody_listens() noexcept {
    return listeners.load(std::memory_order_relaxed) == 0;
  }
  static inline std::atomic<int> listeners{0};  ///< number of open profilers

 private:
  const char* name_;
  std::int64_t start_ns_;
  std::shared_ptr<context> context_;
  call_watch* before_;  ///< the call in which this one is made; null: none
};

/// Keeps a text for `tessGetLastErrorMessage`. A literal needs no memory.
tessStatus_t fail(tessStatus_t status, const char* text) noexcept;
/// Keeps the text of an error and returns its status.
tessStatus_t fail(const error& e) noexcept;
/// Returns the status for an error code.
[[nodiscard]] tessStatus_t status_of(errc code) noexcept;

/// Returns the error for an argument that must not be null.
[[nodiscard]] error null_argument(std::string_view call, std::string_view argument);
/// Returns the error for a handle that names no object.
/// @param object  The kind of object in words, such as "mesh".
/// @param code  `not_initialized` for contexts and meshes. The child of a fork, where the
/// library is not initialized, gets this code for all handles.
[[nodiscard]] error no_object(std::string_view call, std::string_view object,
                              errc code = errc::invalid_argument);
/// Refuses calls that enqueue or wait inside kernels, functions in streams and callbacks.
[[nodiscard]] result<void> outside_tasks(std::string_view call);
/// Checks that the clock can represent a time limit.
[[nodiscard]] result<void> check_limit(std::string_view call, std::int64_t least,
                                       std::int64_t milliseconds);

/// Runs the body of a call. Errors and exceptions become a status and a text.
template <class Body>
tessStatus_t status_of_body(Body&& body) noexcept {
  return guarded_call(
      [&] {
        const result<void> outcome = body();
        return outcome ? TESS_OK : fail(outcome.error());
      },
      [](errc kind, const char*) {
        return fail(status_of(kind), kind == errc::out_of_memory
                                         ? "call failed: no memory"
                                         : "call failed: an exception");
      });
}

/// Runs the body of the named call, and reports it to the profilers of the context that
/// it concerns. The default argument is the name of the calling function.
template <class Body>
tessStatus_t run(Body&& body, const char* name = __builtin_FUNCTION()) noexcept {
  if (call_watch::nobody_listens()) {
    return status_of_body(body);
  }
  call_watch watch(name);
  const tessStatus_t status = status_of_body(body);
  watch.end(status);
  return status;
}

/// Returns the number of an enumeration, to which a C program may have given any value.
template <class Enum>
[[nodiscard]] int value_of(const Enum& from) noexcept {
  int out = 0;
  static_assert(sizeof from == sizeof out);
  std::memcpy(&out, &from, sizeof out);
  return out;
}

/// Convert between handles, which programs see as pointers, and numbers.
template <class Handle>
[[nodiscard]] std::uintptr_t number_of(Handle h) noexcept {
  return reinterpret_cast<std::uintptr_t>(h);
}
template <class Handle>
[[nodiscard]] Handle handle_of(std::uintptr_t number) noexcept {
  return reinterpret_cast<Handle>(number);  // NOLINT: handles are numbers
}

/// Return the object of a handle. `call` is the name of the function, for messages.
/// @error{not_initialized; the handle of a context or mesh names no object}
/// @error{invalid_argument; another handle names no object}
[[nodiscard]] result<std::shared_ptr<context>> find(tessContext_t h,
                                                    std::string_view call);
[[nodiscard]] result<std::shared_ptr<mesh>> find(tessMesh_t h, std::string_view call);
[[nodiscard]] result<std::shared_ptr<stream_object>> find(tessStream_t h,
                                                          std::string_view call);
[[nodiscard]] result<std::shared_ptr<event_object>> find(tessEvent_t h,
                                                         std::string_view call);
[[nodiscard]] result<std::shared_ptr<module_object>> find(tessModule_t h,
                                                          std::string_view call);
[[nodiscard]] result<std::shared_ptr<kernel_object>> find(tessKernel_t h,
                                                          std::string_view call);
[[nodiscard]] result<std::shared_ptr<graph_object>> find(tessGraph_t h,
                                                         std::string_view call);
[[nodiscard]] result<std::shared_ptr<exec_object>> find(tessGraphExec_t h,
                                                        std::string_view call);
[[nodiscard]] result<std::shared_ptr<fatbin_object>> find(tessFatbin_t h,
                                                          std::string_view call);
/// Converts an array of parameter descriptions.
/// @error{invalid_argument; a description without its size, or of an unknown kind or
/// direction}
[[nodiscard]] result<std::vector<tessera::kernel_parameter>> parameters_of(
    const tessParamInfo* params, int count, std::string_view call);
/// Binds an event to a context.
/// @error{invalid_argument; the event belongs to streams of another context}
[[nodiscard]] result<void> bind_event(event_object& e, context& to,
                                      std::string_view call);
/// Checks a policy. @error{invalid_argument; a field is neither 0 nor 1}
[[nodiscard]] result<void> check_policy(const tessNumericsPolicy& policy);
/// Returns the context of calls that name none. @error{not_initialized; there is none}
[[nodiscard]] result<std::shared_ptr<context>> any_context(std::string_view call);

/// Copies a text with its terminating zero by the rule of `tessera_ext.h`.
[[nodiscard]] result<void> copy_text(std::string_view call, std::string_view text,
                                     char* buffer, std::size_t* size);
/// Copies a structure of the caller, which may be shorter or longer than the library's.
/// Members wholly inside `structSize` count; all others are 0.
/// @error{invalid_argument; null, shorter than `least` bytes, or longer than the library
/// knows with bytes that are not 0}
template <class Struct>
[[nodiscard]] result<Struct> read_struct(std::string_view call, const Struct* from,
                                         std::size_t least) {
  if (from == nullptr) {
    return null_argument(call, "a description");
  }
  const std::size_t size = from->structSize;
  const auto refuse = [&](std::string_view expected) {
    return error(errc::invalid_argument,
                 std::string(call) + " failed: expected " + std::string(expected) +
                     ", found a structSize of " + std::to_string(size));
  };
  if (size < least) {
    return refuse("a structSize of at least " + std::to_string(least));
  }
  const auto* const bytes = reinterpret_cast<const unsigned char*>(from);
  constexpr std::size_t max_size = 4096;  // no version of any structure is larger
  if (size > max_size) {
    return refuse("a structSize of at most " + std::to_string(max_size));
  }
  // A program may use a newer header, as long as it does not use what is new.
  for (std::size_t i = sizeof(Struct); i < size; ++i) {
    if (bytes[i] != 0) {
      return refuse("zeros behind the " + std::to_string(sizeof(Struct)) +
                    " bytes that this version knows");
    }
  }
  Struct out{};
  std::memcpy(&out, from, std::min(size, sizeof(Struct)));
  return out;
}
/// Checks a reserved member. @error{invalid_argument; it is not 0}
[[nodiscard]] result<void> check_reserved(std::string_view call, std::int64_t found);
/// Returns true if the member lies wholly inside the caller's structure.
#define WEIR_HAS_MEMBER(from, type, member) \
  ((from).structSize >= offsetof(type, member) + sizeof((from).member))

/// Copies `filled` into the caller's structure, up to the size that the caller knows.
template <class Struct>
[[nodiscard]] result<void> copy_struct(std::string_view call, Struct filled,
                                       Struct* out) {
  if (out == nullptr) {
    return null_argument(call, "the structure");
  }
  if (out->structSize < sizeof(std::uint32_t) * 2) {
    return error(errc::invalid_argument,
                 std::string(call) + " failed: expected structSize to be set, found " +
                     std::to_string(out->structSize));
  }
  const std::size_t bytes = std::min<std::size_t>(out->structSize, sizeof(Struct));
  filled.structSize = out->structSize;
  std::memcpy(out, &filled, bytes);
  return {};
}

}  // namespace weir::tessera::capi
