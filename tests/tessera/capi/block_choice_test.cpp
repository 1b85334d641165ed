// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests launches that leave the extents of their blocks to the runtime: which extents
/// are measured, when, and which result is kept.
/// @source{Tessera Runtime & ABI, sections 4.5 and 8.2}
#include <chrono>
#include <functional>
#include <map>
#include <thread>

#include "support.hpp"
#include "support/temp_folder.hpp"

namespace weir::test {
namespace {

/// Arguments of covering_kernel.
struct cover_arguments {
  int32_t* out;  ///< receives the extent of the launch
  int64_t n;
  /// The fast extent; a float, because integer arguments are part of the shape.
  float wanted;
  int32_t pad = 0;
};
/// Works with any block, but is slow unless the block has the wanted extent.
int covering_kernel(const tessBlockContext* block, const void* args) {
  const auto* a = static_cast<const cover_arguments*>(args);
  if (static_cast<float>(block->block[0]) != a->wanted) {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
  }
  *a->out = block->block[0];
  return 0;
}

constexpr uint32_t any = TESS_KERNEL_ANY_BLOCK;
constexpr uint32_t fixed = TESS_KERNEL_DETERMINISTIC;
/// Three rounds over five extents: the module's own and four others.
constexpr int rounds = 15;

/// Two devices and a kernel, under environment variables that last as long as the object.
class blocks {
 public:
  explicit blocks(const std::map<std::string, std::string>& set, uint32_t flags,
                  bool deterministic = false) {
    for (const auto& [name, value] : set) {
      setenv(name.c_str(), value.c_str(), 1);
      names_.push_back(name);
    }
    s.emplace(2);
    const std::vector<tessParamInfo> parameters = {
        pointer_to("out", TESS_INT32), value("n", TESS_INT64, 8),
        value("wanted", TESS_FP32, 4), value("pad", TESS_INT32, 4)};
    m.emplace(s->context, std::vector<registered_module::entry>{
                              {"covering", covering_kernel, parameters, flags}});
    const tessNumericsPolicy policy{0, deterministic ? 1 : 0, 1, 0};
    EXPECT_TESS(tessSetNumericsPolicy(s->context, &policy));
    out = s->memory<int32_t>(1);
  }
  ~blocks() {
    m.reset();
    s.reset();
    for (const std::string& name : names_) {
      unsetenv(name.c_str());
    }
  }
  blocks(const blocks&) = delete;
  blocks& operator=(const blocks&) = delete;

