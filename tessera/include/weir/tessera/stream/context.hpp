// SPDX-License-Identifier: Apache-2.0
/// @file
/// A context: an engine, devices and their memory, a numerics policy, meshes and streams.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/core.h>

#include "weir/collective/choice.hpp"
#include "weir/collective/mesh.hpp"
#include "weir/collective/plan.hpp"
#include "weir/collective/tuner.hpp"
#include "weir/tessera/device/backend.hpp"
#include "weir/tessera/device/symmetric_memory.hpp"
#include "weir/tessera/module/loader.hpp"
#include "weir/tessera/stream/device_chains.hpp"
#include "weir/tessera/stream/memory_pool.hpp"
#include "weir/tessera/stream/operation.hpp"
#include "weir/tessera/stream/settings.hpp"
#include "weir/tessera/stream/submission_lock.hpp"

namespace weir::tessera {

class context;
class notifier;
class deferred_calls;
class group_collectives;
class group_table;
class meeting_point;
class stream;
struct block_key;
struct block_trial;

/// Devices along axes. Rank r is position r in `devices`.
/// @threads{immutable, except the pool, and the members that need the submission lock:
/// `streams`, `gone`, `recoveries` and `aborted`}
struct mesh {
  /// Makes a mesh of these devices. `number_of` is its number in the context.
  mesh(std::shared_ptr<tessera::context> context_of, std::uint64_t number_of,
       std::span<const std::int32_t> ids, const collective::mesh_shape& s);

  std::shared_ptr<tessera::context> context;  ///< the context
  std::uint64_t number;               ///< number in its context; owner of its memory
  std::vector<std::int32_t> devices;  ///< device ordinal of each rank
  collective::mesh_shape shape;       ///< names and sizes of the axes
  /// Position of each rank, as its kernels' blocks see it.
  std::vector<block_facts> places;
  memory_pool pool;  ///< memory that its streams take and return
  /// Streams that exist, and expired entries.
  std::vector<std::weak_ptr<stream>> streams;
  bool gone = false;  ///< true: ranks do not meet any more
  /// Number of recoveries of each rank from failed collectives. Needs the submission
  /// lock.
  std::vector<std::uint64_t> recoveries;
  /// For each rank, 1 + its number of recoveries when its collectives were last aborted;
  /// 0 if they never were. Needs the submission lock.
  std::vector<std::uint64_t> aborted;

  /// Returns true if the rank takes part in no collective until it recovers. The caller
  /// holds the submission lock.
  [[nodiscard]] bool is_aborted(std::size_t rank) const noexcept {
    return aborted[rank] == recoveries[rank] + 1;
  }

  /// Returns the number of ranks.
  [[nodiscard]] unsigned ranks() const noexcept {
    return static_cast<unsigned>(devices.size());
  }
};

/// Keeps plans of collectives for later calls. @threads{safe from any thread}
class plan_cache {
 public:
  /// Returns the plan of a call, which is made if it is new.
  /// @error{invalid_argument; see plan_collective} @error{unsupported; see
  /// plan_collective}
  /// @error{out_of_memory; no memory for the plan}
  [[nodiscard]] result<std::shared_ptr<const collective::collective_plan>> get(
      const collective::collective_call& call, int ranks,
      const collective::topology& shape, const collective::plan_options& options);

 private:
  static constexpr std::size_t max_plans = 256;
  using key =
      std::tuple<std::uint64_t, int, int, int, int, int, std::size_t, int, bool, bool>;
  std::mutex mutex_;
  std::map<key, std::shared_ptr<const collective::collective_plan>> plans_;
};

/// Devices, memory and settings that meshes and streams share.
/// @threads{safe from any thread unless said otherwise}
class context : public std::enable_shared_from_this<context> {
 public:
  /// Makes a context with its own engine and workers.
  /// @error{out_of_memory; no threads or no memory for the engine}
  /// @error{invalid_argument; settings without devices or memory, trusted keys that
  /// cannot be read, or in strict mode a cache folder that cannot be used}
  /// @error{unsupported; the backend "cuda" without a driver, with one that is too old,
  /// or without a device}
  [[nodiscard]] static result<std::shared_ptr<context>> make(runtime_settings settings);
  /// Makes a context over an engine of the program, which outlives it. Others that submit
  /// to the engine hold `submission_lock()` while they do. Also returns the
  /// errors of `make`.
  [[nodiscard]] static result<std::shared_ptr<context>> over(runtime::engine& workers,
                                                             runtime_settings settings);
  ~context();

