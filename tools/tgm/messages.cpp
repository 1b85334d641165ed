// SPDX-License-Identifier: Apache-2.0
/// @file
/// Opens files of messages, and selects messages by their metadata.
///
/// The verbs see a file as a source of bytes and a list of ranges. Whether the bytes are
/// in memory or behind an address matters only for speed.
#include "tgm/messages.hpp"

#include <algorithm>
#include <charconv>

#include "cli/output.hpp"
#include "weir/base/text.hpp"
#include "weir/formats/remote.hpp"
#include "weir/formats/tensogram_outline.hpp"

namespace weir::tools {

using formats::cbor_value;
using formats::message_metadata;
using formats::message_reader;
using formats::message_span;

std::string message_file::place(std::uint64_t offset) const {
  // Compilers give places in the same form, so editors can follow them.
  return fmt::format("{}:{}", name, offset);
}

std::vector<message_span> message_file::gaps() const {
  std::vector<message_span> out;
  std::uint64_t end = 0;
  // Ranges come in ascending order and do not overlap, so one pass is enough.
  const auto add_until = [&](std::uint64_t offset) {
    if (offset > end) {
      out.push_back({end, offset - end});
    }
  };
  for (const message_span& span : spans) {
    add_until(span.offset);
    end = span.offset + span.length;
  }
  // The part behind the last message.
  add_until(source->size());
  return out;
}

/// A local file is in memory as a whole, and is not copied.
result<bytes_view> message_file::bytes(message_span range, byte_vector& buffer) const {
  if (const auto memory = source->view()) {
    return memory->subspan(range.offset, range.length);
  }
  try {
    buffer.resize(range.length);
  } catch (const std::exception&) {
    // A damaged length may ask for more than any machine has. It is an error, not the end
    // of the program.
    return error(errc::out_of_memory,
                 fmt::format("cannot read {} bytes: expected enough memory for them, "
                             "found too little",
                             range.length))
        .located(place(range.offset));
  }
  WEIR_CHECK(source->read(range.offset, buffer));
  return bytes_view(buffer);
}

result<void> message_file::append_message(std::size_t message, byte_vector& to) const {
  byte_vector buffer;
  WEIR_TRY(const bytes_view message_bytes, bytes(spans[message], buffer));
  append(to, message_bytes);
  return {};
}

result<message_reader> message_file::open(std::size_t message,
                                          const formats::read_options& options) const {
  auto reader = message_reader::open(source, spans[message], options);
  // Errors of the connection are passed on as they are, since they say nothing about the
  // message.
  if (!reader && !formats::source_failed(reader.error())) {
    return error(
               reader.error().code(),
               fmt::format("cannot read message {} of \"{}\": expected a whole message, "
                           "found a damaged or foreign one",
                           message, name))
        .located(place(spans[message].offset))
        .because(reader.error());
  }
  return reader;
}

error message_file::without_message() const {
  return error(errc::corrupt,
               fmt::format("cannot read \"{}\": expected a Tensogram message, found none "
                           "in {} bytes",
                           name, source->size()));
}

namespace {

/// Returns the number that a text holds, if it is a number below `count`.
/// Signs, spaces and trailing characters are refused.
std::optional<std::size_t> number_below(const std::string& text, std::size_t count) {
  std::size_t number = 0;
  const char* last = text.data() + text.size();
  const auto [end, problem] = std::from_chars(text.data(), last, number);
  const bool good = problem == std::errc() && end == last && number < count;
  return good ? std::optional(number) : std::nullopt;
}

}  // namespace

result<opened_object> message_file::open_object(
    std::size_t message, const std::string& wanted,
    const formats::read_options& options) const {
  // An outline reads only the header or footer of a message. For files in memory the
  // ordinary reader costs nothing, so the outline is not used there.
  if (source->distant()) {
    WEIR_TRY(const formats::message_outline outline,
             formats::message_outline::open(source, spans[message], options));
    const auto named = outline.find(wanted);
    // A name wins over a number, so an object called "3" can be reached.
    const auto number = named ? named : number_below(wanted, outline.object_count());
    if (number) {
      WEIR_TRY(message_reader reader, outline.object(*number));
      // The reader has one object, so its index there is 0, whatever its number is.
      return opened_object{std::move(reader), 0, *number};
    }
  }
  // Reached for remote files, too, if there is no such object: the ordinary way makes the
  // error with the nearest name.
  WEIR_TRY(message_reader reader, open(message, options));
  WEIR_TRY(const std::size_t i, object_called(reader, wanted));
  return opened_object{std::move(reader), i, i};
}

result<message_file> read_messages(const std::string& path) {
  message_file out;
  if (formats::is_remote_address(path)) {
    // Scanning of remote files needs the index or the preambles alone.
    WEIR_TRY(const auto remote, formats::remote_file::open(path));
    out.name = remote->name();
    out.source = remote->source();
    out.spans = remote->spans();
    return out;
  }
  out.name = path == "-" ? "standard input" : path;
  // Standard input cannot be read twice, so it is kept in memory like a file.
  WEIR_TRY(byte_vector content, read_input(path));
  out.source =
      std::make_shared<formats::memory_byte_source>(std::move(content), out.name);
  WEIR_TRY(out.spans, formats::scan(*out.source));
  return out;
}

std::vector<std::string> split_text(std::string_view text, char separator) {
  std::vector<std::string> out;
  while (true) {
    const std::size_t end = text.find(separator);
    // At the end `end` is npos, and the part reaches to the end of the text.
    out.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) {
      return out;
    }
    text.remove_prefix(end + 1);
  }
}

