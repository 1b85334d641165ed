// SPDX-License-Identifier: Apache-2.0
/// @file
/// Unloads libtessera while a context is open. Threads of the library may still run, so
/// the library must stay in memory. The program's argument is the path of the library.
#include <dlfcn.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include <tessera.h>

namespace {

/// Prints why the test failed and returns the exit code 1.
int fail(const char* subject, const char* reason) {
  std::fprintf(stderr, "%s: %s\n", subject, reason);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  void* const library = argc == 2 ? dlopen(argv[1], RTLD_NOW) : nullptr;
  if (library == nullptr) {
    return fail("library not loaded", argc == 2 ? dlerror() : "expected its path");
  }
  const auto init = reinterpret_cast<decltype(&tessInit)>(dlsym(library, "tessInit"));
  tessContext_t context = nullptr;
  if (init == nullptr || init(&context) != TESS_OK) {
    return fail("tessInit", "expected TESS_OK");
  }
  dlclose(library);
  // Gives the context's workers time to run after the unloading.
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  if (dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD) == nullptr) {
    return fail("library", "expected it to stay loaded, found it unloaded");
  }
  return 0;
}
