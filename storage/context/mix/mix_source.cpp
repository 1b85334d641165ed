// SPDX-License-Identifier: Apache-2.0
/// @file
/// A mixture of sources that can seek.
///
/// The mixture walks from draw to draw and remembers places on the way, so that a read
/// starts from the last remembered place before it. A resumed run gets such a place from
/// its cursor and does not walk from the start.
#include <fmt/core.h>

#include "context/mix/codec.hpp"
#include "context/mix/live_mix.hpp"

namespace weir::storage {

namespace {

/// A mixture that can seek.
class seekable_mix final : public token_source {
 public:
  seekable_mix(std::vector<mix_part> parts, const mix_options& options)
      : plan_(parts, options) {
    for (mix_part& part : parts) {
      names_.push_back(std::move(part.name));
      sources_.push_back(part.source.get());
      readers_.emplace_back(std::move(part.source), options.run_tokens);
    }
    identity_ = mix_identity(sources_, plan_, first_leaf_);
    at_ = plan_.begin();
    places_.keep(0, at_);
  }

  std::uint64_t size() const noexcept override { return unknown_size; }
  const source_identity& identity() const noexcept override { return identity_; }
  std::uint32_t separator() const noexcept override {
    return sources_.front()->separator();
  }
  std::uint32_t vocabulary() const noexcept override {
    std::uint32_t all = separator() + 1;
    for (const token_source* part : sources_) {
      all = std::max(all, part->vocabulary());
    }
    return all;
  }
  std::optional<rng_state> rng() const override {
    const bool random = plan_.options().mode == mix_mode::random;
    return composed_rng(random ? mix_kind : 0, plan_.options().seed, sources_);
  }
  result<std::size_t> read(std::uint64_t index, std::span<std::uint32_t> to) override {
    std::size_t done = 0;
    while (done < to.size()) {
      WEIR_TRY(const bool found, locate(index + done));
      if (!found) {
        break;
      }
      WEIR_TRY(const std::size_t got, copy(index + done - at_.index, to.subspan(done)));
      done += got;
    }
    return done;
  }
  std::string place_text(std::uint64_t index) const override {
    const auto found = locate(index);
    if (!found || !*found) {
      return fmt::format("mixture:{}", index);
    }
    const part_place& p = at_.parts[part_];
    return sources_[part_]->place_text(p.offset + inside(index));
  }
  place place_of(std::uint64_t index) const override {
    const auto found = locate(index);
    if (!found || !*found) {
      return {0, index};
    }
    place out = sources_[part_]->place_of(at_.parts[part_].offset + inside(index));
    out.leaf += first_leaf_[part_];
    return out;
  }
  result<std::uint64_t> next_document(std::uint64_t index) override {
    return find_document(*this, index);
  }
  result<std::vector<part_share>> shares(std::uint64_t index) const override {
    WEIR_TRY(const bool found, locate(index));
    const bool cut = found && index > at_.index;
    std::vector<part_share> out = shares_at(plan_, cut ? at_ : begin_, names_);
    if (cut) {
      out[part_].draws += 1;
      out[part_].tokens += index - at_.index;
    }
    return out;
  }
  result<byte_vector> state(std::uint64_t index) const override {
    WEIR_TRY(const bool found, locate(index));
    const std::uint64_t inside = found ? index - at_.index : 0;
    return encode_mix_state({begin_, inside}, sources_, at_);
  }
  result<void> restore_state(std::uint64_t index, bytes_view state) override {
    WEIR_TRY(const mix_state restored, decode_mix_state(state, sources_));
    if (restored.place.index + restored.inside > index) {
      return error(errc::corrupt,
                   fmt::format("cannot resume a mixture: expected a state at or before "
                               "token {}, found one at {}",
                               index, restored.place.index));
    }
    places_.keep(restored.place.index, restored.place);
    return {};
  }

