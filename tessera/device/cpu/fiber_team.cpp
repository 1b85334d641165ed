// SPDX-License-Identifier: Apache-2.0
/// @file
/// The threads of a block as fibers.
///
/// The fibers that have started and not ended form a ring in the order of their threads.
/// A barrier switches to the next fiber of the ring, or starts the next thread in another
/// fiber. When the last fiber of the ring arrives, the round is complete and the first
/// continues. A fiber whose thread has ended starts the next thread; if none is left, it
/// leaves the ring and waits for the next block on its own stack, so that stacks are
/// prepared once.
#include "device/cpu/fiber_team.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cxxabi.h>
#include <atomic>
#include <new>
#include <utility>

#include <fmt/core.h>

/// An example with three threads and one barrier: thread 0 starts in fiber a and
/// arrives; thread 1 starts in fiber b and arrives; thread 2 starts in fiber c and
/// arrives, which completes the round; a continues, ends, and gives its turn to b, then
/// c.
namespace weir::tessera {
namespace {

/// Limit of guard pages in the whole process. Each takes two of the 65530 mappings that a
/// process may have by default. Without guard pages an overflow of a stack is not
/// noticed at once, but nothing else changes.
constexpr std::size_t max_guards = 8192;
std::atomic<std::size_t> guards{0};

/// Makes a page inaccessible. Returns false if that was not possible.
///
/// `guards` counts the pages of all slabs, so teams of several threads share the limit.
bool close_page(std::byte* address, std::size_t bytes) noexcept {
  if (guards.fetch_add(1, std::memory_order_relaxed) < max_guards &&
      ::mprotect(address, bytes, PROT_NONE) == 0) {
    return true;
  }
  guards.fetch_sub(1, std::memory_order_relaxed);
  return false;
}

/// Asked for once.
std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

}  // namespace

/// The state that the C++ runtime keeps for each thread: the exceptions that are being
/// handled, and the number in flight. Each fiber has its own, which is exchanged at each
/// switch: a thread may meet a barrier inside of a `catch` block.
/// @source{Itanium C++ ABI, exception handling, section 2.2.2}
struct fiber_team::exception_state {
  void* caught = nullptr;
  unsigned uncaught = 0;
};

// Memory is reserved without being committed (MAP_NORESERVE), because most threads use
// little of their stacks. Stacks without a guard page work as well.
//
// `bytes` is the size of one stack; it is rounded up to whole pages.
result<std::unique_ptr<stack_slab>> stack_slab::make(std::size_t count,
                                                     std::size_t bytes) {
  const auto failed = [&] {
    return error(
        errc::out_of_memory,
        fmt::format("make stacks for {} threads of a block: expected {} bytes each, "
                    "found no memory",
                    count, bytes));
  };
  std::unique_ptr<stack_slab> slab(new (std::nothrow) stack_slab);
  if (!slab) {
    return failed();
  }
  // One mapping holds all stacks: a guard page below each, then the stack.
  slab->guard_bytes_ = page_bytes();
  slab->stack_bytes_ = (bytes + page_bytes() - 1) / page_bytes() * page_bytes();
  const std::size_t step = slab->guard_bytes_ + slab->stack_bytes_;
  void* const base = ::mmap(nullptr, count * step, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    return failed();
  }
  slab->base_ = static_cast<std::byte*>(base);
  slab->count_ = count;
  // Stops at the first page that cannot be closed.
  while (slab->guarded_ < count &&
         close_page(slab->base_ + slab->guarded_ * step, slab->guard_bytes_)) {
    ++slab->guarded_;
  }
  return slab;
}

// AddressSanitizer may have poisoned parts of the stacks; the addresses may be used again
// for other memory.
stack_slab::~stack_slab() {
  if (base_ != nullptr) {
    for (std::size_t i = 0; i < count_; ++i) {
      permit(stack(i).data(), stack(i).size());
    }
    ::munmap(base_, count_ * (guard_bytes_ + stack_bytes_));
    guards.fetch_sub(guarded_, std::memory_order_relaxed);
  }
}

/// The stack lies behind its guard page.
std::span<std::byte> stack_slab::stack(std::size_t i) const noexcept {
  return {base_ + i * (guard_bytes_ + stack_bytes_) + guard_bytes_, stack_bytes_};
}

/// A stack on which threads of blocks run, one after another, and its state. It is never
/// unwound between two threads or blocks.
struct fiber_team::fiber {
  fiber_context context;
  std::span<std::byte> stack;
  fiber_team* team = nullptr;
  fiber* next = nullptr;  ///< next in the ring of fibers that have started and not ended
  fiber* previous = nullptr;
  exception_state exceptions;
  bool made = false;
};

/// Nothing is allocated before `reserve`.
fiber_team::fiber_team(std::size_t stack_bytes) : stack_bytes_(stack_bytes) {}

// Each fiber that was made is resumed once more. It sees `quit_` and leaves its stack for
// good; then the sanitizers drop their data about it.
fiber_team::~fiber_team() {
  quit_ = true;
  for (auto& f : fibers_) {
    if (f->made) {
      // The context of this thread may differ from that of the last block.
      prepare_own(outside_);
      switch_context(outside_, f->context);
      dismiss(f->context);
    }
  }
}

/// Provides stacks for so many threads. Fibers stay for later launches.
result<void> fiber_team::reserve(std::int64_t threads) {
  const auto wanted = static_cast<std::size_t>(threads);
  if (wanted <= fibers_.size()) {
    return {};
  }
  // Only the stacks that are missing.
  WEIR_TRY(auto slab, stack_slab::make(wanted - fibers_.size(), stack_bytes_));
  try {
    fibers_.reserve(wanted);
    idle_.reserve(wanted);
    slabs_.push_back(std::move(slab));
    for (std::size_t i = 0; i < slabs_.back()->count(); ++i) {
      auto made = std::make_unique<fiber>();
      made->team = this;
      // Stacks that begin at the same offset in their pages would use few sets of the
      // cache. A failure below leaves fewer fibers than wanted, which is consistent.
      const std::span<std::byte> stack = slabs_.back()->stack(i);
      made->stack = stack.first(stack.size() - (fibers_.size() % 16) * 256);
      idle_.push_back(made.get());
      fibers_.push_back(std::move(made));
    }
  } catch (const std::bad_alloc&) {
    return error(errc::out_of_memory,
                 "make fibers for the threads of a block: expected memory, found none");
  }
  return {};
}

// Runs on the thread that called it: the first fiber starts, and the last one that ends
// switches back to this function.
//
// `rounds` is called between two rounds if a thread asks for it; its result is what the
// barrier returns.
void fiber_team::run(std::int64_t threads, body function, void* argument,
                     between rounds) noexcept {
  threads_ = threads;
  started_ = 0;
  body_ = function;
  argument_ = argument;
  rounds_ = std::move(rounds);
  asked_ = false;
  auto* const state = reinterpret_cast<exception_state*>(abi::__cxa_get_globals());
  // The first thread begins without exceptions, whatever the caller is handling. The
  // state of the caller is put back at the end.
  const exception_state before = std::exchange(*state, {});
  exceptions_ = state;
  prepare_own(outside_);
  fiber& first = add_to_ring();
  // The first thread starts; all others start at barriers or ends.
  running_ = &first;
  switch_context(outside_, first.context);
  *state = before;
}

// Takes an idle fiber and puts it at the end of the ring. `reserve` made enough of them.
fiber_team::fiber& fiber_team::add_to_ring() noexcept {
  fiber& added = *idle_.back();
  idle_.pop_back();
  if (!added.made) {
    prepare(added.context, added.stack.data(), added.stack.size(), &fiber_team::enter,
            &added);
    added.made = true;
  }
  // Every thread begins without exceptions.
  added.exceptions = {};
  // The ring is a circular list with a pointer to its last element.
  if (tail_ == nullptr) {
    added.next = added.previous = &added;
  } else {
    added.next = tail_->next;
    added.previous = tail_;
    added.next->previous = &added;
    tail_->next = &added;
  }
  tail_ = &added;
  return added;
}

// Each turn of the loop is one block. `serve` returns when the fiber is resumed for
// another block, or at the end of the team.
void fiber_team::enter(void* of_fiber) noexcept {
  auto& self = *static_cast<fiber*>(of_fiber);
  arrive_first(self.context);
  while (!self.team->quit_) {
    self.team->serve(self);
  }
  // Never returns.
  leave_context(self.context, self.team->outside_);
}

/// Runs threads until all have started, then suspends the fiber until the next block.
void fiber_team::serve(fiber& self) noexcept {
  while (started_ < threads_) {
    body_(argument_, started_++);
  }
  // All threads have started, so this fiber is done with the block.
  retire(self);
}

/// Returns the fiber whose turn is next. At the end of a round, makes the call between
/// rounds if a thread has asked for it. Only the last fiber of a round makes the call,
/// so it is made once.
fiber_team::fiber& fiber_team::next_of(fiber& self) noexcept {
  if (&self == tail_ && asked_) {
    asked_ = false;
    answer_ = rounds_ ? rounds_() : 0;
  }
  return *self.next;
}

// Takes the fiber out of the ring and continues with the next one, or with `run` if it
// was the last. The fiber resumes here when it is needed for another block.
void fiber_team::retire(fiber& self) noexcept {
  idle_.push_back(&self);  // `reserve` has provided the capacity
  // The last fiber of the block.
  if (self.next == &self) {
    tail_ = nullptr;
    switch_context(self.context, outside_);
    return;
  }
  fiber& next = next_of(self);
  if (tail_ == &self) {
    tail_ = self.previous;
  }
  self.previous->next = self.next;
  self.next->previous = self.previous;
  running_ = &next;
  // The state of this fiber need not be kept, since its thread has ended.
  *static_cast<exception_state*>(exceptions_) = next.exceptions;
  switch_context(self.context, next.context);
}

// While threads remain to be started, the next one starts instead of the ring's first
// fiber continuing. So every thread arrives at the barrier before any passes it.
//
// Returns 0, or the result of the call between rounds if `outside` asks for it.
int fiber_team::barrier(bool outside) noexcept {
  fiber& self = *running_;
  asked_ = asked_ || outside;
  if (started_ < threads_) {
    change(self, add_to_ring());
  } else {
    // All threads have started: the next fiber of the ring continues.
    fiber& next = next_of(self);
    // With one fiber left, the barrier returns at once.
    if (&next != &self) {
      change(self, next);
    }
  }
  return outside ? answer_ : 0;
}

// Switches between two fibers together with their states of exceptions.
void fiber_team::change(fiber& from, fiber& to) noexcept {
  auto& state = *static_cast<exception_state*>(exceptions_);
  from.exceptions = std::exchange(state, to.exceptions);
  running_ = &to;
  switch_context(from.context, to.context);
}

}  // namespace weir::tessera
