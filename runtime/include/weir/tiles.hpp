// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tensors that are cut into tiles: layouts, tiles, and the parts of tensors in and
/// around tiles that the tasks of a world access.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "weir/weir.hpp"

namespace weir {

/// Cut of a tensor into tiles: extents of a tile in the first two dimensions; 0 means the
/// whole dimension. @units{elements}
struct layout {
  std::int64_t rows = 0;     ///< extent of a tile in dimension 0
  std::int64_t columns = 0;  ///< extent of a tile in dimension 1
};
/// Returns the layout of tiles of `n` rows. @pre n >= 1
[[nodiscard]] constexpr layout rows(std::int64_t n) {
  return {n, 0};
}
/// Returns the layout of tiles of `n` columns. @pre n >= 1
[[nodiscard]] constexpr layout columns(std::int64_t n) {
  return {0, n};
}
/// Returns the layout of tiles of `n` rows and `m` columns. @pre n >= 1, m >= 1
[[nodiscard]] constexpr layout blocks(std::int64_t n, std::int64_t m) {
  return {n, m};
}

/// A box of elements and the tile that it belongs to.
template <int Rank>
struct tile {
  std::int64_t index = 0;               ///< number of the tile, row by row
  std::array<std::int64_t, Rank> lo{};  ///< first element of each dimension
  std::array<std::int64_t, Rank> hi{};  ///< one past the last element of each dimension
};

/// The tiles of a tensor, without the elements that are closer than a margin to an edge
/// of any dimension. Takes the same memory for any number of tiles.
/// @threads{const; safe to use concurrently}
template <int Rank>
struct tile_range {
  std::array<std::int64_t, Rank> extents{};  ///< extents of the tensor
  std::array<std::int64_t, Rank> shape{};    ///< extents of a tile
  std::int64_t margin = 0;                   ///< elements that are left out at each edge
  std::int64_t count = 1;                    ///< number of tiles, with empty ones

  /// Returns the elements of a tile, of which none may be left.
  [[nodiscard]] tile<Rank> box_of(std::int64_t index) const {
    tile<Rank> b;
    b.index = index;
    for (std::size_t d = Rank; d-- > 0;) {
      const std::int64_t along = (extents[d] + shape[d] - 1) / shape[d];
      const std::int64_t first = index % along * shape[d];
      b.lo[d] = std::max(first, margin);
      b.hi[d] = std::min(std::min(first + shape[d], extents[d]), extents[d] - margin);
      index /= along;
    }
    return b;
  }
  /// Returns true if the tile has an element.
  [[nodiscard]] static bool has_elements(const tile<Rank>& box) {
    bool all = true;
    for (std::size_t d = 0; d < Rank; ++d) {
      all = all && box.lo[d] < box.hi[d];
    }
    return all;
  }
};

/// A part of a world tensor and the tile whose owner runs tasks that write it.
template <class T, int Rank>
struct tile_part {
  tensor<T, Rank> elements;   ///< view of the part
  std::int64_t index = 0;     ///< number of the tile
  std::int64_t of_tiles = 1;  ///< number of tiles of the tensor

