// SPDX-License-Identifier: Apache-2.0
/// @file
/// Exports that keep their memory alive, and checks of tensors from other libraries.
/// Every number of a foreign tensor is checked, with overflow, before it is used.
///
/// Exports give memory of this library to others, imports take theirs. The structures
/// are those of DLPack 1 and of its older form.
#include "weir/tessera/device/dlpack.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/core.h>

namespace weir::tessera::dlpack {
namespace {

/// A type of this library and the same type in DLPack's terms.
struct type_row {
  dtype ours;
  data_type theirs;
};

/// All types that both sides have. The search goes from the front, so no type may occur
/// twice.
constexpr std::array<type_row, 17> types{{
    {dtype::fp8_e4m3, {type_float8_e4m3fn, 8, 1}},
    {dtype::fp8_e5m2, {type_float8_e5m2, 8, 1}},
    {dtype::fp16, {type_float, 16, 1}},
    {dtype::bf16, {type_bfloat, 16, 1}},
    {dtype::fp32, {type_float, 32, 1}},
    {dtype::fp64, {type_float, 64, 1}},
    {dtype::int8, {type_int, 8, 1}},
    {dtype::int16, {type_int, 16, 1}},
    {dtype::int32, {type_int, 32, 1}},
    {dtype::int64, {type_int, 64, 1}},
    {dtype::boolean, {type_bool, 8, 1}},
    {dtype::complex64, {type_complex, 64, 1}},
    {dtype::complex128, {type_complex, 128, 1}},
    {dtype::uint8, {type_uint, 8, 1}},
    {dtype::uint16, {type_uint, 16, 1}},
    {dtype::uint32, {type_uint, 32, 1}},
    {dtype::uint64, {type_uint, 64, 1}},
}};
/// Limit of dimensions, before any array of the other library is read.
constexpr std::int32_t max_dims = 64;

/// Returns the type in DLPack's terms. @error{unsupported; it has none}
result<data_type> their_type(dtype type) {
  for (const auto& row : types) {
    if (row.ours == type) {
      return row.theirs;
    }
  }
  return error(errc::unsupported,
               fmt::format("export a tensor: expected a type that others know, found {}",
                           info_of(type).tensogram));
}

/// Returns the type in this library's terms. @error{unsupported; it has none} Types with
/// several lanes, as for vectors of a GPU, are not known here.
result<dtype> our_type(data_type type) {
  for (const auto& row : types) {
    if (row.theirs.code == type.code && row.theirs.bits == type.bits && type.lanes == 1) {
      return row.ours;
    }
  }
  return error(errc::unsupported,
               fmt::format("import a tensor: expected a type that we know, found code {} "
                           "of {} bits and {} lanes",
                           type.code, type.bits, type.lanes));
}

/// The bytes that a tensor covers, relative to element 0: from the lowest byte to behind
/// the highest.
struct extent {
  std::int64_t low = 0;
  std::int64_t high = 0;
  bool empty = false;
};

/// Returns the extent of a tensor, or nothing if a number does not fit into 64 bits. Null
/// strides mean row-major order. Strides may be negative.
std::optional<extent> extent_of(std::span<const std::int64_t> shape,
                                const std::int64_t* strides, std::int64_t element) {
  // A tensor without elements covers no bytes, whatever its strides are.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) {
    return extent{0, 0, true};
  }
  extent e{0, element, false};
  std::int64_t row_major = 1;
  // From the innermost dimension on, which gives the strides of row-major order.
  for (std::size_t i = shape.size(); i-- > 0;) {
    const std::int64_t stride = strides != nullptr ? strides[i] : row_major;
    std::int64_t reach = 0;
    if (__builtin_mul_overflow(shape[i] - 1, stride, &reach) ||
        __builtin_mul_overflow(reach, element, &reach) ||
        // A negative stride extends the range downwards.
        __builtin_add_overflow(reach < 0 ? e.low : e.high, reach,
                               reach < 0 ? &e.low : &e.high) ||
        __builtin_mul_overflow(row_major, shape[i], &row_major)) {
      return std::nullopt;
    }
  }
  return e;
}

/// The data that an export keeps until its deleter is called.
template <class Managed>
struct exported {
  Managed managed;
  allocation_ptr memory;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
  pid_t process = ::getpid();

