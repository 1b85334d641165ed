// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests files of the operating system: atomic replacement, removal of unfinished files,
/// reads of exact length, and locks.
#include "weir/base/file.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "support/temp_folder.hpp"

using namespace weir;

TEST(AtomicFile, ReplacesTheContentAndLeavesNoTemporaryFile) {
  const test::temp_folder folder;
  auto& fs = posix_file_system();
  const std::string path = folder / "x";
  or_throw(write_file_atomically(fs, path, as_view("one")));
  or_throw(write_file_atomically(fs, path, as_view("two")));
  EXPECT_EQ(as_text(or_throw(read_file(fs, path))), "two");
  EXPECT_EQ(or_throw(fs.list(folder.path())), std::vector<std::string>{"x"});
}

TEST(AtomicFile, FailureOfTheWriterKeepsTheOldContent) {
  const test::temp_folder folder;
  auto& fs = posix_file_system();
  const std::string path = folder / "x";
  or_throw(write_file_atomically(fs, path, as_view("one")));
  const auto r = write_file_atomically(
      fs, path, [](file&) -> result<void> { return error(errc::no_space, "disk full"); });
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code(), errc::no_space);
  EXPECT_EQ(as_text(or_throw(read_file(fs, path))), "one");
  EXPECT_EQ(or_throw(fs.list(folder.path())), std::vector<std::string>{"x"});
}

// Two threads replace the same file with contents of different length. A writer that
// shared its temporary file with the other, or wrote in place, would show a mixture or a
// part.
TEST(AtomicFile, ErrorsNameTheFileAndNotTheTemporaryOne) {
  const test::temp_folder folder;
  const std::string path = folder / "gone/file";
  const auto r = write_file_atomically(posix_file_system(), path, as_view("one"));
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code(), errc::not_found);
  EXPECT_NE(r.error().text().find("\"" + path + "\""), std::string::npos);
  EXPECT_EQ(r.error().message().find(".tmp"), std::string::npos);

  const auto wrapped = write_file_atomically(
      posix_file_system(), folder / "file", [](file& f) -> result<void> {
        return error(errc::io, "cannot fill " + f.path())
            .located(f.path() + ":7")
            .because(error(errc::io, "no space in " + f.path()));
      });
  ASSERT_FALSE(wrapped);
  EXPECT_EQ(wrapped.error().message(),
            "cannot fill " + (folder / "file") + "\n  at " + (folder / "file") +
                ":7\n  caused by: no space in " + (folder / "file"));
}

TEST(AtomicFile, ManyWritersLeaveTheWholeContentOfOne) {
  const test::temp_folder folder;
  auto& fs = posix_file_system();
  const std::string path = folder / "x";
  const std::string contents[] = {std::string(10'000, 'a'), std::string(20'000, 'b')};
  std::vector<std::thread> writers;
  writers.reserve(2);
  for (const std::string& content : contents) {
    writers.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        EXPECT_TRUE(write_file_atomically(fs, path, as_view(content)));
        const byte_vector seen = or_throw(read_file(fs, path));
        EXPECT_TRUE(as_text(seen) == contents[0] || as_text(seen) == contents[1]);
      }
    });
  }
  for (std::thread& t : writers) {
    t.join();
  }
  EXPECT_EQ(or_throw(fs.list(folder.path())), std::vector<std::string>{"x"});
}

// Temporary files end with ".PROCESS-NUMBER.tmp". Names that only look similar must stay;
// an empty name stands for every file of the folder.
TEST(AtomicFile, LeftoversOfKilledWritersAreRemovedAndNothingElse) {
  const test::temp_folder folder;
  auto& fs = posix_file_system();
  for (const char* name : {"x.12-0.tmp", "x.y.7-13.tmp", "x.tmp", "x.-1.tmp", "x.1-.tmp",
                           "x.1-a.tmp", "x.1-2.tmpp", "z.3-4.tmp"}) {
    or_throw(write_file_atomically(fs, folder / name, as_view("left")));
  }
  or_throw(remove_unfinished(fs, folder / "x"));
  const std::vector<std::string> remaining = {"x.-1.tmp",  "x.1-.tmp", "x.1-2.tmpp",
                                              "x.1-a.tmp", "x.tmp",    "z.3-4.tmp"};
  EXPECT_EQ(or_throw(fs.list(folder.path())), remaining);
  or_throw(remove_unfinished(fs, folder / ""));
  EXPECT_FALSE(fs.exists(folder / "z.3-4.tmp"));
}

TEST(File, MissingFileIsNotFoundAndShortFileIsTorn) {
  const test::temp_folder folder;
  auto& fs = posix_file_system();
  const auto missing = fs.open(folder / "none", open_mode::read);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), errc::not_found);
  or_throw(write_file_atomically(fs, folder / "x", as_view("abc")));
  const auto f = or_throw(fs.open(folder / "x", open_mode::read));
  byte_vector four(4);
  const auto r = read_exactly(*f, 0, four);
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code(), errc::torn);
  EXPECT_NE(r.error().location().find("x:0"), std::string::npos);
}

TEST(FileLock, SecondHolderIsRefusedUntilTheFirstIsGone) {
  const test::temp_folder folder;
  {
    const auto first = or_throw(file_lock::acquire(folder / "lock"));
    const auto second = file_lock::acquire(folder / "lock");
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code(), errc::locked);
  }
  EXPECT_TRUE(file_lock::acquire(folder / "lock"));
}
