// SPDX-License-Identifier: Apache-2.0
/// @file
/// Records of little-endian numbers, texts and bytes: a writer that appends to a vector,
/// and a reader that checks every length before it uses it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/bytes.hpp"

namespace weir {

/// Builds a record by appending fields.
/// @threads{thread-compatible}
class record_writer {
 public:
  /// Appends a number.
  template <std::unsigned_integral T>
  void put(T value) {
    const std::size_t offset = out_.size();
    out_.resize(offset + sizeof(T));
    store_le(out_.data() + offset, value);
  }
  /// Appends the length of a text as u32, then its bytes.
  /// @pre The text has fewer than 2^32 bytes.
  void put_text(std::string_view text) {
    put(static_cast<std::uint32_t>(text.size()));
    append(out_, as_view(text));
  }
  /// Appends numbers, without their count.
  template <std::unsigned_integral T>
  void put_all(std::span<const T> values) {
    const std::size_t offset = out_.size();
    out_.resize(offset + values.size_bytes());
    for (std::size_t i = 0; i < values.size(); ++i) {
      store_le(out_.data() + offset + i * sizeof(T), values[i]);
    }
  }
  /// Appends bytes, without their count.
  void put_bytes(bytes_view bytes) { append(out_, bytes); }
  /// Appends `count` bytes of zero.
  void put_zeros(std::size_t count) { out_.resize(out_.size() + count); }
  /// Returns the size of the record so far, in bytes.
  [[nodiscard]] std::size_t size() const noexcept { return out_.size(); }
  /// Returns the record and leaves the writer empty.
  [[nodiscard]] byte_vector take() && { return std::move(out_); }
  /// Returns the record so far, valid until the next field is appended.
  [[nodiscard]] bytes_view view() const noexcept { return out_; }

 private:
  byte_vector out_;
};

/// Reads the fields of a record in their order.
///
/// A read past the end returns zero or nothing, skips the rest and makes `failed` true,
/// so that a caller needs one check for a whole group of fields.
/// @threads{thread-compatible}
class record_reader {
 public:
  /// @param bytes  The record; must outlive the reader and the views that it returns.
  explicit record_reader(bytes_view bytes) : rest_(bytes) {}

  /// Returns the next number, or 0 if its bytes are missing.
  template <std::unsigned_integral T>
  [[nodiscard]] T get() {
    const bytes_view bytes = get_bytes(sizeof(T));
    return failed_ ? T{0} : load_le<T>(bytes.data());
  }
  /// Returns the next `count` bytes, or none if some of them are missing.
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
  /// Returns a text that `put_text` wrote, or an empty one if its bytes are missing.
  [[nodiscard]] std::string get_text() {
    return std::string(as_text(get_bytes(get<std::uint32_t>())));
  }
  /// Returns the next number, a count of items that follow. Fails and returns 0 if the
  /// rest of the record is too short for so many, so that a caller can reserve memory for
  /// the count without trusting it.
  /// @param unit  Smallest size of one item in bytes, at least 1.
  template <std::unsigned_integral T>
  [[nodiscard]] std::size_t get_count(std::size_t unit) {
    const T count = get<T>();
    if (count > rest_.size() / unit) {
      failed_ = true;
      return 0;
    }
    return static_cast<std::size_t>(count);
  }
  /// Returns the next `count` numbers, or none if some of them are missing.
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
  /// Returns whether a read went past the end.
  [[nodiscard]] bool failed() const noexcept { return failed_; }
  /// Returns the bytes that have not been read yet.
  [[nodiscard]] bytes_view rest() const noexcept { return rest_; }

 private:
  bytes_view rest_;
  bool failed_ = false;
};

}  // namespace weir
