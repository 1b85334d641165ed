// SPDX-License-Identifier: Apache-2.0
/// @file
/// The table of a source's settings, the keys of named sources, and the check of a
/// source.
///
/// Settings of a source appear under two prefixes: `stream.` for the main source and
/// `source.NAME.` for others. Both use one table. Checks of single values are in the
/// table; checks of several together follow below.
#include "weir/actors/source_settings.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>

#include "stages/prose/source/open_mix.hpp"
#include "weir/base/settings.hpp"

namespace weir::actors {
namespace {

/// Rule of the setting `path`.
bool can_be_paths(const std::vector<std::string>& paths) {
  return std::all_of(paths.begin(), paths.end(), [](const std::string& path) {
    // The system would end a path at a zero byte.
    return !path.empty() && path.find('\0') == std::string::npos;
  });
}

/// Returns the range that "FILE:BEGIN-END" names, or nothing.
/// The last colon separates, because names of files may have one.
std::optional<storage::file_range> range_of_text(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  const std::size_t dash = text.rfind('-');
  // A dash in the name of the file does not count.
  if (colon == std::string_view::npos || dash == std::string_view::npos || colon == 0 ||
      dash < colon) {
    return std::nullopt;
  }
  storage::file_range out;
  out.file = text.substr(0, colon);
  const auto read = [](std::string_view digits, std::uint64_t& to) {
    const auto [end, code] =
        std::from_chars(digits.data(), digits.data() + digits.size(), to);
    // All characters must be digits.
    return code == std::errc() && end == digits.data() + digits.size();
  };
  const bool numbers = read(text.substr(colon + 1, dash - colon - 1), out.begin) &&
                       read(text.substr(dash + 1), out.end);
  // Empty ranges are refused.
  return numbers && out.begin < out.end ? std::optional(std::move(out)) : std::nullopt;
}

/// Rule of the setting `skip`.
bool are_ranges(const std::vector<std::string>& texts) {
  return std::all_of(texts.begin(), texts.end(), [](const std::string& text) {
    return range_of_text(text).has_value();
  });
}

/// Names are parts of keys, so they have no dots.
bool is_source_name(std::string_view name) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '-' || c == '_';
  };
  return !name.empty() && name.size() <= 100 &&
         std::all_of(name.begin(), name.end(), is_plain);
}

/// A tokenizer decides the ids of texts, so settings of token files make no sense with
/// it.
result<void> check_tokenizer(std::string_view prefix, const source_settings& source) {
  if (source.tokenizer.empty()) {
    return {};
  }
  // Format `bytes` means a text, for which a tokenizer is right.
  const std::pair<const char*, bool> others[] = {
      {"format", source.format != storage::token_format::automatic &&
                     source.format != storage::token_format::bytes},
      {"tag", !source.tag.empty()},
      {"vocabulary", source.vocabulary != 0}};
  for (const auto& [key, given] : others) {
    // The message has the full key.
    if (given) {
      return error(errc::invalid_argument,
                   fmt::format("cannot use setting \"{}{}\" of the run: expected its "
                               "default beside a tokenizer, found another value",
                               prefix, key))
          .hint("name token files, or texts and a tokenizer");
    }
  }
  return {};
}

/// Text with which the address of a Unix socket begins; a path follows.
const std::string unix_prefix = "unix:";

/// Returns whether the program of a command is a path. The system looks other names up.
bool is_path_of_command(std::string_view program) {
  // The rule of the shell: a slash makes it a path.
  return program.find('/') != std::string_view::npos;
}

constexpr const char* skip_documentation =
    "Ranges \"FILE:BEGIN-END\" that are left out: bytes of a text, or numbers of ids of "
    "a "
    "token file";

/// Error of a setting that is needed and not given.
error missing_setting(std::string_view prefix, std::string_view key) {
  // The message has the documentation of the setting.
  setting_info info = *source_table().find(key);
  info.name = std::string(prefix) + info.name;
  return refused_setting("the run", info, {setting_value::foreign{"none"}});
}

