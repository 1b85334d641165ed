// SPDX-License-Identifier: Apache-2.0
/// @file
/// A context: an engine, devices and their memory, policy, meshes and streams.
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

#include <fmt/format.h>

#include "weir/collective/choice.hpp"
#include "weir/collective/mesh.hpp"
#include "weir/collective/plan.hpp"
#include "weir/collective/tuner.hpp"
#include "weir/tessera/device/backend.hpp"
#include "weir/tessera/device/symmetric_memory.hpp"
#include "weir/tessera/module/loader.hpp"
#include "weir/tessera/stream/lane_set.hpp"
#include "weir/tessera/stream/memory_pool.hpp"
#include "weir/tessera/stream/operation.hpp"
#include "weir/tessera/stream/settings.hpp"
#include "weir/tessera/stream/submission_port.hpp"

namespace weir::tessera {

class context;
class doorbell;
class janitor;
class meeting_point;
class stream;
struct block_key;
struct block_trial;

/// Devices along axes. Rank r is position r in `devices`.
/// @threads{immutable but for its streams, which the session guards, and its pool}
struct mesh {
  mesh(std::shared_ptr<context> context_of, std::uint64_t number_of,
       std::span<const std::int32_t> ids, const collective::mesh_shape& s);

  std::shared_ptr<context> of;
  std::uint64_t number;  ///< of this mesh in its context; owner of its memory
  std::vector<std::int32_t> devices;
  collective::mesh_shape shape;
  std::vector<block_facts> places;  ///< by rank: what its blocks are told
  memory_pool pool;
  std::vector<std::weak_ptr<stream>> streams;
  bool gone = false;  ///< its ranks meet no more
  /// By rank: how often it has recovered from a failed collective. Under the session.
  std::vector<std::uint64_t> recoveries;
  /// By rank: how often it had recovered when its collectives were aborted, and one more;
  /// 0: they never were. Under the session.
  std::vector<std::uint64_t> aborted;

  /// The rank meets nobody until it recovers. With the session in hand.
  [[nodiscard]] bool is_aborted(std::size_t rank) const noexcept {
    return aborted[rank] == recoveries[rank] + 1;
  }

  [[nodiscard]] unsigned ranks() const noexcept {
    return static_cast<unsigned>(devices.size());
  }
};

/// Plans of collectives that have been made before.
/// @threads{safe from any thread}
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
  static constexpr std::size_t most = 256;
  using key =
      std::tuple<std::uint64_t, int, int, int, int, int, std::size_t, int, bool, bool>;
  std::mutex mutex_;
  std::map<key, std::shared_ptr<const collective::collective_plan>> plans_;
};

/// @threads{safe from any thread unless said otherwise}
class context : public std::enable_shared_from_this<context> {
 public:
  /// A context with an engine and workers of its own.
  /// @error{out_of_memory, no threads or no memory for the engine}
  /// @error{unsupported, a backend that is not there}
  [[nodiscard]] static result<std::shared_ptr<context>> make(runtime_settings settings);
  /// A context over an engine of the program, which outlives it. Whoever else submits to
  /// the engine holds a session of `port()` while doing so.
  [[nodiscard]] static result<std::shared_ptr<context>> over(runtime::engine& workers,
                                                             runtime_settings settings);
  ~context();

  /// Waits for all streams, stops persistent kernels, and lets go of all memory.
  /// @error{timeout, a persistent kernel does not stop}
  [[nodiscard]] result<void> shut_down();

  /// @error{invalid_argument, no device, one twice or out of range, or axes whose product
  /// is not the number of devices}
  [[nodiscard]] result<std::shared_ptr<mesh>> make_mesh(
      std::span<const std::int32_t> devices, const collective::mesh_axes& axes);
  /// Waits for the mesh's streams and frees its memory.
  void drop_mesh(const std::shared_ptr<mesh>& m);
  /// Meshes that somebody still has.
  [[nodiscard]] std::vector<std::shared_ptr<mesh>> open_meshes();
  /// Streams of the mesh that are there.
  [[nodiscard]] std::vector<std::shared_ptr<stream>> streams_of(const mesh& m);
  /// All that was enqueued on the mesh so far has ended. `limit_ns` < 0: no limit.
  [[nodiscard]] bool drain(const std::shared_ptr<mesh>& m, std::int64_t limit_ns);

