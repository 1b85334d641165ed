// SPDX-License-Identifier: Apache-2.0
/// @file
/// The encoder. It writes each block with the shortest coding and chooses as libaec does,
/// because equal input must give bytes equal to libaec's. Several threads encode groups
/// of intervals, whose bits are joined afterwards.
#include <algorithm>
#include <limits>
#include <optional>

#include "tensogram/codec/aec/aec.hpp"
#include "tensogram/codec/parallel.hpp"

namespace weir::formats {

namespace {

/// Length of a coding that cannot represent a block.
constexpr std::uint32_t impossible = std::numeric_limits<std::uint32_t>::max();

/// Appends bits, the most significant first. Up to 31 bits wait in a register; whole
/// words of 32 bits are stored. The caller provides enough memory.
/// The register never has more than 31 bits before a call, so 32 more fit.
class bit_writer {
 public:
  explicit bit_writer(std::byte* to) : to_(to) {}

  /// Appends the low `count` bits of `value`. @pre `count` <= 32, and all higher bits of
  /// `value` are zero
  void put(std::uint64_t value, unsigned count) noexcept {
    pending_ = pending_ << count | value;
    used_ += count;
    if (used_ >= 32) {
      used_ -= 32;
      store_be(to_, static_cast<std::uint32_t>(pending_ >> used_));
      to_ += 4;
      bits_ += 32;
    }
  }
  /// Appends `zeros` zeros and a one.
  void put_unary(std::uint32_t zeros) noexcept {
    for (; zeros >= 32; zeros -= 32) {
      put(0, 32);
    }
    put(1, zeros + 1);
  }
  [[nodiscard]] std::uint64_t bits() const noexcept { return bits_ + used_; }
  /// Stores the waiting bits and fills the last byte with zeros.
  void finish() noexcept {
    for (; used_ > 0; used_ -= std::min(used_, 8u)) {
      const unsigned shift = used_ >= 8 ? used_ - 8 : 0;
      const auto byte = used_ >= 8 ? pending_ >> shift : pending_ << (8 - used_);
      *to_++ = static_cast<std::byte>(byte & 0xFF);
      bits_ += std::min(used_, 8u);
    }
  }

 private:
  std::byte* to_;              ///< where the next word is stored
  std::uint64_t pending_ = 0;  ///< the waiting bits are the lowest ones
  unsigned used_ = 0;          ///< number of waiting bits
  std::uint64_t bits_ = 0;     ///< bits in stored words
};

/// Replaces each sample by its difference to the one before, folded into an unsigned
/// number of the same width. Differences of both signs alternate as long as both are
/// possible. A difference larger than the distance from the previous sample to the nearer
/// end of the range has only one possible sign and is stored as that distance plus the
/// difference (CCSDS 121.0-B, prediction error mapper). Element 0, the reference, is left
/// alone.
void fold_unsigned(const std::uint32_t* x, std::size_t count, std::uint32_t top,
                   std::uint32_t* d) noexcept {
  for (std::size_t i = 1; i < count; ++i) {
    const std::uint32_t before = x[i - 1];
    const bool up = x[i] >= before;
    const std::uint32_t distance = up ? x[i] - before : before - x[i];
    const std::uint32_t mixed_range = up ? before : top - before;
    const std::uint32_t near = 2 * distance - (up ? 0 : 1);
    const std::uint32_t far = up ? x[i] : top - x[i];
    d[i] = distance <= mixed_range ? near : far;
  }
}

/// Does what fold_unsigned() does, for samples in two's complement of `bits` bits.
/// The range is -half to half - 1, and `before` decides which of its ends is nearer.
void fold_signed(const std::uint32_t* x, std::size_t count, unsigned bits,
                 std::uint32_t* d) noexcept {
  const std::int64_t half = std::int64_t{1} << (bits - 1);
  const auto value = [&](std::uint32_t raw) {
    return static_cast<std::int64_t>(raw) >= half
               ? static_cast<std::int64_t>(raw) - 2 * half
               : static_cast<std::int64_t>(raw);
  };
  for (std::size_t i = 1; i < count; ++i) {
    const std::int64_t now = value(x[i]);
    const std::int64_t before = value(x[i - 1]);
    std::int64_t out = 0;
    if (now < before) {
      const std::int64_t distance = before - now;
      out = distance <= half - 1 - before ? 2 * distance - 1 : half - 1 - now;
    } else {
      const std::int64_t distance = now - before;
      out = distance <= before + half ? 2 * distance : now + half;
    }
    d[i] = static_cast<std::uint32_t>(out);
  }
}

/// Encodes the intervals of one group in order. The only state that passes from one
/// interval to the next is the split of the last block, from which the next search
/// starts.
class interval_encoder {
 public:
  /// @param blocks number of blocks in the largest interval
  interval_encoder(const aec_parameters& p, bit_writer& to, unsigned split,
                   std::size_t blocks)
      : p_(p),
        to_(to),
        split_(split),
        max_split_((1u << p.id_bits()) - 3),
        raw_(blocks * p.block),
        folded_(blocks * p.block) {}

