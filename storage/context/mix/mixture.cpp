// SPDX-License-Identifier: Apache-2.0
/// @file
/// What a mixture says about its tokens by asking its parts.
#include "context/mix/mixture.hpp"

#include <fmt/core.h>

#include "context/identity.hpp"
#include "context/mix/codec.hpp"

/// `mixture` is the base of both kinds; it owns the parts and the plan. The two kinds
/// differ in how they find the part and the place of a token.
namespace weir::storage {

mixture::mixture(std::vector<mix_part> parts, const mix_options& options)
    : plan_(parts, options) {
  // The readers own the sources; `sources_` only refers to them.
  for (mix_part& part : parts) {
    names_.push_back(std::move(part.name));
    sources_.push_back(part.source.get());
    readers_.emplace_back(std::move(part.source), options.run_tokens);
  }
  identity_ = mix_identity(sources_, plan_, first_leaf_);
}

/// All parts have the same separator, which `mix_plan::check` has tested.
std::uint32_t mixture::separator() const noexcept {
  return sources_.front()->separator();
}

std::uint32_t mixture::vocabulary() const noexcept {
  std::uint32_t all = separator() + 1;
  for (const token_source* part : sources_) {
    all = std::max(all, part->vocabulary());
  }
  return all;
}

/// A schedule without random numbers has no generator of its own, but a part may have
/// one.
std::optional<rng_state> mixture::rng() const {
  const bool random = plan_.options().mode == mix_mode::random;
  return composed_rng(random ? mix_kind : 0, plan_.options().seed, sources_);
}

/// The place in the part, which is what a user can look at.
std::string mixture::place_text(std::uint64_t index) const {
  const auto found = token_of_part(index);
  return found ? sources_[found->part]->place_text(found->offset)
               : fmt::format("mixture:{}", index);
}

token_source::place mixture::place_of(std::uint64_t index) const {
  const auto found = token_of_part(index);
  if (!found) {
    return {0, index};
  }
  place out = sources_[found->part]->place_of(found->offset);
  out.leaf += first_leaf_[found->part];
  return out;
}

/// A mixture knows no documents of its own, so separators are searched for.
result<std::uint64_t> mixture::next_document(std::uint64_t index) {
  return find_document(*this, index);
}

/// Passes the place on to every part. If ranges are left out, units may move; this is
/// allowed only behind the place.
result<void> mixture::go_on_at(std::uint64_t index) {
  const bool inside = index != 0 && index != unknown_size;
  // At the begin, and at the end, no unit is divided.
  mix_place before = plan_.begin();
  if (inside) {
    WEIR_TRY(before, read_before(index));
  }
  for (std::size_t p = 0; p < sources_.size(); ++p) {
    const part_place& part = before.parts[p];
    // A part that was begun again has been read to its end.
    const bool whole = index == unknown_size || part.rounds > 0;
    WEIR_CHECK(sources_[p]->go_on_at(whole ? unknown_size : part.offset));
    readers_[p].forget();
  }
  forget_draw();
  if (!inside) {
    return {};
  }
  // The place must still be the same unit; otherwise text that was consumed has changed.
  WEIR_TRY(const mix_place after, read_before(index));
  return after == before ? result<void>() : moved_units(place_text(index));
}

/// Ranges of all parts, each at the place that was reached.
std::vector<left_out_range> mixture::left_out_at(const mix_place& at) const {
  std::vector<left_out_range> all;
  for (std::size_t p = 0; p < sources_.size(); ++p) {
    append_left_out(all, *sources_[p], at.parts[p].offset, first_leaf_[p]);
  }
  return all;
}

/// One row for each part, in the order of the parts.
std::vector<part_share> mixture::shares_at(const mix_place& begin) const {
  std::vector<part_share> out;
  for (std::size_t p = 0; p < names_.size(); ++p) {
    const part_place& part = begin.parts[p];
    out.push_back(
        {names_[p], plan_.weight(begin, p), part.draws, part.tokens, part.rounds});
  }
  return out;
}

}  // namespace weir::storage
