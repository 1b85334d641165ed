// SPDX-License-Identifier: Apache-2.0
/// @file
/// Storing a tag: plan, data, directory, and only then the end of what was there (see
/// README.md).
#include <fmt/core.h>

#include <algorithm>
#include <chrono>

#include "core.hpp"
#include "weir/base/hash.hpp"
#include "weir/base/philox.hpp"

namespace weir::storage::hn4 {

namespace {

constexpr std::size_t most_shards = 4095;  // the reference refuses more
constexpr unsigned most_probes = 1024;
constexpr std::size_t write_bytes = std::size_t{1} << 20;
constexpr std::size_t bitmap_unit = 512;
constexpr std::uint64_t shard_class =
    class_bits::matrix | 1U << 6 | class_bits::valid | class_bits::weights;
constexpr std::uint32_t read_write = 3;

struct planned_shard {
  anchor a;
  bytes_view source;
  std::uint64_t first = 0;  ///< block
  std::uint64_t slot = 0;
  std::uint64_t name_block = 0;  ///< 0: the name is inline
};

struct free_run {
  std::uint64_t first = 0;
  std::uint64_t blocks = 0;
};

class planner {
 public:
  planner(const core& c, std::string_view tag, bytes_view source,
          const hn4_put_options& options)
      : c_(c), tag_(tag), source_(source), options_(options) {}

  result<void> plan();

  std::vector<planned_shard> shards;
  std::vector<entry> replaced;
  block_bits bits;       ///< allocation once the new shards are in
  block_bits bits_free;  ///< allocation once the replaced shards are out

 private:
  result<void> collect();
  result<void> split();
  result<void> add(std::uint64_t bytes, bool whole);
  result<void> name_and_place();
  result<void> find_slots();
  free_run run_for(std::uint64_t blocks) const;
  std::uint64_t blocks_for(std::uint64_t bytes) const {
    return bytes / c_.geometry.payload + (bytes % c_.geometry.payload != 0 ? 1 : 0);
  }
  error full(std::uint64_t bytes) const;

