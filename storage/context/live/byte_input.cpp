// SPDX-License-Identifier: Apache-2.0
/// @file
/// Bytes of a feed as tokens, and lines as turns.
///
/// With turns, the end of a line is the end of a turn and becomes a separator. The line
/// "/reset" begins a new context and is no text; "//reset" stands for that text itself.
/// Tokens and bytes are therefore not equally many, and `places_` maps one to the other.
#include <algorithm>
#include <array>

#include "context/live/byte_feed.hpp"
#include "weir/base/record.hpp"

namespace weir::storage {

namespace {

/// The commands, each with its line feed.
constexpr std::string_view reset_line = "/reset\n";
constexpr std::string_view reset_text = "//reset\n";
/// Bytes of one read.
constexpr std::size_t max_piece = 16384;

class byte_input final : public live_input {
 public:
  byte_input(std::unique_ptr<byte_feed> feed, bool turns)
      : feed_(std::move(feed)), turns_(turns) {}

  // Without turns no separator occurs.
  std::uint32_t vocabulary() const noexcept override {
    return turns_ ? byte_vocabulary : byte_vocabulary - 1;
  }
  /// Reads no more than is needed, so that the rest stays with the system.
  result<bool> receive(live_window& to, std::size_t want, int wait_ms) override {
    std::array<std::byte, max_piece> piece;
    const auto space = mutable_bytes(piece).first(std::min(piece.size(), want));
    WEIR_TRY(const feed_piece got, feed_->receive(taken_, space, wait_ms));
    // Tokens of this call.
    fresh_.clear();
    const std::uint64_t index = to.end();
    if (got.is == feed_piece::kind::bytes) {
      take(to, as_text(mutable_bytes(piece).first(got.count)));
    } else if (got.is != feed_piece::kind::nothing) {
      // A line that was held back cannot become a command any more.
      release();
      if (got.is == feed_piece::kind::left && turns_ && !at_line_start_) {
        // The next peer begins a turn of its own. No byte stands for this end.
        places_.push_back({index + fresh_.size(), taken_ - 1});
        fresh_.push_back(end_of_text);
        at_line_start_ = true;
      }
    }
    WEIR_CHECK(to.put(index, fresh_));
    return got.is != feed_piece::kind::end;
  }

  // Only a writer that can be asked needs a state: the byte at which it goes on.
  result<byte_vector> state(std::uint64_t index) const override {
    if (!feed_->asks()) {
      return byte_vector();
    }
    record_writer out;
    out.put(byte_of(index));
    return std::move(out).take();
  }
  // Without a state, bytes and tokens are taken as equally many.
  result<void> restore(std::uint64_t index, bytes_view state) override {
    record_reader from(state);
    taken_ = state.empty() ? index : from.get<std::uint64_t>();
    if (from.failed() || !from.rest().empty()) {
      return error(errc::corrupt,
                   "cannot use the stored state of a live source: expected 8 bytes, "
                   "found another number");
    }
    places_ = {{index, taken_}};
    return {};
  }
  /// Commands stand at the beginning of a line only.
  void go_on_behind(std::uint32_t token) override {
    at_line_start_ = token == end_of_text;
  }
  // The place that covers `index` stays.
  void forget(std::uint64_t index) override {
    while (places_.size() > 1 && places_[1].index < index) {
      places_.pop_front();
    }
  }

 private:
  /// From the token `index` on, tokens and bytes have one distance, until the next place.
  /// The place counts for tokens behind `index` only.
  struct place {
    std::uint64_t index = 0;
    std::uint64_t byte = 0;
  };

  /// Returns the byte at which a token begins, with a command that stands before it.
  [[nodiscard]] std::uint64_t byte_of(std::uint64_t index) const {
    const place* last = &places_.front();
    for (const place& one : places_) {
      if (one.index < index) {
        last = &one;
      }
    }
    return last->byte + (index - last->index);
  }
  /// Turns bytes into tokens. A line that may still become a command is held back.
  void take(live_window& to, std::string_view bytes) {
    for (const char c : bytes) {
      ++taken_;
      if (!turns_) {
        fresh_.push_back(static_cast<unsigned char>(c));
        continue;
      }
      // The first bytes of a line wait until it is clear that they are no command.
      if (at_line_start_) {
        held_ += c;
        take_held(to);
        continue;
      }
      put(c);
    }
  }
  // The line feed itself is the end of the turn.
  void put(char c) {
    at_line_start_ = c == '\n';
    fresh_.push_back(c == '\n' ? end_of_text : static_cast<unsigned char>(c));
  }
  /// Decides about the beginning of a line, once enough of it is known.
  void take_held(live_window& to) {
    if (held_ == reset_line) {
      // The reset stands before the token that comes next.
      const std::uint64_t index = to.end() + fresh_.size();
      to.add_reset(index);
      places_.push_back({index, taken_});
      held_.clear();
    } else if (held_ == reset_text) {
      // The first slash is dropped, so the place moves by one byte.
      places_.push_back({to.end() + fresh_.size(), taken_ - held_.size() + 1});
      held_.erase(0, 1);
      release();
    } else if (!reset_line.starts_with(held_) && !reset_text.starts_with(held_)) {
      // Neither command can follow from what is there.
      release();
    }
  }
  /// Makes tokens of the bytes that were held back.
  void release() {
    for (const char c : std::exchange(held_, {})) {
      put(c);
    }
  }

  std::unique_ptr<byte_feed> feed_;
  bool turns_;
  std::uint64_t taken_ = 0;  ///< bytes of the stream
  std::deque<place> places_{{0, 0}};
  std::string held_;  ///< begin of a line that may become a command
  bool at_line_start_ = true;
  std::vector<std::uint32_t> fresh_;  ///< tokens that the window does not have yet
};

}  // namespace

/// Makes the input of a source; the feed may be of any kind.
std::unique_ptr<live_input> make_byte_input(std::unique_ptr<byte_feed> feed, bool turns) {
  return std::make_unique<byte_input>(std::move(feed), turns);
}

/// The descriptor stays with the caller. With a log, the bytes are durable before they
/// are read.
result<std::unique_ptr<token_source>> open_pipe_source(int descriptor, std::string name,
                                                       const live_options& options) {
  WEIR_TRY(auto feed,
           make_logged_feed(make_descriptor_feed(descriptor, false, name), options));
  return make_live_source(make_byte_input(std::move(feed), options.turns), name, name,
                          options.turns);
}

/// The name of the source has the port that the system has chosen.
result<std::unique_ptr<token_source>> open_socket_source(const std::string& address,
                                                         const live_options& options) {
  WEIR_TRY(opened_listener made, make_listener_feed(address, options));
  WEIR_TRY(auto feed, make_logged_feed(std::move(made.feed), options));
  return make_live_source(make_byte_input(std::move(feed), options.turns),
                          std::move(made.address), "socket", options.turns);
}

}  // namespace weir::storage
