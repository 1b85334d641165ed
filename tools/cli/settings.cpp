// SPDX-License-Identifier: Apache-2.0
/// @file
/// `weir settings`: prints the reference of the settings of a run.
///
/// The reference is made from the table of settings that also parses files, so it cannot
/// differ from what the program accepts.
#include "commands.hpp"
#include "config/reference.hpp"
#include "pipeline/file.hpp"
#include "weir/actors/run.hpp"

namespace weir::tools {

command_result settings_command(const settings_options& options, output& out) {
  // All settings, or those that match the key of the command line.
  setting_list settings = settings_of_run();
  if (!options.key.empty()) {
    // A key that matches nothing is an error with a suggestion.
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

/// Returns the text that `--help` of `run` and `resume` adds about `--set`.
/// @param resuming  Leaves out settings that a resume cannot change.
std::string settings_help(bool resuming) {
  return "Keys that --set takes for a file with tables [[stage]], besides STAGE.KEY; "
         "docs/pipelines.md says what each is:\n" +
         settings_names(list_settings(pipeline_table()), resuming) +
         "\nKeys for a job that learns from text; `weir settings` and docs/settings.md "
         "say what each is:\n" +
         settings_names(settings_of_run(), resuming);
}

}  // namespace weir::tools
