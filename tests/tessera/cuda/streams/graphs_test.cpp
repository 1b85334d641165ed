// SPDX-License-Identifier: Apache-2.0
/// @file
/// Graphs of the C interface on the stand-in driver: those of one device are launched as
/// graphs of the driver, all others are run node by node, and both end alike.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <random>
#include <string_view>

#include "streams/gpu_context.hpp"
#include "support/temp_folder.hpp"
#include "tessera/cuda/listed_kernels.hpp"

namespace weir::test {
namespace {

using tessera::stand_in::argument;
using tessera::stand_in::calls_of;
using tessera::stand_in::launch_report;
using tessera::stand_in::launch_request;
using tessera::stand_in::listed_executor;
using tessera::stand_in::listed_kernel;

constexpr std::size_t graph_words = 64;
constexpr std::size_t graph_bytes = graph_words * sizeof(std::uint32_t);

/// Computes to[i] = 3 * to[i] + from[i] + salt, so the order of operations matters.
result<launch_report> mix(const launch_request& r) {
  auto* const to = argument<std::uint32_t*>(r, 0);
  const auto* const from = argument<const std::uint32_t*>(r, 1);
  const auto salt = argument<std::uint32_t>(r, 2);
  for (std::size_t i = 0; i < graph_words; ++i) {
    to[i] = 3 * to[i] + from[i] + salt;
  }
  return launch_report{true,
                       {{reinterpret_cast<std::uintptr_t>(to), graph_bytes, true},
                        {reinterpret_cast<std::uintptr_t>(from), graph_bytes, false}}};
}

std::vector<listed_kernel> kernels_for_graphs() {
  std::vector<listed_kernel> all = tessera::stand_in::conformance_list();
  for (listed_kernel& k : all) {
    k.flags |= TESS_KERNEL_DETERMINISTIC;
  }
  const auto memory = [](const char* name) {
    return tessera::pointer_parameter(name, TESS_INT32,
                                      tessera::parameter_direction::inout);
  };
  const std::vector<tessera::kernel_parameter> parameters{
      memory("to"), memory("from"), tessera::scalar_parameter("salt", TESS_INT32)};
  all.push_back({"mix", parameters, TESS_KERNEL_DETERMINISTIC, false, &mix});
  all.push_back({"mix_with_facts", parameters, TESS_KERNEL_DETERMINISTIC, true, &mix});
  return all;
}

struct mix_args {
  void* to;
  void* from;
  std::uint32_t salt;
  std::uint32_t pad = 0;
};

/// A context on a machine with two devices, and a mesh of the first ones with memory.
class gpu_graphs : public testing::Test {
 protected:
  void open(int devices = 1, unsigned max_delay_us = 50) {
    tessera::stand_in::machine shown;
    shown.devices = 2;
    shown.max_delay_us = max_delay_us;
    executor_ = std::make_shared<listed_executor>(kernels_for_graphs());
    context_ = std::make_unique<gpu_context>(shown, executor_);
    on_ = std::make_unique<gpu_mesh>(*context_, devices);
    module_ = context_->load(executor_->container("8.0"));
    for (void*& m : memory_) {
      ASSERT_TESS(tessMalloc(on_->mesh, graph_bytes, &m));
    }
    clear();
  }
  void TearDown() override {
    on_.reset();
    context_.reset();
  }

