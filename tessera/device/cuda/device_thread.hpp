// SPDX-License-Identifier: Apache-2.0
/// @file
/// The thread of one device. It alone calls the driver for the device: it gives work to
/// streams, asks events whether work has ended, and calls completions.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "device/cuda/driver_api.hpp"
#include "device/cuda/host_memory.hpp"
#include "device/cuda/launch_facts.hpp"
#include "weir/tessera/device/backend.hpp"

namespace weir::tessera::cuda {

/// Code of a kernel, to which kernel_code::entry points.
struct device_kernel {
  std::string name;                        ///< name of the kernel
  std::vector<std::uint32_t> places;       ///< offsets of the parameters in the buffer
  std::size_t argument_bytes = 0;          ///< smallest size of the buffer
  std::vector<kernel_handle> kernels;      ///< one for each device
  std::vector<function_handle> functions;  ///< one for each device
  /// For each device, 1 if the driver says that the kernel does not take `launch_facts`.
  std::vector<unsigned char> without_facts;
  /// For each device, the shared memory in bytes that launches may ask for; used by the
  /// thread of the device alone.
  mutable std::vector<std::size_t> shared_limits;
};
/// Returns the entry that stands for a kernel.
[[nodiscard]] inline void (*entry_of(const device_kernel& kernel))() {
  return reinterpret_cast<void (*)()>(const_cast<device_kernel*>(&kernel));
}

/// Facts that the threads of all devices share.
struct device_family {
  driver from;                           ///< the driver
  std::vector<device_number> numbers;    ///< the devices
  std::vector<context_handle> contexts;  ///< their primary contexts
  pinned_ranges pinned;                  ///< registered memory of the host
  std::size_t staging_bytes = 0;         ///< size of a staging buffer
  std::size_t staging_buffers = 0;       ///< number of staging buffers of a device
  std::size_t max_launches = 0;          ///< largest number of operations in a stream
  std::int64_t stop_limit_ns = 0;        ///< time for kernels to end
};

/// An operation that the driver has been given, or that waits for its event.
struct operation {
  completion done;                     ///< called with the outcome; may be empty
  std::function<void(bool)> at_end;    ///< called before, with true for success
  std::optional<error> failure;        ///< error of a later part of the operation
  std::string label;                   ///< names the operation in errors
  kernel_report* report = nullptr;     ///< report of a kernel
  std::array<std::int32_t, 3> grid{};  ///< extents of the grid of a kernel
};

/// A stream with the operations that have not ended.
struct driver_stream {
  /// Operations behind which one event was recorded.
  struct flight {
    event_handle event = nullptr;
    std::vector<operation> operations;
  };
  stream_handle stream = nullptr;
  std::vector<operation> batch;  ///< operations without an event yet
  std::deque<flight> flights;    ///< operations with events, in order
  std::size_t outstanding = 0;   ///< number of operations that have not ended
  unsigned failed_queries = 0;   ///< calls for events that have failed in a row
  bool once = false;             ///< the stream is destroyed when its operation has ended
  bool native = false;  ///< the stream is one of another library, and not destroyed
};

/// A copy through staging buffers.
struct staged_copy {
  copy_work work;
  completion done;
  std::size_t issued = 0;  ///< bytes that were given to the stream
  std::size_t ended = 0;   ///< bytes that have arrived
  std::optional<error> failure;
};

/// State of a persistent kernel, shared by its handle and the thread of its device.
class persistent_state {
 public:
  /// Sets the word that asks the kernel to stop.
  void attach(std::uint32_t* stop_word);
  /// Asks the kernel to stop.
  void request_stop() noexcept;
  /// Sets the outcome; the word is not used any more.
  void finish(result<void> outcome);
  /// Returns true if the kernel has ended.
  [[nodiscard]] bool ended() const noexcept;
  /// See persistent_run::wait.
  [[nodiscard]] result<void> wait(std::int64_t limit_ns);

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint32_t* stop_word_ = nullptr;
  bool stop_requested_ = false;
  std::optional<result<void>> outcome_;
};

/// The thread of a device and everything that it owns.
/// @threads{public functions: safe from any thread}
class device_thread {
 public:
  /// Starts the thread and opens the device. `family` outlives the object.
  /// @error{unsupported; the device lacks a function} and errors of the driver
  [[nodiscard]] static result<std::unique_ptr<device_thread>> open(device_family& family,
                                                                   std::int32_t ordinal);
  /// Asks persistent kernels to stop, waits for all work for a bounded time, frees all
  /// memory and ends the thread.
  ~device_thread();
  device_thread(const device_thread&) = delete;
  device_thread& operator=(const device_thread&) = delete;

