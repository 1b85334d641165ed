// SPDX-License-Identifier: Apache-2.0
/// @file
/// The switch of contexts: a few instructions per processor, ucontext for the others.
#include "device/cpu/fiber.hpp"

#include <cstdint>
#include <cstring>

#if !defined(WEIR_FIBERS_UCONTEXT)

extern "C" {
/// Stores the registers that calls preserve on the stack and its pointer in *from; then
/// the same backwards for `to`.
void weir_fiber_switch(void** from, void* to) noexcept;
/// Where a new context begins: its first switch "returns" to here.
void weir_fiber_start() noexcept;
}

#if defined(__x86_64__)
asm(R"(
.pushsection .text
.globl weir_fiber_switch
.hidden weir_fiber_switch
.type weir_fiber_switch, @function
.p2align 4
weir_fiber_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  subq $8, %rsp
  stmxcsr (%rsp)
  fnstcw 4(%rsp)
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  ldmxcsr (%rsp)
  fldcw 4(%rsp)
  addq $8, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size weir_fiber_switch, . - weir_fiber_switch
.globl weir_fiber_start
.hidden weir_fiber_start
.type weir_fiber_start, @function
.p2align 4
weir_fiber_start:
  .cfi_startproc
  .cfi_undefined rip
  movq %r13, %rdi
  callq *%r12
  ud2
  .cfi_endproc
.size weir_fiber_start, . - weir_fiber_start
.popsection
)");
#else
asm(R"(
.pushsection .text
.globl weir_fiber_switch
.hidden weir_fiber_switch
.type weir_fiber_switch, %function
.p2align 4
weir_fiber_switch:
  sub sp, sp, #176
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mrs x9, fpcr
  str x9, [sp, #160]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldr x9, [sp, #160]
  msr fpcr, x9
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #176
  ret
.size weir_fiber_switch, . - weir_fiber_switch
.globl weir_fiber_start
.hidden weir_fiber_start
.type weir_fiber_start, %function
.p2align 4
weir_fiber_start:
  .cfi_startproc
  .cfi_undefined x30
  mov x0, x20
  blr x19
  brk #0
  .cfi_endproc
.size weir_fiber_start, . - weir_fiber_start
.popsection
)");
#endif

namespace weir::tessera {
namespace {

/// The frame that weir_fiber_switch takes from a stack, lowest word first.
#if defined(__x86_64__)
constexpr std::size_t frame_words = 8;
void fill_frame(std::uint64_t* frame, std::uint64_t entry, std::uint64_t argument) {
  std::uint32_t vector_control = 0;
  std::uint16_t x87_control = 0;
  asm volatile("stmxcsr %0" : "=m"(vector_control));
  asm volatile("fnstcw %0" : "=m"(x87_control));
  frame[0] = vector_control | (std::uint64_t{x87_control} << 32);
  frame[3] = argument;  // r13
  frame[4] = entry;     // r12
  frame[7] = reinterpret_cast<std::uint64_t>(&weir_fiber_start);
}
#else
constexpr std::size_t frame_words = 22;
void fill_frame(std::uint64_t* frame, std::uint64_t entry, std::uint64_t argument) {
  frame[0] = entry;                                                // x19
  frame[1] = argument;                                             // x20
  frame[11] = reinterpret_cast<std::uint64_t>(&weir_fiber_start);  // x30
  asm volatile("mrs %0, fpcr" : "=r"(frame[20]));
}
#endif

void make_frame(fiber_context& made, std::byte* bottom, std::size_t bytes,
                void (*entry)(void*), void* argument) noexcept {
  // A few words of zeros above it end the walks of debuggers.
  auto top = reinterpret_cast<std::uintptr_t>(bottom + bytes - 64);
  top -= top % 16;
  auto* frame = reinterpret_cast<std::uint64_t*>(top) - frame_words;
  std::memset(frame, 0, frame_words * sizeof(std::uint64_t));
  fill_frame(frame, reinterpret_cast<std::uint64_t>(entry),
             reinterpret_cast<std::uint64_t>(argument));
  made.stack_pointer = frame;
}

void jump(fiber_context& from, fiber_context& to) noexcept {
  weir_fiber_switch(&from.stack_pointer, to.stack_pointer);
}

}  // namespace
}  // namespace weir::tessera

#else

namespace weir::tessera {
namespace {

/// makecontext passes integers only.
void enter(unsigned high, unsigned low) {
  auto* made = reinterpret_cast<fiber_context*>(
      static_cast<std::uintptr_t>((std::uint64_t{high} << 32) | low));
  made->entry(made->argument);
}

void make_frame(fiber_context& made, std::byte* bottom, std::size_t bytes,
                void (*entry)(void*), void* argument) noexcept {
  ::getcontext(&made.state);
  made.state.uc_stack.ss_sp = bottom;
  made.state.uc_stack.ss_size = bytes;
  made.state.uc_link = nullptr;
  made.entry = entry;
  made.argument = argument;
  const std::uint64_t self = reinterpret_cast<std::uintptr_t>(&made);
  ::makecontext(&made.state, reinterpret_cast<void (*)()>(&enter), 2,
                static_cast<unsigned>(self >> 32), static_cast<unsigned>(self));
}

void jump(fiber_context& from, fiber_context& to) noexcept {
  ::swapcontext(&from.state, &to.state);
}

}  // namespace
}  // namespace weir::tessera

#endif

namespace weir::tessera {

void prepare(fiber_context& made, std::byte* bottom, std::size_t bytes,
             void (*entry)(void*), void* argument) noexcept {
  make_frame(made, bottom, bytes, entry, argument);
  made.bottom = bottom;
  made.bytes = bytes;
#if defined(WEIR_TSAN)
  made.shadow = __tsan_create_fiber(0);
#endif
}

void dismiss([[maybe_unused]] fiber_context& context) noexcept {
#if defined(WEIR_TSAN)
  if (context.shadow != nullptr) {
    __tsan_destroy_fiber(context.shadow);
    context.shadow = nullptr;
  }
#endif
}

void prepare_own([[maybe_unused]] fiber_context& own) noexcept {
#if defined(WEIR_TSAN)
  own.shadow = __tsan_get_current_fiber();
#endif
}

namespace {

/// Tells sanitizers of a switch that is about to happen.
void announce([[maybe_unused]] void** fake_stack, fiber_context& from,
              fiber_context& to) noexcept {
  to.resumer = &from;
#if defined(WEIR_ASAN)
  __sanitizer_start_switch_fiber(fake_stack, to.bottom, to.bytes);
#endif
#if defined(WEIR_TSAN)
  __tsan_switch_to_fiber(to.shadow, 0);
#endif
}

}  // namespace

void switch_context(fiber_context& from, fiber_context& to) noexcept {
  announce(&from.fake_stack, from, to);
  jump(from, to);
  arrive_first(from);
}

void leave_context(fiber_context& from, fiber_context& to) noexcept {
  announce(nullptr, from, to);
  jump(from, to);
}

void arrive_first([[maybe_unused]] fiber_context& self) noexcept {
#if defined(WEIR_ASAN)
  // The stack of a thread is known only once it has been left.
  __sanitizer_finish_switch_fiber(self.fake_stack, &self.resumer->bottom,
                                  &self.resumer->bytes);
#endif
}

}  // namespace weir::tessera
