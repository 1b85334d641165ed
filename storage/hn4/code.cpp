// SPDX-License-Identifier: Apache-2.0
/// @file
/// Result codes: their names, the kinds of errors that they belong to, and how the text
/// of an error carries them.
///
/// Errors are ordinary `error` objects. Their text ends in the result code, as in
/// "(-0x451 PAYLOAD_ROT)", and `code_of` reads it from there. So the code survives
/// wrapping by other layers, and a user sees it.
#include "weir/storage/hn4_code.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace weir::storage {

namespace {

/// One result code. Name and kind are constant; the kind is what programs of this
/// library react to.
struct code_row {
  hn4_code code;
  std::string_view name;
  errc kind;
};

/// The rows have the order of the numbers in the specification. Codes that this library
/// never makes are listed as well, because they may come from texts of the reference.
constexpr std::array rows{
    code_row{hn4_code::ok, "OK", errc::internal},
    code_row{hn4_code::pending, "PENDING", errc::internal},
    code_row{hn4_code::healed, "HEALED", errc::internal},
    code_row{hn4_code::sparse, "SPARSE", errc::hole},
    code_row{hn4_code::horizon_fallback, "HORIZON_FALLBACK", errc::internal},
    code_row{hn4_code::thawed, "THAWED", errc::internal},
    code_row{hn4_code::no_space, "NO_SPACE", errc::no_space},
    code_row{hn4_code::event_horizon, "EVENT_HORIZON", errc::no_space},
    code_row{hn4_code::gravity_collapse, "GRAVITY_COLLAPSE", errc::no_space},
    code_row{hn4_code::bitmap_corrupt, "BITMAP_CORRUPT", errc::corrupt},
    code_row{hn4_code::alignment, "ALIGNMENT", errc::invalid_argument},
    code_row{hn4_code::atomics_timeout, "ATOMICS_TIMEOUT", errc::timeout},
    code_row{hn4_code::zone_full, "ZONE_FULL", errc::no_space},
    code_row{hn4_code::wipe_pending, "WIPE_PENDING", errc::corrupt},
    code_row{hn4_code::not_found, "NOT_FOUND", errc::not_found},
    code_row{hn4_code::tombstone, "TOMBSTONE", errc::not_found},
    code_row{hn4_code::id_mismatch, "ID_MISMATCH", errc::corrupt},
    code_row{hn4_code::tag_overflow, "TAG_OVERFLOW", errc::out_of_range},
    code_row{hn4_code::name_too_long, "NAME_TOO_LONG", errc::invalid_argument},
    code_row{hn4_code::access_denied, "ACCESS_DENIED", errc::invalid_argument},
    code_row{hn4_code::immutable, "IMMUTABLE", errc::invalid_argument},
    code_row{hn4_code::signature, "SIGNATURE", errc::corrupt},
    code_row{hn4_code::tether_expired, "TETHER_EXPIRED", errc::corrupt},
    code_row{hn4_code::not_sovereign, "NOT_SOVEREIGN", errc::invalid_argument},
    code_row{hn4_code::volume_locked, "VOLUME_LOCKED", errc::locked},
    code_row{hn4_code::audit_failure, "AUDIT_FAILURE", errc::corrupt},
    code_row{hn4_code::hw_io, "HW_IO", errc::io},
    code_row{hn4_code::data_rot, "DATA_ROT", errc::corrupt},
    code_row{hn4_code::parity_broken, "PARITY_BROKEN", errc::corrupt},
    code_row{hn4_code::phantom_block, "PHANTOM_BLOCK", errc::corrupt},
    code_row{hn4_code::decompress, "DECOMPRESS", errc::corrupt},
    code_row{hn4_code::thermal, "THERMAL", errc::io},
    code_row{hn4_code::cpu_insanity, "CPU_INSANITY", errc::internal},
    code_row{hn4_code::media_toxic, "MEDIA_TOXIC", errc::corrupt},
    code_row{hn4_code::encrypted_rot, "ENCRYPTED_ROT", errc::corrupt},
    code_row{hn4_code::header_rot, "HEADER_ROT", errc::corrupt},
    code_row{hn4_code::payload_rot, "PAYLOAD_ROT", errc::corrupt},
    code_row{hn4_code::generation_skew, "GENERATION_SKEW", errc::generation_skew},
    code_row{hn4_code::epoch_lost, "EPOCH_LOST", errc::corrupt},
    code_row{hn4_code::snapshot_invalid, "SNAPSHOT_INVALID", errc::corrupt},
    code_row{hn4_code::quantum_violation, "QUANTUM_VIOLATION", errc::corrupt},
    code_row{hn4_code::time_dilation, "TIME_DILATION", errc::corrupt},
    code_row{hn4_code::tampered, "TAMPERED", errc::corrupt},
    code_row{hn4_code::time_paradox, "TIME_PARADOX", errc::corrupt},
    code_row{hn4_code::bad_superblock, "BAD_SUPERBLOCK", errc::corrupt},
    code_row{hn4_code::version_incompat, "VERSION_INCOMPAT", errc::unsupported_version},
    code_row{hn4_code::no_memory, "NO_MEMORY", errc::out_of_memory},
    code_row{hn4_code::dma_mapping, "DMA_MAPPING", errc::io},
    code_row{hn4_code::profile_mismatch, "PROFILE_MISMATCH", errc::unsupported},
    code_row{hn4_code::pico_limit, "PICO_LIMIT", errc::unsupported},
    code_row{hn4_code::endian_mismatch, "ENDIAN_MISMATCH", errc::unsupported_version},
    code_row{hn4_code::internal_fault, "INTERNAL_FAULT", errc::internal},
    code_row{hn4_code::geometry, "GEOMETRY", errc::corrupt},
    code_row{hn4_code::invalid_argument, "INVALID_ARGUMENT", errc::invalid_argument},
    code_row{hn4_code::uninitialized, "UNINITIALIZED", errc::corrupt},
    code_row{hn4_code::exists, "EXISTS", errc::already_exists},
    code_row{hn4_code::compression_inefficient, "COMPRESSION_INEFFICIENT",
             errc::internal},
    code_row{hn4_code::algorithm_unknown, "ALGORITHM_UNKNOWN", errc::unsupported},
    code_row{hn4_code::key_expired, "KEY_EXPIRED", errc::corrupt},
    code_row{hn4_code::internal, "INTERNAL", errc::internal},
    code_row{hn4_code::busy, "BUSY", errc::locked}};

/// Finds the row of a code; null for an unknown number. The table is short and is
/// searched only for errors.
const code_row* find(hn4_code code) noexcept {
  const auto row = std::find_if(rows.begin(), rows.end(),
                                [&](const code_row& r) { return r.code == code; });
  return row == rows.end() ? nullptr : &*row;
}

/// Returns the code of a text that ends in "(-0x451 PAYLOAD_ROT)", if it has one. The
/// mark must be at the very end of the text.
std::optional<hn4_code> marked(std::string_view text) noexcept {
  const std::size_t open = text.rfind(" (");
  if (open == std::string_view::npos || text.back() != ')') {
    return std::nullopt;
  }
  std::string_view inside = text.substr(open + 2);
  // Errors have negative numbers, notes positive ones.
  const bool negative = inside.substr(0, 1) == "-";
  inside.remove_prefix(negative ? 1 : 0);
  if (inside.substr(0, 2) != "0x") {
    return std::nullopt;
  }
  std::int32_t number = 0;
  const auto [end, problem] =
      std::from_chars(inside.data() + 2, inside.data() + inside.size(), number, 16);
  // A blank must follow the number; otherwise the parentheses are part of an ordinary
  // sentence.
  if (problem != std::errc() || *end != ' ') {
    return std::nullopt;
  }
  const auto code = static_cast<hn4_code>(negative ? -number : number);
  return find(code) != nullptr ? std::optional(code) : std::nullopt;
}

/// Returns the code that is nearest to an error of another module. Used for errors that
/// carry no mark, such as those of a device.
hn4_code nearest(errc kind) noexcept {
  switch (kind) {
    case errc::not_found: return hn4_code::not_found;
    case errc::already_exists: return hn4_code::exists;
    case errc::invalid_argument:
    case errc::unknown_key:
    case errc::out_of_range: return hn4_code::invalid_argument;
    case errc::torn: return hn4_code::geometry;
    case errc::corrupt: return hn4_code::data_rot;
    case errc::generation_skew: return hn4_code::generation_skew;
    case errc::hole: return hn4_code::sparse;
    case errc::unsupported: return hn4_code::profile_mismatch;
    case errc::unsupported_version: return hn4_code::version_incompat;
    case errc::no_space: return hn4_code::no_space;
    case errc::out_of_memory: return hn4_code::no_memory;
    case errc::locked: return hn4_code::busy;
    case errc::io: return hn4_code::hw_io;
    // Kinds that have no counterpart in the format.
    default: return hn4_code::internal;
  }
}

}  // namespace

/// The text is a literal and lives for ever.
std::string_view name_of(hn4_code code) noexcept {
  const code_row* row = find(code);
  return row != nullptr ? row->name : "UNKNOWN";
}

/// Makes the mark without its parentheses.
std::string text_of(hn4_code code) {
  const auto number = static_cast<std::int32_t>(code);
  return fmt::format("{}0x{:X} {}", number < 0 ? "-" : "", number < 0 ? -number : number,
                     name_of(code));
}

/// `kind` replaces the kind of the table where the same code stands for different
/// causes.
error hn4_error(hn4_code code, std::string text, std::optional<errc> kind) {
  const code_row* row = find(code);
  return error(kind.value_or(row != nullptr ? row->kind : errc::internal),
               fmt::format("{} ({})", text, text_of(code)));
}

// The outermost error that carries a code decides; errors without one wrap those of other
// modules. If none carries a code, the kind of the innermost error decides.
hn4_code code_of(const error& e) noexcept {
  for (const error* cause = &e; cause != nullptr; cause = cause->cause()) {
    if (const auto code = cause->text().empty() ? std::nullopt : marked(cause->text())) {
      return *code;
    }
  }
  return nearest(e.root().code());
}

}  // namespace weir::storage
