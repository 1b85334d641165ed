// SPDX-License-Identifier: Apache-2.0
/// @file
/// The verbs of `weir tgm` that list the content of files: info, ls and get.
///
/// `ls` has two forms. With one file and nothing else it lists objects with digests,
/// which needs decoding. With keys it prints a table of metadata, which reads no payload.
#include <fmt/format.h>

#include "tgm/damage.hpp"
#include "tgm/verbs.hpp"
#include "weir/base/hash.hpp"
#include "weir/base/text.hpp"
#include "weir/models/prose.hpp"

namespace weir::tools {

using formats::cbor_array;
using formats::cbor_map;
using formats::message_reader;
using formats::message_span;

namespace {

/// Returns the keys of `-p`, or the key that the reference prints without the option.
std::vector<std::string> keys_of(const tgm_verb_options& options) {
  // Spaces around a comma are allowed, since keys themselves have none at their ends.
  std::vector<std::string> out;
  for (const std::string& key : split_text(options.keys, ',')) {
    out.emplace_back(trimmed(key));
  }
  return options.keys.empty() ? std::vector<std::string>{"version"} : out;
}

/// Prints the values of keys: one line or one JSON object for each message that the
/// clause of `-w` selects.
class key_columns {
 public:
  /// @param absent  Printed in place of a key that a message does not have; if there is
  /// no such text, an absent key is an error.
  key_columns(const tgm_verb_options& options, const char* separator,
              std::optional<std::string> absent)
      : options_(options),
        separator_(separator),
        absent_(std::move(absent)),
        keys_(keys_of(options)) {}

  // Prints the names of the columns.
  void print_head(output& out) const {
    std::string head;
    for (const std::string& key : keys_) {
      head += (head.empty() ? "" : separator_) + key;
    }
    out.print("{}\n", head);
  }

  // Goes through all files, and ends with the first error that is not skipped.
  command_result print(const where_clause& where, output& out) const {
    damage_report damage(options_.skip_damaged);
    for (const std::string& path : options_.files) {
      WEIR_TRY(const message_file file, damage.open(path));
      for (std::size_t m = 0; m < file.spans.size(); ++m) {
        const auto reader = file.open(m, options_.reading());
        if (!reader) {
          WEIR_CHECK(damage.leave_out(file, m, reader.error()));
        } else if (where.passes(reader->metadata())) {
          // Rows are printed message by message, so output appears while a large file is
          // read.
          WEIR_TRY(const std::string row, row_of(file, m, reader->metadata()));
          out.print("{}\n", row);
        }
      }
    }
    return damage.exit_code();
  }

 private:
  // Returns the row of one message: joined values, or an object of JSON.
  result<std::string> row_of(const message_file& file, std::size_t message,
                             const formats::message_metadata& metadata) const {
    std::string row;
    cbor_map found;
    for (const std::string& key : keys_) {
      // The address tells the first key from others of the same name.
      row += &key == keys_.data() ? "" : separator_;
      const auto value = text_at(metadata, key);
      if (value) {
        // An object of JSON has only the keys that were found, and no substitutes.
        found.set(key, *value);
      } else if (!absent_) {
        return error(errc::not_found,
                     fmt::format(
                         "cannot find key \"{}\" in message {} of \"{}\": expected it "
                         "in base or _extra_, found it in neither",
                         key, message, file.name))
            .located(file.place(file.spans[message].offset));
      }
      // Reached without a value only if there is a substitute.
      row += value ? *value : *absent_;
    }
    return options_.json ? formats::to_json(std::move(found), 2) : row;
  }

  const tgm_verb_options& options_;
  const char* separator_;
  std::optional<std::string> absent_;
  std::vector<std::string> keys_;
};

/// Collects the lines of one message. They are printed after the whole message has been
/// read, so that nothing is printed of a damaged one.
class message_listing {
 public:
  message_listing(const message_reader& reader, bool as_json)
      : reader_(reader), json_(as_json) {}

  // Returns the text of the message.
  // @param number  Number of the message in the file.
  result<std::string> run(std::size_t number, message_span span) {
    if (json_) {
      add("  {{\"offset\": {}, \"length\": {}, \"objects\": [", span.offset, span.length);
    } else {
      add("message {} at {}: {}, {}\n", number, span.offset,
          counted(reader_.object_count(), "object"), human_bytes(span.length));
    }
    for (std::size_t i = 0; i < reader_.object_count(); ++i) {
      WEIR_CHECK(add_object(i));
    }
    add_digest();
    return std::move(text_);
  }

 private:
  // Appends formatted text. Braces of JSON are doubled in the formats.
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }

  // Decodes an object, and adds its line and its share of the digest of the message.
  result<void> add_object(std::size_t i) {
    const auto elements = reader_.decode(i);
    if (elements) {
      // The digest of the message covers names, shapes and elements, not the way in which
      // they are stored. Two messages with other codecs but equal content have equal
      // digests.
      digest_.add(object_name(reader_, i), reader_.descriptor(i).shape, *elements);
      add_facts(i, hex64(xxh3_64(*elements)), "");
      return {};
    }
    if (elements.error().code() != errc::unsupported) {
      return elements.error();
    }
    // Everything but the elements is known of an object whose codec is not built.
    WEIR_CHECK(reader_.verify());
    const std::string problem = elements.error().root().text();
    // The first problem is enough to say why the message has no digest.
    if (problem_.empty()) {
      problem_ = fmt::format("object {}: {}", i, problem);
    }
    add_facts(i, "", problem);
    return {};
  }

