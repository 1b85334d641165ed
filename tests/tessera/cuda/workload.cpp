// SPDX-License-Identifier: Apache-2.0
/// @file
/// The program of the tests of errors and of planted mistakes.
#include "tessera/cuda/workload.hpp"

#include <algorithm>
#include <future>
#include <numeric>
#include <utility>

namespace weir::tessera::stand_in {
namespace {

constexpr std::size_t count = 3000;  // numbers of an array: more than a staging buffer
constexpr std::size_t bytes = count * sizeof(std::int32_t);

/// Notes an error and returns true on success.
template <class T>
bool good(workload_outcome& out, const result<T>& r) {
  if (!r) {
    out.failures.push_back(r.error());
  }
  return r.has_value();
}

bool perform(workload_outcome& out, device_backend& backend, const device_work& work) {
  std::promise<result<void>> ended;
  backend.submit(work, [&](result<void> r) { ended.set_value(std::move(r)); });
  return good(out, ended.get_future().get());
}

std::byte* as_bytes_of(std::int32_t* p) {
  return reinterpret_cast<std::byte*>(p);
}

/// Fills with patterns of all sizes, at aligned and other addresses.
void fill_all(workload_outcome& out, device_backend& backend, std::byte* memory) {
  for (const std::uint8_t size : std::initializer_list<std::uint8_t>{1, 2, 4, 8, 16}) {
    for (const std::size_t shift : {std::size_t{0}, std::size_t{2}, std::size_t{3}}) {
      fill_work w;
      w.to = memory + shift;
      w.bytes = std::size_t{size} * 10;
      w.pattern_bytes = size;
      w.pattern = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
      (void)perform(out, backend, w);
    }
  }
}

/// Returns the launch of `reverse` in blocks of 100 numbers.
grid_launch reversal(const kernel_code& code, std::int32_t device,
                     std::span<const std::byte> args) {
  grid_launch launch;
  launch.code = code;
  launch.device = device;
  launch.grid = {static_cast<std::int32_t>(count) / 100, 1, 1};
  launch.block = {100, 1, 1};
  launch.shared_bytes = std::size_t{60} << 10;
  launch.args = args;
  return launch;
}

/// Fills, reverses and copies numbers by a graph that runs twice, and counts wrong
/// results.
void run_graph_on(workload_outcome& out, device_backend& backend, const kernel_code& code,
                  std::int32_t device, std::byte* a, std::byte* b) {
  struct {
    const std::byte* in;
    std::byte* out;
  } args{a, b};
  const grid_launch launch = reversal(code, device, std::as_bytes(std::span(&args, 1)));
  fill_work numbers{a, bytes, device, 16, {}};  // 1, 2, 3 and 4 in turn
  for (std::size_t i = 0; i < 4; ++i) {
    numbers.pattern[4 * i] = static_cast<std::byte>(i + 1);
  }
  const std::vector<graph_piece> pieces{
      {numbers, {}},
      {grid_work{launch, 0, launch.blocks()}, {0}},
      {copy_work{copy_kind::device_to_device, a, b, bytes, device, device}, {1}},
      {fill_work{b, 8, device, 1, {}}, {2}}};
  auto graph = backend.make_graph(device, pieces);
  if (!good(out, graph)) {
    return;
  }
  bool whole = true;
  for (int run = 0; run < 2; ++run) {
    whole = perform(out, backend, graph_work{*graph, device}) && whole;
  }
  std::vector<std::int32_t> found(count);
  whole = perform(out, backend,
                  copy_work{copy_kind::device_to_host, as_bytes_of(found.data()), a,
                            bytes, device, device}) &&
          whole;
  for (std::size_t i = 0; whole && i < count; ++i) {
    const std::size_t from = i / 100 * 100 + 99 - i % 100;
    out.wrong += found[i] != static_cast<std::int32_t>(from % 4 + 1) ? 1 : 0;
  }
}

/// Copies numbers to a device, reverses them there, copies them through the other device
/// and back, and counts wrong results.
void reverse_on(workload_outcome& out, device_backend& backend, const cuda_module& module,
                std::int32_t device, std::int32_t* host) {
  const auto other = static_cast<std::int32_t>(1 - device);
  const auto a = backend.allocate(device, bytes);
  const auto b = backend.allocate(device, bytes);
  const auto c = backend.allocate(other, bytes);
  const auto kernel = module.kernel("reverse");
  if (good(out, a) && good(out, b) && good(out, c) && good(out, kernel)) {
    fill_all(out, backend, device == 0 ? *a : *c);
    std::iota(host, host + count, 1);
    bool whole = perform(out, backend,
                         copy_work{copy_kind::host_to_device, *a, as_bytes_of(host),
                                   bytes, device, device});
    struct {
      const std::byte* in;
      std::byte* out;
    } args{*a, *b};
    const grid_launch launch =
        reversal(*kernel, device, std::as_bytes(std::span(&args, 1)));
    whole = perform(out, backend, grid_work{launch, 0, launch.blocks()}) && whole;
    whole =
        perform(out, backend,
                copy_work{copy_kind::device_to_device, *a, *b, bytes, device, device}) &&
        whole;
    whole =
        perform(out, backend,
                copy_work{copy_kind::device_to_device, *c, *a, bytes, other, device}) &&
        whole;
    std::fill_n(host, count, 0);
    whole = perform(out, backend,
                    copy_work{copy_kind::device_to_host, as_bytes_of(host), *c, bytes,
                              other, other}) &&
            whole;
    for (std::size_t i = 0; whole && i < count; ++i) {
      const auto expected = static_cast<std::int32_t>(i / 100 * 100 + 100 - i % 100);
      out.wrong += host[i] != expected ? 1 : 0;
    }
    run_graph_on(out, backend, *kernel, device, *a, *b);
  }
  for (const auto& [where, memory] :
       {std::pair(device, &a), std::pair(device, &b), std::pair(other, &c)}) {
    if (*memory) {
      (void)good(out, backend.free(where, **memory));
    }
  }
}

/// Runs a persistent kernel until it is asked to stop.
void run_persistent(workload_outcome& out, device_backend& backend,
                    const cuda_module& module) {
  const auto memory = backend.allocate(0, 64);
  const auto kernel = module.kernel("until_stop");
  if (!good(out, memory) || !good(out, kernel)) {
    return;
  }
  grid_launch launch;
  launch.code = *kernel;
  launch.grid = {2, 1, 1};
  launch.args = std::as_bytes(std::span(&*memory, 1));
  const auto run = backend.start_persistent(launch, {});
  if (good(out, run)) {
    (*run)->request_stop();
    (void)good(out, (*run)->wait(-1));
  }
  (void)good(out, backend.free(0, *memory));
}

void run_all(workload_outcome& out, cuda_backend& backend, const cuda_module& module) {
  std::vector<std::int32_t> pageable(count);
  std::vector<std::int32_t> pinned(count);
  const auto registered =
      backend.pin_host(as_bytes_of(pinned.data()), pinned.size() * sizeof(std::int32_t));
  (void)good(out, registered);
  reverse_on(out, backend, module, 0, pageable.data());
  reverse_on(out, backend, module, 1, pinned.data());
  run_persistent(out, backend, module);
  if (registered) {
    backend.unpin_host(as_bytes_of(pinned.data()), bytes);
  }
  const auto host = backend.allocate_host(1000);
  if (good(out, host)) {
    (void)good(out, backend.free_host(*host));
  }
}

}  // namespace

workload_outcome run_workload(const cuda_options& options, listed_executor& executor) {
  workload_outcome out;
  const byte_vector image = executor.container("8.0");
  const fatbin parsed = or_throw(parse_fatbin(image));
  auto backend = make_cuda_backend(options);
  if (!good(out, backend)) {
    return out;
  }
  auto module = (*backend)->load(parsed, "workload.fatbin");
  if (good(out, module)) {
    out.opened = true;
    run_all(out, **backend, **module);
    module->reset();
  }
  backend->reset();
  return out;
}

}  // namespace weir::tessera::stand_in
