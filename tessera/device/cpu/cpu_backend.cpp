// SPDX-License-Identifier: Apache-2.0
/// @file
/// The processor as a backend: devices, copies and launches. Everything runs on the
/// calling thread, which is a worker of the engine; only persistent kernels have threads
/// of their own.
///
/// The devices differ only in their arenas, which count memory separately. A copy between
/// devices is a copy of memory, and a kernel may be run for any device on any thread.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "device/cpu.hpp"
#include "device/cpu/arena.hpp"
#include "device/cpu/block_runner.hpp"
#include "device/cpu/persistent.hpp"
#include "device/launch_check.hpp"
#include "module/cpu_level.hpp"

namespace weir::tessera {
namespace {

/// In bytes.
constexpr std::size_t least_stack = std::size_t{16} << 10;
/// A launch has more slices than workers, so that a late worker gets less to do.
///
/// Each worker takes the next slice when it has ended one.
constexpr std::int64_t slices_per_worker = 4;
/// Copies are divided at multiples of this, so that no two workers write one cache line.
constexpr std::int64_t cache_line = 64;
/// Copies of fewer bytes are not divided: a second worker costs more than it saves.
constexpr std::int64_t least_copied_bytes = std::int64_t{256} << 10;

/// Holds scratch during one call.
///
/// It is given back at every end of the call.
class scratch_lease {
 public:
  scratch_lease(scratch_pool& pool, std::unique_ptr<block_scratch> taken) noexcept
      : pool_(pool), taken_(std::move(taken)) {}
  ~scratch_lease() { pool_.give_back(std::move(taken_)); }
  scratch_lease(const scratch_lease&) = delete;
  scratch_lease& operator=(const scratch_lease&) = delete;

  [[nodiscard]] block_scratch& operator*() const noexcept { return *taken_; }

 private:
  scratch_pool& pool_;
  std::unique_ptr<block_scratch> taken_;
};

/// The backend. All members are made by the constructor; arenas, scratch and persistent
/// kernels have locks of their own.
///
/// Any thread may call it.
class cpu_backend final : public device_backend {
 public:
  // The memory of the host is an arena without a limit.
  explicit cpu_backend(cpu_options options)
      : options_(std::move(options)),
        log_(options_.log),
        host_({"host", std::numeric_limits<std::size_t>::max() / 2, true, 0,
               options_.allocator}),
        scratch_(options_.stack_bytes),
        persistent_(options_.stack_bytes, options_.stop_limit_ns, options_.log) {
    // One arena per device.
    for (std::int32_t d = 0; d < options_.devices; ++d) {
      // Large allocations of 8 neighbouring devices begin at different offsets.
      const auto shift = static_cast<std::size_t>(d % 8) * 512;
      arenas_.push_back(std::make_unique<cpu_arena>(
          cpu_arena::options{fmt::format("device {}", d), options_.memory, false, shift,
                             options_.allocator}));
    }
  }

  [[nodiscard]] std::string_view name() const noexcept override { return "cpu"; }
  [[nodiscard]] std::int32_t device_count() const noexcept override {
    return options_.devices;
  }
  [[nodiscard]] result<device_properties> properties(std::int32_t device) const override;

  // The ordinal is checked, as callers pass on what programs give.
  [[nodiscard]] result<std::byte*> allocate(std::int32_t device,
                                            std::size_t bytes) override {
    WEIR_CHECK(check_device(device, options_.devices));
    return arena(device).allocate(bytes);
  }
  [[nodiscard]] result<void> free(std::int32_t device, std::byte* address) override {
    WEIR_CHECK(check_device(device, options_.devices));
    return arena(device).free(address);
  }
  // A device that does not exist has no memory.
  [[nodiscard]] memory_use memory(std::int32_t device) const override {
    return check_device(device, options_.devices) ? arena(device).use() : memory_use{};
  }
  [[nodiscard]] result<std::byte*> allocate_host(std::size_t bytes) override {
    return host_.allocate(bytes);
  }
  [[nodiscard]] result<void> free_host(std::byte* address) override {
    return host_.free(address);
  }
  [[nodiscard]] result<void> pin_host(std::byte* address, std::size_t bytes) override {
    // pages stay unlocked if the limit for locked memory is small
    (void)::mlock(address, bytes);
    return {};
  }
  void unpin_host(std::byte* address, std::size_t bytes) noexcept override {
    (void)::munlock(address, bytes);
  }

  // What is refused here need not be checked by each worker.
  [[nodiscard]] result<void> check(const grid_launch& launch,
                                   bool persistent) const override {
    WEIR_CHECK(check_device(launch.device, options_.devices));
    return check_launch(launch, limits(), persistent);
  }
  // Few workers mean few slices.
  [[nodiscard]] slice_plan plan(const grid_launch& launch,
                                unsigned workers) const noexcept override {
    return cut_evenly(launch.blocks(), 1, 1,
                      workers <= 1 ? 1 : workers * slices_per_worker);
  }
  // Cuts copies and fills.
  [[nodiscard]] slice_plan plan(std::size_t bytes,
                                unsigned workers) const noexcept override {
    return cut_evenly(static_cast<std::int64_t>(bytes), cache_line, least_copied_bytes,
                      workers);
  }

