// SPDX-License-Identifier: Apache-2.0
/// @file
/// The decoder: decodes one segment of blocks to numbers, then reverses the prediction
/// over the whole segment.
///
/// A block is stored as its identifier and what the identifier announces:
///
///   0, then 0    [reference] unary code of the length of a run of empty blocks
///   0, then 1    [reference] one unary code for each pair of numbers
///   1 + k        [reference] unary high parts of all numbers, then k low bits of each
///   all ones     all numbers with their full width
///
/// The reference is there in the first block of an interval, if there is a prediction.
/// Blocks are decoded to numbers first (`fill`), because a run of empty blocks can cross
/// several blocks. `encode.cpp` is the counterpart.
#include <algorithm>

#include "tensogram/codec/aec/aec.hpp"

namespace weir::formats {

namespace {

/// Code of the last pair whose sum is 12. No writer codes pairs with larger sums, and
/// libaec refuses them.
constexpr std::uint32_t largest_pair = 90;

/// Returns the error for bits that the stream lacks.
error ends_early() {
  return error(errc::corrupt,
               "cannot decompress payload: expected more bits of szip, found the end");
}

/// Replaces folded differences by samples, where `last` is the sample before the first,
/// and returns the last sample; fold_unsigned() in encode.cpp describes the fold. Numbers
/// that no valid stream holds wrap around at 32 bits, as they do in libaec.
std::uint32_t unfold_unsigned(std::uint32_t* x, std::size_t count, unsigned bits,
                              std::uint32_t last) noexcept {
  const std::uint32_t top = ~std::uint32_t{0} >> (32 - bits);
  const std::uint32_t middle = 1u << (bits - 1);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t d = x[i];
    // In the upper half of the range, the nearer end is the top: `mask ^ last` then is
    // the distance to it. A number whose half exceeds this distance has only one possible
    // sign.
    const std::uint32_t mask = (last & middle) == 0 ? 0 : top;
    const std::uint32_t half = (d >> 1) + (d & 1);
    last = half <= (mask ^ last) ? last + ((d >> 1) ^ (0u - (d & 1))) : mask ^ d;
    x[i] = last & top;
  }
  return last;
}

/// Does what unfold_unsigned() does, for samples in two's complement. `last` is
/// sign-extended to 32 bits.
std::uint32_t unfold_signed(std::uint32_t* x, std::size_t count, unsigned bits,
                            std::uint32_t last) noexcept {
  const std::uint32_t top = ~std::uint32_t{0} >> (32 - bits);
  const std::uint32_t highest = top >> 1;
  constexpr std::uint32_t sign = 1u << 31;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t d = x[i];
    const std::uint32_t half = (d >> 1) + (d & 1);
    const std::uint32_t moved = last + ((d >> 1) ^ (0u - (d & 1)));
    if ((last & sign) != 0) {
      last = half <= highest + last + 1 ? moved : d - highest - 1;
    } else {
      last = half <= highest - last ? moved : highest - d;
    }
    x[i] = last & top;
  }
  return last;
}

}  // namespace

/// The memory holds one segment, or less if the interval or the stream is shorter.
aec_decoder::aec_decoder(bytes_view from, std::uint64_t start, const aec_parameters& p,
                         std::uint64_t samples)
    : p_(p),
      bits_(from, start),
      left_(samples),
      numbers_(std::min<std::uint64_t>(
                   {p.rsi, aec_segment, (samples + p.block - 1) / p.block}) *
               p.block) {}

/// Reads the reference sample if this block begins an interval. Returns how many numbers
/// of the block are known by that, 0 or 1.
unsigned aec_decoder::take_reference(std::uint32_t* d) noexcept {
  const bool reference = p_.preprocess && block_ == 0;
  if (reference) {
    d[0] = bits_.get(p_.bits);
  }
  return reference ? 1 : 0;
}

/// Decodes the next segment, or the part of it that the stream still has, into numbers_.
/// A run of empty blocks may reach into the next segment; `empty_` keeps the rest of it.
result<void> aec_decoder::fill() {
  const std::uint32_t first = block_;
  const std::uint64_t blocks =
      std::min<std::uint64_t>({p_.rsi - first, aec_segment - first % aec_segment,
                               (left_ + p_.block - 1) / p_.block});
  end_ = static_cast<std::size_t>(std::min<std::uint64_t>(blocks * p_.block, left_));
  next_ = 0;
  // Every turn decodes one block; the last block of the stream may be incomplete.
  for (std::size_t done = 0; done < end_; done += p_.block, ++block_) {
    std::uint32_t* d = numbers_.data() + done;
    const auto wanted =
        static_cast<unsigned>(std::min<std::size_t>(p_.block, end_ - done));
    if (empty_ > 0) {
      --empty_;
      std::fill_n(d, wanted, 0u);
      continue;
    }
    WEIR_CHECK(wanted == p_.block ? decode_block(d) : decode_last_block(d, wanted));
  }
  left_ -= end_;
  // A segment in the middle of an interval begins with a difference, not with a
  // reference.
  if (p_.preprocess) {
    unfold(first == 0 ? 1 : 0);
  }
  // Intervals of padded streams begin at bytes.
  if (block_ == p_.rsi) {
    block_ = 0;
    padding_clear_ = (!p_.padded || bits_.align()) && padding_clear_;
  }
  return {};
}

