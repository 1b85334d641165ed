// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the index beside an image: it is used only if it belongs to the image, and it is
/// never trusted.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include "../../../storage/hn4/directory/directory.hpp"
#include "support.hpp"
#include "support/temp_folder.hpp"

namespace weir::storage::test {
namespace {

/// A volume in a file, with two tags and an index.
struct indexed {
  indexed() : path(scratch / "v") {
    or_throw(hn4_format(path, fixed_format()));
    hn4_volume volume = or_throw(hn4_volume::open(path, device_mode::writable));
    or_throw(volume.put("a", noise(30'000, 1), fixed_put(3)));
    or_throw(
        volume.put("a long name that needs a block", noise(20'000, 2), fixed_put(2)));
    or_throw(volume.write_index());
  }
  std::shared_ptr<hn4::core> mounted() const {
    return or_throw(hn4::mount(or_throw(open_file_device(path, device_mode::read_only))));
  }
  weir::test::temp_folder scratch;
  std::string path;
};

TEST(Hn4Index, FindsTagsWithoutTheDirectory) {
  const indexed v;
  const auto core = v.mounted();
  EXPECT_FALSE(core->directory_read);
  EXPECT_EQ(hn4::look_up_index(*core, "a").value().size(), 3U);
  EXPECT_EQ(or_throw(hn4::select_tag(*core, "a", false)).shards.size(), 3U);
  EXPECT_FALSE(core->directory_read) << "the open must not read the directory";
  const hn4_volume volume = or_throw(hn4_volume::open(v.path));
  EXPECT_TRUE(or_throw(or_throw(volume.stream("a")).read_all()) == noise(30'000, 1));
  EXPECT_TRUE(
      or_throw(or_throw(volume.stream("a long name that needs a block")).read_all()) ==
      noise(20'000, 2));
  EXPECT_EQ(volume.stream("b").error().code(), errc::not_found);
  EXPECT_EQ(or_throw(volume.tags()).size(), 2U);
}

TEST(Hn4Index, AnImageThatWasWrittenSinceIsScanned) {
  const indexed v;
  {
    hn4_volume volume = or_throw(hn4_volume::open(v.path, device_mode::writable));
    or_throw(volume.put("a", noise(100, 3), fixed_put()));
  }
  const hn4_volume volume = or_throw(hn4_volume::open(v.path));
  EXPECT_TRUE(or_throw(or_throw(volume.stream("a")).read_all()) == noise(100, 3));
}

// The time of the image is set back after a store, so the index seems to belong to the
// image. The look-up must notice that the entries have changed.
TEST(Hn4Index, EntriesThatChangedUnderTheSameTimeAreNotBelieved) {
  const indexed v;
  const auto time = std::filesystem::last_write_time(v.path);
  {
    hn4_volume volume = or_throw(hn4_volume::open(v.path, device_mode::writable));
    or_throw(volume.put("a", noise(100, 3), fixed_put()));
  }
  std::filesystem::last_write_time(v.path, time);
  const auto core = v.mounted();
  EXPECT_FALSE(hn4::look_up_index(*core, "a"));
  const hn4_volume volume = or_throw(hn4_volume::open(v.path));
  EXPECT_TRUE(or_throw(or_throw(volume.stream("a")).read_all()) == noise(100, 3));
}

TEST(Hn4Index, ADamagedOrForeignIndexChangesNothing) {
  constexpr std::uint64_t seed = 6;
  RecordProperty("seed", static_cast<int>(seed));
  const indexed v;
  const byte_vector good = or_throw(read_file(posix_file_system(), v.path + ".index"));
  const philox random(seed, 1);
  for (std::uint64_t i = 0; i < 150; ++i) {
    byte_vector bad = good;
    bad[static_cast<std::size_t>(random.below(3 * i, bad.size()))] ^=
        static_cast<std::byte>(1 + random.below(3 * i + 1, 255));
    if (i % 3 == 0) {
      bad.resize(static_cast<std::size_t>(random.below(3 * i + 2, bad.size())));
    }
    ASSERT_TRUE(write_file_atomically(posix_file_system(), v.path + ".index", bad));
    const hn4_volume volume = or_throw(hn4_volume::open(v.path));
    ASSERT_TRUE(or_throw(or_throw(volume.stream("a")).read_all()) == noise(30'000, 1))
        << "seed " << seed << " case " << i;
  }
}

/// Returns the number of a process that certainly does not exist any more.
pid_t gone() {
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  return child;
}

// Opening for writing removes temporary files of the image whose process has ended, and
// all temporary files of the index, because only the holder of the volume's lock writes
// an index. Files that only look similar must stay.
TEST(Hn4Index, WhatKilledProcessesLeftGoesWithTheNextWriter) {
  const indexed v;
  const auto name = [](pid_t process, const std::string& name_of_file) {
    return name_of_file + "." + std::to_string(process) + "-3.tmp";
  };
  const std::vector<std::string> leftovers{name(gone(), "v"), name(gone(), "v.index"),
                                           name(::getppid(), "v.index")};
  const std::vector<std::string> others{
      name(::getppid(), "v"),   "v.12-x.tmp", name(gone(), "v2"),
      name(gone(), "v.a"),      "v.12.tmp",   "v.index.tmp",
      name(gone(), "v2.index"), "v.-1.tmp",   "v.99999999999999-1.tmp"};
  const auto make = [&](const std::string& file) {
    or_throw(write_file_atomically(posix_file_system(), v.scratch / file, as_view("x")));
  };
  std::for_each(leftovers.begin(), leftovers.end(), make);
  std::for_each(others.begin(), others.end(), make);
  (void)or_throw(hn4_volume::open(v.path));
  for (const std::string& file : leftovers) {
    EXPECT_TRUE(std::filesystem::exists(v.scratch / file)) << "a reader removes no file";
  }
  {
    hn4_volume volume = or_throw(hn4_volume::open(v.path, device_mode::writable));
    EXPECT_FALSE(volume.remove("not there"));
  }
  for (const std::string& file : leftovers) {
    EXPECT_FALSE(std::filesystem::exists(v.scratch / file)) << file;
  }
  for (const std::string& file : others) {
    EXPECT_TRUE(std::filesystem::exists(v.scratch / file)) << file;
  }
}

TEST(Hn4Index, SeveralProcessesMayRemoveTheSameLeftovers) {
  const weir::test::temp_folder folder;
  const std::string path = folder / "v";
  const std::string maker = path + "." + std::to_string(gone()) + "-";
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 200; ++i) {
      std::ofstream(maker + std::to_string(i) + ".tmp") << "x";
    }
    result<void> other;
    std::thread remover([&] { other = hn4_remove_leftovers(path); });
    const auto own = hn4_remove_leftovers(path);
    remover.join();
    EXPECT_TRUE(own) << own.error().message();
    EXPECT_TRUE(other) << other.error().message();
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  }
}

TEST(Hn4Index, ReadingWritesNothing) {
  const indexed v;
  std::filesystem::remove(v.path + ".index");
  {
    const hn4_volume volume = or_throw(hn4_volume::open(v.path));
    EXPECT_TRUE(or_throw(volume.stream("a")).read_all());
    EXPECT_TRUE(volume.tags());
  }
  EXPECT_FALSE(std::filesystem::exists(v.path + ".index"));
}

}  // namespace
}  // namespace weir::storage::test
