// SPDX-License-Identifier: Apache-2.0
/// @file
/// Encodes, decodes and checks the headers of data blocks.
///
/// A block has a header of 48 bytes (identity of its shard, block number, generation,
/// checksum and compression of the payload, checksum of the header) and a payload. A
/// block says itself to which shard it belongs, so no place on the device needs to be
/// trusted.
#include <fmt/core.h>

#include <algorithm>

#include "disk.hpp"
#include "weir/base/hash.hpp"
#include "weir/storage/hn4_code.hpp"

namespace weir::storage::hn4 {

namespace {

constexpr std::uint32_t block_magic = 0x424C4B30U;
/// Initial value of the checksum of a header.
constexpr std::uint32_t header_seed = 0xFFFFFFFFU;
/// Algorithms of stored payloads.
constexpr unsigned raw = 0, tcc = 3;

/// Returns an identity in hexadecimal digits. The high half comes first, as people write
/// numbers.
std::string hex_id(hn4_id id) {
  return hex64(id.hi) + hex64(id.lo);
}

/// Makes the error "expected THING X, found Y".
error mismatch(hn4_code code, std::string_view thing, const std::string& expected,
               const std::string& found) {
  return hn4_error(code, fmt::format("expected {} {}, found {}", thing, expected, found));
}

/// Makes the error for bytes without the magic of a block: poison or something else. A
/// medium that reports a failing sector may return the poison byte 0xCC. This case has a
/// code of its own, because the volume itself may be right.
error no_block(bytes_view header) {
  bool poisoned = true;
  for (const std::byte b : header.first(std::min(header.size(), poison_bytes))) {
    poisoned = poisoned && b == std::byte{0xCC};
  }
  if (poisoned) {
    return hn4_error(hn4_code::hw_io,
                     "expected a block, found poison (0xCC): the medium failed here");
  }
  return mismatch(hn4_code::phantom_block, "block magic",
                  fmt::format("{:#010x}", block_magic),
                  fmt::format("{:#010x}", load_le<std::uint32_t>(header.data() + 0x20)));
}

/// Compares shard, number and generation with the claim. `claim.older` allows blocks of
/// an earlier generation, which remain where a later write did not replace them.
result<void> check_identity(const block_header& h, const block_claim& claim) {
  if (h.well != claim.seed) {
    return mismatch(hn4_code::id_mismatch, "block of shard", hex_id(claim.seed),
                    hex_id(h.well));
  }
  if (h.number != claim.number) {
    return mismatch(hn4_code::phantom_block, "block number", std::to_string(claim.number),
                    std::to_string(h.number));
  }
  const bool older = claim.older && h.generation < claim.generation;
  if (h.generation != claim.generation && !older) {
    return mismatch(hn4_code::generation_skew, "block generation",
                    std::to_string(claim.generation), std::to_string(h.generation));
  }
  return {};
}

}  // namespace

/// Decodes the fields without a check. `header` has at least 48 bytes.
block_header load_header(bytes_view header) noexcept {
  const std::byte* p = header.data();
  block_header h;
  h.well.lo = load_le<std::uint64_t>(p);
  h.well.hi = load_le<std::uint64_t>(p + 8);
  h.number = load_le<std::uint64_t>(p + 0x10);
  h.generation = load_le<std::uint64_t>(p + 0x18);
  h.data_crc = load_le<std::uint32_t>(p + 0x24);
  h.compression = load_le<std::uint32_t>(p + 0x28);
  return h;
}

/// Examines magic and checksum only, so it also accepts a block of any shard. Used to
/// find blocks that no entry names.
bool is_block_header(bytes_view header) noexcept {
  return load_le<std::uint32_t>(header.data() + 0x20) == block_magic &&
         load_le<std::uint32_t>(header.data() + 0x2C) ==
             crc32(header_seed, header.first(0x2C));
}

/// Compares without the checksum, which is cheaper and is the first step of a search
/// over several places. The full check follows.
bool names_itself(bytes_view header, hn4_id seed, std::uint64_t number) noexcept {
  const block_header h = load_header(header);
  return load_le<std::uint32_t>(header.data() + 0x20) == block_magic && h.well == seed &&
         h.number == number;
}

// The order of the checks decides which code is reported; it is that of the reference
// implementation.
result<block_header> check_header(bytes_view header, const block_claim& claim) {
  const std::byte* p = header.data();
  if (load_le<std::uint32_t>(p + 0x20) != block_magic) {
    return no_block(header);
  }
  const std::uint32_t stored = load_le<std::uint32_t>(p + 0x2C);
  const std::uint32_t actual = crc32(header_seed, header.first(0x2C));
  if (stored != actual) {
    return mismatch(hn4_code::header_rot, "header checksum",
                    fmt::format("{:#010x}", stored), fmt::format("{:#010x}", actual));
  }
  const block_header h = load_header(header);
  WEIR_CHECK(check_identity(h, claim));
  // Nothing but stored and TCC payloads can be decoded.
  if (h.algorithm() != raw && h.algorithm() != tcc) {
    return mismatch(hn4_code::algorithm_unknown, "compression", "0 or 3",
                    std::to_string(h.algorithm()));
  }
  if (claim.encrypted && h.algorithm() != raw) {
    return hn4_error(hn4_code::tampered,
                     "expected an encrypted shard to be stored uncompressed, found a "
                     "compressed block");
  }
  // The length is checked here, before anything reads so many bytes.
  if (h.stored() > claim.payload) {
    return mismatch(hn4_code::header_rot, "stored bytes at most",
                    std::to_string(claim.payload), std::to_string(h.stored()));
  }
  return h;
}

/// `found` is the checksum that the caller has computed, in most cases while it copied
/// the payload.
result<void> check_payload(const block_header& header, std::uint32_t found) {
  if (header.data_crc != found) {
    return mismatch(hn4_code::payload_rot, "payload checksum",
                    fmt::format("{:#010x}", header.data_crc),
                    fmt::format("{:#010x}", found));
  }
  return {};
}

/// Writes the 48 bytes of the header; its own checksum covers the rest of it.
void store_header(const block_header& from, mutable_bytes to) noexcept {
  std::byte* p = to.data();
  store_le(p, from.well.lo);
  store_le(p + 8, from.well.hi);
  store_le(p + 0x10, from.number);
  store_le(p + 0x18, from.generation);
  store_le(p + 0x20, block_magic);
  store_le(p + 0x24, from.data_crc);
  store_le(p + 0x28, from.compression);
  store_le(p + 0x2C, crc32(header_seed, bytes_view(to).first(0x2C)));
}

}  // namespace weir::storage::hn4
