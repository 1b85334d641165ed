// SPDX-License-Identifier: Apache-2.0
/// @file
/// An executor whose kernels are functions of the test program that compute a whole grid.
#pragma once

#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device/cuda/launch_facts.hpp"
#include "tessera/cuda/stand_in/executor.hpp"
#include "weir/tessera/module/fatbin.hpp"

namespace weir::tessera::stand_in {

/// A kernel of the test program.
struct listed_kernel {
  std::string name;
  std::vector<kernel_parameter> parameters;
  std::uint32_t flags = 0;
  bool wants_facts = false;  ///< the facts of the launch are the last parameter
  std::function<result<launch_report>(const launch_request&)> run;
};

/// Returns the record of the kernel in a container.
[[nodiscard]] kernel_record record_of(const listed_kernel& k);
/// Returns the argument of a launch with a number.
template <class T>
[[nodiscard]] T argument(const launch_request& request, std::size_t index) {
  T value{};
  std::memcpy(&value, request.arguments[index], sizeof value);
  return value;
}
/// Returns the facts of a launch, its last argument.
[[nodiscard]] inline cuda::launch_facts facts_of_launch(const launch_request& request) {
  return argument<cuda::launch_facts>(request, request.arguments.size() - 1);
}

/// Runs listed kernels. Its modules are texts that begin like PTX.
class listed_executor final : public kernel_executor {
 public:
  explicit listed_executor(std::vector<listed_kernel> kernels)
      : kernels_(std::move(kernels)) {}
  [[nodiscard]] result<module_id> load(std::span<const std::byte> image) override;
  void unload(module_id /*module*/) noexcept override { --loaded_; }
  [[nodiscard]] result<function_facts> find(module_id module,
                                            std::string_view name) override;
  [[nodiscard]] result<launch_report> launch(const launch_request& request) override;
  /// Returns the number of modules that are loaded.
  [[nodiscard]] int loaded() const noexcept { return loaded_; }
  /// Returns a container with the kernels as PTX of a version such as "8.0".
  [[nodiscard]] byte_vector container(const std::string& ptx_version) const;

 private:
  std::vector<listed_kernel> kernels_;
  std::atomic<module_id> next_{1};
  std::atomic<int> loaded_{0};
};

/// Returns the kernels of the conformance suite and some that break a device.
[[nodiscard]] std::vector<listed_kernel> conformance_list();

}  // namespace weir::tessera::stand_in
