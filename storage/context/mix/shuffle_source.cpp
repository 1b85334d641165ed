// SPDX-License-Identifier: Apache-2.0
/// @file
/// Windows of units in random order.
///
/// The units of a window are sorted by random keys that belong to their numbers. A window
/// takes as many tokens as its units, so token i of the shuffled source lies in the same
/// window as token i of the source. The state of a resume is two integers: the number of
/// a window and its first token.
#include <fmt/core.h>

#include <numeric>

#include "context/mix/codec.hpp"
#include "context/mix/unit_source.hpp"
#include "context/source_states.hpp"
#include "weir/base/philox.hpp"

/// A document without a separator at the end of the source gets one, since it may be
/// followed by others in the new order.
namespace weir::storage {

namespace {

/// Separates the random numbers of this use from others.
constexpr std::uint64_t shuffle_stream = 0x53485546;
constexpr std::uint32_t shuffle_rule = 4;
constexpr std::uint32_t shuffle_version = 1;

/// A window: its number and its first token.
struct window_place {
  std::uint64_t number = 0;
  std::uint64_t start = 0;
};
/// A unit in its place.
struct placed_unit {
  std::uint64_t index = 0;   ///< first token in the shuffled source
  std::uint64_t offset = 0;  ///< first token in the source
  std::uint64_t length = 0;  ///< tokens of the source
  bool closed = false;       ///< a separator is added behind it
};

/// A source whose units are shuffled within windows.
///
/// One window is in memory: the places of its units, not their tokens.
class shuffled_tokens final : public unit_source {
 public:
  shuffled_tokens(std::unique_ptr<token_source> from, std::uint64_t window,
                  std::uint64_t seed, std::uint64_t run_tokens)
      : unit_source(std::move(from), run_tokens, shuffle_kind, seed), window_(window) {
    places_.keep(0, window_place{});
  }

  /// Determines size and identity. Damage that the source leaves out is part of its
  /// state, not of the identity.
  result<void> attach() {
    WEIR_CHECK(measure());
    // The separator behind the last document counts.
    identify(source().identity().tokens + (size_ - source().size()),
             {window_, seed(), reader_.rule().tokens}, shuffle_rule);
    return {};
  }

  std::uint64_t size() const noexcept override { return size_; }
  // Neighbouring tokens may come from units that are far apart in the source.
  result<std::size_t> read(std::uint64_t index, std::span<std::uint32_t> to) override {
    std::size_t done = 0;
    while (done < to.size()) {
      WEIR_TRY(const placed_unit* const found, locate(index + done));
      if (found == nullptr) {
        break;
      }
      WEIR_TRY(const std::size_t got,
               copy(*found, index + done - found->index, to.subspan(done)));
      done += got;
    }
    return done;
  }
  result<std::vector<part_share>> shares(std::uint64_t index) const override {
    return source().shares(index);
  }
  // The state is that of the window, from which the order is computed again.
  result<byte_vector> state(std::uint64_t index) const override {
    WEIR_CHECK(locate(index));
    record_writer out;
    out.put(shuffle_version);
    out.put(at_.number);
    out.put(at_.start);
    WEIR_TRY(const byte_vector nested, pack_states(source(), {at_.start}));
    out.put_bytes(nested);
    return std::move(out).take();
  }
  // A window has at least one token, so its number cannot exceed its first token.
  result<void> restore_state(std::uint64_t index, bytes_view state) override {
    record_reader from(state);
    const auto version = from.get<std::uint32_t>();
    window_place stored;
    stored.number = from.get<std::uint64_t>();
    stored.start = from.get<std::uint64_t>();
    if (from.failed() || version != shuffle_version || stored.start > index ||
        stored.number > stored.start) {
      return error(errc::corrupt,
                   fmt::format("cannot read the state of a shuffled source: expected a "
                               "window before token {}, found {} bytes that are none",
                               index, state.size()));
    }
    WEIR_CHECK(unpack_states(source(), from.rest()));
    places_.keep(stored.start, stored);
    return measure();  // the size of the source may depend on its state
  }

