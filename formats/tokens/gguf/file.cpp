// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads the keys of a tokenizer from the header of a GGUF file, and chooses between
/// GGUF and `tokenizer.json` by the first bytes of a file.
///
/// The header of a GGUF file is one list of entries (key, type, value) without a length
/// in front, so a reader that has only the first bytes of a file cannot know whether they
/// are enough. `key_reader` therefore tells "more bytes are needed" (false) from "the
/// header is wrong" (error), and `from_file` reads on and begins again in the first case.
/// @source{GGUF specification, tokenizer.ggml; defaults of llama.cpp}
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <variant>

#include "tokens/build.hpp"
#include "weir/base/container/gguf_walker.hpp"
#include "weir/base/text.hpp"
#include "weir/formats/tokenizer_forms.hpp"

namespace weir::formats {

namespace {

/// Bytes of a file that are read first. Vocabularies take a few megabytes.
/// Most headers of language models are larger than this, because of the vocabulary.
constexpr std::uint64_t first_header_read = std::uint64_t{1} << 20;
/// Longest header that is read.
constexpr std::uint64_t max_header_bytes = std::uint64_t{1} << 30;

/// Values of the keys. Which of the special ids are used depends on the model and on the
/// flags.
struct found_keys {
  gguf_tokenizer keys;
  std::optional<std::uint32_t> cls{};
  std::optional<std::uint32_t> separator{};
  std::optional<bool> add_bos{};
  std::optional<bool> add_eos{};
};

/// Place for the value of one key; the alternative says which type the value must have.
using key_target = std::variant<std::monostate, std::string*, std::vector<std::string>*,
                                std::vector<std::int32_t>*, std::optional<std::uint32_t>*,
                                std::optional<bool>*>;

/// Returns where the value of a key goes; nowhere for keys without use.
key_target target_of(std::string_view key, found_keys& to) {
  constexpr std::string_view prefix = "tokenizer.ggml.";
  // Other keys describe the model, not its tokenizer.
  if (!key.starts_with(prefix)) {
    return {};
  }
  key.remove_prefix(prefix.size());
  // One row for each key that is used, with the place for its value.
  const std::array<std::pair<std::string_view, key_target>, 13> targets{{
      {"model", &to.keys.model},
      {"pre", &to.keys.pre},
      {"tokens", &to.keys.tokens},
      {"merges", &to.keys.merges},
      {"token_type", &to.keys.token_type},
      {"bos_token_id", &to.keys.bos},
      {"eos_token_id", &to.keys.eos},
      {"unknown_token_id", &to.keys.unknown},
      {"cls_token_id", &to.cls},
      // The specification spells this key so.
      {"seperator_token_id", &to.separator},
      {"separator_token_id", &to.separator},
      {"add_bos_token", &to.add_bos},
      {"add_eos_token", &to.add_eos},
  }};
  // Thirteen rows are searched fast enough, as this happens once for each entry.
  const auto row = std::find_if(targets.begin(), targets.end(),
                                [&](const auto& t) { return t.first == key; });
  return row == targets.end() ? key_target{} : row->second;
}

/// Reads the metadata of a header. Answers are true if a value was read, and false if the
/// bytes at hand end too early.
class key_reader {
 public:
  // `head` are the first bytes of a file of `size` bytes. The views that the reader keeps
  // refer to `head`.
  key_reader(bytes_view head, std::uint64_t size, const std::string& name)
      : at_(head, size), size_(size), name_(name) {}

  // Reads the start and all entries. Keys without use are skipped by their type.
  result<bool> read(found_keys& to) {
    gguf_start start;
    // The walker tells a short head from a wrong one, see `stopped`.
    if (!at_.start(start)) {
      return stopped("a GGUF header", "24 bytes");
    }
    if (start.version != 2 && start.version != 3) {
      // Version 1 had other lengths, and later versions are not known.
      return wrong(errc::unsupported_version, "a GGUF header", "version 2 or 3",
                   fmt::format("version {}", start.version));
    }
    if (start.entries > gguf_walker::max_entries) {
      return wrong(errc::corrupt, "a GGUF header",
                   fmt::format("at most {} entries", gguf_walker::max_entries),
                   fmt::format("{}", start.entries));
    }
    for (std::uint64_t i = 0; i < start.entries; ++i) {
      // False means that the entry goes beyond the head.
      WEIR_TRY(const bool whole, entry(i, to));
      if (!whole) {
        return false;
      }
    }
    return true;
  }

 private:
  // Returns an error with the name of the file and the offset at which the walker stands.
  [[nodiscard]] error wrong(errc code, std::string_view key, std::string_view expected,
                            std::string_view found) const {
    return error(code, fmt::format("cannot read {}: expected {}, found {}", key, expected,
                                   found))
        .located(fmt::format("{}:{}", name_, at_.offset()));
  }
  /// Answers a step of the walker that failed.
  [[nodiscard]] result<bool> stopped(std::string_view key,
                                     std::string_view expected) const {
    // The head was too short, but the file may have more.
    if (at_.ran_out()) {
      return false;
    }
    return wrong(errc::corrupt, key, fmt::format("{} within {} bytes", expected, size_),
                 "a wrong length or type");
  }
  // The type of the value is not the one that the key has by its definition.
  [[nodiscard]] error wrong_type(std::string_view key, std::string_view expected,
                                 gguf_value found) const {
    return wrong(errc::corrupt, key, expected, fmt::format("type {}", name_of(found)));
  }