 private:
  /// Returns the offset of a token in the current unit. That of an added separator is the
  /// last token before it.
  std::uint64_t inside(std::uint64_t index) const {
    return std::min(index - at_.index, unit_.length - 1);
  }
  /// Copies tokens of the current unit, the added separator included.
  result<std::size_t> copy(std::uint64_t from, std::span<std::uint32_t> to) {
    if (from == unit_.length) {
      to[0] = separator();
      return std::size_t{1};
    }
    const auto count =
        static_cast<std::size_t>(std::min<std::uint64_t>(to.size(), unit_.length - from));
    const std::uint64_t offset = at_.parts[part_].offset + from;
    WEIR_TRY(const std::size_t got, readers_[part_].read(offset, to.first(count)));
    if (got < count) {
      return error(errc::source_unavailable,
                   "cannot read source: it is shorter than when it was attached")
          .located(sources_[part_]->place_text(offset + got));
    }
    return got;
  }
  /// Goes to the draw that holds a token.
  /// @returns false if the mixture ends before it; it then stands at the end
  result<bool> locate(std::uint64_t index) const {
    if (drawn_ && index >= at_.index && index < end_) {
      return true;
    }
    const auto& near = places_.before(index);
    if (!drawn_ || index < at_.index || near.first > at_.index) {
      at_ = near.second;
      drawn_ = false;  // a draw that fails leaves nothing that belongs to the place
      WEIR_TRY(drawn_, draw());
    }
    while (drawn_ && index >= end_) {
      plan_.advance(at_, part_, unit_.length, end_ - at_.index - unit_.length);
      places_.note(at_.index, at_);
      drawn_ = false;
      WEIR_TRY(drawn_, draw());
    }
    return drawn_;
  }
  /// Draws at the current place. @returns false if the mixture ends there
  result<bool> draw() const {
    begin_ = at_;
    while (const std::optional<std::size_t> chosen = plan_.choose(at_)) {
      part_ = *chosen;
      WEIR_TRY(unit_, readers_[part_].unit_at(at_.parts[part_].offset));
      if (unit_.length == 0) {
        const end_effect effect = plan_.end_of(at_, part_);
        if (effect == end_effect::stop) {
          return false;
        }
        if (effect == end_effect::redraw) {
          continue;
        }
        WEIR_TRY(unit_, readers_[part_].unit_at(0));
      }
      end_ = at_.index + unit_.length + plan_.separators(part_, unit_);
      return true;
    }
    return false;
  }

  mix_plan plan_;
  std::vector<std::string> names_;
  std::vector<token_source*> sources_;
  mutable std::vector<unit_reader> readers_;
  std::vector<std::size_t> first_leaf_;
  source_identity identity_;
  // The place of the last read. It changes no result, only the time that the next takes.
  mutable walk_memory<mix_place> places_;
  mutable mix_place begin_;        ///< place of the draw before its part was chosen
  mutable mix_place at_;           ///< the same place, with the part chosen
  mutable bool drawn_ = false;     ///< `part_`, `unit_` and `end_` belong to `at_`
  mutable std::size_t part_ = 0;   ///< the part that was drawn
  mutable unit unit_;              ///< its unit
  mutable std::uint64_t end_ = 0;  ///< index behind the unit and its separator
};

}  // namespace

std::vector<part_share> shares_at(const mix_plan& plan, const mix_place& place,
                                  std::span<const std::string> names) {
  std::vector<part_share> out;
  for (std::size_t p = 0; p < names.size(); ++p) {
    const part_place& part = place.parts[p];
    out.push_back(
        {names[p], plan.weight(place, p), part.draws, part.tokens, part.rounds});
  }
  return out;
}

result<std::unique_ptr<token_source>> mix_sources(std::vector<mix_part> parts,
                                                  mix_options options) {
  WEIR_CHECK(mix_plan::check(parts, options));
  const bool seekable = std::all_of(
      parts.begin(), parts.end(), [](const mix_part& p) { return p.source->seekable(); });
  if (!seekable) {
    return make_live_mix(std::move(parts), options);
  }
  return std::unique_ptr<token_source>(
      std::make_unique<seekable_mix>(std::move(parts), options));
}

}  // namespace weir::storage
