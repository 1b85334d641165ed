// SPDX-License-Identifier: Apache-2.0
/// @file
/// The groups of rows about Tessera, and a context for them.
#pragma once

#include <cstdlib>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench.hpp"
#include "tessera_ext.h"

namespace weir::bench {

/// Adds the rows about launches, events and replayed graphs.
void add_launch_rows(program& bench);
/// Adds the rows about all-reduces: compared with OpenMPI, with copies, and between
/// levels.
void add_collective_rows(program& bench);

/// Throws if a call has failed.
inline void or_throw(tessStatus_t status) {
  if (status != TESS_OK) {
    throw std::runtime_error(std::string(tessGetErrorName(status)) + ": " +
                             tessGetLastErrorMessage());
  }
}

/// A context with workers of its own, and one mesh of all its devices.
class tessera {
 public:
  tessera(int devices, int workers) {
    setenv("TESS_NUM_THREADS", std::to_string(workers).c_str(), 1);
    or_throw(tessInit(&context));
    std::vector<int> ids(static_cast<std::size_t>(devices));
    std::iota(ids.begin(), ids.end(), 0);
    or_throw(tessMeshCreate(context, ids.data(), devices, {1, 1, devices, 1}, &mesh));
    or_throw(tessStreamCreate(mesh, 0, &stream));
  }
  ~tessera() { tessShutdown(context); }
  tessera(const tessera&) = delete;
  tessera& operator=(const tessera&) = delete;

  void synchronize() const { or_throw(tessStreamSynchronize(stream)); }

  tessContext_t context = nullptr;
  tessMesh_t mesh = nullptr;
  tessStream_t stream = nullptr;
};

}  // namespace weir::bench
