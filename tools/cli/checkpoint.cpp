// SPDX-License-Identifier: Apache-2.0
/// @file
/// `weir checkpoint`: lists and verifies the generations of a run.
///
/// A generation is one file ck-NUMBER.weir. The store keeps several, so that a resume can
/// fall back to an older one if the newest is damaged. `ls` and `verify` read every byte
/// of all of them; `show` reads the newest valid one.
#include <fmt/format.h>

#include <filesystem>

#include "commands.hpp"
#include "weir/actors/sessions.hpp"
#include "weir/base/file.hpp"
#include "weir/base/hash.hpp"
#include "weir/base/text.hpp"
#include "weir/storage/checkpoint.hpp"
#include "weir/storage/context.hpp"
#include "weir/storage/run_history.hpp"

namespace weir::tools {

namespace {

using storage::checkpoint_store;
using entries = std::vector<checkpoint_store::entry>;

// Returns the folder of the checkpoints. The argument is that folder or the run folder
// around it.
result<std::string> checkpoint_folder(const std::string& folder) {
  // No error code is looked at: a path that cannot be examined is no folder either.
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) {
    return error(
        errc::not_found,
        fmt::format(
            "cannot look for checkpoints in \"{}\": expected a folder, found none",
            folder));
  }
  // A run folder has the checkpoints in a folder of this name.
  const std::string inside = join_path(folder, "checkpoint");
  return std::filesystem::is_directory(inside, ignored) ? inside : folder;
}

// Prints all generations as JSON, with the error of each damaged one.
void print_json(const entries& all, const std::string& folder, const char* unit,
                output& out) {
  out.print("{{\"folder\": {}, \"verified\": true, \"checkpoints\": [",
            json_quote(folder));
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto& e = all[i];
    out.print("{}\n  {{\"file\": {}, \"bytes\": {}, ", i == 0 ? "" : ",",
              json_quote(e.path), e.bytes);
    // The keys of a valid and of a damaged generation differ, and "valid" tells them
    // apart.
    if (e.problem) {
      out.print("\"valid\": false, \"code\": \"{}\", \"problem\": {}}}",
                name_of(e.problem->code()), json_quote(e.problem->message()));
    } else {
      // `unit` is the key here: "pulse", "item" or "turn".
      out.print("\"valid\": true, \"generation\": {}, \"{}\": {}, \"base\": {}}}",
                e.header.generation, unit, e.header.pulse_id,
                e.base ? fmt::to_string(*e.base) : "null");
    }
  }
  out.write("]}\n");
}

// Prints one line for each generation. `good` is printed for those that are valid.
void print_text(const entries& all, const char* unit, const std::string& good,
                output& out) {
  for (const auto& e : all) {
    if (e.problem) {
      // "BAD" stands in the column of the generation and is easy to find with grep.
      out.print("{}  {:>10}  BAD: {}\n", e.path, human_bytes(e.bytes),
                e.problem->message());
    } else {
      out.print("{}  {:>10}  generation {}, {} {}, {}{}\n", e.path, human_bytes(e.bytes),
                e.header.generation, unit, e.header.pulse_id,
                e.base ? fmt::format("refers to generation {}, ", *e.base) : "", good);
    }
  }
}

/// A generation is valid if the store could read and verify every byte of it.
bool is_valid(const checkpoint_store::entry& e) {
  return !e.problem.has_value();
}

/// Returns what the checkpoints of a run count. The items of a job that learns from text
/// are pulses; only such a run has a file config.toml.
const char* progress_unit(checkpoint_store& store, const entries& all,
                          const std::string& folder) {
  // The first valid one is enough, because all generations of a run count the same.
  const auto good = std::find_if(all.begin(), all.end(), is_valid);
  std::error_code ignored;
  if (good == all.end() ||
      std::filesystem::exists(join_path(folder, "../config.toml"), ignored)) {
    return "pulse";
  }
  // A pipeline writes a section for its epoch, which a job that learns from text lacks.
  const auto file = store.load(good->path);
  if (file && file->has(storage::section::sessions)) {
    return "turn";
  }
  return file && file->has(storage::section::epoch) ? "item" : "pulse";
}

/// Reads every byte of all generations of a run and prints them: a good preamble does not
/// prove that the rest of the file exists.
/// @param verb  Completes "cannot <verb> checkpoints".
/// @param good  Is printed for the valid ones.
result<entries> print_checkpoints(const folder_options& options, const char* verb,
                                  const std::string& good, output& out) {
  WEIR_TRY(const std::string folder, checkpoint_folder(options.folder));
  WEIR_TRY(auto store, checkpoint_store::open(posix_file_system(), folder));
  // Reads all files. This is the slow part, and the reason why the size is printed.
  WEIR_TRY(entries all, store.verify());
  const char* const unit = progress_unit(store, all, folder);
  if (options.json) {
    print_json(all, folder, unit, out);
  } else {
    print_text(all, unit, good, out);
  }
  // An empty list has been printed by now, so that JSON is complete even in this case.
  if (all.empty()) {
    return error(errc::not_found, fmt::format("cannot {} checkpoints of \"{}\": expected "
                                              "ck-<generation>.weir, found no file",
                                              verb, folder));
  }
  return all;
}

