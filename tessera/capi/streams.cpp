// SPDX-License-Identifier: Apache-2.0
/// @file
/// Streams, events and launches.
///
/// The functions find the objects of their handles, check what can be checked here, and
/// leave the work to the stream. Errors of operations come later, from a synchronization.
#include <algorithm>

#include <fmt/core.h>

#include "capi/objects.hpp"
#include "capi/requests.hpp"

namespace weir::tessera::capi {
namespace {

// There are two priorities: urgent streams and others. The numbers are those of the
// interface: smaller ones are more urgent.
constexpr int least_priority = 0;
constexpr int greatest_priority = -1;

/// Makes a stream and its handle. If `object` is not null, it gets the stream's object.
///
/// Nothing is added to the table if an argument is wrong.
result<void> open_stream(tessMesh_t handle, const tessera::stream_options& options,
                         tessStream_t* out, std::string_view call,
                         std::shared_ptr<stream_object>* object = nullptr) {
  WEIR_TRY(const auto m, find(handle, call));
  if (out == nullptr) {
    return null_argument(call, "a place for the stream");
  }
  // The object is complete before it has a handle, since other threads may use the handle
  // at once.
  auto made = std::make_shared<stream_object>();
  WEIR_TRY(made->stream, tessera::stream::make(m, options));
  // The caller goes on to set limits.
  if (object != nullptr) {
    *object = made;
  }
  *out = handle_of<tessStream_t>(all().streams.add(std::move(made)));
  return {};
}

/// Checks that a launch names the stream's own mesh. Programs pass the same mesh again
/// and again, so its handle is remembered, and the next check only asks whether it is
/// live.
result<void> check_mesh(stream_object& to, tessMesh_t handle, std::string_view call) {
  const std::uintptr_t number = number_of(handle);
  // The handle of a mesh that is gone is not live.
  if (to.checked_mesh == number && all().meshes.live(number)) {
    return {};
  }
  WEIR_TRY(const auto m, find(handle, call));
  if (to.stream->mesh() != m) {
    return error(errc::invalid_argument,
                 "kernel not launched: expected the stream's own mesh, found another")
        .hint("two meshes are two meshes even where they have the same devices");
  }
  to.checked_mesh = number;
  return {};
}

/// Enqueues a launch. This is the call that programs make most often, so the common case
/// avoids work: if the stream's last launch used the same kernel on equal terms,
/// `make_launch` finds everything by the handle's number (`request.key`) and the kernel's
/// object is not looked up. It returns null otherwise, and the launch is made again with
/// the object. A launch with TESS_LAUNCH_CAPTURE begins a recording of the stream, which
/// runs the operations that it records.
result<void> launch(tessKernel_t kernel, tessMesh_t handle, const tessLaunchConfig& cfg,
                    const void* args, std::size_t bytes, tessStream_t stream) {
  constexpr std::string_view call = "tessLaunch";
  // A kernel that launches kernels would wait for its own worker.
  WEIR_CHECK(outside_tasks(call));
  auto found = find(stream, call);
  if (!found) {
    // if the context is gone, the error says that instead
    WEIR_CHECK(find(handle, call));
    return std::move(found).error();
  }
  // The object is held by `found` until the call ends.
  stream_object& to = **found;
  tessera::stream& s = *to.stream;
  WEIR_CHECK(check_mesh(to, handle, call));
  WEIR_TRY(auto request, request_of(kernel, cfg, args, bytes));
  const bool captures = (cfg.flags & TESS_LAUNCH_CAPTURE) != 0;
  // Such a kernel ends only when it is asked to, so a graph with it would not end.
  if (captures && request.persistent) {
    return error(errc::unsupported,
                 "kernel not launched: expected no capture of a persistent kernel");
  }
  // Each call on such a stream waits for its operation, and a recording that also runs
  // cannot wait for the native stream.
  if (to.native && (captures || request.persistent)) {
    return error(
        errc::unsupported,
        fmt::format("kernel not launched: expected no {} on a stream that was "
                    "made from a native stream",
                    captures ? "capture by TESS_LAUNCH_CAPTURE" : "persistent kernel"));
  }
  // Null until one of both ways has made it.
  tessera::ref<tessera::operation> operation;
  if (all().kernels.live(request.key)) {  // the same kernel was perhaps launched last
    WEIR_TRY(operation, tessera::make_launch(s, request));
  }
  if (!operation) {
    WEIR_TRY(const auto k, find(kernel, call));
    WEIR_CHECK(check_context(*k, s));
    // The key finds it in the next launch.
    request.kernel = k->code;
    WEIR_TRY(operation, tessera::make_launch(s, request));
  }
  // Waits before the recording are carried out, since they are not part of the graph.
  if (captures) {
    auto in = s.context().submission_lock().enter();
    // A recording that is under way goes on.
    if (s.recording() == nullptr) {
      s.flush_waits(in);
      s.record_into(std::make_shared<tessera::graph_recording>(), false);
    }
  }
  // Runs the launch, or records it, or both.
  return post_in_order(to, std::move(operation));
}

}  // namespace
}  // namespace weir::tessera::capi