  const core& c_;
  std::string_view tag_;
  bytes_view source_;
  const hn4_put_options& options_;
  std::uint32_t generation_ = 1;
};

// Marks the blocks of a live entry, those of its long name included.
void mark_blocks(const core& c, const anchor& a, block_bits& bits, bool used) {
  const auto mark = [&](std::uint64_t block) {
    used ? bits.set(block) : bits.clear(block);
  };
  const std::uint64_t cap = c.geometry.payload;
  const std::uint64_t blocks =
      std::min(c.geometry.blocks, a.mass / cap + (a.mass % cap != 0 ? 1 : 0));
  const trajectory path(c.space, a);
  for (std::uint64_t n = 0; n < blocks; ++n) {
    if (const auto block = path.block(n)) {
      mark(*block);
    }
  }
  if (a.has(class_bits::extended)) {
    const std::uint64_t block =
        load_le<std::uint64_t>(a.name.data()) / (c.geometry.block / c.geometry.sector);
    if (block >= c.space.flux && block < c.geometry.blocks) {
      mark(block);
    }
  }
}

bool is_root(const anchor& a) noexcept {
  return a.seed == hn4_id{UINT64_MAX, UINT64_MAX};
}

// Where every live shard is ours, what is allocated follows from the directory, and bits
// that an interrupted put left behind are free again.
block_bits allocation_of(const core& c) {
  const bool ours = c.damaged.empty() &&
                    std::all_of(c.entries.begin(), c.entries.end(), [](const entry& e) {
                      return !e.a.live() || is_root(e.a) || group_of(e.a);
                    });
  block_bits bits = *c.bits;
  if (ours) {
    std::fill(bits.bits.begin(), bits.bits.end(), std::byte{0});
  }
  reserve_metadata(c.geometry, bits);
  for (const entry& e : c.entries) {
    if (e.a.live() && !is_root(e.a)) {
      mark_blocks(c, e.a, bits, true);
    }
  }
  return bits;
}

result<void> planner::collect() {
  WEIR_TRY(replaced, live_entries(c_, tag_));
  for (const entry& e : replaced) {
    if (e.a.write_gen == UINT32_MAX) {
      return error(
          errc::out_of_range,
          fmt::format("cannot replace tag \"{}\": expected a generation below 2^32-1",
                      tag_));
    }
    generation_ = std::max(generation_, e.a.write_gen + 1);
  }
  bits = allocation_of(c_);
  return {};
}

// The first run of free blocks that is long enough, else the longest.
free_run planner::run_for(std::uint64_t blocks) const {
  const std::uint64_t end = c_.geometry.horizon / c_.geometry.block;
  free_run best;
  for (std::uint64_t b = c_.space.flux; b < end;) {
    if (b % 8 == 0 && bits.bits[static_cast<std::size_t>(b / 8)] == std::byte{0xFF}) {
      b += 8;
      continue;
    }
    free_run run{b, 0};
    while (b < end && run.blocks < blocks && !bits.test(b)) {
      ++run.blocks;
      ++b;
    }
    if (run.blocks > best.blocks) {
      best = run;
    }
    if (best.blocks >= blocks) {
      break;
    }
    b += run.blocks == 0 ? 1 : 0;
  }
  return best;
}

error planner::full(std::uint64_t bytes) const {
  return error(errc::no_space, fmt::format("cannot store tag \"{}\": expected {} free "
                                           "blocks in a row for {} bytes, "
                                           "found {}",
                                           tag_, blocks_for(bytes), bytes,
                                           run_for(blocks_for(bytes)).blocks))
      .at(c_.place(c_.geometry.bitmap, "bitmap"))
      .hint("use more shards, or a larger volume");
}

// Takes the next `bytes` of the source; fewer, where no run is long enough and `whole` is
// false.
result<void> planner::add(std::uint64_t bytes, bool whole) {
  const free_run run = run_for(blocks_for(bytes));
  if (run.blocks == 0 || (whole && run.blocks < blocks_for(bytes)) ||
      shards.size() == most_shards) {
    return full(bytes);
  }
  planned_shard shard;
  const std::uint64_t count = std::min(bytes, run.blocks * c_.geometry.payload);
  shard.source = source_.first(static_cast<std::size_t>(count));
  shard.first = run.first;
  source_ = source_.subspan(shard.source.size());
  bits.set_range(run.first, run.first + blocks_for(count));
  shards.push_back(shard);
  return {};
}

result<void> planner::split() {
  const std::uint64_t bytes = source_.size();
  if (options_.shards > most_shards || options_.shards > bytes) {
    return error(
        errc::invalid_argument,
        fmt::format("cannot store tag \"{}\": expected at most {} shards, found {}", tag_,
                    std::min<std::uint64_t>(most_shards, bytes), options_.shards));
  }
  if (options_.shards != 0) {
    for (std::uint64_t i = 0; i < options_.shards; ++i) {
      WEIR_CHECK(
          add(bytes / options_.shards + (i < bytes % options_.shards ? 1 : 0), true));
    }
    return {};
  }
  while (!source_.empty()) {
    const std::uint64_t limit =
        options_.shard_bytes != 0 ? options_.shard_bytes : UINT64_MAX;
    WEIR_CHECK(add(std::min<std::uint64_t>(source_.size(), limit), false));
  }
  return {};
}

result<void> planner::name_and_place() {
  const hn4_geometry& g = c_.geometry;
  const std::uint64_t mask = tag_mask(tag_);
  for (planned_shard& s : shards) {
    s.a.tag_filter = mask;
    s.a.gravity = s.first - c_.space.flux;
    s.a.orbit_vector = 1;
    s.a.mass = s.source.size();
    s.a.data_class = shard_class;
    s.a.permissions = read_write;
    s.a.write_gen = generation_;
    if (tag_.size() <= inline_name_bytes) {
      std::memcpy(s.a.name.data(), tag_.data(), tag_.size());
      continue;
    }
    const free_run run = run_for(1);
    if (run.blocks == 0) {
      return full(1);
    }
    bits.set(run.first);
    s.name_block = run.first;
    s.a.data_class |= class_bits::extended;
    store_le(s.a.name.data(), run.first * (g.block / g.sector));
    std::memcpy(s.a.name.data() + 8, tag_.data(), fragment_bytes);
  }
  return {};
}

// A slot that is free or holds a shard of ours that was replaced, found as the reference
// would.
result<void> planner::find_slots() {
  const std::uint64_t slots = c_.slots();
  std::vector<bool> taken(static_cast<std::size_t>(slots));
  for (const entry& e : c_.damaged) {
    taken[static_cast<std::size_t>(e.slot)] = true;
  }
  for (const entry& e : c_.entries) {
    const bool reusable = !e.a.live() && e.a.has(class_bits::tombstone) && group_of(e.a);
    taken[static_cast<std::size_t>(e.slot)] = !reusable;
  }
  for (planned_shard& s : shards) {
    std::uint64_t slot = slot_hash(s.a.seed) % slots;
    unsigned probes = 0;
    while (probes < most_probes && taken[static_cast<std::size_t>(slot)]) {
      slot = (slot + 1) % slots;
      ++probes;
    }
    if (probes == most_probes) {
      return error(errc::no_space,
                   fmt::format("cannot store tag \"{}\": expected a free directory "
                               "slot, found {} taken in a row",
                               tag_, most_probes))
          .at(c_.place(c_.geometry.cortex, "directory"));
    }
    taken[static_cast<std::size_t>(slot)] = true;
    s.slot = slot;
  }
  return {};
}

result<void> planner::plan() {
  const bytes_view whole = source_;
  WEIR_CHECK(collect());
  WEIR_CHECK(split());
  WEIR_CHECK(name_and_place());
  const std::int64_t time =
      options_.time_ns.value_or(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                    std::chrono::system_clock::now().time_since_epoch())
                                    .count());
  const auto seconds = static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(time / 1'000'000'000, 0, UINT32_MAX));
  // Identities grow with every store. Their low half depends on the content, so that
  // blocks of a store that never finished are not mistaken for blocks of this one.
  std::uint64_t high = std::uint64_t{seconds} << 24;
  for (const entry& e : c_.entries) {
    if (!is_root(e.a)) {
      high = std::max(high, e.a.seed.hi);
    }
  }
  if (high >= UINT64_MAX - most_shards - 1) {
    return error(errc::out_of_range,
                 "cannot store: expected an identity above all others, found none left");
  }
  const philox random(c_.sb.uuid.lo ^ xxh3_64(whole), high);
  for (std::size_t i = 0; i < shards.size(); ++i) {
    anchor& a = shards[i].a;
    a.seed.hi = high + 1 + i;
    a.seed.lo = random.bits(i);
    a.public_id = public_id_of(
        {static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(shards.size())});
    a.create_clock = seconds;
    a.mod_clock = time;
  }
  WEIR_CHECK(find_slots());
  bits_free = bits;
  for (const entry& e : replaced) {
    mark_blocks(c_, e.a, bits_free, false);
  }
  reserve_metadata(c_.geometry, bits_free);
  return {};
}

result<void> write_data(core& c, const planned_shard& s) {
  const std::size_t bs = c.geometry.block;
  const std::size_t cap = c.geometry.payload;
  const std::size_t blocks = (s.source.size() + cap - 1) / cap;
  const std::size_t batch = std::max<std::size_t>(write_bytes / bs, 1);
  const trajectory path(c.space, s.a);
  byte_vector buffer(std::min(batch, blocks) * bs);
  for (std::size_t n = 0; n < blocks;) {
    const std::size_t count = std::min(batch, blocks - n);
    for (std::size_t i = 0; i < count; ++i) {
      WEIR_EXPECT(path.block(n + i) == s.first + n + i);
      const bytes_view part =
          s.source.subspan((n + i) * cap, std::min(cap, s.source.size() - (n + i) * cap));
      const mutable_bytes block = mutable_bytes(buffer).subspan(i * bs, bs);
      const mutable_bytes payload = block.subspan(header_bytes);
      std::memcpy(payload.data(), part.data(), part.size());
      std::fill(payload.begin() + static_cast<std::ptrdiff_t>(part.size()), payload.end(),
                std::byte{0});
      block_header h;
      h.well = s.a.seed;
      h.number = n + i;
      h.generation = s.a.write_gen;
      h.data_crc = crc32(0, payload);
      h.compression = static_cast<std::uint32_t>(part.size()) << 4;
      store_header(h, block);
    }
    WEIR_CHECK(c.device->write((s.first + n) * bs, bytes_view(buffer).first(count * bs)));
    n += count;
  }
  return {};
}

// A whole block with what the fragment in the directory leaves out.
result<void> write_long_name(core& c, const planned_shard& s, std::string_view tag) {
  constexpr std::uint32_t magic = 0x4D455441U, long_name = 2;
  if (s.name_block == 0) {
    return {};
  }
  byte_vector block(c.geometry.block);
  store_le(block.data(), magic);
  store_le(block.data() + 4, long_name);
  std::memcpy(block.data() + 16, tag.data() + fragment_bytes,
              tag.size() - fragment_bytes);
  return c.device->write(s.name_block * c.geometry.block, block);
}

// Writes the sectors of the bitmap in which `to` differs from `from`.
result<void> write_bits(core& c, const block_bits& from, const block_bits& to) {
  const bytes_view all(to.bits);
  for (std::size_t at = 0; at < all.size(); at += bitmap_unit) {
    const bytes_view now = all.subspan(at, std::min(bitmap_unit, all.size() - at));
    if (std::memcmp(now.data(), from.bits.data() + at, now.size()) != 0) {
      WEIR_CHECK(c.device->write(c.geometry.bitmap + at, now));
    }
  }
  return {};
}

result<void> write_anchor(core& c, const anchor& a, std::uint64_t slot) {
  std::array<std::byte, anchor_bytes> bytes{};
  store_anchor(a, bytes);
  return c.device->write(c.slot_offset(slot), bytes);
}

// The entry keeps its identity only, as the reference's reaper leaves it: nothing in it
// can be taken for a live shard's, whatever byte of it is damaged later.
anchor buried(anchor a) {
  a.data_class = (a.data_class & ~class_bits::extended) | class_bits::tombstone;
  a.mass = 0;
  a.gravity = 0;
  a.tag_filter = 0;
  a.name = {};
  return a;
}

result<void> carry_out(core& c, planner& p, std::string_view tag) {
  for (const planned_shard& s : p.shards) {
    WEIR_CHECK(write_data(c, s));
    WEIR_CHECK(write_long_name(c, s, tag));
  }
  WEIR_CHECK(write_bits(c, *c.bits, p.bits));
  WEIR_CHECK(c.device->sync());
  for (const planned_shard& s : p.shards) {
    WEIR_CHECK(write_anchor(c, s.a, s.slot));
  }
  WEIR_CHECK(c.device->sync());
  if (p.replaced.empty()) {
    return {};
  }
  for (const entry& e : p.replaced) {
    WEIR_CHECK(write_anchor(c, buried(e.a), e.slot));
  }
  WEIR_CHECK(c.device->sync());
  WEIR_CHECK(write_bits(c, p.bits, p.bits_free));
  return c.device->sync();
}

void adopt(core& c, planner& p) {
  for (const entry& e : p.replaced) {
    const auto old = std::find_if(c.entries.begin(), c.entries.end(),
                                  [&](const entry& x) { return x.slot == e.slot; });
    old->a = buried(e.a);
  }
  for (const planned_shard& s : p.shards) {
    std::erase_if(c.entries, [&](const entry& x) { return x.slot == s.slot; });
    c.entries.push_back({s.a, s.slot});
  }
  std::sort(c.entries.begin(), c.entries.end(),
            [](const entry& x, const entry& y) { return x.slot < y.slot; });
  c.bits = std::make_shared<const block_bits>(std::move(p.bits_free));
}

result<void> check_request(const core& c, std::string_view tag, bytes_view source) {
  if (!c.writable) {
    return error(
        errc::invalid_argument,
        fmt::format("cannot store tag \"{}\": {}", tag,
                    c.read_only_reason.empty() ? "the volume was opened for reading"
                                               : c.read_only_reason));
  }
  if (c.geometry.profile != hn4_profile::generic) {
    return error(
        errc::unsupported,
        fmt::format("cannot store tag \"{}\": expected a GENERIC volume, found {}", tag,
                    name_of(c.geometry.profile)));
  }
  if (tag.empty() || tag.size() > longest_name ||
      tag.find('\0') != std::string_view::npos || tag_mask(tag) == 0) {
    return error(
        errc::invalid_argument,
        fmt::format(
            "cannot store a tag: expected a name of 1 to {} bytes without NUL and "
            "not of separators only, found \"{}\"",
            longest_name, tag));
  }
  if (source.empty()) {
    return error(
        errc::invalid_argument,
        fmt::format("cannot store tag \"{}\": expected at least 1 byte, found 0", tag));
  }
  return {};
}

}  // namespace

void reserve_metadata(const hn4_geometry& g, block_bits& bits) {
  const std::uint64_t bs = g.block;
  const copy_places places = places_of_copies(g.capacity, g.block);
  const std::uint64_t copy = align_up(std::uint64_t{superblock_bytes}, bs) / bs;
  bits.set_range(0, g.flux / bs);
  bits.set_range(places.east / bs, places.east / bs + copy);
  bits.set_range(places.west / bs, places.west / bs + copy);
  bits.set_range(g.journal / bs, g.blocks);
}

result<void> put_stream(core& c, std::string_view tag, bytes_view source,
                        const hn4_put_options& options) {
  WEIR_CHECK(check_request(c, tag, source));
  planner p(c, tag, source, options);
  WEIR_CHECK(p.plan());
  auto done = carry_out(c, p, tag);
  if (!done) {
    // What reached the device is unknown; a second attempt could reuse what the first one
    // left there.
    c.writable = false;
    c.read_only_reason = "an earlier store failed; open the volume again";
    return error(done.error().code(),
                 fmt::format("cannot store tag \"{}\" in \"{}\"", tag, c.device->name()))
        .because(std::move(done).error());
  }
  adopt(c, p);
  return {};
}

}  // namespace weir::storage::hn4
