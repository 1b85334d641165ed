// SPDX-License-Identifier: Apache-2.0
/// @file
/// The verbs of `weir model`: their options, and the functions that perform them.
#pragma once

#include <functional>
#include <string>

#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "weir/storage/hn4.hpp"

namespace CLI {
class App;
}

namespace weir::tools {

/// Options of all verbs of `weir model`.
struct model_options {
  std::string source;    ///< `import`: file or folder of the model
  std::string volume;    ///< HN4 volume
  std::string tag;       ///< tag of the model; may be empty if there is one model
  std::string out;       ///< `export`: file or folder to write
  std::string to;        ///< `export`: safetensors or gguf
  std::string type;      ///< `export`: f32 or q8_0; empty for the stored types
  bool replace = false;  ///< `import`: replace what the tag holds
  bool force = false;    ///< `export`: replace existing files
  bool json = false;     ///< print facts as JSON
};

/// Maps a volume of models for reading and prints its warnings as notes.
/// Errors are those of `storage::hn4_volume::open`.
[[nodiscard]] result<storage::hn4_volume> map_model_volume(const std::string& path);

/// `import`: stores a model, in a new volume if there is none.
/// Errors are those of `actors::import_model` and `storage::hn4_format`.
[[nodiscard]] command_result model_import(const model_options& options, output& out);
/// `ls`: lists the models by their records. Returns 1 if a record is damaged; weights are
/// not read.
/// Errors are those of `actors::list_models`.
[[nodiscard]] command_result model_ls(const model_options& options, output& out);
/// `verify`: reads every weight and every panel of one model or of all. Returns 1 if one
/// is damaged.
/// Errors are those of `actors::list_models` and `actors::choose_model`.
[[nodiscard]] command_result model_verify(const model_options& options, output& out);
/// `export`: writes a model as files.
/// @error{unknown_key, the format or the type is not known}
/// Other errors are those of `actors::export_model`.
[[nodiscard]] command_result model_export(const model_options& options, output& out);

/// Adds the command `model` and its verbs to the parser.
/// @param chosen  Receives the call that performs the verb of the command line.
void add_model_verbs(CLI::App& app, std::function<command_result(output&)>& chosen);

}  // namespace weir::tools