  // Reads one entry: key, type of the value, value. A key with use must not occur twice,
  // because readers would differ in the value that they use.
  result<bool> entry(std::uint64_t index, found_keys& to) {
    std::string_view key;
    std::uint32_t number = 0;
    // Every entry begins with its key and the number of its type.
    if (!at_.text(key) || !at_.number(number)) {
      return stopped(fmt::format("entry {} of a GGUF header", index), "a key and a type");
    }
    const gguf_value type{number};
    const key_target target = target_of(key, to);
    // The value is skipped by its length, without being looked at.
    if (target.index() == 0) {
      return at_.value(type) ? result<bool>(true)
                             : stopped(json_quote(key), "a value of a known type");
    }
    // Only keys with use are compared, so the list stays short.
    if (std::find(seen_.begin(), seen_.end(), key) != seen_.end()) {
      return wrong(errc::corrupt, key, "one value", "two");
    }
    seen_.push_back(key);
    // The alternative of the target chooses the function below.
    return std::visit([&](auto goal) { return value(key, type, goal); }, target);
  }

  // Never called, because targets without a place are handled before.
  result<bool> value(std::string_view, gguf_value, std::monostate) { return true; }
  // The six functions named `value` have one form: check the type, read, store.
  result<bool> value(std::string_view key, gguf_value type, std::string* to) {
    std::string_view text;
    if (type != gguf_value::text) {
      return wrong_type(key, "a text", type);
    }
    if (!at_.text(text)) {
      return stopped(key, "a text");
    }
    // The text is copied, since the head may be thrown away before the tokenizer is made.
    *to = text;
    return true;
  }
  result<bool> value(std::string_view key, gguf_value type,
                     std::optional<std::uint32_t>* to) {
    std::uint32_t number = 0;
    if (type != gguf_value::uint32) {
      return wrong_type(key, "a number of type uint32", type);
    }
    if (!at_.number(number)) {
      return stopped(key, "a number");
    }
    *to = number;
    return true;
  }
  result<bool> value(std::string_view key, gguf_value type, std::optional<bool>* to) {
    std::uint8_t byte = 0;
    if (type != gguf_value::boolean) {
      return wrong_type(key, "a boolean", type);
    }
    if (!at_.number(byte)) {
      return stopped(key, "a boolean");
    }
    // Other bytes are neither true nor false.
    if (byte > 1) {
      return wrong(errc::corrupt, key, "0 or 1", fmt::format("{}", byte));
    }
    *to = byte == 1;
    return true;
  }

  /// Reads type and number of the items of a list.
  /// Checks the count before any item is read, so that no memory is taken for items that
  /// the vocabulary could never have.
  result<bool> list(std::string_view key, gguf_value type, gguf_value item,
                    std::uint64_t& count) {
    if (type != gguf_value::list) {
      return wrong_type(key, fmt::format("a list of {}", name_of(item)), type);
    }
    gguf_value found{};
    // The list begins with the type of its items and their number.
    if (!at_.list(found, count)) {
      return stopped(key, "a list");
    }
    if (found != item) {
      return wrong(errc::corrupt, key, fmt::format("a list of {}", name_of(item)),
                   fmt::format("a list of {}", name_of(found)));
    }
    if (count > max_vocabulary) {
      return wrong(errc::out_of_range, key,
                   fmt::format("at most {} items", max_vocabulary),
                   fmt::format("{}", count));
    }
    return true;
  }
  result<bool> value(std::string_view key, gguf_value type,
                     std::vector<std::string>* to) {
    std::uint64_t count = 0;
    WEIR_TRY(const bool begun, list(key, type, gguf_value::text, count));
    // Nothing is read if the list did not begin.
    for (std::uint64_t i = 0; begun && i < count; ++i) {
      std::string_view text;
      if (!at_.text(text)) {
        return stopped(fmt::format("{}[{}]", key, i), fmt::format("{} texts", count));
      }
      to->emplace_back(text);
    }
    return begun;
  }
  result<bool> value(std::string_view key, gguf_value type,
                     std::vector<std::int32_t>* to) {
    std::uint64_t count = 0;
    WEIR_TRY(const bool begun, list(key, type, gguf_value::int32, count));
    for (std::uint64_t i = 0; begun && i < count; ++i) {
      std::uint32_t number = 0;
      if (!at_.number(number)) {
        return stopped(fmt::format("{}[{}]", key, i), fmt::format("{} numbers", count));
      }
      // Types of tokens are signed in the file.
      to->push_back(static_cast<std::int32_t>(number));
    }
    return begun;
  }

