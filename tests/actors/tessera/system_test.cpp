// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests stream and collective actors on the deterministic scheduler, with an engine
/// whose tasks run when a seed says so: a pipeline whose stages are killed, and the
/// answers that clients get.
#include <gtest/gtest.h>

#include <functional>

#include "actors/system/stepped_system.hpp"
#include "stage_pipeline.hpp"

namespace weir::actors {
namespace {

using namespace std::chrono_literals;
using test::hand_engine;
using test::launch_of;

constexpr int few = 3;

/// A system in which messages and tasks take turns at random.
class tessera_system : public test::stepped_system {
 public:
  explicit tessera_system(std::uint32_t seed) : stepped_system(seed), random_(seed) {}
  ~tessera_system() {
    stop();
    engine.run_all();
  }
  /// Handles one message or runs one task. Returns false if there is neither.
  bool go_on() {
    if (random_() % 2 == 0) {
      return step() || engine.run_one();
    }
    return engine.run_one() || step();
  }
  void go_on_all() {
    while (go_on()) {
    }
  }
  template <class T, class Handle, class... As>
  result<T> ask(const Handle& to, As... as) {
    return ask_while<T>([this] { go_on_all(); }, to, std::move(as)...);
  }

  hand_engine engine;

 private:
  std::mt19937 random_;
};

/// Returns the specification of a stream over all ranks.
queue_spec spec_on(const hand_engine& engine) {
  queue_spec out;
  out.name = "decode";
  out.mesh = engine->mesh;
  return out;
}

/// Number of restarted streams and of finished batches.
struct pipeline_outcome {
  int restarts = 0;
  std::size_t done = 0;
};

/// Runs a pipeline, kills streams as a seed says, and checks the results.
void run_pipeline(std::uint32_t seed, int kills, pipeline_outcome& out) {
  constexpr std::size_t batches = 4;
  tessera_system system(seed);
  std::mt19937 random(seed * 77 + 1);
  const test::pipeline_memory memory(system.engine.devices(), batches);
  const auto streams = std::make_shared<test::kept_streams>(
      system.engine->mesh,
      [&](queue_spec s) { return system.spawn(stream_queue, std::move(s)); },
      [&](supervisor_config c) { return system.spawn(supervisor, std::move(c)); });
  streams->open();
  collective_spec group;
  group.name = "sums";
  group.mesh = system.engine->mesh;
  test::pipeline_driver_config config;
  config.streams = streams;
  config.group = system.spawn(collective_group, group);
  config.batches = memory.batches();
  config.done = [&](std::size_t) { ++out.done; };
  config.failed = [](const error& e) { ADD_FAILURE() << e.message(); };
  const auto driver = system.spawn(test::pipeline_driver, std::move(config));
  for (std::uint64_t b = 0; b < batches; ++b) {
    system.self()->send(driver, work_atom_v, b, std::uint64_t{0});
  }
  while (out.done < batches && system.go_on()) {
    if (kills > 0 && random() % 40 == 0) {
      --kills;
      system.self()->send_exit(streams->get(random() % test::pipeline_streams),
                               caf::exit_reason::kill);
    }
  }
  out.restarts = streams->restarts();
  streams->close();
  system.stop();
  system.engine.run_all();
  memory.expect_serial_results();
}

TEST(tessera_pipeline, equals_the_serial_computation_in_every_interleaving) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    pipeline_outcome out;
    run_pipeline(seed, 0, out);
    EXPECT_EQ(out.done, 4U);
    EXPECT_EQ(out.restarts, 0);
    if (HasFailure()) {
      return;
    }
  }
}

TEST(tessera_pipeline, equals_it_with_stages_that_are_killed_and_restarted) {
  int restarts = 0;
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    pipeline_outcome out;
    run_pipeline(seed, 1 + static_cast<int>(seed % 5), out);
    EXPECT_EQ(out.done, 4U);
    restarts += out.restarts;
    if (HasFailure()) {
      return;
    }
  }
  EXPECT_GT(restarts, 100);
}

