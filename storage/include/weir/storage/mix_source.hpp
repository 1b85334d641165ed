// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sources made of other sources: mixtures by weight, windows in random order, samples.
///
/// All of them work on units: whole documents, or runs of a fixed number of tokens. Every
/// choice is a function of a seed and an index, in integers, so that a source can be
/// continued anywhere and no unit is lost or repeated by a resume.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weir/storage/context_source.hpp"

namespace weir::storage {

/// Smallest number of tokens of a run.
inline constexpr std::uint64_t min_run = 16;
/// Largest number of units of a window of `shuffle_source`.
inline constexpr std::uint64_t max_shuffle_window = std::uint64_t{1} << 20;
/// Largest number of tokens of a run.
inline constexpr std::uint64_t max_run = std::uint64_t{1} << 24;

/// Order in which a mixture draws from its parts.
enum class mix_mode : std::uint8_t {
  /// Every part keeps to its share within one unit at every moment. No randomness.
  smooth,
  /// Each draw is random by weight; the shares hold in the long run.
  random,
};
/// Behaviour at a draw from a part that has no further unit.
enum class exhaustion : std::uint8_t {
  loop,  ///< the part begins again
  drop,  ///< the part is left out, and the others share its weight
  stop,  ///< the mixture ends
};

/// One source of a mixture.
struct mix_part {
  std::unique_ptr<token_source> source;     ///< its tokens
  std::string name;                         ///< name in reports
  std::uint64_t weight = 1;                 ///< below 2^32; may be 0 until a row
  exhaustion exhausted = exhaustion::loop;  ///< a part that cannot seek cannot loop
};
/// Weights that hold from a draw on.
struct mix_row {
  std::uint64_t draw = 0;              ///< number of the first draw, greater than 0
  std::vector<std::uint64_t> weights;  ///< one per part
};
/// How a mixture draws from its parts.
struct mix_options {
  mix_mode mode = mix_mode::smooth;  ///< order of the draws
  std::uint64_t seed = 0;            ///< seed of `mix_mode::random`
  /// Tokens of a run; 0 draws documents.
  std::uint64_t run_tokens = 0;
  /// Weights that replace those of the parts from a draw on, in ascending order.
  std::vector<mix_row> curriculum;
};
/// Largest number of parts of a mixture.
inline constexpr std::size_t max_mix_parts = 256;

/// Mixes sources by weight.
///
/// Draw number d takes the next unit of one part. If units are documents, `end_of_text`
/// ends each of them. If they are runs, it stands only where a part begins again. In
/// smooth mode, of n draws since the weights changed last, a part with weight w of W gets
/// n * w / W, less or more than one. The mixture can seek if all parts can; its size is
/// unknown. It ends when a part with `exhaustion::stop` is drawn and has no further unit,
/// or when no part is left that has a weight.
/// @error{invalid_argument, there are no parts or too many, an option is out of its
/// range, their separators differ, the weights of a row are all 0, draws of the
/// curriculum do not rise, a part that cannot seek would begin again, or a part has
/// turns}
/// @threads{safe to call concurrently}
/// @source{context_stream.md, 6.3; R. Tijdeman, "The chairman assignment problem",
/// Discrete Mathematics 32 (1980)}
[[nodiscard]] result<std::unique_ptr<token_source>> mix_sources(
    std::vector<mix_part> parts, mix_options options);

/// Puts the units of each window of a source in random order.
///
/// Window j holds the units j * window to (j + 1) * window - 1. Their order is a function
/// of the seed and of the numbers of the units, so nothing is buffered, and the order is
/// the same in every round of a loop. If units are documents, `end_of_text` ends the last
/// document of the source, too.
/// @param window  Units per window, 2 to 2^20.
/// @error{invalid_argument, the window or the unit is out of its range, or the source
/// cannot seek}
/// @error{source_unavailable, a read failed}
/// @threads{safe to call concurrently}
[[nodiscard]] result<std::unique_ptr<token_source>> shuffle_source(
    std::unique_ptr<token_source> source, std::uint64_t window, std::uint64_t seed,
    std::uint64_t run_tokens);

/// Keeps each unit of a source with the probability `keep / among`, as a function of the
/// seed and of the number of the unit. The size of a sample is unknown.
/// @error{invalid_argument, `keep` is 0 or above `among`, the unit is out of its range,
/// or the source cannot seek}
/// @threads{safe to call concurrently}
[[nodiscard]] result<std::unique_ptr<token_source>> sample_source(
    std::unique_ptr<token_source> source, std::uint64_t keep, std::uint64_t among,
    std::uint64_t seed, std::uint64_t run_tokens);

}  // namespace weir::storage