  /// Encodes one interval of whole samples. An incomplete last block is filled with
  /// copies of the last sample, as libaec does.
  void encode(bytes_view samples) {
    const std::size_t count = samples.size() / p_.sample_bytes;
    load_samples(samples, p_, raw_.data());
    const auto blocks = static_cast<std::uint32_t>((count + p_.block - 1) / p_.block);
    std::fill(raw_.begin() + static_cast<std::ptrdiff_t>(count),
              raw_.begin() + static_cast<std::ptrdiff_t>(std::size_t{blocks} * p_.block),
              raw_[count - 1]);
    const std::uint32_t* data = raw_.data();
    if (p_.preprocess) {
      const std::uint32_t top = ~std::uint32_t{0} >> (32 - p_.bits);
      const std::size_t all = std::size_t{blocks} * p_.block;
      p_.is_signed ? fold_signed(raw_.data(), all, p_.bits, folded_.data())
                   : fold_unsigned(raw_.data(), all, top, folded_.data());
      // The reference is written by itself; a difference of zero makes it cost nothing
      // here.
      folded_[0] = 0;
      data = folded_.data();
    }
    for (std::uint32_t b = 0; b < blocks; ++b) {
      reference_ = p_.preprocess && b == 0;
      encode_block(data + std::size_t{b} * p_.block, b, blocks);
    }
  }
  [[nodiscard]] unsigned split() const noexcept { return split_; }

 private:
  /// Encodes block `b` of `blocks`. Blocks of zeros are only counted; the run is written
  /// when another block follows or its segment or interval ends.
  void encode_block(const std::uint32_t* d, std::uint32_t b, std::uint32_t blocks) {
    std::uint32_t any = 0;
    for (unsigned i = 0; i < p_.block; ++i) {
      any |= d[i];
    }
    if (any != 0) {
      end_run(false);
      encode_values(d, any);
      return;
    }
    // Only the first block of a run can hold the reference, because runs end with the
    // interval.
    run_reference_ = run_ == 0 ? reference_ : run_reference_;
    ++run_;
    if (b + 1 == blocks || (b + 1) % aec_segment == 0) {
      end_run(true);
    }
  }

  /// Writes the empty blocks counted so far. `whole` says that the run reaches the end of
  /// its segment or interval, which the code 4 expresses if the run has five blocks or
  /// more.
  void end_run(bool whole) {
    if (run_ == 0) {
      return;
    }
    // The identifier 0 and the bit 0, then the reference, then the length.
    to_.put(0, p_.id_bits() + 1);
    if (run_reference_) {
      to_.put(raw_[0], p_.bits);
    }
    to_.put_unary(run_ < 5 ? run_ - 1 : (whole ? 4 : run_));
    run_ = 0;
  }

