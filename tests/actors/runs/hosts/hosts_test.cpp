// SPDX-License-Identifier: Apache-2.0
/// @file
/// Pipelines whose stages work on hosts of their own and in child processes: the files of
/// their sinks, checkpoints that pass from one kind of host to another, and children that
/// are killed. `child_mistakes_test` has children that do not keep to the wire.
#include <gtest/gtest.h>
#include <signal.h>  // NOLINT: the functions are those of POSIX

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <thread>

#include <fmt/format.h>

#include "actors/runs/hosts/host_processes.hpp"
#include "epochs/epoch_store.hpp"
#include "support/case_count.hpp"
#include "support/temp_folder.hpp"
#include "weir/actors/pipelines.hpp"
#include "weir/base/file.hpp"

namespace weir::test {
namespace {

using flow::host_kind;

/// Hosts of the sources and sinks, and of all other stages.
struct hosts {
  host_kind ends = host_kind::automatic;
  host_kind middle = host_kind::automatic;
};
constexpr hosts on_engine{};
constexpr hosts on_own{host_kind::own, host_kind::own};
constexpr hosts in_children{host_kind::process, host_kind::process};

/// Stages of every face that Weir has by name: a source, element by element, a fork and a
/// join with gaps, several items of one and one of several, and a sink.
void build_all(pipeline& p, const std::string& file, hosts on, std::uint32_t window,
               std::uint64_t count = 150) {
  add_standard_stages();
  const auto number = static_cast<std::int64_t>(count);
  setting_value shape;
  shape.data = setting_value::list{{std::int64_t{4}}};
  node source = p.add("source", "generator",
                      {{"count", number}, {"shape", shape}, {"element", "f32"}});
  node twice = p.add("twice", "elementwise",
                     {{"type", "f32[4]"}, {"op", "multiply"}, {"operand", 2.0}});
  node split = p.add("split", "select", {{"modulo", 3}});
  node minus = p.add("minus", "elementwise", {{"type", "f32[4]"}, {"op", "negate"}});
  node both = p.add("both", "merge", {});
  node batch = p.add("batch", "batch", {{"type", "f32[4]"}, {"size", 4}});
  node single = p.add("single", "unbatch", {{"type", "f32[4]"}, {"size", 4}});
  node sink = p.add("sink", "tgm.write", {{"path", file}});
  source >> twice >> split;
  static_cast<void>(split["y1"] >> minus);
  static_cast<void>(split["y0"] >> both["a"]);
  static_cast<void>(minus >> both["b"]);
  both >> batch >> single >> sink;
  for (node one : {source, sink}) {
    one.window(window).host(on.ends);
  }
  for (node one : {twice, split, minus, both, batch, single}) {
    one.window(window).host(on.middle);
  }
}

std::string inside(const temp_folder& folder, const std::string& name) {
  return join_path(folder.path(), name);
}

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Parts of the newest checkpoint of a run by name, apart from sinks' and sources'
/// positions that hold paths or times.
std::map<std::string, byte_vector> sections_of_run(const std::string& folder) {
  auto store = or_throw(actors::epoch_store::open(posix_file_system(),
                                                  join_path(folder, "checkpoint"), ""));
  const flow::image one = or_throw(store.load_newest());
  std::map<std::string, byte_vector> all;
  for (const flow::image_section& s : one.sections) {
    all[s.name] = s.data;
  }
  return all;
}

/// Runs the pipeline and returns the bytes of the sink.
std::string bytes_of(const temp_folder& folder, const std::string& name, hosts on,
                     std::uint32_t window, unsigned workers) {
  pipeline p("all");
  build_all(p, "out.tgm", on, window);
  const std::string at = inside(folder, name);
  std::filesystem::create_directories(at);
  run_options options;
  options.folder = at;
  options.files = at;
  options.workers = workers;
  options.every_items = 40;
  or_throw(run(p, options));
  return content(join_path(at, "out.tgm"));
}

TEST(PipelineHosts, GiveTheBytesOfARunOnTheEngine) {
  const temp_folder folder;
  const std::string expected = bytes_of(folder, "engine", on_engine, 8, 1);
  ASSERT_FALSE(expected.empty());
  const auto sections = sections_of_run(inside(folder, "engine"));
  int number = 0;
  for (const hosts on : {on_own, in_children}) {
    for (const std::uint32_t window : {1U, 2U, 64U}) {
      for (const unsigned workers : {1U, 2U}) {
        const std::string name = fmt::format("other{}", number++);
        EXPECT_EQ(bytes_of(folder, name, on, window, workers), expected)
            << "window " << window << ", workers " << workers;
        auto found = sections_of_run(inside(folder, name));
        for (const auto& [section, data] : sections) {
          ASSERT_EQ(found.count(section), 1U) << section;
          EXPECT_EQ(found[section], data) << section;
        }
        EXPECT_EQ(found.size(), sections.size());
      }
    }
  }
  EXPECT_EQ(children(), std::vector<pid_t>());
  EXPECT_EQ(shared_mappings(), 0U);
}

/// Lets a run end on one kind of host, and go on from an older checkpoint on another.
TEST(PipelineHosts, ContinueACheckpointOfAnotherKindOfHost) {
  const temp_folder folder;
  const auto resumed = [&](const std::string& name, hosts first, hosts second) {
    const std::string at = inside(folder, name);
    std::filesystem::create_directories(at);
    run_options options;
    options.folder = at;
    options.files = at;
    options.every_items = 25;
    options.keep = 100;
    pipeline p("all");
    build_all(p, "out.tgm", first, 2);
    or_throw(run(p, options));
    const std::string whole = content(join_path(at, "out.tgm"));
    options.generation = 3;
    pipeline again("all");
    build_all(again, "out.tgm", second, 5);
    const auto end = or_throw(resume(again, options));
    EXPECT_EQ(end.resumed_item, 75U) << name;
    const auto* cuts = end.stages.back().find<std::vector<std::string>>("cut");
    const std::string cut = " bytes of " + join_path(at, "out.tgm");
    EXPECT_TRUE(cuts != nullptr && cuts->at(0).ends_with(cut)) << name;
    EXPECT_EQ(content(join_path(at, "out.tgm")), whole) << name;
    return whole;
  };
  const std::string expected = resumed("engine", on_engine, on_engine);
  EXPECT_EQ(resumed("own to engine", on_own, on_engine), expected);
  EXPECT_EQ(resumed("engine to own", on_engine, on_own), expected);
  EXPECT_EQ(resumed("children to engine", in_children, on_engine), expected);
  EXPECT_EQ(resumed("own to children", on_own, in_children), expected);
}

TEST(PipelineHosts, RefuseWhatCannotWorkThere) {
  add_standard_stages();
  pipeline class_in_child("refused");
  auto source = class_in_child.add("source", "generator", {{"count", 1}});
  auto squares = class_in_child.map("squares", "f32[n]", "f32[n]",
                                    [](view<const float, 1>, view<float, 1>) {});
  auto sink = class_in_child.add("sink", "null");
  source >> squares.host(host_kind::process) >> sink;
  auto checked = class_in_child.check();
  ASSERT_FALSE(checked);
  EXPECT_NE(checked.error().message().find("squares"), std::string::npos);
  EXPECT_NE(checked.error().message().find("plug-in"), std::string::npos)
      << checked.error().message();

  pipeline source_on_engine("refused");
  auto first = source_on_engine.add("source", "generator", {{"count", 1}});
  auto last = source_on_engine.add("sink", "null");
  first.host(host_kind::engine) >> last;
  checked = source_on_engine.check();
  ASSERT_FALSE(checked);
  EXPECT_NE(checked.error().message().find("\"own\" or \"process\""), std::string::npos)
      << checked.error().message();
}

TEST(PipelineHosts, NameTheProgramOfTheChildThatIsMissing) {
  const temp_folder folder;
  const scoped_variable missing("WEIR_STAGE_HOST", inside(folder, "no such program"));
  pipeline p("all");
  build_all(p, inside(folder, "out.tgm"), in_children, 2);
  const auto end = run(p, {});
  ASSERT_FALSE(end);
  EXPECT_NE(end.error().message().find("no such program"), std::string::npos)
      << end.error().message();
}

/// Kills living children while a run goes on. Behind each kill it waits until the run has
/// gone back, so that no two kills fall into one attempt, and until then all children of
/// the attempt have ended. A child may be killed when it has done all its work: the run
/// then ends well, and this is the last kill of the run.
class killer {
 public:
  killer(std::uint64_t seed, std::uint64_t kills) : left_(kills) {
    thread_ = std::thread([this, seed] { loop(seed); });
  }
  killer(const killer&) = delete;
  killer& operator=(const killer&) = delete;
  ~killer() { stop(); }
  /// Tells that the run has gone back to a checkpoint.
  void went_back() { ++restarts_; }
  /// Ends the kills, and returns how many there were.
  std::uint64_t stop() {
    over_ = true;
    if (thread_.joinable()) {
      thread_.join();
    }
    return killed_;
  }

