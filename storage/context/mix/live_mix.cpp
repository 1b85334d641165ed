// SPDX-License-Identifier: Apache-2.0
/// @file
/// A mixture with parts that cannot seek, such as pipes and child processes.
///
/// It reads forward only. The newest tokens are kept, because a cursor reads its window
/// again and chunks may have been read ahead. For each draw whose tokens are kept there
/// is a record of its outcome; from the place before the oldest record, the place of any
/// kept token is computed again.
///
/// A draw chooses a part by the plan; its unit is a document or a run of tokens of that
/// part. For a live part the end of the unit is known only when it has arrived, so the
/// record is made at its end. mix_source.cpp is the mixture of parts that can all seek.
#include <fmt/core.h>

#include <array>
#include <deque>

#include "context/mix/codec.hpp"
#include "context/mix/live_mix.hpp"
#include "context/mix/mixture.hpp"
#include "weir/base/clock.hpp"

namespace weir::storage {

namespace {

/// Number of the newest tokens that stay readable, as for a pipe.
constexpr std::size_t remembered_of_mix = std::size_t{1} << 20;
/// Largest number of tokens that are taken from a part at a time. One array on the
/// stack.
constexpr std::size_t largest_mix_piece = 4096;

/// Outcome of a draw.
///
/// Together with the plan, the outcomes determine the places of all tokens.
struct drawn_unit {
  std::uint64_t length = 0;  ///< tokens of the source; 0: the part had ended
  std::uint64_t added = 0;   ///< separators behind it
  bool again = false;        ///< the part was begun again for it
};

/// A mixture that reads forward only.
class live_mix final : public mixture {
 public:
  live_mix(std::vector<mix_part> parts, const mix_options& options)
      : mixture(std::move(parts), options) {
    base_ = at_ = plan_.begin();
  }

