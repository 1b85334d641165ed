// SPDX-License-Identifier: Apache-2.0
/// @file
/// Random messages with an szip object, and the same messages as other writers leave
/// them.
#pragma once

#include <array>

#include "formats/support.hpp"

namespace weir::test {

/// Returns elements with runs of zeros of any length, between noise, small steps and
/// constants. At runs of zeros the offsets of other writers are wrong.
inline std::vector<std::uint64_t> szip_values(numbers& random, std::size_t count) {
  std::vector<std::uint64_t> out;
  while (out.size() < count) {
    const std::uint64_t kind = random.below(4);
    const std::uint64_t base = random.below(2) == 0 ? 0 : random.below(200);
    const std::size_t run = 1 + random.below(1 + count / 2);
    for (std::size_t i = 0; i < run && out.size() < count; ++i) {
      out.push_back(kind == 0 ? random.below(250)
                              : (kind == 1 ? base + random.below(3)
                                           : (kind == 2 ? base : std::uint64_t{0})));
    }
  }
  return out;
}

/// Returns an object of up to `max_count` elements, with any type and any parameters that
/// szip accepts.
inline sample_object random_szip_object(std::uint64_t seed, std::size_t max_count) {
  numbers random(seed);
  constexpr std::array types{dtype::uint8, dtype::uint16, dtype::int16,
                             dtype::int32, dtype::fp32,   dtype::fp64};
  sample_object out;
  out.descriptor.type = types[random.below(types.size())];
  out.descriptor.order =
      random.below(4) == 0 ? formats::byte_order::big : formats::byte_order::little;
  out.descriptor.compression = "szip";
  const std::size_t count = 1 + random.below(max_count);
  out.descriptor.shape = {static_cast<std::int64_t>(count)};
  constexpr std::array<int, 4> flags{8, 8, 0, 9};
  out.descriptor.parameters = {{"szip_rsi", 1 + random.below(5)},
                               {"szip_block_size", 8 << random.below(2)},
                               {"szip_flags", flags[random.below(flags.size())]}};
  const std::size_t width = info_of(out.descriptor.type).size;
  out.data.resize(count * width);
  const std::vector<std::uint64_t> values = szip_values(random, count);
  for (std::size_t i = 0; i < count; ++i) {
    std::byte* to = out.data.data() + i * width;
    if (out.descriptor.type == dtype::fp64) {
      const auto real = static_cast<double>(values[i]);
      std::memcpy(to, &real, sizeof real);
      continue;
    }
    for (std::size_t k = 0; k < width; ++k) {
      to[k] = static_cast<std::byte>(values[i] >> (8 * k) & 0xFF);
    }
  }
  if (out.descriptor.type == dtype::fp64) {
    out.descriptor.encoding = "simple_packing";
    out.descriptor.order = formats::byte_order::little;
    out.descriptor.parameters.set("sp_bits_per_value", 8 * (1 + random.below(4)));
  }
  return out;
}

/// Returns the message of such an object.
inline byte_vector szip_message(const sample_object& object) {
  formats::message_options options;
  options.floats = formats::non_finite::store;
  const formats::object_to_write one = object.to_write();
  return or_throw(formats::encode_message({&one, 1}, options));
}

/// Returns the same message with offsets that are up to `max_step` bits too small and
/// with no mark that vouches for them. The reference writes such offsets for intervals
/// that start with empty blocks.
inline byte_vector with_small_offsets(const byte_vector& message,
                                      std::uint64_t max_step) {
  const auto reader = or_throw(formats::message_reader::open(message));
  formats::object_descriptor descriptor = reader.descriptor(0);
  descriptor.szip_offsets = 0;
  formats::cbor_value& offsets = *descriptor.parameters.find("szip_block_offsets");
  std::uint64_t before = 0;
  std::uint64_t less = 0;
  for (formats::cbor_value& offset : *offsets.array()) {
    const std::uint64_t right = *offset.uint64();
    const std::uint64_t distance = right == 0 ? 0 : right - before - 1;
    before = right - std::min(less++ % (max_step + 1), distance);
    offset = before;
  }
  const byte_vector region = or_throw(reader.stored_region(0));
  const formats::object_to_write one{descriptor, {}, region, true};
  return or_throw(formats::encode_message({&one, 1}));
}

/// Number of ranges that were decoded, and of those that differ from the slice of the
/// whole.
struct range_count {
  std::uint64_t tried = 0;
  std::uint64_t wrong = 0;
};
/// Decodes every range of the object of a message and compares it with the slice of the
/// whole.
inline range_count every_range(const byte_vector& message) {
  formats::read_options options;
  options.hashes = formats::hash_check::none;
  const auto reader = or_throw(formats::message_reader::open(message, options));
  const byte_vector whole = or_throw(reader.decode(0));
  const std::size_t width = info_of(reader.descriptor(0).type).size;
  const std::size_t count = whole.size() / width;
  range_count out;
  for (std::size_t first = 0; first < count; ++first) {
    for (std::size_t n = 1; n <= count - first; ++n) {
      const auto part = reader.decode_range(0, first, n);
      const bool good =
          part && std::equal(part->begin(), part->end(),
                             whole.begin() + static_cast<std::ptrdiff_t>(first * width));
      ++out.tried;
      out.wrong += good && part->size() == n * width ? 0 : 1;
    }
  }
  return out;
}

}  // namespace weir::test
