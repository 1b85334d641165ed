// SPDX-License-Identifier: Apache-2.0
/// @file
/// Compression with LZ4 through the system's library, in the layout that lz4.hpp gives.
///
/// A payload is one block with its decoded size in front; blosc2 uses blocks without it.
/// The decoder never trusts the size that a payload states: the descriptor says how large
/// the elements are, and the block must give exactly that many bytes.
#include "tensogram/codec/lz4.hpp"

#include <lz4.h>

#include <algorithm>
#include <limits>

namespace weir::formats {

namespace {

/// Bytes of the decoded size in front of a block.
constexpr std::size_t prefix_size = 4;

/// Returns an address as the library takes it.
const char* chars(bytes_view bytes) noexcept {
  return reinterpret_cast<const char*>(bytes.data());
}
char* chars(std::byte* bytes) noexcept {
  return reinterpret_cast<char*>(bytes);
}

/// Returns the error for a block; `size` is the library's result, negative for damage.
error bad_block(std::uint64_t expected, int size) {
  return error(
      errc::corrupt,
      fmt::format("cannot decompress payload: expected an LZ4 block of {} "
                  "bytes, found {}",
                  expected, size < 0 ? "a damaged one" : fmt::format("{} bytes", size)));
}

}  // namespace

/// Allocates for the worst case, so that compression cannot fail for lack of space.
result<code_buffer> lz4_encode(bytes_view from) {
  if (from.size() > LZ4_MAX_INPUT_SIZE) {
    return error(errc::invalid_argument,
                 fmt::format("cannot compress with lz4: expected at most {} bytes, found "
                             "{}",
                             LZ4_MAX_INPUT_SIZE, from.size()))
        .hint("use zstd, or several objects");
  }
  const int size = static_cast<int>(from.size());
  const int bound = LZ4_compressBound(size);
  WEIR_TRY(code_buffer out, make_buffer(prefix_size + static_cast<std::size_t>(bound)));
  store_le<std::uint32_t>(out.storage.get(), static_cast<std::uint32_t>(from.size()));
  const int written = LZ4_compress_default(
      chars(from), chars(out.storage.get() + prefix_size), size, bound);
  // The buffer is large enough for any input, so a failure is a defect of the library.
  if (written <= 0) {
    return error(errc::internal,
                 "cannot compress with lz4: expected a block, found none");
  }
  out.bytes = out.bytes.first(prefix_size + static_cast<std::size_t>(written));
  return out;
}

/// LZ4 counts in `int`, so larger sizes are refused before the call. The library needs an
/// address even for an empty result.
result<void> lz4_decode_block(bytes_view from, const decode_target& to) {
  constexpr std::uint64_t max_bytes = std::numeric_limits<int>::max();
  const auto stored = static_cast<int>(std::min<std::uint64_t>(from.size(), max_bytes));
  const bool possible = from.size() <= max_bytes && to.size() <= max_bytes;
  int size = -1;
  std::byte none{};
  // With memory, the whole block is decoded. Without it, the library decodes beginnings
  // of the block that must fill buffers of growing size; see `show_beginnings`.
  if (possible && to.has_memory()) {
    std::byte* out = to.size() == 0 ? &none : to.bytes().data();
    size =
        LZ4_decompress_safe(chars(from), chars(out), stored, static_cast<int>(to.size()));
  } else if (possible) {
    return show_beginnings(to.size(), [&](mutable_bytes out) -> result<void> {
      const auto count = static_cast<int>(out.size());
      const int shown = LZ4_decompress_safe_partial(chars(from), chars(out.data()),
                                                    stored, count, count);
      return shown == count ? result<void>() : result<void>(bad_block(to.size(), shown));
    });
  }
  return size >= 0 && static_cast<std::uint64_t>(size) == to.size()
             ? result<void>()
             : result<void>(bad_block(to.size(), size));
}

/// The stored size must equal the size that the descriptor demands: the decoder never
/// allocates by a number from the payload.
result<void> lz4_decode(bytes_view from, const decode_target& to) {
  if (from.size() < prefix_size) {
    return error(errc::corrupt,
                 fmt::format("cannot decompress payload: expected a size of 4 bytes and "
                             "an LZ4 block, found {} bytes",
                             from.size()));
  }
  if (load_le<std::uint32_t>(from.data()) != to.size()) {
    return error(errc::corrupt,
                 fmt::format("cannot decompress payload: expected a size of {} bytes "
                             "before the LZ4 block, found {}",
                             to.size(), load_le<std::uint32_t>(from.data())));
  }
  return lz4_decode_block(from.subspan(prefix_size), to);
}

/// Gives the library no more space than the input has. It then fails if the block would
/// be larger, and the caller stores the bytes plain.
bool lz4_append_block(bytes_view from, byte_vector& to) {
  const std::size_t before = to.size();
  to.resize(before + from.size());
  const int written =
      LZ4_compress_default(chars(from), chars(to.data() + before),
                           static_cast<int>(from.size()), static_cast<int>(from.size()));
  const bool smaller = written > 0 && static_cast<std::size_t>(written) < from.size();
  to.resize(smaller ? before + static_cast<std::size_t>(written) : before);
  return smaller;
}

}  // namespace weir::formats
