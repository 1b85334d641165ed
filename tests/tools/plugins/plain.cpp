// SPDX-License-Identifier: Apache-2.0
// A shared object that is no plug-in.
#include <cstdio>
#include <cstdlib>

namespace {

/// Tells if the object is loaded, which it must not be.
[[maybe_unused]] const int loaded = [] {
  std::fputs("loaded", stderr);
  std::_Exit(99);
  return 1;
}();

}  // namespace
