// SPDX-License-Identifier: Apache-2.0
/// @file
/// Compresses payloads in one pass: at each byte it takes the first kind of token that
/// fits, and collects literals in between. tcc.cpp describes the tokens.
///
/// The encoder is greedy. It does not search for the smallest encoding, but it is fast
/// and its output is always valid. A payload that does not become shorter is stored raw.
///
/// Words with a mask come first, because a mask may contain runs of zeros that an
/// isotope would take for itself. Literals come last: they are what nothing else
/// covered.
#include <algorithm>
#include <array>
#include <vector>

#include "hn4/disk.hpp"

namespace weir::storage::hn4 {

namespace {

/// Limits of the gain: shorter runs are cheaper as literals.
constexpr std::size_t least_run = 4;
constexpr std::size_t long_zeros = 16;  ///< zero words that are cheaper as an isotope

/// Strings of the dictionary by their first byte. A token takes three bytes and
/// interrupts literals, so strings of up to four bytes are not worth one. The rows give
/// the numbers of the strings in the dictionary.
using word_table = std::array<std::vector<std::size_t>, 256>;
const word_table& words_by_first() {
  static const word_table table = [] {
    word_table t;
    for (std::size_t i = 0; i < 64; ++i) {
      if (tcc_word(i).size() > 4) {
        t[static_cast<unsigned char>(tcc_word(i).front())].push_back(i);
      }
    }
    return t;
  }();
  return table;
}

/// Writes tokens until the input ends or the output is full.
///
/// Two offsets divide the input: bytes before `start_` are written, bytes from there to
/// `offset_` are literals that wait, and `offset_` is where the next token is tried.
class encoder {
 public:
  encoder(bytes_view from, mutable_bytes to) : from_(from), to_(to) {}

  /// Compresses; returns the length, or nothing if the output was too small. Gives up at
  /// the first byte that does not fit, so incompressible input costs little.
  std::optional<std::size_t> run() {
    while (offset_ < from_.size() && !full_) {
      if (!bitmask() && !isotope() && !gradient() && !word()) {
        ++offset_;
      }
    }
    literals(offset_);
    return full_ ? std::nullopt : std::optional(out_);
  }

 private:
  /// Returns the byte at an index.
  unsigned byte(std::size_t i) const { return static_cast<unsigned>(from_[i]); }
  /// Returns how many bytes one token can cover from here.
  std::size_t left() const { return std::min(from_.size() - offset_, longest_token); }

  /// Writes a byte, unless the output is full.
  void put(unsigned value) {
    full_ = full_ || out_ == to_.size();
    if (!full_) {
      to_[out_++] = static_cast<std::byte>(value);
    }
  }
  /// Writes a token with its length. The six bits in the token hold up to 62; further
  /// bytes follow then.
  ///
  /// A length of 63 or more is 63 in the token, 255 in each further byte, and the rest
  /// in the last, which may be 0.
  void token(unsigned tag, std::size_t length) {
    put(tag | static_cast<unsigned>(std::min<std::size_t>(length, 63)));
    if (length < 63) {
      return;
    }
    std::size_t rest = length - 63;
    for (; rest >= 255; rest -= 255) {
      put(255);
    }
    put(static_cast<unsigned>(rest));
  }
  /// Writes the bytes that were passed over since the last token. A long run of literals
  /// takes several tokens.
  void literals(std::size_t end) {
    while (start_ < end && !full_) {
      const std::size_t n = std::min(end - start_, longest_token);
      token(0x00, n);
      // Checked as a whole, since the copy below is one step.
      full_ = full_ || n > to_.size() - out_;
      if (!full_) {
        std::memcpy(to_.data() + out_, from_.data() + start_, n);
        out_ += n;
      }
      start_ += n;
    }
  }
  /// Moves behind bytes that a token covers.
  void consume(std::size_t n) {
    offset_ += n;
    start_ = offset_;
  }

  /// Tries a repeated byte.
  ///
  /// These functions return false and write nothing if their kind does not fit here.
  bool isotope() {
    const std::size_t limit = left();
    std::size_t n = 1;
    while (n < limit && from_[offset_ + n] == from_[offset_]) {
      ++n;
    }
    if (n < least_run) {
      return false;
    }
    literals(offset_);
    // Lengths of runs are stored less 4.
    token(0x40, n - 4);
    put(byte(offset_));
    consume(n);
    return true;
  }

