// SPDX-License-Identifier: Apache-2.0
/// @file
/// Opening and closing of a device by its thread: primary context, streams, pool of
/// memory and the memory of the host that kernels and copies use.
///
/// The primary context is the one that other libraries of the process use too. It is made
/// current for this thread alone.
#include <array>
#include <cstdint>
#include <utility>

#include <fmt/core.h>

#include "device/cuda/device_thread.hpp"
#include "device/cuda/slab.hpp"
#include "device/cuda/status_table.hpp"

namespace weir::tessera::cuda {

/// Fails at the first step that fails; `close_here` then gives back what there is.
result<void> device_thread::open_here() {
  facts_.name = fmt::format("cuda:{}", ordinal_);
  const auto index = static_cast<std::size_t>(ordinal_);
  const device_number number = family_.numbers[index];
  status s = api_.primary_retain(&context_, number);
  // A context that was made by others is the same one.
  if (s == status::success) {
    family_.contexts[index] = context_;
    s = api_.context_push(context_);
    if (s != status::success) {
      (void)api_.primary_release(number);
      context_ = nullptr;
    }
  }
  if (s != status::success) {
    context_ = nullptr;
    return failure_of(api_, s, fmt::format("open the context of {}", facts_.name));
  }
  // Streams need the context, memory needs the streams.
  WEIR_CHECK(read_properties());
  WEIR_CHECK(make_streams());
  WEIR_CHECK(make_pool());
  return make_slab();
}

/// The questions go on only as long as all of them have succeeded.
result<void> device_thread::read_properties() {
  const device_number number = family_.numbers[static_cast<std::size_t>(ordinal_)];
  status s = status::success;
  const auto ask_for = [&](device_attribute what) {
    int value = 0;
    if (s == status::success) {
      s = api_.device_attribute_of(&value, what, number);
    }
    return value;
  };
  // Limits first, as their order does not matter.
  launch_limits& limits = facts_.limits;
  limits.threads = ask_for(device_attribute::max_threads_per_block);
  limits.block = {ask_for(device_attribute::max_block_dim_x),
                  ask_for(device_attribute::max_block_dim_y),
                  ask_for(device_attribute::max_block_dim_z)};
  limits.grid = {ask_for(device_attribute::max_grid_dim_x),
                 ask_for(device_attribute::max_grid_dim_y),
                 ask_for(device_attribute::max_grid_dim_z)};
  limits.shared_bytes = static_cast<std::size_t>(
      ask_for(device_attribute::max_shared_memory_per_block_optin));
  multiprocessors_ = ask_for(device_attribute::multiprocessor_count);
  // Without cooperative launches, blocks cannot wait for each other.
  limits.persistent_blocks =
      ask_for(device_attribute::cooperative_launch) != 0 ? multiprocessors_ : 0;
  // 90 stands for 9.0.
  capability_ = 10 * ask_for(device_attribute::compute_capability_major) +
                ask_for(device_attribute::compute_capability_minor);
  // Everything that this backend relies on.
  const bool usable = ask_for(device_attribute::memory_pools_supported) != 0 &&
                      ask_for(device_attribute::can_map_host_memory) != 0 &&
                      ask_for(device_attribute::unified_addressing) != 0;
  facts_.backend = "cuda";
  facts_.arch = fmt::format("sm_{}", capability_);
  facts_.ordinal = ordinal_;
  if (s == status::success) {
    s = api_.device_total_memory(&facts_.memory, number);
  }
  if (s != status::success) {
    return failure_of(api_, s, fmt::format("read the properties of {}", facts_.name));
  }
  if (!usable) {
    return error(errc::unsupported,
                 fmt::format("cannot use {}: expected memory pools, mapped memory of the "
                             "host and unified addresses, found a device without",
                             facts_.name));
  }
  return {};
}

// The streams do not wait for the default stream, which other libraries may use.
result<void> device_thread::make_streams() {
  // Their use is listed in device_work.cpp.
  constexpr int fixed_streams = 7;
  for (int i = 0; i < fixed_streams; ++i) {
    driver_stream l;
    // Equal priorities; the order is decided by this thread.
    const status s = api_.stream_create(&l.stream, stream_non_blocking, 0);
    if (s != status::success) {
      return failure_of(api_, s, fmt::format("make a stream on {}", facts_.name));
    }
    streams_.push_back(std::move(l));
    fixed_.push_back(&streams_.back());
  }
  return {};
}

// The pool keeps memory that is freed, so that freeing and allocating do not wait.
result<void> device_thread::make_pool() {
  const device_number number = family_.numbers[static_cast<std::size_t>(ordinal_)];
  pool_properties wanted;
  // The place of the memory is this device.
  wanted.location.id = number;
  status s = api_.pool_create(&pool_, &wanted);
  // The pool keeps all of its memory until it is destroyed.
  if (s == status::success) {
    std::uint64_t threshold = UINT64_MAX;
    s = api_.pool_set(pool_, pool_attribute::release_threshold, &threshold);
  }
  // Other GPUs may read and write this memory, where the hardware allows it.
  for (const device_number other : family_.numbers) {
    int able = 0;
    if (s != status::success || other == number ||
        api_.can_access_peer(&able, other, number) != status::success || able == 0) {
      continue;
    }
    access_description access;
    access.location.id = other;
    s = api_.pool_access(pool_, &access, 1);
  }
  if (s != status::success) {
    return failure_of(api_, s, fmt::format("make a pool of memory on {}", facts_.name));
  }
  return {};
}

/// One registered piece of memory holds reports of kernels, words that ask kernels to
/// stop, and staging buffers.
result<void> device_thread::make_slab() {
  const std::size_t bytes =
      slab::staging_offset + family_.staging_buffers * family_.staging_bytes;
  // Pages of their own, so that nothing else is registered.
  WEIR_TRY(slab_, host_pages::map(bytes));
  status s =
      api_.host_register(slab_.data(), slab_.size(), host_portable | host_device_map);
  slab_registered_ = s == status::success;
  if (slab_registered_) {
    s = api_.host_address(&slab_address_, slab_.data(), 0);
  }
  if (s != status::success) {
    return failure_of(
        api_, s,
        fmt::format("register {} bytes of the host for {}", slab_.size(), facts_.name));
  }
  // All of them are free; the lowest number is taken first. From the back, since the
  // last entry is taken first.
  for (std::uint32_t i = 0; i < slab::reports; ++i) {
    free_reports_.push_back(slab::reports - 1 - i);
  }
  for (std::uint32_t i = 0; i < slab::stop_words; ++i) {
    free_stop_words_.push_back(slab::stop_words - 1 - i);
  }
  for (std::size_t i = 0; i < family_.staging_buffers; ++i) {
    free_buffers_.push_back(i);
  }
  return {};
}

// Ends a device whose kernels still run. Completions may submit more, which fails as
// well.
void device_thread::close_busy() {
  {
    const std::lock_guard lock(mutex_);
    lost_ = lost_ ? lost_ : closed_too_early();
  }
  is_lost_ = true;  // calls are answered, and give nothing to the driver
  do {
    fail_everything();  // counts reports from the begin of the slab
    // Until callers give nothing more.
    deliver();
  } while (take_posted());
  // Kernels may still write to the slab, so it stays mapped.
  slab_.abandon();
}

// A device that is lost answers every call with its error, which changes nothing here. If
// kernels still run, what they use stays as it is until the process ends.
void device_thread::close_here() {
  if (context_ == nullptr) {
    return;
  }
  if (busy()) {
    close_busy();
    return;
  }
  // Memory that the program has not freed.
  for (std::byte* const address : allocations_) {
    const auto number = reinterpret_cast<device_address>(address);
    if (api_.free(number, fixed_[0]->stream) != status::success) {
      (void)api_.free(number, fixed_[0]->stream);  // a passing failure
    }
  }
  for (const event_handle e : events_) {
    // Events before their streams.
    (void)api_.event_destroy(e);
  }
  for (const driver_stream& l : streams_) {
    if (!l.native) {
      (void)api_.stream_destroy(l.stream);
    }
  }
  if (pool_ != nullptr) {
    (void)api_.pool_destroy(pool_);
  }
  if (slab_registered_) {
    (void)api_.host_unregister(slab_.data());
  }
  context_handle popped = nullptr;
  (void)api_.context_pop(&popped);
  // The context stays if other libraries use it.
  (void)api_.primary_release(family_.numbers[static_cast<std::size_t>(ordinal_)]);
}

}  // namespace weir::tessera::cuda
