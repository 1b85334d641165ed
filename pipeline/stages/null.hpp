// SPDX-License-Identifier: Apache-2.0
/// @file
/// A sink that forgets its items.
#pragma once

#include "weir/pipeline/faces.hpp"

namespace weir::flow {

/// Further paragraphs of the reference of `null`.
inline constexpr std::string_view null_details =
    R"(The count is its offset. There are no settings.)";

/// A small pipeline with `null`.
inline constexpr std::string_view null_example = R"([[stage]]
name = "numbers"
use = "generator"
count = 6
shape = [4]

[[stage]]
name = "sink"
use = "null"
)";

/// Takes items of any type and keeps their number alone.
struct null_sink {
  /// Number of items so far.
  struct offset {
    std::uint64_t items;
  };
  any_in x;
  std::uint64_t items = 0;

  static void describe(stage_spec<null_sink>& s) {
    s.name("null",
           "forgets its items and counts them; for measurements and for branches "
           "that need no output");
    s.manual(null_details, null_example).port("x", &null_sink::x);
  }
  result<void> put(taken& /*t*/) {
    // There is nothing to write.
    ++items;
    return {};
  }
  result<offset> settle() { return offset{items}; }
  result<void> rewind(offset where) {
    items = where.items;
    return {};
  }
};

}  // namespace weir::flow
