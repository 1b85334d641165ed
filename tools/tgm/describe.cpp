// SPDX-License-Identifier: Apache-2.0
/// @file
/// `weir tgm dump`: prints whole messages in the form of the reference implementation, or
/// values of objects.
///
/// The text of `dump` follows the reference implementation line by line, since scripts
/// parse it. The form with values has no counterpart there.
#include <algorithm>
#include <cstdio>

#include "cli/elements.hpp"
#include "tgm/damage.hpp"
#include "tgm/verbs.hpp"
#include "weir/base/text.hpp"

namespace weir::tools {

using formats::cbor_array;
using formats::cbor_map;
using formats::cbor_value;
using formats::message_reader;

namespace {

/// Returns a shape as the reference prints it, with a space behind each comma.
std::string joined_shape(const shape_vector& shape) {
  std::string out;
  for (const std::int64_t extent : shape) {
    out += (out.empty() ? "" : ", ") + std::to_string(extent);
  }
  return "[" + out + "]";
}

/// Prints one line for each key, sorted by the lines.
void print_keys(const cbor_map& map, output& out) {
  // The order of keys in a message is that of its writer. Sorted lines can be compared
  // between messages.
  std::vector<std::string> lines;
  for (const auto& [key, value] : map) {
    const std::string* text = key.text();
    lines.push_back(fmt::format("    {}: {}\n",
                                text != nullptr ? *text : formats::to_json(key),
                                formats::to_json(value)));
  }
  std::sort(lines.begin(), lines.end());
  for (const std::string& line : lines) {
    out.write(line);
  }
}

/// Prints a message as text in the form of the reference implementation.
void print_message(std::size_t number, const message_reader& reader, output& out) {
  out.print("=== Message {} ===\nversion: 3\nobjects: {}\n", number,
            reader.object_count());
  // All descriptors come first and all metadata second, as in the reference.
  for (std::size_t i = 0; i < reader.object_count(); ++i) {
    const auto& d = reader.descriptor(i);
    out.print("  object[{}]: type={}, dtype={}, shape={}\n", i, d.object_type,
              info_of(d.type).tensogram, joined_shape(d.shape));
  }
  for (std::size_t i = 0; i < reader.object_count(); ++i) {
    out.print("  base[{}]:\n", i);
    print_keys(reader.metadata(i), out);
  }
  if (!reader.metadata().extra.empty()) {
    out.write("  extra:\n");
    print_keys(reader.metadata().extra, out);
  }
  out.write("\n");
}

/// Returns a message as JSON in the form of the reference implementation.
cbor_value json_of(const message_reader& reader) {
  cbor_array base;
  cbor_array objects;
  for (std::size_t i = 0; i < reader.object_count(); ++i) {
    const auto& d = reader.descriptor(i);
    base.emplace_back(reader.metadata(i));
    cbor_array shape(d.shape.begin(), d.shape.end());
    // Starts from the keys that the writer put into the descriptor beside the fixed ones,
    // and then sets the fixed ones, which thereby win.
    cbor_map object = d.parameters;
    object.set("type", d.object_type);
    object.set("dtype", info_of(d.type).tensogram);
    object.set("shape", std::move(shape));
    object.set("strides", cbor_array(d.strides.begin(), d.strides.end()));
    object.set("encoding", d.encoding);
    object.set("filter", d.filter);
    object.set("compression", d.compression);
    objects.emplace_back(std::move(object));
  }
  // Keys of empty parts are left out, as in the reference.
  cbor_map out{{"version", 3}, {"objects", std::move(objects)}};
  if (!base.empty()) {
    out.set("base", std::move(base));
  }
  if (!reader.metadata().extra.empty()) {
    out.set("extra", reader.metadata().extra);
  }
  return out;
}

/// Decodes every object, because a successful dump means that the elements are sound,
/// too. Objects that this build cannot decode are verified by their digests and reported
/// on standard error.
/// The text itself needs no payload, only descriptors.
result<void> check_elements(const message_reader& reader, const std::string& place) {
  for (std::size_t i = 0; i < reader.object_count(); ++i) {
    const auto elements = reader.decode(i);
    if (elements) {
      continue;
    }
    if (elements.error().code() != errc::unsupported) {
      return elements.error();
    }
    // Without decoding, the digests are the only check of the elements that is left.
    WEIR_CHECK(reader.verify());
    fmt::print(stderr, "weir: {}: object {} was not decoded: {}\n", place, i,
               elements.error().root().text());
  }
  return {};
}

/// Prints the values of an object as one line of JSON, or its bytes if `--raw` is given.
result<void> dump_object(const opened_object& object, const tgm_verb_options& options,
                         output& out) {
  const message_reader& reader = object.reader;
  const std::size_t i = object.index;
  const auto& d = reader.descriptor(i);
  WEIR_TRY(const byte_vector bytes, reader.decode(i));
  if (options.raw) {
    out.write(bytes_view(bytes));
    return {};
  }
  const auto count = static_cast<std::uint64_t>(element_count(d.shape));
  // A limit of 0 shows everything.
  const std::uint64_t shown = options.limit == 0 ? count : std::min(options.limit, count);
  out.print(
      "{{\"object\": {}, \"name\": {}, \"dtype\": \"{}\", \"shape\": {}, \"metadata\": "
      "{}, "
      "\"values\": [",
      object.number, json_quote(object_name(reader, i)), info_of(d.type).tensogram,
      shape_text(d.shape), formats::to_json(reader.metadata(i)));
  // The values are converted one by one, because their text may be far larger than memory
  // allows for large objects.
  for (std::uint64_t k = 0; k < shown; ++k) {
    out.print("{}{}", k == 0 ? "" : ", ", element_json(d.type, bytes, k));
  }
  // A reader of the line can tell from this number that the list is not whole.
  out.print("], \"values_left_out\": {}}}\n", count - shown);
  return {};
}

/// Prints the values of one object of the first message, or of all objects of the file.
result<void> dump_file(const message_file& file, const tgm_verb_options& options,
                       output& out) {
  // An object was asked for by name, so the absence of messages is an error. Without a
  // name, an empty file gives empty output.
  if (file.spans.empty() && !options.object.empty()) {
    return file.without_message();
  }
  for (std::size_t m = 0; m < file.spans.size(); ++m) {
    if (!options.object.empty()) {
      WEIR_TRY(const opened_object object,
               file.open_object(m, options.object, options.reading()));
      // Returns in the first round: an object is looked up in the first message alone.
      return dump_object(object, options, out);
    }
    WEIR_TRY(message_reader reader, file.open(m, options.reading()));
    // A line for the message comes before the lines of its objects.
    out.print("{{\"message\": {}, \"extra\": {}}}\n", m,
              formats::to_json(reader.metadata().extra));
    opened_object object{std::move(reader)};
    // The reader has the whole message here, so both numbers of the object are the same.
    for (; object.index < object.reader.object_count(); object.number = ++object.index) {
      WEIR_CHECK(dump_object(object, options, out));
    }
  }
  return {};
}

}  // namespace

command_result tgm_describe(const tgm_verb_options& options, output& out) {
  WEIR_TRY(const where_clause where, where_clause::parse(options.where));
  for (const std::string& path : options.files) {
    WEIR_TRY(const message_file file, damage_report().open(path));
    for (std::size_t m = 0; m < file.spans.size(); ++m) {
      WEIR_TRY(const message_reader reader, file.open(m, options.reading()));
      if (!where.passes(reader.metadata())) {
        continue;
      }
      // Done before anything of the message is printed, so that the output holds sound
      // messages alone.
      WEIR_CHECK(check_elements(reader, file.place(file.spans[m].offset)));
      if (options.json) {
        out.print("{}\n", formats::to_json(json_of(reader), 2));
      } else {
        print_message(m, reader, out);
      }
    }
  }
  return 0;
}

command_result tgm_dump_values(const tgm_verb_options& options, output& out) {
  // Bytes of several objects in one stream could not be told apart.
  if (options.raw && options.object.empty()) {
    return error(
        errc::invalid_argument,
        "cannot dump raw bytes: expected --object with a name or a number, found none");
  }
  for (const std::string& path : options.files) {
    WEIR_TRY(const message_file file, damage_report().open(path));
    WEIR_CHECK(dump_file(file, options, out));
  }
  return 0;
}

}  // namespace weir::tools
