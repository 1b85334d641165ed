// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests checkpoints that refer to an earlier generation for sections that have not
/// changed: which file is the base, which files stay, damage and crashes.
#include <gtest/gtest.h>

#include <set>

#include "storage/checkpoint_support.hpp"
#include "support/case_count.hpp"
#include "support/faulty_files.hpp"
#include "weir/base/philox.hpp"

using namespace weir;
using namespace weir::storage;
using namespace weir::test;
using store_role = checkpoint_store::role;
using file_names = std::vector<std::string>;

namespace {

constexpr std::uint64_t large = 3000;  ///< bytes of the section that rarely changes

/// A model with a large section whose bytes depend on `version` alone.
struct shared_model : small_model {
  shared_model(std::uint64_t at_pulse, std::uint64_t version)
      : small_model(at_pulse), frozen(large, static_cast<std::byte>(version)) {}
  [[nodiscard]] std::vector<checkpoint_section> all() const {
    std::vector<checkpoint_section> out = sections();
    // In the middle, so that the order of the sections is seen.
    out.insert(out.begin() + 2, {"PARAM/frozen", frozen, dtype::uint8, {3, 1000}});
    return out;
  }
  byte_vector frozen;
};

/// Opens a store in which sections of `large` bytes need not be written again.
checkpoint_store writer_of(file_system& fs, const std::string& folder) {
  auto store = or_throw(checkpoint_store::open(fs, folder, store_role::writer));
  store.refer_from(large);
  return store;
}

/// Checks the whole content of a checkpoint.
void expect_content(const checkpoint& found, const shared_model& expected) {
  const auto sections = expected.all();
  ASSERT_EQ(found.sections().size(), sections.size());
  for (std::size_t i = 0; i < sections.size(); ++i) {
    const auto& s = found.sections()[i];
    EXPECT_EQ(s.name, sections[i].name);
    EXPECT_TRUE(std::equal(s.data.begin(), s.data.end(), sections[i].data.begin(),
                           sections[i].data.end()))
        << s.name;
    EXPECT_EQ(s.digest, xxh3_64(sections[i].data)) << s.name;
  }
  EXPECT_EQ(found.cursor(), expected.cursor);
}

/// Returns the generations of the files that a checkpoint needs.
std::set<std::uint64_t> files_of(const checkpoint& one) {
  std::set<std::uint64_t> out = {one.header().generation};
  for (const auto& s : one.sections()) {
    out.insert(s.held_by);
  }
  return out;
}

std::string generation_name(std::uint64_t generation) {
  return "ck-" + std::to_string(generation) + ".weir";
}

}  // namespace

TEST(CheckpointBase, UnchangedSectionsAreWrittenTwiceAndThenReferredToInTurn) {
  const temp_folder folder;
  auto store = writer_of(posix_file_system(), folder.path());
  const std::vector<std::optional<std::uint64_t>> bases = {
      std::nullopt, std::nullopt, 1, 2, 1, 2, 1};
  for (std::uint64_t pulse = 1; pulse <= bases.size(); ++pulse) {
    SCOPED_TRACE(pulse);
    const shared_model model(pulse, 9);
    EXPECT_EQ(or_throw(store.save(model.all(), pulse)), pulse);
    const auto loaded = or_throw(store.load_newest());
    expect_content(loaded, model);
    EXPECT_EQ(loaded.base(), bases[pulse - 1]);
    EXPECT_EQ(or_throw(loaded.find("PARAM/frozen"))->held_by,
              bases[pulse - 1].value_or(pulse));
    EXPECT_EQ(or_throw(loaded.find("PARAM/w"))->held_by, pulse);
  }
  EXPECT_EQ(checkpoints_in(posix_file_system(), folder.path()),
            (file_names{"ck-1.weir", "ck-2.weir", "ck-6.weir", "ck-7.weir"}));
  const auto entries = or_throw(store.verify());
  ASSERT_EQ(entries.size(), 4U);
  EXPECT_EQ(entries[0].base, 1U);
  EXPECT_EQ(entries[1].base, 2U);
  EXPECT_FALSE(entries[2].base || entries[3].base);
  // A section takes a page, so the files without it are one page shorter.
  EXPECT_EQ(entries[2].bytes - entries[0].bytes, 4096U);
}

