// SPDX-License-Identifier: Apache-2.0
/// @file
/// Regions and tensors as the TensorMap specification names them: by the address of their
/// storage and byte offsets in it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>

#include "weir/base/error.hpp"
#include "weir/runtime/tensor.hpp"

namespace weir::runtime {

/// Bytes of one storage: [offset, offset + size). `tile` is a label; where a tile begins
/// is part of the offset, so that tiles of different sizes can be compared.
/// @source{TensorMap specification, 2.1 and 4.1}
struct map_region {
  const void* base = nullptr;
  std::int64_t offset = 0;  ///< bytes from the base, not from the tile
  std::int64_t size = 0;    ///< bytes; 0 overlaps nothing
  std::int64_t tile = 0;

  /// Bytes [offset, offset + size) of tile number `tile` of a grid of `tile_bytes` each.
  /// @error{out_of_range, a negative number, or a byte beyond 2^63}
  [[nodiscard]] static result<map_region> in_tile(const void* base, std::int64_t tile,
                                                  std::int64_t tile_bytes,
                                                  std::int64_t offset, std::int64_t size);
};
/// Whether two regions share a byte. @threads{pure}
[[nodiscard]] bool regions_overlap(const map_region& a, const map_region& b) noexcept;

/// Where a tensor came from. Never an input of a decision.
/// @source{TensorMap specification, 5.1}
enum class extraction : std::uint8_t {
  raw,
  shallow_view,
  shallow_reshape,
  shallow_transpose,
  deep_view,
  deep_contiguous
};

/// First and last byte of a tensor, both inside.
struct bounding_box {
  std::int64_t first = 0;
  std::int64_t last = 0;
  friend bool operator==(const bounding_box&, const bounding_box&) = default;
};

/// A strided tensor over the storage that begins at `base`. All offsets and strides count
/// bytes.
/// @source{TensorMap specification, 2.2, 4.3 and 5}
/// @threads{const; safe to use concurrently}
class logical_tensor {
 public:
  logical_tensor() = default;
  /// Row-major over a whole storage. @error{invalid_argument, more than 8 dimensions, a
  /// negative extent or an element of no bytes; out_of_range, 2^63 bytes or more}
  [[nodiscard]] static result<logical_tensor> raw(const void* base,
                                                  std::span<const std::int64_t> shape,
                                                  std::int64_t element_size);
  /// Any strides, inside a storage of `raw_size` bytes.
  /// @error{out_of_range, a byte outside the storage}
  [[nodiscard]] static result<logical_tensor> strided(
      const void* base, std::int64_t raw_size, std::int64_t offset,
      std::span<const std::int64_t> shape, std::span<const std::int64_t> strides,
      std::int64_t element_size);

  /// The box [start, start + extent) of the leading dimensions; later ones stay whole.
  /// @error{out_of_range, it leaves the tensor}
  [[nodiscard]] result<logical_tensor> view(std::span<const std::int64_t> start,
                                            std::span<const std::int64_t> extent) const;
  /// @error{invalid_argument, not row-major, or another number of elements}
  [[nodiscard]] result<logical_tensor> reshape(std::span<const std::int64_t> shape) const;
  /// Dimension i becomes `order[i]`; an empty order reverses.
  /// @error{invalid_argument, no permutation}
  [[nodiscard]] result<logical_tensor> transpose(std::span<const int> order = {}) const;
  /// What a copy into new storage at `base` looks like; it shares no byte with this one.
  [[nodiscard]] result<logical_tensor> clone(const void* base) const;
  /// Row-major: this tensor itself, not a copy, if it is so already.
  [[nodiscard]] result<logical_tensor> contiguous(const void* base) const;

  [[nodiscard]] const void* base() const noexcept { return base_; }
  [[nodiscard]] std::int64_t raw_size() const noexcept { return raw_size_; }
  [[nodiscard]] std::int64_t storage_offset() const noexcept { return offset_; }
  [[nodiscard]] std::span<const std::int64_t> shape() const noexcept {
    return {shape_.data(), dims_};
  }
  [[nodiscard]] std::span<const std::int64_t> strides() const noexcept {
    return {strides_.data(), dims_};
  }
  [[nodiscard]] std::int64_t element_size() const noexcept { return element_size_; }
  [[nodiscard]] extraction kind() const noexcept { return kind_; }
  [[nodiscard]] bool is_deep_copy() const noexcept {
    return kind_ == extraction::deep_view || kind_ == extraction::deep_contiguous;
  }
  /// Row-major without gaps.
  [[nodiscard]] bool is_contiguous() const noexcept;
  /// All bytes of the box belong to the tensor, in whatever order: a transposed dense
  /// tensor is simple too.
  [[nodiscard]] bool is_simple() const noexcept { return bytes_.dense(); }
  /// Nothing for a tensor of no elements.
  [[nodiscard]] std::optional<bounding_box> box() const noexcept;
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

/// Whether the boxes of two tensors of one storage meet: quick, and true too often.
[[nodiscard]] bool boxes_overlap(const logical_tensor& a,
                                 const logical_tensor& b) noexcept;
/// Whether two tensors share a byte: storage, then box, then "both simple", then the
/// exact search. `maybe` if that gave up.
/// @source{TensorMap specification, 12.3; the exact search replaces the GCD test, which
/// misses partial elements and reports what index bounds exclude}
[[nodiscard]] overlap overlap_hybrid(const logical_tensor& a,
                                     const logical_tensor& b) noexcept;

/// Address ranges of storages, so that two pointers into one of them mean the same bytes.
/// @threads{thread-compatible}
class address_registry {
 public:
  struct place {
    const void* base = nullptr;    ///< of the storage; null: no storage holds the address
    std::int64_t offset = 0;       ///< from the base; without one, the address itself
    std::uint64_t generation = 0;  ///< of the registration, never used twice; 0 without
  };

  /// @error{already_exists, it overlaps a range that is registered; invalid_argument, no
  /// bytes}
  [[nodiscard]] result<void> add(const void* base, std::int64_t bytes);
  /// @error{not_found, no range begins there}
  [[nodiscard]] result<void> remove(const void* base);
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
