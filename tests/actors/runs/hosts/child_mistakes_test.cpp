// SPDX-License-Identifier: Apache-2.0
/// @file
/// Child processes that do not keep to the wire, each at every request at which it can
/// make its mistake: while the stage opens, when it works, fills or writes items, when
/// the items of a sink are made durable, and when its state is saved. Every mistake is
/// one error within the deadline that names the stage, and leaves nothing behind.
#include <gtest/gtest.h>
#include <signal.h>  // NOLINT: the functions are those of POSIX
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include "actors/runs/hosts/host_processes.hpp"
#include "support/temp_folder.hpp"
#include "weir/actors/pipelines.hpp"
#include "weir/base/file.hpp"

namespace weir::test {
namespace {

using flow::host_kind;

/// A request at which a child makes its mistake; its stage has the same name.
struct phase {
  const char* name;
  const char* place;  ///< part of the error that says where it happened
};
constexpr std::array<phase, 9> phases{
    {{"open", "cannot open stage \"open\""},
     {"cursor", "cannot open stage \"cursor\""},
     {"work", "cannot process item "},
     {"fill", "cannot process item 0 "},
     {"write", "cannot process item "},
     {"settle", "cannot make the items of stage \"settle\" durable"},
     {"copy_state", "cannot go on with the child process "},
     {"report", ""},
     {"end", ""}}};
/// Requests of which the run needs the answer.
constexpr std::string_view needed = "open cursor work fill write settle copy_state";

/// Deadline of runs whose child does not answer. It holds for the start of the child,
/// too, which takes some time if many start at once.
constexpr std::int64_t hang_s = 4;

struct mistake {
  const char* name;
  errc code;
  const char* words;  ///< parts of the error
  const char* more = "";
  std::string_view where = needed;  ///< names of its phases
};
/// The list of `bad_child.py`, with the requests to which each mistake belongs.
constexpr std::array<mistake, 25> mistakes{
    {{"hangs", errc::timeout, "none for "},
     {"floods its standard error", errc::timeout, "flood"},
     {"stops in the middle of its answer", errc::timeout, "none for "},
     {"floods the socket", errc::corrupt, "the first word"},
     {"closes its socket", errc::abandoned, "closed its socket"},
     {"exits in the middle of its answer", errc::abandoned, "status 0"},
     {"exits with status 0", errc::abandoned, "status 0", "I have had enough"},
     {"kills itself", errc::abandoned, "signal 9", "a last word"},
     {"repeats an answer", errc::corrupt, "the request"},
     {"answers with a wrong first word", errc::corrupt, "the first word"},
     {"claims a large payload", errc::corrupt, "payload"},
     {"fills /dev/shm", errc::abandoned, "no more space", "status 3"},
     {"answers with garbage", errc::corrupt, "JSON", "", "open"},
     {"answers with garbage", errc::corrupt, "at most 64 bytes", "", "cursor settle"},
     {"answers with garbage", errc::corrupt, "sections", "", "copy_state"},
     {"writes garbage into the shared memory", errc::corrupt, "expected ", "",
      "work fill"},
     {"claims more items", errc::corrupt, "items", "", "work fill write"},
     {"makes no progress", errc::corrupt, "items", "", "work fill write"},
     {"has no item yet, as a source", errc::corrupt, "flags 4", "", "work write"},
     {"has ended, as a source", errc::corrupt, "flags 2", "", "work write"},
     {"claims a long cursor", errc::corrupt, "65 bytes", "", "fill"},
     {"points behind the shared memory", errc::corrupt, "an offset in ", "", "work fill"},
     {"points into the inputs", errc::corrupt, "an offset in ", "", "work"},
     {"claims a shape that overflows", errc::corrupt, "bytes of its shape", "",
      "work fill"},
     {"makes another element type", errc::corrupt, "element type", "", "work fill"}}};

bool has_word(std::string_view words, std::string_view one) {
  const std::string all = fmt::format(" {} ", words);
  return all.find(fmt::format(" {} ", one)) != std::string::npos;
}

/// A run with a child that makes a mistake at the request after which its stage is named.
struct bad_run {
  mistake of{};
  phase at{};
  std::int64_t deadline_s = 20;
  std::optional<result<pipeline_report>> end{};
  double seconds = 0;
};

result<pipeline_report> run_once(const bad_run& one, const std::string& folder) {
  const std::string name = one.at.name;
  pipeline p("bad");
  setting_value shape;
  shape.data = setting_value::list{{std::int64_t{4}}};
  const bool of_source = name == "cursor" || name == "fill";
  const bool of_sink = name == "write" || name == "settle";
  auto source = p.add(of_source ? name : "source", "generator",
                      {{"count", 100}, {"shape", shape}, {"element", "f64"}});
  auto stage = p.add(of_source || of_sink ? "stage" : name, "elementwise",
                     {{"type", "f64[4]"}, {"op", "negate"}});
  auto sink = p.add(of_sink ? name : "sink", "null");
  source >> stage >> sink;
  node bad = of_source ? source : of_sink ? sink : stage;
  bad.host(host_kind::process);
  run_options options;
  options.folder = options.files = folder;
  options.every_items = 10;
  options.deadline_s = one.deadline_s;
  std::filesystem::create_directories(folder);
  std::ofstream(join_path(folder, "mistake")) << one.of.name;
  return run(p, options);
}

/// Runs a pipeline. On a busy machine a child may start so slowly that the deadline
/// passes before it makes its mistake; the run is then repeated with a longer one.
void run_badly(bad_run& one, const std::string& folder) {
  for (;; one.deadline_s *= 2) {
    const std::string here = join_path(folder, std::to_string(one.deadline_s));
    const auto begin = std::chrono::steady_clock::now();
    one.end = run_once(one, here);
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
    one.seconds = passed.count();
    if (one.deadline_s > 60 || std::filesystem::exists(join_path(here, "made"))) {
      return;
    }
  }
}

/// Runs the pipelines in threads, so that those which wait for a deadline wait together.
void run_all(std::vector<bad_run>& runs, std::size_t at_once) {
  const scoped_variable program("WEIR_STAGE_HOST", WEIR_BAD_CHILD_PROGRAM);
  add_standard_stages();
  const temp_folder folder;
  std::atomic<std::size_t> next{0};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < std::min(at_once, runs.size()); ++t) {
    threads.emplace_back([&] {
      for (std::size_t i = next++; i < runs.size(); i = next++) {
        run_badly(runs[i], folder / std::to_string(i));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

void expect_nothing_left(std::size_t descriptors) {
  EXPECT_EQ(children(), std::vector<pid_t>());
  EXPECT_EQ(shared_mappings(), 0U);
  EXPECT_EQ(open_descriptors(), descriptors);
}

constexpr double margin_s = 10;  // for a busy machine

void expect_error(const bad_run& run) {
  SCOPED_TRACE(fmt::format("{}: {}", run.at.name, run.of.name));
  EXPECT_LE(run.seconds, static_cast<double>(run.deadline_s) + margin_s);
  ASSERT_FALSE(*run.end);
  const std::string text = run.end->error().message();
  EXPECT_EQ(run.end->error().code(), run.of.code) << text;
  const std::string stage = fmt::format("stage \"{}\"", run.at.name);
  const bool waits = run.of.code == errc::timeout;
  for (const std::string& part :
       {std::string(run.of.words), std::string(run.of.more), std::string(run.at.place),
        stage, std::string("restarts"),
        waits ? fmt::format("none for {} s", run.deadline_s) : std::string()}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
  }
}

TEST(ChildMistakes, AreErrorsThatNameTheStageWhateverItWasAskedAndLeaveNothing) {
  const std::size_t before = open_descriptors();
  std::vector<bad_run> late;
  std::vector<bad_run> others;
  for (const mistake& one : mistakes) {
    for (const phase& at : phases) {
      if (has_word(one.where, at.name)) {
        const bool waits = one.code == errc::timeout;
        (waits ? late : others).push_back({one, at, waits ? hang_s : 20});
      }
    }
  }
  run_all(late, late.size());
  run_all(others, 4);
  for (const auto* runs : {&late, &others}) {
    for (const bad_run& run : *runs) {
      expect_error(run);
    }
  }
  expect_nothing_left(before);
}

TEST(ChildMistakes, AChildThatEndsBeforeItIsAskedAnythingIsAnError) {
  const scoped_variable which("WEIR_BAD_CHILD", "exits at once");
  const std::size_t before = open_descriptors();
  std::vector<bad_run> runs{
      {{"exits at once", errc::abandoned, "I leave early", "status 0"}, phases[0], 64}};
  run_all(runs, 1);
  expect_error(runs[0]);
  expect_nothing_left(before);
}

// All items are durable by then: the run has done its work.
TEST(ChildMistakes, BehindTheLastItemDoNotFailTheRunAndLeaveNothing) {
  const std::size_t before = open_descriptors();
  std::vector<bad_run> runs;
  for (const char* name : {"hangs", "floods the socket", "closes its socket",
                           "exits with status 0", "kills itself", "repeats an answer"}) {
    for (const phase& at : phases) {
      if (has_word("report end", at.name)) {
        runs.push_back({{name, errc::internal, ""}, at, hang_s});
      }
    }
  }
  run_all(runs, runs.size());
  for (const bad_run& run : runs) {
    SCOPED_TRACE(fmt::format("{}: {}", run.at.name, run.of.name));
    EXPECT_LE(run.seconds, static_cast<double>(run.deadline_s) + margin_s);
    ASSERT_TRUE(*run.end) << run.end->error().message();
    EXPECT_EQ((*run.end)->ended, "finished");
    EXPECT_EQ((*run.end)->items, 100U);
    const auto& problems = (*run.end)->stages[1].problems();
    ASSERT_EQ(problems.size(), run.at.name == std::string("report") ? 1U : 0U);
    for (const std::string& text : problems) {
      EXPECT_NE(text.find("of the stage \"report\": expected an answer, found "),
                std::string::npos)
          << text;
    }
  }
  expect_nothing_left(before);
}

/// Limits a resource of this process while it is in scope.
template <class Resource>
class limited {
 public:
  limited(Resource resource, rlim_t most) : resource_(resource) {
    ignored_ = ::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(resource_, &before_);
    const rlimit limit{most, before_.rlim_max};
    ::setrlimit(resource_, &limit);
  }
  limited(const limited&) = delete;
  limited& operator=(const limited&) = delete;
  ~limited() {
    ::setrlimit(resource_, &before_);
    ::signal(SIGXFSZ, ignored_);
  }

 private:
  Resource resource_;
  rlimit before_{};
  void (*ignored_)(int) = SIG_DFL;
};

TEST(SharedMemoryOfAChild, ThatCannotBeHadIsAnErrorWithItsStageAndBytes) {
  const scoped_variable program("WEIR_STAGE_HOST", WEIR_NUMBER_HOST_PROGRAM);
  add_standard_stages();
  const std::size_t before = open_descriptors();
  pipeline p("large");
  setting_value shape;
  shape.data = setting_value::list{{std::int64_t{1} << 20}};
  auto source = p.add("source", "generator", {{"count", 3}, {"shape", shape}});
  auto stage = p.add("wide", "elementwise", {{"type", "f32[?]"}, {"op", "negate"}});
  source >> stage.host(host_kind::process) >> p.add("sink", "null");
  constexpr rlim_t most = rlim_t{1} << 20;
  std::optional<result<pipeline_report>> end;
  {
    const limited files(RLIMIT_FSIZE, most);
    end = run(p, {});
  }
  expect_nothing_left(before);
  ASSERT_FALSE(*end);
  EXPECT_EQ(end->error().code(), errc::no_space);
  const std::string text = end->error().message();
  const std::string begin =
      "cannot make the memory that the run shares with the child process of stage "
      "\"wide\": expected ";
  ASSERT_TRUE(text.starts_with(begin)) << text;
  EXPECT_GT(std::stoull(text.substr(begin.size())), most) << text;
  EXPECT_TRUE(
      text.ends_with(" bytes, found the error \"File too large\" of ftruncate; give the "
                     "edges of the stage smaller windows, or raise the limits of the "
                     "process (`ulimit -f`, `ulimit -v`)"))
      << text;
}

}  // namespace
}  // namespace weir::test
