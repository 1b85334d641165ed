// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests crashes while a checkpoint is saved: every state that the real writer may leave
/// loads, and other protocols leave states that lose checkpoints.
#include <gtest/gtest.h>

#include "storage/checkpoint_support.hpp"
#include "support/faulty_files.hpp"

using namespace weir;
using namespace weir::storage;
using namespace weir::test;
using store_role = checkpoint_store::role;

namespace {

/// Returns whether a path names a checkpoint. Temporary files do not matter after a
/// crash.
bool is_checkpoint(const std::string& path) {
  return path.size() > 5 && path.compare(path.size() - 5, 5, ".weir") == 0;
}

/// Returns what a process finds after a crash: the pulse of the newest valid checkpoint,
/// or 0 if there is none.
std::uint64_t pulse_after(const disk& state, const std::string& folder) {
  faulty_files fs(state);
  auto store = or_throw(checkpoint_store::open(fs, folder));
  const auto loaded = store.load_newest();
  if (!loaded) {
    return 0;
  }
  // Compares the whole content with that of the pulse, not only the number.
  const small_model expected(loaded->header().pulse_id);
  const auto* const w = or_throw(loaded->find("PARAM/w"));
  EXPECT_TRUE(std::equal(w->data.begin(), w->data.end(),
                         std::as_bytes(std::span(expected.weights)).begin()));
  EXPECT_EQ(loaded->cursor(), expected.cursor);
  return loaded->header().pulse_id;
}

/// Numbers of crash states that were examined, of bad ones, and of instants.
struct tally {
  std::size_t states = 0;
  std::size_t bad = 0;
  std::size_t cuts = 0;
};

/// Runs `body` and checks every state that a crash after any of its operations may leave.
template <class Body, class Good>
tally enumerate(faulty_files& fs, disk_model model, Body body, Good good) {
  tally out;
  std::set<disk> judged_good;
  const auto look = [&] {
    ++out.cuts;
    for (const disk& state : fs.crash_states(model, is_checkpoint)) {
      ++out.states;
      out.bad += good(state) ? 0U : 1U;
    }
  };
  look();
  fs.after_change = look;
  body();
  fs.after_change = nullptr;
  return out;
}

}  // namespace

class CrashStates : public ::testing::TestWithParam<disk_model> {};
INSTANTIATE_TEST_SUITE_P(Models, CrashStates,
                         ::testing::Values(disk_model::posix, disk_model::ext4),
                         [](const auto& p) {
                           return p.param == disk_model::posix ? "posix" : "ext4";
                         });

// Five checkpoints are saved. During each save a crash may leave the checkpoint before or
// the new one; after the save has returned, only the new one.
TEST_P(CrashStates, OfTheRealWriterLoadTheOldOrTheNewAndOnceAcknowledgedOnlyTheNew) {
  const temp_folder folder;
  faulty_files fs;
  auto store = or_throw(checkpoint_store::open(fs, folder.path(), store_role::writer));
  std::uint64_t acknowledged = 0;
  std::uint64_t writing = 0;
  std::map<disk, std::uint64_t> known;
  const auto good = [&](const disk& state) {
    const auto found = known.find(state);
    const std::uint64_t pulse =
        found != known.end()
            ? found->second
            : known.emplace(state, pulse_after(state, folder.path())).first->second;
    return pulse == acknowledged || pulse == writing;
  };
  for (std::uint64_t pulse = 1; pulse <= 5; ++pulse) {
    SCOPED_TRACE(pulse);
    writing = pulse;
    const small_model state(pulse);
    const auto sections = state.sections();
    const tally t = enumerate(
        fs, GetParam(), [&] { or_throw(store.save(sections, pulse)); }, good);
    EXPECT_EQ(t.bad, 0U);
    EXPECT_GT(t.cuts, 10U);
    acknowledged = pulse;
    // Operations without a sync may or may not have reached the disk, but the
    // acknowledged checkpoint must be there.
    EXPECT_EQ(enumerate(
                  fs, GetParam(), [] {}, good)
                  .bad,
              0U);
  }
  EXPECT_GT(known.size(), 5U);
}

namespace {

/// Writes a file as other protocols do, in three blocks with the same mark. A file is
/// whole if all marks agree.
void write_blocks(file& f, char mark) {
  for (std::uint64_t block = 0; block < 3; ++block) {
    or_throw(write_all(f, block * 4, as_view(std::string(4, mark))));
  }
}
/// Returns whether a file has this mark in all its blocks.
bool whole(const byte_vector& content, char mark) {
  return as_text(content) == std::string(12, mark);
}

}  // namespace

// This test shows why model and cursor share one file: with two files, each replaced
// atomically, a crash leaves a new model beside an old cursor.
TEST_P(CrashStates, TwoFilesEachWrittenPerfectlyDoNotFitTogether) {
  faulty_files fs({{"f/model.weir", {}}, {"f/cursor.weir", {}}});
  for (const char mark : {'a', 'b'}) {
    std::size_t mismatched = 0;
    const auto good = [&](const disk& state) {
      const bool fit = state.at("f/model.weir") == state.at("f/cursor.weir");
      mismatched += fit ? 0U : 1U;
      return whole(state.at("f/model.weir"), mark) ||
             whole(state.at("f/model.weir"), 'a') || state.at("f/model.weir").empty();
    };
    const tally t = enumerate(
        fs, GetParam(),
        [&] {
          for (const char* path : {"f/model.weir", "f/cursor.weir"}) {
            or_throw(write_file_atomically(fs, path, [&](file& f) -> result<void> {
              write_blocks(f, mark);
              return {};
            }));
          }
        },
        good);
    EXPECT_EQ(t.bad, 0U) << "each single file is either the old or the new one";
    EXPECT_GT(mismatched, 5U) << "the two files do not fit together in some states";
  }
}

