// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reading and writing of headers of NumPy's files.
///
/// A header is a magic number, a version, the length of a text, and the text, a
/// dictionary of Python padded with blanks. The elements follow it.
#include "weir/storage/npy.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace weir::storage {
namespace {

/// Sizes of the head of a file: magic and version, and the length that follows.
constexpr std::size_t head_size = 8;
constexpr std::size_t short_length = 2;
constexpr std::size_t long_length = 4;
/// Largest number of dimensions, as of every tensor.
constexpr std::size_t max_npy_dims = 8;
/// The longest header that is read. @units{bytes}
constexpr std::uint64_t max_header = 65536;
/// Elements begin at a multiple of this number. @units{bytes}
constexpr std::size_t alignment = 64;

/// Big-endian types are not listed; they are refused.
struct described_type {
  dtype type;
  std::string_view text;  ///< as NumPy writes it
};
constexpr std::array<described_type, 14> types{{{dtype::boolean, "|b1"},
                                                {dtype::int8, "|i1"},
                                                {dtype::uint8, "|u1"},
                                                {dtype::int16, "<i2"},
                                                {dtype::uint16, "<u2"},
                                                {dtype::int32, "<i4"},
                                                {dtype::uint32, "<u4"},
                                                {dtype::int64, "<i8"},
                                                {dtype::uint64, "<u8"},
                                                {dtype::fp16, "<f2"},
                                                {dtype::fp32, "<f4"},
                                                {dtype::fp64, "<f8"},
                                                {dtype::complex64, "<c8"},
                                                {dtype::complex128, "<c16"}}};

/// `at` is the byte of the file.
error bad_header(std::string_view expected, std::string_view found, std::size_t at) {
  return error(errc::corrupt,
               fmt::format("cannot read the header of an array: expected {}, found {} at "
                           "byte {}",
                           expected, found, at));
}

/// Reads the dictionary of a header. The text is Python, of which only texts, `True`,
/// `False` and tuples of integers occur.
///
/// The order of the keys is free, but each of the three must occur once and no other
/// may.
class header_parser {
 public:
  /// Makes a parser. @param begin  Offset of the text in the file, for messages.
  header_parser(std::string_view text, std::size_t begin) : text_(text), begin_(begin) {}

  // The type is decoded last, so that errors of the form come first.
  result<npy_header> parse() {
    npy_header out;
    bool order = false;
    bool shape = false;
    std::optional<std::string> descr;
    WEIR_CHECK(expect('{'));
    while (!take('}')) {
      WEIR_TRY(const std::string key, quoted());
      WEIR_CHECK(expect(':'));
      if (key == "descr" && !descr) {
        WEIR_TRY(descr, quoted());
      } else if (key == "fortran_order" && !order) {
        WEIR_CHECK(c_order());
        order = true;
      } else if (key == "shape" && !shape) {
        WEIR_TRY(out.shape, extents());
        shape = true;
      } else {
        return bad_header("descr, fortran_order and shape, each once",
                          fmt::format("\"{}\"", key), begin_ + at_);
      }
      // A comma behind the last entry is allowed, as Python writes it.
      if (!take(',')) {
        WEIR_CHECK(expect('}'));
        break;
      }
    }
    if (!descr || !order || !shape) {
      return bad_header("descr, fortran_order and shape", "fewer keys", begin_ + at_);
    }
    skip_blanks();
    // The padding.
    if (at_ != text_.size()) {
      return bad_header("blanks behind the dictionary", "other bytes", begin_ + at_);
    }
    WEIR_TRY(out.type, type_of(*descr));
    return out;
  }

