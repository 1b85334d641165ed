// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads a pipeline of one line.
///
/// The line becomes a tree like that of a file, and a text that is a file. Both go to the
/// function that reads files, so a line and a file behave alike. Places in the tree are
/// columns.
#include "pipe/line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "config/values.hpp"

namespace weir::tools {

namespace {

/// Characters that separate words.
constexpr std::string_view line_blanks = " \t\n\r";
/// Characters of keys, and of the names of stages in keys.
constexpr std::string_view line_key_letters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";

/// Returns whether a character separates words.
bool is_blank_of_line(char c) {
  return line_blanks.find(c) != std::string_view::npos;
}

/// Returns the place of a character for messages.
/// Columns count from 1.
std::string column_of(std::size_t at) {
  return fmt::format("column {}", at + 1);
}

/// Makes the error for a place in the line.
error bad_line(std::size_t at, std::string_view expected, std::string_view found) {
  return error(errc::invalid_argument,
               fmt::format("cannot read the pipeline: expected {}, found {}", expected,
                           found))
      .located(column_of(at));
}

// A longer value could nest deeper than the stack of the parser allows, and a line of a
// file has a limit, too.
constexpr std::size_t max_text_bytes = 4000;

/// Makes the error for a value beyond the limit. The caller adds its place.
error too_long(std::size_t size) {
  return error(errc::invalid_argument,
               fmt::format("cannot read the pipeline: expected values of at most {} "
                           "bytes, found one of {}",
                           max_text_bytes, size));
}

/// Gives a value and all values in it the same place, because positions within the value
/// have no meaning in the line.
void place_at(toml_item& item, const std::string& where) {
  item.where = where;
  item.line = 0;
  for (toml_item& inner : item.items) {
    place_at(inner, where);
  }
}

/// Returns the end of a value that begins with a quote or a bracket, or npos.
/// Brackets within quotes, and quotes within brackets, are passed over.
std::size_t end_of_nested(std::string_view line, std::size_t at) {
  std::string open;  // closing characters that are missing
  for (std::size_t i = at; i < line.size(); ++i) {
    const char c = line[i];
    if (!open.empty() && (open.back() == '"' || open.back() == '\'')) {
      // In double quotes a backslash takes the next character with it. In single quotes
      // it has no meaning.
      if (c == '\\' && open.back() == '"') {
        ++i;
      } else if (c == open.back()) {
        open.pop_back();
      }
    } else if (c == '"' || c == '\'') {
      open += c;
    } else if (c == '[' || c == '{') {
      open += c == '[' ? ']' : '}';
    } else if (!open.empty() && c == open.back()) {
      // A closing bracket of another kind is passed over here. The parser of TOML will
      // refuse it.
      open.pop_back();
    }
    // Empty again: the first bracket or quote has been closed.
    if (open.empty()) {
      return i + 1;
    }
  }
  return std::string_view::npos;
}

/// Reads the line from left to right. `at_` is always the next character to be read.
class line_reader {
 public:
  explicit line_reader(const std::string& line) : line_(line) {}

  // Returns the stages as tables of a file.
  result<std::vector<toml_item>> stages() {
    std::vector<toml_item> all;
    // A separator at the end leads to the error of a stage without a name.
    do {
      WEIR_TRY(toml_item stage, read_stage());
      all.push_back(std::move(stage));
    } while (take_separator());
    WEIR_CHECK(check_ends(all));
    name_stages(all);
    return all;
  }

 private:
  // Moves to the next character that is no blank, or to the end.
  void skip_blanks() {
    at_ = std::min(line_.find_first_not_of(line_blanks, at_), line_.size());
  }
  // A separator is an exclamation mark between blanks, so values may contain one.
  [[nodiscard]] bool at_separator() const {
    return at_ < line_.size() && line_[at_] == '!' &&
           (at_ + 1 == line_.size() || is_blank_of_line(line_[at_ + 1]));
  }
  // Moves behind the separator, if there is one here.
  bool take_separator() {
    const bool found = at_separator();
    at_ += found ? 1 : 0;
    return found;
  }