/// Replaces differences by samples. The first `known` (0 or 1) numbers are samples
/// already; otherwise the prediction continues from last_.
void aec_decoder::unfold(std::size_t known) noexcept {
  // The reference is a sample; if samples have a sign, its bits are extended to 32.
  if (known != 0) {
    last_ = numbers_[0];
    const std::uint32_t sign = 1u << (p_.bits - 1);
    last_ = p_.is_signed ? (last_ ^ sign) - sign : last_;
  }
  std::uint32_t* from = numbers_.data() + known;
  last_ = p_.is_signed ? unfold_signed(from, end_ - known, p_.bits, last_)
                       : unfold_unsigned(from, end_ - known, p_.bits, last_);
}

/// Decodes a whole block.
/// `d` has room for a block. Missing bits are noticed once, at the end.
result<void> aec_decoder::decode_block(std::uint32_t* d) {
  const std::uint32_t id = bits_.get(p_.id_bits());
  if (id == 0) {
    WEIR_CHECK(low_entropy(d, p_.block));
  } else if (id == (1u << p_.id_bits()) - 1) {
    take_plain(d, 0, p_.block);
  } else {
    const unsigned first = take_reference(d);
    take_split(d, id - 1, first, p_.block);
  }
  return bits_.overrun() ? result<void>(ends_early()) : result<void>();
}

/// Decodes the first `wanted` numbers of the last block of a stream. The stream may lack
/// the bits of the other numbers. Bits that exist are consumed, so that the position is
/// the end of the block.
result<void> aec_decoder::decode_last_block(std::uint32_t* d, unsigned wanted) {
  const std::uint32_t id = bits_.get(p_.id_bits());
  // `enough` says whether the wanted numbers were read before the bits ended.
  bool enough = false;
  if (id == 0) {
    return low_entropy(d, wanted);
  }
  if (id == (1u << p_.id_bits()) - 1) {
    take_plain(d, 0, wanted);
    enough = !bits_.overrun();
    take_plain(d, wanted, p_.block);
  } else {
    const unsigned first = take_reference(d);
    enough = first == wanted && !bits_.overrun();
    take_split(d, id - 1, first, wanted);
    enough = enough || !bits_.overrun();
    for (unsigned i = wanted; i < p_.block; ++i) {
      static_cast<void>(bits_.get(id - 1));
    }
  }
  return enough ? result<void>() : result<void>(ends_early());
}

/// Decodes a block whose identifier is 0: the next bit distinguishes a run of empty
/// blocks from a block of pairs. `wanted` is less than a block only at the end of a
/// stream.
result<void> aec_decoder::low_entropy(std::uint32_t* d, unsigned wanted) {
  const bool pairs = bits_.get(1) == 1;
  const unsigned first = take_reference(d);
  bool enough = first == wanted && !bits_.overrun();
  if (pairs) {
    WEIR_CHECK(take_pairs(d, first, 0, wanted));
    enough = enough || !bits_.overrun();
    // If `wanted` is odd, the second half of a pair has been decoded with it, and libaec
    // does not look at the pairs behind it.
    auto rest = take_pairs(d, 0, align_up(wanted, 2u), p_.block);
    if (!rest && wanted % 2 == 0) {
      return rest;
    }
  } else {
    WEIR_CHECK(take_empty_run());
    enough = enough || !bits_.overrun();
    std::fill(d + first, d + wanted, 0u);
  }
  return enough ? result<void>() : result<void>(ends_early());
}

/// Returns the number of empty blocks that a code stands for. Code 4 means "to the end of
/// the segment or interval"; smaller codes stand for one block more than their value.
/// The writer uses code 4 for five blocks or more up to the end, so a length of five or
/// more is coded as it is.
std::uint32_t aec_decoder::blocks_of_run(std::uint32_t code) const noexcept {
  const std::uint32_t to_end =
      std::min(p_.rsi - block_, aec_segment - block_ % aec_segment);
  return code == 4 ? to_end : (code < 4 ? code + 1 : code);
}

/// Begins a run of empty blocks, which includes this one.
result<void> aec_decoder::take_empty_run() {
  const std::uint32_t run = blocks_of_run(bits_.get_unary());
  const std::uint32_t left = p_.rsi - block_;
  if (run > left && !bits_.overrun()) {
    return error(errc::corrupt,
                 fmt::format("cannot decompress payload: expected a run of at most {} "
                             "empty szip blocks, found {}",
                             left, run));
  }
  empty_ = run - 1;
  return {};
}

