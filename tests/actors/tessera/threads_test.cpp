// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the pipeline of stream actors with threads: workers of an engine, the scheduler
/// of the actors, and a thread that kills stages.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "stage_pipeline.hpp"

namespace weir::actors {
namespace {

using namespace std::chrono_literals;

/// An actor system with threads. Its actors end before it is destroyed.
class threaded_system {
 public:
  threaded_system()
      : config_(or_throw(system_config::make({}))),
        system_(std::make_unique<caf::actor_system>(*config_)) {}
  ~threaded_system() { stop(); }
  threaded_system(const threaded_system&) = delete;
  threaded_system& operator=(const threaded_system&) = delete;

  template <class Fun, class Config>
  auto spawn(Fun fun, Config config) {
    auto handle = spawn_shared(*system_, fun, std::move(config));
    const std::lock_guard lock(mutex_);
    all_.push_back(caf::actor_cast<caf::actor>(handle));
    return handle;
  }
  /// Ends all actors and waits for them.
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      for (const caf::actor& a : all_) {
        caf::anon_send_exit(a, caf::exit_reason::user_shutdown);
      }
      all_.clear();
    }
    system_->await_all_actors_done();
  }

 private:
  std::unique_ptr<system_config> config_;
  std::unique_ptr<caf::actor_system> system_;
  std::mutex mutex_;
  std::vector<caf::actor> all_;
};

/// Waits until the queues of actors that have ended are empty.
void wait_for_tasks(tessera::context& c) {
  const auto end = std::chrono::steady_clock::now() + 60s;
  const auto busy = [&] {
    const auto counts = c.submission_lock().engine().counters();
    return counts.submitted != counts.finished;
  };
  while (busy() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(50us);
  }
  EXPECT_FALSE(busy());
}

/// Runs a pipeline, kills a random stage after every fourth batch, and checks the
/// results.
void run_pipeline_with_threads(std::uint32_t seed, int& restarts) {
  constexpr std::size_t batches = 20;
  tessera::runtime_settings settings;
  settings.threads = 1 + seed % 2;
  const auto context = or_throw(tessera::context::make(settings));
  const test::device_mesh devices(context, {1, 1, 4, 1});
  const test::pipeline_memory memory(devices, batches);
  std::atomic<std::size_t> done{0};
  std::atomic<bool> broken{false};
  threaded_system system;
  const auto streams = std::make_shared<test::kept_streams>(
      devices.mesh, [&](queue_spec s) { return system.spawn(stream_queue, s); },
      [&](supervisor_config c) { return system.spawn(supervisor, c); });
  streams->open();
  collective_spec group;
  group.name = "sums";
  group.mesh = devices.mesh;
  test::pipeline_driver_config config;
  config.streams = streams;
  config.group = system.spawn(collective_group, group);
  config.batches = memory.batches();
  config.done = [&](std::size_t) { ++done; };
  config.failed = [&](const error& e) {
    ADD_FAILURE() << e.message();
    broken = true;
  };
  const auto driver = system.spawn(test::pipeline_driver, std::move(config));
  std::mt19937 random(seed);
  const auto end = std::chrono::steady_clock::now() + 60s;
  for (std::uint64_t b = 0; b < batches; ++b) {
    caf::anon_send(driver, work_atom_v, b, std::uint64_t{0});
    if (b % 4 == 3) {
      caf::anon_send_exit(streams->get(random() % test::pipeline_streams),
                          caf::exit_reason::kill);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
  }
  while (done < batches && !broken && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(100us);
  }
  EXPECT_EQ(done, batches);
  restarts += streams->restarts();
  streams->close();
  system.stop();
  wait_for_tasks(*context);
  if (!testing::Test::HasFailure()) {
    memory.expect_serial_results();
  }
  or_throw(context->shut_down());
}

TEST(tessera_run, a_pipeline_with_killed_stages_equals_the_serial_computation) {
  int restarts = 0;
  for (std::uint32_t seed = 0; seed < 20 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    run_pipeline_with_threads(seed, restarts);
  }
  EXPECT_GT(restarts, 20);
}

}  // namespace
}  // namespace weir::actors