  // Reads the name of a stage and all its settings.
  result<toml_item> read_stage() {
    skip_blanks();
    if (at_ == line_.size() || at_separator()) {
      return bad_line(at_, "the name of a stage",
                      at_ == line_.size() ? "the end of the line" : "\"!\"");
    }
    const std::size_t begin = at_;
    at_ = std::min(line_.find_first_of(line_blanks, at_), line_.size());
    const std::string use = line_.substr(begin, at_ - begin);
    // Most likely the name was forgotten.
    if (use.find('=') != std::string::npos) {
      return bad_line(begin, "the name of a stage", fmt::format("\"{}\"", use));
    }
    // The table has no key. Its place is that of the name of the stage.
    toml_item stage{"", {}, column_of(begin)};
    stage.table = true;
    // The name of the stage is the key `use` of a file.
    stage.items.push_back({"use", {use}, column_of(begin)});
    for (skip_blanks(); at_ < line_.size() && !at_separator(); skip_blanks()) {
      const std::size_t key = at_;
      WEIR_TRY(toml_item setting, read_setting());
      // Also finds a second `use`, which the line has already given.
      const auto same = std::ranges::find(stage.items, setting.key, &toml_item::key);
      if (same != stage.items.end()) {
        return error(
                   errc::invalid_argument,
                   fmt::format("cannot read the pipeline: expected each key once, found "
                               "\"{}\" at {} and again",
                               setting.key, same->where))
            .located(column_of(key));
      }
      stage.items.push_back(std::move(setting));
    }
    return stage;
  }

  // Reads KEY=VALUE.
  result<toml_item> read_setting() {
    const std::size_t begin = at_;
    const std::size_t end = line_.find_first_not_of(line_key_letters, at_);
    // A key ends with "=". A word without it is neither a setting nor a separator.
    if (end == begin || end == std::string::npos || line_[end] != '=') {
      const std::string word =
          line_.substr(begin, line_.find_first_of(line_blanks, begin) - begin);
      return bad_line(begin, "KEY=VALUE or \" ! \"", fmt::format("\"{}\"", word));
    }
    const std::string key = line_.substr(begin, end - begin);
    at_ = end + 1;
    // An error is passed on with its own place.
    auto value = read_value(key);
    if (!value) {
      return std::move(value.error());
    }
    value->key = key;
    // The place of the value, not that of the key.
    place_at(*value, column_of(end + 1));
    return value;
  }

  // Reads a value in quotes or brackets as TOML, and any other as a word.
  result<toml_item> read_value(const std::string& key) {
    const std::size_t begin = at_;
    if (begin < line_.size() &&
        std::string_view("\"'[{").find(line_[begin]) != std::string_view::npos) {
      // The end is searched here, because the parser needs to know where to stop.
      const std::size_t end = end_of_nested(line_, begin);
      if (end == std::string_view::npos ||
          // Something directly behind the end would silently be lost.
          (end < line_.size() && !is_blank_of_line(line_[end]))) {
        return bad_line(
            begin, fmt::format("a value of \"{}\" that ends before a blank", key),
            end == std::string_view::npos ? "no end of it"
                                          : fmt::format("'{}' behind it", line_[end]));
      }
      at_ = end;
      const std::string text = line_.substr(begin, end - begin);
      // Checked before the parser sees the value.
      if (text.size() > max_text_bytes) {
        return too_long(text.size()).located(column_of(begin));
      }
      auto tree = parse_toml_tree("v = " + text, "value");
      // More than one item would mean that the value has ended and another key followed.
      if (!tree || tree->items.size() != 1) {
        return bad_line(begin, fmt::format("a value of \"{}\" in TOML", key), text);
      }
      return std::move(tree->items.front());
    }
    return read_word();
  }

  // Reads up to the next blank.
  result<toml_item> read_word() {
    std::string word;
    bool escaped = false;
    for (; at_ < line_.size() && !is_blank_of_line(line_[at_]); ++at_) {
      // A backslash at the very end of the line stands for itself.
      if (line_[at_] == '\\' && at_ + 1 < line_.size()) {
        escaped = true;
        ++at_;
      }
      word += line_[at_];
    }
    // A word with escapes is a string, even if it looks like a number. This is the way to
    // write one.
    if (escaped || word.empty()) {
      return toml_item{"", {word}, ""};
    }
    // All other words are read like the value of `--set`.
    WEIR_TRY(config_entry entry, parse_assignment("v=" + word));
    return toml_item{"", std::move(entry.value), ""};
  }

  // The name of a stage is its first item.
  static std::string use_of(const toml_item& stage) {
    return std::get<std::string>(stage.items.front().value.data);
  }