/// Checks that a source has one place from which its tokens come, and that the settings
/// of sockets and of turns have a use.
/// A mixture needs no place of its own.
result<void> check_place(std::string_view prefix, const source_settings& source) {
  // Places that were given: path, command and socket.
  const int places = (source.paths.empty() ? 0 : 1) + (source.command.empty() ? 0 : 1) +
                     (source.listen.empty() ? 0 : 1);
  if (places == 0 && source.mix.sources.empty()) {
    return missing_setting(prefix, "path");
  }
  if (places > 1) {
    return error(errc::invalid_argument,
                 fmt::format("cannot use setting \"{0}path\" of the run: expected one of "
                             "{0}path, {0}command and {0}listen, found {1} of them",
                             prefix, places));
  }
  // Only a socket has writers that could send a token.
  if (!source.token_file.empty() && source.listen.empty()) {
    return error(errc::invalid_argument,
                 fmt::format("cannot use setting \"{0}token_file\" of the run: expected "
                             "{0}listen beside it, found none",
                             prefix));
  }
  // Ranges refer to files by name.
  if (!source.skip.empty() && (source.paths.empty() || is_live(source))) {
    return error(errc::invalid_argument,
                 fmt::format("cannot use setting \"{0}skip\" of the run: expected files "
                             "in {0}path, found none",
                             prefix))
        .hint(
            "the sources of a mixture have their own ranges; a live text has no places "
            "that are known before");
  }
  const bool has_bytes = is_live(source) && source.command.empty();
  // Only bytes that come once need a log.
  if (!source.log.empty() && (!has_bytes || !source.token_file.empty())) {
    return error(errc::invalid_argument,
                 fmt::format("cannot use setting \"{}log\" of the run: expected a pipe, "
                             "standard input, or a socket without a token file, found "
                             "another source",
                             prefix))
        .hint("files, programs and writers with a token give the same bytes again");
  }
  // Only a live text has lines that arrive one after another.
  if (source.turns && !is_live(source)) {
    return error(errc::invalid_argument,
                 fmt::format("cannot use setting \"{0}turns\" of the run: expected a "
                             "child process, a socket, a named pipe or standard input, "
                             "found files",
                             prefix));
  }
  return {};
}

/// Adds the settings of sources whose tokens arrive while they are read.
void add_live_settings(settings_table<source_settings>& t) {
  using s = source_settings;
  t.add("command", &s::command,
        "Program and arguments of a child process that sends documents as JSON lines, "
        "instead of a path; arguments that begin with ./ or ../ are paths, too")
      .single()
      .may_change();
  t.add("listen", &s::listen,
        "Socket to listen at instead of a path: unix:PATH, tcp:PORT on this machine "
        "alone, or tcp:HOST:PORT")
      .may_change();
  t.add("token_file", &s::token_file,
        "File whose first line a writer at the socket must send first; needed if other "
        "machines can reach the address")
      .may_change();
  t.add("turns", &s::turns,
        "Each line of a live source is a turn: a chunk ends with it, and the line "
        "/reset empties the context");
  t.add("log", &s::log,
        "File in which the bytes of a pipe or a socket are durable before they are "
        "read, so that a run that was killed loses none; empty: no file");
}

}  // namespace

