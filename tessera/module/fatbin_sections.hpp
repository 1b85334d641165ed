// SPDX-License-Identifier: Apache-2.0
/// @file
/// The first half of reading a container: header, hashes, and where each section lies.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"
#include "weir/tessera/module/fatbin.hpp"

namespace weir::tessera {

/// One entry of the table of sections, its bytes inside the image.
struct section_entry {
  std::uint32_t kind = 0;
  std::uint32_t flags = 0;
  std::uint32_t arch = 0;  ///< offset of a string
  std::uint32_t align = 0;
  std::uint64_t offset = 0;
  bytes_view bytes;

  [[nodiscard]] bool optional() const noexcept;
};

/// `cannot read the THING of a fatbin: expected ..., found ...`
[[nodiscard]] error damaged_fatbin(std::string_view thing, std::string_view expected,
                                   std::string_view found);

/// A C identifier of at most 255 characters.
[[nodiscard]] bool is_kernel_name(std::string_view text) noexcept;

/// Fills version, hashes and size of `out`, and returns the sections in the order of the
/// table: none overlaps another, the table or the header.
[[nodiscard]] result<std::vector<section_entry>> read_sections(bytes_view image,
                                                               abi_version runtime,
                                                               fatbin& out);

}  // namespace weir::tessera
