// SPDX-License-Identifier: Apache-2.0
/// @file
/// A stream: operations in order on the devices of a mesh, or on one rank of it.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "weir/tessera/stream/context.hpp"
#include "weir/tessera/stream/operation.hpp"
#include "weir/tessera/stream/point.hpp"

namespace weir::tessera {

class graph_recording;

/// Options of a stream.
struct stream_options {
  int priority = 0;  ///< below 0: its tasks go before those of other streams
  int rank = -1;  ///< rank of the mesh whose device it uses; -1: all devices of the mesh
};

/// Properties that a launch may share with the next: all but arguments and launch number.
struct launch_terms {
  std::uintptr_t kernel = 0;           ///< key of the kernel, see launch_request::key
  std::array<std::int32_t, 3> grid{};  ///< number of blocks in each direction
  /// Threads of a block in each direction, as requested.
  std::array<std::int32_t, 3> block{};
  std::size_t shared_bytes = 0;  ///< requested shared memory in bytes
  bool persistent = false;       ///< true: the kernel runs until it is asked to stop
  /// Numerics descriptor without the module's part, the launch number and the digest.
  tessDeterminism determinism{};

  /// Compares all members.
  [[nodiscard]] bool operator==(const launch_terms& other) const noexcept {
    return kernel == other.kernel && grid == other.grid && block == other.block &&
           shared_bytes == other.shared_bytes && persistent == other.persistent &&
           std::memcmp(&determinism, &other.determinism, sizeof determinism) == 0;
  }
};

/// A point that can be recorded, waited for and recorded again.
/// @threads{safe from any thread}
class event {
 public:
  /// Records a point.
  void set(ref<point> to) {
    const std::lock_guard lock(mutex_);
    latest_ = std::move(to);
  }
  /// Records a point that is already reached, for a stream without unfinished operations.
  void set_over(notifier& notifier) {
    const std::lock_guard lock(mutex_);
    if (!latest_ || !latest_->sole() || !latest_->over_again(notifier)) {
      latest_ = point::over_now(notifier);
    }
  }
  /// States of an event.
  enum class state : std::uint8_t { never_recorded, over, ahead };
  /// Returns the state. `over` means that its point was reached without a failure.
  [[nodiscard]] state now() const {
    const std::lock_guard lock(mutex_);
    return !latest_                                ? state::never_recorded
           : latest_->over() && !latest_->captured ? state::over
                                                   : state::ahead;
  }
  /// Returns the latest recorded point, or null.
  [[nodiscard]] ref<point> latest() const {
    const std::lock_guard lock(mutex_);
    return latest_;
  }

 private:
  mutable std::mutex mutex_;
  ref<point> latest_;
};

/// Operations in order on the devices of a mesh or on one rank of it.
/// @threads{safe from any thread; calls on one stream take effect in their order}
class stream : public std::enable_shared_from_this<stream> {
 public:
  /// Makes a stream on a mesh.
  /// @error{invalid_argument; the mesh has no such rank}
  /// @error{out_of_memory; no memory for its device chains}
  [[nodiscard]] static result<std::shared_ptr<stream>> make(
      std::shared_ptr<tessera::mesh> mesh, const stream_options& options);
  ~stream();

  /// Makes a stream of the same mesh, options and number, for runs of a graph that this
  /// stream has recorded a part of.
  /// @error{out_of_memory; no memory for its device chains}
  [[nodiscard]] result<std::shared_ptr<stream>> stand_in() const;

  /// Enqueues an operation of the program.
  /// @error{invalid_argument; the stream is in a capture of another thread}
  [[nodiscard]] result<void> post(ref<operation> operation);
  /// Records an event after all enqueued operations.
  /// @error{invalid_argument; the stream is in a capture of another thread}
  [[nodiscard]] result<void> post(event& into);
  /// Checks that the calling thread may enqueue. The caller holds the submission lock.
  /// @error{invalid_argument; the stream is in a capture that takes no calls of this
  /// thread}
  [[nodiscard]] result<void> check_caller();
  /// Enqueues an operation without checking the calling thread.
  void enqueue(ref<operation> operation);
  /// Enqueues an operation. The caller holds the submission lock and has called
  /// `reserve`.
  void enqueue(submission_lock::guard& in, ref<operation> operation);
  /// Enqueues a point of the runtime, which no recording gets.
  void enqueue_beside(ref<operation> operation);
  /// Enqueues a point of the runtime. The caller holds the submission lock and has called
  /// `reserve`.
  void enqueue_beside(submission_lock::guard& in, ref<operation> operation);