  /// Adds the line of an object.
  /// @param problem  Why there is no digest; empty if there is one.
  void add_facts(std::size_t i, const std::string& digest, const std::string& problem) {
    const auto& d = reader_.descriptor(i);
    const std::string name = object_name(reader_, i);
    if (json_) {
      // The object is left open here and closed below, with or without a digest.
      add("{}\n    {{\"name\": {}, \"dtype\": \"{}\", \"shape\": {}, \"bytes\": {}, "
          "\"stored_bytes\": {}, \"compression\": {}, ",
          i == 0 ? "" : ",", json_quote(name), info_of(d.type).tensogram,
          shape_text(d.shape), reader_.object_bytes(i), reader_.stored_bytes(i),
          json_quote(d.compression));
      if (problem.empty()) {
        add("\"xxh3\": \"{}\"}}", digest);
      } else {
        add("\"xxh3\": null, \"problem\": {}}}", json_quote(problem));
      }
    } else {
      // Columns have fixed widths, because the lines are built before all widths are
      // known.
      add("  {:3}  {:32} {:10} {:16} {:>10}  {:5} {}\n", i, name.empty() ? "-" : name,
          info_of(d.type).tensogram, shape_text(d.shape),
          human_bytes(reader_.object_bytes(i)), d.compression,
          problem.empty() ? digest : "-");
    }
  }

  // Ends the message: a digest if every object was decoded, else the reason.
  void add_digest() {
    const std::string digest = hex64(digest_.value());
    if (json_) {
      add("],\n   \"digest\": {}}}", problem_.empty() ? json_quote(digest) : "null");
    } else if (problem_.empty()) {
      add("  digest {} over names, shapes and bytes\n", digest);
    } else {
      add("  no digest over names, shapes and bytes; {}\n", problem_);
    }
  }

  const message_reader& reader_;
  bool json_;
  std::string problem_;  ///< why the first undecodable object cannot be decoded
  models::parameter_digest digest_;
  std::string text_;
};

/// Lists the objects of one file with their digests.
command_result list_objects(const tgm_verb_options& options, output& out) {
  damage_report damage(options.skip_damaged);
  WEIR_TRY(const message_file file, damage.open(options.files.front()));
  if (options.json) {
    out.print("{{\"file\": {}, \"messages\": [", json_quote(file.name));
  }
  // JSON has commas between messages, not behind each, and a message that is left out has
  // no comma either.
  const char* separator = "\n";
  for (std::size_t m = 0; m < file.spans.size(); ++m) {
    // A function of its own, so that errors of opening and of reading go the same way.
    const auto lines = [&]() -> result<std::string> {
      WEIR_TRY(const message_reader reader, file.open(m, options.reading()));
      return message_listing(reader, options.json).run(m, file.spans[m]);
    }();
    if (!lines) {
      WEIR_CHECK(damage.leave_out(file, m, lines.error()));
      continue;
    }
    out.print("{}{}", options.json ? separator : "", *lines);
    separator = ",\n";
  }
  if (options.json) {
    out.write("]}\n");
  }
  return damage.exit_code();
}

}  // namespace

command_result tgm_info(const tgm_verb_options& options, output& out) {
  cbor_array all;
  // Only the preambles are read here, so the verb is quick for large files.
  for (const std::string& path : options.files) {
    WEIR_TRY(const message_file file, read_messages(path));
    const std::uint64_t size = file.source->size();
    if (options.json) {
      all.emplace_back(cbor_map{{"file", path},
                                {"messages", file.spans.size()},
                                {"size", size},
                                {"version", 3}});
      continue;
    }
    out.print("File: {}\n  Messages: {}\n  Size: {} bytes\n", path, file.spans.size(),
              size);
    // The version is that of messages. A file without any has none to print.
    out.write(file.spans.empty() ? "\n" : "  Version: 3\n\n");
  }
  if (options.json) {
    out.print("{}\n", formats::to_json(formats::cbor_value(std::move(all)), 2));
  }
  return 0;
}

command_result tgm_list(const tgm_verb_options& options, output& out) {
  // Keys, a clause or several files ask for the table.
  if (options.keys.empty() && options.where.empty() && options.files.size() == 1) {
    return list_objects(options, out);
  }
  WEIR_TRY(const where_clause where, where_clause::parse(options.where));
  // Tab and "N/A" are those of the reference.
  const key_columns columns(options, "\t", "N/A");
  if (!options.json) {
    columns.print_head(out);
  }
  return columns.print(where, out);
}

command_result tgm_get(const tgm_verb_options& options, output& out) {
  WEIR_TRY(const where_clause where, where_clause::parse(options.where));
  // A value that is absent ends `get`, since scripts rely on one line for each message.
  return key_columns(options, " ", std::nullopt).print(where, out);
}

}  // namespace weir::tools
