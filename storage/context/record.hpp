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
#include "weir/base/hash.hpp"

namespace weir::storage {

class record_writer {
 public:
  template <std::unsigned_integral T>
  void put(T value) {
    const std::size_t at = out_.size();
    out_.resize(at + sizeof(T));
    store_le(out_.data() + at, value);
  }
  void put_text(std::string_view text) {
    put(static_cast<std::uint32_t>(text.size()));
    append(out_, as_view(text));
  }
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

/// Reads past the end give zeros and set `failed`, so that a reader checks once per group
/// of fields.
class record_reader {
 public:
  explicit record_reader(bytes_view bytes) : rest_(bytes) {}

  template <std::unsigned_integral T>
  [[nodiscard]] T get() {
    const bytes_view bytes = get_bytes(sizeof(T));
    return failed_ ? T{0} : load_le<T>(bytes.data());
  }
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
  [[nodiscard]] std::string get_text() {
    return std::string(as_text(get_bytes(get<std::uint32_t>())));
  }
  /// A count of things that take at least `unit` bytes each; 0 and failed if so many
  /// cannot follow.
  template <std::unsigned_integral T>
  [[nodiscard]] std::size_t get_count(std::size_t unit) {
    const T count = get<T>();
    if (count > rest_.size() / unit) {
      failed_ = true;
      return 0;
    }
    return static_cast<std::size_t>(count);
  }
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
  [[nodiscard]] bool failed() const noexcept { return failed_; }
  [[nodiscard]] bytes_view rest() const noexcept { return rest_; }

 private:
  bytes_view rest_;
  bool failed_ = false;
};

/// XXH3-64 of tokens as little-endian u32.
[[nodiscard]] inline std::uint64_t hash_tokens(std::span<const std::uint32_t> tokens) {
  if constexpr (std::endian::native == std::endian::little) {
    return xxh3_64(std::as_bytes(tokens));
  } else {
    record_writer out;
    out.put_all(tokens);
    return xxh3_64(out.view());
  }
}

}  // namespace weir::storage
