// SPDX-License-Identifier: Apache-2.0
/// @file
/// PNG images by libpng. libpng reports an error by a jump to `setjmp`, so functions that
/// call `setjmp` have no object with a destructor.
///
/// Decoding has two steps, so that memory is taken only for an image whose form was
/// accepted: `read_form` reads everything before the samples, `read_samples` decodes into
/// memory of the caller. Both stop at damage: every checksum is verified.
#include "stages/files/png_codec.hpp"

#include <csetjmp>
#include <cstring>
#include <limits>
#include <new>

#include <fmt/format.h>
#include <png.h>

#include "stages/files/file_source.hpp"

namespace weir::actors {

/// The objects of libpng, and the text of its error.
// It is allocated, because the jumps must not leave an object half changed.
struct png_decoder::state {
  bytes_view file;
  std::size_t at = 0;      ///< bytes read so far
  bool torn = false;       ///< libpng has asked for bytes behind the end
  char message[128] = "";  // NOLINT: libpng calls back while no destructor may run
  png_structp png = nullptr;
  png_infop info = nullptr;
};

namespace {

using state = png_decoder::state;

/// Chunks that no sample depends on. They are skipped, so that they need no memory.
/// Each name has four letters and a null byte, as libpng wants them.
constexpr png_byte skipped_chunks[] =
    "iCCP\0tEXt\0zTXt\0iTXt\0sPLT\0eXIf\0hIST\0tIME\0pCAL\0sCAL\0pHYs\0cHRM\0gAMA\0sRGB";
constexpr int skipped_count = static_cast<int>(sizeof skipped_chunks / 5);
/// Largest chunk that libpng may keep in memory. @units{bytes}
constexpr std::size_t max_chunk = std::size_t{1} << 20;

/// Called by libpng in place of an end of the process. The text is kept, and control
/// returns to the last setjmp.
void keep_message(png_structp png, png_const_charp text) {
  auto* s = static_cast<state*>(png_get_error_ptr(png));
  std::strncpy(s->message, text, sizeof s->message - 1);
  png_longjmp(png, 1);
}
/// Warnings concern chunks that no sample depends on.
void ignore_warning(png_structp /*png*/, png_const_charp /*text*/) {}

/// Gives libpng the next bytes of the file.
void take_bytes(png_structp png, png_bytep to, std::size_t count) {
  auto* s = static_cast<state*>(png_get_io_ptr(png));
  if (count > s->file.size() - s->at) {
    s->torn = true;
    png_error(png, "the file ends");
  }
  std::memcpy(to, s->file.data() + s->at, count);
  s->at += count;
}

/// Reads everything before the samples. Returns false after an error.
/// Checks and limits are set before the first byte is read.
bool read_head(state& s) {
  if (setjmp(png_jmpbuf(s.png)) != 0) {
    return false;
  }
  // The largest size that the format has.
  constexpr png_uint_32 any_size = 0x7fffffff;
  png_set_read_fn(s.png, &s, take_bytes);
  png_set_crc_action(s.png, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
  // The size of the image is limited by the caller, in bytes.
  png_set_user_limits(s.png, any_size, any_size);
  png_set_chunk_malloc_max(s.png, max_chunk);
  png_set_keep_unknown_chunks(s.png, PNG_HANDLE_CHUNK_NEVER, skipped_chunks,
                              skipped_count);
  png_read_info(s.png, s.info);
  // Palettes, few bits and transparent colours become plain samples.
  png_set_expand(s.png);
  if (png_get_bit_depth(s.png, s.info) == 16) {
    // PNG has the larger byte first.
    png_set_swap(s.png);
  }
  return true;
}

/// Begins to decode: from here on libpng holds memory for rows.
/// It is a step of its own, because the form was only accepted after `read_head`.
bool begin_rows(state& s) {
  if (setjmp(png_jmpbuf(s.png)) != 0) {
    return false;
  }
  // The passes of an interlaced image are combined in place.
  png_set_interlace_handling(s.png);
  png_read_update_info(s.png, s.info);
  return true;
}

/// Reads the samples of all passes in place, and the rest of the file.
/// `row` is the distance of two rows in bytes.
bool read_rows(state& s, std::byte* to, std::size_t row, std::uint32_t height,
               int passes) {
  if (setjmp(png_jmpbuf(s.png)) != 0) {
    return false;
  }
  for (int pass = 0; pass < passes; ++pass) {
    for (std::uint32_t y = 0; y < height; ++y) {
      png_read_row(s.png, reinterpret_cast<png_bytep>(to + y * row), nullptr);  // NOLINT
    }
  }
  // The chunks behind the samples are verified, too.
  png_read_end(s.png, nullptr);
  return true;
}

/// Returns the form that the samples will have when palettes and transparent colours are
/// expanded.
// Transparent colours become an alpha channel.
png_form form_of(const state& s) {
  png_form form;
  form.width = png_get_image_width(s.png, s.info);
  form.height = png_get_image_height(s.png, s.info);
  form.wide = png_get_bit_depth(s.png, s.info) == 16;
  const png_byte colour = png_get_color_type(s.png, s.info);
  const bool clear = png_get_valid(s.png, s.info, PNG_INFO_tRNS) != 0;
  form.channels = (colour & PNG_COLOR_MASK_COLOR) != 0 ? 3 : 1;
  form.channels += (colour & PNG_COLOR_MASK_ALPHA) != 0 || clear ? 1 : 0;
  return form;
}

}  // namespace

png_decoder::png_decoder(bytes_view file) : state_(new state) {
  state_->file = file;
  state_->png =
      png_create_read_struct(PNG_LIBPNG_VER_STRING, state_, keep_message, ignore_warning);
  // Both objects of libpng may be missing without memory.
  state_->info = state_->png == nullptr ? nullptr : png_create_info_struct(state_->png);
}

// libpng accepts null pointers here.
png_decoder::~png_decoder() {
  png_destroy_read_struct(&state_->png, &state_->info, nullptr);
  delete state_;
}

/// Describes why libpng has stopped: the file ended, or it is damaged.
error png_decoder::failure() const {
  if (state_->torn) {
    return error(errc::torn,
                 fmt::format("cannot decode a PNG: expected more bytes behind the {} of "
                             "the file, found its end",
                             state_->file.size()));
  }
  return error(errc::corrupt,
               fmt::format("cannot decode a PNG: expected sound chunks, found \"{}\" "
                           "before byte {} of {}",
                           state_->message, state_->at, state_->file.size()));
}

/// Reads everything before the samples and returns the form of the image.
result<png_form> png_decoder::read_form(std::uint64_t max_bytes) {
  if (state_->info == nullptr) {
    return error(errc::out_of_memory, "cannot decode a PNG: libpng cannot begin");
  }
  constexpr std::size_t signature = 8;
  const auto* head =
      reinterpret_cast<png_const_bytep>(state_->file.data());  // NOLINT: bytes
  // An empty file and a file of a few bytes are cut short.
  if (state_->file.size() < signature) {
    state_->torn = true;
    return failure();
  }
  if (png_sig_cmp(head, 0, signature) != 0) {
    return error(errc::corrupt,
                 "cannot decode a PNG: expected the signature of PNG in the first 8 "
                 "bytes, found others");
  }
  // Errors of the file have the place at which libpng has stopped.
  if (!read_head(*state_)) {
    return failure();
  }
  const png_form form = form_of(*state_);
  // The product cannot overflow: each extent has 31 bits.
  const std::uint64_t pixels = std::uint64_t{form.width} * form.height;
  // The number of pixels is compared first, because the number of bytes of more pixels
  // than that could overflow.
  if (pixels > max_bytes || form.bytes() > max_bytes) {
    return too_large(fmt::format("a PNG of {} x {} pixels with {} channels", form.width,
                                 form.height, form.channels),
                     max_bytes, pixels > max_bytes ? pixels : form.bytes());
  }
  return form;
}

/// @pre `read_form` has succeeded, and `to` has the bytes of the form.
result<void> png_decoder::read_samples(mutable_bytes to) {
  const png_form form = form_of(*state_);
  if (!begin_rows(*state_)) {
    return failure();
  }
  const std::size_t row = png_get_rowbytes(state_->png, state_->info);
  // libpng's own count is compared, because it writes that many bytes.
  if (row * form.height != form.bytes() || to.size() != form.bytes()) {
    return error(errc::internal,
                 fmt::format("cannot decode a PNG: expected rows of {} bytes in all, "
                             "found {}",
                             form.bytes(), row * form.height));
  }
  // libpng needs seven passes over the rows of an interlaced image.
  const int passes =
      png_get_interlace_type(state_->png, state_->info) == PNG_INTERLACE_NONE ? 1 : 7;
  return read_rows(*state_, to.data(), row, form.height, passes) ? result<void>()
                                                                 : failure();
}

namespace {

/// Destination of an encoded image, and the text of libpng's error.
struct writing {
  byte_vector out;
  bool full = false;       ///< there is no memory for the bytes of libpng
  char message[128] = "";  // NOLINT: see `png_decoder::state`
  png_structp png = nullptr;
  png_infop info = nullptr;
};

/// As `keep_message`.
void keep_writing_message(png_structp png, png_const_charp text) {
  auto* w = static_cast<writing*>(png_get_error_ptr(png));
  std::strncpy(w->message, text, sizeof w->message - 1);
  png_longjmp(png, 1);
}
/// Appends what libpng has encoded. An exception must not pass through functions of
/// libpng, and the jump of `png_error` must not leave a handler of exceptions.
void give_bytes(png_structp png, png_bytep data, std::size_t size) {
  auto* w = static_cast<writing*>(png_get_io_ptr(png));
  try {
    append(w->out, std::as_bytes(std::span(data, size)));
  } catch (const std::bad_alloc&) {
    w->full = true;
  }
  if (w->full) {
    png_error(png, "no memory");
  }
}
void flush_nowhere(png_structp /*png*/) {}

/// @pre 1 to 4 channels.
int colour_type(std::uint32_t channels) {
  switch (channels) {
    case 1: return PNG_COLOR_TYPE_GRAY;
    case 2: return PNG_COLOR_TYPE_GRAY_ALPHA;
    case 3: return PNG_COLOR_TYPE_RGB;
    default: return PNG_COLOR_TYPE_RGB_ALPHA;
  }
}

/// Writes the whole image. Returns false after an error of libpng.
bool write_image(writing& w, const png_form& form, bytes_view samples, int level) {
  if (setjmp(png_jmpbuf(w.png)) != 0) {
    return false;
  }
  png_set_write_fn(w.png, &w, give_bytes, flush_nowhere);
  png_set_compression_level(w.png, level);
  png_set_user_limits(w.png, 0x7fffffff, 0x7fffffff);
  png_set_IHDR(w.png, w.info, form.width, form.height, form.wide ? 16 : 8,
               colour_type(form.channels), PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(w.png, w.info);
  // As in `read_head`.
  if (form.wide) {
    png_set_swap(w.png);
  }
  const std::size_t row = samples.size() / form.height;
  for (std::uint32_t y = 0; y < form.height; ++y) {
    png_write_row(w.png, reinterpret_cast<png_const_bytep>(  // NOLINT: bytes
                             samples.data() + y * row));
  }
  png_write_end(w.png, nullptr);
  return true;
}

}  // namespace

/// Encodes an image without interlacing. The same samples give the same bytes only with
/// the same versions of libpng and zlib.
result<byte_vector> encode_png(const png_form& form, bytes_view samples, int level) {
  constexpr std::uint32_t max_extent = 0x7fffffff;
  // The limits are those of the format.
  if (form.height == 0 || form.width == 0 || form.channels == 0 || form.channels > 4 ||
      form.height > max_extent || form.width > max_extent) {
    return error(errc::invalid_argument,
                 fmt::format("cannot encode a PNG: expected 1 to 2^31-1 rows and columns "
                             "and 1 to 4 channels, found {} x {} x {}",
                             form.height, form.width, form.channels));
  }
  writing w;
  w.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &w, keep_writing_message,
                                  [](png_structp, png_const_charp) {});
  w.info = w.png == nullptr ? nullptr : png_create_info_struct(w.png);
  // The objects are destroyed on every way out.
  const bool done = w.info != nullptr && write_image(w, form, samples, level);
  png_destroy_write_struct(&w.png, &w.info);
  if (w.full) {
    return error(errc::out_of_memory,
                 fmt::format("cannot encode a PNG: expected memory for more than {} "
                             "bytes, found none",
                             w.out.size()));
  }
  if (!done) {
    return error(errc::internal,
                 fmt::format("cannot encode a PNG: libpng says \"{}\"", w.message));
  }
  return std::move(w.out);
}

}  // namespace weir::actors
