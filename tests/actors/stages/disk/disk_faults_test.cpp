// SPDX-License-Identifier: Apache-2.0
/// @file
/// A source, a blocking stage and two sinks on the usual hosts, each on a thread of its
/// own, and each in a child process, on one disk that also holds the checkpoints. The
/// disk crashes at every instant, each operation fails once, and children are killed at
/// their operations: the resumed run makes the files of an undisturbed one.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <random>
#include <set>

#include "actors/runs/hosts/host_processes.hpp"
#include "actors/stages/disk/disk_stages.hpp"
#include "actors/stages/disk/served_disk.hpp"
#include "pipeline/support/random_pipeline.hpp"
#include "run/pipeline_run.hpp"
#include "support/case_count.hpp"
#include "support/faulty_files.hpp"
#include "support/temp_folder.hpp"
#include "weir/pipeline/run_here.hpp"

namespace weir::test {
namespace {

constexpr const char* input_path = "folder/in.tgm";
constexpr const char* first_path = "folder/first.tgm";
constexpr const char* second_path = "folder/second.tgm";
constexpr std::uint64_t items = 6;
constexpr const char* planted = "a planted failure";

/// Contents of both outputs.
using outputs = std::array<byte_vector, 2>;

outputs outputs_on(const disk& d) {
  const auto content = [&](const char* path) {
    const auto found = d.find(path);
    return found == d.end() ? byte_vector() : found->second;
  };
  return {content(first_path), content(second_path)};
}

/// Returns the disk before the run: it has the input, and the input is durable.
const disk& disk_before() {
  static const disk made = [] {
    faulty_files files;
    pipeline p("input");
    add_named<number_source>(p, "source", {items, 5}) >>
        add_disk_stage(p, "sink", files, disk_write, {{"path", input_path}});
    or_throw(flow::run_here(p, {}));
    return files.visible();
  }();
  return made;
}

/// The end of a run, and what it has said.
struct disk_run {
  result<pipeline_report> end;
  std::vector<std::string> warnings;
  std::uint64_t from = 0;   ///< generation from which it has continued
  std::uint64_t saved = 0;  ///< generation that it has made durable last
  /// Returns whether the end or a warning tells of the planted failure.
  [[nodiscard]] bool tells_failure() const {
    const auto tells = [](const std::string& text) {
      return text.find(planted) != std::string::npos;
    };
    return (!end && tells(end.error().message())) || std::ranges::any_of(warnings, tells);
  }
};

class DiskFaults
    : public testing::TestWithParam<std::pair<const char*, flow::host_kind>> {
 protected:
  static void build(pipeline& p, file_system& files, flow::host_kind host) {
    auto source = add_disk_stage(p, "source", files, disk_read,
                                 {{"path", input_path}, {"type", "u64[3]"}});
    auto sum = add_named<outside_sum>(p, "sum", {});
    auto scale = add_named<scaled>(p, "scaled", {});
    auto first = add_disk_stage(p, "first", files, disk_write, {{"path", first_path}});
    auto second = add_disk_stage(p, "second", files, disk_write, {{"path", second_path}});
    for (auto* one : {&source, &sum, &scale, &first, &second}) {
      one->host(host);
    }
    source >> sum >> first;
    source >> scale >> second;
  }
  /// Returns the outputs of a run on one thread.
  static const outputs& expected() {
    static const outputs made = [] {
      faulty_files files(disk_before());
      pipeline p("disk");
      build(p, files, flow::host_kind::automatic);
      or_throw(flow::run_here(p, {}));
      return outputs_on(files.visible());
    }();
    return made;
  }

  /// Begins a run or continues the one whose checkpoints the disk holds.
  disk_run run_on(faulty_files& files, const run_options& base = {}) {
    locked_files shared(files);
    shared_ = &shared;
    const served_disk server(shared, folder_ / "disk");
    disk_run out{error(errc::internal, "not begun"), {}};
    out.end = [&]() -> result<pipeline_report> {
      actors::run_origin origin;
      WEIR_TRY(auto store, actors::epoch_store::open(shared, folder_.path(), ""));
      origin.store = std::make_shared<actors::epoch_store>(std::move(store));
      WEIR_TRY(const bool empty, origin.store->empty());
      if (!empty) {
        WEIR_TRY(const auto newest, origin.store->read(base.generation));
        WEIR_TRY(auto stored, actors::epoch_in(newest));
        out.from = origin.generation = stored.generation;
        origin.from = std::make_shared<const flow::image>(std::move(stored.state));
      }
      origin.resuming = true;
      run_options options = base;
      options.every_items = 2;
      options.warning = [&](const std::string& text) { out.warnings.push_back(text); };
      pipeline p("disk");
      build(p, shared, GetParam().second);
      const auto kept = origin.store;
      auto end = actors::run_with_restarts(p, options, std::move(origin));
      out.saved = std::max(kept->generation(), out.from);
      return end;
    }();
    return out;
  }
  /// Continues the run on the disk that a crash or a failure has left.
  /// @param generation  Checkpoint to continue from; 0: the newest one.
  /// @param at_least    Smallest generation of the checkpoint.
  void expect_resumed(const disk& left, std::uint64_t generation = 0,
                      std::uint64_t at_least = 0) {
    faulty_files files(left);
    run_options options;
    options.generation = generation;
    const disk_run again = run_on(files, options);
    ASSERT_TRUE(again.end) << "from generation " << generation << ": "
                           << again.end.error().message();
    EXPECT_EQ(again.end->ended, "finished");
    EXPECT_GE(again.from, at_least) << "an epoch is lost";
    EXPECT_TRUE(outputs_on(files.visible()) == expected());
  }
  /// Continues the run from each checkpoint that is there.
  void expect_no_epoch_lost(const disk& left, const disk_run& done) {
    expect_resumed(left, 0, done.saved);
    faulty_files files(left);
    for (const std::string& name : or_throw(files.list(folder_.path()))) {
      std::uint64_t generation = 0;
      if (std::sscanf(name.c_str(), "ck-%" SCNu64 ".weir", &generation) == 1 &&
          name.ends_with(".weir")) {
        expect_resumed(left, generation);
      }
    }
  }
  /// Runs with a fault at operation `at` of the run and of the stages, and returns
  /// whether there was an operation of this number. The disk holds what the run has left.
  bool run_with(faulty_files& files, std::size_t at, std::optional<errc> code,
                disk_run& out) {
    std::optional<std::string> failed;
    files.fail = [&](std::size_t number, op_kind) -> std::optional<error> {
      files.max_bytes = SIZE_MAX;
      if (number != at) {
        return std::nullopt;
      }
      failed = shared_->current_path();
      if (code) {
        return error(*code, planted);
      }
      files.max_bytes = 5;
      return std::nullopt;
    };
    out = run_on(files);
    files.fail = nullptr;
    files.max_bytes = SIZE_MAX;
    failed_ = failed;
    return failed.has_value();
  }
  /// Returns some of the numbers before `count`, in a random order; all of them in
  /// `make soak`. @param usual  Cases of `make test`; fewer if stages are in children,
  /// which take long to start.
  static std::vector<std::size_t> some_below(std::size_t count, std::uint64_t usual) {
    usual = GetParam().second == flow::host_kind::process ? usual / 6 : usual;
    std::vector<std::size_t> all(count);
    std::iota(all.begin(), all.end(), 0);
    const std::uint64_t seed = number_or("WEIR_TEST_SEED", std::random_device()());
    const std::uint64_t tried = case_count("WEIR_TEST_DISK_FAULTS", usual, 2);
    std::printf("seed %" PRIu64 ", %" PRIu64 " of %zu cases\n", seed, tried, count);
    std::shuffle(all.begin(), all.end(), std::mt19937_64(seed));
    all.resize(std::min<std::size_t>(count, tried));
    return all;
  }
  /// Returns the number of operations of an undisturbed run.
  std::size_t operations() {
    faulty_files files(disk_before());
    const disk_run plain = run_on(files);
    EXPECT_TRUE(plain.end) << plain.end.error().message();
    EXPECT_TRUE(outputs_on(files.visible()) == expected());
    EXPECT_NE(expected()[0], expected()[1]);
    return files.operations();
  }

  temp_folder folder_;
  // Children make their file operations by the server in the folder.
  scoped_variable host_{"WEIR_STAGE_HOST", WEIR_DISK_HOST_PROGRAM};
  scoped_variable disk_{disk_variable, folder_ / "disk"};
  locked_files* shared_ = nullptr;     ///< the disk of the last run
  std::optional<std::string> failed_;  ///< path of the operation that has failed
};

// Sinks must be durable before the checkpoint that holds their offsets, and a checkpoint
// before older ones are removed, whichever thread or process does it.
TEST_P(DiskFaults, ResumeWithTheSameBytesBehindACrashAtEveryInstant) {
  for (const disk_model model : {disk_model::posix, disk_model::ext4}) {
    faulty_files files(disk_before());
    std::set<disk> found;
    std::size_t instants = 0;
    files.after_change = [&] {
      ++instants;
      found.merge(files.crash_states(model, [](const std::string& path) {
        return path.ends_with(".weir") || path.ends_with(".tgm");
      }));
    };
    const disk_run done = run_on(files);
    ASSERT_TRUE(done.end) << done.end.error().message();
    EXPECT_GE(instants, 40U);
    EXPECT_GE(found.size(), 20U);
    const std::vector<disk> states(found.begin(), found.end());
    for (const std::size_t one : some_below(states.size(), 60)) {
      SCOPED_TRACE(testing::Message() << "state " << one << " of " << states.size());
      expect_resumed(states[one]);
      if (HasFailure()) {
        return;
      }
    }
  }
}

TEST_P(DiskFaults, EndWithOneErrorIfAnOperationFailsAndLoseNoEpoch) {
  const std::size_t count = operations();
  EXPECT_GE(count, 60U);
  for (const std::size_t one : some_below(2 * count, 60)) {
    const errc code = one % 2 == 0 ? errc::no_space : errc::io;
    SCOPED_TRACE(testing::Message() << "operation " << one / 2 << " of " << count);
    faulty_files files(disk_before());
    disk_run done{error(errc::internal, "not begun"), {}};
    if (!run_with(files, one / 2, code, done)) {
      continue;  // the order of the operations varies, and with it their number
    }
    if (!done.end) {
      EXPECT_EQ(done.end.error().root().code(), code) << done.end.error().message();
      EXPECT_TRUE(done.tells_failure()) << done.end.error().message();
    } else {
      EXPECT_TRUE(outputs_on(files.visible()) == expected());
    }
    // An output that fails ends the run. A checkpoint may be left out, with a warning,
    // and a look at the input or at older checkpoints may be repeated or left out.
    const bool of_input = *failed_ == input_path;
    const bool of_checkpoints = failed_->starts_with(folder_.path());
    EXPECT_TRUE(!done.end || of_input || of_checkpoints) << *failed_;
    expect_no_epoch_lost(files.visible(), done);
    if (HasFailure()) {
      return;
    }
  }
}

TEST_P(DiskFaults, WriteTheSameBytesIfAnOperationIsShort) {
  const std::size_t count = operations();
  for (const std::size_t one : some_below(count, 30)) {
    SCOPED_TRACE(testing::Message() << "operation " << one << " of " << count);
    faulty_files files(disk_before());
    disk_run done{error(errc::internal, "not begun"), {}};
    run_with(files, one, std::nullopt, done);
    ASSERT_TRUE(done.end) << done.end.error().message();
    ASSERT_TRUE(outputs_on(files.visible()) == expected());
  }
  faulty_files files(disk_before());
  files.max_bytes = 7;  // every read and write is short
  const disk_run done = run_on(files);
  ASSERT_TRUE(done.end) << done.end.error().message();
  EXPECT_TRUE(outputs_on(files.visible()) == expected());
}

// The child dies before its operation or behind it; a write before which it dies is done
// by half, as the system does it for a process that is killed.
TEST_P(DiskFaults, ResumeWithTheSameBytesBehindAKillOfAChildAtItsOperation) {
  if (GetParam().second != flow::host_kind::process) {
    GTEST_SKIP() << "the stages are not in children";
  }
  std::size_t count = 0;
  {
    faulty_files files(disk_before());
    files.fail = [&](std::size_t, op_kind) -> std::optional<error> {
      count += served_disk::client() == 0 ? 0 : 1;
      return std::nullopt;
    };
    ASSERT_TRUE(run_on(files).end);
  }
  EXPECT_GE(count, 40U);
  std::size_t killed = 0;
  for (const std::size_t one : some_below(4 * count, 45)) {
    SCOPED_TRACE(testing::Message() << "case " << one << " of " << 4 * count);
    const bool behind = one % 2 == 0;
    const bool goes_back = one / 2 % 2 == 0;
    faulty_files files(disk_before());
    std::size_t of_children = 0;
    std::size_t kills = 0;
    files.fail = [&](std::size_t, op_kind) -> std::optional<error> {
      if (served_disk::client() == 0 || of_children++ != one / 4) {
        return std::nullopt;
      }
      ++kills;
      ::kill(served_disk::client(), SIGKILL);
      return behind ? std::nullopt : std::optional(error(errc::io, planted));
    };
    run_options options;
    options.restarts = goes_back ? 1 : 0;
    const disk_run done = run_on(files, options);
    killed += kills;
    files.fail = nullptr;
    if (kills == 0 || goes_back) {
      ASSERT_TRUE(done.end) << done.end.error().message();
      EXPECT_EQ(done.end->restarts, kills);
      EXPECT_TRUE(outputs_on(files.visible()) == expected());
    } else {
      ASSERT_FALSE(done.end);
      EXPECT_EQ(done.end.error().root().code(), errc::abandoned)
          << done.end.error().message();
    }
    expect_no_epoch_lost(files.visible(), done);
    if (HasFailure()) {
      return;
    }
  }
  EXPECT_NE(killed, 0U);
}

/// Reads the input on a disk and makes a checkpoint behind each item.
result<flow::here_report> read_on(faulty_files& files, memory_store& store, bool resume) {
  pipeline p("reads");
  add_disk_stage(p, "source", files, disk_read, {{"path", input_path}}) >>
      p.add("sink", "null");
  flow::here_options options;
  options.every_items = 1;
  options.store = &store;
  options.resume = resume;
  return flow::run_here(p, options);
}

/// Lets `length` operations fail one after another, from each operation of a run on.
/// Expects that the run can continue from all of its checkpoints, and returns their
/// number.
std::size_t continue_after_failures(std::size_t length) {
  std::size_t images = 0;
  for (std::size_t first = 0;; ++first) {
    SCOPED_TRACE(testing::Message()
                 << length << " operations fail from " << first << " on");
    faulty_files files(disk_before());
    files.fail = [&](std::size_t number, op_kind) {
      return number >= first && number < first + length
                 ? std::optional(error(errc::io, planted))
                 : std::nullopt;
    };
    memory_store all;
    const auto done = read_on(files, all, false);
    if (files.operations() <= first) {
      return images;
    }
    EXPECT_TRUE(done || done.error().root().code() == errc::io);
    files.fail = nullptr;
    for (const flow::image& one : all.images) {
      memory_store from;
      from.images.push_back(one);
      const auto again = read_on(files, from, true);
      EXPECT_TRUE(again) << "from item " << one.next_item << ": "
                         << again.error().message();
      ++images;
    }
    if (testing::Test::HasFailure()) {
      return images;
    }
  }
}

// The digest of the last message is computed when a checkpoint asks for the position,
// which cannot fail.
TEST(TgmRead, ContinuesFromEachCheckpointIfOneOperationHasFailed) {
  add_standard_stages();
  EXPECT_GE(continue_after_failures(1), 40U);
}

TEST(TgmRead, ContinuesFromEachCheckpointIfTheFileCouldNotBeReadForAWhile) {
  add_standard_stages();
  // A position tries to read three times.
  EXPECT_GE(continue_after_failures(3), 20U);
  EXPECT_GE(continue_after_failures(20), 20U);
}

INSTANTIATE_TEST_SUITE_P(Hosts, DiskFaults,
                         testing::Values(std::pair("usual", flow::host_kind::automatic),
                                         std::pair("own", flow::host_kind::own),
                                         std::pair("process", flow::host_kind::process)),
                         [](const auto& one) { return std::string(one.param.first); });

}  // namespace
}  // namespace weir::test
