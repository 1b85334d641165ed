// SPDX-License-Identifier: Apache-2.0
/// @file
/// The self-test of a build: its features, and a round trip through each codec, the
/// metadata and the scan. It needs no files.
#include <curl/curlver.h>
#include <fmt/core.h>
#include <lz4.h>
#include <zfp.h>
#include <zstd.h>

#include <cmath>
#include <cstring>

#include "weir/formats/tensogram_validate.hpp"

namespace weir::formats {

namespace {

/// Enough for several blocks of each codec, and small enough to take no time.
constexpr std::size_t tested_elements = 1000;

/// A pipeline to be tested, with the largest error that it may make.
struct round_trip {
  std::string label;
  object_descriptor descriptor;
  double bound = 0;  ///< largest error of a value; 0 means that all bytes must be equal
};

/// Returns elements for a test. Floats are multiples of a quarter, which every codec
/// accepts; other types get bytes with runs.
/// The field is the same in every run, so a failure can be repeated.
byte_vector tested_field(const object_descriptor& d) {
  // The size follows from type and shape, also for bits.
  byte_vector out(or_throw(decoded_size(d)));
  // The conditions of both loops select one of them.
  for (std::size_t i = 0; d.type == dtype::fp64 && i < tested_elements; ++i) {
    const double value = 250 + static_cast<double>(i % 97) / 4;
    std::memcpy(out.data() + 8 * i, &value, 8);
  }
  for (std::size_t i = 0; d.type != dtype::fp64 && i < out.size(); ++i) {
    // Runs of zeros suit the codecs of bits, and some other bytes are mixed in.
    out[i] = static_cast<std::byte>(i % 50 < 40 ? 0 : i * 7 & 0xFF);
  }
  return out;
}

/// Returns the text of the error, or an empty string on success.
/// Writes a message with one object, opens it and compares the elements.
std::string try_round_trip(const round_trip& test) {
  const byte_vector field = tested_field(test.descriptor);
  // The descriptor asks for the codec that is tested.
  const object_to_write one{test.descriptor, {}, field};
  const auto message = encode_message({&one, 1});
  if (!message) {
    return message.error().text();
  }
  // Opening reads the message as any other.
  const auto reader = message_reader::open(*message);
  if (!reader) {
    return reader.error().text();
  }
  const auto back = reader->decode(0);
  if (!back) {
    return back.error().text();
  }
  if (test.bound == 0) {
    return *back == field ? "" : "the elements came back as others";
  }
  // Codecs that lose bits may differ by the bound.
  for (std::size_t i = 0; i < tested_elements; ++i) {
    double before = 0;
    double after = 0;
    std::memcpy(&before, field.data() + 8 * i, 8);
    std::memcpy(&after, back->data() + 8 * i, 8);
    // The negated comparison also finds NaN.
    if (!(std::abs(before - after) <= test.bound)) {
      return fmt::format("element {} came back as {} instead of {}", i, after, before);
    }
  }
  return {};
}

/// Returns one test for each codec and for raw payloads.
/// `add` takes the columns of a table: label, type, encoding, filter, compression,
/// parameters, bound.
std::vector<round_trip> all_round_trips() {
  std::vector<round_trip> out;
  const auto add = [&](const char* label, dtype type, const char* encoding,
                       const char* filter, const char* compression, cbor_map parameters,
                       double bound) {
    object_descriptor d;
    d.type = type;
    d.shape = {static_cast<std::int64_t>(tested_elements)};
    d.encoding = encoding;
    d.filter = filter;
    d.compression = compression;
    d.parameters = std::move(parameters);
    out.push_back({label, std::move(d), bound});
  };
  // szip needs integers, so the values are packed to 24 bits before.
  // The flag 8 asks for the preprocessing of szip, which predicts from neighbours.
  const cbor_map szip{{"sp_bits_per_value", 24},
                      {"szip_rsi", 128},
                      {"szip_block_size", 16},
                      {"szip_flags", 8}};
  const auto fp64 = dtype::fp64;
  add("raw round trip", fp64, "none", "none", "none", {}, 0);
  // Sixteen bits for a range of 24 give steps that are smaller than the bound.
  add("simple_packing", fp64, "simple_packing", "none", "none",
      {{"sp_bits_per_value", 16}}, 1e-2);
  add("lz4", fp64, "none", "none", "lz4", {}, 0);
  add("zstd", fp64, "none", "shuffle", "zstd", {{"shuffle_element_size", 8}}, 0);
  add("blosc2", fp64, "none", "none", "blosc2", {}, 0);
  add("szip", fp64, "simple_packing", "none", "szip", szip, 1e-4);
  add("zfp", fp64, "none", "none", "zfp",
      {{"zfp_mode", "fixed_accuracy"}, {"zfp_tolerance", 1e-3}}, 1e-3);
  add("rle", dtype::bitmask, "none", "none", "rle", {}, 0);
  add("roaring", dtype::bitmask, "none", "none", "roaring", {}, 0);
  return out;
}

/// Writes and reads metadata. Returns the error, or an empty string.
std::string try_metadata() {
  message_options options;
  // A text beyond ASCII, and values of several kinds within each other.
  options.extra = {{"text", "ä"}, {"deep", cbor_map{{"list", cbor_array{1, 2.5, true}}}}};
  const auto message = encode_message({}, options);
  // A message may have metadata alone.
  if (!message) {
    return message.error().text();
  }
  const auto back = read_metadata(*message);
  if (!back) {
    return back.error().text();
  }
  return back->extra == options.extra ? "" : "the keys came back as others";
}

/// Finds three messages with other bytes between them. Returns the error, or an empty
/// string.
std::string try_scan() {
  byte_vector file;
  for (int i = 0; i < 3; ++i) {
    const auto message = encode_message({});
    if (!message) {
      return message.error().text();
    }
    file.insert(file.end(), message->begin(), message->end());
    // One byte that belongs to no message.
    file.push_back(std::byte{7});
  }
  const std::size_t found = scan(bytes_view(file)).size();
  return found == 3 ? "" : fmt::format("expected 3 messages, found {}", found);
}

/// Returns the entry of a feature in the report.
/// A backend without a version is code of this project or of the system ("native").
cbor_map feature(const char* name, const char* kind, bool enabled,
                 const char* backend = "", const std::string& version = "") {
  cbor_map out{{"name", name}, {"kind", kind}, {"state", enabled ? "on" : "off"}};
  // A feature that is off has no backend.
  if (enabled && *backend != '\0') {
    out.set("backend", backend);
    out.set("linkage", version.empty() ? "native" : "ffi");
  }
  if (!version.empty()) {
    out.set("version", version);
  }
  return out;
}

/// Returns the features of the whole build. "remote" is the library weir::remote, which
/// is built with every weir::formats.
/// Versions are those of the libraries that were compiled in, if they do not tell at run
/// time.
cbor_array all_features() {
  const std::string zfp =
      fmt::format("{}.{}.{}", ZFP_VERSION_MAJOR, ZFP_VERSION_MINOR, ZFP_VERSION_PATCH);
  return {feature("szip", "compression", true, "own coder"),
          feature("zstd", "compression", true, "libzstd", ZSTD_versionString()),
          feature("lz4", "compression", true, "liblz4", LZ4_versionString()),
          feature("blosc2", "compression", true, "own frames"),
          feature("zfp", "compression", true, "libzfp", zfp),
          // Listed so that the report has the same features as that of the reference.
          feature("sz3", "compression", false),
          feature("rle", "compression", true, "own coder"),
          feature("roaring", "compression", true, "own coder"),
          feature("threads", "threading", true, "std::thread"),
          feature("mmap", "io", true, "mmap"),
          feature("async", "io", true, "std::future"),
          feature("remote", "io", true, "libcurl", LIBCURL_VERSION),
          feature("grib", "converter", false), feature("netcdf", "converter", false)};
}

}  // namespace

/// Runs all tests and adds the facts of the build.
self_test_report self_test() {
  self_test_report out;
  cbor_array rows;
  // `wrong` is empty if the test has succeeded.
  const auto add = [&](const std::string& label, const std::string& wrong) {
    out.good = out.good && wrong.empty();
    cbor_map row{{"label", label}, {"outcome", wrong.empty() ? "ok" : "failed"}};
    if (!wrong.empty()) {
      row.set("error", wrong);
    }
    rows.emplace_back(std::move(row));
  };
  // A failure does not stop the other tests.
  for (const round_trip& test : all_round_trips()) {
    add(test.label, try_round_trip(test));
  }
  add("metadata round trip", try_metadata());
  add("multi-message scan", try_scan());
  // The profile is that of this file, which is built like the others.
#if defined(__OPTIMIZE__)
  const char* const profile = "release";
#else
  const char* const profile = "debug";
#endif
#if defined(__x86_64__)
  const char* const target = "x86_64-linux";
#elif defined(__aarch64__)
  const char* const target = "aarch64-linux";
#else
  const char* const target = "linux";
#endif
  out.facts = {{"build", cbor_map{{"version", WEIR_VERSION},
                                  {"wire_version", 3},
                                  {"target", target},
                                  {"profile", profile}}},
               {"features", all_features()},
               {"self_test", std::move(rows)}};
  return out;
}

}  // namespace weir::formats
