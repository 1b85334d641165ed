// SPDX-License-Identifier: Apache-2.0
/// @file
/// Compression with zfp, through the system's library.
///
/// The library trusts its input: it reads on behind the end of a damaged stream. The
/// decoder here therefore runs it block by block on a window that is large enough for any
/// block. The bits of a block are at most ZFP_MAX_BITS, so a few blocks cannot read
/// beyond the window, and the place behind them shows whether the stream had their bits.
#include "tensogram/codec/zfp.hpp"

#include <zfp.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "tensogram/codec/parameters.hpp"

namespace weir::formats {

namespace {

/// The reference's library reads and writes words of this many bytes.
constexpr std::size_t word = 8;

/// Upper limit of the bytes that a block of values takes in any mode.
constexpr std::size_t largest_block = align_up<std::size_t>(ZFP_MAX_BITS / 8 + 1, word);
/// Number of values in a block of one dimension.
constexpr std::size_t block_values = 4;

/// Frees what the library has allocated.
struct zfp_closer {
  void operator()(zfp_stream* s) const noexcept { zfp_stream_close(s); }
  void operator()(zfp_field* f) const noexcept { zfp_field_free(f); }
  void operator()(bitstream* b) const noexcept { stream_close(b); }
};

template <class T>
using zfp_pointer = std::unique_ptr<T, zfp_closer>;

/// Takes ownership of an object of the library. A null pointer means lack of memory.
template <class T>
zfp_pointer<T> owned(T* made) {
  if (made == nullptr) {
    throw std::bad_alloc();
  }
  return zfp_pointer<T>(made);
}

/// Opens a stream with the parameters of its mode.
zfp_pointer<zfp_stream> open_stream(const zfp_parameters& p) {
  auto out = owned(zfp_stream_open(nullptr));
  switch (p.mode) {
    case zfp_mode::rate:
      zfp_stream_set_rate(out.get(), p.value, zfp_type_double, 1, zfp_false);
      break;
    case zfp_mode::precision:
      zfp_stream_set_precision(out.get(), static_cast<uint>(p.value));
      break;
    case zfp_mode::accuracy: zfp_stream_set_accuracy(out.get(), p.value); break;
  }
  return out;
}

/// Decodes a few blocks at a time. The library reads beyond the end of its input, so it
/// is given a window: a piece of the stream, followed by more bytes than these blocks can
/// have. The window is refilled when a fixed number of bytes has been used.
class zfp_block_decoder {
 public:
  /// Largest number of values that are decoded at a time.
  static constexpr std::size_t run_values = 32 * block_values;

  zfp_block_decoder(bytes_view from, const zfp_parameters& p)
      : from_(from), window_(window_bytes / word), stream_(open_stream(p)) {
    bits_ = owned(stream_open(window_.data(), window_bytes));
    zfp_stream_set_bit_stream(stream_.get(), bits_.get());
    load(0);
  }

  /// Decodes up to `run_values` values. Only the last call may ask for a number that is
  /// not a multiple of a block. Returns false if the stream ends before.
  bool next(double* to, std::size_t count) {
    std::size_t i = 0;
    for (; i + block_values <= count; i += block_values) {
      zfp_decode_block_double_1(stream_.get(), to + i);
    }
    if (i < count) {
      zfp_decode_partial_block_strided_double_1(stream_.get(), to + i, count - i, 1);
    }
    // If the blocks lay within the stream, the position does too. Otherwise zeros behind
    // the stream were decoded.
    const std::uint64_t now = position();
    if (now > 8 * std::uint64_t{from_.size()}) {
      return false;
    }
    if (now - 8 * begin_ >= 8 * step_bytes) {
      load(now);
    }
    return true;
  }
  /// Returns the number of bits read so far.
  [[nodiscard]] std::uint64_t position() const {
    return 8 * begin_ + stream_rtell(bits_.get());
  }

 private:
  static constexpr std::size_t step_bytes = std::size_t{64} << 10;
  static constexpr std::size_t window_bytes =
      step_bytes + run_values / block_values * largest_block;

  /// Fills the window with the stream from bit `position` on, beginning at a whole word,
  /// and with zeros behind its end.
  void load(std::uint64_t position) {
    // The library reads whole words, so the window begins at one.
    begin_ = position / (8 * word) * word;
    const std::span<std::byte> to = std::as_writable_bytes(std::span(window_));
    const std::size_t count = std::min<std::uint64_t>(to.size(), from_.size() - begin_);
    std::copy_n(from_.begin() + static_cast<std::ptrdiff_t>(begin_), count, to.begin());
    std::fill(to.begin() + static_cast<std::ptrdiff_t>(count), to.end(), std::byte{});
    stream_rseek(bits_.get(), static_cast<std::size_t>(position - 8 * begin_));
  }

