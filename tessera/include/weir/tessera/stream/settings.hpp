// SPDX-License-Identifier: Apache-2.0
/// @file
/// Settings of a context, from a program or, when the context is made, from the
/// environment.
/// @threads{values; the functions are safe to call concurrently if `variable` is}
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
#include "weir/tessera/device/allocator.hpp"

namespace weir::tessera {

/// Freedom that kernels and collectives have with numbers.
/// @source{Tessera Runtime & ABI, section 4.7}
struct alignas(4) numerics_policy {  // a word: read without a lock
  bool stable_reductions = true;     ///< stable softmax and sums
  bool deterministic = true;         ///< equal bits in every run
  bool stateless_rng = true;         ///< random numbers follow from seed and position
  bool fast_math = false;            ///< narrower types and reordering are permitted
  friend bool operator==(const numerics_policy&, const numerics_policy&) = default;

  /// Returns 0 for free order, 1 for the canonical tree, 2 for correctly rounded sums.
  [[nodiscard]] int level() const noexcept {
    return !deterministic ? 0 : stable_reductions ? 2 : 1;
  }
};

/// Treatment of formats. @source{Tessera Runtime & ABI, 19.C}
enum class numerics_mode : std::uint8_t { standard, strict, promote, downcast };

/// Levels of lines in the log.
enum class log_level : std::uint8_t { silent, info, debug, trace };

/// Settings of a context. @source{Tessera Runtime & ABI, 19.C; docs/tessera.md,
/// environment}
struct runtime_settings {
  /// Name of the backend: "cpu", or "cuda" for the GPUs that the driver shows.
  std::string backend = "cpu";
  std::int32_t devices = 8;  ///< number of devices of the backend "cpu"
  /// Memory of each device of the backend "cpu" in bytes.
  std::size_t device_memory = std::size_t{64} << 30;
  unsigned threads = 0;            ///< workers; 0: as many as cores
  std::string topology;            ///< domains and ranks of each: "2x4"
  std::string algorithm;           ///< algorithm of all collectives; empty: chosen
  std::int64_t wait_limit_ms = 0;  ///< limit of waits for a stream; 0: none
  std::int64_t rendezvous_limit_ms = 60'000;  ///< limit of ranks that wait for others
  std::size_t stream_memory = 0;      ///< memory limit of a stream in bytes; 0: none
  std::optional<std::uint64_t> seed;  ///< seed; it counts before that of a module
  numerics_mode numerics = numerics_mode::standard;  ///< treatment of formats
  std::optional<bool> autotune;      ///< true to measure; unset: if not deterministic
  numerics_policy policy;            ///< policy until the program sets one
  bool deterministic_floor = false;  ///< `deterministic` stays true
  bool lock_deterministic = false;   ///< setting `deterministic` to false is an error
  bool lock_stable = false;          ///< setting `stable_reductions` to false is an error
  bool lock_fast_math = false;       ///< setting `fast_math` to true is an error
  bool verify_determinism = false;   ///< reductions are verified by a second schedule
  bool require_signed = false;       ///< modules need a signature
  std::string trusted_keys;          ///< keys, or a file of keys
  std::string cache_folder;          ///< empty: no cache on disk
  bool cache_strict = false;         ///< damaged entries are errors
  bool code_from_cache = false;      ///< code is loaded from files of the cache
  std::uint64_t profiler_records = std::uint64_t{1} << 18;  ///< limit of a profiler
  log_level log = log_level::silent;                        ///< highest level of the log
  tessera::allocator allocator;  ///< allocator; empty: the system
  /// Receives the lines of the log; empty: they go to standard error.
  std::function<void(log_level, std::string_view)> on_log;

  /// Returns the names and values of the settings, for traces and people.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> listed() const;
};

/// Reads settings from TESS_* variables, whose values `variable(name)` returns (null: not
/// set). A value that cannot be read leaves the default, with a line in `warnings`. Each
/// name in `set` that begins with TESS_ and is no variable of this library gets a line
/// too.
/// @error{unsupported; the backend is not built in}
[[nodiscard]] result<runtime_settings> read_settings(
    const std::function<const char*(const char*)>& variable,
    std::vector<std::string>& warnings, std::span<const std::string> set = {});

}  // namespace weir::tessera
