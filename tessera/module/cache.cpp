// SPDX-License-Identifier: Apache-2.0
/// @file
/// Entries of the cache. A file is the content, then a trailer of 152 bytes with its
/// size, key, environment and hashes. The content comes first, so that code can be loaded
/// from the file as it is.
///
/// A key names a file by its digest. An entry is used only if every field of the trailer
/// and the hash of the content agree. An entry of another environment (compiler, runtime,
/// processor) is stale and is removed. A damaged entry is renamed, so that it can be
/// examined, and is made anew; in strict mode it is an error.
///
/// Two processes may make the same entry at the same time; the last rename wins, and
/// both files are equal in meaning.
#include "weir/tessera/module/cache.hpp"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <utility>

#include "cache_files.hpp"
#include "tessera.h"
#include "weir/base/file.hpp"
#include "weir/tessera/module/fatbin.hpp"

namespace weir::tessera {

namespace {

/// First bytes of the trailer.
constexpr std::array<std::uint8_t, 8> trailer_magic{'T', 'E', 'S', 'S',
                                                    'K', 'E', 'P', 'T'};
constexpr std::uint32_t trailer_version = 1;
/// Offsets of fields in the trailer. `at_self` is the hash of all bytes before it. All
/// offsets count from the begin of the trailer.
constexpr std::size_t at_version = 8, at_kind = 12, at_bytes = 16, at_key = 24,
                      at_environment = 56, at_content = 88, at_self = 120;
constexpr std::size_t trailer_bytes = 152;
/// Largest size of an entry file that is read, in bytes. A larger file is treated as
/// damaged.
constexpr std::uint64_t max_entry_bytes = std::uint64_t{1} << 32;
/// Ends of file names: entries, and damaged entries that were set aside.
constexpr std::string_view entry_suffix = ".entry";
constexpr std::string_view bad_suffix = ".bad";

using trailer = std::array<std::byte, trailer_bytes>;

/// Copies a digest to its place in the trailer.
template <std::size_t N>
void put_bytes(trailer& to, std::size_t offset, const std::array<std::byte, N>& from) {
  std::copy(from.begin(), from.end(), to.begin() + static_cast<std::ptrdiff_t>(offset));
}

/// Returns true if the stored bytes are this digest. `stored` has the size of a digest.
bool same(bytes_view stored, const digest256& expected) {
  return std::equal(stored.begin(), stored.end(), expected.begin(), expected.end());
}

/// Returns the trailer of an entry.
///
/// Computes the hashes of the content and of the trailer itself.
trailer make_trailer(cache_kind kind, const digest256& key, const digest256& environment,
                     bytes_view content) {
  trailer out{};
  std::memcpy(out.data(), trailer_magic.data(), trailer_magic.size());
  store_le(out.data() + at_version, trailer_version);
  store_le(out.data() + at_kind, static_cast<std::uint32_t>(kind));
  store_le(out.data() + at_bytes, std::uint64_t{content.size()});
  put_bytes(out, at_key, key);
  put_bytes(out, at_environment, environment);
  put_bytes(out, at_content, sha256(content));
  put_bytes(out, at_self, sha256(bytes_view(out).first(at_self)));
  return out;
}

/// The result of examining an entry.
enum class entry_state : std::uint8_t { good, stale, damaged };

/// Examines a file. The trailer's own hash comes first: fields of a damaged trailer say
/// nothing about age. An unknown version and another environment are no damage.
///
/// The order of the tests is important: only a sound trailer can say that an entry is
/// old.
entry_state judge(bytes_view file, const std::string& name,
                  const digest256& environment) {
  // A file that was cut has no trailer at its end, or a wrong one.
  if (file.size() < trailer_bytes) {
    return entry_state::damaged;
  }
  const bytes_view end = file.last(trailer_bytes);
  const bytes_view content = file.first(file.size() - trailer_bytes);
  const bool whole =
      std::memcmp(end.data(), trailer_magic.data(), trailer_magic.size()) == 0 &&
      same(end.subspan(at_self), sha256(end.first(at_self)));
  if (!whole) {
    return entry_state::damaged;
  }
  if (load_le<std::uint32_t>(end.data() + at_version) != trailer_version) {
    return entry_state::stale;
  }
  // Size and name must agree with the trailer.
  if (load_le<std::uint64_t>(end.data() + at_bytes) != content.size() ||
      to_hex(end.subspan(at_key, sizeof(digest256))) + std::string(entry_suffix) !=
          name) {
    return entry_state::damaged;
  }
  if (!same(end.subspan(at_environment, sizeof(digest256)), environment)) {
    return entry_state::stale;
  }
  // The content is hashed last, as this takes longest.
  return same(end.subspan(at_content, sizeof(digest256)), sha256(content))
             ? entry_state::good
             : entry_state::damaged;
}

/// Returns the error of a damaged entry in a strict cache.
error corrupt_entry(const std::string& path) {
  return error(errc::cache_corrupt,
               fmt::format("cannot use cache entry {}: expected it as it was written, "
                           "found something else",
                           path));
}

}  // namespace

// Lengths are hashed before lists and texts, so that different keys cannot have the same
// bytes.
digest256 cache_key::digest() const {
  sha256_stream hash;
  hash.text("tessera cache key 1");
  hash.number(static_cast<std::uint64_t>(kind));
  hash.text(kernel);
  hash.update(module_hash);
  hash.number(shape.size());
  for (const std::uint64_t extent : shape) {
    hash.number(extent);
  }
  hash.number(dtypes.size());
  for (const std::uint32_t id : dtypes) {
    hash.number(id);
  }
  hash.text(arch);
  hash.update(policy);
  return hash.digest();
}

/// The build of this library is used unless a test gives another.
digest256 environment_digest(std::string_view arch, std::string_view driver) {
  return environment_digest(arch, driver, library_build());
}

// Everything that may change the meaning of an entry without changing its key: the
// processor, the driver, the compiler, the ABI and the build of this library.
digest256 environment_digest(std::string_view arch, std::string_view driver,
                             std::string_view build) {
  sha256_stream hash;
  hash.text("tessera cache environment 2");
  hash.text(arch);
  hash.text(driver);
  hash.text(__VERSION__);  // of the compiler that built this runtime
  hash.number(runtime_abi.major);
  hash.number(runtime_abi.minor);
  // The patch number counts as well, since it changes with the code of the library.
  hash.number(TESS_ABI_PATCH);
  hash.text(build);
  return hash.digest();
}

/// A moved file has no descriptor any more.
cached_file::cached_file(cached_file&& other) noexcept
    : descriptor_(other.release()), bytes_(other.bytes_) {}
// The other object closes the descriptor that this one had.
cached_file& cached_file::operator=(cached_file&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(bytes_, other.bytes_);
  return *this;
}
cached_file::~cached_file() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}
/// The descriptor belongs to the caller from here on.
int cached_file::release() noexcept {
  return std::exchange(descriptor_, -1);
}

