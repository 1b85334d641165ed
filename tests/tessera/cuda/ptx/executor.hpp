// SPDX-License-Identifier: Apache-2.0
/// @file
/// An executor of the stand-in driver that interprets PTX.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "ptx/interpreter.hpp"
#include "stand_in/executor.hpp"

namespace weir::tessera::ptx {

/// Interprets the kernels of PTX texts. Threads run in a random order, and reports name
/// the bytes that were touched, in steps of 16.
class ptx_executor final : public stand_in::kernel_executor {
 public:
  /// @param seed  of the order of threads
  explicit ptx_executor(std::uint64_t seed = 1) : seed_(seed) {}

  [[nodiscard]] result<stand_in::module_id> load(
      std::span<const std::byte> image) override;
  void unload(stand_in::module_id module) noexcept override;
  [[nodiscard]] result<stand_in::function_facts> find(stand_in::module_id module,
                                                      std::string_view name) override;
  [[nodiscard]] result<stand_in::launch_report> launch(
      const stand_in::launch_request& request) override;

 private:
  using kernels = std::vector<kernel>;
  /// Returns a module, or null. It lives on if it is unloaded while a launch runs.
  [[nodiscard]] std::shared_ptr<const kernels> module_of(stand_in::module_id module);

  std::mutex lock_;
  std::map<stand_in::module_id, std::shared_ptr<const kernels>> modules_;
  stand_in::module_id next_ = 1;
  std::uint64_t seed_;
};

}  // namespace weir::tessera::ptx
