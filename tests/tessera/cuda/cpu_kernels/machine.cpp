// SPDX-License-Identifier: Apache-2.0
/// @file
/// The threads of kernels as fibers, and the primitives that the kernels call.
#include "cpu_kernels/machine.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <utility>

#include <fmt/core.h>

#include "cpu_kernels/access_check.hpp"
#include "cpu_kernels/tsan.hpp"
#include "device/cpu/fiber.hpp"
#include "device/cpu/sanitizers.hpp"

namespace weir::tessera::kernel_machine {
namespace {

namespace host = device_code::host;

constexpr std::size_t stack_bytes = std::size_t{128} << 10;

/// Memory of a stack.
struct fiber_stack {
  alignas(64) std::array<std::byte, stack_bytes> bytes;
};

enum class fiber_state : std::uint8_t { ready, at_barrier, ended };

class machine;

/// One thread of a block.
struct kernel_thread {
  machine* owner = nullptr;
  std::uint32_t block = 0;  ///< index in the blocks that are alive
  host::position position{};
  fiber_state state = fiber_state::ready;
  int line = 0;  ///< line of the barrier at which it waits
  fiber_context context;
  std::unique_ptr<fiber_stack> stack;
};

/// A shared array of a block.
struct shared_memory {
  std::unique_ptr<std::byte[]> bytes;
  std::size_t size = 0;
  std::vector<bool> written;  ///< of each byte; only if the launch tracks content
};

/// A block that is alive.
struct live_block {
  std::uint32_t epoch = 0;
  std::map<std::string, shared_memory> shared;
  /// For `tsan::arrive` at the barriers of even and of odd epochs: a thread may arrive at
  /// a barrier while another has not departed from the one before.
  std::array<std::uint64_t, 2> barriers{};
};

/// The launch that the calling thread runs.
thread_local machine* active = nullptr;

class machine {
 public:
  machine(kernel_call call, std::span<const void* const> arguments,
          const launch_options& options)
      : call_(call),
        arguments_(arguments),
        options_(options),
        blocks_total_(product(options.grid)),
        threads_(product(options.block)),
        check_(static_cast<std::size_t>(blocks_total_)),
        tracks_content_(thread_sanitizer && !options.checked),
        random_(options.seed) {
    for (const memory_range& m : options.memory) {
      check_.add(m.first, m.bytes, true);
    }
  }

  result<void> run() {
    const tsan::unrecorded_accesses own;
    prepare_own(outside_);
    machine* const before = std::exchange(active, this);
    const std::int64_t together = options_.cooperative ? blocks_total_ : 1;
    std::vector<std::int64_t> order(static_cast<std::size_t>(blocks_total_));
    for (std::size_t i = 0; i < order.size(); ++i) {
      order[i] = static_cast<std::int64_t>(i);
    }
    arrange(order);
    for (std::size_t i = 0; i < order.size() && fault_.empty();
         i += static_cast<std::size_t>(together)) {
      run_blocks(std::span(order).subspan(i, static_cast<std::size_t>(together)));
    }
    active = before;
    tsan::depart(&end_);
    return fault_.empty() ? result<void>() : error(code_of_fault_, fault_);
  }

  // The functions below are called by the threads.
  host::position where() const { return running_->position; }
  device_code::launch_extents extents() const {
    device_code::launch_extents out{};
    for (std::size_t i = 0; i < 3; ++i) {
      out.grid[i] = static_cast<std::int32_t>(options_.grid[i]);
      out.block[i] = static_cast<std::int32_t>(options_.block[i]);
    }
    return out;
  }
  void wait(int line) {
    live_block& block = live_[running_->block];
    std::uint64_t* const barrier = &block.barriers[block.epoch % 2];
    {
      const tsan::unrecorded_accesses own;
      running_->line = line;
    }
    tsan::arrive(barrier);
    suspend(fiber_state::at_barrier);
    tsan::depart(barrier);
  }
  void short_wait() { suspend(fiber_state::ready); }
  void* shared_array(const char* name, std::size_t bytes) {
    const tsan::unrecorded_accesses own;
    shared_memory& m = live_[running_->block].shared[name];
    if (!m.bytes) {
      m.bytes = std::make_unique<std::byte[]>(bytes);
      m.size = bytes;
      // A NaN with a pattern of its own: it would show in results.
      std::memset(m.bytes.get(), 0xFF, bytes);
      if (options_.checked) {
        check_.add(m.bytes.get(), bytes, false);
      }
      if (tracks_content_) {
        m.written.resize(bytes);
      }
    }
    return m.bytes.get();
  }
  bool note(const void* address, std::size_t bytes, host::access kind) {
    // Other threads may run before an atomic operation.
    if (kind == host::access::atomic && options_.order == thread_order::random &&
        toss()) {
      short_wait();
    }
    if (fault_of(address, bytes, kind)) {
      suspend(fiber_state::ended);  // never resumed
      return false;
    }
    return true;
  }

