// SPDX-License-Identifier: Apache-2.0
/// @file
/// Result codes of HN4 volumes: the numbers that the reference implementation of the
/// format
/// returns. Here they are carried inside the text of an `error`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "weir/base/error.hpp"

namespace weir::storage {

/// A result code of the reference implementation.
/// @source{HN4 on-disk format, section 12}
enum class hn4_code : std::int32_t {
  ok = 0,
  pending = 1,
  healed = 2,
  sparse = 3,
  horizon_fallback = 4,
  thawed = 5,
  no_space = -0x100,
  event_horizon = -0x101,
  gravity_collapse = -0x102,
  bitmap_corrupt = -0x103,
  alignment = -0x104,
  atomics_timeout = -0x105,
  zone_full = -0x106,
  wipe_pending = -0x107,
  not_found = -0x200,
  tombstone = -0x201,
  id_mismatch = -0x202,
  tag_overflow = -0x203,
  name_too_long = -0x204,
  access_denied = -0x300,
  immutable = -0x301,
  signature = -0x302,
  tether_expired = -0x303,
  not_sovereign = -0x304,
  volume_locked = -0x305,
  audit_failure = -0x306,
  hw_io = -0x400,
  data_rot = -0x401,
  parity_broken = -0x402,
  phantom_block = -0x403,
  decompress = -0x404,
  thermal = -0x405,
  cpu_insanity = -0x406,
  media_toxic = -0x407,
  encrypted_rot = -0x408,
  header_rot = -0x450,
  payload_rot = -0x451,
  generation_skew = -0x500,
  epoch_lost = -0x501,
  snapshot_invalid = -0x502,
  quantum_violation = -0x503,
  time_dilation = -0x504,
  tampered = -0x505,
  time_paradox = -0x506,
  bad_superblock = -0x600,
  version_incompat = -0x601,
  no_memory = -0x602,
  dma_mapping = -0x603,
  profile_mismatch = -0x604,
  pico_limit = -0x605,
  endian_mismatch = -0x606,
  internal_fault = -0x607,
  geometry = -0x608,
  invalid_argument = -0x609,
  uninitialized = -0x60A,
  exists = -0x610,
  compression_inefficient = -0x611,
  algorithm_unknown = -0x612,
  key_expired = -0x613,
  internal = -0x614,
  busy = -0x615,
};

/// Returns the name of a code, such as "PAYLOAD_ROT", or "UNKNOWN" for other numbers. The
/// name is a literal, so a NUL follows it.
/// @threads{safe to call concurrently}
[[nodiscard]] std::string_view name_of(hn4_code code) noexcept;
/// Returns number and name: "-0x451 PAYLOAD_ROT".
/// @threads{safe to call concurrently}
[[nodiscard]] std::string text_of(hn4_code code);

/// Makes an error whose text ends in the code: " (-0x451 PAYLOAD_ROT)".
/// @param kind code of the error; if unset, the one that belongs to the result code
/// @threads{safe to call concurrently}
[[nodiscard]] error hn4_error(hn4_code code, std::string text,
                              std::optional<errc> kind = std::nullopt);
/// Returns the result code that an error carries in its text or in that of a cause.
///
/// For an error without one it returns the code that is nearest to its `errc`.
/// @threads{safe to call concurrently}
[[nodiscard]] hn4_code code_of(const error& e) noexcept;

}  // namespace weir::storage
