// SPDX-License-Identifier: Apache-2.0
/// @file
/// Opening of a source of tokens that settings describe.
#include "stages/prose/source/open_source.hpp"

#include <algorithm>

#include "stages/prose/source/open_mix.hpp"

namespace weir::actors {

namespace {

/// Standard input, or files in the order that `expand_paths` gives them.
result<opened_source> open_plain(file_system& fs, const source_settings& source) {
  const std::vector<std::string>& paths = source.paths;
  if (paths.size() == 1 && paths.front() == "-") {
    return opened_source{storage::open_pipe_source(0), {"stdin"}};
  }
  if (std::find(paths.begin(), paths.end(), "-") != paths.end()) {
    return error(errc::invalid_argument,
                 "opening the corpus failed: expected standard input alone, found it "
                 "beside files");
  }
  opened_source opened;
  WEIR_TRY(opened.files, storage::expand_paths(fs, paths));
  storage::source_options options;
  options.separate_documents = source.eot;
  WEIR_TRY(opened.tokens, storage::open_file_set(fs, opened.files, options));
  return opened;
}

}  // namespace

result<opened_source> open_source(file_system& fs, const source_settings& source,
                                  const named_sources& named) {
  WEIR_TRY(auto opened, source.mix.sources.empty() ? open_plain(fs, source)
                                                   : open_mixture(fs, source, named));
  return arrange(std::move(opened), source);
}

}  // namespace weir::actors
