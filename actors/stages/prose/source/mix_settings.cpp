// SPDX-License-Identifier: Apache-2.0
/// @file
/// The tables of the settings of mixtures, shuffles and samples, and the reading of
/// lists in them.
///
/// A mixture is described by lists that belong together: names, weights, words for the
/// end of a source, and rows of a curriculum. The tables check each value;
/// `read_mix_settings` checks the lengths of the lists against each other.
#include "weir/actors/mix_settings.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "weir/base/settings.hpp"

namespace weir::actors {
namespace {

/// Seeds are stored as signed numbers.
constexpr auto max_seed = std::numeric_limits<std::int64_t>::max();

/// Adds the setting of the unit: "document" or the tokens of a run.
template <class Owner>
void add_unit(settings_table<Owner>& table, const std::string& key,
              const std::string& documentation) {
  // The word stands for 0, which is below the range.
  table.add(key, &Owner::unit, documentation)
      .range(storage::min_run, storage::max_run)
      .word("document", 0)
      .unit("tokens");
}

/// Rule of the setting `exhausted`.
bool are_policies(const std::vector<std::string>& words) {
  // The words are those of `policy_of`.
  return std::all_of(words.begin(), words.end(), [](const std::string& word) {
    return word == "loop" || word == "drop" || word == "stop";
  });
}

/// @pre The word is one of the three.
storage::exhaustion policy_of(const std::string& word) {
  return word == "loop"   ? storage::exhaustion::loop
         : word == "drop" ? storage::exhaustion::drop
                          : storage::exhaustion::stop;
}

/// Error of a setting of a mixture; `text` continues with "expected".
error refused(std::string_view prefix, std::string_view key, std::string text) {
  // The key is complete, so the message can be searched for in the file.
  return error(
      errc::invalid_argument,
      fmt::format("cannot use setting \"{}mix.{}\" of the run: {}", prefix, key, text));
}

/// Reads numbers that commas separate. @returns nothing if another character is there
/// Spaces around numbers are allowed.
std::optional<std::vector<std::uint64_t>> numbers_of(std::string_view text) {
  std::vector<std::uint64_t> out;
  for (;;) {
    // Spaces in front of a number, the number, and spaces behind it.
    // An empty text, or one that ends with a comma, has no number and is refused.
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    std::uint64_t number = 0;
    const auto [end, code] =
        std::from_chars(text.data(), text.data() + text.size(), number);
    if (code != std::errc()) {
      return std::nullopt;
    }
    out.push_back(number);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    if (text.empty()) {
      return out;
    }
    if (text.front() != ',') {
      return std::nullopt;
    }
    text.remove_prefix(1);
  }
}

/// Reads a row "DRAW: WEIGHT, ...". There must be a weight for each source.
result<storage::mix_row> row_of(std::string_view prefix, const std::string& text,
                                std::size_t sources) {
  // Without a colon, the weights are empty and refused.
  const std::size_t colon = std::min(text.find(':'), text.size());
  const auto draw = numbers_of(std::string_view(text).substr(0, colon));
  const auto weights =
      numbers_of(std::string_view(text).substr(std::min(colon + 1, text.size())));
  // One number in front of the colon, and a weight for each source behind it.
  if (!draw || draw->size() != 1 || !weights || weights->size() != sources) {
    return refused(prefix, "curriculum",
                   fmt::format("expected \"DRAW: WEIGHT, ...\" with {} weights, found "
                               "\"{}\"",
                               sources, text));
  }
  return storage::mix_row{draw->front(), *weights};
}

}  // namespace

/// The tables are made once; they describe members of the structures in the header.
const settings_table<mix_settings>& mix_table() {
  static const settings_table<mix_settings> all = [] {
    using s = mix_settings;
    settings_table<s> t("the mixture");
    // An empty list means no mixture.
    t.add("sources", &s::sources,
          "Names of tables [source.NAME] that are mixed, instead of a path")
        .count(0, storage::max_mix_parts);
    // Weights are relative, so only their ratios count.
    t.add("weights", &s::weights, "Weight of each source; empty: all are equal")
        .range(0, 0xFFFFFFFF);
    t.add("mode", &s::mode,
          {{"smooth", storage::mix_mode::smooth}, {"random", storage::mix_mode::random}},
          "Draw so that the shares hold at every moment, or by chance");
    t.add("seed", &s::seed, "Seed of the random mode").range(0, max_seed);
    add_unit(t, "unit", "Draw whole documents, or runs of so many tokens");
    t.add("exhausted", &s::exhausted,
          "At the end of a source: \"loop\", \"drop\" or \"stop\"; one word for all or "
          "one per source")
        .single()
        .rule("each of them \"loop\", \"drop\" or \"stop\"", are_policies);
    t.add("curriculum", &s::curriculum,
          "Rows \"DRAW: WEIGHT, ...\": the weights that hold from a draw on");
    return t;
  }();
  return all;
}

/// A window of 0 means no shuffle.
const settings_table<shuffle_settings>& shuffle_table() {
  static const settings_table<shuffle_settings> all = [] {
    using s = shuffle_settings;
    settings_table<s> t("the shuffle");
    // The smallest shuffle needs two units.
    t.add("window", &s::window, "Units of a window that are put in random order")
        .range(2, storage::max_shuffle_window)
        .word("off", 0)
        .unit("units");
    t.add("seed", &s::seed, "Seed of the order").range(0, max_seed);
    add_unit(t, "unit", "Shuffle whole documents, or runs of so many tokens");
    return t;
  }();
  return all;
}

/// Equal values of both numbers mean no sample.
const settings_table<sample_settings>& sample_table() {
  static const settings_table<sample_settings> all = [] {
    using s = sample_settings;
    settings_table<s> t("the sample");
    // `keep` of `among` units, chosen in each group.
    t.add("keep", &s::keep, "Units that are kept of those of `sample.among`")
        .range(1, 0xFFFFFFFF);
    t.add("among", &s::among, "Units of which `sample.keep` are kept, by chance")
        .range(1, 0xFFFFFFFF);
    t.add("seed", &s::seed, "Seed of the choice").range(0, max_seed);
    add_unit(t, "unit", "Choose whole documents, or runs of so many tokens");
    return t;
  }();
  return all;
}

/// Reads the lists of a mixture. @param prefix  Begin of the keys, for errors.
result<read_mix> read_mix_settings(std::string_view prefix, const mix_settings& mix) {
  const std::size_t count = mix.sources.size();
  read_mix out;
  out.options.mode = mix.mode;
  out.options.seed = mix.seed;
  out.options.run_tokens = mix.unit;
  // No weights mean equal ones.
  // Weights stay integers, so that shares are exact.
  out.weights = mix.weights;
  if (out.weights.empty()) {
    out.weights.assign(count, 1);
  }
  if (out.weights.size() != count) {
    return refused(prefix, "weights",
                   fmt::format("expected {} numbers, as many as sources, found {}", count,
                               out.weights.size()));
  }
  // A single source with a weight is enough.
  if (std::all_of(out.weights.begin(), out.weights.end(),
                  [](std::uint64_t w) { return w == 0; })) {
    return refused(prefix, "weights", "expected one above 0, found none");
  }
  // The table has checked the words themselves.
  if (mix.exhausted.size() != 1 && mix.exhausted.size() != count) {
    return refused(
        prefix, "exhausted",
        fmt::format("expected 1 or {} words, found {}", count, mix.exhausted.size()));
  }
  // One word counts for all sources.
  for (std::size_t p = 0; p < count; ++p) {
    out.exhausted.push_back(policy_of(mix.exhausted[mix.exhausted.size() == 1 ? 0 : p]));
  }
  // The draws of the rows must rise, because the rows hold from a draw on.
  for (const std::string& text : mix.curriculum) {
    WEIR_TRY(storage::mix_row row, row_of(prefix, text, count));
    const auto& rows = out.options.curriculum;
    // The rows begin behind the weights of the setting, which hold from draw 0 on.
    if (row.draw <= (rows.empty() ? 0 : rows.back().draw)) {
      return refused(
          prefix, "curriculum",
          fmt::format("expected draws that rise from 1 on, found {}", row.draw));
    }
    out.options.curriculum.push_back(std::move(row));
  }
  return out;
}

}  // namespace weir::actors
