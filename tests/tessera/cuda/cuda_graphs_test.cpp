// SPDX-License-Identifier: Apache-2.0
/// @file
/// Graphs that the driver runs by itself, as the backend makes them.
#include <algorithm>
#include <array>
#include <future>
#include <thread>

#include "tessera/cuda/support.hpp"

namespace weir::tessera::stand_in {
namespace {

constexpr std::int32_t graph_words = 64;
constexpr std::size_t graph_bytes = graph_words * sizeof(std::int32_t);

/// Arguments of the kernels of the conformance suite.
struct one_pointer {
  std::byte* out;
};
struct two_pointers {
  const std::byte* in;
  std::byte* out;
};

/// A backend with memory on one device, and pieces of work for it.
class graph_rig : public rig {
 public:
  explicit graph_rig(const machine& shown) : rig(shown) {
    for (std::byte*& m : memory) {
      m = or_throw(backend().allocate(0, graph_bytes));
      EXPECT_TRUE(perform(fill_work{m, graph_bytes, 0, 1, {}}));
    }
  }
  ~graph_rig() {
    for (std::byte* const m : memory) {
      EXPECT_TRUE(backend().free(0, m));
    }
  }
  result<void> perform(const device_work& work) {
    std::promise<result<void>> ended;
    backend().submit(work, [&](result<void> r) { ended.set_value(std::move(r)); });
    return ended.get_future().get();
  }
  template <class Args>
  grid_work launch(const char* name, const Args& args) {
    grid_launch made;
    made.code = kernel(name);
    made.grid = {4, 1, 1};
    made.block = {graph_words / 4, 1, 1};
    made.shared_bytes = graph_bytes;
    made.args = std::as_bytes(std::span(&args, 1));
    return {made, 0, made.blocks()};
  }
  std::vector<std::int32_t> values(std::byte* from) {
    std::vector<std::int32_t> out(graph_words);
    EXPECT_TRUE(perform(copy_work{copy_kind::device_to_host,
                                  reinterpret_cast<std::byte*>(out.data()), from,
                                  graph_bytes, 0, 0}));
    return out;
  }

  std::array<std::byte*, 3> memory{};
};

/// Adds indices to memory 0, reverses blocks of it into memory 1, copies a part into
/// memory 2, and fills single bytes with an odd pattern.
std::vector<graph_piece> program_of(graph_rig& r, const one_pointer& adds,
                                    const two_pointers& reverses) {
  const auto& m = r.memory;
  fill_work odd{m[2] + 33, 96, 0, 16, {}};
  std::fill(odd.pattern.begin(), odd.pattern.begin() + 7, std::byte{0xA5});
  return {
      {r.launch("write_indices", adds), {}},
      {r.launch("reverse", reverses), {0}},
      {copy_work{copy_kind::device_to_device, m[2], m[1], graph_bytes / 2, 0, 0}, {1}},
      {odd, {2}},
      {r.launch("write_indices", adds), {1, 0, 1}}};
}

TEST(CudaGraphs, RunsHaveTheBitsOfTheSameOperationsOneByOne) {
  constexpr int runs = 5;
  machine shown;
  shown.max_delay_us = 200;
  std::vector<std::vector<std::int32_t>> found;
  for (const bool as_graph : {false, true}) {
    graph_rig r(shown);
    const one_pointer adds{r.memory[0]};
    const two_pointers reverses{r.memory[0], r.memory[1]};
    const std::vector<graph_piece> pieces = program_of(r, adds, reverses);
    if (as_graph) {
      const auto graph = or_throw(r.backend().make_graph(0, pieces));
      for (int i = 0; i < runs; ++i) {
        ASSERT_TRUE(r.perform(graph_work{graph, 0}));
      }
      EXPECT_EQ(calls_of("cuGraphLaunch"), static_cast<unsigned>(runs));
      EXPECT_EQ(calls_of("cuLaunchKernelEx"), 0U);
    } else {
      for (int i = 0; i < runs; ++i) {
        for (const graph_piece& p : pieces) {
          ASSERT_TRUE(r.perform(p.work));
        }
      }
    }
    for (std::byte* const m : r.memory) {
      found.push_back(r.values(m));
    }
  }
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(found[i], found[i + 3]) << "memory " << i;
  }
  EXPECT_EQ(found[0][1], 2 * 2 * runs) << "each run adds twice";
}

TEST(CudaGraphs, ArgumentsAreThoseOfTheCallThatMadeTheGraph) {
  graph_rig r(machine{});
  one_pointer args{r.memory[0]};
  const auto graph = or_throw(r.backend().make_graph(
      0, std::vector<graph_piece>{{r.launch("write_indices", args), {}}}));
  args.out = nullptr;
  ASSERT_TRUE(r.perform(graph_work{graph, 0}));
  EXPECT_EQ(r.values(r.memory[0])[3], 4);
}

TEST(CudaGraphs, AGraphLivesUntilItsRunHasEnded) {
  machine shown;
  shown.max_delay_us = 2000;
  graph_rig r(shown);
  const one_pointer args{r.memory[0]};
  std::promise<result<void>> ended;
  {
    const auto graph = or_throw(r.backend().make_graph(
        0, std::vector<graph_piece>{{r.launch("write_indices", args), {}}}));
    r.backend().submit(graph_work{graph, 0},
                       [&](result<void> o) { ended.set_value(std::move(o)); });
  }
  EXPECT_TRUE(ended.get_future().get());
  EXPECT_EQ(r.values(r.memory[0])[3], 4);
}

TEST(CudaGraphs, WorkThatNeedsTheHostOrAnotherDeviceIsRefused) {
  machine shown;
  shown.devices = 2;
  graph_rig r(shown);
  std::byte* const there = or_throw(r.backend().allocate(1, graph_bytes));
  std::byte* const here = r.memory[0];
  std::vector<std::byte> host(graph_bytes);
  struct {
    std::byte* out;
    std::int32_t block = 0;
    std::int32_t status = 0;
  } const facts{here};
  const std::vector<device_work> refused{
      r.launch("fail_block", facts),
      copy_work{copy_kind::host_to_device, here, host.data(), graph_bytes, 0, 0},
      copy_work{copy_kind::device_to_host, host.data(), here, graph_bytes, 0, 0},
      copy_work{copy_kind::device_to_device, here, there, graph_bytes, 0, 1},
      fill_work{there, graph_bytes, 1, 1, {}},
      fill_work{here, 0, 0, 1, {}}};
  for (std::size_t i = 0; i < refused.size(); ++i) {
    const auto made =
        r.backend().make_graph(0, std::vector<graph_piece>{{refused[i], {}}});
    ASSERT_FALSE(made) << i;
    EXPECT_EQ(made.error().code(), errc::unsupported) << i << made.error().message();
  }
  EXPECT_EQ(calls_of("cuGraphCreate"), 0U);
  EXPECT_TRUE(r.backend().free(1, there));
}

TEST(CudaGraphs, ADriverThatDoesNotTellParametersOrHasNoGraphsIsAnErrorThatNamesIt) {
  for (const bool old : {true, false}) {
    machine shown;
    shown.version = old ? 12000 : 13000;  // 12.0 does not tell parameters
    const auto executor = std::make_shared<listed_executor>(conformance_list());
    set_up(shown, executor);
    cuda::driver changed = or_throw(cuda::load_driver(WEIR_STAND_IN_DRIVER));
    changed.api.graph_launch = old ? changed.api.graph_launch : nullptr;
    cuda_options options = stand_in_options();
    options.driver = &changed;
    const rig r(shown, options, executor, executor->container("8.0"));
    std::byte* const memory = or_throw(r.backend().allocate(0, graph_bytes));
    grid_launch launch;
    launch.code = r.kernel("write_indices");
    launch.args = std::as_bytes(std::span(&memory, 1));
    const auto made = r.backend().make_graph(
        0, std::vector<graph_piece>{{grid_work{launch, 0, 1}, {}}});
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code(), errc::unsupported);
    EXPECT_NE(made.error().message().find(old ? "write_indices" : "without graphs"),
              std::string::npos)
        << made.error().message();
    EXPECT_TRUE(r.backend().free(0, memory));
  }
}

