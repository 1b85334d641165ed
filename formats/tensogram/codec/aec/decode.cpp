// SPDX-License-Identifier: Apache-2.0
/// @file
/// The decoder: blocks of numbers, then samples out of their differences.
#include <algorithm>
#include <bit>
#include <limits>

#include "tensogram/codec/aec/aec.hpp"

namespace weir::formats {

namespace {

/// Bits, the most significant first. Behind the end there are zeros; `overrun` tells.
class bit_reader {
 public:
  bit_reader(bytes_view from, std::uint64_t start)
      : at_(from.data() + start / 8),
        begin_(from.data()),
        end_(from.data() + from.size()) {
    refill();
    skip(start % 8);
  }

  /// `count` <= 32 bits.
  std::uint32_t get(unsigned count) noexcept {
    if (count == 0) {
      return 0;
    }
    if (left_ < count) {
      refill();
    }
    const auto out = static_cast<std::uint32_t>(bits_ >> (64 - count));
    skip(count);
    return out;
  }
  /// Zeros before the next one, which is taken too; the one that never comes counts as
  /// an overrun.
  std::uint32_t get_unary() noexcept {
    std::uint64_t zeros = 0;
    if (left_ < 32) {
      refill();
    }
    while (bits_ == 0) {
      zeros += left_;
      if (at_ == end_ || zeros > std::numeric_limits<std::uint32_t>::max()) {
        overrun_ = true;
        return 0;
      }
      skip(left_);
      refill();
    }
    const auto more = static_cast<unsigned>(std::countl_zero(bits_));
    if (more >= left_) {
      overrun_ = true;
      return 0;
    }
    skip(more + 1);
    return static_cast<std::uint32_t>(zeros + more);
  }
  [[nodiscard]] bool overrun() const noexcept { return overrun_; }
  [[nodiscard]] std::uint64_t position() const noexcept {
    return static_cast<std::uint64_t>(at_ - begin_) * 8 - left_;
  }

 private:
  void refill() noexcept {
    if (end_ - at_ >= 8) {
      bits_ |= load_be<std::uint64_t>(at_) >> left_;
      const unsigned bytes = (63 - left_) / 8;
      at_ += bytes;
      left_ += 8 * bytes;
      // Bits beyond those that count come again with the next load.
      bits_ = left_ == 0 ? 0 : bits_ >> (64 - left_) << (64 - left_);
      return;
    }
    for (; left_ <= 56 && at_ < end_; ++at_, left_ += 8) {
      bits_ |= std::to_integer<std::uint64_t>(*at_) << (56 - left_);
    }
  }
  void skip(unsigned count) noexcept {
    if (count > left_) {
      overrun_ = true;
      bits_ = 0;
      left_ = 0;
      return;
    }
    bits_ = count >= 64 ? 0 : bits_ << count;
    left_ -= count;
  }

  const std::byte* at_;
  const std::byte* begin_;
  const std::byte* end_;
  std::uint64_t bits_ = 0;  ///< the next bit is the highest; zeros below the last one
  unsigned left_ = 0;
  bool overrun_ = false;
};

void unfold_unsigned(std::uint32_t* x, std::size_t count, unsigned bits) noexcept {
  const std::uint32_t top = ~std::uint32_t{0} >> (32 - bits);
  const std::uint32_t middle = 1u << (bits - 1);
  std::uint32_t last = x[0];
  for (std::size_t i = 1; i < count; ++i) {
    const std::uint32_t d = x[i];
    const std::uint32_t mask = (last & middle) == 0 ? 0 : top;
    const std::uint32_t half = (d >> 1) + (d & 1);
    last = half <= (mask ^ last) ? last + ((d >> 1) ^ (0u - (d & 1))) : mask ^ d;
    last &= top;
    x[i] = last;
  }
}

void unfold_signed(std::uint32_t* x, std::size_t count, unsigned bits) noexcept {
  const std::int64_t half = std::int64_t{1} << (bits - 1);
  const std::uint32_t top = ~std::uint32_t{0} >> (32 - bits);
  std::int64_t last = x[0];
  last = last >= half ? last - 2 * half : last;
  x[0] = static_cast<std::uint32_t>(last) & top;
  for (std::size_t i = 1; i < count; ++i) {
    const std::int64_t d = x[i];
    const std::int64_t step = d >> 1;
    const std::int64_t reach = step + (d & 1);
    const std::int64_t moved = (d & 1) != 0 ? last - reach : last + step;
    if (last < 0) {
      last = reach <= last + half ? moved : d - half;
    } else {
      last = reach <= half - 1 - last ? moved : half - 1 - d;
    }
    x[i] = static_cast<std::uint32_t>(last) & top;
  }
}

class interval_decoder {
 public:
  /// `blocks`: of the largest interval.
  interval_decoder(bit_reader& from, const aec_parameters& p, std::size_t blocks)
      : from_(from), p_(p), numbers_(blocks * p.block) {}

