// SPDX-License-Identifier: Apache-2.0
/// @file
/// A source whose tokens arrive while it is read, and can be read only in the order of
/// their arrival.
///
/// The newest tokens are kept, because a cursor reads its window again and chunks may
/// have been read ahead. When a run resumes, the window comes from the cursor. A writer
/// that can be asked goes on at its own state; for others the next token that comes is
/// the next token, which the source cannot prove.
#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "context/identity.hpp"
#include "context/live/live_input.hpp"
#include "weir/base/clock.hpp"

/// All methods are called by one thread at a time. `input_` does the work of the
/// protocol, and `window_` keeps the tokens.
namespace weir::storage {

namespace {

/// Longest wait of one call of an input, while a read waits without a limit.
constexpr int piece_ms = 1000;
/// Stands for a wait without a limit.
constexpr std::int64_t no_deadline = std::numeric_limits<std::int64_t>::max();

class live_tokens final : public token_source {
 public:
  live_tokens(std::unique_ptr<live_input> input, std::string name,
              const std::string& identity, bool turns)
      : input_(std::move(input)), name_(std::move(name)), turns_(turns) {
    // A live source has no size, so its identity is its name alone.
    set_leaves(identity_, {make_leaf(identity, unknown_size)}, 0);
  }
  std::uint64_t size() const noexcept override { return unknown_size; }
  bool seekable() const noexcept override { return false; }
  bool has_turns() const noexcept override { return turns_; }
  std::uint32_t separator() const noexcept override { return input_->separator(); }
  std::uint32_t vocabulary() const noexcept override { return input_->vocabulary(); }

  /// Waits until all tokens have arrived, so that chunks do not depend on timing.
  result<std::size_t> read(std::uint64_t index, std::span<std::uint32_t> to) override {
    WEIR_CHECK(check_kept(index));
    // Asks for exactly as many tokens as are missing.
    while (!ended_ && window_.end() < index + to.size()) {
      WEIR_CHECK(receive(index + to.size() - window_.end(), piece_ms));
    }
    if (index >= window_.end()) {
      return std::size_t{0};
    }
    const auto there =
        window_.tokens().subspan(static_cast<std::size_t>(index - window_.first()));
    const std::size_t count = std::min(to.size(), there.size());
    std::copy_n(there.begin(), count, to.begin());
    // Older tokens than a cursor can need are dropped.
    window_.forget(index + count);
    input_->forget(window_.first());
    return count;
  }
  // `wait_ms` of 0 asks without waiting.
  result<bool> ready(std::uint64_t index, std::size_t count, int wait_ms) override {
    if (index < window_.first()) {
      return true;  // `read` refuses it at once
    }
    const std::int64_t until = now_ns() + std::int64_t{wait_ms} * 1'000'000;
    WEIR_TRY(const auto run, run_until(index, count, until));
    return run.has_value();
  }
  // Waits until the run is known.
  result<std::size_t> chunk_run(std::uint64_t index, std::size_t count) override {
    WEIR_CHECK(check_kept(index));
    WEIR_TRY(const auto run, run_until(index, count, no_deadline));
    return *run;
  }
  bool begins_context(std::uint64_t index) const override {
    return window_.reset_at(index);
  }
  std::string place_text(std::uint64_t index) const override {
    return fmt::format("{}:{}", name_, index);
  }
  place place_of(std::uint64_t index) const override { return {0, index}; }
  const source_identity& identity() const noexcept override { return identity_; }

  /// Without turns, documents of a source that is only bytes cannot be told apart.
  ///
  /// With turns, a document begins behind a separator.
  result<std::uint64_t> next_document(std::uint64_t index) override {
    if (!turns_ || index == 0) {
      return index;
    }
    for (std::uint64_t next = index;; ++next) {
      std::uint32_t before = 0;
      WEIR_TRY(const std::size_t got, read(next - 1, {&before, 1}));
      if (got == 0 || before == separator()) {
        return next - (got == 0 ? 1 : 0);
      }
    }
  }

