// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the lifetimes of contexts: whether contexts leave anything behind, small
/// windows, and changes while operations run. WEIR_TEST_RESTARTS sets how many contexts
/// are created and shut down.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "support.hpp"
#include "support/case_count.hpp"
#include "weir/base/system/sanitizers.hpp"
#include "weir/runtime/engine.hpp"
#include "weir/tessera/stream/collective.hpp"
#include "weir/tessera/stream/context.hpp"
#include "weir/tessera/stream/graph.hpp"
#include "weir/tessera/stream/stream.hpp"
#include "weir/tessera/stream/work.hpp"

namespace weir::test {
namespace {

using tessera::context;
using tessera::graph_exec;
using tessera::graph_recording;
using tessera::mesh;
using tessera::ref;
using tessera::stream;

/// Makes a mesh of `devices` devices along dp.
std::shared_ptr<mesh> mesh_on(context& owner, int devices) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(devices));
  std::iota(ids.begin(), ids.end(), 0);
  return or_throw(owner.make_mesh(ids, {0, 0, devices, 0}));
}

/// Waits up to ten seconds for a condition and returns whether it became true.
bool soon(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return true;
}

// A stream that records is closed before anyone takes its graph. Weak references show
// whether the stream, the recording and the context keep each other alive.
TEST(TesseraLifetime, ARecordingThatNobodyTookGoesWithItsStream) {
  for (const bool closed_by_synchronization : {true, false}) {
    auto owner = or_throw(context::make({}));
    auto m = mesh_on(*owner, 2);
    auto s = or_throw(stream::make(m, {}));
    auto recording = std::make_shared<graph_recording>();
    {
      const auto in = owner->submission_lock().enter();
      recording->take_part(*s);
      s->record_into(recording, false);
    }
    std::atomic<int> runs{0};
    s->enqueue(tessera::make_host_function([&] { ++runs; }));
    if (closed_by_synchronization) {
      or_throw(s->synchronize());
      EXPECT_NE(s->last_recording(), nullptr);
    }
    const std::weak_ptr<graph_recording> left = std::exchange(recording, nullptr);
    const std::weak_ptr<stream> closed = s;
    s->close();
    s = nullptr;
    EXPECT_TRUE(owner->shut_down().has_value());
    EXPECT_TRUE(soon([&] { return closed.expired() && left.expired(); }))
        << "synchronized: " << closed_by_synchronization;
    EXPECT_EQ(runs, 1);
    m = nullptr;
    const std::weak_ptr<context> last = std::exchange(owner, nullptr);
    EXPECT_TRUE(last.expired());
  }
}

/// Sums the numbers of all ranks with the ring algorithm along all ranks.
void sum_ranks(const std::shared_ptr<mesh>& m, const std::shared_ptr<stream>& s,
               std::int64_t* address, std::size_t count) {
  tessera::collective_request sum;
  sum.call.kind = collective::collective_kind::all_reduce;
  sum.call.type = dtype::int64;
  sum.call.count = count;
  sum.input = address;
  sum.output = address;
  sum.how = collective::algorithm::ring;
  sum.chunk_bytes = 64;
  ref<tessera::operation> sum_operation = or_throw(tessera::make_collective(*s, sum));
  EXPECT_GT(sum_operation->tasks(m->ranks()), 8U)
      << "the test needs more tasks than the window holds";
  s->enqueue(std::move(sum_operation));
}

