// SPDX-License-Identifier: Apache-2.0
/// @file
/// Objects as numbers, as a NumPy file and as a picture.
#pragma once

#include <string>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/formats/tensogram.hpp"

namespace weir::tools {

/// Elements as doubles; of a complex one its magnitude; bits as 0 and 1.
[[nodiscard]] std::vector<double> as_doubles(const formats::object_descriptor& descriptor,
                                             bytes_view elements);

/// Smallest and largest finite value; `lowest` exceeds `highest` if there is none.
struct value_range {
  double lowest;
  double highest;
};
[[nodiscard]] value_range range_of(const std::vector<double>& values) noexcept;

/// A .npy file: bits as bytes of 0 and 1, bfloat16 as float32, everything else as it is.
[[nodiscard]] byte_vector as_npy(const formats::object_descriptor& descriptor,
                                 bytes_view elements);

/// The last two dimensions of an object, reduced to at most so many points.
struct raster {
  std::size_t width = 0;
  std::size_t height = 0;
  std::vector<double> values;  ///< rows from the top; NaN where there is nothing
  double lowest = 0;           ///< of `values`, which are means of several elements
  double highest = 0;
};
[[nodiscard]] raster make_raster(const formats::object_descriptor& descriptor,
                                 const std::vector<double>& values, std::size_t widest,
                                 std::size_t highest);
/// Colour of a value between 0 and 1: red, green, blue.
struct colour {
  unsigned char red = 0;
  unsigned char green = 0;
  unsigned char blue = 0;
};
[[nodiscard]] colour colour_of(const raster& picture, double value) noexcept;
/// Half blocks of a terminal with 24-bit colours, two rows a line.
[[nodiscard]] std::string as_blocks(const raster& picture);
/// @error{io; internal}
[[nodiscard]] result<void> save_png(const raster& picture, const std::string& path);

}  // namespace weir::tools
