// SPDX-License-Identifier: Apache-2.0
/// @file
/// Errors of the driver: at each of its functions, of both kinds, and after fork.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <future>
#include <set>
#include <thread>

#include "device/cuda/status_table.hpp"
#include "support/folders.hpp"
#include "tessera/cuda/documented_errors.hpp"
#include "tessera/cuda/workload.hpp"
#include "weir/base/bytes.hpp"
#include "weir/base/file.hpp"

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

/// Returns the errors of a function.
const documented_error& errors_of(std::string_view function) {
  return *std::find_if(documented_errors.begin(), documented_errors.end(),
                       [&](const documented_error& e) { return e.function == function; });
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

/// Runs the workload without a failure. Returns the functions that it has called, each
/// with the number of calls.
std::vector<std::pair<std::string, unsigned>> calls_of_workload(
    const std::shared_ptr<listed_executor>& executor) {
  set_up(workload_machine(), executor);
  const workload_outcome whole = run_workload(stand_in_options(), *executor);
  EXPECT_TRUE(whole.opened);
  EXPECT_TRUE(whole.failures.empty()) << whole.failures.front().message();
  EXPECT_EQ(whole.wrong, 0);
  EXPECT_EQ(broken_rules(), "");
  std::vector<std::pair<std::string, unsigned>> calls;
  for (const std::string& name : function_names()) {
    if (calls_of(name) > 0) {
      calls.emplace_back(name, calls_of(name));
    }
  }
  EXPECT_GE(calls.size(), 48U) << "the workload uses nearly all functions";
  return calls;
}

TEST(CudaErrors, TheTableNamesEachFunctionOnce) {
  std::vector<std::string> names = function_names();
  std::vector<std::string> listed;
  for (const documented_error& e : documented_errors) {
    listed.emplace_back(e.function);
    EXPECT_EQ(cuda::kind_of(e.own), cuda::status_kind::returned) << e.function;
  }
  std::sort(names.begin(), names.end());
  std::sort(listed.begin(), listed.end());
  EXPECT_EQ(listed, names);
}

TEST(CudaErrors, EveryCallMayFailAsDocumentedAtEveryOccurrence) {
  const auto executor = std::make_shared<listed_executor>(conformance_list());
  for (const auto& [name, times] : calls_of_workload(executor)) {
    std::vector<status> outcomes{errors_of(name).own};
    if (errors_of(name).out_of_memory) {
      outcomes.push_back(status::out_of_memory);
    }
    for (const unsigned nth : std::set<unsigned>{1, (times + 1) / 2, times}) {
      for (const status s : outcomes) {
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
  int functions = 0;
  for (const auto& [name, times] : calls_of_workload(executor)) {
    const documented_error& may = errors_of(name);
    if (!may.of_earlier_work) {
      continue;
    }
    ++functions;
    for (const unsigned nth : std::set<unsigned>{1, (times + 1) / 2, times}) {
      const workload_outcome out =
          run_with_failure(executor, name, nth, status::illegal_address);
      EXPECT_EQ(out.wrong, 0) << name << " " << nth;
      EXPECT_EQ(broken_rules(), "") << name << " " << nth;
      object_counts left = objects();
      left.allocations = 0;  // memory goes with the context
      EXPECT_TRUE(left == object_counts{}) << name << " " << nth;
      const bool lost =
          std::any_of(out.failures.begin(), out.failures.end(),
                      [](const error& e) { return e.code() == errc::device_lost; });
      // Memory of the host that cannot be registered can be used all the same, and the
      // workload gives the devices no work after that. A run that is quicker than the
      // first one asks its events less often, and may not come to this call.
      const bool untold = may.at_the_end || calls_of(name) < nth ||
                          (name == "cuMemHostRegister" && nth == times);
      EXPECT_TRUE(lost || untold) << name << " " << nth;
    }
  }
  EXPECT_GE(functions, 28);
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

/// Calls every function of a backend in a child of `fork`. Returns the name of the first
/// one that did not refuse, or null.
const char* call_that_works(cuda_backend& backend, const cuda_module& module,
                            std::byte* memory, std::byte* host, const fatbin& container) {
  const auto refused = [](const auto& outcome) {
    return !outcome && outcome.error().code() == errc::unsupported;
  };
  const auto refuses = [&](const device_work& work) {
    bool found = false;
    backend.submit(work, [&](result<void> done) { found = refused(done); });
    return found;
  };
  grid_launch launch;
  launch.code = or_throw(module.kernel("until_stop"));
  launch.args = std::as_bytes(std::span(&memory, 1));
  const std::pair<const char*, bool> calls[] = {
      {"properties", refused(backend.properties(0))},
      {"allocate", refused(backend.allocate(0, 256))},
      {"free", refused(backend.free(0, memory))},
      {"memory", backend.memory(0).capacity == 0},
      {"allocate_host", refused(backend.allocate_host(256))},
      {"free_host", refused(backend.free_host(host))},
      {"pin_host", refused(backend.pin_host(host, 256))},
      {"check", refused(backend.check(launch, true))},
      {"submit a fill", refuses(fill_work{memory, 1, 0, 1, {}})},
      {"submit a copy",
       refuses(copy_work{copy_kind::host_to_device, memory, host, 1, 0, 0})},
      {"submit a launch", refuses(grid_work{launch, 0, launch.blocks()})},
      {"start_persistent", refused(backend.start_persistent(launch, {}))},
      {"follow_native", refused(backend.follow_native(0, 1, {}))},
      {"load", refused(backend.load(container, "child.fatbin"))}};
  for (const auto& [name, good] : calls) {
    if (!good) {
      return name;
    }
  }
  return nullptr;
}

TEST(CudaErrors, EveryCallOfAChildOfForkGetsAnErrorAndNoneIsMade) {
  const auto executor = std::make_shared<listed_executor>(conformance_list());
  set_up(machine{}, executor);
  auto backend = or_throw(make_cuda_backend(stand_in_options()));
  const byte_vector image = executor->container("8.0");
  const fatbin container = or_throw(parse_fatbin(image));
  auto module = or_throw(backend->load(container, "listed.fatbin"));
  std::byte* const memory = or_throw(backend->allocate(0, 256));
  std::byte* const host = or_throw(backend->allocate_host(256));
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::alarm(20);  // a call that waits for a thread of the parent would never end
    const char* const works = call_that_works(*backend, *module, memory, host, container);
    if (works != nullptr) {
      std::fprintf(stderr, "in a child, %s does not refuse\n", works);
    }
    backend->unpin_host(host, 256);
    module.reset();
    backend.reset();
    ::_exit(works == nullptr && take_breaches().empty() ? 0 : 1);
  }
  int outcome = 1;
  ASSERT_EQ(::waitpid(child, &outcome, 0), child);
  EXPECT_EQ(outcome, 0);
  EXPECT_TRUE(backend->free_host(host));
  EXPECT_TRUE(backend->free(0, memory));
}

// A device is lost to its process. Nothing that the backend leaves behind keeps the next
// process from it, which is this program with another test.
TEST(CudaErrors, ALostDeviceComesBackWithTheNextProcess) {
  {
    rig r(machine{});
    grid_launch launch;
    launch.code = r.kernel("assert_false");
    const auto lost = run_on(r.backend(), launch);
    ASSERT_FALSE(lost.has_value());
    EXPECT_EQ(lost.error().code(), errc::device_lost);
    r.close(true);
    const auto again = make_cuda_backend(stand_in_options());
    ASSERT_FALSE(again.has_value()) << "the context is broken until the process ends";
    EXPECT_EQ(again.error().code(), errc::device_lost);
  }
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::execl("/proc/self/exe", "device_tests", "--gtest_brief=1",
            "--gtest_filter=CudaErrors.CompletionsMustNotWaitForDevices", nullptr);
    ::_exit(1);
  }
  int outcome = 1;
  ASSERT_EQ(::waitpid(child, &outcome, 0), child);
  EXPECT_EQ(outcome, 0) << "the next process cannot use the device";
  set_up(machine{}, nullptr);
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
  EXPECT_EQ(cuda::code_of(status::system_driver_mismatch), errc::unsupported_version);
  EXPECT_EQ(cuda::code_of(status::compat_not_supported_on_device), errc::unsupported);
  EXPECT_EQ(kind_of(static_cast<status>(799)), status_kind::sticky);
  EXPECT_EQ(kind_of(static_cast<status>(5)), status_kind::returned);
}

// An outcome without a row would become an internal error, whatever it is.
TEST(CudaErrors, EveryDeclaredOutcomeHasARowInTheTable) {
  const std::string folder = weir::test::source_folder() + "/tessera/device/cuda/";
  const auto text_of = [&](const char* name) {
    return std::string(as_text(or_throw(read_file(posix_file_system(), folder + name))));
  };
  const std::string declarations = text_of("driver_api.hpp");
  const std::string table = text_of("status_table.cpp");
  const std::size_t begin = declarations.find("enum class status");
  const std::string list =
      declarations.substr(begin, declarations.find("};", begin) - begin);
  int outcomes = 0;
  for (std::size_t at = list.find(" = "); at != list.npos;
       at = list.find(" = ", at + 1)) {
    const std::size_t first = list.rfind(' ', at - 1) + 1;
    const std::string name = list.substr(first, at - first);
    ++outcomes;
    EXPECT_TRUE(name == "success" || table.find("{status::" + name + ",") != table.npos)
        << name;
  }
  EXPECT_GE(outcomes, 46);
}

}  // namespace
}  // namespace weir::tessera::stand_in
