// SPDX-License-Identifier: Apache-2.0
/// @file
/// A file behind an address as a source of bytes.
///
/// All sources of one file share a client and a cache; each has its own limits. Small
/// reads go through the cache in whole blocks, together with predicted blocks. Large
/// reads go directly into the caller's memory and do not displace cached blocks.
///
///   read of 1 MiB or less    cache, then whole blocks, with predicted ones
///   larger read              straight to the caller, in parts of 4 MiB
///   prefetch                 whole blocks, up to half of the cache
///
/// If the server does not support ranges, the file is in memory after the first request
/// and none of this applies.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "tensogram/remote/address.hpp"
#include "tensogram/remote/block_cache.hpp"
#include "tensogram/remote/client.hpp"
#include "tensogram/remote/settings.hpp"
#include "weir/formats/remote.hpp"

namespace weir::formats {

namespace {

/// Size of the first request in bytes. It covers the header of most messages.
constexpr std::uint64_t first_bytes = 64 << 10;
/// Reads up to this size are stored in the cache.
constexpr std::uint64_t small_read = 1 << 20;
/// Longer ranges are requested in parts, several of them at the same time.
constexpr std::uint64_t longest_part = 4 << 20;

/// Returns the point in time at which a call must end.
/// Without a limit, or with one that the clock cannot count to, the deadline is the end
/// of time.
steady_time deadline_of(const call_limits& limits) {
  const steady_time now = std::chrono::steady_clock::now();
  // Milliseconds are compared, because the clock counts smaller units and would overflow.
  const auto longest =
      std::chrono::floor<std::chrono::milliseconds>(steady_time::max() - now);
  return limits.timeout.count() == 0 || limits.timeout >= longest ? steady_time::max()
                                                                  : now + limits.timeout;
}

}  // namespace

/// State that all sources of one file share. The members that change after open() are
/// safe to use on several threads.
struct remote_source::shared {
  shared(remote_address address, remote_settings settings, const remote_options& options)
      : client(std::move(address), std::move(settings), options) {}

  range_client client;
  std::uint64_t size = 0;  ///< of the file, in bytes
  std::optional<byte_vector>
      whole;  ///< the whole file, if the server does not support ranges
  std::optional<block_cache> cache;  ///< absent if `whole` is set

  // Fetches ranges straight to the memory of the caller.
  result<void> fetch(std::span<const range_request> ranges, const call_end& end) {
    return client.fetch(ranges, end);
  }

  /// Fetches ranges of whole blocks, passes each to `use`, and caches it. `use` comes
  /// first, because the cache may drop a block at once.
  template <class Use>
  result<void> fetch_blocks(const std::vector<byte_range>& ranges, const call_end& end,
                            const Use& use) {
    std::vector<byte_vector> buffers;
    std::vector<range_request> requests;
    buffers.reserve(ranges.size());
    for (const byte_range& range : ranges) {
      buffers.emplace_back(range.length);
      // The vectors do not move: their number was reserved.
      requests.push_back({range.offset, buffers.back()});
    }
    WEIR_CHECK(client.fetch(requests, end));
    for (const range_request& request : requests) {
      use(request.offset, bytes_view(request.to));
      cache->put(request.offset, request.to);
    }
    return {};
  }

  /// Reads the blocks that contain `missing`, together with those that will probably be
  /// read next.
  result<void> read_small(std::uint64_t offset, mutable_bytes to,
                          const std::vector<byte_range>& missing, const call_end& end) {
    // `use` copies from the fetched bytes to every missing part that they overlap.
    const auto use = [&](std::uint64_t begin, bytes_view bytes) {
      for (const byte_range& range : missing) {
        const std::uint64_t from = std::max(range.offset, begin);
        const std::uint64_t until =
            std::min(range.offset + range.length, begin + bytes.size());
        if (from < until) {
          std::memcpy(to.data() + (from - offset), bytes.data() + (from - begin),
                      until - from);
        }
      }
    };
    const std::vector<byte_range> guessed = cache->likely_after(missing.front());
    if (!guessed.empty()) {
      // One batch for needed and predicted blocks, which costs no more round trips than
      // the needed ones alone.
      const auto all =
          fetch_blocks(cache->to_request(missing, guessed, longest_part), end, use);
      if (all || all.error().code() == errc::interrupted ||
          all.error().code() == errc::timeout) {
        return all;
      }
      // The failure may concern a predicted range only, so the needed ones are tried
      // alone.
    }
    return fetch_blocks(cache->to_request(missing, {}, longest_part), end, use);
  }

