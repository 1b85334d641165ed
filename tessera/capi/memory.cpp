// SPDX-License-Identifier: Apache-2.0
/// @file
/// Memory: allocation, copies, fills, and queries about addresses.
///
/// Functions that end in Async take effect in the order of a stream. All others act at
/// once; freeing, however, lets enqueued operations finish with the memory.
///
/// Addresses are the names of memory: the context keeps a table of all memory that it has
/// made or that the program has registered, and every function here looks addresses up in
/// it. Memory of a mesh has one instance per device, and the program holds the address of
/// rank 0.
#include <fmt/core.h>

#include "capi/objects.hpp"
#include "capi/requests.hpp"

namespace weir::tessera::capi {
namespace {

using tessera::memory_kind;

/// Makes a copy and enqueues it. A copy of nothing makes no operation.
/// Addresses and ranges are checked when the operation is made, so their errors are
/// those of this call.
result<void> copy(const tessera::copy_request& request, tessStream_t stream,
                  std::string_view call) {
  WEIR_CHECK(outside_tasks(call));
  WEIR_TRY(const auto s, find(stream, call));
  WEIR_TRY(auto operation, tessera::make_copy(*s->stream, request));
  return operation ? post_in_order(*s, std::move(operation)) : result<void>();
}

/// Returns the context for calls about host memory, which name none.
result<std::shared_ptr<context>> host_context(std::string_view call) {
  return any_context(call);
}

/// Removes host memory from whichever context knows the address as the beginning of
/// memory of this kind. If none does, the last context's error is returned.
/// The search visits all contexts, because the call does not say which one has allocated
/// the memory.
result<void> remove_host(const void* address, memory_kind kind, std::string_view call) {
  WEIR_CHECK(any_context(call));
  result<void> out;
  bool found = false;
  all().contexts.for_each([&](context& c) {
    if (!found) {
      auto removed = c.memory().remove(address, kind);
      found = removed.has_value();
      if (!removed) {
        out = std::move(removed).error();
      }
    }
  });
  return found ? result<void>() : out;
}

}  // namespace
}  // namespace weir::tessera::capi

using namespace weir;                 // NOLINT: the functions of the interface are global
using namespace weir::tessera::capi;  // NOLINT

