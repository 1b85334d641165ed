// SPDX-License-Identifier: Apache-2.0
/// @file
/// `weir tgm set`: changes values of metadata.
///
/// Values are stored as texts, whatever they look like. All keys
/// of `-s` are checked before the file is read.
#include <algorithm>
#include <array>
#include <charconv>

#include "tgm/damage.hpp"
#include "tgm/verbs.hpp"

namespace weir::tools {

using formats::cbor_map;
using formats::message_reader;

namespace {

/// Names in one key. Each is a map in the one before, and readers limit their nesting.
constexpr std::size_t max_names = 32;

/// Returns whether a text starts with one of several prefixes.
bool starts_with_any(std::string_view text,
                     std::initializer_list<std::string_view> starts) {
  return std::any_of(starts.begin(), starts.end(), [&](std::string_view start) {
    return text.substr(0, start.size()) == start;
  });
}

/// Returns whether a key must not be changed: its change would make the payload
/// unreadable, or the library writes it.
bool immutable(std::string_view path) {
  // The second form finds the map on any level, as in objects.0._reserved_.hash.
  if (starts_with_any(path, {"_reserved_"}) ||
      path.find("._reserved_") != std::string_view::npos) {
    return true;
  }
  // The keys of a descriptor that say how the payload is decoded.
  constexpr std::array<std::string_view, 11> fixed{
      "shape",    "strides", "dtype",       "ndim", "type",
      "encoding", "filter",  "compression", "hash", "shuffle_element_size",
      "masks"};
  const auto is_fixed = [&](std::string_view name) {
    return std::find(fixed.begin(), fixed.end(), name) != fixed.end() ||
           // Parameters of szip and of simple packing have common prefixes.
           starts_with_any(name, {"szip_", "sp_"});
  };
  // In objects.N.KEY.NAME, KEY is the key of the descriptor: a name below it changes its
  // value. Keys of other paths are refused by their last name alone.
  const auto names = split_text(path, '.');
  return is_fixed(names.back()) ||
         (names.size() > 3 && names[0] == "objects" && is_fixed(names[2]));
}

/// Sets the value at a dotted path, and creates the maps on the way that do not exist.
void set_path(cbor_map& map, std::string_view path, const std::string& value) {
  const std::size_t dot = path.find('.');
  const std::string key(path.substr(0, dot));
  if (dot == std::string_view::npos) {
    map.set(key, value);
    return;
  }
  // A value on the way that is no map is replaced by one.
  if (map.find(key) == nullptr || map.find(key)->map() == nullptr) {
    map.set(key, cbor_map());
  }
  // Looked up again, because `set` may have moved the map.
  set_path(*map.find(key)->map(), path.substr(dot + 1), value);
}

error cannot_set(errc code, const std::string& path, const std::string& why) {
  return error(code, fmt::format("cannot set \"{}\": {}", path, why));
}

/// Returns the number of the object that a path `objects.N.KEY` names.
result<std::size_t> object_of(const std::vector<std::string>& parts,
                              const std::string& path, std::size_t count) {
  // Negative numbers fail here, since the type has no sign.
  std::size_t i = 0;
  const std::string& number = parts[1];
  const char* last = number.data() + number.size();
  const auto [end, problem] = std::from_chars(number.data(), last, i);
  if (problem != std::errc() || end != last) {
    return cannot_set(
        errc::invalid_argument, path,
        fmt::format("expected the number of an object behind \"objects\", found \"{}\"",
                    number));
  }
  if (parts.size() < 3) {
    return cannot_set(errc::invalid_argument, path,
                      fmt::format("expected a key of the object, as in objects.{}.name, "
                                  "found none",
                                  i));
  }
  if (i >= count) {
    return cannot_set(
        errc::not_found, path,
        fmt::format("expected the number of an object below {}, found {}", count, i));
  }
  return i;
}

/// The contents of one KEY=VALUE of `-s`, checked as far as that is possible without a
/// message.
struct setting {
  std::string path;
  std::string value;
};

/// Errors name the key, not the whole setting.
result<setting> parse_setting(const std::string& text) {
  const std::size_t sign = text.find('=');
  if (sign == std::string::npos || sign == 0) {
    return error(errc::invalid_argument,
                 fmt::format("cannot set: expected KEY=VALUE, found \"{}\"", text));
  }
  const std::string_view all(text);
  const setting out{std::string(trimmed(all.substr(0, sign))),
                    // Spaces around the sign do not count.
                    std::string(trimmed(all.substr(sign + 1)))};
  if (immutable(out.path)) {
    return cannot_set(errc::invalid_argument, out.path,
                      "expected a key of metadata, found one that says how the payload "
                      "is read or who wrote it");
  }
  // An empty name would be a key that no other tool can address.
  const auto parts = split_text(out.path, '.');
  if (parts.size() > max_names) {
    return cannot_set(errc::invalid_argument,
                      fmt::format("{}...", out.path.substr(0, 40)),
                      fmt::format("expected a key of at most {} names, found {}",
                                  max_names, parts.size()));
  }
  if (std::find(parts.begin(), parts.end(), "") != parts.end()) {
    return cannot_set(errc::invalid_argument, out.path,
                      "expected a name between all dots, found none");
  }
  // Just "extra" would replace all keys of the message by a text.
  if (parts.size() == 1 && (out.path == "extra" || out.path == "_extra_")) {
    return cannot_set(errc::invalid_argument, out.path,
                      "expected a key of the message, as in extra.name, found none");
  }
  if (parts.size() == 1 && out.path == "objects") {
    return cannot_set(errc::invalid_argument, out.path,
                      "expected an object and a key, as in objects.0.name, found none");
  }
  return out;
}

result<std::vector<setting>> parse_settings(const std::string& text) {
  std::vector<setting> out;
  for (const std::string& one : split_text(text, ',')) {
    WEIR_TRY(setting parsed, parse_setting(one));
    out.push_back(std::move(parsed));
  }
  return out;
}

/// Sets a value: of the message (extra.KEY), of one object (objects.N.KEY), or of all
/// objects (KEY). A message without objects gets the last kind as a key of its own.
result<void> apply(stored_message& message, const setting& s) {
  const auto parts = split_text(s.path, '.');
  // The prefix and its point are cut off. What remains is a path within the map.
  if (parts[0] == "extra" || parts[0] == "_extra_") {
    set_path(message.extra, std::string_view(s.path).substr(parts[0].size() + 1),
             s.value);
    return {};
  }
  if (parts[0] == "objects") {
    WEIR_TRY(const std::size_t i, object_of(parts, s.path, message.descriptors.size()));
    set_path(message.descriptors[i].parameters,
             std::string_view(s.path).substr(parts[0].size() + parts[1].size() + 2),
             s.value);
    return {};
  }
  // All objects get the key in their part of the metadata.
  for (cbor_map& base : message.metadata) {
    set_path(base, s.path, s.value);
  }
  if (message.metadata.empty()) {
    set_path(message.extra, s.path, s.value);
  }
  return {};
}

}  // namespace

command_result tgm_set(const tgm_verb_options& options, output& out) {
  WEIR_TRY(const where_clause where, where_clause::parse(options.where));
  WEIR_TRY(const std::vector<setting> settings, parse_settings(options.sets));
  WEIR_TRY(const message_file file, damage_report().open(options.files.front()));
  byte_vector content;
  std::size_t changes = 0;
  for (std::size_t m = 0; m < file.spans.size(); ++m) {
    WEIR_TRY(const message_reader reader, file.open(m, options.reading()));
    // Messages that the clause leaves out are copied byte for byte.
    if (!where.passes(reader.metadata())) {
      WEIR_CHECK(file.append_message(m, content));
      continue;
    }
    // Copies objects as they are stored; only metadata changes.
    WEIR_TRY(stored_message message, stored_copy(reader, m, options.encoding));
    for (const setting& s : settings) {
      WEIR_CHECK(apply(message, s));
    }
    WEIR_TRY(const byte_vector bytes, message.encode());
    append(content, bytes);
    ++changes;
  }
  WEIR_CHECK(save(options.out, content));
  // "changed" counts messages to which the settings were applied, whether or not a value
  // differed.
  report(options,
         {{"out", options.out}, {"messages", file.spans.size()}, {"changed", changes}},
         "", out);
  return 0;
}

}  // namespace weir::tools