  bytes_view from_;                    ///< the stream
  std::uint64_t begin_ = 0;            ///< byte of the stream where the window starts
  std::vector<std::uint64_t> window_;  ///< a part of the stream, then zeros
  zfp_pointer<bitstream> bits_;        ///< reads the window
  zfp_pointer<zfp_stream> stream_;     ///< decodes from `bits_`
};

/// Returns the error for a stream of another length than its values have.
error wrong_length(std::uint64_t bits, std::uint64_t bytes) {
  return error(
      errc::corrupt,
      fmt::format("cannot decompress payload: expected a zfp stream of {} bytes, "
                  "found {}",
                  (bits + 7) / 8, bytes));
}

/// Returns the error for lack of memory.
error no_memory() {
  return error(errc::out_of_memory,
               "cannot run zfp: expected enough memory, found too little");
}

}  // namespace

/// A precision of 0 or above 64 means all bit planes, as in the library.
result<zfp_parameters> read_zfp(const cbor_map& parameters, errc kind) {
  WEIR_TRY(const std::string mode, text_parameter(parameters, "zfp_mode", kind));
  zfp_parameters out;
  if (mode == "fixed_rate") {
    WEIR_TRY(out.value, real_parameter(parameters, "zfp_rate", kind));
    // A rate of 0 is legal: the library then uses its smallest block.
    if (!(out.value >= 0 && out.value <= 4096)) {
      return bad_parameter(kind, "zfp_rate", "0 to 4096 bits per value",
                           fmt::format("{}", out.value));
    }
  } else if (mode == "fixed_precision") {
    out.mode = zfp_mode::precision;
    WEIR_TRY(const std::int64_t planes,
             integer_parameter(parameters, "zfp_precision", 0, 0xFFFF'FFFF, kind));
    out.value = planes == 0 || planes > 64 ? 64 : static_cast<double>(planes);
  } else if (mode == "fixed_accuracy") {
    out.mode = zfp_mode::accuracy;
    WEIR_TRY(out.value, real_parameter(parameters, "zfp_tolerance", kind));
    if (!(out.value > 0 && out.value <= 1e308)) {
      return bad_parameter(kind, "zfp_tolerance", "a number above 0",
                           fmt::format("{}", out.value));
    }
  } else {
    return bad_parameter(kind, "zfp_mode",
                         "fixed_rate, fixed_precision or fixed_accuracy", mode);
  }
  return out;
}

/// Allocates for the largest possible stream, so the library cannot write beyond the
/// buffer.
result<code_buffer> zfp_encode(bytes_view from, const zfp_parameters& p) {
  if (from.empty()) {
    return code_buffer{};
  }
  try {
    const auto stream = open_stream(p);
    // The library does not write to a field that it compresses.
    const auto field = owned(zfp_field_1d(const_cast<std::byte*>(from.data()),
                                          zfp_type_double, from.size() / 8));
    WEIR_TRY(
        code_buffer out,
        make_buffer(align_up(zfp_stream_maximum_size(stream.get(), field.get()), word) +
                    word));
    const auto bits = owned(stream_open(out.storage.get(), out.bytes.size()));
    zfp_stream_set_bit_stream(stream.get(), bits.get());
    zfp_stream_rewind(stream.get());
    const std::size_t size = zfp_compress(stream.get(), field.get());
    if (size == 0) {
      return error(errc::internal, "cannot run zfp: expected a stream, found none");
    }
    // The library writes whole words; bytes of the last word that it did not count are
    // cleared.
    const std::size_t padded = align_up(size, word);
    std::fill(out.storage.get() + size, out.storage.get() + padded, std::byte{});
    out.bytes = out.bytes.first(padded);
    return out;
  } catch (const std::bad_alloc&) {
    return no_memory();
  }
}

/// Decodes straight into the target if that is aligned. The length is checked at the end:
/// only then is it known where the stream stops.
result<void> zfp_decode(bytes_view from, const zfp_parameters& p,
                        const decode_target& to) {
  const std::uint64_t count = to.size() / sizeof(double);
  if (count == 0) {
    return {};
  }
  // Memory that is not aligned for doubles is filled through a small array.
  try {
    const bool in_place =
        to.has_memory() &&
        reinterpret_cast<std::uintptr_t>(to.bytes().data()) % alignof(double) == 0;
    zfp_block_decoder decoder(from, p);
    std::array<double, zfp_block_decoder::run_values> values{};
    // Runs of blocks keep the checks of the position rare.
    for (std::uint64_t i = 0; i < count; i += values.size()) {
      const std::size_t n = std::min<std::uint64_t>(values.size(), count - i);
      double* out =
          in_place ? reinterpret_cast<double*>(to.bytes().data()) + i : values.data();
      if (!decoder.next(out, n)) {
        return error(errc::corrupt,
                     fmt::format("cannot decompress payload: expected a zfp stream with "
                                 "{} values, found the end of its {} bytes before value "
                                 "{}",
                                 count, from.size(), i + n));
      }
      if (to.has_memory() && !in_place) {
        std::memcpy(to.bytes().data() + i * sizeof(double), values.data(),
                    n * sizeof(double));
      }
    }
    const std::uint64_t bytes = (decoder.position() + 7) / 8;
    return from.size() == bytes || from.size() == align_up<std::uint64_t>(bytes, word)
               ? result<void>()
               : result<void>(wrong_length(decoder.position(), from.size()));
  } catch (const std::bad_alloc&) {
    return no_memory();
  }
}

}  // namespace weir::formats
