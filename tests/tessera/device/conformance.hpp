// SPDX-License-Identifier: Apache-2.0
// On what every backend is tried (by conformance_*_test.cpp): its own tests instantiate
// `Backend` with a factory that makes it and hands out its versions of the kernels below.
#pragma once

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

// Arguments of the kernels, as they are packed.

/// Per thread: out[number of the thread in the grid, x fastest] += 1 + that number.
struct write_indices_args {
  std::int32_t* out;
};
/// One block: the first 17 of grid, block, rank, ranks, device, axis sizes and indices,
/// and then bytes of constants.
struct write_facts_args {
  std::int32_t* out;
};
/// Per thread, with barriers and shared memory: each block reverses its part of `in`.
struct reverse_args {
  const std::int32_t* in;
  std::int32_t* out;
};
/// The block with this linear index returns `status`; all others add 1 to their place.
struct fail_block_args {
  std::int32_t* out;
  std::int32_t block;
  std::int32_t status;
};
/// Persistent: `rounds` times, each block adds 1 to its slot, waits for the grid, and
/// adds up all slots into its sum, waits again.
struct grid_sum_args {
  std::int32_t* slots;
  std::int64_t* sums;
  std::int32_t rounds;
  std::int32_t reserved;
};
/// Persistent only: waits until it is asked to stop, then out[block] = 7.
struct until_stop_args {
  std::int32_t* out;
};

/// A backend under test.
class subject {
 public:
  virtual ~subject() = default;
  /// Makes it with so many devices of so many bytes each, or skips the test.
  virtual std::shared_ptr<device_backend> make(std::int32_t devices,
                                               std::size_t memory) = 0;
  /// Code of one of the kernels above, named as their arguments are.
  virtual kernel_code kernel(std::string_view name) = 0;
};
using make_subject = std::shared_ptr<subject> (*)();

class Backend : public testing::TestWithParam<make_subject> {
 protected:
  static constexpr std::size_t memory_bytes = std::size_t{4} << 20;

  void SetUp() override {
    subject_ = GetParam()();
    backend_ = subject_->make(3, memory_bytes);
    ASSERT_NE(backend_, nullptr);
  }

  device_backend& backend() { return *backend_; }
  subject& of() { return *subject_; }

  std::byte* allocate(std::int32_t device, std::size_t bytes) {
    auto at = backend_->allocate(device, bytes);
    EXPECT_TRUE(at.has_value()) << at.error().message();
    return at ? *at : nullptr;
  }
  void free(std::int32_t device, std::byte* at) {
    auto freed = backend_->free(device, at);
    EXPECT_TRUE(freed.has_value()) << freed.error().message();
  }
  /// Submits work and waits for its completion.
  result<void> perform(const device_work& work) {
    std::promise<result<void>> outcome;
    backend_->submit(work, [&](result<void> r) { outcome.set_value(std::move(r)); });
    return outcome.get_future().get();
  }
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
  /// `count` values of the device, all zero.
  template <class T>
  T* zeros(std::int32_t device, std::size_t count) {
    std::byte* at = allocate(device, count * sizeof(T));
    fill_work w;
    w.to = at;
    w.bytes = count * sizeof(T);
    w.device = device;
    EXPECT_TRUE(perform(w).has_value());
    return reinterpret_cast<T*>(at);
  }
  template <class Args>
  grid_launch launch_of(std::string_view kernel, const Args& args) {
    static_assert(sizeof(Args) % 8 == 0);
    grid_launch l;
    l.code = subject_->kernel(kernel);
    l.args = std::as_bytes(std::span(&args, 1));
    return l;
  }
  /// Checks and runs a launch in slices for so many workers; the first failure.
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

/// Code of a failure, or 0 for success.
template <class T>
int code_of(const result<T>& r) {
  return r ? 0 : static_cast<int>(r.error().code());
}
constexpr int code_of(errc code) {
  return static_cast<int>(code);
}

}  // namespace weir::tessera::conformance
