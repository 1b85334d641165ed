// SPDX-License-Identifier: Apache-2.0
/// @file
/// The only file of the tests that is compiled with the path of the sources.
#include "support/folders.hpp"

namespace weir::test {

std::string source_folder() {
  return WEIR_SOURCE_DIR;
}

}  // namespace weir::test