  tessStatus_t enqueue(int64_t n, int32_t wanted, int extent = 0, unsigned flags = 0) {
    const cover_arguments args{out, n, static_cast<float>(wanted)};
    const tessLaunchConfig cfg{{2, 1, 1}, {extent, extent == 0 ? 0 : 1, 0}, 0, flags};
    return tessLaunch((*m)["covering"], s->mesh, cfg, &args, sizeof args, s->stream);
  }
  /// Launches the kernel and returns the extent that it ran with.
  int32_t launch(int64_t n = 1000, int32_t wanted = 64, int extent = 0) {
    EXPECT_TESS(enqueue(n, wanted, extent));
    return s->read(out, 1)[0];
  }
  /// Launches the kernel several times and counts the extents it ran with.
  std::map<int32_t, int> tried(int launches = rounds, int32_t wanted = 64) {
    std::map<int32_t, int> seen;
    for (int i = 0; i < launches; ++i) {
      ++seen[launch(1000, wanted)];
    }
    return seen;
  }
  /// Waits until the cache has written `least` entries (at most two seconds) and returns
  /// how many it has written.
  uint64_t written(uint64_t least) {
    tessCacheStats stats{};
    stats.structSize = sizeof stats;
    for (int i = 0; i < 2000; ++i) {
      EXPECT_TESS(tessCacheGetStats(s->context, &stats));
      if (stats.writes >= least) {
        break;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return stats.writes;
  }

  std::optional<session> s;
  std::optional<registered_module> m;
  int32_t* out = nullptr;

 private:
  std::vector<std::string> names_;
};

const std::map<int32_t, int> each_three_times = {
    {128, 3}, {16, 3}, {64, 3}, {256, 3}, {1024, 3}};

TEST(TesseraBlocks, EachIsTriedAndTheFastestIsTaken) {
  const temp_folder folder;
  {
    blocks b({{"TESS_CACHE_DIR", folder / "cache"}}, any);
    EXPECT_EQ(b.tried(), each_three_times);
    EXPECT_EQ(b.tried(5), (std::map<int32_t, int>{{64, 5}}));
    EXPECT_EQ(b.launch(1000, 64, 32), 32)
        << "the block size of the call is used if it is given";
    EXPECT_EQ(b.launch(900, 1), 64)
        << "sizes with equally many binary digits share one choice";
    EXPECT_EQ(b.launch(100'000, 16), 128)
        << "a launch of another shape is measured separately";
    EXPECT_EQ(b.written(1), 1U);
  }
  // The cache keeps the result for other processes, which then need not measure.
  blocks again({{"TESS_CACHE_DIR", folder / "cache"}, {"TESS_AUTOTUNE", "0"}}, any);
  EXPECT_EQ(again.tried(4), (std::map<int32_t, int>{{64, 4}}));
  EXPECT_EQ(again.launch(100'000), 128) << "nothing has been measured for this shape";
}

TEST(TesseraBlocks, AreOnlyChosenForKernelsThatWorkWithAny) {
  blocks b({}, 0);
  EXPECT_EQ(b.tried(4), (std::map<int32_t, int>{{128, 4}}));
}

// A measured extent may differ between runs. Under a deterministic policy it is used only
// on request, and only for kernels whose bits do not depend on it.
TEST(TesseraBlocks, UnderADeterministicPolicyAreMeasuredOnDemandAndOnlyWhereBitsStay) {
  const temp_folder folder;
  const std::map<std::string, std::string> cache = {{"TESS_CACHE_DIR", folder / "cache"}};
  {
    blocks b(cache, any | fixed);
    EXPECT_EQ(b.tried().size(), 5U) << "five sizes are tried at level 0";
    EXPECT_EQ(b.written(1), 1U);
  }
  {
    blocks b(cache, any | fixed, true);
    EXPECT_EQ(b.tried(5), (std::map<int32_t, int>{{128, 5}}))
        << "measuring was not requested, and the cached result is of another policy";
  }
  {
    auto asked = cache;
    asked["TESS_AUTOTUNE"] = "1";
    blocks b(asked, any | fixed, true);
    EXPECT_EQ(b.tried(), each_three_times);
    EXPECT_EQ(b.launch(), 64);
    ASSERT_TESS(b.enqueue(1000, 64, 0, TESS_LAUNCH_DETERMINISTIC));
    EXPECT_EQ(b.s->read(b.out, 1)[0], 64);
  }
  blocks unmarked({{"TESS_AUTOTUNE", "1"}}, any, true);
  ASSERT_TESS(unmarked.enqueue(1000, 64));
  EXPECT_EQ(tessStreamSynchronize(unmarked.s->stream), TESS_ERR_DETERMINISM_VIOLATION);
}

// A graph keeps the extent of its capture, and its runs do not count as trials. A capture
// after the trials records the fastest extent.
TEST(TesseraBlocks, InGraphsAreNotTried) {
  blocks b({}, any);
  tessGraph_t graph = nullptr;
  tessGraphExec_t exec = nullptr;
  const auto record = [&] {
    ASSERT_TESS(tessStreamBeginCapture(b.s->stream));
    ASSERT_TESS(b.enqueue(1000, 64));
    ASSERT_TESS(tessStreamEndCapture(b.s->stream, &graph));
    ASSERT_TESS(tessGraphInstantiate(graph, &exec));
  };
  const auto replay = [&] {
    EXPECT_TESS(tessGraphLaunch(exec, b.s->stream));
    return b.s->read(b.out, 1)[0];
  };
  record();
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(replay(), 128);
  }
  EXPECT_EQ(b.tried(), each_three_times) << "replays must not count as trials";
  EXPECT_EQ(replay(), 128) << "the replay keeps the block size of the recording";
  record();
  EXPECT_EQ(replay(), 64);
  const cover_arguments args{b.out, 50'000, 64};
  ASSERT_TESS(tessGraphExecUpdateLaunch(exec, 0, (*b.m)["covering"],
                                        {{2, 1, 1}, {0, 0, 0}, 0, 0}, &args, sizeof args,
                                        b.s->stream));
  EXPECT_EQ(replay(), 128) << "nothing has been measured for this shape";
}

TEST(TesseraBlocks, OfLaunchesThatFailAreNotCounted) {
  blocks b({}, any);
  for (int i = 0; i < 40; ++i) {
    const cover_arguments args{b.out, 1000, 64};
    const tessLaunchConfig cfg{{0, 1, 1}, {0, 0, 0}, 0, 0};
    EXPECT_EQ(
        tessLaunch((*b.m)["covering"], b.s->mesh, cfg, &args, sizeof args, b.s->stream),
        TESS_ERR_INVALID_VALUE);
    EXPECT_EQ(tessLaunch((*b.m)["covering"], b.s->mesh, {{1, 1, 1}, {0, 0, 0}, 0, 0},
                         &args, 8, b.s->stream),
              TESS_ERR_INVALID_VALUE);
  }
  EXPECT_EQ(b.tried(), each_three_times);
  EXPECT_EQ(b.launch(), 64);
}

}  // namespace
}  // namespace weir::test
