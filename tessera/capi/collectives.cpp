// SPDX-License-Identifier: Apache-2.0
/// @file
/// Calls of collectives, groups of calls, and the recovery of meshes.
///
/// Each function for one kind of collective fills in the general description
/// (`tessCollectiveDesc`) and posts it, so that all checks exist once. Inside a group,
/// calls are checked at once but only kept; the end of the group makes and enqueues all
/// of them. A group of which a call failed is not enqueued at all.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "capi/objects.hpp"
#include "capi/requests.hpp"
#include "stream/collectives/meeting_point.hpp"
#include "weir/tessera/stream/collective.hpp"

namespace weir::tessera::capi {
namespace {

/// The open group of one thread.
struct group {
  /// Number of groups that are open, one inside the other.
  int depth = 0;
  std::vector<std::pair<tessStream_t, tessera::collective_request>> calls;
  bool lost = false;  ///< true if a call of the group failed
  /// the first error of a call; empty if it could not be kept
  std::optional<error> broken;
};
// Threads group their own calls only, so no lock is needed.
thread_local group open_group;  // NOLINT: a group belongs to a thread

/// Checks a call and enqueues it, or keeps it if a group is open. The operation is made
/// in both cases, so that its errors are those of the call.
/// The checks in their order: the thread, the handles, the mesh of the stream, the
/// numbers of the description, and last addresses and ranks, when the operation is made.
result<void> post_one(tessMesh_t handle, const tessCollectiveDesc* desc,
                      tessStream_t stream, std::string_view call) {
  WEIR_CHECK(outside_tasks(call));
  WEIR_TRY(const auto m, find(handle, call));
  WEIR_TRY(const auto s, find(stream, call));
  // The mesh is given again by each call, so that a wrong stream is noticed.
  if (s->stream->mesh() != m) {
    return error(errc::invalid_argument,
                 "collective not posted: expected the stream's own mesh, found another")
        .hint("axes are those of the mesh that the stream was created on");
  }
  WEIR_TRY(const auto request, request_of(desc, call));
  WEIR_TRY(auto operation, tessera::make_collective(*s->stream, request));
  if (open_group.depth > 0) {
    // made again at the end: memory may be freed before
    open_group.calls.push_back({stream, request});
  } else if (operation) {
    // There is no operation if the call has nothing to do.
    return post_in_order(*s, std::move(operation));
  }
  return {};
}

/// Posts a call. If it fails, by an error or by an exception, its group is lost. `lost`
/// is set before the call and restored after its success, so that an exception leaves it
/// set.
result<void> post(tessMesh_t handle, const tessCollectiveDesc* d, tessStream_t stream,
                  std::string_view call) {
  const bool lost = std::exchange(open_group.lost, true);
  auto posted = post_one(handle, d, stream, call);
  if (posted || open_group.depth == 0) {
    open_group.lost = lost;
  } else if (!lost) {
    open_group.broken = posted.error();
  }
  return posted;
}

/// Ends a group. Only the end of the outermost group enqueues calls. The group is closed
/// even if this fails, so that the thread can open a new one.
result<void> end_group() {
  constexpr std::string_view call = "tessGroupEnd";
  WEIR_CHECK(outside_tasks(call));
  if (open_group.depth == 0) {
    return error(errc::invalid_argument,
                 "tessGroupEnd failed: expected a group that has been started");
  }
  // The end of an inner group enqueues nothing.
  if (open_group.depth > 1) {
    --open_group.depth;
    return {};
  }
  // From here on the thread has no open group, whatever happens.
  const group ended = std::exchange(open_group, {});
  // The caller learns the first error once more here, because calls inside of groups are
  // often not checked one by one.
  if (ended.broken) {
    return error(ended.broken->code(), "group not posted: one of its calls failed")
        .because(*ended.broken);
  }
  if (ended.lost) {
    return error(errc::out_of_memory, "group not posted: no memory for one of its calls");
  }
  std::vector<tessera::grouped_call> calls;
  std::vector<std::shared_ptr<stream_object>> with_native;
  for (const auto& [handle, request] : ended.calls) {
    // A stream may have been destroyed since its call.
    WEIR_TRY(const auto s, find(handle, call));
    calls.push_back({s->stream, request});
    // Once for each stream. One that captures only records.
    if (s->native && !s->stream->records() &&
        std::find(with_native.begin(), with_native.end(), s) == with_native.end()) {
      with_native.push_back(s);
    }
  }
  // All calls are enqueued before the first is waited for, because they may meet.
  for (const auto& s : with_native) {
    WEIR_CHECK(wait_for_own_native(*s));
  }
  WEIR_CHECK(tessera::enqueue_group(calls));
  result<void> first_failure;
  for (const auto& s : with_native) {
    auto ended = tessera::wait_until_reached(*s->stream);
    if (first_failure && !ended) {
      first_failure = std::move(ended);
    }
  }
  WEIR_CHECK(std::move(first_failure));
  // Logged only when the whole group is enqueued.
  for (const tessera::grouped_call& c : calls) {
    c.target->context().log(tessera::log_level::trace,
                            "stream {}: {} of a group enqueued", c.target->number(),
                            name_of(c.request.call.kind));
  }
  return {};
}

/// Returns the description of a call with the members that all kinds have.
/// Members that are not set here are 0: no root, no peer, the algorithm and the limit of
/// time by default.
tessCollectiveDesc describe(tessCollectiveKind kind, const void* from, void* to,
                            std::size_t count, int type, int op, const char* axis) {
  tessCollectiveDesc out{};
  out.structSize = sizeof out;
  out.kind = kind;
  out.sendbuf = from;
  out.recvbuf = to;
  out.count = count;
  out.dtype = type;
  out.op = op;
  out.axis = axis;
  return out;
}

}  // namespace
}  // namespace weir::tessera::capi