TEST(TesseraLifetime, AnEngineOfTheProgramMayHaveASmallWindow) {
  constexpr std::size_t count = 200;
  runtime::engine_options options;
  options.workers = 2;
  options.window = 8;
  options.heap = 0;
  const auto workers = or_throw(runtime::engine::create(options));
  auto owner = or_throw(context::over(*workers, {}));
  const auto m = mesh_on(*owner, 4);
  const auto s = or_throw(stream::make(m, {}));
  const auto other = or_throw(stream::make(m, {}));
  auto* const x = static_cast<std::int64_t*>(
      or_throw(owner->allocate(m, count * sizeof(std::int64_t))));
  std::vector<std::int64_t> host(count);
  std::iota(host.begin(), host.end(), 1);
  const auto copy = [&](void* to, const void* from, tessera::copy_kind kind, int rank) {
    tessera::copy_request request;
    request.to = to;
    request.from = from;
    request.bytes = count * sizeof(std::int64_t);
    request.kind = kind;
    request.rank = rank;
    s->enqueue(or_throw(tessera::make_copy(*s, request)));
  };
  copy(x, host.data(), tessera::copy_kind::host_to_device, -1);
  sum_ranks(m, s, x, count);
  sum_ranks(m, s, x, count);
  std::vector<std::int64_t> got(count);
  copy(got.data(), x, tessera::copy_kind::device_to_host, 3);
  or_throw(s->synchronize());
  for (std::size_t i = 0; i < count; ++i) {
    ASSERT_EQ(got[i], static_cast<std::int64_t>(16 * (i + 1))) << i;
  }
  // Enqueues many small operations from two threads, with events between them.
  std::atomic<int> runs{0};
  std::thread second([&] {
    for (int i = 0; i < 500; ++i) {
      other->enqueue(tessera::make_host_function([&] { ++runs; }));
    }
  });
  tessera::event mark;
  for (int i = 0; i < 500; ++i) {
    s->enqueue(tessera::make_host_function([&] { ++runs; }));
    s->record(mark);
    or_throw(other->wait(mark));
  }
  second.join();
  or_throw(other->synchronize());
  or_throw(s->synchronize());
  EXPECT_EQ(runs, 1000);
  EXPECT_TRUE(owner->shut_down().has_value());
}

TEST(TesseraLifetime, AResultThatASecondScheduleDoesNotGiveIsAViolation) {
  auto owner = or_throw(context::make({}));
  const auto m = mesh_on(*owner, 2);
  const auto s = or_throw(stream::make(m, {}));
  constexpr std::size_t count = 5000;
  auto* const x = static_cast<std::int64_t*>(
      or_throw(owner->allocate(m, count * sizeof(std::int64_t))));
  const auto place = owner->memory().find(x);
  collective::collective_call sum;
  sum.type = dtype::int64;
  sum.count = count;
  const auto plan_of = [&](collective::reduction_op op) {
    sum.op = op;
    return or_throw(owner->plans().get(sum, 2, {}, {}));
  };
  // All schedules of one call give the same bits. To provoke a difference, this call is
  // verified by another one with a different operation.
  for (const auto other :
       {collective::reduction_op::sum, collective::reduction_op::max}) {
    tessera::collective_group g;
    g.ranks = {0, 1};
    for (const int rank : g.ranks) {
      std::fill_n(reinterpret_cast<std::int64_t*>(place->on_rank(rank)), count, rank + 1);
      g.inputs.push_back(place->on_rank(rank));
      g.outputs.push_back(place->on_rank(rank));
    }
    tessera::pooled_list<tessera::collective_group> groups;
    groups.push_back(std::move(g));
    const auto checked = tessera::make_ref<tessera::collective_operation>(
        plan_of(collective::reduction_op::sum), collective::collective_choice(),
        std::move(groups), SIZE_MAX);
    checked->verify_by(plan_of(other));
    s->enqueue(checked);
    const auto ended = s->synchronize();
    EXPECT_EQ(ended.has_value(), other == collective::reduction_op::sum);
    if (!ended) {
      EXPECT_EQ(ended.error().code(), errc::determinism_violation);
    }
  }
  EXPECT_TRUE(owner->shut_down().has_value());
}

