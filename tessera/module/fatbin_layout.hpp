// SPDX-License-Identifier: Apache-2.0
/// @file
/// Layout of the container: offsets of fields in their records, sizes of records, and
/// limits. All numbers are little-endian.
#pragma once

#include <array>
#include <cstdint>

#include "weir/base/bytes.hpp"
#include "weir/tessera/module/digest.hpp"
#include "weir/tessera/module/fatbin.hpp"

namespace weir::tessera::fatbin_layout {

/// First bytes of every container. The last one is no text, so that a transfer that
/// changes text is noticed.
inline constexpr std::array<std::uint8_t, 8> magic{'T', 'E', 'S', 'S', 'F', 'A', 'T', 26};
inline constexpr std::uint16_t container_version = 1;

/// The header: versions, number and position of the sections, size of the file, and two
/// hashes. `source_hash` is the compiler's and is not checked here; `content_hash` covers
/// the container.
inline constexpr std::uint32_t header_bytes = 128;
namespace header {
inline constexpr std::size_t version = 8, flags = 10, abi_major = 12, abi_minor = 14,
                             bytes = 16, sections = 20, table = 24, file_bytes = 32,
                             source_hash = 40, content_hash = 72, reserved = 104;
/// End of the fields that have this position in every version.
inline constexpr std::size_t fixed = 16;
}  // namespace header

/// An entry of the table of sections: kind, machine, position, and the first half of the
/// SHA-256 of its bytes.
inline constexpr std::uint32_t entry_bytes = 64;
namespace entry {
inline constexpr std::size_t kind = 0, flags = 4, arch = 8, align = 12, offset = 16,
                             bytes = 24, plain_bytes = 32, hash = 40, reserved = 56;
inline constexpr std::size_t hash_bytes = 16;
}  // namespace entry
/// Flags of an entry. Compressed sections are refused. An optional section may be skipped
/// by a reader that does not know its kind.
inline constexpr std::uint32_t flag_compressed = 1, flag_optional = 2;

/// Tables begin with the size of a record and the number of records. Later versions may
/// have larger records.
inline constexpr std::uint32_t table_head = 8;
/// A kernel: names, the range of its parameters, its block and memory, and a bit for each
/// section of code that it has.
inline constexpr std::uint32_t kernel_bytes = 64;
namespace kernel {
inline constexpr std::size_t name = 0, symbol = 4, first = 8, count = 12, arguments = 16,
                             block = 20, max_threads = 32, shared = 36, flags = 40,
                             reserved = 44, targets = 48, more = 56;
}  // namespace kernel
/// A parameter of a kernel.
inline constexpr std::uint32_t parameter_bytes = 32;
namespace parameter {
inline constexpr std::size_t name = 0, kind = 4, dtype = 8, size = 12, offset = 16,
                             space = 20, direction = 24, reserved = 28;
}  // namespace parameter
/// A proposal for collectives of a type and a range of sizes.
inline constexpr std::uint32_t plan_bytes = 48;
namespace plan {
inline constexpr std::size_t collective = 0, dtype = 4, axis = 8, algorithm = 12,
                             min_bytes = 16, max_bytes = 24, chunk = 32, wire = 40,
                             reserved = 44;
}  // namespace plan
/// The numerics policy and the seed that the module asks for.
inline constexpr std::uint32_t policy_bytes = 32;
namespace policy {
inline constexpr std::size_t stable = 0, deterministic = 4, stateless = 8, fast_math = 12,
                             wire = 16, reserved = 20, seed = 24;
}  // namespace policy
/// The signature of the content hash, with the public key that verifies it.
inline constexpr std::uint32_t signature_section_bytes = 104;
namespace signature {
inline constexpr std::size_t algorithm = 0, reserved = 4, key = 8, bytes = 40;
inline constexpr std::uint32_t ed25519 = 1;
}  // namespace signature

/// Alignments of sections, and limits that a reader enforces. Code is aligned to pages. A
/// kernel has a bit for each section of code, hence the limit of 64.
inline constexpr std::uint32_t table_align = 8;
inline constexpr std::uint32_t code_align = 4096;
inline constexpr std::uint32_t max_sections = 1024;
inline constexpr std::size_t max_code_sections = 64;
inline constexpr std::size_t max_name_bytes = 255;
inline constexpr std::uint32_t known_kernel_flags = 63;

/// Returns the hash of a container, without its own field and without the `bytes` bytes
/// at `offset` that hold the signature.
inline digest256 content_hash_of(bytes_view image, std::uint64_t offset,
                                 std::uint64_t bytes) {
  sha256_stream hash;
  hash.update(image.first(header::content_hash));
  hash.update(image.subspan(header::reserved, offset - header::reserved));
  hash.update(image.subspan(offset + bytes));
  return hash.digest();
}

}  // namespace weir::tessera::fatbin_layout
