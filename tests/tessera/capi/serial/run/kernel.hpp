// SPDX-License-Identifier: Apache-2.0
/// @file
/// Code that programs run on devices and on the host.
#pragma once

#include <vector>

#include "serial/program.hpp"
#include "support.hpp"

namespace weir::test::serial {

/// Arguments of serial_kernel, as the kernel receives them.
struct launch_args {
  word* to;
  const word* from;
  std::int32_t words;
  word salt;
  std::int32_t how;
  std::int32_t spin;
  std::int32_t slow_rank;
  std::int32_t pad = 0;
};

/// Returns the kernels of programs: serial_kernel alone.
[[nodiscard]] std::vector<registered_module::entry> serial_kernels();

/// Argument of a host function. It stays alive until the run has ended.
struct host_work {
  word* to;
  const word* from;
  const operation* source;  ///< the operation of the program
};
/// Host function of programs; its argument is a `host_work`.
void do_host_work(void* user);

}  // namespace weir::test::serial
