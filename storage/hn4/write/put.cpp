// SPDX-License-Identifier: Apache-2.0
/// @file
/// Stores a tag: plan, data, directory, and only then the end of what was there before.
/// README.md explains the order of the writes.
///
/// The data of a store lies in blocks that were free before, so until the first entry
/// becomes live nothing that any reader uses has changed.
///
/// A crash before that point leaves blocks that nothing names; the next opening for
/// writing frees them.
#include <fmt/core.h>

#include <algorithm>

#include "hn4/write/allocation.hpp"
#include "hn4/write/plan.hpp"
#include "weir/base/hash.hpp"
#include "weir/base/utf8.hpp"
#include "weir/storage/hn4_code.hpp"

namespace weir::storage::hn4 {

namespace {

/// Bytes of one write.
constexpr std::size_t write_bytes = std::size_t{1} << 20;
/// Payloads up to this size are not compressed: a block takes the same space anyway.
constexpr std::size_t least_compressed = 128;
/// Enough for the longest name behind its header.
constexpr std::size_t name_block_bytes = 4096;

/// Encodes one block. `part` is what the block holds of the shard.
///
/// The payload is compressed only if this saves at least one byte. The checksum covers
/// the whole payload, the zeros behind the content included.
void make_block(const anchor& a, std::uint64_t n, bytes_view part, bool compress,
                mutable_bytes block) {
  const mutable_bytes payload = block.subspan(header_bytes);
  std::optional<std::size_t> packed;
  if (compress && part.size() > least_compressed) {
    // The output has one byte less than the input, so a result that is not shorter
    // fails.
    packed = tcc_encode(part, payload.first(part.size() - 1));
  }
  const std::size_t stored = packed.value_or(part.size());
  if (!packed) {
    std::memcpy(payload.data(), part.data(), part.size());
  }
  std::fill(payload.begin() + static_cast<std::ptrdiff_t>(stored), payload.end(),
            std::byte{0});
  block_header h;
  h.well = a.seed;
  h.number = n;
  h.generation = a.write_gen;
  h.data_crc = crc32(0, payload);
  // Stored length and algorithm share the word.
  h.compression = static_cast<std::uint32_t>(stored) << 4 | (packed ? 3U : 0U);
  store_header(h, block);
}

/// Writes the data blocks of a shard in batches.
///
/// The blocks of a shard follow each other, so a batch is one write.
result<void> write_data(core& c, const planned_shard& s, bool compress) {
  const std::size_t bs = c.geometry.block;
  const std::size_t cap = c.geometry.payload;
  const std::size_t blocks = s.source.size() / cap + (s.source.size() % cap != 0 ? 1 : 0);
  const std::size_t batch = std::max<std::size_t>(write_bytes / bs, 1);
  const trajectory path(c.space, s.a);
  byte_vector buffer(std::min(batch, blocks) * bs);
  for (std::size_t n = 0; n < blocks;) {
    const std::size_t count = std::min(batch, blocks - n);
    for (std::size_t i = 0; i < count; ++i) {
      // The address that readers will compute must be the one that was allocated.
      WEIR_EXPECT(path.block(n + i) == s.first + n + i);
      const bytes_view part =
          s.source.subspan((n + i) * cap, std::min(cap, s.source.size() - (n + i) * cap));
      make_block(s.a, n + i, part, compress, mutable_bytes(buffer).subspan(i * bs, bs));
    }
    WEIR_CHECK(c.device->write((s.first + n) * bs, bytes_view(buffer).first(count * bs)));
    n += count;
  }
  return {};
}

/// Writes the block with the part of a long name that the entry does not hold.
result<void> write_long_name(core& c, const planned_shard& s, std::string_view tag) {
  constexpr std::uint32_t magic = 0x4D455441U, long_name = 2;
  if (s.name_block == 0) {
    return {};
  }
  // The chain has one block, as its name fits.
  byte_vector block(std::min<std::size_t>(c.geometry.block, name_block_bytes));
  store_le(block.data(), magic);
  store_le(block.data() + 4, long_name);
  std::memcpy(block.data() + 16, tag.data() + fragment_bytes,
              tag.size() - fragment_bytes);
  return c.device->write(s.name_block * c.geometry.block, block);
}

/// Returns the live entries of the new shards.
std::vector<entry> entries_of(const planner& p) {
  std::vector<entry> entries;
  for (const planned_shard& s : p.shards) {
    entries.push_back({s.a, s.slot});
  }
  return entries;
}

/// Returns the entry of the group before, with the mark that another group follows.
/// Empty unless an append continues a group.
std::vector<entry> grown_entry(const planner& p) {
  if (!p.grown) {
    return {};
  }
  entry e = *p.grown;
  group_mark mark = group_of(e.a).value();
  mark.grown = true;
  e.a.public_id = public_id_of(mark);
  return {e};
}

/// Returns the tombstones of what the store ends.
///
/// They are written last, since the blocks of these entries must stay allocated until
/// then.
std::vector<entry> ended_entries(const planner& p) {
  std::vector<entry> ended = as_tombstones(p.replaced);
  for (const entry& e : p.discarded) {
    ended.push_back({as_tombstone(e.a), e.slot});
  }
  return ended;
}

/// Writes a store in the order that README.md explains.
///
/// Every step is durable before the next: data and announced entries, bits, live
/// entries, mark of the group before, bits without the old shards, tombstones.
result<void> carry_out(core& c, planner& p, std::string_view tag,
                       const hn4_put_options& options) {
  for (const planned_shard& s : p.shards) {
    WEIR_CHECK(write_data(c, s, options.compress));
    WEIR_CHECK(write_long_name(c, s, tag));
  }
  // Announced entries are invisible to other readers.
  std::vector<entry> first = entries_of(p);
  for (entry& e : first) {
    e.a = announced(e.a);
  }
  WEIR_CHECK(write_entries(c, first));
  WEIR_CHECK(write_bits(c, p.bits));
  // The first of these writes decides.
  WEIR_CHECK(write_entries(c, entries_of(p)));
  WEIR_CHECK(write_entries(c, grown_entry(p)));
  WEIR_CHECK(write_bits(c, p.bits_free));
  return write_entries(c, ended_entries(p));
}

/// Applies a finished store to the directory and the bits in memory.
///
/// The order puts the new entries last, since they may reuse slots of the ended ones.
void adopt(core& c, planner& p) {
  adopt_entries(c, ended_entries(p));
  adopt_entries(c, grown_entry(p));
  adopt_entries(c, entries_of(p));
  p.bits_free.blind = c.bits->blind;
  c.bits = std::make_shared<const block_bits>(std::move(p.bits_free));
}

/// Makes the error for a request that cannot be fulfilled. Nothing was written yet.
error bad_request(std::string_view tag, std::string_view text) {
  return hn4_error(hn4_code::invalid_argument,
                   fmt::format("cannot store tag \"{}\": {}", tag, text));
}

/// Checks name and source.
///
/// The filter of a name that has only separators would be empty and match every look-up.
result<void> check_request(const core& c, std::string_view tag, bytes_view source) {
  if (!c.writable) {
    return bad_request(tag, c.read_only_reason.empty()
                                ? "the volume was opened for reading"
                                : c.read_only_reason);
  }
  if (tag.empty() || tag.size() > longest_name ||
      tag.find('\0') != std::string_view::npos || tag_mask(tag) == 0 || !is_utf8(tag)) {
    return hn4_error(
        tag.size() > longest_name ? hn4_code::name_too_long : hn4_code::invalid_argument,
        fmt::format(
            "cannot store a tag: expected a name of 1 to {} bytes of UTF-8 without NUL "
            "and not of separators only, found {} bytes",
            longest_name, tag.size()));
  }
  if (source.empty()) {
    return bad_request(tag, "expected at least 1 byte, found 0");
  }
  return {};
}

}  // namespace

// The plan is made before unfinished work is written, so a store that is refused writes
// nothing.
//
// Returns false and writes nothing if the plan would need a block at `end` or behind it;
// compaction uses this.
result<bool> put_below(core& c, std::string_view tag, bytes_view source,
                       const hn4_put_options& options, std::uint64_t end) {
  WEIR_CHECK(check_request(c, tag, source));
  planner p(c, tag, source, options);
  WEIR_CHECK(p.plan());
  if (p.end() > end) {
    return false;
  }
  // Unfinished work of others comes first, because the plan was made as if it were done.
  auto done = finish(c);
  if (done) {
    done = carry_out(c, p, tag, options);
  }
  if (!done) {
    // The volume takes no more writes.
    return write_failed(c, fmt::format("store tag \"{}\"", tag), std::move(done).error());
  }
  adopt(c, p);
  return true;
}

/// Stores a tag anywhere on the volume.
result<void> put_stream(core& c, std::string_view tag, bytes_view source,
                        const hn4_put_options& options) {
  WEIR_CHECK(put_below(c, tag, source, options, UINT64_MAX));
  return {};
}

}  // namespace weir::storage::hn4
