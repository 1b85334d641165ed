// SPDX-License-Identifier: Apache-2.0
/// @file
/// The image of an epoch: everything that a run needs to continue behind a barrier.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/base/dtype.hpp"
#include "weir/base/error.hpp"

namespace weir::flow {

/// One named part of an image.
struct image_section {
  std::string name;                 ///< unique in the image, such as `STATE/mean/sum`
  dtype type = dtype::uint8;        ///< element type of the bytes
  std::vector<std::int64_t> shape;  ///< extents of the elements
  byte_vector data;                 ///< elements in row-major order
};

/// A range of item numbers, from `first` to the number before `last`.
struct item_range {
  std::uint64_t first = 0;  ///< first number of the range
  std::uint64_t last = 0;   ///< first number behind the range
};

/// The state of a run before item `next_item`: states and kept items of stages, cursors
/// of sources, offsets of sinks. It equals the state of a serial run that has processed
/// all items before `next_item` and no other.
/// @threads{a value}
struct image {
  std::uint64_t epoch = 0;      ///< number of the epoch, from 1
  std::uint64_t next_item = 0;  ///< number of the first item behind the barrier
  bool finished = false;        ///< true if all sources have ended
  std::vector<image_section>
      sections;  ///< parts of the image, in the order of the stages

  /// Returns the section of a name, or a null pointer.
  [[nodiscard]] const image_section* find(std::string_view name) const noexcept;
};

/// Where a run keeps its images.
/// @threads{thread-compatible}
class image_store {
 public:
  image_store() = default;
  image_store(const image_store&) = delete;
  image_store& operator=(const image_store&) = delete;
  virtual ~image_store() = default;
  /// Makes an image durable. When it returns, a crash leaves this image or a newer one.
  /// @error{io, the image is not durable}
  [[nodiscard]] virtual result<void> save(const image& one) = 0;
  /// Loads the newest image. @error{not_found, there is none} @error{corrupt, damaged}
  [[nodiscard]] virtual result<image> load_newest() = 0;
};

}  // namespace weir::flow