 private:
  /// The units of a window are in an order that depends on how many they are.
  result<std::uint64_t> free_from(std::uint64_t index) const override {
    WEIR_TRY(const placed_unit* const found, locate(index));
    // Nothing follows.
    if (found == nullptr) {
      return source().size();
    }
    // A window that was begun stays as it is.
    return std::min(index > at_.start ? end_ : at_.start, source().size());
  }
  // Leaving out a range inside of the window would change the order of tokens that were
  // read.
  error refused(error why) const override {
    const auto window = fmt::format(
        "cannot leave a range out of a shuffled source: expected it behind the window of "
        "{} units from token {} on, which was begun",
        window_, at_.start);
    return error(why.code(), window)
        .located(why.location())
        .hint("--generation goes on from a checkpoint before this window")
        .because(std::move(why));
  }
  // Units may have other extents now.
  result<void> forget() override {
    loaded_ = false;
    return measure();
  }
  /// Determines the size: that of the source, and a separator behind its last document.
  /// It reads the source itself, because pages would keep tokens that a state changes.
  result<void> measure() {
    size_ = source().size();
    if (size_ != unknown_size && size_ > 0 && reader_.rule().tokens == 0) {
      // A last document with a separator needs no other.
      std::uint32_t last = 0;
      WEIR_TRY(const std::size_t got, source().read(size_ - 1, std::span(&last, 1)));
      size_ += got == 1 && last != separator() ? 1 : 0;
    }
    return {};
  }
  // Copies tokens of one unit, or the separator behind it.
  result<std::size_t> copy(const placed_unit& u, std::uint64_t from,
                           std::span<std::uint32_t> to) {
    if (from == u.length) {
      to[0] = separator();
      return std::size_t{1};
    }
    const auto count =
        static_cast<std::size_t>(std::min<std::uint64_t>(to.size(), u.length - from));
    WEIR_CHECK(reader_.read(u.offset + from, to.first(count)));
    return count;
  }
  /// Returns the place of a token in the source; its end for a token behind the end.
  std::uint64_t offset_of(std::uint64_t index) const override {
    const auto found = locate(index);
    if (!found || *found == nullptr) {
      return std::min(index, source().size());
    }
    const placed_unit& u = **found;
    return u.offset + std::min(index - u.index, u.length - 1);
  }
  /// Finds the unit that holds a token, and loads its window.
  /// @returns null behind the end
  result<const placed_unit*> locate(std::uint64_t index) const {
    if (!loaded_ || index < at_.start || index >= end_) {
      WEIR_TRY(const bool found, find_window(index));
      if (!found) {
        return static_cast<const placed_unit*>(nullptr);
      }
    }
    // The units are sorted by their index in the new order.
    const auto after = std::upper_bound(
        units_.begin(), units_.end(), index,
        [](std::uint64_t i, const placed_unit& u) { return i < u.index; });
    return &*std::prev(after);
  }
  /// Walks to the window that holds a token. @returns false behind the end
  result<bool> find_window(std::uint64_t index) const {
    const window_place& near = places_.before(index).second;
    if (!loaded_ || index < at_.start || near.start > at_.start) {
      at_ = near;
      WEIR_CHECK(load());
    }
    // Each window must be loaded to know where the next one begins.
    while (index >= end_ && !last_) {
      at_ = {at_.number + 1, end_};
      places_.note(at_.start, at_);
      WEIR_CHECK(load());
    }
    return index < end_;
  }
  /// Finds the units of the current window and puts them in order.
  result<void> load() const {
    loaded_ = false;
    units_.clear();
    last_ = false;
    std::uint64_t offset = at_.start;
    // Collects the units of the window in the order of the source.
    while (!last_ && units_.size() < window_) {
      WEIR_TRY(const unit u, reader_.unit_at(offset));
      last_ = u.length == 0 || u.last;
      if (u.length > 0) {
        units_.push_back(
            {0, offset, u.length, u.last && u.open && reader_.rule().tokens == 0});
      }
      offset += u.length;
    }
    const philox random(seed(), shuffle_stream);
    // A key for each unit, from the number of the unit in the whole source.
    std::vector<std::pair<std::uint64_t, std::size_t>> keys(units_.size());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      keys[i] = {random.bits(at_.number * window_ + i), i};
    }
    // Equal keys keep the order of the source, as the second member differs.
    std::sort(keys.begin(), keys.end());
    std::vector<placed_unit> ordered;
    // Now the units get their places.
    end_ = at_.start;
    for (const auto& [key, i] : keys) {
      ordered.push_back(units_[i]);
      ordered.back().index = end_;
      end_ += units_[i].length + (units_[i].closed ? 1 : 0);
    }
    units_ = std::move(ordered);
    loaded_ = true;
    return {};
  }

  std::uint64_t window_;
  std::uint64_t size_ = 0;
  // The window of the last read. It changes no result, only the time of the next read.
  mutable walk_memory<window_place> places_;
  mutable window_place at_;
  mutable std::vector<placed_unit> units_;  ///< units of the window in the new order
  mutable std::uint64_t end_ = 0;           ///< index behind the window
  mutable bool last_ = false;               ///< the source ends with the window
  mutable bool loaded_ = false;
};

}  // namespace

/// `purpose` is the verb of the error.
result<void> check_seekable(const token_source& source, std::string_view purpose) {
  if (source.seekable()) {
    return {};
  }
  return error(errc::invalid_argument,
               fmt::format("cannot {} a source: expected one that can be read at any "
                           "index, found one that is read once",
                           purpose))
      .located(source.place_text(0))
      .hint("let the program that writes the text do it");
}

/// The window counts units.
result<std::unique_ptr<token_source>> shuffle_source(std::unique_ptr<token_source> source,
                                                     std::uint64_t window,
                                                     std::uint64_t seed,
                                                     std::uint64_t run_tokens) {
  WEIR_CHECK(check_seekable(*source, "shuffle"));
  WEIR_CHECK(check_run(run_tokens));
  if (window < 2 || window > max_shuffle_window) {
    return error(errc::invalid_argument,
                 fmt::format("cannot shuffle a source: expected a window of 2 to {} "
                             "units, found {}",
                             max_shuffle_window, window));
  }
  auto out =
      std::make_unique<shuffled_tokens>(std::move(source), window, seed, run_tokens);
  WEIR_CHECK(out->attach());
  return std::unique_ptr<token_source>(std::move(out));
}

}  // namespace weir::storage
