// SPDX-License-Identifier: Apache-2.0
/// @file
/// Records of items: little-endian, each attribute as its name, kind and value.
#include "epoch/item_record.hpp"

#include <bit>

#include <fmt/core.h>

namespace weir::flow {

/// The counterpart is `get_item`. Kinds of values are their index in `attribute`.
void put_item(record_writer& out, const stored_item& one) {
  out.put(static_cast<std::uint8_t>(one.present));
  out.put(one.seq);
  out.put(one.lane);
  out.put(static_cast<std::uint32_t>(one.about.size()));
  for (const auto& [name, value] : one.about) {
    out.put_text(name);
    out.put(static_cast<std::uint8_t>(value.index()));
    // The kinds are told apart by the index that was written before.
    if (const auto* text = std::get_if<std::string>(&value)) {
      out.put_text(*text);
    } else if (const auto* real = std::get_if<double>(&value)) {
      out.put(std::bit_cast<std::uint64_t>(*real));
    } else if (const auto* natural = std::get_if<std::uint64_t>(&value)) {
      out.put(*natural);
    } else {
      out.put(static_cast<std::uint64_t>(std::get<std::int64_t>(value)));
    }
  }
}

/// A damaged record makes the reader fail; what was read until then is returned.
stored_item get_item(record_reader& from) {
  stored_item one;
  one.present = from.get<std::uint8_t>() != 0;
  one.seq = from.get<std::uint64_t>();
  one.lane = from.get<std::uint32_t>();
  // Each attribute has at least five bytes, which limits the count.
  const std::size_t count = from.get_count<std::uint32_t>(5);
  for (std::size_t i = 0; i < count && !from.failed(); ++i) {
    std::string name = from.get_text();
    switch (from.get<std::uint8_t>()) {
      case 0:
        one.about[std::move(name)] = static_cast<std::int64_t>(from.get<std::uint64_t>());
        break;
      case 1: one.about[std::move(name)] = from.get<std::uint64_t>(); break;
      case 2:
        one.about[std::move(name)] = std::bit_cast<double>(from.get<std::uint64_t>());
        break;
      default: one.about[std::move(name)] = from.get_text();
    }
  }
  return one;
}

/// @param name  Name of the section.
error bad_section(const std::string& name, const std::string& expected,
                  const std::string& found) {
  return error(errc::corrupt,
               fmt::format("cannot restore the section \"{}\" of a checkpoint: expected "
                           "{}, found {}",
                           name, expected, found));
}

}  // namespace weir::flow
