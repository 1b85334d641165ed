// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads the file of a pipeline: the keys outside of its stages, and the assignments that
/// override the file.
///
///   text -> tree of TOML -> file_reader -> written_pipeline -> stages and run options
///                          keys, stages,                      build.cpp
///                          [set], --set
///
/// Values come in four layers, each of which overrides those before it: the defaults of
/// the table, the file, its table [set], the command line. A copy of the file in the run
/// folder has all of them: the text as it is, and a table [set] at its end with the
/// assignments and the folder of relative paths. A resumed run reads this copy.
#include "file.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "config/config.hpp"
#include "prove/tap.hpp"
#include "stage_keys.hpp"
#include "weir/actors/plugins.hpp"
#include "weir/actors/preset.hpp"
#include "weir/base/bytes.hpp"
#include "weir/base/file.hpp"
#include "weir/pipeline/paths.hpp"

namespace weir::tools {

namespace {

namespace fs = std::filesystem;

/// Returns whether a name can be that of a folder below runs/, also on other systems.
bool is_folder_name(const std::string& name) {
  // Letters that all file systems accept. A point in front would hide the folder.
  constexpr std::string_view letters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
  return !name.empty() && name.size() <= 100 && name.front() != '.' &&
         name.find_first_not_of(letters) == std::string::npos;
}

/// Returns whether a text is a time of 1 s to 24 h and nothing else.
bool is_stall(const std::string& text) {
  const auto time = parse_limits(text);
  // Without items and bytes, there must be a time.
  return time && !time->items && !time->bytes && *time->seconds >= 1 &&
         *time->seconds <= 86'400;
}

/// Returns whether a text is an interval of checkpoints: items, a time, both or none.
bool is_interval(const std::string& text) {
  const auto interval = parse_limits(text);
  return text.empty() || (interval && !interval->bytes);
}

/// Makes the table of keys outside of stages. Settings that `may_change` can have another
/// value at a resume, because no result depends on them.
settings_table<pipeline_settings> make_table() {
  using s = pipeline_settings;
  settings_table<s> t("the pipeline");
  // `name` is a name of a folder and part of messages.
  t.add("name", &s::name, "Name of the pipeline; without --out its folder is runs/NAME-N")
      .rule("1 to 100 letters, digits, \"-\", \"_\" and \".\", the first one no \".\"",
            is_folder_name);
  // The path is absolute in copies of files, which are in another folder.
  t.add("files", &s::files, "Folder of the relative paths in the file")
      .rule("an absolute path",
            [](const std::string& path) { return fs::path(path).is_absolute(); });
  t.add("plugins", &s::plugins, "Shared objects and Python files with stages")
      .may_change();
  t.add("run.workers", &s::workers, "Threads that run tasks; never changes a result")
      .range(1, 256)
      .may_change();
  t.include("run.", &s::kernels, models::kernel_settings_table());
  // Part of the identity of the run, so it cannot change.
  t.add("run.seed", &s::seed, "Seed of every random number");
  t.add("run.stall", &s::stall, "Time without progress after which the run fails")
      .rule("a time from 1 s to 24 h, such as \"60 s\"", is_stall)
      .may_change();
  t.add("run.restarts", &s::restarts,
        "Times that the run goes back to its last checkpoint when a host has died")
      .range(0, 1'000'000)
      .may_change();
  t.add("run.deadline", &s::deadline,
        "Time after which a child process that has not answered is ended")
      .rule("a time from 1 s to 24 h, such as \"60 s\"", is_stall)
      .may_change();
  // -1 leaves the memory as it is. Other values help to find stages that do not write all
  // of an item.
  t.add("run.fill", &s::fill,
        "Byte in the memory of an item that a stage has not written; -1: any")
      .range(-1, 255)
      .may_change();
  t.add("run.trace", &s::trace,
        {{"off", runtime::trace_mode::off},
         {"window", runtime::trace_mode::window},
         {"all", runtime::trace_mode::all}},
        "Tasks and items in trace.json: none, those of the first and last 2 s, or all")
      .may_change();
  t.add("checkpoint.every", &s::every, "Items or time between two checkpoints")
      .rule("items, a time or both, such as \"1000 items\" or \"30 s\"", is_interval)
      .may_change();
  t.add("checkpoint.keep", &s::keep, "Newest checkpoints that stay in the run folder")
      .range(2, 100000)
      .may_change();
  return t;
}

/// Returns all keys of the first level, for suggestions.
std::vector<std::string> known_keys() {
  // `stage` is no key of the table but a list of tables.
  std::vector<std::string> known{"stage"};
  for (const auto& one : pipeline_table().entries()) {
    known.push_back(one.name);
  }
  return known;
}

/// Reads the tree of a file, then the assignments.
class file_reader {
 public:
  explicit file_reader(const std::string& name) : name_(name) {}