  /// Returns the elements start, start + step, ... before `stop` of one dimension of the
  /// part. Indices count from its first element.
  /// @error{out_of_range; thrown: an index outside the part, or a step of 0}
  [[nodiscard]] tile_part slice(int dimension, std::int64_t start, std::int64_t stop,
                                std::int64_t step = 1) const {
    return {elements.slice(dimension, start, stop, step), index, of_tiles};
  }
  /// Returns the part with its dimensions in reverse order.
  [[nodiscard]] tile_part transpose() const {
    return {elements.transpose(), index, of_tiles};
  }
};

/// The owner of a tile, as the rank that is to run a task. Made by `owner_of`.
struct tile_owner {
  std::int64_t index = 0;     ///< number of the tile
  std::int64_t of_tiles = 1;  ///< number of tiles of the tensor
};
/// Returns the owner of the tile that a part belongs to, for `world::submit`.
template <class T, int Rank>
[[nodiscard]] tile_owner owner_of(const tile_part<T, Rank>& p) {
  return {p.index, p.of_tiles};
}

/// Elements around a tile of a tensor whose edges meet: row -1 is the last row.
/// @threads{const; safe to use concurrently}
template <class T, int Rank>
class wrapped_view {
 public:
  /// Makes a view of the tensor that starts at the first element of a tile. Indices are
  /// counted from there and may be negative.
  wrapped_view(const T* data, const std::array<std::int64_t, Rank>& shape,
               const std::array<std::int64_t, Rank>& strides,
               const std::array<std::int64_t, Rank>& first)
      : data_(data), shape_(shape), strides_(strides), first_(first) {}
  /// Returns one element, by one index per dimension. The access has declared the indices
  /// from -reach to the extent of the tile plus reach. Any other one ends the program
  /// where views are checked, and is undefined otherwise.
  template <bool Checked = (WEIR_VIEWS_CHECKED != 0), class... Index>
  requires(sizeof...(Index) == Rank) [[nodiscard]] const T& operator()(
      Index... index) const {
    const std::array<std::int64_t, Rank> indices{static_cast<std::int64_t>(index)...};
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < indices.size(); ++d) {
      const std::int64_t index_there = (first_[d] + indices[d]) % shape_[d];
      offset += (index_there < 0 ? index_there + shape_[d] : index_there) * strides_[d];
    }
#if WEIR_VIEWS_CHECKED
    running_kernel::touch(data_ + offset, sizeof(T), false,
                          offset * static_cast<std::int64_t>(sizeof(T)));
#endif
    return data_[offset];
  }

 private:
  const T* data_;
  std::array<std::int64_t, Rank> shape_;
  std::array<std::int64_t, Rank> strides_;
  std::array<std::int64_t, Rank> first_;
};

/// The part of a tensor around a tile, over the edges.
template <class T, int Rank>
struct wrapped_part {
  std::vector<tensor<T, Rank>> pieces;  ///< boxes that together are the part
  wrapped_view<T, Rank> elements;       ///< view that the kernel gets
};

/// Returns the first tile of a rank, of `tiles` tiles: tile i belongs to rank
/// i * ranks / tiles.
[[nodiscard]] constexpr std::int64_t first_tile_of(std::int64_t rank, std::int64_t ranks,
                                                   std::int64_t tiles) {
  return (rank * tiles + ranks - 1) / ranks;
}

template <class T, int Rank>
struct each_part;
template <class T>
struct each_number;

/// A tensor that all ranks of a world share, cut into tiles. Tile i of n belongs to rank
/// i * ranks / n. A value, cheap to copy.
/// @threads{const; safe to use concurrently}
template <class T, int Rank>
class world_tensor {
  static_assert(Rank >= 1);

 public:
  /// A box of elements.
  using box = tile<Rank>;

  /// Makes a tensor over no storage, to be assigned to before it is used.
  world_tensor() = default;
  /// Cuts a tensor into tiles.
  world_tensor(const tensor<T, Rank>& all, const layout& cut) : all_(all) {
    tile_.fill(0);
    tile_[0] = cut.rows;
    if constexpr (Rank >= 2) {
      tile_[1] = cut.columns;
    }
    for (std::size_t d = 0; d < Rank; ++d) {
      tile_[d] = tile_[d] == 0 ? std::max<std::int64_t>(extent(d), 1) : tile_[d];
      WEIR_EXPECT(tile_[d] >= 1);
      count_ *= (extent(d) + tile_[d] - 1) / tile_[d];
    }
  }

