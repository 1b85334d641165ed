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

/// The dimensions that matter, with positive strides. `offset` is that of the lowest
/// byte.
struct open_form {
  std::array<progression, max_dims> steps{};
  int depth = 0;
  std::int64_t offset = 0;
};

/// Drops dimensions of one element and repeated ones (stride 0), and turns dimensions
/// with negative strides around.
result<open_form> without_trivial(std::int64_t offset,
                                  std::span<const std::int64_t> shape,
                                  std::span<const std::int64_t> strides) {
  open_form form;
  form.offset = offset;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    std::int64_t stride = strides[i];
    // All elements of such a dimension have the same bytes.
    if (shape[i] == 1 || stride == 0) {
      continue;
    }
    std::int64_t reach = 0;
    if (!checked_mul(stride, shape[i] - 1, reach)) {
      return leaves_range("a stride times its extent beyond 2^63");
    }
    if (stride < 0) {
      if (!checked_add(form.offset, reach, form.offset) || form.offset < 0) {
        return leaves_range("a first byte below 0");
      }
      stride = -stride;
    }
    form.steps[static_cast<std::size_t>(form.depth++)] = {stride, shape[i]};
  }
  return form;
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
  footprint out;
  out.id = id;
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
    return out;
  }
  WEIR_TRY(open_form form, without_trivial(offset, shape, strides));
  std::int64_t span = element_size;
  // The span of all bytes must fit into 63 bits.
  for (int i = 0; i < form.depth; ++i) {
    const progression p = form.steps[static_cast<std::size_t>(i)];
    if (!checked_add(span, p.stride * (p.count - 1), span)) {
      return leaves_range("a last byte beyond 2^63");
    }
  }
  if (!checked_add(form.offset, span, out.hi)) {
    return leaves_range("a last byte beyond 2^63");
  }
  // From here on no sum can overflow, since every byte lies in [lo, hi).
  out.lo = form.offset;
  out.run = element_size;
  std::sort(form.steps.begin(), form.steps.begin() + form.depth,
            [](const progression& a, const progression& b) {
              return a.stride != b.stride ? a.stride < b.stride : a.count < b.count;
            });
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
