// SPDX-License-Identifier: Apache-2.0
/// @file
/// The library that takes the place of libcuda.so.1. It exports one function of the
/// driver and finds everything else in the test program that loads it.
#include "tessera/cuda/stand_in/stand_in.hpp"

extern "C" __attribute__((visibility("default"))) weir::tessera::cuda::status
cuGetProcAddress_v2(const char* name, void** function, int version, std::uint64_t flags,
                    weir::tessera::cuda::lookup* outcome) {
  return weir_stand_in_lookup(name, function, version, flags, outcome);
}
