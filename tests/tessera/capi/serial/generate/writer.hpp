// SPDX-License-Identifier: Apache-2.0
/// @file
/// Writes a program operation by operation and adds a wait before each operation that
/// would race otherwise.
#pragma once

#include <optional>
#include <vector>

#include "serial/generate/generator.hpp"
#include "serial/generate/scene.hpp"
#include "serial/rules.hpp"

namespace weir::test::serial {

/// The program written so far and the rules that it must obey.
class writer {
 public:
  static constexpr int shared_events = 5;  ///< events that are recorded repeatedly

  writer(std::uint64_t seed, const features& with);

 protected:
  // Random choices. They return none if there is nothing to choose from.

  /// Returns the streams that run what is called on them.
  [[nodiscard]] std::vector<int> open_streams() const;
  [[nodiscard]] int any_of(const std::vector<int>& list);
  [[nodiscard]] int any_stream() { return any_of(open_streams()); }
  /// Returns a number of words to copy or compute. It is even, because some element types
  /// have two words.
  [[nodiscard]] int any_length();
  [[nodiscard]] place any_range(int buffer, int rank, int words);
  [[nodiscard]] place any_on_host(int words);
  /// Returns device memory that the stream may name. With `peers`, it may also be the
  /// instance of one rank, named by its own address.
  [[nodiscard]] std::optional<place> any_on_device(int stream, int words, bool peers);
  [[nodiscard]] int new_event() { return p_.events++; }
  /// Returns whether an operation called on the stream now may use the buffer.
  [[nodiscard]] bool usable(int buffer, int stream) const;

  // Writing.

  /// Returns an operation of this stream; it is recorded if the stream is being captured.
  [[nodiscard]] operation on(verb what, int stream) const;
  /// Appends the operation without any waits.
  void push(operation o);
  /// Appends the operation and the waits that it needs before it. Appends nothing if the
  /// interface does not allow the operation or no wait is possible.
  void emit(operation o);
  void record(int event, int stream);
  /// Sometimes makes one device of the stream slow. A wait that covers only some device
  /// chains of the stream then returns too early.
  void delay_a_chain(int stream);
  /// Inside a capture, makes `to` wait for everything on `from`.
  void join(int from, int to, int graph);

  dice d_;
  features with_;
  program p_;
  rules rules_;

 private:
  /// Adds a wait that supplies the missing order. Returns false if there is none.
  bool separate(const unordered& race, const operation& o);
  /// Returns an event that covers the operations to wait for, or none if there is no way.
  int event_behind(const unordered& race);

  int ids_ = 0;
};

}  // namespace weir::test::serial