/// A system with memory on its devices, and helpers that open actors.
struct tessera_actors : testing::Test {
  tessera_system system{7};
  float* x = system.engine->memory(few);
  stream_actor open(queue_spec spec) {
    return system.spawn(stream_queue, std::move(spec));
  }
  stream_actor open() { return open(spec_on(system.engine)); }
  /// Spawns a collective over all ranks.
  collective_actor open_group(std::int64_t deadline_ns = 1'000'000'000) {
    collective_spec spec;
    spec.name = "sums";
    spec.mesh = system.engine->mesh;
    spec.deadline_ns = deadline_ns;
    return system.spawn(collective_group, std::move(spec));
  }
  /// Returns the order with which a rank joins.
  [[nodiscard]] local<join_order> share_of(int rank, std::size_t elements = few) const {
    join_order out;
    out.rank = rank;
    out.request.call.count = elements;
    out.request.input = out.request.output = x;
    return by_reference(std::move(out));
  }
  /// Sends a request whose answer is appended to a list.
  template <class Handle, class... As>
  void request(const Handle& to, As... as) {
    auto asked = system.self()->request(to, 3600s, std::move(as)...);
    auto shared = std::make_shared<decltype(asked)>(std::move(asked));
    pending.push_back([shared] {
      result<std::uint64_t> out = error(errc::internal, "no answer");
      shared->receive([&](std::uint64_t value) { out = value; },
                      [&](const caf::error& e) { out = from_caf(e, "asking"); });
      return out;
    });
  }
  std::vector<result<std::uint64_t>> answers() {
    std::vector<result<std::uint64_t>> out;
    for (const auto& p : pending) {
      out.push_back(p());
    }
    pending.clear();
    return out;
  }
  std::vector<std::function<result<std::uint64_t>()>> pending;
};

TEST_F(tessera_actors, a_stream_reports_failures_with_origin_text_and_causes) {
  const auto stream = open();
  EXPECT_TRUE(system
                  .ask<std::uint64_t>(stream, launch_atom_v,
                                      by_reference(launch_of("stage", {x, x, 1, 2}, few)))
                  .has_value());
  EXPECT_EQ(or_throw(system.ask<std::uint64_t>(stream, sync_atom_v)), 1U);
  EXPECT_EQ(system.engine->instance(x, 3)[0], 8.0F);
  const auto refused = system.ask<std::uint64_t>(
      stream, launch_atom_v, by_reference(launch_of("stage", {x, x, 1, 2}, -1)));
  EXPECT_EQ(refused.error().code(), errc::invalid_argument);
  EXPECT_TRUE(system
                  .ask<std::uint64_t>(stream, launch_atom_v,
                                      by_reference(launch_of("broken", {}, 1)))
                  .has_value());
  const auto failed = system.ask<std::uint64_t>(stream, sync_atom_v);
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().code(), errc::kernel_failed);
  EXPECT_EQ(failed.error().location(), "stream \"decode\"");
  ASSERT_NE(failed.error().cause(), nullptr);
  EXPECT_NE(failed.error().root().text().find("broken"), std::string::npos)
      << failed.error().message();
  EXPECT_TRUE(system.ask<std::uint64_t>(stream, sync_atom_v).has_value());
  EXPECT_EQ(or_throw(system.ask<std::string>(stream, status_atom_v)),
            "stream \"decode\": 2 operations enqueued, 2 known to have ended, 0 "
            "synchronizations wait");
}

TEST_F(tessera_actors, a_synchronization_has_a_deadline) {
  auto spec = spec_on(system.engine);
  spec.deadline_ns = 5'000'000'000;
  const auto stream = open(spec);
  request(stream, launch_atom_v, by_reference(launch_of("stage", {x, x, 1, 2}, few)));
  request(stream, sync_atom_v);
  system.step_all();  // no task runs
  system.advance(4s);
  system.step_all();
  EXPECT_EQ(or_throw(system.ask_while<std::string>([&] { system.step_all(); }, stream,
                                                   status_atom_v)),
            "stream \"decode\": 1 operations enqueued, 0 known to have ended, 1 "
            "synchronizations wait");
  system.advance(1s);
  system.step_all();
  const auto all = answers();
  EXPECT_TRUE(all[0].has_value());
  EXPECT_EQ(all[1].error().code(), errc::timeout);
}

