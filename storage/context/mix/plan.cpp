// SPDX-License-Identifier: Apache-2.0
/// @file
/// Chooses the part of each draw.
///
/// The smooth mode is Tijdeman's schedule. With weights w of W, c units drawn from a part
/// and t draws including this one, its deficit is w * t - W * c. Of the parts whose
/// deficit is at least W / (2 k - 2), with k parts, the one is taken whose deficit would
/// first exceed W * (1 - 1 / (2 k - 2)). No part is then ever a whole unit away from its
/// share. The plain rule "largest deficit first" has no such bound: with many parts of
/// small weight their deficits grow together.
///
/// An example: with weights 3 and 1, the draws are part 0 three times and part 1 once in
/// every four, spread evenly. The state of the schedule is one deficit per part, so it
/// fits into a cursor.
#include "context/mix/plan.hpp"

#include <fmt/core.h>

#include <numeric>

#include "weir/base/hash.hpp"
#include "weir/base/philox.hpp"

namespace weir::storage {

namespace {

/// Deficits are multiplied by numbers of parts, which may exceed 64 bits.
__extension__ using wide = __int128;

/// Stream of the random numbers of a mixture, so that other users of the seed draw
/// others.
constexpr std::uint64_t mix_stream = 0x4D4958;
/// Weights are below this, so that sums and products of deficits cannot overflow.
constexpr std::uint64_t weight_limit = std::uint64_t{1} << 32;

/// All of these errors begin with the same words.
error refused(std::string text) {
  return error(errc::invalid_argument, "cannot mix sources: " + std::move(text));
}

/// At least one weight must be positive, else no part could be drawn. `place` names the
/// row in errors.
result<void> check_weights(std::span<const std::uint64_t> weights, std::size_t parts,
                           std::string_view place) {
  if (weights.size() != parts) {
    return refused(
        fmt::format("expected {} weights {}, found {}", parts, place, weights.size()));
  }
  std::uint64_t total = 0;
  for (const std::uint64_t w : weights) {
    if (w >= weight_limit) {
      return refused(fmt::format("expected weights below 2^32 {}, found {}", place, w));
    }
    total += w;
  }
  return total > 0
             ? result<void>()
             : refused(fmt::format("expected a weight above 0 {}, found none", place));
}

std::vector<std::uint64_t> weights_of(std::span<const mix_part> parts) {
  std::vector<std::uint64_t> out;
  for (const mix_part& part : parts) {
    out.push_back(part.weight);
  }
  return out;
}

}  // namespace

/// Called before anything is made of the parts.
result<void> mix_plan::check(std::span<const mix_part> parts,
                             const mix_options& options) {
  if (parts.empty() || parts.size() > max_mix_parts) {
    return refused(
        fmt::format("expected 1 to {} of them, found {}", max_mix_parts, parts.size()));
  }
  WEIR_CHECK(check_run(options.run_tokens));
  WEIR_CHECK(check_weights(weights_of(parts), parts.size(), "of the sources"));
  std::uint64_t before = 0;
  // The rows of the curriculum must rise, and each has one weight per part.
  for (const mix_row& row : options.curriculum) {
    if (row.draw <= before) {
      return refused(fmt::format(
          "expected the draws of the curriculum to rise from 1 on, found {} after {}",
          row.draw, before));
    }
    before = row.draw;
    WEIR_CHECK(check_weights(row.weights, parts.size(),
                             fmt::format("from draw {} on", row.draw)));
  }
  for (const mix_part& part : parts) {
    const std::uint32_t separator = parts.front().source->separator();
    if (part.source->separator() != separator) {
      return refused(
          fmt::format("expected the end-of-text token {} of the first one in "
                      "{}, found {}",
                      separator, part.name, part.source->separator()));
    }
    // A chunk of turns ends with its turn, which a mixture cannot keep.
    if (part.source->has_turns()) {
      return refused(fmt::format("expected sources without turns, found {}, whose chunks "
                                 "end with turns",
                                 part.name))
          .located(part.source->place_text(0))
          .hint("leave turns out of the source, or read the source alone");
    }
    // A live part cannot be read a second time.
    if (!part.source->seekable() && part.exhausted == exhaustion::loop) {
      return refused(fmt::format("expected a source that can be read again for \"loop\", "
                                 "found {}, which cannot seek",
                                 part.name))
          .located(part.source->place_text(0))
          .hint("let the mixture drop the source or stop at its end");
    }
  }
  return {};
}

mix_plan::mix_plan(std::span<const mix_part> parts, mix_options options)
    : weights_(weights_of(parts)), options_(std::move(options)) {
  for (const mix_part& part : parts) {
    exhausted_.push_back(part.exhausted);
  }
}

/// The place before the first draw.
mix_place mix_plan::begin() const {
  mix_place place;
  place.parts.resize(weights_.size());
  return place;
}

/// The last row that begins at or before the draw counts.
const std::vector<std::uint64_t>& mix_plan::weights_at(std::uint64_t draw) const {
  const auto& rows = options_.curriculum;
  const auto next =
      std::upper_bound(rows.begin(), rows.end(), draw,
                       [](std::uint64_t d, const mix_row& row) { return d < row.draw; });
  return next == rows.begin() ? weights_ : std::prev(next)->weights;
}

/// A part that has ended has no weight.
std::uint64_t mix_plan::weight(const mix_place& place, std::size_t part) const {
  return place.parts[part].ended ? 0 : weights_at(place.draw)[part];
}

/// Returns nothing if no part with a weight is left. In the smooth mode it changes the
/// deficits of `place`.
std::optional<std::size_t> mix_plan::choose(mix_place& place) const {
  const std::vector<std::uint64_t>& weights = weights_at(place.draw);
  std::uint64_t total = 0;
  for (std::size_t p = 0; p < weights.size(); ++p) {
    total += place.parts[p].ended ? 0 : weights[p];
  }
  if (total == 0) {
    return std::nullopt;
  }
  return options_.mode == mix_mode::smooth ? choose_smooth(place, total)
                                           : choose_random(place, total);
}

/// `total` is the sum of the weights of the parts that have not ended.
std::size_t mix_plan::choose_smooth(mix_place& place, std::uint64_t total) const {
  const std::vector<std::uint64_t>& weights = weights_at(place.draw);
  const auto& rows = options_.curriculum;
  // The shares are counted anew from each row of the curriculum on.
  const bool row = std::any_of(rows.begin(), rows.end(),
                               [&](const mix_row& r) { return r.draw == place.draw; });
  std::int64_t k = 0;
  std::int64_t largest = -static_cast<std::int64_t>(total);
  // Every part gets its weight, so the deficits grow by `total` together.
  for (std::size_t p = 0; p < weights.size(); ++p) {
    part_place& part = place.parts[p];
    const std::uint64_t w = part.ended ? 0 : weights[p];
    part.deficit = (row ? 0 : part.deficit) + static_cast<std::int64_t>(w);
    k += w > 0 ? 1 : 0;
    largest = w > 0 ? std::max(largest, part.deficit) : largest;
  }
  const auto all = static_cast<std::int64_t>(total);
  // The factor of the bounds, multiplied in so that no fraction is needed.
  const std::int64_t cut = std::max<std::int64_t>(1, 2 * k - 2);
  // One part at least has a deficit of W / k, unless a damaged cursor says otherwise.
  const wide needed = std::min(wide{all}, wide{largest} * cut);
  std::optional<std::size_t> best;
  wide best_slack = 0;
  // Of the parts that are due, the one that becomes late first. At equal slack the first
  // one wins.
  for (std::size_t p = 0; p < weights.size(); ++p) {
    const std::uint64_t w = place.parts[p].ended ? 0 : weights[p];
    const wide deficit = wide{place.parts[p].deficit} * cut;
    if (w == 0 || deficit < needed) {
      continue;
    }
    // Draws until the deficit is too large are slack / w; compared without a division.
    const wide slack = wide{all} * (cut - 1) - deficit;
    if (!best || slack * wide{weights[*best]} < best_slack * wide{w}) {
      best = p;
      best_slack = slack;
    }
  }
  WEIR_EXPECT(best.has_value());
  // The part that is drawn pays for one draw.
  place.parts[*best].deficit -= all;
  return *best;
}

/// The number depends on seed and draw alone, so any draw can be computed without the
/// ones before.
std::size_t mix_plan::choose_random(const mix_place& place, std::uint64_t total) const {
  const std::vector<std::uint64_t>& weights = weights_at(place.draw);
  std::uint64_t u = philox(options_.seed, mix_stream).below(place.draw, total);
  // Ends before the last part, since `u` is below the sum of the weights.
  for (std::size_t p = 0;; ++p) {
    const std::uint64_t w = place.parts[p].ended ? 0 : weights[p];
    if (u < w) {
      return p;
    }
    u -= w;
  }
}

/// `length` tokens were taken from the part and `added` separators put behind them.
void mix_plan::advance(mix_place& place, std::size_t part, std::uint64_t length,
                       std::uint64_t added) const {
  part_place& p = place.parts[part];
  p.draws += 1;
  p.tokens += length + added;
  p.offset += length;
  place.draw += 1;
  place.index += length + added;
}

// A part that is empty cannot begin again: that would never end.
//
// Changes the place and returns what follows: the mixture stops, the part begins again,
// or another part is drawn.
end_effect mix_plan::end_of(mix_place& place, std::size_t part) const {
  part_place& p = place.parts[part];
  if (exhausted_[part] == exhaustion::stop) {
    return end_effect::stop;
  }
  if (exhausted_[part] == exhaustion::loop && p.offset > 0) {
    p.rounds += 1;
    p.offset = 0;
    return end_effect::again;
  }
  // The deficits begin anew, because the shares of the others have changed.
  p.ended = true;
  for (part_place& one : place.parts) {
    one.deficit = 0;
  }
  return end_effect::redraw;
}

/// Number of separators behind a unit that does not end with one: documents get one,
/// runs only before the part begins again.
std::uint64_t mix_plan::separators(std::size_t part, const unit& u) const noexcept {
  if (!u.open) {
    return 0;
  }
  const bool again = u.last && exhausted_[part] == exhaustion::loop;
  return options_.run_tokens == 0 || again ? 1 : 0;
}

/// Everything that decides the order of the text, for the identity.
std::uint64_t mix_plan::digest() const {
  record_writer out;
  out.put(static_cast<std::uint64_t>(options_.mode));
  out.put(options_.mode == mix_mode::random ? options_.seed : 0);
  out.put(options_.run_tokens);
  // The weights and ends of all parts.
  for (std::size_t p = 0; p < weights_.size(); ++p) {
    out.put(weights_[p]);
    out.put(static_cast<std::uint64_t>(exhausted_[p]));
  }
  for (const mix_row& row : options_.curriculum) {
    out.put(row.draw);
    out.put_all(std::span<const std::uint64_t>(row.weights));
  }
  return xxh3_64(out.view());
}

/// Six words per part, behind two for the whole.
void put_place(record_writer& to, const mix_place& place) {
  to.put(place.draw);
  to.put(place.index);
  for (const part_place& p : place.parts) {
    to.put(p.draws);
    to.put(p.tokens);
    to.put(p.offset);
    to.put(p.rounds);
    to.put(static_cast<std::uint64_t>(p.deficit));
    to.put(std::uint64_t{p.ended ? 1U : 0U});
  }
}

// The sums must agree, and no number may be so large that later sums overflow.
//
// Returns nothing if they do not.
std::optional<mix_place> get_place(record_reader& from, std::size_t count) {
  constexpr std::uint64_t limit = position_bound;
  mix_place place;
  place.draw = from.get<std::uint64_t>();
  place.index = from.get<std::uint64_t>();
  bool sane = place.draw < limit && place.index < limit;
  wide draws = 0;
  wide tokens = 0;
  for (std::size_t i = 0; i < count; ++i) {
    part_place p;
    p.draws = from.get<std::uint64_t>();
    p.tokens = from.get<std::uint64_t>();
    p.offset = from.get<std::uint64_t>();
    // Deficits may be negative.
    p.rounds = from.get<std::uint64_t>();
    p.deficit = static_cast<std::int64_t>(from.get<std::uint64_t>());
    const auto ended = from.get<std::uint64_t>();
    p.ended = ended == 1;
    sane = sane && ended <= 1 && p.offset < limit && p.rounds < limit &&
           p.deficit > -static_cast<std::int64_t>(limit) &&
           p.deficit < static_cast<std::int64_t>(limit);
    draws += p.draws;
    tokens += p.tokens;
    place.parts.push_back(p);
  }
  // The sums of the parts are those of the whole.
  sane = sane && draws == place.draw && tokens == place.index;
  return from.failed() || !sane ? std::nullopt : std::optional<mix_place>(place);
}

}  // namespace weir::storage
