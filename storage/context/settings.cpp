// SPDX-License-Identifier: Apache-2.0
/// @file
/// The settings of a context stream, and the rules between several of them.
///
/// The chunk size is checked against the periods of the model's levels. A chunk that is
/// shorter than the fastest period could never let a level fire. Other combinations work
/// but are worth a warning.
#include "weir/base/settings.hpp"

#include <fmt/core.h>

#include "context/stream_state.hpp"
#include "weir/storage/context.hpp"

namespace weir::storage {

namespace {

/// Makes the table of settings: name, member, text for users and range of each.
///
/// docs/settings.md is made from this table.
settings_table<stream_config> make_table() {
  using c = stream_config;
  constexpr std::int64_t max_lanes = 1 << 16;
  settings_table<stream_config> t("the stream");
  t.add("chunk", &c::chunk, "Tokens of a lane in one pulse")
      .range(1, max_chunk)
      .unit("tokens");
  t.add("lanes", &c::lanes,
        "Virtual ranks that share the text; the state of each is its own")
      .range(1, max_lanes);
  t.add("lane_block", &c::lane_block, "Chunks that a lane reads in a row")
      .range(1, 1 << 30)
      .unit("chunks");
  // The number of machines has no influence on results.
  t.add("ranks", &c::ranks, "Hosts of the lanes, at most as many; never changes a result")
      .range(1, max_lanes)
      .may_change();
  t.add("end", &c::end,
        {{"stop", end_policy::stop},
         {"loop", end_policy::loop},
         {"chain", end_policy::chain}},
        "After the last token: stop, begin again, or go on with the next source");
  t.add("boundary", &c::boundary,
        {{"never", boundary_policy::never},
         {"at_next_chunk", boundary_policy::at_next_chunk},
         {"split", boundary_policy::split}},
        "When the end of a document empties the context");
  t.add(
       "frequencies", &c::frequencies,
       "Period of each level of the model that reads the stream, the fastest level first")
      .range(std::int64_t{1}, std::numeric_limits<std::int64_t>::max())
      .unit("tokens");
  return t;
}

}  // namespace

/// The table is made at the first use.
const settings_table<stream_config>& stream_settings() {
  static const settings_table<stream_config> table = make_table();
  return table;
}

/// Returns a warning, or an empty text.
result<std::string> check_config(const stream_config& config) {
  WEIR_CHECK(stream_settings().check(config));
  if (config.ranks > config.lanes) {
    return error(
        errc::invalid_argument,
        fmt::format(
            "cannot use setting \"ranks\" of the stream: expected at most {}, one "
            "for each lane, found {}",
            config.lanes, config.ranks));
  }
  return check_chunk_size(config.chunk, config.frequencies);
}

// Only a chunk shorter than the fastest period is an error; the other cases are legal and
// give a warning.
result<std::string> check_chunk_size(std::size_t chunk,
                                     std::span<const std::uint64_t> frequencies) {
  if (chunk == 0) {
    return error(errc::invalid_argument,
                 "cannot use chunk size: expected at least 1 token, found 0");
  }
  // Without levels every chunk size will do.
  if (frequencies.empty()) {
    return std::string();
  }
  const std::uint64_t fastest = frequencies.front();
  const std::uint64_t slowest = frequencies.back();
  if (chunk < fastest) {
    return error(
        errc::invalid_argument,
        fmt::format("cannot use chunk size: expected at least the period {} of the "
                    "fastest level, found {}",
                    fastest, chunk));
  }
  // Lists the levels whose period does not fit into a chunk.
  if (chunk < slowest) {
    std::string levels;
    for (std::size_t level = 0; level < frequencies.size(); ++level) {
      if (frequencies[level] > chunk) {
        levels += fmt::format("{}{} (period {})", levels.empty() ? "" : ", ", level,
                              frequencies[level]);
      }
    }
    return fmt::format(
        "chunk size {} is below the slowest period {}: some levels do not fire in every "
        "chunk, only across chunks: {}",
        chunk, slowest, levels);
  }
  // Levels fire at different places of a chunk then.
  if (slowest != 0 && chunk % slowest != 0) {
    return fmt::format(
        "chunk size {} is no multiple of the slowest period {}: levels fire inside "
        "chunks",
        chunk, slowest);
  }
  return std::string();
}

}  // namespace weir::storage