  result<void> read(const toml_item& root) {
    // The tree is read in the order of the file. Assignments of [set] wait until all
    // stages are known.
    for (const toml_item& item : root.items) {
      WEIR_CHECK(read_item(item));
    }
    if (out_.stages.empty()) {
      return error(errc::invalid_argument,
                   fmt::format("cannot use \"{}\" as a pipeline: expected at least one "
                               "table [[stage]], found none",
                               name_))
          .located(name_);
    }
    // The copy of a file ends with [set]; what stood behind it would be lost when the
    // assignments are written again.
    if (set_line_ != 0 && last_line_ > set_line_) {
      return error(errc::invalid_argument,
                   "cannot use the table [set]: expected it behind all other tables, "
                   "found a table behind it")
          .located(fmt::format("{}:{}", name_, set_line_));
    }
    WEIR_CHECK(use_old_kernels());
    for (const config_entry& entry : assignments_) {
      WEIR_CHECK(assign(entry));
    }
    return {};
  }

  /// Sets a key outside of stages, or a key of a stage as STAGE.KEY.
  result<void> assign(const config_entry& entry) {
    // Keys of the pipeline come first, so a stage named "run" cannot hide them.
    if (pipeline_table().find(entry.key) != nullptr) {
      return set(entry);
    }
    // Names of stages may contain dots, so several can match: the longest one wins.
    written_stage* best = nullptr;
    for (written_stage& stage : out_.stages) {
      const bool fits = entry.key.starts_with(stage.name + ".");
      best = fits && (best == nullptr || best->name.size() < stage.name.size()) ? &stage
                                                                                : best;
    }
    if (best == nullptr) {
      return unknown(entry);
    }
    // The rest of the key is a key of the stage.
    WEIR_CHECK(set_stage_key(
        *best, {entry.key.substr(best->name.size() + 1), entry.value, entry.where}));
    return use_old_kernels();
  }

  // Returns what was read, to be moved from.
  written_pipeline& written() { return out_; }
  /// Returns the assignments of the table [set], and the line of the table or 0.
  [[nodiscard]] const std::vector<config_entry>& assignments() const {
    return assignments_;
  }
  [[nodiscard]] std::size_t set_line() const { return set_line_; }

 private:
  // Two stages had a key of their own for what is `run.kernels` now. The files of their
  // runs still have it (docs/from-0.1.md).
  result<void> use_old_kernels() {
    for (written_stage& stage : out_.stages) {
      const bool had_key = stage.use == "bert.layers" || stage.use == "llama.answers";
      const auto old = std::ranges::find(stage.settings, "kernels", &config_entry::key);
      if (had_key && old != stage.settings.end()) {
        WEIR_CHECK(set({"run.kernels", old->value, old->where}));
        stage.settings.erase(old);
      }
    }
    return {};
  }