  /// Numbers of the next interval of `blocks` blocks, as samples.
  result<const std::uint32_t*> decode(std::uint32_t blocks) {
    for (std::uint32_t b = 0; b < blocks;) {
      std::uint32_t* d = numbers_.data() + std::size_t{b} * p_.block;
      reference_ = p_.preprocess && b == 0;
      const std::uint32_t id = from_.get(p_.id_bits());
      if (id == 0) {
        WEIR_TRY(const std::uint32_t taken, low_entropy(d, b, blocks));
        b += taken;
      } else {
        id == (1u << p_.id_bits()) - 1 ? plain(d) : split(d, id - 1);
        ++b;
      }
      if (from_.overrun()) {
        return ends_early();
      }
    }
    if (p_.preprocess) {
      const std::size_t count = std::size_t{blocks} * p_.block;
      p_.is_signed ? unfold_signed(numbers_.data(), count, p_.bits)
                   : unfold_unsigned(numbers_.data(), count, p_.bits);
    }
    return numbers_.data();
  }

 private:
  static error ends_early() {
    return error(errc::corrupt,
                 "cannot decompress payload: expected more bits of szip, found the end");
  }

  unsigned take_reference(std::uint32_t* d) noexcept {
    if (reference_) {
      d[0] = from_.get(p_.bits);
    }
    return reference_ ? 1 : 0;
  }

  /// A run of empty blocks, or a block of pairs. Returns how many blocks it was.
  result<std::uint32_t> low_entropy(std::uint32_t* d, std::uint32_t b,
                                    std::uint32_t blocks) {
    const bool pairs = from_.get(1) == 1;
    const unsigned first = take_reference(d);
    if (pairs) {
      WEIR_CHECK(take_pairs(d, first));
      return 1u;
    }
    const std::uint32_t code = from_.get_unary();
    const std::uint32_t to_end = std::min(p_.rsi - b, aec_segment - b % aec_segment);
    const std::uint32_t run = code == 4 ? to_end : (code < 4 ? code + 1 : code);
    // The last interval may end before the segment does.
    const std::uint32_t used = code == 4 ? std::min(run, blocks - b) : run;
    if (used > blocks - b) {
      return error(errc::corrupt,
                   fmt::format("cannot decompress payload: expected a run of at most {} "
                               "empty szip blocks, found {}",
                               blocks - b, used));
    }
    std::fill(d + first, d + std::size_t{used} * p_.block, 0u);
    return used;
  }

  result<void> take_pairs(std::uint32_t* d, unsigned first) {
    for (unsigned i = 0; i < p_.block; i += 2) {
      const std::uint32_t code = from_.get_unary();
      // The largest s with s(s+1)/2 <= code.
      std::uint32_t sum = 0;
      std::uint64_t below = 0;
      while (below + sum + 1 <= code && sum < 100'000) {
        ++sum;
        below += sum;
      }
      if (code - below > sum) {
        return error(errc::corrupt,
                     "cannot decompress payload: expected a pair of szip, found an "
                     "impossible one");
      }
      const auto second = static_cast<std::uint32_t>(code - below);
      if (i >= first) {
        d[i] = sum - second;
      }
      d[i + 1] = second;
    }
    return {};
  }

  void plain(std::uint32_t* d) noexcept {
    for (unsigned i = 0; i < p_.block; ++i) {
      d[i] = from_.get(p_.bits);
    }
  }

  void split(std::uint32_t* d, unsigned k) noexcept {
    const unsigned first = take_reference(d);
    const unsigned block = p_.block;
    bit_reader from = from_;  // in registers
    for (unsigned i = first; i < block; ++i) {
      d[i] = from.get_unary();
    }
    if (k > 0) {
      for (unsigned i = first; i < block; ++i) {
        d[i] = d[i] << k | from.get(k);
      }
    }
    from_ = from;
  }

  bit_reader& from_;
  const aec_parameters& p_;
  std::vector<std::uint32_t> numbers_;
  bool reference_ = false;
};

}  // namespace

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
  bit_reader bits(from, start);
  const std::size_t all = to.size() / p.sample_bytes;
  interval_decoder decoder(bits, p,
                           std::min<std::size_t>(p.rsi, (all + p.block - 1) / p.block));
  const std::size_t step = p.interval() * p.sample_bytes;
  for (std::size_t at = 0; at < to.size(); at += step) {
    const std::size_t size = std::min(step, to.size() - at);
    const std::size_t samples = size / p.sample_bytes;
    const auto blocks = static_cast<std::uint32_t>((samples + p.block - 1) / p.block);
    WEIR_TRY(const std::uint32_t* numbers, decoder.decode(blocks));
    store_samples(numbers, p, to.subspan(at, size));
  }
  return bits.position();
}

}  // namespace weir::formats