 private:
  // Only blanks and line feeds occur in a header.
  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) {
      ++at_;
    }
  }
  // Passes over blanks and then over `c`, if it is there.
  bool take(char c) {
    skip_blanks();
    if (at_ < text_.size() && text_[at_] == c) {
      ++at_;
      return true;
    }
    return false;
  }
  result<void> expect(char c) {
    if (!take(c)) {
      return bad_header(fmt::format("\"{}\"", c), found(), begin_ + at_);
    }
    return {};
  }
  // What an error says was found.
  [[nodiscard]] std::string found() const {
    if (at_ >= text_.size()) {
      return "the end of the header";
    }
    const char c = text_[at_];
    return c >= ' ' && c <= '~'
               ? fmt::format("\"{}\"", c)
               : fmt::format("the byte {}", static_cast<unsigned char>(c));
  }
  // Escapes do not occur in a header and have no meaning here.
  result<std::string> quoted() {
    skip_blanks();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') {
      return bad_header("a text in quotes", found(), begin_ + at_);
    }
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) {
      return bad_header("a quote at the end of a text", "none", begin_ + at_);
    }
    std::string out(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return out;
  }
  // Only C order is supported, since a reader would otherwise have to transpose.
  result<void> c_order() {
    skip_blanks();
    if (text_.substr(at_).starts_with("True")) {
      return error(errc::unsupported,
                   "cannot read an array: expected the slowest dimension first, found "
                   "Fortran's order")
          .hint("store it with numpy.ascontiguousarray");
    }
    if (!text_.substr(at_).starts_with("False")) {
      return bad_header("True or False", found(), begin_ + at_);
    }
    at_ += std::string_view("False").size();
    return {};
  }
  // A tuple: "()", "(3,)" or "(2, 3)".
  result<std::vector<std::int64_t>> extents() {
    std::vector<std::int64_t> out;
    WEIR_CHECK(expect('('));
    while (!take(')')) {
      skip_blanks();
      std::int64_t one = -1;
      const auto [end, code] =
          std::from_chars(text_.data() + at_, text_.data() + text_.size(), one);
      // An extent of 0 is allowed.
      if (code != std::errc() || one < 0) {
        return bad_header("an extent from 0 to 2^63-1", found(), begin_ + at_);
      }
      at_ = static_cast<std::size_t>(end - text_.data());
      if (out.size() == max_npy_dims) {
        return error(errc::unsupported,
                     fmt::format("cannot read an array: expected at most {} dimensions, "
                                 "found more",
                                 max_npy_dims));
      }
      out.push_back(one);
      if (!take(',')) {
        WEIR_CHECK(expect(')'));
        break;
      }
    }
    return out;
  }
  // The byte order of types of one byte does not matter.
  static result<dtype> type_of(const std::string& text) {
    const auto found = std::find_if(types.begin(), types.end(), [&](const auto& one) {
      const bool order = text.starts_with('|') || text.starts_with('<');
      return order && one.text.substr(1) == std::string_view(text).substr(1) &&
             (info_of(one.type).size == 1 || text.front() == '<');
    });
    if (found != types.end()) {
      return found->type;
    }
    return error(errc::unsupported,
                 fmt::format("cannot read an array: expected little-endian numbers or "
                             "booleans, found elements \"{}\"",
                             text))
        .hint("store it with another dtype, such as array.astype('<f4')");
  }

  std::string_view text_;
  std::size_t begin_;
  std::size_t at_ = 0;
};

/// Returns offset and length of the text of a header.
///
/// Versions 2 and 3 have a longer length field; version 3 allows UTF-8, which the parser
/// does not need.
result<std::pair<std::size_t, std::size_t>> find_text(file& f, std::uint64_t size) {
  std::array<std::byte, head_size + long_length> head{};
  if (size < head.size()) {
    return error(errc::torn,
                 fmt::format("cannot read the header of an array: expected at least {} "
                             "bytes, found {}",
                             head.size(), size));
  }
  WEIR_CHECK(read_exactly(f, 0, head));
  if (as_text(head).substr(0, npy_magic.size()) != npy_magic) {
    return bad_header("the magic number of NumPy", "other bytes", 0);
  }
  const auto major = std::to_integer<unsigned>(head[npy_magic.size()]);
  const auto minor = std::to_integer<unsigned>(head[npy_magic.size() + 1]);
  if (major < 1 || major > 3 || minor != 0) {
    return error(errc::unsupported,
                 fmt::format("cannot read an array: expected version 1.0, 2.0 or 3.0, "
                             "found {}.{}",
                             major, minor));
  }
  const std::uint64_t length = major == 1
                                   ? load_le<std::uint16_t>(head.data() + head_size)
                                   : load_le<std::uint32_t>(head.data() + head_size);
  // Protects the memory that is taken for the text.
  if (length > max_header) {
    return bad_header(fmt::format("at most {} bytes of text", max_header),
                      fmt::format("{}", length), head_size);
  }
  const std::size_t begin = head_size + (major == 1 ? short_length : long_length);
  if (begin + length > size) {
    return error(errc::torn,
                 fmt::format("cannot read the header of an array: expected {} bytes, "
                             "found {}",
                             begin + length, size));
  }
  return std::pair(begin, static_cast<std::size_t>(length));
}

}  // namespace