 private:
  static std::int64_t product(const std::array<std::uint32_t, 3>& extents) {
    return std::int64_t{extents[0]} * extents[1] * extents[2];
  }

  template <class T>
  void arrange(std::vector<T>& items) {
    if (options_.order == thread_order::descending) {
      std::reverse(items.begin(), items.end());
    } else if (options_.order == thread_order::random) {
      std::shuffle(items.begin(), items.end(), random_);
    }
  }

  void fail(errc code, std::string text) {
    if (fault_.empty()) {
      code_of_fault_ = code;
      fault_ = std::move(text);
    }
  }

  bool toss() {
    const tsan::unrecorded_accesses own;
    return random_() % 2 == 0;
  }

  /// Checks an access of the running thread. Notes the fault and returns true if there is
  /// one.
  bool fault_of(const void* address, std::size_t bytes, host::access kind) {
    const tsan::unrecorded_accesses own;
    const host::position& by = running_->position;
    if (tracks_content_) {
      track_content(address, bytes, kind);
    }
    if (options_.accessible && shared_of(address) == nullptr) {
      const tsan::unordered_locks others;
      if (!options_.accessible(address, bytes, kind != host::access::read)) {
        fail(errc::out_of_range,
             fmt::format("access to {} bytes by thread {} of block {}: expected memory "
                         "that the launch may access",
                         bytes, by.thread, by.block));
        return true;
      }
    }
    if (!options_.checked) {
      return false;
    }
    std::string found = check_.note(
        address, bytes, kind,
        {static_cast<std::uint32_t>(by.block), static_cast<std::uint32_t>(by.thread),
         live_[running_->block].epoch});
    if (found.empty()) {
      return false;
    }
    fail(errc::out_of_range, std::move(found));
    return true;
  }

  /// Returns the shared array of the running thread's block at this address, or null.
  [[nodiscard]] shared_memory* shared_of(const void* address) {
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    for (auto& [name, m] : live_[running_->block].shared) {
      const auto first = reinterpret_cast<std::uintptr_t>(m.bytes.get());
      if (at >= first && at - first < m.size) {
        return &m;
      }
    }
    return nullptr;
  }

  /// Shows ThreadSanitizer that shared memory is read which nothing has written.
  void track_content(const void* address, std::size_t bytes, host::access kind) {
    shared_memory* const m = shared_of(address);
    if (m == nullptr) {
      return;
    }
    const auto* const byte = static_cast<const std::byte*>(address);
    const auto first = static_cast<std::size_t>(byte - m->bytes.get());
    for (std::size_t i = first; i < std::min(first + bytes, m->size); ++i) {
      if (kind != host::access::write && !m->written[i]) {
        undefined_.appear(&m->bytes[i], 1);
      }
      m->written[i] = m->written[i] || kind != host::access::read;
    }
  }

  static void enter(void* of_thread) noexcept {
    auto* self = static_cast<kernel_thread*>(of_thread);
    arrive_first(self->context);
    self->owner->call_(self->owner->arguments_.data());
    {
      const tsan::unrecorded_accesses own;
      self->state = fiber_state::ended;
    }
    leave_context(self->context, self->owner->outside_);
  }

  void suspend(fiber_state state) {
    {
      const tsan::unrecorded_accesses own;
      running_->state = state;
    }
    switch_context(running_->context, outside_);
  }

