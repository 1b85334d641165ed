// SPDX-License-Identifier: Apache-2.0
/// @file
/// Measures what the backend costs beside CUDA and NCCL alone: empty launches, copies and
/// all-reduce. Prints one line of JSON for each bar. Without a physical GPU nothing is
/// measured: the calls are made once, and no time is printed.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <future>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "device/cuda/collectives/device_collectives.hpp"
#include "gpu/gpu_place.hpp"

namespace weir::tessera::gpu {
namespace {

constexpr int launches = 1000;
constexpr std::size_t copy_bytes = std::size_t{64} << 20;
constexpr std::size_t reduced_elements = std::size_t{8} << 20;

/// Waits for work of the backend.
class latch {
 public:
  completion arrive() {
    return [this](result<void> r) { ended_.set_value(std::move(r)); };
  }
  void wait() { or_throw(ended_.get_future().get()); }

 private:
  std::promise<result<void>> ended_;
};

/// A bar: the same thing by the backend and by the libraries alone.
struct bar {
  const char* name;
  double limit;     ///< largest quotient of the times
  double limit_us;  ///< a difference of this many microseconds is allowed too
  std::function<void()> ours;
  std::function<void()> plain;
};

/// Returns the least time of several runs in microseconds.
double least_us(const std::function<void()>& run, bool measured) {
  double best = 1e30;
  for (int i = 0; i < (measured ? 7 : 1); ++i) {
    const auto begin = std::chrono::steady_clock::now();
    run();
    const std::chrono::duration<double, std::micro> took =
        std::chrono::steady_clock::now() - begin;
    best = std::min(best, took.count());
  }
  return best;
}

/// Returns true if the bar holds.
bool measure(const bar& b, bool measured) {
  (void)least_us(b.ours, false);
  (void)least_us(b.plain, false);
  const double ours = least_us(b.ours, measured);
  const double plain = least_us(b.plain, measured);
  if (!measured) {
    std::printf("{\"bar\": \"%s\", \"ran\": true}\n", b.name);
    return true;
  }
  const bool holds = ours <= plain * b.limit || ours - plain <= b.limit_us;
  std::printf(
      "{\"bar\": \"%s\", \"ours_us\": %.2f, \"plain_us\": %.2f, \"limit\": %.2f, "
      "\"holds\": %s}\n",
      b.name, ours, plain, b.limit, holds ? "true" : "false");
  return holds;
}

/// The driver alone: a context, a stream and an event of one device.
class plain_device {
 public:
  plain_device(const cuda::driver& from, int ordinal) : api_(from.api) {
    expect(api_.device_get(&number_, ordinal));
    expect(api_.primary_retain(&context_, number_));
    with_context([&] {
      expect(api_.stream_create(&stream_, cuda::stream_non_blocking, 0));
      expect(api_.event_create(&event_, cuda::event_disable_timing));
    });
  }
  ~plain_device() {
    with_context([&] {
      (void)api_.event_destroy(event_);
      (void)api_.stream_destroy(stream_);
    });
    (void)api_.primary_release(number_);
  }
  plain_device(const plain_device&) = delete;
  plain_device& operator=(const plain_device&) = delete;

  /// Calls a function while the context is current.
  template <class F>
  std::invoke_result_t<F> with_context(const F& function) const {
    struct popped {
      const cuda::driver_api& api;
      ~popped() {
        cuda::context_handle gone = nullptr;
        (void)api.context_pop(&gone);
      }
    };
    expect(api_.context_push(context_));
    const popped at_end{api_};
    return function();
  }
  [[nodiscard]] const cuda::driver_api& api() const { return api_; }
  [[nodiscard]] cuda::stream_handle stream() const { return stream_; }
  void wait() const {
    with_context([&] {
      expect(api_.event_record(event_, stream_));
      cuda::status s = cuda::status::not_ready;
      while ((s = api_.event_query(event_)) == cuda::status::not_ready) {
      }
      expect(s);
    });
  }
  static void expect(cuda::status s) {
    if (s != cuda::status::success) {
      throw std::runtime_error(
          "measure a GPU: expected success of the driver, found "
          "status " +
          std::to_string(static_cast<int>(s)));
    }
  }

 private:
  const cuda::driver_api& api_;
  cuda::device_number number_ = 0;
  cuda::context_handle context_ = nullptr;
  cuda::stream_handle stream_ = nullptr;
  cuda::event_handle event_ = nullptr;
};

/// The empty kernel, loaded by the backend and by the driver alone.
struct empty_kernel {
  std::string text;
  std::unique_ptr<cuda_module> module;
  cuda::library_handle library = nullptr;
  cuda::function_handle function = nullptr;
  const cuda::driver_api* from = nullptr;

