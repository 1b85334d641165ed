// SPDX-License-Identifier: Apache-2.0
/// @file
/// A mixture of sources that can seek.
///
/// The mixture walks from draw to draw and remembers places on the way, so that a read
/// starts from the last remembered place before it. A resumed run gets such a place from
/// its cursor and does not walk from the start.
///
/// `locate` is the one function that moves: it sets the members that describe the
/// current draw, and all others read them.
#include <fmt/core.h>

#include "context/mix/codec.hpp"
#include "context/mix/live_mix.hpp"
#include "context/mix/mixture.hpp"

namespace weir::storage {

namespace {

/// A mixture that can seek.
///
/// Methods that are const change the remembered place, so a source must not be used by
/// two threads.
class seekable_mix final : public mixture {
 public:
  seekable_mix(std::vector<mix_part> parts, const mix_options& options)
      : mixture(std::move(parts), options), at_(plan_.begin()) {
    places_.keep(0, at_);
  }

  // A read may go over many draws.
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
  result<std::vector<part_share>> shares(std::uint64_t index) const override {
    WEIR_TRY(const bool found, locate(index));
    // The token is inside of a unit, so the draw counts already.
    const bool cut = found && index > at_.index;
    std::vector<part_share> out = shares_at(cut ? at_ : begin_);
    if (cut) {
      out[part_].draws += 1;
      out[part_].tokens += index - at_.index;
    }
    return out;
  }
  result<byte_vector> state(std::uint64_t index) const override {
    WEIR_TRY(const bool found, locate(index));
    // Tokens of the unit before the index; 0 at the end.
    const std::uint64_t inside = found ? index - at_.index : 0;
    return encode_mix_state({begin_, inside}, sources_, at_);
  }
  /// Parts that can seek know their ranges from the beginning.
  std::vector<left_out_range> left_out(std::uint64_t /*index*/) const override {
    return left_out_at(at_);
  }
  result<void> restore_state(std::uint64_t index, bytes_view state) override {
    WEIR_TRY(const mix_state restored, decode_mix_state(state, sources_));
    // The place may lie before the index, since a restore reads a window before the
    // cursor.
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
  // How far the parts were read before the token.
  result<mix_place> read_before(std::uint64_t index) const override {
    WEIR_TRY(const bool found, locate(index));
    if (!found || index == at_.index) {
      // Between two draws nothing of the next one was read.
      return begin_;
    }
    mix_place out = at_;
    out.parts[part_].offset += std::min(index - at_.index, unit_.length);
    return out;
  }
  // The unit may have another extent now.
  void forget_draw() override { drawn_ = false; }
  // A separator counts as the last token of its unit.
  std::optional<part_token> token_of_part(std::uint64_t index) const override {
    const auto found = locate(index);
    if (!found || !*found) {
      return std::nullopt;
    }
    const std::uint64_t inside = std::min(index - at_.index, unit_.length - 1);
    return part_token{part_, at_.parts[part_].offset + inside};
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
    WEIR_CHECK(readers_[part_].read(offset, to.first(count)));
    return count;
  }
  /// Goes to the draw that holds a token.
  /// @returns false if the mixture ends before it; it then stands at the end
  result<bool> locate(std::uint64_t index) const {
    if (drawn_ && index >= at_.index && index < end_) {
      return true;
    }
    // The nearest remembered place, unless the current one is nearer.
    const auto& near = places_.before(index);
    if (!drawn_ || index < at_.index || near.first > at_.index) {
      at_ = near.second;
      drawn_ = false;  // a draw that fails leaves nothing that belongs to the place
      WEIR_TRY(drawn_, draw());
    }
    // Walks forward, one draw at a time, and remembers places on the way.
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
      // An empty unit is the end of the part. The plan says what follows from that.
      if (unit_.length == 0) {
        const end_effect effect = plan_.end_of(at_, part_);
        if (effect == end_effect::stop) {
          return false;
        }
        if (effect == end_effect::redraw) {
          continue;
        }
        // The part begins again with its first unit.
        WEIR_TRY(unit_, readers_[part_].unit_at(0));
      }
      // The separator behind the unit belongs to the draw.
      end_ = at_.index + unit_.length + plan_.separators(part_, unit_);
      return true;
    }
    // No part is left.
    return false;
  }

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

/// Refuses weights and parts that cannot be mixed. One live part makes the whole mixture
/// live.
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