using namespace weir;                 // NOLINT: the functions of the interface are global
using namespace weir::tessera::capi;  // NOLINT

extern "C" {

// The general call. The functions below are short forms of it for each kind.
tessStatus_t tessCollective(tessMesh_t mesh, const tessCollectiveDesc* desc,
                            tessStream_t stream) {
  return run([&] { return post(mesh, desc, stream, "tessCollective"); });
}

// In place: every rank's buffer is input and output.
tessStatus_t tessAllReduce(tessMesh_t mesh, void* buffer, size_t count, int dtype,
                           tessCollOp op, const char* axis, tessStream_t stream) {
  return run([&] {
    const auto d = describe(TESS_COLLECTIVE_ALL_REDUCE, buffer, buffer, count, dtype,
                            value_of(op), axis);
    return post(mesh, &d, stream, "tessAllReduce");
  });
}

// In place: each rank's buffer has all elements before and its part of the result after.
tessStatus_t tessReduceScatter(tessMesh_t mesh, void* inout, size_t count, int dtype,
                               tessCollOp op, const char* axis, tessStream_t stream) {
  return run([&] {
    const auto d = describe(TESS_COLLECTIVE_REDUCE_SCATTER, inout, inout, count, dtype,
                            value_of(op), axis);
    return post(mesh, &d, stream, "tessReduceScatter");
  });
}

// In place: each rank's part lies at its position in the buffer.
tessStatus_t tessAllGather(tessMesh_t mesh, void* inout, size_t count, int dtype,
                           const char* axis, tessStream_t stream) {
  return run([&] {
    const auto d =
        describe(TESS_COLLECTIVE_ALL_GATHER, inout, inout, count, dtype, 0, axis);
    return post(mesh, &d, stream, "tessAllGather");
  });
}

// Over the whole mesh, since the function has no axis. The root's buffer is the input.
tessStatus_t tessBroadcast(tessMesh_t mesh, void* buffer, size_t count, int dtype,
                           int root, tessStream_t stream) {
  return run([&] {
    auto d =
        describe(TESS_COLLECTIVE_BROADCAST, buffer, buffer, count, dtype, 0, nullptr);
    d.root = root;
    return post(mesh, &d, stream, "tessBroadcast");
  });
}

// The result is written on the rank `root` of each group of the axis.
tessStatus_t tessReduce(tessMesh_t mesh, const void* sendbuf, void* recvbuf, size_t count,
                        int dtype, int op, int root, const char* axis,
                        tessStream_t stream) {
  return run([&] {
    auto d = describe(TESS_COLLECTIVE_REDUCE, sendbuf, recvbuf, count, dtype, op, axis);
    d.root = root;
    return post(mesh, &d, stream, "tessReduce");
  });
}

tessStatus_t tessGather(tessMesh_t mesh, const void* sendbuf, void* recvbuf, size_t count,
                        int dtype, int root, const char* axis, tessStream_t stream) {
  return run([&] {
    auto d = describe(TESS_COLLECTIVE_GATHER, sendbuf, recvbuf, count, dtype, 0, axis);
    d.root = root;
    return post(mesh, &d, stream, "tessGather");
  });
}

tessStatus_t tessScatter(tessMesh_t mesh, const void* sendbuf, void* recvbuf,
                         size_t count, int dtype, int root, const char* axis,
                         tessStream_t stream) {
  return run([&] {
    auto d = describe(TESS_COLLECTIVE_SCATTER, sendbuf, recvbuf, count, dtype, 0, axis);
    d.root = root;
    return post(mesh, &d, stream, "tessScatter");
  });
}

tessStatus_t tessAllToAll(tessMesh_t mesh, const void* sendbuf, void* recvbuf,
                          size_t count, int dtype, const char* axis,
                          tessStream_t stream) {
  return run([&] {
    const auto d =
        describe(TESS_COLLECTIVE_ALL_TO_ALL, sendbuf, recvbuf, count, dtype, 0, axis);
    return post(mesh, &d, stream, "tessAllToAll");
  });
}

// Source and target are positions in the whole mesh, since no axis is given.
tessStatus_t tessSendRecv(tessMesh_t mesh, const void* sendbuf, void* recvbuf,
                          size_t count, int dtype, int source, int target,
                          tessStream_t stream) {
  return run([&] {
    auto d = describe(TESS_COLLECTIVE_SEND, sendbuf, recvbuf, count, dtype, 0, nullptr);
    d.root = source;
    d.peer = target;
    return post(mesh, &d, stream, "tessSendRecv");
  });
}

// Orders streams without data; type and count are not used.
tessStatus_t tessBarrier(tessMesh_t mesh, const char* axis, tessStream_t stream) {
  return run([&] {
    const auto d =
        describe(TESS_COLLECTIVE_BARRIER, nullptr, nullptr, 0, TESS_FP32, 0, axis);
    return post(mesh, &d, stream, "tessBarrier");
  });
}

// Takes the submission lock, because the state of recoveries belongs to the meeting
// point.
tessStatus_t tessMeshRecover(tessMesh_t handle, int rank) {
  return run([&]() -> result<void> {
    constexpr std::string_view call = "tessMeshRecover";
    WEIR_CHECK(outside_tasks(call));
    WEIR_TRY(const auto m, find(handle, call));
    const int ranks = static_cast<int>(m->ranks());
    if (rank < -1 || rank >= ranks) {
      return error(
          errc::invalid_argument,
          fmt::format("mesh not recovered: expected a rank in [0, {}), or -1 for "
                      "all of them, found {}",
                      ranks, rank));
    }
    // -1 lets all ranks recover at once.
    auto in = m->context->submission_lock().enter();
    m->context->meetings().recover(in, *m, rank);
    return {};
  });
}

// Waiting collectives fail, and later ones fail until every rank has recovered.
tessStatus_t tessMeshAbort(tessMesh_t handle) {
  return run([&]() -> result<void> {
    WEIR_CHECK(outside_tasks("tessMeshAbort"));
    WEIR_TRY(const auto m, find(handle, "tessMeshAbort"));
    auto in = m->context->submission_lock().enter();
    m->context->meetings().abort(in, *m);
    return {};
  });
}

// Returns success for a rank that can take part in collectives, and the reason if it
// cannot.
// The mesh may be asked at any time; nothing is repaired by asking.
tessStatus_t tessMeshQuery(tessMesh_t handle, int rank) {
  return run([&]() -> result<void> {
    constexpr std::string_view call = "tessMeshQuery";
    WEIR_CHECK(outside_tasks(call));
    WEIR_TRY(const auto m, find(handle, call));
    const int ranks = static_cast<int>(m->ranks());
    if (rank < 0 || rank >= ranks) {
      return error(errc::invalid_argument,
                   fmt::format("mesh not asked: expected a rank in [0, {}), found {}",
                               ranks, rank));
    }
    const auto in = m->context->submission_lock().enter();
    return m->context->meetings().state(*m, rank);
  });
}

// Groups may be nested; only the outermost counts.
tessStatus_t tessGroupStart(void) {
  return run([&]() -> result<void> {
    WEIR_CHECK(outside_tasks("tessGroupStart"));
    // A new group does not inherit the failure of a call outside of groups.
    if (open_group.depth++ == 0) {
      open_group.lost = false;
    }
    return {};
  });
}

tessStatus_t tessGroupEnd(void) {
  return run([] { return end_group(); });
}

}  // extern "C"