  /// @error{determinism_violation, a locked policy}
  [[nodiscard]] result<void> set_policy(numerics_policy policy);
  [[nodiscard]] numerics_policy policy() const;
  /// What launches are told from now on: seed and toggles of `tessDeterminism`.
  /// @error{invalid_argument, toggles that are none; determinism_violation, a locked
  /// policy that wants all of them}
  [[nodiscard]] result<void> set_determinism(std::uint64_t seed, std::uint32_t toggles);
  /// Fills in what a program has set; leaves the rest.
  void tell(tessDeterminism& d) const noexcept;

  /// An instance of so many bytes on each device of the mesh; null for 0 bytes. If there
  /// is not enough, lets go of what pools keep and waits for what is about to be freed.
  /// @error{out_of_memory}
  [[nodiscard]] result<void*> allocate(const std::shared_ptr<mesh>& m, std::size_t bytes);
  /// The same from the pool of the stream's mesh; counts against the stream's limit. In a
  /// capture it is the graph's memory, for which see graph_memory.
  /// @error{out_of_memory; invalid_argument, a capture of another thread}
  [[nodiscard]] result<void*> allocate(stream& by, std::size_t bytes);
  /// Frees memory once all that its mesh's streams were given so far has ended.
  /// @error{invalid_argument, no memory of this mesh begins there, or a capture took it}
  [[nodiscard]] result<void> free_later(const std::shared_ptr<mesh>& m, void* at);
  /// The same behind what one stream was given so far. Memory of the pool goes there. In
  /// a capture the graph gives it back.
  /// @error{invalid_argument, as above; in a capture, memory that was not taken in it, or
  /// a capture of another thread}
  [[nodiscard]] result<void> free_later(stream& by, void* at);

  [[nodiscard]] const runtime_settings& settings() const noexcept { return settings_; }
  [[nodiscard]] device_backend& backend() const noexcept { return *backend_; }
  [[nodiscard]] symmetric_memory& memory() const noexcept { return *memory_; }
  [[nodiscard]] submission_port& port() noexcept { return *port_; }
  [[nodiscard]] doorbell& bell() noexcept { return *bell_; }
  [[nodiscard]] unsigned workers() const noexcept { return workers_; }
  [[nodiscard]] meeting_point& meetings() noexcept { return *meetings_; }
  [[nodiscard]] plan_cache& plans() noexcept { return plans_; }
  [[nodiscard]] janitor& cleaner() noexcept { return *cleaner_; }
  [[nodiscard]] collective::collective_tuner& tuner() noexcept { return *tuner_; }
  /// Of launches that leave their blocks to the runtime.
  [[nodiscard]] runtime::measured_choice<block_key, std::array<std::int32_t, 3>>&
  blocks() noexcept {
    return *blocks_;
  }
  /// Whether collectives and launches are measured under this policy.
  [[nodiscard]] bool measures(const numerics_policy& policy) const noexcept {
    return settings_.autotune.value_or(!policy.deterministic);
  }
  /// A collective or a launch that was a trial took so long.
  void took(const collective::tuning_trial& trial, std::int64_t ns);
  void took(const block_trial& trial, std::int64_t ns);

  /// Lanes for a stream, new or of one that has ended.
  [[nodiscard]] result<std::unique_ptr<lane_set>> take_lanes(unsigned devices);
  void return_lanes(std::unique_ptr<lane_set> lanes);
  [[nodiscard]] std::uint64_t next_stream() noexcept { return ++streams_; }

  /// Loads a module for the context's devices. Its plans for collectives count until
  /// `forget_module`, and so does its policy where the program has set none: that of the
  /// module last loaded, of those that have one. A load that fails changes nothing.
  /// Its errors are those of load_module.
  /// @error{invalid_argument; a plan along an unknown axis}
  [[nodiscard]] result<std::shared_ptr<const loaded_module>> load_module(
      bytes_view image);
  /// The program has unloaded it, though graphs and launches may keep its code.
  void forget_module(const loaded_module& what);
  /// What loaded modules propose for collectives along these axes.
  [[nodiscard]] std::vector<collective::collective_hint> hints(
      collective::axis_set axes) const;
  /// Null: there is none.
  [[nodiscard]] module_cache* cache() const noexcept { return cache_.get(); }

  /// Lets go of what the pools of all meshes keep.
  void trim_pools();
  /// Memory that programs have freed and that streams still use.
  [[nodiscard]] const late_releases& frees() const noexcept { return *frees_; }

