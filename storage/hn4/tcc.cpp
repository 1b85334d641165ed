// SPDX-License-Identifier: Apache-2.0
/// @file
/// Decompresses payloads.
///
/// A compressed payload is a sequence of tokens. The upper two bits of a token select its
/// kind, the lower six bits are its length; the value 63 says that further bytes are
/// added to it. Kinds are literal bytes, a repeated byte ("isotope"), an arithmetic
/// progression ("gradient") and words with a mask of zeros. The token 0 introduces
/// strings of a dictionary and predicted bytes ("manifold").
///
/// An example: the byte 0x05 and five bytes after it are a literal of five bytes; 0x41
/// and one byte repeat that byte five times, since such lengths begin at 4.
#include <fmt/core.h>

#include <algorithm>

#include "disk.hpp"
#include "weir/storage/hn4_code.hpp"

namespace weir::storage::hn4 {

namespace {

/// Dictionary of the format; the order is part of it. The index in a payload is the
/// position in this list, so entries are never moved.
constexpr std::array<std::string_view, 64> dictionary{"{\"id\":",
                                                      "http://",
                                                      "https://",
                                                      "error",
                                                      "false",
                                                      "true",
                                                      "null",
                                                      "value",
                                                      "timestamp",
                                                      " <div class=\"",
                                                      "background",
                                                      "function",
                                                      "return",
                                                      "success",
                                                      "jsonrpc",
                                                      "application",
                                                      "\":\"",
                                                      "\",\"",
                                                      "{\"name\":",
                                                      "{\"type\":",
                                                      "content-type",
                                                      "authorization",
                                                      "bearer ",
                                                      "user-agent",
                                                      "response",
                                                      "status",
                                                      "message",
                                                      "token",
                                                      "created_at",
                                                      "updated_at",
                                                      "const ",
                                                      "struct ",
                                                      "localhost",
                                                      "127.0.0.1",
                                                      "192.168.",
                                                      "[INFO] ",
                                                      "[WARN] ",
                                                      "[ERROR] ",
                                                      "[DEBUG] ",
                                                      "exception",
                                                      "stacktrace",
                                                      "undefined",
                                                      "timeout",
                                                      "connection",
                                                      "database",
                                                      "server",
                                                      "client",
                                                      "password",
                                                      "00000000",
                                                      "ffffff",
                                                      "0000000000000000",
                                                      "FFFFFFFFFFFFFFFF",
                                                      "\\u00",
                                                      "0x",
                                                      "class ",
                                                      "import ",
                                                      "public ",
                                                      "private ",
                                                      "void ",
                                                      "string",
                                                      "uint64_t",
                                                      "uint32_t",
                                                      "<tbody>",
                                                      "</span>"};

/// Decodes tokens. Every step returns false if the token breaks a rule of the format or a
/// bound of input or output.
///
/// `in_` and `out_` never pass the ends of their buffers: `has_input` and `fits` are
/// asked before each step.
class decoder {
 public:
  decoder(bytes_view from, mutable_bytes to) : from_(from), to_(to) {}

  /// Decodes all tokens. Tokens may produce nothing, so their number is limited, too.
  [[nodiscard]] bool run() {
    // Each token takes at least one byte of input, so this is a second line of defence.
    const std::size_t max_tokens = 16 * from_.size() + 1024;
    for (std::size_t tokens = 0; in_ < from_.size(); ++tokens) {
      if (tokens >= max_tokens || !token()) {
        return false;
      }
    }
    return true;
  }
  /// Returns the bytes of input that were consumed.
  [[nodiscard]] std::size_t consumed() const { return in_; }
  /// Returns the bytes of output that were produced.
  [[nodiscard]] std::size_t produced() const { return out_; }

 private:
  [[nodiscard]] bool has_input(std::size_t n) const { return n <= from_.size() - in_; }
  [[nodiscard]] bool fits(std::size_t n) const { return n <= to_.size() - out_; }
  [[nodiscard]] unsigned next() { return static_cast<unsigned>(from_[in_++]); }
  void put(unsigned value) { to_[out_++] = static_cast<std::byte>(value); }
  void put(bytes_view bytes) {
    std::memcpy(to_.data() + out_, bytes.data(), bytes.size());
    out_ += bytes.size();
  }

  /// Adds bytes to a length, up to and including the first that is not 255.
  ///
  /// A length above `longest_token` breaks the format, and the check keeps the sum
  /// small.
  bool lengthen(std::size_t& length) {
    for (;;) {
      if (!has_input(1)) {
        return false;
      }
      const unsigned b = next();
      length += b;
      if (length > longest_token) {
        return false;
      }
      if (b != 255) {
        return true;
      }
    }
  }