  /// Writes a block with the shortest coding. The order of the comparisons decides among
  /// equal lengths as libaec does.
  void encode_values(const std::uint32_t* d, std::uint32_t any) {
    // The reference is stored with every coding, so it is left out of the comparison.
    const std::uint32_t plain = (p_.block - (reference_ ? 1 : 0)) * p_.bits;
    // Identifiers of one bit have no values left for a split.
    const std::uint32_t split = p_.id_bits() > 1 ? choose_split(d, any) : impossible;
    const std::uint32_t pairs = pairs_length(d, any, plain);
    if (split < plain && split < pairs) {
      put_split(d);
    } else if (split >= plain && plain <= pairs) {
      put_plain(d);
    } else {
      put_pairs(d);
    }
  }

  /// Returns the length of the unary parts of a block for the split `k`, without the ones
  /// that end them.
  std::uint64_t unary_length(const std::uint32_t* d, std::uint32_t any,
                             unsigned k) const noexcept {
    if (any < (1u << 19)) {  // the sum of 4096 such numbers fits 32 bits
      std::uint32_t sum = 0;
      for (unsigned i = 0; i < p_.block; ++i) {
        sum += d[i] >> k;
      }
      return sum;
    }
    std::uint64_t sum = 0;
    for (unsigned i = 0; i < p_.block; ++i) {
      sum += d[i] >> k;
    }
    return sum;
  }

  /// Sets split_ to the shortest split of a block and returns its length in bits. The
  /// search walks up from the split of the block before, and then down, as long as the
  /// length falls. The direction and the limits are those of libaec: among splits of
  /// equal length the first one that the walk meets wins.
  /// Let u be the length of the unary parts for a split k and n the number of values; the
  /// block then has u + n (k + 1) bits. A larger k saves at most u bits and costs n more,
  /// so walking up ends when u < n. A smaller k at least doubles u and saves n, so
  /// walking down ends when u >= n.
  std::uint32_t choose_split(const std::uint32_t* d, std::uint32_t any) noexcept {
    const std::uint64_t count = p_.block - (reference_ ? 1 : 0);
    std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
    unsigned k = split_;
    unsigned best = k;
    bool no_turn = k == 0;
    bool up = true;
    while (true) {
      const std::uint64_t unary = unary_length(d, any, k);
      const std::uint64_t length = unary + count * (k + 1);
      bool turn = length >= least;
      if (!turn) {
        no_turn = no_turn || least != std::numeric_limits<std::uint64_t>::max();
        least = length;
        best = k;
        turn = up && (unary < count || k >= max_split_);
        if (!up && (unary >= count || k == 0)) {
          break;
        }
      }
      if (turn) {
        if (no_turn) {
          break;
        }
        k = split_ - 1;
        up = false;
        no_turn = true;
      } else {
        k = up ? k + 1 : k - 1;
      }
    }
    split_ = best;
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(least, impossible));
  }

  /// Returns the length of a block coded as pairs ("second extension").
  std::uint32_t pairs_length(const std::uint32_t* d, std::uint32_t any,
                             std::uint32_t plain) const noexcept {
    // The bit that says "pairs" counts too; the identifier is the same for all codings.
    std::uint64_t length = 1;
    for (unsigned i = 0; i < p_.block; i += 2) {
      const std::uint64_t sum = std::uint64_t{d[i]} + d[i + 1];
      // A pair whose sum exceeds the plain length makes the block longer than plain.
      if (sum > plain || (any > 0xFFFF && sum > 0xFFFF)) {
        return impossible;
      }
      length += sum * (sum + 1) / 2 + d[i + 1] + 1;
    }
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(length, impossible));
  }

  /// Writes a block as split numbers: all unary parts, then all low parts.
  void put_split(const std::uint32_t* d) noexcept {
    bit_writer to = to_;  // in registers; bytes may alias any member
    const unsigned k = split_;
    to.put(k + 1, p_.id_bits());
    unsigned first = 0;
    if (reference_) {
      to.put(raw_[0], p_.bits);
      first = 1;
    }
    const unsigned block = p_.block;
    for (unsigned i = first; i < block; ++i) {
      to.put_unary(d[i] >> k);
    }
    if (k > 0) {
      const std::uint32_t mask = (1u << k) - 1;
      for (unsigned i = first; i < block; ++i) {
        to.put(d[i] & mask, k);
      }
    }
    to_ = to;
  }

