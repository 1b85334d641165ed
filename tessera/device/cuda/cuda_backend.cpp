// SPDX-License-Identifier: Apache-2.0
/// @file
/// GPUs as a backend: checks and counts on the calling thread, and passes everything else
/// to the threads of the devices.
///
/// An allocation is counted first (`memory_ledger`), then asked of the device; work is
/// checked and then posted to the thread of its device, which alone calls the driver for
/// it.
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <variant>

#include <fmt/core.h>

#include "device/cuda.hpp"
#include "device/cuda/device_thread.hpp"
#include "device/cuda/memory_ledger.hpp"
#include "device/cuda/modules.hpp"
#include "device/cuda/status_table.hpp"
#include "device/launch_check.hpp"

namespace weir::tessera {
namespace {

using cuda::device_family;
using cuda::device_thread;
using cuda::memory_ledger;

/// Number of times that this process is a child of `fork` of the first one. A child has
/// no threads of its parent, so devices that the parent has opened cannot be used in it.
std::atomic<unsigned> forks{0};

/// Counts forks in children from now on. Registers the handler once.
void watch_forks() {
  static const int watched = ::pthread_atfork(nullptr, nullptr, [] { ++forks; });
  static_cast<void>(watched);
}

/// Handle of a persistent kernel.
///
/// Its end asks the kernel to stop, but does not wait for it.
class cuda_persistent_run final : public persistent_run {
 public:
  explicit cuda_persistent_run(std::shared_ptr<cuda::persistent_state> state)
      : state_(std::move(state)) {}
  ~cuda_persistent_run() override { state_->request_stop(); }
  cuda_persistent_run(const cuda_persistent_run&) = delete;
  cuda_persistent_run& operator=(const cuda_persistent_run&) = delete;
  void request_stop() noexcept override { state_->request_stop(); }
  [[nodiscard]] bool ended() const noexcept override { return state_->ended(); }
  [[nodiscard]] result<void> wait(std::int64_t limit_ns) override {
    return state_->wait(limit_ns);
  }

 private:
  std::shared_ptr<cuda::persistent_state> state_;
};

/// Everything that ends with the backend, except in a child of `fork`, where the threads
/// do not exist and nothing can be ended.
///
/// The order of the members is that of their construction: threads use the family.
struct cuda_state {
  device_family family;
  std::vector<std::unique_ptr<memory_ledger>> ledgers;
  std::vector<std::unique_ptr<device_thread>> threads;
  std::mutex mutex;                             ///< guards `host`
  std::map<std::byte*, cuda::host_pages> host;  ///< memory of allocate_host
};

class cuda_devices final : public cuda_backend {
 public:
  explicit cuda_devices(std::unique_ptr<cuda_state> state)
      : state_(std::move(state)), forks_(forks.load()) {}
  ~cuda_devices() override;
  cuda_devices(const cuda_devices&) = delete;
  cuda_devices& operator=(const cuda_devices&) = delete;