  /// Stops persistent kernels, waits for all streams and frees all memory.
  /// @error{timeout; a stream does not end within 5 s, for example because its persistent
  /// kernel does not stop}
  [[nodiscard]] result<void> shut_down();

  /// Makes a mesh of devices. Device i of the list is rank i.
  /// @error{invalid_argument; no device, a device twice or out of range, or axes whose
  /// product is not the number of devices}
  [[nodiscard]] result<std::shared_ptr<mesh>> make_mesh(
      std::span<const std::int32_t> devices, const collective::mesh_axes& axes);
  /// Waits for the mesh's streams and frees its memory. Its ranks do not meet any more.
  void drop_mesh(const std::shared_ptr<mesh>& m);
  /// Returns the meshes that are in use.
  [[nodiscard]] std::vector<std::shared_ptr<mesh>> open_meshes();
  /// Returns the streams of a mesh that exist.
  [[nodiscard]] std::vector<std::shared_ptr<stream>> streams_of(const mesh& m);
  /// Waits until all operations enqueued so far on a mesh have ended. Returns false if
  /// `limit_ns` nanoseconds have passed before; a negative limit means none.
  [[nodiscard]] bool drain(const std::shared_ptr<mesh>& m, std::int64_t limit_ns);

  /// Sets the numerics policy. Policies of modules have no effect afterwards.
  /// @error{determinism_violation; the policy lacks a property that is locked}
  [[nodiscard]] result<void> set_policy(numerics_policy policy);
  /// Returns the policy that applies: the set one, with the limits of the settings.
  [[nodiscard]] numerics_policy policy() const;
  /// Sets the seed and the stable toggles of `tessDeterminism` for later operations.
  /// @error{invalid_argument; unknown toggles}
  /// @error{determinism_violation; not all toggles while stable reductions are locked}
  [[nodiscard]] result<void> set_determinism(std::uint64_t seed, std::uint32_t toggles);
  /// Writes the seed and toggles into `d` if the program has set them.
  void write_determinism(tessDeterminism& d) const noexcept;

  /// Allocates an instance on each device of the mesh. Returns null for 0 bytes.
  /// If devices are out of memory, frees the memory that pools keep, waits for memory
  /// that streams still use, and tries once more. @units{bytes}
  /// @error{out_of_memory; a device has not enough}
  [[nodiscard]] result<void*> allocate(const std::shared_ptr<mesh>& m, std::size_t bytes);
  /// Allocates from the pool of the stream's mesh, within the stream's limit. Returns
  /// null for 0 bytes. In a capture the memory belongs to the graph, see graph_memory.
  /// @units{bytes}
  /// @error{out_of_memory; a device has not enough, or the stream's limit leaves less}
  /// @error{invalid_argument; a capture of another thread, or one that ends meanwhile}
  [[nodiscard]] result<void*> allocate(stream& by, std::size_t bytes);
  /// Frees memory after all operations that the mesh's streams have now.
  /// @error{invalid_argument; no memory of this mesh begins there, or a capture took it}
  [[nodiscard]] result<void> free_later(const std::shared_ptr<mesh>& m, void* address);
  /// Frees memory after all operations that one stream has now. The memory goes to the
  /// pool. In a capture the graph returns it.
  /// @error{invalid_argument; no memory of this mesh begins there, a capture took it, or
  /// in a capture: memory that was not taken in it, or a capture of another thread}
  [[nodiscard]] result<void> free_later(stream& by, void* address);

