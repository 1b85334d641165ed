// SPDX-License-Identifier: Apache-2.0
/// @file
/// Starts persistent kernels.
///
/// A persistent kernel has a stream of its own, because everything behind it would wait
/// for its end. The stream goes with the kernel.
#include <utility>

#include <fmt/core.h>

#include "device/cuda/device_thread.hpp"
#include "device/cuda/slab.hpp"
#include "device/cuda/status_table.hpp"

namespace weir::tessera::cuda {

/// Returns when the kernel has been given to the driver. `done` is called at its end.
result<std::shared_ptr<persistent_state>> device_thread::start(const grid_launch& launch,
                                                               completion done) {
  auto state = std::make_shared<persistent_state>();
  WEIR_CHECK(ask([&](const reply& answer) {
    answer(is_lost_ ? result<void>(*lost())
                    : issue_persistent(launch, state, std::move(done)));
  }));
  return state;
}

// All blocks have to run at the same time, or those that run would wait for the others.
result<void> device_thread::check_persistent(const grid_launch& launch,
                                             const std::string& label) {
  const auto& kernel = *reinterpret_cast<const device_kernel*>(launch.code.entry);
  int per_multiprocessor = 0;
  status s = allow_shared(launch);  // which the driver counts by
  if (s == status::success) {
    // The driver computes how many blocks fit at the same time.
    s = api_.resident_blocks(&per_multiprocessor,
                             kernel.functions[static_cast<std::size_t>(ordinal_)],
                             static_cast<int>(launch.threads()), launch.shared_bytes);
  }
  if (s != status::success) {
    return returned_or_lost(s, label);
  }
  // All multiprocessors together.
  const std::int64_t fitting = std::int64_t{per_multiprocessor} * multiprocessors_;
  if (launch.blocks() > fitting) {
    return error(errc::invalid_argument,
                 fmt::format("cannot {}: expected at most {} blocks of {} threads, found "
                             "{}",
                             label, fitting, launch.threads(), launch.blocks()));
  }
  // Each persistent kernel needs a word and a report of its own.
  if (free_stop_words_.empty() || free_reports_.empty()) {
    return error(errc::out_of_memory,
                 fmt::format("cannot {}: expected at most {} persistent kernels, found "
                             "more",
                             label, slab::stop_words));
  }
  return {};
}

/// A sticky error ends the device.
error device_thread::returned_or_lost(status s, const std::string& label) {
  if (kind_of(s) != status_kind::sticky) {
    return failure_of(api_, s, label);
  }
  lose(s, label);
  return *lost();
}

// The memory for the barrier is freed in the order of the stream, behind the kernel.
status device_thread::launch_persistent(stream_handle stream, const grid_launch& launch,
                                        launch_facts& facts) {
  device_address barrier = 0;
  status s = api_.allocate(&barrier, slab::barrier_bytes, pool_, stream);
  if (s != status::success) {
    return s;
  }
  facts.barrier = reinterpret_cast<std::uint32_t*>(barrier);
  s = api_.fill32(barrier, 0, slab::barrier_bytes / 4, stream);
  if (s == status::success) {
    s = launch_on(stream, launch, facts, true);
  }
  if (api_.free(barrier, stream) != status::success) {
    // The memory stays until the device is closed.
    allocations_.insert(reinterpret_cast<std::byte*>(barrier));  // freed at the end
  }
  return s;
}

/// Nothing is taken before the last check; from there on each failure gives everything
/// back.
result<void> device_thread::issue_persistent(
    const grid_launch& launch, const std::shared_ptr<persistent_state>& state,
    completion done) {
  const std::string label =
      fmt::format("run persistent kernel {} on {}", launch.code.name, facts_.name);
  WEIR_CHECK(check_persistent(launch, label));
  driver_stream own;
  own.once = true;
  status s = api_.stream_create(&own.stream, stream_non_blocking, 0);
  if (s != status::success) {
    return returned_or_lost(s, label);
  }
  // Numbers of free places in the slab.
  const std::uint32_t word = free_stop_words_.back();
  const std::uint32_t report = free_reports_.back();
  const std::size_t word_offset = slab::stop_offset + word * slab::stop_stride;
  // From here on a request to stop reaches the kernel.
  state->attach(reinterpret_cast<std::uint32_t*>(slab_.data() + word_offset));
  operation made;
  made.label = label;
  made.grid = launch.grid;
  made.report = reinterpret_cast<kernel_report*>(slab_.data()) + report;
  // The report of an earlier kernel is erased.
  *made.report = {};
  launch_facts facts = facts_of(launch);
  facts.report = reinterpret_cast<kernel_report*>(slab_address_) + report;
  facts.stop = reinterpret_cast<const std::uint32_t*>(slab_address_ + word_offset);
  s = launch_persistent(own.stream, launch, facts);
  if (s != status::success) {
    // The kernel has not begun.
    (void)api_.stream_destroy(own.stream);
    state->finish({});
    return returned_or_lost(s, label);
  }
  free_stop_words_.pop_back();
  free_reports_.pop_back();
  streams_.push_back(std::move(own));
  persistent_.push_back(state);
  // Called on this thread when the kernel has ended.
  made.at_end = [this, word, state](bool) {
    free_stop_words_.push_back(word);
    std::erase(persistent_, state);
  };
  // The completion of the program comes before the end is announced.
  made.done = [state, done = std::move(done)](result<void> outcome) {
    if (done) {
      done(outcome);
    }
    state->finish(std::move(outcome));
  };
  give(streams_.back(), std::move(made), s, false);
  return {};
}

}  // namespace weir::tessera::cuda
