// SPDX-License-Identifier: Apache-2.0
/// @file
/// Helpers of the module tests: reading fat binaries, locating their fields, and damaging
/// them with or without correct hashes.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <string>

#include "module/fatbin_layout.hpp"
#include "support/folders.hpp"
#include "weir/base/bytes.hpp"
#include "weir/base/file.hpp"
#include "weir/tessera/module/fatbin.hpp"

namespace weir::tessera::test {

/// Returns the bytes of a file; throws if it cannot be read.
inline byte_vector bytes_of_file(const std::string& path) {
  return or_throw(read_file(posix_file_system(), path));
}
/// Returns the fat binary of the demo kernels, which the build makes.
inline byte_vector demo_fatbin() {
  return bytes_of_file(WEIR_KERNELS_FATBIN);
}

/// Returns the image with the name `wanted` in golden.hex.
inline byte_vector golden_fatbin(const std::string& wanted) {
  std::ifstream in(weir::test::source_folder() + "/tests/tessera/module/golden.hex");
  std::string name;
  std::string hex;
  while (in >> name >> hex) {
    if (name == wanted) {
      byte_vector out(hex.size() / 2);
      or_throw(from_hex(hex, out));
      return out;
    }
  }
  throw std::runtime_error("golden.hex has no line " + wanted);
}

/// Returns the little-endian 32-bit number at an offset.
inline std::uint32_t u32_of(const byte_vector& image, std::size_t offset) {
  return load_le<std::uint32_t>(image.data() + offset);
}
/// Returns the little-endian 64-bit number at an offset.
inline std::uint64_t u64_of(const byte_vector& image, std::size_t offset) {
  return load_le<std::uint64_t>(image.data() + offset);
}

/// Returns the offset of a section's entry. Holds for images of fatbin_builder, which
/// puts the table directly behind the header.
inline std::size_t entry_of(std::size_t section) {
  return fatbin_layout::header_bytes + section * fatbin_layout::entry_bytes;
}
/// Returns the offset of the entry of the first section of a kind.
inline std::size_t find_entry(const byte_vector& image, section_kind kind) {
  for (std::size_t i = 0; i < u32_of(image, fatbin_layout::header::sections); ++i) {
    if (u32_of(image, entry_of(i)) == static_cast<std::uint32_t>(kind)) {
      return entry_of(i);
    }
  }
  throw std::runtime_error("no such section");
}
/// Returns the offset of the first section of a kind.
inline std::size_t find_section(const byte_vector& image, section_kind kind) {
  return u64_of(image, find_entry(image, kind) + fatbin_layout::entry::offset);
}

/// Recomputes the hashes of a damaged container, so that reading it reaches the damaged
/// field instead of stopping at a wrong hash. Stops early if the section table itself
/// points outside of the image. Keeps a signature section, which then no longer matches.
inline void reseal(byte_vector& image) {
  namespace lay = fatbin_layout;
  std::uint64_t hole = image.size();
  std::uint64_t hole_bytes = 0;
  const std::uint64_t table = u64_of(image, lay::header::table);
  for (std::uint64_t i = 0; i < u32_of(image, lay::header::sections); ++i) {
    const std::uint64_t entry = table + i * lay::entry_bytes;
    if (entry > image.size() - lay::entry_bytes) {
      return;
    }
    const std::uint64_t offset = u64_of(image, entry + lay::entry::offset);
    const std::uint64_t bytes = u64_of(image, entry + lay::entry::bytes);
    if (offset > image.size() || bytes > image.size() - offset ||
        offset < lay::header_bytes) {
      return;
    }
    if (u32_of(image, entry) == static_cast<std::uint32_t>(section_kind::signature)) {
      hole = offset;
      hole_bytes = bytes;
      continue;
    }
    const digest256 hash = sha256(bytes_view(image).subspan(offset, bytes));
    std::copy_n(hash.begin(), lay::entry::hash_bytes,
                image.data() + entry + lay::entry::hash);
  }
  const digest256 hash = lay::content_hash_of(image, hole, hole_bytes);
  std::copy(hash.begin(), hash.end(), image.data() + lay::header::content_hash);
}

/// Overwrites a number, recomputes the hashes, and returns the code with which reading
/// ends (a zero code on success).
template <class T>
errc code_after(byte_vector image, std::size_t offset, T value) {
  store_le(image.data() + offset, value);
  reseal(image);
  const auto read = parse_fatbin(image);
  return read ? errc{} : read.error().code();
}

/// Returns a key pair that depends on `first` alone.
inline key_pair test_keys(std::uint8_t first = 100) {
  std::array<std::byte, 32> seed;
  for (std::size_t i = 0; i < seed.size(); ++i) {
    seed[i] = static_cast<std::byte>(first + i);
  }
  return or_throw(key_pair_from_seed(seed));
}

}  // namespace weir::tessera::test
