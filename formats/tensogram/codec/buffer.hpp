// SPDX-License-Identifier: Apache-2.0
/// @file
/// Memory that codecs write into: not cleared first, and taken without an exception.
#pragma once

#include <fmt/core.h>

#include <memory>
#include <new>

#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"

namespace weir::formats {

/// Bytes of a codec: a view of what it was given, or of `storage`.
struct code_buffer {
  std::unique_ptr<std::byte[]> storage;
  bytes_view bytes;

  [[nodiscard]] mutable_bytes writable() noexcept {
    return {storage.get(), bytes.size()};
  }
};

/// @error{out_of_memory}
[[nodiscard]] inline result<code_buffer> make_buffer(std::size_t size) {
  code_buffer out;
  out.storage.reset(new (std::nothrow) std::byte[size == 0 ? 1 : size]);
  if (out.storage == nullptr) {
    return error(errc::out_of_memory,
                 fmt::format("cannot run pipeline: expected {} bytes of memory, found "
                             "fewer",
                             size));
  }
  out.bytes = {out.storage.get(), size};
  return out;
}

}  // namespace weir::formats
