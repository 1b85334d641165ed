// SPDX-License-Identifier: Apache-2.0
/// @file
/// What the backend asks of the driver for many operations at once, and what it leaves as
/// it was on the threads of its callers.
#include <atomic>
#include <chrono>
#include <future>
#include <map>
#include <mutex>
#include <thread>

#include "tessera/cuda/support.hpp"

namespace weir::tessera::stand_in {
namespace {

using cuda::status;

/// Operations that the backend gives to the streams of the driver.
struct traffic {
  std::mutex mutex;
  std::map<cuda::stream_handle, std::size_t> batches;  ///< operations without an event
  std::size_t longest_batch = 0;
  std::size_t events = 0;
  std::size_t empty_events = 0;      ///< events that were recorded behind nothing new
  std::size_t given = 0;             ///< operations that were given to streams
  std::atomic<bool> held{false};     ///< events seem not to have occurred yet
  std::atomic<bool> blocked{false};  ///< the call that asks for an event does not return
  std::atomic<bool> asked{false};    ///< such a call does not return
};
traffic* seen = nullptr;
cuda::driver_api unwatched;

/// A backend whose fills and events are counted.
class watched_device {
 public:
  watched_device() {
    set_up(machine{}, nullptr);
    seen = &traffic_;
    driver_ = or_throw(cuda::load_driver(WEIR_STAND_IN_DRIVER));
    unwatched = driver_.api;
    driver_.api.fill8 = [](cuda::device_address to, unsigned char value, std::size_t n,
                           cuda::stream_handle stream) {
      const std::lock_guard lock(seen->mutex);
      ++seen->given;
      std::size_t& batch = ++seen->batches[stream];
      seen->longest_batch = std::max(seen->longest_batch, batch);
      return unwatched.fill8(to, value, n, stream);
    };
    driver_.api.event_record = [](cuda::event_handle e, cuda::stream_handle stream) {
      const std::lock_guard lock(seen->mutex);
      ++seen->events;
      std::size_t& batch = seen->batches[stream];
      seen->empty_events += batch == 0 ? 1 : 0;
      batch = 0;
      return unwatched.event_record(e, stream);
    };
    driver_.api.event_query = [](cuda::event_handle e) {
      while (seen->blocked) {
        seen->asked = true;
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
      return seen->held ? status::not_ready : unwatched.event_query(e);
    };
    cuda_options options = stand_in_options();
    options.driver = &driver_;
    options.max_launches = cuda_options{}.max_launches;
    backend_ = or_throw(make_cuda_backend(options));
    memory_ = or_throw(backend_->allocate(0, 4096));
    const std::lock_guard lock(traffic_.mutex);
    traffic_.events = traffic_.empty_events = traffic_.given = 0;
    traffic_.batches.clear();
  }
  ~watched_device() {
    EXPECT_TRUE(backend_->free(0, memory_));
    backend_.reset();
    for (const breach& b : take_breaches()) {
      ADD_FAILURE() << b.rule << ": " << b.text;
    }
  }
  watched_device(const watched_device&) = delete;
  watched_device& operator=(const watched_device&) = delete;

  /// Submits fills of a byte each, at different addresses.
  void fill(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      fill_work work;
      work.to = memory_ + next_++;
      work.bytes = 1;
      backend_->submit(work, [this](result<void> r) { ended_ += r ? 1 : 0; });
    }
  }
  /// Waits until so many fills have ended well.
  void wait_for(std::size_t count) const {
    eventually([&] { return ended_ == count; });
  }
  static void eventually(const std::function<bool()>& holds) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!holds() && std::chrono::steady_clock::now() < limit) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    EXPECT_TRUE(holds());
  }
  [[nodiscard]] std::size_t ended() const noexcept { return ended_; }
  [[nodiscard]] traffic& counted() noexcept { return traffic_; }

 private:
  traffic traffic_;
  cuda::driver driver_;
  std::unique_ptr<cuda_backend> backend_;
  std::byte* memory_ = nullptr;
  std::size_t next_ = 0;
  std::atomic<std::size_t> ended_{0};
};

constexpr std::size_t kernel_streams = 4;

// The call that asks for the first fill does not return, so the others are all there when
// the thread of the device takes new work.
TEST(CudaLimits, OperationsThatAreGivenTogetherHaveOneEventForEachStream) {
  watched_device device;
  traffic& counted = device.counted();
  counted.blocked = true;
  device.fill(1);
  watched_device::eventually([&] { return counted.asked.load(); });
  constexpr std::size_t many = 400;
  device.fill(many);
  counted.blocked = false;
  device.wait_for(1 + many);
  const std::lock_guard lock(counted.mutex);
  EXPECT_EQ(counted.given, 1 + many);
  EXPECT_EQ(counted.empty_events, 0U);
  EXPECT_EQ(counted.events, 1 + kernel_streams);
  EXPECT_EQ(counted.longest_batch, many / kernel_streams);
}