TEST(TesseraLifetime, ReplaysOfGraphsLookNothingUp) {
  auto owner = or_throw(context::make({}));
  const auto m = mesh_on(*owner, 4);
  const auto s = or_throw(stream::make(m, {}));
  void* const x = or_throw(owner->allocate(m, 4096));
  tessera::collective_request sum;
  sum.call.count = 1024;
  sum.input = sum.output = x;
  auto recording = std::make_shared<graph_recording>();
  {
    const auto in = owner->submission_lock().enter();
    recording->take_part(*s);
    s->record_into(recording, true);
  }
  for (int i = 0; i < 20; ++i) {
    s->enqueue(or_throw(make_collective(*s, sum)));
  }
  std::shared_ptr<const tessera::graph> made;
  {
    const auto in = owner->submission_lock().enter();
    made = or_throw(recording->finish(s.get()));
  }
  const auto exec = or_throw(graph_exec::make(made));
  const auto lookups_of = [&](int launches) {
    // A replay looks up tasks that were submitted one by one and have not ended. Wait
    // until all have.
    or_throw(s->synchronize());
    while (!owner->submission_lock().enter().all_ended()) {
      std::this_thread::yield();
    }
    const auto now = [&] { return owner->submission_lock().engine().counters().lookups; };
    const std::uint64_t before = now();
    for (int i = 0; i < launches; ++i) {
      or_throw(exec->launch(s));
    }
    return now() - before;
  };
  EXPECT_GE(lookups_of(1), 20U)
      << "the first launch records the graph and looks its regions up";
  EXPECT_EQ(lookups_of(1), 0U);
  EXPECT_EQ(lookups_of(50), 0U);
  or_throw(s->synchronize());
  EXPECT_TRUE(owner->shut_down().has_value());
}

TEST(TesseraLifetime, GraphsAreUpdatedWhileOthersLaunchThem) {
  auto owner = or_throw(context::make({}));
  const auto m = mesh_on(*owner, 2);
  const auto recorded_on = or_throw(stream::make(m, {}));
  std::atomic<int> sum{0};
  const auto adds = [&](int n) {
    return tessera::make_host_function([&sum, n] { sum += n; });
  };
  auto recording = std::make_shared<graph_recording>();
  {
    const auto in = owner->submission_lock().enter();
    recording->take_part(*recorded_on);
    recorded_on->record_into(recording, true);
  }
  recorded_on->enqueue(adds(1));
  recorded_on->enqueue(adds(1));
  std::shared_ptr<const tessera::graph> made;
  {
    const auto in = owner->submission_lock().enter();
    made = or_throw(recording->finish(recorded_on.get()));
  }
  const auto exec = or_throw(graph_exec::make(made));
  constexpr int launches = 200;
  constexpr int threads = 2;
  std::vector<std::thread> launchers;
  for (int t = 0; t < threads; ++t) {
    launchers.emplace_back([&] {
      const auto s = or_throw(stream::make(m, {}));
      for (int i = 0; i < launches; ++i) {
        or_throw(exec->launch(s));
      }
      or_throw(s->synchronize());
      s->close();
    });
  }
  for (int i = 0; i < 30; ++i) {
    or_throw(exec->update(1, *adds(1000), *recorded_on));
  }
  for (std::thread& t : launchers) {
    t.join();
  }
  // The first node has run in every launch and added 1. The second has added 1 or, after
  // its update, 1000.
  constexpr int runs = threads * launches;
  const int updated = (sum - 2 * runs) / 999;
  EXPECT_EQ(sum, 2 * runs + 999 * updated);
  EXPECT_TRUE(updated >= 0 && updated <= runs) << sum;
  const int before = sum;
  or_throw(exec->launch(recorded_on));
  or_throw(recorded_on->synchronize());
  EXPECT_EQ(sum - before, 1001) << "the launch runs the updated node";
  EXPECT_TRUE(owner->shut_down().has_value());
}

/// Resources that the process holds.
struct footprint {
  std::size_t resident;  ///< bytes
  std::size_t files;     ///< open descriptors
  std::size_t threads;
};

