// SPDX-License-Identifier: Apache-2.0
/// @file
/// Contexts of execution on stacks of their own, and the switch between them.
/// Boost.Context makes and switches them; this file adds what the sanitizers must be
/// told.
///
/// A context is a stack and the registers that a call preserves. Only fiber_team uses it;
/// nothing here knows of kernels or blocks.
#pragma once

#include <cstddef>

#include "device/cpu/sanitizers.hpp"

namespace weir::tessera {

/// A suspended context, or the context of the calling thread while it runs on another
/// stack. A switch keeps the control bits of the floating point units, as a function call
/// does.
struct fiber_context {
  /// Boost's handle while the context is suspended. A switch gives it a new value.
  void* handle = nullptr;
  void (*entry)(void*) = nullptr;
  void* argument = nullptr;
  /// The context that this one resumed when it was left last.
  fiber_context* resumes = nullptr;
  // The sanitizers ask for these properties of a stack.
  const void* bottom = nullptr;
  std::size_t bytes = 0;
  void* fake_stack = nullptr;
  void* shadow = nullptr;
  fiber_context* resumer = nullptr;
  /// For ThreadSanitizer, a switch to or from this context orders no accesses.
  bool unordered = false;
};

/// Makes a context that will call entry(argument) on the stack; entry must never return.
void prepare(fiber_context& made, std::byte* bottom, std::size_t bytes,
             void (*entry)(void*), void* argument) noexcept;
/// Frees the data that sanitizers keep about a context that will never run again.
void dismiss(fiber_context& context) noexcept;

/// Prepares the context of the calling thread itself, before its first switch.
void prepare_own(fiber_context& own) noexcept;
/// Suspends `from`, which is the context that runs, and resumes `to`.
void switch_context(fiber_context& from, fiber_context& to) noexcept;
/// As switch_context, for a context that is never resumed.
void leave_context(fiber_context& from, fiber_context& to) noexcept;
/// Ends the switch to a new context. Called first by its entry, with its own context.
void arrive_first(fiber_context& self) noexcept;

}  // namespace weir::tessera