  /// Returns the tensor without its tiles.
  [[nodiscard]] const tensor<T, Rank>& all() const { return all_; }
  /// Returns the number of tiles.
  [[nodiscard]] std::int64_t tile_count() const { return count_; }
  /// Returns the extents of a tile; those at the edges may be smaller.
  /// @shape{one number per dimension} @units{elements}
  [[nodiscard]] const std::array<std::int64_t, Rank>& tile_shape() const { return tile_; }
  /// Returns all tiles, row by row.
  [[nodiscard]] std::vector<box> tiles() const { return tiles_inside(0); }
  /// Returns the tiles without the elements that are closer than `margin` to an edge of
  /// any dimension. Tiles without an element are left out.
  [[nodiscard]] std::vector<box> tiles_inside(std::int64_t margin) const {
    const tile_range<Rank> all = range(margin);
    std::vector<box> out;
    for (std::int64_t i = 0; i < count_; ++i) {
      if (const box b = all.box_of(i); all.has_elements(b)) {
        out.push_back(b);
      }
    }
    return out;
  }
  /// Returns the same tiles for `world::submit_tiles`, without a list of them.
  [[nodiscard]] tile_range<Rank> range(std::int64_t margin = 0) const {
    tile_range<Rank> all;
    all.shape = tile_;
    all.margin = margin;
    all.count = count_;
    for (std::size_t d = 0; d < Rank; ++d) {
      all.extents[d] = extent(d);
    }
    return all;
  }
  /// Returns, for each tile that `world::submit_tiles` goes through, the elements that
  /// are at most `reach` away, without those outside of the tensor.
  [[nodiscard]] each_part<T, Rank> each(std::int64_t reach = 0) const {
    return {*this, reach};
  }
  /// Returns, for each tile that `world::submit_tiles` goes through, the element with the
  /// number of the tile, of a tensor that `world::per_tile` has made.
  [[nodiscard]] each_number<T> each_index() const requires(Rank == 1) { return {*this}; }
  /// Returns the elements of a box. @error{out_of_range; thrown: it leaves the tensor}
  [[nodiscard]] tile_part<T, Rank> of_tile(const box& b) const {
    bool inside = true;
    for (std::size_t d = 0; d < Rank; ++d) {
      inside = inside && 0 <= b.lo[d] && b.lo[d] < b.hi[d] && b.hi[d] <= extent(d);
    }
    if (!inside) {
      return {sliced(b), b.index, count_};
    }
    return {tensor<T, Rank>(all_.bytes().box(b.lo, b.hi)), b.index, count_};
  }
  /// Returns one element of a tensor of one dimension, in tiles of one element.
  [[nodiscard]] tile_part<T, Rank> of_index(std::int64_t index) const
      requires(Rank == 1) {
    return of_tile({index, {index}, {index + 1}});
  }
  /// Returns the elements of a box and those that are at most `reach` away, without those
  /// outside of the tensor.
  [[nodiscard]] tile_part<T, Rank> around(const box& b, std::int64_t reach) const {
    box grown = b;
    for (std::size_t d = 0; d < Rank; ++d) {
      grown.lo[d] = std::max<std::int64_t>(b.lo[d] - reach, 0);
      grown.hi[d] = std::min(b.hi[d] + reach, extent(d));
    }
    return of_tile(grown);
  }
  /// Returns the elements of a box and those that are at most `reach` away, where the
  /// edges of the tensor meet, corners included.
  [[nodiscard]] wrapped_part<T, Rank> wrapped(const box& b, std::int64_t reach) const {
    std::vector<tensor<T, Rank>> pieces{all_};
    std::array<std::int64_t, Rank> shape{};
    std::array<std::int64_t, Rank> strides{};
    for (std::size_t d = 0; d < Rank; ++d) {
      shape[d] = extent(d);
      strides[d] = all_.bytes().strides()[d] / static_cast<std::int64_t>(sizeof(T));
      std::vector<tensor<T, Rank>> cut;
      for (const tensor<T, Rank>& piece : pieces) {
        for (const auto& [lo, hi] : ranges(d, b.lo[d] - reach, b.hi[d] + reach)) {
          cut.push_back(piece.slice(static_cast<int>(d), lo, hi));
        }
      }
      pieces = std::move(cut);
    }
    return {std::move(pieces), {all_.bytes().template as<T>(), shape, strides, b.lo}};
  }

