// SPDX-License-Identifier: Apache-2.0
/// @file
/// Profilers of the C interface.
///
/// The functions of the interface are in the source file; contexts.cpp ends the profilers
/// of a context.
#pragma once

#include "capi/objects.hpp"
#include "profile/recorder.hpp"

namespace weir::tessera::capi {

/// A profiler of a context, which it does not keep alive.
struct profiler_object {
  std::weak_ptr<tessera::context> context;
  std::shared_ptr<tessera::recorder> recorder;
  std::atomic<bool> listens{false};
};

/// Stops the profilers of a context. Their records are kept until the program stops them.
void close_profilers(const context& ended);

}  // namespace weir::tessera::capi
