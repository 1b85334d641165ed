// SPDX-License-Identifier: Apache-2.0
/// @file
/// The parts of an item that users see: attributes, and the small records by which
/// sources and sinks remember where they are.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <type_traits>
#include <variant>

#include "weir/base/bytes.hpp"

namespace weir {

/// A small fact that travels with an item.
using attribute = std::variant<std::int64_t, std::uint64_t, double, std::string>;
/// All attributes of an item by name. Names and values have at most 256 bytes in all, see
/// `flow::encoded_size`.
using attributes = std::map<std::string, attribute, std::less<>>;

}  // namespace weir

namespace weir::flow {

/// Largest number of inlets, of outlets and of scratch memories of a stage.
inline constexpr std::size_t max_ports = 8;
/// Largest size of a cursor and of an offset. @units{bytes}
inline constexpr std::size_t max_record = 64;
/// Largest encoded size of the attributes of an item. @units{bytes}
inline constexpr std::size_t max_attribute_bytes = 256;

/// Returns the size of names and values as deterministic CBOR, without the head of the
/// map. @units{bytes}
/// @threads{safe to call concurrently} @source{RFC 8949, section 4.2.1}
[[nodiscard]] std::size_t encoded_size(const attributes& all) noexcept;

/// The cursor of a source or the offset of a sink, as bytes.
/// @threads{a value}
struct small_record {
  std::array<std::byte, max_record> data{};  ///< those below `size` count
  std::size_t size = 0;                      ///< bytes in use

  /// Returns the bytes in use, valid as long as the record.
  [[nodiscard]] bytes_view view() const noexcept { return {data.data(), size}; }
  /// Copies a value without pointers into a record.
  template <class T>
  [[nodiscard]] static small_record holding(const T& value) noexcept {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= max_record);
    small_record r;
    r.size = sizeof(T);
    std::memcpy(r.data.data(), &value, sizeof(T));
    return r;
  }
};

}  // namespace weir::flow
