// SPDX-License-Identifier: Apache-2.0
/// @file
/// Memory into which codecs write. It is not set to zero first, and a failed allocation
/// is an error instead of an exception. It is allocated only after the stream has shown
/// that it can fill it.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <memory>
#include <new>

#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"

namespace weir::formats {

/// Bytes between two stages: a view of the input of a stage, or of `storage`.
struct code_buffer {
  std::unique_ptr<std::byte[]> storage;  ///< null if the bytes belong to others
  bytes_view bytes;                      ///< the bytes themselves

  /// Returns the storage, which has as many bytes as the view. The buffer must own its
  /// bytes.
  [[nodiscard]] mutable_bytes writable() noexcept {
    return {storage.get(), bytes.size()};
  }
};

/// Allocates `size` bytes.
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

/// Largest number of decoded bytes for which memory is allocated because a shape says so.
inline constexpr std::uint64_t trusted_bytes = std::uint64_t{4} << 20;
/// Number of decoded bytes that one stored byte may stand for without proof, where there
/// are more than `trusted_bytes`. If a shape asks for more, the stream is decoded once
/// without keeping the result, because a few hundred stored bytes can claim terabytes.
inline constexpr std::uint64_t trusted_ratio = 16;

/// Returns true if `stored` bytes must be decoded without keeping the result before
/// memory is allocated for the `size` bytes that they claim to decode to.
[[nodiscard]] constexpr bool must_be_shown(std::uint64_t size,
                                           std::uint64_t stored) noexcept {
  return size > trusted_bytes && size / trusted_ratio > stored;
}

/// Destination of decoded bytes: memory, or none if the caller only checks that a stream
/// decodes to a given number of bytes.
class decode_target {
 public:
  decode_target(mutable_bytes to) noexcept : data_(to.data()), size_(to.size()) {}
  decode_target(byte_vector& to) noexcept : decode_target(mutable_bytes(to)) {}
  /// Returns a target of `size` bytes that keeps nothing.
  [[nodiscard]] static decode_target nowhere(std::uint64_t size) noexcept {
    decode_target out{mutable_bytes()};
    out.size_ = size;
    out.has_memory_ = false;
    return out;
  }

  /// Returns the number of bytes that are decoded.
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  /// Returns false if nothing is kept.
  [[nodiscard]] bool has_memory() const noexcept { return has_memory_; }
  /// Returns the memory; empty if nothing is kept.
  [[nodiscard]] mutable_bytes bytes() const noexcept {
    return has_memory_ ? mutable_bytes(data_, size_) : mutable_bytes();
  }
  /// Returns the part of the target behind `offset`, of `count` bytes.
  [[nodiscard]] decode_target part(std::uint64_t offset,
                                   std::uint64_t count) const noexcept {
    return has_memory_ ? decode_target(bytes().subspan(offset, count)) : nowhere(count);
  }

 private:
  std::byte* data_;  ///< null or unused if nothing is kept
  std::uint64_t size_;
  bool has_memory_ = true;
};

/// Checks a stream with a library that can only write to memory. Decodes beginnings of
/// the stream, each `trusted_ratio` times as long as the one before, up to the last that
/// is shorter than the whole. So the memory stays a multiple of the size already shown.
/// `decode(to)` fills `to` with the beginning or fails. @error{out_of_memory; those of
/// `decode`}
template <class Decode>
[[nodiscard]] result<void> show_beginnings(std::uint64_t size, const Decode& decode) {
  for (std::uint64_t n = trusted_bytes; n < size; n *= trusted_ratio) {
    WEIR_TRY(code_buffer beginning, make_buffer(static_cast<std::size_t>(n)));
    WEIR_CHECK(decode(beginning.writable()));
  }
  return {};
}

}  // namespace weir::formats
