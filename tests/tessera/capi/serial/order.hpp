// SPDX-License-Identifier: Apache-2.0
/// @file
/// What happens before what: vector clocks of streams and of the program's thread.
///
/// A stream orders all that it has; a wait orders what its event was recorded behind
/// before what follows; a thread that has waited for a stream or an event orders that
/// before all that it calls later. Nothing else orders: no collective, and no luck.
/// @source{the order of operations at the top of tessera.h}
#pragma once

#include <map>
#include <vector>

#include "serial/touches.hpp"

namespace weir::test::serial {

/// One who waits would have to wait for the first `index` operations of another.
struct unordered {
  int by = none;  ///< a stream; none: the program's thread
  int behind = none;
  int index = 0;
};

class order {
 public:
  explicit order(const program& p);

  /// What would race with an operation of these touches if it came now.
  [[nodiscard]] std::vector<unordered> races_of(const std::vector<touch>& touches) const;
  /// The operation comes. `stream` has it even if it touches nothing.
  void take(int stream, const std::vector<touch>& touches);

  void record(int event, int stream);
  void wait(int stream, int event);
  void await(int event);
  void synchronize(int stream);
  /// The thread's calls up to now come before all that a stream has from now on.
  void open(int stream) { join(stream, clocks_.back()); }

  /// Whether who waits for the event waits for these operations.
  [[nodiscard]] bool covers(int event, const unordered& what) const;
  /// Whether all operations of all streams come before the next one of this.
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

  std::vector<clock> clocks_;  ///< by agent; the last is the program's thread
  std::map<int, clock> events_;
  std::vector<std::vector<std::vector<word_state>>> memory_;
};

}  // namespace weir::test::serial
