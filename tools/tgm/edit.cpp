// SPDX-License-Identifier: Apache-2.0
/// @file
/// Verbs that write files: set, copy, merge, split, reshuffle.
#include <algorithm>
#include <array>
#include <map>

#include "tgm/messages.hpp"
#include "tgm/recode.hpp"
#include "tgm/verbs.hpp"
#include "weir/base/file.hpp"

namespace weir::tools {

using formats::cbor_entry;
using formats::cbor_map;
using formats::message_reader;

namespace {

result<void> save(const std::string& path, bytes_view bytes) {
  return write_file_atomically(posix_file_system(), path, bytes);
}

/// What a verb has written: facts as JSON, else `text`, if any.
void report(const tgm_verb_options& options, cbor_map facts, const std::string& text,
            output& out) {
  if (options.json) {
    out.print("{}\n", formats::to_json(formats::cbor_value(std::move(facts))));
  } else if (!text.empty()) {
    out.print("{}\n", text);
  }
}

bool starts_with_any(std::string_view text,
                     std::initializer_list<std::string_view> starts) {
  return std::any_of(starts.begin(), starts.end(), [&](std::string_view start) {
    return text.substr(0, start.size()) == start;
  });
}

/// Keys whose change would make the payload unreadable, and what the library writes.
bool immutable(std::string_view path) {
  if (starts_with_any(path, {"_reserved_"}) ||
      path.find("._reserved_") != std::string_view::npos) {
    return true;
  }
  const std::size_t dot = path.rfind('.');
  const std::string_view leaf =
      dot == std::string_view::npos ? path : path.substr(dot + 1);
  constexpr std::array<std::string_view, 11> fixed{
      "shape",    "strides", "dtype",       "ndim", "type",
      "encoding", "filter",  "compression", "hash", "shuffle_element_size",
      "masks"};
  return std::find(fixed.begin(), fixed.end(), leaf) != fixed.end() ||
         starts_with_any(leaf, {"szip_", "sp_"});
}

/// Sets a dot path; maps on the way are made where there are none.
void set_path(cbor_map& map, std::string_view path, const std::string& value) {
  const std::size_t dot = path.find('.');
  const std::string key(path.substr(0, dot));
  if (dot == std::string_view::npos) {
    map.set(key, value);
    return;
  }
  if (map.find(key) == nullptr || map.find(key)->map() == nullptr) {
    map.set(key, cbor_map());
  }
  set_path(*map.find(key)->map(), path.substr(dot + 1), value);
}

result<void> apply_one(stored_message& message, const std::string& path,
                       const std::string& value) {
  if (immutable(path)) {
    return error(
        errc::invalid_argument,
        fmt::format("cannot set \"{}\": expected a key of metadata, found one that "
                    "says how the payload is read or who wrote it",
                    path));
  }
  for (const std::string_view prefix : {"extra.", "_extra_."}) {
    if (starts_with_any(path, {prefix})) {
      set_path(message.extra, std::string_view(path).substr(prefix.size()), value);
      return {};
    }
  }
  if (starts_with_any(path, {"objects."})) {
    const auto parts = split_text(path, '.');
    const std::size_t i =
        parts.size() > 2 && !parts[1].empty() &&
                parts[1].find_first_not_of("0123456789") == std::string::npos &&
                parts[1].size() < 10
            ? std::stoul(parts[1])
            : message.descriptors.size();
    if (i >= message.descriptors.size()) {
      return error(
          errc::not_found,
          fmt::format("cannot set \"{}\": expected an object below {}, found none", path,
                      message.descriptors.size()));
    }
    set_path(message.descriptors[i].parameters,
             std::string_view(path).substr(9 + parts[1].size()), value);
    return {};
  }
  for (cbor_map& base : message.metadata) {
    set_path(base, path, value);
  }
  if (message.metadata.empty()) {
    set_path(message.extra, path, value);
  }
  return {};
}

result<stored_message> stored_of(const message_reader& reader) {
  stored_message out;
  out.hashes = (reader.flags() & 0x80) != 0;
  out.extra = reader.metadata().extra;
  WEIR_CHECK(out.take(reader));
  return out;
}

result<byte_vector> changed(const message_reader& reader, const std::string& sets) {
  WEIR_TRY(stored_message message, stored_of(reader));
  for (const std::string& one : split_text(sets, ',')) {
    const std::size_t sign = one.find('=');
    if (sign == std::string::npos || sign == 0) {
      return error(errc::invalid_argument,
                   fmt::format("cannot set: expected KEY=VALUE, found \"{}\"", one));
    }
    WEIR_CHECK(apply_one(message, one.substr(0, sign), one.substr(sign + 1)));
  }
  return message.encode();
}

}  // namespace

command_result tgm_set(const tgm_verb_options& options, output& out) {
  WEIR_TRY(const where_clause where, where_clause::parse(options.where));
  WEIR_TRY(const message_file file, read_messages(options.files.front()));
  byte_vector content;
  std::size_t changes = 0;
  for (std::size_t m = 0; m < file.spans.size(); ++m) {
    WEIR_TRY(const message_reader reader, file.open(m));
    if (where.passes(reader.metadata())) {
      WEIR_TRY(const byte_vector message, changed(reader, options.sets));
      append(content, message);
      ++changes;
    } else {
      append(content, file.bytes(m));
    }
  }
  WEIR_CHECK(save(options.out, content));
  report(options,
         {{"out", options.out}, {"messages", file.spans.size()}, {"changed", changes}},
         "", out);
  return 0;
}

command_result tgm_copy(const tgm_verb_options& options, output& out) {
  WEIR_TRY(const where_clause where, where_clause::parse(options.where));
  WEIR_TRY(const message_file file, read_messages(options.files.front()));
  std::map<std::string, byte_vector> outputs;
  const bool plain = options.out.find('[') == std::string::npos;
  if (plain) {
    outputs[options.out];
  }
  formats::read_options reading;
  reading.legacy_packing = options.legacy;
  std::size_t copied = 0;
  for (std::size_t m = 0; m < file.spans.size(); ++m) {
    WEIR_TRY(const message_reader reader, file.open(m, reading));
    if (!where.passes(reader.metadata())) {
      continue;
    }
    ++copied;
    byte_vector& to = outputs[fill_template(options.out, reader.metadata())];
    if (options.recode) {
      WEIR_TRY(const byte_vector again,
               recode_message(reader, m, options.threads, options.masks));
      append(to, again);
    } else {
      append(to, file.bytes(m));
    }
  }
  formats::cbor_array paths;
  for (const auto& [path, content] : outputs) {
    byte_vector whole;
    if (!plain && posix_file_system().exists(path)) {
      WEIR_TRY(whole, read_file(posix_file_system(), path));
    }
    append(whole, content);
    WEIR_CHECK(save(path, whole));
    paths.emplace_back(path);
  }
  report(options, {{"out", std::move(paths)}, {"messages", copied}}, "", out);
  return 0;
}

command_result tgm_merge(const tgm_verb_options& options, output& out) {
  if (options.strategy != "first" && options.strategy != "last" &&
      options.strategy != "error") {
    return error(
        errc::invalid_argument,
        fmt::format("cannot merge: expected strategy first, last or error, found "
                    "\"{}\"",
                    options.strategy));
  }
  stored_message merged;
  for (const std::string& path : options.files) {
    WEIR_TRY(const message_file file, read_messages(path));
    for (std::size_t m = 0; m < file.spans.size(); ++m) {
      WEIR_TRY(const message_reader reader, file.open(m));
      WEIR_CHECK(merged.take(reader));
      for (const cbor_entry& entry : reader.metadata().extra) {
        const auto* had =
            entry.key.text() == nullptr ? nullptr : merged.extra.find(*entry.key.text());
        const bool conflict = had != nullptr && !(*had == entry.value);
        if (conflict && options.strategy == "error") {
          return error(
              errc::invalid_argument,
              fmt::format("cannot merge \"{}\": expected one value of _extra_ key "
                          "{}, found two",
                          path, formats::to_json(entry.key)));
        }
        if (had == nullptr || options.strategy == "last") {
          merged.extra.set(entry.key, entry.value);
        }
      }
    }
  }
  WEIR_TRY(const byte_vector message, merged.encode());
  WEIR_CHECK(save(options.out, message));
  report(options,
         {{"out", options.out},
          {"objects", merged.descriptors.size()},
          {"files", options.files.size()},
          {"strategy", options.strategy}},
         fmt::format("Merged {} objects from {} file(s) into {} (strategy: {})",
                     merged.descriptors.size(), options.files.size(), options.out,
                     options.strategy),
         out);
  return 0;
}

command_result tgm_split(const tgm_verb_options& options, output& out) {
  WEIR_TRY(const message_file file, read_messages(options.files.front()));
  const std::size_t mark = options.out.find("[index]");
  const std::size_t dot = options.out.rfind('.');
  const std::size_t slash = options.out.rfind('/');
  const bool extension =
      dot != std::string::npos && (slash == std::string::npos || dot > slash);
  const auto path_of = [&](std::size_t n) {
    if (mark != std::string::npos) {
      return options.out.substr(0, mark) + fmt::format("{:04}", n) +
             options.out.substr(mark + 7);
    }
    const std::size_t end = extension ? dot : options.out.size();
    return options.out.substr(0, end) + fmt::format("_{:04}", n) +
           options.out.substr(end);
  };
  formats::cbor_array paths;
  const auto save_next = [&](bytes_view bytes) {
    std::string path = path_of(paths.size());
    auto done = save(path, bytes);
    paths.emplace_back(std::move(path));
    return done;
  };
  for (std::size_t m = 0; m < file.spans.size(); ++m) {
    WEIR_TRY(const message_reader reader, file.open(m));
    if (reader.object_count() <= 1) {
      WEIR_CHECK(save_next(file.bytes(m)));
      continue;
    }
    WEIR_CHECK(reader.verify());
    for (std::size_t i = 0; i < reader.object_count(); ++i) {
      stored_message one;
      one.hashes = (reader.flags() & 0x80) != 0;
      one.extra = reader.metadata().extra;
      WEIR_CHECK(one.take(reader, i));
      WEIR_TRY(const byte_vector bytes, one.encode());
      WEIR_CHECK(save_next(bytes));
    }
  }
  const std::string text = fmt::format("Split into {} message(s)", paths.size());
  report(options, {{"out", std::move(paths)}}, text, out);
  return 0;
}

command_result tgm_reshuffle(const tgm_verb_options& options, output& out) {
  WEIR_TRY(const message_file file, read_messages(options.files.front()));
  byte_vector content;
  for (std::size_t m = 0; m < file.spans.size(); ++m) {
    WEIR_TRY(const message_reader reader, file.open(m));
    WEIR_TRY(const stored_message message, stored_of(reader));
    WEIR_TRY(const byte_vector bytes, message.encode());
    append(content, bytes);
  }
  WEIR_CHECK(save(options.out, content));
  report(options, {{"out", options.out}, {"messages", file.spans.size()}},
         fmt::format("Reshuffled {} message(s) from {} to {}", file.spans.size(),
                     file.name, options.out),
         out);
  return 0;
}

}  // namespace weir::tools
