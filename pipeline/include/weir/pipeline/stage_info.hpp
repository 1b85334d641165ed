// SPDX-License-Identifier: Apache-2.0
/// @file
/// The description of a stage: its ports, settings, state and guarantees. A stage
/// describes itself once; the check, the reference pages, the checkpoint and the drawing
/// are all made from the description.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weir/base/settings/value.hpp"
#include "weir/pipeline/port_type.hpp"

namespace weir::flow {

/// The way in which a stage takes part in a pipeline.
enum class face : std::uint8_t {
  task,      ///< submits tasks for each item and hands the item on at once
  late,      ///< also looks at the item once its tasks have ended
  looping,   ///< works on an item in steps, each after the tasks of the step before
  source,    ///< makes items
  sink,      ///< makes items durable
  blocking,  ///< makes an item of each complete item on a thread of its own
};

/// The strongest promise that a run of a pipeline can keep after a crash.
enum class guarantee : std::uint8_t {
  none,           ///< the output of a resumed run may differ
  at_least_once,  ///< outputs may be repeated, byte for byte
  exactly_once    ///< the output equals that of a run without a crash
};

/// Treatment of an item number that one of several inlets has no item for.
enum class gap_policy : std::uint8_t {
  skip,  ///< the number is a gap behind the stage too
  pass   ///< the stage is called and asks which inlets have an item
};

/// An inlet or an outlet of a stage.
struct port_info {
  std::string name;    ///< unique among the ports of the stage
  port_type type;      ///< type of the tensor that an item has at the port
  bool inlet = false;  ///< true for an inlet, false for an outlet
  /// True for an outlet that gets the item of an inlet if it fails, see
  /// `add_dead_letters`.
  bool dead_letter = false;
  /// Largest extent of the slowest dimension of an outlet whose type does not fix it; 0:
  /// not known. It bounds the memory of the items.
  std::int64_t longest = 0;
};

/// A part of the state of a stage that checkpoints hold.
struct state_info {
  std::string name;     ///< unique among the states of the stage
  bool tensor = false;  ///< true for a tensor of the engine, false for a plain value
};

/// A path among the settings of a stage.
struct path_setting {
  std::string setting;            ///< name of the setting
  std::string path;               ///< its value; relative paths lie beside the file
  path_use use = path_use::none;  ///< the stage reads or writes it
};

/// The description of a stage, which is known before it runs.
/// @threads{a value}
struct stage_info {
  std::string name;                     ///< full name of the stage, such as `tgm.read`
  std::string documentation;            ///< one sentence for users
  std::string details = {};             ///< further paragraphs in Markdown for users
  std::string example = {};             ///< TOML of a small pipeline that runs
  flow::face face = flow::face::task;   ///< way in which it takes part
  std::vector<port_info> ports;         ///< in the order of their description
  std::vector<port_info> scratch;       ///< memory of one item that no edge carries
  std::vector<state_info> state;        ///< in the order of the checkpoint
  std::vector<setting_info> settings;   ///< in the order of the reference page
  std::vector<setting_value> defaults;  ///< default of each setting, if known
  std::uint32_t takes = 1;              ///< items that one call takes
  std::uint32_t gives = 1;              ///< items that one call makes at most
  std::uint32_t holds = 0;              ///< items it keeps back before it makes one
  /// Largest number of calls whose tasks have not ended; 0: the windows of the inlets.
  std::uint32_t max_open_calls = 0;
  bool own_numbering = false;          ///< true if its items have numbers of their own
  bool stateless = false;              ///< true if a failed item may be skipped
  gap_policy gaps = gap_policy::skip;  ///< see `gap_policy`
  flow::guarantee promise = guarantee::exactly_once;  ///< strongest one with the stage
  /// Values of the settings that a resumed run must have too, as text by name.
  std::vector<std::pair<std::string, std::string>> frozen;
  std::vector<path_setting> paths;  ///< values of the settings that are paths
  bool forwards = false;  ///< true if an outlet may hand on the tensor of an inlet

  /// Returns the index of a port among `ports`, or -1.
  [[nodiscard]] int find_port(std::string_view port) const noexcept;
  /// Returns the number of inlets.
  [[nodiscard]] std::size_t inlets() const noexcept;
  /// Returns the number of outlets.
  [[nodiscard]] std::size_t outlets() const noexcept;
  /// Returns the description of an outlet. @pre `number < outlets()`
  [[nodiscard]] const port_info& outlet(std::size_t number) const noexcept;
  /// Returns the number of outlets for failed items.
  [[nodiscard]] std::size_t dead_letters() const noexcept;
};

/// Where a stage of a catalog comes from, if it is not part of the program.
struct stage_home {
  std::string file;  ///< plug-in or file that has added it; empty: the program itself
  /// Program and arguments of the child process in which the stage has to run; empty: it
  /// may run in any process that has its file.
  std::vector<std::string> command;
};

/// How a stage can be made again, in this process or in another one.
struct stage_origin {
  std::string use;  ///< name in the catalog; empty if it was made of a class
  std::vector<std::pair<std::string, setting_value>> settings;  ///< the given ones
  stage_home home;                                              ///< see `stage_home`
};

/// The thread or process in which a stage works.
enum class host_kind : std::uint8_t {
  automatic,  ///< `engine` for stages that submit tasks, `own` for all others
  engine,     ///< on the thread of the run's engine
  own,        ///< on a thread of its own, with an engine of its own if it submits tasks
  process     ///< in a child process
};

/// Adds the value of a setting to the description: its paths if it holds some, and its
/// text if a resumed run must have the same.
/// @threads{thread-compatible}
void add_value(stage_info& info, const setting_info& setting, const setting_value& value);

/// Adds an outlet `failed_NAME` for each inlet NAME, behind all other ports. If an item
/// fails, these outlets carry its tensors, with the attribute `error`; for all other
/// items they have gaps. Does nothing if the stage has such outlets.
/// @threads{thread-compatible}
void add_dead_letters(stage_info& info);

}  // namespace weir::flow