  /// Returns the bytes of the tiles of one of `ranks` ranks, if tiles are whole rows or
  /// there is one rank, and nothing otherwise.
  /// @pre 0 <= rank < ranks, and the tensor is row-major
  [[nodiscard]] std::span<std::byte> bytes_of_rank(std::int64_t rank,
                                                   std::int64_t ranks) const {
    for (std::size_t d = 1; d < Rank; ++d) {
      if (ranks > 1 && tile_[d] < extent(d)) {
        return {};
      }
    }
    const auto first_row_of = [&](std::int64_t of_rank) {
      return std::min(
          first_tile_of(of_rank, ranks, count_) * std::min(tile_[0], extent(0)),
          extent(0));
    };
    const runtime::tensor& whole = all_.bytes();
    const std::int64_t first = first_row_of(rank);
    const std::int64_t rows = first_row_of(rank + 1) - first;
    return {whole.store().base + whole.offset() + first * whole.strides()[0],
            static_cast<std::size_t>(rows * whole.strides()[0])};
  }

 private:
  /// Returns a box that is empty or leaves the tensor, which is an error.
  [[nodiscard]] tensor<T, Rank> sliced(const box& b) const {
    tensor<T, Rank> part = all_;
    for (std::size_t d = 0; d < Rank; ++d) {
      part = part.slice(static_cast<int>(d), b.lo[d], b.hi[d]);
    }
    return part;
  }
  [[nodiscard]] std::int64_t extent(std::size_t d) const {
    return all_.extent(static_cast<int>(d));
  }
  /// Returns the ranges of indices that [lo, hi) covers when edges meet.
  [[nodiscard]] std::vector<std::pair<std::int64_t, std::int64_t>> ranges(
      std::size_t d, std::int64_t lo, std::int64_t hi) const {
    const std::int64_t n = extent(d);
    if (hi - lo >= n) {
      return {{0, n}};
    }
    const std::int64_t first = (lo % n + n) % n;
    const std::int64_t last = first + (hi - lo);
    if (last <= n) {
      return {{first, last}};
    }
    return {{0, last - n}, {first, n}};
  }

  tensor<T, Rank> all_;
  std::array<std::int64_t, Rank> tile_{};
  std::int64_t count_ = 1;
};

/// One access of a task to a part of a world tensor. Made by `read`, `write`, `update`.
template <class T, int Rank, runtime::access_mode Mode>
struct tile_argument {
  /// Access as an engine knows it.
  argument<T, Rank, Mode> plain;
  std::int64_t index = 0;     ///< number of the tile
  std::int64_t of_tiles = 1;  ///< number of tiles of the tensor
};
/// Declares that a kernel reads the part: it gets a view of const elements.
template <class T, int Rank>
[[nodiscard]] auto read(const tile_part<T, Rank>& p) {
  return tile_argument<T, Rank, runtime::access_mode::read>{
      {p.elements}, p.index, p.of_tiles};
}
/// Declares that a kernel writes the part. Elements that it leaves keep their values.
template <class T, int Rank>
[[nodiscard]] auto write(const tile_part<T, Rank>& p) {
  return tile_argument<T, Rank, runtime::access_mode::write>{
      {p.elements}, p.index, p.of_tiles};
}
/// Declares that a kernel reads and writes the part.
template <class T, int Rank>
[[nodiscard]] auto update(const tile_part<T, Rank>& p) {
  return tile_argument<T, Rank, runtime::access_mode::read_write>{
      {p.elements}, p.index, p.of_tiles};
}
/// Declares that a kernel reads the part: it gets a `wrapped_view`.
template <class T, int Rank>
[[nodiscard]] wrapped_part<T, Rank> read(wrapped_part<T, Rank> p) {
  return p;
}

/// Combines the elements [lo, hi) by a tree over their numbers. The left half has the
/// largest power of two of elements that leaves one for the right half.
/// @pre lo < hi @units{lo, hi: elements}
template <class Operation, class T>
[[nodiscard]] T combine_elements(const Operation& operation, const view<const T, 1>& all,
                                 std::int64_t lo, std::int64_t hi) {
  if (hi - lo == 1) {
    return all(lo);
  }
  const auto left =
      static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(hi - lo - 1)));
  return operation(combine_elements(operation, all, lo, lo + left),
                   combine_elements(operation, all, lo + left, hi));
}

}  // namespace weir
