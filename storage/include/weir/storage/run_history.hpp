// SPDX-License-Identifier: Apache-2.0
/// @file
/// The history of a run: the changes that were made to it when it was resumed. Each
/// checkpoint behind a change holds it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"

namespace weir::storage {

namespace section {
/// The changes of a run. A run that was never changed has no such section.
inline constexpr std::string_view history = "HISTORY";
}  // namespace section

/// One change of a run that was resumed.
struct run_change {
  std::uint64_t pulse = 0;  ///< first pulse that was made under the change
  std::uint64_t token = 0;  ///< tokens of all lanes that were consumed before the change
  std::string key;          ///< setting, or property of the text, that changed
  std::string from;         ///< value before the change
  std::string to;           ///< value from the change on
  friend bool operator==(const run_change&, const run_change&) = default;
};

/// Encodes the changes of a run in the order in which they were made: little-endian, with
/// a version.
/// @threads{safe to call concurrently}
[[nodiscard]] byte_vector encode_history(std::span<const run_change> changes);
/// Decodes the bytes of `encode_history`. No bytes are a history without changes.
/// @error{corrupt, bytes are missing or follow}
/// @error{unsupported_version, a later version has written it}
/// @threads{safe to call concurrently}
[[nodiscard]] result<std::vector<run_change>> decode_history(bytes_view bytes);

}  // namespace weir::storage