  /// Returns the settings.
  [[nodiscard]] const runtime_settings& settings() const noexcept { return settings_; }
  /// Returns the backend.
  [[nodiscard]] device_backend& backend() const noexcept { return *backend_; }
  /// Returns the collectives that run on these devices, which live as long as the
  /// context; null if there are none. They are made at the first call unless `find_only`.
  [[nodiscard]] group_collectives* collectives_on(std::span<const std::int32_t> devices,
                                                  bool level_0, bool find_only = false);
  /// Returns the table of memory.
  [[nodiscard]] symmetric_memory& memory() const noexcept { return *memory_; }
  /// Returns the lock of the engine.
  [[nodiscard]] tessera::submission_lock& submission_lock() noexcept {
    return *submission_lock_;
  }
  /// Returns the notifier for threads that wait for streams.
  [[nodiscard]] tessera::notifier& notifier() noexcept { return *notifier_; }
  /// Returns the number of workers.
  [[nodiscard]] unsigned workers() const noexcept { return workers_; }
  /// Returns the object in which shares of ranks meet.
  [[nodiscard]] meeting_point& meetings() noexcept { return *meetings_; }
  /// Returns the plans of collectives.
  [[nodiscard]] plan_cache& plans() noexcept { return plans_; }
  /// Returns the thread for work that workers must not wait for.
  [[nodiscard]] deferred_calls& deferred() noexcept { return *deferred_; }
  /// Returns the times and choices of collectives.
  [[nodiscard]] collective::collective_tuner& tuner() noexcept { return *tuner_; }
  /// Returns the times and choices of blocks, for launches that let the runtime choose.
  [[nodiscard]] runtime::measured_choice<block_key, std::array<std::int32_t, 3>>&
  blocks() noexcept {
    return *blocks_;
  }
  /// Returns true if collectives and launches are measured under this policy.
  [[nodiscard]] bool measures(const numerics_policy& policy) const noexcept {
    return settings_.autotune.value_or(!policy.deterministic);
  }
  /// Reports the time of a collective that was a trial. @units{nanoseconds}
  void took(const collective::tuning_trial& trial, std::int64_t ns);
  /// Reports the time of a launch that was a trial. @units{nanoseconds}
  void took(const block_trial& trial, std::int64_t ns);

  /// Returns device chains for a stream: unused ones of an ended stream, or new ones.
  /// @error{out_of_memory; no memory for the device chains}
  [[nodiscard]] result<std::unique_ptr<device_chains>> take_chains(unsigned devices);
  /// Takes the device chains of an ended stream for later streams and clears their
  /// failures.
  void return_chains(std::unique_ptr<device_chains> chains);
  /// Returns the number of a new stream, from 1 on.
  [[nodiscard]] std::uint64_t next_stream() noexcept { return ++streams_; }

  /// Loads a module for the context's devices. A load that fails changes nothing.
  /// Its plans for collectives count until `forget_module`. If the program has set no
  /// policy, the policy of the last loaded module that has one applies. Other errors are
  /// those of load_module.
  /// @error{invalid_argument; a plan along an unknown axis}
  [[nodiscard]] result<std::shared_ptr<const loaded_module>> load_module(
      bytes_view image);
  /// Removes a module's plans and policy, because the program has unloaded it. Graphs and
  /// launches may still hold its code.
  void forget_module(const loaded_module& module);
  /// Returns the proposals of loaded modules for collectives along these axes.
  [[nodiscard]] std::vector<collective::collective_hint> hints(
      collective::axis_set axes) const;
  /// Returns the cache on disk, or null.
  [[nodiscard]] module_cache* cache() const noexcept { return cache_.get(); }

  /// Frees the memory that the pools of all meshes keep.
  void trim_pools();
  /// Returns the counter of memory that is freed and that streams still use.
  [[nodiscard]] const late_releases& frees() const noexcept { return *frees_; }

  /// Adds an observer of operations that are enqueued from now on and of calls.
  void observe(std::shared_ptr<operation_observer> by);
  /// Removes an observer. Operations enqueued before may still report to it.
  void unobserve(const operation_observer* by);
  /// Returns true if there is an observer.
  [[nodiscard]] bool observed() const noexcept {
    return observed_.load(std::memory_order_acquire);
  }
  /// Returns an object that passes reports on to all observers, or null if there is none.
  [[nodiscard]] std::shared_ptr<operation_observer> observer() const;

