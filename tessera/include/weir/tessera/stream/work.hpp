// SPDX-License-Identifier: Apache-2.0
/// @file
/// The operations of streams: launches, copies, fills, functions of the host.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "weir/tessera/module/loader.hpp"
#include "weir/tessera/stream/operation.hpp"
#include "weir/tessera/stream/stream.hpp"

namespace weir::tessera {

/// A kernel of a module that stays loaded as long as somebody has this.
struct module_kernel {
  std::shared_ptr<const loaded_module> module;
  const loaded_kernel* kernel = nullptr;

  [[nodiscard]] kernel_code code() const noexcept {
    return {kernel->record.name, kernel->entry, kernel->record.flags};
  }
};

struct launch_request {
  module_kernel kernel;    ///< none: that of the stream's last launch, which `key` tells
  std::uintptr_t key = 0;  ///< the same for launches of one kernel, and for no other
  std::array<std::int32_t, 3> grid{1, 1, 1};
  std::array<std::int32_t, 3> block{};  ///< threads; 0: the module's default
  std::size_t shared_bytes = 0;         ///< asked for beside what the kernel needs
  bool deterministic = false;           ///< this launch, whatever the policy
  bool persistent = false;
  bool urgent = false;
  const void* args = nullptr;
  std::size_t args_bytes = 0;
  bool in_graph = false;  ///< to be put into a graph in the place of another
};

/// Null for a request without a kernel if the stream's last launch had another key, or
/// other terms. @error{invalid_argument, sizes, or a kernel that only runs persistently;
/// unsupported, a kernel that does not}
[[nodiscard]] result<ref<operation>> make_launch(stream& on, const launch_request& what);

struct copy_request {
  void* to = nullptr;
  const void* from = nullptr;
  std::size_t bytes = 0;  ///< of a row
  copy_kind kind = copy_kind::host_to_device;
  int rank = -1;  ///< only this rank's instance; -1: all that a symmetric place names
  std::size_t rows = 1;
  std::size_t to_pitch = 0;    ///< bytes from the beginning of a row to that of the next
  std::size_t from_pitch = 0;  ///< the same; both only count where there are two rows
};
/// Null where there is nothing to do.
/// @error{invalid_argument, null, a side that is no device memory or is, ranges that
/// leave their allocation or overlap, or rows that overlap}
[[nodiscard]] result<ref<operation>> make_copy(stream& on, const copy_request& what);

struct fill_request {
  void* to = nullptr;
  std::size_t bytes = 0;
  std::uint8_t pattern_bytes = 1;
  std::array<std::byte, 16> pattern{};
};
/// @error{invalid_argument, as of make_copy, or a pattern that does not divide}
[[nodiscard]] result<ref<operation>> make_fill(stream& on, const fill_request& what);

/// Calls `function` when all lanes are there.
[[nodiscard]] ref<operation> make_host_function(std::function<void()> function);
/// Does nothing but fail, in its turn.
[[nodiscard]] ref<operation> make_failing(error why);

}  // namespace weir::tessera
