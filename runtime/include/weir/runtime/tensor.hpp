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
  /// Place in the table of the engine.
  std::uint32_t index = 0;
  std::uint32_t generation = 0;  ///< how often the place was used; 0: names nothing
  friend bool operator==(storage_id, storage_id) = default;
};

/// A storage as views see it: its id, its address and its size. Does not own the bytes.
struct storage {
  storage_id id;              ///< name of the storage
  std::byte* base = nullptr;  ///< first byte
  std::int64_t size = 0;      ///< bytes
};

/// Largest number of dimensions of a tensor.
inline constexpr int max_dims = 8;

/// The part of a footprint that describes its range and its innermost block.
/// It ends without padding, because compilers copy a base class with padding at its end
/// through a temporary one.
struct footprint_head {
  std::uint8_t depth = 0;  ///< progressions in use
  bool nested = true;      ///< every stride is at least the span of everything inside it
  storage_id id;           ///< storage that the bytes belong to
  std::int64_t lo = 0;     ///< first byte
  std::int64_t hi = 0;     ///< one past the last byte
  std::int64_t run = 0;    ///< bytes of the innermost block

  /// Returns true if the footprint has no byte.
  [[nodiscard]] bool empty() const noexcept { return lo == hi; }
  /// Returns true if the footprint is one block without gaps.
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
  /// Repetition of all that is inside it, at equal distances.
  struct progression {
    std::int64_t stride;  ///< bytes from one repetition to the next
    std::int64_t count;   ///< number of repetitions, at least 2
    friend bool operator==(const progression&, const progression&) = default;
  };
  std::array<progression, max_dims> steps;  ///< those below `depth` count

  /// Makes a footprint without a byte.
  footprint() noexcept {}
  /// Copies a footprint. Only the steps in use are copied: most footprints have none, and
  /// submissions copy many footprints.
  footprint(const footprint& from) noexcept : footprint_head(from) {
    if (from.depth != 0) {
      copy_steps(from);
    }
  }
  /// Assigns the range and the steps in use.
  footprint& operator=(const footprint& from) noexcept {
    if (this != &from) {
      footprint_head::operator=(from);
      if (from.depth != 0) {
        copy_steps(from);
      }
    }
    return *this;
  }
  ~footprint() = default;

  friend bool operator==(const footprint& a, const footprint& b) noexcept {
    const footprint_head& head = a;
    return head == b &&
           std::equal(a.steps.begin(), a.steps.begin() + a.depth, b.steps.begin());
  }

  /// Returns the bytes of a strided view in canonical form. A stride may be zero or
  /// negative.
  /// @units{offset, strides, element_size: bytes; shape: elements}
  /// @error{out_of_range; the view leaves [0, 2^63)}
  [[nodiscard]] static result<footprint> of_view(storage_id id, std::int64_t offset,
                                                 std::span<const std::int64_t> shape,
                                                 std::span<const std::int64_t> strides,
                                                 std::int64_t element_size);
  /// Returns the bytes of a strided view in canonical form, without checks.
  /// @pre `shape` and `strides` have one length of at most `max_dims`, no extent is
  /// negative, and no byte leaves [0, 2^63)
  /// @units{offset, strides, element_size: bytes; shape: elements}
  [[nodiscard]] static footprint of_checked_view(storage_id id, std::int64_t offset,
                                                 std::span<const std::int64_t> shape,
                                                 std::span<const std::int64_t> strides,
                                                 std::int64_t element_size) noexcept;

 private:
  void copy_steps(const footprint& from) noexcept;
};

/// Result of an overlap test. `maybe` means that the budget of the search ended first; it
/// counts as an overlap.
enum class overlap : std::uint8_t { no, yes, maybe };

/// Decides if two footprints share a byte. The answer is exact if the search needs at
/// most `budget` nodes; it is never `no` for footprints that share one.
/// @threads{pure}
[[nodiscard]] overlap decide_overlap(const footprint& a, const footprint& b,
                                     int budget = 256) noexcept;
/// Returns true if every byte of `inner` is known to be in `outer`. False may also mean
/// that this was not decided.
/// @threads{pure}
[[nodiscard]] bool covers(const footprint& outer, const footprint& inner) noexcept;

/// The part of a tensor that does not depend on its dimensions. A copy of it takes fewer
/// instructions than copies of its members.
class tensor_head {
 protected:
  dtype type_ = dtype::fp32;  ///< type of the elements
  std::uint8_t dims_ = 0;     ///< number of dimensions
  std::int64_t offset_ = 0;   ///< offset of element 0 in the storage, in bytes
  storage store_;             ///< storage that the tensor is a view of
};