  /// Writes a line to the log if `logs(level)`. The caller holds no lock, because the
  /// program's callback may call the runtime.
  void log(log_level level, std::string_view text) const;
  /// Formats and writes a line to the log if `logs(level)`. The caller holds no lock.
  template <class First, class... Rest>
  void log(log_level level, fmt::format_string<First, Rest...> text, First&& first,
           Rest&&... rest) const {
    if (logs(level)) {
      log(level, std::string_view(fmt::format(text, std::forward<First>(first),
                                              std::forward<Rest>(rest)...)));
    }
  }
  /// Returns true if lines of this level are written: the settings ask for them, or there
  /// is a callback, which gets lines up to the level `info` in any case.
  [[nodiscard]] bool logs(log_level level) const noexcept {
    return level <= settings_.log ||
           (settings_.on_log != nullptr && level <= log_level::info);
  }
  /// Returns the problems found while the context was made that did not prevent it.
  [[nodiscard]] const std::vector<std::string>& warnings() const noexcept {
    return warnings_;
  }

 private:
  static constexpr std::uint32_t not_set = ~std::uint32_t{0};
  /// Policy and proposals of a loaded module.
  struct module_wishes {
    const loaded_module* module = nullptr;  ///< the module, for comparisons only
    std::optional<numerics_policy> policy;
    /// Proposals, each with the axes that it is for; unset: any axes.
    std::vector<
        std::pair<std::optional<collective::axis_set>, collective::collective_hint>>
        hints;
  };
  [[nodiscard]] result<void*> allocate_in_capture(stream& by, std::size_t bytes);
  [[nodiscard]] result<void> free_in_capture(stream& by, void* address);
  [[nodiscard]] result<void> free_behind(stream& by, void* address);
  /// Checks that the program may free the memory.
  /// @error{invalid_argument; an unfinished capture took the memory}
  [[nodiscard]] result<void> check_free(const mesh& m, const void* address) const;
  /// Sets the policy that modules ask for, unless the program has set one. The caller
  /// holds the mutex.
  void suggest_policy();
  explicit context(runtime_settings settings);
  /// Returns a function that logs at this level while the context exists.
  [[nodiscard]] std::function<void(std::string_view)> log_at(log_level level);
  /// Destroys a context with an engine of its own. On a worker it uses another thread.
  static void destroy(context* dropped) noexcept;
  [[nodiscard]] result<void> open(runtime::engine& workers);
  /// Opens the devices that the settings name. Errors are those of the backend.
  [[nodiscard]] result<void> open_devices();

  runtime_settings settings_;
  std::unique_ptr<tessera::notifier> notifier_;
  std::shared_ptr<device_backend> backend_;
  device_loader device_code_;  ///< loads code for devices that are no processors
  std::unique_ptr<group_table> groups_;  ///< collectives on devices
  std::unique_ptr<symmetric_memory> memory_;
  std::unique_ptr<tessera::submission_lock> submission_lock_;
  std::unique_ptr<meeting_point> meetings_;
  plan_cache plans_;
  unsigned workers_ = 1;
  std::atomic<std::uint64_t> streams_{0};
  std::atomic<bool> observed_{false};
  std::atomic<std::uint64_t> seed_{0};
  std::atomic<std::uint32_t> toggles_{not_set};  ///< written after the seed
  std::atomic<numerics_policy> policy_;          ///< written under the mutex
  mutable std::mutex mutex_;
  // Under the mutex.
  bool policy_set_ = false;
  std::uint64_t mesh_numbers_ = 0;
  std::vector<std::weak_ptr<mesh>> meshes_;
  std::vector<std::unique_ptr<device_chains>> spare_chains_;
  std::vector<std::shared_ptr<operation_observer>> observers_;
  std::shared_ptr<operation_observer> listening_;  ///< passes reports on to all observers
  std::vector<module_wishes> wishes_;              ///< in the order of loading
  std::unique_ptr<module_cache> cache_;
  std::unique_ptr<collective::collective_tuner> tuner_;
  std::unique_ptr<runtime::measured_choice<block_key, std::array<std::int32_t, 3>>>
      blocks_;
  trust_policy trust_;
  std::vector<std::string> warnings_;
  std::shared_ptr<late_releases> frees_ = std::make_shared<late_releases>();
  /// The threads of these members use the other members, so these are destroyed first.
  std::unique_ptr<runtime::engine> own_engine_;
  std::unique_ptr<deferred_calls> deferred_;
};

}  // namespace weir::tessera
