// SPDX-License-Identifier: Apache-2.0
/// @file
/// Makes the conformance vectors of Tensogram v3: `make_vectors FOLDER` writes the
/// messages and manifest.json. Equal runs give equal bytes.
#include <array>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>
#include <string>

#include "formats/support.hpp"
#include "support/sha256.hpp"
#include "weir/base/hash.hpp"
#include "weir/formats/tensogram.hpp"
#include "weir/formats/tensogram_validate.hpp"

namespace {

using namespace weir;
using namespace weir::formats;
using namespace weir::test;

/// Returns the doubles 250 + (i mod 97) / 4, which are exact everywhere.
sample_object field(std::int64_t n) {
  sample_object out = sample(1, dtype::fp64, {n});
  for (std::int64_t i = 0; i < n; ++i) {
    const double value = 250 + static_cast<double>(i % 97) / 4;
    std::memcpy(out.data.data() + 8 * i, &value, 8);
  }
  return out;
}

/// Returns such a field with a name and these stages.
sample_object staged(const char* name, std::int64_t n, const char* encoding,
                     const char* filter, const char* codec, cbor_map parameters) {
  sample_object out = field(n);
  out.metadata = {{"name", name}};
  out.descriptor.encoding = encoding;
  out.descriptor.filter = filter;
  out.descriptor.compression = codec;
  out.descriptor.parameters = std::move(parameters);
  return out;
}

/// Encodes a message.
byte_vector whole(const std::vector<sample_object>& objects,
                  const message_options& options = {}) {
  return or_throw(encode_message(to_write(objects), options));
}

/// Returns a message with an object of every element type.
byte_vector dtypes(byte_order order) {
  std::vector<sample_object> out;
  for (const dtype_info& type : all_dtypes()) {
    if (!type.tensogram.empty()) {
      out.push_back(sample(7, type.id, {2, 5}, order));
      out.back().metadata = {{"name", type.tensogram}};
    }
  }
  return whole(out);
}

/// Returns a message with an object for every filter and compression that this project
/// writes.
byte_vector codecs() {
  const cbor_map szip{{"szip_rsi", 8}, {"szip_block_size", 16}, {"szip_flags", 8}};
  cbor_map packed = szip;
  packed.set("sp_bits_per_value", 24);
  cbor_map shuffled = szip;
  shuffled.set("shuffle_element_size", 8);
  return whole(
      {staged("lz4", 300, "none", "none", "lz4", {}),
       staged("zstd", 300, "none", "none", "zstd", {{"zstd_level", 3}}),
       staged("shuffle", 300, "none", "shuffle", "none", {{"shuffle_element_size", 8}}),
       staged("shuffle+zstd", 300, "none", "shuffle", "zstd",
              {{"shuffle_element_size", 8}}),
       staged("shuffle+szip", 300, "none", "shuffle", "szip", shuffled),
       staged("packed+szip", 700, "simple_packing", "none", "szip", packed),
       staged("blosc2 lz4", 300, "none", "none", "blosc2", {{"blosc2_codec", "lz4"}}),
       staged("blosc2 zstd", 300, "none", "none", "blosc2", {{"blosc2_codec", "zstd"}}),
       staged("zfp rate", 100, "none", "none", "zfp",
              {{"zfp_mode", "fixed_rate"}, {"zfp_rate", 16}}),
       staged("zfp precision", 100, "none", "none", "zfp",
              {{"zfp_mode", "fixed_precision"}, {"zfp_precision", 20}}),
       staged("zfp accuracy", 100, "none", "none", "zfp",
              {{"zfp_mode", "fixed_accuracy"}, {"zfp_tolerance", 0.01}})});
}

/// Returns a message with packed objects of many widths and decimal scales.
byte_vector packing_widths() {
  std::vector<sample_object> out;
  for (const unsigned bits : {0u, 1u, 7u, 8u, 12u, 16u, 24u, 31u, 32u, 33u, 63u, 64u}) {
    for (const int decimal : {0, 3, -3}) {
      out.push_back(
          staged("packed", 41, "simple_packing", "none", "none",
                 {{"sp_bits_per_value", bits}, {"sp_decimal_scale_factor", decimal}}));
    }
  }
  return whole(out);
}

/// Returns a message with bit lists in every compression.
byte_vector bitmasks() {
  std::vector<sample_object> out;
  for (const char* codec : {"none", "rle", "roaring", "lz4", "zstd"}) {
    out.push_back(sample(5, dtype::bitmask, {1003}));
    out.back().data.back() &= std::byte{0xE0};
    out.back().descriptor.compression = codec;
    out.back().metadata = {{"name", codec}};
  }
  return whole(out);
}

/// Returns a message with floats of every type that are not finite, under masks of one
/// method. Masks of up to `small` bytes are stored as they are.
byte_vector masks(mask_method method, std::uint64_t small) {
  std::vector<sample_object> out;
  for (const dtype type : {dtype::fp16, dtype::bf16, dtype::fp32, dtype::fp64,
                           dtype::complex64, dtype::complex128}) {
    out.push_back(sample(9, type, {1200}));
    const std::size_t unit = info_of(type).swap_unit;
    byte_vector& data = out.back().data;
    for (std::size_t i = 0; i + unit <= data.size(); i += 7 * unit) {
      data[i + unit - 1] = i % 2 == 0 ? std::byte{0x7F} : std::byte{0xFF};
      data[i + unit - 2] = i % 3 == 0 ? std::byte{0xF8} : data[i + unit - 2];
    }
  }
  message_options options;
  options.masks = {true, true, method, method, method, small};
  return whole(out, options);
}

/// Returns a stream of two objects. With `header_base`, the metadata are known beforehand
/// and a preceder replaces a name.
byte_vector stream(bool with_length, bool header_base) {
  byte_vector out;
  message_options options;
  options.extra = {{"run", "conformance"}};
  std::vector<cbor_map> base;
  if (header_base) {
    base = {{{"name", "early"}}, {{"name", "second"}}};
  }
  auto writer = or_throw(stream_writer::open(
      [&](bytes_view piece) {
        append(out, piece);
        return result<void>();
      },
      options, base));
  for (const char* name : {"late", ""}) {
    sample_object object = sample(3, dtype::int16, {6});
    if (*name != 0) {
      object.metadata = {{"name", name}};
    }
    or_throw(writer.write(object.to_write()));
  }
  if (!with_length) {
    or_throw(writer.finish());
    return out;
  }
  or_throw(writer.finish([&](std::uint64_t offset, bytes_view piece) {
    std::copy(piece.begin(), piece.end(),
              out.begin() + static_cast<std::ptrdiff_t>(offset));
    return result<void>();
  }));
  return out;
}

/// Returns a message whose payload looks like the frames around it.
byte_vector lookalike() {
  sample_object out = sample(1, dtype::uint8, {24});
  const std::string_view text = "39277777TENSOGRMFRENDF39";
  std::memcpy(out.data.data(), text.data(), text.size());
  return whole({out});
}

/// Returns a message whose object has its descriptor in front of its payload, as other
/// writers may place it.
byte_vector descriptor_first() {
  message_options options;
  options.list = hash_list::none;
  byte_vector out = whole({sample(4, dtype::fp32, {6})}, options);
  const auto reader = or_throw(message_reader::open(out));
  const frame_info frame = reader.frames().back();
  std::byte* body = out.data() + frame.offset + 16;
  const std::size_t size = frame.length - 36;
  const std::size_t payload = reader.stored_bytes(0);
  std::rotate(body, body + payload, body + size);
  const auto flags = load_be<std::uint16_t>(out.data() + frame.offset + 6);
  store_be(out.data() + frame.offset + 6, static_cast<std::uint16_t>(flags & ~1u));
  store_be<std::uint64_t>(body + size, 16);
  store_be<std::uint64_t>(body + size + 8, xxh3_64({body, size}));
  return out;
}

/// Returns a message with one flipped bit.
byte_vector flipped(byte_vector message, std::size_t offset) {
  message[offset] ^= std::byte{1};
  return message;
}

/// Returns two messages with bytes between them.
byte_vector both(byte_vector first, const byte_vector& second, std::string_view between) {
  append(first, as_view(between));
  append(first, second);
  return first;
}

/// A file of the suite: its name, its purpose, and its bytes.
struct vector_file {
  const char* name;
  const char* content;
  byte_vector bytes;
};

/// Returns all files of the suite.
std::vector<vector_file> all_vectors() {
  const byte_vector small = whole({field(4)});
  const std::size_t payload =
      or_throw(message_reader::open(small)).frames().back().offset + 20;
  message_options bare;
  bare.hashes = false;
  message_options twice;
  twice.list = hash_list::both;
  message_options footer;
  footer.list = hash_list::footer;
  message_options aligned;
  aligned.payload_alignment = 64;
  std::vector<vector_file> out{
      {"types/dtypes_little", "every type, little-endian", dtypes(byte_order::little)},
      {"types/dtypes_big", "every type, big-endian", dtypes(byte_order::big)},
      {"codecs/codecs", "every filter and compression that is written", codecs()},
      {"codecs/packing", "simple_packing at widths 0 to 64 and three decimal scales",
       packing_widths()},
      {"codecs/bitmask", "bits in every compression they have", bitmasks()},
      {"masks/mask_none", "masks as they are", masks(mask_method::none, 0)},
      {"masks/mask_rle", "masks as runs", masks(mask_method::rle, 0)},
      {"masks/mask_roaring", "masks as Roaring", masks(mask_method::roaring, 0)},
      {"masks/mask_lz4", "masks in lz4", masks(mask_method::lz4, 0)},
      {"masks/mask_zstd", "masks in zstd", masks(mask_method::zstd, 0)},
      {"masks/mask_small", "masks below the threshold",
       masks(mask_method::roaring, 4096)},
      {"layout/stream", "streamed, a preceder, no lengths", stream(false, false)},
      {"layout/stream_length", "streamed, lengths filled in", stream(true, false)},
      {"layout/stream_base", "streamed, a preceder over names known beforehand",
       stream(true, true)},
      {"layout/empty", "no objects", whole({})},
      {"layout/hash_none", "no digests", whole({field(4)}, bare)},
      {"layout/hash_both", "digest lists in header and footer", whole({field(4)}, twice)},
      {"layout/hash_footer", "digest list in the footer", whole({field(4)}, footer)},
      {"layout/aligned", "payloads at multiples of 64 bytes",
       whole({field(4), field(9), sample(1, dtype::uint8, {3}), field(1)}, aligned)},
      {"layout/lookalike", "a payload that holds every marker", lookalike()},
      {"layout/descriptor_first", "descriptor before the payload", descriptor_first()},
      {"layout/many", "300 objects of one byte: an index that the reference cannot write",
       whole(std::vector<sample_object>(300, sample(1, dtype::uint8, {1})))},
      {"layout/two", "two messages", both(small, small, "")},
      {"damage/bad_between", "bytes between messages", both(small, small, "garbage!")},
      {"damage/bad_metadata", "a flipped bit in the metadata", flipped(small, 60)},
      {"damage/bad_payload", "a flipped bit in the payload", flipped(small, payload)},
      {"damage/bad_postamble", "another length in the postamble",
       flipped(small, small.size() - 9)},
      {"damage/bad_cut", "the end is missing", {small.begin(), small.end() - 30}}};
  return out;
}

/// Returns the entry of a file in the manifest.
cbor_map describe(const byte_vector& bytes) {
  cbor_array messages;
  for (const message_span& span : scan(bytes)) {
    const auto reader =
        message_reader::open(bytes_view(bytes).subspan(span.offset, span.length));
    cbor_array objects;
    for (std::size_t i = 0; reader && i < reader->object_count(); ++i) {
      const auto elements = reader->decode(i);
      if (!elements) {
        continue;
      }
      const object_descriptor& d = reader->descriptor(i);
      objects.emplace_back(cbor_map{{"dtype", info_of(d.type).tensogram},
                                    {"shape", cbor_array(d.shape.begin(), d.shape.end())},
                                    {"bytes", elements->size()},
                                    {"sha256", sha256_text(*elements)}});
    }
    messages.emplace_back(cbor_map{{"offset", span.offset},
                                   {"length", span.length},
                                   {"objects", std::move(objects)}});
  }
  return {{"sha256", sha256_text(bytes)},
          {"sound", validate(bytes_view(bytes)).ok()},
          {"messages", std::move(messages)}};
}

/// Writes the files and the manifest.
void write_all(const std::string& folder) {
  cbor_map files;
  for (const char* part : {"types", "codecs", "masks", "layout", "damage"}) {
    if (!posix_file_system().exists(folder + "/" + part)) {
      or_throw(posix_file_system().make_folder(folder + "/" + part));
    }
  }
  for (const vector_file& file : all_vectors()) {
    const std::string name = std::string(file.name) + ".tgm";
    or_throw(write_file_atomically(posix_file_system(), folder + "/" + name, file.bytes));
    cbor_map entry = describe(file.bytes);
    entry.set("what", file.content);
    files.set(name, std::move(entry));
  }
  const std::string json = to_json(cbor_value(std::move(files)), 1) + "\n";
  or_throw(write_file_atomically(posix_file_system(), folder + "/manifest.json",
                                 as_view(json)));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_vectors FOLDER\n");
    return 2;
  }
  try {
    write_all(argv[1]);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "make_vectors: %s\n", failure.what());
    return 1;
  }
  return 0;
}
