// SPDX-License-Identifier: Apache-2.0
/// @file
/// What a context can be told: by a program, or by the environment once, when it is made.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weir/base/error.hpp"
#include "weir/tessera/device/memory_source.hpp"

namespace weir::tessera {

/// @source{Tessera Runtime & ABI, section 4.7}
struct alignas(4) numerics_policy {  // a word: read without a lock
  bool stable_reductions = true;
  bool deterministic = true;
  bool stateless_rng = true;
  bool fast_math = false;
  friend bool operator==(const numerics_policy&, const numerics_policy&) = default;

  /// 0 free order, 1 canonical tree, 2 correctly rounded sums.
  [[nodiscard]] int level() const noexcept {
    return !deterministic ? 0 : stable_reductions ? 2 : 1;
  }
};

/// Treatment of formats. @source{Tessera Runtime & ABI, 19.C}
enum class numerics_mode : std::uint8_t { standard, strict, promote, downcast };

enum class log_level : std::uint8_t { silent, info, debug, trace };

/// @source{Tessera Runtime & ABI, 19.C; docs/tessera.md, environment}
struct runtime_settings {
  std::string backend = "cpu";
  std::int32_t devices = 8;
  std::size_t device_memory = std::size_t{64} << 30;  ///< bytes of each
  unsigned threads = 0;                               ///< 0: as many as cores
  std::string topology;                               ///< "2x4": domains x ranks of each
  std::string algorithm;                              ///< forces that of collectives
  std::int64_t wait_limit_ms = 0;                     ///< of waits for a stream; 0: none
  std::int64_t rendezvous_limit_ms = 60'000;
  std::size_t stream_memory = 0;      ///< most of one stream, bytes; 0: no limit
  std::optional<std::uint64_t> seed;  ///< goes before that of a module
  numerics_mode numerics = numerics_mode::standard;
  std::optional<bool> autotune;
  numerics_policy policy;            ///< until a program sets another
  bool deterministic_floor = false;  ///< deterministic is 1 whatever a program sets
  bool lock_deterministic = false;   ///< setting it to 0 is an error
  bool lock_stable = false;
  bool lock_fast_math = false;
  bool verify_determinism = false;
  bool require_signed = false;
  std::string trusted_keys;
  std::string cache_folder;  ///< empty: no cache on disk
  bool cache_strict = false;
  bool code_from_cache = false;  ///< code of modules is loaded from the cache's files
  std::uint64_t profiler_records = std::uint64_t{1} << 18;  ///< most of one profiler
  log_level log = log_level::silent;
  memory_source source;  ///< of devices and of memory of the host; empty: the system
  /// Gets lines of the log; without it they go to standard error.
  std::function<void(log_level, std::string_view)> on_log;

  /// Names and values as they were resolved, for traces and people.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> listed() const;
};

/// Settings from TESS_* variables, as `variable(name)` gives them (null: not set). What
/// cannot be understood is left at its default, with a line in `warnings`, and so has
/// each name in `set` that begins with TESS_ and is none of these variables.
/// @error{unsupported, a backend that is not there}
[[nodiscard]] result<runtime_settings> read_settings(
    const std::function<const char*(const char*)>& variable,
    std::vector<std::string>& warnings, std::span<const std::string> set = {});

}  // namespace weir::tessera
