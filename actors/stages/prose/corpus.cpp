// SPDX-License-Identifier: Apache-2.0
/// @file
/// Opening of a corpus, and continuing behind a cursor.
#include "stages/prose/corpus.hpp"

#include <algorithm>

#include "stages/prose/source/open_mix.hpp"

namespace weir::actors {
namespace {

result<opened_corpus> continue_as_listed(file_system& fs, const corpus_order& order,
                                         const storage::stream_cursor& at) {
  WEIR_TRY(auto opened, open_corpus(fs, order));
  WEIR_CHECK(opened.stream->restore(at));
  return opened;
}

}  // namespace

result<opened_corpus> open_corpus(file_system& fs, const corpus_order& order) {
  opened_corpus opened;
  WEIR_TRY(auto source, open_source(fs, order.source, order.sources));
  WEIR_CHECK(check_end(order.source, *source.tokens, order.config.end));
  opened.files = std::move(source.files);
  opened.tokens =
      source.tokens->size() == storage::unknown_size ? 0 : source.tokens->size();
  opened.identity = source.tokens->identity().digest();
  WEIR_TRY(opened.stream,
           storage::context_stream::open(order.config, std::move(source.tokens)));
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
  std::vector<std::string>& paths = sorted.source.paths;
  WEIR_TRY(paths, storage::expand_paths(fs, order.source.paths));
  std::sort(paths.begin(), paths.end());
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  auto older = continue_as_listed(fs, sorted, at);
  return older ? std::move(older) : std::move(opened);
}

}  // namespace weir::actors
