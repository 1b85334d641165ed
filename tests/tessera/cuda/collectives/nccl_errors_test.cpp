// SPDX-License-Identifier: Apache-2.0
/// @file
/// Errors of NCCL at every call, and calls that do not end in time.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>
#include <set>
#include <thread>

#include "collectives/nccl_workload.hpp"

namespace weir::tessera::stand_in {
namespace {

using cuda::nccl_status;

constexpr std::array documented_errors{
    nccl_status::unhandled_cuda_error, nccl_status::system_error,
    nccl_status::internal_error,       nccl_status::invalid_argument,
    nccl_status::invalid_usage,        nccl_status::remote_error};

/// Names of the functions that are called, and of the state that one of them returns.
std::vector<std::string> called_functions() {
  std::vector<std::string> names{"state"};
#define WEIR_NCCL_NAME(member, name, parameters) names.push_back(#name);
  WEIR_NCCL_FUNCTIONS(WEIR_NCCL_NAME)
#undef WEIR_NCCL_NAME
  return names;
}

/// Runs the workload over a new machine. A run of more than 10 s ends the process.
nccl_outcome run_with_failure(const std::string& function, unsigned nth, nccl_status s) {
  ::alarm(10);
  const clique_rig rig(late_machine(2));
  if (!function.empty()) {
    fail_nccl_call(function, nth, s);
  }
  nccl_outcome out = run_nccl_workload(rig);
  ::alarm(0);
  return out;
}

TEST(NcclErrors, EveryCallMayFailAtItsFirstMiddleAndLastOccurrence) {
  const nccl_outcome whole = run_with_failure("", 0, nccl_status::success);
  ASSERT_TRUE(whole.failures.empty()) << whole.failures.front().message();
  EXPECT_EQ(whole.wrong, 0);
  EXPECT_EQ(broken_rules(), "");
  std::vector<std::pair<std::string, unsigned>> calls;
  for (const std::string& name : called_functions()) {
    const unsigned times =
        calls_of(name == "state" ? std::string("ncclCommGetAsyncError") : name);
    if (times > 0 && name != "ncclGetVersion" && name != "ncclCommAbort") {
      calls.emplace_back(name, times);
    }
  }
  EXPECT_EQ(calls.size(), 15U) << "the workload uses every function but two";
  for (const auto& [name, times] : calls) {
    for (const unsigned nth : std::set<unsigned>{1, (times + 1) / 2, times}) {
      for (const nccl_status s : documented_errors) {
        // All errors at the first call, and two of them at the others.
        if (nth > 1 && s != nccl_status::internal_error &&
            s != nccl_status::remote_error) {
          continue;
        }
        const nccl_outcome out = run_with_failure(name, nth, s);
        EXPECT_EQ(out.wrong, 0) << name << " " << nth;
        EXPECT_EQ(broken_rules(), "") << name << " " << nth;
        EXPECT_TRUE(objects() == object_counts{}) << name << " " << nth;
        // The last calls end the communicators, which succeeds all the same.
        const bool closing = name == "ncclCommFinalize" || name == "ncclCommDestroy" ||
                             (nth == times && name != "ncclGetUniqueId");
        EXPECT_TRUE(closing || !out.failures.empty()) << name << " " << nth;
      }
    }
  }
}

TEST(NcclErrors, CodesTellWhoHasFailed) {
  EXPECT_EQ(cuda::code_of(nccl_status::unhandled_cuda_error), errc::device_lost);
  EXPECT_EQ(cuda::code_of(nccl_status::remote_error), errc::rank_lost);
  EXPECT_EQ(cuda::code_of(nccl_status::system_error), errc::io);
  EXPECT_EQ(cuda::code_of(nccl_status::invalid_usage), errc::internal);
  const nccl_outcome out =
      run_with_failure("ncclAllReduce", 1, nccl_status::remote_error);
  ASSERT_FALSE(out.failures.empty());
  EXPECT_EQ(out.failures.front().code(), errc::rank_lost);
  EXPECT_NE(out.failures.front().message().find("remote process exited"),
            std::string::npos)
      << out.failures.front().message();
}

TEST(NcclErrors, ALostDeviceEndsTheCollectives) {
  ::alarm(10);
  {
    const clique_rig rig(late_machine(2));
    auto clique = or_throw(rig.open(4'000'000'000));
    const auto memory = rig.buffers(64);
    break_device(1, cuda::status::illegal_address);
    const auto ended = rig.run(*clique, nccl_sum(memory));
    ASSERT_FALSE(ended.has_value());
    EXPECT_EQ(ended.error().code(), errc::device_lost) << ended.error().message();
    const auto later = rig.run(*clique, nccl_sum(memory));
    ASSERT_FALSE(later.has_value());
    EXPECT_EQ(later.error().message(), ended.error().message());
    EXPECT_TRUE(clique->broken().has_value());
  }
  ::alarm(0);
  EXPECT_EQ(objects().communicators, 0U);
  set_up(machine{}, nullptr);
}

/// Returns the time that a function takes. @units{seconds}
template <class F>
double seconds_of(const F& function) {
  const auto begin = std::chrono::steady_clock::now();
  function();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

constexpr std::int64_t short_limit_ns = 300'000'000;
constexpr double longest_seconds = 5;  // many times the limit: the machine may be busy

TEST(NcclTimeLimit, CommunicatorsThatAreNotReadyInTimeAreGivenUp) {
  machine shown = late_machine(2);
  shown.nccl_stuck = stuck::init;
  const clique_rig rig(shown);
  const double seconds = seconds_of([&] {
    const auto opened = rig.open(short_limit_ns);
    ASSERT_FALSE(opened.has_value());
    EXPECT_EQ(opened.error().code(), errc::timeout);
    EXPECT_NE(opened.error().message().find("make the communicators"), std::string::npos);
  });
  EXPECT_LT(seconds, longest_seconds);
  EXPECT_EQ(broken_rules(), "");
}

TEST(NcclTimeLimit, CollectivesThatDoNotEndInTimeAreAborted) {
  for (const stuck what : {stuck::post, stuck::run}) {
    machine shown = late_machine(2);
    shown.nccl_stuck = what;
    {
      const clique_rig rig(shown);
      auto clique = or_throw(rig.open(short_limit_ns));
      const auto memory = rig.buffers(64);
      const double seconds = seconds_of([&] {
        const auto ended = rig.run(*clique, nccl_sum(memory));
        ASSERT_FALSE(ended.has_value());
        EXPECT_EQ(ended.error().code(), errc::timeout) << ended.error().message();
      });
      EXPECT_LT(seconds, longest_seconds);
      EXPECT_GT(calls_of("ncclCommAbort"), 0U);
    }
    EXPECT_EQ(broken_rules(), "");
    EXPECT_TRUE(objects() == object_counts{}) << "objects are left";
  }
}

TEST(NcclTimeLimit, CommunicatorsThatDoNotFinalizeInTimeAreAborted) {
  machine shown = late_machine(2);
  shown.nccl_stuck = stuck::finalize;
  const clique_rig rig(shown);
  auto clique = or_throw(rig.open(short_limit_ns));
  EXPECT_LT(seconds_of([&] { clique.reset(); }), longest_seconds);
  EXPECT_EQ(calls_of("ncclCommAbort"), 2U);
  EXPECT_EQ(calls_of("ncclCommDestroy"), 0U);
  EXPECT_EQ(broken_rules(), "");
  EXPECT_TRUE(objects() == object_counts{}) << "objects are left";
}

std::atomic<bool> hangs{false};
/// Does not return while `hangs` is set.
void hang() {
  while (hangs.load()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}
/// Waits until a thread that was left to itself has given everything back.
void wait_for_no_objects() {
  const auto begin = std::chrono::steady_clock::now();
  while (!(objects() == object_counts{}) &&
         std::chrono::steady_clock::now() - begin < std::chrono::seconds(5)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(objects() == object_counts{}) << "objects are left";
}

TEST(NcclTimeLimit, ACallThatHangsDoesNotHangTheCaller) {
  clique_rig rig(late_machine(2));
  rig.library.api.get_unique_id = [](cuda::nccl_id* id) {
    hang();
    return weir_stand_in_nccl()->get_unique_id(id);
  };
  hangs = true;
  EXPECT_LT(seconds_of([&] {
              const auto opened = rig.open(short_limit_ns);
              ASSERT_FALSE(opened.has_value());
              EXPECT_EQ(opened.error().code(), errc::timeout);
            }),
            longest_seconds);
  hangs = false;
  wait_for_no_objects();
  rig.library.api.group_end = [] {
    hang();
    return weir_stand_in_nccl()->group_end();
  };
  {
    auto clique = or_throw(rig.open(short_limit_ns));
    const auto memory = rig.buffers(64);
    hangs = true;
    std::promise<result<void>> ended;
    clique->submit(nccl_sum(memory),
                   [&](result<void> r) { ended.set_value(std::move(r)); });
    EXPECT_LT(seconds_of([&] { clique.reset(); }), longest_seconds);
    const auto outcome = ended.get_future().get();
    ASSERT_FALSE(outcome.has_value()) << "closing ends what was asked for";
    EXPECT_EQ(outcome.error().code(), errc::timeout);
    hangs = false;
    // The thread uses the buffers when it goes on.
    while (objects().communicators > 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  wait_for_no_objects();
  EXPECT_EQ(broken_rules(), "");
}

// The thread of the clique waits for the abort, and gives back what it has when the abort
// has come back after all.
TEST(NcclTimeLimit, AnAbortThatHangsDoesNotHangWhatWasAsked) {
  machine shown = late_machine(2);
  shown.nccl_stuck = stuck::run;
  clique_rig rig(shown);
  rig.library.api.abort = [](cuda::nccl_communicator c) {
    hang();
    return weir_stand_in_nccl()->abort(c);
  };
  auto clique = or_throw(rig.open(short_limit_ns));
  {
    const auto memory = rig.buffers(64);
    hangs = true;
    EXPECT_LT(seconds_of([&] {
                const auto ended = rig.run(*clique, nccl_sum(memory));
                ASSERT_FALSE(ended.has_value());
                EXPECT_EQ(ended.error().code(), errc::timeout);
                const auto later = rig.run(*clique, nccl_sum(memory));
                ASSERT_FALSE(later.has_value());
                EXPECT_EQ(later.error().message(), ended.error().message());
                clique.reset();
              }),
              longest_seconds);
    EXPECT_EQ(objects().communicators, 2U) << "the abort has not come back";
    hangs = false;
    // The thread ends its streams behind the abort; the buffers have streams of their
    // own.
    while (objects().streams > memory.size()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  wait_for_no_objects();
  EXPECT_EQ(broken_rules(), "");
}

}  // namespace
}  // namespace weir::tessera::stand_in
