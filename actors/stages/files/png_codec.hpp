// SPDX-License-Identifier: Apache-2.0
/// @file
/// PNG images as tensors `u8[h,w,c]` and `u16[h,w,c]`.
#pragma once

#include <cstdint>

#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"

namespace weir::actors {

/// Form of a decoded image.
struct png_form {
  std::uint32_t height = 0;
  std::uint32_t width = 0;
  std::uint32_t channels = 0;  ///< 1 grey, 2 grey and alpha, 3 colours, 4 and alpha
  bool wide = false;           ///< 16 bits per sample instead of 8
  /// Returns the size of the samples. @units{bytes}
  [[nodiscard]] std::uint64_t bytes() const noexcept {
    return std::uint64_t{height} * width * channels * (wide ? 2 : 1);
  }
};

/// Decodes an image. Palettes become colours, and samples of less than 8 bits are scaled
/// to 8 bits; all other samples are kept. Text and profiles are not looked at.
/// @param room  Gets the form, and returns memory of `form.bytes()` bytes for the
/// samples, or an error. Nothing of the size of the image is allocated before.
/// @error{corrupt, the file is no sound PNG} @error{torn, the file ends too early}
/// @error{out_of_range, the samples have more than `max_bytes` bytes}
/// Also returns the error of `room`.
template <class Room>
[[nodiscard]] result<void> decode_png(bytes_view file, std::uint64_t max_bytes,
                                      const Room& room);

/// Encodes samples of native byte order.
/// @param level  Level of zlib, 0 to 9.
/// @pre `samples` has `form.bytes()` bytes.
/// @error{invalid_argument, the form is empty or too large for PNG}
/// @error{internal, libpng failed}
[[nodiscard]] result<byte_vector> encode_png(const png_form& form, bytes_view samples,
                                             int level);

/// The parts of `decode_png`. One object decodes one file.
/// @threads{thread-compatible}
class png_decoder {
 public:
  /// Makes the object. @param file  Must outlive it.
  explicit png_decoder(bytes_view file);
  png_decoder(const png_decoder&) = delete;
  png_decoder& operator=(const png_decoder&) = delete;
  ~png_decoder();
  /// Reads everything before the samples. See `decode_png`.
  [[nodiscard]] result<png_form> read_form(std::uint64_t max_bytes);
  /// Reads the samples and the rest of the file. @pre `read_form` has succeeded.
  [[nodiscard]] result<void> read_samples(mutable_bytes to);

  struct state;

 private:
  [[nodiscard]] error failure() const;
  state* state_;
};

template <class Room>
result<void> decode_png(bytes_view file, std::uint64_t max_bytes, const Room& room) {
  png_decoder decoder(file);
  WEIR_TRY(const png_form form, decoder.read_form(max_bytes));
  WEIR_TRY(const mutable_bytes to, room(form));
  return decoder.read_samples(to);
}

}  // namespace weir::actors
