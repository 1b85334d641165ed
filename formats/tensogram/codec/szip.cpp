// SPDX-License-Identifier: Apache-2.0
/// @file
/// Parameters of szip, decoding on several threads, and decoding of ranges.
///
/// Offsets of intervals come from the file, and some writers store wrong ones. Whole
/// streams are therefore verified as they are decoded, and ranges use offsets only if the
/// writer has marked them (see szip_offsets_digest()).
///
/// Flag 32, which says that intervals end at bytes, is not reliable either; `settled`
/// finds out from the stream.
#include "tensogram/codec/szip.hpp"

#include <algorithm>
#include <array>

#include "tensogram/codec/parallel.hpp"
#include "tensogram/codec/parameters.hpp"
#include "weir/base/hash.hpp"

namespace weir::formats {

namespace {

// Flags, with the numbers of libaec.
// Flag 2 (samples of 24 bits take 3 bytes) is accepted and not needed: the width of a
// sample gives its bytes.
constexpr std::int64_t flag_signed = 1;
constexpr std::int64_t flag_big_endian = 4;
constexpr std::int64_t flag_preprocess = 8;
constexpr std::int64_t flag_restricted = 16;
constexpr std::int64_t flag_pad_rsi = 32;
constexpr std::int64_t flag_not_enforce = 64;

/// Returns the decoded size of an interval in bytes.
std::uint64_t interval_bytes(const aec_parameters& p) noexcept {
  return std::uint64_t{p.interval()} * p.sample_bytes;
}

/// Decodes groups of intervals on several threads, each from the offset stored for it.
/// Returns false if the offsets are not those of the stream. The check is complete: the
/// first group starts at bit 0, and each group must end exactly where the next one
/// starts, so by induction every group has started at the right bit.
/// The groups write to disjoint parts of `to`. What they wrote is useless if the result
/// is false; the caller decodes again.
bool decode_groups(const szip_stream& stream, mutable_bytes to, unsigned threads) {
  const std::vector<std::uint64_t>& offsets = stream.offsets;
  const std::size_t step = interval_bytes(stream.parameters);
  const std::size_t per_group = std::max<std::size_t>(1, offsets.size() / (8 * threads));
  const std::size_t groups = (offsets.size() + per_group - 1) / per_group;
  std::vector<char> good(groups, 0);
  for_each_piece(threads, groups, [&](std::size_t g) {
    const std::size_t first = g * per_group;
    const std::size_t last = std::min(first + per_group, offsets.size());
    const std::size_t begin = first * step;
    const std::size_t size = std::min(last * step, to.size()) - begin;
    const auto end = aec_decode(stream.bytes, offsets[first], stream.parameters,
                                to.subspan(begin, size));
    good[g] = end && (last == offsets.size() || *end == offsets[last]) ? 1 : 0;
  });
  return std::all_of(good.begin(), good.end(), [](char g) { return g != 0; });
}

/// Result of decoding a stream under the assumption that its intervals are padded, or
/// that they are not.
struct padding_fit {
  bool good = false;           ///< the stream decodes and ends in its last byte
  std::size_t agreements = 0;  ///< stored offsets that equal those found
  std::uint64_t digest = 0;    ///< digest of the decoded samples
};

/// Decodes a whole stream, in small portions that are not kept.
/// The end must lie in the last byte, and the bits that align intervals must be zeros.
padding_fit fit_of(const szip_stream& stream, const aec_parameters& p) {
  padding_fit out;
  const std::uint64_t step = interval_bytes(p);
  // At most one interval, and at most 16,384 samples, are in memory.
  const std::uint64_t max_bytes = std::min<std::uint64_t>(step, 16384 * p.sample_bytes);
  byte_vector samples(static_cast<std::size_t>(max_bytes));
  xxh3_stream digest;
  aec_decoder decoder(stream.bytes, 0, p, stream.size / p.sample_bytes);
  for (std::uint64_t done = 0; done < stream.size;) {
    const std::uint64_t inside = done % step;
    const std::uint64_t interval = done / step;
    out.agreements += inside == 0 && interval < stream.offsets.size() &&
                              stream.offsets[interval] == decoder.position()
                          ? 1
                          : 0;
    const std::uint64_t count = std::min({max_bytes, step - inside, stream.size - done});
    const auto part = mutable_bytes(samples).first(static_cast<std::size_t>(count));
    if (!decoder.read(part)) {
      return out;
    }
    digest.update(part);
    done += count;
  }
  out.digest = digest.digest();
  out.good =
      decoder.padding_clear() && (decoder.position() + 7) / 8 == stream.bytes.size();
  return out;
}

/// Returns the parameters with which a stream must be decoded. As it is usually built,
/// libaec ignores the flag for padding when it writes but honours it when it reads, so
/// the flag says nothing. The stream is decoded both ways, and the way that fits better
/// wins.
/// @error{unsupported, a stream that can be read both ways to different values}
result<aec_parameters> settled(const szip_stream& stream) {
  const aec_parameters& padded = stream.parameters;
  // A stream of one interval reads the same both ways.
  if (!padded.padded || stream.size <= interval_bytes(padded)) {
    return padded;
  }
  aec_parameters dense = padded;
  dense.padded = false;
  const padding_fit with = fit_of(stream, padded);
  const padding_fit without = fit_of(stream, dense);
  // If both ways decode and agree with equally many offsets, the samples must be equal
  // too.
  if (with.good && without.good && with.agreements == without.agreements &&
      with.digest != without.digest) {
    return error(errc::unsupported,
                 "cannot decompress payload: expected szip_block_offsets to tell whether "
                 "intervals are padded (flag 32), found a stream that can be read both "
                 "ways");
  }
  const bool is_dense =
      without.good && (!with.good || without.agreements > with.agreements);
  return is_dense ? dense : padded;
}

/// Decodes bytes from `first` on. Everything before them is decoded and discarded.
/// Needs no offsets. The samples before `first` are needed for the prediction.
result<void> decode_from_start(const szip_stream& stream, std::uint64_t first,
                               const decode_target& to) {
  aec_decoder decoder(stream.bytes, 0, stream.parameters,
                      stream.size / stream.parameters.sample_bytes);
  WEIR_CHECK(decoder.skip(first));
  return to.has_memory() ? decoder.read(to.bytes()) : decoder.skip(to.size());
}

}  // namespace

/// Reads the parameters and compares them with the samples. Widths and block sizes that
/// the coder cannot handle are refused here, so that it need not check them.
result<aec_parameters> read_szip(const cbor_map& parameters, const szip_samples& samples,
                                 errc kind) {
  WEIR_TRY(const std::int64_t flags,
           integer_parameter(parameters, "szip_flags", 0, 127, kind));
  WEIR_TRY(const std::int64_t rsi,
           integer_parameter(parameters, "szip_rsi", 1, 4096, kind));
  WEIR_TRY(const std::int64_t block,
           integer_parameter(parameters, "szip_block_size", 2, 4096, kind));
  // libaec enforces these block sizes unless flag 64 is set.
  constexpr std::array<std::int64_t, 4> usual{8, 16, 32, 64};
  const bool enforced = (flags & flag_not_enforce) == 0;
  if (block % 2 != 0 ||
      (enforced && std::find(usual.begin(), usual.end(), block) == usual.end())) {
    return bad_parameter(kind, "szip_block_size",
                         enforced ? "8, 16, 32 or 64" : "an even number",
                         std::to_string(block));
  }
  if (samples.bits < 1 || samples.bits > 32) {
    return error(kind, fmt::format(
                           "cannot run szip: expected samples of 1 to 32 bits, found {}",
                           samples.bits))
        .hint("pack the values, or shuffle them");
  }
  aec_parameters out;
  out.bits = samples.bits;
  out.block = static_cast<unsigned>(block);
  out.rsi = static_cast<unsigned>(rsi);
  out.preprocess = (flags & flag_preprocess) != 0;
  out.is_signed = (flags & flag_signed) != 0;
  out.restricted = (flags & flag_restricted) != 0;
  out.padded = (flags & flag_pad_rsi) != 0;
  // The short identifiers exist for up to 4 bits (CCSDS 121.0-B, restricted set).
  if (out.restricted && out.bits > 4) {
    return bad_parameter(kind, "szip_flags",
                         "no restricted identifiers for more than 4 bits",
                         std::to_string(flags));
  }
  // simple_packing stores big-endian integers whatever the flag says.
  out.big_endian = samples.packed || (flags & flag_big_endian) != 0;
  out.sample_bytes = (samples.bits + 7) / 8;
  return out;
}

/// Offsets must begin at 0, strictly increase, and lie within the payload. That makes
/// them usable, but not right; see szip_offsets_digest().
result<std::vector<std::uint64_t>> read_szip_offsets(const cbor_map& parameters,
                                                     std::uint64_t intervals,
                                                     std::uint64_t bytes, errc kind) {
  constexpr std::string_view key = "szip_block_offsets";
  std::vector<std::uint64_t> out;
  const cbor_value* value = parameters.find(key);
  if (value == nullptr) {
    return out;
  }
  if (value->array() == nullptr || value->array()->size() != intervals) {
    return bad_parameter(kind, key, fmt::format("an array of {} offsets", intervals),
                         value->array() == nullptr
                             ? std::string(name_of(value->kind()))
                             : std::to_string(value->array()->size()));
  }
  out.reserve(value->array()->size());
  for (const cbor_value& item : *value->array()) {
    const auto offset = item.uint64();
    const bool good = offset && (out.empty() ? *offset == 0 : *offset > out.back()) &&
                      // The comparison in bytes cannot overflow.
                      *offset / 8 <= bytes;
    if (!good) {
      return bad_parameter(kind, key, "bits from 0 on, increasing, within the payload",
                           to_json(item));
    }
    out.push_back(*offset);
  }
  return out;
}

/// The stored length is part of the digest, so the mark is void if the payload was
/// replaced by one of another length. 0 means "no mark" and is mapped to 1.
std::uint64_t szip_offsets_digest(std::span<const std::uint64_t> offsets,
                                  std::uint64_t stored) {
  byte_vector bytes(8 * (offsets.size() + 1));
  std::byte* to = bytes.data();
  for (const std::uint64_t offset : offsets) {
    store_be(to, offset);
    to += 8;
  }
  store_be(to, stored);
  return std::max<std::uint64_t>(1, xxh3_64(bytes));
}

/// Offsets only speed decoding up. If they turn out to be wrong, the stream is decoded
/// again from its start.
result<void> szip_decode(const szip_stream& stream, const decode_target& to,
                         unsigned threads) {
  WEIR_TRY(const aec_parameters p, settled(stream));
  // The copy of the parameters has the padding that the stream has.
  const szip_stream known{stream.bytes, p, stream.offsets, stream.size};
  threads = worth_threads(threads, to.size());
  if (threads > 1 && to.has_memory() && stream.offsets.size() > 1 &&
      decode_groups(known, to.bytes(), threads)) {
    return {};
  }
  return decode_from_start(known, 0, to);
}

/// Without marked offsets, decoding a range costs as much as decoding up to its end.
result<void> szip_decode_range(const szip_stream& stream, std::uint64_t first,
                               const decode_target& to) {
  WEIR_TRY(const aec_parameters p, settled(stream));
  return decode_from_start({stream.bytes, p, stream.offsets, stream.size}, first, to);
}

/// The range of bytes ends with the byte that holds the last bit of the last interval,
/// which may also hold the first bits of the next one.
szip_intervals intervals_of(const aec_parameters& p,
                            const std::vector<std::uint64_t>& offsets,
                            std::uint64_t stored, std::uint64_t size, std::uint64_t first,
                            std::uint64_t count) {
  // Intervals `begin` to `end` hold the range.
  const std::uint64_t step = interval_bytes(p);
  const std::uint64_t begin = first / step;
  const std::uint64_t end = (first + count + step - 1) / step;
  const bool to_end = end >= offsets.size();
  szip_intervals out;
  out.first_byte = offsets[begin] / 8;
  out.bytes = (to_end ? stored : (offsets[end] + 7) / 8) - out.first_byte;
  out.start = offsets[begin] - 8 * out.first_byte;
  out.end = to_end ? 0 : offsets[end] - 8 * out.first_byte;
  out.decoded = begin * step;
  out.size = std::min(end * step, size) - out.decoded;
  return out;
}

/// Decodes the intervals to their end, even if the range ends before: only that shows
/// that they end where the next one starts, and so that the offsets were right.
result<void> szip_decode_intervals(bytes_view from, const aec_parameters& p,
                                   const szip_intervals& intervals, std::uint64_t first,
                                   const decode_target& to) {
  aec_decoder decoder(from, intervals.start, p, intervals.size / p.sample_bytes);
  // Both are counted in decoded bytes: the interval before the range, the range, the
  // rest.
  const std::uint64_t before = first - intervals.decoded;
  WEIR_CHECK(decoder.skip(before));
  WEIR_CHECK(to.has_memory() ? decoder.read(to.bytes()) : decoder.skip(to.size()));
  WEIR_CHECK(decoder.skip(intervals.size - before - to.size()));
  const std::uint64_t end = decoder.position();
  // The last interval must end in the last byte, because bits behind its end have no
  // offset.
  if (intervals.end == 0 ? (end + 7) / 8 != from.size() : end != intervals.end) {
    return error(errc::corrupt,
                 fmt::format("cannot decode range: expected szip intervals that end at "
                             "bit {}, found their end at {}",
                             intervals.end == 0 ? 8 * from.size() : intervals.end, end));
  }
  return {};
}

}  // namespace weir::formats
