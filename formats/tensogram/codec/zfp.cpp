// SPDX-License-Identifier: Apache-2.0
/// @file
/// Compression with zfp.
#include "tensogram/codec/zfp.hpp"

#include <zfp.h>

#include <algorithm>
#include <cstring>

#include "tensogram/codec/parameters.hpp"

namespace weir::formats {

namespace {

/// The reference's library reads and writes words of this many bytes.
constexpr std::size_t word = 8;

struct zfp_closer {
  void operator()(zfp_stream* s) const noexcept { zfp_stream_close(s); }
  void operator()(zfp_field* f) const noexcept { zfp_field_free(f); }
  void operator()(bitstream* b) const noexcept { stream_close(b); }
};

/// A stream and a field of doubles at `data`, ready but for the bits.
class zfp_work {
 public:
  zfp_work(std::byte* data, std::size_t count, const zfp_parameters& p)
      : stream_(zfp_stream_open(nullptr)),
        field_(zfp_field_1d(data, zfp_type_double, count)) {
    if (!stream_ || !field_) {
      throw std::bad_alloc();
    }
    switch (p.mode) {
      case zfp_mode::rate:
        zfp_stream_set_rate(stream_.get(), p.value, zfp_type_double, 1, zfp_false);
        break;
      case zfp_mode::precision:
        zfp_stream_set_precision(stream_.get(), static_cast<uint>(p.value));
        break;
      case zfp_mode::accuracy: zfp_stream_set_accuracy(stream_.get(), p.value); break;
    }
  }
  std::size_t largest() const {
    return align_up(zfp_stream_maximum_size(stream_.get(), field_.get()), word) + word;
  }
  std::size_t compress(mutable_bytes to) {
    use(to);
    const std::size_t size = zfp_compress(stream_.get(), field_.get());
    return size;
  }
  bool decompress(mutable_bytes from) {
    use(from);
    return zfp_decompress(stream_.get(), field_.get()) != 0;
  }

 private:
  void use(mutable_bytes bits) {
    bits_.reset(stream_open(bits.data(), bits.size()));
    if (!bits_) {
      throw std::bad_alloc();
    }
    zfp_stream_set_bit_stream(stream_.get(), bits_.get());
    zfp_stream_rewind(stream_.get());
  }

  std::unique_ptr<zfp_stream, zfp_closer> stream_;
  std::unique_ptr<zfp_field, zfp_closer> field_;
  std::unique_ptr<bitstream, zfp_closer> bits_;
};

error no_memory() {
  return error(errc::out_of_memory,
               "cannot run zfp: expected enough memory, found too little");
}

}  // namespace

result<zfp_parameters> read_zfp(const cbor_map& parameters, errc kind) {
  WEIR_TRY(const std::string mode, text_parameter(parameters, "zfp_mode", kind));
  zfp_parameters out;
  if (mode == "fixed_rate") {
    WEIR_TRY(out.value, real_parameter(parameters, "zfp_rate", kind));
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

result<code_buffer> zfp_encode(bytes_view from, const zfp_parameters& p) {
  if (from.empty()) {
    return code_buffer{};
  }
  try {
    // The library does not write to a field that it compresses.
    zfp_work work(const_cast<std::byte*>(from.data()), from.size() / 8, p);
    WEIR_TRY(code_buffer out, make_buffer(work.largest()));
    const std::size_t size = work.compress(out.writable());
    if (size == 0) {
      return error(errc::internal, "cannot run zfp: expected a stream, found none");
    }
    const std::size_t padded = align_up(size, word);
    std::fill(out.storage.get() + size, out.storage.get() + padded, std::byte{});
    out.bytes = out.bytes.first(padded);
    return out;
  } catch (const std::bad_alloc&) {
    return no_memory();
  }
}

result<void> zfp_decode(bytes_view from, const zfp_parameters& p, mutable_bytes to) {
  if (to.empty()) {
    return {};
  }
  try {
    zfp_work work(to.data(), to.size() / 8, p);
    const std::size_t largest = work.largest();
    if (from.size() > largest) {
      return error(errc::corrupt,
                   fmt::format("cannot decompress payload: expected a zfp stream of at "
                               "most {} bytes, found {}",
                               largest, from.size()));
    }
    // The library reads on at the end of what it is given: there are zeros then.
    WEIR_TRY(code_buffer padded, make_buffer(largest));
    std::copy(from.begin(), from.end(), padded.storage.get());
    std::fill(padded.storage.get() + from.size(), padded.storage.get() + largest,
              std::byte{});
    if (!work.decompress(padded.writable())) {
      return error(errc::corrupt,
                   "cannot decompress payload: expected a zfp stream, found damage");
    }
    return {};
  } catch (const std::bad_alloc&) {
    return no_memory();
  }
}

}  // namespace weir::formats
