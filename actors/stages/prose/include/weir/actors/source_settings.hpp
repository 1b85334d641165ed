// SPDX-License-Identifier: Apache-2.0
/// @file
/// Descriptions of token sources: the settings of the table `[stream]` that say where
/// tokens come from, and the tables `[source.NAME]`, which have the same settings.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "weir/actors/mix_settings.hpp"
#include "weir/base/error.hpp"
#include "weir/storage/token_files.hpp"

namespace weir {
template <class Owner>
class settings_table;
template <class Owner>
struct setting;
struct setting_value;
}  // namespace weir

namespace weir::actors {

/// Stands for an end-of-text token of its own: the vocabulary, which is no id of a file,
/// or the one that a tokenizer has.
inline constexpr std::int64_t new_id = -1;

/// One source of tokens. `source_table` has for each member its key and its range.
struct source_settings {
  /// Files, folders and patterns, or "-" alone for standard input.
  std::vector<std::string> paths;
  bool eot = true;  ///< an end-of-text token stands between files
  storage::token_format format =
      storage::token_format::automatic;  ///< that all files have
  std::string tag;        ///< tag of HN4 volumes that `paths` names; empty: files
  std::string tokenizer;  ///< tokenizer.json by which texts become ids; empty: none
  std::uint32_t vocabulary = 0;  ///< distinct ids of token files; 0: by the format
  std::int64_t eot_id = new_id;  ///< id of the end-of-text token, or `new_id`
  /// Treatment of ranges that cannot be read as tokens.
  storage::damage_policy on_damage = storage::damage_policy::stop;
  /// Ranges "FILE:BEGIN-END" that are left out although they can be read.
  std::vector<std::string> skip;
  /// Program and arguments of a child process that sends documents.
  std::vector<std::string> command;
  std::string listen;      ///< address of a socket at which one writer at a time connects
  std::string token_file;  ///< file with the token that a writer must send first
  bool turns = false;      ///< each line or document of a live source is a turn
  std::string log;         ///< file with the bytes of a pipe or a socket; empty: none
  mix_settings mix;        ///< named sources that are mixed, instead of `paths`
  shuffle_settings shuffle;  ///< random order of units
  sample_settings sample;    ///< random choice of units, before the shuffle
  friend bool operator==(const source_settings&, const source_settings&) = default;
};
/// Sources by the names of their tables `[source.NAME]`.
using named_sources = std::map<std::string, source_settings, std::less<>>;

/// Text with which the keys of named sources begin: "source.NAME.KEY".
inline constexpr std::string_view source_prefix = "source.";

/// Returns the settings of a source by their keys in `[stream]` and `[source.NAME]`.
/// Include "weir/base/settings.hpp" to use the table.
/// @threads{safe to call concurrently}
[[nodiscard]] const settings_table<source_settings>& source_table();

/// A source as an example of its documentation.
struct example_source {
  source_settings source;  ///< its settings
};
/// Returns the settings of `source_table` under the keys `source.NAME.KEY`, for
/// references of settings.
/// @threads{safe to call concurrently}
[[nodiscard]] const settings_table<example_source>& source_reference();

/// The setting that a key "source.NAME.KEY" means.
struct source_key {
  std::string name;                                ///< NAME
  const setting<source_settings>* info = nullptr;  ///< entry of `source_table`
};
/// Splits a key that begins with `source_prefix`.
/// @error{unknown_key, there is no such setting; the message suggests the nearest one}
/// @error{invalid_argument, NAME is empty or has a character that is no letter, digit,
/// "-" or "_"}
/// @threads{safe to call concurrently}
[[nodiscard]] result<source_key> parse_source_key(std::string_view key);
/// Sets one setting of a named source, which is added if it is new.
/// @error{invalid_argument, the setting does not accept the value}
/// Other errors are those of `parse_source_key`.
/// @threads{thread-compatible}
[[nodiscard]] result<void> assign_source(named_sources& sources, std::string_view key,
                                         const setting_value& value);

/// Replaces every path in the settings of a source by what a function returns for it.
/// Standard input ("-") is no path.
/// @threads{thread-compatible}
void replace_paths(source_settings& source,
                   const std::function<std::string(const std::string&)>& replace);

/// Returns the ranges of `source_settings::skip`.
/// @error{invalid_argument, one is not FILE:BEGIN-END}
/// @threads{safe to call concurrently}
[[nodiscard]] result<std::vector<storage::file_range>> skipped_ranges(
    const source_settings& source);

/// Returns whether tokens arrive while the source is read: those of a child process, of a
/// socket, of a named pipe or of standard input.
/// @threads{safe to call concurrently}
[[nodiscard]] bool is_live(const source_settings& source);

/// Returns whether tokens that were read and not committed are lost with the process: the
/// source, or a part of its mixture, is a pipe, a socket or standard input without a log.
/// @threads{safe to call concurrently}
[[nodiscard]] bool forgets_tokens(const source_settings& source,
                                  const named_sources& named);

/// Checks that a source says where its tokens come from.
/// @param prefix  Text before the keys in messages: "stream." or "source.NAME.".
/// @error{invalid_argument, a setting is refused or missing, or two exclude each other}
/// @threads{safe to call concurrently}
[[nodiscard]] result<void> check_source(std::string_view prefix,
                                        const source_settings& source);
/// A setting whose value names a source.
struct source_use {
  std::string key;   ///< key of the setting
  std::string name;  ///< name of a table `[source.NAME]`
};
/// Checks that the sources that settings name are described.
/// @param owner  Whose settings they are, for messages.
/// @error{invalid_argument, a source has no table}
/// @threads{safe to call concurrently}
[[nodiscard]] result<void> check_uses(std::string_view owner,
                                      const std::vector<source_use>& uses,
                                      const named_sources& named);
/// Checks the source of a stream and all named sources.
/// @error{invalid_argument, `check_source` refuses one of them}
/// @threads{safe to call concurrently}
[[nodiscard]] result<void> check_sources(const source_settings& stream,
                                         const named_sources& named);

}  // namespace weir::actors
