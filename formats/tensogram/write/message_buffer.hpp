// SPDX-License-Identifier: Apache-2.0
/// @file
/// The memory that a message is written to, front to back.
#pragma once

#include <algorithm>
#include <cstring>

#include "weir/base/bytes.hpp"

namespace weir::formats {

/// Replaces the content of a vector: what it has is overwritten, the rest is appended. So
/// a vector that is used again is neither cleared nor filled with zeros first.
class message_buffer {
 public:
  /// `to` gets memory for `size` bytes, which are all that will be written.
  message_buffer(byte_vector& to, std::size_t size) : to_(to) {
    if (to.capacity() < size) {
      to.clear();  // nothing needs to move to the new memory
      to.reserve(size);
    }
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// The last bytes that were written.
  [[nodiscard]] bytes_view last(std::size_t count) const noexcept {
    return bytes_view(to_).subspan(size_ - count, count);
  }

  void put(bytes_view bytes) {
    const std::size_t inside = std::min(bytes.size(), to_.size() - size_);
    if (inside > 0) {
      std::memcpy(to_.data() + size_, bytes.data(), inside);
    }
    append(to_, bytes.subspan(inside));
    size_ += bytes.size();
  }
  /// The next `count` bytes for the caller to write, if memory for all of them was in use
  /// before; else an empty span, and put() is the way.
  [[nodiscard]] mutable_bytes take(std::size_t count) noexcept {
    if (count > to_.size() - size_) {
      return {};
    }
    size_ += count;
    return mutable_bytes(to_).subspan(size_ - count, count);
  }
  /// Writes over bytes that were put before.
  void replace(std::size_t offset, bytes_view bytes) noexcept {
    std::copy(bytes.begin(), bytes.end(),
              to_.begin() + static_cast<std::ptrdiff_t>(offset));
  }
  /// Leaves the vector with what was written.
  void finish() { to_.resize(size_); }

 private:
  byte_vector& to_;
  std::size_t size_ = 0;
};

}  // namespace weir::formats