/// Returns the number of entries of a folder.
std::size_t entries_of(const char* folder) {
  const std::filesystem::directory_iterator all(folder);
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

/// Returns the resources that the process holds now.
footprint footprint_now() {
  std::ifstream in("/proc/self/statm");
  std::size_t total = 0;
  std::size_t resident = 0;
  in >> total >> resident;
  return {resident * 4096, entries_of("/proc/self/fd"), entries_of("/proc/self/task")};
}

/// Adds 1 to the number at its argument.
int restart_kernel(const tessBlockContext*, const void* args) {
  ++**static_cast<int64_t* const*>(args);
  return 0;
}

/// Makes one object of each kind and shuts the context down, which ends the objects that
/// are not destroyed. An open profiler is the exception: it stays until `profiler` is
/// stopped.
void one_context(int number, tessProfiler_t& profiler) {
  session s(4);
  const registered_module m(s.context,
                            {{"restart", restart_kernel, {pointer_to("x", TESS_INT64)}}});
  auto* x = s.memory<int64_t>(1000);
  tessStream_t other = nullptr;
  tessEvent_t event = nullptr;
  EXPECT_TESS(tessStreamCreate(s.mesh, 0, &other));
  EXPECT_TESS(tessEventCreate(&event));
  EXPECT_TESS(tessProfilerStart(s.context, &profiler));
  EXPECT_TESS(
      tessLaunch(m["restart"], s.mesh, {{1, 1, 1}, {1, 1, 1}, 0, 0}, &x, 8, s.stream));
  EXPECT_TESS(tessEventRecord(event, s.stream));
  EXPECT_TESS(tessStreamWaitEvent(other, event));
  EXPECT_TESS(tessAllReduce(s.mesh, x, 1000, TESS_INT64, TESS_COLL_SUM, nullptr, other));
  if (number % 2 == 0) {
    EXPECT_TESS(tessStreamSynchronize(other));
    int64_t got = 0;
    EXPECT_TESS(tessMemcpyAsync(&got, x, 8, TESS_COPY_D2H, other));
    EXPECT_TESS(tessStreamSynchronize(other));
    EXPECT_EQ(got, 4);
    EXPECT_TESS(tessProfilerStop(std::exchange(profiler, nullptr), nullptr));
    EXPECT_TESS(tessStreamDestroy(other));
    EXPECT_TESS(tessFree(s.mesh, x));
  }
  EXPECT_TESS(tessEventDestroy(event));
}

/// Creates and ends one context with everything in it.
void one_life(int number) {
  tessProfiler_t profiler = nullptr;
  one_context(number, profiler);
  if (profiler != nullptr) {
    EXPECT_TESS(tessProfilerStop(profiler, nullptr));
  }
}

TEST(TesseraRestart, RepeatedRestartsLeaveNothingBehind) {
  const environment quiet({{"TESS_NUM_THREADS", "2"}});
  // Fewer lives would not show memory that each of them leaves behind.
  const int lives =
      std::max(100, static_cast<int>(case_count("WEIR_TEST_RESTARTS", 600)));
  const auto live = [](int first, int last) {
    for (int i = first; i < last; ++i) {
      one_life(i);
    }
  };
  live(0, lives / 3);  // lets the allocators reach their usual size
  const footprint before = footprint_now();
  live(lives / 3, lives);
  const footprint after = footprint_now();
  EXPECT_EQ(after.files, before.files);
  EXPECT_EQ(after.threads, before.threads);
  // Allocators grow in steps of up to 8 MiB. A leak of 2 KiB per life is seen in 10 000
  // lives, one of 30 KiB in 600. The amount of freed memory that AddressSanitizer keeps
  // varies; it finds leaks itself.
  const std::size_t slack = std::size_t{address_sanitizer ? 64U : 12U} << 20;
  EXPECT_LE(after.resident, before.resident + slack)
      << "grew by " << (after.resident - before.resident) / 1024 << " KiB in " << lives;
}

}  // namespace
}  // namespace weir::test
