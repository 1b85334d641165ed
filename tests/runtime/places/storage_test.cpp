// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the memory behind storages.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "weir/base/system/sanitizers.hpp"
#include "weir/runtime/engine.hpp"

namespace weir::runtime {
namespace {

/// Returns the flags that Linux tells of the mapping with an address ("hg" for huge
/// pages), or an empty text if it tells none.
std::string flags_of_mapping(const std::byte* address) {
  std::ifstream maps("/proc/self/smaps");
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    char dash = 0;
    if (words >> std::hex >> begin >> dash >> end && dash == '-') {
      inside = begin <= wanted && wanted < end;
    } else if (inside && line.starts_with("VmFlags:")) {
      return line;
    }
  }
  return "";
}

TEST(Storage, OfManyBytesIsPutIntoHugePages) {
  if (std::ifstream pages("/sys/kernel/mm/transparent_hugepage/enabled"); !pages) {
    GTEST_SKIP() << "this system has no transparent huge pages";
  }
  if (sanitized) {
    GTEST_SKIP() << "the allocator of the sanitizer shares mappings";
  }
  const auto e = or_throw(engine::create({}));
  const storage large = or_throw(e->allocate(std::int64_t{64} << 20, "large"));
  const storage small = or_throw(e->allocate(std::int64_t{1} << 20, "small"));
  EXPECT_NE(flags_of_mapping(large.base + large.size / 2).find(" hg"), std::string::npos);
  EXPECT_EQ(flags_of_mapping(small.base + small.size / 2).find(" hg"), std::string::npos);
  // The bytes are zeros all the same.
  EXPECT_EQ(std::to_integer<int>(large.base[0]), 0);
  EXPECT_EQ(std::to_integer<int>(*(large.base + large.size - 1)), 0);
}

}  // namespace
}  // namespace weir::runtime
