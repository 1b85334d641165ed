// SPDX-License-Identifier: Apache-2.0
/// @file
/// Asks six things of every stage that comes with Weir: an empty input, one item, the
/// largest item, a wrong type, a full disk, and a resume from every checkpoint.
///
/// The disk is full at once, or when half of the output is written; in the second case
/// the run then goes on from its last checkpoint.
///
/// The largest item is the one of the size that a setting of the stage allows. Where no
/// setting limits it, the window of an outlet whose type is not fixed does, and nothing
/// else.
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <map>

#include "stages/table/stage_table.hpp"

namespace weir::test {
namespace {

namespace paths = std::filesystem;

/// Content of files by their names. A volume is compared by the tags that it holds, since
/// a resumed run may use its free blocks in another order.
using files_by_name = std::map<std::string, byte_vector>;

/// A folder in which a stage is tried.
class trial_folder {
 public:
  trial_folder(const stage_entry& entry, int items, int extent) : entry_(entry) {
    trial.folder = folder_.path();
    trial.items = items;
    trial.extent = extent;
    paths::create_directory(trial.folder + "/out");
    if (entry.prepare) {
      entry.prepare(trial);
    }
  }
  [[nodiscard]] file_builder building() const {
    return [this](pipeline& p) { entry_.build(p, trial); };
  }
  /// Runs what is asked with everything that must go on beside it.
  template <class Function>
  auto beside(bool resuming, const Function& run) const {
    std::thread other = entry_.beside ? entry_.beside(trial, resuming) : std::thread();
    auto done = run();
    if (other.joinable()) {
      other.join();
    }
    return done;
  }
  [[nodiscard]] result<flow::here_report> run() const {
    return beside(false, [&] { return run_files(building()); });
  }
  /// Returns the size of the largest file of the output.
  [[nodiscard]] std::uintmax_t largest_file() const {
    std::uintmax_t bytes = 0;
    for (const auto& one : paths::recursive_directory_iterator(trial.folder + "/out")) {
      bytes = std::max(bytes, one.is_regular_file() ? one.file_size() : 0);
    }
    return bytes;
  }
  [[nodiscard]] files_by_name output() const {
    files_by_name all;
    for (const auto& one : paths::recursive_directory_iterator(trial.folder + "/out")) {
      if (one.is_regular_file() && one.path().extension() != ".hn4") {
        all[one.path().string().substr(trial.folder.size())] = content_of(one.path());
      } else if (one.path().extension() == ".hn4") {
        all[one.path().filename()] = tags_of(one.path());
      }
    }
    return all;
  }

  /// Removes all output.
  void clear() const {
    paths::remove_all(trial.folder + "/out");
    paths::create_directory(trial.folder + "/out");
  }

  stage_trial trial;

