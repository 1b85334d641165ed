// SPDX-License-Identifier: Apache-2.0
/// @file
/// `weir tgm ls` and `weir tgm dump` of objects: their digests and their values.
#include <algorithm>

#include "cli/elements.hpp"
#include "tgm/damage.hpp"
#include "tgm/picture.hpp"
#include "tgm/verbs.hpp"
#include "weir/base/hash.hpp"
#include "weir/base/text.hpp"
#include "weir/models/prose.hpp"

namespace weir::tools {

namespace {

using formats::message_reader;
using formats::message_span;

/// The lines of one message. They are written once the whole message has been read, so
/// that a damaged one leaves none of them.
class message_listing {
 public:
  message_listing(const message_reader& reader, bool json)
      : reader_(reader), json_(json) {}

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
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }

  result<void> add_object(std::size_t i) {
    const auto elements = reader_.decode(i);
    if (elements) {
      digest_.add(object_name(reader_, i), reader_.descriptor(i).shape, *elements);
      add_facts(i, hex64(xxh3_64(*elements)), "");
      return {};
    }
    if (elements.error().code() != errc::unsupported) {
      return elements.error();
    }
    // Everything but the elements is known of an object whose codec is not built.
    WEIR_CHECK(reader_.verify());
    undecoded_ += 1;
    add_facts(i, "", elements.error().root().text());
    return {};
  }

  /// `problem` says why there is no digest.
  void add_facts(std::size_t i, const std::string& digest, const std::string& problem) {
    const auto& d = reader_.descriptor(i);
    const std::string name = object_name(reader_, i);
    if (json_) {
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
      add("  {:3}  {:32} {:10} {:16} {:>10}  {:5} {}\n", i, name.empty() ? "-" : name,
          info_of(d.type).tensogram, shape_text(d.shape),
          human_bytes(reader_.object_bytes(i)), d.compression,
          problem.empty() ? digest : "no digest: " + problem);
    }
  }

  void add_digest() {
    if (json_) {
      add("],\n   \"digest\": {}}}",
          undecoded_ == 0 ? "\"" + hex64(digest_.value()) + "\"" : "null");
    } else if (undecoded_ == 0) {
      add("  digest {} over names, shapes and bytes\n", hex64(digest_.value()));
    } else {
      add("  no digest over names, shapes and bytes: {} cannot be decoded\n",
          counted(undecoded_, "object"));
    }
  }

  const message_reader& reader_;
  bool json_;
  std::size_t undecoded_ = 0;
  models::parameter_digest digest_;
  std::string text_;
};

result<void> dump_object(const message_reader& reader, std::size_t i,
                         const tgm_verb_options& options, output& out) {
  const auto& d = reader.descriptor(i);
  WEIR_TRY(const byte_vector bytes, reader.decode(i));
  if (options.raw) {
    out.write(bytes_view(bytes));
    return {};
  }
  const auto count = static_cast<std::uint64_t>(element_count(d.shape));
  const std::uint64_t shown = options.limit == 0 ? count : std::min(options.limit, count);
  out.print(
      "{{\"object\": {}, \"name\": {}, \"dtype\": \"{}\", \"shape\": {}, \"metadata\": "
      "{}, "
      "\"values\": [",
      i, json_quote(object_name(reader, i)), info_of(d.type).tensogram,
      shape_text(d.shape), formats::to_json(reader.metadata(i)));
  for (std::uint64_t k = 0; k < shown; ++k) {
    out.print("{}{}", k == 0 ? "" : ", ", element_json(d.type, bytes, k));
  }
  out.print("], \"values_left_out\": {}}}\n", count - shown);
  return {};
}

/// The values of one object, which the first message of the file holds, or of all objects.
result<void> dump_file(const message_file& file, const tgm_verb_options& options,
                       output& out) {
  if (file.spans.empty() && !options.object.empty()) {
    return file.without_message();
  }
  for (std::size_t m = 0; m < file.spans.size(); ++m) {
    WEIR_TRY(const message_reader reader, file.open(m, options.reading()));
    if (!options.object.empty()) {
      WEIR_TRY(const std::size_t i, object_called(reader, options.object));
      return dump_object(reader, i, options, out);
    }
    out.print("{{\"message\": {}, \"extra\": {}}}\n", m,
              formats::to_json(reader.metadata().extra));
    for (std::size_t i = 0; i < reader.object_count(); ++i) {
      WEIR_CHECK(dump_object(reader, i, options, out));
    }
  }
  return {};
}

}  // namespace

command_result tgm_list_objects(const tgm_verb_options& options, output& out) {
  damage_report damage(options.skip_damaged);
  WEIR_TRY(const message_file file, damage.open(options.files.front()));
  if (options.json) {
    out.print("{{\"file\": {}, \"messages\": [", json_quote(file.name));
  }
  const char* separator = "\n";
  for (std::size_t m = 0; m < file.spans.size(); ++m) {
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

command_result tgm_dump_values(const tgm_verb_options& options, output& out) {
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
