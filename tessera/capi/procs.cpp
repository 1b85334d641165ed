// SPDX-License-Identifier: Apache-2.0
/// @file
/// Functions by name, for programs that load the library.
#include <dlfcn.h>

#include <cstring>

#include "tessera_ext.h"

extern "C" {

void (*tessGetProcAddress(const char* name, int minAbiMinor))(void) {
  if (name == nullptr || std::strncmp(name, "tess", 4) != 0 ||
      minAbiMinor > TESS_ABI_MINOR) {
    return nullptr;
  }
  // The functions that the version script exports are the ones to be found.
  static void* const self = [] {
    Dl_info info{};
    return dladdr(reinterpret_cast<void*>(&tessGetProcAddress), &info) == 0
               ? nullptr
               : dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  }();
  void* const found = self == nullptr ? nullptr : dlsym(self, name);
  void (*out)(void) = nullptr;
  std::memcpy(&out, &found, sizeof out);
  return out;
}

}  // extern "C"