/// The order of the settings is that of the documentation and of stored configurations.
const settings_table<source_settings>& source_table() {
  // Made at the first call and kept until the end of the process.
  static const settings_table<source_settings> all = [] {
    using s = source_settings;
    using format = storage::token_format;
    settings_table<s> t("the source");
    t.add("path", &s::paths,
          "Files, folders and patterns in the order of reading; \"-\" is standard input")
        .single()
        .rule("none of them empty", can_be_paths);
    t.add("eot", &s::eot, "Put an end-of-text token between files");
    t.add("format", &s::format,
          {{"auto", format::automatic},
           {"bytes", format::bytes},
           {"u16", format::u16},
           {"u32", format::u32},
           {"llmc", format::llmc},
           {"npy", format::npy},
           {"megatron", format::megatron}},
          "Format of the files: bytes of a text, or ids of a token file");
    t.add("tag", &s::tag, "Tag of HN4 volumes that path names; empty: path names files");
    t.add("tokenizer", &s::tokenizer,
          "A tokenizer.json or GGUF file by which texts become ids; empty: bytes are the "
          "tokens");
    t.add("vocabulary", &s::vocabulary,
          "Number of distinct ids of token files; 0 is what the format implies")
        .range(0, std::int64_t{1} << 30);
    t.add("eot_id", &s::eot_id,
          "Id of the end-of-text token; -1 is the tokenizer's, or a new id")
        // The smallest value stands for a new id.
        .range(new_id, std::int64_t{1} << 30);
    t.add(
        "on_damage", &s::on_damage,
        {{"stop", storage::damage_policy::stop}, {"skip", storage::damage_policy::skip}},
        "Ranges that cannot be read as tokens: stop there, or leave them out");
    t.add("skip", &s::skip, skip_documentation)
        .single()
        .rule("each of them FILE:BEGIN-END with BEGIN below END", are_ranges);
    add_live_settings(t);
    t.include("mix.", &s::mix, mix_table());
    // Parts with settings of their own are included under their prefixes.
    t.include("shuffle.", &s::shuffle, shuffle_table());
    t.include("sample.", &s::sample, sample_table());
    return t;
  }();
  return all;
}

/// The table of an example, from which the documentation of named sources is made.
const settings_table<example_source>& source_reference() {
  static const settings_table<example_source> all = [] {
    settings_table<example_source> t("a named source");
    t.include(std::string(source_prefix) + "NAME.", &example_source::source,
              source_table());
    return t;
  }();
  return all;
}

/// Splits a key into the name of the source and its setting. @pre `key` begins with the
/// prefix of sources.
result<source_key> parse_source_key(std::string_view key) {
  WEIR_EXPECT(key.starts_with(source_prefix));
  const std::string_view rest = key.substr(source_prefix.size());
  const std::size_t dot = std::min(rest.find('.'), rest.size());
  // Without a dot, the whole rest is the name, and the setting is missing.
  const std::string_view name = rest.substr(0, dot);
  if (!is_source_name(name)) {
    return error(
        errc::invalid_argument,
        fmt::format("cannot set key \"{}\": expected the name of a source with 1 "
                    "to 100 letters, digits, \"-\" and \"_\", found \"{}\"",
                    key, name));
  }
  // Behind the dot; settings may have dots of their own.
  const std::string_view inner = rest.substr(std::min(dot + 1, rest.size()));
  source_key found{std::string(name), source_table().find(inner)};
  if (found.info == nullptr) {
    // The message has the most similar key of this source.
    std::vector<std::string> known;
    for (const auto& one : source_table().entries()) {
      known.push_back(fmt::format("{}{}.{}", source_prefix, name, one.name));
    }
    return unknown_setting(key, known);
  }
  return found;
}

/// Sets a value of a named source, which comes into being with its first setting.
result<void> assign_source(named_sources& sources, std::string_view key,
                           const setting_value& value) {
  WEIR_TRY(const source_key found, parse_source_key(key));
  if (!found.info->accepts(value)) {
    // The name in the message is the whole key and not that of the setting.
    setting_info info = *found.info;
    info.name = std::string(key);
    return refused_value(info, value);
  }
  // Makes the source if this is its first setting.
  found.info->set(sources[found.name], value);
  return {};
}

