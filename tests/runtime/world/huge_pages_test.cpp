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

/// Returns the flags of the memory behind a quarter, or behind three quarters, of a
/// tensor of `rows` rows of 16 KiB.
std::string flags_of_tensor(world& w, const layout& cut, int quarters, int rows = 4096) {
  const auto large = w.make<double>(cut, rows, 2048);
  const runtime::storage& memory = large.all().bytes().store();
  return flags_of_mapping(memory.base + memory.size / 4 * quarters);
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
  for (const int quarters : {1, 3}) {
    EXPECT_NE(flags_of_tensor(w, rows(64), quarters).find(" hg"), std::string::npos);
    EXPECT_NE(flags_of_tensor(w, columns(64), quarters).find(" hg"), std::string::npos);
  }
}

// A huge page is taken whole at the first touch. A rank touches all of its own rows, few
// of those of other ranks, and some columns of each row.
TEST_F(HugePages, HoldOnlyRowsOfTheirOwnRank) {
  runtime::in_process_network net({.ranks = 2});
  std::array<std::string, 2> own_rows;
  std::array<std::string, 2> other_rows;
  std::array<std::string, 2> own_columns;
  std::array<std::string, 2> few_rows;
  runtime::on_ranks(net, 2, [&](runtime::rank_id rank, runtime::transport& link) {
    engine e(1);
    world w(e, link);
    own_columns[rank] = flags_of_tensor(w, columns(64), rank == 0 ? 1 : 3);
    own_rows[rank] = flags_of_tensor(w, rows(64), rank == 0 ? 1 : 3);
    few_rows[rank] = flags_of_tensor(w, rows(64), rank == 0 ? 1 : 3, 768);  // 6 MiB own
    other_rows[rank] = flags_of_tensor(w, rows(64), rank == 0 ? 3 : 1);
    EXPECT_TRUE(w.wait());
  });
  for (std::size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(own_columns[rank].find(" hg"), std::string::npos) << rank;
    EXPECT_EQ(few_rows[rank].find(" hg"), std::string::npos) << rank;
    EXPECT_EQ(other_rows[rank].find(" hg"), std::string::npos) << rank;
    EXPECT_NE(own_rows[rank].find(" hg"), std::string::npos) << rank;
  }
}

}  // namespace
}  // namespace weir
