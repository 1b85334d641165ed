// SPDX-License-Identifier: Apache-2.0
/// @file
/// Canonical form of the bytes of a strided view.
///
/// A footprint is a dense run of bytes that is repeated by nested progressions (stride
/// and count). Equal sets of bytes should have equal footprints where that is cheap,
/// because the decisions about overlap are exact and fast on few levels. So dimensions
/// are sorted by stride, reversed ones are turned around, and whatever is dense is
/// merged.
///
/// For example, a view of 3 rows of 16 bytes at a distance of 64 bytes is the run 16 with
/// one progression (64, 3). Two rows that touch, (16, 2), become the run 32 without a
/// progression.
#include <algorithm>
#include <array>
#include <cstdlib>

#include <fmt/core.h>

#include "weir/runtime/tensor.hpp"

namespace weir::runtime {
namespace {

using progression = footprint::progression;

/// Returns the error for a view whose offsets leave 63 bits.
error leaves_range(const char* found) {
  return error(
      errc::out_of_range,
      fmt::format("view is too large: expected bytes in [0, 2^63), found {}", found));
}

/// The dimensions that matter, with positive strides in ascending order. `lo` is the
/// lowest byte and `span` the number of bytes up to the highest one.
struct open_form {
  std::array<progression, max_dims> steps;
  int depth = 0;
  std::int64_t lo = 0;
  std::int64_t span = 0;

  /// Adds a repetition in its place.
  void insert(const progression& added) noexcept {
    const auto comes_before = [](const progression& a, const progression& b) {
      return a.stride != b.stride ? a.stride < b.stride : a.count < b.count;
    };
    int place = depth++;
    for (; place > 0 && comes_before(added, steps[static_cast<std::size_t>(place - 1)]);
         --place) {
      steps[static_cast<std::size_t>(place)] = steps[static_cast<std::size_t>(place - 1)];
    }
    steps[static_cast<std::size_t>(place)] = added;
  }
};

/// Drops dimensions of one element and repeated ones (stride 0), turns dimensions with
/// negative strides around, and sorts them. @pre no byte leaves [0, 2^63)
void open_view(open_form& form, std::int64_t offset, std::span<const std::int64_t> shape,
               std::span<const std::int64_t> strides,
               std::int64_t element_size) noexcept {
  form.lo = offset;
  form.span = element_size;
  // From the last dimension on, the strides of most views ascend.
  for (std::size_t i = shape.size(); i-- > 0;) {
    const std::int64_t stride = strides[i];
    // All elements of such a dimension have the same bytes.
    if (shape[i] == 1 || stride == 0) {
      continue;
    }
    const std::int64_t reach = stride * (shape[i] - 1);
    form.lo += std::min<std::int64_t>(reach, 0);
    form.span += std::abs(reach);
    form.insert({std::abs(stride), shape[i]});
  }
}

/// Merges progressions into the run or into the progression inside them, where the union
/// is exactly one progression again. Strides ascend before and after.
void merge(open_form& form, std::int64_t& run) {
  int depth = 0;
  for (int i = 0; i < form.depth; ++i) {
    const progression p = form.steps[static_cast<std::size_t>(i)];
    // The copies touch or overlap, so together they are a longer run.
    if (depth == 0 && p.stride <= run) {
      // The last copy begins this much later and has the length of the run.
      run += (p.count - 1) * p.stride;
      continue;
    }
    if (depth > 0) {
      progression& inner = form.steps[static_cast<std::size_t>(depth - 1)];
      // The copies continue the inner progression without a gap.
      if (p.stride % inner.stride == 0 && p.stride / inner.stride <= inner.count) {
        inner.count += (p.count - 1) * (p.stride / inner.stride);
        continue;
      }
    }
    form.steps[static_cast<std::size_t>(depth++)] = p;
  }
  form.depth = depth;
}

}  // namespace

/// Few footprints have steps, so this is not part of each copy.
void footprint::copy_steps(const footprint& from) noexcept {
  std::copy_n(from.steps.begin(), from.depth, steps.begin());
}

/// Makes the footprint of a strided view. Checks the arguments, since a view comes from a
/// caller; sums and products that leave the range of 64 bits are refused too. An empty
/// view gives an empty footprint.
result<footprint> footprint::of_view(storage_id id, std::int64_t offset,
                                     std::span<const std::int64_t> shape,
                                     std::span<const std::int64_t> strides,
                                     std::int64_t element_size) {
  if (shape.size() != strides.size() || shape.size() > max_dims || element_size < 0) {
    return error(
        errc::invalid_argument,
        fmt::format("view is malformed: expected at most {} dimensions with one stride "
                    "each, found {} extents and {} strides",
                    max_dims, shape.size(), strides.size()));
  }
  bool empty = element_size == 0;
  for (const std::int64_t n : shape) {
    if (n < 0) {
      return error(errc::invalid_argument,
                   fmt::format("view is malformed: expected extents >= 0, found {}", n));
    }
    empty = empty || n == 0;
  }
  if (offset < 0) {
    return leaves_range("a first byte below 0");
  }
  if (empty) {
    footprint none;
    none.id = id;
    return none;
  }
  std::int64_t lo = offset;
  std::int64_t span = element_size;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    std::int64_t reach = 0;
    if (shape[i] > 1 && !checked_mul(strides[i], shape[i] - 1, reach)) {
      return leaves_range("a stride times its extent beyond 2^63");
    }
    if (reach < 0 && (!checked_add(lo, reach, lo) || lo < 0)) {
      return leaves_range("a first byte below 0");
    }
    if (!checked_add(span, std::abs(reach), span)) {
      return leaves_range("a last byte beyond 2^63");
    }
  }
  std::int64_t end = 0;
  if (!checked_add(lo, span, end)) {
    return leaves_range("a last byte beyond 2^63");
  }
  return of_checked_view(id, offset, shape, strides, element_size);
}

/// Makes the footprint of a view that was checked: no sum can overflow.
footprint footprint::of_checked_view(storage_id id, std::int64_t offset,
                                     std::span<const std::int64_t> shape,
                                     std::span<const std::int64_t> strides,
                                     std::int64_t element_size) noexcept {
  footprint out;
  out.id = id;
  if (element_size == 0 || std::find(shape.begin(), shape.end(), 0) != shape.end()) {
    return out;
  }
  open_form form;
  open_view(form, offset, shape, strides, element_size);
  out.lo = form.lo;
  out.hi = form.lo + form.span;
  out.run = element_size;
  merge(form, out.run);
  out.depth = static_cast<std::uint8_t>(form.depth);
  std::int64_t inside = out.run;
  for (int i = 0; i < form.depth; ++i) {
    const progression p = form.steps[static_cast<std::size_t>(i)];
    // Nested: each level steps over everything inside of it, so blocks do not overlap.
    out.nested = out.nested && p.stride >= inside;
    inside += p.stride * (p.count - 1);
    out.steps[static_cast<std::size_t>(form.depth - 1 - i)] = p;
  }
  return out;
}

}  // namespace weir::runtime
