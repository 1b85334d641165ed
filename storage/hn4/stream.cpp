// SPDX-License-Identifier: Apache-2.0
/// @file
/// The shards of a tag as one run of bytes: the map built at open, and verified reads.
#include <fmt/core.h>

#include <algorithm>

#include "core.hpp"
#include "weir/base/hash.hpp"

namespace weir::storage::hn4 {

namespace {

// Whole blocks are moved in batches that stay in the processor's cache until they are
// verified.
constexpr std::size_t batch_bytes = std::size_t{256} << 10;
constexpr std::size_t batch_blocks = 128;

bool in_order(const std::vector<entry>& shards, hn4_order order) {
  return std::is_sorted(shards.begin(), shards.end(),
                        [&](const entry& x, const entry& y) {
                          const bool by_clock = order == hn4_order::clock_then_seed;
                          return by_clock && x.a.create_clock != y.a.create_clock
                                     ? x.a.create_clock < y.a.create_clock
                                     : x.a.seed < y.a.seed;
                        });
}

void put_in_order(std::vector<entry>& shards, hn4_order order) {
  std::sort(shards.begin(), shards.end(), [&](const entry& x, const entry& y) {
    if (order == hn4_order::clock_then_seed && x.a.create_clock != y.a.create_clock) {
      return x.a.create_clock < y.a.create_clock;
    }
    return x.a.seed < y.a.seed;
  });
}

error bad_shard(const core& c, std::string_view tag, std::size_t index, const entry& e,
                errc code, std::string_view text) {
  return error(code, fmt::format("cannot open tag \"{}\": {}", tag, text))
      .at(c.place(
          c.slot_offset(e.slot),
          fmt::format("tag \"{}\", shard {}, directory slot {}", tag, index, e.slot)));
}

result<void> add_shard(const core& c, stream_map& map, const entry& e) {
  const std::size_t index = map.shards.size();
  const std::uint64_t cap = c.geometry.payload;
  const anchor& a = e.a;
  if (a.mass == 0) {
    return bad_shard(c, map.tag, index, e, errc::corrupt,
                     "expected a shard of at least 1 byte, found 0");
  }
  if (a.has(class_bits::nano)) {
    return bad_shard(c, map.tag, index, e, errc::unsupported,
                     "expected a shard in blocks, found a nano object");
  }
  hn4_shard shard;
  shard.seed = a.seed;
  shard.offset = map.size;
  shard.bytes = a.mass;
  shard.blocks = a.mass / cap + (a.mass % cap != 0 ? 1 : 0);
  shard.generation = a.write_gen;
  shard.create_clock = a.create_clock;
  if (shard.blocks > c.geometry.blocks || !checked_add(map.size, a.mass, map.size)) {
    return bad_shard(
        c, map.tag, index, e, errc::corrupt,
        fmt::format("expected a shard that fits the volume's {} blocks, found {} bytes",
                    c.geometry.blocks, a.mass));
  }
  map.shards.push_back(shard);
  map.sources.push_back(
      {trajectory(c.space, a), a.seed, a.write_gen, a.has(class_bits::encrypted)});
  return {};
}

// Copies verified bytes of one stream; one object per call of `read`.
class reader {
 public:
  explicit reader(const stream_map& map) : map_(map), cap_(map.geometry.payload) {}

  result<void> read(std::uint64_t offset, mutable_bytes to);

 private:
  struct place {
    std::uint64_t byte = 0;
    bool allocated = false;
  };

  result<std::optional<place>> locate(std::uint64_t n) const;
  result<std::size_t> read_whole(std::uint64_t n, mutable_bytes to);
  result<void> read_batch(std::uint64_t n, std::uint64_t byte, std::size_t count,
                          mutable_bytes to);
  result<void> read_part(std::uint64_t n, std::size_t skip, mutable_bytes to);
  result<void> read_block(std::uint64_t n, const place& at, std::size_t skip,
                          mutable_bytes to);
  result<void> take(std::uint64_t n, bytes_view header, bytes_view payload,
                    std::size_t skip, mutable_bytes to);
  result<void> unpack(bytes_view packed, std::size_t skip, mutable_bytes to);

  block_claim claim(std::uint64_t n) const {
    const shard_source& s = map_.sources[shard_];
    return {s.seed, n, s.generation, map_.geometry.payload, s.encrypted};
  }
  error named(error cause, std::uint64_t n, std::optional<std::uint64_t> byte) const;
  error hole(std::uint64_t n, std::uint64_t byte) const;
  mutable_bytes scratch() {
    if (!scratch_) {
      scratch_.reset(new std::byte[map_.geometry.block]);
    }
    return {scratch_.get(), map_.geometry.block};
  }

