// SPDX-License-Identifier: Apache-2.0
/// @file
/// What a fuzzer feeds: any bytes in, no crash, no sanitizer report, no memory beyond the
/// limit.
#pragma once

#include "tensogram/codec/bits/bits.hpp"
#include "tensogram/codec/pipeline.hpp"
#include "weir/formats/cbor.hpp"
#include "weir/formats/tensogram.hpp"
#include "weir/formats/tensogram_validate.hpp"

namespace weir::test::fuzz {

inline constexpr std::uint64_t limit = std::uint64_t{1} << 22;

inline formats::read_options options() {
  formats::read_options out;
  out.hashes = formats::hash_check::none;
  out.max_object_bytes = limit;
  out.legacy_packing = true;
  return out;
}

inline void scan(bytes_view input) {
  (void)formats::scan(input);
}

inline void decode(bytes_view input) {
  for (const formats::message_span& span : formats::scan(input)) {
    const auto part = input.subspan(span.offset, span.length);
    const auto reader = formats::message_reader::open(part, options());
    if (!reader) {
      continue;
    }
    for (std::size_t i = 0; i < reader->object_count(); ++i) {
      (void)reader->decode(i);
      (void)reader->decode_range(i, 1, 3);
      (void)reader->masks(i);
      (void)reader->view(i);
    }
  }
}

inline void metadata(bytes_view input) {
  (void)formats::read_metadata(input);
  const auto item = formats::decode_cbor(input);
  if (item) {
    (void)formats::to_json(item->value);
    (void)formats::encode_cbor(item->value);
  }
}

/// The first bytes choose codec, type and parameters.
inline void codecs(bytes_view input) {
  if (input.size() < 8) {
    return;
  }
  constexpr std::array<const char*, 8> names{"none", "lz4",    "zstd", "szip",
                                             "zfp",  "blosc2", "rle",  "roaring"};
  constexpr std::array types{dtype::uint8, dtype::uint16, dtype::fp32, dtype::fp64,
                             dtype::bitmask};
  const auto at = [&](std::size_t i) { return std::to_integer<unsigned>(input[i]); };
  formats::object_descriptor d;
  d.compression = names[at(0) % names.size()];
  d.type = types[at(1) % types.size()];
  d.shape = {static_cast<std::int64_t>(at(2) * 16 + at(3))};
  d.encoding = at(4) % 3 == 0 && d.type == dtype::fp64 ? "simple_packing" : "none";
  d.filter = at(4) % 5 == 0 ? "shuffle" : "none";
  d.parameters = {{"shuffle_element_size", 1 + at(5) % 4},
                  {"sp_bits_per_value", at(5) % 65},
                  {"sp_reference_value", 1.5},
                  {"sp_binary_scale_factor", -3},
                  {"sp_decimal_scale_factor", 1},
                  {"szip_rsi", 1 + at(6)},
                  {"szip_block_size", 8u << at(7) % 4},
                  {"szip_flags", at(7) % 2 * 8},
                  {"zfp_mode", at(6) % 2 == 0 ? "fixed_rate" : "fixed_accuracy"},
                  {"zfp_rate", static_cast<double>(at(7))},
                  {"zfp_tolerance", 0.01}};
  const bytes_view stored = input.subspan(8);
  const auto plan = formats::plan_reading(d, stored.size(), options());
  if (!plan) {
    return;
  }
  byte_vector elements(plan->decoded);
  (void)formats::decode_payload(*plan, stored, elements, 1);
  for (const auto count : {std::uint64_t{9}, std::uint64_t{70'000}}) {
    byte_vector bits((count + 7) / 8);
    (void)formats::rle_decode(stored, count, bits);
    (void)formats::roaring_decode(stored, count, bits);
  }
}

inline void validate(bytes_view input) {
  formats::validation_options checks;
  checks.level = formats::validation_level::fidelity;
  checks.canonical = true;
  checks.max_object_bytes = limit;
  (void)formats::to_json(formats::validate(input, checks), "input");
}

}  // namespace weir::test::fuzz
