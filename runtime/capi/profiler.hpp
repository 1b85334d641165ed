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

/// Those that a context still has hear of nothing more. What they have noted is there
/// until they are stopped, also when the context has gone.
void close_profilers(const context& of);

}  // namespace weir::capi
