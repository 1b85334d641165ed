// SPDX-License-Identifier: Apache-2.0
/// @file
/// Arguments of C functions, checked; and bytes on their way to a C caller.
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

/// A text that must be UTF-8; `what` names it in the failure.
[[nodiscard]] outcome<std::string> text_argument(const char* text, const char* what);

[[nodiscard]] inline bytes_view view_of(const std::uint8_t* data,
                                        std::size_t length) noexcept {
  return {reinterpret_cast<const std::byte*>(data), data == nullptr ? 0 : length};
}

/// The data of `count` objects, each where the caller has it.
[[nodiscard]] outcome<std::vector<bytes_view>> data_arguments(
    const std::uint8_t* const* pointers, const std::size_t* lengths, std::size_t count);

/// Returns true if the argument `algorithm` requests digests.
[[nodiscard]] outcome<bool> hash_argument(const char* algorithm);

/// How to encode, as the functions of tensogram.h say it.
[[nodiscard]] outcome<formats::message_options> encode_arguments(
    const char* hash_algorithm, std::uint32_t threads, const TgmEncodeMaskOptions* masks);
/// Converts the option structure of tensogram_x.h; NULL requests the defaults.
[[nodiscard]] outcome<formats::message_options> encode_arguments(
    const tgm_x_encode_options_t* options);

/// How to decode, as the functions of tensogram.h say it.
[[nodiscard]] formats::read_options decode_arguments(bool native_byte_order,
                                                     std::uint32_t threads,
                                                     bool verify_hash,
                                                     bool restore_non_finite = true);
/// Converts the option structure of tensogram_x.h; NULL requests the defaults.
[[nodiscard]] outcome<formats::read_options> decode_arguments(
    const tgm_x_decode_options_t* options);

/// The level and the checks of a validation; `metadata` allows the level of that name,
/// which tensogram.h does not have.
[[nodiscard]] outcome<formats::validation_options> validate_arguments(const char* level,
                                                                      bool canonical,
                                                                      bool metadata);
/// Converts the option structure of tensogram_x.h; NULL requests the defaults.
[[nodiscard]] outcome<formats::validation_options> validate_arguments(
    const char* level, const tgm_x_validate_options_t* options);

/// The limit of a decoded object that holds for the process.
[[nodiscard]] std::uint64_t max_object_bytes() noexcept;

/// Memory that a C caller may be given, and that is freed unless it is.
class owned_bytes {
 public:
  /// @error{out_of_memory}
  [[nodiscard]] static outcome<owned_bytes> make(std::size_t size);
  [[nodiscard]] static outcome<owned_bytes> copy_of(bytes_view bytes);

  [[nodiscard]] mutable_bytes view() noexcept {
    return {reinterpret_cast<std::byte*>(data_.get()), size_};
  }
  /// Hands the memory to the caller.
  [[nodiscard]] tgm_bytes_t release() noexcept { return {data_.release(), size_}; }

 private:
  struct deleter {
    void operator()(std::uint8_t* data) const noexcept { std::free(data); }
  };
  std::unique_ptr<std::uint8_t, deleter> data_;
  std::size_t size_ = 0;
};

}  // namespace weir::capi
