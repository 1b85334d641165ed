// SPDX-License-Identifier: Apache-2.0
/// @file
/// A shared object with one kernel that stores a number. The build compiles it several
/// times; macros produce variants with errors.
#include <cstdlib>

#include "tessera_kernel.h"

#ifndef PROBE_VALUE
#define PROBE_VALUE 1
#endif
#ifndef PROBE_BYTES
#define PROBE_BYTES 8
#endif
#ifndef PROBE_FLAGS
#define PROBE_FLAGS 1
#endif
#ifndef PROBE_MAJOR
#define PROBE_MAJOR 1
#endif
#ifndef PROBE_MINOR
#define PROBE_MINOR 0
#endif
#ifndef PROBE_COUNT
#define PROBE_COUNT 1
#endif

namespace {

// Leaves a trace in the environment, so that tests see whether any code of the object
// ran.
__attribute__((constructor)) void say_that_code_ran() {
  ::setenv("WEIR_PROBE_RAN", "1", 1);
}

[[maybe_unused]] int store_number(const tessBlockContext*, const void* args) {
  **static_cast<int* const*>(args) = PROBE_VALUE;
  return 0;
}

}  // namespace

#ifndef PROBE_WITHOUT_TABLE
extern "C" __attribute__((visibility("default"))) const tessKernelLibrary*
tessera_kernel_library() {
  static const tessKernelEntry entries[] = {
      {"other", nullptr, 0, 0},
      {"store_number", reinterpret_cast<void (*)()>(store_number), PROBE_BYTES,
       PROBE_FLAGS}};
  static const tessKernelLibrary library = {
      sizeof(tessKernelLibrary), PROBE_MAJOR, PROBE_MINOR, PROBE_COUNT + 1,
      sizeof(tessKernelEntry),   entries};
  return &library;
}
#endif
