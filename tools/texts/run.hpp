// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs the pipelines of `weir embed` and `weir generate`.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "texts/verbs.hpp"
#include "weir/actors/models.hpp"
#include "weir/actors/pipelines.hpp"

namespace weir::tools {

/// Returns the record of a model of one family.
/// @param tag  May be empty if the volume has one model.
/// @error{not_found, there is no such volume or model}
/// @error{invalid_argument, there are several models and no tag; they are listed}
/// @error{unsupported, the model is of another family}
[[nodiscard]] result<actors::model_record> record_of_model(const std::string& volume,
                                                           const std::string& tag,
                                                           models::architecture family);

/// The text of a pipeline in TOML, stage by stage.
class pipeline_text {
 public:
  /// Begins a pipeline. @param name  Its name.
  pipeline_text(const std::string& name, const text_options& options);
  /// Begins a stage.
  void stage(const std::string& name, const std::string& use);
  /// Adds a key to the stage.
  void key(std::string_view name, const setting_value& value);
  /// Adds the keys of the model to the stage.
  void model(const std::string& volume, const std::string& tag);
  /// Adds the stages `lines` and `tokens`.
  void add_tokens(const text_options& options, const std::string& tag,
                  const std::vector<std::string>& files, std::uint32_t bytes);
  /// Adds the sink of the list of bad lines, if there is one.
  /// @param outlet  Outlet of the stage that lists them.
  void add_bad_lines(const text_options& options, const std::string& path,
                     const std::string& outlet);
  /// Returns the text.
  [[nodiscard]] const std::string& text() const noexcept { return text_; }

 private:
  std::string text_;
};

/// The end of a run: its stages by name.
struct text_report {
  weir::pipeline_report run;  ///< the whole report

  /// Returns a figure of a stage; 0 if there is none.
  [[nodiscard]] std::uint64_t figure(std::string_view stage, std::string_view name) const;
  /// Returns a figure of a stage that is a text; empty if there is none.
  [[nodiscard]] std::string text(std::string_view stage, std::string_view name) const;
};

/// Returns the rates of a run: "1,234 texts/s, 56,789 tokens/s". Rates below 100 have one
/// digit behind the point.
/// @param things  Figure that counts finished texts, in the plural.
/// @units{seconds: time of the whole run, with the loading of the model}
[[nodiscard]] std::string rates_text(std::string_view things, std::uint64_t count,
                                     std::uint64_t tokens, double seconds);

/// What differs between the commands that compute texts.
struct text_job {
  std::vector<std::string> inputs;  ///< files of texts
  /// Makes the pipeline that writes to an output, and bad lines to another.
  std::function<pipeline_text(const std::string& out, const std::string& bad)>
      pipeline_to;
  std::string counted;  ///< stage whose figures the line of progress shows
  std::string things;   ///< figure of the stage, and what the line calls it
  std::function<void(const text_report&)> print_summary;  ///< to standard output
};

/// Prints the pipeline of a job, runs it in a folder as `weir run` does, or runs it
/// without one, as the options ask. Without a folder, outputs have temporary names until
/// the run has ended, and are removed on failure.
/// @error{invalid_argument, an output is one of the inputs or the volume}
/// @error{not_found, the folder of an output does not exist}
/// @error{interrupted, a signal has ended the run}
/// Other errors are the innermost causes of those of `weir::run`.
[[nodiscard]] command_result perform_texts(const text_job& job,
                                           const text_options& options, output& out);

}  // namespace weir::tools