  const stream_map& map_;
  std::size_t cap_;
  std::size_t shard_ = 0;
  std::unique_ptr<std::byte[]> scratch_;  ///< one block
};

error reader::named(error cause, std::uint64_t n,
                    std::optional<std::uint64_t> byte) const {
  const std::uint64_t at = map_.shards[shard_].offset + n * cap_;
  const errc code = cause.code();
  const std::string text =
      fmt::format("cannot read tag \"{}\" at byte {}: {}", map_.tag, at, cause.text());
  return error(code, text)
      .at(fmt::format("{}:{} (tag \"{}\", shard {}, block {})", map_.device->name(),
                      byte ? std::to_string(*byte) : "outside", map_.tag, shard_, n));
}

error reader::hole(std::uint64_t n, std::uint64_t byte) const {
  return named(
      error(errc::hole, fmt::format("expected an allocated block, found a hole (block {} "
                                    "of the volume is free)",
                                    byte / map_.geometry.block)),
      n, byte);
}

// Where block n lies; nothing for a hole that may be read as zeros.
result<std::optional<reader::place>> reader::locate(std::uint64_t n) const {
  const auto block = map_.sources[shard_].path.block(n);
  if (!block) {
    if (map_.holes == hn4_holes::zeros) {
      return std::optional<place>();
    }
    return named(
        error(errc::hole, "expected an address inside the volume, found one outside"), n,
        std::nullopt);
  }
  place at;
  at.byte = *block * map_.geometry.block;
  at.allocated = map_.bits->test(*block);
  if (!at.allocated && !map_.unclean) {
    if (map_.holes == hn4_holes::zeros) {
      return std::optional<place>();
    }
    return hole(n, at.byte);
  }
  return std::optional<place>(at);
}

result<void> reader::unpack(bytes_view packed, std::size_t skip, mutable_bytes to) {
  // A decoder may produce up to a whole block although only the payload counts.
  byte_vector out(map_.geometry.block);
  WEIR_CHECK(tcc_decode(packed, out));
  std::memcpy(to.data(), out.data() + skip, to.size());
  return {};
}

// Verifies one block and copies a part of its payload, unless it lies there already.
result<void> reader::take(std::uint64_t n, bytes_view header, bytes_view payload,
                          std::size_t skip, mutable_bytes to) {
  WEIR_TRY(const block_header h, check_header(header, claim(n)));
  WEIR_CHECK(check_payload(h, crc32(0, payload)));
  if (h.algorithm() != 0) {
    const bytes_view packed = payload.first(h.stored());
    if (payload.data() == to.data()) {
      const byte_vector copy(packed.begin(), packed.end());
      return unpack(copy, skip, to);
    }
    return unpack(packed, skip, to);
  }
  if (payload.data() != to.data()) {
    std::memcpy(to.data(), payload.data() + skip, to.size());
  }
  return {};
}

result<void> reader::read_block(std::uint64_t n, const place& at, std::size_t skip,
                                mutable_bytes to) {
  bytes_view bytes = map_.device->view(at.byte, map_.geometry.block);
  if (bytes.empty()) {
    WEIR_CHECK(map_.device->read(at.byte, scratch()));
    bytes = scratch();
  }
  auto taken = take(n, bytes.first(header_bytes), bytes.subspan(header_bytes), skip, to);
  if (taken) {
    return {};
  }
  if (!at.allocated) {
    if (map_.holes == hn4_holes::zeros) {
      std::memset(to.data(), 0, to.size());
      return {};
    }
    return hole(n, at.byte).because(std::move(taken).error());
  }
  return named(std::move(taken).error(), n, at.byte);
}

result<void> reader::read_part(std::uint64_t n, std::size_t skip, mutable_bytes to) {
  WEIR_TRY(const auto at, locate(n));
  if (!at) {
    std::memset(to.data(), 0, to.size());
    return {};
  }
  return read_block(n, *at, skip, to);
}

// `count` blocks that follow each other on the device; payloads go straight to where they
// are wanted.
result<void> reader::read_batch(std::uint64_t n, std::uint64_t byte, std::size_t count,
                                mutable_bytes to) {
  const std::size_t bs = map_.geometry.block;
  std::array<std::array<std::byte, header_bytes>, batch_blocks> headers;
  std::array<mutable_bytes, 2 * batch_blocks> pieces;
  for (std::size_t i = 0; i < count; ++i) {
    pieces[2 * i] = headers[i];
    pieces[2 * i + 1] = to.subspan(i * cap_, cap_);
  }
  WEIR_CHECK(map_.device->read_scattered(byte, std::span(pieces).first(2 * count)));
  for (std::size_t i = 0; i < count; ++i) {
    auto taken = take(n + i, headers[i], pieces[2 * i + 1], 0, pieces[2 * i + 1]);
    if (!taken) {
      return named(std::move(taken).error(), n + i, byte + i * bs);
    }
  }
  return {};
}

// At least one whole payload from block n on; returns how many bytes.
result<std::size_t> reader::read_whole(std::uint64_t n, mutable_bytes to) {
  const std::size_t bs = map_.geometry.block;
  WEIR_TRY(const auto first, locate(n));
  if (!first || !first->allocated || !map_.device->view(first->byte, bs).empty()) {
    const mutable_bytes one = to.first(cap_);
    if (first) {
      WEIR_CHECK(read_block(n, *first, 0, one));
    } else {
      std::memset(one.data(), 0, one.size());
    }
    return cap_;
  }
  const std::size_t most = std::min(
      {to.size() / cap_, batch_blocks, std::max<std::size_t>(batch_bytes / bs, 1)});
  std::size_t count = 1;
  for (; count < most; ++count) {
    const auto next = map_.sources[shard_].path.block(n + count);
    if (!next || *next * bs != first->byte + count * bs || !map_.bits->test(*next)) {
      break;
    }
  }
  WEIR_CHECK(read_batch(n, first->byte, count, to));
  return count * cap_;
}

result<void> reader::read(std::uint64_t offset, mutable_bytes to) {
  const auto after =
      std::upper_bound(map_.shards.begin(), map_.shards.end(), offset,
                       [](std::uint64_t x, const hn4_shard& s) { return x < s.offset; });
  shard_ = static_cast<std::size_t>(after - map_.shards.begin()) - 1;
  while (!to.empty()) {
    const hn4_shard& shard = map_.shards[shard_];
    const std::uint64_t local = offset - shard.offset;
    const std::uint64_t n = local / cap_;
    const auto skip = static_cast<std::size_t>(local % cap_);
    const auto left =
        static_cast<std::size_t>(std::min<std::uint64_t>(shard.bytes - local, to.size()));
    std::size_t done = 0;
    if (skip == 0 && left >= cap_) {
      WEIR_TRY(done, read_whole(n, to.first(left)));
    } else {
      done = std::min(left, cap_ - skip);
      WEIR_CHECK(read_part(n, skip, to.first(done)));
    }
    to = to.subspan(done);
    offset += done;
    shard_ += offset == shard.offset + shard.bytes ? 1 : 0;
  }
  return {};
}

}  // namespace

result<std::shared_ptr<const stream_map>> map_stream(const core& c, std::string_view tag,
                                                     const hn4_stream_options& options) {
  WEIR_TRY(selection chosen, select_tag(c, tag));
  auto map = std::make_shared<stream_map>();
  map->device = c.device;
  map->bits = c.bits;
  map->geometry = c.geometry;
  map->unclean = c.unclean;
  map->holes = options.holes;
  map->tag = tag;
  map->warnings = std::move(chosen.warnings);
  put_in_order(chosen.shards, hn4_order::seed);
  if (!in_order(chosen.shards, hn4_order::clock_then_seed)) {
    map->warnings.push_back(fmt::format(
        "tag \"{}\": creation times contradict the order of identities; ordered by {}",
        tag, options.order == hn4_order::seed ? "identity" : "creation time"));
    put_in_order(chosen.shards, options.order);
  }
  for (const entry& e : chosen.shards) {
    WEIR_CHECK(add_shard(c, *map, e));
  }
  return std::shared_ptr<const stream_map>(std::move(map));
}

}  // namespace weir::storage::hn4

