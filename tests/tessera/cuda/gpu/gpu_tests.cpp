// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests of a physical GPU: copies, fills, kernels with their expected results, alone and
/// in graphs, and collectives. `gpu_tests --large` runs full grids too.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <future>
#include <map>
#include <optional>
#include <random>
#include <string_view>

#include <fmt/core.h>

#include "cases/kernel_cases.hpp"
#include "device/cuda/collectives/device_collectives.hpp"
#include "device/cuda/launch_facts.hpp"
#include "gpu/gpu_place.hpp"
#include "runtime/collective/plans.hpp"

namespace weir::tessera::gpu {
namespace {

result<void> perform(device_backend& backend, const device_work& work) {
  std::promise<result<void>> ended;
  backend.submit(work, [&](result<void> r) { ended.set_value(std::move(r)); });
  return ended.get_future().get();
}

/// Memory of a device, which goes with the object.
class device_memory {
 public:
  device_memory(device_backend& backend, std::int32_t device, std::size_t bytes)
      : backend_(backend),
        device_(device),
        bytes_(bytes),
        address_(or_throw(backend.allocate(device, bytes))) {}
  ~device_memory() { (void)backend_.free(device_, address_); }
  device_memory(const device_memory&) = delete;
  device_memory& operator=(const device_memory&) = delete;
  [[nodiscard]] std::byte* address() const { return address_; }
  void write(const void* from) const {
    or_throw(perform(backend_, copy_work{copy_kind::host_to_device, address_,
                                         static_cast<const std::byte*>(from), bytes_,
                                         device_, device_}));
  }
  void read(void* to) const {
    or_throw(perform(backend_,
                     copy_work{copy_kind::device_to_host, static_cast<std::byte*>(to),
                               address_, bytes_, device_, device_}));
  }

 private:
  device_backend& backend_;
  std::int32_t device_;
  std::size_t bytes_;
  std::byte* address_;
};

/// Counts tests and prints those that have failed.
struct tally {
  int run = 0;
  int failed = 0;
  void note(const std::string& name, const std::string& fault) {
    ++run;
    if (!fault.empty()) {
      ++failed;
      std::printf("gpu_tests: %s: %s\n", name.c_str(), fault.c_str());
    }
  }
};

/// Runs launches of the cases on a device. Addresses of the host, in arguments and in
/// tables, are replaced by those of copies on the device.
class case_runner {
 public:
  /// `in_graphs` is true if each launch is a graph of its own.
  case_runner(cuda_backend& backend, std::vector<std::string> texts, bool in_graphs)
      : backend_(backend), texts_(std::move(texts)), in_graphs_(in_graphs) {}

  std::string run(const test::kernel_launch& launch) {
    const auto kernel = kernel_of(launch);
    if (!kernel) {
      return kernel.error().message();
    }
    std::vector<std::unique_ptr<device_memory>> copies;
    address_map places;
    for (const test::case_memory& m : launch.memory) {
      copies.push_back(std::make_unique<device_memory>(
          backend_, 0, std::max<std::size_t>(m.bytes, 1)));
      places[number(m.first)] = {m.bytes, number(copies.back()->address())};
    }
    for (std::size_t i = 0; i < copies.size(); ++i) {
      translate(launch.memory[i], places, [&](std::byte* p) { copies[i]->write(p); });
    }
    std::vector<std::byte> packed;
    for (std::size_t i = 0; i < own_parameters(launch).size(); ++i) {
      const std::size_t size = launch.sizes[i];
      const std::size_t align = std::min<std::size_t>(size, 8);
      packed.resize((packed.size() + align - 1) / align * align + size);
      std::byte* const at = packed.data() + packed.size() - size;
      std::memcpy(at, launch.arguments[i], size);
      replace(at, size, places);
    }
    packed.resize((packed.size() + 7) / 8 * 8);
    grid_launch l;
    l.code = *kernel;
    for (std::size_t d = 0; d < 3; ++d) {
      l.grid[d] = static_cast<std::int32_t>(launch.grid[d]);
      l.block[d] = static_cast<std::int32_t>(launch.block[d]);
    }
    l.args = packed;
    const auto done =
        launch.cooperative ? run_to_its_end(l) : launch_now(grid_work{l, 0, l.blocks()});
    if (!done) {
      return done.error().message();
    }
    for (std::size_t i = 0; i < copies.size(); ++i) {
      fetch(launch.memory[i], *copies[i], places);
    }
    return "";
  }

