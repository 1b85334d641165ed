// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the objects of the reference's files one by one: ranges, values under masks, and
/// equal bytes when an object is written again.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "formats/support.hpp"
#include "support/fixtures.hpp"
#include "support/sha256.hpp"
#include "weir/base/hash.hpp"
#include "weir/formats/tensogram.hpp"

namespace weir::test {
namespace {

using namespace formats;
using nlohmann::json;

/// Calls `use(name, reader, i, object)` for every object of every sound file.
template <class Use>
void for_each_object(const std::string& folder, const read_options& options,
                     const Use& use) {
  std::ifstream in(folder + "/wheel/manifest.json");
  const json files = json::parse(in).at("files");
  for (auto entry = files.begin(); entry != files.end(); ++entry) {
    const std::string& name = entry.key();
    const json& file = entry.value();
    if (!file.at("should_be_valid").get<bool>() || name == "hand_unpadded.tgm" ||
        name == "evil_payload_stream.tgm") {
      continue;
    }
    const byte_vector bytes = load(folder + "/wheel/" + name);
    const auto spans = scan(bytes);
    for (std::size_t m = 0; m < spans.size(); ++m) {
      const auto part = bytes_view(bytes).subspan(spans[m].offset, spans[m].length);
      const auto reader = or_throw(message_reader::open(part, options));
      for (std::size_t i = 0; i < reader.object_count(); ++i) {
        SCOPED_TRACE(name + ", object " + std::to_string(i));
        use(file, reader, i, file["messages"][m]["objects"][i]);
      }
    }
  }
}

TEST(tensogram_objects, ranges_are_those_of_the_reference) {
  WEIR_NEEDS_FIXTURES(folder, "tensogram");
  std::size_t compared = 0;
  std::size_t refused = 0;
  for_each_object(
      folder, {},
      [&](const json&, const message_reader& reader, std::size_t i, const json& object) {
        if (!object.contains("range") || object["compression"] == "sz3") {
          return;
        }
        const json& range = object["range"];
        if (!range.contains("ranges")) {
          return;
        }
        byte_vector joined;
        for (const json& one : range["ranges"]) {
          const auto part = reader.decode_range(i, one[0], one[1]);
          if (!part) {
            EXPECT_TRUE(object["filter"] == "shuffle" || object["dtype"] == "bitmask")
                << part.error().message();
            ++refused;
            return;
          }
          append(joined, *part);
        }
        if (range.contains("sha256")) {
          EXPECT_EQ(sha256_text(joined), range["sha256"]);
          ++compared;
        }
      });
  EXPECT_GT(compared, 100u);
  RecordProperty("compared", static_cast<int>(compared));
  RecordProperty("refused", static_cast<int>(refused));
}

// Every range of the payload must equal the slice of the whole. At least one file must
// have wrong offsets, or the test would show nothing.
TEST(tensogram_objects, a_range_is_right_even_where_the_offsets_of_the_file_are_not) {
  WEIR_NEEDS_FIXTURES(folder, "tensogram");
  std::size_t wrong = 0;
  for_each_object(
      folder, {},
      [&](const json&, const message_reader& reader, std::size_t i, const json&) {
        object_descriptor d = reader.descriptor(i);
        if (d.compression != "szip" || d.filter != "shuffle" || d.encoding != "none") {
          return;
        }
        // The payload is written again as an object of bytes without the filter, so that
        // ranges of it can be decoded.
        const byte_vector payload = or_throw(reader.stored_payload(i));
        const auto bytes = static_cast<std::int64_t>(reader.object_bytes(i));
        d.type = dtype::uint8;
        d.shape = {bytes};
        d.filter = "none";
        d.parameters.erase("shuffle_element_size");
        const object_to_write one{d, {}, payload, true};
        const byte_vector message = or_throw(encode_message({&one, 1}));
        const auto again = or_throw(message_reader::open(message));
        const byte_vector planes = or_throw(again.decode(0));
        const object_to_write fresh{d, {}, planes};
        const byte_vector right = or_throw(encode_message({&fresh, 1}));
        const auto offsets = or_throw(message_reader::open(right));
        wrong += *offsets.descriptor(0).parameters.find("szip_block_offsets") ==
                         *d.parameters.find("szip_block_offsets")
                     ? 0
                     : 1;
        for (std::int64_t first = 0; first + 100 < bytes; first += 517) {
          const byte_vector part =
              or_throw(again.decode_range(0, static_cast<std::uint64_t>(first), 100));
          ASSERT_TRUE(std::equal(part.begin(), part.end(), planes.begin() + first))
              << first;
        }
      });
  EXPECT_GE(wrong, 1u);
}

TEST(tensogram_objects, zeros_stay_where_masks_are_left_alone) {
  WEIR_NEEDS_FIXTURES(folder, "tensogram");
  read_options options;
  options.restore_non_finite = false;
  std::size_t compared = 0;
  for_each_object(
      folder, options,
      [&](const json&, const message_reader& reader, std::size_t i, const json& object) {
        if (object.contains("unrestored_sha256")) {
          EXPECT_EQ(sha256_text(or_throw(reader.decode(i))), object["unrestored_sha256"]);
          ++compared;
        }
      });
  EXPECT_GT(compared, 50u);
}

/// Returns whether the reference and this project must encode to equal bytes. Libraries
/// for general compression may differ by version.
bool same_bytes_possible(const object_descriptor& d) {
  for (const cbor_entry& mask : d.masks) {
    const std::string& method = *find_path(*mask.value.map(), "method")->text();
    if (method != "none" && method != "rle" && method != "roaring") {
      return false;
    }
  }
  return d.compression == "none" || d.compression == "szip" || d.compression == "rle" ||
         d.compression == "roaring";
}

/// Returns the options that make a writer use the mask methods of a descriptor.
mask_options masks_of(const object_descriptor& d) {
  static const std::map<std::string, mask_method> methods{
      {"none", mask_method::none},
      {"rle", mask_method::rle},
      {"roaring", mask_method::roaring}};
  mask_options out;
  out.nan = out.infinity = true;
  out.small_mask_bytes = 0;
  const auto method = [&](const char* kind, mask_method& to) {
    if (const cbor_value* mask = d.masks.find(kind)) {
      to = methods.at(*mask->map()->find("method")->text());
    }
  };
  method("nan", out.nan_method);
  method("inf+", out.positive_method);
  method("inf-", out.negative_method);
  return out;
}

TEST(tensogram_objects, payload_masks_and_descriptor_come_out_byte_for_byte) {
  WEIR_NEEDS_FIXTURES(folder, "tensogram");
  std::map<std::string, std::size_t> repeated;
  read_options reading;
  reading.native_order = false;
  for_each_object(folder, reading,
                  [&](const json& file, const message_reader& reader, std::size_t i,
                      const json& object) {
                    const object_descriptor& d = reader.descriptor(i);
                    if (file.at("writer") != "wheel" || !same_bytes_possible(d) ||
                        object["frame_xxh3"] == "0000000000000000") {
                      return;
                    }
                    message_options options;
                    const byte_vector elements = or_throw(reader.decode(i));
                    if (d.masks.empty()) {
                      options.floats = non_finite::store;
                    } else {
                      options.masks = masks_of(d);
                    }
                    const object_to_write one{d, {}, elements};
                    const auto message = encode_message({&one, 1}, options);
                    ASSERT_TRUE(message.has_value()) << message.error().message();
                    const auto again = or_throw(message_reader::open(*message));
                    EXPECT_EQ(sha256_text(or_throw(again.stored_payload(0))),
                              object["payload_sha256"]);
                    // The reference's offsets of intervals behind runs of empty blocks
                    // are some bits too small.
                    if (d.compression != "szip" || d.filter != "shuffle") {
                      EXPECT_EQ(hex64(again.frames().back().digest), object["frame_xxh3"])
                          << to_json(cbor_value(d.parameters));
                    }
                    ++repeated[d.encoding + "+" + d.filter + "+" + d.compression +
                               (d.masks.empty() ? "" : "+masks")];
                  });
  EXPECT_GT(repeated["none+none+none"], 300u);
  EXPECT_GT(repeated["none+none+none+masks"], 20u);
  EXPECT_GT(repeated["simple_packing+none+none"], 50u);
  EXPECT_GT(repeated["none+none+szip"], 20u);
  EXPECT_GT(repeated["simple_packing+none+szip"], 3u);
  EXPECT_GT(repeated["none+none+rle"], 5u);
  EXPECT_GT(repeated["none+none+roaring"], 5u);
}

/// Returns the data of the manifest's generator "field": a triangle wave and ten bits of
/// SplitMix64.
byte_vector field(std::uint64_t n) {
  byte_vector out;
  for (std::uint64_t i = 0; i < n; ++i) {
    std::uint64_t z = 1 + (i + 1) * 0x9E37'79B9'7F4A'7C15;
    z = (z ^ (z >> 30)) * 0xBF58'476D'1CE4'E5B9;
    z = (z ^ (z >> 27)) * 0x94D0'49BB'1331'11EB;
    z ^= z >> 31;
    const std::uint64_t phase = i % 194;
    const std::uint64_t triangle = phase > 97 ? phase - 97 : 97 - phase;
    const double value =
        250 + static_cast<double>(triangle) / 4 + static_cast<double>(z >> 54) / 1024;
    append(out, {reinterpret_cast<const std::byte*>(&value), sizeof value});
  }
  return out;
}

TEST(tensogram_objects, zfp_of_the_same_source_gives_the_same_bytes) {
  WEIR_NEEDS_FIXTURES(folder, "tensogram");
  std::size_t repeated = 0;
  for_each_object(
      folder, {},
      [&](const json&, const message_reader& reader, std::size_t i, const json& object) {
        if (object["compression"] != "zfp") {
          return;
        }
        const byte_vector source =
            field(object["decoded_bytes"].get<std::uint64_t>() / 8);
        ASSERT_EQ(sha256_text(source), object["source_sha256"]);
        const object_to_write one{reader.descriptor(i), {}, source};
        const byte_vector message = or_throw(encode_message({&one, 1}));
        const auto again = or_throw(message_reader::open(message));
        EXPECT_EQ(hex64(again.frames().back().digest), object["frame_xxh3"])
            << to_json(cbor_value(one.descriptor.parameters));
        ++repeated;
      });
  EXPECT_EQ(repeated, 23u);
}

TEST(tensogram_objects, everything_else_comes_back_with_the_same_elements) {
  WEIR_NEEDS_FIXTURES(folder, "tensogram");
  std::size_t written = 0;
  for_each_object(
      folder, {},
      [&](const json& file, const message_reader& reader, std::size_t i,
          const json& object) {
        object_descriptor d = reader.descriptor(i);
        if (file.at("writer") != "wheel" || d.compression == "sz3" ||
            same_bytes_possible(d)) {
          return;
        }
        if (d.compression == "zfp" || d.order == byte_order::big) {
          return;
        }
        const cbor_value* codec = d.parameters.find("blosc2_codec");
        if (codec != nullptr && *codec->text() != "zstd") {
          d.parameters.set("blosc2_codec", "lz4");
        }
        message_options options;
        options.masks.nan = options.masks.infinity = true;
        options.masks.nan_method = mask_method::zstd;
        options.masks.positive_method = mask_method::lz4;
        const byte_vector elements = or_throw(reader.decode(i));
        const object_to_write one{d, {}, elements};
        const auto message = encode_message({&one, 1}, options);
        if (!message) {  // the writer refuses combinations on which other readers crash
          EXPECT_EQ(d.compression, "blosc2") << message.error().message();
          return;
        }
        EXPECT_EQ(
            sha256_text(or_throw(or_throw(message_reader::open(*message)).decode(0))),
            object["decoded_sha256"]);
        ++written;
      });
  EXPECT_GT(written, 60u);
}

}  // namespace
}  // namespace weir::test
