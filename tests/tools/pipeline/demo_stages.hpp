// SPDX-License-Identifier: Apache-2.0
/// @file
/// Stages for tests of pipelines in TOML, and calls of commands.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "file_stage.hpp"
#include "pipeline/verbs.hpp"
#include "support/temp_folder.hpp"
#include "weir/pipeline/catalog.hpp"

namespace weir::test {

/// A command with its options.
template <class Options>
using command = tools::command_result (*)(const Options&, tools::output&);

/// Output and exit code of a command, or its error.
struct outcome {
  std::string out;      ///< standard output
  int code = -1;        ///< exit code; -1 after an error
  std::string refusal;  ///< message of the error; empty on success
};

/// A folder with the file of a pipeline.
class pipeline_folder {
 public:
  explicit pipeline_folder(const std::string& text) {
    add_demo_stages();
    std::ofstream(file()) << text;
  }
  [[nodiscard]] std::string file() const { return folder_ / "two.toml"; }
  [[nodiscard]] std::string operator/(const std::string& name) const {
    return folder_ / name;
  }

  /// Calls a command and returns its output. The path of the folder is cut out of the
  /// message.
  template <class Options>
  [[nodiscard]] outcome call(command<Options> run, const Options& options) const {
    const std::string path = folder_ / "output";
    const int descriptor = ::open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
    outcome result;
    {
      tools::output out(descriptor);
      const auto code = run(options, out);
      code ? result.code = *code : 0;
      result.refusal = code ? "" : without_folder(code.error().message());
      or_throw(out.close());
    }
    ::close(descriptor);
    result.out = without_folder(read(path));
    return result;
  }

  /// Returns the content of a file.
  [[nodiscard]] static std::string read(const std::string& path) {
    std::ifstream in(path);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
  }

 private:
  [[nodiscard]] std::string without_folder(std::string text) const {
    const std::string prefix = folder_.path() + "/";
    for (std::size_t at = 0; (at = text.find(prefix)) != std::string::npos;) {
      text.erase(at, prefix.size());
    }
    return text;
  }

  temp_folder folder_;
};

/// Returns the message with which `weir check` refuses a text, or "accepted".
inline std::string refusal_of(const std::string& text,
                              const std::vector<std::string>& sets = {}) {
  const pipeline_folder folder(text);
  tools::graph_options options;
  options.file = folder.file();
  options.sets = sets;
  const outcome o = folder.call<tools::graph_options>(&tools::check_command, options);
  return o.code == 0 ? "accepted" : o.refusal;
}

}  // namespace weir::test
