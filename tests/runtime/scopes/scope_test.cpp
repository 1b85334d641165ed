// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests scopes, fresh memory and renaming. A limit that is reached makes the submitter
/// wait; a wait that could never end is reported as an error.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "random_programs.hpp"
#include "tensors.hpp"
#include "weir/runtime/engine.hpp"

namespace weir::runtime {
namespace {

std::unique_ptr<engine> scoped_engine(unsigned workers, std::int64_t heap,
                                      std::uint32_t window = 64) {
  engine_options o;
  o.workers = workers;
  o.heap = heap;
  o.window = window;
  return or_throw(engine::create(o));
}

/// An engine with a heap of 4096 bytes of fresh memory.
class Scopes : public testing::TestWithParam<unsigned> {
 protected:
  std::unique_ptr<engine> e = scoped_engine(GetParam(), 4096);

  static void submit_to(engine& to, std::vector<access> accesses, auto kernel,
                        const submit_options& with = {}) {
    static_cast<void>(or_throw(to.submit("task", accesses, kernel, with)));
  }
  void submit(std::vector<access> accesses, auto kernel) {
    submit_to(*e, std::move(accesses), kernel);
  }
  static auto put(const storage& s, std::uint64_t v) {
    return [p = s.base, v](const task_context&) { std::memcpy(p, &v, sizeof(v)); };
  }
  /// Returns a kernel that adds the number in `s` to `sum`.
  static auto add_to(std::atomic<std::uint64_t>* sum, const storage& s) {
    return [sum, p = s.base](const task_context&) {
      std::uint64_t v = 0;
      std::memcpy(&v, p, sizeof(v));
      sum->fetch_add(v);
    };
  }
};
INSTANTIATE_TEST_SUITE_P(Workers, Scopes, testing::Values(1U, 2U, 4U));

// A scope may have more live tasks than the window of 8: the chain of 8192 tasks must
// neither block nor lose an increment.
TEST_P(Scopes, HoldMoreTasksThanTheWindow) {
  auto narrow = scoped_engine(GetParam(), 4096, 8);
  const scope all = or_throw(narrow->open_scope("all"));
  const storage s = or_throw(narrow->fresh(8));
  submit_to(*narrow, {writes(bytes_of(s))}, put(s, 0));
  for (int i = 0; i < 8192; ++i) {
    submit_to(*narrow, {updates(bytes_of(s))}, [p = s.base](const task_context&) {
      std::uint64_t v = 0;
      std::memcpy(&v, p, sizeof(v));
      ++v;
      std::memcpy(p, &v, sizeof(v));
    });
  }
  ASSERT_TRUE(narrow->wait_all());
  std::uint64_t v = 0;
  std::memcpy(&v, s.base, sizeof(v));
  EXPECT_EQ(v, 8192U);
}

// 200 rounds need much more memory than the heap of 4096 bytes. A scope that does not
// release its tensors would make a later round fail, and one that releases them too early
// would change the sum.
TEST_P(Scopes, GiveFreshMemoryBackWhenTheyEnd) {
  std::atomic<std::uint64_t> sum{0};
  for (std::uint64_t i = 0; i < 200; ++i) {
    const scope step = or_throw(e->open_scope("step"));
    const storage a = or_throw(e->fresh(1024));
    const scope inner = or_throw(e->open_scope("inner"));
    const storage b = or_throw(e->fresh(512));
    submit({writes(bytes_of(a))}, put(a, i));
    submit(
        {reads(bytes_of(a)), writes(bytes_of(b))},
        [from = a.base, to = b.base](const task_context&) { std::memcpy(to, from, 8); });
    submit({reads(bytes_of(b))}, add_to(&sum, b));
  }
  ASSERT_TRUE(e->wait_all());
  EXPECT_EQ(sum.load(), 199U * 200U / 2U);
  if (e->workers() == 1) {  // other workers may have ended every task in time
    EXPECT_GT(e->counters().heap_stalls, 0U);
  }
}

// Open scopes hold the heap, so waiting could never end. The error must name them and a
// size of the heap with which the same program does run; the test then tries that size.
TEST_P(Scopes, NameThemselvesAndTheSizeThatWouldDoWhenTheyBlockEachOther) {
  const auto program = [](engine& in) -> result<storage> {
    const scope outer = or_throw(in.open_scope("outer"));
    const storage stored = or_throw(in.fresh(3000));
    submit_to(in, {writes(bytes_of(stored))}, put(stored, 1));
    const scope inner = or_throw(in.open_scope("inner"));
    static_cast<void>(or_throw(in.fresh(500)));
    return in.fresh(2000);
  };
  const auto refused = program(*e);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), errc::out_of_memory);
  if (GetParam() == 1) {
    EXPECT_EQ(e->counters().finished, 0U) << "the call has waited although it must not";
  }
  const std::string text = refused.error().message();
  EXPECT_NE(text.find("in scope \"engine/outer/inner\""), std::string::npos) << text;
  EXPECT_NE(text.find("by \"engine/outer\""), std::string::npos) << text;
  const std::size_t position = text.find("a heap of ");
  ASSERT_NE(position, std::string::npos) << text;
  const auto enough = scoped_engine(GetParam(), std::stoll(text.substr(position + 10)));
  EXPECT_TRUE(program(*enough));
  EXPECT_TRUE(e->fresh(2000)) << "the memory is free again after the scopes have ended";
}

