// SPDX-License-Identifier: Apache-2.0
/// @file
/// The stand-in as a library, for programs that are not linked with it: Python loads it
/// before libcuda.so.1, which finds the functions here.
#include <algorithm>
#include <cstring>
#include <string>

#include "tessera/cuda/stand_in/stand_in.hpp"

namespace stand_in = weir::tessera::stand_in;

extern "C" {

/// Shows a machine without kernels.
__attribute__((visibility("default"))) void weir_stand_in_show(int devices,
                                                               unsigned max_delay_us) {
  stand_in::machine shown;
  shown.devices = devices;
  shown.max_delay_us = max_delay_us;
  stand_in::set_up(shown, nullptr);
}

/// Waits until all streams are idle, without telling the host.
__attribute__((visibility("default"))) void weir_stand_in_settle() {
  stand_in::settle();
}

/// Returns 1 if no object of the driver is alive, and 0 otherwise.
__attribute__((visibility("default"))) int weir_stand_in_rests() {
  return stand_in::objects() == stand_in::object_counts{} ? 1 : 0;
}

/// Writes the names of the rules that were broken since the last call, each behind a
/// space. The text is cut to the size of the buffer.
__attribute__((visibility("default"))) void weir_stand_in_breaches(char* text,
                                                                   std::size_t size) {
  std::string all;
  for (const stand_in::breach& b : stand_in::take_breaches()) {
    all += " " + b.rule;
  }
  const std::size_t length = std::min(all.size(), size - 1);
  std::memcpy(text, all.data(), length);
  text[length] = '\0';
}

}  // extern "C"
