// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests that every backend must pass (conformance_*_test.cpp). A backend's own test
/// instantiates the suite `Backend` with a factory of `subject`, which creates the
/// backend and supplies its versions of the kernels below.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "weir/tessera/device/backend.hpp"

namespace weir::tessera::conformance {

// Arguments of the kernels, with the layout in which they are passed to the backend.

/// Each thread adds 1 + its number in the grid (x fastest) to `out` at that number.
struct write_indices_args {
  std::int32_t* out;
};
/// A single block writes 17 values (grid, block, rank, ranks, device, axis sizes and axis
/// indices), followed by the sum of the bytes of the launch's constants.
struct write_facts_args {
  std::int32_t* out;
};
/// Each block reverses its part of `in` through shared memory; its threads meet at a
/// barrier between writing and reading.
struct reverse_args {
  const std::int32_t* in;
  std::int32_t* out;
};
/// The block with the linear index `block` returns `status`; every other block adds 1 to
/// its own element of `out`.
struct fail_block_args {
  std::int32_t* out;
  std::int32_t block;
  std::int32_t status;
};
/// Persistent kernel. In each of `rounds` rounds, a block adds 1 to its slot, waits at
/// the grid barrier, adds all slots to its sum, and waits at the grid barrier again.
struct grid_sum_args {
  std::int32_t* slots;
  std::int64_t* sums;
  std::int32_t rounds;
  std::int32_t reserved;
};
/// Persistent kernel that runs until it is asked to stop and then sets out[block] to 7.
struct until_stop_args {
  std::int32_t* out;
};

/// A backend under test and its versions of the kernels.
class subject {
 public:
  virtual ~subject() = default;
  /// Returns the number of devices that the tests use: three, unless a machine has fewer.
  [[nodiscard]] virtual std::int32_t devices() const { return 3; }
  /// Creates the backend with `devices` devices of `memory` bytes each, or skips the
  /// test.
  virtual std::shared_ptr<device_backend> make(std::int32_t devices,
                                               std::size_t memory) = 0;
  /// Returns the code of a kernel; its name is that of the argument structure without
  /// `_args`.
  virtual kernel_code kernel(std::string_view name) = 0;
};
using make_subject = std::shared_ptr<subject> (*)();

/// The test suite: a fresh backend for each test, and helpers that copy, fill and run and
/// wait for the result.
class Backend : public testing::TestWithParam<make_subject> {
 protected:
  static constexpr std::size_t memory_bytes = std::size_t{4} << 20;

  void SetUp() override {
    subject_ = GetParam()();
    backend_ = subject_->make(subject_->devices(), memory_bytes);
    ASSERT_NE(backend_, nullptr);
  }

  device_backend& backend() { return *backend_; }
  /// Returns the second device, or the only one.
  std::int32_t second() { return std::min(1, subject_->devices() - 1); }
  /// Returns the third device, or the last one.
  std::int32_t third() { return std::min(2, subject_->devices() - 1); }
  /// Returns the subject that made the backend.
  subject& tested() { return *subject_; }

  /// Allocates device memory; a failure fails the test and returns a null pointer.
  std::byte* allocate(std::int32_t device, std::size_t bytes) {
    auto made = backend_->allocate(device, bytes);
    EXPECT_TRUE(made.has_value()) << made.error().message();
    return made ? *made : nullptr;
  }
  /// Frees device memory; a failure fails the test.
  void free(std::int32_t device, std::byte* address) {
    auto freed = backend_->free(device, address);
    EXPECT_TRUE(freed.has_value()) << freed.error().message();
  }
  /// Submits work, waits for its completion, and returns its result.
  result<void> perform(const device_work& work) {
    std::promise<result<void>> outcome;
    backend_->submit(work, [&](result<void> r) { outcome.set_value(std::move(r)); });
    return outcome.get_future().get();
  }
  /// Copies values from the host to a device.
  template <class T>
  void put(std::int32_t device, T* to, const std::vector<T>& values) {
    copy_work w{copy_kind::host_to_device,
                reinterpret_cast<std::byte*>(to),
                reinterpret_cast<const std::byte*>(values.data()),
                values.size() * sizeof(T),
                device,
                device};
    EXPECT_TRUE(perform(w).has_value());
  }
  /// Copies `count` values from a device to the host.
  template <class T>
  std::vector<T> get(std::int32_t device, const T* from, std::size_t count) {
    std::vector<T> values(count);
    copy_work w{copy_kind::device_to_host,
                reinterpret_cast<std::byte*>(values.data()),
                reinterpret_cast<const std::byte*>(from),
                count * sizeof(T),
                device,
                device};
    EXPECT_TRUE(perform(w).has_value());
    return values;
  }
  /// Allocates `count` values on the device and fills them with zeros.
  template <class T>
  T* zeros(std::int32_t device, std::size_t count) {
    std::byte* address = allocate(device, count * sizeof(T));
    fill_work w;
    w.to = address;
    w.bytes = count * sizeof(T);
    w.device = device;
    EXPECT_TRUE(perform(w).has_value());
    return reinterpret_cast<T*>(address);
  }
  /// Returns a launch of `kernel`. It refers to `args`, which must outlive it.
  template <class Args>
  grid_launch launch_of(std::string_view kernel, const Args& args) {
    static_assert(sizeof(Args) % 8 == 0);
    grid_launch l;
    l.code = subject_->kernel(kernel);
    l.args = std::as_bytes(std::span(&args, 1));
    return l;
  }
  /// Checks a launch and runs its slices one after another, cut for `workers` workers.
  /// Returns the first failure; later slices run all the same.
  result<void> run(const grid_launch& launch, unsigned workers = 1) {
    WEIR_CHECK(backend_->check(launch, false));
    const slice_plan plan = backend_->plan(launch, workers);
    result<void> outcome;
    for (std::int64_t s = 0; s < plan.slices; ++s) {
      auto done = perform(grid_work{launch, plan.begin(s), plan.end(s)});
      if (outcome && !done) {
        outcome = std::move(done);
      }
    }
    return outcome;
  }

 private:
  std::shared_ptr<subject> subject_;
  std::shared_ptr<device_backend> backend_;
};

/// Returns the code of a failure as a number, or 0 for success.
template <class T>
int code_of(const result<T>& r) {
  return r ? 0 : static_cast<int>(r.error().code());
}
constexpr int code_of(errc code) {
  return static_cast<int>(code);
}

}  // namespace weir::tessera::conformance