/// A range that a source of a run leaves out.
struct shown_range {
  std::string source;  ///< name of the source; empty for the stream's own
  storage::named_range of;
};

/// Returns the ranges that the cursors of a checkpoint hold. A stage that reads a context
/// stream keeps its cursors in parts of its state, CURSOR and CURSOR/NAME.
std::vector<shown_range> ranges_left_out(const storage::checkpoint& from) {
  // Sections of the state of a stage have names of the form STATE/STAGE/PART.
  constexpr std::string_view part = "/CURSOR";
  std::vector<shown_range> out;
  for (const auto& section : from.sections()) {
    const std::size_t at = section.name.find(part);
    if (!section.name.starts_with("STATE/") || at == std::string::npos) {
      continue;
    }
    // Other stages may have a part of this name with other contents, so a failure of
    // decoding says only that this part is none of ours.
    const auto cursor = storage::decode_cursor(section.data);
    const auto ranges = cursor
                            ? storage::left_out_of(cursor->source_state)
                            : result<std::vector<storage::named_range>>(cursor.error());
    if (!ranges) {
      continue;  // a cursor of another kind of stage
    }
    // What follows is empty for the stream's own cursor, or a slash and a name.
    const std::string rest = section.name.substr(at + part.size());
    for (const storage::named_range& one : *ranges) {
      out.push_back({rest.empty() ? rest : rest.substr(1), one});
    }
  }
  return out;
}

/// Prints one line for each range: its source, its bytes, and why it is left out.
void print_ranges(const std::vector<shown_range>& ranges, output& out) {
  for (const auto& [source, one] : ranges) {
    out.print("left out{}: bytes {} to {} of {}, {}\n",
              source.empty() ? "" : fmt::format(" of source {}", source), one.range.byte,
              // The last byte is named, since people read "to" as including it.
              one.range.byte + one.range.bytes - 1, one.file,
              one.range.by_hand ? "by hand" : "damaged");
  }
}

/// As JSON, "end" is the byte behind the range, as in other facts of Weir.
/// The caller has opened the array and closes it.
void print_ranges_json(const std::vector<shown_range>& ranges, output& out) {
  const char* comma = "";
  for (const auto& [source, one] : ranges) {
    out.print(
        "{}\n  {{\"source\": {}, \"file\": {}, \"begin\": {}, \"end\": {}, "
        "\"by_hand\": {}}}",
        comma, json_quote(source), json_quote(one.file), one.range.byte,
        one.range.byte + one.range.bytes, one.range.by_hand);
    comma = ",";
  }
}

/// The sections of a checkpoint that its base holds.
struct sections_of_base {
  std::vector<std::string> names;
  std::uint64_t bytes = 0;
};

sections_of_base held_by_base(const storage::checkpoint& from) {
  sections_of_base out;
  for (const auto& section : from.sections()) {
    if (section.held_by != from.header().generation) {
      out.names.push_back(section.name);
      out.bytes += section.data.size();
    }
  }
  return out;
}

/// Says which sections an earlier generation holds, because they have not changed since.
void print_base(const storage::checkpoint& from, output& out) {
  if (!from.base()) {
    return;
  }
  const sections_of_base held = held_by_base(from);
  out.print("{} of unchanged sections in generation {}: {}\n", human_bytes(held.bytes),
            *from.base(), fmt::join(held.names, ", "));
}

void print_base_json(const storage::checkpoint& from, output& out) {
  if (!from.base()) {
    out.write("null");
    return;
  }
  const sections_of_base held = held_by_base(from);
  out.print("{{\"generation\": {}, \"bytes\": {}, \"sections\": [", *from.base(),
            held.bytes);
  const char* comma = "";
  for (const std::string& name : held.names) {
    out.print("{}{}", comma, json_quote(name));
    comma = ", ";
  }
  out.write("]}");
}

void print_sessions(const std::vector<actors::session_facts>& sessions, output& out) {
  for (const actors::session_facts& one : sessions) {
    out.print("session {}: {} turns, {} tokens, {} of them drawn, seed {}, history {}\n",
              one.name, one.turns, one.position, one.drawn, one.seed, hex64(one.history));
  }
}

void print_sessions_json(const std::vector<actors::session_facts>& sessions,
                         output& out) {
  const char* comma = "";
  for (const actors::session_facts& one : sessions) {
    out.print(
        "{}\n  {{\"session\": {}, \"turns\": {}, \"tokens\": {}, \"drawn\": {}, "
        "\"seed\": {}, \"history\": \"{}\"}}",
        comma, json_quote(one.name), one.turns, one.position, one.drawn, one.seed,
        hex64(one.history));
    comma = ",";
  }
}