 private:
  /// A range of the host, by its first address: its size, and its address on the device.
  using address_map = std::map<std::uint64_t, std::pair<std::uint64_t, std::uint64_t>>;

  /// Returns the address on the device for one of the host, or nothing.
  static std::optional<std::uint64_t> place_of(std::uint64_t word,
                                               const address_map& places) {
    auto after = places.upper_bound(word);
    if (after == places.begin()) {
      return std::nullopt;
    }
    --after;
    const std::uint64_t offset = word - after->first;
    return offset < std::max<std::uint64_t>(after->second.first, 1)
               ? std::optional(after->second.second + offset)
               : std::nullopt;
  }

  result<void> launch_now(const grid_work& work) {
    if (!in_graphs_) {
      return perform(backend_, work);
    }
    WEIR_TRY(auto graph, backend_.make_graph(0, std::vector<graph_piece>{{work, {}}}));
    return perform(backend_, graph_work{std::move(graph), 0});
  }
  static std::uint64_t number(const void* p) {
    return reinterpret_cast<std::uintptr_t>(p);
  }
  /// Returns the sizes of the parameters that a program passes. The facts about a launch,
  /// behind them, are passed by the backend.
  static std::vector<std::size_t> own_parameters(const test::kernel_launch& launch) {
    std::vector<std::size_t> sizes(launch.sizes.begin(), launch.sizes.end());
    if (!sizes.empty() && sizes.back() == sizeof(cuda::launch_facts)) {
      sizes.pop_back();
    }
    return sizes;
  }
  /// Runs a persistent kernel that ends by itself.
  result<void> run_to_its_end(const grid_launch& launch) {
    WEIR_TRY(const auto run, backend_.start_persistent(launch, {}));
    constexpr std::int64_t limit_ns = 30'000'000'000;
    return run->wait(limit_ns);
  }
  static void replace(std::byte* at, std::size_t size, const address_map& places) {
    std::uint64_t word = 0;
    if (size == sizeof word) {
      std::memcpy(&word, at, sizeof word);
      if (const auto found = place_of(word, places)) {
        std::memcpy(at, &*found, sizeof word);
      }
    }
  }
  /// Passes a copy of memory of the host, with addresses replaced, to a function.
  template <class F>
  static void translate(const test::case_memory& m, const address_map& places,
                        const F& use) {
    const auto* const first = static_cast<const std::byte*>(m.first);
    std::vector<std::byte> bytes(first, first + m.bytes);
    for (std::size_t i = 0; i + 8 <= bytes.size(); i += 8) {
      replace(bytes.data() + i, 8, places);
    }
    bytes.resize(std::max<std::size_t>(m.bytes, 1));
    use(bytes.data());
  }
  /// Copies memory back to the host, where words that held addresses keep them.
  static void fetch(const test::case_memory& m, const device_memory& from,
                    const address_map& places) {
    std::vector<std::byte> bytes(std::max<std::size_t>(m.bytes, 1));
    from.read(bytes.data());
    auto* const to = const_cast<std::byte*>(static_cast<const std::byte*>(m.first));
    for (std::size_t i = 0; i < m.bytes; i += 8) {
      const std::size_t size = std::min<std::size_t>(8, m.bytes - i);
      std::uint64_t word = 0;
      std::memcpy(&word, to + i, size);
      if (size < 8 || !place_of(word, places)) {
        std::memcpy(to + i, bytes.data() + i, size);
      }
    }
  }
  result<kernel_code> kernel_of(const test::kernel_launch& launch) {
    const std::string name(launch.name);
    auto found = modules_.find(name);
    if (found == modules_.end()) {
      const auto text = std::find_if(texts_.begin(), texts_.end(), [&](const auto& t) {
        return t.find(fmt::format(".entry {}(", name)) != std::string::npos;
      });
      if (text == texts_.end()) {
        return error(errc::not_found,
                     fmt::format("find kernel {}: expected its PTX, found none", name));
      }
      WEIR_TRY(const byte_vector image,
               module_of(*text, name, own_parameters(launch), launch.cooperative));
      WEIR_TRY(const fatbin parsed, parse_fatbin(image));
      WEIR_TRY(auto loaded, backend_.load(parsed, name));
      found = modules_.emplace(name, std::move(loaded)).first;
    }
    return found->second->kernel(name);
  }