  /// Returns the properties of the device.
  [[nodiscard]] const device_properties& properties() const noexcept { return facts_; }
  /// Returns the capability of the device: 10 * major + minor.
  [[nodiscard]] int capability() const noexcept { return capability_; }
  /// Gives work to the device. `done` is called exactly once.
  void submit(const device_work& work, completion done);
  /// Runs a function on the thread and waits for its outcome. If the device is lost, the
  /// function runs only if `even_if_lost` is set.
  /// @error{invalid_argument; called by a completion} @error{device_lost; see above}
  [[nodiscard]] result<void> call(const std::function<result<void>()>& function,
                                  bool even_if_lost = false);
  /// Runs a function on the thread, later and in the order of these calls.
  void post(std::function<void()> function);
  /// Returns true on the thread of a device.
  [[nodiscard]] static bool is_current() noexcept;
  /// Allocates memory and waits until every stream may use it.
  [[nodiscard]] result<std::byte*> allocate(std::size_t bytes);
  /// Frees memory of `allocate`, later.
  void free(std::byte* address);
  /// Starts a persistent kernel.
  [[nodiscard]] result<std::shared_ptr<persistent_state>> start(const grid_launch& launch,
                                                                completion done);
  /// Makes a graph of the driver. See device_backend::make_graph. The device has to
  /// outlive the graph.
  [[nodiscard]] result<std::shared_ptr<device_graph>> make_graph(
      std::span<const graph_piece> pieces);
  /// Calls `done` when what a stream of another library has now has ended.
  /// @error{invalid_argument; the stream does not belong to the primary context}
  [[nodiscard]] result<void> follow(stream_handle native, completion done);
  /// Returns the error with which the device was lost, if it was.
  [[nodiscard]] std::optional<error> lost() const;

 private:
  using reply = std::function<void(result<void>)>;
  device_thread(device_family& family, std::int32_t ordinal)
      : family_(family), api_(family.from.api), ordinal_(ordinal) {}

  // device_thread.cpp: the thread and its queue
  [[nodiscard]] result<void> ask(const std::function<void(reply)>& question);
  void serve();
  [[nodiscard]] bool take_posted();
  [[nodiscard]] bool step();
  void rest(bool moved);
  void deliver();
  [[nodiscard]] bool busy() const noexcept;

  // device_open.cpp: opening and closing
  [[nodiscard]] result<void> open_here();
  [[nodiscard]] result<void> read_properties();
  [[nodiscard]] result<void> make_streams();
  [[nodiscard]] result<void> make_pool();
  [[nodiscard]] result<void> make_slab();
  void close_here();
  void close_busy();