  /// Writes a block without coding.
  void put_plain(const std::uint32_t* d) noexcept {
    to_.put((1u << p_.id_bits()) - 1, p_.id_bits());
    for (unsigned i = 0; i < p_.block; ++i) {
      to_.put(reference_ && i == 0 ? raw_[0] : d[i], p_.bits);
    }
  }

  /// Writes a block as pairs; see take_pairs() in decode.cpp.
  /// The reference takes part as a difference of zero.
  void put_pairs(const std::uint32_t* d) noexcept {
    to_.put(1, p_.id_bits() + 1);
    if (reference_) {
      to_.put(raw_[0], p_.bits);
    }
    for (unsigned i = 0; i < p_.block; i += 2) {
      const std::uint32_t sum = d[i] + d[i + 1];
      to_.put_unary(sum * (sum + 1) / 2 + d[i + 1]);
    }
  }

  const aec_parameters& p_;  ///< of the stream
  bit_writer& to_;
  unsigned split_;                     ///< split of the last block that has chosen one
  unsigned max_split_;                 ///< largest split that an identifier can name
  std::vector<std::uint32_t> raw_;     ///< samples of the interval
  std::vector<std::uint32_t> folded_;  ///< their folded differences
  std::uint32_t run_ = 0;       ///< empty blocks that are counted and not written yet
  bool reference_ = false;      ///< the block begins with the reference
  bool run_reference_ = false;  ///< the first block of the run begins with it
};

/// Consecutive intervals that one thread has encoded, with the split that was assumed
/// before its first block and the split that was found after its last.
struct coded_group {
  code_buffer code;
  std::uint64_t bits = 0;
  std::vector<std::uint64_t> offsets;  ///< from the start of the group
  unsigned split_before = 0;
  unsigned split_after = 0;
};

/// Returns an upper limit of the encoded size: all blocks plain, with identifiers, runs
/// and slack for the writer's last word.
std::size_t largest_code(std::size_t bytes, const aec_parameters& p) noexcept {
  const std::size_t samples = bytes / p.sample_bytes;
  const std::size_t blocks = samples / p.block + 2;
  return blocks * (p.block * std::size_t{p.bits} + p.bits + p.id_bits() + 72) / 8 + 64;
}

/// Encodes whole intervals, where `split` is the split of the block before them.
result<coded_group> encode_group(bytes_view from, const aec_parameters& p,
                                 unsigned split) {
  coded_group out;
  out.split_before = split;
  WEIR_TRY(out.code, make_buffer(largest_code(from.size(), p)));
  bit_writer to(out.code.storage.get());
  const std::size_t all = from.size() / p.sample_bytes;
  interval_encoder encoder(p, to, split,
                           std::min<std::size_t>(p.rsi, (all + p.block - 1) / p.block));
  const std::size_t step = p.interval() * p.sample_bytes;
  for (std::size_t offset = 0; offset < from.size(); offset += step) {
    out.offsets.push_back(to.bits());
    encoder.encode(from.subspan(offset, std::min(step, from.size() - offset)));
  }
  out.bits = to.bits();
  to.finish();
  out.code.bytes = out.code.bytes.first(static_cast<std::size_t>((out.bits + 7) / 8));
  out.split_after = encoder.split();
  return out;
}

/// Writes the bits of a group to bit `bit` of `to` and the following ones. Byte k of the
/// output holds bits of bytes k - 1 and k of the group. The first byte of the output, if
/// it is shared with the group before, is left to join(): two threads must not write it.
void place_bits(std::byte* to, std::uint64_t bit, const coded_group& group) noexcept {
  const bytes_view from = group.code.bytes;
  const unsigned shift = bit % 8;
  std::byte* out = to + bit / 8;
  if (shift == 0) {
    std::copy(from.begin(), from.end(), out);
    return;
  }
  std::size_t k = 1;
  // Eight bytes of the output at a time: the last byte that was used and the next eight.
  for (; k + 8 <= from.size(); k += 8) {
    const auto word = load_be<std::uint64_t>(from.data() + k);
    const auto before = std::to_integer<std::uint64_t>(from[k - 1]);
    store_be<std::uint64_t>(out + k, before << (64 - shift) | word >> shift);
  }
  for (; k < (shift + group.bits + 7) / 8; ++k) {
    const auto before = std::to_integer<unsigned>(from[k - 1]);
    const auto now = k < from.size() ? std::to_integer<unsigned>(from[k]) : 0u;
    out[k] = static_cast<std::byte>((before << (8 - shift) | now >> shift) & 0xFF);
  }
}

