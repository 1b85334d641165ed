// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads verified bytes: in batches where all is regular, block by block elsewhere.
///
/// There are three ways to read a payload, from fast to slow. Runs of blocks of a mapped
/// device are copied and verified in one pass. Runs of blocks that follow each other on
/// another device are read by one scattered read and verified while they are in the
/// cache. Everything else is read block by block: parts of payloads, compressed blocks,
/// blocks at unexpected places. A batch that meets something irregular stops there, and
/// the slow way continues with that block.
#include "hn4/read/reader.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "weir/base/copy_crc32.hpp"
#include "weir/base/hash.hpp"
#include "weir/storage/hn4_code.hpp"

/// Every way verifies the checksum of each block before its bytes count as read. On
/// failure the bytes of `to` behind `done()` are undefined.
namespace weir::storage::hn4 {

namespace {

// Blocks are read in batches that fit into the processor's cache, so that they are still
// there when they are verified. Half of a usual second-level cache.
constexpr std::size_t batch_bytes = std::size_t{256} << 10;
/// Also limits the number of pieces of a scattered read.
constexpr std::size_t batch_blocks = 128;

}  // namespace

// Adds the tag, the place and the offset in the stream to an error.
//
// `n` is the block of the current shard, `byte` its place on the device, if there is
// one. The code of the cause is kept.
error reader::named(error cause, std::uint64_t n,
                    std::optional<std::uint64_t> byte) const {
  const std::uint64_t offset = map_.shards[shard_].offset + n * cap_;
  const errc code = cause.code();
  const std::string text = fmt::format("cannot read tag \"{}\" at byte {}: {}", map_.tag,
                                       offset, cause.text());
  return error(code, text)
      .located(fmt::format("{}:{} (tag \"{}\", shard {}, block {})", map_.device->name(),
                           byte ? std::to_string(*byte) : "outside", map_.tag, shard_,
                           n));
}

// Returns the place that the hint gives for block n. Returns nothing if the block has no
// address in this volume.
std::optional<place> reader::locate(std::uint64_t n) const {
  const auto block = map_.sources[shard_].path.block(n);
  if (!block) {
    return std::nullopt;
  }
  return place{*block * map_.geometry.block, map_.bits->test(*block)};
}

// Fills a hole with zeros and counts it.
//
// `last_hole_` tells whether the read ended in a hole, for the result "sparse" of the C
// interface.
void reader::fill_hole(mutable_bytes to) {
  std::fill(to.begin(), to.end(), std::byte{0});
  ++holes_;
  last_hole_ = true;
}

// Returns a whole block: in place if the device is mapped, else in `scratch_`.
//
// The bytes are valid until the next call. The memory is allocated on the first use and
// kept for the reader.
result<bytes_view> reader::fetch(std::uint64_t byte) {
  const std::size_t bs = map_.geometry.block;
  const bytes_view mapped = map_.device->view(byte, bs);
  if (!mapped.empty()) {
    return mapped;
  }
  if (!scratch_) {
    // A block may have 64 MiB, so a lack of memory is an error here and does not end the
    // program.
    scratch_.reset(new (std::nothrow) std::byte[bs]);
    if (!scratch_) {
      return hn4_error(
          hn4_code::no_memory,
          fmt::format(
              "cannot allocate {} bytes for a block: the system has no more memory", bs));
    }
  }
  auto read = map_.device->read(byte, {scratch_.get(), bs});
  if (!read) {
    // The kind of the error of the device is kept, its code becomes that of the format.
    return hn4_error(hn4_code::hw_io, read.error().text(), read.error().code());
  }
  return bytes_view(scratch_.get(), bs);
}

// Copies a part of a verified payload, decompressed if necessary.
//
// `skip` and the size of `to` lie inside the payload.
result<void> reader::deliver(std::uint64_t n, const block_header& h, bytes_view payload,
                             std::size_t skip, mutable_bytes to) {
  if (h.algorithm() == 0) {
    std::memcpy(to.data(), payload.data() + skip, to.size());
    return {};
  }
  // A decoder may produce up to a whole block although only `payload` bytes of it count,
  // and it must not overwrite its input; so it has memory of its own.
  byte_vector out(map_.geometry.block);
  WEIR_TRY(const std::size_t made, tcc_decode(payload.first(h.stored()), out));
  std::memcpy(to.data(), out.data() + skip, to.size());
  const std::uint64_t needed =
      std::min<std::uint64_t>(cap_, map_.shards[shard_].bytes - n * cap_);
  if (made < needed) {
    // The missing bytes are zeros, because the memory was cleared. The user is told.
    map_.log->add(hn4_recovery_kind::short_block, shard_, n);
  }
  return {};
}

// Verifies one block and copies its payload or a part of it. A raw payload that is wanted
// completely is copied and verified in one pass.
//
// `skip` is 0 if the whole payload is wanted.
result<void> reader::take(std::uint64_t n, bytes_view header, bytes_view payload,
                          std::size_t skip, mutable_bytes to) {
  // The header is checked before the payload is touched.
  WEIR_TRY(const block_header h, check_header(header, claim(n)));
  if (h.algorithm() == 0 && to.size() == payload.size()) {
    return check_payload(h, copy_crc32(0, payload, to.data()));
  }
  WEIR_CHECK(check_payload(h, crc32(0, payload)));
  return deliver(n, h, payload, skip, to);
}

// Reads the block at a place.
//
// An error does not yet mean that the bytes are lost, since the block may be elsewhere.
result<void> reader::try_place(std::uint64_t n, const place& location, std::size_t skip,
                               mutable_bytes to) {
  WEIR_TRY(const bytes_view bytes, fetch(location.byte));
  return take(n, bytes, bytes.subspan(header_bytes), skip, to);
}

// The bitmap of a PICO volume is trusted only for shards in the horizon region.
//
// `hole` is set if the bitmap says that the block is free.
result<void> reader::check_pico_horizon(std::uint64_t n, const place& location,
                                        bool& hole) const {
  const hn4_geometry& g = map_.geometry;
  if (g.profile != hn4_profile::pico ||
      !map_.sources[shard_].a.has(class_bits::horizon)) {
    return {};
  }
  const std::uint64_t block = location.byte / g.block;
  // Blocks that the bitmap does not reach cannot be in the horizon region.
  if (block >= (g.qmask - g.bitmap) / armored_word * 64) {
    return named(hn4_error(hn4_code::geometry,
                           "expected a block that the bitmap covers, found one behind"),
                 n, location.byte);
  }
  hole = !map_.bits->marked(block);
  return {};
}

// Reads a block as the reference implementation does: from one place, and zeros if no
// block is allocated there.
//
// It serves comparisons with the reference, which neither searches nor reports holes.
result<void> reader::read_strictly(std::uint64_t n, std::size_t skip, mutable_bytes to) {
  const auto location = locate(n);
  bool hole = !location || !location->allocated;
  if (!hole) {
    WEIR_CHECK(check_pico_horizon(n, *location, hole));
  }
  if (hole) {
    fill_hole(to);
    return {};
  }
  last_hole_ = false;
  auto taken = try_place(n, *location, skip, to);
  return taken ? result<void>() : named(std::move(taken).error(), n, location->byte);
}

// Reads a block or a part of it, and searches for it if it is not at the hinted place.
//
// This is the slow way, on which every irregular case is decided.
result<void> reader::read_block(std::uint64_t n, std::size_t skip, mutable_bytes to) {
  if (map_.strict) {
    return read_strictly(n, skip, to);
  }
  last_hole_ = false;
  const auto location = locate(n);
  // The address lies outside, but an orbit may still give a place inside.
  if (!location) {
    return probe(n, skip, to, std::nullopt, location);
  }
  auto taken = try_place(n, *location, skip, to);
  if (!taken) {
    return probe(n, skip, to, std::move(taken).error(), location);
  }
  // The block was found although its bit is cleared: it is used, and noted.
  if (!location->allocated) {
    map_.log->add(hn4_recovery_kind::cleared_bit, shard_, n);
  }
  return {};
}

// Reads `count` blocks that follow each other on the device, with one system call.
// Payloads are read directly to their destination, headers aside. Returns how many blocks
// from the front are regular.
//
// An error of the device, or a first block that is not regular, sends the caller to the
// slow way.
result<std::size_t> reader::read_batch(std::uint64_t n, std::uint64_t byte,
                                       std::size_t count, mutable_bytes to) {
  std::array<std::array<std::byte, header_bytes>, batch_blocks> headers;
  std::array<mutable_bytes, 2 * batch_blocks> pieces;
  for (std::size_t i = 0; i < count; ++i) {
    // Headers and payloads alternate on the device, so the pieces do as well.
    pieces[2 * i] = headers[i];
    pieces[2 * i + 1] = to.subspan(i * cap_, cap_);
  }
  WEIR_CHECK(map_.device->read_scattered(byte, std::span(pieces).first(2 * count)));
  for (std::size_t i = 0; i < count; ++i) {
    const mutable_bytes payload = pieces[2 * i + 1];
    const auto h = check_header(headers[i], claim(n + i));
    // What was read beyond a bad block is read again later.
    if (!h || h->data_crc != crc32(0, payload) || h->algorithm() != 0) {
      return i;
    }
  }
  return count;
}

// Does the same for blocks that lie in memory, the first of them at `location`. Each is
// verified while it is copied; a block that turns out to be wrong has then been copied in
// vain.
//
// Blocks need not follow each other here, since each is looked up by itself.
std::size_t reader::read_mapped(std::uint64_t n, place location, mutable_bytes to) {
  const std::size_t limit = to.size() / cap_;
  std::size_t count = 0;
  for (;;) {
    const bytes_view block = map_.device->view(location.byte, map_.geometry.block);
    // Not mapped, or behind the end of the file.
    if (block.empty()) {
      return count;
    }
    const auto h = check_header(block, claim(n + count));
    if (!h || h->algorithm() != 0 ||
        h->data_crc !=
            copy_crc32(0, block.subspan(header_bytes), to.data() + count * cap_)) {
      return count;
    }
    const auto next = ++count < limit ? locate(n + count) : std::nullopt;
    // The last address is known before the loop goes on, so each is computed once.
    if (!next || !next->allocated) {
      return count;
    }
    location = *next;
  }
}

// Returns how many payloads from block n on could be read the regular way; 0 sends the
// caller to `read_block`. `first` is the place of block `n`, which is allocated.
std::size_t reader::read_plain(std::uint64_t n, const place& first, mutable_bytes to) {
  const std::size_t bs = map_.geometry.block;
  if (!map_.device->view(first.byte, bs).empty()) {
    return read_mapped(n, first, to);
  }
  // A batch fits into the cache, but has at least one block of any size.
  const std::size_t limit = std::min(
      {to.size() / cap_, batch_blocks, std::max<std::size_t>(batch_bytes / bs, 1)});
  std::size_t count = 1;
  // The run ends at the first block that does not follow its predecessor.
  for (; count < limit; ++count) {
    const auto next = locate(n + count);
    if (!next || next->byte != first.byte + count * bs || !next->allocated) {
      break;
    }
  }
  const auto good = read_batch(n, first.byte, count, to);
  return good ? *good : 0;
}

// Reads at least one whole payload from block n on. A block that is not regular is read,
// or refused, by `read_block`.
//
// Advances `done_`.
result<void> reader::read_whole(std::uint64_t n, mutable_bytes to) {
  const auto first = locate(n);
  // Shards of the horizon region have rules of their own for holes and go the slow way.
  const bool plain =
      first && first->allocated && !map_.sources[shard_].a.has(class_bits::horizon);
  std::size_t count = plain ? read_plain(n, *first, to) : 0;
  if (count == 0) {
    WEIR_CHECK(read_block(n, 0, to.first(cap_)));
    count = 1;
  } else {
    last_hole_ = false;
  }
  done_ += count * cap_;
  return {};
}

// Finds the shard that holds an offset of the stream.
//
// The offset must lie inside the stream.
void reader::find_shard(std::uint64_t offset) {
  const auto after =
      std::upper_bound(map_.shards.begin(), map_.shards.end(), offset,
                       [](std::uint64_t x, const hn4_shard& s) { return x < s.offset; });
  shard_ = static_cast<std::size_t>(after - map_.shards.begin()) - 1;
}

// Returns nothing in all cases in which a copy would be needed: parts of two blocks,
// compressed or displaced blocks, devices that are not mapped. The caller then reads, and
// gets the error if there is one.
//
// The caller may keep the view as long as the stream, whose map keeps the device.
bytes_view reader::view(std::uint64_t offset, std::size_t count) {
  find_shard(offset);
  const hn4_shard& shard = map_.shards[shard_];
  const std::uint64_t local = offset - shard.offset;
  const auto skip = static_cast<std::size_t>(local % cap_);
  const auto location = locate(local / cap_);
  // The range must lie inside one payload.
  if (count > shard.bytes - local || count > cap_ - skip || !location ||
      !location->allocated) {
    return {};
  }
  const bytes_view block = map_.device->view(location->byte, map_.geometry.block);
  if (block.empty()) {
    return {};
  }
  const std::uint64_t number = local / cap_;
  // A block is verified once for all views, as its bytes may be viewed many times.
  if (!map_.verified->has(shard_, number)) {
    const auto h = check_header(block, claim(number));
    if (!h || h->algorithm() != 0 ||
        !check_payload(*h, crc32(0, block.subspan(header_bytes)))) {
      return {};
    }
    map_.verified->add(shard_, number);
  }
  return block.subspan(header_bytes + skip, count);
}

// Each pass reads whole blocks of one shard, or a part of one block.
//
// `to` must end inside the stream. On failure `done()` says how many bytes are right.
result<void> reader::read(std::uint64_t offset, mutable_bytes to) {
  done_ = 0;
  find_shard(offset);
  while (done_ < to.size()) {
    const hn4_shard& shard = map_.shards[shard_];
    const std::uint64_t local = offset + done_ - shard.offset;
    const std::uint64_t n = local / cap_;
    const auto skip = static_cast<std::size_t>(local % cap_);
    const auto left = static_cast<std::size_t>(
        std::min<std::uint64_t>(shard.bytes - local, to.size() - done_));
    // Whole payloads go the fast way.
    if (skip == 0 && left >= cap_) {
      WEIR_CHECK(read_whole(n, to.subspan(done_, left)));
    } else {
      const std::size_t part = std::min(left, cap_ - skip);
      WEIR_CHECK(read_block(n, skip, to.subspan(done_, part)));
      done_ += part;
    }
    // The end of a shard leads to the next one; shards are never empty.
    shard_ += offset + done_ == shard.offset + shard.bytes ? 1 : 0;
  }
  return {};
}

}  // namespace weir::storage::hn4
