// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the inputs of random numbers in kernels: the seed, the stream and the number of
/// the launch, with and without a counter that graph replays advance.
/// @source{Tessera Runtime & ABI, sections 4.7 and 11}
#include <functional>
#include <optional>
#include <utility>

#include "support.hpp"

namespace weir::test {
namespace {

/// Arguments of drawing_kernel, which appends the stream and the number of its launch to
/// a list.
struct draw_arguments {
  uint64_t* drawn;  ///< the length of the list, then two numbers per launch
};
int drawing_kernel(const tessBlockContext* block, const void* args) {
  uint64_t* const all = static_cast<const draw_arguments*>(args)->drawn;
  all[1 + 2 * all[0]] = block->determinism->stream;
  all[2 + 2 * all[0]] = block->determinism->ordinal;
  ++all[0];
  return 0;
}

using draw = std::pair<uint64_t, uint64_t>;  ///< stream and number of a launch

/// Two devices with a list that the kernel's launches extend.
class draws {
 public:
  explicit draws(bool stateless, const char* threads = "2")
      : workers_({{"TESS_NUM_THREADS", threads}}), s(2) {
    const tessNumericsPolicy policy{1, 1, stateless ? 1 : 0, 0};
    EXPECT_TESS(tessSetNumericsPolicy(s.context, &policy));
    m.emplace(s.context, std::vector<registered_module::entry>{
                             {"drawing", drawing_kernel, {pointer_to("x", TESS_INT64)}}});
    list = s.memory<uint64_t>(200);
    EXPECT_TESS(tessStreamSynchronize(s.stream));
  }
  void launch(tessStream_t stream, unsigned flags = 0) {
    const draw_arguments args{list};
    EXPECT_TESS(tessLaunch((*m)["drawing"], s.mesh, {{1, 1, 1}, {1, 1, 1}, 0, flags},
                           &args, sizeof args, stream));
  }
  void step() {
    launch(s.stream);
    launch(s.stream);
    launch(s.stream);
  }
  tessGraphExec_t captured(const std::function<void()>& calls) {
    tessGraph_t graph = nullptr;
    tessGraphExec_t out = nullptr;
    EXPECT_TESS(tessStreamBeginCapture(s.stream));
    calls();
    EXPECT_TESS(tessStreamEndCapture(s.stream, &graph));
    EXPECT_TESS(tessGraphInstantiate(graph, &out));
    return out;
  }
  /// Returns the launches since the last call. Expects the same on both devices.
  std::vector<draw> drawn() {
    EXPECT_TESS(tessStreamSynchronize(s.stream));
    const std::vector<uint64_t> all = s.read(list, 200, 0);
    EXPECT_EQ(all, s.read(list, 200, 1));
    std::vector<draw> out;
    for (uint64_t i = 0; i < all[0]; ++i) {
      out.emplace_back(all[1 + 2 * i], all[2 + 2 * i]);
    }
    EXPECT_TESS(tessMemsetAsync(list, 0, 1600, s.stream));
    EXPECT_TESS(tessStreamSynchronize(s.stream));  // other streams write the list, too
    return out;
  }

 private:
  environment workers_;