  /// Sets the memory to its first values.
  void clear() {
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      EXPECT_TESS(
          tessMemsetAsync(memory_[i], static_cast<int>(i + 1), graph_bytes, stream()));
    }
    EXPECT_TESS(tessStreamSynchronize(stream()));
  }
  [[nodiscard]] tessStream_t stream() const { return on_->stream; }
  void mix_into(std::size_t to, std::size_t from, std::uint32_t salt, tessStream_t s,
                const char* kernel = "mix") {
    const mix_args args{memory_[to], memory_[from], salt};
    EXPECT_TESS(tessLaunch(kernel_of(module_, kernel), on_->mesh,
                           {{1, 1, 1}, {32, 1, 1}, 0, 0}, &args, sizeof args, s));
  }
  /// Enqueues kernels, a copy and fills.
  void enqueue_chain() {
    mix_into(0, 1, 5, stream());
    EXPECT_TESS(tessMemcpyAsync(memory_[2], memory_[0], graph_bytes / 2, TESS_COPY_D2D,
                                stream()));
    EXPECT_TESS(tessMemsetAsync(static_cast<char*>(memory_[1]) + 5, 7, 31, stream()));
    mix_into(1, 2, 9, stream());
  }
  /// Records what a function enqueues.
  tessGraphExec_t recorded(const std::function<void()>& enqueue) {
    tessGraph_t graph = nullptr;
    tessGraphExec_t exec = nullptr;
    EXPECT_TESS(tessStreamBeginCapture(stream()));
    enqueue();
    EXPECT_TESS(tessStreamEndCapture(stream(), &graph));
    EXPECT_TESS(tessGraphInstantiate(graph, &exec));
    EXPECT_TESS(tessGraphDestroy(graph));
    return exec;
  }
  /// Returns all memory of the first device.
  std::vector<std::uint32_t> state() {
    std::vector<std::uint32_t> out(graph_words * memory_.size());
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      EXPECT_TESS(tessMemcpyAsync(out.data() + i * graph_words, memory_[i], graph_bytes,
                                  TESS_COPY_D2H, stream()));
    }
    EXPECT_TESS(tessStreamSynchronize(stream()));
    return out;
  }
  /// Launches a graph several times, and expects the memory that the same calls give
  /// without a graph. Returns how many graphs the driver has launched.
  unsigned runs_like(const std::function<void()>& enqueue, tessGraphExec_t exec,
                     int times = 4) {
    clear();
    for (int i = 0; i < times; ++i) {
      enqueue();
    }
    const auto expected = state();
    clear();
    const unsigned before = calls_of("cuGraphLaunch");
    for (int i = 0; i < times; ++i) {
      EXPECT_TESS(tessGraphLaunch(exec, stream()));
    }
    EXPECT_EQ(state(), expected);
    return calls_of("cuGraphLaunch") - before;
  }
  std::string last_message() {
    std::string out(600, '\0');
    std::size_t size = out.size();
    EXPECT_TESS(tessStreamGetLastMessage(stream(), out.data(), &size));
    return out.substr(0, out.find('\0'));
  }

  std::shared_ptr<listed_executor> executor_;
  std::unique_ptr<gpu_context> context_;
  std::unique_ptr<gpu_mesh> on_;
  tessModule_t module_ = nullptr;
  std::array<void*, 4> memory_{};
};

TEST_F(gpu_graphs, EachLaunchIsOneGraphOfTheDriverWithTheBitsOfSingleCalls) {
  open();
  const auto enqueue = [&] { enqueue_chain(); };
  const tessGraphExec_t exec = recorded(enqueue);
  const unsigned kernels = calls_of("cuLaunchKernelEx");
  EXPECT_EQ(runs_like(enqueue, exec, 10), 10U);
  EXPECT_EQ(calls_of("cuLaunchKernelEx") - kernels, 20U) << "the single calls alone";
  EXPECT_TESS(tessGraphExecDestroy(exec));
}

TEST_F(gpu_graphs, EventsBetweenStreamsOrderTheNodes) {
  open(1, 300);
  tessStream_t side = nullptr;
  std::array<tessEvent_t, 2> events{};
  ASSERT_TESS(tessStreamCreate(on_->mesh, 0, &side));
  for (tessEvent_t& e : events) {
    ASSERT_TESS(tessEventCreate(&e));
  }
  const auto enqueue = [&] {
    mix_into(0, 1, 5, stream());
    EXPECT_TESS(tessEventRecord(events[0], stream()));
    EXPECT_TESS(tessStreamWaitEvent(side, events[0]));
    mix_into(2, 0, 11, side);  // beside the copy
    EXPECT_TESS(
        tessMemcpyAsync(memory_[1], memory_[0], graph_bytes, TESS_COPY_D2D, stream()));
    EXPECT_TESS(tessEventRecord(events[1], side));
    EXPECT_TESS(tessStreamWaitEvent(stream(), events[1]));
    mix_into(0, 2, 13, stream());
  };
  const tessGraphExec_t exec = recorded(enqueue);
  EXPECT_EQ(runs_like(enqueue, exec), 4U);
  EXPECT_TESS(tessGraphExecDestroy(exec));
}

/// An operation of a random graph.
struct random_step {
  std::size_t stream;
  std::size_t kind;  ///< 0: kernel, 1: copy, 2: fill
  std::size_t to;
  std::size_t from;
  std::uint32_t salt;
};

/// Operations on several streams, each behind those whose memory it uses, and no others.
class random_graph {
 public:
  static constexpr std::size_t streams = 3;

