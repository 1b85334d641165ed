// SPDX-License-Identifier: Apache-2.0
/// @file
/// Compression with zstd, through the system's library.
///
/// A payload is any number of frames one after the other. Frames that state no size are
/// read too, because the size of the elements is known from the descriptor.
#include "tensogram/codec/zstd.hpp"

#include <fmt/core.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <new>

namespace weir::formats {

/// An integer beyond the library's levels is clamped, as the reference does.
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

/// Compresses into a buffer of the largest possible size, in one call, so the frame says
/// how large its content is.
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

namespace {

/// Returns the error for frames; `code` is the library's result, a size or an error.
error bad_frames(std::uint64_t expected, std::size_t code) {
  return error(
      errc::corrupt,
      fmt::format("cannot decompress payload: expected zstd frames of {} bytes, found {}",
                  expected,
                  ZSTD_isError(code) != 0 ? fmt::format("\"{}\"", ZSTD_getErrorName(code))
                                          : fmt::format("{} bytes", code)));
}

}  // namespace

/// Decompresses one or several frames. If the elements are not kept, `show_beginnings`
/// asks for ever longer beginnings. Each is shorter than the whole, so the library has to
/// report that the buffer is too small, and exactly that counts as success.
result<void> zstd_decode(bytes_view from, const decode_target& to) {
  const auto decode = [&](std::byte* out, std::size_t size) {
    std::byte none{};  // the library needs an address even for no bytes
    return ZSTD_decompress(size == 0 ? &none : out, size, from.data(), from.size());
  };
  if (!to.has_memory()) {
    return show_beginnings(to.size(), [&](mutable_bytes out) -> result<void> {
      // The library decodes block by block and stops at the first block that does not
      // fit.
      const std::size_t code = decode(out.data(), out.size());
      return ZSTD_getErrorCode(code) == ZSTD_error_dstSize_tooSmall
                 ? result<void>()
                 : result<void>(bad_frames(to.size(), code));
    });
  }
  const std::size_t size = decode(to.bytes().data(), to.bytes().size());
  // A stream of fewer bytes is as wrong as one of more.
  return size == to.size() ? result<void>() : result<void>(bad_frames(to.size(), size));
}

}  // namespace weir::formats
