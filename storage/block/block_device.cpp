// SPDX-License-Identifier: Apache-2.0
/// @file
/// Default behaviour of block devices: correct for every device, but without its
/// shortcuts.
#include "weir/storage/block_device.hpp"

#include <fmt/core.h>

namespace weir::storage {

/// The pieces are read one after another, which costs one transfer per piece. Devices
/// that have a scattered transfer of their own replace this function.
result<void> block_device::read_scattered(std::uint64_t offset,
                                          std::span<const mutable_bytes> pieces) {
  for (const mutable_bytes piece : pieces) {
    WEIR_CHECK(read(offset, piece));
    offset += piece.size();
  }
  return {};
}

/// An empty view tells callers that they must copy with `read`.
bytes_view block_device::view(std::uint64_t, std::size_t) const noexcept {
  return {};
}

// A device that cannot find holes reports everything as data.
result<extent> block_device::next_data(std::uint64_t offset, std::uint64_t end) {
  return offset < end ? extent{offset, end - offset} : extent{end, 0};
}

}  // namespace weir::storage