  random_graph(std::mt19937& dice, std::size_t memories) : use_(memories) {
    for (int i = 0; i < 12; ++i) {
      const std::size_t to = dice() % memories;
      const std::size_t from = (to + 1 + dice() % (memories - 1)) % memories;
      steps.push_back({dice() % streams, dice() % 3, to, from,
                       static_cast<std::uint32_t>(dice() % 100)});
    }
    events_.resize(steps.size() + streams);
    for (tessEvent_t& e : events_) {
      EXPECT_TESS(tessEventCreate(&e));
    }
  }
  ~random_graph() {
    for (const tessEvent_t e : events_) {
      EXPECT_TESS(tessEventDestroy(e));
    }
  }
  random_graph(const random_graph&) = delete;
  random_graph& operator=(const random_graph&) = delete;

  /// Enqueues all steps by `run(step, stream)`, between the first stream and itself.
  template <class Run>
  void enqueue(const std::array<tessStream_t, streams>& on, const Run& run) {
    use_.assign(use_.size(), {});
    const tessEvent_t begin = events_[steps.size()];
    EXPECT_TESS(tessEventRecord(begin, on[0]));
    for (std::size_t s = 1; s < streams; ++s) {
      EXPECT_TESS(tessStreamWaitEvent(on[s], begin));
    }
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const random_step& step = steps[i];
      std::vector<tessEvent_t> before = use_[step.to].readers;
      before.push_back(use_[step.to].writer);
      if (step.kind != 2) {
        before.push_back(use_[step.from].writer);
        use_[step.from].readers.push_back(events_[i]);
      }
      for (const tessEvent_t e : before) {
        if (e != nullptr) {
          EXPECT_TESS(tessStreamWaitEvent(on[step.stream], e));
        }
      }
      run(step, on[step.stream]);
      EXPECT_TESS(tessEventRecord(events_[i], on[step.stream]));
      use_[step.to] = {events_[i], {}};
    }
    for (std::size_t s = 1; s < streams; ++s) {
      EXPECT_TESS(tessEventRecord(events_[steps.size() + s], on[s]));
      EXPECT_TESS(tessStreamWaitEvent(on[0], events_[steps.size() + s]));
    }
  }

  std::vector<random_step> steps;

 private:
  /// The last write of a memory, and the reads since.
  struct use_of_memory {
    tessEvent_t writer = nullptr;
    std::vector<tessEvent_t> readers;
  };
  std::vector<use_of_memory> use_;
  std::vector<tessEvent_t> events_;
};

TEST_F(gpu_graphs, RandomGraphsOnThreeStreamsGiveTheBitsOfSingleCalls) {
  constexpr int graphs = 40;
  open(1, 100);
  std::array<tessStream_t, random_graph::streams> on{stream()};
  for (std::size_t s = 1; s < on.size(); ++s) {
    ASSERT_TESS(tessStreamCreate(on_->mesh, 0, &on[s]));
  }
  std::mt19937 dice(7);
  for (int i = 0; i < graphs; ++i) {
    random_graph graph(dice, memory_.size());
    const auto enqueue = [&] {
      graph.enqueue(on, [&](const random_step& step, tessStream_t s) {
        if (step.kind == 0) {
          mix_into(step.to, step.from, step.salt, s);
        } else if (step.kind == 1) {
          EXPECT_TESS(tessMemcpyAsync(memory_[step.to], memory_[step.from],
                                      graph_bytes - step.salt, TESS_COPY_D2D, s));
        } else {
          EXPECT_TESS(tessMemsetAsync(memory_[step.to], static_cast<int>(step.salt),
                                      1 + step.salt, s));
        }
      });
    };
    const tessGraphExec_t exec = recorded(enqueue);
    EXPECT_EQ(runs_like(enqueue, exec, 3), 3U) << "graph " << i;
    EXPECT_TESS(tessGraphExecDestroy(exec));
  }
}

TEST_F(gpu_graphs, RunsOnTwoStreamsFollowOneAnother) {
  open(1, 500);
  tessStream_t other = nullptr;
  ASSERT_TESS(tessStreamCreate(on_->mesh, 0, &other));
  const tessGraphExec_t exec = recorded([&] { enqueue_chain(); });
  clear();
  for (int i = 0; i < 6; ++i) {
    enqueue_chain();
  }
  const auto expected = state();
  clear();
  for (int i = 0; i < 3; ++i) {
    EXPECT_TESS(tessGraphLaunch(exec, stream()));
    EXPECT_TESS(tessGraphLaunch(exec, other));
  }
  EXPECT_TESS(tessStreamSynchronize(other));
  EXPECT_EQ(state(), expected);
  EXPECT_EQ(calls_of("cuGraphLaunch"), 6U);
  EXPECT_TESS(tessGraphExecDestroy(exec));
}

