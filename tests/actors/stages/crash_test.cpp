// SPDX-License-Identifier: Apache-2.0
/// @file
/// Two sinks tgm.write on a disk that crashes at every instant: whatever a crash leaves,
/// the resumed run makes the files of a run without a crash.
#include <array>
#include <map>
#include <memory>

#include "epochs/epoch_store.hpp"
#include "stages/factories.hpp"
#include "stages/file_runs.hpp"
#include "support/faulty_files.hpp"

namespace weir::test {
namespace {

constexpr const char* first_path = "folder/first.tgm";
constexpr const char* second_path = "folder/second.tgm";

/// Makes a sink that writes messages to a file of a file system.
result<flow::described_stage> sink_on(file_system& fs, const std::string& file) {
  flow::described_stage made;
  WEIR_CHECK(actors::make_tgm_write(made, {{"path", file}}, fs));
  return made;
}

/// Writes six items, and twice each of them, to two files of a file system.
file_builder writing_to(file_system& fs) {
  return [&fs](pipeline& p) {
    auto source = add_stage(p, "source", "generator", {{"count", 6}, {"element", "u16"}});
    source >> p.add_made("first", sink_on(fs, first_path));
    source >> add_stage(p, "twice", "elementwise",
                        {{"type", "u16[n]"}, {"op", "multiply"}, {"operand", 2}}) >>
        p.add_made("second", sink_on(fs, second_path));
  };
}

/// Returns the content of both files.
std::array<byte_vector, 2> both(const disk& d) {
  const auto content = [&](const char* path) {
    const auto found = d.find(path);
    return found == d.end() ? byte_vector() : found->second;
  };
  return {content(first_path), content(second_path)};
}

/// Continues a run on the disk that a crash has left and returns the files.
std::array<byte_vector, 2> after_crash(const disk& left,
                                       const std::vector<flow::image>& images) {
  faulty_files files(left);
  const auto done = images.empty() ? run_files(writing_to(files))
                                   : resume_files(writing_to(files), images.back());
  EXPECT_TRUE(done) << done.error().message();
  return both(files.visible());
}

TEST(TgmWrite, TwoOfARunSurviveACrashAtEveryInstant) {
  faulty_files plain;
  ASSERT_TRUE(run_files(writing_to(plain)));
  const auto expected = both(plain.visible());
  ASSERT_NE(expected[0], expected[1]);
  for (const disk_model model : {disk_model::posix, disk_model::ext4}) {
    faulty_files files;
    memory_store store;
    std::size_t crashes = 0;
    std::size_t wrong = 0;
    files.after_change = [&] {
      for (const disk& left :
           files.crash_states(model, [](const std::string&) { return true; })) {
        ++crashes;
        wrong += after_crash(left, store.images) == expected ? 0 : 1;
      }
    };
    flow::here_options options;
    options.every_items = 2;
    options.store = &store;
    const auto done = run_files(writing_to(files), options);
    ASSERT_TRUE(done) << done.error().message();
    EXPECT_EQ(wrong, 0U) << "of " << crashes;
    EXPECT_GE(crashes, 40U);
  }
}

/// Returns the options of a run with a checkpoint behind every second item.
flow::here_options options_with(flow::image_store& store) {
  flow::here_options options;
  options.every_items = 2;
  options.store = &store;
  return options;
}

/// Returns the newest checkpoint that a disk holds; nothing if it holds none.
std::optional<flow::image> newest_on(const disk& left, const std::string& folder) {
  faulty_files files(left);
  auto store = or_throw(storage::checkpoint_store::open(files, folder));
  const auto newest = store.load_newest();
  if (!newest) {
    EXPECT_EQ(newest.error().code(), errc::not_found) << newest.error().message();
    return std::nullopt;
  }
  return or_throw(actors::epoch_in(*newest)).state;
}

/// Continues a run whose checkpoints are on the disk, too, and returns the files.
std::array<byte_vector, 2> after_crash_of_all(const disk& left,
                                              const std::string& folder) {
  const auto newest = newest_on(left, folder);
  return after_crash(left, newest ? std::vector{*newest} : std::vector<flow::image>());
}

/// Opens checkpoints in a file system. Their lock is in a folder of the real disk.
actors::epoch_store checkpoints_on(file_system& files, const std::string& folder) {
  return or_throw(actors::epoch_store::open(files, folder, ""));
}

// Sinks must be durable before the checkpoint that holds their offsets, and a checkpoint
// before older ones are removed.
TEST(TgmWrite, AndTheCheckpointsOfTheRunSurviveACrashOfOneDisk) {
  faulty_files plain;
  ASSERT_TRUE(run_files(writing_to(plain)));
  const auto expected = both(plain.visible());
  for (const disk_model model : {disk_model::posix, disk_model::ext4}) {
    const temp_folder folder;
    faulty_files files;
    auto store = checkpoints_on(files, folder.path());
    std::map<disk, bool> judged;
    std::size_t wrong = 0;
    std::size_t with_checkpoint = 0;
    files.after_change = [&] {
      for (const disk& left : files.crash_states(model, [](const std::string& path) {
             return path.ends_with(".weir") || path.ends_with(".tgm");
           })) {
        if (judged.contains(left)) {
          continue;
        }
        const bool equal = after_crash_of_all(left, folder.path()) == expected;
        judged.emplace(left, equal);
        wrong += equal ? 0 : 1;
        with_checkpoint += newest_on(left, folder.path()) ? 1 : 0;
      }
    };
    const auto done = run_files(writing_to(files), options_with(store));
    ASSERT_TRUE(done) << done.error().message();
    EXPECT_EQ(wrong, 0U) << "of " << judged.size();
    EXPECT_GE(judged.size(), 40U);
    EXPECT_GE(with_checkpoint, 20U);
  }
}

TEST(TgmWrite, EndsWithOneErrorIfAnOperationFails) {
  faulty_files plain;
  ASSERT_TRUE(run_files(writing_to(plain)));
  const auto expected = both(plain.visible());
  std::size_t operations = 0;
  {
    const temp_folder folder;
    faulty_files files;
    auto store = checkpoints_on(files, folder.path());
    files.max_bytes = 7;  // every read and write is short
    ASSERT_TRUE(run_files(writing_to(files), options_with(store)));
    EXPECT_EQ(both(files.visible()), expected);
    operations = files.operations();
  }
  std::size_t failures = 0;
  std::size_t tried = 0;
  for (const errc code : {errc::no_space, errc::io}) {
    for (std::size_t failing = 0; failing < operations; ++failing) {
      const temp_folder folder;
      faulty_files files;
      auto store = checkpoints_on(files, folder.path());
      const std::size_t first = files.operations();
      files.fail = [&](std::size_t number, op_kind) {
        return number == first + failing ? std::optional(error(code, "a planted failure"))
                                         : std::nullopt;
      };
      const auto done = run_files(writing_to(files), options_with(store));
      if (files.operations() <= first + failing) {
        break;  // no operation of the run has that number
      }
      ++tried;
      if (!done) {
        ++failures;
        expect_error(done, code, "a planted failure");
      }
      files.fail = nullptr;
      EXPECT_EQ(after_crash_of_all(files.visible(), folder.path()), expected)
          << "operation " << failing;
    }
  }
  // Only operations that remove older checkpoints may fail without an error.
  EXPECT_GE(tried, 60U);
  EXPECT_GT(failures, tried * 3 / 4);
}

}  // namespace
}  // namespace weir::test