  cuda_backend& backend_;
  std::vector<std::string> texts_;
  bool in_graphs_;
  std::map<std::string, std::unique_ptr<cuda_module>> modules_;
};

void test_copies_and_fills(gpu_place& place, tally& found) {
  std::mt19937_64 dice(1);
  for (const std::size_t bytes :
       {std::size_t{1}, std::size_t{4099}, std::size_t{3} << 20}) {
    std::vector<std::uint8_t> sent(bytes);
    std::generate(sent.begin(), sent.end(),
                  [&] { return static_cast<std::uint8_t>(dice()); });
    std::vector<std::uint8_t> got(bytes);
    const device_memory a(*place.backend, 0, bytes);
    const device_memory b(*place.backend, place.backend->device_count() - 1, bytes);
    a.write(sent.data());
    or_throw(perform(*place.backend,
                     copy_work{copy_kind::device_to_device, b.address(), a.address(),
                               bytes, place.backend->device_count() - 1, 0}));
    b.read(got.data());
    found.note(fmt::format("copies of {} bytes", bytes),
               got == sent ? "" : "other bytes came back");
    fill_work fill;
    fill.to = a.address();
    fill.bytes = bytes;
    fill.pattern[0] = std::byte{0x5A};
    or_throw(perform(*place.backend, fill));
    a.read(got.data());
    found.note(fmt::format("fill of {} bytes", bytes),
               std::all_of(got.begin(), got.end(), [](auto x) { return x == 0x5A; })
                   ? ""
                   : "other bytes came back");
  }
}

// A pattern of 16 bytes at an odd address, copied and filled over, with a run that
// follows the one before.
void test_graphs(gpu_place& place, tally& found) {
  constexpr std::size_t bytes = 4096;
  const device_memory a(*place.backend, 0, bytes);
  const device_memory b(*place.backend, 0, bytes);
  fill_work pattern{a.address() + 1, bytes - 16, 0, 16, {}};
  for (std::size_t i = 0; i < 16; ++i) {
    pattern.pattern[i] = static_cast<std::byte>(i);
  }
  const auto graph = place.backend->make_graph(
      0, std::vector<graph_piece>{{fill_work{a.address(), bytes, 0, 1, {}}, {}},
                                  {pattern, {0}},
                                  {copy_work{copy_kind::device_to_device, b.address(),
                                             a.address(), bytes, 0, 0},
                                   {1}},
                                  {fill_work{b.address(), 8, 0, 4, {}}, {2}}});
  std::string fault = graph ? "" : graph.error().message();
  for (int run = 0; graph && run < 2; ++run) {
    or_throw(perform(*place.backend, graph_work{*graph, 0}));
  }
  std::vector<std::uint8_t> got(bytes);
  b.read(got.data());
  for (std::size_t i = 0; fault.empty() && i < bytes; ++i) {
    const bool filled = i >= 8 && i < bytes - 15;
    const std::size_t expected = filled ? (i - 1) % 16 : 0;
    fault = got[i] == expected ? "" : fmt::format("byte {} is {}", i, got[i]);
  }
  found.note("graph of fills and a copy", fault);
}

// Persistent kernels are launched alone: graphs of the driver have none.
void test_kernels(gpu_place& place, bool large, bool in_graphs, tally& found) {
  case_runner runner(*place.backend, ptx_texts(), in_graphs);
  for (const test::kernel_case& c : test::kernel_cases(large)) {
    if (c.name == "persistent_heat, stopped") {
      continue;  // the case sets the stop word itself; the conformance suite stops a
                 // kernel
    }
    bool left_out = false;
    const std::string fault = c.run([&](const test::kernel_launch& launch) {
      left_out = in_graphs && launch.cooperative;
      return left_out ? std::string("left out") : runner.run(launch);
    });
    if (!left_out) {
      found.note(in_graphs ? c.name + ", in a graph" : c.name, fault);
    }
  }
}

/// Runs a collective over a group and compares the outputs of all ranks.
std::string run_collective(gpu_place& place, cuda::device_collectives& group,
                           const std::vector<std::int32_t>& devices,
                           const collective::collective_call& call,
                           std::mt19937_64& dice) {
  namespace test = collective::test;
  const int ranks = static_cast<int>(devices.size());
  std::vector<test::bytes> inputs;
  std::vector<test::bytes> outputs;
  std::vector<std::unique_ptr<device_memory>> memory;
  std::vector<cuda::rank_call> calls;
  for (const std::int32_t device : devices) {
    // Numbers whose sums are exact, so that level 0 has one right result.
    test::bytes& input = inputs.emplace_back(test::input_bytes(call, ranks));
    for (std::size_t i = 0; i < input.size() / sizeof(float); ++i) {
      const auto x = static_cast<float>(static_cast<int>(dice() % 2001) - 1000);
      std::memcpy(input.data() + i * sizeof x, &x, sizeof x);
    }
    outputs.emplace_back(test::output_bytes(call, ranks), std::byte{0});
    memory.push_back(
        std::make_unique<device_memory>(*place.backend, device, inputs.back().size()));
    memory.back()->write(inputs.back().data());
    auto* const in = memory.back()->address();
    memory.push_back(
        std::make_unique<device_memory>(*place.backend, device, outputs.back().size()));
    memory.back()->write(outputs.back().data());
    calls.push_back({call, {in, memory.back()->address()}});
  }
  std::promise<result<void>> ended;
  group.submit(calls, [&](result<void> r) { ended.set_value(std::move(r)); });
  const auto done = ended.get_future().get();
  if (!done) {
    return done.error().message();
  }
  const auto expected = test::expected_outputs(call, inputs, outputs);
  for (std::size_t r = 0; r < devices.size(); ++r) {
    memory[2 * r + 1]->read(outputs[r].data());
    if (outputs[r] != expected[r]) {
      return fmt::format("rank {} has other bits", r);
    }
  }
  return "";
}

void test_collectives(gpu_place& place, tally& found) {
  std::vector<std::int32_t> apart;
  for (std::int32_t d = 0; d < place.backend->device_count(); ++d) {
    apart.push_back(d);
  }
  std::mt19937_64 dice(5);
  for (const auto& devices : {apart, std::vector<std::int32_t>{0, 0, 0}}) {
    cuda::collective_options options;
    options.from = &place.driver;
    options.nccl = place.nccl ? &*place.nccl : nullptr;
    auto group = cuda::device_collectives::open(*place.backend, devices, options);
    if (!group) {
      found.note("communicators", group.error().message());
      continue;
    }
    for (const collective::collective_kind kind : collective::test::all_kinds) {
      for (const int level : {0, 1, 2}) {
        collective::collective_call call;
        call.kind = kind;
        call.level = level;
        call.count = 1000 * devices.size();
        call.peer = static_cast<int>(devices.size()) - 1;
        found.note(fmt::format("{} at level {} over {} ranks on {} devices",
                               collective::name_of(kind), level, devices.size(),
                               devices == apart ? apart.size() : 1),
                   run_collective(place, **group, devices, call, dice));
      }
    }
  }
}

int run_tests(bool large) {
  auto place = open_place();
  if (!place) {
    std::printf("gpu_tests: skipped: %s\n", place.error().message().c_str());
    return skipped;
  }
  tally found;
  test_copies_and_fills(*place, found);
  test_graphs(*place, found);
  test_kernels(*place, false, false, found);
  // Graphs have kernels only if the driver tells their parameters.
  if (place->driver.api.kernel_parameter_of != nullptr) {
    test_kernels(*place, false, true, found);
  }
  if (large) {
    test_kernels(*place, true, false, found);
  }
  test_collectives(*place, found);
  const auto facts = or_throw(place->backend->properties(0));
  std::printf(
      "{\"devices\": %d, \"arch\": \"%s\", \"stand_in\": %s, \"nccl\": %d, "
      "\"tests\": %d, \"failed\": %d}\n",
      place->backend->device_count(), facts.arch.c_str(),
      place->stand_in ? "true" : "false", place->nccl ? place->nccl->version : 0,
      found.run, found.failed);
  return found.failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace weir::tessera::gpu

int main(int argc, char** argv) {
  const bool large = argc > 1 && std::string_view(argv[1]) == "--large";
  try {
    return weir::tessera::gpu::run_tests(large);
  } catch (const std::exception& e) {
    std::printf("gpu_tests: %s\n", e.what());
    return 1;
  }
}
