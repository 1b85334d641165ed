// SPDX-License-Identifier: Apache-2.0
/// @file
/// The first half of reading a container: the header, hashes and positions of sections.
///
/// The second half, in fatbin_parse.cpp, reads what the sections contain. It may rely on
/// the checks here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"
#include "weir/tessera/module/fatbin.hpp"

namespace weir::tessera {

/// An entry of the table of sections. Its bytes lie inside the image.
struct section_entry {
  std::uint32_t kind = 0;
  std::uint32_t flags = 0;
  std::uint32_t arch = 0;  ///< offset of the name in the strings
  std::uint32_t align = 0;
  std::uint64_t offset = 0;
  bytes_view bytes;

  /// Returns true if a reader that does not know the kind may skip the section.
  [[nodiscard]] bool optional() const noexcept;
};

/// Returns an error `cannot read the THING of a fatbin: expected ..., found ...`.
[[nodiscard]] error damaged_fatbin(std::string_view thing, std::string_view expected,
                                   std::string_view found);

/// Returns true for a C identifier of at most 255 characters.
[[nodiscard]] bool is_kernel_name(std::string_view text) noexcept;

/// Sets version, hashes and size of `out`. Returns the sections in the order of the
/// table; none overlaps another, the table or the header.
[[nodiscard]] result<std::vector<section_entry>> read_sections(bytes_view image,
                                                               abi_version runtime,
                                                               fatbin& out);

}  // namespace weir::tessera
