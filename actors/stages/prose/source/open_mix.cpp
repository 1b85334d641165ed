// SPDX-License-Identifier: Apache-2.0
/// @file
/// Opening and checks of sources that are made of other sources.
///
/// A source may be made of others in two ways: a mixture draws documents from several
/// named sources, and a sample or a shuffle arranges the documents of one. Both are
/// layers around the sources that they use.
#include "stages/prose/source/open_mix.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "weir/storage/mix_source.hpp"

namespace weir::actors {
namespace {

/// Error of the setting with the names of a mixture.
error refused_name(std::string_view prefix, std::string text) {
  return error(
      errc::invalid_argument,
      fmt::format("cannot use setting \"{}mix.sources\" of the run: {}", prefix, text));
}

}  // namespace

/// Opens all sources of a mixture and joins them. Parts of a mixture cannot be mixtures,
/// so the recursion ends.
result<opened_source> open_mixture(file_system& fs, const source_settings& source,
                                   const named_sources& named) {
  WEIR_CHECK(check_mix("stream.", source, named));
  WEIR_TRY(read_mix mix, read_mix_settings("stream.", source.mix));
  // Files and parts are in the order of the names.
  opened_source all;
  std::vector<storage::mix_part> parts;
  for (std::size_t p = 0; p < source.mix.sources.size(); ++p) {
    // The check has found all of them.
    const std::string& name = source.mix.sources[p];
    auto opened = open_source(fs, named.find(name)->second, named);
    if (!opened) {
      return error(opened.error().code(),
                   fmt::format("opening source \"{}\" of a mixture failed", name))
          .because(std::move(opened).error());
    }
    all.files.insert(all.files.end(), opened->files.begin(), opened->files.end());
    storage::mix_part part;
    part.source = std::move(opened->tokens);
    part.name = name;
    part.weight = mix.weights[p];
    part.exhausted = mix.exhausted[p];
    parts.push_back(std::move(part));
  }
  WEIR_TRY(all.tokens, storage::mix_sources(std::move(parts), std::move(mix.options)));
  return all;
}

/// Puts a sample and then a shuffle around a source, so that the shuffle only sees what
/// is kept.
result<opened_source> arrange(opened_source opened, const source_settings& source) {
  // Without a sample, both numbers are equal.
  if (const sample_settings& s = source.sample; s.keep < s.among) {
    WEIR_TRY(opened.tokens, storage::sample_source(std::move(opened.tokens), s.keep,
                                                   s.among, s.seed, s.unit));
  }
  // A window of 0 stands for no shuffle.
  if (const shuffle_settings& s = source.shuffle; s.window != 0) {
    WEIR_TRY(opened.tokens,
             storage::shuffle_source(std::move(opened.tokens), s.window, s.seed, s.unit));
  }
  return opened;
}

/// Checks the sample and the names of a mixture.
result<void> check_mix(std::string_view prefix, const source_settings& source,
                       const named_sources& named) {
  // Every source can have a sample, also one that is no mixture.
  if (source.sample.keep > source.sample.among) {
    return error(errc::invalid_argument,
                 fmt::format("cannot use setting \"{}sample.keep\" of the run: expected "
                             "at most {}, the value of \"{}sample.among\", found {}",
                             prefix, source.sample.among, prefix, source.sample.keep));
  }
  const std::vector<std::string>& names = source.mix.sources;
  if (names.empty()) {
    return {};
  }
  // The lists are read for their errors alone.
  WEIR_CHECK(read_mix_settings(prefix, source.mix));
  if (!source.paths.empty() || !source.command.empty() || !source.listen.empty()) {
    return refused_name(prefix, "expected no path beside a mixture, found one")
        .hint("give the path a table [source.NAME], and mix that source");
  }
  for (std::size_t p = 0; p < names.size(); ++p) {
    const auto found = named.find(names[p]);
    if (found == named.end()) {
      return refused_name(prefix,
                          fmt::format("expected names of tables [source.NAME], found "
                                      "\"{}\", which has no table",
                                      names[p]));
    }
    if (!found->second.mix.sources.empty()) {
      return refused_name(prefix,
                          fmt::format("expected sources that are no mixtures, found "
                                      "\"{}\", which is one",
                                      names[p]));
    }
    // A source has one position and can be a part once.
    if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(p),
                  names[p]) != names.begin() + static_cast<std::ptrdiff_t>(p)) {
      return refused_name(
          prefix,
          fmt::format("expected every source once, found \"{}\" twice", names[p]));
    }
  }
  return {};
}

/// A stream can loop over its source only if it knows where the source ends.
result<void> check_end(const source_settings& source, const storage::token_source& tokens,
                       storage::end_policy end) {
  // A mixture whose parts all loop never ends.
  const auto& policies = source.mix.exhausted;
  const bool endless =
      !source.mix.sources.empty() &&
      std::all_of(policies.begin(), policies.end(),
                  [](const std::string& word) { return word == "loop"; });
  if (end != storage::end_policy::loop || tokens.size() != storage::unknown_size ||
      !tokens.seekable() || endless) {
    return {};
  }
  return error(errc::invalid_argument,
               "cannot use \"loop\" for the end of the stream: expected a source whose "
               "length is known, found a mixture or a sample that ends somewhere")
      .hint("mix the source with exhausted = \"loop\" and let the stream stop");
}

}  // namespace weir::actors
