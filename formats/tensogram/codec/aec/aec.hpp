// SPDX-License-Identifier: Apache-2.0
/// @file
/// Adaptive entropy coding according to CCSDS 121.0-B, the coder of "szip".
///
/// Samples are grouped into blocks, and blocks into reference sample intervals, which can
/// be decoded independently. A preprocessor replaces each sample by its folded difference
/// to the sample before it; the first sample of an interval, the reference, is stored as
/// it is. Each block then begins with an identifier of the coding that is shortest for
/// it: a run of blocks of zeros, pairs of numbers coded together ("second extension"),
/// unary high parts with k low bits each ("split"), or plain numbers. The output equals
/// that of libaec byte for byte, and the encoder also returns the bit at which each
/// interval starts, which is what makes decoding of ranges possible.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

#include "tensogram/codec/buffer.hpp"

namespace weir::formats {

/// Number of blocks in a segment. A run of empty blocks ends with its segment at the
/// latest (CCSDS 121.0-B, zero-block option).
inline constexpr std::uint32_t aec_segment = 64;

/// Parameters of a stream. They are not stored in it; the descriptor carries them.
struct aec_parameters {
  unsigned bits = 8;        ///< per sample, 1..32
  unsigned block = 16;      ///< samples per block, even, 2..4096
  unsigned rsi = 128;       ///< blocks per reference sample interval, 1..4096
  bool preprocess = true;   ///< the samples are differences to the ones before
  bool is_signed = false;   ///< samples are in two's complement
  bool restricted = false;  ///< short identifiers, for at most 4 bits
  bool big_endian = false;  ///< byte order of samples of more than one byte
  bool padded = false;      ///< every interval ends at a byte; for streams that are read
  unsigned sample_bytes = 1;  ///< bytes of a stored sample, 1..4

  /// Returns the width of a block's identifier, which depends on the width of samples.
  [[nodiscard]] unsigned id_bits() const noexcept {
    return restricted && bits <= 4 ? (bits <= 2 ? 1 : 2)
                                   : (bits > 16 ? 5 : (bits > 8 ? 4 : 3));
  }
  /// Returns the number of samples in an interval.
  [[nodiscard]] std::size_t interval() const noexcept { return std::size_t{rsi} * block; }
};

/// An encoded stream.
struct aec_code {
  code_buffer code;                    ///< the stream, filled up with zeros to a byte
  std::vector<std::uint64_t> offsets;  ///< bit where each interval starts
};

/// Encodes whole samples. The bytes do not depend on the number of threads.
/// @error{out_of_memory}
[[nodiscard]] result<aec_code> aec_encode(bytes_view from, const aec_parameters& p,
                                          unsigned threads);

/// Reads the bits of a stream, the most significant first. Behind the end it delivers
/// zeros and sets `overrun`, so that the decoder checks once per block instead of once
/// per bit.
class aec_bits {
 public:
  /// @pre `start` is within `from`
  aec_bits(bytes_view from, std::uint64_t start) noexcept
      : next_(from.data() + start / 8),
        begin_(from.data()),
        end_(from.data() + from.size()) {
    refill();
    skip(start % 8);
  }