  /// Reads directly into the caller's memory.
  result<void> read_large(std::uint64_t offset, mutable_bytes to,
                          const std::vector<byte_range>& missing, const call_end& end) {
    std::vector<range_request> requests;
    for (const byte_range& range : missing) {
      // The parts run side by side.
      for (std::uint64_t part = 0; part < range.length; part += longest_part) {
        requests.push_back({range.offset + part,
                            to.subspan(range.offset + part - offset,
                                       std::min(longest_part, range.length - part))});
      }
    }
    return fetch(requests, end);
  }
};

/// The deadline is fixed when the source is made, so it holds for all reads of a call.
remote_source::remote_source(std::shared_ptr<shared> file, const call_limits& limits)
    : shared_(std::move(file)), stop_(limits.stop), deadline_(deadline_of(limits)) {}

/// The first request fixes the version and the size of the file. Its bytes go into the
/// cache.
result<std::shared_ptr<remote_source>> remote_source::open(std::string_view address,
                                                           const remote_options& options,
                                                           const call_limits& limits) {
  WEIR_TRY(remote_settings settings, make_settings(options.storage, options.environment));
  WEIR_TRY(remote_address parsed, parse_address(address, settings));
  auto file = std::make_shared<shared>(std::move(parsed), std::move(settings), options);
  WEIR_TRY(range_client::opened first,
           file->client.open(first_bytes, {limits.stop, deadline_of(limits)}));
  file->size = first.size;
  if (first.whole) {
    file->whole = std::move(first.first);
  } else {
    file->cache.emplace(first.size, options.cache_bytes);
    // The bytes of the first request end at a block, or at the end of the file.
    file->cache->put(0, first.first);
  }
  return std::shared_ptr<remote_source>(new remote_source(std::move(file), {}));
}

/// The new source shares everything but the limits.
std::shared_ptr<remote_source> remote_source::limited(const call_limits& limits) const {
  return std::shared_ptr<remote_source>(new remote_source(shared_, limits));
}

std::uint64_t remote_source::size() const noexcept {
  return shared_->size;
}
const std::string& remote_source::name() const noexcept {
  return shared_->client.address().name;
}
bool remote_source::distant() const noexcept {
  return !shared_->whole;
}
remote_traffic remote_source::traffic() const noexcept {
  return shared_->client.traffic();
}
/// Only a file that is in memory has a view.
std::optional<bytes_view> remote_source::view() const noexcept {
  return shared_->whole ? std::optional(bytes_view(*shared_->whole)) : std::nullopt;
}

namespace {

/// Returns an error if a range is not within the file.
/// The comparison subtracts, so that no sum can overflow.
result<void> check_inside(const remote_source& source, std::uint64_t offset,
                          std::uint64_t bytes) {
  if (offset > source.size() || bytes > source.size() - offset) {
    return error(errc::torn,
                 fmt::format("cannot read {} bytes: expected them there, found the end "
                             "at {}",
                             bytes, source.size()))
        .located(fmt::format("{}:{}", source.name(), offset));
  }
  return {};
}

}  // namespace

/// Serves cached parts at once and requests the others.
result<void> remote_source::read(std::uint64_t offset, mutable_bytes to) const {
  WEIR_CHECK(check_inside(*this, offset, to.size()));
  if (to.empty()) {
    return {};
  }
  if (shared_->whole) {
    std::memcpy(to.data(), shared_->whole->data() + offset, to.size());
    return {};
  }
  // `copy` has filled the parts that were cached.
  const auto missing = shared_->cache->copy(offset, to);
  if (missing.empty()) {
    return {};
  }
  const call_end end{stop_, deadline_};
  return to.size() <= small_read ? shared_->read_small(offset, to, missing, end)
                                 : shared_->read_large(offset, to, missing, end);
}

/// Fetches ranges that will be read soon, all in one call, so that their requests run
/// side by side. If the whole file is in memory, the ranges are only checked.
result<void> remote_source::prefetch(std::span<const byte_range> ranges) const {
  // The ranges must fit into the cache until they are read, so no more than half of its
  // capacity is fetched.
  std::uint64_t unused = shared_->whole ? 0 : shared_->cache->capacity() / 2;
  std::vector<byte_range> wanted;
  for (const byte_range& range : ranges) {
    WEIR_CHECK(check_inside(*this, range.offset, range.length));
    // What does not fit is cut off; it is requested when it is read.
    const std::uint64_t length = std::min(range.length, unused);
    wanted.push_back({range.offset, length});
    unused -= length;
  }
  if (shared_->whole) {
    return {};
  }
  return shared_->fetch_blocks(shared_->cache->to_request({}, wanted, longest_part),
                               {stop_, deadline_}, [](std::uint64_t, bytes_view) {});
}

}  // namespace weir::formats