  gguf_walker at_;
  std::uint64_t size_;
  const std::string& name_;
  std::vector<std::string_view> seen_;  ///< keys with use, views of the header
};

/// Chooses the ids that stand before and behind a text. A BERT model has both unless a
/// flag forbids it; a BPE model has those that a flag asks for, and Llama 3 the first.
/// The rules are the defaults of llama.cpp. The BERT ids come from `cls` and `seperator`,
/// and from `bos` and `eos` in files that lack these.
result<gguf_tokenizer> choose_ids(found_keys found) {
  gguf_tokenizer keys = std::move(found.keys);
  if (keys.model.empty()) {
    return error(errc::corrupt,
                 "cannot read tokenizer.ggml.model: expected the name of a model, found "
                 "none")
        .hint("name a GGUF file of a language model, or a tokenizer.json");
  }
  if (keys.model == "bert") {
    keys.bos = found.cls ? found.cls : keys.bos;
    keys.eos = found.separator ? found.separator : keys.eos;
    // A flag may say that the id is not wanted, and then it may be missing.
    const bool lacks_first = !keys.bos && found.add_bos.value_or(true);
    if (lacks_first || (!keys.eos && found.add_eos.value_or(true))) {
      return error(errc::corrupt,
                   fmt::format("cannot read tokenizer.ggml.{}: expected an id for model "
                               "bert, found none",
                               lacks_first ? "cls_token_id" : "seperator_token_id"));
    }
  }
  const bool bert = keys.model == "bert";
  // An id that is not wanted is dropped, so it does not get into the prefix.
  if (!found.add_bos.value_or(bert || tokens::is_llama3(keys.pre))) {
    keys.bos.reset();
  }
  if (!found.add_eos.value_or(bert)) {
    keys.eos.reset();
  }
  return keys;
}

/// Returns the keys of a whole header.
result<gguf_tokenizer> chosen_keys(found_keys found, const std::string& name) {
  auto keys = choose_ids(std::move(found));
  if (!keys) {
    // The values belong to the whole file, so there is no place within it.
    return std::move(keys.error()).located(name);
  }
  return keys;
}

/// Makes a tokenizer of the values of a whole header.
result<tokenizer> made_of(found_keys found, const std::string& name) {
  WEIR_TRY(const gguf_tokenizer keys, chosen_keys(std::move(found), name));
  auto made = tokenizer::from_gguf(keys);
  if (!made) {
    return std::move(made.error()).located(name);
  }
  return made;
}

}  // namespace

/// `head` must hold all entries; what follows them is not read.
result<gguf_tokenizer> tokenizer_keys_of_gguf(bytes_view head, const std::string& name) {
  // The whole header is at hand, so too few bytes are an error here.
  found_keys found;
  WEIR_TRY(const bool whole, key_reader(head, head.size(), name).read(found));
  if (!whole) {
    return error(errc::corrupt,
                 "cannot read a GGUF header: expected all entries, found its end before "
                 "them")
        .located(name);
  }
  return chosen_keys(std::move(found), name);
}

result<tokenizer> tokenizer::from_bytes(bytes_view bytes, const std::string& name) {
  // The first four bytes decide.
  if (!is_gguf(bytes)) {
    return from_json(bytes, name);
  }
  // All bytes are at hand, so that a header that needs more is an error.
  found_keys found;
  // The answer is not looked at: with all bytes at hand it is true, or an error came
  // first.
  WEIR_CHECK(key_reader(bytes, bytes.size(), name).read(found));
  return made_of(std::move(found), name);
}

/// The bytes of a GGUF header are parsed from the start again after each read. The size
/// doubles, so all passes together parse at most twice the header.
result<tokenizer> tokenizer::from_file(file_system& fs, const std::string& path) {
  WEIR_TRY(const auto in, fs.open(path, open_mode::read));
  WEIR_TRY(const std::uint64_t size, in->size());
  // Four bytes are enough to see which kind of file it is.
  byte_vector head(static_cast<std::size_t>(std::min<std::uint64_t>(size, 4)));
  WEIR_CHECK(read_exactly(*in, 0, head));
  if (!is_gguf(head)) {
    WEIR_TRY(const byte_vector json, read_file(fs, path));
    return from_json(json, path);
  }
  // The length of a header is not stored, so the number of bytes is doubled until it
  // suffices. A header that needs more than the file has is an error of the reader.
  for (std::uint64_t want = first_header_read; want <= max_header_bytes; want *= 2) {
    const std::size_t had = head.size();
    // The file may be shorter than what is wanted.
    head.resize(static_cast<std::size_t>(std::min(size, want)));
    WEIR_CHECK(read_exactly(*in, had, std::span(head).subspan(had)));
    // Values of an earlier, incomplete pass are thrown away.
    found_keys found;
    WEIR_TRY(const bool whole, key_reader(head, size, path).read(found));
    if (whole) {
      return made_of(std::move(found), path);
    }
  }
  return error(errc::out_of_range,
               fmt::format("cannot read a GGUF header: expected at most {} bytes, found "
                           "more",
                           max_header_bytes))
      .located(path);
}

}  // namespace weir::formats