TEST_F(tessera_actors, clients_that_wait_for_a_killed_stream_get_an_error) {
  const auto stream = open();
  request(stream, sync_atom_v);
  system.step_all();
  system.self()->send_exit(stream, caf::exit_reason::kill);
  system.step_all();
  request(stream, sync_atom_v);
  const auto all = answers();
  EXPECT_EQ(all[0].error().code(), errc::abandoned);
  EXPECT_EQ(all[1].error().code(), errc::stopping);
  system.engine.run_all();  // the workers' message has no receiver any more
}

TEST_F(tessera_actors, a_stream_that_cannot_be_opened_says_why_to_everybody) {
  auto spec = spec_on(system.engine);
  spec.options.rank = 17;
  const auto stream = open(spec);
  EXPECT_EQ(system.ask<std::uint64_t>(stream, sync_atom_v).error().code(),
            errc::invalid_argument);
  EXPECT_EQ(system.ask<std::string>(stream, status_atom_v).error().code(),
            errc::invalid_argument);
  collective_spec group;
  EXPECT_EQ(system
                .ask<std::uint64_t>(system.spawn(collective_group, group), join_atom_v,
                                    share_of(0))
                .error()
                .code(),
            errc::invalid_argument);
}

TEST_F(tessera_actors, ranks_that_join_are_answered_when_all_is_done) {
  const auto group = open_group();
  for (int r = 0; r < 4; ++r) {
    std::fill_n(system.engine->instance(x, r), few, static_cast<float>(r));
    request(group, join_atom_v, share_of(r));
  }
  system.go_on_all();
  for (const auto& a : answers()) {
    EXPECT_EQ(or_throw(a), 0U);
  }
  EXPECT_EQ(system.engine->instance(x, 1)[few - 1], 6.0F);
}

TEST_F(tessera_actors, every_rank_gets_the_text_of_a_mismatch) {
  const auto group = open_group();
  for (int r = 0; r < 4; ++r) {
    request(group, join_atom_v, share_of(r, r == 2 ? few - 1 : few));
  }
  system.go_on_all();
  for (const auto& a : answers()) {
    ASSERT_FALSE(a.has_value());
    EXPECT_EQ(a.error().code(), errc::collective_mismatch);
    EXPECT_EQ(a.error().location(), "collective \"sums\"");
    EXPECT_NE(a.error().text().find("rank 2 with all_reduce of 2"), std::string::npos)
        << a.error().text();
  }
}

TEST_F(tessera_actors, every_rank_gets_the_error_of_a_policy_that_differs) {
  const auto group = open_group();
  for (int r = 0; r < 4; ++r) {
    join_order order = *share_of(r);
    order.descriptor.deterministic = r != 1;
    request(group, join_atom_v, by_reference(std::move(order)));
  }
  system.go_on_all();
  for (const auto& a : answers()) {
    ASSERT_FALSE(a.has_value());
    EXPECT_EQ(a.error().code(), errc::determinism_violation);
    EXPECT_NE(a.error().text().find("policy of level 0"), std::string::npos)
        << a.error().text();
  }
}

TEST_F(tessera_actors, ranks_that_time_out_get_the_missing_ranks) {
  const auto group = open_group(2'000'000'000);
  request(group, join_atom_v, share_of(3));
  request(group, join_atom_v, share_of(1));
  system.go_on_all();
  EXPECT_EQ(or_throw(system.ask<std::string>(group, status_atom_v)),
            "collective \"sums\" of 4 ranks: 0 shares run, 2 wait for others");
  system.advance(2s);
  system.go_on_all();
  for (const auto& a : answers()) {
    ASSERT_FALSE(a.has_value());
    EXPECT_EQ(a.error().code(), errc::timeout);
    EXPECT_NE(a.error().text().find("rank 0, 2 did not join"), std::string::npos)
        << a.error().text();
  }
}

}  // namespace
}  // namespace weir::actors
