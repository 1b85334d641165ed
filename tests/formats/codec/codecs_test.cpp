// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests each codec by itself: against other implementations, against its definition, and
/// with damaged input.
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <zfp.h>

#include <cmath>

#include "formats/codec/libaec_peer.hpp"
#include "formats/support.hpp"
#include "tensogram/codec/bits/bits.hpp"
#include "tensogram/codec/blosc2/blosc2.hpp"
#include "tensogram/codec/packing.hpp"
#include "tensogram/codec/szip.hpp"
#include "tensogram/codec/zfp.hpp"

namespace weir::test {
namespace {

using namespace formats;

/// Returns random parameters that the codec accepts.
aec_parameters random_parameters(numbers& random) {
  aec_parameters p;
  p.bits = static_cast<unsigned>(1 + random.below(32));
  p.block = 8u << random.below(4);
  p.rsi = static_cast<unsigned>(1 + random.below(130));
  p.preprocess = random.below(4) != 0;
  p.is_signed = random.below(4) == 0;
  p.big_endian = random.below(2) == 0;
  p.sample_bytes = (p.bits + 7) / 8;
  return p;
}

/// Returns random samples: noise, a walk, constants with jumps, or small steps.
byte_vector random_samples(numbers& random, const aec_parameters& p) {
  const std::size_t count = 1 + random.below(6000);
  const std::uint64_t kind = random.below(5);
  const std::uint64_t step = std::uint64_t{1} << random.below(p.bits);
  std::vector<std::uint32_t> samples(count);
  std::uint64_t value = random.next();
  for (std::uint32_t& sample : samples) {
    switch (kind) {
      case 0: value = random.next(); break;
      case 1: value += random.below(step); break;
      case 2: value = random.below(700) == 0 ? random.next() : value; break;
      case 3: value += random.below(50) == 0 ? random.below(4) : 0; break;
      default: value += random.below(3); break;
    }
    sample = static_cast<std::uint32_t>(value) & (~std::uint32_t{0} >> (32 - p.bits));
  }
  byte_vector out(count * p.sample_bytes);
  store_samples(samples.data(), p, out);
  return out;
}

/// Encodes samples with libaec, which is the oracle.
byte_vector libaec_encode(bytes_view from, const aec_parameters& p) {
  byte_vector out(from.size() * 3 + 1000);
  ::aec_stream stream = libaec_stream(from, out, p);
  EXPECT_EQ(aec_buffer_encode(&stream), AEC_OK);
  out.resize(stream.total_out);
  return out;
}

/// Returns a copy that can be compared.
byte_vector copy(bytes_view from) {
  return {from.begin(), from.end()};
}

// Several threads decode intervals that start at the recorded offsets. A wrong offset
// must be noticed, and the samples must come out right all the same.
TEST(aec, its_streams_are_those_of_libaec_for_any_number_of_threads) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    numbers random(seed);
    const aec_parameters p = random_parameters(random);
    const byte_vector samples = random_samples(random, p);
    const auto one = or_throw(aec_encode(samples, p, 1));
    EXPECT_EQ(copy(one.code.bytes), libaec_encode(samples, p));
    byte_vector back(samples.size());
    or_throw(aec_decode(one.code.bytes, 0, p, back));
    EXPECT_EQ(back, samples);
  }
  numbers random(7);
  aec_parameters p;
  p.bits = 16;
  p.sample_bytes = 2;
  p.rsi = 16;
  byte_vector samples(400'000);
  for (std::size_t i = 0; i + 2 <= samples.size(); i += 2) {
    store_le(samples.data() + i, static_cast<std::uint16_t>(i / 64 + random.below(9)));
  }
  const auto one = or_throw(aec_encode(samples, p, 1));
  EXPECT_EQ(copy(one.code.bytes), libaec_encode(samples, p));
  for (const unsigned threads : {2u, 3u, 5u}) {
    const auto many = or_throw(aec_encode(samples, p, threads));
    EXPECT_EQ(copy(many.code.bytes), copy(one.code.bytes));
    EXPECT_EQ(many.offsets, one.offsets);
    byte_vector back(samples.size());
    or_throw(
        szip_decode({one.code.bytes, p, one.offsets, samples.size()}, back, threads));
    EXPECT_EQ(back, samples);
    auto wrong = one.offsets;
    wrong[wrong.size() / 2] += 1;
    or_throw(szip_decode({one.code.bytes, p, wrong, samples.size()}, back, threads));
    EXPECT_EQ(back, samples);
  }
}

// With wrong offsets a range is decoded from the start of the stream; with right ones
// from the bytes of its intervals alone. Both must equal the slice of the samples.
TEST(aec, ranges_are_read_from_offsets_that_are_right_or_from_the_start) {
  for (std::uint64_t seed = 1000; seed < 1100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    numbers random(seed);
    const aec_parameters p = random_parameters(random);
    const byte_vector samples = random_samples(random, p);
    const auto code = or_throw(aec_encode(samples, p, 1));
    const bytes_view bytes = code.code.bytes;
    const std::vector<std::uint64_t> wrong(code.offsets.size(), 1);
    for (int k = 0; k < 8; ++k) {
      const std::uint64_t all = samples.size() / p.sample_bytes;
      const std::uint64_t first = random.below(all) * p.sample_bytes;
      byte_vector part((1 + random.below(all - first / p.sample_bytes)) * p.sample_bytes);
      const bytes_view expected = bytes_view(samples).subspan(first, part.size());
      or_throw(szip_decode_range({bytes, p, wrong, samples.size()}, first, part));
      EXPECT_EQ(part, copy(expected));
      part.assign(part.size(), std::byte{});
      const auto intervals =
          intervals_of(p, code.offsets, bytes.size(), samples.size(), first, part.size());
      const bytes_view piece = bytes.subspan(intervals.first_byte, intervals.bytes);
      or_throw(szip_decode_intervals(piece, p, intervals, first, part));
      EXPECT_EQ(part, copy(expected));
    }
  }
}

/// Packs values by the definition of simple packing, a bit at a time.
byte_vector pack_slowly(const std::vector<double>& values, const packing& p) {
  const auto power = [](double base, int n) {
    double out = 1;
    for (int k = 0; k < std::abs(n); ++k) {
      out *= base;
    }
    return n < 0 ? 1 / out : out;
  };
  const double scale = power(10, p.decimal) * power(2, -p.binary);
  byte_vector out((values.size() * p.bits + 7) / 8);
  std::uint64_t bit = 0;
  for (const double v : values) {
    const double x = std::round((v - p.reference) * scale);
    std::uint64_t q = x <= 0        ? 0
                      : x >= 0x1p64 ? ~std::uint64_t{0}
                                    : static_cast<std::uint64_t>(x);
    q = p.bits == 0 ? 0 : std::min(q, ~std::uint64_t{0} >> (64 - p.bits));
    for (unsigned k = p.bits; k-- > 0; ++bit) {
      out[bit / 8] |= static_cast<std::byte>((q >> k & 1u) << (7 - bit % 8));
    }
  }
  return out;
}

TEST(packing, bits_are_those_of_the_definition_at_every_width) {
  for (unsigned bits = 0; bits <= 64; ++bits) {
    SCOPED_TRACE(bits);
    numbers random(bits);
    std::vector<double> values(1 + random.below(300));
    for (double& v : values) {
      v = 250 + 60 * random.unit();
    }
    for (const std::int32_t decimal : {0, 3, -2}) {
      packing p = or_throw(compute_packing(values, bits, decimal));
      // A finer scale clamps large values, a coarser one wastes bits.
      p.binary += static_cast<std::int32_t>(random.below(3)) - 1;
      byte_vector packed(or_throw(packed_size(values.size(), bits)));
      pack_values(std::as_bytes(std::span(values)), p, packed, 1);
      EXPECT_EQ(packed, pack_slowly(values, p));
      std::vector<double> back(values.size());
      unpack_values(packed, p, 0, std::as_writable_bytes(std::span(back)), 1);
      const std::size_t from = random.below(values.size());
      std::vector<double> part(values.size() - from);
      unpack_values(packed, p, from, std::as_writable_bytes(std::span(part)), 1);
      EXPECT_TRUE(std::equal(part.begin(), part.end(),
                             back.begin() + static_cast<std::ptrdiff_t>(from)));
    }
  }
}

TEST(packing, values_come_back_within_half_a_step) {
  numbers random(5);
  std::vector<double> values(5000);
  for (double& v : values) {
    v = -40 + 90 * random.unit();
  }
  for (const unsigned bits : {8u, 12u, 16u, 24u, 32u, 40u}) {
    const packing p = or_throw(compute_packing(values, bits));
    byte_vector packed(or_throw(packed_size(values.size(), bits)));
    pack_values(std::as_bytes(std::span(values)), p, packed, 1);
    byte_vector threaded(packed.size());
    pack_values(std::as_bytes(std::span(values)), p, threaded, 4);
    EXPECT_EQ(packed, threaded);
    std::vector<double> back(values.size());
    unpack_values(packed, p, 0, std::as_writable_bytes(std::span(back)), 2);
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_LE(std::abs(back[i] - values[i]), 0.5001 * std::ldexp(1.0, p.binary));
    }
  }
}