TEST_P(Scopes, MayGiveUpATensorBeforeTheyEnd) {
  std::atomic<std::uint64_t> sum{0};
  const scope whole = or_throw(e->open_scope("whole"));
  for (std::uint64_t i = 0; i < 50; ++i) {
    const storage s = or_throw(e->fresh(1500));
    submit({writes(bytes_of(s))}, put(s, i));
    submit({reads(bytes_of(s))}, [&sum, s](const task_context& c) {
      ::usleep(20);
      add_to(&sum, s)(c);
    });
    ASSERT_TRUE(e->give_up(s.id));
    ASSERT_TRUE(e->give_up(s.id)) << "giving a tensor up again has no effect";
    const std::array<access, 1> late{reads(bytes_of(s))};
    EXPECT_EQ(e->submit("late", late, put(s, 0)).error().code(), errc::not_found);
  }
  ASSERT_TRUE(e->wait_all());
  EXPECT_EQ(sum.load(), 49U * 50U / 2U);
}

TEST_P(Scopes, GiveUpAnyNumberOfTensorsAtOnce) {
  std::vector<storage> made;
  for (int round = 0; round < 3; ++round) {
    made.clear();
    const scope many = or_throw(e->open_scope("many"));
    for (int i = 0; i < 64; ++i) {
      made.push_back(or_throw(e->fresh(64)));
    }
    for (std::size_t i = 0; i < made.size(); i += 3) {
      ASSERT_TRUE(e->give_up(made[i].id));
    }
  }
  for (const storage& s : made) {
    const std::array<access, 1> late{reads(bytes_of(s))};
    EXPECT_EQ(e->submit("late", late, put(s, 0)).error().code(), errc::not_found);
  }
}

TEST_P(Scopes, CloseWhatIsOpenInside) {
  scope outer = or_throw(e->open_scope("outer"));
  scope inner = or_throw(e->open_scope("inner", scope_kind::manual));
  const storage s = or_throw(e->fresh(64));
  outer.close();
  const std::array<access, 1> late{reads(bytes_of(s))};
  EXPECT_EQ(e->submit("late", late, put(s, 0)).error().code(), errc::not_found);
  EXPECT_TRUE(e->open_scope("automatic")) << "the manual scope has been closed";
  inner.close();
  EXPECT_TRUE(e->fresh(4096));
}

TEST_P(Scopes, RefuseWhatIsNoFreshMemory) {
  EXPECT_EQ(e->fresh(4097).error().code(), errc::out_of_range);
  EXPECT_EQ(e->fresh(-1).error().code(), errc::out_of_range);
  EXPECT_EQ(e->give_up({77, 1}).error().code(), errc::not_found);
  const storage s = or_throw(e->allocate(8, "test"));
  EXPECT_EQ(e->give_up(s.id).error().code(), errc::invalid_argument);
  const tensor part = or_throw(bytes_of(s).slice(0, 0, 4));
  EXPECT_EQ(e->renew(part).error().code(), errc::invalid_argument);
  engine_options o;
  o.heap = -1;
  EXPECT_EQ(engine::create(o).error().code(), errc::invalid_argument);
}

TEST_P(Scopes, LetAWriterOfANewVersionPassReadersOfTheOldOne) {
  // The reader of the first version waits for the writer of the second. If the second
  // version were written in place, neither could run.
  if (GetParam() == 1) {
    GTEST_SKIP() << "a reader that waits needs a worker of its own";
  }
  std::atomic<bool> written{false};
  std::atomic<std::uint64_t> seen{0};
  tensor x = bytes_of(or_throw(e->fresh(1024)));
  submit({writes(x)}, put(x.store(), 1));
  submit({reads(x)}, [&written, &seen, p = x.data()](const task_context&) {
    while (!written.load()) {
      ::usleep(50);
    }
    std::uint64_t v = 0;
    std::memcpy(&v, p, sizeof(v));
    seen.store(v);
  });
  x = or_throw(e->renew(x));
  submit({writes(x)}, [&written, p = x.data()](const task_context&) {
    const std::uint64_t v = 2;
    std::memcpy(p, &v, sizeof(v));
    written.store(true);
  });
  ASSERT_TRUE(e->wait_all());
  EXPECT_EQ(seen.load(), 1U);
  EXPECT_EQ(e->counters().edges_war + e->counters().edges_waw, 0U);
}