  /// Decodes one token. Upper two bits: kind. Lower six: length.
  bool token() {
    const unsigned t = next();
    const unsigned tag = t & 0xC0U;
    std::size_t length = t & 0x3FU;
    if (t == 0) {
      return escape();
    }
    if (length == 63 && !lengthen(length)) {
      return false;
    }
    // Runs shorter than four bytes would gain nothing, so their lengths begin at 4.
    if (tag == 0x40 || tag == 0x80) {
      length += 4;
    }
    // Every kind below writes exactly `length` bytes.
    if (!fits(length)) {
      return false;
    }
    switch (tag) {
      case 0x00: return literal(length);
      case 0x40: return isotope(length);
      case 0x80: return gradient(length);
      default: return bitmask(length);
    }
  }

  /// Decodes a token that begins with 0. The byte after it selects the kind. Other
  /// values are reserved.
  bool escape() {
    if (!has_input(1)) {
      return false;
    }
    switch (next()) {
      case 1: return word();
      case 2: return manifold();
      default: return false;
    }
  }

  /// Copies a string of the dictionary.
  bool word() {
    if (!has_input(1)) {
      return false;
    }
    const unsigned index = next();
    if (index >= dictionary.size() || !fits(dictionary[index].size())) {
      return false;
    }
    put(as_view(dictionary[index]));
    return true;
  }

  /// Adds each byte to a prediction: the mean of the byte before it and the byte one
  /// stride before it.
  ///
  /// `stride` is the distance to the byte above, as in an image. The first `stride`
  /// bytes of the token have no prediction.
  bool manifold() {
    if (!has_input(1)) {
      return false;
    }
    const std::size_t stride = next();
    std::size_t length = 0;
    if (stride == 0 || stride > out_ || !lengthen(length) || stride > length ||
        !has_input(length) || !fits(length)) {
      return false;
    }
    for (std::size_t i = 0; i < length; ++i) {
      const unsigned b = next();
      const unsigned guess = i < stride ? 0U
                                        : (static_cast<unsigned>(to_[out_ - 1]) +
                                           static_cast<unsigned>(to_[out_ - stride])) >>
                                              1;
      put((b + guess) & 0xFFU);
    }
    return true;
  }

  /// Copies bytes.
  bool literal(std::size_t length) {
    if (!has_input(length)) {
      return false;
    }
    put(from_.subspan(in_, length));
    in_ += length;
    return true;
  }

  /// Repeats a byte.
  bool isotope(std::size_t length) {
    if (!has_input(1)) {
      return false;
    }
    std::memset(to_.data() + out_, static_cast<int>(next()), length);
    out_ += length;
    return true;
  }

  /// Writes an arithmetic progression, which must stay within a byte.
  bool gradient(std::size_t length) {
    if (!has_input(2)) {
      return false;
    }
    const auto start = static_cast<int>(next());
    const auto slope = static_cast<int>(static_cast<std::int8_t>(next()));
    // The ends decide for all values between, since the progression is monotonous.
    const int last = start + (static_cast<int>(length) - 1) * slope;
    if (slope == 0 || slope == -128 || last < 0 || last > 255) {
      return false;
    }
    for (std::size_t i = 0; i < length; ++i) {
      put(static_cast<unsigned>(start + static_cast<int>(i) * slope));
    }
    return true;
  }

  /// Writes words of four bytes; the mask says which of them are stored and which are
  /// zero. Unused bits of the mask must be zero.
  ///
  /// Bit i of the mask, counted from the lowest bit of the first byte, belongs to word
  /// i.
  bool bitmask(std::size_t length) {
    const std::size_t words = length / 4;
    const std::size_t mask_bytes = (words + 7) / 8;
    if (length == 0 || length % 4 != 0 || !has_input(mask_bytes)) {
      // The mask is in front of the words.
      return false;
    }
    const bytes_view mask = from_.subspan(in_, mask_bytes);
    in_ += mask_bytes;
    // Bits behind the last word.
    if (words % 8 != 0 && static_cast<unsigned>(mask.back()) >> (words % 8) != 0) {
      return false;
    }
    for (std::size_t i = 0; i < words; ++i) {
      if ((static_cast<unsigned>(mask[i / 8]) >> (i % 8) & 1U) == 0) {
        std::memset(to_.data() + out_, 0, 4);
        out_ += 4;
      } else if (!literal(4)) {
        return false;
      }
    }
    return true;
  }

  bytes_view from_;
  mutable_bytes to_;
  std::size_t in_ = 0;
  std::size_t out_ = 0;
};

}  // namespace

/// Serves tests and tools that list the dictionary. The index must be below 64.
std::string_view tcc_word(std::size_t index) noexcept {
  return dictionary[index];
}

/// Writes at most `to.size()` bytes. On failure the content of `to` is undefined.
result<std::size_t> tcc_decode(bytes_view from, mutable_bytes to) {
  decoder d(from, to);
  if (!d.run()) {
    return hn4_error(
        hn4_code::data_rot,
        fmt::format("cannot decompress {} bytes: expected a valid token before byte {}",
                    from.size(), d.consumed()));
  }
  return d.produced();
}

}  // namespace weir::storage::hn4
