// SPDX-License-Identifier: Apache-2.0
/// @file
/// Compression with zstd.
#include "tensogram/codec/zstd.hpp"

#include <fmt/core.h>
#include <zstd.h>

#include <algorithm>
#include <new>

namespace weir::formats {

result<int> zstd_level(const cbor_map& parameters) {
  const cbor_value* value = parameters.find("zstd_level");
  if (value == nullptr) {
    return ZSTD_CLEVEL_DEFAULT;
  }
  if (!value->int64()) {
    return error(
        errc::unknown_key,
        fmt::format("cannot compress: expected an integer \"zstd_level\", found {}",
                    to_json(*value)));
  }
  return static_cast<int>(
      std::clamp<std::int64_t>(*value->int64(), ZSTD_minCLevel(), ZSTD_maxCLevel()));
}

result<code_buffer> zstd_encode(bytes_view from, int level) {
  const std::size_t bound = ZSTD_compressBound(from.size());
  WEIR_TRY(code_buffer out, make_buffer(bound));
  const std::size_t size =
      ZSTD_compress(out.storage.get(), bound, from.data(), from.size(), level);
  if (ZSTD_isError(size) != 0) {
    return error(errc::internal,
                 fmt::format("cannot compress: expected a zstd frame, found {}",
                             ZSTD_getErrorName(size)));
  }
  out.bytes = out.bytes.first(size);
  return out;
}

result<void> zstd_decode(bytes_view from, mutable_bytes to) {
  std::byte none{};  // the library wants an address even where nothing is written
  void* target = to.empty() ? &none : to.data();
  const std::size_t size = ZSTD_decompress(target, to.size(), from.data(), from.size());
  if (ZSTD_isError(size) != 0) {
    return error(
        errc::corrupt,
        fmt::format("cannot decompress payload: expected zstd frames of {} bytes, found "
                    "\"{}\"",
                    to.size(), ZSTD_getErrorName(size)));
  }
  if (size != to.size()) {
    return error(errc::corrupt,
                 fmt::format("cannot decompress payload: expected {} bytes, found {}",
                             to.size(), size));
  }
  return {};
}

}  // namespace weir::formats
