// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tasks for all tiles of a tensor, submitted by one call: the parts that each of them
/// accesses, and what a rank knows of the tasks of others without making them.
///
/// ```
/// w.submit_tiles("sweep", sweep, b.range(1), weir::read(a.each(1)),
///                weir::write(b.each()));
/// ```
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "weir/base/hash.hpp"
#include "weir/runtime/world.hpp"
#include "weir/tiles.hpp"
#include "weir/world_arguments.hpp"

namespace weir {

/// Relation between the number of a tile and the bytes that its task accesses, so far as
/// a range of tiles needs it: rows of a tensor.
struct tile_rows {
  /// Rows that belong to a range of tiles.
  enum class kind : std::uint8_t {
    of_tiles,    ///< those of the tiles
    of_numbers,  ///< those with the numbers of the tiles
    all,         ///< all of them
  };
  kind which = kind::all;   ///< rows that are accessed
  std::int64_t reach = 0;   ///< further rows on both sides
  std::int64_t rows = 0;    ///< number of rows of the tensor
  std::int64_t stride = 0;  ///< distance of two rows @units{bytes}
  std::int64_t offset = 0;  ///< first byte of the first row
};

/// The parts of a tensor in and around each tile, made by `world_tensor::each`.
template <class T, int Rank>
struct each_part {
  static constexpr int rank = Rank;  ///< number of dimensions
  using element = T;                 ///< type of the elements

  world_tensor<T, Rank> all;  ///< tensor of which these are parts
  std::int64_t reach = 0;     ///< distance up to which elements belong to a part

  /// Returns the part for one tile.
  [[nodiscard]] tile_part<T, Rank> part_of(const tile<Rank>& box) const {
    return all.around(box, reach);
  }
  /// Returns the rows of the parts.
  [[nodiscard]] tile_rows rows() const {
    const runtime::tensor& bytes = all.all().bytes();
    return {tile_rows::kind::of_tiles, reach, bytes.shape()[0], bytes.strides()[0],
            bytes.offset()};
  }
  /// Returns true if the tensor has all elements of all tiles.
  [[nodiscard]] bool covers(const tile_range<Rank>& tiles) const {
    bool inside = true;
    for (std::size_t d = 0; d < Rank; ++d) {
      inside = inside && tiles.extents[d] <= all.all().extent(static_cast<int>(d));
    }
    return inside;
  }
};

/// The elements with the numbers of tiles, made by `world_tensor::each_index`.
template <class T>
struct each_number {
  static constexpr int rank = 1;  ///< number of dimensions
  using element = T;              ///< type of the elements

  world_tensor<T, 1> all;  ///< tensor with an element for each tile

