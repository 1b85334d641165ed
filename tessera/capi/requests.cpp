// SPDX-License-Identifier: Apache-2.0
/// @file
/// Checks and converts arguments. The functions need no objects except those that the
/// arguments name.
///
/// Enumerations of C have any value that a program stores in them, so they are checked as
/// numbers before they are converted.
///
/// A request is a plain value: it has no reference to the caller's structures, except the
/// addresses of memory that operations use and the arguments of a launch, which are
/// copied when the operation is made.
#include "capi/requests.hpp"

#include <algorithm>

#include <fmt/core.h>

namespace weir::tessera::capi {

using collective::collective_kind;

namespace {

/// Return the runtime's value for a number of the C interface.
result<tessera::copy_kind> copy_kind_of(int kind, std::string_view call) {
  switch (kind) {
    case TESS_COPY_H2D: return tessera::copy_kind::host_to_device;
    case TESS_COPY_D2H: return tessera::copy_kind::device_to_host;
    case TESS_COPY_D2D: return tessera::copy_kind::device_to_device;
    // This kind is a number of the extended interface.
    case TESS_COPY_H2H: return tessera::copy_kind::host_to_host;
    default: break;
  }
  return error(errc::invalid_argument,
               fmt::format("{} failed: expected a kind of copy, found {}", call, kind));
}

/// Returns the operation of a reduction.
/// Collectives that reduce nothing pass 0, which is TESS_COLL_SUM.
result<collective::reduction_op> operation_of(int op) {
  switch (op) {
    case TESS_COLL_SUM: return collective::reduction_op::sum;
    case TESS_COLL_MAX: return collective::reduction_op::max;
    case TESS_COLL_MIN: return collective::reduction_op::min;
    case TESS_COLL_PRODUCT: return collective::reduction_op::product;
    case TESS_COLL_AVERAGE: return collective::reduction_op::average;
    default: break;
  }
  return error(errc::invalid_argument,
               fmt::format("collective not posted: expected an operation from {} to {}, "
                           "found {}",
                           static_cast<int>(TESS_COLL_SUM),
                           static_cast<int>(TESS_COLL_AVERAGE), op));
}

/// Returns the wire format for the type of numbers between ranks; 0 means plain numbers.
result<collective::wire_format> wire_of(int type) {
  switch (type) {
    case 0: return collective::wire_format::plain;
    case TESS_BF16: return collective::wire_format::bf16;
    case TESS_FP8_E4M3: return collective::wire_format::fp8_e4m3;
    case TESS_FP8_E5M2: return collective::wire_format::fp8_e5m2;
    default: break;
  }
  return error(errc::invalid_argument,
               fmt::format("collective not posted: expected bf16 or fp8 between ranks, "
                           "found type {}",
                           type));
}

/// Returns the kind of a collective. Both enumerations have the same numbers, which the
/// assertion below samples.
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

}  // namespace

// Extents are checked later, by the device. TESS_LAUNCH_CAPTURE is handled by the caller.
result<tessera::launch_request> request_of(tessKernel_t kernel,
                                           const tessLaunchConfig& cfg, const void* args,
                                           std::size_t bytes) {
  // An unknown flag is refused, because ignoring it could give other results than those
  // of a later version.
  constexpr unsigned known = TESS_LAUNCH_DETERMINISTIC | TESS_LAUNCH_CAPTURE |
                             TESS_LAUNCH_PERSISTENT | TESS_LAUNCH_LOW_LATENCY;
  if ((cfg.flags & ~known) != 0) {
    return error(
        errc::invalid_argument,
        fmt::format("kernel not launched: expected known flags, found {:#x}", cfg.flags));
  }
  tessera::launch_request out;
  // The number of the handle stands for the kernel in comparisons with the last launch.
  out.key = number_of(kernel);
  std::copy(cfg.grid, cfg.grid + 3, out.grid.begin());
  std::copy(cfg.block, cfg.block + 3, out.block.begin());
  out.shared_bytes = cfg.shmemBytes;
  out.deterministic = (cfg.flags & TESS_LAUNCH_DETERMINISTIC) != 0;
  out.persistent = (cfg.flags & TESS_LAUNCH_PERSISTENT) != 0;
  out.urgent = (cfg.flags & TESS_LAUNCH_LOW_LATENCY) != 0;
  out.args = args;
  out.args_bytes = bytes;
  return out;
}

// Kernels are loaded for the devices of one context.
result<void> check_context(const kernel_object& kernel, const tessera::stream& stream) {
  if (kernel.context.get() != &stream.context()) {
    return error(errc::invalid_argument,
                 "kernel not launched: expected a kernel of the stream's context, found "
                 "one of another context");
  }
  return {};
}

result<tessera::copy_request> request_of(void* dst, const void* src, std::size_t bytes,
                                         int kind, int rank, std::string_view call) {
  tessera::copy_request out;
  // A rank of -1 means no particular rank.
  WEIR_TRY(out.kind, copy_kind_of(kind, call));
  out.to = dst;
  out.from = src;
  out.bytes = bytes;
  out.rank = rank;
  return out;
}

// A description may end before the pitches, which a single row does not need.
// A height of 0 means one row.
result<tessera::copy_request> request_of(const tessCopyDesc* desc,
                                         std::string_view call) {
  WEIR_TRY(const tessCopyDesc d,
           read_struct(call, desc, offsetof(tessCopyDesc, dstPitch)));
  WEIR_CHECK(check_reserved(call, d.reserved));
  WEIR_TRY(auto out, request_of(d.dst, d.src, d.width, d.kind, d.rank, call));
  out.rows = std::max(d.height, std::size_t{1});
  out.to_pitch = d.dstPitch;
  out.from_pitch = d.srcPitch;
  return out;
}

// `tessMemsetAsync` fills bytes, as `memset` does.
tessera::fill_request request_of(void* destination, int value, std::size_t bytes) {
  tessera::fill_request out;
  out.to = destination;
  out.bytes = bytes;
  // A pattern of one byte; the conversion takes the lowest 8 bits.
  out.pattern[0] = static_cast<std::byte>(value);
  return out;
}

// A barrier has neither type nor count. A call without an output buffer is in place.
result<tessera::collective_request> request_of(const tessCollectiveDesc* desc,
                                               std::string_view call) {
  WEIR_TRY(const tessCollectiveDesc d,
           read_struct(call, desc, offsetof(tessCollectiveDesc, timeoutMs)));
  tessera::collective_request out;
  WEIR_TRY(out.call.kind, kind_of(d.kind));
  // Programs leave the type of a barrier at any value, so it is not looked at.
  const bool barrier = out.call.kind == collective_kind::barrier;
  if (!barrier) {
    WEIR_TRY(const dtype_info type, info_of(d.dtype));
    if (type.tessera.empty()) {
      return error(errc::invalid_argument,
                   fmt::format("collective not posted: expected a type of the ABI, found "
                               "{}",
                               d.dtype));
    }
    out.call.type = type.id;
  }
  out.call.count = barrier ? 0 : d.count;
  WEIR_TRY(out.call.op, operation_of(d.op));
  out.call.root = d.root;
  out.call.peer = d.peer;
  // Other numbers are kept free for later forms.
  if (d.packedShards != 0 && d.packedShards != 1) {
    return error(errc::invalid_argument,
                 fmt::format("collective not posted: expected packedShards of 0 or 1, "
                             "found {}",
                             d.packedShards));
  }
  out.call.packed_shards = d.packedShards == 1;
  WEIR_TRY(out.axes, collective::parse_axes(d.axis));
  out.input = d.sendbuf;
  // In place the runtime writes the buffer, so the program has passed memory that may be
  // written.
  out.output = d.recvbuf == nullptr ? const_cast<void*>(d.sendbuf) : d.recvbuf;
  // No name means that the runtime chooses.
  if (d.algorithm != nullptr && *d.algorithm != '\0') {
    auto how = collective::algorithm_named(d.algorithm);
    if (!how) {
      return error(errc::invalid_argument, how.error().message());
    }
    out.how = *how;
  }
  out.chunk_bytes = d.chunkBytes;
  WEIR_TRY(out.wire, wire_of(d.wireDtype));
  WEIR_CHECK(check_limit(call, -1, d.timeoutMs));
  out.patience_ns = d.timeoutMs * 1'000'000;
  return out;
}

}  // namespace weir::tessera::capi