  /// Records an event without checking the calling thread.
  void record(event& into);
  /// Makes the next operations wait for the event's latest point, if there is one.
  /// @error{invalid_argument; the point was recorded in a capture that the stream is not
  /// in, or outside of the capture that the stream is in}
  [[nodiscard]] result<void> wait(const event& for_) { return wait(for_.latest()); }
  /// Makes the next operations wait for a point, if it is not null.
  /// @error{invalid_argument; as for an event}
  [[nodiscard]] result<void> wait(ref<point> p);
  /// Makes the next operation wait for a point of the runtime. The caller holds the
  /// submission lock.
  void wait(submission_lock::guard& in, ref<point> p);
  /// Waits for all enqueued operations, returns the first failure and clears all
  /// failures.
  /// Any operation's error may be returned. `limit_ns` < 0 means the stream's own limit,
  /// 0 means none. @units{nanoseconds}
  /// @error{timeout; the operations have not ended in time; they continue}
  /// @error{invalid_argument; the stream is in a capture, which is lost}
  [[nodiscard]] result<void> synchronize(std::int64_t limit_ns = -1);
  /// Returns true if all enqueued operations have ended. If one of them has failed, the
  /// first failure is returned, and `synchronize` will return it again. The error may
  /// have any code: that of the operation.
  [[nodiscard]] result<bool> idle();
  /// Ends the stream. It accepts no more operations; those that are enqueued still run.
  void close();

  /// Holds operations back until `proceed`. Used when a predecessor may take long, so
  /// that operations behind it do not fill the engine's window. The caller holds the
  /// submission lock.
  void hold() noexcept { ++holds_; }
  /// Undoes one `hold`, and submits the operations that were held back if it was the
  /// last.
  void proceed(submission_lock::guard& in);

  /// Asks the persistent kernels that were enqueued so far to stop, including those that
  /// have not started.
  void stop_persistent();
  /// Notes that the persistent kernel of operation `number` runs from now on.
  void note_persistent(const std::shared_ptr<persistent_run>& run, std::uint64_t number);

  /// Returns the mesh.
  [[nodiscard]] const std::shared_ptr<tessera::mesh>& mesh() const noexcept {
    return mesh_;
  }
  /// Returns the context.
  [[nodiscard]] tessera::context& context() const noexcept { return *mesh_->context; }
  /// Returns the number of the stream in its context, from 1 on.
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
  /// Returns the options.
  [[nodiscard]] const stream_options& options() const noexcept { return options_; }
  /// Returns the number of device chains: the ranks of the mesh, or 1 for a stream of one
  /// rank.
  [[nodiscard]] unsigned chain_count() const noexcept { return chains_->devices(); }
  /// Returns the device chains.
  [[nodiscard]] device_chains& chains() noexcept { return *chains_; }
  /// Returns true if a symmetric place has an instance for each of the stream's devices.
  [[nodiscard]] bool fits(const memory_place& place) const {
    const auto devices = place.memory->devices();
    return place.rank != 0 || std::equal(devices.begin(), devices.end(),
                                         mesh_->devices.begin(), mesh_->devices.end());
  }
  /// Returns the owner of `bytes` bytes from `address` on: the device chain whose device
  /// has them, or no device chain. Returns nothing for an address that stands for each
  /// device chain's own instance. `place` is the place of `address`.
  [[nodiscard]] std::optional<touched_memory> owner_of(
      const std::optional<memory_place>& place, const void* address, std::size_t bytes,
      bool writes) const;
  /// Returns the rank in the mesh of a device chain.
  [[nodiscard]] int rank_of(unsigned chain) const noexcept {
    return options_.rank < 0 ? static_cast<int>(chain) : options_.rank;
  }
  /// Returns the device ordinal of a device chain.
  [[nodiscard]] std::int32_t device_of(unsigned chain) const noexcept {
    return devices()[chain];
  }
  /// Returns the device ordinals of all device chains.
  [[nodiscard]] const std::int32_t* devices() const noexcept {
    return mesh_->devices.data() + rank_of(0);
  }

  /// Returns the numerics descriptor of an operation made now, without its own part.
  /// `module_seed` is the seed if neither settings nor program set one.
  [[nodiscard]] tessDeterminism describe(const numerics_policy& policy,
                                         std::uint64_t module_seed = 0) const noexcept;
  /// Sets the digest of a descriptor from its other members.
  static void seal(tessDeterminism& d) noexcept;
  /// Returns the descriptor of the last launch or collective, or zeros if there was none.
  [[nodiscard]] tessDeterminism last_determinism() const;
  /// Sets the digest of a descriptor and keeps it as the last one.
  void note(tessDeterminism& d);
  /// Returns the object that consecutive launches on equal `terms` share.
  /// Calls `make` if the last launch had other terms, and returns null if `make` does.
  /// The object is kept until the stream is synchronized. Then `accept` is called with
  /// the object and the number of the launch, which becomes the last one if `accept`
  /// succeeds. If `counts`, the next launch gets another number. Also returns the errors
  /// of `make` and `accept`.
  template <class T, class Make, class Accept>
  [[nodiscard]] result<ref<T>> shared_by_launches(const launch_terms& terms, bool counts,
                                                  Make&& make, Accept&& accept) {
    prepaid_refs before;
    const std::lock_guard lock(small_mutex_);
    if (!(launched_ == terms)) {
      WEIR_TRY(ref<T> made, make());
      if (!made) {
        return made;
      }
      before = std::exchange(launches_, prepaid_refs(std::move(made)));
      launched_ = terms;
    }
    ref<T> out = launches_.take<T>();
    WEIR_CHECK(accept(*out, ordinals_));
    determinism_ = out->determinism;
    determinism_.ordinal = ordinals_;
    ordinals_ += counts ? 1 : 0;
    return out;
  }
  /// Takes `count` consecutive launch numbers and returns the first.
  [[nodiscard]] std::uint64_t take_ordinals(std::uint32_t count) {
    const std::lock_guard lock(small_mutex_);
    return std::exchange(ordinals_, ordinals_ + count);
  }
  /// Returns the text of the last failure that `synchronize` returned, or an empty
  /// string.
  [[nodiscard]] std::string last_message() const;
  /// Keeps the text of a failure for `last_message`.
  void note(const error& e);
  /// Sets the limit of `synchronize`; 0 means none. @units{nanoseconds}
  void set_limit(std::int64_t ns) noexcept { limit_ns_ = ns; }
  /// Returns the limit and use of the stream's memory. Scratch must fit into the rest.
  [[nodiscard]] const std::shared_ptr<memory_budget>& budget() const noexcept {
    return budget_;
  }