  empty_kernel() = default;
  empty_kernel(const empty_kernel&) = delete;
  empty_kernel& operator=(const empty_kernel&) = delete;
  ~empty_kernel() {
    if (library != nullptr) {
      (void)from->library_unload(library);
    }
  }
  void load(gpu_place& place, const plain_device& device) {
    for (const std::string& t : ptx_texts()) {
      text = t.find(".entry empty(") != std::string::npos ? t : text;
    }
    const byte_vector image = or_throw(module_of(text, "empty", {}));
    module = or_throw(place.backend->load(or_throw(parse_fatbin(image)), "empty"));
    cuda::kernel_handle kernel = nullptr;
    const cuda::driver_api& api = place.driver.api;
    from = &api;
    plain_device::expect(api.library_load(&library, text.c_str(), nullptr, nullptr, 0,
                                          nullptr, nullptr, 0));
    plain_device::expect(api.library_kernel(&kernel, library, "empty"));
    device.with_context(
        [&] { plain_device::expect(api.kernel_function(&function, kernel)); });
  }
};

void launch_by_backend(gpu_place& place, const empty_kernel& kernel, int count) {
  latch last;
  grid_launch l;
  l.code = or_throw(kernel.module->kernel("empty"));
  for (int i = 0; i < count; ++i) {
    place.backend->submit(grid_work{l, 0, 1},
                          i + 1 == count ? last.arrive() : completion());
  }
  last.wait();
}

void launch_plainly(const plain_device& device, const empty_kernel& kernel, int count) {
  cuda::launch_config config;
  config.stream = device.stream();
  device.with_context([&] {
    for (int i = 0; i < count; ++i) {
      plain_device::expect(
          device.api().launch(&config, kernel.function, nullptr, nullptr));
    }
  });
  device.wait();
}

bool launch_bars(gpu_place& place, const plain_device& device, bool measured) {
  empty_kernel kernel;
  kernel.load(place, device);
  bool all = measure({"1000 empty launches and one wait", 1.05, 0,
                      [&] { launch_by_backend(place, kernel, launches); },
                      [&] { launch_plainly(device, kernel, launches); }},
                     measured);
  return measure({"a launch and a wait", 1.15, 3,
                  [&] { launch_by_backend(place, kernel, 1); },
                  [&] { launch_plainly(device, kernel, 1); }},
                 measured) &&
         all;
}

/// Copies in each direction, and on the device.
bool copy_bars(gpu_place& place, const plain_device& device, bool measured) {
  bool all = true;
  const std::size_t bytes = measured ? copy_bytes : 4096;
  std::byte* const host = or_throw(place.backend->allocate_host(bytes));
  std::byte* const memory = or_throw(place.backend->allocate(0, bytes));
  std::byte* const other = or_throw(place.backend->allocate(0, bytes));
  const auto number = [](std::byte* p) {
    return reinterpret_cast<cuda::device_address>(p);
  };
  const auto ours = [&](const copy_work& work) {
    return [&place, work] {
      latch end;
      place.backend->submit(work, end.arrive());
      end.wait();
    };
  };
  const auto plain = [&](const std::function<cuda::status()>& copy) {
    return [&device, copy] {
      device.with_context([&] { plain_device::expect(copy()); });
      device.wait();
    };
  };
  const cuda::driver_api& api = device.api();
  const bar copies[] = {
      {"a copy of 64 MiB from registered memory", 1.05, 0,
       ours({copy_kind::host_to_device, memory, host, bytes, 0, 0}), plain([&] {
         return api.copy_to_device(number(memory), host, bytes, device.stream());
       })},
      {"a copy of 64 MiB to registered memory", 1.05, 0,
       ours({copy_kind::device_to_host, host, memory, bytes, 0, 0}), plain([&] {
         return api.copy_to_host(host, number(memory), bytes, device.stream());
       })},
      {"a copy of 64 MiB on the device", 1.05, 0,
       ours({copy_kind::device_to_device, other, memory, bytes, 0, 0}), plain([&] {
         return api.copy_on_device(number(other), number(memory), bytes, device.stream());
       })}};
  for (const bar& b : copies) {
    all = measure(b, measured) && all;
  }
  or_throw(place.backend->free(0, memory));
  or_throw(place.backend->free(0, other));
  or_throw(place.backend->free_host(host));
  return all;
}

/// NCCL alone: communicators for all devices.
class plain_nccl {
 public:
  plain_nccl(const cuda::nccl_library& library, const cuda::driver& from, int devices)
      : api_(library.api), communicators_(static_cast<std::size_t>(devices)) {
    cuda::nccl_id id;
    expect(api_.get_unique_id(&id));
    expect(api_.group_start());
    for (int d = 0; d < devices; ++d) {
      devices_.push_back(std::make_unique<plain_device>(from, d));
      cuda::nccl_config config;
      config.blocking = 0;
      expect(devices_.back()->with_context([&] {
        return api_.init_rank(&communicators_[static_cast<std::size_t>(d)], devices, id,
                              d, &config);
      }));
    }
    expect(api_.group_end());
    wait_until_ready();
  }
  ~plain_nccl() {
    for (cuda::nccl_communicator c : communicators_) {
      (void)api_.finalize(c);
    }
    wait_until_ready();
    for (cuda::nccl_communicator c : communicators_) {
      (void)api_.destroy(c);
    }
  }
  plain_nccl(const plain_nccl&) = delete;
  plain_nccl& operator=(const plain_nccl&) = delete;