  bool seekable() const noexcept override { return false; }
  // Waits until all tokens are there. Fewer come only at the end of the mixture.
  result<std::size_t> read(std::uint64_t index, std::span<std::uint32_t> to) override {
    WEIR_CHECK(check_kept(index));
    while (!ended_ && text_end() < index + to.size()) {
      WEIR_TRY(const bool stepped, step(index + to.size() - text_end(), wait_for_ever));
      WEIR_EXPECT(stepped);
    }
    if (index >= text_end()) {
      return std::size_t{0};
    }
    const auto from = static_cast<std::size_t>(index - first_);
    const std::size_t count = std::min(to.size(), text_.size() - from);
    std::copy_n(text_.begin() + static_cast<std::ptrdiff_t>(from), count, to.begin());
    // Before this point the tokens may be needed for the copy.
    forget();
    return count;
  }
  // Takes steps as long as they come without more waiting than allowed. `wait_ms` is for
  // the whole call.
  result<bool> ready(std::uint64_t index, std::size_t count, int wait_ms) override {
    const std::int64_t until = now_ns() + std::int64_t{wait_ms} * 1'000'000;
    // A reset ends a chunk, so tokens behind it need not be there.
    while (!ended_ && text_end() < std::min(index + count, next_reset(index))) {
      const std::int64_t left = std::max<std::int64_t>(0, until - now_ns());
      WEIR_TRY(const bool stepped, step(index + count - text_end(),
                                        static_cast<int>((left + 999'999) / 1'000'000)));
      if (!stepped) {
        return false;
      }
    }
    return true;
  }
  /// A chunk ends before a token at which the writer of a part asks for a new context.
  result<std::size_t> chunk_run(std::uint64_t index, std::size_t count) override {
    WEIR_CHECK(check_kept(index));
    for (;;) {
      const std::uint64_t limit = std::min(index + count, next_reset(index));
      if (text_end() >= limit || ended_) {
        return static_cast<std::size_t>(std::max(index, std::min(limit, text_end())) -
                                        index);
      }
      WEIR_TRY(const bool stepped, step(limit - text_end(), wait_for_ever));
      WEIR_EXPECT(stepped);
    }
  }
  bool begins_context(std::uint64_t index) const override {
    return std::ranges::binary_search(resets_, index);
  }
  // What each part has contributed before the token.
  result<std::vector<part_share>> shares(std::uint64_t index) const override {
    WEIR_TRY(const found_place found, find(index));
    std::vector<part_share> out = shares_at(found.begin);
    // A draw that has begun counts as one.
    if (found.inside > 0) {
      out[*found.part].draws += 1;
      out[*found.part].tokens += found.inside;
    }
    return out;
  }
  // The state belongs to the token and does not depend on what was read ahead.
  result<byte_vector> state(std::uint64_t index) const override {
    WEIR_TRY(const found_place found, find(index));
    return encode_mix_state({found.begin, found.inside}, sources_, found.reached);
  }
  // A token that was forgotten cannot be asked for; the newest place is then the best
  // answer.
  std::vector<left_out_range> left_out(std::uint64_t index) const override {
    const auto found = find(index);
    return left_out_at(found ? found->reached : at_);
  }
  // The states of the parts are decoded with it.
  result<void> restore_state(std::uint64_t index, bytes_view state) override {
    WEIR_TRY(const mix_state restored, decode_mix_state(state, sources_));
    if (restored.place.index + restored.inside != index) {
      return error(errc::corrupt,
                   fmt::format("cannot resume a mixture: expected its state at token {}, "
                               "found the one at {}",
                               index, restored.place.index + restored.inside));
    }
    // A unit that was read in part belongs to the part that the plan chooses next.
    mix_place chosen = restored.place;
    if (restored.inside > 0 && !plan_.choose(chosen)) {
      return error(errc::corrupt,
                   fmt::format("cannot resume a mixture: expected a source that has not "
                               "ended for the {} tokens of a unit, found none",
                               restored.inside));
    }
    base_ = at_ = restored.place;
    first_ = index;
    // The unit was read in part before the resume.
    taken_ = restored.inside;
    return {};
  }
  // Gives the last tokens of the cursor back, and lets live parts go on behind what was
  // read of them.
  result<void> continue_at(std::uint64_t index,
                           std::span<const std::uint32_t> before) override {
    if (index != first_ || !text_.empty() || before.size() > index) {
      return error(errc::unsupported,
                   fmt::format("cannot continue a mixture at token {}: expected the "
                               "state of this place and no read before",
                               index))
          .located(place_text(index));
    }
    text_.assign(before.begin(), before.end());
    first_ = index - before.size();
    // The plan chooses the same part again, as all of its counters are in the state.
    WEIR_CHECK(go_on_inside());
    for (std::size_t p = 0; p < sources_.size(); ++p) {
      if (!sources_[p]->seekable()) {
        const std::uint64_t inside = part_ == p ? taken_ : 0;
        WEIR_CHECK(sources_[p]->continue_at(at_.parts[p].offset + inside, {}));
      }
    }
    return {};
  }

 private:
  static constexpr int wait_for_ever = -1;

  /// Called between the restore of a state and the first read.
  result<mix_place> read_before(std::uint64_t /*index*/) const override {
    mix_place out = at_;
    mix_place chosen = at_;
    if (taken_ > 0) {
      const std::optional<std::size_t> part = plan_.choose(chosen);
      WEIR_EXPECT(part.has_value());
      out.parts[*part].offset += taken_;
    }
    return out;
  }
  // The base class calls this after parts have changed, when nothing was read yet.
  void forget_draw() override {}

  /// Place of a kept token.
  struct found_place {
    mix_place begin;                  ///< begin of its draw
    mix_place reached;                ///< as `begin`, with the tokens before the token
    std::optional<std::size_t> part;  ///< part of the draw; unset between two draws
    std::uint64_t inside = 0;         ///< tokens of the draw before the token
  };

  // A token between two draws, such as the end, belongs to no part.
  std::optional<part_token> token_of_part(std::uint64_t index) const override {
    const auto found = find(index);
    if (!found || !found->part) {
      return std::nullopt;
    }
    return part_token{*found->part, found->reached.parts[*found->part].offset};
  }
  std::uint64_t text_end() const { return first_ + text_.size(); }
  // Tokens that were forgotten are gone, since no part can give them again.
  result<void> check_kept(std::uint64_t index) const {
    if (index >= first_) {
      return {};
    }
    return error(errc::source_unavailable,
                 fmt::format("cannot read a mixture again: expected a token from {} on, "
                             "found {}",
                             first_, index));
  }

  /// Applies the records from the oldest place on, up to the first place at a token, or
  /// to the draw that holds it. What is known of later draws has no influence.
  result<found_place> find(std::uint64_t index) const {
    if (index < base_.index) {
      return error(errc::source_unavailable,
                   fmt::format("cannot find a token of a mixture: expected one from {} "
                               "on, found {}",
                               base_.index, index));
    }
    found_place out;
    out.begin = base_;
    // The current draw has no record yet; its begin may be a second round.
    bool again = again_;
    for (const drawn_unit& one : records_) {
      if (out.begin.index >= index || out.begin.index + one.length + one.added > index) {
        again = one.again;
        break;
      }
      apply(out.begin, one);
    }
    out.inside = std::min(index, text_end()) - out.begin.index;
    out.reached = out.begin;
    // Inside of a draw: the plan says of which part.
    if (out.inside > 0) {
      mix_place chosen = out.begin;
      out.part = plan_.choose(chosen);
      part_place& part = out.reached.parts[*out.part];
      part.rounds += again ? 1 : 0;
      part.offset = (again ? 0 : part.offset) + out.inside;
    }
    return out;
  }
  /// Goes over a draw.
  ///
  /// The plan chooses again, which also advances its counters.
  void apply(mix_place& at, const drawn_unit& one) const {
    const std::optional<std::size_t> part = plan_.choose(at);
    WEIR_EXPECT(part.has_value());
    if (one.again || one.length == 0) {
      static_cast<void>(plan_.end_of(at, *part));
    }
    if (one.length > 0) {
      plan_.advance(at, *part, one.length, one.added);
    }
  }

  /// Chooses the part of the current draw and finds the extent of its unit, if the part
  /// can seek. @returns false if no part with a weight is left
  result<bool> draw() {
    mix_place next = at_;
    const std::optional<std::size_t> chosen = plan_.choose(next);
    if (!chosen) {
      return false;
    }
    start_ = at_.parts[*chosen].offset;
    again_ = false;
    known_.reset();
    if (sources_[*chosen]->seekable()) {
      WEIR_TRY(known_, readers_[*chosen].unit_at(start_));
      // At the end of its source, a part may begin again for this very unit.
      if (known_->length == 0 && plan_.end_of(next, *chosen) == end_effect::again) {
        again_ = true;
        start_ = 0;
        WEIR_TRY(known_, readers_[*chosen].unit_at(0));
      }
    }
    part_ = chosen;
    return true;
  }

  /// Chooses the part of a draw whose first tokens were read before the resume.
  result<void> go_on_inside() {
    if (taken_ == 0) {
      return {};
    }
    WEIR_TRY(const bool drawn, draw());
    // The stored number of tokens does not fit the unit.
    if (!drawn || (known_ && taken_ > known_->length)) {
      return error(errc::corrupt,
                   fmt::format("cannot resume a mixture: expected a unit of more than {} "
                               "tokens, found a shorter one",
                               taken_))
          .located(place_text(text_end()));
    }
    return {};
  }
  /// Adds at least one token, or an outcome of a draw. Waits for a part at most so long.
  /// @returns false if the part has no token yet
  result<bool> step(std::uint64_t wanted, int wait_ms) {
    if (!part_) {
      WEIR_TRY(const bool drawn, draw());
      // No part is left, so the mixture has ended.
      ended_ = !drawn;
      taken_ = 0;
    }
    if (ended_) {
      return true;
    }
    return known_ ? step_known(wanted) : step_live(wanted, wait_ms);
  }
  /// Copies tokens of a unit whose extent is known.
  result<bool> step_known(std::uint64_t wanted) {
    const std::uint64_t added = plan_.separators(*part_, *known_);
    // The part has no further unit.
    if (known_->length == 0) {
      end_part();
      return true;
    }
    if (taken_ < known_->length) {
      const auto count = static_cast<std::size_t>(
          std::min<std::uint64_t>({wanted, known_->length - taken_, largest_mix_piece}));
      std::array<std::uint32_t, largest_mix_piece> piece{};
      const std::uint64_t offset = start_ + taken_;
      WEIR_CHECK(readers_[*part_].read(offset, std::span(piece).first(count)));
      // At most a piece per step, so that no call takes long.
      add(std::span(piece).first(count));
    } else if (added > 0) {
      // The separator that the plan adds behind the unit.
      text_.push_back(separator());
      ++taken_;
    }
    if (taken_ == known_->length + added) {
      finish(known_->length, added);
    }
    return true;
  }
  /// Takes tokens of a live part, as many as have arrived, at least one.
  result<bool> step_live(std::uint64_t wanted, int wait_ms) {
    token_source& source = *sources_[*part_];
    const std::uint64_t offset = start_ + taken_;
    std::size_t count = live_limit(wanted);
    // The unit has reached its length exactly.
    if (count == 0) {
      finish(taken_, 0);
      return true;
    }
    // Takes what is there at once, else waits for one token.
    if (count > 1) {
      WEIR_TRY(const bool there, source.ready(offset, count, 0));
      count = there ? count : 1;
    }
    if (wait_ms != wait_for_ever) {
      WEIR_TRY(const bool there, source.ready(offset, count, wait_ms));
      if (!there) {
        return false;
      }
    }
    // `ready` also answers for a part that gives fewer tokens before a context begins; a
    // read of more would wait.
    WEIR_TRY(count, source.chunk_run(offset, count));
    std::array<std::uint32_t, largest_mix_piece> piece{};
    WEIR_TRY(const std::size_t got, source.read(offset, std::span(piece).first(count)));
    if (got == 0) {
      end_live();
      return true;
    }
    // The context begins before the tokens that are added next.
    if (begins_context_in(source, offset, piece.front())) {
      resets_.push_back(text_end());
    }
    take_live(std::span<const std::uint32_t>(piece).first(got));
    return true;
  }
  /// Returns whether a context begins before a token of a live part. A writer asks for it
  /// before the separator of the document that has ended; if documents are units, another
  /// part may follow behind that separator, so the context begins with the next document.
  bool begins_context_in(const token_source& source, std::uint64_t offset,
                         std::uint32_t token) const {
    // In runs of tokens a context may begin anywhere.
    if (readers_[*part_].rule().tokens != 0) {
      return source.begins_context(offset);
    }
    const bool before = taken_ == 0 && offset > 0 && source.begins_context(offset - 1);
    return before || (source.begins_context(offset) && token != separator());
  }
  /// Returns the first token behind `index` before which a context begins, or the largest
  /// number.
  std::uint64_t next_reset(std::uint64_t index) const {
    const auto next = std::ranges::upper_bound(resets_, index);
    return next == resets_.end() ? ~std::uint64_t{0} : *next;
  }
  /// Returns how many tokens of the current unit of a live part may be taken; 0 if the
  /// unit is complete.
  std::size_t live_limit(std::uint64_t wanted) const {
    const unit_rule& rule = readers_[*part_].rule();
    std::uint64_t limit = std::min<std::uint64_t>(wanted, largest_mix_piece);
    if (rule.tokens != 0) {
      const std::uint64_t length =
          // A run may be longer to complete a character.
          taken_ < rule.tokens ? rule.tokens : rule.tokens + missing();
      limit = std::min(limit, length - taken_);
    }
    return static_cast<std::size_t>(limit);
  }
  /// Returns how many bytes complete the last character of a run of the nominal length.
  std::size_t missing() const {
    const unit_rule& rule = readers_[*part_].rule();
    const auto beyond = static_cast<std::size_t>(taken_ - rule.tokens);
    // Not enough text is kept to look back, which happens only right after a resume.
    if (!rule.utf8 || text_.size() < beyond) {
      return beyond;
    }
    return missing_bytes(std::span(text_).first(text_.size() - beyond));
  }
  /// Adds tokens of a live part. A document ends with its separator.
  void take_live(std::span<const std::uint32_t> tokens) {
    if (readers_[*part_].rule().tokens != 0) {
      add(tokens);
    } else {
      const auto found = std::find(tokens.begin(), tokens.end(), separator());
      const bool whole = found != tokens.end();
      add(std::span(tokens.begin(), found + (whole ? 1 : 0)));
      // Tokens behind the separator cannot occur, as a live part gives one document at a
      // time.
      if (whole) {
        finish(taken_, 0);
      }
      return;
    }
    if (live_limit(1) == 0) {
      finish(taken_, 0);
    }
  }
  /// Ends a unit with the end of its live part.
  ///
  /// A document without a separator gets one.
  void end_live() {
    if (taken_ == 0) {
      // The end of the part is an outcome of its own if nothing was taken.
      end_part();
      return;
    }
    const bool separate = readers_[*part_].rule().tokens == 0 &&
                          (text_.empty() || text_.back() != separator());
    if (separate) {
      text_.push_back(separator());
    }
    finish(taken_, separate ? 1 : 0);
  }

  // Tokens of the current draw.
  void add(std::span<const std::uint32_t> tokens) {
    text_.insert(text_.end(), tokens.begin(), tokens.end());
    taken_ += tokens.size();
  }
  /// Goes to the next draw.
  ///
  /// The record is written before the plan advances, as it is what the plan advances by.
  void finish(std::uint64_t length, std::uint64_t added) {
    records_.push_back({length, added, again_});
    apply(at_, records_.back());
    part_.reset();
    taken_ = 0;
  }
  /// Applies the policy of a part that has no further unit.
  void end_part() {
    mix_place next = at_;
    static_cast<void>(plan_.choose(next));
    if (plan_.end_of(next, *part_) == end_effect::stop) {
      ended_ = true;
      return;
    }
    // The outcome without tokens says that the part has ended.
    records_.push_back({});
    apply(at_, records_.back());
    part_.reset();
  }
  /// Drops old tokens and the records of draws that ended before the kept ones. It waits
  /// until half of the memory can be dropped, so that a token is moved once on average.
  void forget() {
    if (text_.size() <= 2 * remembered_of_mix) {
      return;
    }
    const std::size_t old = text_.size() - remembered_of_mix;
    text_.erase(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(old));
    first_ += old;
    while (!resets_.empty() && resets_.front() < first_) {
      resets_.pop_front();
    }
    // The oldest place moves forward with the records that are dropped.
    while (!records_.empty() &&
           base_.index + records_.front().length + records_.front().added < first_) {
      apply(base_, records_.front());
      records_.pop_front();
    }
  }

  std::vector<std::uint32_t> text_;   ///< the newest tokens, the oldest first
  std::uint64_t first_ = 0;           ///< index of the first of them
  mix_place base_;                    ///< begin of the oldest draw that is known
  std::deque<drawn_unit> records_;    ///< outcomes of the draws from there on
  std::deque<std::uint64_t> resets_;  ///< tokens before which a context begins, ascending
  mix_place at_;                      ///< begin of the current draw
  std::optional<std::size_t> part_;   ///< its part, once it has been chosen
  std::optional<unit> known_;         ///< its extent, if its part can seek
  std::uint64_t start_ = 0;           ///< offset in its source at which it begins
  bool again_ = false;                ///< its part was begun again for it
  std::uint64_t taken_ = 0;           ///< tokens of it that were taken
  bool ended_ = false;
};

}  // namespace

/// Parts that can seek may be among them.
std::unique_ptr<token_source> make_live_mix(std::vector<mix_part> parts,
                                            const mix_options& options) {
  return std::make_unique<live_mix>(std::move(parts), options);
}

}  // namespace weir::storage