// The heap has room for one version only. Each new version must wait until the readers of
// the old one have ended.
TEST_P(Scopes, RenewInARingOfOneVersion) {
  std::atomic<std::uint64_t> sum{0};
  tensor x = bytes_of(or_throw(e->fresh(4096)));
  for (std::uint64_t i = 1; i <= 20; ++i) {
    submit({writes(x)}, put(x.store(), i));
    submit({reads(x)}, add_to(&sum, x.store()));
    x = or_throw(e->renew(x));
  }
  ASSERT_TRUE(e->wait_all());
  EXPECT_EQ(sum.load(), 210U);
  EXPECT_EQ(e->counters().heap_stalls, 20U);
}

// In a manual scope the engine must look up no conflicts, and the order of the digits
// comes from `after` alone. Releasing still waits for the tasks that use the storage.
TEST_P(Scopes, OfManualKindLeaveTheOrderToTheProgram) {
  const storage s = or_throw(e->allocate(8, "test"));
  submit({writes(bytes_of(s))}, put(s, 0));
  ASSERT_TRUE(e->wait_all());
  const std::uint64_t before = e->counters().lookups;
  const scope own = or_throw(e->open_scope("own", scope_kind::manual));
  EXPECT_EQ(e->open_scope("no", scope_kind::automatic).error().code(),
            errc::invalid_argument);
  const scope nested = or_throw(e->open_scope("nested", scope_kind::manual));
  task_id last = 0;
  for (std::uint64_t d = 1; d <= 9; ++d) {
    const std::array<task_id, 1> after{last};
    submit_options with;
    with.after = std::span(after).first(last == 0 ? 0 : 1);
    const std::array<access, 1> all{updates(bytes_of(s))};
    last = or_throw(e->submit(
        "digit", all,
        [p = reinterpret_cast<std::uint64_t*>(s.base), d](const task_context&) {
          *p = *p * 10 + d;
        },
        with));
  }
  ASSERT_TRUE(e->release(s.id))
      << "the release waits for the tasks that keep the storage";
  ASSERT_TRUE(e->wait_all());
  EXPECT_EQ(e->counters().lookups, before);
  EXPECT_EQ(e->counters().edges_raw + e->counters().edges_waw, 0U);
}

TEST_P(Scopes, OfManualKindBringFailuresAlongWithTheOrder) {
  for (const bool wait_between : {false, true}) {
    const scope own = or_throw(e->open_scope("own", scope_kind::manual));
    const task_id bad =
        or_throw(e->submit("bad", {}, [](const task_context&) -> result<void> {
          return error(errc::io, "broken");
        }));
    if (wait_between) {
      EXPECT_FALSE(e->wait(bad));
      // The failed task has been retired by the last of these.
      for (int i = 0; i < 200; ++i) {
        submit({}, [](const task_context&) {});
      }
    }
    const std::array<task_id, 1> after{bad};
    submit_options with;
    with.after = after;
    const task_id next = or_throw(e->submit(
        "next", {}, [](const task_context&) {}, with));
    const auto answer = e->wait(next);
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code(), errc::upstream_failed);
    EXPECT_EQ(answer.error().root().text(), "broken");
    EXPECT_FALSE(e->wait_all());
  }
}

TEST_P(Scopes, KeepFreshMemoryForReplaysWhileTheyAreOpen) {
  std::atomic<std::uint64_t> sum{0};
  scope own = or_throw(e->open_scope("own"));
  const storage s = or_throw(e->fresh(4096));
  ASSERT_TRUE(e->begin_capture());
  submit({writes(bytes_of(s))}, put(s, 3));
  submit({reads(bytes_of(s))}, [&sum, s](const task_context& c) {
    ::usleep(100);
    add_to(&sum, s)(c);
  });
  const capture c = or_throw(e->end_capture());
  static_cast<void>(or_throw(e->replay(c)));
  own.close();
  EXPECT_EQ(e->replay(c).error().code(), errc::not_found);
  const storage again = or_throw(e->fresh(4096));  // waits for the replay's reader
  submit({writes(bytes_of(again))}, put(again, 100));
  ASSERT_TRUE(e->wait_all());
  EXPECT_EQ(sum.load(), 6U);
}

