// SPDX-License-Identifier: Apache-2.0
/// @file
/// Calls of user code: an exception becomes an error.
#pragma once

#include <exception>
#include <new>
#include <string>

#include "weir/base/error.hpp"

namespace weir::flow {

/// Calls a function of a stage; an exception becomes an error.
template <class Function>
result<void> guarded(Function&& call_stage) {
  try {
    return call_stage();
  } catch (const std::bad_alloc&) {
    return error(errc::out_of_memory, "cannot allocate memory for a stage");
  } catch (const std::exception& e) {
    return error(errc::kernel_failed, std::string("a stage has thrown: ") + e.what());
  }
}

}  // namespace weir::flow