std::string_view trimmed(std::string_view text) noexcept {
  const std::size_t first = text.find_first_not_of(' ');
  // Both are npos together, if the text has only spaces.
  const std::size_t last = text.find_last_not_of(' ');
  return first == std::string_view::npos ? std::string_view()
                                         : text.substr(first, last - first + 1);
}

std::optional<std::string> text_at(const message_metadata& metadata,
                                   std::string_view path) {
  // The format has only this version, which stands in the preamble and not in the
  // metadata.
  if (path == "version") {
    return "3";
  }
  const cbor_value* value = formats::find_path(metadata, path);
  if (value == nullptr) {
    return std::nullopt;
  }
  // Texts are printed without quotes, all other values as JSON.
  return value->text() != nullptr ? *value->text() : formats::to_json(*value);
}

result<where_clause> where_clause::parse(const std::string& text) {
  where_clause out;
  if (text.empty()) {
    return out;
  }
  const std::size_t sign = text.find('=');
  // In KEY!=VALUE the sign is behind the "!". Values may contain further signs.
  const bool negated = sign != std::string::npos && sign > 0 && text[sign - 1] == '!';
  const std::size_t end = negated ? sign - 1 : sign;
  // A clause without a key would select by an empty name.
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
  // The clause without a key selects everything.
  if (key_.empty()) {
    return true;
  }
  // A message without the key passes `!=` and does not pass `=`.
  const auto value = text_at(metadata, key_);
  const bool found =
      value && std::find(values_.begin(), values_.end(), *value) != values_.end();
  return found == equal_;
}

std::string object_name(const message_reader& reader, std::size_t i) {
  // A name that is no text is treated as none.
  const cbor_value* name = reader.metadata(i).find("name");
  return name != nullptr && name->text() != nullptr ? *name->text() : std::string();
}

result<std::size_t> object_called(const message_reader& reader,
                                  const std::string& wanted) {
  if (const auto i = reader.find(wanted)) {
    return *i;
  }
  if (const auto i = number_below(wanted, reader.object_count())) {
    return *i;
  }
  // Names are collected for the suggestion alone.
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

std::string fill_template(const std::string& path, const message_metadata& metadata) {
  std::string out;
  std::size_t done = 0;
  while (done < path.size()) {
    // An opening bracket without a closing one is kept as it stands.
    const std::size_t open = path.find('[', done);
    const std::size_t close = open == std::string::npos ? open : path.find(']', open);
    if (close == std::string::npos) {
      break;
    }
    out += path.substr(done, open - done);
    std::string value =
        text_at(metadata, path.substr(open + 1, close - open - 1)).value_or("unknown");
    // Values come from the file that is read, so they must not choose another folder,
    // which ".." would do as well as a slash.
    std::replace(value.begin(), value.end(), '/', '_');
    if (value.starts_with('.')) {
      value.front() = '_';
    }
    out += value;
    done = close + 1;
  }
  return out + path.substr(done);
}

}  // namespace weir::tools