/// The cache itself. It holds no entries in memory: each use reads the file, which other
/// processes may write at the same time. Counters are atomic, so calls need no lock.
class module_cache::impl {
 public:
  // The folder was prepared by `open`.
  explicit impl(cache_options options) : options_(std::move(options)) {}

  /// An entry that has been examined, without its trailer, and its open file.
  struct opened {
    private_file file;
    byte_vector content;
  };

  // Returns the entry, or nothing if it is missing, stale or damaged. The file is opened
  // once, and both its content and its descriptor are handed out, so that no other
  // process can exchange it between check and use.
  result<std::optional<opened>> read(const cache_key& key) {
    const std::string name = name_of(key);
    const std::string path = join_path(options_.folder, name);
    auto file = open_private(path);
    if (!file) {
      // A link, or a file of somebody else, counts as damaged.
      return file.error().code() == errc::corrupt ? damaged(key, path) : missed(key);
    }
    if (!file->is_open()) {
      return missed(key);
    }
    // A file beyond the limit is damaged; one that cannot be read counts as missing.
    auto bytes = read_private(*file, max_entry_bytes);
    if (!bytes) {
      return bytes.error().code() == errc::out_of_range ? damaged(key, path)
                                                        : missed(key);
    }
    switch (judge(*bytes, name, options_.environment)) {
      case entry_state::damaged: return damaged(key, path);
      // Removed, since no later run can use it.
      case entry_state::stale:
        ++stale_;
        // A failure does not matter: the next write replaces the file.
        ::unlink(path.c_str());
        report(key, "was of another runtime or machine and is removed");
        return missed(key);
      case entry_state::good: break;
    }
    ++hits_;
    report(key, "is used");
    // The content alone is handed out.
    bytes->resize(bytes->size() - trailer_bytes);
    return std::optional(opened{std::move(*file), std::move(*bytes)});
  }

