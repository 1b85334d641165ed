// SPDX-License-Identifier: Apache-2.0
/// @file
/// Checked arguments of C functions, and memory that is handed to a C caller.
#pragma once

#include <tensogram/tensogram_x.h>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "capi/failure.hpp"
#include "weir/formats/tensogram.hpp"
#include "weir/formats/tensogram_validate.hpp"

namespace weir::capi {

/// Copies a text argument, which must be UTF-8; `subject` names it in the error.
[[nodiscard]] outcome<std::string> text_argument(const char* text, const char* subject);

/// Returns a view of bytes of a caller; empty for a null pointer.
[[nodiscard]] inline bytes_view view_of(const std::uint8_t* data,
                                        std::size_t length) noexcept {
  return {reinterpret_cast<const std::byte*>(data), data == nullptr ? 0 : length};
}

/// Returns views of the data of `count` objects. No byte is copied: the memory stays the
/// caller's. @error{TGM_ERROR_INVALID_ARG, a null pointer for an object that has bytes}
[[nodiscard]] outcome<std::vector<bytes_view>> data_arguments(
    const std::uint8_t* const* pointers, const std::size_t* lengths, std::size_t count);

/// Returns true if the argument `algorithm` requests digests.
[[nodiscard]] outcome<bool> hash_argument(const char* algorithm);

/// Converts the arguments that the functions of tensogram.h have for encoding.
[[nodiscard]] outcome<formats::message_options> encode_arguments(
    const char* hash_algorithm, std::uint32_t threads, const TgmEncodeMaskOptions* masks);
/// Converts the option structure of tensogram_x.h; NULL requests the defaults.
[[nodiscard]] outcome<formats::message_options> encode_arguments(
    const tgm_x_encode_options_t* options);

/// Converts the arguments that the functions of tensogram.h have for decoding.
[[nodiscard]] formats::read_options decode_arguments(bool native_byte_order,
                                                     std::uint32_t threads,
                                                     bool verify_hash,
                                                     bool restore_non_finite = true);
/// Converts the option structure of tensogram_x.h; NULL requests the defaults.
[[nodiscard]] outcome<formats::read_options> decode_arguments(
    const tgm_x_decode_options_t* options);

/// Converts the level and the checks of a validation. The level "metadata" exists only in
/// tensogram_x.h; `metadata` says whether the caller may name it.
[[nodiscard]] outcome<formats::validation_options> validate_arguments(const char* level,
                                                                      bool canonical,
                                                                      bool metadata);
/// Converts the option structure of tensogram_x.h; NULL requests the defaults.
[[nodiscard]] outcome<formats::validation_options> validate_arguments(
    const char* level, const tgm_x_validate_options_t* options);

/// Returns the size of the largest object that this process decodes, in bytes.
[[nodiscard]] std::uint64_t max_object_bytes() noexcept;

/// Memory for a C caller. It comes from malloc(), because the caller frees it with
/// tgm_bytes_free(), and is freed here if it was never handed out.
class owned_bytes {
 public:
  /// Allocates `size` bytes, which are not cleared. @error{TGM_ERROR_IO, no memory}
  [[nodiscard]] static outcome<owned_bytes> make(std::size_t size);
  /// Copies bytes. @error{TGM_ERROR_IO, no memory}
  [[nodiscard]] static outcome<owned_bytes> copy_of(bytes_view bytes);

  /// Returns the memory, to be written.
  [[nodiscard]] mutable_bytes view() noexcept {
    return {reinterpret_cast<std::byte*>(data_.get()), size_};
  }
  /// Hands the memory to the caller.
  [[nodiscard]] tgm_bytes_t release() noexcept { return {data_.release(), size_}; }

 private:
  struct deleter {
    void operator()(std::uint8_t* data) const noexcept { std::free(data); }
  };
  // Null after release().
  std::unique_ptr<std::uint8_t, deleter> data_;
  std::size_t size_ = 0;
};

}  // namespace weir::capi