/// Replaces every path of a source, for example by the one that begins at the folder of
/// the configuration. Words that are no paths stay.
void replace_paths(source_settings& source,
                   const std::function<std::string(const std::string&)>& replace) {
  for (std::string& path : source.paths) {
    // Standard input has no path.
    if (path != "-") {
      path = replace(path);
    }
  }
  for (std::string& range : source.skip) {
    if (const std::size_t colon = range.rfind(':'); colon != std::string::npos) {
      // Only the part in front of the range is a path.
      range = replace(range.substr(0, colon)) + range.substr(colon);
    }
  }
  // A program without a slash is looked up by the system.
  if (!source.command.empty() && is_path_of_command(source.command.front())) {
    source.command.front() = replace(source.command.front());
  }
  for (std::string& word : source.command) {
    // Other words are options or texts.
    if (word.starts_with("./") || word.starts_with("../")) {
      word = replace(word);
    }
  }
  if (!source.tokenizer.empty()) {
    source.tokenizer = replace(source.tokenizer);
  }
  if (!source.token_file.empty()) {
    source.token_file = replace(source.token_file);
  }
  if (!source.log.empty()) {
    source.log = replace(source.log);
  }
  // Addresses of TCP are no paths.
  if (source.listen.starts_with(unix_prefix)) {
    source.listen = unix_prefix + replace(source.listen.substr(unix_prefix.size()));
  }
}

/// @error{invalid_argument; a range is malformed}
result<std::vector<storage::file_range>> skipped_ranges(const source_settings& source) {
  std::vector<storage::file_range> out;
  // The rule of the table has accepted the text already, if it was checked.
  for (const std::string& text : source.skip) {
    auto range = range_of_text(text);
    if (!range) {
      return error(errc::invalid_argument,
                   fmt::format("cannot leave a range out of the text: expected "
                               "FILE:BEGIN-END with BEGIN below END, found \"{}\"",
                               text));
    }
    out.push_back(std::move(*range));
  }
  return out;
}

/// Looks at the file system, because a named pipe has the name of a file.
bool is_live(const source_settings& source) {
  std::error_code ignored;
  // Several paths are files that follow each other.
  const bool alone = source.paths.size() == 1;
  return !source.command.empty() || !source.listen.empty() ||
         (alone && (source.paths.front() == "-" ||
                    std::filesystem::is_fifo(source.paths.front(), ignored)));
}

/// Returns whether tokens that were read cannot be had again, so that a run cannot be
/// resumed exactly.
bool forgets_tokens(const source_settings& source, const named_sources& named) {
  // A mixture forgets if one of its sources does. A source of a mixture is no mixture.
  const auto part_forgets = [&](const std::string& name) {
    const auto part = named.find(name);
    return part != named.end() && forgets_tokens(part->second, named);
  };
  // A command is started again and gives the same tokens.
  return (is_live(source) && source.command.empty() && source.log.empty()) ||
         std::ranges::any_of(source.mix.sources, part_forgets);
}

/// Checks the settings of one source. @param prefix  Begin of its keys.
result<void> check_source(std::string_view prefix, const source_settings& source) {
  WEIR_CHECK(source_table().check(source));
  WEIR_CHECK(check_place(prefix, source));
  return check_tokenizer(prefix, source);
}

/// Checks that every name belongs to a source. @param owner  For errors.
result<void> check_uses(std::string_view owner, const std::vector<source_use>& uses,
                        const named_sources& named) {
  for (const source_use& use : uses) {
    if (named.find(use.name) == named.end()) {
      return error(errc::invalid_argument,
                   fmt::format("cannot use setting \"{}\" of {}: expected the name of a "
                               "source, found \"{}\"",
                               use.key, owner, use.name))
          .hint(fmt::format("describe it in [source.{}]", use.name));
    }
  }
  return {};
}

/// Checks the main source and all named ones.
result<void> check_sources(const source_settings& stream, const named_sources& named) {
  WEIR_CHECK(check_source("stream.", stream));
  WEIR_CHECK(check_mix("stream.", stream, named));
  // Every named source is checked, even one that nothing uses.
  for (const auto& [name, source] : named) {
    WEIR_CHECK(check_source(fmt::format("{}{}.", source_prefix, name), source));
    WEIR_CHECK(check_mix(fmt::format("{}{}.", source_prefix, name), source, named));
  }
  return {};
}

}  // namespace weir::actors
