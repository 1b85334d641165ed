// SPDX-License-Identifier: Apache-2.0
/// @file
/// Profilers of the C interface.
#pragma once

#include "capi/objects.hpp"
#include "profile/recorder.hpp"

namespace weir::capi {

struct profiler_object {
  std::shared_ptr<context> of;
  std::shared_ptr<runtime::recorder> what;
};

/// Ends those that a context still has; nothing is written.
void close_profilers(const context& of);

}  // namespace weir::capi
