// SPDX-License-Identifier: Apache-2.0
/// @file
/// Which build of this library runs.
#pragma once

#include <string>

namespace weir::runtime {

/// The build id that the linker put into the shared object or program that contains this
/// library, in hexadecimal digits: two builds of different code have different ids. Empty
/// if the linker was told to put none in.
/// @threads{safe from any thread}
[[nodiscard]] const std::string& library_build();

}  // namespace weir::runtime