/// Returns the rules that were broken, with spaces between them.
std::string broken() {
  std::string out;
  for (const breach& b : take_breaches()) {
    out += b.rule + " ";
  }
  return out;
}

TEST(CudaGraphs, NodesThatNothingOrdersAreComparedLikeStreams) {
  graph_rig r(machine{});
  const one_pointer adds{r.memory[0]};
  const copy_work copy{
      copy_kind::device_to_device, r.memory[1], r.memory[0], graph_bytes, 0, 0};
  const fill_work fill{r.memory[1], graph_bytes, 0, 1, {}};
  const auto run = [&](const std::vector<graph_piece>& pieces) {
    const auto graph = or_throw(r.backend().make_graph(0, pieces));
    EXPECT_TRUE(r.perform(graph_work{graph, 0}));
    return broken();
  };
  EXPECT_EQ(run({{copy, {}}, {fill, {}}}), "access_order ");
  EXPECT_EQ(run({{copy, {}}, {fill, {0}}}), "");
  EXPECT_EQ(run({{r.launch("write_indices", adds), {}}, {copy, {}}}), "access_order ");
  EXPECT_EQ(run({{r.launch("write_indices", adds), {}}, {copy, {0}}, {fill, {1}}}), "");
}

TEST(CudaGraphs, ADeviceThatIsLostInAGraphNamesTheKernels) {
  machine shown;
  shown.devices = 2;
  const auto executor = std::make_shared<listed_executor>(conformance_list());
  rig r(shown, stand_in_options(), executor, executor->container("8.0"));
  std::byte* const memory = or_throw(r.backend().allocate(0, graph_bytes));
  grid_launch adds;
  adds.code = r.kernel("write_indices");
  adds.args = std::as_bytes(std::span(&memory, 1));
  grid_launch fails;
  fails.code = r.kernel("assert_false");
  auto graph = or_throw(
      r.backend().make_graph(0, std::vector<graph_piece>{{grid_work{adds, 0, 1}, {}},
                                                         {grid_work{fails, 0, 1}, {0}},
                                                         {grid_work{adds, 0, 1}, {1}}}));
  for (int run = 0; run < 2; ++run) {
    std::promise<result<void>> ended;
    r.backend().submit(graph_work{graph, 0},
                       [&](result<void> o) { ended.set_value(std::move(o)); });
    const auto outcome = ended.get_future().get();
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().code(), errc::device_lost);
    const std::string text = outcome.error().message();
    EXPECT_NE(text.find("run graph with kernel write_indices or kernel assert_false"),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("CUDA_ERROR_ASSERT"), std::string::npos) << text;
  }
  EXPECT_FALSE(r.backend().make_graph(
      0, std::vector<graph_piece>{{fill_work{memory, graph_bytes, 0, 1, {}}, {}}}));
  graph.reset();
  EXPECT_TRUE(r.backend().free(0, memory));
  r.close(true);
  EXPECT_EQ(objects().graphs + objects().graph_execs, 0U);
}

}  // namespace
}  // namespace weir::tessera::stand_in
