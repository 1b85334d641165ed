// SPDX-License-Identifier: Apache-2.0
/// @file
/// Which ranks carry an operation out, and which words it reads and writes there.
#pragma once

#include <vector>

#include "serial/graph_book.hpp"
#include "serial/program.hpp"

namespace weir::test::serial {

struct touch {
  int stream = none;  ///< in whose order; none: that of the program's thread
  int buffer = 0;
  int instance = 0;
  int first = 0;
  int words = 0;
  bool writes = false;
};

/// The instance that a place means on a rank.
[[nodiscard]] inline int instance_of(const program& p, const place& at_place, int rank) {
  return !at(p.buffers, at_place.buffer).on_device() ? 0
         : at_place.rank != none                     ? at_place.rank
                                                     : rank;
}

/// Ranks on which a launch, a copy or a fill runs, ascending.
[[nodiscard]] std::vector<int> carriers_of(const program& p, const operation& o);

/// The words of one rank that a collective reads and writes; nothing has no words.
struct share_words {
  place reads;
  place writes;
};
/// `index` is the rank's place in its group of `ranks` ranks.
[[nodiscard]] share_words words_of_share(const operation& o, int index, int ranks);

/// Of an operation that runs at once; a launch of a graph touches what its nodes touch,
/// but for memory that nobody else ever has.
[[nodiscard]] std::vector<touch> touches_of(const program& p, const graph_book& graphs,
                                            const operation& o);
/// Of a node in its graph.
[[nodiscard]] std::vector<touch> touches_of(const program& p, const graph_step& node);

}  // namespace weir::test::serial
