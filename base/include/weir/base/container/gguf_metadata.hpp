// SPDX-License-Identifier: Apache-2.0
/// @file
/// The metadata of GGUF files as entries with names, and the making of GGUF headers.
///
/// `gguf_walker` moves over a header whose bytes are not all at hand. Here the bytes are
/// at hand: entries are views of them, and nothing but the entries takes memory.
/// @source{GGUF specification, versions 2 and 3}
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/base/container/gguf_walker.hpp"
#include "weir/base/error.hpp"

namespace weir {

/// One entry of the metadata. Its views are valid as long as the bytes of the header.
struct gguf_entry {
  std::string_view key;                 ///< name of the entry
  gguf_value type = gguf_value::uint8;  ///< type of the value
  gguf_value item = gguf_value::uint8;  ///< type of the items, if the value is a list
  std::uint64_t count = 0;              ///< number of items, if the value is a list
  bytes_view value;                     ///< bytes behind type, length and count
};

/// The metadata of a GGUF file.
///
/// The members that look an entry up return nothing if there is no entry of that key, and
/// an error if its value has another type.
/// @threads{immutable; safe to use concurrently}
class gguf_metadata {
 public:
  /// Reads the entries from the first bytes of a file, which must outlive the object and
  /// hold all entries.
  /// @param name  Name of the file for error messages.
  /// @error{corrupt, the header is cut, contradicts itself or has an entry twice}
  /// @error{unsupported_version, the version is neither 2 nor 3}
  [[nodiscard]] static result<gguf_metadata> read(bytes_view head, std::string name);

  /// Returns all entries in the order of the file.
  [[nodiscard]] std::span<const gguf_entry> entries() const noexcept { return entries_; }
  /// Finds an entry; returns null if there is none.
  [[nodiscard]] const gguf_entry* find(std::string_view key) const noexcept;

  /// Returns a text.
  /// @error{corrupt, the value is no text}
  [[nodiscard]] result<std::optional<std::string_view>> text(std::string_view key) const;
  /// Returns a whole number of any width.
  /// @error{corrupt, the value is no whole number or is negative}
  [[nodiscard]] result<std::optional<std::uint64_t>> whole(std::string_view key) const;
  /// Returns a number with a fraction, rounded to fp32.
  /// @error{corrupt, the value is no float32 and no float64}
  [[nodiscard]] result<std::optional<float>> real(std::string_view key) const;
  /// Returns a boolean.
  /// @error{corrupt, the value is no boolean or is neither 0 nor 1}
  [[nodiscard]] result<std::optional<bool>> boolean(std::string_view key) const;
  /// Returns the error that an entry has another value than expected, with its place in
  /// the file.
  [[nodiscard]] error wrong(errc code, std::string_view key, std::string_view expected,
                            std::string_view found) const;

 private:
  bytes_view head_;
  std::string name_;
  std::vector<gguf_entry> entries_;
};

/// Makes the header of a GGUF file of version 3. Entries come first, then tensors.
///
/// The data of the tensors follows the header in the order of the calls of `tensor`; each
/// begins at a multiple of `alignment` and is filled up with zeros to one.
/// @threads{thread-compatible}
class gguf_maker {
 public:
  /// Alignment of the header and of the data of tensors. @units{bytes}
  static constexpr std::uint64_t alignment = 32;

  /// Adds a text.
  void text(std::string_view key, std::string_view value);
  /// Adds a number of type uint32.
  void whole(std::string_view key, std::uint32_t value);
  /// Adds a number of type float32.
  void real(std::string_view key, float value);
  /// Adds a boolean.
  void boolean(std::string_view key, bool value);
  /// Adds a list of texts.
  void texts(std::string_view key, std::span<const std::string> values);
  /// Adds a list of numbers of type int32.
  void wholes(std::string_view key, std::span<const std::int32_t> values);
  /// Adds a tensor.
  /// @param shape  Elements, outermost first.
  /// @param type   Number of the element type in GGUF files.
  /// @param bytes  Length of the data.
  void tensor(std::string_view name, std::span<const std::int64_t> shape,
              std::uint32_t type, std::uint64_t bytes);
  /// Returns the bytes of the header, filled up with zeros to `alignment`.
  [[nodiscard]] byte_vector header() const;

 private:
  void begin_entry(std::string_view key, gguf_value type);

  byte_vector entries_;
  byte_vector tensors_;
  std::uint64_t entry_count_ = 0;
  std::uint64_t tensor_count_ = 0;
  std::uint64_t data_ = 0;  ///< bytes of data of the tensors so far
};

}  // namespace weir
