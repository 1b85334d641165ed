// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests which tensors of worlds are put into huge pages.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "weir/base/system/sanitizers.hpp"
#include "weir/world.hpp"
#include "world/ranks.hpp"

namespace weir {
namespace {

/// Returns the flags that Linux tells of the mapping with an address ("hg" for huge
/// pages), or an empty text if it tells none.
std::string flags_of_mapping(const void* address) {
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

/// Returns the flags of the memory in the middle of a tensor of 64 MiB.
std::string flags_of_tensor(world& w, const layout& cut) {
  const auto large = w.make<double>(cut, 4096, 2048);
  const runtime::storage& memory = large.all().bytes().store();
  return flags_of_mapping(memory.base + memory.size / 2);
}

class HugePages : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled")) {
      GTEST_SKIP() << "this system has no huge pages for programs";
    }
    if (sanitized) {
      GTEST_SKIP() << "the allocator of the sanitizer joins mappings";
    }
    if (flags_of_mapping(this).empty()) {
      GTEST_SKIP() << "this system does not tell the flags of mappings";
    }
  }
};

TEST_F(HugePages, HoldTensorsOfOneRank) {
  engine e(1);
  world w(e);
  EXPECT_NE(flags_of_tensor(w, rows(64)).find(" hg"), std::string::npos);
  EXPECT_NE(flags_of_tensor(w, columns(64)).find(" hg"), std::string::npos);
}

// A rank touches some columns of each row, so huge pages would take the memory of all.
TEST_F(HugePages, HoldNoTensorsThatSeveralRanksHaveCutIntoColumns) {
  runtime::in_process_network net({.ranks = 2});
  std::array<std::string, 2> by_rows;
  std::array<std::string, 2> by_columns;
  runtime::on_ranks(net, 2, [&](runtime::rank_id rank, runtime::transport& link) {
    engine e(1);
    world w(e, link);
    by_columns[rank] = flags_of_tensor(w, columns(64));
    by_rows[rank] = flags_of_tensor(w, rows(64));
    EXPECT_TRUE(w.wait());
  });
  for (std::size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(by_columns[rank].find(" hg"), std::string::npos) << rank;
    EXPECT_NE(by_rows[rank].find(" hg"), std::string::npos) << rank;
  }
}

}  // namespace
}  // namespace weir
