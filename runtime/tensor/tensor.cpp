// SPDX-License-Identifier: Apache-2.0
/// @file
/// Strided views, and the views that can be derived from them without moving a byte. All
/// but those of box() are made by strided(), which checks that they stay inside their
/// storage.
#include <algorithm>
#include <numeric>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weir/runtime/tensor.hpp"

namespace weir::runtime {
namespace {

using extents = std::array<std::int64_t, max_dims>;

/// Returns the size of an element; types of less than a byte are refused.
result<std::int64_t> element_bytes(dtype type) {
  const std::int64_t size = info_of(type).size;
  if (size == 0) {
    return error(
        errc::unsupported,
        fmt::format("tensor of type {}: expected elements of whole bytes, found bits",
                    info_of(type).tensogram));
  }
  return size;
}

/// Returns the error for a dimension that does not exist.
error bad_dim(const char* operation, int dim, std::size_t dims) {
  return error(
      errc::out_of_range,
      fmt::format("{}: expected a dimension in [0, {}), found {}", operation, dims, dim));
}

/// Returns row-major strides in bytes. An extent of 0 counts as 1, so that an empty
/// tensor has ordinary strides.
result<extents> row_major_strides(std::span<const std::int64_t> shape,
                                  std::int64_t size) {
  extents out{};
  std::int64_t stride = size;
  for (std::size_t i = shape.size(); i-- > 0;) {
    out[i] = stride;
    if (!checked_mul(stride, std::max<std::int64_t>(shape[i], 1), stride)) {
      return error(
          errc::out_of_range,
          fmt::format("tensor of shape [{}] is too large: expected at most 2^63-1 bytes",
                      fmt::join(shape, ", ")));
    }
  }
  return out;
}

}  // namespace

/// Few tensors have so many dimensions, so this is not part of each copy.
void tensor::copy_further_dimensions(const tensor& from) noexcept {
  std::copy_n(from.shape_.begin() + few_dims, from.dims_ - few_dims,
              shape_.begin() + few_dims);
  std::copy_n(from.strides_.begin() + few_dims, from.dims_ - few_dims,
              strides_.begin() + few_dims);
}

/// Makes a view of a storage with any strides. Computing its footprint checks all sums
/// for overflow, so the footprint alone tells whether the view stays inside the storage.
result<tensor> tensor::strided(const storage& s, dtype type, std::int64_t offset,
                               std::span<const std::int64_t> shape,
                               std::span<const std::int64_t> strides) {
  WEIR_TRY(const std::int64_t size, element_bytes(type));
  if (element_count(shape) < 0) {
    return error(
        errc::out_of_range,
        fmt::format("tensor of shape [{}]: expected 0 to 2^63-1 elements, found other",
                    fmt::join(shape, ", ")));
  }
  WEIR_TRY(const footprint bytes, footprint::of_view(s.id, offset, shape, strides, size));
  if (bytes.hi > s.size || offset > s.size) {
    return error(
        errc::out_of_range,
        fmt::format("tensor of shape [{}] leaves its storage: expected bytes below {}, "
                    "found bytes up to {}",
                    fmt::join(shape, ", "), s.size, std::max(bytes.hi, offset)));
  }
  tensor t;
  t.store_ = s;
  t.type_ = type;
  t.dims_ = static_cast<std::uint8_t>(shape.size());
  t.offset_ = offset;
  std::copy(shape.begin(), shape.end(), t.shape_.begin());
  std::copy(strides.begin(), strides.end(), t.strides_.begin());
  t.bytes_ = bytes;
  return t;
}

// Makes a row-major view that begins at a byte of the storage.
result<tensor> tensor::over(const storage& s, dtype type,
                            std::span<const std::int64_t> shape, std::int64_t offset) {
  if (shape.size() > max_dims) {
    return error(
        errc::invalid_argument,
        fmt::format("tensor has too many dimensions: expected at most {}, found {}",
                    max_dims, shape.size()));
  }
  WEIR_TRY(const std::int64_t size, element_bytes(type));
  WEIR_TRY(const extents strides, row_major_strides(shape, size));
  return strided(s, type, offset, shape, std::span(strides.data(), shape.size()));
}

tensor tensor::box(std::span<const std::int64_t> lo,
                   std::span<const std::int64_t> hi) const noexcept {
  tensor part = *this;
  for (std::size_t d = 0; d < dims_; ++d) {
    part.offset_ += lo[d] * strides_[d];
    part.shape_[d] = hi[d] - lo[d];
  }
  part.bytes_ = footprint::of_checked_view(store_.id, part.offset_, part.shape(),
                                           strides(), info_of(type_).size);
  return part;
}

/// As in Python, `stop` may be -1 for a negative step, so that element 0 can be included.
result<tensor> tensor::slice(int dim, std::int64_t start, std::int64_t stop,
                             std::int64_t step) const {
  if (dim < 0 || dim >= dims_) {
    return bad_dim("slice", dim, dims_);
  }
  const auto d = static_cast<std::size_t>(dim);
  const std::int64_t extent = shape_[d];
  // A negative step walks from `start` down to behind `stop`.
  const std::int64_t least = step < 0 ? -1 : 0;
  const std::int64_t max_start = step < 0 ? extent - 1 : extent;
  if (step == 0 || start < least || start > max_start || stop < least || stop > extent) {
    return error(
        errc::out_of_range,
        fmt::format("slice of dimension {}: expected start and stop within its extent {} "
                    "and a step other than 0, found {}:{}:{}",
                    dim, extent, start, stop, step));
  }
  std::int64_t count = 0;
  if (step > 0 && stop > start) {
    count = (stop - start - 1) / step + 1;
  } else if (step < 0 && start > stop) {
    count = -((start - stop - 1) / step) + 1;
  }
  auto shape = shape_;
  auto strides = strides_;
  shape[d] = count;
  // A dimension of one element keeps its stride, which is never used.
  if (count > 1 &&
      !bytes_.empty()) {  // the last element stays inside, so this cannot overflow
    strides[d] *= step;
  }
  const bool any = count > 0 && !bytes_.empty();
  const std::int64_t offset = any ? offset_ + start * strides_[d] : offset_;
  return strided(store_, type_, offset, std::span(shape.data(), dims_),
                 std::span(strides.data(), dims_));
}

/// Removes a dimension by fixing its index. An empty tensor keeps its offset, because no
/// element exists whose offset could be computed.
result<tensor> tensor::select(int dim, std::int64_t index) const {
  if (dim < 0 || dim >= dims_) {
    return bad_dim("select", dim, dims_);
  }
  const auto d = static_cast<std::size_t>(dim);
  if (index < 0 || index >= shape_[d]) {
    return error(
        errc::out_of_range,
        fmt::format("select of dimension {}: expected an index in [0, {}), found {}", dim,
                    shape_[d], index));
  }
  auto shape = shape_;
  auto strides = strides_;
  // The dimensions behind the removed one move forward.
  std::copy(shape.begin() + dim + 1, shape.end(), shape.begin() + dim);
  std::copy(strides.begin() + dim + 1, strides.end(), strides.begin() + dim);
  const std::size_t dims = dims_ - 1U;
  const bool empty = bytes_.empty();
  return strided(store_, type_, empty ? offset_ : offset_ + index * strides_[d],
                 std::span(shape.data(), dims), std::span(strides.data(), dims));
}

namespace {

/// A dimension, with its stride in bytes.
struct level {
  std::int64_t extent;
  std::int64_t stride;
};

/// Returns the dimensions of a view with extents of 1 left out, and with neighbours
/// joined that are steps of one progression.
std::vector<level> joined(std::span<const std::int64_t> shape,
                          std::span<const std::int64_t> strides) {
  std::vector<level> out;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) {
      continue;
    }
    // The outer dimension steps over exactly the whole inner one, so both are one.
    if (!out.empty() && out.back().stride == strides[i] * shape[i]) {
      out.back() = {out.back().extent * shape[i], strides[i]};
    } else {
      out.push_back({shape[i], strides[i]});
    }
  }
  return out;
}

