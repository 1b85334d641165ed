// SPDX-License-Identifier: Apache-2.0
/// @file
/// Parameters of szip, whole streams on several threads, ranges.
#include "tensogram/codec/szip.hpp"

#include <algorithm>
#include <array>

#include "tensogram/codec/parallel.hpp"
#include "tensogram/codec/parameters.hpp"

namespace weir::formats {

namespace {

// Flags as libaec numbers them.
constexpr std::int64_t flag_signed = 1;
constexpr std::int64_t flag_big_endian = 4;
constexpr std::int64_t flag_preprocess = 8;
constexpr std::int64_t flag_restricted = 16;
constexpr std::int64_t flag_pad_rsi = 32;
constexpr std::int64_t flag_not_enforce = 64;

std::uint64_t interval_bytes(const aec_parameters& p) noexcept {
  return std::uint64_t{p.interval()} * p.sample_bytes;
}

/// Decodes groups of intervals at once. False if the offsets are not those of the stream.
bool decode_groups(bytes_view from, const aec_parameters& p,
                   const std::vector<std::uint64_t>& offsets, mutable_bytes to,
                   unsigned threads) {
  const std::size_t step = interval_bytes(p);
  const std::size_t per_group = std::max<std::size_t>(1, offsets.size() / (8 * threads));
  const std::size_t groups = (offsets.size() + per_group - 1) / per_group;
  std::vector<char> good(groups, 0);
  for_each_piece(threads, groups, [&](std::size_t g) {
    const std::size_t first = g * per_group;
    const std::size_t last = std::min(first + per_group, offsets.size());
    const std::size_t at = first * step;
    const std::size_t size = std::min(last * step, to.size()) - at;
    const auto end = aec_decode(from, offsets[first], p, to.subspan(at, size));
    good[g] = end && (last == offsets.size() || *end == offsets[last]) ? 1 : 0;
  });
  return std::all_of(good.begin(), good.end(), [](char g) { return g != 0; });
}

/// Whether a decoder that started at some offset has stopped where interval `next`
/// starts, or at the end of the stream: if not, one of the offsets is wrong.
bool ends_well(bytes_view from, const std::vector<std::uint64_t>& offsets,
               std::uint64_t next, std::uint64_t stop) noexcept {
  return next < offsets.size() ? stop == offsets[next] : (stop + 7) / 8 == from.size();
}

}  // namespace

result<aec_parameters> read_szip(const cbor_map& parameters, const szip_samples& samples,
                                 errc kind) {
  WEIR_TRY(const std::int64_t flags,
           integer_parameter(parameters, "szip_flags", 0, 127, kind));
  WEIR_TRY(const std::int64_t rsi,
           integer_parameter(parameters, "szip_rsi", 1, 4096, kind));
  WEIR_TRY(const std::int64_t block,
           integer_parameter(parameters, "szip_block_size", 2, 4096, kind));
  constexpr std::array<std::int64_t, 4> usual{8, 16, 32, 64};
  const bool enforced = (flags & flag_not_enforce) == 0;
  if (block % 2 != 0 ||
      (enforced && std::find(usual.begin(), usual.end(), block) == usual.end())) {
    return bad_parameter(kind, "szip_block_size",
                         enforced ? "8, 16, 32 or 64" : "an even number",
                         std::to_string(block));
  }
  if ((flags & flag_pad_rsi) != 0) {
    return error(
               errc::unsupported,
               "cannot run szip: expected intervals that follow at once, found the flag "
               "for padded ones (32)")
        .hint("no reader decodes such a stream");
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
  if (out.restricted && out.bits > 4) {
    return bad_parameter(kind, "szip_flags",
                         "no restricted identifiers for more than 4 bits",
                         std::to_string(flags));
  }
  out.big_endian = samples.packed || (flags & flag_big_endian) != 0;
  out.sample_bytes = (samples.bits + 7) / 8;
  return out;
}

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
                      *offset / 8 <= bytes;
    if (!good) {
      return bad_parameter(kind, key, "bits from 0 on, increasing, within the payload",
                           to_json(item));
    }
    out.push_back(*offset);
  }
  return out;
}

result<void> szip_decode(bytes_view from, const aec_parameters& p,
                         const std::vector<std::uint64_t>& offsets, mutable_bytes to,
                         unsigned threads) {
  threads = worth_threads(threads, to.size());
  if (threads > 1 && offsets.size() > 1 && decode_groups(from, p, offsets, to, threads)) {
    return {};
  }
  WEIR_CHECK(aec_decode(from, 0, p, to));
  return {};
}

result<void> szip_decode_range(bytes_view from, const aec_parameters& p,
                               const std::vector<std::uint64_t>& offsets,
                               std::uint64_t total, std::uint64_t first,
                               mutable_bytes to) {
  if (to.empty()) {
    return {};
  }
  const std::uint64_t step = interval_bytes(p);
  const std::uint64_t interval = first / step;
  const std::uint64_t begin = interval * step;
  const std::uint64_t end = std::min(align_up(first + to.size(), step), total);
  WEIR_TRY(code_buffer part, make_buffer(end - begin));
  const auto stop = aec_decode(from, offsets[interval], p, part.writable());
  if (stop && ends_well(from, offsets, (end + step - 1) / step, *stop)) {
    std::copy_n(part.bytes.begin() + static_cast<std::ptrdiff_t>(first - begin),
                to.size(), to.begin());
    return {};
  }
  WEIR_TRY(code_buffer whole, make_buffer(total));
  WEIR_CHECK(aec_decode(from, 0, p, whole.writable()));
  std::copy_n(whole.bytes.begin() + static_cast<std::ptrdiff_t>(first), to.size(),
              to.begin());
  return {};
}

}  // namespace weir::formats
