// SPDX-License-Identifier: Apache-2.0
/// @file
/// Headers of container files.
#pragma once

#include <string>
#include <vector>

#include "weir/storage/hn4_tensors.hpp"

namespace weir::storage::hn4 {

/// What a header needs beyond the bytes at hand: read so many, then ask again.
struct header_wants {
  std::uint64_t bytes = 0;  ///< 0: nothing, the header was read
};

/// Whether these first bytes (at least 9, of a file of `size`) begin such a file.
[[nodiscard]] bool is_safetensors(bytes_view head, std::uint64_t size) noexcept;
[[nodiscard]] bool is_gguf(bytes_view head) noexcept;

/// Reads a header from the first bytes of a file of `size`. Fills `out` only when it
/// needs nothing more. @error{corrupt; unsupported_version}
[[nodiscard]] result<header_wants> parse_safetensors(bytes_view head, std::uint64_t size,
                                                     std::vector<stored_tensor>& out);
[[nodiscard]] result<header_wants> parse_gguf(bytes_view head, std::uint64_t size,
                                              std::vector<stored_tensor>& out);

/// Checks that names are unique and ranges lie apart and inside a file of `size`.
[[nodiscard]] result<void> check_tensors(const std::vector<stored_tensor>& tensors,
                                         std::uint64_t size, std::string_view format);

}  // namespace weir::storage::hn4