TEST(CudaLimits, AStreamHasAtMost512OperationsOutstanding) {
  EXPECT_EQ(cuda_options{}.max_launches, 512U);
  watched_device device;
  traffic& counted = device.counted();
  counted.held = true;
  constexpr std::size_t limit = 512 * kernel_streams;
  constexpr std::size_t many = limit + 700;
  device.fill(many);
  const auto given = [&] {
    const std::lock_guard lock(counted.mutex);
    return counted.given;
  };
  watched_device::eventually([&] { return given() == limit; });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(given(), limit) << "work above the limit waits";
  EXPECT_EQ(device.ended(), 0U);
  counted.held = false;
  device.wait_for(many);
  EXPECT_EQ(given(), many);
}

/// Calls everything that a program can call, and a check after each.
void call_everything(cuda_backend& backend, const cuda_module& module,
                     const std::function<void(const char*)>& check) {
  EXPECT_TRUE(backend.properties(0));
  check("properties");
  std::byte* const memory = or_throw(backend.allocate(0, 256));
  check("allocate");
  std::byte* const host = or_throw(backend.allocate_host(256));
  check("allocate_host");
  std::vector<std::byte> pageable(256);
  EXPECT_TRUE(backend.pin_host(pageable.data(), pageable.size()));
  check("pin_host");
  grid_launch launch;
  launch.code = or_throw(module.kernel("write_indices"));
  check("kernel");
  launch.args = std::as_bytes(std::span(&memory, 1));
  for (const device_work& work : std::initializer_list<device_work>{
           copy_work{copy_kind::host_to_device, memory, host, 256, 0, 0},
           copy_work{copy_kind::device_to_host, pageable.data(), memory, 256, 0, 0},
           fill_work{memory, 256, 0, 1, {}}, grid_work{launch, 0, launch.blocks()}}) {
    std::promise<result<void>> ended;
    backend.submit(work, [&](result<void> r) { ended.set_value(std::move(r)); });
    check("submit");
    EXPECT_TRUE(ended.get_future().get());
  }
  launch.code = or_throw(module.kernel("until_stop"));
  const auto run = or_throw(backend.start_persistent(launch, {}));
  check("start_persistent");
  run->request_stop();
  EXPECT_TRUE(run->wait(-1));
  check("wait");
  backend.unpin_host(pageable.data(), pageable.size());
  check("unpin_host");
  EXPECT_TRUE(backend.free_host(host));
  check("free_host");
  EXPECT_TRUE(backend.free(0, memory));
  check("free");
}

TEST(CudaLimits, AContextOfTheCallerStaysCurrentOnItsThread) {
  const auto executor = std::make_shared<listed_executor>(conformance_list());
  machine shown;
  shown.devices = 2;
  set_up(shown, executor);
  const auto api = or_throw(cuda::load_driver(WEIR_STAND_IN_DRIVER)).api;
  cuda::context_handle foreign = nullptr;
  ASSERT_EQ(api.init(0), status::success);
  ASSERT_EQ(api.primary_retain(&foreign, 1), status::success);
  ASSERT_EQ(api.context_push(foreign), status::success);
  const auto check = [&](const char* call) {
    cuda::context_handle current = nullptr;
    EXPECT_EQ(api.context_current(&current), status::success) << call;
    EXPECT_EQ(current, foreign) << "after " << call;
  };
  {
    const auto backend = or_throw(make_cuda_backend(stand_in_options()));
    check("make_cuda_backend");
    const byte_vector image = executor->container("8.0");
    auto module = or_throw(backend->load(or_throw(parse_fatbin(image)), "m.fatbin"));
    check("load");
    call_everything(*backend, *module, check);
    module.reset();
    check("the end of a module");
  }
  check("the end of the backend");
  cuda::context_handle popped = nullptr;
  ASSERT_EQ(api.context_pop(&popped), status::success);
  EXPECT_EQ(popped, foreign);
  EXPECT_EQ(api.context_current(&popped), status::success);
  EXPECT_EQ(popped, nullptr) << "the backend leaves no context on this thread";
  ASSERT_EQ(api.primary_release(1), status::success);
  EXPECT_TRUE(take_breaches().empty());
  EXPECT_TRUE(objects() == object_counts{});
}

}  // namespace
}  // namespace weir::tessera::stand_in
