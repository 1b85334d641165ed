// SPDX-License-Identifier: Apache-2.0
/// @file
/// The record of an item in an image: everything but the bytes of its tensor; and the
/// error of a damaged section.
#pragma once

#include <cstdint>
#include <string>

#include "weir/base/error.hpp"
#include "weir/base/record.hpp"
#include "weir/pipeline/item.hpp"

namespace weir::flow {

/// An item that an image holds, without its tensor.
struct stored_item {
  bool present = false;    ///< false for a gap
  std::uint64_t seq = 0;   ///< number of the item
  std::uint32_t lane = 0;  ///< lane of the item
  attributes about;        ///< attributes of the item
};

/// Appends the record of an item.
void put_item(record_writer& out, const stored_item& one);
/// Reads the record of an item; `record_reader::failed` tells if it is damaged.
[[nodiscard]] stored_item get_item(record_reader& from);

/// Returns the error of a section that a run cannot continue from.
[[nodiscard]] error bad_section(const std::string& name, const std::string& expected,
                                const std::string& found);

}  // namespace weir::flow
