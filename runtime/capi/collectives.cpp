// SPDX-License-Identifier: Apache-2.0
/// @file
/// Collectives.
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "capi/objects.hpp"
#include "weir/runtime/stream/collective.hpp"
#include "weir/runtime/stream/meeting_point.hpp"

namespace weir::capi {
namespace {

using runtime::collective_kind;

result<runtime::reduction_op> operation_of(int op) {
  switch (op) {
    case TESS_COLL_SUM: return runtime::reduction_op::sum;
    case TESS_COLL_MAX: return runtime::reduction_op::max;
    case TESS_COLL_MIN: return runtime::reduction_op::min;
    case TESS_COLL_PRODUCT: return runtime::reduction_op::product;
    case TESS_COLL_AVERAGE: return runtime::reduction_op::average;
    default: break;
  }
  return error(errc::invalid_argument,
               fmt::format("collective not posted: expected an operation from {} to {}, "
                           "found {}",
                           static_cast<int>(TESS_COLL_SUM),
                           static_cast<int>(TESS_COLL_AVERAGE), op));
}

result<runtime::wire_format> wire_of(int type) {
  switch (type) {
    case 0: return runtime::wire_format::plain;
    case TESS_BF16: return runtime::wire_format::bf16;
    case TESS_FP8_E4M3: return runtime::wire_format::fp8_e4m3;
    case TESS_FP8_E5M2: return runtime::wire_format::fp8_e5m2;
    default: break;
  }
  return error(errc::invalid_argument,
               fmt::format("collective not posted: expected bf16 or fp8 between ranks, "
                           "found type {}",
                           type));
}

result<collective_kind> kind_of(int kind) {
  if (kind < TESS_COLLECTIVE_ALL_REDUCE || kind > TESS_COLLECTIVE_BARRIER) {
    return error(errc::invalid_argument,
                 fmt::format("collective not posted: expected a kind from {} to {}, "
                             "found {}",
                             static_cast<int>(TESS_COLLECTIVE_ALL_REDUCE),
                             static_cast<int>(TESS_COLLECTIVE_BARRIER), kind));
  }
  return static_cast<collective_kind>(kind);
}
static_assert(static_cast<int>(collective_kind::send) == TESS_COLLECTIVE_SEND &&
              static_cast<int>(collective_kind::barrier) == TESS_COLLECTIVE_BARRIER);

/// Calls between the brackets of one thread.
struct group {
  int depth = 0;
  std::vector<std::pair<tessStream_t, runtime::collective_request>> calls;
  bool lost = false;            ///< a call failed,
  std::optional<error> broken;  ///< the first with this, unless there was no memory
};
thread_local group open_group;  // NOLINT: brackets belong to a thread

result<void> post_one(tessMesh_t handle, const tessCollectiveDesc& d, tessStream_t stream,
                      std::string_view call) {
  WEIR_CHECK(outside_tasks(call));
  WEIR_TRY(const auto m, find(handle, call));
  WEIR_TRY(const auto s, find(stream, call));
  if (s->what->on() != m) {
    return error(errc::invalid_argument,
                 "collective not posted: expected the stream's own mesh, found another")
        .hint("axes are those of the mesh that the stream was created on");
  }
  runtime::collective_request what;
  WEIR_TRY(what.call.kind, kind_of(d.kind));
  const bool barrier = what.call.kind == collective_kind::barrier;
  if (!barrier) {
    WEIR_TRY(const dtype_info type, info_of(d.dtype));
    if (type.tessera.empty()) {
      return error(errc::invalid_argument,
                   fmt::format("collective not posted: expected a type of the ABI, found "
                               "{}",
                               d.dtype));
    }
    what.call.type = type.id;
  }
  what.call.count = barrier ? 0 : d.count;
  WEIR_TRY(what.call.op, operation_of(d.op));
  what.call.root = d.root;
  what.call.peer = d.peer;
  if (d.packedShards != 0 && d.packedShards != 1) {
    return error(errc::invalid_argument,
                 fmt::format("collective not posted: expected packedShards of 0 or 1, "
                             "found {}",
                             d.packedShards));
  }
  what.call.packed_shards = d.packedShards == 1;
  WEIR_TRY(what.axes, runtime::parse_axes(d.axis));
  what.input = d.sendbuf;
  what.output = d.recvbuf == nullptr ? const_cast<void*>(d.sendbuf) : d.recvbuf;
  if (d.algorithm != nullptr && *d.algorithm != '\0') {
    auto how = runtime::algorithm_named(d.algorithm);
    if (!how) {
      return error(errc::invalid_argument, how.error().message());
    }
    what.how = *how;
  }
  what.chunk_bytes = d.chunkBytes;
  WEIR_TRY(what.wire, wire_of(d.wireDtype));
  WEIR_CHECK(check_limit(call, -1, d.timeoutMs));
  what.patience_ns = d.timeoutMs * 1'000'000;
  WEIR_TRY(auto operation, runtime::make_collective(*s->what, what));
  if (open_group.depth > 0) {
    open_group.calls.push_back({stream, what});  // whose buffers may go before its end
  } else if (operation) {
    s->what->enqueue(std::move(operation));
  }
  return {};
}

/// A call that spoils its group if it fails, by an error or by an exception.
result<void> post(tessMesh_t handle, const tessCollectiveDesc* d, tessStream_t stream,
                  std::string_view call) {
  const bool lost = std::exchange(open_group.lost, true);
  auto posted = [&]() -> result<void> {
    WEIR_TRY(const tessCollectiveDesc known,
             read_struct(call, d, offsetof(tessCollectiveDesc, timeoutMs)));
    return post_one(handle, known, stream, call);
  }();
  if (posted || open_group.depth == 0) {
    open_group.lost = lost;
  } else if (!lost) {
    open_group.broken = posted.error();
  }
  return posted;
}

result<void> end_group() {
  constexpr std::string_view call = "tessGroupEnd";
  WEIR_CHECK(outside_tasks(call));
  if (open_group.depth == 0) {
    return error(errc::invalid_argument,
                 "tessGroupEnd failed: expected a group that has been started");
  }
  if (open_group.depth > 1) {
    --open_group.depth;
    return {};
  }
  const group ended = std::exchange(open_group, {});
  if (ended.broken) {
    return error(ended.broken->code(), "group not posted: one of its calls failed")
        .because(*ended.broken);
  }
  if (ended.lost) {
    return error(errc::out_of_memory, "group not posted: no memory for one of its calls");
  }
  std::vector<runtime::grouped_call> calls;
  for (const auto& [handle, what] : ended.calls) {
    WEIR_TRY(const auto s, find(handle, call));
    calls.push_back({s->what, what});
  }
  WEIR_CHECK(runtime::enqueue_group(calls));
  for (const runtime::grouped_call& c : calls) {
    c.on->of().log(runtime::log_level::trace, "stream {}: {} of a group enqueued",
                   c.on->number(), name_of(c.what.call.kind));
  }
  return {};
}

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
}  // namespace weir::capi

using namespace weir;        // NOLINT: the functions of the interface are global
using namespace weir::capi;  // NOLINT

extern "C" {

tessStatus_t tessCollective(tessMesh_t mesh, const tessCollectiveDesc* desc,
                            tessStream_t stream) {
  return run([&] { return post(mesh, desc, stream, "tessCollective"); });
}

tessStatus_t tessAllReduce(tessMesh_t mesh, void* buffer, size_t count, int dtype,
                           tessCollOp op, const char* axis, tessStream_t stream) {
  return run([&] {
    const auto d = describe(TESS_COLLECTIVE_ALL_REDUCE, buffer, buffer, count, dtype,
                            value_of(op), axis);
    return post(mesh, &d, stream, "tessAllReduce");
  });
}

tessStatus_t tessReduceScatter(tessMesh_t mesh, void* inout, size_t count, int dtype,
                               tessCollOp op, const char* axis, tessStream_t stream) {
  return run([&] {
    const auto d = describe(TESS_COLLECTIVE_REDUCE_SCATTER, inout, inout, count, dtype,
                            value_of(op), axis);
    return post(mesh, &d, stream, "tessReduceScatter");
  });
}

tessStatus_t tessAllGather(tessMesh_t mesh, void* inout, size_t count, int dtype,
                           const char* axis, tessStream_t stream) {
  return run([&] {
    const auto d =
        describe(TESS_COLLECTIVE_ALL_GATHER, inout, inout, count, dtype, 0, axis);
    return post(mesh, &d, stream, "tessAllGather");
  });
}

tessStatus_t tessBroadcast(tessMesh_t mesh, void* buffer, size_t count, int dtype,
                           int root, tessStream_t stream) {
  return run([&] {
    auto d =
        describe(TESS_COLLECTIVE_BROADCAST, buffer, buffer, count, dtype, 0, nullptr);
    d.root = root;
    return post(mesh, &d, stream, "tessBroadcast");
  });
}

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

tessStatus_t tessBarrier(tessMesh_t mesh, const char* axis, tessStream_t stream) {
  return run([&] {
    const auto d =
        describe(TESS_COLLECTIVE_BARRIER, nullptr, nullptr, 0, TESS_FP32, 0, axis);
    return post(mesh, &d, stream, "tessBarrier");
  });
}

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
    auto in = m->of->port().enter();
    m->of->meetings().recover(in, *m, rank);
    return {};
  });
}

tessStatus_t tessGroupStart(void) {
  return run([&]() -> result<void> {
    WEIR_CHECK(outside_tasks("tessGroupStart"));
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
