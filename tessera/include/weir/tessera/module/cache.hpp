// SPDX-License-Identifier: Apache-2.0
/// @file
/// The cache between processes: extracted code and results of tuning. Each entry is a
/// file whose name is a digest of its key and whose content has a checksum.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"
#include "weir/tessera/module/digest.hpp"

namespace weir::tessera {

/// Kinds of entries.
enum class cache_kind : std::uint32_t { code = 1, tuning = 2, collective_tuning = 3 };

/// Everything that an entry depends on, except the machine.
struct cache_key {
  cache_kind kind = cache_kind::code;  ///< kind of the entry
  std::string kernel;                  ///< name of the kernel
  digest256 module_hash{};             ///< hash of the module
  std::vector<std::uint64_t> shape;    ///< grid, block, whole-number arguments
  std::vector<std::uint32_t> dtypes;   ///< types of the ABI
  std::string arch;                    ///< level of the processor
  digest256 policy{};                  ///< digest of the numerics policy

  /// Returns the name of the entry.
  [[nodiscard]] digest256 digest() const;
};

/// Returns a digest of the kind of machine, its driver, and the version and build of this
/// library. Entries of another environment are not used.
[[nodiscard]] digest256 environment_digest(std::string_view arch,
                                           std::string_view driver = {});
/// Returns the digest for a build of the library with this build id of the linker.
[[nodiscard]] digest256 environment_digest(std::string_view arch, std::string_view driver,
                                           std::string_view build);

/// Options of a cache.
struct cache_options {
  std::string folder;       ///< folder; made with mode 0700 if absent
  bool strict = false;      ///< a damaged entry is an error, not a miss
  digest256 environment{};  ///< from `environment_digest`
  std::function<void(std::string_view)>
      on_log;  ///< reports damage, on any thread; may be empty
  /// Reports the outcome of each request in words, on any thread; may be empty.
  std::function<void(std::string_view)> on_decision;
};

/// Counters since the object was made. `entries` and `bytes` count the folder.
struct cache_stats {
  std::uint64_t hits = 0;           ///< entries that were found
  std::uint64_t misses = 0;         ///< entries that were not found or not usable
  std::uint64_t stale = 0;          ///< removed entries of another environment
  std::uint64_t quarantined = 0;    ///< damaged entries, renamed to NAME.bad
  std::uint64_t writes = 0;         ///< entries that were written
  std::uint64_t failed_writes = 0;  ///< writes that failed
  std::uint64_t entries = 0;        ///< entries in the folder
  std::uint64_t bytes = 0;          ///< bytes in the folder
};

/// An open file whose content was checked. It stays readable if another process removes
/// it.
class cached_file {
 public:
  /// Makes an object without a file.
  cached_file() = default;
  /// Takes over a descriptor.
  explicit cached_file(int descriptor, std::uint64_t bytes)
      : descriptor_(descriptor), bytes_(bytes) {}
  /// Takes over a file.
  cached_file(cached_file&& other) noexcept;
  /// Closes the own file and takes over another.
  cached_file& operator=(cached_file&& other) noexcept;
  ~cached_file();

  /// Returns the descriptor, or -1.
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  /// Returns the size of the content, which begins at offset 0. More bytes follow it.
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  /// Returns the descriptor, which the caller closes from now on.
  int release() noexcept;

 private:
  int descriptor_ = -1;
  std::uint64_t bytes_ = 0;
};

/// A folder of entries. A writer fills a file of another name, syncs it and renames it,
/// so a reader finds a complete entry or none, even if a writer was killed.
/// @threads{safe to call concurrently, from several processes too}
class module_cache {
 public:
  /// Opens a folder. Folders into which other users could put code are refused: those of
  /// another owner, or writable for all without the sticky bit. Files of killed writers
  /// are removed. @error{invalid_argument; no folder, or one that is refused}
  [[nodiscard]] static result<std::unique_ptr<module_cache>> open(cache_options options);
  ~module_cache();
  module_cache(const module_cache&) = delete;
  module_cache& operator=(const module_cache&) = delete;

  /// Returns the content of an entry, or nothing if there is none. An entry of another
  /// environment is removed; a damaged one is renamed and counted.
  /// @error{cache_corrupt; a damaged entry, in strict mode}
  [[nodiscard]] result<std::optional<byte_vector>> get(const cache_key& key);
  /// Returns an entry as an open file, as `get`.
  /// @error{cache_corrupt; a damaged entry, in strict mode}
  [[nodiscard]] result<std::optional<cached_file>> open_entry(const cache_key& key);
  /// Writes an entry, or replaces it. A failure is counted; the caller can go on without
  /// it.
  /// @error{io; for example a folder that cannot be written} @error{no_space; the disk is
  /// full}
  [[nodiscard]] result<void> put(const cache_key& key, bytes_view content);

  /// Reads and checks every entry. @error{cache_corrupt; names the first that is damaged,
  /// and how many are}
  [[nodiscard]] result<void> verify();
  /// Removes all entries, also damaged ones. @error{io; a file cannot be removed}
  [[nodiscard]] result<void> clear();
  /// Returns the counters.
  [[nodiscard]] cache_stats stats() const;
  /// Returns the folder.
  [[nodiscard]] const std::string& folder() const noexcept;

 private:
  class impl;
  explicit module_cache(std::unique_ptr<impl> i);
  std::unique_ptr<impl> impl_;
};

/// Returns TESS_CACHE_DIR if it is set, XDG_CACHE_HOME/tessera if that is set, and
/// otherwise an empty string, which means that there is no cache.
[[nodiscard]] std::string cache_folder_from_environment();

}  // namespace weir::tessera
