// SPDX-License-Identifier: Apache-2.0
/// @file
/// `weir tgm`: what a Tensogram file holds.
#include <charconv>

#include "commands.hpp"
#include "elements.hpp"
#include "weir/base/file.hpp"
#include "weir/base/hash.hpp"
#include "weir/base/text.hpp"
#include "weir/formats/tensogram.hpp"
#include "weir/models/prose.hpp"

namespace weir::tools {

namespace {

using formats::message_reader;

std::string shown_name(const std::string& file) {
  return file == "-" ? "standard input" : file;
}

// A whole file in memory with its messages; all three commands look at every byte anyway.
struct opened_file {
  byte_vector content;
  std::vector<formats::message_span> spans;
};

result<opened_file> open_messages(const std::string& file) {
  opened_file out;
  WEIR_TRY(out.content, read_input(file));
  out.spans = formats::scan(bytes_view(out.content));
  if (out.spans.empty()) {
    return error(errc::corrupt,
                 fmt::format("cannot read \"{}\": expected a Tensogram message, "
                             "found none in {} bytes",
                             shown_name(file), out.content.size()));
  }
  return out;
}

result<message_reader> open_message(const opened_file& f, std::size_t index,
                                    const std::string& file) {
  const auto& span = f.spans[index];
  auto reader =
      message_reader::open(bytes_view(f.content).subspan(span.offset, span.length));
  if (!reader) {
    return error(reader.error().code(),
                 fmt::format("cannot read message {} of \"{}\": expected a whole "
                             "message, found a damaged or foreign one",
                             index, shown_name(file)))
        .at(fmt::format("{}:{}", shown_name(file), span.offset))
        .because(reader.error());
  }
  return reader;
}

std::string object_name(const message_reader& reader, std::size_t i) {
  const auto* name = reader.metadata(i).find("name");
  return name != nullptr && name->text() != nullptr ? *name->text() : std::string();
}

// What `ls` prints of one message, and the digest over its named tensors.
result<void> list_message(const opened_file& f, std::size_t index,
                          const tgm_options& options, output& out) {
  WEIR_TRY(const message_reader reader, open_message(f, index, options.file));
  models::parameter_digest digest;
  if (options.json) {
    out.print("{}\n  {{\"offset\": {}, \"length\": {}, \"objects\": [",
              index == 0 ? "" : ",", reader.span().offset + f.spans[index].offset,
              f.spans[index].length);
  } else {
    out.print("message {} at {}: {}, {}\n", index, f.spans[index].offset,
              counted(reader.object_count(), "object"),
              human_bytes(f.spans[index].length));
  }
  for (std::size_t i = 0; i < reader.object_count(); ++i) {
    const auto& d = reader.descriptor(i);
    const std::string name = object_name(reader, i);
    WEIR_TRY(const byte_vector bytes, reader.decode(i));
    digest.add(name, d.shape, bytes);
    const std::string hash = hex64(xxh3_64(bytes));
    if (options.json) {
      out.print(
          "{}\n    {{\"name\": {}, \"dtype\": \"{}\", \"shape\": {}, \"bytes\": {}, "
          "\"stored_bytes\": {}, \"compression\": {}, \"xxh3\": \"{}\"}}",
          i == 0 ? "" : ",", json_quote(name), info_of(d.type).tensogram,
          shape_text(d.shape), bytes.size(), reader.stored_bytes(i),
          json_quote(d.compression), hash);
    } else {
      out.print("  {:3}  {:32} {:10} {:16} {:>10}  {:5} {}\n", i,
                name.empty() ? "-" : name, info_of(d.type).tensogram, shape_text(d.shape),
                human_bytes(bytes.size()), d.compression, hash);
    }
  }
  if (options.json) {
    out.print("],\n   \"digest\": \"{}\"}}", hex64(digest.value()));
  } else {
    out.print("  digest {} over names, shapes and bytes\n", hex64(digest.value()));
  }
  return {};
}

result<std::size_t> find_object(const message_reader& reader, const std::string& wanted) {
  if (const auto i = reader.find(wanted)) {
    return *i;
  }
  std::size_t index = 0;
  const auto [end, problem] =
      std::from_chars(wanted.data(), wanted.data() + wanted.size(), index);
  if (problem == std::errc() && end == wanted.data() + wanted.size() &&
      index < reader.object_count()) {
    return index;
  }
  std::vector<std::string> names;
  for (std::size_t i = 0; i < reader.object_count(); ++i) {
    names.push_back(object_name(reader, i));
  }
  return error(
      errc::not_found,
      fmt::format(
          "cannot find object \"{}\": expected a name or a number below {}, found "
          "neither{}",
          wanted, reader.object_count(), did_you_mean(wanted, names)));
}

result<void> dump_object(const message_reader& reader, std::size_t i,
                         const tgm_options& options, output& out) {
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

}  // namespace

command_result tgm_ls(const tgm_options& options, output& out) {
  WEIR_TRY(const opened_file f, open_messages(options.file));
  if (options.json) {
    out.print("{{\"file\": {}, \"messages\": [", json_quote(shown_name(options.file)));
  }
  for (std::size_t i = 0; i < f.spans.size(); ++i) {
    WEIR_CHECK(list_message(f, i, options, out));
  }
  if (options.json) {
    out.write("]}\n");
  }
  return 0;
}

command_result tgm_dump(const tgm_options& options, output& out) {
  WEIR_TRY(const opened_file f, open_messages(options.file));
  if (options.raw && options.object.empty()) {
    return error(
        errc::invalid_argument,
        "cannot dump raw bytes: expected --object with a name or a number, found none");
  }
  for (std::size_t m = 0; m < f.spans.size(); ++m) {
    WEIR_TRY(const message_reader reader, open_message(f, m, options.file));
    if (!options.object.empty()) {
      WEIR_TRY(const std::size_t i, find_object(reader, options.object));
      WEIR_CHECK(dump_object(reader, i, options, out));
      return 0;
    }
    out.print("{{\"message\": {}, \"extra\": {}}}\n", m,
              formats::to_json(reader.metadata().extra));
    for (std::size_t i = 0; i < reader.object_count(); ++i) {
      WEIR_CHECK(dump_object(reader, i, options, out));
    }
  }
  return 0;
}

}  // namespace weir::tools