  [[nodiscard]] std::string_view name() const noexcept override { return "cuda"; }
  [[nodiscard]] std::int32_t device_count() const noexcept override {
    return static_cast<std::int32_t>(state_->threads.size());
  }
  [[nodiscard]] result<device_properties> properties(std::int32_t device) const override;
  [[nodiscard]] result<std::byte*> allocate(std::int32_t device,
                                            std::size_t bytes) override;
  [[nodiscard]] result<void> free(std::int32_t device, std::byte* address) override;
  [[nodiscard]] memory_use memory(std::int32_t device) const override;
  [[nodiscard]] result<std::byte*> allocate_host(std::size_t bytes) override;
  [[nodiscard]] result<void> free_host(std::byte* address) override;
  [[nodiscard]] result<void> pin_host(std::byte* address, std::size_t bytes) override;
  void unpin_host(std::byte* address, std::size_t bytes) noexcept override;
  [[nodiscard]] result<void> check(const grid_launch& launch,
                                   bool persistent) const override;
  /// Plans one slice, because a device takes a grid as a whole. Workers of the engine
  /// are not used.
  [[nodiscard]] slice_plan plan(const grid_launch& launch,
                                unsigned /*workers*/) const noexcept override {
    return cut_evenly(launch.blocks(), 1, 1, 1);
  }
  // A copy is one operation of the device.
  [[nodiscard]] slice_plan plan(std::size_t bytes,
                                unsigned /*workers*/) const noexcept override {
    return cut_evenly(static_cast<std::int64_t>(bytes), 64, 1, 1);
  }
  [[nodiscard]] bool inline_work() const noexcept override { return false; }
  // Work of GPUs never runs on the calling thread.
  [[nodiscard]] result<void> copy(const copy_work& /*work*/) override {
    return not_inline();
  }
  [[nodiscard]] result<void> fill(const fill_work& /*work*/) override {
    return not_inline();
  }
  [[nodiscard]] result<void> run_blocks(const grid_launch& /*launch*/,
                                        std::int64_t /*first*/,
                                        std::int64_t /*last*/) override {
    return not_inline();
  }
  [[nodiscard]] result<void> follow_native(std::int32_t device, std::uintptr_t native,
                                           completion done) override;
  [[nodiscard]] result<std::shared_ptr<device_graph>> make_graph(
      std::int32_t device, std::span<const graph_piece> pieces) override;
  void submit(const device_work& work, completion done) override;
  [[nodiscard]] result<std::shared_ptr<persistent_run>> start_persistent(
      const grid_launch& launch, completion done) override;
  [[nodiscard]] result<std::unique_ptr<cuda_module>> load(const fatbin& module,
                                                          std::string_view name) override;

 private:
  [[nodiscard]] bool forked() const noexcept { return forks.load() != forks_; }
  /// Refuses calls in children of `fork` and devices that do not exist.
  [[nodiscard]] result<void> usable(std::int32_t device) const;
  [[nodiscard]] device_thread& thread(std::int32_t device) const noexcept {
    return *state_->threads[static_cast<std::size_t>(device)];
  }
  [[nodiscard]] memory_ledger& ledger(std::int32_t device) const noexcept {
    return *state_->ledgers[static_cast<std::size_t>(device)];
  }
  /// Returns a device that is not lost, or the first one. Any device can register memory
  /// of the host, since the registration is valid for all.
  [[nodiscard]] device_thread& any_thread() const;
  /// Ends the registration of memory of the host, and then lets go of `pages`, which may
  /// be null. Waits for that unless the thread must not wait.
  void unregister(std::byte* address, std::shared_ptr<cuda::host_pages> pages) noexcept;
  /// Checks work and returns the number of its device, or -1 if there is nothing to do.
  [[nodiscard]] result<std::int32_t> device_for(const device_work& work) const;
  static error not_inline() {
    return {errc::unsupported,
            "run work of a GPU at once: expected a call of submit, found another"};
  }

