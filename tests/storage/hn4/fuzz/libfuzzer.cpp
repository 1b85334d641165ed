// SPDX-License-Identifier: Apache-2.0
// One libFuzzer program per target; FUZZ_TARGET names it.
#include "storage/hn4/fuzz/targets.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  weir::storage::test::fuzz::FUZZ_TARGET(std::as_bytes(std::span(data, size)));
  return 0;
}
