// SPDX-License-Identifier: Apache-2.0
/// @file
/// The entry point of libFuzzer. There is one program for each target; the macro
/// FUZZ_TARGET names it.
#include "formats/fuzz/targets.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  weir::test::fuzz::FUZZ_TARGET(std::as_bytes(std::span(data, size)));
  return 0;
}