TEST(CheckpointBase, IsNotUsedForASmallPartOfTheState) {
  const temp_folder folder;
  auto store = writer_of(posix_file_system(), folder.path());
  for (std::uint64_t pulse = 1; pulse <= 4; ++pulse) {
    const shared_model model(pulse, 9);
    const byte_vector changed(4 * large, static_cast<std::byte>(pulse));
    auto sections = model.all();
    sections.push_back({"PARAM/changed", changed, dtype::uint8, {}});
    or_throw(store.save(sections, pulse));
    EXPECT_FALSE(or_throw(store.load_newest()).base());
  }
  EXPECT_EQ(checkpoints_in(posix_file_system(), folder.path()).size(), 2U);
}

TEST(CheckpointBase, IsNotUsedForSmallOrChangedSections) {
  const temp_folder folder;
  auto store = or_throw(
      checkpoint_store::open(posix_file_system(), folder.path(), store_role::writer));
  for (std::uint64_t pulse = 1; pulse <= 4; ++pulse) {
    or_throw(store.save(shared_model(pulse, 9).all(), pulse));
    EXPECT_FALSE(or_throw(store.load_newest()).base()) << "below 65536 bytes";
  }
  store.refer_from(large);
  for (std::uint64_t pulse = 5; pulse <= 8; ++pulse) {
    or_throw(store.save(shared_model(pulse, pulse).all(), pulse));
    EXPECT_FALSE(or_throw(store.load_newest()).base()) << "other bytes";
  }
  EXPECT_EQ(checkpoints_in(posix_file_system(), folder.path()),
            (file_names{"ck-7.weir", "ck-8.weir"}));
}

// Random histories: the large section changes now and then, and the writer is opened
// again now and then. After each save, any one file may be lost or damaged, and one of
// the two newest generations still loads with its content.
TEST(CheckpointBase, TheTwoNewestGenerationsNeverNeedTheSameFile) {
  file_system& fs = posix_file_system();
  std::size_t shared = 0;
  const std::uint64_t seeds = case_count("WEIR_TEST_CHECKPOINTS", 6);
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const philox random(seed, 0);
    const temp_folder folder;
    std::optional<checkpoint_store> store = writer_of(fs, folder.path());
    std::map<std::uint64_t, std::uint64_t> versions;  // by pulse
    std::uint64_t version = 1;
    for (std::uint64_t pulse = 1; pulse <= 14; ++pulse) {
      SCOPED_TRACE(pulse);
      version += random.uniform(2 * pulse) < 0.25F ? 1U : 0U;
      if (random.uniform(2 * pulse + 1) < 0.2F) {
        store.reset();
        store = writer_of(fs, folder.path());
      }
      versions[pulse] = version;
      or_throw(store->save(shared_model(pulse, version).all(), pulse));
      const auto newest = or_throw(store->load_newest());
      expect_content(newest, shared_model(pulse, version));
      shared += newest.base() ? 1U : 0U;
      if (pulse == 1) {
        continue;
      }
      const auto before =
          or_throw(store->load(join_path(folder.path(), generation_name(pulse - 1))));
      expect_content(before, shared_model(pulse - 1, versions[pulse - 1]));
      for (const std::uint64_t file : files_of(newest)) {
        EXPECT_FALSE(files_of(before).contains(file)) << "both need " << file;
      }
      // Four files at most: the two newest, and a base of each.
      EXPECT_LE(checkpoints_in(fs, folder.path()).size(), 4U);
    }
  }
  EXPECT_GE(shared, 2 * seeds);
}