  /// `by` hears of operations that are enqueued from now on, until `unobserve`.
  void observe(std::shared_ptr<operation_observer> by);
  void unobserve(const operation_observer* by);
  [[nodiscard]] bool observed() const noexcept {
    return observed_.load(std::memory_order_acquire);
  }
  /// For operations: whoever listens, or null.
  [[nodiscard]] std::shared_ptr<operation_observer> observer() const;

  /// A line of the log, if somebody reads its level. Not with a lock in hand: the
  /// program's callback may call the runtime.
  void log(log_level level, std::string_view text) const;
  /// The same; makes the line only then.
  template <class First, class... Rest>
  void log(log_level level, fmt::format_string<First, Rest...> text, First&& first,
           Rest&&... rest) const {
    if (logs(level)) {
      log(level, std::string_view(fmt::format(text, std::forward<First>(first),
                                              std::forward<Rest>(rest)...)));
    }
  }
  /// Somebody reads lines of this level: TESS_LOG_LEVEL asks for it, or there is a
  /// callback, which gets lines of the level `info` whatever the variable says.
  [[nodiscard]] bool logs(log_level level) const noexcept {
    return level <= settings_.log ||
           (settings_.on_log != nullptr && level <= log_level::info);
  }
  /// What went wrong while it was made, though it works without.
  [[nodiscard]] const std::vector<std::string>& warnings() const noexcept {
    return warnings_;
  }

 private:
  static constexpr std::uint32_t not_set = ~std::uint32_t{0};
  /// What a loaded module wants of the context.
  struct module_wishes {
    const loaded_module* of = nullptr;  ///< only compared
    std::optional<numerics_policy> policy;
    /// With the axes that each is for; none: any.
    std::vector<
        std::pair<std::optional<collective::axis_set>, collective::collective_hint>>
        hints;
  };
  [[nodiscard]] result<void*> allocate_in_capture(stream& by, std::size_t bytes);
  [[nodiscard]] result<void> free_in_capture(stream& by, void* at);
  [[nodiscard]] result<void> free_behind(stream& by, void* at);
  /// @error{invalid_argument, a capture that goes on took the memory there}
  [[nodiscard]] result<void> check_free(const mesh& m, const void* at) const;
  /// Sets the policy that modules ask for, unless the program has set one. With the
  /// mutex.
  void suggest_policy();
  explicit context(runtime_settings settings);
  /// Logs at this level, as long as the context is there.
  [[nodiscard]] std::function<void(std::string_view)> log_at(log_level level);
  /// Ends a context with an engine of its own, whichever thread let go of it last.
  static void destroy(context* what) noexcept;
  [[nodiscard]] result<void> open(runtime::engine& workers);

  runtime_settings settings_;
  std::unique_ptr<doorbell> bell_;
  std::shared_ptr<device_backend> backend_;
  std::unique_ptr<symmetric_memory> memory_;
  std::unique_ptr<submission_port> port_;
  std::unique_ptr<meeting_point> meetings_;
  plan_cache plans_;
  unsigned workers_ = 1;
  std::atomic<std::uint64_t> streams_{0};
  std::atomic<bool> observed_{false};
  std::atomic<std::uint64_t> seed_{0};
  std::atomic<std::uint32_t> toggles_{not_set};  ///< set behind the seed
  std::atomic<numerics_policy> policy_;          ///< set under the mutex
  mutable std::mutex mutex_;
  // Under the mutex.
  bool policy_set_ = false;
  std::uint64_t mesh_numbers_ = 0;
  std::vector<std::weak_ptr<mesh>> meshes_;
  std::vector<std::unique_ptr<lane_set>> spare_lanes_;
  std::vector<std::shared_ptr<operation_observer>> observers_;
  std::shared_ptr<operation_observer> listening_;  ///< stands for all of them
  std::vector<module_wishes> wishes_;              ///< in the order of loading
  std::unique_ptr<module_cache> cache_;
  std::unique_ptr<collective::collective_tuner> tuner_;
  std::unique_ptr<runtime::measured_choice<block_key, std::array<std::int32_t, 3>>>
      blocks_;
  trust_policy trust_;
  std::vector<std::string> warnings_;
  std::shared_ptr<late_releases> frees_ = std::make_shared<late_releases>();
  // Their threads use the rest, so they go first.
  std::unique_ptr<runtime::engine> own_engine_;
  std::unique_ptr<janitor> cleaner_;
};

}  // namespace weir::tessera