  /// Returns the next `count` bits. @pre `count` <= 32
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
  /// Returns the number of zeros before the next one, and consumes the one too. If no one
  /// follows, sets overrun().
  std::uint32_t get_unary() noexcept {
    std::uint64_t zeros = 0;
    if (left_ < 32) {
      refill();
    }
    while (bits_ == 0) {
      zeros += left_;
      if (next_ == end_ || zeros > std::numeric_limits<std::uint32_t>::max()) {
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
  /// Moves to the next byte. Returns whether the bits that it passes over are zeros.
  bool align() noexcept { return get(left_ % 8) == 0; }
  /// Returns whether bits behind the end were asked for.
  [[nodiscard]] bool overrun() const noexcept { return overrun_; }
  /// Returns the number of bits before the next one, from the start of the stream.
  [[nodiscard]] std::uint64_t position() const noexcept {
    return static_cast<std::uint64_t>(next_ - begin_) * 8 - left_;
  }

 private:
  /// Fills bits_ to at least 56 bits, or with all bytes that are left. Far from the end
  /// it loads eight bytes at once and counts only the whole bytes that fit.
  void refill() noexcept {
    if (end_ - next_ >= 8) {
      bits_ |= load_be<std::uint64_t>(next_) >> left_;
      const unsigned bytes = (63 - left_) / 8;
      next_ += bytes;
      left_ += 8 * bytes;
      // Clears the bits that are not counted, because the next load delivers them again.
      bits_ = left_ == 0 ? 0 : bits_ >> (64 - left_) << (64 - left_);
      return;
    }
    for (; left_ <= 56 && next_ < end_; ++next_, left_ += 8) {
      bits_ |= std::to_integer<std::uint64_t>(*next_) << (56 - left_);
    }
  }
  /// Drops `count` bits, at most those that are left.
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

  const std::byte* next_;  ///< first byte that is not in `bits_`
  const std::byte* begin_;
  const std::byte* end_;
  std::uint64_t bits_ = 0;  ///< the next bit is the highest; zeros below the last one
  unsigned left_ = 0;       ///< number of bits in `bits_`
  bool overrun_ = false;    ///< see `overrun()`
};

/// Decodes a stream in portions, from the start of any interval on. For damaged streams
/// the result, or the refusal, is that of libaec 1.1, so that both readers accept the
/// same files.
/// @threads{thread-compatible}
class aec_decoder {
 public:
  /// Decodes from bit `start` of `from`, where an interval begins. `samples` is the
  /// number of samples from there to the end of the stream. Allocates memory for one
  /// segment of blocks, at most 1 MiB.
  /// @pre `start` is within `from`; `from` and `p` outlive the decoder
  aec_decoder(bytes_view from, std::uint64_t start, const aec_parameters& p,
              std::uint64_t samples);

  /// Decodes the next samples, as many as `to` holds. @pre that many are left
  /// @error{corrupt, the stream ends before or has an impossible code}
  [[nodiscard]] result<void> read(mutable_bytes to);
  /// Decodes and discards samples of `bytes` bytes. @error{those of read}
  [[nodiscard]] result<void> skip(std::uint64_t bytes);
  /// Returns the bit behind the decoded samples. After the last sample of an interval
  /// this is the start of the next interval.
  [[nodiscard]] std::uint64_t position() const noexcept { return bits_.position(); }
  /// Returns true if all bits between padded intervals were zeros so far.
  [[nodiscard]] bool padding_clear() const noexcept { return padding_clear_; }

 private:
  // Steps of `read` and `skip`; see decode.cpp.
  template <class Use>
  result<void> decode(std::uint64_t samples, const Use& use);
  result<void> fill();
  result<void> look_behind();
  result<void> decode_block(std::uint32_t* d);
  result<void> decode_last_block(std::uint32_t* d, unsigned wanted);
  result<void> low_entropy(std::uint32_t* d, unsigned wanted);
  [[nodiscard]] std::uint32_t blocks_of_run(std::uint32_t code) const noexcept;
  result<void> take_empty_run();
  result<void> take_pairs(std::uint32_t* d, unsigned known, unsigned first, unsigned end);
  void take_plain(std::uint32_t* d, unsigned first, unsigned end) noexcept;
  void take_split(std::uint32_t* d, unsigned k, unsigned first, unsigned end) noexcept;
  unsigned take_reference(std::uint32_t* d) noexcept;
  void unfold(std::size_t known) noexcept;

  const aec_parameters& p_;  ///< of the stream; outlives the decoder
  aec_bits bits_;
  std::uint64_t left_;  ///< samples of the stream that are not in numbers_
  std::vector<std::uint32_t> numbers_;  ///< samples of one segment
  std::size_t next_ = 0;     ///< of numbers_, the first that was not handed out
  std::size_t end_ = 0;      ///< how many of numbers_ are there
  std::uint32_t block_ = 0;  ///< number of the next block in its interval
  std::uint32_t empty_ = 0;  ///< blocks that a run of empty ones still has
  std::uint32_t last_ = 0;   ///< the sample before the next one
  bool padding_clear_ = true;
};

/// Decodes from bit `start` of `from`, where an interval begins, until `to` is full.
/// Returns the bit behind the last decoded sample.
/// @error{corrupt, an offset beyond the stream; those of aec_decoder::read}
[[nodiscard]] result<std::uint64_t> aec_decode(bytes_view from, std::uint64_t start,
                                               const aec_parameters& p, mutable_bytes to);

/// Converts samples of 1 to 4 bytes to numbers. Only the low `bits` of each count.
void load_samples(bytes_view from, const aec_parameters& p, std::uint32_t* to) noexcept;
/// Converts numbers back to samples.
void store_samples(const std::uint32_t* from, const aec_parameters& p,
                   mutable_bytes to) noexcept;

}  // namespace weir::formats
