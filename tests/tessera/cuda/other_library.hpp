// SPDX-License-Identifier: Apache-2.0
/// @file
/// Another library that uses a GPU beside the runtime: a stream of its own in the primary
/// context of the device, by calls of the driver of the stand-in.
#pragma once

#include <cstddef>
#include <functional>

#include <gtest/gtest.h>

#include "device/cuda/driver_api.hpp"
#include "tessera/cuda/stand_in/stand_in.hpp"

namespace weir::tessera::stand_in {

/// A stream of another library on one device. Its context is current during calls alone.
class other_library {
 public:
  /// Makes a stream on a device, or uses the default stream of the device.
  explicit other_library(int device, bool default_stream = false) {
    auto loaded = cuda::load_driver(WEIR_STAND_IN_DRIVER);
    if (!loaded) {
      ADD_FAILURE() << loaded.error().message();
      return;
    }
    api_ = loaded->api;
    expect(api_.init(0));
    expect(api_.device_get(&device_, device));
    expect(api_.primary_retain(&context_, device_));
    if (default_stream) {
      stream_ = reinterpret_cast<cuda::stream_handle>(std::uintptr_t{1});
      return;
    }
    owns_ = true;
    in_context(
        [&] { return api_.stream_create(&stream_, cuda::stream_non_blocking, 0); });
  }
  ~other_library() {
    destroy_stream();
    if (context_ != nullptr) {
      expect(api_.primary_release(device_));
    }
  }
  other_library(const other_library&) = delete;
  other_library& operator=(const other_library&) = delete;

  /// Returns the stream as the C interface takes it; null once it is destroyed.
  [[nodiscard]] void* stream() const noexcept { return stream_; }
  /// Fills memory of the device.
  void fill(void* to, unsigned char value, std::size_t bytes) {
    in_context([&] { return api_.fill8(address(to), value, bytes, stream_); });
  }
  /// Copies memory of the device.
  void copy(void* to, const void* from, std::size_t bytes) {
    in_context(
        [&] { return api_.copy_on_device(address(to), address(from), bytes, stream_); });
  }
  /// Calls a function of the host in the order of the stream.
  void call(cuda::host_function function, void* user) {
    in_context([&] { return api_.launch_host(stream_, function, user); });
  }
  /// Destroys the stream. Its work goes on.
  void destroy_stream() {
    if (owns_) {
      owns_ = false;
      in_context([&] { return api_.stream_destroy(stream_); });
      stream_ = nullptr;
    }
  }
  /// Gives nothing back at the end, because the device is broken.
  void abandon() noexcept {
    owns_ = false;
    context_ = nullptr;
  }

 private:
  static cuda::device_address address(const void* p) {
    return reinterpret_cast<cuda::device_address>(p);
  }
  static void expect(cuda::status s) { EXPECT_EQ(s, cuda::status::success); }
  void in_context(const std::function<cuda::status()>& call) {
    cuda::context_handle popped = nullptr;
    expect(api_.context_push(context_));
    expect(call());
    expect(api_.context_pop(&popped));
  }

  cuda::driver_api api_;
  cuda::device_number device_ = 0;
  cuda::context_handle context_ = nullptr;
  cuda::stream_handle stream_ = nullptr;
  bool owns_ = false;
};

}  // namespace weir::tessera::stand_in
