// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reading, choosing and putting together messages.
#include "tgm/messages.hpp"

#include <algorithm>

#include "cli/output.hpp"

namespace weir::tools {

using formats::cbor_map;
using formats::cbor_value;
using formats::message_metadata;
using formats::message_reader;

result<message_reader> message_file::open(std::size_t message,
                                          const formats::read_options& options) const {
  auto reader = message_reader::open(bytes(message), options);
  if (!reader) {
    return error(
               reader.error().code(),
               fmt::format("cannot read message {} of \"{}\": expected a whole message, "
                           "found a damaged or foreign one",
                           message, name))
        .at(fmt::format("{}:{}", name, spans[message].offset))
        .because(reader.error());
  }
  return reader;
}

result<message_file> read_messages(const std::string& path) {
  message_file out;
  out.name = path == "-" ? "standard input" : path;
  WEIR_TRY(out.content, read_input(path));
  out.spans = formats::scan(bytes_view(out.content));
  if (out.spans.empty()) {
    return error(
        errc::corrupt,
        fmt::format("cannot read \"{}\": expected a Tensogram message, found none "
                    "in {} bytes",
                    out.name, out.content.size()));
  }
  return out;
}

std::vector<std::string> split_text(std::string_view text, char at) {
  std::vector<std::string> out;
  while (true) {
    const std::size_t end = text.find(at);
    out.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) {
      return out;
    }
    text.remove_prefix(end + 1);
  }
}

std::optional<std::string> text_at(const message_metadata& metadata,
                                   std::string_view path) {
  if (path == "version") {
    return "3";
  }
  const cbor_value* value = formats::find_path(metadata, path);
  if (value == nullptr) {
    return std::nullopt;
  }
  return value->text() != nullptr ? *value->text() : formats::to_json(*value);
}

result<where_clause> where_clause::parse(const std::string& text) {
  where_clause out;
  if (text.empty()) {
    return out;
  }
  const std::size_t sign = text.find('=');
  const bool negated = sign != std::string::npos && sign > 0 && text[sign - 1] == '!';
  const std::size_t end = negated ? sign - 1 : sign;
  if (sign == std::string::npos || end == 0) {
    return error(errc::invalid_argument,
                 fmt::format("cannot choose messages: expected KEY=VALUE/... or "
                             "KEY!=VALUE/..., found \"{}\"",
                             text));
  }
  out.key_ = text.substr(0, end);
  out.equal_ = !negated;
  out.values_ = split_text(std::string_view(text).substr(sign + 1), '/');
  return out;
}

bool where_clause::passes(const message_metadata& metadata) const {
  if (key_.empty()) {
    return true;
  }
  const auto value = text_at(metadata, key_);
  const bool found =
      value && std::find(values_.begin(), values_.end(), *value) != values_.end();
  return found == equal_;
}

result<void> stored_message::take(const message_reader& reader, std::size_t i) {
  cbor_map base = reader.metadata(i);
  base.erase("_reserved_");
  WEIR_TRY(byte_vector region, reader.stored_region(i));
  descriptors.push_back(reader.descriptor(i));
  metadata.push_back(std::move(base));
  regions.push_back(std::move(region));
  return {};
}

result<void> stored_message::take(const message_reader& reader) {
  WEIR_CHECK(reader.verify());
  for (std::size_t i = 0; i < reader.object_count(); ++i) {
    WEIR_CHECK(take(reader, i));
  }
  return {};
}

result<byte_vector> stored_message::encode() const {
  std::vector<formats::object_to_write> objects;
  for (std::size_t i = 0; i < descriptors.size(); ++i) {
    objects.push_back({descriptors[i], metadata[i], regions[i], true});
  }
  formats::message_options options;
  options.extra = extra;
  options.hashes = hashes;
  options.writer.reproducible = false;
  return formats::encode_message(objects, options);
}

std::string fill_template(const std::string& path, const message_metadata& metadata) {
  std::string out;
  std::size_t at = 0;
  while (at < path.size()) {
    const std::size_t open = path.find('[', at);
    const std::size_t close = open == std::string::npos ? open : path.find(']', open);
    if (close == std::string::npos) {
      break;
    }
    out += path.substr(at, open - at);
    std::string value =
        text_at(metadata, path.substr(open + 1, close - open - 1)).value_or("unknown");
    // A value is part of a name, never a folder.
    std::replace(value.begin(), value.end(), '/', '_');
    out += value;
    at = close + 1;
  }
  return out + path.substr(at);
}

}  // namespace weir::tools
