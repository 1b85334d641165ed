// SPDX-License-Identifier: Apache-2.0
/// @file
/// Converts objects to numbers, NumPy files and pictures.
/// @threads{all functions: safe to call concurrently}
#pragma once

#include <string>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/formats/tensogram.hpp"

namespace weir::tools {

/// The elements of an object as doubles: the magnitude of a complex number, 0 or 1 for a
/// bit, the nearest double for other numbers. Each is converted when it is read, because
/// doubles may take 64 times the memory of the elements.
class number_view {
 public:
  /// @param elements  The decoded object, in native byte order. It must outlive the view.
  number_view(const formats::object_descriptor& descriptor, bytes_view elements);
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] double operator[](std::size_t i) const noexcept;

 private:
  dtype type_;
  bytes_view elements_;
  std::size_t size_;
};

/// The smallest and the largest finite value; `lowest` > `highest` if there is none.
struct value_range {
  double lowest;
  double highest;
};
/// Returns the range of values.
[[nodiscard]] value_range range_of(const number_view& values) noexcept;

/// Returns the content of a .npy file. NumPy has no bits and no bfloat16: they become
/// bytes of 0 and 1, and float32. Other types are stored as they are.
/// @source{NumPy enhancement proposal 1, format version 1.0}
[[nodiscard]] byte_vector as_npy(const formats::object_descriptor& descriptor,
                                 bytes_view elements);

/// A picture of numbers.
struct raster {
  std::size_t width = 0;
  std::size_t height = 0;
  std::vector<double> values;  ///< rows from the top; NaN where there is no finite value
  double lowest = 0;           ///< smallest of `values`, which are means of elements
  double highest = 0;          ///< largest of `values`
};
/// Reduces the first plane of an object (its last two dimensions) to a raster.
/// @param values      The elements of the object.
/// @param max_width   Largest width; larger planes are averaged.
/// @param max_height  Largest height.
/// @returns An empty raster if the object has no elements.
[[nodiscard]] raster make_raster(const formats::object_descriptor& descriptor,
                                 const number_view& values, std::size_t max_width,
                                 std::size_t max_height);
/// A colour of 8 bits for each component.
struct colour {
  unsigned char red = 0;
  unsigned char green = 0;
  unsigned char blue = 0;
};
/// Returns the colour of a value between the lowest and the highest of a raster; grey for
/// NaN.
[[nodiscard]] colour colour_of(const raster& picture, double value) noexcept;
/// Returns a raster as text for a terminal with 24-bit colours, two rows in each line.
[[nodiscard]] std::string as_blocks(const raster& picture);
/// Writes a raster as a PNG file.
/// @error{io, no_space, the file cannot be written} @error{internal, libpng failed}
[[nodiscard]] result<void> save_png(const raster& picture, const std::string& path);

}  // namespace weir::tools