TEST(packing, parameters_that_cannot_be_are_refused) {
  const std::vector<double> wide{-1e300, 1e300};
  EXPECT_EQ(compute_packing(wide, 16).error().code(), errc::invalid_argument);
  const std::vector<double> odd{1, std::nan("")};
  EXPECT_EQ(compute_packing(odd, 16).error().code(), errc::invalid_argument);
  EXPECT_EQ(compute_packing({}, 65).error().code(), errc::invalid_argument);
  EXPECT_EQ(packed_size(~std::uint64_t{0} / 8, 64).error().code(), errc::out_of_range);
}

/// Returns a random bit list: dense noise, few bits, runs, or the first bits of each
/// 70,000.
byte_vector random_bits(numbers& random, std::uint64_t count) {
  byte_vector out((count + 7) / 8);
  const std::uint64_t kind = random.below(4);
  for (std::uint64_t i = 0; i < count; ++i) {
    const bool set = kind == 0   ? random.below(2) == 0
                     : kind == 1 ? random.below(500) == 0
                     : kind == 2 ? i / 777 % 2 == 0
                                 : i % 70'000 < 3;
    if (set) {
      set_bit(out, i);
    }
  }
  return out;
}

TEST(bit_lists, runs_and_containers_come_back) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    numbers random(seed);
    const std::uint64_t count = random.below(seed % 6 == 0 ? 400'000 : 3000);
    const byte_vector bits = random_bits(random, count);
    byte_vector back(bits.size(), std::byte{0x5A});
    or_throw(rle_decode(rle_encode(bits, count), count, back));
    EXPECT_EQ(back, bits);
    or_throw(roaring_decode(or_throw(roaring_encode(bits, count)), count, back));
    EXPECT_EQ(back, bits);
  }
}

