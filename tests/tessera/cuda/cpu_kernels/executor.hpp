// SPDX-License-Identifier: Apache-2.0
/// @file
/// An executor of the stand-in driver that runs the kernels' sources, compiled for the
/// processor.
#pragma once

#include <map>
#include <mutex>

#include "cpu_kernels/machine.hpp"
#include "stand_in/executor.hpp"

namespace weir::tessera::kernel_machine {

/// Loads PTX or machine code for the names of its kernels alone, and runs the sources of
/// those names.
/// Threads run in a random order. Reports tell the bytes that were touched of reductions
/// alone; for other kernels the types of the parameters say which pointers they write
/// through.
class source_executor final : public stand_in::kernel_executor {
 public:
  /// @param seed     of the order of threads
  /// @param kernels  that are compiled for the host; they must outlive the executor
  explicit source_executor(std::uint64_t seed = 1,
                           std::span<const kernel_entry> kernels = all_kernels())
      : seed_(seed), kernels_(kernels) {}

  [[nodiscard]] result<stand_in::module_id> load(
      std::span<const std::byte> image) override;
  void unload(stand_in::module_id module) noexcept override;
  [[nodiscard]] result<stand_in::function_facts> find(stand_in::module_id module,
                                                      std::string_view name) override;
  [[nodiscard]] result<stand_in::launch_report> launch(
      const stand_in::launch_request& request) override;

 private:
  std::mutex lock_;
  std::map<stand_in::module_id, std::string> modules_;  ///< texts
  stand_in::module_id next_ = 1;
  std::uint64_t seed_;
  std::span<const kernel_entry> kernels_;
};

}  // namespace weir::tessera::kernel_machine
