// SPDX-License-Identifier: Apache-2.0
/// @file
/// Captures, graphs and executable graphs.
///
/// A stream records in one of two ways. A capture that was begun by a call only records.
/// A launch with TESS_LAUNCH_CAPTURE begins a recording that also runs; a synchronization
/// closes it, and `tessStreamTakeGraph` returns the graph.
#include <fmt/core.h>

#include "capi/objects.hpp"
#include "capi/requests.hpp"

namespace weir::tessera::capi {
namespace {

/// Returns the recording that a synchronization of the stream has closed as a graph.
/// @error{invalid_argument; there is none, or the capture was lost}
/// The submission lock is held throughout, so no operation of another thread can join the
/// recording while it becomes a graph.
result<void> take_graph(stream_object& from, tessGraph_t* out, std::string_view call) {
  auto in = from.stream->context().submission_lock().enter();
  const auto recording = from.stream->last_recording();
  if (recording == nullptr) {
    return error(errc::invalid_argument,
                 fmt::format("{} failed: expected a capture that has been closed by a "
                             "synchronization, found none",
                             call));
  }
  WEIR_TRY(auto made, recording->finish(nullptr));
  // Only after `finish` has succeeded: a recording that cannot become a graph stays with
  // the stream.
  from.stream->forget_recording();
  // The graph keeps its context alive.
  auto object = std::make_shared<graph_object>();
  object->context = from.stream->context().shared_from_this();
  object->graph = std::move(made);
  *out = handle_of<tessGraph_t>(all().graphs.add(std::move(object)));
  return {};
}

/// Begins a capture. Waits that the stream has collected are carried out first, because
/// they are not part of the graph.
/// @error{invalid_argument; the stream captures already}
/// `check_caller` refuses threads whose calls a running capture of another thread
/// excludes.
result<void> begin_capture(tessera::stream& s, tessera::capture_mode mode) {
  auto in = s.context().submission_lock().enter();
  WEIR_CHECK(s.check_caller());
  if (s.recording() != nullptr) {
    return error(errc::invalid_argument,
                 "capture not begun: expected a stream that does not capture");
  }
  s.flush_waits(in);
  const auto recording = std::make_shared<tessera::graph_recording>(mode);
  // The stream that begins the capture is its first member; others join by waiting for
  // events of it.
  recording->take_part(s);
  s.record_into(recording, true);
  return {};
}

/// Replaces node `node` of an executable graph by the operation that `make` returns for
/// the stream.
/// @error{invalid_argument; the operation does nothing, or does not fit the node}
template <class Make>
result<void> update(tessGraphExec_t handle, std::size_t node, tessStream_t stream,
                    std::string_view call, Make&& make) {
  WEIR_CHECK(outside_tasks(call));
  WEIR_TRY(const auto e, find(handle, call));
  WEIR_TRY(const auto s, find(stream, call));
  WEIR_TRY(const tessera::ref<tessera::operation> made, make(*s->stream));
  if (!made) {
    return error(errc::invalid_argument,
                 fmt::format("node {} of a graph not updated: expected an operation that "
                             "does something, found one of no bytes or elements",
                             node));
  }
  // The graph checks that the new operation has the kind and the devices of the node,
  // waits for runs that are in flight, and exchanges it.
  return e->exec->update(node, *made, *s->stream);
}

}  // namespace
}  // namespace weir::tessera::capi

using namespace weir;                 // NOLINT: the functions of the interface are global
using namespace weir::tessera::capi;  // NOLINT

