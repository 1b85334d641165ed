// SPDX-License-Identifier: Apache-2.0
/// @file
/// Writes and reads tiles through a buffer of bounded size, whatever their strides are.
///
/// A part is a file with the tiles of one rank, one after another, and their digests at
/// its end. Tiles are written by tasks of any order, each at its own offset.
#include "state/part_files.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "places/byte_runs.hpp"
#include "weir/base/hash.hpp"

namespace weir::runtime {
namespace {

/// Size of the buffer for tiles that have gaps. Blocks are collected up to this size, so
/// that small ones do not cost a call each.
constexpr std::size_t tile_buffer_bytes = std::size_t{256} << 10U;

/// Calls `visit` for each block of a tile, until it fails.
///
/// A block is a run of bytes without a gap, in the order of the addresses.
/// Blocks come in row-major order of the tile, because its footprint is nested.
template <class Visit>
result<void> visit_blocks(const tensor& tile, const Visit& visit) {
  result<void> outcome;
  for_each_run(tile.bytes(), [&](std::int64_t lo, std::int64_t hi) {
    if (outcome) {
      outcome =
          visit(mutable_bytes(tile.store().base + lo, static_cast<std::size_t>(hi - lo)));
    }
  });
  return outcome;
}

}  // namespace

/// The file is made at the first write. That of a rank without tiles is empty.
result<void> part_writer::open() {
  if (!file_) {
    WEIR_TRY(file_, files_.open(path_, open_mode::create_or_open));
    WEIR_CHECK(file_->resize(0));
  }
  return {};
}

/// Several tasks write at the same time, each in turn. After a failure nothing more is
/// written.
result<void> part_writer::write_bytes(std::uint64_t offset, bytes_view bytes) {
  const std::lock_guard lock(mutex_);
  if (failure_) {
    return *failure_;
  }
  auto written = open();
  if (written) {
    written = write_all(*file_, offset, bytes);
  }
  if (!written) {
    failure_ = written.error();
  }
  return written;
}

/// Returns the digest of the bytes of the tile in their order. `tile` may have any
/// strides.
result<std::uint64_t> part_writer::write_tile(std::uint64_t offset, const tensor& tile) {
  xxh3_stream digest;
  byte_vector buffer;
  // Adds bytes to the digest and writes them.
  const auto flush = [&](bytes_view bytes) -> result<void> {
    digest.update(bytes);
    const std::uint64_t place = offset;
    offset += bytes.size();
    return bytes.empty() ? result<void>() : write_bytes(place, bytes);
  };
  // Large blocks are written from where they are.
  const auto add = [&](mutable_bytes block) -> result<void> {
    if (buffer.size() + block.size() > tile_buffer_bytes) {
      WEIR_CHECK(flush(buffer));
      buffer.clear();
    }
    if (block.size() > tile_buffer_bytes) {
      return flush(block);
    }
    append(buffer, block);
    return {};
  };
  WEIR_CHECK(visit_blocks(tile, add));
  // What is left in the buffer.
  WEIR_CHECK(flush(buffer));
  return digest.digest();
}

/// A failure is kept and reported by `finish`.
std::uint64_t part_writer::write(std::uint64_t offset, const tensor& tile) {
  return write_tile(offset, tile).value_or(0);
}

/// The part is durable afterwards, its name included.
result<void> part_writer::write_digests(std::uint64_t offset,
                                        std::span<const std::uint64_t> digests,
                                        written_part& out) {
  byte_vector bytes(digests.size() * 8);
  for (std::size_t i = 0; i < digests.size(); ++i) {
    store_le(bytes.data() + 8 * i, digests[i]);
  }
  WEIR_CHECK(write_bytes(offset, bytes));
  // Length and digest, for the manifest.
  out = {offset + bytes.size(), xxh3_64(bytes)};
  const std::lock_guard lock(mutex_);
  // All tiles were written: the task that calls this reads their digests.
  WEIR_CHECK(file_->sync());
  file_.reset();
  return files_.sync_folder(folder_of(path_));
}

/// Called once, when all tiles have been written.
result<written_part> part_writer::finish(std::uint64_t offset,
                                         std::span<const std::uint64_t> digests) {
  written_part out;
  WEIR_CHECK(write_digests(offset, digests, out));
  return out;
}

/// Used if the generation does not come to exist.
void part_writer::discard() {
  const std::lock_guard lock(mutex_);
  file_.reset();
  static_cast<void>(files_.remove(path_));  // the next start removes it otherwise
}

/// The text names the part and its owner.
error part_reader::refuse(errc code, const std::string& text) const {
  return error(code, fmt::format("cannot resume from {}: {}", owner_, text))
      .located(path_);
}

/// Reads the digests behind the tiles.
///
/// Called before the first tile. Length and digest must be those of the manifest.
result<void> part_reader::open() {
  if (file_) {
    return {};
  }
  auto opened = files_.open(path_, open_mode::read);
  if (!opened) {
    return refuse(opened.error().code(),
                  fmt::format("expected a file of {} bytes, found: {}", entry_.bytes,
                              opened.error().text()));
  }
  WEIR_TRY(const std::uint64_t size, (*opened)->size());
  if (size != entry_.bytes) {
    return refuse(errc::torn,
                  fmt::format("expected {} bytes, found {}", entry_.bytes, size));
  }
  // The digests of all tiles lie behind them.
  byte_vector bytes(plan_.tiles * 8);
  WEIR_CHECK(read_exactly(**opened, plan_.tile_bytes, bytes));
  if (const std::uint64_t found = xxh3_64(bytes); found != entry_.digest) {
    return refuse(errc::hash_mismatch, fmt::format("expected the digest {}, found {}",
                                                   hex64(entry_.digest), hex64(found)));
  }
  digests_.resize(plan_.tiles);
  for (std::size_t i = 0; i < digests_.size(); ++i) {
    digests_[i] = load_le<std::uint64_t>(bytes.data() + 8 * i);
  }
  file_ = std::move(*opened);
  return {};
}

/// Reads a tile and compares its digest. Without `into`, the bytes are only verified.
/// Called by several tasks at the same time; reads need no lock.
result<void> part_reader::read(const tile_place& place, const tensor* into) {
  {
    const std::lock_guard lock(mutex_);
    WEIR_CHECK(open());
  }
  // The buffer is filled in pieces of bounded size.
  xxh3_stream digest;
  byte_vector buffer(
      static_cast<std::size_t>(std::min<std::uint64_t>(place.bytes, tile_buffer_bytes)));
  std::uint64_t offset = place.offset;
  const std::uint64_t end = place.offset + place.bytes;
  mutable_bytes unread;
  // Reads the next piece of the tile.
  const auto refill = [&]() -> result<void> {
    unread = mutable_bytes(buffer).first(
        static_cast<std::size_t>(std::min<std::uint64_t>(end - offset, buffer.size())));
    WEIR_CHECK(read_exactly(*file_, offset, unread));
    digest.update(unread);
    offset += unread.size();
    return {};
  };
  // Fills a block of the tile from the pieces.
  const auto fill = [&](mutable_bytes block) -> result<void> {
    while (!block.empty()) {
      if (unread.empty()) {
        WEIR_CHECK(refill());
      }
      const std::size_t count = std::min(unread.size(), block.size());
      std::memcpy(block.data(), unread.data(), count);
      unread = unread.subspan(count);
      block = block.subspan(count);
    }
    return {};
  };
  // With a tile, its blocks ask for the bytes.
  if (into != nullptr) {
    WEIR_CHECK(visit_blocks(*into, fill));
  }
  // Without one, all bytes are read for the digest alone.
  while (offset < end) {
    WEIR_CHECK(refill());
  }
  if (digest.digest() != digests_[place.slot]) {
    return refuse(
        errc::hash_mismatch,
        fmt::format("expected the digest {} of tile {}, found {}",
                    hex64(digests_[place.slot]), place.slot, hex64(digest.digest())));
  }
  return {};
}

}  // namespace weir::runtime