  void all_reduce(const std::vector<cuda::rank_call>& calls) const {
    expect(api_.group_start());
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      expect(devices_[d]->with_context([&] {
        const cuda::rank_buffers& b = calls[d].buffers;
        return api_.all_reduce(b.input, b.output, calls[d].call.count,
                               cuda::nccl_type::float32, cuda::nccl_operation::sum,
                               communicators_[d], devices_[d]->stream());
      }));
    }
    expect(api_.group_end());
    wait_until_ready();
    for (const auto& device : devices_) {
      device->wait();
    }
  }

 private:
  static void expect(cuda::nccl_status s) {
    if (s != cuda::nccl_status::success && s != cuda::nccl_status::in_progress) {
      throw std::runtime_error("measure NCCL: expected success, found status " +
                               std::to_string(static_cast<int>(s)));
    }
  }
  void wait_until_ready() const {
    for (cuda::nccl_communicator c : communicators_) {
      cuda::nccl_status state = cuda::nccl_status::in_progress;
      while (state == cuda::nccl_status::in_progress &&
             api_.async_error(c, &state) == cuda::nccl_status::success) {
      }
    }
  }

  const cuda::nccl_api& api_;
  std::vector<std::unique_ptr<plain_device>> devices_;
  std::vector<cuda::nccl_communicator> communicators_;
};

bool nccl_bar(gpu_place& place, bool measured) {
  const std::int32_t count = place.backend->device_count();
  if (count < 2 || !place.nccl) {
    std::printf(
        "{\"bar\": \"all-reduce of 32 MiB\", \"skipped\": \"expected two GPUs and "
        "NCCL\"}\n");
    return true;
  }
  std::vector<std::int32_t> devices;
  std::vector<cuda::rank_call> calls;
  collective::collective_call call;
  call.level = 0;
  call.count = measured ? reduced_elements : 64;
  for (std::int32_t d = 0; d < count; ++d) {
    std::byte* const m = or_throw(place.backend->allocate(d, call.count * sizeof(float)));
    devices.push_back(d);
    calls.push_back({call, {m, m}});
  }
  bool holds = false;
  {
    cuda::collective_options options;
    options.from = &place.driver;
    options.nccl = &*place.nccl;
    const auto group =
        or_throw(cuda::device_collectives::open(*place.backend, devices, options));
    const plain_nccl plain(*place.nccl, place.driver, count);
    const auto ours = [&] {
      latch end;
      group->submit(calls, end.arrive());
      end.wait();
    };
    holds =
        measure({"all-reduce of 32 MiB", 1.05, 0, ours, [&] { plain.all_reduce(calls); }},
                measured);
  }
  for (const std::int32_t d : devices) {
    or_throw(place.backend->free(d, calls[static_cast<std::size_t>(d)].buffers.output));
  }
  return holds;
}

int run_bars() {
  auto place = open_place();
  if (!place) {
    std::printf("gpu_bars: skipped: %s\n", place.error().message().c_str());
    return skipped;
  }
  const bool measured = !place->stand_in;
  bool of_device = false;
  {
    const plain_device device(place->driver, 0);
    const bool of_launches = launch_bars(*place, device, measured);
    of_device = copy_bars(*place, device, measured) && of_launches;
  }
  const bool of_nccl = nccl_bar(*place, measured);
  return of_device && of_nccl ? 0 : 1;
}

}  // namespace
}  // namespace weir::tessera::gpu

int main() {
  try {
    return weir::tessera::gpu::run_bars();
  } catch (const std::exception& e) {
    std::printf("gpu_bars: %s\n", e.what());
    return 1;
  }
}
