// SPDX-License-Identifier: Apache-2.0
/// @file
/// Exchange of tensors with other libraries by DLPack's structures, in both forms: with
/// and without version.
///
///   export: memory of the context -> DLPack structure, which another library releases
///   import: DLPack structure -> memory of the context, which tessMemReleaseImported or
///           the end of the context releases by the function of the structure
///
/// In both directions the memory has one owner, and the structure keeps it alive.
#include <algorithm>

#include <fmt/core.h>

#include "capi/objects.hpp"
#include "weir/tessera/device/dlpack.hpp"

namespace weir::tessera::capi {
namespace {

namespace dl = tessera::dlpack;
using tessera::allocation;

/// Returns the device that a tensor names: memory of virtual devices is memory of the
/// host for other libraries.
result<dl::device> device_of(const context& c, const tessera::memory_place& place,
                             std::int32_t rank) {
  const bool gpus = c.backend().name() == "cuda";
  if (!gpus || place.memory->kind() == tessera::memory_kind::registered) {
    return dl::device{};
  }
  if (place.device() == allocation::host_device) {
    return place.memory->kind() == tessera::memory_kind::host
               ? dl::device{dl::device_cuda_host, 0}
               : dl::device{};
  }
  const auto devices = place.memory->devices();
  if (rank < 0 || static_cast<std::size_t>(rank) >= devices.size()) {
    return dl::device{};  // the export refuses the rank
  }
  return dl::device{dl::device_cuda, devices[static_cast<std::size_t>(rank)]};
}

/// Exports memory as a tensor. The tensor keeps the memory until the other library
/// releases it. The address of rank 0 with `rank` in the description means the instance
/// of that rank.
/// @error{invalid_argument; unknown flags, dimensions outside of [0, 64], or an address
/// that the context does not know}
result<void*> export_tensor(tessContext_t ctx, const void* address,
                            const tessTensorDesc* desc) {
  constexpr std::string_view call = "tessMemExportDlpack";
  WEIR_TRY(const auto c, find(ctx, call));
  WEIR_TRY(const tessTensorDesc d, read_struct(call, desc, sizeof(tessTensorDesc)));
  WEIR_CHECK(check_reserved(call, d.reserved));
  if (address == nullptr || (d.ndim > 0 && d.shape == nullptr)) {
    return null_argument(call, "an address and a description with its shape");
  }
  constexpr std::uint32_t flags = TESS_TENSOR_READ_ONLY | TESS_TENSOR_UNVERSIONED;
  if ((d.flags & ~flags) != 0) {
    return error(
        errc::invalid_argument,
        fmt::format("{} failed: expected known flags, found {:#x}", call, d.flags));
  }
  if (d.ndim < 0 || d.ndim > 64) {
    return error(
        errc::invalid_argument,
        fmt::format("{} failed: expected 0 to 64 dimensions, found {}", call, d.ndim));
  }
  const auto place = c->memory().find(address);
  if (!place) {
    return error(errc::invalid_argument,
                 fmt::format("{} failed: expected memory that the context knows, found "
                             "another address",
                             call));
  }
  WEIR_TRY(const dtype_info type, info_of(d.dtype));
  const auto dims = static_cast<std::size_t>(d.ndim);
  dl::export_options options;
  options.type = type.id;
  options.shape = {d.shape, dims};
  if (d.strides != nullptr) {
    options.strides = {d.strides, dims};
  }
  // The address may lie inside an allocation, and on any rank of it.
  options.offset = place->offset;
  // An address of another rank says itself which instance is meant.
  options.rank = place->rank == 0 ? d.rank : place->rank;
  options.read_only = (d.flags & TESS_TENSOR_READ_ONLY) != 0;
  WEIR_TRY(options.device, device_of(*c, *place, options.rank));
  if ((d.flags & TESS_TENSOR_UNVERSIONED) != 0) {
    WEIR_TRY(auto* const made, dl::make_managed(place->memory, options));
    return static_cast<void*>(made);
  }
  // The form with a version can say that the tensor must not be written.
  WEIR_TRY(auto* const made, dl::make_versioned(place->memory, options));
  return static_cast<void*>(made);
}

/// Describes an imported tensor to the caller. The arrays of the description belong to
/// the tensor and live as long as it.
tessTensorInfo info_of_import(const dl::description& d) {
  tessTensorInfo out{};
  out.dtype = static_cast<std::int32_t>(d.type);
  out.ndim = static_cast<std::int32_t>(d.shape.size());
  out.readOnly = d.read_only ? 1 : 0;
  out.shape = d.shape.data();
  out.strides = d.strides.empty() ? nullptr : d.strides.data();
  out.data = d.data;
  out.begin = d.begin;
  out.bytes = d.bytes;
  return out;
}

/// Checks a device ordinal; -1 stands for the host.
result<void> check_ordinal(const context& c, int device, std::string_view action) {
  if (device < allocation::host_device || device >= c.backend().device_count()) {
    return error(errc::invalid_argument,
                 fmt::format("{}: expected a device in [0, {}) or -1, found {}", action,
                             c.backend().device_count(), device));
  }
  return {};
}

/// Checks that an imported tensor is where the caller says: on the host, or on a GPU of
/// the context.
result<void> check_device(const context& c, const dl::description& d, int device) {
  if (d.device.type == dl::device_cuda && c.backend().name() == "cuda") {
    if (device != d.device.id) {
      return error(errc::invalid_argument,
                   fmt::format("import a tensor: expected device {}, on which it is, "
                               "found {}",
                               d.device.id, device));
    }
    return check_ordinal(c, device, "import a tensor");
  }
  if (d.device.type != dl::device_cpu && d.device.type != dl::device_cuda_host) {
    return error(errc::unsupported,
                 fmt::format("import a tensor: expected memory of the host, found device "
                             "type {}",
                             d.device.type));
  }
  // A kernel of a GPU cannot use an address of the host.
  if (c.backend().name() == "cuda" && device != allocation::host_device) {
    return error(errc::invalid_argument,
                 fmt::format("import a tensor: expected device {}, because its memory is "
                             "of the host, found {}",
                             allocation::host_device, device));
  }
  return check_ordinal(c, device, "import a tensor");
}

/// Imports a tensor of either form. If this fails, the tensor still belongs to the
/// caller.
/// `describe` checks the structure, which comes from another library, before anything of
/// it is used.
template <class Managed>
result<void> import_tensor(context& into, Managed* foreign, int device,
                           tessTensorInfo* info) {
  WEIR_TRY(const dl::description d, dl::describe(foreign));
  WEIR_CHECK(check_device(into, d, device));
  // Everything that may fail comes before `adopt`, which takes the tensor over.
  WEIR_CHECK(copy_struct("tessMemImportDlpack", info_of_import(d), info));
  WEIR_CHECK(dl::adopt(into.memory(), foreign, device));
  return {};
}

}  // namespace
}  // namespace weir::tessera::capi

