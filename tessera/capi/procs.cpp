// SPDX-License-Identifier: Apache-2.0
/// @file
/// Addresses of functions by name, for programs that load the library at run time.
#include <dlfcn.h>

#include <cstring>

#include "tessera_ext.h"

extern "C" {

// Looks only in this library, whose version script exports the interface alone. The
// library is found by the address of this function and not by its file name, which the
// program may have changed.
void (*tessGetProcAddress(const char* name, int minAbiMinor))(void) {
  if (name == nullptr || std::strncmp(name, "tess", 4) != 0 ||
      minAbiMinor > TESS_ABI_MINOR) {
    return nullptr;
  }
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
