// SPDX-License-Identifier: Apache-2.0
/// @file
/// Targets of the fuzzers. Each takes any bytes and must neither crash, nor cause a
/// report of a sanitizer, nor take memory beyond a limit.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "tensogram/codec/bits/bits.hpp"
#include "tensogram/codec/pipeline.hpp"
#include "weir/formats/cbor.hpp"
#include "weir/formats/tensogram.hpp"
#include "weir/formats/tensogram_validate.hpp"

namespace weir::test::fuzz {

inline constexpr std::uint64_t limit = std::uint64_t{1} << 22;

/// Returns options under which damaged messages reach as much code as possible.
inline formats::read_options options() {
  formats::read_options out;
  out.hashes = formats::hash_check::none;
  out.max_object_bytes = limit;
  out.legacy_packing = true;
  return out;
}

/// Returns the messages that a splitter finds when it gets `step` bytes at a time.
inline std::vector<formats::message_span> split(bytes_view input, std::size_t step) {
  std::vector<formats::message_span> out;
  formats::message_splitter splitter;
  const auto take_all = [&] {
    while (const auto piece = splitter.take()) {
      out.push_back({piece->offset, piece->bytes.size()});
    }
  };
  for (std::size_t offset = 0; offset < input.size(); offset += step) {
    splitter.put(input.subspan(offset, std::min(step, input.size() - offset)));
    take_all();
  }
  splitter.end();
  take_all();
  return out;
}

/// Requires that a scan of the whole input and a splitter find the same messages.
inline void scan(bytes_view input) {
  const auto found = formats::scan(input);
  WEIR_EXPECT(split(input, 1 + input.size() % 61) == found);
}

/// Reads every object of every message, whole and in parts.
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

/// Reads the input as metadata of a message and as an item of CBOR.
inline void metadata(bytes_view input) {
  (void)formats::read_metadata(input);
  const auto item = formats::decode_cbor(input);
  if (item) {
    (void)formats::to_json(item->value);
    (void)formats::encode_cbor(item->value);
  }
}

/// Number of bytes at the start of an input that choose codec, type and parameters.
inline constexpr std::size_t choices = 8;

/// Returns the descriptor that the first bytes of an input choose.
inline formats::object_descriptor chosen(bytes_view input) {
  constexpr std::array<const char*, 8> names{"none", "lz4",    "zstd", "szip",
                                             "zfp",  "blosc2", "rle",  "roaring"};
  constexpr std::array types{dtype::uint8, dtype::uint16, dtype::fp32, dtype::fp64,
                             dtype::bitmask};
  const auto byte = [&](std::size_t i) { return std::to_integer<unsigned>(input[i]); };
  formats::object_descriptor d;
  d.compression = names[byte(0) % names.size()];
  d.type = types[byte(1) % types.size()];
  d.shape = {static_cast<std::int64_t>(byte(2) * 16 + byte(3))};
  d.encoding = byte(4) % 3 == 0 && d.type == dtype::fp64 ? "simple_packing" : "none";
  d.filter = byte(4) % 5 == 0 ? "shuffle" : "none";
  d.parameters = {{"shuffle_element_size", 1 + byte(5) % 4},
                  {"sp_bits_per_value", byte(5) % 65},
                  {"sp_reference_value", 1.5},
                  {"sp_binary_scale_factor", -3},
                  {"sp_decimal_scale_factor", 1},
                  {"szip_rsi", 1 + byte(6)},
                  {"szip_block_size", 8u << byte(7) % 4},
                  {"szip_flags", byte(7) % 2 * 8},
                  {"zfp_mode", byte(6) % 2 == 0 ? "fixed_rate" : "fixed_accuracy"},
                  {"zfp_rate", static_cast<double>(byte(7))},
                  {"zfp_tolerance", 0.01}};
  return d;
}

/// Writes elements and reads them back. What the writer accepts must be readable, and
/// equal unless the codec is lossy.
inline void there_and_back(formats::object_descriptor d, bytes_view elements) {
  const auto bits = static_cast<std::int64_t>(8 * elements.size());
  const auto width = static_cast<std::int64_t>(8 * info_of(d.type).size);
  d.shape = {d.type == dtype::bitmask ? bits : bits / width};
  const auto size = or_throw(formats::decoded_size(d));
  formats::message_options options;
  options.floats = formats::non_finite::store;
  const formats::object_to_write one{d, {}, elements.first(size)};
  const auto message = formats::encode_message({&one, 1}, options);
  if (!message) {
    return;
  }
  const auto reader = or_throw(formats::message_reader::open(*message));
  const auto back = or_throw(reader.decode(0));
  const bool exact = d.encoding == "none" && d.compression != "zfp";
  WEIR_EXPECT(back.size() == size);
  WEIR_EXPECT(!exact || std::equal(back.begin(), back.end(), elements.begin()));
}

/// Takes the input as a payload of any codec, as bit lists, and as elements to encode.
inline void codecs(bytes_view input) {
  if (input.size() < choices) {
    return;
  }
  const formats::object_descriptor d = chosen(input);
  const bytes_view stored = input.subspan(choices);
  if (const auto plan = formats::plan_reading(d, stored.size(), options())) {
    byte_vector elements(plan->decoded);
    const bool decoded =
        formats::decode_payload(*plan, stored, formats::memory_at(elements), 1)
            .has_value();
    WEIR_EXPECT(formats::check_payload(*plan, stored).has_value() == decoded);
  }
  for (const auto count : {std::uint64_t{9}, std::uint64_t{70'000}}) {
    byte_vector bits((count + 7) / 8);
    (void)formats::rle_decode(stored, count, bits);
    (void)formats::roaring_decode(stored, count, bits);
  }
  there_and_back(d, stored);
}

/// Validates the input at the highest level and makes the report.
inline void validate(bytes_view input) {
  formats::validation_options checks;
  checks.level = formats::validation_level::fidelity;
  checks.canonical = true;
  checks.max_object_bytes = limit;
  (void)formats::to_json(formats::validate(input, checks), "input");
}

/// Calls `use` with every input of a corpus file. The file is a sequence of inputs, each
/// a little-endian u32 length and so many bytes. Returns the number of inputs.
/// @error{torn, the last input is incomplete}
template <class Use>
[[nodiscard]] result<std::size_t> each_input(bytes_view corpus, Use use) {
  std::size_t count = 0;
  for (; !corpus.empty(); ++count) {
    const bool whole = corpus.size() >= 4;
    const std::size_t length = whole ? load_le<std::uint32_t>(corpus.data()) : 0;
    if (!whole || length > corpus.size() - 4) {
      return error(errc::torn, "input " + std::to_string(count) + " of the corpus: " +
                                   "expected " + std::to_string(length) +
                                   " bytes, found " + std::to_string(corpus.size()));
    }
    use(corpus.subspan(4, length));
    corpus = corpus.subspan(4 + length);
  }
  return count;
}

}  // namespace weir::test::fuzz
