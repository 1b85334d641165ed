// SPDX-License-Identifier: Apache-2.0
/// @file
/// A backend over the stand-in driver, with a module of kernels.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "device/cuda.hpp"
#include "tessera/cuda/listed_kernels.hpp"
#include "tessera/cuda/stand_in/stand_in.hpp"

namespace weir::tessera::stand_in {

/// Returns options for the stand-in: its library, and small buffers.
inline cuda_options stand_in_options() {
  cuda_options options;
  options.library = WEIR_STAND_IN_DRIVER;
  options.staging_bytes = 4096;
  options.staging_buffers = 4;
  options.stop_limit_ns = 200'000'000;
  return options;
}

/// A backend over the stand-in with one module. The destructor ends it and expects that
/// no rule was broken and that no object is left.
class rig {
 public:
  /// Loads the listed kernels of the conformance suite.
  explicit rig(const machine& shown, const cuda_options& options = stand_in_options())
      : listed_(std::make_shared<listed_executor>(conformance_list())) {
    open(shown, options, listed_, listed_->container("8.0"));
  }
  /// Loads a container whose kernels the executor runs.
  rig(const machine& shown, const cuda_options& options,
      std::shared_ptr<kernel_executor> executor, const byte_vector& image) {
    open(shown, options, std::move(executor), image);
  }
  ~rig() { close(); }
  rig(const rig&) = delete;
  rig& operator=(const rig&) = delete;

  [[nodiscard]] cuda_backend& backend() const { return *backend_; }
  [[nodiscard]] kernel_code kernel(std::string_view name) const {
    return or_throw(module_->kernel(name));
  }
  /// Ends the backend. Objects of broken devices may be left.
  void close(bool broken = false) {
    if (backend_ == nullptr) {
      return;
    }
    module_.reset();
    backend_.reset();
    for (const breach& b : take_breaches()) {
      ADD_FAILURE() << b.rule << ": " << b.text;
    }
    if (!broken) {
      EXPECT_TRUE(objects() == object_counts{}) << "objects of the driver are left";
      EXPECT_EQ(listed_ ? listed_->loaded() : 0, 0);
    }
  }

 private:
  void open(const machine& shown, const cuda_options& options,
            std::shared_ptr<kernel_executor> executor, const byte_vector& image) {
    set_up(shown, std::move(executor));
    backend_ = or_throw(make_cuda_backend(options));
    module_ = or_throw(backend_->load(or_throw(parse_fatbin(image)), "kernels.fatbin"));
  }

  std::shared_ptr<listed_executor> listed_;  ///< null if another executor is used
  std::unique_ptr<cuda_backend> backend_;
  std::unique_ptr<cuda_module> module_;
};

}  // namespace weir::tessera::stand_in
