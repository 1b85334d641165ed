// SPDX-License-Identifier: Apache-2.0
/// @file
/// Switches contexts by Boost.Context, and reports each switch to the sanitizers, which
/// would otherwise take the change of stacks for an error.
#include "device/cpu/fiber.hpp"

#include <boost/context/detail/fcontext.hpp>

#include "weir/base/system/fp_environment.hpp"

/// A fiber is a stack with a place to continue at. Exactly one context of a thread runs
/// at a time, and every switch goes from one context to another by name.
namespace weir::tessera {
namespace {

using boost::context::detail::fcontext_t;
using boost::context::detail::transfer_t;

/// Stores Boost's handle of the context that was left. Boost passes it to the context
/// that continues, together with the address of its fiber_context.
WEIR_UNRECORDED void store_left(const transfer_t& transfer) noexcept {
  static_cast<fiber_context*>(transfer.data)->handle = transfer.fctx;
}

/// Suspends `from` and continues `to`. Returns when another context resumes `from`.
WEIR_UNRECORDED void jump(fiber_context& from, fiber_context& to) noexcept {
  // A new context finds itself by this member (`begin`).
  from.resumes = &to;
#if defined(__x86_64__)
  // Boost saves and restores the control bits of the vector unit and of the x87 unit.
  store_left(boost::context::detail::jump_fcontext(to.handle, &from));
#else
  // On other processors the control bits are saved here.
  const std::uint64_t control = fp_control();
  store_left(boost::context::detail::jump_fcontext(to.handle, &from));
  set_fp_control(control);
#endif
}

/// The first function on a new stack. It finds its own context by the context that was
/// left, which names the one that it resumes.
WEIR_UNRECORDED void begin(transfer_t transfer) noexcept {
  auto* left = static_cast<fiber_context*>(transfer.data);
  fiber_context* self = left->resumes;
  store_left(transfer);
  self->entry(self->argument);
}

}  // namespace

// The stack grows down, so its top is passed.
void prepare(fiber_context& made, std::byte* bottom, std::size_t bytes,
             void (*entry)(void*), void* argument) noexcept {
  made.handle = boost::context::detail::make_fcontext(bottom + bytes, bytes, &begin);
  made.entry = entry;
  made.argument = argument;
  made.bottom = bottom;
  made.bytes = bytes;
#if defined(WEIR_TSAN)
  // ThreadSanitizer has an object for each fiber.
  made.shadow = __tsan_create_fiber(0);
#endif
}

/// Called when the stack is not used any more.
void dismiss([[maybe_unused]] fiber_context& context) noexcept {
#if defined(WEIR_TSAN)
  if (context.shadow != nullptr) {
    __tsan_destroy_fiber(context.shadow);
    context.shadow = nullptr;
  }
#endif
}

/// The context of the thread itself, which has a stack already.
void prepare_own([[maybe_unused]] fiber_context& own) noexcept {
#if defined(WEIR_TSAN)
  own.shadow = __tsan_get_current_fiber();
#endif
}

namespace {

/// Announces a switch to the sanitizers. A null `fake_stack` means that `from` never runs
/// again.
WEIR_UNRECORDED void announce([[maybe_unused]] void** fake_stack, fiber_context& from,
                              fiber_context& to) noexcept {
  // The context that continues must know whose stack was left.
  to.resumer = &from;
#if defined(WEIR_ASAN)
  __sanitizer_start_switch_fiber(fake_stack, to.bottom, to.bytes);
#endif
#if defined(WEIR_TSAN)
  const bool unordered = from.unordered || to.unordered;
  __tsan_switch_to_fiber(to.shadow, unordered ? __tsan_switch_to_fiber_no_sync : 0);
#endif
}

}  // namespace

/// Returns when another context switches back.
WEIR_UNRECORDED void switch_context(fiber_context& from, fiber_context& to) noexcept {
  announce(&from.fake_stack, from, to);
  jump(from, to);
  arrive_first(from);
}

/// Never returns: the stack may be used for another fiber.
WEIR_UNRECORDED void leave_context(fiber_context& from, fiber_context& to) noexcept {
  announce(nullptr, from, to);
  jump(from, to);
}

/// Every context calls it as the first thing after a switch.
WEIR_UNRECORDED void arrive_first([[maybe_unused]] fiber_context& self) noexcept {
#if defined(WEIR_ASAN)
  // AddressSanitizer tells the stack of a thread only once that stack has been left.
  __sanitizer_finish_switch_fiber(self.fake_stack, &self.resumer->bottom,
                                  &self.resumer->bytes);
#endif
}

}  // namespace weir::tessera