  void start(std::span<const std::int64_t> blocks) {
    live_.clear();
    live_.resize(blocks.size());
    pool_.resize(blocks.size() * static_cast<std::size_t>(threads_));
    for (std::size_t i = 0; i < pool_.size(); ++i) {
      kernel_thread& t = pool_[i];
      const auto block =
          static_cast<std::uint32_t>(i / static_cast<std::size_t>(threads_));
      const auto number =
          static_cast<std::int32_t>(i % static_cast<std::size_t>(threads_));
      t.owner = this;
      t.block = block;
      t.position = {number, static_cast<std::int32_t>(threads_), blocks[block],
                    blocks_total_};
      t.state = fiber_state::ready;
      // Memory that is new has no accesses of the threads of an earlier block.
      if (!t.stack || thread_sanitizer) {
        t.stack = std::make_unique_for_overwrite<fiber_stack>();
      }
      permit(t.stack->bytes.data(), stack_bytes);
      t.context = {};
      t.context.unordered = true;
      prepare(t.context, t.stack->bytes.data(), stack_bytes, &enter, &t);
      if (thread_sanitizer) {
        tsan::name_thread(t.context,
                          fmt::format("thread {} of block {}", number, blocks[block]));
      }
    }
  }

  void run_blocks(std::span<const std::int64_t> blocks) {
    start(blocks);
    std::vector<kernel_thread*> round;
    while (fault_.empty()) {
      round.clear();
      for (kernel_thread& t : pool_) {
        if (t.state == fiber_state::ready) {
          round.push_back(&t);
        }
      }
      if (round.empty() && !release()) {
        break;
      }
      arrange(round);
      for (kernel_thread* t : round) {
        running_ = t;
        switch_context(outside_, t->context);
        if (!fault_.empty()) {
          break;
        }
      }
      if (!round.empty()) {
        release();
      }
    }
    for (kernel_thread& t : pool_) {
      tsan::end_thread(t.context, &end_);
      dismiss(t.context);
    }
    for (live_block& b : live_) {
      for (auto& [name, m] : b.shared) {
        check_.remove(m.bytes.get());
      }
    }
  }

  /// Lets the blocks go on whose threads all wait at one barrier. Returns true if there
  /// is one.
  bool release() {
    bool any = false;
    const auto n = static_cast<std::size_t>(threads_);
    for (std::size_t b = 0; b < live_.size(); ++b) {
      const std::span<kernel_thread> threads = std::span(pool_).subspan(b * n, n);
      const kernel_thread* waiting = nullptr;
      const kernel_thread* ended = nullptr;
      bool ready = false, differ = false;
      for (const kernel_thread& t : threads) {
        ready = ready || t.state == fiber_state::ready;
        ended = t.state == fiber_state::ended ? &t : ended;
        if (t.state == fiber_state::at_barrier) {
          differ = differ || (waiting != nullptr && waiting->line != t.line);
          waiting = &t;
        }
      }
      if (ready || waiting == nullptr) {
        continue;
      }
      if (ended != nullptr || differ) {
        fail(errc::kernel_failed,
             fmt::format("barrier in line {}: not all threads of block {} reach it",
                         waiting->line, threads[0].position.block));
        return false;
      }
      any = true;
      ++live_[b].epoch;
      for (kernel_thread& t : threads) {
        t.state = fiber_state::ready;
      }
    }
    return any;
  }

  kernel_call call_;
  std::span<const void* const> arguments_;
  const launch_options& options_;
  std::int64_t blocks_total_;
  std::int64_t threads_;
  access_check check_;
  bool tracks_content_;  ///< whether reads of undefined shared memory are found
  tsan::undefined_content undefined_;
  std::uint64_t end_ = 0;  ///< for `tsan::arrive` at the end of the launch
  std::mt19937_64 random_;
  fiber_context outside_;
  std::vector<kernel_thread> pool_;
  std::vector<live_block> live_;
  kernel_thread* running_ = nullptr;
  errc code_of_fault_ = errc::kernel_failed;
  std::string fault_;
};

}  // namespace

result<void> run(kernel_call call, std::span<const void* const> arguments,
                 const launch_options& options) {
  return machine(call, arguments, options).run();
}

}  // namespace weir::tessera::kernel_machine

namespace weir::device_code::host {

namespace cpu = tessera::kernel_machine;

position where() noexcept {
  return cpu::active->where();
}
launch_extents extents() noexcept {
  return cpu::active->extents();
}
void barrier(int line) noexcept {
  cpu::active->wait(line);
}
void short_wait() noexcept {
  cpu::active->short_wait();
}
void* shared_array(const char* name, std::size_t bytes) noexcept {
  return cpu::active->shared_array(name, bytes);
}
bool note(const void* address, std::size_t bytes, access kind) noexcept {
  return cpu::active->note(address, bytes, kind);
}

}  // namespace weir::device_code::host
