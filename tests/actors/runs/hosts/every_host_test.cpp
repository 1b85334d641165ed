// SPDX-License-Identifier: Apache-2.0
/// @file
/// What is promised of every run, with its stages on the usual hosts, each on a thread of
/// its own, and each in a child process: barriers anywhere, the bound of memory, enlarged
/// windows, failed items, exceptions, full disks, changed sources and outputs, mistakes
/// of the author, drains, kills of the whole run, and loops. `hosts_test` compares
/// workers, windows and killed children on all hosts, and `random_hosts_test` random
/// graphs.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <random>
#include <thread>

#include "actors/runs/hosts/every_host.hpp"
#include "support/case_count.hpp"
#include "weir/actors/control.hpp"

namespace weir::test {
namespace {

namespace fs = std::filesystem;

class EveryHost : public every_host_fixture {};

TEST_P(EveryHost, HasBarriersAnywhereAndGoesOnFromEach) {
  const builder build = [](pipeline& p) {
    source(p, 22) >> middle<running_sum>(p, "sum") >> middle<late_filter>(p, "filter") >>
        middle<doubled>(p, "doubled") >> sink(p);
  };
  run_options each = options_in("each");
  each.every_items = 1;
  const std::string expected = output_from_all(build, each);
  EXPECT_NE(number_of_messages(expected), 0U);
  run_options seven = options_in("seven");
  seven.every_items = 7;
  EXPECT_EQ(output_from_all(build, seven), expected);
  run_options timed = options_in("timed");
  timed.every_seconds = 1e-9;
  EXPECT_EQ(output_from_all(build, timed), expected);
}

TEST_P(EveryHost, GoesOnInTheMiddleOfALoop) {
  const builder build = [](pipeline& p) {
    auto head = middle<loop_head>(p, "head");
    auto tail = middle<scaled>(p, "tail");
    source(p, 7) >> head["x"];
    head >> tail >> sink(p);
    tail.feed_back(head["token"], 2);
  };
  run_options options = options_in("loop");
  options.every_items = 2;
  EXPECT_EQ(number_of_messages(output_from_all(build, options)), 7U);
}

TEST_P(EveryHost, KeepsTheBoundOfMemoryBeforeASlowSink) {
  run_options options = options_in("slow");
  options.folder.clear();
  const auto end = run_once(
      [](pipeline& p) {
        source(p, 200) >> middle<scaled>(p, "scaled").window(4) >>
            place(add_named<slow_file>(p, "sink", {"out"}), true).window(4);
      },
      options);
  ASSERT_TRUE(end) << end.error().message();
  EXPECT_GT(end->peak_item_bytes, 0);
  EXPECT_LE(end->peak_item_bytes, end->memory_bound);
  EXPECT_EQ(fs::file_size(join_path(options.files, "out")), 200 * sizeof(numbers));
}

TEST_P(EveryHost, EnlargesAnEdgeThatIsTooShortForABatch) {
  std::string expected;
  for (const std::uint32_t window : {64U, 2U}) {
    const run_options options = options_in(std::to_string(window));
    const auto end = run_once(
        [&](pipeline& p) {
          source(p, 22) >> middle<batched>(p, "batch").window(window) >> sink(p);
        },
        options);
    ASSERT_TRUE(end) << end.error().message();
    const bool enlarged = std::ranges::any_of(end->planned.notes, [](const auto& note) {
      return note.find("enlarged to") != std::string::npos;
    });
    EXPECT_EQ(enlarged, window == 2);
    if (expected.empty()) {
      expected = bytes_in(options, "out.tgm");
    }
    EXPECT_EQ(bytes_in(options, "out.tgm"), expected);
  }
}

TEST_P(EveryHost, TreatsFailedItemsAsTheirStageSays) {
  using flow::failure_policy;
  for (const std::uint64_t item : {0U, 7U, 19U}) {
    const auto failing = [&](failure_policy policy) {
      return [item, policy](pipeline& p) {
        auto stage = middle<fails_at<false>>(p, "fails", {item});
        source(p, 20) >> stage.failing(policy) >> sink(p);
        if (policy == failure_policy::dead_letter) {
          static_cast<void>(stage["failed_x"] >> sink(p, "dead.tgm"));
        }
      };
    };
    const std::string name = std::to_string(item);
    const std::string place = "item " + name;
    expect_failure(run_once(failing(failure_policy::stop), options_in("stop" + name)),
                   errc::corrupt, place);
    const run_options skips = options_in("skip" + name);
    ASSERT_TRUE(run_once(failing(failure_policy::skip), skips));
    const std::string rest = bytes_in(skips, "out.tgm");
    EXPECT_EQ(number_of_messages(rest), 19U);
    const run_options keeps = options_in("dead" + name);
    ASSERT_TRUE(run_once(failing(failure_policy::dead_letter), keeps));
    EXPECT_EQ(bytes_in(keeps, "out.tgm"), rest);
    EXPECT_EQ(number_of_messages(bytes_in(keeps, "dead.tgm")), 1U);
    const auto with_state = [&](failure_policy policy) {
      return [item, policy](pipeline& p) {
        source(p, 20) >> middle<fails_at<true>>(p, "fails", {item}).failing(policy) >>
            sink(p);
      };
    };
    expect_failure(run_once(with_state(failure_policy::stop), options_in("state" + name)),
                   errc::corrupt, place);
  }
  expect_failure(
      run_once(
          [](pipeline& p) {
            source(p, 20) >>
                middle<fails_at<true>>(p, "fails", {3}).failing(failure_policy::skip) >>
                sink(p);
          },
          options_in("refused")),
      errc::invalid_argument, "expected a stage without state");
  expect_failure(run_once(
                     [](pipeline& p) {
                       auto stage = middle<fails_at<true>>(p, "fails", {3});
                       source(p, 20) >> stage.failing(failure_policy::dead_letter) >>
                           sink(p);
                       static_cast<void>(stage["failed_x"] >> sink(p, "dead.tgm"));
                     },
                     options_in("refused too")),
                 errc::invalid_argument, "expected a stage without state");
}

TEST_P(EveryHost, NamesTheStageAndTheItemOfAnException) {
  for (const std::string where : {"open", "on_item", "on_done"}) {
    const auto end = run_once(
        [&](pipeline& p) {
          source(p, 20) >> middle<throws_in>(p, "throws", {where}) >> sink(p);
        },
        options_in(where));
    expect_failure(end, errc::kernel_failed, "planted exception in " + where);
    const std::string text = end.error().message();
    EXPECT_NE(text.find("\"throws\""), std::string::npos) << text;
    EXPECT_EQ(text.find("item 3") != std::string::npos, where != "open") << text;
  }
}

/// Limits the size of the files of this process and of its children while it is in scope,
/// as a full disk does.
class full_disk {
 public:
  explicit full_disk(rlim_t bytes) {
    before_ = std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &whole_);
    const rlimit limit{bytes, whole_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    for (const auto& one : fs::directory_iterator("/proc/self/task")) {
      std::ifstream children(one.path() / "children");
      for (pid_t child = 0; children >> child;) {
        ::prlimit(child, RLIMIT_FSIZE, &limit, nullptr);
      }
    }
  }
  full_disk(const full_disk&) = delete;
  full_disk& operator=(const full_disk&) = delete;
  ~full_disk() {
    ::setrlimit(RLIMIT_FSIZE, &whole_);
    std::signal(SIGXFSZ, before_);
  }

