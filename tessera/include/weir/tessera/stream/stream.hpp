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

struct stream_options {
  int priority = 0;  ///< lower is more urgent
  int rank = -1;     ///< bound to this rank of the mesh; -1: to none
};

/// What one launch may have in common with the next: all but arguments and number.
struct launch_terms {
  std::uintptr_t kernel = 0;  ///< key of it
  std::array<std::int32_t, 3> grid{};
  std::array<std::int32_t, 3> block{};
  std::size_t shared_bytes = 0;
  bool persistent = false;
  tessDeterminism told{};  ///< but for the module's part, the number and the digest

  [[nodiscard]] bool operator==(const launch_terms& other) const noexcept {
    return kernel == other.kernel && grid == other.grid && block == other.block &&
           shared_bytes == other.shared_bytes && persistent == other.persistent &&
           std::memcmp(&told, &other.told, sizeof told) == 0;
  }
};

/// A point that can be recorded, waited for and recorded again.
/// @threads{safe from any thread}
class event {
 public:
  void set(ref<point> to) {
    const std::lock_guard lock(mutex_);
    latest_ = std::move(to);
  }
  /// Recorded in a stream of which nothing is under way.
  void set_over(doorbell& bell) {
    const std::lock_guard lock(mutex_);
    if (!latest_ || !latest_->sole() || !latest_->over_again(bell)) {
      latest_ = point::over_now(bell);
    }
  }
  enum class state : std::uint8_t { never_recorded, over, ahead };
  /// Whether there is anything to wait for.
  [[nodiscard]] state now() const {
    const std::lock_guard lock(mutex_);
    return !latest_                                ? state::never_recorded
           : latest_->over() && !latest_->captured ? state::over
                                                   : state::ahead;
  }
  [[nodiscard]] ref<point> latest() const {
    const std::lock_guard lock(mutex_);
    return latest_;
  }

 private:
  mutable std::mutex mutex_;
  ref<point> latest_;
};

/// @threads{safe from any thread; calls on one stream take effect in their order}
class stream : public std::enable_shared_from_this<stream> {
 public:
  /// @error{invalid_argument, no such rank}
  [[nodiscard]] static result<std::shared_ptr<stream>> make(
      std::shared_ptr<mesh> on, const stream_options& options);
  ~stream();

  /// A stream of the same mesh, rank, priority and number, for runs of a graph that this
  /// one has recorded a part of. @error{out_of_memory}
  [[nodiscard]] result<std::shared_ptr<stream>> stand_in() const;

  /// Puts an operation of the program behind all others.
  /// @error{invalid_argument, the stream is in a capture of another thread}
  [[nodiscard]] result<void> post(ref<operation> what);
  /// Records an event behind all other operations.
  /// @error{invalid_argument; the stream is in a capture of another thread}
  [[nodiscard]] result<void> post(event& into);
  /// @error{invalid_argument, the stream is in a capture that takes no calls of this
  /// thread}. With the session in hand.
  [[nodiscard]] result<void> check_caller();
  /// Puts an operation behind all others, whoever calls.
  void enqueue(ref<operation> what);
  /// As `enqueue`, with the session in hand and room made.
  void enqueue(submission_port::session& in, ref<operation> what);
  /// The same for points of the runtime's own: no recording gets them.
  void enqueue_beside(ref<operation> what);
  void enqueue_beside(submission_port::session& in, ref<operation> what);

  void record(event& into);
  /// The stream's next operations wait for the event's latest point, if it has one.
  /// @error{invalid_argument, it was recorded in a capture that the stream is not in, or
  /// outside of the capture that the stream is in}
  [[nodiscard]] result<void> wait(const event& for_) { return wait(for_.latest()); }
  /// The same for a point; null: for nothing.
  [[nodiscard]] result<void> wait(ref<point> p);
  /// The same for a point of the runtime's own, with the session in hand.
  void wait(submission_port::session& in, ref<point> p);
  /// Waits for everything enqueued before; then gives and forgets the first failure.
  /// `limit_ns` < 0: the stream's own limit. @error{timeout; what the failed one says}
  [[nodiscard]] result<void> synchronize(std::int64_t limit_ns = -1);
  /// True if all that was enqueued has ended. If one of these operations has failed, the
  /// first failure is returned, and `synchronize` will return it again. @error{what the
  /// failed one says}
  [[nodiscard]] result<bool> idle();
  /// Nothing more comes. What is enqueued still runs.
  void close();

  /// Holds all that comes until `proceed`: its predecessor will not end soon, and must
  /// not fill the engine's window. With the session in hand.
  void hold() noexcept { ++holds_; }
  void proceed(submission_port::session& in);

  /// Asks persistent kernels that were enqueued so far to stop, those too that have yet
  /// to start.
  void stop_persistent();
  /// Operation `number` runs from now on.
  void note_persistent(const std::shared_ptr<persistent_run>& run, std::uint64_t number);

  [[nodiscard]] const std::shared_ptr<mesh>& on() const noexcept { return mesh_; }
  [[nodiscard]] context& of() const noexcept { return *mesh_->of; }
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
  [[nodiscard]] const stream_options& options() const noexcept { return options_; }
  [[nodiscard]] unsigned lanes() const noexcept { return lanes_->devices(); }
  [[nodiscard]] lane_set& chain() noexcept { return *lanes_; }
  /// Whether a symmetric place has an instance for each of the stream's devices.
  [[nodiscard]] bool fits(const memory_place& place) const {
    const auto devices = place.memory->devices();
    return place.rank != 0 || std::equal(devices.begin(), devices.end(),
                                         mesh_->devices.begin(), mesh_->devices.end());
  }
  /// The lane whose device has the memory at this address, or nothing if it is an address
  /// that stands for each lane's own instance. `bytes` are touched from `at` on.
  [[nodiscard]] std::optional<touched_memory> owner_of(
      const std::optional<memory_place>& place, const void* at, std::size_t bytes,
      bool writes) const;
  /// Rank in the mesh of a lane.
  [[nodiscard]] int rank_of(unsigned lane) const noexcept {
    return options_.rank < 0 ? static_cast<int>(lane) : options_.rank;
  }
  [[nodiscard]] std::int32_t device_of(unsigned lane) const noexcept {
    return devices()[lane];
  }
  /// Ordinals of the devices of its lanes.
  [[nodiscard]] const std::int32_t* devices() const noexcept {
    return mesh_->devices.data() + rank_of(0);
  }

