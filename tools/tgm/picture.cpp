// SPDX-License-Identifier: Apache-2.0
/// @file
/// Draws objects as pictures: points that share a pixel are averaged, and values between
/// the lowest and the highest get a colour of a scale.
#include "tgm/picture.hpp"

#include <fmt/core.h>
#include <png.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "weir/base/file.hpp"

namespace weir::tools {

namespace {

/// The scale of colours ("viridis"). It goes from dark to light, so that a picture can be
/// read without seeing colours.
constexpr std::array<colour, 5> scale{colour{68, 1, 84}, colour{59, 82, 139},
                                      colour{33, 145, 140}, colour{94, 201, 98},
                                      colour{253, 231, 37}};

/// Returns the mean of the finite values of a cell; NaN if there are none.
/// Averages are of finite values, so one missing value does not blank a whole cell.
double mean_of(const number_view& values, std::size_t columns, std::size_t top,
               std::size_t bottom, std::size_t left, std::size_t right) {
  double sum = 0;
  std::size_t count = 0;
  for (std::size_t y = top; y < bottom; ++y) {
    for (std::size_t x = left; x < right; ++x) {
      const double v = values[y * columns + x];
      if (std::isfinite(v)) {
        sum += v;
        ++count;
      }
    }
  }
  return count == 0 ? std::numeric_limits<double>::quiet_NaN()
                    : sum / static_cast<double>(count);
}

/// Returns a component of a colour at the share `t` of the way from `a` to `b`.
unsigned char between(unsigned char a, unsigned char b, double t) noexcept {
  return static_cast<unsigned char>(std::lround(a + (b - a) * t));
}

/// Passed to libpng in place of a file.
void write_bytes(png_structp png, png_bytep data, png_size_t size) {
  auto* to = static_cast<byte_vector*>(png_get_io_ptr(png));
  append(*to, std::as_bytes(std::span(data, size)));
}
/// There is nothing to flush in memory. libpng would otherwise call `fflush` on a file.
void flush_nothing(png_structp) {}

/// Encodes rows of red, green and blue as a PNG in memory. Leaves `out` empty if the
/// library fails: it then jumps back to setjmp, so no object with a destructor may be
/// created between setjmp and the last call.
void encode_png(std::vector<unsigned char>& pixels, std::size_t width, std::size_t height,
                byte_vector& out) {
  png_structp png =
      png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  // Without the writing structure there is no place to jump back to, so both are made
  // before `setjmp`. The error functions are those of libpng, which jump there.
  png_infop info = png == nullptr ? nullptr : png_create_info_struct(png);
  if (info != nullptr && setjmp(png_jmpbuf(png)) == 0) {
    png_set_write_fn(png, &out, write_bytes, flush_nothing);
    png_set_IHDR(png, info, static_cast<png_uint_32>(width),
                 static_cast<png_uint_32>(height), 8, PNG_COLOR_TYPE_RGB,
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);
    for (std::size_t y = 0; y < height; ++y) {
      // Three bytes for each pixel. libpng filters and compresses them.
      png_write_row(png, pixels.data() + y * width * 3);
    }
    png_write_end(png, info);
  } else {
    // Reached by a jump, too. What was written before the failure is no picture.
    out.clear();
  }
  // Accepts null for both.
  png_destroy_write_struct(&png, &info);
}

}  // namespace

raster make_raster(const formats::object_descriptor& descriptor,
                   const number_view& values, std::size_t max_width,
                   std::size_t max_height) {
  const auto& shape = descriptor.shape;
  // A number is a picture of one pixel, and a vector one of one row.
  const std::size_t columns = shape.empty() ? 1 : static_cast<std::size_t>(shape.back());
  const std::size_t rows =
      shape.size() < 2 ? 1 : static_cast<std::size_t>(shape[shape.size() - 2]);
  raster out;
  // `values` may have more than one plane; the first is drawn. Fewer values than the
  // shape says would be read beyond their end.
  if (values.size() < rows * columns || rows * columns == 0) {
    return out;
  }
  // Pictures are only reduced, never enlarged.
  out.width = std::min(columns, max_width);
  out.height = std::min(rows, max_height);
  out.lowest = std::numeric_limits<double>::infinity();
  out.highest = -out.lowest;
  for (std::size_t y = 0; y < out.height; ++y) {
    for (std::size_t x = 0; x < out.width; ++x) {
      const double v =
          // The borders of cells are integer divisions of the extent, so cells cover all
          // rows and columns, differ by one at most, and do not overlap. The maximum is a
          // guard: no cell is empty.
          mean_of(values, columns, y * rows / out.height,
                  std::max(y * rows / out.height + 1, (y + 1) * rows / out.height),
                  x * columns / out.width,
                  std::max(x * columns / out.width + 1, (x + 1) * columns / out.width));
      out.values.push_back(v);
      // The range is that of the means, so that the scale of colours is used as a whole.
      if (std::isfinite(v)) {
        out.lowest = std::min(out.lowest, v);
        out.highest = std::max(out.highest, v);
      }
    }
  }
  return out;
}

colour colour_of(const raster& picture, double value) noexcept {
  // Grey is not part of the scale.
  if (!std::isfinite(value)) {
    return {128, 128, 128};
  }
  const double range = picture.highest - picture.lowest;
  const double position =
      // The position on the scale, from 0 to 4. Without a range, all values get the
      // darkest colour.
      range > 0 ? (value - picture.lowest) / range * (scale.size() - 1) : 0;
  const auto step =
      // At the very end the last step is used with t = 1.
      std::min<std::size_t>(static_cast<std::size_t>(position), scale.size() - 2);
  const double t = position - static_cast<double>(step);
  const colour& a = scale[step];
  const colour& b = scale[step + 1];
  return {between(a.red, b.red, t), between(a.green, b.green, t),
          between(a.blue, b.blue, t)};
}

std::string as_blocks(const raster& picture) {
  std::string out;
  // Pixels stand in rows from the top.
  const auto colour_at = [&](std::size_t x, std::size_t y) {
    return colour_of(picture, picture.values[y * picture.width + x]);
  };
  // One line of text shows two rows of pixels.
  for (std::size_t y = 0; y < picture.height; y += 2) {
    for (std::size_t x = 0; x < picture.width; ++x) {
      const colour up = colour_at(x, y);
      out += fmt::format("\x1b[38;2;{};{};{}m", up.red, up.green, up.blue);
      // With an odd number of rows the last line has no lower half, and the background of
      // the terminal shows.
      if (y + 1 < picture.height) {
        const colour down = colour_at(x, y + 1);
        out += fmt::format("\x1b[48;2;{};{};{}m", down.red, down.green, down.blue);
      }
      out += "\u2580";  // upper half block: foreground above, background below
    }
    // Resets the colours, so that the rest of the line is not coloured.
    out += "\x1b[0m\n";
  }
  return out;
}

result<void> save_png(const raster& picture, const std::string& path) {
  std::vector<unsigned char> pixels;
  pixels.reserve(3 * picture.values.size());
  // There is no transparency. What is missing is grey.
  for (const double value : picture.values) {
    const colour c = colour_of(picture, value);
    pixels.insert(pixels.end(), {c.red, c.green, c.blue});
  }
  byte_vector bytes;
  encode_png(pixels, picture.width, picture.height, bytes);
  if (bytes.empty()) {
    return error(errc::internal, "cannot draw: expected a PNG, found none");
  }
  return write_file_atomically(posix_file_system(), path, bytes);
}

}  // namespace weir::tools