TEST(CheckpointBase, AnyFlippedByteOfTheFileOrItsBaseIsAnError) {
  const temp_folder folder;
  auto store = writer_of(posix_file_system(), folder.path());
  for (std::uint64_t pulse = 1; pulse <= 3; ++pulse) {
    or_throw(store.save(shared_model(pulse, 9).all(), pulse));
  }
  const std::string path = folder / "ck-3.weir";
  for (const std::string& damaged : {path, std::string(folder / "ck-1.weir")}) {
    const byte_vector bytes = bytes_of(damaged);
    const auto f = or_throw(posix_file_system().open(damaged, open_mode::read_write));
    for (std::size_t offset = 0; offset < bytes.size(); offset += 3 * case_step()) {
      const std::byte flipped = bytes[offset] ^ static_cast<std::byte>(1U << offset % 8);
      or_throw(write_all(*f, offset, std::span(&flipped, 1)));
      const auto r = load_checkpoint(posix_file_system(), path);
      ASSERT_FALSE(r) << damaged << ":" << offset;
      ASSERT_EQ(r.error().root().location().rfind(damaged, 0), 0U)
          << offset << ": " << r.error().message();
      or_throw(write_all(*f, offset, bytes_view(bytes).subspan(offset, 1)));
    }
    EXPECT_TRUE(load_checkpoint(posix_file_system(), path));
  }
}

TEST(CheckpointBase, ThatIsMissingOrAnotherOneIsNamed) {
  const temp_folder folder;
  file_system& fs = posix_file_system();
  auto store = writer_of(fs, folder.path());
  for (std::uint64_t pulse = 1; pulse <= 3; ++pulse) {
    or_throw(store.save(shared_model(pulse, 9).all(), pulse));
  }
  const std::string path = folder / "ck-3.weir";
  const byte_vector base = bytes_of(folder / "ck-1.weir");
  or_throw(fs.remove(folder / "ck-1.weir"));
  const auto missing = load_checkpoint(fs, path);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), errc::not_found);
  EXPECT_EQ(missing.error().text(), "cannot read checkpoint: " + path +
                                        " refers to generation 1, expected \"" +
                                        (folder / "ck-1.weir") + "\", found no file");
  // The generation before is whole without it.
  EXPECT_EQ(or_throw(store.load_newest()).header().generation, 2U);
  // A valid file of another content in its place.
  replace(folder / "ck-1.weir", bytes_of(folder / "ck-2.weir"));
  const auto other = load_checkpoint(fs, path);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code(), errc::corrupt);
  EXPECT_NE(other.error().text().find("found generation 2"), std::string::npos);
  replace(folder / "ck-1.weir", base);
  EXPECT_TRUE(load_checkpoint(fs, path));
}

// A reader looks for a base under the name of its generation.
TEST(CheckpointBase, ThatWasRenamedIsNotReferredTo) {
  const temp_folder folder;
  file_system& fs = posix_file_system();
  {
    auto store = writer_of(fs, folder.path());
    or_throw(store.save(shared_model(1, 9).all(), 1));
  }
  or_throw(fs.rename(folder / "ck-1.weir", folder / "ck-7.weir"));
  auto store = writer_of(fs, folder.path());
  for (std::uint64_t pulse = 8; pulse <= 11; ++pulse) {
    SCOPED_TRACE(pulse);
    const shared_model model(pulse, 9);
    EXPECT_EQ(or_throw(store.save(model.all(), pulse)), pulse);
    const auto loaded = or_throw(store.load_newest());
    EXPECT_NE(loaded.base(), 1U);
    expect_content(loaded, model);
  }
}

TEST(CheckpointBase, ThatWasDamagedIsNotReferredToAgain) {
  const temp_folder folder;
  file_system& fs = posix_file_system();
  auto store = writer_of(fs, folder.path());
  for (std::uint64_t pulse = 1; pulse <= 4; ++pulse) {
    or_throw(store.save(shared_model(pulse, 9).all(), pulse));
  }
  // Generation 5 would refer to generation 1.
  byte_vector bytes = bytes_of(folder / "ck-1.weir");
  bytes[bytes.size() / 2] ^= std::byte{1};
  replace(folder / "ck-1.weir", bytes);
  or_throw(store.save(shared_model(5, 9).all(), 5));
  const auto newest = or_throw(store.load_newest());
  EXPECT_EQ(newest.header().generation, 5U);
  EXPECT_NE(newest.base(), 1U);
  expect_content(newest, shared_model(5, 9));
}

