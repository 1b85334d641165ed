// SPDX-License-Identifier: Apache-2.0
/// @file
/// The verbs of `weir tgm` that read one object, export and show; and doctor.
///
/// Export and show share the choice of message and object; doctor prints the report of
/// the self-test of the library.
#include "tgm/messages.hpp"
#include "tgm/picture.hpp"
#include "tgm/verbs.hpp"
#include "weir/base/file.hpp"
#include "weir/base/text.hpp"
#include "weir/formats/tensogram_validate.hpp"

namespace weir::tools {

using formats::cbor_array;
using formats::cbor_map;
using formats::cbor_value;
using formats::message_reader;

namespace {

constexpr std::size_t max_picture = 1024;  // pixels in each direction
/// Columns of characters, each of which shows one pixel across.
constexpr std::size_t terminal_columns = 80;
/// Rows of pixels. A character shows two of them, one above the other.
constexpr std::size_t terminal_rows = 48;

/// Returns the number of the message that the options name, after checking that it
/// exists.
/// Messages count from 0.
result<std::size_t> message_of(const tgm_verb_options& options,
                               const message_file& file) {
  if (file.spans.empty()) {
    return file.without_message();
  }
  if (options.message >= file.spans.size()) {
    return error(
        errc::not_found,
        fmt::format("cannot find message {}: expected a number below {}, found it "
                    "beyond",
                    options.message, file.spans.size()));
  }
  return static_cast<std::size_t>(options.message);
}

/// Prints one line for each row of the self-test: two columns, and the values of
/// "backend", "version" and "error" if the row has them.
void print_rows(const cbor_array& rows, std::pair<const char*, const char*> columns,
                output& out) {
  for (const cbor_value& row : rows) {
    // Absent values become empty texts. The library writes all of these as texts.
    const auto text = [&](const char* key) {
      const cbor_value* value = row.map()->find(key);
      return value != nullptr ? *value->text() : std::string();
    };
    std::string line =
        fmt::format("  {:22} {}", text(columns.first), text(columns.second));
    for (const char* key : {"backend", "version", "error"}) {
      line += text(key).empty() ? "" : " " + text(key);
    }
    out.print("{}\n", line);
  }
}

/// An object with its elements.
struct decoded_object {
  opened_object object;
  byte_vector elements;
};
/// Decodes the object that the options choose.
result<decoded_object> decode_chosen(const tgm_verb_options& options) {
  WEIR_TRY(const message_file file, read_messages(options.files.front()));
  WEIR_TRY(const std::size_t m, message_of(options, file));
  // Of a remote file, only this object is transferred.
  WEIR_TRY(opened_object object, file.open_object(m, options.object, options.reading()));
  WEIR_TRY(byte_vector elements, object.reader.decode(object.index));
  return decoded_object{std::move(object), std::move(elements)};
}

}  // namespace

command_result tgm_export(const tgm_verb_options& options, output& out) {
  WEIR_TRY(const decoded_object chosen, decode_chosen(options));
  const message_reader& reader = chosen.object.reader;
  const std::size_t i = chosen.object.index;
  const byte_vector npy = as_npy(reader.descriptor(i), chosen.elements);
  WEIR_CHECK(save(options.out, npy));
  // Without `--json` the verb is silent, as verbs are that only write a file.
  if (options.json) {
    out.print("{}\n", formats::to_json(formats::cbor_value(cbor_map{
                          {"out", options.out},
                          {"dtype", info_of(reader.descriptor(i).type).tensogram},
                          {"bytes", npy.size()}})));
  }
  return 0;
}

command_result tgm_show(const tgm_verb_options& options, output& out) {
  WEIR_TRY(const decoded_object chosen, decode_chosen(options));
  const message_reader& reader = chosen.object.reader;
  const std::size_t i = chosen.object.index;
  const auto& d = reader.descriptor(i);
  const number_view values(d, chosen.elements);
  // The text is small, the picture large, and both are made from the same values. The
  // range covers all elements, not only the plane that is drawn.
  const raster small = make_raster(d, values, terminal_columns, terminal_rows);
  const value_range range = range_of(values);
  // An object without elements has no picture, in neither form.
  if (small.values.empty()) {
    return error(errc::invalid_argument,
                 "cannot draw: expected at least one element, found none");
  }
  // The PNG is optional: without `-o` there is only the text.
  if (!options.out.empty()) {
    WEIR_CHECK(save_png(make_raster(d, values, max_picture, max_picture), options.out));
  }
  // Returns a key of the metadata of the object, or an empty text.
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
                                   {"lowest", range.lowest},
                                   {"highest", range.highest},
                                   {"out", options.out}})));
    return 0;
  }
  out.write(as_blocks(small));
  // The space belongs to the units, so that none is left at the end of the line.
  const std::string units = text("units").empty() ? "" : " " + text("units");
  out.print("{} {} {} {}\n",
            text("name").empty() ? fmt::format("object {}", chosen.object.number)
                                 : text("name"),
            info_of(d.type).tensogram, shape_text(d.shape),
            // With no finite value the range is empty, which shows as lowest above
            // highest.
            range.lowest <= range.highest
                ? fmt::format("from {} to {}{}", range.lowest, range.highest, units)
                : "without a finite value");
  return 0;
}

command_result tgm_doctor(const tgm_verb_options& options, output& out) {
  const formats::self_test_report report = formats::self_test();
  // The exit code tells scripts whether every codec works.
  const int code = report.good ? 0 : exit_code_of(errc::internal);
  if (options.json) {
    out.print("{}\n", formats::to_json(report.facts, 2));
    return code;
  }
  // Three blocks with fixed titles, as the reference prints them.
  out.write("Build\n");
  for (const formats::cbor_entry& fact : *report.facts.find("build")->map()) {
    const std::string* text = fact.value.text();
    out.print("  {:22} {}\n", *fact.key.text(),
              text != nullptr ? *text : formats::to_json(fact.value));
  }
  out.write("\nCompiled-in features\n");
  print_rows(*report.facts.find("features")->array(), {"name", "state"}, out);
  out.write("\nSelf-test\n");
  print_rows(*report.facts.find("self_test")->array(), {"label", "outcome"}, out);
  out.print("\nStatus: {}\n", report.good ? "HEALTHY" : "UNHEALTHY");
  return code;
}

}  // namespace weir::tools
