// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rows about launches, events and replayed graphs on one device.
#include <atomic>
#include <ctime>

#include "clean.hpp"
#include "one_processor.hpp"
#include "rows.hpp"
#include "weir/tessera/module/fatbin.hpp"

namespace weir::bench {
namespace {

int empty_kernel(const tessBlockContext*, const void*) {
  return 0;
}

constexpr tessLaunchConfig one_block{{1, 1, 1}, {1, 1, 1}, 0, 0};
constexpr int batch = 1000;  // fewer than an engine takes without waiting
constexpr std::size_t samples = 25;

/// A context with a kernel that does nothing.
class launcher : public tessera {
 public:
  explicit launcher(int workers) : tessera(1, workers) {
    tessUnregisterHostKernel("empty");  // registered by an earlier row
    or_throw(tessRegisterHostKernel("empty", reinterpret_cast<void (*)()>(empty_kernel),
                                    nullptr, 0, TESS_KERNEL_DETERMINISTIC));
    weir::tessera::fatbin_builder builder;
    weir::tessera::kernel_record record;
    record.name = "empty";
    record.flags = TESS_KERNEL_DETERMINISTIC;
    weir::or_throw(builder.add_kernel(std::move(record)));
    builder.add_code(weir::tessera::section_kind::cpu_registered, "host");
    const auto image = weir::or_throw(builder.build());
    tessModule_t module = nullptr;
    or_throw(tessModuleLoad(context, image.data(), image.size(), &module));
    or_throw(tessKernelGet(module, "empty", &kernel));
  }

  void launch() const {
    or_throw(tessLaunch(kernel, mesh, one_block, nullptr, 0, stream));
  }

  tessKernel_t kernel = nullptr;
};

/// Returns the median of `sample`. The thread that enqueues comes in addition to the
/// workers.
template <class Sample>
double typical(unsigned processors, Sample&& sample) {
  return median(clean_samples(processors, samples, sample, thread_pair(), threads::more));
}

double process_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

/// Returns the processor time of the thread that enqueues, per launch.
double launch_ns() {
  const launcher l(2);
  const double s = typical(2, [&] {
    const double took = thread_seconds_of([&] {
      for (int i = 0; i < batch; ++i) {
        l.launch();
      }
    });
    l.synchronize();
    return took;
  });
  return s * 1e9 / batch;
}

/// Returns the launches per second of processor time of all threads, from the first call
/// to the end of the last kernel, on one processor. On two processors the time in which a
/// worker waits for the next call would count.
double launches_per_s() {
  const one_processor here;
  const launcher l(1);
  return typical(1, [&] {
    const double start = process_seconds();
    for (int i = 0; i < 20 * batch; ++i) {
      l.launch();
    }
    l.synchronize();
    return 20 * batch / (process_seconds() - start);
  });
}

/// Returns the cost of a record on one stream and a wait for it on another, both
/// together. With `behind_work`, the work of the first stream has not ended.
double event_ns(bool behind_work) {
  const launcher l(2);
  tessStream_t other = nullptr;
  tessEvent_t event = nullptr;
  std::atomic<bool> go{true};
  or_throw(tessStreamCreate(l.mesh, 0, &other));
  or_throw(tessEventCreate(&event));
  const double s = typical(2, [&] {
    if (behind_work) {
      go = false;
      or_throw(tessLaunchHostFunc(
          l.stream, [](void* end) { static_cast<std::atomic<bool>*>(end)->wait(false); },
          &go));
    }
    const double took = thread_seconds_of([&] {
      for (int i = 0; i < batch; ++i) {
        or_throw(tessEventRecord(event, l.stream));
        or_throw(tessStreamWaitEvent(other, event));
      }
    });
    go = true;
    go.notify_all();
    l.synchronize();
    or_throw(tessStreamSynchronize(other));
    return took;
  });
  or_throw(tessEventDestroy(event));
  return s * 1e9 / batch;
}

/// Returns the cost per node of a graph of empty launches, from the call to the end of
/// the last node.
double replayed_node_ns(unsigned workers) {
  const launcher l(static_cast<int>(workers));
  tessGraph_t graph = nullptr;
  tessGraphExec_t exec = nullptr;
  or_throw(tessStreamBeginCapture(l.stream));
  for (int i = 0; i < batch; ++i) {
    l.launch();
  }
  or_throw(tessStreamEndCapture(l.stream, &graph));
  or_throw(tessGraphInstantiate(graph, &exec));
  const double s = typical(workers, [&] {
    return seconds_of([&] {
      for (int i = 0; i < 10; ++i) {
        or_throw(tessGraphLaunch(exec, l.stream));
      }
      l.synchronize();
    });
  });
  return s * 1e9 / (10 * batch);
}

}  // namespace

void add_launch_rows(program& bench) {
  bench.add("tess_launch_ns", "ns", at_most(500), [] { return launch_ns(); });
  bench.add("tess_launches_per_s", "1/s", at_least(1e6), [] { return launches_per_s(); });
  bench.add("tess_event_ns", "ns", at_most(300), [] { return event_ns(false); });
  bench.add("tess_event_behind_work_ns", "ns", no_bar, [] { return event_ns(true); });
  bench.add("tess_replayed_node_ns", "ns", at_most(100),
            [] { return replayed_node_ns(1); });
  bench.add("tess_replayed_node_2_ns", "ns", no_bar, [] { return replayed_node_ns(2); });
}

}  // namespace weir::bench