TEST_P(CrashStates, OfWritingInPlaceAreTorn) {
  faulty_files fs({{"f/ck.weir", byte_vector(12, std::byte{'a'})}});
  const tally t = enumerate(
      fs, GetParam(),
      [&] {
        const auto f = or_throw(fs.open("f/ck.weir", open_mode::read_write));
        or_throw(f->resize(0));
        write_blocks(*f, 'b');
        or_throw(f->sync());
      },
      [](const disk& state) {
        return whole(state.at("f/ck.weir"), 'a') || whole(state.at("f/ck.weir"), 'b');
      });
  EXPECT_GT(t.bad, 10U);
}

TEST_P(CrashStates, OfARenameWithoutSyncAreTornAndWithoutFolderSyncNotDurable) {
  for (const bool synced : {false, true}) {
    faulty_files fs({{"f/ck.weir", byte_vector(12, std::byte{'a'})}});
    const tally t = enumerate(
        fs, GetParam(),
        [&] {
          const auto f = or_throw(fs.open("f/ck.weir.tmp", open_mode::create_new));
          write_blocks(*f, 'b');
          if (synced) {
            or_throw(f->sync());
          }
          or_throw(fs.rename("f/ck.weir.tmp", "f/ck.weir"));
        },
        [](const disk& state) {
          return whole(state.at("f/ck.weir"), 'a') || whole(state.at("f/ck.weir"), 'b');
        });
    EXPECT_EQ(t.bad == 0, synced);
    const auto after = fs.crash_states(GetParam(), is_checkpoint);
    EXPECT_TRUE(std::any_of(after.begin(), after.end(), [](const disk& state) {
      return whole(state.at("f/ck.weir"), 'a');
    })) << "the old checkpoint may come back after a crash";
  }
}

// A failed sync drops the pending data, and a second sync succeeds without them. A writer
// must therefore not sync again and rename.
TEST_P(CrashStates, OfASecondSyncAfterAFailedOneAreTorn) {
  faulty_files fs({{"f/ck.weir", byte_vector(12, std::byte{'a'})}});
  bool failed = false;
  fs.fail = [&](std::size_t, op_kind kind) -> std::optional<error> {
    if (kind == op_kind::sync && !failed) {
      failed = true;
      return error(errc::io, "input/output error");
    }
    return std::nullopt;
  };
  const auto f = or_throw(fs.open("f/ck.weir.tmp", open_mode::create_new));
  write_blocks(*f, 'b');
  EXPECT_FALSE(f->sync());
  EXPECT_TRUE(f->sync());
  or_throw(fs.rename("f/ck.weir.tmp", "f/ck.weir"));
  or_throw(fs.sync_folder("f"));
  const auto after = fs.crash_states(GetParam(), is_checkpoint);
  EXPECT_TRUE(std::any_of(after.begin(), after.end(), [](const disk& state) {
    return !whole(state.at("f/ck.weir"), 'b');
  }));
}

TEST_P(CrashStates, AfterAFailedSaveStillLoadTheAcknowledgedCheckpoint) {
  // Each operation of a save fails in one of the rounds. The next save must succeed, and
  // no crash may lose what was acknowledged.
  std::size_t operations = 0;
  {
    const temp_folder folder;
    faulty_files fs;
    auto store = or_throw(checkpoint_store::open(fs, folder.path(), store_role::writer));
    or_throw(store.save(small_model(1).sections(), 1));
    operations = fs.operations();
    or_throw(store.save(small_model(2).sections(), 2));
    operations = fs.operations() - operations;
  }
  ASSERT_GT(operations, 20U);
  for (std::size_t k = 0; k < operations; ++k) {
    SCOPED_TRACE(k);
    const temp_folder folder;
    faulty_files fs;
    auto store = or_throw(checkpoint_store::open(fs, folder.path(), store_role::writer));
    const small_model one(1);
    const small_model two(2);
    const small_model three(3);
    or_throw(store.save(one.sections(), 1));
    const std::size_t failing = fs.operations() + k;
    fs.fail = [&](std::size_t number, op_kind) -> std::optional<error> {
      return number == failing ? std::optional(error(errc::io, "input/output error"))
                               : std::nullopt;
    };
    const auto second = store.save(two.sections(), 2);
    for (const disk& state : fs.crash_states(GetParam(), is_checkpoint)) {
      const std::uint64_t pulse = pulse_after(state, folder.path());
      ASSERT_TRUE(pulse == 2 || (pulse == 1 && !second)) << pulse;
    }
    ASSERT_TRUE(store.save(three.sections(), 3));
    for (const disk& state : fs.crash_states(GetParam(), is_checkpoint)) {
      ASSERT_EQ(pulse_after(state, folder.path()), 3U);
    }
  }
}
