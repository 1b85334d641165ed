// SPDX-License-Identifier: Apache-2.0
/// @file
/// The calls that a rank has made, and the first one in which two ranks differ.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "weir/runtime/transport.hpp"

namespace weir::runtime {

/// A call in messages between ranks.
struct sent_call {
  std::uint64_t fold = 0;       ///< hash of this call and all calls before it
  std::array<char, 48> name{};  ///< name of it, cut off if it is longer
};

/// The number of calls of a rank, in messages between ranks.
struct call_count {
  std::uint64_t calls = 0;     ///< calls since the world was made
  std::uint64_t first = 0;     ///< number of the oldest one that is remembered, from 0
  std::uint64_t compared = 0;  ///< calls that all ranks have found to be equal
  std::uint64_t waits = 0;     ///< waits that have begun
  std::uint64_t inside = 0;    ///< 1 if the newest of them has not ended

  /// Returns the number of calls that are remembered.
  [[nodiscard]] std::size_t remembered() const noexcept {
    return static_cast<std::size_t>(calls - first);
  }
};

/// The calls of a rank.
struct call_history {
  call_count count;
  std::vector<sent_call> newest;  ///< calls from `count.first` on
};

/// Compares the calls of two ranks. A rank that has made fewer calls differs only if it
/// is in a wait that the other one has not left.
/// @error{diverged; the text names the first call that differs}
[[nodiscard]] result<void> compare_calls(rank_id one_rank, const call_history& one,
                                         rank_id other_rank, const call_history& other);

/// A hash of numbers and texts in their order. @threads{thread-compatible}
class mixed_hash {
 public:
  /// Mixes a number into the hash.
  void add(std::uint64_t number) noexcept {
    value_ = (value_ ^ number) * 0x9E3779B97F4A7C15U;
    value_ ^= value_ >> 29U;
  }
  /// Mixes a text into the hash.
  void add(const char* text) noexcept {
    for (; *text != '\0'; ++text) {
      add(static_cast<std::uint64_t>(*text));
    }
  }
  /// Returns the hash.
  [[nodiscard]] std::uint64_t value() const noexcept { return value_; }

 private:
  std::uint64_t value_ = 0;
};

/// Hash of all calls of a rank, and the names of the newest ones.
/// @threads{thread-compatible}
class call_log {
 public:
  /// Largest number of calls that are remembered.
  static constexpr std::size_t max_remembered = 4096;

  /// Mixes a number into the hash.
  void fold(std::uint64_t number) noexcept { fold_.add(number); }
  /// Ends a call whose arguments have been mixed into the hash. `name` is a literal.
  void note(const char* name);
  /// Forgets all calls so far, because all ranks have made the same ones.
  void forget() noexcept;
  /// Begins a wait for the other ranks.
  void begin_wait() noexcept {
    ++waits_;
    inside_ = true;
  }
  /// Ends the wait.
  void end_wait() noexcept { inside_ = false; }

  /// Returns the hash of all calls.
  [[nodiscard]] std::uint64_t folded() const noexcept { return fold_.value(); }
  /// Returns the number of calls.
  [[nodiscard]] call_count count() const noexcept;
  /// Returns the newest calls.
  [[nodiscard]] call_history history() const;

 private:
  struct call {
    std::uint64_t fold;
    const char* name;
  };
  mixed_hash fold_;
  std::uint64_t calls_ = 0;
  std::uint64_t compared_ = 0;
  std::uint64_t waits_ = 0;
  bool inside_ = false;
  std::deque<call> newest_;
};

}  // namespace weir::runtime
