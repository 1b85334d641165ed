// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tensors in and out of other libraries without a copy. The structures are those of
/// DLPack 1.x, by layout; they have C linkage names of their own here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "weir/base/dtype.hpp"
#include "weir/base/error.hpp"
#include "weir/tessera/device/symmetric_memory.hpp"

namespace weir::tessera::dlpack {

inline constexpr std::uint32_t major_version = 1;
inline constexpr std::uint32_t minor_version = 1;
inline constexpr std::uint64_t flag_read_only = 1;
inline constexpr std::uint64_t flag_copied = 2;

/// @source{DLPack 1.0, DLDeviceType}
enum device_type : std::int32_t {
  device_cpu = 1,
  device_cuda = 2,
  device_cuda_host = 3,
  device_cuda_managed = 13
};
/// @source{DLPack 1.1, DLDataTypeCode}
enum type_code : std::uint8_t {
  type_int = 0,
  type_uint = 1,
  type_float = 2,
  type_bfloat = 4,
  type_complex = 5,
  type_bool = 6,
  type_float8_e4m3fn = 10,
  type_float8_e5m2 = 12
};

struct device {
  std::int32_t type = device_cpu;
  std::int32_t id = 0;
};
struct data_type {
  std::uint8_t code = 0;
  std::uint8_t bits = 0;
  std::uint16_t lanes = 1;
};
/// Shape and strides count in elements; null strides mean row-major.
struct tensor {
  void* data = nullptr;
  dlpack::device device;
  std::int32_t ndim = 0;
  data_type type;
  std::int64_t* shape = nullptr;
  std::int64_t* strides = nullptr;
  std::uint64_t byte_offset = 0;
};
/// The form before 1.0, which many libraries still ask for.
struct managed_tensor {
  dlpack::tensor tensor;
  void* context = nullptr;
  void (*deleter)(managed_tensor* self) = nullptr;
};
struct managed_tensor_versioned {
  std::uint32_t major = major_version;
  std::uint32_t minor = minor_version;
  void* context = nullptr;
  void (*deleter)(managed_tensor_versioned* self) = nullptr;
  std::uint64_t flags = 0;
  dlpack::tensor tensor;
};
static_assert(sizeof(tensor) == 48 && offsetof(tensor, shape) == 24);
static_assert(sizeof(managed_tensor) == 64);
static_assert(sizeof(managed_tensor_versioned) == 80 &&
              offsetof(managed_tensor_versioned, tensor) == 32);

/// What an export says beside the memory. Strides count in elements; empty: row-major.
struct export_options {
  dtype type = dtype::fp32;
  std::span<const std::int64_t> shape;
  std::span<const std::int64_t> strides;
  std::size_t offset = 0;  ///< bytes from the start of the instance
  std::int32_t rank = 0;
  bool read_only = false;
  dlpack::device device;
};

/// A tensor over one instance of an allocation, which it keeps until its deleter is
/// called. The caller, or who takes it from the caller, calls the deleter once.
/// @error{out_of_range, an element lies outside the allocation, or no such rank}
/// @error{unsupported, a type that DLPack has no code for}
/// @error{invalid_argument, negative extents, or strides of another number}
[[nodiscard]] result<managed_tensor_versioned*> make_versioned(
    allocation_ptr memory, const export_options& options);
/// As make_versioned, in the older form. @error{unsupported, also read-only memory}
[[nodiscard]] result<managed_tensor*> make_managed(allocation_ptr memory,
                                                   const export_options& options);

/// What a foreign tensor covers. The spans point into it.
struct description {
  dtype type = dtype::fp32;
  dlpack::device device;
  std::byte* data = nullptr;   ///< of element 0
  std::byte* begin = nullptr;  ///< lowest byte of any element
  std::size_t bytes = 0;       ///< from there to the end of the highest
  std::span<const std::int64_t> shape;
  std::span<const std::int64_t> strides;  ///< empty: row-major
  bool read_only = false;
};
/// Checks a foreign tensor, and takes nothing over. Only the version and the deleter of a
/// tensor of another major version are ever looked at.
/// @error{unsupported_version, its major version is not 1}
/// @error{unsupported, a type or number of lanes that we have no name for}
/// @error{invalid_argument, null or negative where it may not be}
/// @error{out_of_range, extents whose bytes exceed the address space}
[[nodiscard]] result<description> describe(const managed_tensor_versioned* foreign);
[[nodiscard]] result<description> describe(const managed_tensor* foreign);

/// Takes a foreign tensor over: its memory is known to the table until it is removed, and
/// its deleter is called after the last holder let go. On failure it stays the caller's.
/// `on_device` is the device of ours that its memory is on, or `allocation::host_device`.
/// @error{as describe and symmetric_memory::adopt}
/// @error{invalid_argument, it has no elements}
[[nodiscard]] result<allocation_ptr> adopt(symmetric_memory& into,
                                           managed_tensor_versioned* foreign,
                                           std::int32_t on_device,
                                           std::uint64_t owner = 0);
[[nodiscard]] result<allocation_ptr> adopt(symmetric_memory& into,
                                           managed_tensor* foreign,
                                           std::int32_t on_device,
                                           std::uint64_t owner = 0);

}  // namespace weir::tessera::dlpack
