// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs the pipelines of `weir embed` and `weir generate`.
#pragma once

#include <cstdint>
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

/// Refuses an output that is one of the inputs, because it would replace it.
/// @error{invalid_argument, both paths name one file}
[[nodiscard]] result<void> refuse_output_over(const std::string& input,
                                              const std::string& output);

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
  void add_bad_lines(const text_options& options, const std::string& path);
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
};

/// Runs a pipeline without a folder. Its outputs have temporary names, under which the
/// pipeline writes them, and are renamed in the end, or removed on failure.
/// @param counted  Stage whose figures the line of progress shows.
/// @param things  Figure of the stage, and what the line calls it.
/// @error{interrupted, a signal has ended the run}
/// Other errors are the innermost causes of those of `weir::run`.
[[nodiscard]] result<text_report> run_texts(const pipeline_text& text,
                                            const std::vector<std::string>& outputs,
                                            const std::string& counted,
                                            const std::string& things);

/// Performs the run of a pipeline in a folder, as `weir run` does.
[[nodiscard]] command_result run_texts_in_folder(const pipeline_text& text,
                                                 const text_options& options,
                                                 output& out);

/// Returns the name under which a run without a folder writes an output.
[[nodiscard]] std::string unfinished_name(const std::string& output);

}  // namespace weir::tools
