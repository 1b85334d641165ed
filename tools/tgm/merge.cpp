// SPDX-License-Identifier: Apache-2.0
/// @file
/// The verbs of `weir tgm` that move objects to other messages: merge, split and
/// reshuffle.
///
/// None of them decodes elements. Objects are moved with the bytes that they are stored
/// with, unless the options ask for masks.
#include "tgm/damage.hpp"
#include "tgm/verbs.hpp"

namespace weir::tools {

using formats::cbor_entry;
using formats::cbor_map;
using formats::message_reader;

namespace {

/// Adds the message-level keys of a message to those of the merged one.
/// @error{invalid_argument, a key has two values and the strategy is "error"}
result<void> merge_extra(cbor_map& merged, const cbor_map& extra,
                         const std::string& strategy, const std::string& path) {
  for (const cbor_entry& entry : extra) {
    // Keys that are no texts cannot be looked up and are always added.
    const auto* had =
        entry.key.text() == nullptr ? nullptr : merged.find(*entry.key.text());
    // The same value twice is no conflict.
    const bool conflict = had != nullptr && !(*had == entry.value);
    if (conflict && strategy == "error") {
      return error(
          errc::invalid_argument,
          fmt::format("cannot merge \"{}\": expected one value of _extra_ key {}, found "
                      "two",
                      path, formats::to_json(entry.key)));
    }
    // With "first", a key that is there stays. With "last" it is replaced, also by an
    // equal value.
    if (had == nullptr || strategy == "last") {
      merged.set(entry.key, entry.value);
    }
  }
  return {};
}

/// Adds all objects of all messages of a file.
result<void> merge_file(stored_message& merged, const std::string& path,
                        const tgm_verb_options& options) {
  WEIR_TRY(const message_file file, damage_report().open(path));
  for (std::size_t m = 0; m < file.spans.size(); ++m) {
    WEIR_TRY(const message_reader reader, file.open(m, options.reading()));
    // Damaged payloads must not get into the new message, where a fresh digest would make
    // them look sound.
    WEIR_CHECK(reader.verify());
    for (std::size_t i = 0; i < reader.object_count(); ++i) {
      WEIR_CHECK(take_with_masks(merged, reader, m, i, options.encoding));
    }
    WEIR_CHECK(
        merge_extra(merged.extra, reader.metadata().extra, options.strategy, path));
  }
  return {};
}

/// Names of the files that `split` writes. The number of the file replaces "[index]"; if
/// a name has no such part, the number is put before its extension.
class numbered_path {
 public:
  explicit numbered_path(const std::string& text) {
    constexpr std::string_view mark = "[index]";
    // Only the first mark is replaced. Further ones stay in the name.
    const std::size_t place = text.find(mark);
    if (place != std::string::npos) {
      before_ = text.substr(0, place);
      after_ = text.substr(place + mark.size());
      return;
    }
    const std::size_t dot = text.rfind('.');
    const std::size_t slash = text.rfind('/');
    // A point in a folder does not begin an extension.
    const bool extension =
        dot != std::string::npos && (slash == std::string::npos || dot > slash);
    const std::size_t end = extension ? dot : text.size();
    before_ = text.substr(0, end) + "_";
    after_ = text.substr(end);
  }
  // Four digits keep the names in order up to 9999 files.
  std::string path(std::size_t number) const {
    return fmt::format("{}{:04}{}", before_, number, after_);
  }

 private:
  std::string before_;
  std::string after_;
};

}  // namespace

command_result tgm_merge(const tgm_verb_options& options, output& out) {
  // Checked before any file is read.
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
    WEIR_CHECK(merge_file(merged, path, options));
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
  WEIR_TRY(const message_file file, damage_report().open(options.files.front()));
  const numbered_path numbered(options.out);
  formats::cbor_array paths;
  // Each file is written as soon as its bytes are known, so one object at a time is in
  // memory. An error leaves the files written so far.
  const auto save_next = [&](bytes_view bytes) {
    std::string path = numbered.path(paths.size());
    auto done = save(path, bytes);
    paths.emplace_back(std::move(path));
    return done;
  };
  for (std::size_t m = 0; m < file.spans.size(); ++m) {
    WEIR_TRY(const message_reader reader, file.open(m, options.reading()));
    // A message that has one object already is copied byte for byte, with all its keys.
    if (reader.object_count() <= 1) {
      byte_vector bytes;
      WEIR_CHECK(file.append_message(m, bytes));
      WEIR_CHECK(save_next(bytes));
      continue;
    }
    WEIR_CHECK(reader.verify());
    for (std::size_t i = 0; i < reader.object_count(); ++i) {
      stored_message one;
      // Every file gets the keys of the whole message.
      one.take_head(reader);
      WEIR_CHECK(take_with_masks(one, reader, m, i, options.encoding));
      WEIR_TRY(const byte_vector bytes, one.encode());
      WEIR_CHECK(save_next(bytes));
    }
  }
  const std::string text = fmt::format("Split into {} message(s)", paths.size());
  report(options, {{"out", std::move(paths)}}, text, out);
  return 0;
}

command_result tgm_reshuffle(const tgm_verb_options& options, output& out) {
  WEIR_TRY(const message_file file, damage_report().open(options.files.front()));
  byte_vector content;
  for (std::size_t m = 0; m < file.spans.size(); ++m) {
    // Encoding writes the index to the front, whatever the order was in the source.
    WEIR_TRY(const message_reader reader, file.open(m, options.reading()));
    WEIR_TRY(const stored_message message, stored_copy(reader, m, options.encoding));
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