  static void drop(Managed* self) {
    // The context of the manager is this object.
    auto* const tensor = static_cast<exported*>(self->context);
    // In the child of a fork, threads that no longer exist may have held locks that the
    // destructor needs. The memory is then leaked.
    if (tensor->process == ::getpid()) {
      delete tensor;
    }
  }
};

/// Checks extents and the number of strides.
result<void> check_shape(std::span<const std::int64_t> shape, std::size_t strides) {
  for (const std::int64_t n : shape) {
    if (n < 0) {
      return error(
          errc::invalid_argument,
          fmt::format("describe a tensor: expected extents of at least 0, found {}", n));
    }
  }
  // No strides at all stand for row-major order.
  if (shape.size() > max_dims || (strides != 0 && strides != shape.size())) {
    return error(
        errc::invalid_argument,
        fmt::format("describe a tensor: expected at most {} dimensions and as many "
                    "strides or none, found {} and {}",
                    max_dims, shape.size(), strides));
  }
  return {};
}

/// Checks an export and returns the address of element 0.
/// @error{out_of_range; no such rank, or elements outside of the allocation}
result<std::byte*> check_export(const allocation& memory, const export_options& options) {
  WEIR_CHECK(check_shape(options.shape, options.strides.size()));
  const auto instances = memory.instances();
  if (options.rank < 0 || static_cast<std::size_t>(options.rank) >= instances.size()) {
    return error(errc::out_of_range,
                 fmt::format("export a tensor: expected rank 0 to {}, found {}",
                             instances.size() - 1, options.rank));
  }
  const auto reach =
      extent_of(options.shape, options.strides.empty() ? nullptr : options.strides.data(),
                info_of(options.type).size);
  // Allocations are far smaller than 2^63 bytes, so the conversions below are exact.
  const auto bytes = static_cast<std::int64_t>(memory.bytes());
  // The lowest and the highest byte must lie inside of the instance.
  const bool fits = options.offset <= memory.bytes() && reach.has_value() &&
                    reach->low >= -static_cast<std::int64_t>(options.offset) &&
                    reach->high <= bytes - static_cast<std::int64_t>(options.offset);
  if (!fits) {
    return error(
        errc::out_of_range,
        fmt::format("export a tensor: expected elements within the {} bytes of its "
                    "allocation, found some that are not, from byte {} on",
                    bytes, options.offset));
  }
  return instances[static_cast<std::size_t>(options.rank)] + options.offset;
}

/// Makes an export of either form. The object that holds the memory is also the manager's
/// context, and its deleter destroys it. An empty tensor has a null address.
template <class Managed>
result<exported<Managed>*> make_export(allocation_ptr memory,
                                       const export_options& options) {
  if (memory == nullptr) {
    return error(errc::invalid_argument,
                 "export a tensor: expected an allocation, found none");
  }
  WEIR_TRY(const data_type type, their_type(options.type));
  WEIR_TRY(std::byte * data, check_export(*memory, options));
  try {
    auto made = std::make_unique<exported<Managed>>();
    made->shape.assign(options.shape.begin(), options.shape.end());
    made->strides.assign(options.strides.begin(), options.strides.end());
    // Row-major strides.
    if (made->strides.empty()) {  // some consumers treat null strides as an error
      made->strides.assign(made->shape.size(), 1);
      for (std::size_t i = made->shape.size(); i-- > 1;) {
        // An empty tensor may have extents whose product is no number. Its strides reach
        // no element.
        if (__builtin_mul_overflow(made->strides[i],
                                   std::max<std::int64_t>(made->shape[i], 1),
                                   &made->strides[i - 1])) {
          made->strides[i - 1] = 0;
        }
      }
    }
    made->memory = std::move(memory);
    // From here on, graphs and pools know that another library has the memory.
    made->memory->lend();
    made->managed.context = made.get();
    made->managed.deleter = &exported<Managed>::drop;
    // The pointers refer to the vectors of the object.
    tensor& t = made->managed.tensor;
    const bool empty =
        std::find(made->shape.begin(), made->shape.end(), 0) != made->shape.end();
    t.data = empty ? nullptr : data;
    t.device = options.device;
    t.ndim = static_cast<std::int32_t>(made->shape.size());
    t.type = type;
    t.shape = made->shape.data();
    t.strides = made->strides.data();
    // The object belongs to the caller from here on, who calls the deleter.
    return made.release();
  } catch (const std::bad_alloc&) {
    return error(errc::out_of_memory,
                 "export a tensor: expected memory for its shape, found none");
  }
}

/// Checks a foreign tensor and describes it.
/// @error{invalid_argument; a shape or an address that cannot be}
/// @error{out_of_range; bytes outside of the address space}
result<description> describe_tensor(const tensor& t) {
  // The number of dimensions is checked before the arrays are read.
  if (t.ndim < 0 || t.ndim > max_dims || (t.ndim > 0 && t.shape == nullptr)) {
    return error(errc::invalid_argument,
                 fmt::format("import a tensor: expected a shape of 0 to {} dimensions, "
                             "found {} of them",
                             max_dims, t.ndim));
  }
  description d;
  const auto dims = static_cast<std::size_t>(t.ndim);
  d.shape = {t.shape, dims};
  if (t.strides != nullptr) {
    d.strides = {t.strides, dims};
  }
  WEIR_CHECK(check_shape(d.shape, d.strides.size()));
  WEIR_TRY(d.type, our_type(t.type));
  d.device = t.device;
  const auto reach = extent_of(d.shape, t.strides, info_of(d.type).size);
  const auto base = reinterpret_cast<std::uintptr_t>(t.data);
  // All sums are checked: offset, lowest and highest byte come from the other library.
  std::uintptr_t first = 0;
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  if (!reach.has_value() || __builtin_add_overflow(base, t.byte_offset, &first) ||
      __builtin_add_overflow(first, reach->low, &begin) ||
      __builtin_add_overflow(first, reach->high, &end)) {
    return error(errc::out_of_range,
                 fmt::format("import a tensor: expected bytes within the address space, "
                             "found some that are not, from byte {} on",
                             t.byte_offset));
  }
  if (t.data == nullptr && !reach->empty) {
    return error(errc::invalid_argument,
                 "import a tensor: expected data, found a null address");
  }
  if (!reach->empty) {
    d.data = static_cast<std::byte*>(t.data) + t.byte_offset;
    d.begin = d.data + reach->low;
    d.bytes = end - begin;
  }
  return d;
}

/// Takes over a foreign tensor, whose deleter runs when its last user has released it. If
/// this fails, the deleter is not called, and the tensor still is the caller's.
template <class Managed>
result<allocation_ptr> adopt_any(symmetric_memory& into, Managed* foreign,
                                 std::int32_t on_device, std::uint64_t owner) {
  WEIR_TRY(const description d, describe(foreign));
  if (d.bytes == 0) {
    return error(errc::invalid_argument,
                 "import a tensor: expected at least one element, found none");
  }
  // Called when the last user has released the memory.
  const auto release = [foreign] {
    if (foreign->deleter != nullptr) {
      foreign->deleter(foreign);
    }
  };
  return into.adopt(d.begin, d.bytes, on_device, release, owner);
}

/// Returns the error of a missing tensor.
error null_tensor() {
  return {errc::invalid_argument, "import a tensor: expected one, found a null address"};
}

}  // namespace

