// SPDX-License-Identifier: Apache-2.0
/// @file
/// What happens between the elements of an object and its stored payload: encoding,
/// filter, compression.
#pragma once

#include <cstdint>
#include <memory>

#include "weir/formats/tensogram.hpp"

namespace weir::formats {

enum class pipeline_support : std::uint8_t {
  built,    ///< this build runs it
  known,    ///< the format has it, this build has not
  unknown,  ///< the format has no such name
};

/// Of encoding, filter, compression and masks together: the worst.
[[nodiscard]] pipeline_support support_of(const object_descriptor& descriptor) noexcept;
/// Whether payloads of this descriptor can be decoded.
/// @error{unsupported, known but not built; corrupt, a name the format does not have;
/// both name the stage}
[[nodiscard]] result<void> check_readable(const object_descriptor& descriptor);
/// Whether elements can be encoded. @error{unsupported; invalid_argument, unknown names
/// and bad parameters}
[[nodiscard]] result<void> check_writable(const object_descriptor& descriptor);

/// Whether `stored` bytes can hold `decoded` bytes of elements; asked before memory is
/// allocated.
/// @error{corrupt, they cannot; out_of_range, a compressed object that exceeds `limit`}
[[nodiscard]] result<void> check_sizes(const object_descriptor& descriptor,
                                       std::uint64_t stored, std::uint64_t decoded,
                                       std::uint64_t limit);

/// A payload to store: a view of the elements themselves, or of `storage`.
struct encoded_payload {
  std::unique_ptr<std::byte[]> storage;
  bytes_view bytes;
};

/// @error{internal, the codec failed; out_of_memory}
[[nodiscard]] result<encoded_payload> encode_payload(const object_descriptor& descriptor,
                                                     bytes_view elements);
/// Fills `to`, which has the decoded size, with elements in the byte order of the
/// descriptor.
/// @error{corrupt, the payload is damaged or decodes to another size}
[[nodiscard]] result<void> decode_payload(const object_descriptor& descriptor,
                                          bytes_view stored, mutable_bytes to);

}  // namespace weir::formats