  // Reads a table or a key of the first level.
  result<void> read_item(const toml_item& item) {
    if (item.key == "stage") {
      return read_stages(item);
    }
    // A key named `set` that is no table is an unknown key.
    if (item.key == "set" && item.table) {
      set_line_ = item.line;
      add_entries(item, "", assignments_);
      return {};
    }
    // Everything else must stand in front of [set].
    last_line_ = std::max(last_line_, item.line);
    std::vector<config_entry> entries;
    if (item.table) {
      add_entries(item, item.key + ".", entries);
    }
    // A table without entries leaves no entry to refuse below, so its own name is passed
    // on: an unknown one is refused like an unknown key.
    const bool known_table = item.key == "run" || item.key == "checkpoint";
    // A value of the first level is a key of its own.
    if (!item.table || (entries.empty() && !known_table)) {
      entries.push_back({item.key, item.value, item.where});
    }
    for (const config_entry& entry : entries) {
      WEIR_CHECK(set(entry));
    }
    return {};
  }

  // Reads the stages in their order, which decides the edges that a file leaves out.
  result<void> read_stages(const toml_item& list) {
    // For instance a single [stage] in place of [[stage]].
    if (!list.list_of_tables) {
      return error(errc::invalid_argument,
                   fmt::format("cannot use key \"stage\": expected tables [[stage]], "
                               "found {}",
                               list.value.describe()))
          .located(list.where);
    }
    for (const toml_item& table : list.items) {
      last_line_ = std::max(last_line_, table.line);
      WEIR_TRY(written_stage stage, read_stage(table));
      out_.stages.push_back(std::move(stage));
    }
    return {};
  }

  // Sets a key outside of stages. An unknown key is answered with the nearest one.
  result<void> set(const config_entry& entry) {
    if (pipeline_table().find(entry.key) == nullptr) {
      return unknown_setting(entry.key, known_keys()).located(entry.where);
    }
    auto done = pipeline_table().assign(out_.settings, entry.key, entry.value);
    // A plug-in is looked for later, when all of the file was read.
    if (entry.key == "plugins") {
      out_.plugins_where = entry.where;
    }
    // The table does not know the place of the value.
    return done ? result<void>() : std::move(done).error().located(entry.where);
  }

  // The first part of the key may be the misspelt name of a stage.
  [[nodiscard]] error unknown(const config_entry& entry) const {
    std::vector<std::string> known = known_keys();
    const std::size_t dot = entry.key.find('.');
    for (const written_stage& stage : out_.stages) {
      known.push_back(stage.name +
                      (dot == std::string::npos ? "" : entry.key.substr(dot)));
    }
    return unknown_setting(entry.key, known).located(entry.where);
  }

