// SPDX-License-Identifier: Apache-2.0
/// @file
/// The header of GGUF files, versions 2 and 3, value by value.
///
/// The header is a sequence of values whose lengths are stored in it. Files are read in
/// growing pieces, so the walker distinguishes a header that is wrong from one whose
/// bytes are not all at hand yet. Every length is compared with the size of the file
/// before it is used.
/// @source{GGUF specification, versions 2 and 3}
#pragma once

#include <concepts>
#include <cstdint>
#include <string_view>

#include "weir/base/bytes.hpp"

namespace weir {

/// Type of a value in the metadata of a GGUF file.
enum class gguf_value : std::uint32_t {
  uint8 = 0,
  int8 = 1,
  uint16 = 2,
  int16 = 3,
  uint32 = 4,
  int32 = 5,
  float32 = 6,
  boolean = 7,  ///< one byte, 0 or 1
  text = 8,     ///< length in 64 bits, then UTF-8
  list = 9,     ///< type of the items, number of them in 64 bits, items
  uint64 = 10,
  int64 = 11,
  float64 = 12,
};

/// Returns the name of a type, such as "uint32"; "unknown" for other numbers.
[[nodiscard]] std::string_view name_of(gguf_value type) noexcept;

/// First values of a GGUF file.
struct gguf_start {
  std::uint32_t version = 0;  ///< version of the format
  std::uint64_t tensors = 0;  ///< number of tensors
  std::uint64_t entries = 0;  ///< number of entries of metadata
};

/// Reads a header front to back. Each step returns false if the header is wrong or if the
/// bytes at hand end too early; `ran_out` tells which.
/// @threads{confined to one thread}
class gguf_walker {
 public:
  /// Number of entries and tensors that no useful file exceeds; it keeps damaged counts
  /// from taking long.
  static constexpr std::uint64_t max_entries = std::uint64_t{1} << 24;
  /// Longest text. @units{bytes}
  static constexpr std::uint64_t max_text_bytes = std::uint64_t{1} << 30;
  /// Longest list.
  static constexpr std::uint64_t max_items = std::uint64_t{1} << 32;

  /// @param head  First bytes of the file, which must outlive the walker.
  /// @param size  Size of the whole file, at least that of `head`.
  gguf_walker(bytes_view head, std::uint64_t size) noexcept : head_(head), size_(size) {}

  /// Returns whether the bytes at hand ended before the header did.
  [[nodiscard]] bool ran_out() const noexcept { return ran_out_; }
  /// Returns the offset in the file of the next value.
  [[nodiscard]] std::uint64_t offset() const noexcept { return offset_; }

  /// Moves over `n` bytes.
  [[nodiscard]] bool skip(std::uint64_t n) noexcept;
  /// Reads a little-endian number.
  template <std::unsigned_integral T>
  [[nodiscard]] bool number(T& to) noexcept {
    if (!skip(sizeof(T))) {
      return false;
    }
    to = load_le<T>(head_.data() + offset_ - sizeof(T));
    return true;
  }
  /// Reads a text with its length. The view lives as long as the bytes at hand.
  [[nodiscard]] bool text(std::string_view& to) noexcept;
  /// Reads magic number, version and counts. Does not judge the version and the counts.
  [[nodiscard]] bool start(gguf_start& to) noexcept;
  /// Reads the type and the number of the items of a list. Lists of lists are wrong.
  [[nodiscard]] bool list(gguf_value& item, std::uint64_t& count) noexcept;
  /// Moves over a value.
  [[nodiscard]] bool value(gguf_value type) noexcept;

 private:
  bytes_view head_;
  std::uint64_t size_;
  std::uint64_t offset_ = 0;
  bool ran_out_ = false;
};

/// Returns whether a file is a GGUF file, by its first 4 bytes.
[[nodiscard]] bool is_gguf(bytes_view head) noexcept;

}  // namespace weir
