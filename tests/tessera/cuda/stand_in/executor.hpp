// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs the kernels of the stand-in driver. The driver checks and orders launches; an
/// executor knows modules and computes. Memory of the stand-in is memory of this process,
/// so addresses in arguments can be used as they are.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/error.hpp"

namespace weir::tessera::stand_in {

/// Number that an executor gives to a loaded module; never reused.
using module_id = std::uint64_t;

/// What a kernel does with the memory behind a parameter.
enum class pointer_use : std::uint8_t {
  none,   ///< the parameter is no pointer, or nothing is known about what is behind it
  reads,  ///< the kernel reads there; two readers need no order
  writes  ///< the kernel writes there, and may read
};

/// Place of a parameter in the parameter space of a kernel.
struct parameter_place {
  std::size_t offset = 0;  ///< bytes from the start, with the alignment of the kernel
  std::size_t bytes = 0;   ///< size of the parameter
  pointer_use use = pointer_use::none;  ///< needed of executors without exact reports
};

/// Description of a kernel.
struct function_facts {
  std::uint64_t id = 0;                     ///< number of the kernel in its module
  std::vector<parameter_place> parameters;  ///< parameters in order
  std::size_t static_shared_bytes = 0;      ///< shared memory that the kernel declares
  std::int32_t max_threads = 1024;          ///< largest number of threads of a block
};

/// Bytes that a launch has read or written.
struct touched_range {
  std::uintptr_t first = 0;  ///< address of the first byte
  std::size_t bytes = 0;     ///< length of the range
  bool written = false;      ///< true if at least one byte was written
};

/// One launch.
struct launch_request {
  module_id module = 0;                         ///< module of the kernel
  std::uint64_t function = 0;                   ///< function_facts::id
  std::array<std::uint32_t, 3> grid{1, 1, 1};   ///< extents in blocks
  std::array<std::uint32_t, 3> block{1, 1, 1};  ///< extents in threads
  std::size_t dynamic_shared_bytes = 0;         ///< shared memory beside the declared
  bool cooperative = false;  ///< all blocks run at the same time and may meet
  /// Addresses of the arguments, one for each parameter, in order. The bytes behind them
  /// live while `launch` runs.
  std::span<const void* const> arguments;
  /// Returns whether the device may read (or write) a range; may be empty. An executor
  /// that sees each access reports others as `errc::out_of_range`.
  std::function<bool(const void* first, std::size_t bytes, bool write)> accessible;
};

/// Outcome of a launch that came to its end.
struct launch_report {
  /// True if `touched` is complete. False: the driver assumes that the kernel accesses
  /// all of each allocation behind a pointer argument, in the way that
  /// `parameter_place::use` says.
  bool exact = false;
  std::vector<touched_range> touched;  ///< ranges that were read and written
};

/// Runs kernels. @threads{safe to call concurrently; launches may overlap}
class kernel_executor {
 public:
  virtual ~kernel_executor() = default;
  /// Loads a module from the bytes of a section of a container (PTX text, which need not
  /// end with a zero, or whatever the executor takes for a cubin). The bytes may go
  /// afterwards. @error{corrupt; not a module, with the text of the translator}
  /// @error{arch_mismatch; a module for other devices} @error{unsupported_version; PTX
  /// of a newer version}
  [[nodiscard]] virtual result<module_id> load(std::span<const std::byte> image) = 0;
  /// Forgets a module. No launch of it is running.
  virtual void unload(module_id module) noexcept = 0;
  /// Returns the facts about a kernel. @error{not_found; the module has no such kernel}
  [[nodiscard]] virtual result<function_facts> find(module_id module,
                                                    std::string_view name) = 0;
  /// Runs a launch to its end. A persistent kernel ends when it sees its stop flag, which
  /// another thread writes.
  /// @error{out_of_range; an access to memory that is not the device's}
  /// @error{invalid_argument; an access that is not aligned}
  /// @error{kernel_failed; a trap, an assertion, or a barrier that not all threads reach}
  [[nodiscard]] virtual result<launch_report> launch(const launch_request& request) = 0;
};

}  // namespace weir::tessera::stand_in