using namespace weir;                 // NOLINT: the functions of the interface are global
using namespace weir::tessera::capi;  // NOLINT

extern "C" {

// A stream of all ranks, with the settings of the context.
tessStatus_t tessStreamCreate(tessMesh_t handle, int priority, tessStream_t* stream) {
  return run([&] {
    // -1 means all ranks.
    return open_stream(handle, {priority, -1}, stream, "tessStreamCreate");
  });
}

// A description may be shorter than this library's. A missing limit of time means
// the context's, which -1 stands for.
tessStatus_t tessStreamCreateEx(tessMesh_t handle, const tessStreamDesc* desc,
                                tessStream_t* stream) {
  return run([&]() -> result<void> {
    constexpr std::string_view call = "tessStreamCreateEx";
    // The shortest description ends before the limit of memory.
    WEIR_TRY(tessStreamDesc d,
             read_struct(call, desc, offsetof(tessStreamDesc, memoryLimit)));
    if (!WEIR_HAS_MEMBER(d, tessStreamDesc, timeoutMs)) {
      d.timeoutMs = -1;
    }
    WEIR_CHECK(check_limit(call, -1, d.timeoutMs));
    WEIR_CHECK(check_reserved(call, d.reserved));
    std::shared_ptr<stream_object> made;
    WEIR_CHECK(open_stream(handle, {d.priority, d.rank}, stream, call, &made));
    // 0 keeps the default.
    if (d.memoryLimit != 0) {
      made->stream->budget()->set_limit(d.memoryLimit);
    }
    // The context's limit stays otherwise.
    if (d.timeoutMs >= 0) {
      made->stream->set_limit(d.timeoutMs * 1'000'000);
    }
    return {};
  });
}

// Returns at once. Enqueued operations still run, and the stream's object lives until
// then.
tessStatus_t tessStreamDestroy(tessStream_t handle) {
  return run([&]() -> result<void> {
    WEIR_CHECK(outside_tasks("tessStreamDestroy"));
    // The handle is invalid from here on.
    const auto s = all().streams.remove(number_of(handle));
    if (s == nullptr) {
      return no_object("tessStreamDestroy", "stream");
    }
    s->stream->close();
    return {};
  });
}

// Refused inside kernels and callbacks: a worker would wait for itself.
tessStatus_t tessStreamSynchronize(tessStream_t handle) {
  return run([&]() -> result<void> {
    WEIR_CHECK(outside_tasks("tessStreamSynchronize"));
    WEIR_TRY(const auto s, find(handle, "tessStreamSynchronize"));
    // A stream that was made from a native stream also waits for that one.
    auto followed = wait_for_own_native(*s);
    // Returns the first failure since the last call.
    auto ended = s->stream->synchronize();
    return ended ? followed : ended;
  });
}

// A stream whose operations have ended with a failure counts as done.
tessStatus_t tessStreamQuery(tessStream_t handle, int* done) {
  return run([&]() -> result<void> {
    WEIR_CHECK(outside_tasks("tessStreamQuery"));
    WEIR_TRY(const auto s, find(handle, "tessStreamQuery"));
    if (done == nullptr) {
      return null_argument("tessStreamQuery", "a place for the answer");
    }
    // Returns an error for a stream that has failed.
    const auto idle = s->stream->idle();
    *done = !idle || *idle ? 1 : 0;
    // Both the answer and the error are given.
    return idle ? result<void>() : result<void>(idle.error());
  });
}

// A recording that also runs is no capture in the sense of this function.
tessStatus_t tessStreamIsCapturing(tessStream_t handle, int* capturing) {
  return run([&]() -> result<void> {
    WEIR_TRY(const auto s, find(handle, "tessStreamIsCapturing"));
    if (capturing == nullptr) {
      return null_argument("tessStreamIsCapturing", "a place for the answer");
    }
    // The lock, because recordings begin and end on other threads.
    const auto in = s->stream->context().submission_lock().enter();
    *capturing = s->stream->recording() != nullptr && s->stream->recording_only() ? 1 : 0;
    return {};
  });
}

// Each place may be null. Needs no context and cannot fail.
tessStatus_t tessStreamGetPriorityRange(int* least, int* greatest) {
  if (least != nullptr) {
    *least = least_priority;
  }
  if (greatest != nullptr) {
    *greatest = greatest_priority;
  }
  return TESS_OK;
}

// Priorities outside of the range are shown as its nearest end.
tessStatus_t tessStreamGetInfo(tessStream_t handle, tessStreamInfo* info) {
  return run([&]() -> result<void> {
    WEIR_TRY(const auto s, find(handle, "tessStreamGetInfo"));
    tessStreamInfo out{};
    out.priority =
        std::clamp(s->stream->options().priority, greatest_priority, least_priority);
    out.rank = s->stream->options().rank;
    // The number of ranks, unless it is a stream of one rank.
    out.nLanes = static_cast<int>(s->stream->chain_count());
    out.id = s->stream->number();
    {
      // The lock is released before the copy.
      const auto in = s->stream->context().submission_lock().enter();
      out.capturing = s->stream->recording() != nullptr && s->stream->recording_only();
    }
    // The caller's struct may be shorter.
    return copy_struct("tessStreamGetInfo", out, info);
  });
}

// 0 means no limit. The limit counts for waits that begin from now on.
tessStatus_t tessStreamSetTimeout(tessStream_t handle, int64_t milliseconds) {
  return run([&]() -> result<void> {
    WEIR_TRY(const auto s, find(handle, "tessStreamSetTimeout"));
    WEIR_CHECK(check_limit("tessStreamSetTimeout", 0, milliseconds));
    s->stream->set_limit(milliseconds * 1'000'000);
    return {};
  });
}

// A limit below the present use only refuses further memory.
tessStatus_t tessStreamSetMemoryLimit(tessStream_t handle, size_t bytes) {
  return run([&]() -> result<void> {
    WEIR_TRY(const auto s, find(handle, "tessStreamSetMemoryLimit"));
    s->stream->budget()->set_limit(bytes);
    return {};
  });
}

// Returns at once; the kernels end when they next ask whether to stop.
tessStatus_t tessStreamRequestStop(tessStream_t handle) {
  return run([&]() -> result<void> {
    WEIR_TRY(const auto s, find(handle, "tessStreamRequestStop"));
    // Other kernels are not affected.
    s->stream->stop_persistent();
    return {};
  });
}

// The text belongs to the last synchronization of the stream, not to the last call.
tessStatus_t tessStreamGetLastMessage(tessStream_t handle, char* buffer, size_t* size) {
  return run([&]() -> result<void> {
    WEIR_TRY(const auto s, find(handle, "tessStreamGetLastMessage"));
    return copy_text("tessStreamGetLastMessage", s->stream->last_message(), buffer, size);
  });
}

// The function runs on a worker and must not call functions that enqueue or wait.
tessStatus_t tessLaunchHostFunc(tessStream_t handle, void (*fn)(void* user), void* user) {
  // It is called once, also for streams of several ranks.
  return run([&]() -> result<void> {
    WEIR_CHECK(outside_tasks("tessLaunchHostFunc"));
    WEIR_TRY(const auto s, find(handle, "tessLaunchHostFunc"));
    // Checked here, as the call comes later.
    if (fn == nullptr) {
      return null_argument("tessLaunchHostFunc", "a function");
    }
    return post_in_order(*s, tessera::make_host_function([fn, user] { fn(user); }));
  });
}

// An event has no context until a stream records it. A context must exist, so that the
// library is known to be initialized.
tessStatus_t tessEventCreate(tessEvent_t* event) {
  return run([&]() -> result<void> {
    WEIR_CHECK(any_context("tessEventCreate"));
    if (event == nullptr) {
      return null_argument("tessEventCreate", "a place for the event");
    }
    *event = handle_of<tessEvent_t>(all().events.add(std::make_shared<event_object>()));
    return {};
  });
}

// Streams that wait for the event hold its point, so they are not affected.
tessStatus_t tessEventDestroy(tessEvent_t handle) {
  return run([&]() -> result<void> {
    // The object may outlive its handle.
    if (all().events.remove(number_of(handle)) == nullptr) {
      return no_object("tessEventDestroy", "event");
    }
    return {};
  });
}

// The event's lock makes binding and recording one step.
tessStatus_t tessEventRecord(tessEvent_t handle, tessStream_t stream) {
  // A second recording replaces the first one.
  return run([&]() -> result<void> {
    WEIR_CHECK(outside_tasks("tessEventRecord"));
    WEIR_TRY(const auto e, find(handle, "tessEventRecord"));
    WEIR_TRY(const auto s, find(stream, "tessEventRecord"));
    // The event comes behind what a native stream has, but nothing waits for it here.
    WEIR_CHECK(wait_for_own_native(*s));
    const std::lock_guard lock(e->mutex);
    // All later uses must be of this context.
    WEIR_CHECK(bind_event(*e, s->stream->context(), "tessEventRecord"));
    return s->stream->post(e->point);
  });
}

// An event that was never recorded, or is over, needs no wait. In a capture, also an
// event that is over must be checked, because it may not belong to the capture.
tessStatus_t tessStreamWaitEvent(tessStream_t stream, tessEvent_t handle) {
  // The wait is for the recording that is the latest now.
  return run([&]() -> result<void> {
    WEIR_CHECK(outside_tasks("tessStreamWaitEvent"));
    WEIR_TRY(const auto s, find(stream, "tessStreamWaitEvent"));
    WEIR_TRY(const auto e, find(handle, "tessStreamWaitEvent"));
    return enqueue_in_order(*s, [&]() -> result<void> {
      // Another thread could record the event in between.
      const std::lock_guard lock(e->mutex);
      const auto now = e->point.now();
      if (now == tessera::event::state::never_recorded) {
        return {};
      }
      WEIR_CHECK(bind_event(*e, s->stream->context(), "tessStreamWaitEvent"));
      // A recorded wait becomes part of the graph.
      const bool over = now == tessera::event::state::over && !s->stream->records();
      return over ? result<void>() : s->stream->wait(e->point);
    });
  });
}

// An event that was never recorded counts as reached.
tessStatus_t tessEventQuery(tessEvent_t handle, int* done) {
  return run([&]() -> result<void> {
    // A query is allowed inside tasks, because it does not wait.
    WEIR_TRY(const auto e, find(handle, "tessEventQuery"));
    if (done == nullptr) {
      return null_argument("tessEventQuery", "a place for the answer");
    }
    // A recording that comes later is not seen.
    const auto p = e->point.latest();
    if (p && p->captured) {
      return error(errc::invalid_argument,
                   "event not asked: expected one that was not recorded in a capture");
    }
    // An event without a recording has nothing to wait for.
    *done = !p || p->reached() ? 1 : 0;
    if (p && p->reached()) {
      // The failure of any device chain in front of the event.
      if (const auto failed = p->first_failure()) {
        return error(*failed.error);
      }
    }
    return {};
  });
}

// Waiting for an event of a capture would never end, so it is refused, and the capture is
// lost. The event's lock is not held while waiting.
tessStatus_t tessEventSynchronize(tessEvent_t handle) {
  // A recording that comes later is not waited for.
  return run([&]() -> result<void> {
    WEIR_CHECK(outside_tasks("tessEventSynchronize"));
    WEIR_TRY(const auto e, find(handle, "tessEventSynchronize"));
    const auto p = e->point.latest();
    const auto c = [&] {
      const std::lock_guard lock(e->mutex);
      return e->context.lock();
    }();
    // Without its context, no stream can reach it.
    if (!p || c == nullptr) {
      return {};
    }
    if (p->captured) {
      auto in = c->submission_lock().enter();
      if (const auto recording = p->capture.lock()) {
        // The program cannot know what it would have waited for, so no graph comes of
        // it.
        recording->refuse("an event of it was waited for");
      }
      return error(errc::invalid_argument,
                   "event not waited for: expected one that was not recorded in a "
                   "capture");
    }
    return tessera::wait_for(*p, *c);
  });
}

// The time is between the moments at which the last device chains reached the events.
tessStatus_t tessEventElapsedTime(float* milliseconds, tessEvent_t start,
                                  tessEvent_t end) {
  return run([&]() -> result<void> {
    WEIR_TRY(const auto a, find(start, "tessEventElapsedTime"));
    WEIR_TRY(const auto b, find(end, "tessEventElapsedTime"));
    if (milliseconds == nullptr) {
      return null_argument("tessEventElapsedTime", "a place for the time");
    }
    const auto from = a->point.latest();
    const auto to = b->point.latest();
    if (!from || !to || !from->reached() || !to->reached()) {
      return error(errc::invalid_argument,
                   "tessEventElapsedTime failed: expected two events that have been "
                   "reached");
    }
    *milliseconds =
        static_cast<float>(static_cast<double>(to->when_ns() - from->when_ns()) * 1e-6);
    return {};
  });
}

/// The arguments are copied, so the buffer is free on return.
tessStatus_t tessLaunch(tessKernel_t kernel, tessMesh_t handle, tessLaunchConfig cfg,
                        const void* argBuffer, size_t argSize, tessStream_t stream) {
  return run([&] { return launch(kernel, handle, cfg, argBuffer, argSize, stream); });
}

}  // extern "C"
