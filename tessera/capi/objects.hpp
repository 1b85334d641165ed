// SPDX-License-Identifier: Apache-2.0
/// @file
/// What the handles of the C interface name, the tables of it all, and the frame that
/// every call runs in.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "capi/handles.hpp"
#include "tessera_ext.h"
#include "weir/tessera/module/fatbin.hpp"
#include "weir/tessera/stream/context.hpp"
#include "weir/tessera/stream/graph.hpp"
#include "weir/tessera/stream/stream.hpp"
#include "weir/tessera/stream/work.hpp"

namespace weir::tessera::capi {

using tessera::context;
using tessera::mesh;

struct module_object {
  std::shared_ptr<context> of;
  std::shared_ptr<const tessera::loaded_module> code;
  std::mutex mutex;
  std::map<std::string, std::uintptr_t, std::less<>> kernels;  ///< handles, by name
  bool gone = false;                                           ///< unloaded
};
struct kernel_object {
  std::shared_ptr<context> of;
  tessera::module_kernel what;
};
struct event_object {
  std::mutex mutex;
  std::weak_ptr<context> of;       ///< of the streams that record it, once one has
  const context* bound = nullptr;  ///< what `of` names, to be compared alone
  tessera::event point;
};
struct stream_object {
  std::shared_ptr<tessera::stream> what;
  std::atomic<std::uintptr_t> checked_mesh{0};  ///< handle of one that launches may name
};
struct graph_object {
  std::shared_ptr<context> of;
  std::shared_ptr<const tessera::graph> what;
};
struct exec_object {
  std::shared_ptr<context> of;
  std::shared_ptr<tessera::graph_exec> what;
};
/// A module that is being made; it copies the code that it is given.
struct fatbin_object {
  [[nodiscard]] tessera::fatbin_builder& change() {
    made.reset();
    return what;
  }

  std::mutex mutex;
  tessera::fatbin_builder what;
  std::list<byte_vector> code;
  /// Made when its size was asked for, until somebody fetches it or adds to it; signed by
  /// the key of this digest.
  std::optional<byte_vector> made;
  std::optional<tessera::digest256> made_with;
};
struct profiler_object;

struct tables {
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
/// Never destroyed: threads of the program may call until the very end. The child of a
/// fork gets tables of its own, which are empty: the threads that its parent's contexts
/// have do not exist there, so whatever waited for them would wait for ever.
[[nodiscard]] tables& all();
/// This process was forked from one that had called the library.
[[nodiscard]] bool forked() noexcept;

/// One call, for those who profile the context that it concerns.
/// @threads{belongs to the thread that makes the call}
class call_watch {
 public:
  explicit call_watch(const char* name) noexcept;
  ~call_watch();
  call_watch(const call_watch&) = delete;
  call_watch& operator=(const call_watch&) = delete;

  /// The call of this thread has found an object of this context. The first counts.
  static void concerns(const std::shared_ptr<context>& of) noexcept;
  void end(tessStatus_t status) noexcept;

  /// No context of the process is profiled.
  [[nodiscard]] static bool nobody_listens() noexcept {
    return listeners.load(std::memory_order_relaxed) == 0;
  }
  static inline std::atomic<int> listeners{0};  ///< profilers that are open

 private:
  const char* name_;
  std::int64_t start_ns_;
  std::shared_ptr<context> of_;
  call_watch* before_;  ///< the call that this one is made in
};

/// Notes the text for `tessGetLastErrorMessage`; a literal where there may be no memory.
tessStatus_t fail(tessStatus_t status, const char* text) noexcept;
tessStatus_t fail(const error& e) noexcept;
[[nodiscard]] tessStatus_t status_of(errc code) noexcept;

[[nodiscard]] error null_argument(std::string_view call, std::string_view argument);
[[nodiscard]] error no_context(std::string_view call, std::string_view what);
[[nodiscard]] error stale(std::string_view call, std::string_view what);
/// Calls that enqueue or wait are not for kernels, functions in streams and callbacks.
[[nodiscard]] result<void> outside_tasks(std::string_view call);
/// A time limit is one that the clock can count.
[[nodiscard]] result<void> check_limit(std::string_view call, std::int64_t least,
                                       std::int64_t milliseconds);

/// Runs the body of a call: errors become a status and a text, and so do exceptions.
template <class Body>
tessStatus_t status_of_body(Body&& body) noexcept {
  try {
    if (result<void> outcome = body(); !outcome) {
      return fail(outcome.error());
    }
    return TESS_OK;
  } catch (const std::bad_alloc&) {
    return fail(TESS_ERR_OUT_OF_MEMORY, "call failed: no memory");
  } catch (...) {
    return fail(TESS_ERR_LAUNCH_FAILED, "call failed: an exception");
  }
}

/// Runs the body of the call of this name. If somebody profiles the context that it
/// concerns, they hear of it.
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

/// Number behind an enumeration that a C program may have given any value.
template <class Enum>
[[nodiscard]] int value_of(const Enum& from) noexcept {
  int out = 0;
  static_assert(sizeof from == sizeof out);
  std::memcpy(&out, &from, sizeof out);
  return out;
}

template <class Handle>
[[nodiscard]] std::uintptr_t number_of(Handle h) noexcept {
  return reinterpret_cast<std::uintptr_t>(h);
}
template <class Handle>
[[nodiscard]] Handle handle_of(std::uintptr_t number) noexcept {
  return reinterpret_cast<Handle>(number);  // NOLINT: handles are numbers
}

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
/// The parameters that an array of descriptions says.
/// @error{invalid_argument, a description without its size, or of no kind or direction}
[[nodiscard]] result<std::vector<tessera::kernel_parameter>> parameters_of(
    const tessParamInfo* params, int count, std::string_view call);
/// @error{invalid_argument, the event is of streams of another context}
[[nodiscard]] result<void> bind_event(event_object& e, context& to,
                                      std::string_view call);
/// @error{invalid_argument, fields other than 0 and 1}
[[nodiscard]] result<void> check_policy(const tessNumericsPolicy& policy);
/// The context of calls that name none. @error{not_initialized, there is none}
[[nodiscard]] result<std::shared_ptr<context>> any_context(std::string_view call);

/// Copies a text with its terminating zero by the rule of `tessera_ext.h`.
[[nodiscard]] result<void> copy_text(std::string_view call, std::string_view text,
                                     char* buffer, std::size_t* size);
/// A structure of the caller's that may be longer or shorter than the library's: what
/// lies wholly inside `structSize` counts, everything else is 0.
/// @error{invalid_argument, too short to say anything, or more than the library knows of,
/// in bytes that are not 0}
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
  constexpr std::size_t most = 4096;  // no version of any structure is larger
  if (size > most) {
    return refuse("a structSize of at most " + std::to_string(most));
  }
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
/// @error{invalid_argument, a member that means nothing yet is not 0}
[[nodiscard]] result<void> check_reserved(std::string_view call, std::int64_t found);
/// True if the member lies wholly inside the caller's structure.
#define WEIR_HAS_MEMBER(from, type, member) \
  ((from).structSize >= offsetof(type, member) + sizeof((from).member))

/// Copies `filled` into the caller's structure, as much of it as the caller knows.
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