  // The work has ended when `submit` returns.
  [[nodiscard]] bool inline_work() const noexcept override { return true; }
  // Declared here, and defined below with their comments.
  [[nodiscard]] result<void> copy(const copy_work& work) override;
  [[nodiscard]] result<void> fill(const fill_work& work) override;
  [[nodiscard]] result<void> run_blocks(const grid_launch& launch, std::int64_t first,
                                        std::int64_t last) override;
  // Persistent kernels run on threads of their own until they end.
  [[nodiscard]] result<std::shared_ptr<persistent_run>> start_persistent(
      const grid_launch& launch, completion done) override {
    WEIR_CHECK(check(launch, true));
    return persistent_.start(launch, std::move(done));
  }

 private:
  // The caller has checked the ordinal.
  [[nodiscard]] cpu_arena& arena(std::int32_t device) const noexcept {
    return *arenas_[static_cast<std::size_t>(device)];
  }
  [[nodiscard]] launch_limits limits() const noexcept {
    launch_limits l;
    l.shared_bytes = options_.shared_bytes;
    l.persistent_blocks = options_.persistent_blocks;
    return l;
  }

  // Before the members that are made from it.
  cpu_options options_;
  kernel_log log_;
  std::vector<std::unique_ptr<cpu_arena>> arenas_;
  cpu_arena host_;
  scratch_pool scratch_;
  // Ends first: its threads use the other members.
  persistent_kernels persistent_;
};

/// All devices of the processor are alike.
///
/// The architecture is that of the instructions, not of the product.
result<device_properties> cpu_backend::properties(std::int32_t device) const {
  WEIR_CHECK(check_device(device, options_.devices));
  device_properties p;
  p.name = fmt::format("cpu:{}", device);
  p.backend = "cpu";
  p.arch = options_.arch;
  p.ordinal = device;
  p.memory = options_.memory;
  p.alignment = cpu_arena::alignment;
  p.host_readable = true;
  p.limits = limits();
  return p;
}

/// Equal addresses are allowed, and `memcpy` must not see them.
result<void> cpu_backend::copy(const copy_work& work) {
  WEIR_CHECK(check_copy(work));
  if (work.to != work.from && work.bytes > 0) {
    std::memcpy(work.to, work.from, work.bytes);
  }
  return {};
}

/// The pattern is repeated; the number of bytes is a multiple of it.
///
/// Any thread may carry out a part of it.
result<void> cpu_backend::fill(const fill_work& work) {
  WEIR_CHECK(check_fill(work));
  if (work.bytes == 0) {
    return {};
  }
  if (work.pattern_bytes == 1) {
    std::memset(work.to, static_cast<int>(work.pattern[0]), work.bytes);
    return {};
  }
  // Copies the filled part behind itself again and again, in pieces that fit the cache.
  constexpr std::size_t max_piece = std::size_t{16} << 10;
  std::size_t filled = work.pattern_bytes;
  std::memcpy(work.to, work.pattern.data(), filled);
  // The filled part doubles until it has the size of a piece.
  while (filled < work.bytes) {
    const std::size_t piece = std::min({filled, max_piece, work.bytes - filled});
    std::memcpy(work.to + filled, work.to, piece);
    filled += piece;
  }
  return {};
}

/// Runs the blocks on the calling thread.
///
/// A kernel that throws ends with an error.
result<void> cpu_backend::run_blocks(const grid_launch& launch, std::int64_t first,
                                     std::int64_t last) {
  // Launches without shared memory and barriers, the common case, need no scratch.
  block_host host{&launch, nullptr, &log_, nullptr, launch.stop};
  const bool fibers = needs_fibers(launch, false);
  try {
    // No stacks and no shared memory.
    if (!fibers && launch.shared_bytes == 0) {
      return run_block_range(host, first, last);
    }
    // Taken from the pool, so launches seldom allocate.
    WEIR_TRY(auto taken, scratch_.take());
    const scratch_lease scratch(scratch_, std::move(taken));
    WEIR_CHECK((*scratch).reserve(launch.shared_bytes, fibers ? launch.threads() : 0));
    host.scratch = &*scratch;
    return run_block_range(host, first, last);
  } catch (const std::bad_alloc&) {
    // The error itself may need memory.
    return error(errc::out_of_memory, "run blocks of a kernel: no memory for its error");
  }
}

}  // namespace

/// The highest level of instructions that this processor has.
std::string_view cpu_arch() noexcept {
  const auto& levels = host_levels();
  return levels.empty() ? "generic" : std::string_view(levels.front());
}

// Stacks below 16 KiB are refused, because a kernel would soon overflow them.
//
// The limits of a launch are those of the options.
result<std::unique_ptr<device_backend>> make_cpu_backend(cpu_options options) {
  if (options.devices < 1 || options.memory == 0 || options.stack_bytes < least_stack ||
      options.persistent_blocks < 0) {
    return error(
        errc::invalid_argument,
        fmt::format("make devices of the processor: expected at least one, with "
                    "memory and stacks of {} bytes, found {} with {} and {}",
                    least_stack, options.devices, options.memory, options.stack_bytes));
  }
  // The program may ask for a lower level.
  if (options.arch.empty()) {
    options.arch = cpu_arch();
  }
  if (sanitized) {
    options.stack_bytes *= 4;  // instrumented frames are larger
  }
  try {
    return std::unique_ptr<device_backend>(new cpu_backend(std::move(options)));
  } catch (const std::bad_alloc&) {
    return error(errc::out_of_memory,
                 "make devices of the processor: expected memory, found none");
  }
}

}  // namespace weir::tessera
