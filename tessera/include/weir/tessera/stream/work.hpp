// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operations of streams: launches, copies, fills and functions of the host.
/// @threads{the functions are safe from any thread; operations belong to their stream}
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "weir/tessera/module/loader.hpp"
#include "weir/tessera/stream/operation.hpp"
#include "weir/tessera/stream/stream.hpp"

namespace weir::tessera {

/// A kernel of a module. The module stays loaded while this object exists.
struct module_kernel {
  std::shared_ptr<const loaded_module> module;  ///< the module
  /// The kernel, which belongs to `module`; null: none.
  const loaded_kernel* kernel = nullptr;

  /// Returns the kernel as the backend takes it: its name, entry point and flags. @pre
  /// `kernel` is not null.
  [[nodiscard]] kernel_code code() const noexcept {
    return {kernel->record.name, kernel->entry, kernel->record.flags};
  }
};

/// Request for a launch of a kernel.
struct launch_request {
  /// The kernel; none: that of the stream's last launch if it had the same `key`.
  module_kernel kernel;
  /// Identifies the kernel: equal for launches of one kernel only.
  std::uintptr_t key = 0;
  std::array<std::int32_t, 3> grid{1, 1, 1};  ///< number of blocks in each direction
  /// Threads of a block in each direction; 0: the module's default.
  std::array<std::int32_t, 3> block{};
  /// Bytes of shared memory, besides those that the kernel needs.
  std::size_t shared_bytes = 0;
  bool deterministic = false;  ///< true: deterministic, whatever the policy says
  bool persistent = false;     ///< true: the kernel runs until it is asked to stop
  bool urgent = false;         ///< true: its tasks go before those of other operations
  /// Packed arguments, which are copied; null if there are none.
  const void* args = nullptr;
  std::size_t args_bytes = 0;  ///< size of the arguments in bytes
  /// True: it replaces a node of a graph, so it takes no number of the stream.
  bool in_graph = false;
};

/// Makes a launch. Returns null for a request without a kernel if the stream's last
/// launch had another key or other terms.
/// @error{invalid_argument; sizes or arguments that do not fit the kernel, memory of
/// another mesh, or a kernel that only runs persistently}
/// @error{unsupported; a persistent launch of a kernel that cannot run persistently, or
/// on a stream that captures}
[[nodiscard]] result<ref<operation>> make_launch(stream& target,
                                                 const launch_request& request);

/// Request for a copy of bytes, or of rows of bytes.
struct copy_request {
  void* to = nullptr;                          ///< address of the first target byte
  const void* from = nullptr;                  ///< address of the first source byte
  std::size_t bytes = 0;                       ///< bytes of a row
  copy_kind kind = copy_kind::host_to_device;  ///< the sides that are device memory
  /// Copies the instance of this rank only; -1: all instances of a symmetric address.
  int rank = -1;
  std::size_t rows = 1;  ///< number of rows
  /// Bytes from the start of a target row to the next; unused for a single row.
  std::size_t to_pitch = 0;
  /// Bytes from the start of a source row to the next; unused for a single row.
  std::size_t from_pitch = 0;
};
/// Makes a copy. Returns null if there is nothing to copy.
/// @error{invalid_argument; a null address, a rank that does not exist or is not the
/// stream's, memory of another kind than `kind` says, ranges that leave their allocation
/// or overlap, or rows that overlap}
[[nodiscard]] result<ref<operation>> make_copy(stream& target,
                                               const copy_request& request);

/// Request to fill memory with a repeated pattern.
struct fill_request {
  void* to = nullptr;              ///< address of the first byte
  std::size_t bytes = 0;           ///< number of bytes: a multiple of `pattern_bytes`
  std::uint8_t pattern_bytes = 1;  ///< size of the pattern in bytes
  /// The pattern, in the first `pattern_bytes` bytes.
  std::array<std::byte, 16> pattern{};
};
/// Makes a fill. Returns null if there is nothing to fill.
/// @error{invalid_argument; see make_copy; or a size that is not a multiple of the
/// pattern's}
[[nodiscard]] result<ref<operation>> make_fill(stream& target,
                                               const fill_request& request);

/// Makes an operation that calls `function` once, when all device chains have reached it.
[[nodiscard]] ref<operation> make_host_function(std::function<void()> function);
/// Makes an operation that does nothing but fail with `why`, in its turn.
[[nodiscard]] ref<operation> make_failing(error why);

}  // namespace weir::tessera
