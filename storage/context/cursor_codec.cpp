// SPDX-License-Identifier: Apache-2.0
/// @file
/// Encodes and decodes cursors, generator states and source states.
///
/// All numbers are little-endian. Each encoding begins with a version and is refused if
/// bytes follow it, so that a cursor has exactly one encoding. Readers never trust a
/// count: it is compared with the bytes that remain before memory is taken for it.
#include "context/cursor_codec.hpp"

#include <fmt/core.h>

#include "context/identity.hpp"
#include "weir/base/hash.hpp"
#include "weir/base/record.hpp"

/// Section CURSOR holds a cursor without generator and source state, which have sections
/// of their own.
namespace weir::storage {

/// The hash is that of the tokens as little-endian words of 32 bits, on every machine.
std::uint64_t hash_tokens(std::span<const std::uint32_t> tokens) {
  if constexpr (std::endian::native == std::endian::little) {
    return xxh3_64(std::as_bytes(tokens));
  } else {
    record_writer out;
    out.put_all(tokens);
    return xxh3_64(out.view());
  }
}

namespace {

constexpr std::string_view cursor_magic = "WEIRCURS";
/// Version of a cursor without and with an origin of its lanes. The older version is
/// written where it suffices, so older programs can read most cursors.
constexpr std::uint32_t plain_version = 1;
constexpr std::uint32_t cursor_version = 2;
/// Version of a source state without and with states of the source itself, and with the
/// ranges that it leaves out.
constexpr std::uint32_t bare_version = 1;
constexpr std::uint32_t state_version = 2;
constexpr std::uint32_t left_out_version = 3;

/// Errors of this file are mostly of this kind.
error corrupt(std::string text) {
  return error(errc::corrupt, std::move(text));
}

/// Counts and zeros fill a word each, so that the arrays behind them are aligned to 8
/// bytes.
void put_eras(record_writer& to, const std::vector<era>& eras) {
  to.put(static_cast<std::uint32_t>(eras.size()));
  to.put(std::uint32_t{0});
  for (const era& e : eras) {
    to.put(e.first_chunk);
    to.put(e.first_token);
    to.put(e.source_offset);
    to.put(e.chunk);
    to.put(e.lane_block);
    // Flags: bit 0 says that the era begins at a boundary.
    to.put(std::uint64_t{e.boundary ? 1U : 0U});
    to.put_all(std::span<const std::uint64_t>(e.lane_positions));
  }
}

/// Reads the eras of a cursor. The count is compared with the remaining bytes before
/// anything is allocated for it.
///
/// `lanes` is the number of positions per era.
result<std::vector<era>> get_eras(record_reader& from, std::size_t lanes) {
  // An era has 48 bytes and one position per lane.
  const std::size_t count = from.get_count<std::uint32_t>(48 + 8 * lanes);
  bool clean = from.get<std::uint32_t>() == 0;
  std::vector<era> out;
  for (std::size_t i = 0; i < count && !from.failed(); ++i) {
    era e;
    e.first_chunk = from.get<std::uint64_t>();
    e.first_token = from.get<std::uint64_t>();
    e.source_offset = from.get<std::uint64_t>();
    e.chunk = from.get<std::uint64_t>();
    e.lane_block = from.get<std::uint64_t>();
    const auto flags = from.get<std::uint64_t>();
    clean = clean && flags <= 1;
    e.boundary = flags == 1;
    e.lane_positions = from.get_all<std::uint64_t>(lanes);
    out.push_back(std::move(e));
  }
  // A reserved byte that is not zero belongs to a newer version.
  if (!clean) {
    return corrupt(
        "cannot read cursor: expected zero in its reserved bytes, found another value");
  }
  return out;
}

/// The place in the text at which the lanes began.
void put_origin(record_writer& to, const lane_origin& origin) {
  to.put(origin.tokens);
  to.put(origin.chunks);
  to.put(origin.history);
  to.put_all(std::span<const std::uint64_t>(origin.positions));
}

lane_origin get_origin(record_reader& from, std::size_t lanes) {
  lane_origin origin;
  origin.tokens = from.get<std::uint64_t>();
  origin.chunks = from.get<std::uint64_t>();
  origin.history = from.get<std::uint64_t>();
  origin.positions = from.get_all<std::uint64_t>(lanes);
  return origin;
}

/// Writes a generator state: 32 bytes, of which 4 are reserved.
void put_rng(record_writer& to, const rng_state& rng) {
  to.put(rng.algorithm);
  to.put(rng.version);
  to.put(std::uint32_t{0});
  to.put(rng.key);
  to.put(rng.counter_low);
  to.put(rng.counter_high);
}

}  // namespace

/// Empty for a stream without a generator.
byte_vector encode_rng(const std::optional<rng_state>& rng) {
  record_writer out;
  if (rng) {
    put_rng(out, *rng);
  }
  return std::move(out).take();
}

/// Inverse of `encode_rng`.
result<std::optional<rng_state>> decode_rng(bytes_view bytes) {
  if (bytes.empty()) {
    return std::optional<rng_state>();
  }
  if (bytes.size() != 32) {
    return corrupt(fmt::format(
        "cannot read generator state: expected 0 or 32 bytes, found {}", bytes.size()));
  }
  record_reader from(bytes);
  rng_state rng;
  rng.algorithm = from.get<std::uint16_t>();
  rng.version = from.get<std::uint16_t>();
  const auto reserved = from.get<std::uint32_t>();
  rng.key = from.get<std::uint64_t>();
  rng.counter_low = from.get<std::uint64_t>();
  rng.counter_high = from.get<std::uint64_t>();
  if (reserved != 0) {
    return corrupt(
        "cannot read generator state: expected zero in its reserved bytes, found another "
        "value");
  }
  return std::optional<rng_state>(rng);
}

/// The order of the fields is fixed; docs describe it in the format of checkpoints.
byte_vector encode(const stream_cursor& c) {
  record_writer out;
  out.put_bytes(as_view(cursor_magic));
  out.put(c.origin ? cursor_version : plain_version);
  out.put(static_cast<std::uint32_t>(c.lanes.size()));
  // Seven words, in the order in which `decode_cursor` reads them.
  for (const std::uint64_t value :
       {c.dataset_index, c.chunk_id, c.pulse_id, c.content_hash, c.content_count,
        c.history_hash, c.stream_identity}) {
    out.put(value);
  }
  for (const lane_state& lane : c.lanes) {
    out.put(lane.position);
    out.put(lane.chunks);
    out.put(lane.history);
  }
  // Each block of bytes stands behind its length.
  put_eras(out, c.eras);
  const byte_vector rng = encode_rng(c.rng);
  out.put(static_cast<std::uint64_t>(rng.size()));
  out.put_bytes(rng);
  out.put(static_cast<std::uint64_t>(c.source_state.size()));
  out.put_bytes(c.source_state);
  out.put(static_cast<std::uint64_t>(c.ring.size()));
  out.put_all(std::span<const std::uint32_t>(c.ring));
  if (c.origin) {
    put_origin(out, *c.origin);
  }
  return std::move(out).take();
}

namespace {

/// Checks the remembered tokens against their count and hash. A cursor may lack them.
/// Cursors of old files have no ring.
result<void> check_ring(const stream_cursor& c) {
  if (c.ring.empty()) {
    return {};
  }
  if (c.ring.size() != c.content_count) {
    return corrupt(
        fmt::format("cannot read cursor: expected {} tokens in the ring, found {}",
                    c.content_count, c.ring.size()));
  }
  // The tokens prove that the text is the same as at the save.
  if (hash_tokens(c.ring) != c.content_hash) {
    return corrupt(
        "cannot read cursor: expected its last tokens to have the content hash, found "
        "others");
  }
  return {};
}

}  // namespace

// Decodes and then checks, so that an error says whether bytes are missing, follow, or
// contradict each other.
result<stream_cursor> decode_cursor(bytes_view bytes) {
  record_reader from(bytes);
  if (as_text(from.get_bytes(cursor_magic.size())) != cursor_magic) {
    return corrupt(
        fmt::format("cannot read cursor: expected the magic \"{}\", found other bytes",
                    cursor_magic));
  }
  // The version is judged only if it was there.
  const auto version = from.get<std::uint32_t>();
  if ((version < plain_version || version > cursor_version) && !from.failed()) {
    return error(errc::unsupported_version,
                 fmt::format("cannot read cursor: expected version {} to {}, found {}",
                             plain_version, cursor_version, version));
  }
  stream_cursor c;
  // Every count is checked against the bytes that are left; once a read fails, `from`
  // returns zeros, and the failure is reported at the end.
  const auto lanes = from.get<std::uint32_t>();
  for (std::uint64_t* value :
       {&c.dataset_index, &c.chunk_id, &c.pulse_id, &c.content_hash, &c.content_count,
        &c.history_hash, &c.stream_identity}) {
    *value = from.get<std::uint64_t>();
  }
  for (std::uint32_t l = 0; l < lanes && !from.failed(); ++l) {
    lane_state lane;
    lane.position = from.get<std::uint64_t>();
    lane.chunks = from.get<std::uint64_t>();
    lane.history = from.get<std::uint64_t>();
    c.lanes.push_back(lane);
  }
  // `lanes` is known to be plausible now, since so many lanes were read.
  if (!from.failed()) {
    WEIR_TRY(c.eras, get_eras(from, lanes));
  }
  WEIR_TRY(c.rng, decode_rng(from.get_bytes(from.get<std::uint64_t>())));
  const bytes_view blob = from.get_bytes(from.get<std::uint64_t>());
  c.source_state.assign(blob.begin(), blob.end());
  c.ring = from.get_all<std::uint32_t>(from.get_count<std::uint64_t>(4));
  // Only the newer version has an origin.
  if (version == cursor_version && !from.failed()) {
    c.origin = get_origin(from, lanes);
  }
  // One test for all reads before.
  if (from.failed()) {
    return error(errc::torn,
                 fmt::format("cannot read cursor: it ends within its {} bytes, or "
                             "a length in it is wrong",
                             bytes.size()));
  }
  if (!from.rest().empty()) {
    return corrupt(
        fmt::format("cannot read cursor: expected its end, found {} further bytes",
                    from.rest().size()));
  }
  WEIR_CHECK(check_ring(c));
  return c;
}

/// The version is the smallest that can hold the content.
byte_vector encode_source_state(const stored_source& state) {
  record_writer out;
  const bool ranges = !state.left_out.all().empty();
  out.put(ranges                 ? left_out_version
          : state.states.empty() ? bare_version
                                 : state_version);
  out.put(static_cast<std::uint32_t>(state.lanes.size()));
  // One place per lane: offset in the stream, round, leaf and byte. The last two are for
  // people.
  for (const stored_place& place : state.lanes) {
    out.put(place.offset);
    out.put(place.round);
    out.put(place.leaf);
    out.put(place.byte);
  }
  put_identity(out, state.identity);
  // The newer versions have the states, even if they are empty.
  if (ranges || !state.states.empty()) {
    out.put(static_cast<std::uint64_t>(state.states.size()));
    out.put_bytes(state.states);
  }
  if (ranges) {
    state.left_out.put(out, true);
  }
  return std::move(out).take();
}

// See `decode_cursor`: counts are compared with the bytes that remain.
result<stored_source> decode_source_state(bytes_view bytes) {
  record_reader from(bytes);
  const auto version = from.get<std::uint32_t>();
  if ((version < bare_version || version > left_out_version) && !from.failed()) {
    return error(
        errc::unsupported_version,
        fmt::format("cannot read source state: expected version {} to {}, found {}",
                    bare_version, left_out_version, version));
  }
  stored_source out;
  // A place has 32 bytes.
  const std::size_t lanes = from.get_count<std::uint32_t>(32);
  for (std::size_t l = 0; l < lanes; ++l) {
    stored_place place;
    place.offset = from.get<std::uint64_t>();
    place.round = from.get<std::uint64_t>();
    place.leaf = from.get<std::uint64_t>();
    place.byte = from.get<std::uint64_t>();
    out.lanes.push_back(place);
  }
  out.identity = get_identity(from);
  if (version >= state_version) {
    const bytes_view states = from.get_bytes(from.get<std::uint64_t>());
    out.states.assign(states.begin(), states.end());
  }
  // Ranges must rise; only the newest version has them.
  const bool ordered =
      version != left_out_version || out.left_out.get(from, true) || from.failed();
  if (from.failed()) {
    return error(errc::torn,
                 "cannot read source state: it ends early, or a length in it is wrong");
  }
  // An empty state would have been written in the older version.
  if (version == state_version && out.states.empty()) {
    return corrupt("cannot read source state: expected states, found 0 bytes");
  }
  if (!ordered) {
    return corrupt("cannot read source state: expected rising ranges, found others");
  }
  if (!from.rest().empty()) {
    return corrupt(
        fmt::format("cannot read source state: expected its end, found {} further bytes",
                    from.rest().size()));
  }
  return out;
}

/// Number of tokens of the source at the save.
result<std::uint64_t> source_tokens(bytes_view source_state) {
  WEIR_TRY(const stored_source state, decode_source_state(source_state));
  return state.identity.tokens;
}

/// The ranges that were left out, with the names of their files if these are listed.
result<std::vector<named_range>> left_out_of(bytes_view source_state) {
  WEIR_TRY(const stored_source state, decode_source_state(source_state));
  std::vector<named_range> out;
  for (const left_out_range& r : state.left_out.all()) {
    const auto& leaves = state.identity.leaves;
    out.push_back(
        {r.leaf < leaves.size() ? leaves[r.leaf].name : fmt::format("file {}", r.leaf),
         r});
  }
  return out;
}

/// A text such as "lane 0: a.txt:1234", for people.
result<std::string> describe_source_state(bytes_view source_state) {
  WEIR_TRY(const stored_source state, decode_source_state(source_state));
  std::string out;
  for (std::size_t l = 0; l < state.lanes.size(); ++l) {
    const stored_place& p = state.lanes[l];
    const std::string name = p.leaf < state.identity.leaves.size()
                                 ? state.identity.leaves[p.leaf].name
                                 : fmt::format("file {}", p.leaf);
    out += fmt::format("{}lane {}: {}:{}", l == 0 ? "" : ", ", l, name, p.byte);
    if (p.round != 0) {
      out += fmt::format(" (round {})", p.round);
    }
  }
  return out;
}

}  // namespace weir::storage
