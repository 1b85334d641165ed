// SPDX-License-Identifier: Apache-2.0
/// @file
/// Random strided views and, by brute force, the set of bytes that each covers. They are
/// the oracle of footprints.
#pragma once

#include <algorithm>
#include <array>
#include <bitset>
#include <cstdint>
#include <random>
#include <vector>

#include "weir/runtime/tensor.hpp"

namespace weir::test {

inline constexpr std::size_t max_bytes = 4096;
using byte_set = std::bitset<max_bytes>;
using i64s = std::vector<std::int64_t>;

/// Random numbers without the distributions of std, so that a printed seed gives the same
/// numbers with every standard library.
class dice {
 public:
  explicit dice(std::uint64_t seed) : engine_(seed) {}
  /// Returns a number from `low` to `high`, both included.
  std::int64_t in(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(engine_() %
                                           static_cast<std::uint64_t>(high - low + 1));
  }
  bool one_in(std::int64_t n) { return in(1, n) == 1; }

 private:
  std::mt19937_64 engine_;
};

/// Calls `visit(byte)` for every byte of every element, in row-major order of the
/// elements.
template <class Visit>
void for_each_byte(std::int64_t offset, std::span<const std::int64_t> shape,
                   std::span<const std::int64_t> strides, std::int64_t size,
                   Visit&& visit) {
  for (const std::int64_t n : shape) {
    if (n == 0) {
      return;
    }
  }
  std::array<std::int64_t, runtime::max_dims> index{};
  for (;;) {
    for (std::int64_t b = 0; b < size; ++b) {
      visit(offset + b);
    }
    std::size_t d = shape.size();
    for (;;) {
      if (d == 0) {
        return;
      }
      --d;
      offset += strides[d];
      if (++index[d] < shape[d]) {
        break;
      }
      offset -= strides[d] * shape[d];
      index[d] = 0;
    }
  }
}

/// Returns the bytes that a tensor covers, by brute force.
inline byte_set bytes_in(const runtime::tensor& t) {
  byte_set out;
  for_each_byte(t.offset(), t.shape(), t.strides(), info_of(t.type()).size,
                [&](std::int64_t b) { out.set(static_cast<std::size_t>(b)); });
  return out;
}

/// Returns the bytes that a footprint covers according to its fields.
inline byte_set bytes_in(const runtime::footprint& f) {
  byte_set out;
  i64s shape;
  i64s strides;
  for (int i = 0; i < f.depth; ++i) {
    shape.push_back(f.steps[static_cast<std::size_t>(i)].count);
    strides.push_back(f.steps[static_cast<std::size_t>(i)].stride);
  }
  if (!f.empty()) {
    for_each_byte(f.lo, shape, strides, f.run,
                  [&](std::int64_t b) { out.set(static_cast<std::size_t>(b)); });
  }
  return out;
}

/// Classes of random views. @source{docs/tensormap.md, section 3.b}
enum class view_class { tiles, steps, reinterpreted, as_strided, one_dimensional };
inline constexpr std::array all_view_classes{
    view_class::tiles, view_class::steps, view_class::reinterpreted,
    view_class::as_strided, view_class::one_dimensional};

inline dtype random_type(dice& d) {
  constexpr std::array types{dtype::uint8, dtype::int16, dtype::fp32, dtype::fp64,
                             dtype::complex128};
  return types[static_cast<std::size_t>(d.in(0, 4))];
}

/// Returns a row-major tensor that fits into the storage. There are few shapes, so that
/// two views often have the same parent shape.
inline runtime::tensor random_parent(dice& d, const runtime::storage& s) {
  for (;;) {
    const dtype type = d.one_in(2) ? dtype::fp32 : random_type(d);
    i64s shape;
    std::int64_t bytes = info_of(type).size;
    const std::int64_t dims = d.in(1, 4);
    for (std::int64_t i = 0; i < dims; ++i) {
      shape.push_back(d.in(1, dims == 1 ? 64 : 8));
      bytes *= shape.back();
    }
    if (bytes <= s.size) {
      return or_throw(runtime::tensor::over(s, type, shape));
    }
  }
}

/// Slices each dimension at random; with `steps`, also with steps.
inline runtime::tensor random_slices(dice& d, runtime::tensor t, bool steps) {
  for (int dim = 0; dim < static_cast<int>(t.shape().size()); ++dim) {
    const std::int64_t n = t.shape()[static_cast<std::size_t>(dim)];
    if (n == 0) {
      continue;
    }
    std::int64_t start = d.in(0, n - 1);
    std::int64_t stop = d.in(start, n);
    std::int64_t step = 1;
    if (steps && d.one_in(2)) {
      step = d.in(1, 3);
      if (d.one_in(2)) {
        std::swap(start, stop);
        start = std::min(start, n - 1);
        stop = std::max<std::int64_t>(stop - 1, -1);
        step = -step;
      }
    }
    t = or_throw(t.slice(dim, start, stop, step));
  }
  if (steps && d.one_in(3)) {
    t = or_throw(t.transpose());
  }
  return t;
}

/// Returns a view with arbitrary strides that fits into the storage.
inline runtime::tensor random_strided(dice& d, const runtime::storage& s) {
  for (;;) {
    const dtype type = random_type(d);
    i64s shape;
    i64s strides;
    const std::int64_t dims = d.in(1, 4);
    for (std::int64_t i = 0; i < dims; ++i) {
      shape.push_back(d.in(d.one_in(20) ? 0 : 1, 5));
      strides.push_back(d.in(-60, 60));
    }
    const auto t = runtime::tensor::strided(s, type, d.in(0, s.size - 1), shape, strides);
    if (t) {
      return *t;
    }
  }
}

/// Returns a random view of a class.
inline runtime::tensor random_view(dice& d, const runtime::storage& s, view_class kind) {
  using runtime::tensor;
  switch (kind) {
    case view_class::tiles: return random_slices(d, random_parent(d, s), false);
    case view_class::steps: return random_slices(d, random_parent(d, s), true);
    case view_class::reinterpreted: {
      const tensor parent = random_parent(d, s);
      const auto finer = parent.reinterpret(d.one_in(2) ? dtype::uint8 : dtype::int16);
      return random_slices(d, finer ? *finer : parent, true);
    }
    case view_class::as_strided: return random_strided(d, s);
    case view_class::one_dimensional: break;
  }
  for (;;) {
    const i64s shape{d.in(1, 20)};
    const i64s strides{d.in(-40, 40)};
    const auto t =
        tensor::strided(s, random_type(d), d.in(0, s.size - 1), shape, strides);
    if (t) {
      return *t;
    }
  }
}

}  // namespace weir::test
