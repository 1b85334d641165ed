// SPDX-License-Identifier: Apache-2.0
/// @file
/// Profilers of the C interface.
#pragma once

#include "capi/objects.hpp"
#include "profile/recorder.hpp"

namespace weir::capi {

struct profiler_object {
  std::weak_ptr<context> of;
  std::shared_ptr<runtime::recorder> what;
};

/// The profilers of a context stop listening. What they have recorded is kept until they
/// are stopped or another context is shut down.
void close_profilers(const context& of);

}  // namespace weir::capi