using namespace weir;                 // NOLINT: the functions of the interface are global
using namespace weir::tessera::capi;  // NOLINT

extern "C" {

tessStatus_t tessMemExportDlpack(tessContext_t ctx, const void* ptr,
                                 const tessTensorDesc* desc, void** managed) {
  return run([&]() -> result<void> {
    if (managed == nullptr) {
      return null_argument("tessMemExportDlpack", "a place for the tensor");
    }
    WEIR_TRY(*managed, export_tensor(ctx, ptr, desc));
    return {};
  });
}

// The flag says which of the two forms of DLPack's structure `managed` is.
tessStatus_t tessMemImportDlpack(tessContext_t ctx, void* managed, unsigned flags,
                                 int device, tessTensorInfo* info) {
  return run([&]() -> result<void> {
    WEIR_TRY(const auto c, find(ctx, "tessMemImportDlpack"));
    if ((flags & ~static_cast<unsigned>(TESS_TENSOR_UNVERSIONED)) != 0) {
      return error(
          errc::invalid_argument,
          fmt::format("import a tensor: expected known flags, found {:#x}", flags));
    }
    if (flags != 0) {
      return import_tensor(*c, static_cast<dl::managed_tensor*>(managed), device, info);
    }
    return import_tensor(*c, static_cast<dl::managed_tensor_versioned*>(managed), device,
                         info);
  });
}

// The program keeps this memory alive itself, so no function is given to release it.
tessStatus_t tessMemRegisterExternal(tessContext_t ctx, void* ptr, size_t bytes,
                                     int device) {
  return run([&]() -> result<void> {
    constexpr std::string_view call = "tessMemRegisterExternal";
    WEIR_TRY(const auto c, find(ctx, call));
    WEIR_CHECK(check_ordinal(*c, device, "register external memory"));
    WEIR_CHECK(c->memory().adopt(static_cast<std::byte*>(ptr), bytes, device, {}));
    return {};
  });
}

// Enqueued operations still hold the memory; its owner's function is called after them.
tessStatus_t tessMemReleaseImported(tessContext_t ctx, void* begin) {
  return run([&]() -> result<void> {
    WEIR_TRY(const auto c, find(ctx, "tessMemReleaseImported"));
    WEIR_CHECK(c->memory().remove(begin, tessera::memory_kind::imported));
    return {};
  });
}

}  // extern "C"