/// Joins the bits of all groups. The groups are placed on several threads; the bytes that
/// two groups share are completed afterwards on this one.
result<aec_code> join(std::vector<coded_group>& groups, unsigned threads) {
  aec_code out;
  std::uint64_t bits = 0;
  std::vector<std::uint64_t> starts;
  for (const coded_group& group : groups) {
    starts.push_back(bits);
    for (const std::uint64_t offset : group.offsets) {
      out.offsets.push_back(bits + offset);
    }
    bits += group.bits;
  }
  WEIR_TRY(out.code, make_buffer(static_cast<std::size_t>((bits + 7) / 8)));
  // Only the bytes inside the groups are written in parallel; see `place_bits`.
  std::byte* to = out.code.storage.get();
  for_each_piece(threads, groups.size(),
                 [&](std::size_t g) { place_bits(to, starts[g], groups[g]); });
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (const unsigned shift = starts[g] % 8; shift != 0 && groups[g].bits > 0) {
      to[starts[g] / 8] |= groups[g].code.bytes[0] >> shift;
    }
  }
  return out;
}

/// Encodes groups of intervals on several threads. The first block of a group depends on
/// one thing of the group before it, the split of its last block. That split is guessed
/// by encoding the last interval of the group before. Where the guess was wrong, the
/// group is encoded again in order, so the bytes equal those of one thread.
result<aec_code> encode_groups(bytes_view from, const aec_parameters& p,
                               unsigned threads) {
  const std::size_t interval = p.interval() * p.sample_bytes;
  const std::size_t intervals = (from.size() + interval - 1) / interval;
  // Four groups for each thread, so that a slow group delays the others little.
  const std::size_t per_group = std::max<std::size_t>(1, intervals / (4 * threads));
  const std::size_t count = (intervals + per_group - 1) / per_group;
  std::vector<std::optional<result<coded_group>>> groups(count);
  const auto piece = [&](std::size_t g) {
    const std::size_t offset = g * per_group * interval;
    return from.subspan(offset, std::min(per_group * interval, from.size() - offset));
  };
  for_each_piece(threads, count, [&](std::size_t g) {
    unsigned split = 0;
    if (g > 0) {
      const auto before = encode_group(piece(g - 1).last(interval), p, 0);
      // A failed guess only means that the group is encoded again below.
      split = before ? before->split_after : 0;
    }
    groups[g].emplace(encode_group(piece(g), p, split));
  });
  std::vector<coded_group> good;
  for (std::size_t g = 0; g < count; ++g) {
    WEIR_TRY(coded_group group, std::move(*groups[g]));
    const unsigned split = g == 0 ? 0 : good.back().split_after;
    if (group.split_before != split) {
      WEIR_TRY(group, encode_group(piece(g), p, split));
    }
    good.push_back(std::move(group));
  }
  return join(good, threads);
}

}  // namespace

/// Several threads are used only if each gets several intervals: each group costs one
/// interval of additional encoding for the guess.
result<aec_code> aec_encode(bytes_view from, const aec_parameters& p, unsigned threads) {
  threads = worth_threads(threads, from.size());
  if (threads > 1 && from.size() / p.sample_bytes > 8 * p.interval()) {
    return encode_groups(from, p, threads);
  }
  WEIR_TRY(coded_group group, encode_group(from, p, 0));
  return aec_code{std::move(group.code), std::move(group.offsets)};
}

}  // namespace weir::formats
