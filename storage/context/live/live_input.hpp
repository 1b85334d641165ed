// SPDX-License-Identifier: Apache-2.0
/// @file
/// The parts of a live source: the newest tokens that have arrived, and the interface
/// through which they arrive.
#pragma once

#include <deque>
#include <span>

#include "weir/storage/live_source.hpp"

namespace weir::storage {

/// Number of the newest tokens that stay readable. They serve reads of chunks that were
/// read ahead and the window of a cursor.
inline constexpr std::size_t remembered = std::size_t{1} << 20;

/// The newest tokens of a live source, and the places where contexts begin.
class live_window {
 public:
  /// Returns the index of the oldest token that is kept.
  [[nodiscard]] std::uint64_t first() const noexcept { return first_; }
  /// Returns the index behind the newest token.
  [[nodiscard]] std::uint64_t end() const noexcept { return first_ + tokens_.size(); }
  /// Returns the tokens that are kept, from `first` on.
  [[nodiscard]] std::span<const std::uint32_t> tokens() const noexcept { return tokens_; }

  /// Takes tokens that stand at `index` and later. Those that have arrived before are
  /// compared with the tokens that are kept.
  /// @error{history_mismatch, a token differs from the one that has arrived before}
  /// @error{corrupt, `index` is larger than `end()`}
  [[nodiscard]] result<void> put(std::uint64_t index,
                                 std::span<const std::uint32_t> tokens);
  /// Notes that a context begins before the token at `index`.
  void add_reset(std::uint64_t index);
  /// Returns the index of the first context that begins behind `index`, or the largest
  /// number.
  [[nodiscard]] std::uint64_t next_reset(std::uint64_t index) const noexcept;
  /// Returns whether a context begins before the token at `index`.
  [[nodiscard]] bool reset_at(std::uint64_t index) const noexcept;

  /// Begins at `index`, with the tokens directly before it. @pre they are at most `index`
  void begin(std::uint64_t index, std::span<const std::uint32_t> before);
  /// Drops tokens that lie more than `remembered` before `index`. It waits until half of
  /// the memory can be dropped, so that every token is moved once on average.
  void forget(std::uint64_t index);

 private:
  std::vector<std::uint32_t> tokens_;  ///< the oldest first
  std::uint64_t first_ = 0;            ///< index of the first of `tokens_`
  std::deque<std::uint64_t> resets_;   ///< ascending
};

/// Delivers the tokens of a live source.
/// @threads{thread-compatible}
class live_input {
 public:
  virtual ~live_input() = default;
  /// Returns the number of distinct tokens.
  [[nodiscard]] virtual std::uint32_t vocabulary() const noexcept = 0;
  /// Returns the token that ends a document.
  [[nodiscard]] virtual std::uint32_t separator() const noexcept { return end_of_text; }
  /// Waits for tokens for a limited time, and puts those that came into the window. It
  /// may return early without any.
  /// @param want     tokens that the caller needs, at least 1; more may come
  /// @param wait_ms  most milliseconds to wait
  /// @returns false once no token will follow
  /// @error{source_unavailable, the writer is gone or cannot be read}
  /// @error{corrupt, it does not keep to its protocol}
  [[nodiscard]] virtual result<bool> receive(live_window& to, std::size_t want,
                                             int wait_ms) = 0;
  /// Returns what the writer needs to go on at the token `index`; empty for writers that
  /// cannot be asked. @error{out_of_range, the state is too large}
  [[nodiscard]] virtual result<byte_vector> state(std::uint64_t index) const = 0;
  /// Goes on at `index`, before anything was received. `state` is empty or what `state`
  /// has returned. @error{corrupt, it is damaged}
  [[nodiscard]] virtual result<void> restore(std::uint64_t index, bytes_view state) = 0;
  /// Tells the token directly before the place at which it goes on, behind `restore`.
  virtual void go_on_behind(std::uint32_t /*token*/) {}
  /// Drops what is needed only for states before `index`.
  virtual void forget(std::uint64_t index) = 0;
};

/// Makes a source out of an input.
/// @param name      name for messages
/// @param identity  name for the identity of the source
[[nodiscard]] std::unique_ptr<token_source> make_live_source(
    std::unique_ptr<live_input> input, std::string name, const std::string& identity,
    bool turns);

}  // namespace weir::storage
