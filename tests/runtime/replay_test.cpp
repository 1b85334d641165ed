// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests captures: a replay has the effect of submitting each of its tasks again,
/// whatever other tasks are in flight.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>

#include "random_programs.hpp"
#include "support/case_count.hpp"
#include "tensors.hpp"

namespace weir::runtime {
namespace {

using namespace weir::test;

/// A program whose tasks are submitted one by one or as replays of its segments.
struct script {
  struct step {
    int graph = -1;         ///< -1 for a single task
    std::size_t first = 0;  ///< index in `flat`
    std::size_t count = 1;
  };
  program flat;  ///< all tasks in the order of submission
  std::vector<step> steps;
};

/// A run of a script: its flat program and its memory.
struct flat_run {
  const program* source;
  program_memory* memory;
};
/// Argument of a replay.
struct replay_call {
  std::size_t first;  ///< index of the replay's first task in `flat`
};

/// Returns a script of tasks and repeated segments of a random program.
script random_script(dice& d, std::int64_t failing_one_in) {
  script out;
  const program source = random_program(d, failing_one_in);
  out.flat.sizes = source.sizes;
  const auto tasks = static_cast<std::int64_t>(source.tasks.size());
  std::vector<std::pair<std::size_t, std::size_t>> graphs;
  for (std::int64_t i = d.in(1, 3); i > 0; --i) {
    const auto first = static_cast<std::size_t>(d.in(0, tasks - 1));
    const auto max_count = tasks - static_cast<std::int64_t>(first);
    graphs.emplace_back(
        first, static_cast<std::size_t>(d.in(1, std::min(max_count, d.in(1, 24)))));
  }
  const auto put = [&](std::size_t index) {
    program_task t = source.tasks[index];
    t.salt = mix(t.salt, out.flat.tasks.size());
    t.fails = t.fails && d.one_in(2);
    out.flat.tasks.push_back(std::move(t));
  };
  for (std::int64_t i = d.in(3, 14); i > 0; --i) {
    script::step s;
    s.first = out.flat.tasks.size();
    if (d.one_in(3)) {
      put(static_cast<std::size_t>(d.in(0, tasks - 1)));
    } else {
      s.graph = static_cast<int>(d.in(0, static_cast<std::int64_t>(graphs.size()) - 1));
      const auto [first, count] = graphs[static_cast<std::size_t>(s.graph)];
      s.count = count;
      for (std::size_t k = 0; k < count; ++k) {
        put(first + k);
      }
    }
    out.steps.push_back(s);
  }
  return out;
}

/// Runs random scripts on an engine and serially, for different numbers of workers.
class Replay : public testing::TestWithParam<unsigned> {
 protected:
  static std::int64_t scripts() {
    return static_cast<std::int64_t>(weir::test::number_or("WEIR_TEST_SCRIPTS", 500));
  }
  std::uint64_t seed() const {
    return weir::test::number_or("WEIR_TEST_SEED", 4000 + GetParam());
  }
  std::unique_ptr<engine> make_engine(dice& d) const {
    engine_options o;
    o.workers = GetParam();
    o.window = d.one_in(2) ? 32 : 256;  // segments have at most 24 tasks
    o.trace.mode = d.one_in(4) ? trace_mode::all : trace_mode::off;
    o.trace.max_bytes = 100'000;
    return or_throw(engine::create(o));
  }

  static void submit_task(engine& e, const std::vector<storage>& stores,
                          const flat_run& run, std::size_t position, std::size_t offset) {
    std::vector<access> accesses;
    for (const program_access& a : run.source->tasks[position].accesses) {
      const tensor t =
          or_throw(tensor::strided(stores[a.storage], a.view.type(), a.view.offset(),
                                   a.view.shape(), a.view.strides()));
      accesses.push_back({t.bytes(), a.mode});
    }
    const auto kernel = [run, position, offset](const task_context& c) -> result<void> {
      const auto* call = static_cast<const replay_call*>(c.argument);
      const std::size_t index = call == nullptr ? position : call->first + offset;
      const program_task& task = run.source->tasks[index];
      delay(task.delay);
      if (task.fails) {
        return error(errc::io, "injected failure");
      }
      run_task(task, index, *run.memory);
      return {};
    };
    static_cast<void>(or_throw(e.submit("step", accesses, kernel)));
  }

