// SPDX-License-Identifier: Apache-2.0
/// @file
/// Preamble, frame header, frame tail and postamble, byte by byte
/// (tensogram_internals.md, "Frame-Based Wire Format").
///
/// The functions that make these parts and those that parse them stand side by side, so
/// that each field is at the same offset in both. docs/formats/tensogram.md has the
/// drawing.
#include "tensogram/wire/wire.hpp"

#include <fmt/core.h>

#include <cstring>

#include "weir/formats/tensogram.hpp"

namespace weir::formats {

namespace {

/// Writes a mark.
void put_magic(std::byte* to, std::string_view text) noexcept {
  std::memcpy(to, text.data(), text.size());
}

/// Returns bytes for an error message, with escapes for those that do not print.
std::string shown(bytes_view bytes) {
  std::string out;
  for (const std::byte b : bytes) {
    const auto c = std::to_integer<unsigned>(b);
    out += c >= 0x20 && c < 0x7F ? std::string(1, static_cast<char>(c))
                                 : fmt::format("\\x{:02x}", c);
  }
  return out;
}

}  // namespace

/// The bits do not follow the order of the types.
std::uint16_t flag_of_frame(std::uint16_t type) noexcept {
  switch (type) {
    case frame_type::header_metadata: return preamble_flag::header_metadata;
    case frame_type::header_index: return preamble_flag::header_index;
    case frame_type::header_hashes: return preamble_flag::header_hashes;
    case frame_type::footer_hashes: return preamble_flag::footer_hashes;
    case frame_type::footer_index: return preamble_flag::footer_index;
    case frame_type::footer_metadata: return preamble_flag::footer_metadata;
    case frame_type::preceder: return preamble_flag::preceder;
    default: return 0;
  }
}

/// Types 0 and 4 do not exist in version 3.
int phase_of(std::uint16_t type) noexcept {
  constexpr std::array<int, 10> phases{-1, 0, 0, 0, -1, 2, 2, 2, 1, 1};
  return type < phases.size() ? phases[type] : -1;
}

/// The names appear in messages and in listings.
std::string_view frame_type_name(std::uint16_t type) noexcept {
  constexpr std::array<std::string_view, 10> names{
      "unknown",           "header metadata", "header index", "header hashes",
      "unknown",           "footer hashes",   "footer index", "footer metadata",
      "preceder metadata", "data object"};
  return type < names.size() ? names[type] : "unknown";
}

/// Reads the first bytes of a message. The magic is checked before the version, so that a
/// file of another kind is not reported as an unknown version. A total length of 0 means
/// that the message was streamed.
result<preamble> parse_preamble(bytes_view from) {
  // The caller has read the whole preamble.
  WEIR_EXPECT(from.size() >= preamble_size);
  if (!starts_with(from, start_magic)) {
    return error(errc::corrupt,
                 fmt::format("cannot read message: expected \"{}\", found \"{}\"",
                             start_magic, shown(from.first(8))));
  }
  if (const auto version = load_be<std::uint16_t>(from.data() + 8);
      version != wire_version) {
    return error(errc::unsupported_version,
                 fmt::format("cannot read message: expected version {}, found {}",
                             wire_version, version));
  }
  // The four reserved bytes at 12 are not looked at.
  return preamble{load_be<std::uint16_t>(from.data() + 10),
                  load_be<std::uint64_t>(from.data() + 16)};
}

/// Reads the last bytes of a message, which repeat the total length so that files can be
/// scanned from their end.
result<postamble> parse_postamble(bytes_view from) {
  WEIR_EXPECT(from.size() >= postamble_size);
  if (!starts_with(from.subspan(16), end_magic)) {
    return error(errc::corrupt,
                 fmt::format("cannot read end of message: expected \"{}\", found "
                             "\"{}\"",
                             end_magic, shown(from.subspan(16, 8))));
  }
  // Whether the numbers make sense is checked where the frames are known.
  return postamble{load_be<std::uint64_t>(from.data()),
                   load_be<std::uint64_t>(from.data() + 8)};
}

/// Bytes 12 to 15 are reserved and zero.
std::array<std::byte, preamble_size> make_preamble(const preamble& p) noexcept {
  std::array<std::byte, preamble_size> out{};
  put_magic(out.data(), start_magic);
  store_be<std::uint16_t>(out.data() + 8, wire_version);
  store_be<std::uint16_t>(out.data() + 10, p.flags);
  store_be<std::uint64_t>(out.data() + 16, p.total_length);
  return out;
}

std::array<std::byte, postamble_size> make_postamble(const postamble& p) noexcept {
  std::array<std::byte, postamble_size> out{};
  store_be<std::uint64_t>(out.data(), p.first_footer_offset);
  store_be<std::uint64_t>(out.data() + 8, p.total_length);
  put_magic(out.data() + 16, end_magic);
  return out;
}

std::array<std::byte, frame_header_size> make_frame_header(
    std::uint16_t type, std::uint16_t flags, std::uint64_t length) noexcept {
  std::array<std::byte, frame_header_size> out{};
  put_magic(out.data(), frame_magic);
  store_be<std::uint16_t>(out.data() + 2, type);
  store_be<std::uint16_t>(out.data() + 4,
                          1);  // version of the frame: always 1, never checked
  store_be<std::uint16_t>(out.data() + 6, flags);
  store_be<std::uint64_t>(out.data() + 8, length);
  return out;
}

std::array<std::byte, frame_tail_size> make_frame_tail(std::uint64_t digest) noexcept {
  std::array<std::byte, frame_tail_size> out{};
  store_be<std::uint64_t>(out.data(), digest);
  put_magic(out.data() + 8, frame_end_magic);
  return out;
}

}  // namespace weir::formats
