// SPDX-License-Identifier: Apache-2.0
/// @file
/// `weir settings`: prints the reference of the settings of a run.
#include "commands.hpp"
#include "config/reference.hpp"
#include "pipeline/file.hpp"
#include "weir/actors/run.hpp"

namespace weir::tools {

command_result settings_command(const settings_options& options, output& out) {
  setting_list settings = settings_of_run();
  if (!options.key.empty()) {
    WEIR_TRY(settings, select_settings(settings, options.key));
  }
  if (options.json) {
    out.write(settings_json(settings));
  } else if (options.markdown) {
    out.write(settings_page(settings));
  } else {
    out.write(settings_text(settings));
  }
  return 0;
}

std::string settings_help(bool resuming) {
  return "Keys that --set takes for a file with tables [[stage]], besides STAGE.KEY; "
         "docs/pipelines.md says what each is:\n" +
         settings_names(list_settings(pipeline_table()), resuming) +
         "\nKeys for a job that learns from text; `weir settings` and docs/settings.md "
         "say what each is:\n" +
         settings_names(settings_of_run(), resuming);
}

}  // namespace weir::tools
