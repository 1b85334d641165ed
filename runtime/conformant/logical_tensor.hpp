// SPDX-License-Identifier: Apache-2.0
/// @file
/// Regions and tensors as in the TensorMap specification: by the address of their storage
/// and byte offsets in it. The engine uses footprints (tensor.hpp) instead.
/// @source{TensorMap specification, 2 to 5}
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>

#include "weir/base/error.hpp"
#include "weir/runtime/tensor.hpp"

namespace weir::runtime {

/// The bytes [offset, offset + size) of one storage. `tile` is a label: the start of the
/// tile is part of the offset, so that tiles of different sizes can be compared.
/// @source{TensorMap specification, 2.1 and 4.1}
struct map_region {
  const void* base = nullptr;  ///< address of the storage
  std::int64_t offset = 0;     ///< bytes from the base, not from the tile
  std::int64_t size = 0;       ///< bytes; 0 overlaps nothing
  std::int64_t tile = 0;       ///< number of the tile

  /// Makes the region of the bytes [offset, offset + size) of tile number `tile` in a
  /// grid of tiles of `tile_bytes` bytes.
  /// @error{out_of_range; a negative number, or a byte beyond 2^63}
  [[nodiscard]] static result<map_region> in_tile(const void* base, std::int64_t tile,
                                                  std::int64_t tile_bytes,
                                                  std::int64_t offset, std::int64_t size);
};
/// Returns true if two regions share a byte. @threads{pure}
[[nodiscard]] bool regions_overlap(const map_region& a, const map_region& b) noexcept;

/// Operation that a tensor came from. It is for information: no decision depends on it.
/// @source{TensorMap specification, 5.1}
enum class extraction : std::uint8_t {
  raw,
  shallow_view,
  shallow_reshape,
  shallow_transpose,
  deep_view,
  deep_contiguous
};

/// First and last byte of a tensor; both belong to it.
struct bounding_box {
  std::int64_t first = 0;  ///< offset of the first byte
  std::int64_t last = 0;   ///< offset of the last byte
  friend bool operator==(const bounding_box&, const bounding_box&) = default;
};

/// A strided tensor over the storage that begins at `base`. All offsets and strides count
/// bytes.
/// @source{TensorMap specification, 2.2, 4.3 and 5}
/// @threads{const; safe to use concurrently}
class logical_tensor {
 public:
  /// Makes a tensor without dimensions over no storage.
  logical_tensor() = default;
  /// Makes a row-major tensor over a whole storage.
  /// @error{invalid_argument; more than 8 dimensions, a negative extent or an element of
  /// no bytes} @error{out_of_range; 2^63 bytes or more}
  [[nodiscard]] static result<logical_tensor> raw(const void* base,
                                                  std::span<const std::int64_t> shape,
                                                  std::int64_t element_size);
  /// Makes a tensor with any strides inside a storage of `raw_size` bytes.
  /// @error{out_of_range; a byte outside the storage}
  [[nodiscard]] static result<logical_tensor> strided(
      const void* base, std::int64_t raw_size, std::int64_t offset,
      std::span<const std::int64_t> shape, std::span<const std::int64_t> strides,
      std::int64_t element_size);

  /// Returns the box [start, start + extent) of the leading dimensions; later dimensions
  /// stay whole. @error{out_of_range; it leaves the tensor}
  [[nodiscard]] result<logical_tensor> view(std::span<const std::int64_t> start,
                                            std::span<const std::int64_t> extent) const;
  /// Returns the same elements in another shape.
  /// @error{invalid_argument; not row-major, or another number of elements}
  [[nodiscard]] result<logical_tensor> reshape(std::span<const std::int64_t> shape) const;
  /// Returns a view whose dimension i is dimension `order[i]` of this tensor. An empty
  /// order reverses the dimensions. @error{invalid_argument; no permutation}
  [[nodiscard]] result<logical_tensor> transpose(std::span<const int> order = {}) const;
  /// Returns the description of a copy in new storage at `base`; it shares no byte with
  /// this tensor.
  [[nodiscard]] result<logical_tensor> clone(const void* base) const;
  /// Returns this tensor if it is row-major, and the description of a row-major copy in
  /// new storage at `base` otherwise.
  [[nodiscard]] result<logical_tensor> contiguous(const void* base) const;