/// Random programs allocate, use and release fresh tensors in nested scopes, in a heap
/// that is too small for most of them. Each task checks the values that it reads.
TEST_P(Scopes, NeverOverwriteWhatATaskStillReads) {
  struct value {
    storage where;
    std::uint64_t content = 0;
  };
  test::dice d(20260202 + GetParam());
  std::atomic<std::uint64_t> wrong{0};
  std::uint64_t stalls = 0;
  for (int round = 0; round < 60; ++round) {
    auto small = scoped_engine(GetParam(), 64 * 24, d.one_in(2) ? 64 : 4);
    std::vector<scope> open;
    std::vector<std::vector<value>> levels(1);
    std::uint64_t salt = 1;
    for (int step = 0; step < 300; ++step) {
      if (d.one_in(6) && open.size() < 4) {
        open.push_back(or_throw(small->open_scope("level")));
        levels.emplace_back();
      } else if (d.one_in(5) && !open.empty()) {
        open.pop_back();
        levels.pop_back();
      }
      auto& mine = levels[static_cast<std::size_t>(
          d.in(0, static_cast<std::int64_t>(levels.size()) - 1))];
      if (!mine.empty() && d.one_in(3)) {
        ASSERT_TRUE(small->give_up(mine.front().where.id));
        mine.erase(mine.begin());
      }
      auto made = small->fresh(d.in(8, 200));
      if (!made) {  // open scopes hold the memory
        ASSERT_EQ(made.error().code(), errc::out_of_memory);
        continue;
      }
      const value* from = mine.empty() ? nullptr : &mine.back();
      const std::uint64_t content =
          test::mix(++salt, from == nullptr ? 0 : from->content);
      const int wait = d.one_in(10) ? 3 : 0;
      std::vector<access> accesses{writes(bytes_of(*made))};
      if (from != nullptr) {
        accesses.push_back(reads(bytes_of(from->where)));
      }
      submit_to(*small, accesses,
                [to = made->base, in = from == nullptr ? nullptr : from->where.base,
                 expected = from == nullptr ? 0 : from->content, content, wait,
                 &wrong](const task_context&) {
                  test::delay(wait);
                  if (in != nullptr && std::memcmp(in, &expected, 8) != 0) {
                    wrong.fetch_add(1);
                  }
                  std::memcpy(to, &content, 8);
                });
      levels.back().push_back({*made, content});
    }
    ASSERT_TRUE(small->wait_all());
    stalls += small->counters().heap_stalls;
  }
  EXPECT_EQ(wrong.load(), 0U);
  EXPECT_GT(stalls, 10U);  // submissions waited for memory; how often depends on speed
}

TEST_P(Scopes, ContinueWithoutFreeSpaceForEdges) {  // T12
  engine_options o;
  o.workers = GetParam();
  o.window = 256;
  o.edges = 1;
  auto tight = or_throw(engine::create(o));
  const storage s = or_throw(tight->allocate(100 * 8, "test"));
  auto* cells = reinterpret_cast<std::uint64_t*>(s.base);
  std::uint64_t sum = 0;
  for (std::uint64_t round = 1; round <= 20; ++round) {
    for (std::int64_t i = 0; i < 100; ++i) {
      submit_to(*tight, {updates(or_throw(bytes_of(s).slice(0, i * 8, i * 8 + 8)))},
                [cells, i, round](const task_context&) { cells[i] += round; });
    }
    submit_to(*tight, {reads(bytes_of(s))}, [cells, &sum](const task_context&) {
      for (int i = 0; i < 100; ++i) {
        sum = sum * 3 + cells[i];
      }
    });
  }
  ASSERT_TRUE(tight->wait_all());
  std::uint64_t expected = 0;
  for (std::uint64_t round = 1; round <= 20; ++round) {
    for (int i = 0; i < 100; ++i) {
      expected = expected * 3 + round * (round + 1) / 2;
    }
  }
  EXPECT_EQ(sum, expected);
  if (GetParam() == 1) {  // other workers may end the cells' tasks before the wait
    EXPECT_GT(tight->counters().edge_stalls, 0U);
  }
}

/// Each round needs two blocks of edges beyond those inside the tasks. If a block is
/// lost, a later round has to stall. Tasks end while their fifteenth edge is added.
TEST_P(Scopes, GetSpaceForEdgesBackWheneverTheirTaskEnds) {
  engine_options o;
  o.workers = GetParam();
  o.window = 256;
  o.edges = 28;
  auto tight = or_throw(engine::create(o));
  const storage s = or_throw(tight->allocate(8, "test"));
  std::uint64_t runs = 0;
  for (std::uint64_t round = 1; round <= 20'000; ++round) {
    submit_to(*tight, {updates(bytes_of(s))}, [&runs, round](const task_context&) {
      volatile std::uint64_t wait = round * 7 % 400;
      while (wait > 0) {
        wait = wait - 1;
      }
      ++runs;
    });
    for (std::uint64_t i = 0; i < 15 + round % 11 / 10 * 14; ++i) {
      submit_to(*tight, {reads(bytes_of(s))},
                [&runs, round](const task_context&) { EXPECT_EQ(runs, round); });
    }
    ASSERT_TRUE(tight->wait_all());
  }
  EXPECT_EQ(tight->counters().edge_stalls, 0U);
}

}  // namespace
}  // namespace weir::runtime