// The sanitizers' builds find reads and writes outside of the arrays.
TEST(bit_lists, damage_is_refused_or_gives_other_bits_but_never_harms) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    numbers random(seed);
    const std::uint64_t count = 1 + random.below(200'000);
    const byte_vector bits = random_bits(random, count);
    byte_vector back(bits.size());
    for (byte_vector code :
         {rle_encode(bits, count), or_throw(roaring_encode(bits, count))}) {
      if (code.empty()) {
        continue;
      }
      code[random.below(code.size())] ^= static_cast<std::byte>(1 + random.below(255));
      (void)rle_decode(code, count, back);
      (void)roaring_decode(code, count, back);
      code.resize(random.below(code.size()));
      (void)rle_decode(code, count, back);
      EXPECT_FALSE(roaring_decode(code, count, back) && code.size() < 8);
    }
  }
}

TEST(blosc2, frames_come_back_whole_and_in_parts) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    numbers random(seed);
    blosc2_parameters p;
    p.codec = seed % 2 == 0 ? blosc2_codec::lz4 : blosc2_codec::zstd;
    p.level = static_cast<int>(random.below(10));
    p.type_size = static_cast<unsigned>(1 + random.below(9));
    byte_vector data(p.type_size * (1 + random.below(seed % 5 == 0 ? 90'000 : 3000)));
    const std::uint64_t kind = random.below(3);
    for (std::size_t i = 0; i < data.size(); ++i) {
      data[i] = static_cast<std::byte>((kind == 0   ? random.next()
                                        : kind == 1 ? i / 100
                                                    : 0) &
                                       0xFF);
    }
    const auto frame = or_throw(blosc2_encode(data, p));
    byte_vector back(data.size());
    or_throw(blosc2_decode(frame.bytes, data.size(), 0, back));
    EXPECT_EQ(back, data);
    const std::uint64_t first = random.below(data.size());
    byte_vector part(random.below(data.size() - first) + 1);
    or_throw(blosc2_decode(frame.bytes, data.size(), first, part));
    EXPECT_TRUE(std::equal(part.begin(), part.end(),
                           data.begin() + static_cast<std::ptrdiff_t>(first)));
    byte_vector damaged = copy(frame.bytes);
    damaged[random.below(damaged.size())] ^=
        static_cast<std::byte>(1 + random.below(255));
    (void)blosc2_decode(damaged, data.size(), 0, back);
    damaged.resize(random.below(damaged.size()));
    EXPECT_FALSE(blosc2_decode(damaged, data.size(), 0, back).has_value());
  }
}

// A payload of forty times the size cannot belong to so few values, so it must be
// refused.
TEST(zfp, all_modes_keep_their_bound_and_pad_to_words) {
  numbers random(11);
  std::vector<double> values(4001);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = 280 + 30 * std::sin(0.01 * static_cast<double>(i)) + 0.1 * random.unit();
  }
  const auto worst = [&](const zfp_parameters& p) {
    const auto code = or_throw(zfp_encode(std::as_bytes(std::span(values)), p));
    EXPECT_EQ(code.bytes.size() % 8, 0u);
    std::vector<double> back(values.size());
    or_throw(zfp_decode(code.bytes, p, std::as_writable_bytes(std::span(back))));
    double out = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      out = std::max(out, std::abs(back[i] - values[i]));
    }
    byte_vector huge(code.bytes.size() * 40);
    EXPECT_EQ(zfp_decode(huge, p, std::as_writable_bytes(std::span(back))).error().code(),
              errc::corrupt);
    return out;
  };
  EXPECT_LT(worst({formats::zfp_mode::accuracy, 1e-3}), 1e-3);
  EXPECT_LT(worst({formats::zfp_mode::rate, 32}), 1e-4);
  EXPECT_LT(worst({formats::zfp_mode::precision, 40}), 1e-4);
}

