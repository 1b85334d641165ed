// SPDX-License-Identifier: Apache-2.0
/// @file
/// Verbs that take one object out of a file: export and show; and doctor.
#include <cmath>

#include "tgm/messages.hpp"
#include "tgm/picture.hpp"
#include "tgm/verbs.hpp"
#include "weir/base/file.hpp"
#include "weir/base/text.hpp"
#include "weir/formats/tensogram_validate.hpp"

namespace weir::tools {

using formats::cbor_array;
using formats::cbor_map;
using formats::message_reader;

namespace {

constexpr std::size_t widest_picture = 1024;
constexpr std::size_t terminal_columns = 80;
constexpr std::size_t terminal_rows = 48;

result<std::size_t> message_of(const tgm_verb_options& options,
                               const message_file& file) {
  if (options.message >= file.spans.size()) {
    return error(
        errc::not_found,
        fmt::format("cannot find message {}: expected a number below {}, found it "
                    "beyond",
                    options.message, file.spans.size()));
  }
  return static_cast<std::size_t>(options.message);
}

/// A round trip through one pipeline. Text of what went wrong, empty if nothing did.
std::string self_test(const formats::object_descriptor& descriptor, bytes_view elements,
                      double bound) {
  const formats::object_to_write one{descriptor, {}, elements};
  const auto message = formats::encode_message({&one, 1});
  if (!message) {
    return message.error().text();
  }
  const auto reader = message_reader::open(*message);
  if (!reader) {
    return reader.error().text();
  }
  const auto back = reader->decode(0);
  if (!back) {
    return back.error().text();
  }
  const auto before = as_doubles(descriptor, elements);
  const auto after = as_doubles(descriptor, *back);
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (!(std::abs(before[i] - after[i]) <= bound)) {
      return fmt::format("element {} came back as {} instead of {}", i, after[i],
                         before[i]);
    }
  }
  return {};
}

struct codec_test {
  const char* name;
  formats::object_descriptor descriptor;
  double bound;
};

std::vector<codec_test> codec_tests() {
  std::vector<codec_test> out;
  const auto add = [&](const char* name, const char* encoding, const char* filter,
                       const char* compression, cbor_map parameters, double bound) {
    formats::object_descriptor d;
    d.type = dtype::fp64;
    d.shape = {1000};
    d.encoding = encoding;
    d.filter = filter;
    d.compression = compression;
    d.parameters = std::move(parameters);
    out.push_back({name, std::move(d), bound});
  };
  const cbor_map szip{{"szip_rsi", 128}, {"szip_block_size", 16}, {"szip_flags", 8}};
  cbor_map packed_szip = szip;
  packed_szip.set("sp_bits_per_value", 24);
  cbor_map shuffled = {{"shuffle_element_size", 8}};
  add("none", "none", "none", "none", {}, 0);
  add("lz4", "none", "none", "lz4", {}, 0);
  add("zstd", "none", "shuffle", "zstd", shuffled, 0);
  add("blosc2", "none", "none", "blosc2", {}, 0);
  add("szip", "simple_packing", "none", "szip", packed_szip, 1e-4);
  add("zfp", "none", "none", "zfp",
      {{"zfp_mode", "fixed_accuracy"}, {"zfp_tolerance", 1e-3}}, 1e-3);
  add("simple_packing", "simple_packing", "none", "none", {{"sp_bits_per_value", 16}},
      1e-2);
  return out;
}

}  // namespace

command_result tgm_export(const tgm_verb_options& options, output& out) {
  WEIR_TRY(const message_file file, read_messages(options.files.front()));
  WEIR_TRY(const std::size_t m, message_of(options, file));
  WEIR_TRY(const message_reader reader, file.open(m));
  WEIR_TRY(const std::size_t i, object_called(reader, options.object));
  WEIR_TRY(const byte_vector elements, reader.decode(i));
  const byte_vector npy = as_npy(reader.descriptor(i), elements);
  WEIR_CHECK(write_file_atomically(posix_file_system(), options.out, npy));
  if (options.json) {
    out.print("{}\n", formats::to_json(formats::cbor_value(cbor_map{
                          {"out", options.out},
                          {"dtype", info_of(reader.descriptor(i).type).tensogram},
                          {"bytes", npy.size()}})));
  }
  return 0;
}

command_result tgm_show(const tgm_verb_options& options, output& out) {
  WEIR_TRY(const message_file file, read_messages(options.files.front()));
  WEIR_TRY(const std::size_t m, message_of(options, file));
  WEIR_TRY(const message_reader reader, file.open(m));
  WEIR_TRY(const std::size_t i, object_called(reader, options.object));
  WEIR_TRY(const byte_vector elements, reader.decode(i));
  const auto& d = reader.descriptor(i);
  const auto values = as_doubles(d, elements);
  const raster small = make_raster(d, values, terminal_columns, terminal_rows);
  if (small.values.empty()) {
    return error(errc::invalid_argument,
                 "cannot draw: expected at least one element, found none");
  }
  if (!options.out.empty()) {
    WEIR_CHECK(
        save_png(make_raster(d, values, widest_picture, widest_picture), options.out));
  }
  const auto text = [&](const char* key) -> std::string {
    const auto* value = reader.metadata(i).find(key);
    return value != nullptr && value->text() != nullptr ? *value->text() : "";
  };
  if (options.json) {
    out.print("{}\n", formats::to_json(formats::cbor_value(
                          cbor_map{{"name", text("name")},
                                   {"units", text("units")},
                                   {"dtype", info_of(d.type).tensogram},
                                   {"shape", cbor_array(d.shape.begin(), d.shape.end())},
                                   {"lowest", small.lowest},
                                   {"highest", small.highest},
                                   {"out", options.out}})));
    return 0;
  }
  out.write(as_blocks(small));
  out.print("{} {} {} from {} to {} {}\n",
            text("name").empty() ? fmt::format("object {}", i) : text("name"),
            info_of(d.type).tensogram, shape_text(d.shape), small.lowest, small.highest,
            text("units"));
  return 0;
}

command_result tgm_doctor(const tgm_verb_options& options, output& out) {
  std::vector<double> values(1000);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = 250 + static_cast<double>(i % 97) / 4;
  }
  cbor_array tests;
  cbor_array features;
  bool good = true;
  for (const codec_test& test : codec_tests()) {
    const std::string wrong =
        self_test(test.descriptor, std::as_bytes(std::span(values)), test.bound);
    good = good && wrong.empty();
    cbor_map row{{"label", test.name}, {"outcome", wrong.empty() ? "ok" : "failed"}};
    if (!wrong.empty()) {
      row.set("error", wrong);
    }
    if (!options.json) {
      out.print("{:16} {}\n", test.name, wrong.empty() ? "ok" : wrong);
    }
    tests.emplace_back(std::move(row));
    features.emplace_back(
        cbor_map{{"name", test.name}, {"kind", "compression"}, {"state", "on"}});
  }
  features.emplace_back(
      cbor_map{{"name", "sz3"}, {"kind", "compression"}, {"state", "off"}});
  if (options.json) {
    out.print("{}\n",
              formats::to_json(
                  formats::cbor_value(cbor_map{
                      {"build", cbor_map{{"version", WEIR_VERSION}, {"wire_version", 3}}},
                      {"features", std::move(features)},
                      {"self_test", std::move(tests)}}),
                  2));
  } else {
    out.print("{:16} not built\n", "sz3");
  }
  return good ? 0 : exit_code_of(errc::internal);
}

}  // namespace weir::tools