/// Shows a checkpoint of sessions: the cursor of each, and what the base holds.
command_result show_sessions(const storage::checkpoint& newest, bool json, output& out) {
  WEIR_TRY(const auto sessions, actors::sessions_in(newest));
  const auto& header = newest.header();
  if (json) {
    out.print("{{\"file\": {}, \"generation\": {}, \"turn\": {}, \"sessions\": [",
              json_quote(newest.path()), header.generation, header.pulse_id);
    print_sessions_json(sessions, out);
    out.write("], \"base\": ");
    print_base_json(newest, out);
    out.write("}\n");
    return 0;
  }
  out.print("{}  generation {}, turn {}\n", newest.path(), header.generation,
            header.pulse_id);
  print_sessions(sessions, out);
  print_base(newest, out);
  return 0;
}

/// Returns a value of a setting for people.
const std::string& shown_value(const std::string& value) {
  // A reference is returned, so the word must live as long as the program.
  static const std::string nothing = "nothing";
  return value.empty() ? nothing : value;
}

/// Prints one line for each change of a setting, in the order in which they were made.
void print_history(const std::vector<storage::run_change>& history, output& out) {
  if (history.empty()) {
    out.write("no change since the run began\n");
  }
  for (const storage::run_change& one : history) {
    // A pulse and a token say the same place in two units.
    out.print("pulse {}, token {}: {} from {} to {}\n", one.pulse, one.token, one.key,
              shown_value(one.from), shown_value(one.to));
  }
}

/// Prints the changes as members of an array that the caller has opened.
void print_history_json(const std::vector<storage::run_change>& history, output& out) {
  const char* comma = "";
  for (const storage::run_change& one : history) {
    out.print(
        "{}\n  {{\"pulse\": {}, \"token\": {}, \"key\": {}, \"from\": {}, \"to\": {}}}",
        comma, one.pulse, one.token, json_quote(one.key), json_quote(one.from),
        json_quote(one.to));
    comma = ",";
  }
}

}  // namespace

/// Shows the newest valid checkpoint of a run: how far it is, the changes that were made
/// to the run at its resumes, and the ranges of its text that are left out.
command_result checkpoint_show(const folder_options& options, output& out) {
  WEIR_TRY(const std::string folder, checkpoint_folder(options.folder));
  WEIR_TRY(auto store, checkpoint_store::open(posix_file_system(), folder));
  // Errors of all generations together are those of `load_newest`.
  WEIR_TRY(const auto newest, store.load_newest());
  // A run without changes has no such section, and an empty history decodes from no
  // bytes.
  if (newest.has(storage::section::sessions)) {
    return show_sessions(newest, options.json, out);
  }
  bytes_view stored;
  if (newest.has(storage::section::history)) {
    WEIR_TRY(const auto* section, newest.find(storage::section::history));
    stored = section->data;
  }
  WEIR_TRY(const auto history, storage::decode_history(stored));
  const auto& header = newest.header();
  // Unlike a list, this prints an object of fixed keys.
  if (options.json) {
    out.print("{{\"file\": {}, \"generation\": {}, \"pulse\": {}, \"changes\": [",
              json_quote(newest.path()), header.generation, header.pulse_id);
    print_history_json(history, out);
    out.write("], \"left_out\": [");
    print_ranges_json(ranges_left_out(newest), out);
    out.write("], \"base\": ");
    print_base_json(newest, out);
    out.write("}\n");
    return 0;
  }
  out.print("{}  generation {}, pulse {}\n", newest.path(), header.generation,
            header.pulse_id);
  print_history(history, out);
  print_ranges(ranges_left_out(newest), out);
  print_base(newest, out);
  return 0;
}

/// Lists the checkpoints of a run. The command succeeds if at least one is valid, because
/// that is what a resume needs.
command_result checkpoint_ls(const folder_options& options, output& out) {
  WEIR_TRY(const entries all, print_checkpoints(options, "list", "valid", out));
  if (std::any_of(all.begin(), all.end(), is_valid)) {
    return 0;
  }
  WEIR_TRY(const std::string folder, checkpoint_folder(options.folder));
  // Every damaged one has been listed above with its own reason.
  return error(errc::corrupt,
               fmt::format("cannot use any checkpoint of \"{}\": expected one valid "
                           "generation, found {} damaged",
                           folder, all.size()));
}

/// Verifies every byte of all checkpoints. In contrast to the list, it fails if any of
/// them is damaged.
command_result checkpoint_verify(const folder_options& options, output& out) {
  WEIR_TRY(const entries all,
           print_checkpoints(options, "verify", "every byte verified", out));
  const auto bad = std::find_if_not(all.begin(), all.end(), is_valid);
  if (bad == all.end()) {
    return 0;
  }
  // The first damaged one gives code and message. The others have been printed.
  return error(*bad->problem);
}

}  // namespace weir::tools