TEST(CheckpointBase, GoingBackLeavesWhatAnOlderGenerationRefersTo) {
  const temp_folder folder;
  file_system& fs = posix_file_system();
  auto store = writer_of(fs, folder.path());
  for (std::uint64_t pulse = 1; pulse <= 6; ++pulse) {
    or_throw(store.save(shared_model(pulse, 9).all(), pulse));
  }
  or_throw(store.remove_newer(5));
  EXPECT_EQ(or_throw(store.load_newest()).base(), 1U);
  or_throw(store.save(shared_model(7, 9).all(), 7));
  expect_content(or_throw(store.load_newest()), shared_model(7, 9));
  or_throw(store.remove_newer(1));
  expect_content(or_throw(store.load_newest()), shared_model(1, 9));
  or_throw(store.save(shared_model(8, 9).all(), 8));
  expect_content(or_throw(store.load_newest()), shared_model(8, 9));
}

class CheckpointBaseCrash : public ::testing::TestWithParam<disk_model> {};
INSTANTIATE_TEST_SUITE_P(Models, CheckpointBaseCrash,
                         ::testing::Values(disk_model::posix, disk_model::ext4),
                         [](const auto& p) {
                           return p.param == disk_model::posix ? "posix" : "ext4";
                         });

// The large section stays the same over six saves and changes at the seventh, so that the
// saves write whole files, refer to them, and give them up. After every operation a crash
// leaves the generation before or the new one, with all of its content.
TEST_P(CheckpointBaseCrash, LeavesTheOldOrTheNewGenerationWithItsBase) {
  const temp_folder folder;
  faulty_files fs;
  auto store = writer_of(fs, folder.path());
  const auto version = [](std::uint64_t pulse) { return pulse < 7 ? 1U : 2U; };
  std::uint64_t acknowledged = 0;
  std::size_t states = 0;
  const auto look = [&](std::uint64_t writing) {
    const auto matters = [](const std::string& path) { return path.ends_with(".weir"); };
    for (const disk& state : fs.crash_states(GetParam(), matters)) {
      ++states;
      faulty_files after(state);
      auto reader = or_throw(checkpoint_store::open(after, folder.path()));
      const auto loaded = reader.load_newest();
      const std::uint64_t pulse = loaded ? loaded->header().pulse_id : 0;
      ASSERT_TRUE(pulse == acknowledged || pulse == writing) << pulse;
      if (loaded) {
        expect_content(*loaded, shared_model(pulse, version(pulse)));
      }
    }
  };
  for (std::uint64_t pulse = 1; pulse <= 8; ++pulse) {
    SCOPED_TRACE(pulse);
    fs.after_change = [&] { look(pulse); };
    or_throw(store.save(shared_model(pulse, version(pulse)).all(), pulse));
    fs.after_change = nullptr;
    acknowledged = pulse;
    look(pulse);
  }
  EXPECT_GT(states, 200U);
}

TEST(CheckpointBase, AnyOperationMayFailOnceAndTheNextSaveSucceeds) {
  const auto saves = [](checkpoint_store& store, std::uint64_t last) {
    for (std::uint64_t pulse = 1; pulse <= last; ++pulse) {
      or_throw(store.save(shared_model(pulse, 9).all(), pulse));
    }
  };
  const temp_folder folder;
  std::size_t operations = 0;
  {
    faulty_files fs;
    auto store = writer_of(fs, folder.path());
    saves(store, 3);
    const std::size_t before = fs.operations();
    or_throw(store.save(shared_model(4, 9).all(), 4));
    operations = fs.operations() - before;
  }
  std::size_t refused = 0;
  for (std::size_t k = 0; k < operations; ++k) {
    SCOPED_TRACE(k);
    faulty_files fs;
    auto store = writer_of(fs, folder.path());
    saves(store, 3);
    const std::size_t failing = fs.operations() + k;
    fs.fail = [&](std::size_t number, op_kind) -> std::optional<error> {
      return number == failing ? std::optional(error(errc::io, "cannot")) : std::nullopt;
    };
    const bool saved = store.save(shared_model(4, 9).all(), 4).has_value();
    refused += saved ? 0U : 1U;
    const std::uint64_t found = or_throw(store.load_newest()).header().pulse_id;
    ASSERT_TRUE(found == 4 || (!saved && found == 3)) << found;
    or_throw(store.save(shared_model(5, 9).all(), 5));
    expect_content(or_throw(store.load_newest()), shared_model(5, 9));
  }
  EXPECT_GT(refused, operations / 3);
}
