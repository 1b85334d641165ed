// SPDX-License-Identifier: Apache-2.0
/// @file
/// Files of pipelines in TOML: reads one, and makes the pipeline and the options of its
/// run.
///
/// ```
/// name = "squares"
/// [run]
/// workers = 2
/// [checkpoint]
/// every = "1000 items"
/// [[stage]]
/// name = "numbers"
/// use = "generator"
/// [[stage]]
/// name = "square"
/// use = "elementwise"
/// from = "numbers.x"
/// window = "8 items, 64 MiB"
/// ```
/// @source{docs/pipelines.md}
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/values.hpp"
#include "limits.hpp"
#include "weir/actors/pipelines.hpp"
#include "weir/models/instruction_sets.hpp"
#include "weir/pipeline/catalog.hpp"

namespace weir::tools {

/// Keys of a file outside of its stages.
struct pipeline_settings {
  std::string name;   ///< name of the pipeline; the name of its file if empty
  std::string files;  ///< folder of relative paths; the folder of the file if empty
  std::vector<std::string> plugins;  ///< shared objects and Python files with stages
  std::uint32_t workers = 1;         ///< threads that run tasks
  models::kernel_settings kernels;   ///< instruction set of the kernels of models
  std::uint64_t seed = 1;            ///< seed of all random numbers
  std::string stall = "60 s";        ///< time without progress after which the run fails
  std::uint32_t restarts = 0;     ///< times that the run goes back after a host has died
  std::string deadline = "30 s";  ///< time without an answer of a child process
  int fill = -1;                  ///< byte that fills the memory of each item; -1: none
  /// Tasks and items that trace.json shows.
  runtime::trace_mode trace = runtime::trace_mode::window;
  std::string every;       ///< items or time between checkpoints; empty: at the end
  std::uint32_t keep = 2;  ///< newest checkpoints that stay in the run folder
};

/// Returns the table of `pipeline_settings`.
/// @threads{safe to call concurrently}
[[nodiscard]] const settings_table<pipeline_settings>& pipeline_table();

/// One edge that a stage of a file asks for.
struct written_edge {
  std::string inlet;        ///< name of the inlet; empty for the only one
  std::string from;         ///< a stage, or a stage and its outlet
  std::uint32_t delay = 0;  ///< delay of a feedback edge in items
  std::string where;        ///< place for messages
};

/// One stage of a file.
struct written_stage {
  std::string name;        ///< name in the pipeline
  std::string use;         ///< name of the stage among those that the program knows
  std::string where;       ///< place of the stage for messages
  std::string where_used;  ///< place of the key `use`
  std::vector<written_edge> edges;  ///< edges that end at the stage
  bool has_inlets = false;          ///< the key `inlets` was given
  bool has_from = false;            ///< the key `from` was given
  limits window;                    ///< window of the edges that end at the stage
  flow::failure_policy on_failure = flow::failure_policy::stop;  ///< key `on_error`
  std::uint64_t max_failures = flow::unlimited_failures;         ///< key `max_failures`
  flow::host_kind host = flow::host_kind::automatic;             ///< key `host`
  std::vector<config_entry> settings;  ///< settings of the stage itself
};

/// The content of a file.
struct written_pipeline {
  pipeline_settings settings;  ///< keys outside of stages
  /// Plug-ins of the file, which stand before those of the command line.
  std::size_t own_plugins = 0;
  std::string plugins_where;          ///< place of the key `plugins` for messages
  std::vector<written_stage> stages;  ///< in the order of the file
  /// Text of the file with the assignments of the command line, which gives the same
  /// content in any folder.
  std::string copy;
};

/// Returns whether a text describes a pipeline of stages: it has a line `[[stage]]`.
/// Other files describe a job that learns from text.
/// @threads{safe to call concurrently}
[[nodiscard]] bool describes_stages(std::string_view text) noexcept;

/// What a command line says beside the file.
struct file_overrides {
  /// Overrides nothing.
  file_overrides() = default;
  /// Takes assignments and plug-ins.
  file_overrides(std::vector<std::string> assignments,  // NOLINT
                 std::vector<std::string> more_plugins = {})
      : sets(std::move(assignments)), plugins(std::move(more_plugins)) {}
  /// Assignments KEY=VALUE, which override the file: keys outside of stages such as
  /// `run.workers`, and STAGE.KEY.
  std::vector<std::string> sets{};
  /// Plug-ins beside those of the file; relative paths begin in the current folder.
  std::vector<std::string> plugins{};
};

/// Reads a file of a pipeline.
/// @param text    Content of the file.
/// @param name    Name of the file for messages.
/// @param folder  Folder of the file, absolute.
/// @error{invalid_argument, the text is not TOML, or a value is refused; the message
/// gives line and column}
/// @error{unknown_key, a key does not exist; the message suggests the nearest}
/// @error{unsupported, a key is reserved for a later version}
/// @threads{safe to call concurrently}
[[nodiscard]] result<written_pipeline> read_pipeline(std::string_view text,
                                                     const std::string& name,
                                                     const std::string& folder,
                                                     const file_overrides& overrides);

/// Reads a pipeline from a tree, whose places need not be those of the text.
/// @param text  Text in TOML with the content of the tree.
/// Otherwise as `read_pipeline` above.
[[nodiscard]] result<written_pipeline> read_pipeline(const toml_item& root,
                                                     std::string_view text,
                                                     const std::string& name,
                                                     const std::string& folder,
                                                     const file_overrides& overrides);

/// Makes the pipeline that a file describes.
/// @error{unknown_key, a stage, a setting, an outlet or an inlet does not exist; the
/// message suggests the nearest}
/// @error{invalid_argument, a setting is refused, or an edge has no clear end}
/// @threads{as `flow::catalog::make`}
[[nodiscard]] result<std::unique_ptr<weir::pipeline>> make_pipeline(
    const written_pipeline& from, const flow::catalog& known);

/// Returns the error of an unknown stage with a hint to the list of all stages, unless
/// the error suggests the nearest name.
/// @threads{safe to call concurrently}
[[nodiscard]] error pointing_to_stages(error e);

/// A pipeline that was read from a file, with the options of its run.
struct loaded_pipeline {
  std::unique_ptr<weir::pipeline> stages;  ///< never null
  weir::run_options options;  ///< `description` is a copy that works in any folder
  bool writes_standard_output = false;  ///< a stage has "-" as the path of its output
};

/// Loads the plug-ins of a pipeline, and makes it from the stages of `flow::stages()`.
/// Also returns the errors of `load_plugin` and `make_pipeline`.
[[nodiscard]] result<loaded_pipeline> make_loaded(const written_pipeline& from);

/// Reads a file, loads its plug-ins, and makes its pipeline from the stages of
/// `flow::stages()`. Also returns the errors of `read_pipeline` and `make_loaded`.
/// @error{not_found, there is no such file} @error{io, the file cannot be read}
[[nodiscard]] result<loaded_pipeline> load_pipeline(const std::string& path,
                                                    const file_overrides& overrides);

/// Reads a file as `load_pipeline` does. A file without stages that sets `stream.path` is
/// a job that learns from text: then it is expanded to the stages of that job.
/// Also returns the errors of `load_pipeline`, `load_config` and `actors::preset_of`.
[[nodiscard]] result<loaded_pipeline> load_any_pipeline(const std::string& path,
                                                        const file_overrides& overrides);

}  // namespace weir::tools
