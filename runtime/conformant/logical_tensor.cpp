// SPDX-License-Identifier: Apache-2.0
/// @file
/// Logical tensors, their derivation, their boxes; the registry of addresses.
///
/// The TensorMap specification names memory by base address and byte offset. This file
/// follows it literally, so that tests can compare the answers of the engine, which uses
/// footprints with storage ids, with those of the specification. Every tensor keeps its
/// exact set of bytes as a footprint; the functions for deriving tensors only compute new
/// shapes and strides and let `strided` check that they stay inside the storage.
#include "conformant/logical_tensor.hpp"

#include <algorithm>
#include <vector>

#include <fmt/core.h>

namespace weir::runtime {
namespace {

/// Bases are compared apart, so all footprints may name one storage.
constexpr storage_id same_storage{0, 1};

// Returns an error with a finished text.
error refused(errc code, std::string text) {
  return error(code, std::move(text));
}

/// Sets the strides of a row-major tensor and returns its size in bytes.
/// An extent of 0 counts as 1 here, so that the strides of a tensor of no elements are
/// those of its other extents. The product is checked, because strides of a too large
/// tensor would wrap.
result<std::int64_t> row_major(std::span<const std::int64_t> shape,
                               std::int64_t element_size, std::span<std::int64_t> out) {
  std::int64_t bytes = element_size;
  for (std::size_t i = shape.size(); i-- > 0;) {
    out[i] = bytes;
    if (!checked_mul(bytes, std::max<std::int64_t>(shape[i], 1), bytes)) {
      return refused(errc::out_of_range,
                     "tensor is too large: expected fewer than 2^63 bytes, found more");
    }
  }
  return bytes;
}

/// Returns the number of elements. The product does not overflow for shapes that
/// `row_major` has accepted.
std::int64_t elements(std::span<const std::int64_t> shape) {
  std::int64_t n = 1;
  for (const std::int64_t extent : shape) {
    n *= extent;
  }
  return n;
}

}  // namespace

// The offset counts from the beginning of the storage, so that regions of tiles of
// different sizes can be compared (specification, 4.1).
result<map_region> map_region::in_tile(const void* base, std::int64_t tile,
                                       std::int64_t tile_bytes, std::int64_t offset,
                                       std::int64_t size) {
  map_region out;
  out.base = base;
  out.size = size;
  out.tile = tile;
  std::int64_t end = 0;
  if (tile < 0 || tile_bytes < 0 || offset < 0 || size < 0 ||
      !checked_mul(tile, tile_bytes, out.offset) ||
      !checked_add(out.offset, offset, out.offset) ||
      !checked_add(out.offset, size, end)) {
    return refused(
        errc::out_of_range,
        fmt::format("region refused: expected bytes in [0, 2^63), found tile {} "
                    "of {} bytes, offset {}, size {}",
                    tile, tile_bytes, offset, size));
  }
  return out;
}

// Of two regions, the one that begins later must begin inside the other. A region of no
// bytes overlaps nothing.
bool regions_overlap(const map_region& a, const map_region& b) noexcept {
  // Differences of offsets do not overflow, ends may.
  return a.base == b.base && a.size > 0 && b.size > 0 &&
         (a.offset <= b.offset ? b.offset - a.offset < a.size
                               : a.offset - b.offset < b.size);
}

// The size of the storage is that of the tensor; a tensor of no elements has a storage of
// no bytes.
result<logical_tensor> logical_tensor::raw(const void* base,
                                           std::span<const std::int64_t> shape,
                                           std::int64_t element_size) {
  if (shape.size() > max_dims || element_size <= 0 ||
      std::any_of(shape.begin(), shape.end(), [](std::int64_t n) { return n < 0; })) {
    return refused(
        errc::invalid_argument,
        fmt::format("tensor refused: expected at most {} extents >= 0 and elements of at "
                    "least 1 byte, found {} extents, elements of {} bytes",
                    max_dims, shape.size(), element_size));
  }
  std::array<std::int64_t, max_dims> strides{};
  WEIR_TRY(const std::int64_t bytes, row_major(shape, element_size, strides));
  return strided(base, elements(shape) == 0 ? 0 : bytes, 0, shape,
                 std::span(strides).first(shape.size()), element_size);
}

// The footprint is computed first: it checks the shape and gives the first and the last
// byte, which decide whether the tensor lies inside the storage.
result<logical_tensor> logical_tensor::strided(const void* base, std::int64_t raw_size,
                                               std::int64_t offset,
                                               std::span<const std::int64_t> shape,
                                               std::span<const std::int64_t> strides,
                                               std::int64_t element_size) {
  logical_tensor out;
  WEIR_TRY(out.bytes_,
           footprint::of_view(same_storage, offset, shape, strides, element_size));
  if (out.bytes_.hi > raw_size) {
    return refused(
        errc::out_of_range,
        fmt::format("tensor leaves its storage: expected bytes below {}, found "
                    "[{}, {})",
                    raw_size, out.bytes_.lo, out.bytes_.hi));
  }
  out.base_ = base;
  out.raw_size_ = raw_size;
  out.offset_ = offset;
  out.element_size_ = element_size;
  out.dims_ = static_cast<std::uint8_t>(shape.size());
  std::copy(shape.begin(), shape.end(), out.shape_.begin());
  std::copy(strides.begin(), strides.end(), out.strides_.begin());
  return out;
}

// For example, a view [2, 3) of the rows of a tensor [4, 5] has the shape [1, 5] and
// begins two rows behind the beginning of the tensor. Extents are compared by
// subtraction, which cannot overflow.
result<logical_tensor> logical_tensor::view(std::span<const std::int64_t> start,
                                            std::span<const std::int64_t> extent) const {
  if (start.size() != extent.size() || start.size() > dims_) {
    return refused(errc::out_of_range,
                   fmt::format("view refused: expected at most {} starts with one extent "
                               "each, found {} and {}",
                               dims_, start.size(), extent.size()));
  }
  std::array<std::int64_t, max_dims> shape = shape_;
  std::int64_t offset = offset_;
  for (std::size_t i = 0; i < start.size(); ++i) {
    if (start[i] < 0 || extent[i] < 0 || start[i] > shape_[i] ||
        extent[i] > shape_[i] - start[i]) {
      return refused(
          errc::out_of_range,
          fmt::format("view leaves dimension {}: expected at most {}, found {} "
                      "from {} on",
                      i, shape_[i], extent[i], start[i]));
    }
    shape[i] = extent[i];
    // A view of no elements may begin behind the last one.
    offset += extent[i] == 0 ? 0 : start[i] * strides_[i];
  }
  WEIR_TRY(logical_tensor out,
           strided(base_, raw_size_, offset, std::span(shape).first(dims_), strides(),
                   element_size_));
  out.kind_ = extraction::shallow_view;
  return out;
}

// Only a row-major tensor has strides for every other shape of the same number of
// elements. The strides are those of a new tensor of the shape.
result<logical_tensor> logical_tensor::reshape(
    std::span<const std::int64_t> shape) const {
  if (!is_contiguous()) {
    return refused(errc::invalid_argument,
                   "reshape refused: expected a row-major tensor, found one with gaps or "
                   "in another order");
  }
  // Checks the shape as well, so the products of extents below do not overflow.
  WEIR_TRY(const logical_tensor fresh, raw(base_, shape, element_size_));
  if (elements(shape) != elements(this->shape())) {
    return refused(errc::invalid_argument,
                   fmt::format("reshape refused: expected {} elements, found {}",
                               elements(this->shape()), elements(shape)));
  }
  WEIR_TRY(logical_tensor out,
           strided(base_, raw_size_, offset_, shape, fresh.strides(), element_size_));
  out.kind_ = extraction::shallow_reshape;
  return out;
}

// Extents and strides are permuted together, so no byte is added or lost.
result<logical_tensor> logical_tensor::transpose(std::span<const int> order) const {
  std::array<std::int64_t, max_dims> shape{};
  std::array<std::int64_t, max_dims> strides{};
  std::array<bool, max_dims> used{};
  bool ok = order.empty() || order.size() == dims_;
  for (std::size_t i = 0; ok && i < dims_; ++i) {
    const std::size_t from =
        order.empty() ? dims_ - 1 - i : static_cast<std::size_t>(order[i]);
    // Every dimension is used once. A negative number becomes too large by the
    // conversion.
    ok = from < dims_ && !used[from];
    if (ok) {
      used[from] = true;
      shape[i] = shape_[from];
      strides[i] = strides_[from];
    }
  }
  if (!ok) {
    return refused(
        errc::invalid_argument,
        fmt::format("transpose refused: expected a permutation of {} dimensions, found "
                    "another list",
                    dims_));
  }
  WEIR_TRY(logical_tensor out,
           strided(base_, raw_size_, offset_, std::span(shape).first(dims_),
                   std::span(strides).first(dims_), element_size_));
  out.kind_ = extraction::shallow_transpose;
  return out;
}

// The copy is row-major, whatever the strides of this tensor are.
result<logical_tensor> logical_tensor::clone(const void* base) const {
  if (base == base_) {
    return refused(errc::invalid_argument,
                   "clone refused: expected other storage, found that of the source");
  }
  WEIR_TRY(logical_tensor out, raw(base, shape(), element_size_));
  out.kind_ = extraction::deep_view;
  return out;
}

// No copy is described if none is needed, so `base` is not used then.
result<logical_tensor> logical_tensor::contiguous(const void* base) const {
  if (is_contiguous()) {
    return *this;
  }
  WEIR_TRY(logical_tensor out, clone(base));
  out.kind_ = extraction::deep_contiguous;
  return out;
}

// Dimensions of one element may have any stride, since it is never used. A tensor of no
// elements is contiguous.
bool logical_tensor::is_contiguous() const noexcept {
  std::int64_t expected = element_size_;
  for (std::size_t i = dims_; i-- > 0;) {
    if (shape_[i] == 0) {
      return true;
    }
    if (shape_[i] != 1 && strides_[i] != expected) {
      return false;
    }
    expected *= shape_[i];
  }
  return true;
}

std::optional<bounding_box> logical_tensor::box() const noexcept {
  if (bytes_.empty()) {
    return std::nullopt;
  }
  return bounding_box{bytes_.lo, bytes_.hi - 1};
}

// The first test of the hybrid decision: two comparisons, no search.
bool boxes_overlap(const logical_tensor& a, const logical_tensor& b) noexcept {
  return a.base() == b.base() && a.bytes().lo < b.bytes().hi &&
         b.bytes().lo < a.bytes().hi;
}

// The order of the specification, from cheap to expensive:
//   1. boxes apart, or other storages           no
//   2. both tensors fill their boxes            yes
//   3. exact search over the progressions       no, yes, or maybe
overlap overlap_hybrid(const logical_tensor& a, const logical_tensor& b) noexcept {
  if (!boxes_overlap(a, b)) {
    return overlap::no;
  }
  if (a.is_simple() && b.is_simple()) {
    return overlap::yes;
  }
  return decide_overlap(a.bytes(), b.bytes());
}

// Ranges do not overlap, so only the neighbours of the new range in the order of
// addresses must be compared. Each registration gets a new generation, so that an address
// that is used again is not taken for the old storage.
result<void> address_registry::add(const void* base, std::int64_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(base);
  if (bytes <= 0 || static_cast<std::uint64_t>(bytes) > UINTPTR_MAX - begin) {
    return refused(errc::invalid_argument,
                   fmt::format("storage not registered: expected at least 1 byte of the "
                               "address space, found {}",
                               bytes));
  }
  const std::uintptr_t end = begin + static_cast<std::uintptr_t>(bytes);
  // `after` begins at or behind the new range, the one before it begins in front of it.
  const auto after = ranges_.lower_bound(begin);
  const bool meets_next = after != ranges_.end() && after->first < end;
  const bool meets_previous =
      after != ranges_.begin() && std::prev(after)->second.end > begin;
  if (meets_next || meets_previous) {
    return refused(errc::already_exists,
                   "storage not registered: expected free addresses, found another "
                   "storage there");
  }
  ranges_.emplace(begin, range{end, ++last_});
  return {};
}

result<void> address_registry::remove(const void* base) {
  if (ranges_.erase(reinterpret_cast<std::uintptr_t>(base)) == 0) {
    return refused(errc::not_found,
                   "storage not removed: expected one that begins there, found none");
  }
  return {};
}

// The range that begins last at or in front of the address is the only one that can hold
// it.
address_registry::place address_registry::find(const void* address) const noexcept {
  const auto number = reinterpret_cast<std::uintptr_t>(address);
  const auto after = ranges_.upper_bound(number);
  if (after != ranges_.begin()) {
    const auto& [begin, found] = *std::prev(after);
    if (number < found.end) {
      return {reinterpret_cast<const void*>(begin),
              static_cast<std::int64_t>(number - begin), found.generation};
    }
  }
  return {nullptr, static_cast<std::int64_t>(number), 0};
}

}  // namespace weir::runtime