  /// Returns the address of the storage.
  [[nodiscard]] const void* base() const noexcept { return base_; }
  /// Returns the size of the storage in bytes.
  [[nodiscard]] std::int64_t raw_size() const noexcept { return raw_size_; }
  /// Returns the offset of element 0 in bytes.
  [[nodiscard]] std::int64_t storage_offset() const noexcept { return offset_; }
  /// Returns the extents in elements.
  [[nodiscard]] std::span<const std::int64_t> shape() const noexcept {
    return {shape_.data(), dims_};
  }
  /// Returns the strides in bytes.
  [[nodiscard]] std::span<const std::int64_t> strides() const noexcept {
    return {strides_.data(), dims_};
  }
  /// Returns the size of an element in bytes.
  [[nodiscard]] std::int64_t element_size() const noexcept { return element_size_; }
  /// Returns the operation that the tensor came from.
  [[nodiscard]] extraction kind() const noexcept { return kind_; }
  /// Returns true if the tensor came from a copy.
  [[nodiscard]] bool is_deep_copy() const noexcept {
    return kind_ == extraction::deep_view || kind_ == extraction::deep_contiguous;
  }
  /// Returns true if the elements lie in row-major order without gaps.
  [[nodiscard]] bool is_contiguous() const noexcept;
  /// Returns true if all bytes of the box belong to the tensor, in any order: a
  /// transposed dense tensor is simple too.
  [[nodiscard]] bool is_simple() const noexcept { return bytes_.dense(); }
  /// Returns the first and the last byte, or nothing for a tensor of no elements.
  [[nodiscard]] std::optional<bounding_box> box() const noexcept;
  /// Returns the exact set of bytes.
  [[nodiscard]] const footprint& bytes() const noexcept { return bytes_; }

 private:
  const void* base_ = nullptr;
  std::int64_t raw_size_ = 0;
  std::int64_t offset_ = 0;
  std::int64_t element_size_ = 0;
  std::uint8_t dims_ = 0;
  extraction kind_ = extraction::raw;
  std::array<std::int64_t, max_dims> shape_{};
  std::array<std::int64_t, max_dims> strides_{};
  footprint bytes_;
};

/// Returns true if the boxes of two tensors of one storage share a byte. This is quick,
/// and true also for some tensors that share none. @threads{pure}
[[nodiscard]] bool boxes_overlap(const logical_tensor& a,
                                 const logical_tensor& b) noexcept;
/// Decides if two tensors share a byte: by storage, then by box, then by "both simple",
/// then by the exact search. Returns `maybe` if the search gave up.
/// @source{TensorMap specification, 12.3; the exact search replaces the GCD test, which
/// misses partial elements and reports what index bounds exclude}
[[nodiscard]] overlap overlap_hybrid(const logical_tensor& a,
                                     const logical_tensor& b) noexcept;

/// Address ranges of storages, to find the storage and the offset of an address.
/// @threads{thread-compatible}
class address_registry {
 public:
  /// Storage and offset of an address.
  struct place {
    const void* base = nullptr;    ///< address of the storage; null: none holds it
    std::int64_t offset = 0;       ///< offset from the base, or the address itself
    std::uint64_t generation = 0;  ///< number of the registration; 0: none
  };

  /// Registers a storage. @error{already_exists; it overlaps a range that is registered}
  /// @error{invalid_argument; no bytes}
  [[nodiscard]] result<void> add(const void* base, std::int64_t bytes);
  /// Forgets a storage. @error{not_found; no range begins there}
  [[nodiscard]] result<void> remove(const void* base);
  /// Returns the storage and offset of an address.
  [[nodiscard]] place find(const void* address) const noexcept;

 private:
  struct range {
    std::uintptr_t end = 0;
    std::uint64_t generation = 0;
  };
  std::map<std::uintptr_t, range> ranges_;
  std::uint64_t last_ = 0;
};

}  // namespace weir::runtime