  // A failure is reported and counted; the caller goes on without the entry.
  result<void> write(const cache_key& key, bytes_view content) {
    const digest256 digest = key.digest();
    const trailer end = make_trailer(key.kind, digest, options_.environment, content);
    auto written = write_private(options_.folder, name_of(key), content, end);
    ++(written ? writes_ : failed_writes_);
    report(key, written ? "is written" : "could not be written");
    return written;
  }

  /// Checks all entries without changing any. Stale entries are no damage.
  result<void> verify() {
    std::uint64_t bad = 0;
    std::string first;
    for (const std::string& name : names_in(options_.folder, entry_suffix)) {
      const std::string path = join_path(options_.folder, name);
      auto file = open_private(path);
      if (file && !file->is_open()) {
        continue;  // removed meanwhile
      }
      auto bytes = file ? read_private(*file, max_entry_bytes)
                        : result<byte_vector>(std::move(file).error());
      // A file that cannot be read counts as bad.
      if (!bytes || judge(*bytes, name, options_.environment) == entry_state::damaged) {
        first = ++bad == 1 ? path : first;
      }
    }
    if (bad != 0) {
      return error(errc::cache_corrupt,
                   fmt::format("cannot verify cache {}: expected entries as they were "
                               "written, found {} others, first {}",
                               options_.folder, bad, first));
    }
    return {};
  }

  /// Removes all entries and the damaged ones that were set aside.
  result<void> clear() {
    for (const std::string_view suffix : {entry_suffix, bad_suffix}) {
      for (const std::string& name : names_in(options_.folder, suffix)) {
        const std::string path = join_path(options_.folder, name);
        // Another process may have removed it.
        if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
          return system_error("remove cache entry", path, errno);
        }
      }
    }
    return {};
  }

  /// Returns the counters, and the number and size of the entries, which are found by
  /// listing the folder because other processes may have changed it.
  [[nodiscard]] cache_stats stats() const {
    cache_stats out;
    out.hits = hits_;
    out.misses = misses_;
    out.stale = stale_;
    out.quarantined = quarantined_;
    out.writes = writes_;
    out.failed_writes = failed_writes_;
    for (const std::string& name : names_in(options_.folder, entry_suffix)) {
      // An entry that is removed meanwhile is left out.
      struct stat facts {};
      if (::stat(join_path(options_.folder, name).c_str(), &facts) == 0) {
        ++out.entries;
        out.bytes += static_cast<std::uint64_t>(facts.st_size);
      }
    }
    return out;
  }

  [[nodiscard]] const std::string& folder() const { return options_.folder; }

 private:
  // For reports.
  static std::string kind_name(const cache_key& key) {
    const std::string_view kind = key.kind == cache_kind::code ? "code" : "tuning";
    return key.kernel.empty() ? std::string(kind)
                              : fmt::format("{} {}", kind, key.kernel);
  }
  // Returns the name of the file: the digest of the key in hexadecimal digits.
  static std::string name_of(const cache_key& key) {
    return to_hex(key.digest()) + std::string(entry_suffix);
  }

  /// Reports what was done with an entry.
  void report(const cache_key& key, std::string_view event) const {
    if (options_.on_decision) {
      options_.on_decision(fmt::format("cache entry {} of {} {}",
                                       to_hex(key.digest()).substr(0, 12), kind_name(key),
                                       event));
    }
  }

  // Every lookup ends as a hit or a miss.
  std::optional<opened> missed(const cache_key& key) {
    ++misses_;
    report(key, "is not there");
    return std::nullopt;
  }

  // Sets a damaged entry aside, so that it is made anew but can still be examined.
  result<std::optional<opened>> damaged(const cache_key& key, const std::string& path) {
    if (options_.strict) {
      return corrupt_entry(path);
    }
    // If it cannot be renamed, it is removed.
    if (::rename(path.c_str(), (path + std::string(bad_suffix)).c_str()) != 0) {
      ::unlink(path.c_str());
    }
    ++quarantined_;
    if (options_.on_log) {
      options_.on_log(fmt::format("cache entry {} was damaged and is set aside", path));
    }
    return missed(key);
  }

  cache_options options_;
  std::atomic<std::uint64_t> hits_{0};
  std::atomic<std::uint64_t> misses_{0};
  std::atomic<std::uint64_t> stale_{0};
  std::atomic<std::uint64_t> quarantined_{0};
  std::atomic<std::uint64_t> writes_{0};
  std::atomic<std::uint64_t> failed_writes_{0};
};