  /// Tries an arithmetic progression.
  ///
  /// Two bytes determine the slope; the format has no slope of 0 or -128.
  bool gradient() {
    if (left() < 2) {
      return false;
    }
    const int slope =
        static_cast<int>(byte(offset_ + 1)) - static_cast<int>(byte(offset_));
    if (slope == 0 || slope < -127 || slope > 127) {
      return false;
    }
    const std::size_t limit = left();
    std::size_t n = 2;
    while (n < limit && static_cast<int>(byte(offset_ + n)) -
                                static_cast<int>(byte(offset_ + n - 1)) ==
                            slope) {
      ++n;
    }
    // The token takes three bytes, one more than an isotope.
    if (n < least_run + 1) {
      return false;
    }
    literals(offset_);
    token(0x80, n - 4);
    put(byte(offset_));
    put(static_cast<unsigned>(slope) & 0xFFU);
    consume(n);
    return true;
  }

  /// Returns whether four bytes are zero.
  bool zero_word(std::size_t i) const {
    return load_le<std::uint32_t>(from_.data() + i) == 0;
  }

  /// Tries words of four bytes many of which are zero. The range begins and ends with a
  /// zero word; runs of zeros alone are left to isotopes.
  bool bitmask() {
    // Fewer words cannot save anything.
    const std::size_t words = left() / 4;
    if (words < 4 || !zero_word(offset_)) {
      return false;
    }
    // Counts the zero words at the front. A long run of them is cheaper as an isotope.
    std::size_t ahead = 1;
    while (ahead < long_zeros && ahead < words && zero_word(offset_ + 4 * ahead)) {
      ++ahead;
    }
    if (ahead == long_zeros) {
      return false;
    }
    std::size_t used = 0, zeros = 0, filled = 0;
    // Goes on until four words in a row are not zero. `used` ends behind the last zero
    // word, and `filled` counts words between zeros that must be stored.
    for (std::size_t i = 0, gap = 0; i < words && gap < 4; ++i) {
      if (zero_word(offset_ + 4 * i)) {
        ++zeros;
        filled += gap;
        gap = 0;
        used = i + 1;
      } else {
        ++gap;
      }
    }
    // Few zeros do not pay for the mask; no filled words make it a plain run.
    if (zeros < 3 || filled == 0) {
      return false;
    }
    literals(offset_);
    write_mask(used);
    consume(4 * used);
    return true;
  }

  /// Writes the token, the mask and the words that are not zero. Bit i of a byte stands
  /// for word i of eight; a set bit says that the word is stored.
  void write_mask(std::size_t words) {
    token(0xC0, 4 * words);
    for (std::size_t first = 0; first < words; first += 8) {
      unsigned mask = 0;
      for (std::size_t i = first; i < std::min(first + 8, words); ++i) {
        mask |= zero_word(offset_ + 4 * i) ? 0U : 1U << (i - first);
      }
      put(mask);
    }
    for (std::size_t i = 0; i < words; ++i) {
      for (std::size_t k = 0; k < 4 && !zero_word(offset_ + 4 * i); ++k) {
        put(byte(offset_ + 4 * i + k));
      }
    }
  }

  /// Tries the longest string of the dictionary. The number 64 stands for none.
  bool word() {
    const std::string_view rest = as_text(from_.subspan(offset_));
    std::size_t best = 64, length = 0;
    for (const std::size_t i : words_[byte(offset_)]) {
      const std::string_view text = tcc_word(i);
      if (text.size() > length && rest.substr(0, text.size()) == text) {
        best = i;
        length = text.size();
      }
    }
    if (best == 64) {
      return false;
    }
    literals(offset_);
    // The escape 0 and the kind 1.
    put(0x00);
    put(0x01);
    put(static_cast<unsigned>(best));
    consume(length);
    return true;
  }

  bytes_view from_;
  mutable_bytes to_;
  const word_table& words_ = words_by_first();
  std::size_t offset_ = 0;
  std::size_t start_ = 0;  ///< first byte that no token covers yet
  std::size_t out_ = 0;
  bool full_ = false;
};

}  // namespace

/// Returns the length of the output, or nothing if `to` is too small. The caller passes
/// a buffer that is shorter than the input, so that success means a gain.
std::optional<std::size_t> tcc_encode(bytes_view from, mutable_bytes to) {
  return encoder(from, to).run();
}

}  // namespace weir::storage::hn4
