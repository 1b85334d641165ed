// SPDX-License-Identifier: Apache-2.0
/// @file
/// What is kept between processes: extracted code and results of tuning, each in a file
/// that is named by what it depends on and says itself whether it is whole.
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

enum class cache_kind : std::uint32_t { code = 1, tuning = 2, collective_tuning = 3 };

/// All that an entry depends on, but for the machine.
struct cache_key {
  cache_kind kind = cache_kind::code;
  std::string kernel;
  digest256 module_hash{};            ///< content of the module
  std::vector<std::uint64_t> shape;   ///< grid, block, whole-number arguments
  std::vector<std::uint32_t> dtypes;  ///< ids of the ABI
  std::string arch;
  digest256 policy{};  ///< of the numerics policy: another policy is another entry

  /// Name of the entry.
  [[nodiscard]] digest256 digest() const;
};

/// Stands for a kind of machine, its driver, and the version and build of this runtime:
/// entries that were written in another environment are not used.
[[nodiscard]] digest256 environment_digest(std::string_view arch,
                                           std::string_view driver = {});
/// The same for a build of the runtime that is named by its linker's build id.
[[nodiscard]] digest256 environment_digest(std::string_view arch, std::string_view driver,
                                           std::string_view build);

struct cache_options {
  std::string folder;       ///< made with mode 0700 if it is not there
  bool strict = false;      ///< a damaged entry is an error, not a miss
  digest256 environment{};  ///< as from `environment_digest`
  std::function<void(std::string_view)> on_log;  ///< damage; any thread; may be empty
  /// What became of each request, in words; any thread; may be empty.
  std::function<void(std::string_view)> on_decision;
};

/// Since this object was made, but for the last two, which are of the folder.
struct cache_stats {
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;       ///< stale and quarantined ones too
  std::uint64_t stale = 0;        ///< entries of another environment, which were removed
  std::uint64_t quarantined = 0;  ///< damaged entries, renamed to NAME.bad
  std::uint64_t writes = 0;
  std::uint64_t failed_writes = 0;
  std::uint64_t entries = 0;
  std::uint64_t bytes = 0;
};

/// An open file whose content was checked; the file may lose its name meanwhile.
class cached_file {
 public:
  cached_file() = default;
  explicit cached_file(int descriptor, std::uint64_t bytes)
      : descriptor_(descriptor), bytes_(bytes) {}
  cached_file(cached_file&& other) noexcept;
  cached_file& operator=(cached_file&& other) noexcept;
  ~cached_file();

  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  /// Of the content, which begins at 0; more bytes follow it.
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  /// The caller closes it from now on.
  int release() noexcept;

 private:
  int descriptor_ = -1;
  std::uint64_t bytes_ = 0;
};

/// A folder of entries. A writer fills a file of another name, syncs it and renames it,
/// so whoever reads finds an entry whole or not at all, whenever a writer was killed.
/// @threads{safe to call concurrently, from several processes too}
class module_cache {
 public:
  /// Refuses folders into which others could put code: of another owner, or writable for
  /// all without the sticky bit. Removes what killed writers have left.
  /// @error{invalid_argument, no folder, or one that is refused; out_of_memory}
  [[nodiscard]] static result<std::unique_ptr<module_cache>> open(cache_options options);
  ~module_cache();
  module_cache(const module_cache&) = delete;
  module_cache& operator=(const module_cache&) = delete;

  /// The content, or nothing: no entry, one of another environment (it is removed), or a
  /// damaged one (it is renamed and counted).
  /// @error{cache_corrupt, a damaged entry, in strict mode; out_of_memory}
  [[nodiscard]] result<std::optional<byte_vector>> get(const cache_key& key);
  /// The same as an open file. @error as of `get`
  [[nodiscard]] result<std::optional<cached_file>> open_entry(const cache_key& key);
  /// Replaces what is there. A caller can go on without: the failure is counted.
  /// @error{io, e.g. a folder that is read only; no_space; out_of_memory}
  [[nodiscard]] result<void> put(const cache_key& key, bytes_view content);

  /// Reads every entry. @error{cache_corrupt, names the first that is damaged, and how
  /// many are}
  [[nodiscard]] result<void> verify();
  /// Removes all entries, damaged ones too. @error{io}
  [[nodiscard]] result<void> clear();
  [[nodiscard]] cache_stats stats() const;
  [[nodiscard]] const std::string& folder() const noexcept;

 private:
  class impl;
  explicit module_cache(std::unique_ptr<impl> i);
  std::unique_ptr<impl> impl_;
};

/// TESS_CACHE_DIR if it is set, where empty is off; else XDG_CACHE_HOME/tessera if that
/// is set; else off. Off is the empty string.
[[nodiscard]] std::string cache_folder_from_environment();

}  // namespace weir::tessera