  std::unique_ptr<cuda_state> state_;
  unsigned forks_;
};

// The last user of a backend may be a completion, and a thread cannot wait for its own
// end.
cuda_devices::~cuda_devices() {
  // In a child nothing is freed, as the memory belongs to threads that do not exist.
  if (forked()) {
    (void)state_.release();
    return;
  }
  // Registered memory is given back before the devices end.
  for (const auto& [address, pages] : state_->host) {
    unpin_host(address, pages.size());
  }
  if (!device_thread::is_current()) {
    state_->threads.clear();
    return;
  }
  // On a thread of a device: another thread ends them.
  cuda_state* const ending = state_.release();
  try {
    std::thread([ending] {
      ending->threads.clear();
      delete ending;
    }).detach();
  } catch (...) {
    // Without a thread the devices stay open, which is better than ending the process.
  }
}

/// Every call that reaches the driver begins with it.
result<void> cuda_devices::usable(std::int32_t device) const {
  if (forked()) {
    return error(errc::unsupported,
                 "use a GPU: expected the process that has opened it, found its child "
                 "after fork")
        .hint("open devices after fork");
  }
  return check_device(device, device_count());
}

/// The memory is the one that this backend may use.
result<device_properties> cuda_devices::properties(std::int32_t device) const {
  WEIR_CHECK(usable(device));
  device_properties p = thread(device).properties();
  p.memory = ledger(device).use().capacity;
  return p;
}

/// Null for 0 bytes.
result<std::byte*> cuda_devices::allocate(std::int32_t device, std::size_t bytes) {
  WEIR_CHECK(usable(device));
  if (bytes == 0) {
    return nullptr;
  }
  const auto rounded = ledger(device).reserve(bytes);
  if (!rounded) {
    const memory_use use = ledger(device).use();
    return error(errc::out_of_memory,
                 fmt::format("cannot allocate {} bytes on cuda:{}: expected that much "
                             "free memory, found {}",
                             bytes, device, use.capacity - use.in_use));
  }
  // The driver may refuse what the ledger allows, as others use the GPU too.
  auto made = thread(device).allocate(*rounded);
  if (!made) {
    ledger(device).cancel(*rounded);
    return std::move(made.error());
  }
  ledger(device).settle(*made, *rounded);
  return *made;
}

/// The address must be the start of an allocation of this device.
result<void> cuda_devices::free(std::int32_t device, std::byte* address) {
  WEIR_CHECK(usable(device));
  if (address == nullptr) {
    return {};
  }
  if (!ledger(device).release(address)) {
    return error(errc::invalid_argument,
                 fmt::format("cannot free {} on cuda:{}: expected the start of an "
                             "allocation, found none",
                             static_cast<void*>(address), device));
  }
  thread(device).free(address);
  return {};
}

/// Zeros for a device that cannot be used.
memory_use cuda_devices::memory(std::int32_t device) const {
  return usable(device) ? ledger(device).use() : memory_use{};
}

device_thread& cuda_devices::any_thread() const {
  for (const auto& t : state_->threads) {
    if (!t->lost()) {
      return *t;
    }
  }
  return thread(0);
}

// Memory that the driver does not register is returned nevertheless: copies of it then go
// through staging buffers.
result<std::byte*> cuda_devices::allocate_host(std::size_t bytes) {
  WEIR_CHECK(usable(0));
  WEIR_TRY(auto pages, cuda::host_pages::map(bytes));
  std::byte* const address = pages.data();
  if (address == nullptr) {
    return address;
  }
  const std::size_t size = pages.size();
  // The driver is called on a thread of a device, since a context must be current there.
  const auto registered = any_thread().call([&]() -> result<void> {
    const auto& api = state_->family.from.api;
    const auto s =
        api.host_register(address, size, cuda::host_portable | cuda::host_device_map);
    if (s != cuda::status::success) {
      return cuda::failure_of(api, s, "register memory of the host");
    }
    return {};
  });
  // Only registered memory is copied directly.
  if (registered) {
    state_->family.pinned.add(address, size);
  }
  const std::lock_guard lock(state_->mutex);
  state_->host.emplace(address, std::move(pages));
  return address;
}

/// The pages are let go after the registration has ended.
result<void> cuda_devices::free_host(std::byte* address) {
  WEIR_CHECK(usable(0));
  if (address == nullptr) {
    return {};
  }
  auto pages = std::make_shared<cuda::host_pages>();
  {
    const std::lock_guard lock(state_->mutex);
    const auto found = state_->host.find(address);
    if (found == state_->host.end()) {
      return error(errc::invalid_argument,
                   fmt::format("cannot free {} of the host: expected the start of an "
                               "allocation, found none",
                               static_cast<void*>(address)));
    }
    // From here on nobody else can free the memory.
    *pages = std::move(found->second);
    state_->host.erase(found);
  }
  if (state_->family.pinned.remove(address)) {
    unregister(address, std::move(pages));
  }
  return {};
}

// Memory that the system does not let the driver register can be copied all the same.
result<void> cuda_devices::pin_host(std::byte* address, std::size_t bytes) {
  WEIR_CHECK(usable(0));
  if (address == nullptr || bytes == 0) {
    return {};
  }
  const auto registered = any_thread().call([&]() -> result<void> {
    const auto& api = state_->family.from.api;
    const auto s =
        api.host_register(address, bytes, cuda::host_portable | cuda::host_device_map);
    if (s != cuda::status::success) {
      return cuda::failure_of(api, s, "register memory of the host");
    }
    return {};
  });
  if (registered) {
    state_->family.pinned.add(address, bytes);
    return {};
  }
  // The system may limit locked memory, which only makes copies slower.
  const errc code = registered.error().code();
  if (code == errc::out_of_memory || code == errc::unsupported) {
    return {};
  }
  return std::move(registered.error());
}

/// Does nothing for memory that was not registered.
void cuda_devices::unpin_host(std::byte* address, std::size_t /*bytes*/) noexcept {
  if (!forked() && state_->family.pinned.remove(address)) {
    unregister(address, nullptr);
  }
}

void cuda_devices::unregister(std::byte* address,
                              std::shared_ptr<cuda::host_pages> pages) noexcept {
  const auto end = [address, pages = std::move(pages), &from = state_->family.from] {
    (void)from.api.host_unregister(address);
  };
  // A completion must not wait for the thread on which it runs.
  if (no_device_waits::active()) {
    any_thread().post(end);
    return;
  }
  (void)any_thread().call(
      [&]() -> result<void> {
        end();
        return {};
      },
      true);
}

/// Called before each launch, on the thread of the caller.
result<void> cuda_devices::check(const grid_launch& launch, bool persistent) const {
  WEIR_CHECK(usable(launch.device));
  WEIR_CHECK(check_launch(launch, thread(launch.device).properties().limits, persistent));
  const auto& kernel = *reinterpret_cast<const cuda::device_kernel*>(launch.code.entry);
  // The module may have no code for this GPU.
  if (kernel.functions[static_cast<std::size_t>(launch.device)] == nullptr) {
    return error(errc::arch_mismatch,
                 fmt::format("launch kernel {}: expected code for {}, found none",
                             launch.code.name, thread(launch.device).properties().arch));
  }
  if (launch.args.size() < kernel.argument_bytes) {
    return error(
        errc::invalid_argument,
        fmt::format("launch kernel {}: expected {} bytes of arguments, found {}",
                    launch.code.name, kernel.argument_bytes, launch.args.size()));
  }
  return {};
}

/// Checks what is the same for all backends, and finds the thread that does the work.
result<std::int32_t> cuda_devices::device_for(const device_work& work) const {
  constexpr std::int32_t none = -1;
  if (const auto* const copy = std::get_if<copy_work>(&work)) {
    WEIR_CHECK(check_copy(*copy));
    // Nothing to copy.
    if (copy->bytes == 0 || copy->to == copy->from) {
      return none;
    }
    // Copies from a device are done by its own thread.
    const bool up = copy->kind == copy_kind::device_to_host;
    if (copy->kind == copy_kind::device_to_device) {
      WEIR_CHECK(usable(copy->from_device));
    }
    const std::int32_t device = up ? copy->from_device : copy->to_device;
    WEIR_CHECK(usable(device));
    return device;
  }
  if (const auto* const fill = std::get_if<fill_work>(&work)) {
    WEIR_CHECK(check_fill(*fill));
    WEIR_CHECK(usable(fill->device));
    return fill->bytes == 0 ? none : fill->device;
  }
  if (const auto* const run = std::get_if<graph_work>(&work)) {
    WEIR_CHECK(usable(run->device));
    return run->graph == nullptr ? none : run->device;
  }
  const auto& grid = std::get<grid_work>(work);
  WEIR_CHECK(check(grid.launch, false));
  // A device runs a grid as a whole.
  if (grid.first != 0 || grid.last != grid.launch.blocks()) {
    return error(
        errc::unsupported,
        fmt::format("run kernel {}: expected all {} blocks, found {} to {}",
                    grid.launch.code.name, grid.launch.blocks(), grid.first, grid.last));
  }
  return grid.launch.device;
}

/// The handle goes to the driver as it is. There is no way to check it before.
result<void> cuda_devices::follow_native(std::int32_t device, std::uintptr_t native,
                                         completion done) {
  WEIR_CHECK(usable(device));
  return thread(device).follow(reinterpret_cast<cuda::stream_handle>(native),
                               std::move(done));
}

// The pieces are checked like work that is submitted, on the calling thread.
result<std::shared_ptr<device_graph>> cuda_devices::make_graph(
    std::int32_t device, std::span<const graph_piece> pieces) {
  WEIR_CHECK(usable(device));
  for (const graph_piece& piece : pieces) {
    WEIR_TRY(const std::int32_t on, device_for(piece.work));
    if (on != device) {
      return error(errc::unsupported,
                   fmt::format("graph not made: expected work of cuda:{}, found work of "
                               "{}",
                               device, on < 0 ? "none" : fmt::format("cuda:{}", on)));
    }
  }
  return thread(device).make_graph(pieces);
}

/// Failures of checks are passed to the completion as well.
void cuda_devices::submit(const device_work& work, completion done) {
  auto device = device_for(work);
  if (device && *device >= 0) {
    thread(*device).submit(work, std::move(done));
  } else if (done) {
    done(device ? result<void>() : result<void>(std::move(device.error())));
  }
}

/// The kernel runs until it ends or is asked to stop.
result<std::shared_ptr<persistent_run>> cuda_devices::start_persistent(
    const grid_launch& launch, completion done) {
  WEIR_CHECK(check(launch, true));
  WEIR_TRY(auto state, thread(launch.device).start(launch, std::move(done)));
  return std::make_shared<cuda_persistent_run>(std::move(state));
}

/// All devices load the code that fits them.
result<std::unique_ptr<cuda_module>> cuda_devices::load(const fatbin& module,
                                                        std::string_view name) {
  WEIR_CHECK(usable(0));
  return cuda::load_module_on(state_->family, state_->threads, module, name);
}

/// Finds the devices of the driver.
result<void> find_devices(device_family& family) {
  const cuda::driver_api& api = family.from.api;
  auto s = api.init(0);
  int count = 0;
  if (s == cuda::status::success) {
    s = api.device_count(&count);
  }
  if (s != cuda::status::success) {
    return cuda::failure_of(api, s, "use the CUDA driver");
  }
  for (int i = 0; i < count; ++i) {
    cuda::device_number number = 0;
    s = api.device_get(&number, i);
    if (s != cuda::status::success) {
      return cuda::failure_of(api, s, fmt::format("find GPU {}", i));
    }
    family.numbers.push_back(number);
  }
  // A machine may have the driver and no GPU.
  if (count == 0) {
    return error(
               errc::not_found,
               "cannot use GPUs: expected at least one device of the driver, found none")
        .hint("CUDA_VISIBLE_DEVICES may hide devices");
  }
  family.contexts.resize(family.numbers.size());
  return {};
}

}  // namespace

/// Opens all devices of the driver, each on its own thread.
result<std::unique_ptr<cuda_backend>> make_cuda_backend(const cuda_options& options) {
  watch_forks();
  // The limits keep the memory of the staging buffers small.
  if (options.staging_bytes < 64 || options.staging_buffers == 0 ||
      options.max_launches == 0 || options.staging_bytes > (std::size_t{1} << 30) ||
      options.staging_buffers > 1024) {
    return error(
        errc::invalid_argument,
        fmt::format("make devices of GPUs: expected 1 to 1024 buffers of 64 B to "
                    "1 GiB and at least one launch, found {} of {} and {}",
                    options.staging_buffers, options.staging_bytes,
                    options.max_launches));
  }
  auto state = std::make_unique<cuda_state>();
  device_family& family = state->family;
  // A driver that is given replaces the one of the system; tests use that.
  if (options.driver != nullptr) {
    family.from = *options.driver;
  } else {
    WEIR_TRY(family.from, cuda::load_driver(options.library));
  }
  // Buffers begin at multiples of 64 bytes.
  family.staging_bytes = options.staging_bytes / 64 * 64;
  family.staging_buffers = options.staging_buffers;
  family.max_launches = options.max_launches;
  family.stop_limit_ns = options.stop_limit_ns;
  WEIR_CHECK(find_devices(family));
  for (std::size_t i = 0; i < family.numbers.size(); ++i) {
    WEIR_TRY(auto opened, device_thread::open(family, static_cast<std::int32_t>(i)));
    const device_properties& p = opened->properties();
    // The smaller one of what the GPU has and what the options allow.
    const std::size_t capacity =
        options.memory == 0 ? p.memory : std::min(p.memory, options.memory);
    state->ledgers.push_back(std::make_unique<memory_ledger>(capacity, p.alignment));
    state->threads.push_back(std::move(opened));
  }
  return std::unique_ptr<cuda_backend>(new cuda_devices(std::move(state)));
}

}  // namespace weir::tessera