TEST_F(gpu_graphs, AnUpdateOfANodeMakesAnotherGraphOfTheDriver) {
  open();
  const tessGraphExec_t exec = recorded([&] { enqueue_chain(); });
  EXPECT_TESS(tessGraphLaunch(exec, stream()));
  const mix_args changed{memory_[0], memory_[1], 77};
  ASSERT_TESS(tessGraphExecUpdateLaunch(exec, 0, kernel_of(module_, "mix"),
                                        {{1, 1, 1}, {32, 1, 1}, 0, 0}, &changed,
                                        sizeof changed, stream()));
  const auto enqueue = [&] {
    mix_into(0, 1, 77, stream());
    EXPECT_TESS(tessMemcpyAsync(memory_[2], memory_[0], graph_bytes / 2, TESS_COPY_D2D,
                                stream()));
    EXPECT_TESS(tessMemsetAsync(static_cast<char*>(memory_[1]) + 5, 7, 31, stream()));
    mix_into(1, 2, 9, stream());
  };
  EXPECT_EQ(runs_like(enqueue, exec), 4U);
  EXPECT_EQ(calls_of("cuGraphInstantiateWithFlags"), 2U);
  // A node that a graph of the driver cannot have, and back again.
  for (const char* const kernel : {"mix_with_facts", "mix"}) {
    ASSERT_TESS(tessGraphExecUpdateLaunch(exec, 0, kernel_of(module_, kernel),
                                          {{1, 1, 1}, {32, 1, 1}, 0, 0}, &changed,
                                          sizeof changed, stream()));
    EXPECT_EQ(runs_like(enqueue, exec), std::string_view(kernel) == "mix" ? 4U : 0U);
  }
  EXPECT_TESS(tessGraphExecDestroy(exec));
}

TEST_F(gpu_graphs, WorkThatADeviceCannotDoAloneIsRunNodeByNode) {
  open();
  std::vector<std::uint32_t> host(graph_words, 17);
  int calls = 0;
  void* taken = nullptr;
  const std::vector<std::function<void()>> others{
      [&] { mix_into(0, 1, 3, stream(), "mix_with_facts"); },
      [&] {
        EXPECT_TESS(tessMemcpyAsync(memory_[1], host.data(), graph_bytes, TESS_COPY_H2D,
                                    stream()));
      },
      [&] {
        EXPECT_TESS(tessLaunchHostFunc(
            stream(), [](void* user) { ++*static_cast<int*>(user); }, &calls));
      },
      [&] {
        EXPECT_TESS(tessMallocAsync(&taken, graph_bytes, stream()));
        EXPECT_TESS(tessMemsetAsync(taken, 4, graph_bytes, stream()));
        EXPECT_TESS(tessFreeAsync(taken, stream()));
      },
      [&] {
        EXPECT_TESS(tessAllReduce(on_->mesh, memory_[0], graph_words, TESS_INT32,
                                  TESS_COLL_SUM, "world", stream()));
      }};
  for (std::size_t i = 0; i < others.size(); ++i) {
    const auto enqueue = [&] {
      enqueue_chain();
      others[i]();
    };
    const tessGraphExec_t exec = recorded(enqueue);
    EXPECT_EQ(runs_like(enqueue, exec), 0U) << i;
    EXPECT_TESS(tessGraphExecDestroy(exec));
  }
  EXPECT_EQ(calls, 8);
}

TEST_F(gpu_graphs, GraphsOfTwoDevicesAreRunNodeByNode) {
  open(2);
  const auto enqueue = [&] { enqueue_chain(); };
  const tessGraphExec_t exec = recorded(enqueue);
  EXPECT_EQ(runs_like(enqueue, exec), 0U);
  EXPECT_TESS(tessGraphExecDestroy(exec));
}

TEST_F(gpu_graphs, AProfilerGetsARecordOfEachNode) {
  open();
  const auto enqueue = [&] { enqueue_chain(); };
  const tessGraphExec_t exec = recorded(enqueue);
  const temp_folder folder;
  const std::string file = folder / "profile.json";
  tessProfiler_t profiler = nullptr;
  ASSERT_TESS(tessProfilerStart(context_->get(), &profiler));
  EXPECT_EQ(runs_like(enqueue, exec), 0U);
  ASSERT_TESS(tessProfilerStop(profiler, file.c_str()));
  EXPECT_EQ(runs_like(enqueue, exec), 4U);
  EXPECT_TESS(tessGraphExecDestroy(exec));
}

