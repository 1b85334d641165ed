// SPDX-License-Identifier: Apache-2.0
/// @file
/// A sink that forgets its items.
#pragma once

#include "weir/pipeline/faces.hpp"

namespace weir::flow {

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
    s.port("x", &null_sink::x);
  }
  result<void> put(taken& /*t*/) {
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
