// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the memory that a process may use, with files in place of those of the system.
#include "weir/base/system/memory.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "support/temp_folder.hpp"

namespace weir {
namespace {

/// A folder with files of the system.
struct made_system {
  made_system() {
    file("proc/meminfo",
         "MemTotal:       1000 kB\nMemFree:  10 kB\nMemAvailable:    800 kB\n");
  }
  void file(const std::string& path, const std::string& text) const {
    const std::filesystem::path whole = folder / path;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole) << text;
  }
  [[nodiscard]] memory_facts facts() const {
    return memory_of_machine(folder.path().c_str());
  }
  test::temp_folder folder;
};

void expect_facts(const made_system& system, std::uint64_t total,
                  std::uint64_t available) {
  EXPECT_EQ(system.facts().total, total);
  EXPECT_EQ(system.facts().available, available);
}

TEST(Memory, WithoutGroupsIsThatOfTheMachine) {
  const made_system system;
  expect_facts(system, 1'024'000, 819'200);
  system.file("proc/self/cgroup", "0::/none\nno line\n3:memory:/none\n");
  expect_facts(system, 1'024'000, 819'200);
}

TEST(Memory, OfAGroupIsItsLimitWithoutWhatItNeeds) {
  const made_system system;
  system.file("proc/self/cgroup", "0::/a/b\n");
  system.file("sys/fs/cgroup/a/b/memory.max", "500000\n");
  expect_facts(system, 500'000, 500'000);
  system.file("sys/fs/cgroup/a/b/memory.current", "300000\n");
  expect_facts(system, 500'000, 200'000);
  // Caches can be given back.
  system.file("sys/fs/cgroup/a/b/memory.stat",
              "anon 5\nactive_file 7\ninactive_file 100000\n");
  expect_facts(system, 500'000, 300'000);
  system.file("sys/fs/cgroup/a/b/memory.max", "max\n");
  expect_facts(system, 1'024'000, 819'200);
}

TEST(Memory, OfGroupsInsideOfGroupsHasAllLimits) {
  const made_system system;
  system.file("proc/self/cgroup", "0::/a/b\n");
  system.file("sys/fs/cgroup/a/b/memory.max", "500000\n");
  system.file("sys/fs/cgroup/a/memory.max", "400000\n");
  system.file("sys/fs/cgroup/a/memory.current", "390000\n");
  expect_facts(system, 400'000, 10'000);
  // A container sees its own group as the outermost one.
  system.file("proc/self/cgroup", "0::/path/of/the/host\n");
  system.file("sys/fs/cgroup/memory.max", "200000\n");
  expect_facts(system, 200'000, 200'000);
}

TEST(Memory, HasTheLimitsOfTheFirstVersionOfGroupsToo) {
  const made_system system;
  system.file("proc/self/cgroup", "5:cpu,cpuacct:/\n4:hugetlb,memory:/a\n0::/\n");
  system.file("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "700000\n");
  system.file("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "800000\n");
  system.file("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  expect_facts(system, 700'000, 0);
}

TEST(Memory, OfThisMachineIsKnown) {
  const memory_facts facts = memory_of_machine();
  EXPECT_GT(facts.total, 0U);
  EXPECT_LE(facts.available, facts.total);
}

}  // namespace
}  // namespace weir