  const std::string& name_;                ///< of the file, for messages
  written_pipeline out_;                   ///< the result
  std::vector<config_entry> assignments_;  ///< of the table [set]
  std::size_t set_line_ = 0;               ///< line of the table [set]; 0 without one
  std::size_t last_line_ = 0;              ///< largest line of any other table
};

/// Returns the first lines of a text.
std::string_view lines_before(std::string_view text, std::size_t line) {
  std::size_t end = 0;
  // Lines count from 1.
  for (std::size_t n = 1; n < line; ++n) {
    end = text.find('\n', end) + 1;
  }
  return text.substr(0, end);
}

/// Returns the text of a file with its assignments, old ones first. The assignments stand
/// at the end, so that the places in messages stay those of the file.
std::string copy_of(std::string_view text, const std::vector<config_entry>& assignments) {
  // The text of the file stays as the user wrote it.
  std::string out(text);
  // The table begins on a line of its own.
  out += out.empty() || out.ends_with('\n') ? "" : "\n";
  out += "[set]  # from the command line, and the folder of relative paths\n";
  for (std::size_t i = 0; i < assignments.size(); ++i) {
    const config_entry& entry = assignments[i];
    // Only the last assignment of a key is kept, so that copies of copies do not grow.
    const bool is_last = std::none_of(
        assignments.begin() + static_cast<std::ptrdiff_t>(i) + 1, assignments.end(),
        [&](const config_entry& later) { return later.key == entry.key; });
    if (is_last) {
      // Keys are quoted, as those of stages may have characters that TOML does not allow
      // bare.
      out += fmt::format("{} = {}\n", toml_text({entry.key}), toml_text(entry.value));
    }
  }
  return out;
}

/// Adds plug-ins of the command line, whose paths begin in the current folder.
/// Paths become absolute, because the copy of the file is read in another folder.
void add_plugins(std::vector<std::string>& to, std::span<const std::string> more) {
  for (const std::string& one : more) {
    std::error_code ignored;
    const std::string path = fs::absolute(one, ignored).lexically_normal().string();
    // A plug-in that is named twice is loaded once.
    if (std::ranges::count(to, path) == 0) {
      to.push_back(path);
    }
  }
}

/// Returns texts as the value of a setting.
setting_value value_of(const std::vector<std::string>& texts) {
  setting_value::list items;
  for (const std::string& one : texts) {
    items.push_back({one});
  }
  return {std::move(items)};
}

/// Returns the options of the run. The texts were checked when they were read; seconds
/// are rounded up to whole ones where the run counts in seconds.
weir::run_options run_options_of(const written_pipeline& from) {
  weir::run_options options;
  options.files = from.settings.files;
  options.workers = from.settings.workers;
  options.kernels = from.settings.kernels.instruction_set;
  options.seed = from.settings.seed;
  options.description = from.copy;
  options.keep = from.settings.keep;
  options.trace = from.settings.trace;
  options.fill_slots = from.settings.fill;
  if (const auto stall = parse_limits(from.settings.stall); stall && stall->seconds) {
    options.stall_s = static_cast<std::int64_t>(std::ceil(*stall->seconds));
  }
  options.restarts = from.settings.restarts;
  if (const auto limit = parse_limits(from.settings.deadline); limit && limit->seconds) {
    options.deadline_s = static_cast<std::int64_t>(std::ceil(*limit->seconds));
  }
  // Without an interval there is a checkpoint at the end alone.
  if (const auto every = parse_limits(from.settings.every)) {
    options.every_items = every->items.value_or(0);
    options.every_seconds = every->seconds.value_or(0);
  }
  return options;
}

}  // namespace

const settings_table<pipeline_settings>& pipeline_table() {
  // Made at the first use, and never changed.
  static const settings_table<pipeline_settings> table = make_table();
  return table;
}

/// The program calls this to choose the reader of a file, so the text may be of any
/// format.
bool describes_stages(std::string_view text) noexcept {
  constexpr std::string_view blanks = " \t";
  // A line such as "  [[ stage ]]" counts, with blanks where TOML allows them.
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    // The first character of the line that is no blank.
    line.remove_prefix(std::min(line.find_first_not_of(blanks), line.size()));
    if (line.starts_with("[[")) {
      line.remove_prefix(2);
      line.remove_prefix(std::min(line.find_first_not_of(blanks), line.size()));
      // Skips the five letters of "stage", which the next condition compares.
      const std::size_t behind = line.find_first_not_of(blanks, 5);
      if (line.starts_with("stage") && behind != std::string_view::npos &&
          line[behind] == ']') {
        return true;
      }
    }
    begin = end + 1;
  }
  return false;
}

result<written_pipeline> read_pipeline(std::string_view text, const std::string& name,
                                       const std::string& folder,
                                       const file_overrides& overrides) {
  WEIR_TRY(const toml_item root, parse_toml_tree(text, name));
  return read_pipeline(root, text, name, folder, overrides);
}