/// A typed strided view of a storage: a value, cheap to copy; owns nothing.
/// @invariant every element lies inside the storage
/// @threads{const; safe to use concurrently}
class tensor : tensor_head {
 public:
  /// Makes a tensor without dimensions over no storage.
  tensor() noexcept {
    std::fill_n(shape_.begin(), few_dims, 0);
    std::fill_n(strides_.begin(), few_dims, 0);
  }
  /// Copies a tensor. Only the dimensions in use are copied: most tensors have few, and
  /// stages of pipelines copy tensors for each item.
  [[gnu::always_inline]] inline tensor(const tensor& from) noexcept
      : tensor_head(from), bytes_(from.bytes_) {
    copy_dimensions(from);
  }
  /// Assigns the dimensions in use.
  tensor& operator=(const tensor& from) noexcept {
    tensor_head::operator=(from);
    bytes_ = from.bytes_;
    copy_dimensions(from);
    return *this;
  }
  ~tensor() = default;
  /// Makes a row-major tensor that begins `offset` bytes behind the start of a storage.
  /// @units{shape: elements; offset: bytes}
  /// @error{out_of_range; it does not fit into the storage}
  /// @error{invalid_argument; more than `max_dims` dimensions}
  /// @error{unsupported; elements of less than a byte}
  [[nodiscard]] static result<tensor> over(const storage& s, dtype type,
                                           std::span<const std::int64_t> shape,
                                           std::int64_t offset = 0);
  /// Makes a tensor with explicit strides, which may be zero or negative.
  /// @shape{shape, strides: one number per dimension}
  /// @units{offset, strides: bytes; shape: elements}
  /// @error{out_of_range; an element lies outside the storage}
  /// @error{invalid_argument; shape and strides have different lengths}
  [[nodiscard]] static result<tensor> strided(const storage& s, dtype type,
                                              std::int64_t offset,
                                              std::span<const std::int64_t> shape,
                                              std::span<const std::int64_t> strides);

  /// Returns a view of the elements start, start + step, ... before `stop` of one
  /// dimension. `step` may be negative; `stop` is then -1 for "down to 0". No index
  /// counts from the end. @error{out_of_range; an index outside the dimension, or a step
  /// of 0}
  [[nodiscard]] result<tensor> slice(int dim, std::int64_t start, std::int64_t stop,
                                     std::int64_t step = 1) const;
  /// Returns the view of the elements [lo, hi) of all dimensions, for callers that have
  /// checked the indices. @pre 0 <= lo < hi <= extent in every dimension
  /// @shape{lo, hi: one number per dimension} @units{lo, hi: elements}
  [[nodiscard]] tensor box(std::span<const std::int64_t> lo,
                           std::span<const std::int64_t> hi) const noexcept;
  /// Returns the view of one index of one dimension, without that dimension.
  /// @error{out_of_range; there is no such dimension or index}
  [[nodiscard]] result<tensor> select(int dim, std::int64_t index) const;
  /// Returns a view of the same elements in another shape.
  /// @error{invalid_argument; the number of elements differs, or no strides express it}
  [[nodiscard]] result<tensor> reshape(std::span<const std::int64_t> shape) const;
  /// Returns a view whose dimension i is dimension `order[i]` of this tensor. An empty
  /// order reverses the dimensions. @error{invalid_argument; `order` is no permutation}
  [[nodiscard]] result<tensor> transpose(std::span<const int> order = {}) const;
  /// Returns a view that repeats dimensions of extent 1 and adds leading dimensions, with
  /// stride 0. It is for reading only. @error{invalid_argument; the shapes do not match}
  [[nodiscard]] result<tensor> broadcast(std::span<const std::int64_t> shape) const;
  /// Returns a view of the same bytes as elements of another type. The last dimension is
  /// dense. @error{invalid_argument; its bytes are no multiple of the other type's size}
  [[nodiscard]] result<tensor> reinterpret(dtype type) const;

  /// Returns the extents. @units{elements}
  [[nodiscard]] std::span<const std::int64_t> shape() const noexcept {
    return {shape_.data(), dims_};
  }
  /// Returns the strides. @units{bytes}
  [[nodiscard]] std::span<const std::int64_t> strides() const noexcept {
    return {strides_.data(), dims_};
  }
  /// Returns the type of the elements.
  [[nodiscard]] dtype type() const noexcept { return type_; }
  /// Returns the offset of element 0 in its storage. @units{bytes}
  [[nodiscard]] std::int64_t offset() const noexcept { return offset_; }
  /// Returns the number of elements.
  [[nodiscard]] std::int64_t count() const noexcept;
  /// Returns the storage that the tensor is a view of.
  [[nodiscard]] const storage& store() const noexcept { return store_; }
  /// Returns the exact set of bytes that the tensor covers.
  [[nodiscard]] const footprint& bytes() const noexcept { return bytes_; }
  /// Returns true if the elements lie in row-major order without gaps.
  [[nodiscard]] bool row_major() const noexcept;
  /// Returns the address of element 0.
  [[nodiscard]] std::byte* data() const noexcept { return store_.base + offset_; }
  /// Returns the address of element 0 as a pointer to `T`. The type is not checked.
  template <class T>
  [[nodiscard]] T* as() const noexcept {
    return reinterpret_cast<T*>(data());
  }

 private:
  /// Most tensors have at most so many dimensions.
  static constexpr std::size_t few_dims = 2;

  void copy_dimensions(const tensor& from) noexcept {
    // Copying a constant number is faster than copying those that are in use.
    std::copy_n(from.shape_.begin(), few_dims, shape_.begin());
    std::copy_n(from.strides_.begin(), few_dims, strides_.begin());
    if (from.dims_ > few_dims) {
      copy_further_dimensions(from);
    }
  }
  void copy_further_dimensions(const tensor& from) noexcept;

  // Those of the first `dims_` dimensions count. The first few always have a value.
  std::array<std::int64_t, max_dims> shape_;
  std::array<std::int64_t, max_dims> strides_;
  footprint bytes_;
};

}  // namespace weir::runtime