/// Finds strides that give the elements of `levels` another shape; returns false if there
/// are none. Both are walked from the innermost dimension outwards: some of the new
/// dimensions must use up each level exactly.
bool split(std::span<const level> levels, std::span<const std::int64_t> shape,
           extents& out) {
  std::size_t l = levels.size();
  std::int64_t left = 1;
  std::int64_t stride = 0;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 1) {
      out[i] = 0;
      continue;
    }
    // The level is used up; the next new dimension begins the next level.
    if (left == 1) {
      if (l == 0) {
        return false;
      }
      --l;
      left = levels[l].extent;
      stride = levels[l].stride;
    }
    // The new dimension would reach from one level into the next.
    if (left % shape[i] != 0) {
      return false;
    }
    out[i] = stride;
    stride *= shape[i];
    left /= shape[i];
  }
  return left == 1 && l == 0;
}

}  // namespace

/// Row-major tensors can take any shape; others need strides that split() can find.
result<tensor> tensor::reshape(std::span<const std::int64_t> shape) const {
  if (shape.size() > max_dims || element_count(shape) != count()) {
    return error(errc::invalid_argument,
                 fmt::format("reshape to [{}]: expected {} elements, found {}",
                             fmt::join(shape, ", "), count(), element_count(shape)));
  }
  WEIR_TRY(extents strides, row_major_strides(shape, info_of(type_).size));
  if (count() != 0 && !row_major()) {
    const auto levels = joined(this->shape(), this->strides());
    if (!split(levels, shape, strides)) {
      return error(errc::invalid_argument,
                   fmt::format(
                       "reshape of [{}] to [{}]: expected a shape that strides {} can "
                       "express, found none",
                       fmt::join(this->shape(), ", "), fmt::join(shape, ", "),
                       fmt::join(this->strides(), ", ")))
          .hint("copy the tensor into a row-major one first");
    }
  }
  return strided(store_, type_, offset_, shape, std::span(strides.data(), shape.size()));
}

