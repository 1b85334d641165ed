// SPDX-License-Identifier: Apache-2.0
/// @file
/// Errors of the driver: at each of its functions, of both kinds, and after fork.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>
#include <set>
#include <thread>

#include "device/cuda/status_table.hpp"
#include "tessera/cuda/workload.hpp"

namespace weir::tessera::stand_in {
namespace {

using cuda::status;

/// Names of the functions that the backend calls.
std::vector<std::string> function_names() {
  std::vector<std::string> names;
#define WEIR_CUDA_NAME(member, name, version, needed, parameters) names.push_back(#name);
  WEIR_CUDA_FUNCTIONS(WEIR_CUDA_NAME)
#undef WEIR_CUDA_NAME
  return names;
}

/// Runs the workload with one failing call. A run of more than 10 s ends the process.
workload_outcome run_with_failure(const std::shared_ptr<listed_executor>& executor,
                                  const std::string& function, unsigned nth, status s) {
  ::alarm(10);
  set_up(workload_machine(), executor);
  fail_call(function, nth, s);
  workload_outcome out = run_workload(stand_in_options(), *executor);
  ::alarm(0);
  return out;
}

/// Returns the rules that were broken, in words.
std::string broken_rules() {
  std::string text;
  for (const breach& b : take_breaches()) {
    text += b.rule + ": " + b.text + "\n";
  }
  return text;
}

TEST(CudaErrors, EveryCallMayFailAtEveryOccurrence) {
  const auto executor = std::make_shared<listed_executor>(conformance_list());
  set_up(workload_machine(), executor);
  const workload_outcome whole = run_workload(stand_in_options(), *executor);
  ASSERT_TRUE(whole.opened);
  ASSERT_TRUE(whole.failures.empty()) << whole.failures.front().message();
  EXPECT_EQ(whole.wrong, 0);
  EXPECT_EQ(broken_rules(), "");
  std::vector<std::pair<std::string, unsigned>> calls;
  for (const std::string& name : function_names()) {
    if (calls_of(name) > 0) {
      calls.emplace_back(name, calls_of(name));
    }
  }
  EXPECT_GE(calls.size(), 48U) << "the workload uses nearly all functions";
  for (const auto& [name, times] : calls) {
    for (const unsigned nth : std::set<unsigned>{1, (times + 1) / 2, times}) {
      for (const status s : {status::invalid_value, status::out_of_memory}) {
        const workload_outcome out = run_with_failure(executor, name, nth, s);
        EXPECT_EQ(out.wrong, 0) << name << " " << nth;
        EXPECT_EQ(broken_rules(), "") << name << " " << nth;
        EXPECT_TRUE(objects() == object_counts{}) << name << " " << nth;
      }
    }
  }
  set_up(machine{}, nullptr);
}

TEST(CudaErrors, AStickyErrorAtAnyCallLosesTheDevice) {
  const auto executor = std::make_shared<listed_executor>(conformance_list());
  const std::vector<std::string> functions{
      "cuMemcpyHtoDAsync", "cuLaunchKernelEx",        "cuEventQuery",
      "cuEventRecord",     "cuMemAllocFromPoolAsync", "cuMemFreeAsync",
      "cuMemsetD32Async",  "cuMemHostRegister",       "cuGraphAddMemsetNode",
      "cuGraphLaunch"};
  for (const std::string& name : functions) {
    const workload_outcome out =
        run_with_failure(executor, name, 3, status::illegal_address);
    EXPECT_EQ(out.wrong, 0) << name;
    EXPECT_EQ(broken_rules(), "") << name;
    object_counts left = objects();
    left.allocations = 0;  // memory goes with the context
    EXPECT_TRUE(left == object_counts{}) << name;
    const bool lost =
        std::any_of(out.failures.begin(), out.failures.end(),
                    [](const error& e) { return e.code() == errc::device_lost; });
    EXPECT_TRUE(lost) << name;
  }
  set_up(machine{}, nullptr);
}

result<void> run_on(device_backend& backend, const grid_launch& launch) {
  std::promise<result<void>> ended;
  backend.submit(grid_work{launch, 0, launch.blocks()},
                 [&](result<void> r) { ended.set_value(std::move(r)); });
  return ended.get_future().get();
}

TEST(CudaErrors, AKernelThatFaultsLosesItsDeviceAlone) {
  machine shown;
  shown.devices = 2;
  rig r(shown);
  for (const char* const name : {"write_astray", "assert_false"}) {
    const std::int32_t device = std::string_view(name) == "write_astray" ? 0 : 1;
    auto memory = r.backend().allocate(device, 256);
    ASSERT_TRUE(memory.has_value());
    grid_launch launch;
    launch.code = r.kernel(name);
    launch.device = device;
    launch.args = std::as_bytes(std::span(&*memory, 1));
    const auto first = run_on(r.backend(), launch);
    ASSERT_FALSE(first.has_value());
    EXPECT_EQ(first.error().code(), errc::device_lost);
    const std::string text = first.error().message();
    EXPECT_NE(text.find(name), std::string::npos) << text;
    EXPECT_NE(text.find(device == 0 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_ASSERT"),
              std::string::npos)
        << text;
    const auto second = run_on(r.backend(), launch);
    ASSERT_FALSE(second.has_value());
    EXPECT_EQ(second.error().message(), text) << "later work gets the first error";
    EXPECT_FALSE(r.backend().allocate(device, 1).has_value());
    EXPECT_TRUE(r.backend().free(device, *memory).has_value());
    if (device == 0) {
      EXPECT_TRUE(r.backend().allocate(1, 256).has_value()) << "the other device goes on";
    }
  }
  r.close(true);
}

TEST(CudaErrors, ChildrenOfForkGetAnError) {
  rig r(machine{});
  auto memory = r.backend().allocate(0, 256);
  ASSERT_TRUE(memory.has_value());
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto made = r.backend().allocate(0, 256);
    bool refused = !made && made.error().code() == errc::unsupported;
    r.backend().submit(fill_work{*memory, 1, 0, 1, {}}, [&](result<void> done) {
      refused = refused && !done && done.error().code() == errc::unsupported;
    });
    refused = refused && !r.backend().free(0, *memory);
    ::_exit(refused ? 0 : 1);
  }
  int outcome = 1;
  ASSERT_EQ(::waitpid(child, &outcome, 0), child);
  EXPECT_EQ(outcome, 0);
  EXPECT_TRUE(r.backend().free(0, *memory).has_value());
}

TEST(CudaErrors, CompletionsMustNotWaitForDevices) {
  rig r(machine{});
  auto memory = r.backend().allocate(0, 256);
  ASSERT_TRUE(memory.has_value());
  std::promise<result<std::byte*>> inside;
  r.backend().submit(fill_work{*memory, 1, 0, 1, {}},
                     [&](result<void>) { inside.set_value(r.backend().allocate(0, 1)); });
  const auto found = inside.get_future().get();
  ASSERT_FALSE(found.has_value());
  EXPECT_EQ(found.error().code(), errc::invalid_argument);
}

/// Returns the listed kernels and one that sets `started` and runs until `released`.
std::vector<listed_kernel> kernels_with_an_endless_one(std::atomic<bool>& started,
                                                       std::atomic<bool>& released) {
  std::vector<listed_kernel> all = conformance_list();
  listed_kernel endless = all.front();
  endless.name = "until_released";
  endless.run = [&](const launch_request& /*r*/) -> result<launch_report> {
    started = true;
    while (!released) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    return launch_report{true, {}};
  };
  all.push_back(std::move(endless));
  return all;
}

TEST(CudaErrors, WorkThatACompletionSubmitsWhileTheDeviceClosesIsAnswered) {
  ::alarm(30);
  std::atomic<bool> started{false};
  std::atomic<bool> released{false};
  const auto executor =
      std::make_shared<listed_executor>(kernels_with_an_endless_one(started, released));
  set_up(machine{}, executor);
  auto backend = or_throw(make_cuda_backend(stand_in_options()));
  const byte_vector image = executor->container("8.0");
  auto loaded = or_throw(backend->load(or_throw(parse_fatbin(image)), "listed.fatbin"));
  std::byte* const memory = or_throw(backend->allocate(0, 256));
  grid_launch launch;
  launch.code = or_throw(loaded->kernel("until_released"));
  launch.args = std::as_bytes(std::span(&memory, 1));
  std::vector<errc> answers;  // by one thread, and read after its end
  cuda_backend* const device = backend.get();
  device->submit(grid_work{launch, 0, launch.blocks()}, [&](result<void> first) {
    answers.push_back(first ? errc::internal : first.error().code());
    device->submit(fill_work{memory, 1, 0, 1, {}}, [&](result<void> second) {
      answers.push_back(second ? errc::internal : second.error().code());
    });
  });
  while (!started) {
    std::this_thread::yield();
  }
  // The module is leaked: its kernel still runs, and afterwards the device that would
  // unload it is gone.
  [[maybe_unused]] static const cuda_module* const kept = loaded.release();
  backend.reset();
  EXPECT_EQ(answers, std::vector<errc>(2, errc::device_lost));
  released = true;
  set_up(machine{}, nullptr);
  (void)take_breaches();  // the context goes while its kernel runs
  ::alarm(0);
}

TEST(CudaErrors, TheTableTellsTheKinds) {
  using cuda::kind_of;
  using cuda::status_kind;
  EXPECT_EQ(kind_of(status::out_of_memory), status_kind::returned);
  EXPECT_EQ(kind_of(status::not_ready), status_kind::pending);
  EXPECT_EQ(kind_of(status::illegal_address), status_kind::sticky);
  EXPECT_EQ(cuda::code_of(status::illegal_address), errc::device_lost);
  EXPECT_EQ(cuda::code_of(status::unsupported_ptx_version), errc::unsupported_version);
  EXPECT_EQ(cuda::code_of(status::host_memory_already_registered), errc::already_exists);
  EXPECT_EQ(kind_of(static_cast<status>(799)), status_kind::sticky);
  EXPECT_EQ(kind_of(static_cast<status>(5)), status_kind::returned);
}

}  // namespace
}  // namespace weir::tessera::stand_in
