// SPDX-License-Identifier: Apache-2.0
/// @file
/// The fixed parts of a Tensogram v3 message. Everything structural is big-endian.
/// @source{Tensogram v3, wire format; docs/formats/tensogram.md}
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"

namespace weir::formats {

/// Marks at fixed places: the start of a message, its end, the start of a frame, its end.
inline constexpr std::string_view start_magic = "TENSOGRM";
inline constexpr std::string_view end_magic = "39277777";
inline constexpr std::string_view frame_magic = "FR";
inline constexpr std::string_view frame_end_magic = "ENDF";
inline constexpr std::uint16_t wire_version = 3;  ///< version in the preamble

/// Sizes of the fixed parts in bytes.
inline constexpr std::uint64_t preamble_size = 24;
inline constexpr std::uint64_t postamble_size = 24;
inline constexpr std::uint64_t frame_header_size = 16;
inline constexpr std::uint64_t frame_tail_size = 12;  ///< digest, ENDF
inline constexpr std::uint64_t object_tail_size =
    20;  ///< descriptor offset, digest, ENDF
inline constexpr std::uint64_t smallest_message =
    preamble_size + postamble_size;                  ///< a message without frames
inline constexpr std::uint64_t frame_alignment = 8;  ///< frames begin at multiples of it

/// Types of frames. Their phases and preamble flags are in docs/formats/tensogram.md.
namespace frame_type {
inline constexpr std::uint16_t header_metadata = 1;
inline constexpr std::uint16_t header_index = 2;
inline constexpr std::uint16_t header_hashes = 3;
inline constexpr std::uint16_t footer_hashes = 5;
inline constexpr std::uint16_t footer_index = 6;
inline constexpr std::uint16_t footer_metadata = 7;
inline constexpr std::uint16_t preceder = 8;
inline constexpr std::uint16_t object = 9;
}  // namespace frame_type

/// Flags of the preamble. All but the last announce that a frame of that type exists.
namespace preamble_flag {
inline constexpr std::uint16_t header_metadata = 0x01;
inline constexpr std::uint16_t footer_metadata = 0x02;
inline constexpr std::uint16_t header_index = 0x04;
inline constexpr std::uint16_t footer_index = 0x08;
inline constexpr std::uint16_t header_hashes = 0x10;
inline constexpr std::uint16_t footer_hashes = 0x20;
inline constexpr std::uint16_t preceder = 0x40;
inline constexpr std::uint16_t hashes_present = 0x80;
}  // namespace preamble_flag

/// Flags of a frame header.
namespace frame_flag {
inline constexpr std::uint16_t descriptor_after_payload = 1;  ///< of a data object
inline constexpr std::uint16_t hash_present = 2;  ///< the digest in the tail is meant
}  // namespace frame_flag

/// Returns the flag of the preamble that announces a frame type; 0 for a data object.
[[nodiscard]] std::uint16_t flag_of_frame(std::uint16_t type) noexcept;
/// Returns the phase of a frame type: 0 header, 1 data objects, 2 footer, -1 for a type
/// that does not exist in version 3.
[[nodiscard]] int phase_of(std::uint16_t type) noexcept;
/// Returns whether a frame holds metadata of the whole message.
[[nodiscard]] constexpr bool is_metadata_frame(std::uint16_t type) noexcept {
  return type == frame_type::header_metadata || type == frame_type::footer_metadata;
}
/// Returns the size of a frame's tail, which for data objects has a descriptor offset.
[[nodiscard]] constexpr std::uint64_t tail_size(std::uint16_t type) noexcept {
  return type == frame_type::object ? object_tail_size : frame_tail_size;
}

/// Fields of the preamble that vary.
struct preamble {
  std::uint16_t flags = 0;         ///< `preamble_flag`
  std::uint64_t total_length = 0;  ///< length of the message in bytes; 0: a stream
};

/// Fields of the postamble. A stream may have a length of 0 here too.
struct postamble {
  std::uint64_t first_footer_offset =
      0;  ///< or the offset of the postamble, from the start of the message
  std::uint64_t total_length = 0;  ///< of the message; may be 0 in a stream
};

/// Parses `preamble_size` bytes. @error{corrupt, magic; unsupported_version}
[[nodiscard]] result<preamble> parse_preamble(bytes_view from);
/// Parses `postamble_size` bytes. @error{corrupt, end magic}
[[nodiscard]] result<postamble> parse_postamble(bytes_view from);

/// Makes the bytes of a preamble. `parse_preamble` reads them back.
[[nodiscard]] std::array<std::byte, preamble_size> make_preamble(
    const preamble& p) noexcept;
/// Makes the bytes of a postamble.
[[nodiscard]] std::array<std::byte, postamble_size> make_postamble(
    const postamble& p) noexcept;
/// Makes the header of a frame; `length` includes header and tail, not the padding.
[[nodiscard]] std::array<std::byte, frame_header_size> make_frame_header(
    std::uint16_t type, std::uint16_t flags, std::uint64_t length) noexcept;
/// Makes the tail of a frame other than a data object; a digest of 0 means that there is
/// none.
[[nodiscard]] std::array<std::byte, frame_tail_size> make_frame_tail(
    std::uint64_t digest) noexcept;

/// Returns true if `bytes` begin with `text`.
[[nodiscard]] inline bool starts_with(bytes_view bytes, std::string_view text) noexcept {
  return as_text(bytes).substr(0, text.size()) == text;
}

}  // namespace weir::formats