  /// Records operations into `recording` while they run, or instead if `only`. Null ends
  /// the recording. The caller holds the submission lock.
  void record_into(std::shared_ptr<graph_recording> recording, bool only);
  /// Returns the recording, or null. The caller holds the submission lock.
  [[nodiscard]] const std::shared_ptr<graph_recording>& recording() const noexcept {
    return recording_;
  }
  /// Returns true if operations are recorded and do not run. The caller holds the
  /// submission lock.
  [[nodiscard]] bool recording_only() const noexcept { return recording_only_; }
  /// Returns true if the stream has a recording.
  /// @threads{safe from any thread, without the submission lock}
  [[nodiscard]] bool records() const noexcept {
    return captures_.load(std::memory_order_acquire);
  }
  /// Returns the recording that the last synchronization closed, or null if forgotten.
  [[nodiscard]] const std::shared_ptr<graph_recording>& last_recording() const noexcept {
    return last_recording_;
  }
  /// Forgets the recording that a synchronization closed.
  void forget_recording() noexcept { last_recording_ = nullptr; }
  /// Enqueues a marker that carries out the waits which no operation has taken over yet.
  /// This is done before a capture begins, because operations after the capture have to
  /// wait for these events although the graph does not; and before a capture ends,
  /// because waits at its end are part of the graph.
  void flush_waits(submission_lock::guard& in);

 private:
  stream(std::shared_ptr<tessera::mesh> mesh, const stream_options& options)
      : mesh_(std::move(mesh)), options_(options) {}
  /// Takes device chains and adds the stream to its mesh. @error{out_of_memory; no memory
  /// for device chains}
  [[nodiscard]] result<void> open();
  [[nodiscard]] result<void> mark(event& into, bool posted);
  void number(operation& operation);
  void pass(submission_lock::guard& in, ref<operation> operation);
  void admit(submission_lock::guard& in, ref<operation> operation);
  /// Returns true if no operation is unfinished or held back, and there is no failure.
  [[nodiscard]] bool rests(submission_lock::guard& in);
  void forget_launches();
  /// Returns the first point in `operation.waits` that has not been submitted, or null.
  [[nodiscard]] static point* held_point(const operation& operation);

  std::shared_ptr<tessera::mesh> mesh_;
  stream_options options_;
  std::uint64_t number_ = 0;
  std::unique_ptr<device_chains> chains_;
  std::atomic<std::int64_t> limit_ns_{0};
  std::shared_ptr<memory_budget> budget_ = std::make_shared<memory_budget>();
  /// Guarded by the submission lock.
  std::uint64_t operations_ = 0;
  unsigned holds_ = 0;
  bool proceeds_ = false;  ///< `proceed` is submitting operations
  bool closed_ = false;
  std::deque<ref<operation>> postponed_;
  std::vector<ref<point>> pending_waits_;
  ref<point> looked_for_;    ///< the last point that `idle` has enqueued
  std::uint64_t ended_ = 0;  ///< operations that are known to have ended
  /// Value of `operations_` when `looked_for_` was enqueued.
  std::uint64_t looked_at_ = 0;
  std::shared_ptr<graph_recording> recording_;
  bool recording_only_ = false;
  std::atomic<bool> captures_{false};  ///< true: `recording_` is set
  std::shared_ptr<graph_recording> last_recording_;
  /// Guarded by `small_mutex_`.
  mutable std::mutex small_mutex_;
  std::string last_message_;
  tessDeterminism determinism_{};
  launch_terms launched_;  ///< terms of the last launch
  prepaid_refs launches_;  ///< the object that launches on these terms share
  /// Number of the next launch. Random numbers of kernels depend on it.
  std::uint64_t ordinals_ = 0;
  std::vector<std::weak_ptr<persistent_run>> persistent_;
  /// Persistent kernels of operations up to this number are to stop.
  std::uint64_t stopped_ = 0;
};

}  // namespace weir::tessera
