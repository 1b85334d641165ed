// SPDX-License-Identifier: Apache-2.0
/// @file
/// What keeps a stream in order: one lane per device, and one for the memory of the host.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weir/runtime/engine.hpp"

namespace weir::runtime {

/// What went wrong in a stream and with which of its operations; empty if nothing.
/// @threads{a value; the error is shared and immutable}
struct failure {
  std::shared_ptr<const error> what;
  std::uint64_t operation = 0;  ///< its number in the stream

  explicit operator bool() const noexcept { return what != nullptr; }
  /// The earlier of the two.
  void merge(const failure& other) {
    if (other && (!*this || other.operation < operation)) {
      *this = other;
    }
  }
};

/// One chain of tasks. Operations hold its order token for writing, so the rest of it is
/// touched by one task at a time.
struct lane {
  footprint token;
  access held;             ///< the token for writing: submissions copy less that way
  failure poison;          ///< operations are skipped while it is set
  bool backwards = false;  ///< the next collective that begins here is to go that way
};

/// @threads{each lane: the tasks that hold its token; the rest is constant}
class lane_set {
 public:
  /// Lanes for so many devices, and one more for the host.
  [[nodiscard]] static result<std::unique_ptr<lane_set>> make(engine& in,
                                                              unsigned devices) {
    auto out = std::make_unique<lane_set>();
    for (unsigned i = 0; i <= devices; ++i) {
      WEIR_TRY(const storage token, in.allocate(1, "order tokens"));
      const std::int64_t one = 1;
      WEIR_TRY(const footprint bytes,
               footprint::of(token.id, 0, {&one, 1}, {&one, 1}, 1));
      out->lanes_.push_back({bytes, {bytes, access_mode::read_write}, {}, false});
    }
    return out;
  }

  [[nodiscard]] unsigned devices() const noexcept {
    return static_cast<unsigned>(lanes_.size()) - 1;
  }
  [[nodiscard]] lane& of(unsigned device) noexcept { return lanes_[device]; }
  /// Orders what lanes do to memory of the host.
  [[nodiscard]] lane& host() noexcept { return lanes_.back(); }
  [[nodiscard]] lane& at(std::size_t index) noexcept { return lanes_[index]; }
  [[nodiscard]] std::size_t size() const noexcept { return lanes_.size(); }
  /// An operation may hold the lane of the host. Writes once: workers read beside it.
  void use_host(bool used) noexcept {
    if (used && !host_used) {
      host_used = true;
    }
  }
  /// A lane has a failure. For who knows that no task holds a token.
  [[nodiscard]] bool poisoned() const noexcept {
    return std::any_of(lanes_.begin(), lanes_.end(),
                       [](const lane& l) { return static_cast<bool>(l.poison); });
  }

  const void* mesh = nullptr;  ///< whose devices; lanes of one mesh correspond
  bool host_used = false;      ///< an operation has held the lane of the host
  bool urgent = false;         ///< tasks go before those of other streams

 private:
  std::vector<lane> lanes_;
};

}  // namespace weir::runtime