 private:
  rlimit whole_{};
  void (*before_)(int) = SIG_DFL;
};

// The disk becomes full behind the start of the stages, whose shared memory is a file.
TEST_P(EveryHost, EndsWithOneErrorOnAFullDiskAndGoesOnWhenThereIsSpace) {
  const auto ignored = std::signal(SIGXFSZ, SIG_IGN);  // children inherit it
  const builder build = [](pipeline& p) {
    source(p, 2000) >> middle<running_sum>(p, "sum") >> sink(p);
  };
  const run_options calm = options_in("calm");
  ASSERT_TRUE(run_once(build, calm));
  run_options options = options_in("full");
  options.every_items = 50;
  std::unique_ptr<full_disk> limit;
  options.progress = [&](const pipeline_progress&) {
    if (!limit) {
      limit = std::make_unique<full_disk>(100'000);
    }
  };
  const auto failed = run_once(build, options);
  limit.reset();
  options.progress = nullptr;
  ASSERT_FALSE(failed);
  const errc code = failed.error().root().code();
  EXPECT_TRUE(code == errc::no_space || code == errc::io) << failed.error().message();
  EXPECT_NE(failed.error().message().find("out.tgm"), std::string::npos)
      << failed.error().message();
  const auto end = resume_once(build, options);
  std::signal(SIGXFSZ, ignored);
  ASSERT_TRUE(end) << end.error().message();
  EXPECT_GT(end->resumed_item, 0U);
  EXPECT_EQ(bytes_in(options, "out.tgm"), bytes_in(calm, "out.tgm"));
}

TEST_P(EveryHost, EndsWithTheSameBytesAfterTheWholeRunWasKilled) {
  const builder build = [](pipeline& p) {
    source(p, 3000) >> middle<running_sum>(p, "sum") >> middle<late_filter>(p, "late") >>
        sink(p);
  };
  const run_options calm = options_in("calm");
  ASSERT_TRUE(run_once(build, calm));
  const std::string expected = bytes_in(calm, "out.tgm");
  std::mt19937_64 random(5);
  const auto kills = static_cast<int>(case_count("WEIR_TEST_KILLS", 5));
  int killed = 0;
  for (int round = 0; killed < kills; ++round) {
    run_options options = options_in("killed" + std::to_string(round));
    options.every_items = 100;
    bool ended = false;
    while (!ended) {
      const pid_t child = ::fork();
      if (child == 0) {
        ::_exit(resume_once(build, options) ? 0 : 1);
      }
      if (killed < kills) {
        ::usleep(static_cast<useconds_t>(random() % 200'000));
        ::kill(child, SIGKILL);
      }
      int status = 0;
      ::waitpid(child, &status, 0);
      killed += WIFSIGNALED(status) ? 1 : 0;
      ended = WIFEXITED(status);
      ASSERT_TRUE(!ended || WEXITSTATUS(status) == 0) << status;
    }
    ASSERT_EQ(bytes_in(options, "out.tgm"), expected) << "round " << round;
  }
}

TEST_P(EveryHost, SeesThatASourceOrAnOutputHasChanged) {
  run_options options = options_in("changed");
  const auto make_input = [&](std::uint64_t seed) {
    pipeline p("input");
    add_named<number_source>(p, "source", {20, seed}) >>
        p.add("file", "tgm.write", {{"path", "in.tgm"}});
    run_options made;
    made.files = options.files;
    or_throw(run(p, made));
  };
  const builder build = [](pipeline& p) {
    place(p.add("source", "tgm.read", {{"path", "in.tgm"}}), true) >>
        middle<scaled>(p, "scaled") >> sink(p);
  };
  make_input(1);
  options.every_items = 5;
  ASSERT_TRUE(run_once(build, options));
  const std::string whole = bytes_in(options, "out.tgm");
  options.generation = 1;

  std::ofstream(join_path(options.files, "out.tgm"), std::ios::app) << "more";
  const auto end = resume_once(build, options);
  ASSERT_TRUE(end) << end.error().message();
  EXPECT_EQ(bytes_in(options, "out.tgm"), whole);
  const auto* cuts = end->stages.back().find<std::vector<std::string>>("cut");
  ASSERT_NE(cuts, nullptr);
  EXPECT_NE(cuts->at(0).find("out.tgm"), std::string::npos);

  fs::resize_file(join_path(options.files, "out.tgm"), 10);
  expect_failure(resume_once(build, options), errc::torn, "out.tgm");
  make_input(2);
  expect_failure(resume_once(build, options), errc::history_mismatch, "in.tgm");
}

TEST_P(EveryHost, NamesTheMistakesOfTheAuthor) {
  const auto message_of = [&](const builder& build) {
    const auto end = run_once(build, options_in("mistake"));
    return end ? std::string("none") : end.error().message();
  };
  EXPECT_EQ(message_of([](pipeline& p) {
              const given_settings half{{"type", "f32[3]"}, {"op", "negate"}};
              source(p, 3) >> place(p.add("half", "elementwise", half)) >> sink(p);
            }),
            "cannot connect \"source.x\" to \"half.x\": expected f32[3], found u64[3]");
  EXPECT_EQ(message_of([](pipeline& p) {
              source(p, 3) >> middle<scaled>(p, "same") >> middle<scaled>(p, "same") >>
                  sink(p);
            }),
            "cannot add the stage \"same\": expected a unique name, found a stage with "
            "this name");
  EXPECT_EQ(
      message_of([](pipeline& p) { source(p, 3) >> middle<joined>(p, "joined")["a"]; }),
      "cannot leave the inlet \"joined.b\" open: expected one edge, found none");
  const std::string key = message_of([](pipeline& p) {
    const given_settings misspelt{{"type", "f32[3]"}, {"opp", "negate"}};
    source(p, 3) >> place(p.add("half", "elementwise", misspelt)) >> sink(p);
  });
  EXPECT_NE(key.find("cannot add the stage \"half\""), std::string::npos) << key;
  EXPECT_NE(key.find("did you mean \"op\"?"), std::string::npos) << key;
  const std::string stage = message_of([](pipeline& p) {
    source(p, 3) >> place(p.add("half", "elementwisee")) >> sink(p);
  });
  EXPECT_NE(stage.find("did you mean \"elementwise\"?"), std::string::npos) << stage;
  const std::string numberings = message_of([](pipeline& p) {
    auto four = middle<batched>(p, "four");
    auto join = middle<joined>(p, "join");
    auto from = source(p, 3);
    from >> four >> join["b"];
    static_cast<void>(from >> join["a"]);
  });
  EXPECT_NE(numberings.find("expected items of one numbering"), std::string::npos)
      << numberings;
  const std::string ring = message_of([](pipeline& p) {
    auto head = middle<joined>(p, "head");
    source(p, 3) >> head["a"];
    static_cast<void>(head >> middle<scaled>(p, "tail") >> head["b"]);
  });
  EXPECT_NE(ring.find("delay"), std::string::npos) << ring;
}

TEST_P(EveryHost, StopsWhenItIsAskedAndGoesOn) {
  const builder build = [](pipeline& p) {
    source(p, 60) >> middle<running_sum>(p, "sum") >> sink(p);
  };
  const run_options calm = options_in("calm");
  ASSERT_TRUE(run_once(build, calm));
  run_options options = options_in("stopped");
  for (int round = 0; round < 8; ++round) {
    actors::run_control control;
    options.control = &control;
    // The first call comes before the first item, the others at any time.
    int calls = 0;
    options.progress = [&](const pipeline_progress&) {
      if (++calls > round % 2) {
        control.request_stop();
      }
    };
    const auto end = round == 0 ? run_once(build, options) : resume_once(build, options);
    ASSERT_TRUE(end) << end.error().message();
    if (end->ended == "finished") {
      break;
    }
  }
  options.control = nullptr;
  options.progress = nullptr;
  ASSERT_TRUE(resume_once(build, options));
  EXPECT_EQ(bytes_in(options, "out.tgm"), bytes_in(calm, "out.tgm"));
}

TEST_P(EveryHost, StartsAndStopsManyTimes) {
  // Children take longer to start: `make soak` starts them as often as the others.
  const bool in_children = GetParam().middle == flow::host_kind::process;
  const auto starts =
      static_cast<int>(case_count("WEIR_TEST_STARTS", in_children ? 20 : 200));
  for (int i = 0; i < starts; ++i) {
    actors::run_control control;
    run_options options = options_in("start" + std::to_string(i));
    options.control = &control;
    options.every_items = static_cast<std::uint64_t>(i % 3);
    std::thread user;
    if (i % 4 == 0) {
      control.request_stop();
    } else if (i % 4 == 1) {
      user = std::thread([&control, i] {
        std::this_thread::sleep_for(std::chrono::milliseconds(i % 20));
        control.request_stop();
      });
    }
    const auto end = run_once(
        [](pipeline& p) { source(p, 20) >> middle<scaled>(p, "scaled") >> sink(p); },
        options);
    if (user.joinable()) {
      user.join();
    }
    ASSERT_TRUE(end) << end.error().message();
    // A stop can come behind the last item and before the end is seen.
    EXPECT_TRUE(end->items == 20 || (end->items < 20 && end->ended != "finished")) << i;
  }
}

/// Returns whether an address lies in memory that a child process shares.
bool is_shared_with_child(const void* address) {
  std::ifstream maps("/proc/self/maps");
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    if (line.find("memfd:weir") != std::string::npos &&
        std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR, &begin, &end) ==
            2 &&  // NOLINT
        at >= begin &&
        at < end) {
      return true;
    }
  }
  return false;
}

/// A source and a sink that count items in memory that a child process shares.
struct shared_memory_source {
  struct cursor {
    std::uint64_t next;
  };
  static inline std::uint64_t shared = 0;
  out<std::uint64_t, 1> y;
  std::uint64_t at = 0;
  static void describe(stage_spec<shared_memory_source>& s) {
    s.name("test.shared_memory_source", "numbers")
        .port("y", &shared_memory_source::y, "3");
  }
  result<void> open(opening&, const no_settings&) { return {}; }
  result<bool> next(pull& p) {
    if (at == 40) {
      return false;
    }
    WEIR_TRY(auto v, p.fill(y, width));
    shared += is_shared_with_child(v.data()) ? 1 : 0;
    std::fill(v.begin(), v.end(), at++);
    return true;
  }
  [[nodiscard]] cursor position() const { return {at}; }
  result<void> seek(cursor c) {
    at = c.next;
    return {};
  }
};
struct shared_memory_sink {
  static inline std::uint64_t shared = 0;
  static inline std::vector<std::uint64_t> seen;
  struct offset {
    std::uint64_t items;
  };
  in<std::uint64_t, 1> x;
  static void describe(stage_spec<shared_memory_sink>& s) {
    s.name("test.shared_memory_sink", "counts").port("x", &shared_memory_sink::x, "3");
  }
  result<void> put(taken& t) {
    shared += is_shared_with_child(t[x].data()) ? 1 : 0;
    seen.push_back(t[x][0]);
    return {};
  }
  result<offset> settle() { return offset{seen.size()}; }
  result<void> rewind(offset) { return {}; }
};

TEST(ItemsOfAChild, LieInMemoryThatItReachesSoThatNothingIsCopied) {
  ::setenv("WEIR_STAGE_HOST", WEIR_NUMBER_HOST_PROGRAM, 1);  // NOLINT
  pipeline p("shared");
  p.add<shared_memory_source>("source") >>
      add_named<scaled>(p, "stage", {2}).host(flow::host_kind::process) >>
      p.add<shared_memory_sink>("sink");
  const auto end = run(p, {});
  ::unsetenv("WEIR_STAGE_HOST");  // NOLINT
  ASSERT_TRUE(end) << end.error().message();
  ASSERT_EQ(shared_memory_sink::seen.size(), 40U);
  for (std::uint64_t i = 0; i < 40; ++i) {
    EXPECT_EQ(shared_memory_sink::seen[i], 3 * i);
  }
  EXPECT_EQ(shared_memory_source::shared, 40U);
  EXPECT_EQ(shared_memory_sink::shared, 40U);
}

INSTANTIATE_TEST_SUITE_P(Pipelines, EveryHost, all_hosts(), name_of_hosts);

}  // namespace
}  // namespace weir::test