module_cache::module_cache(std::unique_ptr<impl> i) : impl_(std::move(i)) {}
module_cache::~module_cache() = default;
const std::string& module_cache::folder() const noexcept {
  return impl_->folder();
}

namespace {

/// A constant text, as memory is short.
error no_memory_for_cache() {
  return error(errc::out_of_memory,
               "cannot use the cache: expected memory for an entry, found none");
}

}  // namespace

// Temporary files whose writers have ended are removed here.
result<std::unique_ptr<module_cache>> module_cache::open(cache_options options) try {
  WEIR_CHECK(prepare_private_folder(options.folder));
  remove_abandoned(options.folder);
  return std::unique_ptr<module_cache>(
      new module_cache(std::make_unique<impl>(std::move(options))));
} catch (const std::bad_alloc&) {
  return no_memory_for_cache();
}

/// Nothing if the entry is missing, stale or damaged.
result<std::optional<byte_vector>> module_cache::get(const cache_key& key) try {
  WEIR_TRY(std::optional<impl::opened> entry, impl_->read(key));
  return entry ? std::optional(std::move(entry->content)) : std::nullopt;
} catch (const std::bad_alloc&) {
  return no_memory_for_cache();
}

// Hands out the descriptor of the file that was examined, and not its name.
result<std::optional<cached_file>> module_cache::open_entry(const cache_key& key) try {
  WEIR_TRY(std::optional<impl::opened> entry, impl_->read(key));
  std::optional<cached_file> out;
  if (entry) {
    out.emplace(entry->file.release(), entry->content.size());
  }
  return out;
} catch (const std::bad_alloc&) {
  return no_memory_for_cache();
}

/// An entry with the same key is replaced.
result<void> module_cache::put(const cache_key& key, bytes_view content) try {
  return impl_->write(key, content);
} catch (const std::bad_alloc&) {
  return no_memory_for_cache();
}

/// Fails if any entry is damaged.
result<void> module_cache::verify() try {
  return impl_->verify();
} catch (const std::bad_alloc&) {
  return no_memory_for_cache();
}

result<void> module_cache::clear() {
  return impl_->clear();
}
cache_stats module_cache::stats() const {
  return impl_->stats();
}

// An empty TESS_CACHE_DIR turns the cache off, even if XDG_CACHE_HOME is set.
std::string cache_folder_from_environment() {
  if (const char* folder = std::getenv("TESS_CACHE_DIR")) {
    return folder;
  }
  const char* home = std::getenv("XDG_CACHE_HOME");
  return home == nullptr || *home == '\0' ? "" : join_path(home, "tessera");
}

}  // namespace weir::tessera
