// SPDX-License-Identifier: Apache-2.0
/// @file
/// GPUs of NVIDIA as devices. The driver is found at run time; nothing is linked. The
/// backend has only been run over a stand-in for the driver (docs/cuda.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/tessera/device/backend.hpp"
#include "weir/tessera/module/fatbin.hpp"

namespace weir::tessera {

namespace cuda {
struct driver;
}

/// Options of the backend for GPUs.
struct cuda_options {
  std::string library = "libcuda.so.1";  ///< file or name of the driver
  /// Largest use of each device's memory in bytes; 0: all that it has.
  std::size_t memory = 0;
  /// Size of a buffer through which memory of the host that is not registered is copied.
  std::size_t staging_bytes = std::size_t{1} << 20;
  std::size_t staging_buffers = 8;  ///< number of such buffers for each device
  std::size_t max_launches = 512;   ///< largest number of operations in one stream
  /// Time that the destructor waits for kernels to end. @units{nanoseconds}
  std::int64_t stop_limit_ns = 1'000'000'000;
  /// Functions of the driver to use instead of loading `library`, for tests; may be null.
  const cuda::driver* driver = nullptr;
};

/// The code of a module on all devices of a backend. Destroy it when nothing runs in its
/// kernels, and before the backend. @threads{immutable}
class cuda_module {
 public:
  virtual ~cuda_module() = default;
  /// Returns the code of a kernel, which lives as long as the module, as does its name.
  /// @error{not_found; the module has no such kernel}
  [[nodiscard]] virtual result<kernel_code> kernel(std::string_view name) const = 0;
  /// Returns the numbers of the sections in `fatbin::code` that the devices use, one for
  /// each device.
  [[nodiscard]] virtual const std::vector<std::size_t>& sections() const noexcept = 0;
};

/// A backend for GPUs. All calls of the driver are made by one thread for each device, so
/// a context of the caller is never changed. Completions are called by these threads and
/// must not call functions that wait for a device: `allocate`, `allocate_host`,
/// `pin_host`, `start_persistent`, `load`. After a failure that breaks the context, all
/// work of the device ends as `device_lost` until the process ends. In a child of `fork`
/// calls end as `unsupported`. @source{docs/cuda.md}
class cuda_backend : public device_backend {
 public:
  /// Loads the code of a module on every device: for each device the section that
  /// `choose_cuda_section` returns. `name` names the module in errors.
  /// @error{arch_mismatch; a device without code} @error{corrupt; code that the driver
  /// cannot translate, with its text} @error{unsupported_version; PTX that is newer than
  /// the driver} @error{invalid_argument; parameters that differ from the record's}
  [[nodiscard]] virtual result<std::unique_ptr<cuda_module>> load(
      const fatbin& module, std::string_view name) = 0;
};

/// Returns the number of the code section that suits a device, given its capability, such
/// as 90: the cubin of the same major version with the highest version that is not higher
/// than the device's; without such a cubin, the PTX with the highest version that is not
/// higher. Code with the suffix `a` suits its own version only, and code with the suffix
/// `f` its own major version only. @error{arch_mismatch; none suits} @source{CUDA C++
/// Programming Guide, binary and PTX compatibility}
[[nodiscard]] result<std::size_t> choose_cuda_section(const fatbin& module,
                                                      int capability);

/// Makes a backend for GPUs. @error{not_found; there is no driver, or no device}
/// @error{unsupported; the driver is too old, or a device lacks a function}
[[nodiscard]] result<std::unique_ptr<cuda_backend>> make_cuda_backend(
    const cuda_options& options = {});

}  // namespace weir::tessera
