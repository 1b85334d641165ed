// SPDX-License-Identifier: Apache-2.0
/// @file
/// Storages, tensors as strided byte views of them, footprints, and the exact overlap
/// decision.
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>

#include "weir/base/bytes.hpp"
#include "weir/base/dtype.hpp"
#include "weir/base/error.hpp"

namespace weir::runtime {

/// Name of one allocation; never its address. A reused index has another generation.
struct storage_id {
  std::uint32_t index = 0;
  std::uint32_t generation = 0;  ///< 0: names nothing
  friend bool operator==(storage_id, storage_id) = default;
};

/// A storage as views see it: its id, where its bytes are, how many.
struct storage {
  storage_id id;
  std::byte* base = nullptr;
  std::int64_t size = 0;  ///< bytes
};

inline constexpr int max_dims = 8;

/// What a footprint is made of besides its progressions.
struct footprint_head {
  storage_id id;
  std::int64_t lo = 0;     ///< first byte
  std::int64_t hi = 0;     ///< one past the last byte
  std::int64_t run = 0;    ///< bytes of the innermost block
  std::uint8_t depth = 0;  ///< progressions in use
  bool nested = true;      ///< every stride is at least the span of everything inside it

  [[nodiscard]] bool empty() const noexcept { return lo == hi; }
  [[nodiscard]] bool dense() const noexcept { return depth == 0; }
  friend bool operator==(const footprint_head&, const footprint_head&) = default;
};

/// The exact set of bytes that a tensor covers, in canonical form: blocks of `run` bytes,
/// repeated along progressions of descending stride. Two views of the same bytes have the
/// same footprint.
/// @invariant strides descend and are positive; `lo <= byte < hi` for every byte; empty
/// iff `lo == hi`
/// @source{TensorMap design, sections 4 and 5; canonical form as in docs/tensormap.md}
struct footprint : footprint_head {
  struct progression {
    std::int64_t stride;  ///< bytes
    std::int64_t count;   ///< >= 2
    friend bool operator==(const progression&, const progression&) = default;
  };
  std::array<progression, max_dims> steps;  ///< those below `depth` count

  footprint() noexcept : steps{} {}
  /// Copies take the steps in use along, which are none for most: submissions copy much.
  footprint(const footprint& from) noexcept : footprint_head(from) { copy_steps(from); }
  footprint& operator=(const footprint& from) noexcept {
    footprint_head::operator=(from);
    copy_steps(from);
    return *this;
  }
  ~footprint() = default;

  friend bool operator==(const footprint& a, const footprint& b) noexcept {
    const footprint_head& head = a;
    return head == b &&
           std::equal(a.steps.begin(), a.steps.begin() + a.depth, b.steps.begin());
  }

  /// Canonical form of a strided view. Strides and offset in bytes; a stride may be zero
  /// or negative.
  /// @error{out_of_range, the view leaves [0, 2^63)}
  [[nodiscard]] static result<footprint> of(storage_id id, std::int64_t offset,
                                            std::span<const std::int64_t> shape,
                                            std::span<const std::int64_t> strides,
                                            std::int64_t element_size);

 private:
  void copy_steps(const footprint& from) noexcept {
    for (std::size_t i = 0; i < from.depth; ++i) {
      steps[i] = from.steps[i];
    }
  }
};

/// `maybe`: the work budget ended first; to be treated as an overlap, and counted.
enum class overlap : std::uint8_t { no, yes, maybe };

/// Whether two footprints share a byte. Exact within `budget` search nodes; never `no`
/// when they do.
/// @threads{pure}
[[nodiscard]] overlap decide_overlap(const footprint& a, const footprint& b,
                                     int budget = 256) noexcept;
/// True only if every byte of `inner` is in `outer`; false may also mean "not decided".
/// @threads{pure}
[[nodiscard]] bool covers(const footprint& outer, const footprint& inner) noexcept;

/// A typed strided view of a storage: a value, cheap to copy; owns nothing.
/// @invariant every element lies inside the storage
/// @threads{const; safe to use concurrently}
class tensor {
 public:
  tensor() = default;
  /// Row-major tensor over the start of a storage, or from `offset` bytes on.
  /// @error{out_of_range, it does not fit into the storage}
  [[nodiscard]] static result<tensor> over(const storage& s, dtype type,
                                           std::span<const std::int64_t> shape,
                                           std::int64_t offset = 0);
  /// View with explicit byte strides, which may be zero or negative.
  [[nodiscard]] static result<tensor> strided(const storage& s, dtype type,
                                              std::int64_t offset,
                                              std::span<const std::int64_t> shape,
                                              std::span<const std::int64_t> strides);

  /// Elements start, start+step, ... before `stop` of one dimension; `step` may be
  /// negative, and `stop` is then -1 for "down to 0". Indices are meant literally: none
  /// counts from the end.
  /// @error{out_of_range, an index outside the dimension, or a step of 0}
  [[nodiscard]] result<tensor> slice(int dim, std::int64_t start, std::int64_t stop,
                                     std::int64_t step = 1) const;
  /// One index of one dimension; the dimension disappears.
  [[nodiscard]] result<tensor> at(int dim, std::int64_t index) const;
  /// Same elements in another shape. @error{invalid_argument, count differs or no strides
  /// express it}
  [[nodiscard]] result<tensor> reshape(std::span<const std::int64_t> shape) const;
  /// Dimension i of the result is dimension `order[i]`; an empty order reverses.
  [[nodiscard]] result<tensor> transpose(std::span<const int> order = {}) const;
  /// Repeats dimensions of extent 1, and adds leading ones, with stride 0. For reading
  /// only.
  [[nodiscard]] result<tensor> broadcast(std::span<const std::int64_t> shape) const;
  /// The same bytes as another type; the last dimension must be dense and divide.
  [[nodiscard]] result<tensor> reinterpret(dtype type) const;

  [[nodiscard]] std::span<const std::int64_t> shape() const noexcept {
    return {shape_.data(), dims_};
  }
  [[nodiscard]] std::span<const std::int64_t> strides() const noexcept {
    return {strides_.data(), dims_};
  }
  [[nodiscard]] dtype type() const noexcept { return type_; }
  [[nodiscard]] std::int64_t offset() const noexcept {
    return offset_;
  }                                                   ///< bytes, of element 0
  [[nodiscard]] std::int64_t count() const noexcept;  ///< elements
  [[nodiscard]] const storage& store() const noexcept { return store_; }
  [[nodiscard]] const footprint& bytes() const noexcept { return bytes_; }
  [[nodiscard]] bool row_major() const noexcept;
  /// Address of element 0.
  [[nodiscard]] std::byte* data() const noexcept { return store_.base + offset_; }
  template <class T>
  [[nodiscard]] T* as() const noexcept {
    return reinterpret_cast<T*>(data());
  }

 private:
  storage store_;
  dtype type_ = dtype::fp32;
  std::uint8_t dims_ = 0;
  std::int64_t offset_ = 0;
  std::array<std::int64_t, max_dims> shape_{};
  std::array<std::int64_t, max_dims> strides_{};
  footprint bytes_;
};

}  // namespace weir::runtime