 public:
  session s;
  std::optional<registered_module> m;
  uint64_t* list = nullptr;
};

/// Returns `count` consecutive launches of a stream.
std::vector<draw> numbers(uint64_t stream, uint64_t first, uint64_t count) {
  std::vector<draw> out;
  for (uint64_t i = 0; i < count; ++i) {
    out.emplace_back(stream, first + i);
  }
  return out;
}

TEST(TesseraRandom, WithoutStateAReplayDrawsWhatItsCaptureSays) {
  draws d(true);
  d.step();
  const auto before = d.drawn();
  ASSERT_EQ(before.size(), 3U);
  const uint64_t stream = before[0].first;
  EXPECT_EQ(before, numbers(stream, 0, 3));
  const tessGraphExec_t exec = d.captured([&] { d.step(); });
  for (int i = 0; i < 3; ++i) {
    ASSERT_TESS(tessGraphLaunch(exec, d.s.stream));
    EXPECT_EQ(d.drawn(), numbers(stream, 3, 3)) << "each run draws the same numbers";
  }
  d.step();
  EXPECT_EQ(d.drawn(), numbers(stream, 6, 3)) << "a recorded launch has used its numbers";
}

TEST(TesseraRandom, WithStateReplayedNTimesEqualsEagerNTimes) {
  const auto expected = [] {
    draws eager(false);
    for (int i = 0; i < 8; ++i) {
      eager.step();
    }
    return eager.drawn();
  }();
  ASSERT_EQ(expected.size(), 24U);
  EXPECT_EQ(expected, numbers(expected[0].first, 0, 24));
  for (const char* threads : {"1", "3"}) {
    draws d(false, threads);
    const tessGraphExec_t exec = d.captured([&] { d.step(); });
    for (int i = 0; i < 8; ++i) {
      if (i == 3) {
        d.step();  // direct calls and runs continue one count
      } else {
        ASSERT_TESS(tessGraphLaunch(exec, d.s.stream));
      }
    }
    EXPECT_EQ(d.drawn(), expected) << threads << " workers";
  }
}

TEST(TesseraRandom, WithStateARunCountsOnTheStreamThatItIsLaunchedOn) {
  draws d(false);
  tessStream_t other = nullptr;
  ASSERT_TESS(tessStreamCreate(d.s.mesh, 0, &other));
  const tessGraphExec_t inner = d.captured([&] { d.step(); });
  const tessGraphExec_t outer = d.captured([&] {
    d.launch(d.s.stream);
    EXPECT_TESS(tessGraphLaunch(inner, d.s.stream));
    d.launch(d.s.stream);
  });
  ASSERT_TESS(tessGraphLaunch(outer, d.s.stream));
  const auto first = d.drawn();
  ASSERT_FALSE(first.empty());
  EXPECT_EQ(first, numbers(first[0].first, 0, 5))
      << "nodes of graphs inside graphs count too";
  ASSERT_TESS(tessGraphLaunch(outer, other));
  ASSERT_TESS(tessGraphLaunch(inner, other));
  ASSERT_TESS(tessStreamSynchronize(other));
  const auto second = d.drawn();
  ASSERT_FALSE(second.empty());
  EXPECT_EQ(second, numbers(second[0].first, 0, 8));
  EXPECT_NE(second[0].first, first[0].first);
  d.launch(d.s.stream);
  EXPECT_EQ(d.drawn(), numbers(first[0].first, 5, 1));
}

TEST(TesseraRandom, WithStateAChangedNodeCountsToo) {
  draws d(false);
  const tessGraphExec_t exec = d.captured([&] { d.step(); });
  const draw_arguments args{d.list};
  ASSERT_TESS(tessGraphExecUpdateLaunch(exec, 1, (*d.m)["drawing"],
                                        {{1, 1, 1}, {1, 1, 1}, 0, 0}, &args, sizeof args,
                                        d.s.stream));
  ASSERT_TESS(tessGraphLaunch(exec, d.s.stream));
  ASSERT_TESS(tessGraphLaunch(exec, d.s.stream));
  const auto got = d.drawn();
  EXPECT_EQ(got, numbers(got[0].first, 0, 6));
}

TEST(TesseraRandom, WithTheFlagALaunchHasItsNumberAndEachRunItsOwn) {
  draws d(false);
  d.launch(d.s.stream, TESS_LAUNCH_CAPTURE);
  d.launch(d.s.stream);
  const auto ran = d.drawn();
  EXPECT_EQ(ran, numbers(ran[0].first, 0, 2));
  tessGraph_t graph = nullptr;
  tessGraphExec_t exec = nullptr;
  ASSERT_TESS(tessStreamTakeGraph(d.s.stream, &graph));
  ASSERT_TESS(tessGraphInstantiate(graph, &exec));
  ASSERT_TESS(tessGraphLaunch(exec, d.s.stream));
  EXPECT_EQ(d.drawn(), numbers(ran[0].first, 2, 2));
}

/// The nodes of a graph with collectives that ranks call themselves are enqueued one by
/// one. They must draw the same numbers.
TEST(TesseraRandom, WithStateRanksThatMeetInAGraphCountToo) {
  draws d(false);
  const tessStreamDesc desc{sizeof desc, 0, 0, 0, 0, -1};
  tessStream_t own = nullptr;
  tessGraph_t graph = nullptr;
  tessGraphExec_t exec = nullptr;
  ASSERT_TESS(tessStreamCreateEx(d.s.mesh, &desc, &own));
  ASSERT_TESS(tessStreamBeginCapture(own));
  d.launch(own);
  ASSERT_TESS(tessBarrier(d.s.mesh, "tp", own));
  d.launch(own);
  ASSERT_TESS(tessStreamEndCapture(own, &graph));
  ASSERT_TESS(tessGraphInstantiate(graph, &exec));
  ASSERT_TESS(tessGraphLaunch(exec, own));
  d.launch(own);
  ASSERT_TESS(tessGraphLaunch(exec, own));
  ASSERT_TESS(tessStreamSynchronize(own));
  const auto all = d.s.read(d.list, 20, 0);
  ASSERT_EQ(all[0], 5U);
  for (uint64_t i = 0; i < 5; ++i) {
    EXPECT_EQ(all[2 + 2 * i], i);
  }
}

/// Stores the seed that its launch has received.
int seeded_kernel(const tessBlockContext* block, const void* args) {
  **static_cast<uint64_t* const*>(args) = block->determinism->seed;
  return 0;
}

TEST(TesseraRandom, ASeedOfZeroIsASeed) {
  const auto seed_with = [](const char* variable) {
    const environment set({{"TESS_SEED", variable}});
    session s;
    const registered_module m(
        s.context, {{"seeded", seeded_kernel, {pointer_to("out", TESS_INT64)}}},
        tessera::policy_record{true, true, true, false, false, 31});
    auto* const out = s.memory<uint64_t>(1);
    EXPECT_TESS(
        tessLaunch(m["seeded"], s.mesh, {{1, 1, 1}, {1, 1, 1}, 0, 0}, &out, 8, s.stream));
    return s.read(out, 1)[0];
  };
  EXPECT_EQ(seed_with(""), 31U) << "without the variable the seed of the module is used";
  EXPECT_EQ(seed_with("0"), 0U);
  EXPECT_EQ(seed_with("12"), 12U);
}

}  // namespace
}  // namespace weir::test