  // device_work.cpp: giving work to streams
  [[nodiscard]] bool issue_next();
  [[nodiscard]] bool issue_copy(const copy_work& work, completion& done);
  [[nodiscard]] bool issue_fill(const fill_work& work, completion& done);
  [[nodiscard]] bool issue_launch(const grid_launch& launch, completion& done);
  [[nodiscard]] bool issue_graph(const graph_work& work, completion& done);
  [[nodiscard]] bool issue_staged();
  void issue_piece(const std::shared_ptr<staged_copy>& copy, std::size_t buffer);
  [[nodiscard]] static std::vector<fill_node> parts_of(const fill_work& work);
  [[nodiscard]] status fill_stream(stream_handle stream, const fill_work& work,
                                   bool& begun);
  [[nodiscard]] status allow_shared(const grid_launch& launch);
  [[nodiscard]] status launch_on(stream_handle stream, const grid_launch& launch,
                                 launch_facts& facts, bool cooperative);
  [[nodiscard]] driver_stream* free_stream(std::size_t first, std::size_t last) noexcept;
  [[nodiscard]] launch_facts facts_of(const grid_launch& launch) const noexcept;

  // device_graphs.cpp: graphs of the driver
  [[nodiscard]] result<std::shared_ptr<device_graph>> record_graph(
      std::span<const graph_piece> pieces);
  [[nodiscard]] status add_pieces(graph_handle graph,
                                  std::span<const graph_piece> pieces);
  [[nodiscard]] status add_piece(graph_handle graph, const device_work& work,
                                 std::vector<graph_node_handle> after,
                                 graph_node_handle& last);
  [[nodiscard]] status add_kernel(graph_handle graph, const grid_launch& launch,
                                  const std::vector<graph_node_handle>& after,
                                  graph_node_handle& made);

  // device_persistent.cpp: persistent kernels
  [[nodiscard]] result<void> check_persistent(const grid_launch& launch,
                                              const std::string& label);
  [[nodiscard]] result<void> issue_persistent(
      const grid_launch& launch, const std::shared_ptr<persistent_state>& state,
      completion done);
  [[nodiscard]] status launch_persistent(stream_handle stream, const grid_launch& launch,
                                         launch_facts& facts);
  [[nodiscard]] error returned_or_lost(status s, const std::string& label);

  // device_events.cpp: ends of work and loss of the device
  void give(driver_stream& to, operation made, status outcome, bool begun);
  void close_batches();
  [[nodiscard]] bool poll();
  [[nodiscard]] bool poll(driver_stream& l);
  void end(operation& ended);
  void end_failed(operation& ended, const error& failure);
  void lose(status s, const std::string& label);
  void fail_everything();
  [[nodiscard]] error closed_too_early() const;
  [[nodiscard]] event_handle take_event(status& outcome);
  [[nodiscard]] std::string outstanding_labels() const;

  device_family& family_;
  const driver_api& api_;
  const std::int32_t ordinal_;
  device_properties facts_;
  int capability_ = 0;
  int multiprocessors_ = 0;

  mutable std::mutex mutex_;  ///< guards the members up to the next comment
  std::condition_variable changed_;
  std::deque<std::function<void()>> calls_;
  std::deque<std::pair<device_work, completion>> inbox_;
  bool stopping_ = false;
  std::optional<error> lost_;

  // Members of the thread alone.
  bool is_lost_ = false;
  context_handle context_ = nullptr;
  pool_handle pool_ = nullptr;
  std::list<driver_stream> streams_;  ///< allocation, to the device, to the host, kernels
  std::vector<driver_stream*> fixed_;
  std::deque<std::pair<device_work, completion>> waiting_;
  std::deque<std::shared_ptr<staged_copy>> staged_;
  std::vector<event_handle> events_;  ///< events that are not in use
  std::set<std::byte*> allocations_;
  std::vector<std::pair<completion, result<void>>> ended_;
  std::vector<std::shared_ptr<persistent_state>> persistent_;
  host_pages slab_;  ///< reports, stop words, staging buffers
  bool slab_registered_ = false;
  device_address slab_address_ = 0;
  std::vector<std::uint32_t> free_reports_;
  std::vector<std::uint32_t> free_stop_words_;
  std::vector<std::size_t> free_buffers_;
  unsigned idle_steps_ = 0;

  std::thread thread_;
};

}  // namespace weir::tessera::cuda
