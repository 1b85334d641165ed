// SPDX-License-Identifier: Apache-2.0
/// @file
/// Opening of files and of standard input as one source of tokens.
#include "stages/prose/corpus.hpp"

#include <algorithm>

namespace weir::actors {
namespace {

/// Opens the source: standard input, or files in the order that `expand_paths` gives
/// them.
result<std::unique_ptr<storage::token_source>> open_source(
    file_system& fs, const corpus_order& order, std::vector<std::string>& files) {
  const std::vector<std::string>& paths = order.paths;
  if (paths.size() == 1 && paths.front() == "-") {
    files = {"stdin"};
    return storage::open_pipe_source(0);
  }
  if (std::find(paths.begin(), paths.end(), "-") != paths.end()) {
    return error(errc::invalid_argument,
                 "opening the corpus failed: expected standard input alone, found it "
                 "beside files");
  }
  WEIR_TRY(files, storage::expand_paths(fs, paths));
  storage::source_options options;
  options.separate_documents = order.eot;
  return storage::open_file_set(fs, files, options);
}

result<opened_corpus> continue_as_listed(file_system& fs, const corpus_order& order,
                                         const storage::stream_cursor& at) {
  WEIR_TRY(auto opened, open_corpus(fs, order));
  WEIR_CHECK(opened.stream->restore(at));
  return opened;
}

}  // namespace

result<opened_corpus> open_corpus(file_system& fs, const corpus_order& order) {
  opened_corpus opened;
  WEIR_TRY(auto source, open_source(fs, order, opened.files));
  opened.tokens = source->size() == storage::unknown_size ? 0 : source->size();
  opened.identity = source->identity().digest();
  WEIR_TRY(opened.stream, storage::context_stream::open(order.config, std::move(source)));
  return opened;
}

/// Earlier versions sorted all files and read each once, so a cursor that does not fit is
/// tried with that list, too.
result<opened_corpus> continue_corpus(file_system& fs, const corpus_order& order,
                                      const storage::stream_cursor& at) {
  auto opened = continue_as_listed(fs, order, at);
  if (opened || opened.error().code() != errc::history_mismatch) {
    return opened;
  }
  corpus_order sorted = order;
  WEIR_TRY(sorted.paths, storage::expand_paths(fs, order.paths));
  std::sort(sorted.paths.begin(), sorted.paths.end());
  sorted.paths.erase(std::unique(sorted.paths.begin(), sorted.paths.end()),
                     sorted.paths.end());
  auto older = continue_as_listed(fs, sorted, at);
  return older ? std::move(older) : std::move(opened);
}

}  // namespace weir::actors
