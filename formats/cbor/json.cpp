// SPDX-License-Identifier: Apache-2.0
/// @file
/// CBOR values as JSON text, for people. The text is not meant to be read back: byte
/// strings become hexadecimal text, tags vanish and non-finite numbers become null.
/// JSON has no places for them.
#include <fmt/core.h>

#include <cmath>

#include "weir/base/text.hpp"
#include "weir/formats/cbor.hpp"

namespace weir::formats {

namespace {

/// Appends JSON to a string; indents by levels if `indent` is not 0.
/// The text is made in one string. `level_` counts the open arrays and objects, and
/// `first_` says whether the innermost one is still empty.
class json_writer {
 public:
  explicit json_writer(int indent) : indent_(indent) {}

  /// Writes any value. The number of a tag has no form in JSON, so only the content is
  /// written. The recursion is as deep as the value, which decoding limits.
  void write(const cbor_value& value) {
    switch (value.kind()) {
      case cbor_kind::null: out_ += "null"; break;
      case cbor_kind::boolean: out_ += *value.boolean() ? "true" : "false"; break;
      case cbor_kind::integer: write_integer(value); break;
      case cbor_kind::real: write_real(*value.real()); break;
      case cbor_kind::text: out_ += json_quote(*value.text()); break;
      case cbor_kind::bytes: write_bytes(*value.bytes()); break;
      case cbor_kind::array: write_array(*value.array()); break;
      case cbor_kind::map: write_map(*value.map()); break;
      case cbor_kind::tag: write(value.tag()->content.front()); break;
    }
  }
  std::string take() { return std::move(out_); }

 private:
  /// Integers that fit no 64-bit type, those below -2^63, become text, because readers of
  /// JSON would round them.
  void write_integer(const cbor_value& value) {
    if (const auto u = value.uint64()) {
      out_ += fmt::format("{}", *u);
    } else if (const auto i = value.int64()) {
      out_ += fmt::format("{}", *i);
    } else {
      out_ += fmt::format("\"{}\"", decimal_below_int64(value.integer()->bits));
    }
  }
  /// Returns the decimal text of -1 - bits, where the result is below -2^63. Adding one
  /// to the largest `bits` would wrap around.
  static std::string decimal_below_int64(std::uint64_t bits) {
    return bits == ~std::uint64_t{0} ? "-18446744073709551616"
                                     : fmt::format("-{}", bits + 1);
  }
  /// A real keeps a sign of being one: 1 is written as 1.0.
  void write_real(double value) {
    if (!std::isfinite(value)) {
      out_ += "null";
      return;
    }
    std::string text = fmt::format("{}", value);
    if (text.find_first_of(".e") == std::string::npos) {
      text += ".0";
    }
    out_ += text;
  }
  /// Returns bytes as hexadecimal digits, two per byte, in lower case.
  static std::string hex(bytes_view bytes) {
    std::string out;
    for (const std::byte b : bytes) {
      out += fmt::format("{:02x}", std::to_integer<unsigned>(b));
    }
    return out;
  }
  void write_bytes(const byte_vector& bytes) { out_ += '"' + hex(bytes) + '"'; }
  /// Returns the text of a key. A container as a key becomes the hexadecimal form of its
  /// encoding. As JSON it would have its quotes escaped once per level around it, so the
  /// text would double with each level.
  static std::string key_text(const cbor_value& key) {
    switch (key.kind()) {
      case cbor_kind::text: return *key.text();
      case cbor_kind::array:
      case cbor_kind::map:
      case cbor_kind::tag: return hex(encode_cbor(key));
      default: return to_json(key);
    }
  }
  void write_array(const cbor_array& array) {
    open('[');
    for (const cbor_value& item : array) {
      next();
      write(item);
    }
    close(']', array.empty());
  }
  /// Two keys of a map may have the same text, such as 1 and "1"; both are written.
  void write_map(const cbor_map& map) {
    open('{');
    for (const cbor_entry& entry : map) {
      next();
      out_ += json_quote(key_text(entry.key));
      out_ += indent_ > 0 ? ": " : ":";
      write(entry.value);
    }
    close('}', map.empty());
  }
  /// Begins an array or object. Its first item needs no comma.
  void open(char bracket) {
    out_ += bracket;
    ++level_;
    first_ = true;
  }
  // Begins the next item of the innermost array or object.
  void next() {
    if (!first_) {
      out_ += ',';
    }
    first_ = false;
    new_line();
  }
  /// Ends an array or object. The bracket stands on a line of its own unless there is
  /// nothing in it.
  void close(char bracket, bool empty) {
    --level_;
    first_ = false;
    if (!empty) {
      new_line();
    }
    out_ += bracket;
  }
  // Begins a new line, indented by `indent_` spaces for each level; does nothing if the
  // text is to have one line.
  void new_line() {
    if (indent_ > 0) {
      out_ += '\n';
      out_.append(static_cast<std::size_t>(indent_ * level_), ' ');
    }
  }

  int indent_;
  int level_ = 0;
  bool first_ = true;
  std::string out_;
};

}  // namespace

std::string to_json(const cbor_value& value, int indent) {
  json_writer writer(indent);
  writer.write(value);
  return writer.take();
}

}  // namespace weir::formats