// The caller, or the library that it hands the tensor to, calls the deleter once.
result<managed_tensor_versioned*> make_versioned(allocation_ptr memory,
                                                 const export_options& options) {
  WEIR_TRY(auto* made, make_export<managed_tensor_versioned>(std::move(memory), options));
  made->managed.flags = options.read_only ? flag_read_only : 0;
  return &made->managed;
}

// The older form has no flags.
result<managed_tensor*> make_managed(allocation_ptr memory,
                                     const export_options& options) {
  if (options.read_only) {
    return error(errc::unsupported,
                 "export a tensor: expected memory that may be written, which the older "
                 "form cannot say otherwise, found read-only memory");
  }
  WEIR_TRY(auto* made, make_export<managed_tensor>(std::move(memory), options));
  return &made->managed;
}

// Another major version may have other members, so nothing but the version and the
// deleter is known to be where it is here.
result<description> describe(const managed_tensor_versioned* foreign) {
  if (foreign == nullptr) {
    return null_tensor();
  }
  if (foreign->major != major_version) {
    return error(
        errc::unsupported_version,
        fmt::format("import a tensor: expected version {} of its structure, found "
                    "{}.{}",
                    major_version, foreign->major, foreign->minor));
  }
  WEIR_TRY(description d, describe_tensor(foreign->tensor));
  d.read_only = (foreign->flags & flag_read_only) != 0;
  return d;
}

result<description> describe(const managed_tensor* foreign) {
  if (foreign == nullptr) {
    return null_tensor();
  }
  return describe_tensor(foreign->tensor);
}

result<allocation_ptr> adopt(symmetric_memory& into, managed_tensor_versioned* foreign,
                             std::int32_t on_device, std::uint64_t owner) {
  return adopt_any(into, foreign, on_device, owner);
}

/// Both forms differ only in their head.
result<allocation_ptr> adopt(symmetric_memory& into, managed_tensor* foreign,
                             std::int32_t on_device, std::uint64_t owner) {
  return adopt_any(into, foreign, on_device, owner);
}

}  // namespace weir::tessera::dlpack
