// SPDX-License-Identifier: Apache-2.0
/// @file
/// Comparison of the outputs of a finished run with its last image.
///
/// A run that had finished is not begun again. Instead every sink compares its output
/// with its offset. Sinks that cannot tell, such as pipes, are returned by name.
#include "weir/pipeline/host/verification.hpp"

#include <fmt/format.h>

#include "weir/pipeline/host/stage_calls.hpp"

namespace weir::flow {

/// @param stages  Objects of the graph, of which only sinks are called.
result<std::vector<std::string>> verify_outputs(
    const graph& g, const std::vector<std::unique_ptr<stage_object>>& stages,
    weir::engine& host, const execution_options& options, const image& from) {
  WEIR_EXPECT(stages.size() == g.stages.size());
  std::vector<std::string> unknown;
  for (std::size_t i = 0; i < g.stages.size(); ++i) {
    const std::string& name = g.stages[i].name;
    if (g.stages[i].info.face != face::sink) {
      continue;
    }
    // Every sink has an offset in the image of a finished run.
    const image_section* offset = from.find("OFFSET/" + name);
    if (offset == nullptr) {
      return error(
          errc::corrupt,
          fmt::format("cannot find the offset of the sink \"{}\": expected it in "
                      "the checkpoint, found none",
                      name));
    }
    // Sinks are told that they resume, so that they change nothing.
    opening run(
        {&host, options.folder, true, options.seed, options.load, options.kernels});
    auto complete = guarded(
        [&] { return stages[i]->verify(run, offset->data, state_reader(from, name)); });
    if (!complete) {
      const errc code = complete.error().code();
      return error(code,
                   fmt::format("cannot rely on the finished run: expected the whole "
                               "output of the stage \"{}\", found less or another",
                               name))
          .because(std::move(complete.error()));
    }
    // The caller warns about outputs that could not be compared.
    if (!*complete) {
      unknown.push_back(name);
    }
  }
  return unknown;
}

}  // namespace weir::flow
