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

namespace weir::storage {

namespace {

/// Longest wait of one call of an input, while a read waits without a limit.
constexpr int piece_ms = 1000;
constexpr std::int64_t no_deadline = std::numeric_limits<std::int64_t>::max();

class live_tokens final : public token_source {
 public:
  live_tokens(std::unique_ptr<live_input> input, std::string name,
              const std::string& identity, bool turns)
      : input_(std::move(input)), name_(std::move(name)), turns_(turns) {
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
    window_.forget(index + count);
    input_->forget(window_.first());
    return count;
  }
  result<bool> ready(std::uint64_t index, std::size_t count, int wait_ms) override {
    if (index < window_.first()) {
      return true;  // `read` refuses it at once
    }
    const std::int64_t until = now_ns() + std::int64_t{wait_ms} * 1'000'000;
    WEIR_TRY(const auto run, run_until(index, count, until));
    return run.has_value();
  }
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

  result<void> continue_at(std::uint64_t index,
                           std::span<const std::uint32_t> before) override {
    if (window_.end() != 0 && window_.end() != restored_) {
      return error(errc::unsupported,
                   fmt::format("cannot continue {}: it has been read already", name_));
    }
    window_.begin(index, before);
    if (restored_ != index) {
      WEIR_CHECK(input_->restore(index, {}));
    }
    if (!before.empty()) {
      input_->go_on_behind(before.back());
    }
    return {};
  }
  result<byte_vector> state(std::uint64_t index) const override {
    return input_->state(index);
  }
  result<void> restore_state(std::uint64_t index, bytes_view state) override {
    if (window_.end() == 0) {
      window_.begin(index, {});
    }
    restored_ = index;
    return input_->restore(index, state);
  }

 private:
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
  result<std::optional<std::size_t>> run_until(std::uint64_t index, std::size_t count,
                                               std::int64_t until_ns) {
    std::uint64_t scanned = index;
    bool looked = false;
    for (;;) {
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

std::unique_ptr<token_source> make_live_source(std::unique_ptr<live_input> input,
                                               std::string name,
                                               const std::string& identity, bool turns) {
  return std::make_unique<live_tokens>(std::move(input), std::move(name), identity,
                                       turns);
}

}  // namespace weir::storage