TEST_F(gpu_graphs, AGraphThatTheDriverRefusesIsRunNodeByNode) {
  open();
  const auto enqueue = [&] { enqueue_chain(); };
  for (const char* const call :
       {"cuGraphCreate", "cuGraphAddKernelNode", "cuGraphAddMemcpyNode",
        "cuGraphAddMemsetNode", "cuGraphInstantiateWithFlags"}) {
    tessera::stand_in::fail_call(call, 1, tessera::cuda::status::not_supported);
    const tessGraphExec_t exec = recorded(enqueue);
    EXPECT_EQ(runs_like(enqueue, exec), 0U) << call;
    EXPECT_EQ(runs_like(enqueue, exec), 0U) << call << ": the refusal is remembered";
    EXPECT_TESS(tessGraphExecDestroy(exec));
  }
}

TEST_F(gpu_graphs, AnErrorOfALaunchFailsTheStreamUntilASynchronization) {
  open();
  const auto enqueue = [&] { enqueue_chain(); };
  const tessGraphExec_t exec = recorded(enqueue);
  const auto before = state();
  tessera::stand_in::fail_call("cuGraphLaunch", 1, tessera::cuda::status::out_of_memory);
  ASSERT_TESS(tessGraphLaunch(exec, stream()));
  ASSERT_TESS(tessGraphLaunch(exec, stream()));  // skipped
  mix_into(0, 1, 1, stream());                   // skipped
  EXPECT_EQ(tessStreamSynchronize(stream()), TESS_ERR_OUT_OF_MEMORY);
  EXPECT_NE(last_message().find("run graph with kernel mix"), std::string::npos)
      << last_message();
  EXPECT_EQ(state(), before);
  EXPECT_EQ(runs_like(enqueue, exec), 4U);
  EXPECT_TESS(tessGraphExecDestroy(exec));
}

TEST_F(gpu_graphs, AGraphMayBeDestroyedWhileItRuns) {
  open(1, 3000);
  enqueue_chain();
  enqueue_chain();
  const auto expected = state();
  clear();
  const tessGraphExec_t exec = recorded([&] { enqueue_chain(); });
  EXPECT_TESS(tessGraphLaunch(exec, stream()));
  EXPECT_TESS(tessGraphLaunch(exec, stream()));
  EXPECT_TESS(tessGraphExecDestroy(exec));
  EXPECT_EQ(state(), expected);
}

TEST_F(gpu_graphs, ADeviceThatIsLostInAGraphFailsTheStreamWithTheNameOfTheKernel) {
  open();
  context_->has_broken_devices();
  const tessGraphExec_t exec = recorded([&] {
    EXPECT_TESS(tessLaunch(kernel_of(module_, "assert_false"), on_->mesh,
                           {{1, 1, 1}, {1, 1, 1}, 0, 0}, nullptr, 0, stream()));
  });
  ASSERT_TESS(tessGraphLaunch(exec, stream()));
  EXPECT_EQ(tessStreamSynchronize(stream()), TESS_ERR_LAUNCH_FAILED);
  const std::string first = last_message();
  EXPECT_NE(first.find("CUDA_ERROR_ASSERT"), std::string::npos) << first;
  EXPECT_NE(first.find("run graph with kernel assert_false"), std::string::npos) << first;
  ASSERT_TESS(tessGraphLaunch(exec, stream()));
  EXPECT_EQ(tessStreamSynchronize(stream()), TESS_ERR_LAUNCH_FAILED);
  EXPECT_EQ(last_message(), first);
  EXPECT_TESS(tessGraphExecDestroy(exec));
}

TEST_F(gpu_graphs, AFailureOfTheStreamKeepsAGraphFromRunning) {
  open();
  const tessGraphExec_t exec = recorded([&] { enqueue_chain(); });
  const auto before = state();
  struct {
    void* out;
    std::int32_t block;
    std::int32_t status;
  } const args{memory_[0], 0, 7};
  ASSERT_TESS(tessLaunch(kernel_of(module_, "fail_block"), on_->mesh,
                         {{1, 1, 1}, {1, 1, 1}, 0, 0}, &args, sizeof args, stream()));
  ASSERT_TESS(tessGraphLaunch(exec, stream()));
  EXPECT_EQ(tessStreamSynchronize(stream()), TESS_ERR_LAUNCH_FAILED);
  EXPECT_EQ(state(), before);
  EXPECT_EQ(calls_of("cuGraphLaunch"), 0U);
  EXPECT_TESS(tessGraphExecDestroy(exec));
}

}  // namespace
}  // namespace weir::test