  /// What an operation is told of numbers that is made now: the part that policy,
  /// settings and program decide. `module_seed` counts where nobody says another.
  [[nodiscard]] tessDeterminism describe(const numerics_policy& policy,
                                         std::uint64_t module_seed = 0) const noexcept;
  /// Works the digest out.
  static void seal(tessDeterminism& d) noexcept;
  /// What the last launch or collective was told; zero if there was none.
  [[nodiscard]] tessDeterminism last_determinism() const;
  /// Seals it and keeps it as the last one.
  void note(tessDeterminism& d);
  /// Gives what launches on the same `terms` in a row share: `make()` if the last one was
  /// on others. Kept until the stream is synchronized. Once `accept` has taken it with
  /// the number of the launch, that is told as the last one. Null if `make` gives that.
  /// @error{what `make` and `accept` say}
  /// `counts`: the launch takes its number, which the next does not get.
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
    determinism_ = out->told;
    determinism_.ordinal = ordinals_;
    ordinals_ += counts ? 1 : 0;
    return out;
  }
  /// Takes so many numbers of launches; the first of them.
  [[nodiscard]] std::uint64_t take_ordinals(std::uint32_t count) {
    const std::lock_guard lock(small_mutex_);
    return std::exchange(ordinals_, ordinals_ + count);
  }
  /// Text of the failure that `synchronize` gave last.
  [[nodiscard]] std::string last_message() const;
  void note(const error& e);
  void set_limit(std::int64_t ns) noexcept { limit_ns_ = ns; }
  /// What it has of memory of its own; scratch has to fit into the rest.
  [[nodiscard]] const std::shared_ptr<memory_budget>& budget() const noexcept {
    return budget_;
  }

  /// What is enqueued goes into a recording besides running (or instead, if `only`).
  /// Null ends it. With the session in hand.
  void record_into(std::shared_ptr<graph_recording> recording, bool only);
  [[nodiscard]] const std::shared_ptr<graph_recording>& recording() const noexcept {
    return recording_;
  }
  [[nodiscard]] bool recording_only() const noexcept { return recording_only_; }
  /// It has a recording. @threads{safe from any thread, without the session}
  [[nodiscard]] bool records() const noexcept {
    return captures_.load(std::memory_order_acquire);
  }
  /// What a synchronization has closed, until it is forgotten.
  [[nodiscard]] const std::shared_ptr<graph_recording>& last_recording() const noexcept {
    return last_recording_;
  }
  void forget_recording() noexcept { last_recording_ = nullptr; }
  /// Enqueues a marker that carries out the waits which no operation has taken over yet.
  /// This is done before a capture begins, because what runs behind the capture has to
  /// wait for these events although the graph does not; and before a capture ends,
  /// because waits at its end are part of the graph.
  void flush_waits(submission_port::session& in);

 private:
  stream(std::shared_ptr<mesh> on, const stream_options& options)
      : mesh_(std::move(on)), options_(options) {}
  /// What has to be there before it can be given anything. @error{out_of_memory}
  [[nodiscard]] result<void> open();
  [[nodiscard]] result<void> mark(event& into, bool posted);
  void number(operation& what);
  void pass(submission_port::session& in, ref<operation> what);
  void admit(submission_port::session& in, ref<operation> what);
  /// Nothing of it is under way or to come, and no failure is left in it.
  [[nodiscard]] bool rests(submission_port::session& in);
  void forget_launches();
  /// The first point that it waits for and that is itself held back, or null.
  [[nodiscard]] static point* held_point(const operation& what);

  std::shared_ptr<mesh> mesh_;
  stream_options options_;
  std::uint64_t number_ = 0;
  std::unique_ptr<lane_set> lanes_;
  std::atomic<std::int64_t> limit_ns_{0};
  std::shared_ptr<memory_budget> budget_ = std::make_shared<memory_budget>();
  // Under the session.
  std::uint64_t operations_ = 0;
  unsigned holds_ = 0;
  bool proceeds_ = false;  ///< what is held back is being admitted
  bool closed_ = false;
  std::deque<ref<operation>> held_;
  std::vector<ref<point>> pending_waits_;
  ref<point> looked_for_;        ///< by `idle`
  std::uint64_t ended_ = 0;      ///< operations that a synchronization has seen end
  std::uint64_t looked_at_ = 0;  ///< operations then
  std::shared_ptr<graph_recording> recording_;
  bool recording_only_ = false;
  std::atomic<bool> captures_{false};  ///< `recording_` is set
  std::shared_ptr<graph_recording> last_recording_;
  // Under a mutex of their own.
  mutable std::mutex small_mutex_;
  std::string last_message_;
  tessDeterminism determinism_{};
  launch_terms launched_;  ///< of the last launch
  prepaid_refs launches_;  ///< what those on the same terms share
  /// Number of the next launch: part of what kernels draw random numbers from.
  std::uint64_t ordinals_ = 0;
  std::vector<std::weak_ptr<persistent_run>> persistent_;
  std::uint64_t stopped_ = 0;  ///< operations up to here are to stop
};

}  // namespace weir::tessera
