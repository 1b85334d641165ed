// SPDX-License-Identifier: Apache-2.0
/// @file
/// The happens-before order of a program, kept as vector clocks of its streams and of its
/// thread.
///
/// A stream orders its own operations. A wait orders everything before the recording
/// of the event before everything behind the wait. A thread that waits for a stream or an
/// event orders that work before all its later calls. Nothing else orders operations; in
/// particular, collectives do not.
/// @source{the order of operations at the top of tessera.h}
#pragma once

#include <map>
#include <vector>

#include "serial/touches.hpp"

namespace weir::test::serial {

/// A missing order: `waiting` would have to wait for the first `index` operations of
/// `behind`.
struct unordered {
  int waiting = none;  ///< a stream, or none for the program's thread
  int behind = none;
  int index = 0;
};

/// Vector clocks of a program's streams and of its thread.
class order {
 public:
  explicit order(const program& p);

  /// Returns the missing orders: all operations that conflict with these touches and are
  /// not ordered before them.
  [[nodiscard]] std::vector<unordered> races_of(const std::vector<touch>& touches) const;
  /// Adds an operation. It counts as an operation of `stream` even if it touches nothing.
  void take(int stream, const std::vector<touch>& touches);

  void record(int event, int stream);
  void wait(int stream, int event);
  void await(int event);
  void synchronize(int stream);
  /// Orders all calls of the thread up to now before all later operations of the stream.
  void open(int stream) { join(stream, clocks_.back()); }

  /// Returns whether waiting for the event orders these operations.
  [[nodiscard]] bool covers(int event, const unordered& missing) const;
  /// Returns whether all operations so far are ordered before the next one of this
  /// stream.
  [[nodiscard]] bool ends_in(int stream) const;

 private:
  using clock = std::vector<int>;
  struct word_state {
    int writer = none;
    int written = 0;
    clock read;
  };

  [[nodiscard]] std::size_t agent(int stream) const {
    return stream == none ? clocks_.size() - 1 : static_cast<std::size_t>(stream);
  }
  [[nodiscard]] int stream_of(std::size_t agent) const {
    return agent + 1 == clocks_.size() ? none : static_cast<int>(agent);
  }
  void join(int stream, const clock& other);
  [[nodiscard]] std::vector<word_state>& words(const touch& t);

  std::vector<clock> clocks_;  ///< by agent; the last entry is the program's thread
  std::map<int, clock> events_;
  std::vector<std::vector<std::vector<word_state>>> memory_;
};

}  // namespace weir::test::serial
