// SPDX-License-Identifier: Apache-2.0
/// @file
/// Contexts, devices, meshes and the numerics policy.
///
/// Log function and allocator are settings of the process. A context takes them over when
/// it is made and keeps them until its end.
///
/// The order of events at the end of a context matters most here, see `close_context`:
/// handles disappear, persistent kernels are asked to stop, streams end, the context
/// waits for its operations, and only then are the objects released.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>

#include <fmt/core.h>

#include "capi/objects.hpp"
#include "capi/profiler.hpp"
#include "weir/base/system/fork.hpp"

namespace weir::tessera::capi {
namespace {

/// The log function of contexts that are made from now on.
/// `mutex` guards all members.
struct log_target {
  std::mutex mutex;
  tessLogFn fn = nullptr;
  void* user = nullptr;        ///< passed to `fn`
  std::set<std::string> said;  ///< warnings that were written to standard error
};
/// Returns the log function of the process. It is never destroyed, because contexts may
/// write to the log until the process ends, and its lock is usable in children of `fork`.
log_target& logs() {
  static auto* const made = new log_target;
  // A thread that holds the lock during `fork` does not exist in the child, which could
  // otherwise wait for it for ever.
  static const bool watched = unlock_in_child_of_fork(made->mutex);
  static_cast<void>(watched);
  return *made;
}

/// The allocator of contexts that are made from now on. Null functions mean the runtime's
/// own memory.
struct process_allocator {
  std::mutex mutex;
  tessAllocFn alloc = nullptr;
  tessReleaseFn release = nullptr;
  void* user = nullptr;
};
/// Returns the allocator of the process. It is never destroyed.
process_allocator& memory() {
  static auto* const made = new process_allocator;
  static const bool watched = unlock_in_child_of_fork(made->mutex);
  static_cast<void>(watched);
  return *made;
}

/// Sets the allocator in the settings of a new context.
void allocate_by(tessera::runtime_settings& s) {
  const std::lock_guard lock(memory().mutex);
  // Both functions are set, or none (`tessSetAllocator`).
  if (memory().alloc != nullptr) {
    // The functions are copied, so a later change of the setting does not affect this
    // context.
    s.allocator.take = [alloc = memory().alloc, user = memory().user](
                           std::size_t bytes, std::size_t alignment) {
      return alloc(bytes, alignment, user);
    };
    s.allocator.give_back = [release = memory().release, user = memory().user](
                                void* address, std::size_t bytes) {
      release(address, bytes, user);
    };
  }
}

/// Sets the log function in the settings of a new context.
void listen(tessera::runtime_settings& s) {
  const std::lock_guard lock(logs().mutex);
  if (logs().fn != nullptr) {
    s.on_log = [fn = logs().fn, user = logs().user](tessera::log_level level,
                                                    std::string_view text) {
      // A C function needs a text that ends with a zero.
      fn(static_cast<tessLogLevel>(level), std::string(text).c_str(), user);
    };
  }
}

/// Reports a variable with a wrong value. If no log is on, the warning is written to
/// standard error, once in the process: a misspelt log level would otherwise hide its own
/// warning.
void warn(const context& c, const std::string& text) {
  if (c.settings().on_log || c.settings().log != tessera::log_level::silent) {
    c.log(tessera::log_level::info, text);
    return;
  }
  const std::lock_guard lock(logs().mutex);
  if (logs().said.insert(text).second) {
    std::fprintf(stderr, "tessera: %s\n", text.c_str());
  }
}

/// Makes a context from the environment. The names of all variables are listed, so that
/// unknown names that begin with TESS_ can be reported.
result<void> open_context(tessContext_t* out) {
  if (out == nullptr) {
    return null_argument("tessInit", "a place for the context");
  }
  std::vector<std::string> warnings;
  std::vector<std::string> set;
  // Names only; values are read by `getenv`.
  for (char** one = environ; one != nullptr && *one != nullptr; ++one) {
    const std::string_view text(*one);
    set.emplace_back(text.substr(0, text.find('=')));
  }
  WEIR_TRY(auto settings,
           tessera::read_settings([](const char* name) { return std::getenv(name); },
                                  warnings, set));
  listen(settings);
  allocate_by(settings);
  WEIR_TRY(auto made, context::make(std::move(settings)));
  // Warnings of the context follow those of the variables; all are reported with the log
  // of the new context.
  warnings.insert(warnings.end(), made->warnings().begin(), made->warnings().end());
  for (const std::string& w : warnings) {
    warn(*made, w);
  }
  *out = handle_of<tessContext_t>(all().contexts.add(std::move(made)));
  return {};
}

/// Logs how many objects of a kind were not destroyed before their context.
/// Objects that are left are no error: the context releases them. The line helps to find
/// a program that forgets to.
template <class Objects>
void say_leak(const context& c, const Objects& left, std::string_view objects) {
  if (!left.empty()) {
    c.log(tessera::log_level::info,
          fmt::format("{} {} not destroyed before the context", left.size(), objects));
  }
}

/// Asks persistent kernels to stop and ends the streams. Operations still run.
void close_streams(const std::vector<std::shared_ptr<stream_object>>& streams) {
  for (const auto& s : streams) {
    s->stream->stop_persistent();
    s->stream->close();
  }
}

/// Ends a context. Handles disappear first, so that later calls with them fail instead of
/// reaching a context that is ending. Then streams end and the context waits for them.
result<void> close_context(tessContext_t ctx) {
  WEIR_CHECK(outside_tasks("tessShutdown"));
  // Only one of several threads that call this gets the object.
  auto c = all().contexts.remove(number_of(ctx));
  if (c == nullptr) {
    return no_object("tessShutdown", "context", errc::not_initialized);
  }
  // Handles of one kind at a time: graphs refer to streams, and kernels to modules.
  const auto mine = [&](const auto& object) { return object.context == c; };
  close_profilers(*c);
  // The objects themselves are released after the context has been shut down.
  auto execs = all().execs.remove_if(mine);
  auto graphs = all().graphs.remove_if(mine);
  auto streams = all().streams.remove_if(
      [&](const auto& s) { return &s.stream->context() == c.get(); });
  auto kernels = all().kernels.remove_if(mine);
  auto modules = all().modules.remove_if(mine);
  auto meshes = all().meshes.remove_if(mine);
  say_leak(*c, execs, "executable graphs");
  say_leak(*c, graphs, "graphs");
  say_leak(*c, streams, "streams");
  say_leak(*c, modules, "modules");
  say_leak(*c, meshes, "meshes");
  for (const auto& e : execs) {  // a run of the graph may outlast this call
    tessera::graph_exec::retire(e->exec);
  }
  close_streams(streams);
  result<void> out = c->shut_down();
  // The order is that of use: executable graphs hold graphs, and both hold streams.
  execs.clear();
  graphs.clear();
  streams.clear();
  return out;
}

}  // namespace

// C has no type for truth values, so other numbers are mistakes.
result<void> check_policy(const tessNumericsPolicy& policy) {
  for (const int field : {policy.stableReductions, policy.deterministic,
                          policy.rngStateless, policy.allowFastMath}) {
    if (field != 0 && field != 1) {
      return error(
          errc::invalid_argument,
          fmt::format("policy not set: expected fields of 0 or 1, found {}", field));
    }
  }
  return {};
}

}  // namespace weir::tessera::capi

