// SPDX-License-Identifier: Apache-2.0
/// @file
/// Exchange of tensors with other libraries without a copy. The structures have the
/// layout of DLPack 1.x.
/// @threads{values; functions may be called concurrently for different tensors}
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

/// Major version of the structures.
inline constexpr std::uint32_t major_version = 1;
/// Minor version of the structures.
inline constexpr std::uint32_t minor_version = 1;
/// Flag of tensors that must not be written.
inline constexpr std::uint64_t flag_read_only = 1;
/// Flag of tensors that are copies.
inline constexpr std::uint64_t flag_copied = 2;

/// Types of devices. @source{DLPack 1.0, DLDeviceType}
enum device_type : std::int32_t {
  device_cpu = 1,
  device_cuda = 2,
  device_cuda_host = 3,
  device_cuda_managed = 13
};
/// Types of elements. @source{DLPack 1.1, DLDataTypeCode}
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

/// A device. @source{DLPack 1.0, DLDevice}
struct device {
  std::int32_t type = device_cpu;  ///< type of the device
  std::int32_t id = 0;             ///< number among devices of the type
};
/// A type of elements. @source{DLPack 1.0, DLDataType}
struct data_type {
  std::uint8_t code = 0;    ///< type_code
  std::uint8_t bits = 0;    ///< bits of a lane
  std::uint16_t lanes = 1;  ///< lanes of an element
};
/// A tensor. Shape and strides count elements; null strides mean row-major.
/// @source{DLPack 1.0, DLTensor}
struct tensor {
  void* data = nullptr;             ///< address of the data
  dlpack::device device;            ///< device of the data
  std::int32_t ndim = 0;            ///< number of dimensions
  data_type type;                   ///< type of the elements
  std::int64_t* shape = nullptr;    ///< `ndim` extents
  std::int64_t* strides = nullptr;  ///< `ndim` strides, or null
  std::uint64_t byte_offset = 0;    ///< offset of element 0 in bytes
};
/// A tensor with a deleter, in the form before 1.0, which many libraries still use.
struct managed_tensor {
  dlpack::tensor tensor;                            ///< the tensor
  void* context = nullptr;                          ///< private data of the deleter
  void (*deleter)(managed_tensor* self) = nullptr;  ///< frees the tensor
};
/// A tensor with a deleter, flags and version.
struct managed_tensor_versioned {
  std::uint32_t major = major_version;  ///< major version
  std::uint32_t minor = minor_version;  ///< minor version
  void* context = nullptr;              ///< private data of the deleter
  void (*deleter)(managed_tensor_versioned* self) = nullptr;  ///< frees the tensor
  std::uint64_t flags = 0;  ///< flag_read_only and flag_copied
  dlpack::tensor tensor;    ///< the tensor
};
static_assert(sizeof(tensor) == 48 && offsetof(tensor, shape) == 24);
static_assert(sizeof(managed_tensor) == 64);
static_assert(sizeof(managed_tensor_versioned) == 80 &&
              offsetof(managed_tensor_versioned, tensor) == 32);

/// Type and shape of an export.
struct export_options {
  dtype type = dtype::fp32;               ///< type of the elements
  std::span<const std::int64_t> shape;    ///< extents in elements
  std::span<const std::int64_t> strides;  ///< strides in elements; empty: row-major
  std::size_t offset = 0;  ///< offset of element 0 in the instance in bytes
  std::int32_t rank = 0;   ///< rank of the instance
  bool read_only = false;  ///< true if the receiver must not write
  dlpack::device device;   ///< device that the tensor names
};

/// Makes a tensor over one instance of an allocation, which it holds until its deleter is
/// called. The receiver calls the deleter once.
/// @error{out_of_range; an element lies outside the allocation, or no such rank}
/// @error{unsupported; a type that DLPack has no code for}
/// @error{invalid_argument; negative extents, or strides of another number}
[[nodiscard]] result<managed_tensor_versioned*> make_versioned(
    allocation_ptr memory, const export_options& options);
/// Makes a tensor in the form before 1.0, as make_versioned.
/// @error{unsupported; read-only memory, or a type without a code}
/// @error{out_of_range; see make_versioned} @error{invalid_argument; see make_versioned}
[[nodiscard]] result<managed_tensor*> make_managed(allocation_ptr memory,
                                                   const export_options& options);

/// Type, shape and memory of a foreign tensor. The spans point into it.
struct description {
  dtype type = dtype::fp32;    ///< type of the elements
  dlpack::device device;       ///< device of the data
  std::byte* data = nullptr;   ///< address of element 0
  std::byte* begin = nullptr;  ///< lowest byte of any element
  std::size_t bytes = 0;       ///< bytes from `begin` to the end of the highest one
  std::span<const std::int64_t> shape;    ///< extents in elements
  std::span<const std::int64_t> strides;  ///< empty: row-major
  bool read_only = false;                 ///< true if it must not be written
};
/// Checks a foreign tensor and describes it. Of a tensor of another major version only
/// the version is read.
/// @error{unsupported_version; its major version is not 1}
/// @error{unsupported; an unknown type or several lanes}
/// @error{invalid_argument; null or negative where it may not be}
/// @error{out_of_range; extents whose bytes exceed the address space}
[[nodiscard]] result<description> describe(const managed_tensor_versioned* foreign);
/// Checks a foreign tensor in the form before 1.0 and describes it.
/// @error{unsupported; see above} @error{invalid_argument; see above}
/// @error{out_of_range; see above}
[[nodiscard]] result<description> describe(const managed_tensor* foreign);

/// Adds the memory of a foreign tensor to a table and takes the tensor over. Its deleter
/// is called when the memory was removed and has no holder. If the call fails, the tensor
/// stays with the caller. `on_device` is the device of this library that the memory is
/// on, or `allocation::host_device`.
/// @error{unsupported_version; see describe} @error{unsupported; see describe}
/// @error{invalid_argument; no elements, or see describe} @error{out_of_range; see
/// describe}
/// @error{already_exists; it overlaps an allocation that does not contain it}
[[nodiscard]] result<allocation_ptr> adopt(symmetric_memory& into,
                                           managed_tensor_versioned* foreign,
                                           std::int32_t on_device,
                                           std::uint64_t owner = 0);
/// Adds the memory of a foreign tensor in the form before 1.0 to a table and takes the
/// tensor over. Its deleter is called when the memory was removed and has no holder. If
/// the call fails, the tensor stays with the caller. `on_device` is the device of this
/// library that the memory is on, or `allocation::host_device`.
/// @error{unsupported; see describe}
/// @error{invalid_argument; no elements, or see describe} @error{out_of_range; see
/// describe}
/// @error{already_exists; it overlaps an allocation that does not contain it}
[[nodiscard]] result<allocation_ptr> adopt(symmetric_memory& into,
                                           managed_tensor* foreign,
                                           std::int32_t on_device,
                                           std::uint64_t owner = 0);

}  // namespace weir::tessera::dlpack
