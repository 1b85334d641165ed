// SPDX-License-Identifier: Apache-2.0
/// @file
/// State of the stand-in: devices, objects, accesses to memory. One mutex guards all of
/// it.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tessera/cuda/stand_in/stand_in.hpp"

namespace weir::tessera::stand_in {

/// For each stream, the number of its last operation that is known to have come before.
using vector_clock = std::map<std::uint64_t, std::uint64_t>;
/// Raises the entries of a clock to those of another.
void join(vector_clock& into, const vector_clock& other);

/// For each node of a graph, whether each other node comes before it.
using graph_order = std::vector<std::vector<bool>>;
/// Place of a part of an operation that runs a graph.
struct graph_place {
  std::shared_ptr<const graph_order> order;  ///< null: the operation runs no graph
  std::size_t node = 0;
};

/// An operation's access to memory.
struct access {
  std::uintptr_t first = 0;
  std::size_t bytes = 0;
  bool write = false;
  std::uint64_t stream = 0;
  std::uint64_t number = 0;  ///< number of the operation in its stream
  const struct device_state* device = nullptr;
  vector_clock before;  ///< operations that come before it
  std::string operation;
  graph_place place;
};

/// An operation in a stream.
struct queued {
  std::string name;
  std::function<cuda::status()> run;
  std::vector<touched_range> ranges;
  std::function<bool()> ready;    ///< false as long as it has to wait; may be empty
  std::function<void()> dropped;  ///< called instead of `run` if the context is broken
};

struct device_state;
/// A stream with its thread.
struct stream_state {
  std::uint64_t id = 0;
  device_state* device = nullptr;
  std::deque<queued> queue;
  std::uint64_t given = 0;  ///< number of the newest operation
  std::uint64_t ended = 0;  ///< number of the newest operation that has ended
  vector_clock clock;
  bool destroyed = false;
  bool captures = false;  ///< its library records what it gets
  bool posting = false;   ///< a communicator that uses it is not ready
  std::minstd_rand delays;
  std::condition_variable changed;
  std::thread thread;
};

struct event_state {
  device_state* device = nullptr;
  std::shared_ptr<stream_state> stream;
  std::uint64_t number = 0;
  vector_clock clock;
};

struct pool_state {
  device_state* device = nullptr;
};
struct allocation {
  std::size_t bytes = 0;
  device_state* device = nullptr;
};
struct library_state;
struct kernel_state;
/// A kernel in one context.
struct function_state {
  kernel_state* kernel = nullptr;
  device_state* device = nullptr;
};
struct kernel_state {
  library_state* library = nullptr;
  std::string name;
  function_facts facts;
  int max_dynamic_shared = 48 << 10;
  std::map<device_state*, std::unique_ptr<function_state>> functions;
};
struct library_state {
  module_id module = 0;
  std::size_t running = 0;  ///< launches that have not ended
  std::map<std::string, std::unique_ptr<kernel_state>, std::less<>> kernels;
};

struct graph_state;
struct graph_exec_state;

/// A device; its address is the handle of its primary context.
struct device_state {
  int number = 0;
  int retained = 0;
  std::size_t in_use = 0;
  cuda::status broken = cuda::status::success;
};

/// An error on demand.
struct planned_failure {
  unsigned left = 0;
  cuda::status outcome = cuda::status::success;
};

/// Everything. @threads{hold `mutex`}
struct world {
  std::mutex mutex;
  std::condition_variable ended;  ///< an operation has ended
  machine shown;
  std::shared_ptr<kernel_executor> executor;
  bool initialised = false;
  std::deque<device_state> devices;
  std::map<void*, std::shared_ptr<stream_state>> streams;
  /// Default streams of devices that were used; no objects of a program.
  std::map<device_state*, std::shared_ptr<stream_state>> default_streams;
  std::vector<std::shared_ptr<stream_state>> dying;  ///< destroyed, with a thread
  std::map<void*, std::unique_ptr<event_state>> events;
  std::map<void*, std::unique_ptr<pool_state>> pools;
  std::map<std::uintptr_t, allocation> memory;
  /// Allocations whose free the streams have not come to: kernels before it may use them.
  std::map<std::uintptr_t, allocation> leaving;
  std::map<std::uintptr_t, std::size_t> host;  ///< registered ranges
  std::map<void*, std::unique_ptr<library_state>> libraries;
  std::map<void*, std::shared_ptr<graph_state>> graphs;
  std::map<void*, std::shared_ptr<graph_exec_state>> graph_execs;
  std::set<std::uintptr_t> freed;  ///< freed allocations; `set_up` returns their memory
  std::vector<access> accesses;
  vector_clock host_clock;  ///< operations whose end the host knows
  std::size_t running_launches = 0;
  std::uint64_t next_stream = 1;
  std::vector<breach> breaches;
  std::map<std::string, unsigned, std::less<>> calls;
  std::map<std::string, planned_failure, std::less<>> failures;
  std::map<std::string, std::pair<unsigned, cuda::nccl_status>, std::less<>>
      nccl_failures;
  std::minstd_rand blocks;
};
/// Returns the one world, which is never destroyed.
[[nodiscard]] world& the_world();

/// Contexts of this thread; the last one is current.
extern thread_local std::vector<device_state*> context_stack;
/// True while this thread runs a host function.
extern thread_local bool inside_host_function;

/// Notes a breach. @threads{hold the mutex}
void report(std::string_view rule, std::string text);

/// Needs of a call before it begins.
enum class need : unsigned char { nothing, initialised, context };
/// The lock of a call, with the checks that all calls have in common.
class entered {
 public:
  entered(const char* function, need wanted);
  /// Returns the outcome with which the call has to return at once, or success.
  [[nodiscard]] cuda::status refused() const noexcept { return outcome_; }
  /// Returns the device of the current context.
  [[nodiscard]] device_state& device() const { return *context_stack.back(); }
  [[nodiscard]] std::unique_lock<std::mutex>& lock() noexcept { return lock_; }