  /// Submits the whole script. Captures each graph where it occurs first.
  static void submit_all(engine& e, dice& d, const script& s,
                         const std::vector<storage>& stores, const flat_run& run,
                         const std::vector<replay_call>& calls) {
    std::vector<capture> captured(4);
    std::size_t next_call = 0;
    for (const script::step& step : s.steps) {
      if (step.graph < 0) {
        submit_task(e, stores, run, step.first, 0);
      } else {
        const replay_call* call = &calls[next_call++];
        capture& c = captured[static_cast<std::size_t>(step.graph)];
        if (c.valid() && !d.one_in(8)) {
          ASSERT_EQ(c.size(), step.count);
          static_cast<void>(or_throw(e.replay(c, call)));
        } else {
          or_throw(e.begin_capture(call));
          for (std::size_t k = 0; k < step.count; ++k) {
            submit_task(e, stores, run, step.first + k, k);
          }
          c = or_throw(e.end_capture());
        }
      }
      disturb(e, d, stores);
    }
  }

  static void disturb(engine& e, dice& d, const std::vector<storage>& stores) {
    if (d.one_in(8)) {
      const std::array<std::int64_t, 1> shape{stores[0].size};
      static_cast<void>(e.wait(or_throw(tensor::over(stores[0], dtype::uint8, shape))));
    } else if (d.one_in(6)) {
      e.run_one();
    } else if (d.one_in(20)) {
      e.idle(d.in(0, 30'000));
    }
  }

  static void compare(engine& e, dice& d, std::int64_t failing_one_in) {
    const script s = random_script(d, failing_one_in);
    std::vector<storage> stores;
    std::vector<std::vector<std::byte>> copies;
    program_memory actual{{}, std::vector<std::uint64_t>(s.flat.tasks.size())};
    program_memory expected{{}, std::vector<std::uint64_t>(s.flat.tasks.size())};
    for (const std::int64_t size : s.flat.sizes) {
      stores.push_back(or_throw(e.allocate(size, "script")));
      for (std::int64_t i = 0; i < size; ++i) {
        stores.back().base[i] =
            static_cast<std::byte>(mix(7, static_cast<std::uint64_t>(i)) >> 9);
      }
      copies.emplace_back(stores.back().base, stores.back().base + size);
      actual.bases.push_back(stores.back().base);
    }
    for (auto& copy : copies) {
      expected.bases.push_back(copy.data());
    }
    std::vector<replay_call> calls;
    for (const script::step& step : s.steps) {
      if (step.graph >= 0) {
        calls.push_back({step.first});
      }
    }
    const task_id first = e.counters().submitted + 1;
    submit_all(e, d, s, stores, {&s.flat, &actual}, calls);
    const auto roots = expected_roots(s.flat, first);
    bool any = false;
    for (std::size_t i = 0; i < s.flat.tasks.size(); ++i) {
      any = any || roots[i] != 0;
      if (roots[i] == 0) {
        run_task(s.flat.tasks[i], i, expected);
      }
      ASSERT_EQ(e.wait(first + i).has_value(), roots[i] == 0) << "task " << i;
    }
    ASSERT_EQ(e.wait_all().has_value(), !any);
    EXPECT_EQ(actual.seen, expected.seen);
    for (std::size_t k = 0; k < stores.size(); ++k) {
      ASSERT_EQ(std::memcmp(stores[k].base, copies[k].data(), copies[k].size()), 0);
      ASSERT_TRUE(e.release(stores[k].id));
    }
  }

  void run_scripts(std::int64_t failing_one_in) {
    dice d(seed() * 2 + static_cast<std::uint64_t>(failing_one_in));
    SCOPED_TRACE(testing::Message() << "WEIR_TEST_SEED=" << seed());
    std::unique_ptr<engine> e;
    std::uint64_t replayed = 0;
    for (std::int64_t i = 0; i < scripts(); ++i) {
      if (i % 20 == 0) {
        replayed += e == nullptr ? 0 : e->counters().replayed;
        e = make_engine(d);
      }
      SCOPED_TRACE(testing::Message() << "script " << i);
      compare(*e, d, failing_one_in);
      if (HasFailure()) {
        return;
      }
    }
    EXPECT_GT(replayed, 1000U);
  }
};
INSTANTIATE_TEST_SUITE_P(Workers, Replay, testing::Values(1U, 2U, 4U));

TEST_P(Replay, EqualsSerialExecutionBetweenTasksSubmittedOneByOne) {
  run_scripts(0);
}
TEST_P(Replay, PoisonsExactlyWhatDependsOnAFailure) {
  run_scripts(12);
}

/// Returns an engine with a small window.
std::unique_ptr<engine> small_engine(std::uint32_t window = 64, unsigned workers = 1) {
  engine_options o;
  o.window = window;
  o.workers = workers;
  return or_throw(engine::create(o));
}

/// Captures a task that adds the number at `argument` to the first number of the storage.
capture adding(engine& e, const storage& s, const std::uint64_t* argument) {
  auto* value = reinterpret_cast<std::uint64_t*>(s.base);
  or_throw(e.begin_capture(argument));
  const std::array<access, 1> all{updates(bytes_of(s))};
  static_cast<void>(or_throw(e.submit("add", all, [value](const task_context& c) {
    *value = *value * 10 + *static_cast<const std::uint64_t*>(c.argument);
  })));
  return or_throw(e.end_capture());
}

TEST(Capture, GivesEachReplayItsArgument) {
  auto e = small_engine();
  const storage s = or_throw(e->allocate(8, "test"));
  const std::array<std::uint64_t, 4> digits{1, 2, 3, 4};
  const capture c = adding(*e, s, &digits[0]);
  ASSERT_TRUE(e->wait_all());
  for (std::size_t i = 1; i < 4; ++i) {
    EXPECT_EQ(or_throw(e->replay(c, &digits[i])), i + 1);
  }
  ASSERT_TRUE(e->wait_all());
  EXPECT_EQ(*reinterpret_cast<std::uint64_t*>(s.base), 1234U);
  EXPECT_EQ(e->counters().replayed, 3U);
  EXPECT_EQ(e->counters().lookups, 1U);  // replays look up nothing
}

TEST(Capture, TakesOtherCapturedValues) {
  auto e = small_engine();
  const storage s = or_throw(e->allocate(8, "test"));
  const auto kernel_of =
      [value = reinterpret_cast<std::uint64_t*>(s.base)](std::uint64_t digit) {
        return [value, digit](const task_context&) { *value = *value * 10 + digit; };
      };
  const std::array<access, 1> all{updates(bytes_of(s))};
  or_throw(e->begin_capture());
  static_cast<void>(or_throw(e->submit("add", all, kernel_of(1))));
  const capture c = or_throw(e->end_capture());
  or_throw(e->rebind(c, 0, kernel_of(7)));
  static_cast<void>(or_throw(e->replay(c)));
  or_throw(e->rebind(c, 0, kernel_of(5)));
  static_cast<void>(or_throw(e->replay(c)));
  ASSERT_TRUE(e->wait_all());
  EXPECT_EQ(*reinterpret_cast<std::uint64_t*>(s.base), 175U);
  EXPECT_EQ(e->rebind(c, 1, kernel_of(1)).error().code(), errc::invalid_argument);
  const auto other = [](const task_context&) {};
  EXPECT_EQ(e->rebind(c, 0, other).error().code(), errc::invalid_argument);
}

/// A kernel that adds the sum of `Size` captured bytes, with a suitable alignment.
template <std::size_t Size>
struct alignas(Size % 32 == 0 ? 32 : 1) adds_bytes {
  std::array<std::uint8_t, Size> bytes;
  void operator()(const task_context& context) const {
    auto& sum = *static_cast<std::uint64_t*>(const_cast<void*>(context.argument));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(this) % alignof(adds_bytes), 0U);
    for (const std::uint8_t b : bytes) {
      sum += b;
    }
  }
};
/// Returns a kernel whose captured bytes all have this value.
template <std::size_t Size>
adds_bytes<Size> bytes_that_are(std::uint8_t value) {
  adds_bytes<Size> out;
  out.bytes.fill(value);
  return out;
}

/// Captures kernels that add the bytes they have captured, replays once, and returns the
/// sum.
template <class... Kernels>
std::uint64_t captured_and_replayed(const Kernels&... kernels) {
  auto e = small_engine();
  std::uint64_t sum = 0;
  or_throw(e->begin_capture(&sum));
  (static_cast<void>(or_throw(e->submit("add", {}, kernels))), ...);
  const capture c = or_throw(e->end_capture());
  static_cast<void>(or_throw(e->replay(c, &sum)));
  or_throw(e->wait_all());
  return sum;
}

TEST(Capture, KeepsValuesOfDifferentSizesApart) {
  EXPECT_EQ(captured_and_replayed(
                bytes_that_are<1>(1), [](const task_context&) {}, bytes_that_are<96>(2),
                bytes_that_are<17>(3), bytes_that_are<128>(4), bytes_that_are<16>(5)),
            2U * (1 + 96 * 2 + 17 * 3 + 128 * 4 + 16 * 5));
}

TEST(Capture, KeepsSmallValuesApart) {
  EXPECT_EQ(captured_and_replayed(bytes_that_are<17>(1), bytes_that_are<17>(2),
                                  bytes_that_are<17>(3)),
            2U * 17 * (1 + 2 + 3));
}

TEST(Capture, OfOneEngineIsRefusedByAnother) {
  auto e = small_engine();
  auto other = small_engine();
  const storage s = or_throw(e->allocate(8, "test"));
  const std::uint64_t digit = 1;
  const capture c = adding(*e, s, &digit);
  EXPECT_EQ(other->replay(c).error().code(), errc::invalid_argument);
  EXPECT_EQ(e->replay(capture()).error().code(), errc::invalid_argument);
  ASSERT_TRUE(e->wait_all());
}

TEST(Capture, DoesNotNest) {
  auto e = small_engine();
  const storage s = or_throw(e->allocate(8, "test"));
  const std::uint64_t digit = 1;
  const capture c = adding(*e, s, &digit);
  EXPECT_EQ(e->end_capture().error().code(), errc::invalid_argument);
  ASSERT_TRUE(e->begin_capture());
  EXPECT_EQ(e->begin_capture().error().code(), errc::invalid_argument);
  EXPECT_EQ(e->replay(c, &digit).error().code(), errc::invalid_argument);
  const capture nothing = or_throw(e->end_capture());
  EXPECT_EQ(nothing.size(), 0U);
  EXPECT_EQ(or_throw(e->replay(nothing)), 0U);
  ASSERT_TRUE(e->wait_all());
}

TEST(Capture, LongerThanTheWindowIsRefused) {
  auto e = small_engine(4);
  ASSERT_TRUE(e->begin_capture());
  for (int i = 0; i < 5; ++i) {
    static_cast<void>(or_throw(e->submit("one", {}, [](const task_context&) {})));
  }
  EXPECT_EQ(e->end_capture().error().code(), errc::out_of_range);
  ASSERT_TRUE(e->wait_all());
}

TEST(Capture, WithAReleasedStorageIsRefused) {
  auto e = small_engine();
  const storage s = or_throw(e->allocate(8, "test"));
  const storage t = or_throw(e->allocate(8, "test"));
  const std::uint64_t digit = 3;
  const capture c = adding(*e, s, &digit);
  ASSERT_TRUE(e->release(t.id));
  ASSERT_TRUE(e->replay(c, &digit));  // the capture's own storage still exists
  ASSERT_TRUE(e->release(s.id));
  EXPECT_EQ(e->replay(c, &digit).error().code(), errc::not_found);
  ASSERT_TRUE(e->wait_all());
}

TEST(Capture, MayOutliveItsEngine) {
  auto e = small_engine(64, 2);
  capture c;
  {
    const storage s = or_throw(e->allocate(8, "test"));
    static const std::uint64_t digit = 3;
    c = adding(*e, s, &digit);
    for (int i = 0; i < 40; ++i) {
      static_cast<void>(or_throw(e->replay(c, &digit)));
    }
  }
  e.reset();
  EXPECT_EQ(c.size(), 1U);
}

TEST(Capture, ReplaysInAWindowThatHoldsIt) {
  for (const unsigned workers : {1U, 2U}) {
    auto e = small_engine(8, workers);
    const storage s = or_throw(e->allocate(64, "test"));
    std::atomic<int> runs{0};
    auto* count = &runs;
    ASSERT_TRUE(e->begin_capture());
    for (std::int64_t i = 0; i < 8; ++i) {
      const auto part = or_throw(bytes_of(s).slice(0, i * 4, i * 4 + 8));
      const std::array<access, 1> all{updates(part)};
      static_cast<void>(or_throw(
          e->submit("part", all, [count](const task_context&) { count->fetch_add(1); })));
    }
    const capture c = or_throw(e->end_capture());
    for (int i = 0; i < 200; ++i) {
      static_cast<void>(or_throw(e->replay(c)));
    }
    ASSERT_TRUE(e->wait_all());
    EXPECT_EQ(runs.load(), 8 * 201);
    EXPECT_EQ(e->counters().finished, 8U * 201U);
  }
}

// Counts the edges that replays add. Edges that follow from others would only cost time.
TEST(Capture, ReplaysWaitOnlyForWhatNothingElseImplies) {
  auto e = small_engine();
  const storage s = or_throw(e->allocate(64, "test"));
  const auto part = [&](std::int64_t i) {
    return or_throw(bytes_of(s).slice(0, i * 8, i * 8 + 8));
  };
  ASSERT_TRUE(e->begin_capture());
  // The tasks form a ring of eight parts. Each reads the part before it, and all but the
  // last read the first part, which the last one writes.
  for (std::int64_t i = 1; i < 8; ++i) {
    const std::array<access, 3> all{reads(part(0)), reads(part(i - 1)), writes(part(i))};
    static_cast<void>(or_throw(e->submit("link", all, [](const task_context&) {})));
  }
  const std::array<access, 2> first{reads(part(7)), writes(part(0))};
  static_cast<void>(or_throw(e->submit("first", first, [](const task_context&) {})));
  const capture c = or_throw(e->end_capture());
  ASSERT_TRUE(e->wait_all());
  const auto edges = [&] {
    const engine_counters n = e->counters();
    return n.edges_raw + n.edges_war + n.edges_waw;
  };
  std::vector<std::uint64_t> added;
  for (int i = 0; i < 4; ++i) {
    const std::uint64_t before = edges();
    static_cast<void>(or_throw(e->replay(c)));
    added.push_back(edges() - before);
  }
  // Seven edges are inside a replay. Between replays, only the first link needs an edge,
  // to the last task of the replay before; all other conflicts follow from these edges.
  EXPECT_EQ(added, (std::vector<std::uint64_t>{7, 8, 8, 8}));
  ASSERT_TRUE(e->wait_all());
}

/// The ids of a capture's tasks can be waited for like others, during a replay and after
/// it.
TEST(Capture, NamesTheTaskOfAReplayThatFailed) {
  auto e = small_engine();
  const storage s = or_throw(e->allocate(8, "test"));
  const std::array<access, 1> all{updates(bytes_of(s))};
  ASSERT_TRUE(e->begin_capture());
  const auto fails_on_argument = [](const task_context& c) -> result<void> {
    if (c.argument != nullptr) {
      return error(errc::io, "injected failure");
    }
    return {};
  };
  static_cast<void>(or_throw(e->submit("first", all, fails_on_argument)));
  static_cast<void>(or_throw(e->submit("second", all, [](const task_context&) {})));
  const capture c = or_throw(e->end_capture());
  const task_id good = or_throw(e->replay(c));
  const int flag = 1;
  const task_id bad = or_throw(e->replay(c, &flag));
  const task_id after = or_throw(e->replay(c));
  EXPECT_TRUE(e->wait(good + 1));
  EXPECT_EQ(e->wait(bad).error().code(), errc::kernel_failed);
  EXPECT_EQ(e->wait(bad + 1).error().code(), errc::upstream_failed);
  EXPECT_EQ(e->wait(after + 1).error().code(), errc::upstream_failed);
  // After all these tasks have been retired, the bytes still poison a later replay.
  const task_id late = or_throw(e->replay(c));
  EXPECT_EQ(e->wait(late).error().code(), errc::upstream_failed);
  EXPECT_NE(e->wait(late).error().text().find("\"first\""), std::string::npos);
  EXPECT_FALSE(e->wait_all());
  EXPECT_TRUE(e->wait(or_throw(e->replay(c))));
  EXPECT_TRUE(e->wait_all());
}

TEST(Capture, DrawsEachEdgeWithItsReason) {
  auto e = small_engine();
  const storage s = or_throw(e->allocate(64, "test"));
  const tensor whole = bytes_of(s);
  const tensor even = or_throw(whole.slice(0, 0, 64, 2));
  const auto nothing = [](const task_context&) {};
  const std::array<access, 1> fill{writes(whole)};
  const std::array<access, 1> look{reads(even)};
  const std::array<access, 1> change{updates(or_throw(whole.slice(0, 0, 8)))};
  ASSERT_TRUE(e->begin_capture());
  static_cast<void>(or_throw(e->submit("fill \"all\"", fill, nothing)));
  static_cast<void>(or_throw(e->submit("look", look, nothing)));
  static_cast<void>(or_throw(e->submit("change", change, nothing)));
  const capture c = or_throw(e->end_capture());
  ASSERT_TRUE(e->wait_all());
  EXPECT_EQ(
      c.to_dot(),
      "digraph tasks {\n"
      "  node [shape=box];\n"
      "  t0 [label=\"0 fill \\\"all\\\"\"];\n"
      "  t1 [label=\"1 look\"];\n"
      "  t2 [label=\"2 change\"];\n"
      "  t0 -> t1 [label=\"RAW storage 0: [0, 64) and [0, 63) 1 B x 32 every 2\"];\n"
      "  t0 -> t2 [label=\"RAW storage 0: [0, 64) and [0, 8)\"];\n"
      "  t1 -> t2 [label=\"WAR storage 0: [0, 63) 1 B x 32 every 2 and [0, 8)\"];\n"
      "}\n");
  const std::string picture = c.to_svg();
  EXPECT_NE(picture.find("<text x=\"16\" y=\"27\">0 fill &quot;all&quot;</text>"),
            std::string::npos);
  EXPECT_NE(picture.find("\"6 3\" marker-end=\"url(#tip)\"><title>WAR storage 0"),
            std::string::npos)
      << picture;
  EXPECT_EQ(capture().to_dot(), "digraph tasks {\n  node [shape=box];\n}\n");
}

TEST(Capture, DrawsARunOfAnyLengthThatWasNotMadeToBeRepeated) {
  engine_options o;
  o.window = 8;
  o.workers = 2;
  auto e = or_throw(engine::create(o));
  const storage s = or_throw(e->allocate(64, "test"));
  ASSERT_TRUE(e->begin_capture());
  constexpr int steps = 100;
  for (std::int64_t i = 0; i < steps; ++i) {
    const std::array<access, 1> cell{
        updates(or_throw(bytes_of(s).slice(0, i % 4 * 16, i % 4 * 16 + 16)))};
    static_cast<void>(or_throw(e->submit("step", cell, [](const task_context&) {})));
  }
  const capture c = or_throw(e->end_capture(capture_use::drawing));
  ASSERT_TRUE(e->wait_all());
  const std::string picture = c.to_dot();
  for (int i = 4; i < steps; ++i) {  // each waits for the task before it on its cell
    const std::string edge = "t" + std::to_string(i - 4) + " -> t" + std::to_string(i) +
                             " [label=\"RAW storage 0: [" + std::to_string(i % 4 * 16);
    ASSERT_NE(picture.find(edge), std::string::npos) << picture;
  }
  EXPECT_EQ(std::count(picture.begin(), picture.end(), '>'), steps - 4);
  EXPECT_NE(c.to_svg().find("<title>RAW storage 0"), std::string::npos);
  EXPECT_EQ(e->replay(c).error().code(), errc::invalid_argument);
}

}  // namespace
}  // namespace weir::runtime