  /// Replaces `-` at both ends of the line.
  static result<void> check_ends(std::vector<toml_item>& all) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      toml_item& stage = all[i];
      if (use_of(stage) != "-") {
        continue;
      }
      const bool last = i + 1 == all.size();
      // A line of "-" alone, or one in the middle, has nothing to read from or to write
      // to.
      if (all.size() == 1 || (i != 0 && !last)) {
        return error(errc::invalid_argument,
                     "cannot read the pipeline: expected \"-\" as the first stage "
                     "(standard input) or the last one (standard output) of several, "
                     "found it elsewhere")
            .located(stage.where);
      }
      // The names of the stages for messages on standard input and output.
      stage.items.front().value = {std::string(last ? "tgm.write" : "tgm.read")};
      stage.items.push_back({"path", {std::string("-")}, stage.where});
    }
    return {};
  }

  /// Names stages without a name after what they are, with a number behind equal names.
  static void name_stages(std::vector<toml_item>& all) {
    // Given names are collected first, so that no stage takes one that comes later in the
    // line.
    std::vector<std::string> taken;
    // A name that is no text will be refused later, but counts as given.
    const auto given = [](const toml_item& stage) {
      return std::ranges::find(stage.items, "name", &toml_item::key) != stage.items.end();
    };
    for (const toml_item& stage : all) {
      for (const toml_item& item : stage.items) {
        const auto* name = std::get_if<std::string>(&item.value.data);
        if (item.key == "name" && name != nullptr) {
          taken.push_back(*name);
        }
      }
    }
    for (toml_item& stage : all) {
      if (given(stage)) {
        continue;
      }
      std::string name = use_of(stage);
      // The second stage of a kind gets "-2".
      for (int n = 2; std::ranges::count(taken, name) != 0; ++n) {
        name = fmt::format("{}-{}", use_of(stage), n);
      }
      taken.push_back(name);
      // The name stands first, as in a file.
      stage.items.insert(stage.items.begin(), {"name", {name}, stage.where});
    }
  }

  const std::string& line_;
  std::size_t at_ = 0;
};

/// Returns a key as TOML: bare if its characters allow it, else in quotes.
std::string toml_key(const std::string& key) {
  const bool bare =
      !key.empty() && key.find_first_not_of(line_key_letters) == std::string::npos;
  return bare ? key : toml_text({key});
}

/// Returns a value as TOML on one line. A table becomes an inline table.
std::string toml_of(const toml_item& item) {
  if (!item.table) {
    return toml_text(item.value);
  }
  std::vector<std::string> parts;
  for (const toml_item& inner : item.items) {
    parts.push_back(fmt::format("{} = {}", toml_key(inner.key), toml_of(inner)));
  }
  return fmt::format("{{ {} }}", fmt::join(parts, ", "));
}

}  // namespace

std::string join_words(std::span<const std::string> words) {
  // One word is the whole line in quotes of the shell, and must stay as it is.
  if (words.size() == 1) {
    return words.front();
  }
  std::string line;
  for (const std::string& word : words) {
    const std::size_t equal = word.find_first_not_of(line_key_letters);
    const bool setting = equal != 0 && equal != std::string::npos && word[equal] == '=';
    const std::string value = setting ? word.substr(equal + 1) : "";
    // A value that begins with a quote or a bracket has its blanks protected by it.
    const bool bare = value.find_first_of("\"'[{") != 0;
    const bool quote =
        setting && bare && value.find_first_of(line_blanks) != std::string::npos;
    line += line.empty() ? "" : " ";
    // Any other value with blanks was in quotes of the shell.
    line += quote ? word.substr(0, equal + 1) + toml_text({value}) : word;
  }
  return line;
}

result<parsed_line> parse_line(const std::string& line) {
  parsed_line out;
  out.root.table = true;
  // A file has an array of tables with this key.
  toml_item list{"stage", {}, column_of(0)};
  list.list_of_tables = true;
  WEIR_TRY(list.items, line_reader(line).stages());
  // The text is made from the tree, so both describe the same pipeline.
  for (const toml_item& stage : list.items) {
    out.text += fmt::format("{}[[stage]]\n", out.text.empty() ? "" : "\n");
    for (const toml_item& item : stage.items) {
      const std::string text =
          fmt::format("{} = {}\n", toml_key(item.key), toml_of(item));
      // A line of a file must not be longer either, or the text could not be read back.
      if (text.size() > max_text_bytes) {
        return too_long(text.size()).located(item.where);
      }
      out.text += text;
    }
  }
  out.root.items.push_back(std::move(list));
  return out;
}

}  // namespace weir::tools