 private:
  static byte_vector tags_of(const std::string& path) {
    std::vector<tape> tapes(1);
    pipeline p("tags");
    add_stage(p, "source", "hn4.tensors", {{"path", path}}) >>
        add_recorder(p, "sink", tapes[0]);
    byte_vector all;
    static_cast<void>(flow::run_here(p, {}));
    for (const recorded& one : tapes[0]) {
      append(all, one.data);
    }
    return all;
  }
  const stage_entry& entry_;
  temp_folder folder_;
};

/// Limits the size of all files as long as it lives, as a full disk does.
class limited_files {
 public:
  explicit limited_files(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  limited_files(const limited_files&) = delete;
  limited_files& operator=(const limited_files&) = delete;
  ~limited_files() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

TEST(EveryStage, IsInTheTable) {
  add_standard_stages();
  std::vector<std::string> tested;
  for (const stage_entry& entry : stage_table()) {
    tested.push_back(entry.stage);
  }
  std::vector<std::string> known = flow::stages().names();
  std::erase_if(known, [](const std::string& name) { return name.starts_with("test."); });
  EXPECT_EQ(tested, known);
}

/// Runs the pipeline of an entry in which its stage gets no item, and expects that it got
/// none.
result<flow::here_report> run_without_items(const stage_entry& entry,
                                            const trial_folder& folder) {
  pipeline p("test");
  entry.empty(p, folder.trial);
  WEIR_TRY(const flow::plan plan, p.check());
  WEIR_TRY(flow::here_report done, flow::run_here(p, {}));
  std::size_t found = 0;
  for (std::size_t i = 0; i < plan.source.stages.size(); ++i) {
    if (plan.source.stages[i].info.name == entry.stage) {
      EXPECT_EQ(done.counters.stages[i].items, 0U);
      EXPECT_EQ(done.counters.stages[i].emitted, 0U);
      ++found;
    }
  }
  EXPECT_EQ(found, 1U);
  EXPECT_GT(done.items, 0U);
  return done;
}

TEST(EveryStage, ProcessesAnEmptyInputOrSaysWhyNot) {
  for (const stage_entry& entry : stage_table()) {
    SCOPED_TRACE(entry.stage);
    const trial_folder folder(entry, entry.empty ? 3 : 0, 4);
    const auto done = entry.empty ? run_without_items(entry, folder) : folder.run();
    if (entry.empty_refusal.empty()) {
      EXPECT_TRUE(done) << done.error().message();
    } else {
      expect_error(done, entry.empty_code, entry.empty_refusal);
    }
  }
}

TEST(EveryStage, ProcessesOneItemAndALargeOne) {
  for (const stage_entry& entry : stage_table()) {
    for (const int extent : {4, 1 << 18}) {  // 1 MiB of f32
      if (entry.stage == "unbatch" && extent > 4096) {
        continue;  // an item has at most 4096 parts
      }
      const trial_folder folder(entry, 1, extent);
      const auto done = folder.run();
      ASSERT_TRUE(done) << entry.stage << ": " << done.error().message();
    }
  }
}

/// Returns the bytes of an item that was refused because its window has fewer; 0 for
/// another error.
std::int64_t refused_bytes(const error& e) {
  const std::string text = e.message();
  const std::size_t found = text.rfind(", found ");
  return text.find("a window of more bytes") == std::string::npos ||
                 found == std::string::npos
             ? 0
             : std::stoll(text.substr(found + 8));
}

// An item whose size is known before the run passes alone. An outlet of another type has
// the memory of its window, which is then the size of its largest item.
TEST(EveryStage, ProcessesAnItemOfTheBytesOfItsWindowAndLargerOnesOfAFixedSize) {
  std::signal(SIGPIPE, SIG_IGN);  // of the writer beside the stage log
  std::size_t passed = 0;
  std::size_t refused = 0;
  for (const stage_entry& entry : stage_table()) {
    trial_folder folder(entry, 3, entry.stage == "unbatch" ? 4096 : 1 << 14);
    const auto expected = folder.run();
    ASSERT_TRUE(expected) << entry.stage << ": " << expected.error().message();
    const files_by_name output = folder.output();
    folder.clear();
    folder.trial.window_bytes = 1;
    auto done = folder.run();
    ++(done ? passed : refused);
    for (int tries = 0; !done && tries < 100; ++tries) {
      folder.clear();
      const std::int64_t bytes = refused_bytes(done.error());
      ASSERT_GT(bytes, folder.trial.window_bytes)
          << entry.stage << ": " << done.error().message();
      folder.trial.window_bytes = bytes;
      done = folder.run();
    }
    ASSERT_TRUE(done) << entry.stage << ": " << done.error().message();
    EXPECT_TRUE(folder.output() == output) << entry.stage;
    EXPECT_EQ(done->items, expected->items) << entry.stage;
  }
  EXPECT_GT(passed, 15U);
  EXPECT_GT(refused, 5U);
}

// With a limit that is smaller by one, the item is refused, left out, or divided.
TEST(EveryStage, ProcessesTheLargestItemThatItsSettingAllows) {
  std::signal(SIGPIPE, SIG_IGN);  // of the writer beside the stage log
  std::vector<std::string> tried;
  for (const stage_entry& entry : stage_table()) {
    if (!entry.needed) {
      continue;
    }
    tried.push_back(entry.stage);
    trial_folder folder(entry, entry.limited_items, entry.limited_items == 1 ? 4096 : 4);
    folder.trial.limit = entry.needed(folder.trial);
    const auto done = folder.run();
    ASSERT_TRUE(done) << entry.stage << ": " << done.error().message();
    const files_by_name largest = folder.output();
    EXPECT_FALSE(largest.empty()) << entry.stage;
    folder.clear();
    --folder.trial.limit;
    if (const auto refused = folder.run(); refused) {
      EXPECT_FALSE(folder.output() == largest) << entry.stage;
    } else {
      EXPECT_NE(refused.error().message().find("expected"), std::string::npos)
          << entry.stage << ": " << refused.error().message();
    }
  }
  EXPECT_EQ(tried,
            (std::vector<std::string>{"batch", "hn4.read", "json.read", "log", "npy.read",
                                      "png.read", "prose.learn", "raw.read", "reduce",
                                      "text.chunks", "unbatch", "window"}));
}

/// Stages that take items of every type, and why.
const std::map<std::string, std::string>& any_type_reasons() {
  static const std::map<std::string, std::string> all{
      {"deadline", "it hands items on and looks at their attributes alone"},
      {"null", "it counts items"},
      {"raw.write", "it writes the bytes of the elements, of which every item has some"},
      {"select", "it hands items on by their number or an attribute"},
      {"split", "it hands items on by an attribute"},
      {"tgm.replace", "messages have objects of every type"}};
  return all;
}

TEST(EveryStage, RefusesAWrongTypeAndNamesBoth) {
  for (const stage_entry& entry : stage_table()) {
    SCOPED_TRACE(entry.stage);
    ASSERT_NE(static_cast<bool>(entry.wrong), any_type_reasons().contains(entry.stage))
        << "expected a wrong type, or a reason why the stage takes every type";
    if (!entry.wrong) {
      continue;
    }
    const trial_folder folder(entry, 2, 4);
    pipeline p("test");
    entry.wrong(p, folder.trial);
    const auto done = flow::run_here(p, {});
    ASSERT_FALSE(entry.refusal.empty());
    for (const std::string& part : entry.refusal) {
      expect_error(done, entry.refusal_code, part);
    }
  }
}

TEST(EveryStage, ProcessesAnotherTypeWhereItTakesEveryType) {
  std::size_t tried = 0;
  for (const stage_entry& entry : stage_table()) {
    if (any_type_reasons().contains(entry.stage)) {
      trial_folder folder(entry, 2, 4);
      folder.trial.other_type = true;
      const auto done = folder.run();
      ASSERT_TRUE(done) << entry.stage << ": " << done.error().message();
      EXPECT_EQ(done->items, 2U) << entry.stage;
      ++tried;
    }
  }
  EXPECT_EQ(tried, any_type_reasons().size());
}

TEST(EveryStage, FailsOnAFullDiskAndIsCompleteOnceThereIsSpace) {
  std::signal(SIGPIPE, SIG_IGN);  // of the writer beside the stage log
  for (const stage_entry& entry : stage_table()) {
    if (!entry.writes) {
      continue;
    }
    const trial_folder folder(entry, 40, 4);
    const auto first = folder.run();
    ASSERT_TRUE(first) << entry.stage << ": " << first.error().message();
    const files_by_name expected = folder.output();
    folder.clear();
    {
      const limited_files limit(10);
      const auto failed = folder.run();
      ASSERT_FALSE(failed) << entry.stage;
      const errc code = failed.error().root().code();
      EXPECT_TRUE(code == errc::io || code == errc::no_space)
          << entry.stage << ": " << failed.error().message();
      EXPECT_NE(failed.error().message().find(folder.trial.folder), std::string::npos)
          << entry.stage << ": " << failed.error().message();
    }
    const auto done = folder.run();
    ASSERT_TRUE(done) << entry.stage << ": " << done.error().message();
    EXPECT_TRUE(folder.output() == expected) << entry.stage;
  }
}

/// Runs the pipeline of a stage with a checkpoint behind every fourth item, or continues
/// it from the last one.
result<flow::here_report> run_with_checkpoints(const trial_folder& folder,
                                               memory_store& store) {
  flow::here_options options;
  options.every_items = 4;
  options.store = &store;
  options.resume = !store.images.empty();
  return folder.beside(options.resume,
                       [&] { return run_files(folder.building(), options); });
}

TEST(EveryStage, ContinuesAfterTheDiskWasFullInTheMiddle) {
  std::signal(SIGPIPE, SIG_IGN);  // of the writer beside the stage log
  std::vector<std::string> begun_again;
  for (const stage_entry& entry : stage_table()) {
    if (!entry.writes) {
      continue;
    }
    SCOPED_TRACE(entry.stage);
    const trial_folder folder(entry, 40, 4);
    const auto first = folder.run();
    ASSERT_TRUE(first) << first.error().message();
    const files_by_name expected = folder.output();
    const rlim_t half = folder.largest_file() / 2;
    folder.clear();
    memory_store store;
    {
      const limited_files limit(half);
      const auto failed = run_with_checkpoints(folder, store);
      ASSERT_FALSE(failed);
      const errc code = failed.error().root().code();
      EXPECT_TRUE(code == errc::io || code == errc::no_space) << failed.error().message();
      EXPECT_NE(failed.error().message().find(folder.trial.folder), std::string::npos)
          << failed.error().message();
    }
    if (entry.beside) {  // a writer that has sent everything sends nothing again
      store.images.clear();
      folder.clear();
    }
    if (store.images.empty()) {
      begun_again.push_back(entry.stage);
    }
    const auto done = run_with_checkpoints(folder, store);
    ASSERT_TRUE(done) << done.error().message();
    EXPECT_TRUE(folder.output() == expected);
  }
  // Nothing is durable before the disk is full where a file belongs to an item or is made
  // as a whole, as a volume is, and where there is one item. The writer of the log sends
  // nothing twice.
  EXPECT_EQ(begun_again,
            (std::vector<std::string>{"hn4.put", "hn4.tensors", "log", "png.write",
                                      "raw.write", "tgm.replace"}));
}

TEST(EveryStage, ContinuesFromEveryCheckpointWithTheSameOutput) {
  for (const stage_entry& entry : stage_table()) {
    const trial_folder folder(entry, 7, 4);
    const auto images =
        folder.beside(false, [&] { return images_of(folder.building(), 1); });
    const files_by_name expected = folder.output();
    std::size_t resumed = 0;
    for (const flow::image& image : images) {
      if (image.finished) {
        continue;
      }
      const auto done =
          folder.beside(true, [&] { return resume_files(folder.building(), image); });
      ASSERT_TRUE(done) << entry.stage << ": " << done.error().message();
      EXPECT_TRUE(folder.output() == expected) << entry.stage << " " << image.next_item;
      ++resumed;
    }
    EXPECT_GE(resumed, entry.stage == "hn4.tensors" ? 1U : 2U) << entry.stage;
  }
}

}  // namespace
}  // namespace weir::test