extern "C" {

// The short form, with the mode that refuses the most.
tessStatus_t tessStreamBeginCapture(tessStream_t handle) {
  return run([&]() -> result<void> {
    WEIR_CHECK(outside_tasks("tessStreamBeginCapture"));
    WEIR_TRY(const auto s, find(handle, "tessStreamBeginCapture"));
    return begin_capture(*s->stream, tessera::capture_mode::global);
  });
}

// A C program may pass any number as the mode, so it is checked as a number.
tessStatus_t tessStreamBeginCaptureEx(tessStream_t handle, tessCaptureMode mode) {
  return run([&]() -> result<void> {
    WEIR_CHECK(outside_tasks("tessStreamBeginCaptureEx"));
    WEIR_TRY(const auto s, find(handle, "tessStreamBeginCaptureEx"));
    const int number = value_of(mode);
    // The numbers of both enumerations are equal, so the conversion below is safe after
    // this check.
    if (number < TESS_CAPTURE_GLOBAL || number > TESS_CAPTURE_RELAXED) {
      return error(errc::invalid_argument,
                   fmt::format("capture not begun: expected a mode from {} to {}, found "
                               "{}",
                               static_cast<int>(TESS_CAPTURE_GLOBAL),
                               static_cast<int>(TESS_CAPTURE_RELAXED), number));
    }
    return begin_capture(*s->stream, static_cast<tessera::capture_mode>(number));
  });
}

// Waits at the end of the capture are part of the graph, so they become a node before the
// recording is finished.
tessStatus_t tessStreamEndCapture(tessStream_t handle, tessGraph_t* graph) {
  return run([&]() -> result<void> {
    WEIR_CHECK(outside_tasks("tessStreamEndCapture"));
    WEIR_TRY(const auto s, find(handle, "tessStreamEndCapture"));
    if (graph == nullptr) {
      return null_argument("tessStreamEndCapture", "a place for the graph");
    }
    // Taken before the state of the capture is looked at, so that another thread cannot
    // end it in between.
    auto in = s->stream->context().submission_lock().enter();
    const auto recording = s->stream->recording();
    if (recording == nullptr || !s->stream->recording_only()) {
      return error(errc::invalid_argument,
                   "capture not ended: expected a stream whose capture has begun");
    }
    // In the modes other than `relaxed`, a capture belongs to the thread that began it.
    if (!recording->takes_calls_of_this_thread()) {
      return error(errc::invalid_argument,
                   "capture not ended: expected a call of the thread that began it, "
                   "found one of another thread");
    }
    s->stream->flush_waits(in);
    WEIR_TRY(auto made, recording->finish(s->stream.get()));
    auto object = std::make_shared<graph_object>();
    object->context = s->stream->context().shared_from_this();
    object->graph = std::move(made);
    *graph = handle_of<tessGraph_t>(all().graphs.add(std::move(object)));
    return {};
  });
}

// Each recording can be taken once.
// For recordings of launches with TESS_LAUNCH_CAPTURE, whose operations have run already.
tessStatus_t tessStreamTakeGraph(tessStream_t handle, tessGraph_t* graph) {
  return run([&]() -> result<void> {
    WEIR_TRY(const auto s, find(handle, "tessStreamTakeGraph"));
    if (graph == nullptr) {
      return null_argument("tessStreamTakeGraph", "a place for the graph");
    }
    return take_graph(*s, graph, "tessStreamTakeGraph");
  });
}

// Nodes are numbered from 0 in the order in which they were recorded.
tessStatus_t tessGraphGetNodeCount(tessGraph_t handle, size_t* count) {
  return run([&]() -> result<void> {
    WEIR_TRY(const auto g, find(handle, "tessGraphGetNodeCount"));
    if (count == nullptr) {
      return null_argument("tessGraphGetNodeCount", "a place for the count");
    }
    *count = g->graph->nodes.size();
    return {};
  });
}

// A null buffer asks for the size, as in all functions that return a text.
tessStatus_t tessGraphExport(tessGraph_t handle, const char* format, char* buffer,
                             size_t* size) {
  return run([&]() -> result<void> {
    WEIR_TRY(const auto g, find(handle, "tessGraphExport"));
    // A missing name is an unknown format.
    const std::string_view name = format == nullptr ? "" : format;
    if (name != "dot" && name != "json") {
      return error(errc::invalid_argument,
                   fmt::format("graph not exported: expected the format dot or json, "
                               "found \"{}\"",
                               name));
    }
    return copy_text("tessGraphExport",
                     name == "dot" ? g->graph->to_dot() : g->graph->to_json(), buffer,
                     size);
  });
}

// Executable graphs made from it stay valid, because they share the recording.
tessStatus_t tessGraphDestroy(tessGraph_t handle) {
  return run([&]() -> result<void> {
    if (all().graphs.remove(number_of(handle)) == nullptr) {
      return no_object("tessGraphDestroy", "graph");
    }
    return {};
  });
}

// The executable graph copies the operations; the graph may be destroyed.
tessStatus_t tessGraphInstantiate(tessGraph_t handle, tessGraphExec_t* exec) {
  return run([&]() -> result<void> {
    WEIR_TRY(const auto g, find(handle, "tessGraphInstantiate"));
    if (exec == nullptr) {
      return null_argument("tessGraphInstantiate", "a place for the executable graph");
    }
    auto object = std::make_shared<exec_object>();
    object->context = g->context;
    WEIR_TRY(object->exec, tessera::graph_exec::make(g->graph));
    *exec = handle_of<tessGraphExec_t>(all().execs.add(std::move(object)));
    return {};
  });
}

// Enqueues a run, or records it as a node if the stream captures.
// Graph and stream must be of one context, which `launch` checks.
tessStatus_t tessGraphLaunch(tessGraphExec_t handle, tessStream_t stream) {
  return run([&]() -> result<void> {
    WEIR_CHECK(outside_tasks("tessGraphLaunch"));
    WEIR_TRY(const auto e, find(handle, "tessGraphLaunch"));
    WEIR_TRY(const auto s, find(stream, "tessGraphLaunch"));
    WEIR_CHECK(enqueue_in_order(*s, [&] { return e->exec->launch(s->stream); }));
    s->stream->context().log(tessera::log_level::trace, "stream {}: graph enqueued",
                             s->stream->number());
    return {};
  });
}

// The update of a launch does not take a number of the stream for random numbers: the
// graph takes one in each run (`in_graph`).
tessStatus_t tessGraphExecUpdateLaunch(tessGraphExec_t handle, size_t node,
                                       tessKernel_t kernel, tessLaunchConfig cfg,
                                       const void* argBuffer, size_t argSize,
                                       tessStream_t stream) {
  return run([&] {
    constexpr std::string_view call = "tessGraphExecUpdateLaunch";
    using made = result<tessera::ref<tessera::operation>>;
    return update(handle, node, stream, call, [&](tessera::stream& s) -> made {
      WEIR_TRY(const auto k, find(kernel, call));
      WEIR_CHECK(check_context(*k, s));
      // The arguments are copied into the operation, so the caller's buffer is free
      // afterwards.
      WEIR_TRY(auto request, request_of(kernel, cfg, argBuffer, argSize));
      request.kernel = k->code;
      request.in_graph = true;
      return tessera::make_launch(s, request);
    });
  });
}

// The stream says on which devices the node runs; nothing is enqueued on it.
tessStatus_t tessGraphExecUpdateCopy(tessGraphExec_t handle, size_t node,
                                     const tessCopyDesc* desc, tessStream_t stream) {
  return run([&] {
    constexpr std::string_view call = "tessGraphExecUpdateCopy";
    using made = result<tessera::ref<tessera::operation>>;
    return update(handle, node, stream, call, [&](tessera::stream& s) -> made {
      WEIR_TRY(const auto request, request_of(desc, call));
      return tessera::make_copy(s, request);
    });
  });
}

// A fill has the same request in a stream and in a graph.
tessStatus_t tessGraphExecUpdateFill(tessGraphExec_t handle, size_t node, void* devPtr,
                                     int value, size_t bytes, tessStream_t stream) {
  return run([&] {
    return update(handle, node, stream, "tessGraphExecUpdateFill",
                  [&](tessera::stream& s) {
                    return tessera::make_fill(s, request_of(devPtr, value, bytes));
                  });
  });
}

// As for a launch, the graph takes the numbers for its runs itself.
tessStatus_t tessGraphExecUpdateCollective(tessGraphExec_t handle, size_t node,
                                           const tessCollectiveDesc* desc,
                                           tessStream_t stream) {
  return run([&] {
    constexpr std::string_view call = "tessGraphExecUpdateCollective";
    using made = result<tessera::ref<tessera::operation>>;
    return update(handle, node, stream, call, [&](tessera::stream& s) -> made {
      WEIR_TRY(auto request, request_of(desc, call));
      request.in_graph = true;
      return tessera::make_collective(s, request);
    });
  });
}

// Runs that are in flight go on; the graph is destroyed after them.
tessStatus_t tessGraphExecDestroy(tessGraphExec_t handle) {
  return run([&]() -> result<void> {
    const auto e = all().execs.remove(number_of(handle));
    if (e == nullptr) {
      return no_object("tessGraphExecDestroy", "executable graph");
    }
    tessera::graph_exec::retire(e->exec);
    return {};
  });
}

}  // extern "C"
