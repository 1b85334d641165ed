// SPDX-License-Identifier: Apache-2.0
/// @file
/// The memory to which a message is written, front to back.
#pragma once

#include <algorithm>
#include <cstring>

#include "weir/base/bytes.hpp"

namespace weir::formats {

/// Replaces the contents of a vector: overwrites the bytes that it has and appends the
/// others. A vector that is used again is therefore neither cleared nor filled with
/// zeros.
class message_buffer {
 public:
  /// Reserves memory for `size` bytes, the number that will be written.
  message_buffer(byte_vector& to, std::size_t size) : to_(to) {
    if (to.capacity() < size) {
      to.clear();  // so that no old bytes are moved to the new memory
      to.reserve(size);
    }
  }

  /// Returns the number of bytes written so far.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Returns the last `count` bytes that were written.
  [[nodiscard]] bytes_view last(std::size_t count) const noexcept {
    return bytes_view(to_).subspan(size_ - count, count);
  }

  /// Writes bytes at the end.
  void put(bytes_view bytes) {
    const std::size_t inside = std::min(bytes.size(), to_.size() - size_);
    if (inside > 0) {
      std::memcpy(to_.data() + size_, bytes.data(), inside);
    }
    append(to_, bytes.subspan(inside));
    size_ += bytes.size();
  }
  /// Returns the next `count` bytes for the caller to write, if the vector already has
  /// all of them; otherwise returns an empty span, and the caller uses put().
  [[nodiscard]] mutable_bytes take(std::size_t count) noexcept {
    if (count > to_.size() - size_) {
      return {};
    }
    size_ += count;
    return mutable_bytes(to_).subspan(size_ - count, count);
  }
  /// Overwrites bytes that were written before.
  void replace(std::size_t offset, bytes_view bytes) noexcept {
    std::copy(bytes.begin(), bytes.end(),
              to_.begin() + static_cast<std::ptrdiff_t>(offset));
  }
  /// Cuts the vector to the bytes that were written.
  void finish() { to_.resize(size_); }

 private:
  byte_vector& to_;       ///< the vector that becomes the message
  std::size_t size_ = 0;  ///< bytes of it that are written
};

}  // namespace weir::formats
