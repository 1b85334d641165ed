// SPDX-License-Identifier: Apache-2.0
/// @file
/// Parts of the table of all stages: stages and settings of trials.
#pragma once

#include <string>
#include <vector>

#include <fmt/format.h>

#include "stages/stage_inputs.hpp"
#include "stages/table/stage_table.hpp"

namespace weir::test {

/// Returns the setting of the extents of an item.
inline given_value extents(std::vector<std::int64_t> all) {
  setting_value::list list;
  for (const std::int64_t one : all) {
    list.push_back({one});
  }
  return given_value(setting_value{std::move(list)});
}
/// Returns the type of an item of a trial.
inline std::string floats(const stage_trial& t) {
  return fmt::format("f32[{}]", t.extent);
}
/// Returns the settings of a generator of the items of a trial.
inline given_settings numbers_of(const stage_trial& t) {
  return {{"count", t.items}, {"shape", extents({t.extent})}};
}
/// Adds a stage whose inlets have the windows of a trial.
inline node stage_in(pipeline& p, const stage_trial& t, const std::string& name,
                     const std::string& stage, const given_settings& settings = {}) {
  return add_stage(p, name, stage, settings).window(2, t.window_bytes);
}
/// Returns settings with the limit of a trial.
inline given_settings limited(const stage_trial& t, const std::string& key,
                              given_settings settings) {
  if (t.limit != 0) {
    settings.insert_or_assign(key, t.limit);
  }
  return settings;
}
/// Adds a source of the items of a trial.
inline node numbers_into(pipeline& p, const stage_trial& t) {
  return stage_in(p, t, "source", "generator",
                  t.other_type ? given_settings{{"count", t.items},
                                                {"shape", extents({3, 3})},
                                                {"element", "u8"}}
                               : numbers_of(t));
}
/// Adds a sink that appends messages to a file of the output.
inline node message_file_of(pipeline& p, const stage_trial& t,
                            const std::string& name = "sink") {
  return stage_in(p, t, name, "tgm.write", {{"path", t.out(name + ".tgm")}});
}
/// Adds the stages of the text model, and those that process texts with models.
void add_text_stages(std::vector<stage_entry>& all);

}  // namespace weir::test
