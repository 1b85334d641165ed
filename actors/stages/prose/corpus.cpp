// SPDX-License-Identifier: Apache-2.0
/// @file
/// Opening of a corpus, and continuing behind a cursor.
///
/// A corpus is opened in two ways: at its beginning, or behind a cursor, where `restore`
/// compares what the cursor knows about the text with the text. A cursor of the first
/// version may need the list of files in another order.
#include "stages/prose/corpus.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "stages/prose/job/resume/contexts.hpp"
#include "stages/prose/source/open_mix.hpp"

namespace weir::actors {
namespace {

/// Opens the corpus with its files in the order of the configuration and continues behind
/// the cursor. Lanes that do not continue a context get first positions of their own.
result<opened_corpus> continue_as_listed(file_system& fs, const corpus_order& order,
                                         const storage::stream_cursor& at) {
  corpus_order resumed = order;
  resumed.resumes = true;
  WEIR_TRY(auto opened, open_corpus(fs, resumed));
  storage::restore_policy accepted{.grown = order.grown, .geometry = true};
  if (order.contexts != context_policy::keep) {
    accepted.lane_starts = first_positions(order.contexts, at.lanes, order.config.lanes);
  }
  WEIR_CHECK(opened.stream->restore(at, accepted));
  return opened;
}

/// Opens the source of an order, and those that follow it as one source with it. An
/// end-of-text token stands between two of them.
/// `names` gets the names of the sources behind the first one.
result<opened_source> open_chain(file_system& fs, const corpus_order& order,
                                 std::vector<std::string>& names) {
  WEIR_TRY(auto whole, open_source(fs, order.source, order.sources));
  if (order.config.end != storage::end_policy::chain || order.chain.empty()) {
    return whole;
  }
  std::vector<std::unique_ptr<storage::token_source>> all;
  all.push_back(std::move(whole.tokens));
  for (const std::string& name : order.chain) {
    WEIR_TRY(auto next, open_source(fs, order.sources.at(name), order.sources));
    names.push_back(name);
    whole.files.insert(whole.files.end(), next.files.begin(), next.files.end());
    all.push_back(std::move(next.tokens));
  }
  WEIR_TRY(whole.tokens, storage::chain_sources(std::move(all)));
  return whole;
}

}  // namespace

/// Opens a corpus at its beginning, or unpositioned if the order resumes.
result<opened_corpus> open_corpus(file_system& fs, const corpus_order& order) {
  opened_corpus opened;
  WEIR_TRY(auto source, open_chain(fs, order, opened.chain));
  if (!order.resumes) {
    WEIR_CHECK(source.tokens->go_on_at(0));  // else `restore` tells the index
  }
  WEIR_CHECK(check_end(order.source, *source.tokens, order.config.end));
  opened.files = std::move(source.files);
  // A source that does not know its length counts as 0 here.
  opened.tokens =
      source.tokens->size() == storage::unknown_size ? 0 : source.tokens->size();
  opened.identity = source.tokens->identity().digest();
  WEIR_TRY(opened.stream,
           storage::context_stream::open(order.config, std::move(source.tokens)));
  return opened;
}

/// Earlier versions sorted all files and read each once, so a cursor that does not fit is
/// tried with that list, too. A hint is given only if following it is certain to help.
/// Live sources have no list of files.
result<opened_corpus> continue_corpus(file_system& fs, const corpus_order& order,
                                      const storage::stream_cursor& at) {
  auto opened = continue_as_listed(fs, order, at);
  if (opened || opened.error().code() != errc::history_mismatch ||
      is_live(order.source) || order.source.paths.empty()) {
    return opened;
  }
  // The files are looked for again, because a folder may have other files now.
  corpus_order sorted = order;
  std::vector<std::string>& paths = sorted.source.paths;
  WEIR_TRY(paths, storage::expand_paths(fs, order.source.paths));
  std::sort(paths.begin(), paths.end());
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  auto older = continue_as_listed(fs, sorted, at);
  // The first error is the better one, if neither list fits.
  if (older || order.grown) {
    return older ? std::move(older) : std::move(opened);
  }
  // Only for the hint: whether the run could go on with a text that has grown.
  corpus_order longer = order;
  longer.grown = true;
  if (continue_as_listed(fs, longer, at)) {
    return std::move(opened).error().hint(
        "only text behind the end was added: resume.text = \"grown\" goes on with it");
  }
  return opened;
}

/// Lines about a mixture for people: share of tokens, units and rounds of each source.
std::vector<std::string> shares_of(const storage::context_stream& stream) {
  std::vector<std::string> lines;
  const auto shares = stream.shares();
  if (!shares) {
    return lines;
  }
  std::uint64_t tokens = 0;
  for (const storage::part_share& part : *shares) {
    tokens += part.tokens;
  }
  for (const storage::part_share& part : *shares) {
    const double percent = tokens == 0 ? 0
                                       : 100.0 * static_cast<double>(part.tokens) /
                                             static_cast<double>(tokens);
    lines.push_back(fmt::format("{}: {:.2f} % of the tokens, {} units, {} rounds",
                                part.name, percent, part.draws, part.rounds));
  }
  return lines;
}

}  // namespace weir::actors