/// Reads the header and computes the size of the elements; whether they are there is not
/// checked.
result<npy_header> read_npy_head(file& f) {
  WEIR_TRY(const std::uint64_t size, f.size());
  WEIR_TRY(const auto place, find_text(f, size));
  byte_vector text(place.second);
  WEIR_CHECK(read_exactly(f, place.first, text));
  WEIR_TRY(npy_header out, header_parser(as_text(text), place.first).parse());
  // Offset of the first element.
  out.size = place.first + place.second;
  std::int64_t count = 1;
  for (const std::int64_t one : out.shape) {
    // The product is checked, as a header may claim anything.
    if (!checked_mul(count, one, count)) {
      return bad_header("extents whose product is below 2^63", "larger ones",
                        place.first);
    }
  }
  WEIR_TRY(const std::int64_t bytes, byte_size(out.type, count));
  out.bytes = static_cast<std::uint64_t>(bytes);
  return out;
}

/// Also checks that the file has exactly the elements of its shape. `size` is the size
/// of the file.
result<npy_header> read_npy_header(file& f, std::uint64_t size) {
  WEIR_TRY(npy_header out, read_npy_head(f));
  if (size - out.size != out.bytes) {
    return error(
        size - out.size < out.bytes ? errc::torn : errc::corrupt,
        fmt::format("cannot read an array of shape [{}]: expected {} bytes "
                    "behind the header of {}, found {}",
                    fmt::join(out.shape, ","), out.bytes, out.size, size - out.size));
  }
  return out;
}

/// With `growing`, space is left for a longer first extent, so that a file can be
/// appended to and its header rewritten in place.
result<byte_vector> make_npy_header(dtype type, std::span<const std::int64_t> shape,
                                    bool growing) {
  const auto* const known =
      std::find_if(types.begin(), types.end(),
                   [&](const described_type& one) { return one.type == type; });
  if (known == types.end()) {
    return error(errc::unsupported,
                 fmt::format("cannot write an array: expected an element type that NumPy "
                             "has, found {}",
                             info_of(type).tensogram));
  }
  // This also bounds the header: its length is written in 16 bits.
  if (shape.size() > max_npy_dims) {
    return error(errc::unsupported,
                 fmt::format("cannot write an array: expected at most {} dimensions, "
                             "found {}",
                             max_npy_dims, shape.size()));
  }
  const std::string text =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}",
                  known->text, fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  constexpr std::size_t max_digits = 19;
  const std::size_t before = head_size + short_length;
  const std::size_t used = before + text.size() + (growing ? max_digits : 0) + 1;
  // Padded so that the elements are aligned.
  const std::size_t whole = (used + alignment - 1) / alignment * alignment;
  std::string out(npy_magic);
  // Version 1.0.
  out += {'\x01', '\x00'};
  const std::size_t length = whole - before;
  out += {static_cast<char>(length & 0xff), static_cast<char>(length >> 8)};
  out += text;
  // Blanks, and a line feed at the end.
  out.resize(whole - 1, ' ');
  out += '\n';
  const bytes_view bytes = as_view(out);
  return byte_vector(bytes.begin(), bytes.end());
}

}  // namespace weir::storage