using namespace weir;                 // NOLINT: the functions of the interface are global
using namespace weir::tessera::capi;  // NOLINT

extern "C" {

// Programs may make several contexts. Each has its own engine, devices and settings.
// Reads the environment again each time.
tessStatus_t tessInit(tessContext_t* ctx) {
  return run([&] { return open_context(ctx); });
}

// Work that has not ended within the limit of time goes on after the call.
tessStatus_t tessShutdown(tessContext_t ctx) {
  return run([&] { return close_context(ctx); });
}

// Needs no context and cannot fail.
tessStatus_t tessGetVersion(int* major, int* minor, int* patch) {
  if (major != nullptr) {
    *major = TESS_ABI_MAJOR;
  }
  if (minor != nullptr) {
    *minor = TESS_ABI_MINOR;
  }
  if (patch != nullptr) {
    *patch = TESS_ABI_PATCH;
  }
  return TESS_OK;
}

// Contexts that exist keep the function that they were made with.
tessStatus_t tessSetLogCallback(tessLogFn fn, void* user) {
  return run([&]() -> result<void> {
    const std::lock_guard lock(logs().mutex);
    logs().fn = fn;
    logs().user = user;
    return {};
  });
}

// Contexts that exist keep the allocator that they were made with.
tessStatus_t tessSetAllocator(tessAllocFn alloc, tessReleaseFn release, void* user) {
  return run([&]() -> result<void> {
    if ((alloc == nullptr) != (release == nullptr)) {
      return null_argument("tessSetAllocator", "both functions or none");
    }
    const std::lock_guard lock(memory().mutex);
    memory().alloc = alloc;
    memory().release = release;
    memory().user = user;
    return {};
  });
}

// Without GPUs, these are the virtual devices of the processor.
tessStatus_t tessDeviceGetCount(tessContext_t ctx, int* count) {
  return run([&]() -> result<void> {
    WEIR_TRY(const auto c, find(ctx, "tessDeviceGetCount"));
    if (count == nullptr) {
      return null_argument("tessDeviceGetCount", "a place for the count");
    }
    *count = c->backend().device_count();
    return {};
  });
}

// Texts are cut to the size of their member. The structure is zeroed before, so they end
// with a zero.
tessStatus_t tessDeviceGetProps(tessContext_t ctx, int device, tessDeviceProps* props) {
  return run([&]() -> result<void> {
    WEIR_TRY(const auto c, find(ctx, "tessDeviceGetProps"));
    WEIR_TRY(const auto p, c->backend().properties(device));
    // Numbers of limits are those that launches are checked against.
    tessDeviceProps out{};
    out.ordinal = p.ordinal;
    const auto put = [](char* to, std::size_t capacity, std::string_view text) {
      std::memcpy(to, text.data(), std::min(capacity - 1, text.size()));
    };
    put(out.name, sizeof out.name, p.name);
    put(out.backend, sizeof out.backend, p.backend);
    put(out.arch, sizeof out.arch, p.arch);
    out.memory = p.memory;
    out.alignment = p.alignment;
    std::copy(p.limits.grid.begin(), p.limits.grid.end(), out.maxGrid);
    std::copy(p.limits.block.begin(), p.limits.block.end(), out.maxBlock);
    out.maxThreads = p.limits.threads;
    out.maxPersistentBlocks = p.limits.persistent_blocks;
    out.maxSharedBytes = p.limits.shared_bytes;
    return copy_struct("tessDeviceGetProps", out, props);
  });
}

// The order of the ids is the order of the ranks.
tessStatus_t tessMeshCreate(tessContext_t ctx, const int* deviceIds, int nDevices,
                            tessMeshAxes axes, tessMesh_t* outMesh) {
  return run([&]() -> result<void> {
    WEIR_TRY(const auto c, find(ctx, "tessMeshCreate"));
    if (deviceIds == nullptr || outMesh == nullptr) {
      return null_argument("tessMeshCreate", "devices and a place for the mesh");
    }
    if (nDevices < 1) {
      return error(errc::invalid_argument,
                   fmt::format("mesh not created: expected at least one device, found {}",
                               nDevices));
    }
    WEIR_TRY(auto made, c->make_mesh({deviceIds, static_cast<std::size_t>(nDevices)},
                                     {axes.tp, axes.pp, axes.dp, axes.ep}));
    *outMesh = handle_of<tessMesh_t>(all().meshes.add(std::move(made)));
    return {};
  });
}

// Removes the handle and those of the mesh's streams first. Persistent kernels are asked
// to stop before the mesh waits for its streams.
tessStatus_t tessMeshDestroy(tessMesh_t handle) {
  return run([&]() -> result<void> {
    WEIR_CHECK(outside_tasks("tessMeshDestroy"));
    const auto m = all().meshes.remove(number_of(handle));
    if (m == nullptr) {
      return no_object("tessMeshDestroy", "mesh", errc::not_initialized);
    }
    // Streams of other meshes of the context are left alone.
    const auto streams =
        all().streams.remove_if([&](const auto& s) { return s.stream->mesh() == m; });
    for (const auto& s : streams) {
      s->stream->stop_persistent();
    }
    m->context->drop_mesh(m);
    close_streams(streams);
    return {};
  });
}

tessStatus_t tessMeshGetInfo(tessMesh_t handle, tessMeshInfo* info) {
  return run([&]() -> result<void> {
    WEIR_TRY(const auto m, find(handle, "tessMeshGetInfo"));
    const auto& sizes = m->shape.sizes();
    tessMeshInfo out{};
    out.nDevices = static_cast<int>(m->ranks());
    out.axes = {sizes[0], sizes[1], sizes[2], sizes[3]};
    return copy_struct("tessMeshGetInfo", out, info);
  });
}

// Coordinates are in the order tp, pp, dp, ep.
tessStatus_t tessMeshRankCoords(tessMesh_t handle, int rank, int coords[4]) {
  return run([&]() -> result<void> {
    WEIR_TRY(const auto m, find(handle, "tessMeshRankCoords"));
    if (coords == nullptr) {
      return null_argument("tessMeshRankCoords", "a place for the coordinates");
    }
    WEIR_TRY(const auto place, m->shape.coordinates(rank));
    std::copy(place.begin(), place.end(), coords);
    return {};
  });
}

// Follows the rule for arrays: `*count` is set to the needed number in any case, and null
// asks for the number alone.
tessStatus_t tessMeshAxisGroup(tessMesh_t handle, const char* axis, int rank, int* ranks,
                               int* count) {
  return run([&]() -> result<void> {
    WEIR_TRY(const auto m, find(handle, "tessMeshAxisGroup"));
    if (count == nullptr) {
      return null_argument("tessMeshAxisGroup", "a place for the count");
    }
    WEIR_TRY(const auto axes, collective::parse_axes(axis));
    WEIR_TRY(const auto group, m->shape.group_of(axes, rank));
    // The caller's number is read before it is replaced by the needed one.
    const int capacity = std::exchange(*count, static_cast<int>(group.size()));
    if (ranks == nullptr) {
      return {};
    }
    if (capacity < *count) {
      return error(errc::invalid_argument,
                   fmt::format("tessMeshAxisGroup failed: expected space for {} ranks, "
                               "found {}",
                               *count, capacity));
    }
    std::copy(group.begin(), group.end(), ranks);
    return {};
  });
}

// The policy counts for operations that are enqueued from now on.
tessStatus_t tessSetNumericsPolicy(tessContext_t ctx, const tessNumericsPolicy* policy) {
  return run([&]() -> result<void> {
    WEIR_TRY(const auto c, find(ctx, "tessSetNumericsPolicy"));
    if (policy == nullptr) {
      return null_argument("tessSetNumericsPolicy", "a policy");
    }
    WEIR_CHECK(check_policy(*policy));
    return c->set_policy({policy->stableReductions != 0, policy->deterministic != 0,
                          policy->rngStateless != 0, policy->allowFastMath != 0});
  });
}

// Returns the policy in effect, with locks and the floor of the environment applied.
tessStatus_t tessGetNumericsPolicy(tessContext_t ctx, tessNumericsPolicy* policy) {
  return run([&]() -> result<void> {
    WEIR_TRY(const auto c, find(ctx, "tessGetNumericsPolicy"));
    if (policy == nullptr) {
      return null_argument("tessGetNumericsPolicy", "a place for the policy");
    }
    const auto p = c->policy();
    *policy = {p.stable_reductions ? 1 : 0, p.deterministic ? 1 : 0,
               p.stateless_rng ? 1 : 0, p.fast_math ? 1 : 0};
    return {};
  });
}

}  // extern "C"
