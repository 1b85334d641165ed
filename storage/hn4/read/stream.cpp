// SPDX-License-Identifier: Apache-2.0
/// @file
/// Builds the map of a stream when a tag is opened, and implements the public class
/// `hn4_stream`.
///
/// The map of a stream is computed once. It holds copies of the directory entries, so a
/// stream is a snapshot: it does not see later changes of the directory, and
/// `verify_snapshot` tells whether there were any.
#include <fmt/core.h>

#include <algorithm>

#include "hn4/directory/directory.hpp"
#include "hn4/read/reader.hpp"
#include "weir/storage/hn4_code.hpp"

namespace weir::storage::hn4 {

namespace {

/// Compares two shards by the chosen order. Identities break ties, and are the order
/// that writers intend.
bool before(const entry& x, const entry& y, hn4_order order) {
  if (order == hn4_order::clock_then_seed && x.a.create_clock != y.a.create_clock) {
    return x.a.create_clock < y.a.create_clock;
  }
  return x.a.seed < y.a.seed;
}

/// Returns whether shards are in the chosen order. Equal shards count as ordered.
bool in_order(const std::vector<entry>& shards, hn4_order order) {
  return std::is_sorted(
      shards.begin(), shards.end(),
      [&](const entry& x, const entry& y) { return before(x, y, order); });
}

/// Sorts shards by the chosen order.
void put_in_order(std::vector<entry>& shards, hn4_order order) {
  std::stable_sort(shards.begin(), shards.end(),
                   [&](const entry& x, const entry& y) { return before(x, y, order); });
}

/// Makes the error for a shard that cannot be part of a stream. The location names tag,
/// shard and slot.
error bad_shard(const core& c, std::string_view tag, std::size_t index, const entry& e,
                hn4_code code, std::string_view text) {
  return hn4_error(code, fmt::format("cannot open tag \"{}\": {}", tag, text))
      .located(c.place(
          c.slot_offset(e.slot),
          fmt::format("tag \"{}\", shard {}, directory slot {}", tag, index, e.slot)));
}

/// Adds a shard at the end of the stream. The sum of lengths was checked by
/// `check_shard`.
void add_shard(const core& c, stream_map& map, const entry& e) {
  const anchor& a = e.a;
  hn4_shard shard;
  shard.seed = a.seed;
  shard.offset = map.size;
  shard.bytes = a.mass;
  shard.blocks = blocks_for(c.geometry, a.mass);
  shard.generation = a.write_gen;
  shard.create_clock = a.create_clock;
  shard.compressed = a.has(class_bits::compressed);
  map.size += a.mass;
  map.shards.push_back(shard);
  map.sources.push_back({trajectory(c.space, a), a, e.slot});
}

/// Adds the shards. One that cannot be part of a stream is an error; with `recover` it is
/// left out, unless nothing else is left.
///
/// The last shard may not be left out if none was added, since a stream needs one.
result<void> add_shards(const core& c, stream_map& map, const std::vector<entry>& shards,
                        bool recover) {
  for (std::size_t i = 0; i < shards.size(); ++i) {
    // The check needs the offset of the shard, which is the length so far.
    auto good = check_shard(c, map.tag, i, shards[i], map.size, map.strict);
    if (good) {
      add_shard(c, map, shards[i]);
    } else if (!recover || (i + 1 == shards.size() && map.shards.empty())) {
      return good;
    } else {
      map.warnings.push_back(fmt::format("tag \"{}\": a shard is left out: {}", map.tag,
                                         good.error().text()));
    }
  }
  return {};
}

}  // namespace

// Strict mode accepts lengths that no volume can hold, as the reference implementation
// does; their blocks are holes.
//
// `offset` is the sum of the lengths of the shards before it.
result<void> check_shard(const core& c, std::string_view tag, std::size_t index,
                         const entry& e, std::uint64_t offset, bool strict) {
  std::uint64_t end = 0;
  if (e.a.mass == 0) {
    return bad_shard(c, tag, index, e, hn4_code::data_rot,
                     "expected a shard of at least 1 byte, found 0");
  }
  // Nano objects have their content in the directory, which only the reference can make.
  if (e.a.has(class_bits::nano) && !strict) {
    return bad_shard(c, tag, index, e, hn4_code::algorithm_unknown,
                     "expected a shard in blocks, found a nano object");
  }
  // Lengths come from the medium.
  if (!checked_add(offset, e.a.mass, end)) {
    return bad_shard(c, tag, index, e, hn4_code::geometry,
                     fmt::format("expected shards of less than 2^64 bytes together, "
                                 "found {} bytes behind {}",
                                 e.a.mass, offset));
  }
  if (!strict && blocks_for(c.geometry, e.a.mass) > c.geometry.blocks) {
    return bad_shard(
        c, tag, index, e, hn4_code::geometry,
        fmt::format("expected a shard that fits the volume's {} blocks, found {} bytes",
                    c.geometry.blocks, e.a.mass));
  }
  return {};
}

/// Called once for each opening of a tag.
result<std::shared_ptr<const stream_map>> map_stream(const core& c, std::string_view tag,
                                                     const hn4_stream_options& options) {
  const bool strict = c.strict || options.strict;
  if (strict) {
    WEIR_CHECK(c.need_directory());
  }
  WEIR_TRY(selection chosen,
           strict ? select_strictly(c, tag) : select_tag(c, tag, options.recover));
  return map_shards(c, tag, std::move(chosen), options);
}

/// Also serves a check of the volume, which has selected the shards itself.
result<std::shared_ptr<const stream_map>> map_shards(const core& c, std::string_view tag,
                                                     selection chosen,
                                                     const hn4_stream_options& options) {
  const bool strict = c.strict || options.strict;
  auto map = std::make_shared<stream_map>();
  map->device = c.device;
  // Strict streams see the bits that the reference would rebuild.
  map->bits = strict ? c.strict_bits() : c.bits;
  map->geometry = c.geometry;
  map->space = c.space;
  map->strict = strict;
  map->unclean = c.unclean;
  map->holes = strict ? hn4_holes::zeros : options.holes;
  map->tag = tag;
  map->warnings = std::move(chosen.warnings);
  const hn4_order order = strict ? hn4_order::clock_then_seed : options.order;
  // The default order is by identity. Only if the creation times contradict it do the
  // orders differ, and then the caller's choice counts. Both sorts are stable, so the
  // order of slots decides the rest.
  put_in_order(chosen.shards, hn4_order::seed);
  if (!in_order(chosen.shards, hn4_order::clock_then_seed)) {
    map->warnings.push_back(fmt::format(
        "tag \"{}\": creation times contradict the order of identities; ordered by {}",
        tag, order == hn4_order::seed ? "identity" : "creation time"));
    put_in_order(chosen.shards, order);
  }
  WEIR_CHECK(add_shards(c, *map, chosen.shards, !strict && options.recover));
  return std::shared_ptr<const stream_map>(std::move(map));
}

}  // namespace weir::storage::hn4

