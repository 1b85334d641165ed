// SPDX-License-Identifier: Apache-2.0
/// @file
/// The only file of the tests that is compiled with the path of the sources.
#include "support/folders.hpp"

namespace weir::test {

std::string source_folder() {
  return WEIR_SOURCE_DIR;
}
std::string kernel_ptx_folder() {
  return WEIR_KERNEL_PTX;
}
std::string conformance_ptx_folder() {
  return WEIR_CONFORMANCE_PTX;
}

}  // namespace weir::test
