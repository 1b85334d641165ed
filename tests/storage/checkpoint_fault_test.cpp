// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests saves and loads while one operation of the file system fails, for every
/// operation in turn.
#include <gtest/gtest.h>

#include "storage/checkpoint_support.hpp"
#include "support/faulty_files.hpp"

using namespace weir;
using namespace weir::storage;
using namespace weir::test;
using store_role = checkpoint_store::role;

namespace {

/// A writer that has saved generation 1, in a file system of its own.
struct writer {
  writer()
      : store(or_throw(checkpoint_store::open(fs, folder.path(), store_role::writer))) {
    or_throw(store.save(small_model(1).sections(), 1));
  }
  std::uint64_t newest_pulse() { return or_throw(store.load_newest()).header().pulse_id; }
  /// Returns the paths of temporary files.
  std::vector<std::string> leftovers() {
    std::vector<std::string> out;
    for (const auto& [path, content] : fs.visible()) {
      if (path.find(".tmp") != std::string::npos) {
        out.push_back(path);
      }
    }
    return out;
  }
  temp_folder folder;
  faulty_files fs;
  checkpoint_store store;
};

}  // namespace

TEST(CheckpointFaults, ShortReadsAndWritesAreContinued) {
  for (const std::size_t max_bytes : {1U, 7U, 4095U}) {
    writer w;
    w.fs.max_bytes = max_bytes;
    or_throw(w.store.save(small_model(2).sections(), 2));
    EXPECT_EQ(w.newest_pulse(), 2U) << max_bytes;
  }
}

TEST(CheckpointFaults, AnyOperationMayFailOnceAndTheNextSaveSucceeds) {
  std::size_t operations = 0;
  {
    writer w;
    const std::size_t before = w.fs.operations();
    or_throw(w.store.save(small_model(2).sections(), 2));
    operations = w.fs.operations() - before;
  }
  std::size_t refused = 0;
  for (const errc code : {errc::no_space, errc::io}) {
    for (std::size_t k = 0; k < operations; ++k) {
      SCOPED_TRACE(k);
      writer w;
      const std::size_t failing = w.fs.operations() + k;
      w.fs.fail = [&](std::size_t number, op_kind) -> std::optional<error> {
        return number == failing ? std::optional(error(code, "cannot")) : std::nullopt;
      };
      const auto saved = w.store.save(small_model(2).sections(), 2);
      if (!saved) {
        ++refused;
        ASSERT_EQ(saved.error().root().code(), code);
        ASSERT_TRUE(w.leftovers().empty());
        const std::uint64_t pulse = w.newest_pulse();
        ASSERT_TRUE(pulse == 1 || pulse == 2);
      } else {
        ASSERT_EQ(w.newest_pulse(), 2U);
      }
      or_throw(w.store.save(small_model(3).sections(), 3));
      ASSERT_EQ(w.newest_pulse(), 3U);
    }
  }
  // Each operation fails twice, once with each code. More than half of the saves are
  // refused.
  EXPECT_GT(refused, operations);
}

TEST(CheckpointFaults, AFullDiskKeepsRefusingAndLosesNothing) {
  writer w;
  w.fs.fail = [&](std::size_t, op_kind kind) -> std::optional<error> {
    return kind == op_kind::write ? std::optional(error(errc::no_space, "no space left"))
                                  : std::nullopt;
  };
  for (std::uint64_t pulse = 2; pulse < 6; ++pulse) {
    const auto r = w.store.save(small_model(pulse).sections(), pulse);
    ASSERT_FALSE(r);
    EXPECT_EQ(r.error().code(), errc::no_space);
    EXPECT_EQ(w.newest_pulse(), 1U);
    EXPECT_TRUE(w.leftovers().empty());
  }
  w.fs.fail = nullptr;
  EXPECT_EQ(or_throw(w.store.save(small_model(6).sections(), 6)), 6U);
}

TEST(CheckpointFaults, AFailedSyncGivesTheFileUpAndTheNextSaveIsAnotherFile) {
  writer w;
  std::vector<op_kind> kinds;
  bool failed = false;
  w.fs.fail = [&](std::size_t, op_kind kind) -> std::optional<error> {
    kinds.push_back(kind);
    if (kind == op_kind::sync && !failed) {
      failed = true;
      return error(errc::io, "input/output error");
    }
    return std::nullopt;
  };
  EXPECT_EQ(w.store.save(small_model(2).sections(), 2).error().code(), errc::io);
  EXPECT_EQ(std::count(kinds.begin(), kinds.end(), op_kind::sync), 1);
  EXPECT_EQ(std::count(kinds.begin(), kinds.end(), op_kind::rename), 0);
  EXPECT_EQ(or_throw(w.store.save(small_model(3).sections(), 3)), 3U);
  EXPECT_EQ(w.newest_pulse(), 3U);
}

TEST(CheckpointFaults, RenameAcrossFileSystemsAndAFolderThatCannotBeSyncedAreReported) {
  for (const op_kind failing_kind : {op_kind::rename, op_kind::sync_folder}) {
    writer w;
    w.fs.fail = [&](std::size_t, op_kind kind) -> std::optional<error> {
      return kind == failing_kind ? std::optional(error(errc::io, "refused"))
                                  : std::nullopt;
    };
    EXPECT_EQ(w.store.save(small_model(2).sections(), 2).error().code(), errc::io);
    w.fs.fail = nullptr;
    or_throw(w.store.save(small_model(3).sections(), 3));
    EXPECT_EQ(w.newest_pulse(), 3U);
  }
}

TEST(CheckpointFaults, AReadErrorOfTheNewestFallsBackToTheOneBefore) {
  writer w;
  or_throw(w.store.save(small_model(2).sections(), 2));
  std::size_t opened = 0;
  w.fs.fail = [&](std::size_t, op_kind kind) -> std::optional<error> {
    // The list reads two preambles, so the third file that is opened is the newest
    // checkpoint, read whole.
    opened += kind == op_kind::open ? 1U : 0U;
    return kind == op_kind::read && opened == 3
               ? std::optional(error(errc::io, "bad sector"))
               : std::nullopt;
  };
  const auto ck = or_throw(w.store.load_newest());
  EXPECT_EQ(ck.header().pulse_id, 1U);
  ASSERT_EQ(ck.skipped().size(), 1U);
  EXPECT_EQ(ck.skipped()[0].code(), errc::io);
}
