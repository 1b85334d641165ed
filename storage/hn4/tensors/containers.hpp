// SPDX-License-Identifier: Apache-2.0
/// @file
/// The headers of files that contain tensors.
#pragma once

#include <string>
#include <vector>

#include "weir/storage/hn4_tensors.hpp"

namespace weir::storage::hn4 {

/// Answer of a parser: how many bytes of the file it needs. It is called again with more
/// bytes until it needs none.
struct header_wants {
  /// Bytes from the start of the file; 0 if the header was read.
  std::uint64_t bytes = 0;
};

/// Returns whether a file of `size` bytes is a safetensors file, by its first 9 bytes.
[[nodiscard]] bool is_safetensors(bytes_view head, std::uint64_t size) noexcept;

/// Reads a safetensors header from the first bytes of a file of `size` bytes. Fills `out`
/// only when it needs no more bytes. @error{corrupt, the header contradicts itself or the
/// size}
[[nodiscard]] result<header_wants> parse_safetensors(bytes_view head, std::uint64_t size,
                                                     std::vector<stored_tensor>& out);
/// Reads a GGUF header in the same way. @error{corrupt, the header contradicts itself or
/// the size} @error{unsupported_version, the version is neither 2 nor 3}
[[nodiscard]] result<header_wants> parse_gguf(bytes_view head, std::uint64_t size,
                                              std::vector<stored_tensor>& out);

/// Checks that names are unique and that ranges do not overlap and lie inside a file of
/// `size` bytes. @error{corrupt, they do not}
[[nodiscard]] result<void> check_tensors(const std::vector<stored_tensor>& tensors,
                                         std::uint64_t size, std::string_view format);

}  // namespace weir::storage::hn4