TEST(zfp, a_stream_of_another_length_is_refused_in_every_mode) {
  numbers random(13);
  for (const std::size_t count : {1u, 4u, 5u, 130u, 3001u}) {
    std::vector<double> values(count);
    for (std::size_t i = 0; i < count; ++i) {
      // Blocks of zeros take one bit in two of the modes.
      values[i] = i / 16 % 3 == 2 ? 0 : 100 * random.unit();
    }
    std::vector<double> back(count);
    const mutable_bytes to = std::as_writable_bytes(std::span(back));
    for (const zfp_parameters& p : {zfp_parameters{formats::zfp_mode::rate, 16},
                                    zfp_parameters{formats::zfp_mode::precision, 20},
                                    zfp_parameters{formats::zfp_mode::accuracy, 1e-3}}) {
      SCOPED_TRACE(fmt::format("{} values, mode {}", count, static_cast<int>(p.mode)));
      const auto code = or_throw(zfp_encode(std::as_bytes(std::span(values)), p));
      EXPECT_TRUE(zfp_decode(code.bytes, p, to).has_value());
      const std::size_t step = std::max<std::size_t>(1, code.bytes.size() / 200);
      for (std::size_t size = 0; size + 8 <= code.bytes.size(); size += step) {
        const bytes_view cut = code.bytes.first(size);
        EXPECT_FALSE(zfp_decode(cut, p, to).has_value()) << size;
        EXPECT_FALSE(zfp_decode(cut, p, decode_target::nowhere(to.size()))) << size;
      }
      byte_vector longer = copy(code.bytes);
      longer.resize(longer.size() + 8);
      EXPECT_FALSE(zfp_decode(longer, p, to).has_value());
    }
  }
}