extern "C" {

// Memory of the mesh: one instance on each of its devices. Only the address of rank 0 is
// returned; it stands for all instances.
tessStatus_t tessMalloc(tessMesh_t handle, size_t bytes, void** devPtr) {
  return run([&]() -> result<void> {
    WEIR_TRY(const auto m, find(handle, "tessMalloc"));
    if (devPtr == nullptr) {
      return null_argument("tessMalloc", "a place for the pointer");
    }
    WEIR_CHECK(outside_tasks("tessMalloc"));
    // One instance on each device of the mesh, or an error.
    WEIR_TRY(*devPtr, m->context->allocate(m, bytes));
    return {};
  });
}

// Null is accepted, as by `free` of C.
tessStatus_t tessFree(tessMesh_t handle, void* devPtr) {
  return run([&]() -> result<void> {
    WEIR_CHECK(outside_tasks("tessFree"));
    WEIR_TRY(const auto m, find(handle, "tessFree"));
    // The memory goes back to the pool when the enqueued operations that use it have
    // ended.
    return devPtr == nullptr ? result<void>() : m->context->free_later(m, devPtr);
  });
}

// Memory in the order of the stream, charged to its limit.
tessStatus_t tessMallocAsync(void** devPtr, size_t bytes, tessStream_t stream) {
  return run([&]() -> result<void> {
    WEIR_CHECK(outside_tasks("tessMallocAsync"));
    WEIR_TRY(const auto s, find(stream, "tessMallocAsync"));
    if (devPtr == nullptr) {
      return null_argument("tessMallocAsync", "a place for the pointer");
    }
    void* taken = nullptr;
    auto made = enqueue_in_order(*s, [&]() -> result<void> {
      WEIR_TRY(taken, s->stream->context().allocate(*s->stream, bytes));
      return {};
    });
    // A call that fails leaves no memory behind, also if only the wait has failed.
    if (!made && taken != nullptr) {
      (void)s->stream->context().free_later(*s->stream, taken);
      return made;
    }
    if (made) {
      *devPtr = taken;
    }
    return made;
  });
}

// The memory can be used by operations that were enqueued on the stream before.
tessStatus_t tessFreeAsync(void* devPtr, tessStream_t stream) {
  return run([&]() -> result<void> {
    WEIR_CHECK(outside_tasks("tessFreeAsync"));
    WEIR_TRY(const auto s, find(stream, "tessFreeAsync"));
    if (devPtr == nullptr) {
      return {};
    }
    // Later users of the memory wait for the free, so the call does not.
    WEIR_CHECK(wait_for_own_native(*s));
    return s->stream->context().free_later(*s->stream, devPtr);
  });
}

// The counters are of one moment, since the pool copies them under its lock.
tessStatus_t tessMemPoolGetStats(tessMesh_t handle, tessMemPoolStats* stats) {
  return run([&]() -> result<void> {
    WEIR_TRY(const auto m, find(handle, "tessMemPoolGetStats"));
    // Sizes are those of one instance, as in all functions about memory of a mesh.
    const tessera::pool_counters now = m->pool.counters();
    tessMemPoolStats out{};
    out.usedBytes = now.used;
    out.usedPeakBytes = now.used_peak;
    out.reservedBytes = now.reserved;
    out.reservedPeakBytes = now.reserved_peak;
    out.keepBytes = now.keeps;
    out.reuses = now.reused;
    return copy_struct("tessMemPoolGetStats", out, stats);
  });
}

// Memory that the pool keeps beyond the new limit is released at once.
tessStatus_t tessMemPoolSetKeep(tessMesh_t handle, size_t bytes) {
  return run([&]() -> result<void> {
    WEIR_TRY(const auto m, find(handle, "tessMemPoolSetKeep"));
    m->pool.set_keep(bytes);
    return {};
  });
}

// Releases memory that the pool keeps, down to `bytes`.
tessStatus_t tessMemPoolTrim(tessMesh_t handle, size_t bytes) {
  return run([&]() -> result<void> {
    WEIR_TRY(const auto m, find(handle, "tessMemPoolTrim"));
    m->pool.trim(bytes);
    return {};
  });
}

// Each result is optional.
tessStatus_t tessStreamGetMemoryUse(tessStream_t stream, size_t* usedBytes,
                                    size_t* limitBytes) {
  return run([&]() -> result<void> {
    WEIR_TRY(const auto s, find(stream, "tessStreamGetMemoryUse"));
    const auto& budget = s->stream->budget();
    if (usedBytes != nullptr) {
      *usedBytes = budget->used();
    }
    if (limitBytes != nullptr) {
      *limitBytes = budget->limit();
    }
    return {};
  });
}

// The call names no context, so host memory belongs to any context that exists.
tessStatus_t tessHostAlloc(size_t bytes, void** hostPtr, tessMemKind kind) {
  return run([&]() -> result<void> {
    WEIR_TRY(const auto c, host_context("tessHostAlloc"));
    // The kind is checked as a number; only pinned memory exists so far.
    if (hostPtr == nullptr) {
      return null_argument("tessHostAlloc", "a place for the pointer");
    }
    if (value_of(kind) != TESS_MEM_PINNED_HOST) {
      return error(errc::invalid_argument,
                   fmt::format("host memory not allocated: expected the kind "
                               "TESS_MEM_PINNED_HOST, found {}",
                               value_of(kind)));
    }
    WEIR_TRY(const auto made, c->memory().allocate_host(bytes));
    // An allocation of 0 bytes has no memory and gives null.
    *hostPtr = made == nullptr ? nullptr : made->data();
    return {};
  });
}

// Null is accepted, as by `free` of C.
tessStatus_t tessHostFree(void* hostPtr) {
  return run([&]() -> result<void> {
    return hostPtr == nullptr ? result<void>()
                              : remove_host(hostPtr, memory_kind::host, "tessHostFree");
  });
}

// The memory stays the program's; the runtime only pins it and knows its address.
tessStatus_t tessHostRegister(void* hostPtr, size_t bytes) {
  return run([&]() -> result<void> {
    WEIR_TRY(const auto c, host_context("tessHostRegister"));
    // Pinned memory lets devices copy without a detour; the address is known as
    // registered memory from now on.
    WEIR_CHECK(c->memory().register_host(static_cast<std::byte*>(hostPtr), bytes));
    return {};
  });
}

// The address must be the one that was registered, and not one inside of the memory.
tessStatus_t tessHostUnregister(void* hostPtr) {
  return run([&]() -> result<void> {
    if (hostPtr == nullptr) {
      return null_argument("tessHostUnregister", "an address");
    }
    return remove_host(hostPtr, memory_kind::registered, "tessHostUnregister");
  });
}

// -1 stands for no rank: all ranks of the stream, or rank 0 if a copy goes to the host.
tessStatus_t tessMemcpyAsync(void* dst, const void* src, size_t bytes, tessCopyKind kind,
                             tessStream_t stream) {
  return run([&]() -> result<void> {
    constexpr std::string_view call = "tessMemcpyAsync";
    WEIR_TRY(const auto request, request_of(dst, src, bytes, value_of(kind), -1, call));
    return copy(request, stream, call);
  });
}

// Copies from or to the instance of one rank.
tessStatus_t tessMemcpyRankAsync(void* dst, const void* src, size_t bytes,
                                 tessCopyKind kind, int rank, tessStream_t stream) {
  return run([&]() -> result<void> {
    constexpr std::string_view call = "tessMemcpyRankAsync";
    if (rank < 0) {
      return error(errc::invalid_argument,
                   fmt::format("tessMemcpyRankAsync failed: expected a rank from 0 on, "
                               "found {}",
                               rank));
    }
    WEIR_TRY(const auto request, request_of(dst, src, bytes, value_of(kind), rank, call));
    return copy(request, stream, call);
  });
}

// Rows are `width` bytes; pitches are the distances between their beginnings.
tessStatus_t tessMemcpy2DAsync(void* dst, size_t dstPitch, const void* src,
                               size_t srcPitch, size_t width, size_t height,
                               tessCopyKind kind, tessStream_t stream) {
  return run([&]() -> result<void> {
    constexpr std::string_view call = "tessMemcpy2DAsync";
    WEIR_TRY(auto request, request_of(dst, src, width, value_of(kind), -1, call));
    // The bytes of the request are those of one row.
    request.rows = height;
    request.to_pitch = dstPitch;
    request.from_pitch = srcPitch;
    return copy(request, stream, call);
  });
}

// The general form of the copies above.
tessStatus_t tessCopyAsync(const tessCopyDesc* desc, tessStream_t stream) {
  return run([&]() -> result<void> {
    constexpr std::string_view call = "tessCopyAsync";
    WEIR_TRY(const auto request, request_of(desc, call));
    return copy(request, stream, call);
  });
}

// The lowest byte of `value` fills the memory on every rank of the stream.
tessStatus_t tessMemsetAsync(void* devPtr, int value, size_t bytes, tessStream_t stream) {
  return run([&]() -> result<void> {
    WEIR_CHECK(outside_tasks("tessMemsetAsync"));
    WEIR_TRY(const auto s, find(stream, "tessMemsetAsync"));
    WEIR_TRY(auto operation,
             tessera::make_fill(*s->stream, request_of(devPtr, value, bytes)));
    return operation ? post_in_order(*s, std::move(operation)) : result<void>();
  });
}

// Only symmetric memory has an address for each rank.
tessStatus_t tessMemGetRankPtr(tessMesh_t handle, void* devPtr, int rank,
                               void** rankPtr) {
  return run([&]() -> result<void> {
    WEIR_TRY(const auto m, find(handle, "tessMemGetRankPtr"));
    if (rankPtr == nullptr) {
      return null_argument("tessMemGetRankPtr", "a place for the pointer");
    }
    // An address inside of an allocation is accepted: the result has the same offset in
    // the instance of the rank.
    const auto place = m->context->memory().find(devPtr);
    if (!place || !place->memory->symmetric() || place->memory->owner() != m->number) {
      return error(errc::invalid_argument,
                   fmt::format("tessMemGetRankPtr failed: expected memory of the mesh, "
                               "found {} at {}",
                               !place                       ? "none"
                               : place->memory->symmetric() ? "memory of another mesh"
                                                            : "memory of another kind",
                               devPtr));
    }
    if (rank < 0 || rank >= static_cast<int>(m->ranks())) {
      return error(errc::invalid_argument,
                   fmt::format("tessMemGetRankPtr failed: expected a rank in [0, {}), "
                               "found {}",
                               m->ranks(), rank));
    }
    *rankPtr = place->on_rank(rank);
    return {};
  });
}

// Memory that the pool keeps counts as used.
tessStatus_t tessMemGetInfo(tessMesh_t handle, int rank, size_t* freeBytes,
                            size_t* totalBytes) {
  return run([&]() -> result<void> {
    WEIR_TRY(const auto m, find(handle, "tessMemGetInfo"));
    if (rank < 0 || rank >= static_cast<int>(m->ranks())) {
      return error(errc::invalid_argument,
                   fmt::format("tessMemGetInfo failed: expected a rank in [0, {}), found "
                               "{}",
                               m->ranks(), rank));
    }
    // `in_use` counts all memory that this context has allocated on the device.
    const auto use =
        m->context->backend().memory(m->devices[static_cast<std::size_t>(rank)]);
    if (freeBytes != nullptr) {
      *freeBytes = use.capacity - use.in_use;
    }
    if (totalBytes != nullptr) {
      *totalBytes = use.capacity;
    }
    return {};
  });
}

// An unknown address is no error: its kind is 0 and its device -1.
tessStatus_t tessPointerGetAttributes(tessContext_t ctx, const void* ptr,
                                      tessPointerAttributes* attributes) {
  return run([&]() -> result<void> {
    WEIR_TRY(const auto c, find(ctx, "tessPointerGetAttributes"));
    tessPointerAttributes out{};
    out.device = -1;
    if (const auto place = c->memory().find(ptr)) {
      switch (place->memory->kind()) {
        // The numbers of both enumerations are independent of each other.
        case memory_kind::device: out.kind = TESS_POINTER_DEVICE; break;
        case memory_kind::host: out.kind = TESS_POINTER_HOST; break;
        case memory_kind::registered: out.kind = TESS_POINTER_REGISTERED; break;
        case memory_kind::imported: out.kind = TESS_POINTER_IMPORTED; break;
      }
      out.device = place->device();
      out.rank = place->rank;
      out.base = place->memory->data();
      out.bytes = place->memory->bytes();
      out.offset = place->offset;
    }
    return copy_struct("tessPointerGetAttributes", out, attributes);
  });
}

}  // extern "C"