namespace weir::storage {

hn4_stream::hn4_stream(std::shared_ptr<const hn4::stream_map> map) noexcept
    : map_(std::move(map)) {}
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
const std::vector<std::string>& hn4_stream::warnings() const noexcept {
  return map_->warnings;
}

result<std::size_t> hn4_stream::read(std::uint64_t offset, mutable_bytes to) const {
  if (to.empty()) {
    return std::size_t{0};
  }
  if (offset >= map_->size) {
    return error(errc::out_of_range,
                 fmt::format("cannot read tag \"{}\": expected an offset below "
                             "{}, found {}",
                             map_->tag, map_->size, offset))
        .at(map_->device->name());
  }
  const auto count =
      static_cast<std::size_t>(std::min<std::uint64_t>(map_->size - offset, to.size()));
  WEIR_CHECK(hn4::reader(*map_).read(offset, to.first(count)));
  return count;
}

result<byte_vector> hn4_stream::read_all() const {
  // A size is only what the directory claims: memory is taken as bytes arrive.
  constexpr std::uint64_t step = std::uint64_t{64} << 20;
  byte_vector all;
  while (all.size() < map_->size) {
    const std::size_t done = all.size();
    all.resize(done + static_cast<std::size_t>(std::min(step, map_->size - done)));
    WEIR_CHECK(read(done, mutable_bytes(all).subspan(done)));
  }
  return all;
}

}  // namespace weir::storage