TEST(zfp, values_are_those_of_the_library) {
  numbers random(17);
  std::vector<double> values(200'003);
  for (double& value : values) {
    value = 1000 * random.unit();
  }
  const zfp_parameters p{formats::zfp_mode::precision, 30};
  const auto code = or_throw(zfp_encode(std::as_bytes(std::span(values)), p));
  std::vector<double> expected(values.size());
  byte_vector padded = copy(code.bytes);
  padded.resize(padded.size() + 64);
  zfp_stream* stream = zfp_stream_open(nullptr);
  zfp_field* field = zfp_field_1d(expected.data(), zfp_type_double, expected.size());
  bitstream* bits = stream_open(padded.data(), padded.size());
  zfp_stream_set_precision(stream, 30);
  zfp_stream_set_bit_stream(stream, bits);
  zfp_stream_rewind(stream);
  EXPECT_NE(zfp_decompress(stream, field), 0u);
  stream_close(bits);
  zfp_field_free(field);
  zfp_stream_close(stream);
  byte_vector back(8 * values.size() + 1);
  // The address is odd, so a store that needs alignment would fail.
  const mutable_bytes odd = mutable_bytes(back).subspan(1);
  or_throw(zfp_decode(code.bytes, p, odd));
  EXPECT_EQ(std::memcmp(odd.data(), expected.data(), odd.size()), 0);
}

/// Returns a frame of one chunk whose blocks have gone through the delta filter, as
/// c-blosc2 defines it: the numbers of the first block xor the numbers before them, the
/// numbers of the other blocks xor those of the first block.
byte_vector delta_frame(bytes_view data, std::size_t block, unsigned width) {
  const auto plain = or_throw(blosc2_encode(data, {blosc2_codec::lz4, 0, width}));
  byte_vector frame = copy(plain.bytes);
  constexpr std::size_t chunk = 97;
  const std::size_t blocks = (data.size() + block - 1) / block;
  byte_vector body(blosc2_chunk_header);
  std::copy_n(frame.begin() + chunk, body.size(), body.begin());
  body[2] =
      static_cast<std::byte>(blosc2_flag::extended | blosc2_flag::whole_blocks | 1u << 5);
  store_le(body.data() + 8, static_cast<std::uint32_t>(block));
  body[16 + 5] = std::byte{3};
  body.resize(body.size() + 4 * blocks);
  for (std::size_t b = 0; b < blocks; ++b) {
    store_le(body.data() + blosc2_chunk_header + 4 * b,
             static_cast<std::uint32_t>(body.size()));
    const std::size_t size = std::min(block, data.size() - b * block);
    body.resize(body.size() + 4);
    store_le(body.data() + body.size() - 4, static_cast<std::uint32_t>(size));
    for (std::size_t i = 0; i < size; ++i) {
      const bool first = b == 0 && i < width;
      const std::byte with = b > 0 ? data[i] : (first ? std::byte{} : data[i - width]);
      body.push_back(data[b * block + i] ^ with);
    }
  }
  store_le(body.data() + 12, static_cast<std::uint32_t>(body.size()));
  const std::size_t behind = chunk + blosc2_chunk_header + data.size();
  byte_vector out(frame.begin(), frame.begin() + chunk);
  append(out, body);
  append(out, bytes_view(frame).subspan(behind));
  store_be<std::uint64_t>(out.data() + 0x10, out.size());
  store_be<std::uint64_t>(out.data() + 0x27, body.size());
  return out;
}

TEST(blosc2, the_delta_filter_refers_to_the_first_block) {
  for (const unsigned width : {1u, 2u, 4u, 8u, 16u}) {
    const byte_vector data = random_bytes(width, 16 * 67);
    // The filter knows no numbers wider than 8 bytes.
    const unsigned number = width == 16 ? 8 : width;
    byte_vector frame = delta_frame(data, 256, number);
    frame[97 + 3] = static_cast<std::byte>(width);
    byte_vector back(data.size());
    or_throw(blosc2_decode(frame, data.size(), 0, back));
    EXPECT_EQ(back, data) << width;
    byte_vector part(100);  // lies behind the first block
    or_throw(blosc2_decode(frame, data.size(), 700, part));
    EXPECT_TRUE(std::equal(part.begin(), part.end(), data.begin() + 700)) << width;
  }
}

TEST(szip, damage_is_refused_or_gives_other_samples_but_never_harms) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    numbers random(seed);
    const aec_parameters p = random_parameters(random);
    const byte_vector samples = random_samples(random, p);
    const auto code = or_throw(aec_encode(samples, p, 1));
    byte_vector damaged = copy(code.code.bytes);
    byte_vector back(samples.size());
    damaged[random.below(damaged.size())] ^=
        static_cast<std::byte>(1 + random.below(255));
    (void)aec_decode(damaged, random.below(damaged.size() * 8), p, back);
    damaged.resize(random.below(damaged.size()));
    (void)aec_decode(damaged, 0, p, back);
    EXPECT_FALSE(aec_decode({}, 0, p, back).has_value());
  }
}

}  // namespace
}  // namespace weir::test