  /// Returns the element for one tile.
  template <int Rank>
  [[nodiscard]] tile_part<T, 1> part_of(const tile<Rank>& box) const {
    return all.of_index(box.index);
  }
  /// Returns the rows of the elements.
  [[nodiscard]] tile_rows rows() const {
    const runtime::tensor& bytes = all.all().bytes();
    return {tile_rows::kind::of_numbers, 0, bytes.shape()[0], bytes.strides()[0],
            bytes.offset()};
  }
  /// Returns true if there is an element for each tile.
  template <int Rank>
  [[nodiscard]] bool covers(const tile_range<Rank>& tiles) const {
    return tiles.count <= all.all().extent(0);
  }
};

/// One access of the tasks of all tiles. Made by `read`, `write`, `update`.
template <class Part, runtime::access_mode Mode>
struct each_argument {
  Part part;  ///< parts that are accessed
};
/// Types of parts that follow from tiles.
template <class Part>
concept part_of_each_tile = requires(const Part& p) {
  { p.rows() } -> std::same_as<tile_rows>;
};
/// Declares that the kernel of each tile reads its part.
template <part_of_each_tile Part>
[[nodiscard]] each_argument<Part, runtime::access_mode::read> read(const Part& p) {
  return {p};
}
/// Declares that the kernel of each tile writes its part. Elements that it leaves keep
/// their values.
template <part_of_each_tile Part>
[[nodiscard]] each_argument<Part, runtime::access_mode::write> write(const Part& p) {
  return {p};
}
/// Declares that the kernel of each tile reads and writes its part.
template <part_of_each_tile Part>
[[nodiscard]] each_argument<Part, runtime::access_mode::read_write> update(
    const Part& p) {
  return {p};
}

/// Properties of the arguments of `world::submit_tiles`.
template <class Each>
struct tile_series_argument;
/// Properties of parts that follow from tiles.
template <class Part, runtime::access_mode Mode>
struct tile_series_argument<each_argument<Part, Mode>> {
  using argument_type = each_argument<Part, Mode>;  ///< type of the argument
  /// True if the kernel may write it.
  static constexpr bool writes = Mode != runtime::access_mode::read;
  /// Returns the argument of the task of one tile.
  template <int Rank>
  static auto argument_of(const argument_type& a, const tile<Rank>& box) {
    const auto p = a.part.part_of(box);
    return tile_argument<typename Part::element, Part::rank, Mode>{
        {p.elements}, p.index, p.of_tiles};
  }
  /// Returns the whole tensor.
  static const runtime::tensor& tensor_of(const argument_type& a) {
    return a.part.all.all().bytes();
  }
  /// Returns the rows of the parts.
  static tile_rows rows_of(const argument_type& a) { return a.part.rows(); }
  /// Returns the number of tiles of the tensor.
  static std::int64_t tiles_of(const argument_type& a) { return a.part.all.tile_count(); }
  /// Returns true if the tensor has the parts of all tiles.
  template <int Rank>
  static bool covers(const argument_type& a, const tile_range<Rank>& tiles) {
    return a.part.covers(tiles);
  }
  static constexpr runtime::access_mode mode = Mode;  ///< use of the bytes
};
/// Properties of a number that all ranks have.
template <class T, int Dims>
struct tile_series_argument<argument<T, Dims, runtime::access_mode::read>> {
  /// Type of the argument.
  using argument_type = argument<T, Dims, runtime::access_mode::read>;
  static constexpr bool writes = false;  ///< it is for reading
  /// Returns the argument.
  template <int Rank>
  static const argument_type& argument_of(const argument_type& a,
                                          const tile<Rank>& /*box*/) {
    return a;
  }
  /// Returns the number.
  static const runtime::tensor& tensor_of(const argument_type& a) {
    return a.operand.bytes();
  }
  /// Returns a row that has the bytes of the number.
  static tile_rows rows_of(const argument_type& a) {
    const runtime::footprint& bytes = a.operand.bytes().bytes();
    return {tile_rows::kind::all, 0, 1, bytes.hi - bytes.lo, bytes.lo};
  }
  /// Returns 0: it has no tiles.
  static std::int64_t tiles_of(const argument_type& /*a*/) { return 0; }
  /// Returns true: it does not depend on tiles.
  template <int Rank>
  static bool covers(const argument_type& /*a*/, const tile_range<Rank>& /*tiles*/) {
    return true;
  }
  /// Use of the bytes.
  static constexpr runtime::access_mode mode = runtime::access_mode::read;
};

/// The tasks of one call of `world::submit_tiles`.
/// @threads{as `runtime::task_series` says}
template <class Kernel, int Rank, class... Each>
class tile_series final : public runtime::task_series {
  template <class One>
  using argument_traits = tile_series_argument<One>;
  static_assert((argument_traits<Each>::writes || ...),
                "the task of a tile writes a part of a tensor");

 public:
  /// Makes the tasks of a world. `name` is a literal.
  /// @error{out_of_range; thrown: a tensor is smaller than the one of the tiles}
  tile_series(runtime::world& ranks, const char* name, Kernel kernel,
              const tile_range<Rank>& tiles, const Each&... arguments)
      : ranks_(&ranks),
        name_(name),
        kernel_(std::move(kernel)),
        tiles_(tiles),
        rows_{argument_traits<Each>::rows_of(arguments)...},
        accesses_{
            runtime::series_access{argument_traits<Each>::tensor_of(arguments).store().id,
                                   argument_traits<Each>::mode}...},
        arguments_(arguments...) {
    if (!(argument_traits<Each>::covers(arguments, tiles) && ...)) {
      or_throw(result<void>(
          error(errc::out_of_range,
                std::string("tasks of tiles not submitted: expected tensors with the "
                            "elements of all tiles, found a smaller one for \"") +
                    name + "\"")));
    }
    static_cast<void>(((owners_ = argument_traits<Each>::writes
                                      ? argument_traits<Each>::tiles_of(arguments)
                                      : 0,
                        owners_ != 0) ||
                       ...));
    add(tiles.extents);
    add(tiles.shape);
    add(std::array{tiles.margin, owners_});
    (add_rows(argument_traits<Each>::tensor_of(arguments),
              argument_traits<Each>::rows_of(arguments)),
     ...);
    for (std::size_t d = 1; d < Rank; ++d) {
      tiles_of_row_ *= (tiles.extents[d] + tiles.shape[d] - 1) / tiles.shape[d];
    }
  }