/// Decodes numbers `first` to `end`, two per code; the first `known` numbers exist
/// already and keep their values. Two numbers with the sum s have the code s (s + 1) / 2
/// + the second number.
result<void> aec_decoder::take_pairs(std::uint32_t* d, unsigned known, unsigned first,
                                     unsigned end) {
  for (unsigned i = first; i < end; i += 2) {
    const std::uint32_t code = bits_.get_unary();
    if (code > largest_pair) {
      return error(errc::corrupt,
                   fmt::format("cannot decompress payload: expected a pair of szip of at "
                               "most {}, found {}",
                               largest_pair, code));
    }
    // Finds the largest triangular number up to the code: `below` = sum (sum + 1) / 2.
    std::uint32_t sum = 0;
    std::uint32_t below = 0;
    while (below + sum + 1 <= code) {
      ++sum;
      below += sum;
    }
    const std::uint32_t second = code - below;
    if (i >= known) {
      d[i] = sum - second;
    }
    d[i + 1] = second;
  }
  return {};
}

/// Reads numbers that are stored without coding.
void aec_decoder::take_plain(std::uint32_t* d, unsigned first, unsigned end) noexcept {
  for (unsigned i = first; i < end; ++i) {
    d[i] = bits_.get(p_.bits);
  }
}

/// Reads a block in split-sample coding: first the unary coded parts of all its numbers
/// above their `k` low bits, then the low bits of numbers `first` to `end`.
void aec_decoder::take_split(std::uint32_t* d, unsigned k, unsigned first,
                             unsigned end) noexcept {
  const unsigned block = p_.block;
  aec_bits from = bits_;  // a local copy stays in registers
  for (unsigned i = first; i < block; ++i) {
    d[i] = from.get_unary();
  }
  if (k > 0) {
    for (unsigned i = first; i < end; ++i) {
      d[i] = (d[i] << k) + from.get(k);
    }
  }
  bits_ = from;
}

/// Calls `use` with portions of the next samples and refills numbers_ between them.
/// Behind the last sample of the stream it checks the following code; see look_behind().
template <class Use>
result<void> aec_decoder::decode(std::uint64_t samples, const Use& use) {
  while (samples > 0) {
    if (next_ == end_) {
      WEIR_EXPECT(left_ > 0);
      WEIR_CHECK(fill());
    }
    const auto count =
        static_cast<std::size_t>(std::min<std::uint64_t>(samples, end_ - next_));
    use(numbers_.data() + next_, count);
    next_ += count;
    samples -= count;
  }
  return left_ == 0 && end_ > 0 && next_ == end_ ? look_behind() : result<void>();
}

/// libaec continues behind the last sample until it needs space for output, and refuses a
/// stream that has an impossible code there. This decoder refuses the same streams,
/// because no other reader would open them. Bits that are missing there are no error.
/// A reader cannot know that a sample was the last one before it looks at a further
/// block. Where the last block was cut, a run goes on, or a reference or numbers follow,
/// libaec needs space for output first, and stops.
result<void> aec_decoder::look_behind() {
  const bool whole_block = end_ % p_.block == 0 && empty_ == 0;
  const bool reference = p_.preprocess && block_ == 0;
  aec_bits here = bits_;
  const std::uint32_t id = here.get(p_.id_bits());
  const bool pairs = here.get(1) == 1;
  if (!whole_block || reference || id != 0 || here.overrun()) {
    return {};
  }
  const std::uint32_t code = here.get_unary();
  const bool possible =
      pairs ? code <= largest_pair : blocks_of_run(code) <= p_.rsi - block_;
  return possible || here.overrun()
             ? result<void>()
             : error(errc::corrupt,
                     "cannot decompress payload: expected the end of the szip "
                     "stream behind its last sample, found an impossible code");
}

/// Decodes as many samples as fit into `to`, which moves forward with every block.
result<void> aec_decoder::read(mutable_bytes to) {
  return decode(to.size() / p_.sample_bytes,
                [&](const std::uint32_t* numbers, std::size_t count) {
                  const std::size_t bytes = count * p_.sample_bytes;
                  store_samples(numbers, p_, to.first(bytes));
                  to = to.subspan(bytes);
                });
}

/// The prediction needs every sample before a range, so skipping decodes.
result<void> aec_decoder::skip(std::uint64_t bytes) {
  return decode(bytes / p_.sample_bytes, [](const std::uint32_t*, std::size_t) {});
}

/// Decodes a range of intervals at once. An offset of the file is checked here, because
/// it selects the first byte that is read.
result<std::uint64_t> aec_decode(bytes_view from, std::uint64_t start,
                                 const aec_parameters& p, mutable_bytes to) {
  if (to.empty()) {
    return start;
  }
  if (start > std::uint64_t{from.size()} * 8) {
    return error(errc::corrupt,
                 fmt::format("cannot decompress payload: expected an szip offset within "
                             "{} bits, found {}",
                             std::uint64_t{from.size()} * 8, start));
  }
  aec_decoder decoder(from, start, p, to.size() / p.sample_bytes);
  WEIR_CHECK(decoder.read(to));
  return decoder.position();
}

}  // namespace weir::formats
