// SPDX-License-Identifier: Apache-2.0
/// @file
/// Computes which ranks execute an operation and which words each of them reads and
/// writes.
#pragma once

#include <vector>

#include "serial/graph_book.hpp"
#include "serial/program.hpp"

namespace weir::test::serial {

/// A range of words that an operation reads or writes.
struct touch {
  int stream = none;  ///< the stream that orders it; none: the program's thread
  int buffer = 0;
  int instance = 0;
  int first = 0;
  int words = 0;
  bool writes = false;
};

/// Returns the instance that a place means on a rank.
[[nodiscard]] inline int instance_of(const program& p, const place& at_place, int rank) {
  return !at(p.buffers, at_place.buffer).on_device() ? 0
         : at_place.rank != none                     ? at_place.rank
                                                     : rank;
}

/// Returns the ranks on which a launch, a copy or a fill runs, in ascending order.
[[nodiscard]] std::vector<int> carriers_of(const program& p, const operation& o);

/// The words that one rank reads and writes in a collective; an empty range means none.
struct share_words {
  place reads;
  place writes;
};
/// Returns the words of the rank with position `index` in its group of `ranks` ranks.
[[nodiscard]] share_words words_of_share(const operation& o, int index, int ranks);

/// Returns the touches of an operation that runs at once. The launch of a graph touches
/// what its nodes touch, except memory that the graph both allocates and frees.
[[nodiscard]] std::vector<touch> touches_of(const program& p, const graph_book& graphs,
                                            const operation& o);
/// Returns the touches of a node in its graph.
[[nodiscard]] std::vector<touch> touches_of(const program& p, const graph_step& node);

}  // namespace weir::test::serial
