// SPDX-License-Identifier: Apache-2.0
/// @file
/// Random collectives on streams of a mesh and on streams of single ranks.
#pragma once

#include "serial/generate/memory_operations.hpp"

namespace weir::test::serial {

/// Adds random collectives.
class collective_operations : protected memory_operations {
 public:
  using memory_operations::memory_operations;

 protected:
  void collective();
  void collective_on(int stream) { emit_if(random_collective(stream)); }
  std::optional<operation> random_collective(int stream);

 private:
  void collective_of_ranks(int mesh, const std::vector<int>& streams);
  /// Chooses kind, elements and buffers. Returns false if no memory fits.
  bool describe(operation& o, int stream);
  bool place_again(operation& o, int stream);
  bool place_buffers(operation& o, int stream, int ranks);
  std::optional<place> collective_place(int stream, int words);

  collective_spec last_;  ///< the last collective called on rank streams
  int last_mesh_ = none;
};

}  // namespace weir::test::serial