/// Without an order, reverses the dimensions. `seen` is a bit mask that detects
/// repetitions.
result<tensor> tensor::transpose(std::span<const int> order) const {
  std::array<int, max_dims> reversed{};
  if (order.empty()) {
    for (int i = 0; i < dims_; ++i) {
      reversed[static_cast<std::size_t>(i)] = dims_ - 1 - i;
    }
    order = std::span(reversed.data(), dims_);
  }
  extents shape{};
  extents strides{};
  unsigned seen = 0;
  for (std::size_t i = 0; i < order.size() && i < dims_; ++i) {
    if (order[i] < 0 || order[i] >= dims_) {
      break;
    }
    // A repeated dimension leaves another bit unset.
    seen |= 1U << order[i];
    shape[i] = shape_[static_cast<std::size_t>(order[i])];
    strides[i] = strides_[static_cast<std::size_t>(order[i])];
  }
  if (order.size() != dims_ || seen != (1U << dims_) - 1) {
    return error(
        errc::invalid_argument,
        fmt::format("transpose: expected a permutation of {} dimensions, found [{}]",
                    dims_, fmt::join(order, ", ")));
  }
  return strided(store_, type_, offset_, std::span(shape.data(), dims_),
                 std::span(strides.data(), dims_));
}

/// Repeated dimensions get stride 0. Missing dimensions are added in front.
result<tensor> tensor::broadcast(std::span<const std::int64_t> shape) const {
  const std::size_t added = shape.size() - std::min<std::size_t>(shape.size(), dims_);
  bool fits = shape.size() >= dims_ && shape.size() <= max_dims;
  extents strides{};
  for (std::size_t i = added; fits && i < shape.size(); ++i) {
    const std::int64_t extent = shape_[i - added];
    // Only dimensions of one element can be repeated.
    fits = extent == shape[i] || extent == 1;
    strides[i] = extent == shape[i] ? strides_[i - added] : 0;
  }
  if (!fits) {
    return error(
        errc::invalid_argument,
        fmt::format(
            "broadcast of [{}]: expected a shape that it can repeat into, found [{}]",
            fmt::join(this->shape(), ", "), fmt::join(shape, ", ")));
  }
  return strided(store_, type_, offset_, shape, std::span(strides.data(), shape.size()));
}

/// A change of the element's size changes the last dimension, which must be dense.
result<tensor> tensor::reinterpret(dtype type) const {
  WEIR_TRY(const std::int64_t to, element_bytes(type));
  WEIR_TRY(const std::int64_t from, element_bytes(type_));
  auto shape = shape_;
  auto strides = strides_;
  if (to != from) {
    // Elements of another size lie side by side only in the last dimension.
    const std::size_t last = dims_ - 1U;
    const bool dense = dims_ > 0 && (shape_[last] == 1 || strides_[last] == from);
    std::int64_t bytes = 0;
    if (!dense || !checked_mul(shape_[last], from, bytes) || bytes % to != 0) {
      return error(
          errc::invalid_argument,
          fmt::format("reinterpret of {} as {}: expected a dense last dimension of a "
                      "multiple of {} bytes, found shape [{}] with strides [{}]",
                      info_of(type_).tensogram, info_of(type).tensogram, to,
                      fmt::join(this->shape(), ", "), fmt::join(this->strides(), ", ")));
    }
    shape[last] = bytes / to;
    strides[last] = to;
  }
  return strided(store_, type, offset_, std::span(shape.data(), dims_),
                 std::span(strides.data(), dims_));
}

std::int64_t tensor::count() const noexcept {
  return element_count(shape());
}

/// Returns true if the elements lie behind each other in the order of their indices. The
/// stride of a dimension with one element is never used, so it may have any value.
bool tensor::row_major() const noexcept {
  if (count() == 0) {
    return true;
  }
  std::int64_t expected = info_of(type_).size;
  for (std::size_t i = dims_; i-- > 0;) {
    if (shape_[i] != 1 && strides_[i] != expected) {
      return false;
    }
    expected *= shape_[i];
  }
  return true;
}

}  // namespace weir::runtime