result<written_pipeline> read_pipeline(const toml_item& root, std::string_view text,
                                       const std::string& name, const std::string& folder,
                                       const file_overrides& overrides) {
  file_reader reader(name);
  WEIR_CHECK(reader.read(root));
  // The assignments of the file come before those of the command line.
  std::vector<config_entry> assignments = reader.assignments();
  for (const std::string& set : overrides.sets) {
    WEIR_TRY(config_entry entry, parse_assignment(set));
    // Applied at once, so an error names this assignment.
    WEIR_CHECK(reader.assign(entry));
    assignments.push_back(std::move(entry));
  }
  written_pipeline out = std::move(reader.written());
  // A file without a name is named after itself, if that makes a good name of a folder.
  if (out.settings.name.empty()) {
    const std::string stem = fs::path(name).stem().string();
    out.settings.name = is_folder_name(stem) ? stem : "pipeline";
    assignments.push_back({"name", {out.settings.name}, ""});
  }
  // The copy of the file needs to know the folder of the original.
  if (out.settings.files.empty()) {
    out.settings.files = folder;
    assignments.push_back({"files", {folder}, ""});
  }
  out.own_plugins = out.settings.plugins.size();
  if (!overrides.plugins.empty()) {
    add_plugins(out.settings.plugins, overrides.plugins);
    assignments.push_back({"plugins", value_of(out.settings.plugins), ""});
  }
  out.copy = copy_of(
      // An old table [set] is replaced by one that has its assignments, too.
      reader.set_line() == 0 ? text : lines_before(text, reader.set_line()), assignments);
  return out;
}

namespace {

/// Adds the stages of all plug-ins. An error without a place of its own gets that of the
/// key `plugins`, unless the command line has named the plug-in.
result<void> load_plugins(const written_pipeline& from) {
  for (std::size_t i = 0; i < from.settings.plugins.size(); ++i) {
    // Paths of plug-ins begin at the folder of the file.
    auto loaded = load_plugin(
        flow::stages(), flow::path_in(from.settings.files, from.settings.plugins[i]));
    if (!loaded) {
      error failed = std::move(loaded).error();
      return failed.location().empty() && i < from.own_plugins
                 ? std::move(failed).located(from.plugins_where)
                 : std::move(failed);
    }
  }
  return {};
}

}  // namespace

result<loaded_pipeline> make_loaded(const written_pipeline& from) {
  // Adding them again does nothing, so this may be called several times.
  add_standard_stages();
  WEIR_CHECK(load_plugins(from));
  // The tap is a stage of `weir prove` alone; it is known only where a file uses it.
  if (std::ranges::count(from.stages, tap_name, &written_stage::use) != 0) {
    WEIR_CHECK(add_tap(flow::stages()));
  }
  loaded_pipeline loaded;
  // Fails if a stage is unknown, or if its settings are refused.
  WEIR_TRY(loaded.stages, make_pipeline(from, flow::stages()));
  loaded.options = run_options_of(from);
  // Stages that write to standard output change what the program prints there.
  for (const flow::graph_stage& stage : loaded.stages->built().stages) {
    for (const flow::path_setting& one : stage.info.paths) {
      loaded.writes_standard_output |= one.use == path_use::output && one.path == "-";
    }
  }
  return loaded;
}

result<loaded_pipeline> load_pipeline(const std::string& path,
                                      const file_overrides& overrides) {
  WEIR_TRY(const byte_vector content, read_file(posix_file_system(), path));
  std::error_code ignored;
  const fs::path full = fs::absolute(path, ignored);
  WEIR_TRY(const written_pipeline written,
           read_pipeline(as_text(content), path, full.parent_path().string(), overrides));
  return make_loaded(written);
}

result<loaded_pipeline> load_any_pipeline(const std::string& path,
                                          const file_overrides& overrides) {
  WEIR_TRY(const byte_vector content, read_file(posix_file_system(), path));
  // A text that is no TOML has no key `stream`; `load_pipeline` reports the fault.
  const auto root = parse_toml_tree(as_text(content), path);
  const bool of_text =
      root && !describes_stages(as_text(content)) &&
      std::any_of(root->items.begin(), root->items.end(),
                  [](const toml_item& item) { return item.key == "stream"; });
  if (!of_text) {
    return load_pipeline(path, overrides);
  }
  // The file is read again as a configuration, with the same assignments.
  WEIR_TRY(actors::run_config config, load_config(path, overrides.sets));
  config.folder = join_path("runs", config.name);  // nothing is written there
  WEIR_TRY(actors::preset made, actors::preset_of(config));
  return loaded_pipeline{std::move(made.stages), std::move(made.options)};
}

}  // namespace weir::tools
