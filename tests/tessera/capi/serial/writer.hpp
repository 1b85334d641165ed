// SPDX-License-Identifier: Apache-2.0
/// @file
/// Writes a program operation by operation, each behind the one wait that it needs.
#pragma once

#include <optional>
#include <vector>

#include "serial/generator.hpp"
#include "serial/rules.hpp"
#include "serial/scene.hpp"

namespace weir::test::serial {

class writer {
 public:
  static constexpr int shared_events = 5;  ///< are recorded again and again

  writer(std::uint64_t seed, const features& with);

 protected:
  // Things to choose from; none where there is nothing.

  /// Streams that run what they are given.
  [[nodiscard]] std::vector<int> open_streams() const;
  [[nodiscard]] int any_of(const std::vector<int>& list);
  [[nodiscard]] int any_stream() { return any_of(open_streams()); }
  /// Words to copy or to compute on; an even number, so that pairs of them are elements.
  [[nodiscard]] int any_length();
  [[nodiscard]] place any_range(int buffer, int rank, int words);
  [[nodiscard]] place any_on_host(int words);
  /// Memory of devices as the stream may name it; `peers`: also of one rank by its own
  /// address.
  [[nodiscard]] std::optional<place> any_on_device(int stream, int words, bool peers);
  [[nodiscard]] int new_event() { return p_.events++; }
  /// Whether what is called on the stream now may use the buffer.
  [[nodiscard]] bool usable(int buffer, int stream) const;

  // Writing.

  /// An operation of this stream, recorded where the stream is being recorded.
  [[nodiscard]] operation on(verb what, int stream) const;
  /// As it is.
  void push(operation o);
  /// Behind what it has to wait for. Left out where it may not be.
  void emit(operation o);
  void record(int event, int stream);
  /// One device of the stream falls behind the others, now and then: who waits for some
  /// of the stream's lanes only is too early then.
  void delay_a_lane(int stream);
  /// In a capture: `to` waits for what `from` has.
  void join(int from, int to, int graph);

  dice d_;
  features with_;
  program p_;
  rules rules_;

 private:
  /// Makes one wait for the other. False if there is no way.
  bool separate(const unordered& race, const operation& o);
  /// An event that is recorded behind what is to be waited for; none if there is no way.
  int event_behind(const unordered& race);

  int ids_ = 0;
};

}  // namespace weir::test::serial
