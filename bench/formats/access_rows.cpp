// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rows about parts of messages: ranges of an opened message, scans, metadata.
#include "formats/rows.hpp"
#include "weir/formats/tensogram.hpp"

namespace weir::bench {

namespace {

using namespace weir::formats;

constexpr std::size_t count = 1'000'000;

/// Returns the microseconds for decoding 1,000 values in the middle of 1,000,000, with a
/// reader that is already open.
double range_us(const std::string& compression, unsigned bits) {
  const byte_vector data = field(count);
  object_to_write object;
  object.descriptor.type = dtype::fp64;
  object.descriptor.shape = {static_cast<std::int64_t>(count)};
  object.descriptor.compression = compression;
  object.data = data;
  cbor_map& keys = object.descriptor.parameters;
  if (bits > 0) {
    object.descriptor.encoding = "simple_packing";
    keys.set("sp_bits_per_value", bits);
  }
  if (compression == "szip") {
    keys.set("szip_rsi", 128);
    keys.set("szip_block_size", 16);
    keys.set("szip_flags", 8);
  }
  const byte_vector message = or_throw(encode_message({&object, 1}));
  const auto reader = or_throw(message_reader::open(message));
  return 1e6 / 100 * min_seconds(31, [&] {
           for (int i = 0; i < 100; ++i) {
             keep(or_throw(reader.decode_range(0, 500'000, 1000)).size());
           }
         });
}

/// Returns a buffer with a thousand small messages.
byte_vector thousand_messages() {
  byte_vector out;
  for (int i = 0; i < 1000; ++i) {
    const byte_vector data(16);
    object_to_write object;
    object.descriptor.shape = {4};
    object.metadata = {{"name", "value"}, {"step", i}};
    object.data = data;
    append(out, or_throw(encode_message({&object, 1})));
  }
  return out;
}

/// Returns the milliseconds for finding the messages.
double scan_ms() {
  const byte_vector bytes = thousand_messages();
  return 1e3 * min_seconds(101, [&] { keep(scan(bytes_view(bytes)).size()); });
}

/// Returns the milliseconds for reading the metadata of each.
double metadata_ms() {
  const byte_vector bytes = thousand_messages();
  const auto spans = scan(bytes_view(bytes));
  return 1e3 * min_seconds(51, [&] {
           for (const message_span& span : spans) {
             keep(or_throw(
                      read_metadata(bytes_view(bytes).subspan(span.offset, span.length)))
                      .base.size());
           }
         });
}

}  // namespace

void add_access_rows(program& bench) {
  bench.add("tgm_range_none_us", "us", at_most(2), [] { return range_us("none", 0); });
  bench.add("tgm_range_pack24_us", "us", at_most(2), [] { return range_us("none", 24); });
  bench.add("tgm_range_szip_us", "us", at_most(40), [] { return range_us("szip", 24); });
  bench.add("tgm_scan_1000_ms", "ms", at_most(0.04), [] { return scan_ms(); });
  bench.add("tgm_metadata_1000_ms", "ms", at_most(1), [] { return metadata_ms(); });
}

}  // namespace weir::bench
