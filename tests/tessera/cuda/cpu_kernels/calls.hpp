// SPDX-License-Identifier: Apache-2.0
/// @file
/// Calls kernels that are compiled for the host with arguments at addresses.
#pragma once

#include <cstring>
#include <type_traits>
#include <utility>

#include "cpu_kernels/machine.hpp"

namespace weir::tessera::kernel_machine {

/// Returns a copy of the value at an address of any alignment.
template <class T>
T value_at(const void* address) {
  T value;
  std::memcpy(&value, address, sizeof value);
  return value;
}

/// Returns what a kernel does behind a parameter of a type: nothing is written through a
/// pointer to a constant.
template <class T>
constexpr stand_in::pointer_use use_of() {
  if constexpr (!std::is_pointer_v<T>) {
    return stand_in::pointer_use::none;
  } else if constexpr (std::is_const_v<std::remove_pointer_t<T>>) {
    return stand_in::pointer_use::reads;
  } else {
    return stand_in::pointer_use::writes;
  }
}

template <auto Kernel>
struct caller;
/// Calls a kernel. `made` returns its entry.
template <class... Args, void (*Kernel)(Args...)>
struct caller<Kernel> {
  template <std::size_t... I>
  static void spread(const void* const* arguments, std::index_sequence<I...>) {
    Kernel(value_at<Args>(arguments[I])...);
  }
  static void call([[maybe_unused]] const void* const* arguments) {
    spread(arguments, std::index_sequence_for<Args...>());
  }
  static kernel_entry made(std::string_view name) {
    return {name, &call, {sizeof(Args)...}, {use_of<Args>()...}, nullptr};
  }
};

}  // namespace weir::tessera::kernel_machine