 private:
  void loop(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    while (!over_ && left_ > 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 60'000));
      const auto all = children();
      if (all.empty()) {
        continue;
      }
      const pid_t one = all[random() % all.size()];
      const std::uint64_t before = restarts_;
      if (!status_of(one).is_alive() || ::kill(one, SIGKILL) != 0) {
        continue;
      }
      ++killed_;
      --left_;
      while (!over_ && restarts_ == before) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
  }
  std::atomic<bool> over_{false};
  std::atomic<std::uint64_t> restarts_{0};
  std::uint64_t left_;        // of the thread
  std::uint64_t killed_ = 0;  // of the thread while it runs
  std::thread thread_;
};

/// Runs with killed children until `deaths` of them have made a run go back.
void kill_children(std::uint64_t deaths) {
  const temp_folder folder;
  const auto options_in = [&](const std::string& name) {
    run_options options;
    options.folder = options.files = inside(folder, name);
    std::filesystem::create_directories(options.folder);
    options.every_items = 500;
    return options;
  };
  constexpr std::uint64_t count = 6000;
  {
    pipeline p("all");
    build_all(p, "out.tgm", on_engine, 16, count);
    or_throw(run(p, options_in("calm")));
  }
  const std::string expected = content(inside(folder, "calm/out.tgm"));
  const std::size_t descriptors = open_descriptors();
  std::uint64_t killed = 0;
  std::uint64_t restarts = 0;
  for (std::uint64_t round = 0; restarts < deaths; ++round) {
    ASSERT_LT(round, 10 + 2 * deaths) << killed << " kills, " << restarts << " restarts";
    run_options options = options_in(fmt::format("killed{}", round));
    options.restarts = 1000;
    pipeline p("all");
    build_all(p, "out.tgm", in_children, 16, count);
    killer one(round, deaths - restarts);
    options.warning = [&](const std::string& text) {
      EXPECT_NE(text.find("the run goes back"), std::string::npos) << text;
      EXPECT_EQ(children(), std::vector<pid_t>());
      one.went_back();
    };
    const auto end = run(p, options);
    const std::uint64_t kills = one.stop();
    ASSERT_TRUE(end) << end.error().message();
    // Each kill is one restart, apart from the last one of the run, see `killer`.
    EXPECT_LE(end->restarts, kills);
    EXPECT_GE(end->restarts + 1, kills);
    killed += kills;
    restarts += end->restarts;
    EXPECT_EQ(content(join_path(options.folder, "out.tgm")), expected);
    EXPECT_EQ(children(), std::vector<pid_t>());
    EXPECT_EQ(shared_mappings(), 0U);
    EXPECT_EQ(open_descriptors(), descriptors);
  }
  EXPECT_GE(2 * restarts, killed);
}

TEST(PipelineHosts, GiveTheSameBytesAfterChildrenWereKilled) {
  kill_children(case_count("WEIR_TEST_KILLS", 20));
}

// In nanoseconds these times are beyond 64 bits.
TEST(PipelineHosts, TimesOfManyCenturiesHaveNotPassed) {
  add_standard_stages();
  pipeline p("patient");
  auto source = p.add("source", "generator", {{"count", 10}});
  auto stage = p.add("stage", "elementwise", {{"type", "f32[1]"}, {"op", "negate"}});
  auto sink = p.add("sink", "null");
  source >> stage.host(host_kind::process) >> sink;
  run_options options;
  options.deadline_s = 10'000'000'000;
  options.stall_s = 10'000'000'000;
  options.every_seconds = 1e30;
  const auto end = run(p, options);
  EXPECT_TRUE(end) << end.error().message();
}

TEST(PipelineHosts, EndWithTheErrorAfterTheLastRestart) {
  const scoped_variable program("WEIR_STAGE_HOST", WEIR_BAD_CHILD_PROGRAM);
  const scoped_variable which("WEIR_BAD_CHILD", "kills itself");
  add_standard_stages();
  pipeline p("bad");
  auto source = p.add("source", "generator", {{"count", 100}});
  auto stage = p.add("stage", "elementwise", {{"type", "f32[1]"}, {"op", "negate"}});
  auto sink = p.add("sink", "null");
  source >> stage.host(host_kind::process) >> sink;
  run_options options;
  options.restarts = 2;
  std::vector<std::string> warnings;
  options.warning = [&](const std::string& text) { warnings.push_back(text); };
  const auto end = run(p, options);
  ASSERT_FALSE(end);
  ASSERT_EQ(warnings.size(), 2U);
  EXPECT_NE(warnings[1].find("restart 2 of 2"), std::string::npos) << warnings[1];
  EXPECT_NE(end.error().message().find("at most 2 deaths of child processes"),
            std::string::npos)
      << end.error().message();
}

TEST(PipelineHosts, TellTheErrorOfAStageInAChildAsTheStageTellsIt) {
  const auto message = [&](host_kind host) {
    add_standard_stages();
    pipeline p("fails");
    setting_value shape;
    shape.data = setting_value::list{{std::int64_t{9}}};
    auto source = p.add("source", "generator", {{"count", 3}, {"shape", shape}});
    auto stage = p.add("stage", "unbatch", {{"type", "f32[]"}, {"size", 4}});
    auto sink = p.add("sink", "null");
    source >> stage.host(host) >> sink;
    const auto end = run(p, {});
    return end ? std::string("no error") : end.error().message();
  };
  const std::string expected = message(host_kind::engine);
  EXPECT_NE(expected.find("cannot divide a batch"), std::string::npos) << expected;
  EXPECT_EQ(message(host_kind::own), expected);
  EXPECT_EQ(message(host_kind::process), expected);
}

}  // namespace
}  // namespace weir::test