  [[nodiscard]] const char* name() const noexcept override { return name_; }
  [[nodiscard]] std::uint64_t digest() const noexcept override { return digest_; }
  [[nodiscard]] std::uint64_t identity() const noexcept override {
    runtime::kernel_identity identity(kernel_);
    std::apply(
        [&identity](const Each&... arguments) {
          (identity.add(reinterpret_cast<std::uintptr_t>(
               argument_traits<Each>::tensor_of(arguments).data())),
           ...);
        },
        arguments_);
    return identity.value();
  }
  [[nodiscard]] std::span<const runtime::series_access> accesses()
      const noexcept override {
    return accesses_;
  }
  [[nodiscard]] std::int64_t size() const noexcept override { return tiles_.count; }
  [[nodiscard]] runtime::rank_id executor_of(
      std::int64_t task, runtime::rank_id ranks) const noexcept override {
    return static_cast<runtime::rank_id>(task * ranks / owners_);
  }
  [[nodiscard]] std::int64_t end_of(runtime::rank_id executor,
                                    runtime::rank_id ranks) const noexcept override {
    return first_tile_of(std::int64_t{executor} + 1, ranks, owners_);
  }
  [[nodiscard]] runtime::byte_range hull_of(std::size_t number, std::int64_t first,
                                            std::int64_t last) const noexcept override {
    const tile_rows& r = rows_[number];
    if (first >= last) {
      return {r.offset, r.offset};
    }
    std::int64_t lo = 0;
    std::int64_t hi = r.rows;
    if (r.which == tile_rows::kind::of_tiles) {
      lo = std::max(first / tiles_of_row_ * tiles_.shape[0], tiles_.margin) - r.reach;
      hi = std::min(((last - 1) / tiles_of_row_ + 1) * tiles_.shape[0],
                    tiles_.extents[0] - tiles_.margin) +
           r.reach;
    } else if (r.which == tile_rows::kind::of_numbers) {
      lo = first;
      hi = last;
    }
    lo = std::max<std::int64_t>(lo, 0);
    hi = std::min(hi, r.rows);
    return {r.offset + lo * r.stride, r.offset + std::max(lo, hi) * r.stride};
  }
  [[nodiscard]] bool find_accesses(std::int64_t task,
                                   std::vector<runtime::access>& out) const override {
    const tile<Rank> box = tiles_.box_of(task);
    if (!tiles_.has_elements(box)) {
      return false;
    }
    std::apply(
        [&](const Each&... arguments) {
          (out.push_back(world_arguments::plain_of(
                             argument_traits<Each>::argument_of(arguments, box))
                             .access()),
           ...);
        },
        arguments_);
    return true;
  }
  [[nodiscard]] result<void> start(std::int64_t task, std::uint64_t step) const override {
    const tile<Rank> box = tiles_.box_of(task);
    if (!tiles_.has_elements(box)) {
      return {};
    }
    return std::apply(
        [&](const Each&... arguments) {
          return start_with(box, step,
                            argument_traits<Each>::argument_of(arguments, box)...);
        },
        arguments_);
  }

 private:
  /// Mixes numbers into the digest.
  void add(std::span<const std::int64_t> numbers) noexcept {
    digest_ = (digest_ ^ xxh3_64(std::as_bytes(numbers))) * 0x9E3779B97F4A7C15U;
    digest_ ^= digest_ >> 29U;
  }
  void add_rows(const runtime::tensor& t, const tile_rows& r) noexcept {
    add(t.shape());
    add(t.strides());
    add(std::array{static_cast<std::int64_t>(r.which), r.reach, r.rows, r.stride,
                   r.offset});
  }
  template <class... Argument>
  [[nodiscard]] result<void> start_with(const tile<Rank>& box, std::uint64_t step,
                                        const Argument&... arguments) const {
    const auto accesses = world_arguments::accesses_of(arguments...);
    const auto submit = [&](const auto& kernel, const runtime::world::kept_object& keep) {
      return ranks_->start(step, name_, accesses, kernel, keep);
    };
    constexpr bool takes_box =
        std::is_invocable_v<const Kernel&, const tile<Rank>&,
                            decltype(world_arguments::view_of(std::declval<view_owner>(),
                                                              arguments))...>;
    if constexpr (takes_box) {
      const auto with_box = [kernel = kernel_, box](const auto&... views) {
        return kernel(box, views...);
      };
      return world_arguments::submit_call(
          world_arguments::call_of(name_, with_box, arguments...), submit);
    } else {
      return world_arguments::submit_call(
          world_arguments::call_of(name_, kernel_, arguments...), submit);
    }
  }

  runtime::world* ranks_;
  const char* name_;
  Kernel kernel_;
  tile_range<Rank> tiles_;
  std::int64_t tiles_of_row_ = 1;  ///< tiles with the same rows
  std::uint64_t digest_ = 0;       ///< see `digest`
  std::int64_t owners_ = 0;        ///< tiles of the tensor whose owners run the tasks
  std::array<tile_rows, sizeof...(Each)> rows_;
  std::array<runtime::series_access, sizeof...(Each)> accesses_;
  std::tuple<Each...> arguments_;
};

}  // namespace weir
