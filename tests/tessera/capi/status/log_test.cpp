// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests which lines the log has at each level, what a log callback may do, and how
/// damage in the cache is reported.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "support.hpp"
#include "support/temp_folder.hpp"

namespace weir::test {
namespace {

/// Records the log lines of the contexts that are created while it exists.
class listener {
 public:
  listener() {
    EXPECT_TESS(tessSetLogCallback(
        [](tessLogLevel level, const char* text, void* user) {
          static_cast<listener*>(user)->hear(level, text);
        },
        this));
  }
  ~listener() { EXPECT_TESS(tessSetLogCallback(nullptr, nullptr)); }
  listener(const listener&) = delete;
  listener& operator=(const listener&) = delete;

  /// Returns the number of lines of this level that contain the text.
  [[nodiscard]] std::ptrdiff_t count(tessLogLevel level, std::string_view text) const {
    const std::lock_guard lock(mutex_);
    return std::count_if(lines_.begin(), lines_.end(), [&](const auto& line) {
      return line.first == level && line.second.find(text) != std::string::npos;
    });
  }

  void (*also)(void* user) = nullptr;  ///< called by the callback for each line, if set
  void* user = nullptr;

 private:
  void hear(tessLogLevel level, const char* text) {
    {
      const std::lock_guard lock(mutex_);
      lines_.emplace_back(level, text);
    }
    if (also != nullptr) {
      also(user);
    }
  }

  mutable std::mutex mutex_;
  std::vector<std::pair<tessLogLevel, std::string>> lines_;
};

/// Runs an all-reduce of 16 elements and waits for it.
void sum(session& s, void* x) {
  ASSERT_TESS(tessAllReduce(s.mesh, x, 16, TESS_FP32, TESS_COLL_SUM, nullptr, s.stream));
  ASSERT_TESS(tessStreamSynchronize(s.stream));
}

TEST(TesseraLog, DebugLogsObjectsAndDecisionsAndTraceLogsOperations) {
  const temp_folder scratch;
  for (const char* level : {"info", "debug", "trace"}) {
    const environment loud({{"TESS_LOG_LEVEL", level},
                            {"TESS_CACHE_DIR", scratch.path().c_str()},
                            {"TESS_AUTOTUNE", "1"}});
    listener log;
    session s(2);
    auto* const x = s.memory<float>(16);
    sum(s, x);
    const bool debug = std::string_view(level) != "info";
    for (const char* line :
         {"mesh 1 created", "stream 1 created",
          "all_reduce of 16 fp32 over 2 ranks: direct, chosen by tuner", "cache entry"}) {
      EXPECT_EQ(log.count(TESS_LOG_DEBUG, line) > 0, debug) << level << ": " << line;
    }
    const bool trace = std::string_view(level) == "trace";
    for (const char* line : {"\"fill\"", "\"all_reduce\""}) {
      EXPECT_EQ(log.count(TESS_LOG_TRACE, line), trace ? 1 : 0) << level << ": " << line;
    }
  }
}

TEST(TesseraLog, LoadingAndUnloadingOfModulesIsLogged) {
  const environment loud({{"TESS_LOG_LEVEL", "debug"}});
  listener log;
  const session s;
  { const registered_module m(s.context, {}); }
  EXPECT_EQ(log.count(TESS_LOG_DEBUG, "module loaded"), 1);
  EXPECT_EQ(log.count(TESS_LOG_DEBUG, "module unloaded"), 1);
}

TEST(TesseraLog, ACallbackThatCallsTheRuntimeIsAnsweredWhateverTheLineIsAbout) {
  const environment loud({{"TESS_LOG_LEVEL", "trace"}});
  listener log;
  struct state {
    tessContext_t context = nullptr;
    tessMesh_t mesh = nullptr;
    tessStream_t stream = nullptr;
    int waits_refused = 0;
  } now;
  log.also = [](void* user) {
    auto& own = *static_cast<state*>(user);
    int answer = 0;
    tessMeshInfo info{};
    info.structSize = sizeof info;
    EXPECT_EQ(tessDeviceGetCount(own.context, &answer),
              own.context == nullptr ? TESS_ERR_NOT_INITIALIZED : TESS_OK);
    if (own.stream != nullptr) {
      EXPECT_TESS(tessMeshGetInfo(own.mesh, &info));
      EXPECT_TESS(tessStreamIsCapturing(own.stream, &answer));
      EXPECT_EQ(tessMemsetAsync(nullptr, 0, 0, own.stream), TESS_ERR_INVALID_VALUE);
      own.waits_refused += tessStreamSynchronize(own.stream) == TESS_ERR_INVALID_VALUE;
    }
  };
  log.user = &now;
  session s(2);
  now.context = s.context;
  now.mesh = s.mesh;
  now.stream = s.stream;
  auto* const x = s.memory<float>(16);
  sum(s, x);
  tessStream_t other = nullptr;
  tessEvent_t event = nullptr;
  ASSERT_TESS(tessStreamCreate(s.mesh, 0, &other));
  ASSERT_TESS(tessEventCreate(&event));
  ASSERT_TESS(tessEventRecord(event, s.stream));
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  EXPECT_GT(now.waits_refused, 3);
  log.also = nullptr;
}

/// Measures sums with the cache in `folder`, then flips one bit of each file.
void keep_damaged_measurements(const std::string& folder) {
  {
    const environment measures({{"TESS_AUTOTUNE", "1"}});
    session s(2);
    auto* const x = s.memory<float>(16);
    for (int i = 0; i < 9; ++i) {
      sum(s, x);
    }
    tessCacheStats stats{};
    stats.structSize = sizeof stats;
    while (stats.entries == 0) {  // another thread writes the entry
      ASSERT_TESS(tessCacheGetStats(s.context, &stats));
      std::this_thread::yield();
    }
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    const char first = static_cast<char>(file.get());
    file.seekp(0);
    file.put(static_cast<char>(first ^ 1));
  }
}

TEST(TesseraCache, DamagedMeasurementsAreAnErrorWhereItIsStrict) {
  const temp_folder scratch;
  const environment cached({{"TESS_CACHE_DIR", scratch.path().c_str()}});
  keep_damaged_measurements(scratch.path());
  const environment strict({{"TESS_CACHE_STRICT", "1"}});
  session s(2);
  auto* const x = s.memory<float>(16);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(tessAllReduce(s.mesh, x, 16, TESS_FP32, TESS_COLL_SUM, nullptr, s.stream),
              TESS_ERR_CACHE_CORRUPT);
  }
  ASSERT_TESS(tessCacheClear(s.context));
  sum(s, x);
}

TEST(TesseraCache, DamagedEntriesThatAreSetAsideAreLogged) {
  const temp_folder scratch;
  const environment cached({{"TESS_CACHE_DIR", scratch.path().c_str()}});
  keep_damaged_measurements(scratch.path());
  listener log;
  session s(2);
  sum(s, s.memory<float>(16));
  EXPECT_EQ(log.count(TESS_LOG_INFO, "was damaged and is set aside"), 1);
}

TEST(TesseraCache, AFolderThatCannotBeUsedIsLoggedAtEveryLevel) {
  const temp_folder scratch;
  const std::string file = scratch / "no-folder";
  std::ofstream(file) << "a file";
  const environment cached({{"TESS_CACHE_DIR", file.c_str()}});
  testing::internal::CaptureStderr();
  { const session s; }
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("TESS_CACHE_DIR"), std::string::npos) << said;
  EXPECT_NE(said.find(file), std::string::npos) << said;
}

}  // namespace
}  // namespace weir::test