  // Called once, before the first read. `before` are the last tokens in front of
  // `index`.
  result<void> continue_at(std::uint64_t index,
                           std::span<const std::uint32_t> before) override {
    if (window_.end() != 0 && window_.end() != restored_) {
      return error(errc::unsupported,
                   fmt::format("cannot continue {}: it has been read already", name_));
    }
    // Both may come from a damaged checkpoint.
    if (before.size() > index) {
      return error(
                 errc::corrupt,
                 fmt::format("cannot continue {}: expected at most {} tokens before the "
                             "place, found {}",
                             name_, index, before.size()))
          .located(place_text(index));
    }
    window_.begin(index, before);
    // The input has no state for this place, so it goes on at the number of tokens.
    if (restored_ != index) {
      WEIR_CHECK(input_->restore(index, {}));
    }
    if (!before.empty()) {
      // A command may follow only at the begin of a line.
      input_->go_on_behind(before.back());
    }
    return {};
  }
  result<byte_vector> state(std::uint64_t index) const override {
    return input_->state(index);
  }
  // May come before or after `continue_at`.
  result<void> restore_state(std::uint64_t index, bytes_view state) override {
    if (window_.end() == 0) {
      window_.begin(index, {});
    }
    restored_ = index;
    return input_->restore(index, state);
  }

 private:
  // Tokens that were forgotten cannot be read again.
  [[nodiscard]] result<void> check_kept(std::uint64_t index) const {
    if (index >= window_.first()) {
      return {};
    }
    return error(errc::source_unavailable,
                 fmt::format(
                     "cannot read {} again: expected a position from {} on, found {}",
                     name_, window_.first(), index))
        .located(place_text(index));
  }
  // Takes what arrives within `wait_ms`. Errors get the place of the next token.
  result<void> receive(std::uint64_t want, int wait_ms) {
    auto more = input_->receive(window_, static_cast<std::size_t>(want), wait_ms);
    if (!more) {
      return std::move(more.error()).located(place_text(window_.end()));
    }
    ended_ = !*more;
    return {};
  }
  /// Returns how many of `count` tokens from `index` on belong to one chunk, or nothing
  /// if that is not known at the time `until_ns`.
  ///
  /// A run ends behind a separator, in front of a reset, or at the end of the source.
  result<std::optional<std::size_t>> run_until(std::uint64_t index, std::size_t count,
                                               std::int64_t until_ns) {
    std::uint64_t scanned = index;
    bool looked = false;
    for (;;) {
      // A reset behind `index` limits the run; it may arrive during the wait.
      const std::uint64_t limit = std::min(index + count, window_.next_reset(index));
      for (; scanned < std::min(limit, window_.end()); ++scanned) {
        const auto at = static_cast<std::size_t>(scanned - window_.first());
        if (turns_ && window_.tokens()[at] == separator()) {
          return static_cast<std::size_t>(scanned + 1 - index);
        }
      }
      if (scanned >= limit || ended_) {
        return static_cast<std::size_t>(scanned - index);
      }
      const std::int64_t now = now_ns();
      // The time is over, but the input was asked at least once.
      if (now >= until_ns && looked) {
        return std::nullopt;
      }
      looked = true;  // without time the input is still asked once
      const std::int64_t left = std::max<std::int64_t>(0, until_ns - now);
      WEIR_CHECK(
          receive(index + count - scanned, static_cast<int>(std::min<std::int64_t>(
                                               piece_ms, (left + 999'999) / 1'000'000))));
    }
  }

  std::unique_ptr<live_input> input_;
  std::string name_;
  bool turns_;
  source_identity identity_;
  live_window window_;
  std::uint64_t restored_ = 0;  ///< index at which the input goes on; 0: not restored
  bool ended_ = false;
};

}  // namespace

/// `identity` names the source in checkpoints, `name` in messages.
std::unique_ptr<token_source> make_live_source(std::unique_ptr<live_input> input,
                                               std::string name,
                                               const std::string& identity, bool turns) {
  return std::make_unique<live_tokens>(std::move(input), std::move(name), identity,
                                       turns);
}

}  // namespace weir::storage