namespace weir::storage {

/// A text for users: where, how many, and what was done about it.
std::string to_text(const hn4_recovery& r) {
  const char* text = r.kind == hn4_recovery_kind::cleared_bit
                         ? "found under a cleared bit"
                     : r.kind == hn4_recovery_kind::other_orbit
                         ? "found on another orbit than its hint says"
                     : r.kind == hn4_recovery_kind::older_generation
                         ? "accepted with an older generation than the directory's"
                         : "decompressed to fewer bytes than the shard has, zeros follow";
  return fmt::format("shard {}, block {}{}: {}", r.shard, r.first_block,
                     r.blocks > 1 ? fmt::format(" and {} more", r.blocks - 1) : "", text);
}

hn4_stream::hn4_stream(std::shared_ptr<const hn4::stream_map> map) noexcept
    : map_(std::move(map)) {}
/// Copies share the map, which never changes.
hn4_stream::hn4_stream(const hn4_stream&) = default;
hn4_stream& hn4_stream::operator=(const hn4_stream&) = default;
hn4_stream::hn4_stream(hn4_stream&&) noexcept = default;
hn4_stream& hn4_stream::operator=(hn4_stream&&) noexcept = default;
hn4_stream::~hn4_stream() = default;

const std::string& hn4_stream::tag() const noexcept {
  return map_->tag;
}
std::uint64_t hn4_stream::size() const noexcept {
  return map_->size;
}
std::span<const hn4_shard> hn4_stream::shards() const noexcept {
  return map_->shards;
}
// Blocks that follow each other both on the device and in the stream form one extent.
//
// Sorted by their place on the device, for tools that read it in one direction.
std::vector<hn4_extent> hn4_stream::extents() const {
  const std::uint64_t bs = map_->geometry.block, cap = map_->geometry.payload;
  std::vector<hn4_extent> all;
  for (std::size_t i = 0; i < map_->shards.size(); ++i) {
    const hn4_shard& s = map_->shards[i];
    // A strict stream accepts any length that the directory claims.
    const std::uint64_t blocks = std::min(s.blocks, map_->geometry.blocks);
    for (std::uint64_t n = 0; n < blocks; ++n) {
      const auto block = map_->sources[i].path.block(n);
      // Blocks without an address have no place.
      if (!block) {
        continue;
      }
      const hn4_extent one{*block * bs, s.offset + n * cap,
                           std::min(cap, s.bytes - n * cap), 1};
      // The last extent continues here in both respects.
      if (!all.empty() &&
          all.back().device_offset + all.back().blocks * bs == one.device_offset &&
          all.back().offset + all.back().bytes == one.offset) {
        all.back().bytes += one.bytes;
        ++all.back().blocks;
      } else {
        all.push_back(one);
      }
    }
  }
  std::sort(all.begin(), all.end(), [](const hn4_extent& x, const hn4_extent& y) {
    return x.device_offset < y.device_offset;
  });
  return all;
}
const std::vector<std::string>& hn4_stream::warnings() const noexcept {
  return map_->warnings;
}
/// The log is shared by all copies of the stream.
std::vector<hn4_recovery> hn4_stream::recoveries() const {
  return map_->log->all();
}
std::uint32_t hn4_stream::payload() const noexcept {
  return map_->geometry.payload;
}

// All other reads are built on this one.
//
// A range that reaches beyond the end is cut. `part.bytes` counts the bytes that are
// right, also after a failure.
hn4_partial hn4_stream::read_partial(std::uint64_t offset, mutable_bytes to) const {
  hn4_partial part;
  if (to.empty()) {
    return part;
  }
  if (offset >= map_->size) {
    part.failure =
        hn4_error(hn4_code::invalid_argument,
                  fmt::format("cannot read tag \"{}\": expected an offset below {}, "
                              "found {}",
                              map_->tag, map_->size, offset),
                  errc::out_of_range)
            .located(map_->device->name());
    return part;
  }
  const auto count =
      static_cast<std::size_t>(std::min<std::uint64_t>(map_->size - offset, to.size()));
  // A reader is cheap and has its own state, so calls of several threads do not meet.
  hn4::reader reader(*map_);
  auto done = reader.read(offset, to.first(count));
  part.bytes = reader.done();
  part.holes = reader.holes();
  part.ended_in_hole = reader.ended_in_hole();
  if (!done) {
    part.failure = std::move(done).error();
  }
  return part;
}

/// Returns fewer bytes than asked for only at the end of the stream.
result<std::size_t> hn4_stream::read(std::uint64_t offset, mutable_bytes to) const {
  hn4_partial part = read_partial(offset, to);
  if (part.failure) {
    return std::move(*part.failure);
  }
  return part.bytes;
}

/// Every piece must be filled. The first one that is not ends the call.
result<void> hn4_stream::read_scattered(std::span<const hn4_piece> pieces) const {
  for (const hn4_piece& piece : pieces) {
    WEIR_TRY(const std::size_t got, read(piece.offset, piece.to));
    if (got < piece.to.size()) {
      return hn4_error(hn4_code::invalid_argument,
                       fmt::format("cannot read tag \"{}\": expected {} bytes at {}, "
                                   "found {} before the end",
                                   map_->tag, piece.to.size(), piece.offset, got),
                       errc::out_of_range)
          .located(map_->device->name());
    }
  }
  return {};
}

/// An empty view means that the bytes cannot be viewed and must be read.
result<hn4_view> hn4_stream::view(std::uint64_t offset, std::size_t count) const {
  if (offset >= map_->size || count == 0) {
    return hn4_view{};
  }
  const bytes_view bytes = hn4::reader(*map_).view(offset, count);
  return bytes.empty() ? hn4_view{} : hn4_view{bytes, map_};
}

/// Fails if any byte is lost.
result<byte_vector> hn4_stream::read_all() const {
  // The size is only what the directory claims, so memory is taken as bytes arrive.
  constexpr std::uint64_t step = std::uint64_t{64} << 20;
  byte_vector all;
  while (all.size() < map_->size) {
    const std::size_t done = all.size();
    all.resize(done + static_cast<std::size_t>(std::min(step, map_->size - done)));
    WEIR_CHECK(read(done, mutable_bytes(all).subspan(done)));
  }
  return all;
}

// Compares the entries byte by byte: any change, even of a time, means that the tag was
// written meanwhile.
//
// Blocks are not compared; a store writes an entry for every change of a shard.
result<void> hn4_stream::verify_snapshot() const {
  for (std::size_t i = 0; i < map_->sources.size(); ++i) {
    const hn4::shard_source& s = map_->sources[i];
    const std::uint64_t offset = map_->geometry.cortex + s.slot * hn4::anchor_bytes;
    std::array<std::byte, hn4::anchor_bytes> bytes{}, then{};
    WEIR_CHECK(map_->device->read(offset, bytes));
    // The entry as it was when the stream was opened.
    hn4::store_anchor(s.a, then);
    if (bytes != then) {
      return hn4_error(hn4_code::snapshot_invalid,
                       fmt::format("cannot verify tag \"{}\": expected the directory "
                                   "entry of shard {} as it was at open, found another",
                                   map_->tag, i))
          .located(fmt::format("{}:{} (directory slot {})", map_->device->name(), offset,
                               s.slot))
          .hint("the volume was written while it was read; open the tag again");
    }
  }
  return {};
}

}  // namespace weir::storage
