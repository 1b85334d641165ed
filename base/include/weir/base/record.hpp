// SPDX-License-Identifier: Apache-2.0
/// @file
/// Little-endian records: a writer that grows, and a reader that never trusts a length.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/bytes.hpp"

namespace weir {

/// Appends little-endian numbers and bytes. @threads{thread-compatible}
class record_writer {
 public:
  template <std::unsigned_integral T>
  void put(T value) {
    const std::size_t at = out_.size();
    out_.resize(at + sizeof(T));
    store_le(out_.data() + at, value);
  }
  /// The length as u32, then the bytes.
  void put_text(std::string_view text) {
    put(static_cast<std::uint32_t>(text.size()));
    append(out_, as_view(text));
  }
  /// The numbers without their count.
  template <std::unsigned_integral T>
  void put_all(std::span<const T> values) {
    const std::size_t at = out_.size();
    out_.resize(at + values.size_bytes());
    for (std::size_t i = 0; i < values.size(); ++i) {
      store_le(out_.data() + at + i * sizeof(T), values[i]);
    }
  }
  void put_bytes(bytes_view bytes) { append(out_, bytes); }
  void put_zeros(std::size_t count) { out_.resize(out_.size() + count); }
  [[nodiscard]] std::size_t size() const noexcept { return out_.size(); }
  [[nodiscard]] byte_vector take() && { return std::move(out_); }
  [[nodiscard]] bytes_view view() const noexcept { return out_; }

 private:
  byte_vector out_;
};

/// Takes little-endian numbers and bytes from a view. A read past the end gives zeros and
/// sets `failed`, so that a caller checks once per group of fields.
/// @threads{thread-compatible}
class record_reader {
 public:
  explicit record_reader(bytes_view bytes) : rest_(bytes) {}

  /// The next number, or 0 if its bytes are missing.
  template <std::unsigned_integral T>
  [[nodiscard]] T get() {
    const bytes_view bytes = get_bytes(sizeof(T));
    return failed_ ? T{0} : load_le<T>(bytes.data());
  }
  /// The next `count` bytes, or none if some are missing.
  [[nodiscard]] bytes_view get_bytes(std::uint64_t count) {
    if (count > rest_.size()) {
      failed_ = true;
      rest_ = {};
      return {};
    }
    const bytes_view out = rest_.first(static_cast<std::size_t>(count));
    rest_ = rest_.subspan(out.size());
    return out;
  }
  /// What `put_text` wrote; empty if bytes are missing.
  [[nodiscard]] std::string get_text() {
    return std::string(as_text(get_bytes(get<std::uint32_t>())));
  }
  /// The next number as a count of things that take at least `unit` bytes each; 0, and
  /// `failed`, if so many cannot follow.
  template <std::unsigned_integral T>
  [[nodiscard]] std::size_t get_count(std::size_t unit) {
    const T count = get<T>();
    if (count > rest_.size() / unit) {
      failed_ = true;
      return 0;
    }
    return static_cast<std::size_t>(count);
  }
  /// The next `count` numbers, or none if some are missing.
  template <std::unsigned_integral T>
  [[nodiscard]] std::vector<T> get_all(std::size_t count) {
    if (count > rest_.size() / sizeof(T)) {
      failed_ = true;
      return {};
    }
    std::vector<T> out(count);
    const bytes_view bytes = get_bytes(count * sizeof(T));
    for (std::size_t i = 0; i < count; ++i) {
      out[i] = load_le<T>(bytes.data() + i * sizeof(T));
    }
    return out;
  }
  /// True once something was read past the end.
  [[nodiscard]] bool failed() const noexcept { return failed_; }
  /// The bytes that were not taken yet.
  [[nodiscard]] bytes_view rest() const noexcept { return rest_; }

 private:
  bytes_view rest_;
  bool failed_ = false;
};

}  // namespace weir