 private:
  std::unique_lock<std::mutex> lock_;
  cuda::status outcome_ = cuda::status::success;
};

/// Returns the object with a handle, or null with a breach. @threads{hold the mutex}
template <class Table>
[[nodiscard]] auto* live(Table& table, void* handle, const char* function) {
  const auto found = table.find(handle);
  if (found == table.end()) {
    report("handle_live", std::string(function) + " got a handle that is not alive");
  }
  return found == table.end() ? nullptr : found->second.get();
}

/// Returns the stream with a handle if it belongs to the current context, or null with a
/// breach. @threads{hold the mutex}
[[nodiscard]] std::shared_ptr<stream_state> stream_of(void* handle, const char* function);
/// Adds an operation to a stream and checks its accesses. @threads{hold the mutex}
void enqueue(const std::shared_ptr<stream_state>& stream, queued made);
/// Compares accesses of an operation with all others that are known, and notes them.
/// @threads{hold the mutex}
void note_accesses(const stream_state& stream, std::uint64_t number,
                   const vector_clock& before, const std::string& name,
                   const std::vector<touched_range>& ranges,
                   const graph_place& place = {});
/// Returns true if an operation is known to come before what has the clock.
[[nodiscard]] bool comes_before(std::uint64_t stream, std::uint64_t number,
                                const vector_clock& clock);
/// Notes that the host knows of the end of operations. @threads{hold the mutex}
void host_knows(const vector_clock& clock);
/// Runs the operations of a stream until it is destroyed and empty.
void serve_stream(const std::shared_ptr<stream_state>& stream);
/// Waits for the threads of destroyed streams.
void join_dying();
/// Returns the allocation that contains all of a range, or null. @threads{hold the mutex}
[[nodiscard]] const allocation* allocation_at(std::uintptr_t first, std::size_t bytes);
/// Checks that bytes are in one allocation or in registered memory, and reports if they
/// are not. @threads{hold the mutex}
[[nodiscard]] bool on_device(const char* function, cuda::device_address first,
                             std::size_t bytes);
/// Checks a fill and reports what is wrong. @threads{hold the mutex}
[[nodiscard]] cuda::status check_fill(const char* function, const cuda::fill_node& fill);
/// Returns the range that a fill writes.
[[nodiscard]] touched_range range_of(const cuda::fill_node& fill) noexcept;
/// Fills memory.
void fill_now(const cuda::fill_node& fill) noexcept;
/// Returns true if a kernel that runs may use a range: memory of a device, or registered
/// memory of the host. @threads{hold the mutex}
[[nodiscard]] bool usable_by_kernels(std::uintptr_t first, std::size_t bytes);
/// Returns true if a registered range of the host contains all of a range.
/// @threads{hold the mutex}
[[nodiscard]] bool registered(std::uintptr_t first, std::size_t bytes);

/// Returns the number of communicators of NCCL. @threads{hold the mutex}
[[nodiscard]] std::size_t communicator_count();
/// Forgets all communicators. @threads{hold the mutex}
void forget_communicators();

/// Returns the functions that have to do with devices and contexts, memory, streams,
/// kernels, and graphs, each with its name.
struct named_function {
  const char* name;
  int version;
  void* function;
};
[[nodiscard]] std::vector<named_function> device_functions();
[[nodiscard]] std::vector<named_function> memory_functions();
[[nodiscard]] std::vector<named_function> stream_functions();
[[nodiscard]] std::vector<named_function> kernel_functions();
[[nodiscard]] std::vector<named_function> graph_functions();

}  // namespace weir::tessera::stand_in
