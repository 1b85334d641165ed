// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests files that were made with the reference's package against their manifest:
/// verdicts, metadata, values, and equal bytes when they are written again.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "formats/support.hpp"
#include "support/fixtures.hpp"
#include "support/sha256.hpp"
#include "weir/formats/tensogram.hpp"
#include "weir/formats/tensogram_validate.hpp"

namespace weir::test {
namespace {

using namespace formats;
using nlohmann::json;

/// Returns the entries of the manifest by file name.
json load_manifest(const std::string& folder) {
  std::ifstream in(folder + "/wheel/manifest.json");
  return json::parse(in).at("files");
}

/// Converts a value to the manifest's form, which writes non-finite reals as {"float":
/// text} and byte strings as {"hex": text}.
json as_json(const cbor_value& value) {
  if (const auto real = value.real(); real && !std::isfinite(*real)) {
    return {{"float", std::isnan(*real) ? "nan" : (*real > 0 ? "inf" : "-inf")}};
  }
  if (value.bytes() != nullptr) {
    return {{"hex", to_hex(*value.bytes())}};
  }
  if (value.array() != nullptr) {
    json out = json::array();
    for (const cbor_value& item : *value.array()) {
      out.push_back(as_json(item));
    }
    return out;
  }
  if (value.map() != nullptr) {
    json out = json::object();
    for (const cbor_entry& entry : *value.map()) {
      out[entry.key.text() != nullptr ? *entry.key.text() : to_json(entry.key)] =
          as_json(entry.value);
    }
    return out;
  }
  return json::parse(to_json(value));
}

/// Converts the metadata of a message to the manifest's form.
json as_json(const message_metadata& metadata) {
  return {{"base",
           as_json(cbor_value(cbor_array(metadata.base.begin(), metadata.base.end())))},
          {"_extra_", as_json(cbor_value(metadata.extra))},
          {"_reserved_", as_json(cbor_value(metadata.reserved))}};
}

/// Returns whether the codec of an object is part of this build.
bool is_built(const json& object) {
  return object["compression"] != "sz3";
}

/// Returns whether the reference itself overlooks a part of a file, so that its manifest
/// is incomplete.
bool reference_is_blind(const std::string& name) {
  return name == "hand_unpadded.tgm" || name == "evil_payload_stream.tgm";
}

TEST(tensogram_wheel, the_verdict_on_every_file_is_that_of_a_strict_reader) {
  WEIR_NEEDS_FIXTURES(folder, "tensogram");
  const json files = load_manifest(folder);
  ASSERT_EQ(files.size(), 153u);
  for (const auto& [name, file] : files.items()) {
    SCOPED_TRACE(name);
    const byte_vector bytes = load(folder + "/wheel/" + name);
    EXPECT_EQ(sha256_text(bytes), file.at("sha256"));
    const file_report report = validate(bytes);
    EXPECT_EQ(report.ok(), file.at("should_be_valid").get<bool>())
        << to_json(report, name);
  }
}

using code_set = std::set<std::pair<std::string, std::string>>;

/// Returns the codes of a report with their severities.
code_set codes_of(const message_report& report) {
  code_set out;
  for (const validation_issue& issue : report.issues) {
    out.emplace(issue.code, std::string(name_of(issue.severity)));
  }
  return out;
}

/// Returns whether this project and the reference judge a file differently: the first
/// fault ends the check here where the reference lists its consequences, or the reference
/// overlooks the fault or rates it lower.
bool is_judged_otherwise(const std::string& name) {
  static const std::set<std::string> names{
      "hand_bad_type0.tgm",    "hand_bad_type4.tgm",      "hand_bad_type10.tgm",
      "damage_endf.tgm",       "damage_frame_length.tgm", "damage_fr.tgm",
      "damage_index_fr.tgm",   "damage_first_footer.tgm", "hand_hash_flag_only.tgm",
      "hand_bad_overflow.tgm", "hand_bad_compression.tgm"};
  return names.count(name) != 0 || reference_is_blind(name);
}

/// Returns whether a code may appear although the reference does not report it, or
/// reports it at a higher level only.
bool is_stricter(const std::string& code) {
  static const std::set<std::string> codes{"pipeline_not_built",
                                           "decoded_size_mismatch",
                                           "decode_object_failed",
                                           "index_length_mismatch",
                                           "hash_mismatch",
                                           "postamble_invalid",
                                           "metadata_cbor_non_canonical",
                                           "descriptor_cbor_non_canonical"};
  return codes.count(code) != 0;
}

// The reference has reported the codes of every message at four levels. Each of its codes
// must appear here, and each code here must be one of its codes or a known stricter one.
TEST(tensogram_wheel, the_validation_gives_the_codes_of_the_reference_at_every_level) {
  WEIR_NEEDS_FIXTURES(folder, "tensogram");
  const json files = load_manifest(folder);
  const std::array levels{
      std::pair("validate_quick", validation_options{validation_level::structure}),
      std::pair("validate_default", validation_options{}),
      std::pair("validate_full", validation_options{validation_level::fidelity}),
      std::pair("validate_canonical",
                validation_options{validation_level::fidelity, true})};
  std::size_t compared = 0;
  for (const auto& [name, file] : files.items()) {
    if (is_judged_otherwise(name)) {
      continue;
    }
    const byte_vector bytes = load(folder + "/wheel/" + name);
    for (const auto& [level, options] : levels) {
      SCOPED_TRACE(name + " " + level);
      const file_report report = validate(bytes, options);
      ASSERT_EQ(report.messages.size(), file.at("messages").size());
      for (std::size_t m = 0; m < report.messages.size(); ++m) {
        const code_set ours = codes_of(report.messages[m]);
        code_set theirs;
        for (const json& issue : file["messages"][m].at(level)) {
          theirs.emplace(issue[0].get<std::string>(), issue[1].get<std::string>());
        }
        for (const auto& [code, severity] : theirs) {
          const bool unread = code == "metadata_cbor_non_canonical" &&
                              ours.count({"metadata_cbor_parse_failed", "error"}) != 0;
          EXPECT_TRUE(unread || ours.count({code, severity}) != 0) << code;
        }
        for (const auto& [code, severity] : ours) {
          EXPECT_TRUE(theirs.count({code, severity}) != 0 || is_stricter(code)) << code;
        }
        ++compared;
      }
    }
  }
  EXPECT_EQ(compared, 556u);
}

TEST(tensogram_wheel, every_object_decodes_to_its_digest_or_names_what_is_not_built) {
  WEIR_NEEDS_FIXTURES(folder, "tensogram");
  std::size_t decoded = 0;
  std::size_t unsupported = 0;
  const json files = load_manifest(folder);
  for (const auto& [name, file] : files.items()) {
    if (!file.at("should_be_valid").get<bool>() || reference_is_blind(name)) {
      continue;
    }
    SCOPED_TRACE(name);
    const byte_vector bytes = load(folder + "/wheel/" + name);
    const auto spans = scan(bytes);
    ASSERT_EQ(spans.size(), file.at("messages").size());
    for (std::size_t m = 0; m < spans.size(); ++m) {
      const json& message = file["messages"][m];
      EXPECT_EQ(spans[m].offset, message.at("offset"));
      EXPECT_EQ(spans[m].length, message.at("length"));
      const auto part = bytes_view(bytes).subspan(spans[m].offset, spans[m].length);
      const auto reader = or_throw(message_reader::open(part));
      EXPECT_EQ(as_json(reader.metadata()), message.at("metadata"));
      ASSERT_EQ(reader.object_count(), message.at("objects").size());
      for (std::size_t i = 0; i < reader.object_count(); ++i) {
        SCOPED_TRACE(i);
        const json& object = message["objects"][i];
        const object_descriptor& descriptor = reader.descriptor(i);
        EXPECT_EQ(info_of(descriptor.type).tensogram, object.at("dtype"));
        EXPECT_EQ(json(descriptor.shape), object.at("shape"));
        EXPECT_EQ(descriptor.encoding, object.at("encoding"));
        EXPECT_EQ(descriptor.filter, object.at("filter"));
        EXPECT_EQ(descriptor.compression, object.at("compression"));
        EXPECT_EQ(reader.stored_bytes(i), object.at("payload_bytes"));
        const auto elements = reader.decode(i);
        if (!is_built(object)) {
          ASSERT_FALSE(elements.has_value());
          EXPECT_EQ(elements.error().code(), errc::unsupported);
          EXPECT_FALSE(elements.error().location().empty());
          ++unsupported;
          continue;
        }
        ASSERT_TRUE(elements.has_value()) << elements.error().message();
        EXPECT_EQ(elements->size(), object.at("decoded_bytes"));
        EXPECT_EQ(sha256_text(*elements), object.at("decoded_sha256"));
        ++decoded;
      }
    }
  }
  EXPECT_GT(decoded, 700u);
  EXPECT_EQ(unsupported, 9u);
}

TEST(tensogram_wheel, elements_keep_the_order_of_the_file_when_asked_to) {
  WEIR_NEEDS_FIXTURES(folder, "tensogram");
  const json files = load_manifest(folder);
  const json& objects = files.at("dtypes_big.tgm").at("messages")[0].at("objects");
  const byte_vector bytes = load(folder + "/wheel/dtypes_big.tgm");
  read_options options;
  options.native_order = false;
  const auto reader = or_throw(message_reader::open(bytes, options));
  std::size_t swapped = 0;
  for (std::size_t i = 0; i < reader.object_count(); ++i) {
    const bool differs = objects[i].contains("wire_order_sha256");
    swapped += differs ? 1 : 0;
    EXPECT_EQ(sha256_text(or_throw(reader.decode(i))),
              objects[i].at(differs ? "wire_order_sha256" : "decoded_sha256"));
  }
  EXPECT_EQ(swapped, 12u);
}

/// Returns the first error of reading a file in the strictest way, or nothing if all of
/// it is accepted.
std::optional<errc> refusal_of(bytes_view bytes) {
  read_options options;
  options.hashes = hash_check::required;
  for (const message_span& span : scan(bytes)) {
    const auto reader =
        message_reader::open(bytes.subspan(span.offset, span.length), options);
    if (!reader) {
      return reader.error().code();
    }
    for (std::size_t i = 0; i < reader->object_count(); ++i) {
      if (const auto elements = reader->decode(i); !elements) {
        return elements.error().code();
      }
    }
  }
  return std::nullopt;
}

TEST(tensogram_wheel, damaged_and_malformed_files_are_refused_with_a_named_error) {
  WEIR_NEEDS_FIXTURES(folder, "tensogram");
  const std::set<std::string> found_by_scan_alone{
      "damage_magic.tgm",   "damage_total.tgm",     "damage_end_magic.tgm",
      "damage_cut_10.tgm",  "damage_cut_23.tgm",    "damage_cut_47.tgm",
      "damage_cut_100.tgm", "damage_cut_396.tgm",   "damage_cut_551.tgm",
      "damage_cut_575.tgm", "hand_bad_version2.tgm"};
  const json files = load_manifest(folder);
  for (const auto& [name, file] : files.items()) {
    if (file.at("should_be_valid").get<bool>() || name == "garbage.tgm") {
      continue;
    }
    SCOPED_TRACE(name);
    const byte_vector bytes = load(folder + "/wheel/" + name);
    if (found_by_scan_alone.count(name) > 0) {
      EXPECT_TRUE(scan(bytes).empty());
      const auto whole = message_reader::open(bytes);
      ASSERT_FALSE(whole.has_value());
      EXPECT_FALSE(whole.error().location().empty());
      continue;
    }
    EXPECT_TRUE(refusal_of(bytes).has_value());
  }
}

TEST(tensogram_wheel, refusals_have_the_code_of_their_kind) {
  WEIR_NEEDS_FIXTURES(folder, "tensogram");
  const std::vector<std::pair<std::string, errc>> cases{
      {"damage_payload", errc::hash_mismatch},
      {"damage_slot", errc::hash_mismatch},
      {"damage_metadata", errc::hash_mismatch},
      {"damage_frame_length", errc::corrupt},
      {"damage_index_fr", errc::corrupt},
      {"damage_endf", errc::corrupt},
      {"hand_bad_metadata_hash", errc::hash_mismatch},
      {"hand_bad_hash_slot", errc::hash_mismatch},
      {"hand_bad_hash_list", errc::hash_mismatch},
      {"hand_bad_missing_hash", errc::missing_hash},
      {"hand_legacy_flags", errc::missing_hash},
      {"hand_bad_type4", errc::corrupt},
      {"hand_bad_overflow", errc::corrupt},
      {"hand_bad_compression", errc::corrupt},
      {"hand_bad_dtype", errc::corrupt},
      {"hand_bad_ndim", errc::corrupt},
      {"hand_bad_size", errc::corrupt},
      {"hand_cbor_depth256", errc::corrupt},
      {"hand_cbor_huge_array", errc::corrupt},
      {"hand_cbor_badutf8", errc::corrupt},
  };
  for (const auto& [name, code] : cases) {
    SCOPED_TRACE(name);
    EXPECT_EQ(refusal_of(load(folder + "/wheel/" + name + ".tgm")), code);
  }
}

// The first file is a stream whose payload looks like the end of a message; the second
// has frames without padding. The reference misreads both.
TEST(tensogram_wheel, what_the_reference_cannot_read_of_its_own_is_read) {
  WEIR_NEEDS_FIXTURES(folder, "tensogram");
  const byte_vector evil = load(folder + "/wheel/evil_payload_stream.tgm");
  ASSERT_EQ(scan(evil), (std::vector<message_span>{{0, evil.size()}}));
  const auto stream = or_throw(message_reader::open(evil));
  const json files = load_manifest(folder);
  const std::string hex =
      files.at("evil_payload_stream.tgm")["intended"]["object"]["source"]["hex"];
  EXPECT_EQ(to_hex(or_throw(stream.decode(0))), hex);
  const byte_vector packed = load(folder + "/wheel/hand_unpadded.tgm");
  const auto unpadded = or_throw(message_reader::open(packed));
  EXPECT_EQ(unpadded.object_count(), 2u);
  EXPECT_TRUE(unpadded.decode(1).has_value());
}

/// The options and objects with which the writer must repeat a message of the reference.
struct repeated_message {
  message_options options;
  std::vector<cbor_map> header_base;
  std::vector<sample_object> objects;
  bool stream = false;
  bool with_length = false;
};

/// Returns metadata without the keys that the writer adds itself.
cbor_map without_reserved(cbor_map map) {
  map.erase("_reserved_");
  return map;
}

/// Takes a message of the reference apart.
repeated_message repeat(bytes_view bytes) {
  repeated_message out;
  const auto reader =
      or_throw(message_reader::open(bytes, {hash_check::none, false, false}));
  std::set<int> types;
  for (const frame_info& frame : reader.frames()) {
    types.insert(frame.type);
  }
  out.stream = types.count(7) > 0;
  out.with_length = !reader.streamed();
  out.options.hashes = (reader.flags() & 0x80) != 0;
  const bool header = types.count(3) > 0;
  const bool footer = (reader.flags() & 0x20) != 0;
  out.options.list = header ? (footer ? hash_list::both : hash_list::header)
                            : (footer ? hash_list::footer : hash_list::none);
  out.options.floats = non_finite::store;
  out.options.extra = reader.metadata().extra;
  const cbor_map& reserved = reader.metadata().reserved;
  out.options.writer = {*find_path(reserved, "encoder.name")->text(),
                        *find_path(reserved, "encoder.version")->text(),
                        *reserved.find("time")->text(), *reserved.find("uuid")->text()};
  for (std::size_t i = 0; i < reader.object_count(); ++i) {
    out.objects.push_back({reader.descriptor(i), without_reserved(reader.metadata(i)),
                           or_throw(reader.decode(i))});
    if (out.stream) {
      out.header_base.push_back(std::exchange(out.objects.back().metadata, {}));
    }
  }
  if (out.stream) {  // the caller gave only those entries that are in the header
    const frame_info& first = reader.frames().front();
    const auto item =
        or_throw(decode_cbor(bytes.subspan(first.offset + 16, first.length - 28)));
    const cbor_value* base = item.value.map()->find("base");
    out.header_base.resize(base != nullptr ? base->array()->size() : 0);
  }
  return out;
}

/// Writes such a message, as a whole or as a stream.
byte_vector write_again(const repeated_message& message) {
  if (!message.stream) {
    return or_throw(encode_message(to_write(message.objects), message.options));
  }
  byte_vector out;
  auto writer = or_throw(stream_writer::open(
      [&](bytes_view bytes) {
        append(out, bytes);
        return result<void>();
      },
      message.options, message.header_base));
  for (const sample_object& object : message.objects) {
    or_throw(writer.write(object.to_write()));
  }
  if (message.with_length) {
    or_throw(writer.finish([&](std::uint64_t offset, bytes_view bytes) {
      std::copy(bytes.begin(), bytes.end(),
                out.begin() + static_cast<std::ptrdiff_t>(offset));
      return result<void>();
    }));
  } else {
    or_throw(writer.finish());
  }
  return out;
}

/// Returns whether all payloads are stored as they are, without masks.
bool all_raw(const message_reader& reader) {
  for (std::size_t i = 0; i < reader.object_count(); ++i) {
    const object_descriptor& d = reader.descriptor(i);
    if (d.encoding != "none" || d.filter != "none" || d.compression != "none" ||
        !d.masks.empty()) {
      return false;
    }
  }
  return true;
}

/// Writes the raw messages of a file again, expects equal bytes, and returns their
/// number.
std::size_t repeat_file(const std::string& path) {
  const byte_vector bytes = load(path);
  std::size_t repeated = 0;
  for (const message_span& span : scan(bytes)) {
    const auto part = bytes_view(bytes).subspan(span.offset, span.length);
    if (!all_raw(or_throw(message_reader::open(part)))) {
      continue;
    }
    const byte_vector again = write_again(repeat(part));
    EXPECT_TRUE(std::equal(again.begin(), again.end(), part.begin(), part.end()))
        << "message at " << span.offset;
    ++repeated;
  }
  return repeated;
}

TEST(tensogram_wheel, the_writer_repeats_what_the_reference_wrote_byte_for_byte) {
  WEIR_NEEDS_FIXTURES(folder, "tensogram");
  std::size_t repeated = 0;
  const json files = load_manifest(folder);
  for (const auto& [name, file] : files.items()) {
    if (file.at("writer") == "wheel" && file.at("should_be_valid").get<bool>() &&
        name != "metadata_types.tgm") {
      SCOPED_TRACE(name);
      repeated += repeat_file(folder + "/wheel/" + name);
    }
  }
  EXPECT_GE(repeated, 30u);
  // These files were written by versions 0.17 to 0.20 of the reference.
  for (const char* name : {"simple_f32", "hash_xxh3", "mars_metadata", "multi_message",
                           "multi_object", "multi_object_xxh3", "metadata_parity"}) {
    SCOPED_TRACE(name);
    EXPECT_GE(repeat_file(folder + "/" + name + ".tgm"), 1u);
  }
}

/// Encodes every item of CBOR of a file again, expects equal bytes, and returns the
/// number of items.
std::size_t repeat_cbor(const std::string& path) {
  const byte_vector bytes = load(path);
  std::size_t repeated = 0;
  for (const message_span& span : scan(bytes)) {
    const auto part = bytes_view(bytes).subspan(span.offset, span.length);
    const auto reader = or_throw(message_reader::open(part));
    for (const frame_info& frame : reader.frames()) {
      const bytes_view whole = part.subspan(frame.offset, frame.length);
      const bool object = frame.type == 9;
      const std::uint64_t from =
          object ? load_be<std::uint64_t>(whole.last(20).data()) : 16;
      const bytes_view item =
          whole.subspan(from, whole.size() - from - (object ? 20 : 12));
      const byte_vector again = encode_cbor(or_throw(decode_cbor(item)).value);
      EXPECT_TRUE(std::equal(again.begin(), again.end(), item.begin(), item.end()))
          << "frame at " << frame.offset;
      ++repeated;
    }
  }
  return repeated;
}

TEST(tensogram_wheel, metadata_and_descriptors_are_encoded_to_the_same_bytes) {
  WEIR_NEEDS_FIXTURES(folder, "tensogram");
  std::size_t repeated = 0;
  const json files = load_manifest(folder);
  for (const auto& [name, file] : files.items()) {
    if (file.at("writer") == "wheel" && file.at("should_be_valid").get<bool>()) {
      SCOPED_TRACE(name);
      repeated += repeat_cbor(folder + "/wheel/" + name);
    }
  }
  EXPECT_GT(repeated, 800u);
  for (const char* name :
       {"simple_f32", "hash_xxh3", "mars_metadata", "multi_message", "multi_object",
        "multi_object_xxh3", "metadata_parity", "hundred-msg", "hundred-msg-footer"}) {
    SCOPED_TRACE(name);
    EXPECT_GE(repeat_cbor(folder + "/" + name + ".tgm"), 4u);
  }
}

}  // namespace
}  // namespace weir::test
