// SPDX-License-Identifier: Apache-2.0
/// @file
/// A recogniser of JSON: it keeps nothing of what it reads.
#include "json_check.hpp"

#include <algorithm>
#include <cstdint>

#include "weir/base/utf8.hpp"

namespace weir::tessera {

namespace {

constexpr unsigned most_depth = 64;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_hex(char c) {
  const char lower = static_cast<char>(c | 0x20);
  return is_digit(c) || (lower >= 'a' && lower <= 'f');
}

class json_reader {
 public:
  explicit json_reader(std::string_view text) : text_(text) {}

  bool whole() {
    space();
    const bool good = value(0);
    space();
    return good && at_ == text_.size();
  }

 private:
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(char c) {
    const bool there = at_ < text_.size() && text_[at_] == c;
    at_ += there ? 1 : 0;
    return there;
  }
  bool take(std::string_view word) {
    const bool there = text_.substr(at_, word.size()) == word;
    at_ += there ? word.size() : 0;
    return there;
  }
  void space() {
    while (take(' ') || take('\t') || take('\n') || take('\r')) {
    }
  }

  bool value(unsigned depth) {
    switch (peek()) {
      case '{': return depth < most_depth && object(depth + 1);
      case '[': return depth < most_depth && array(depth + 1);
      case '"': return string();
      case 't': return take("true");
      case 'f': return take("false");
      case 'n': return take("null");
      default: return number();
    }
  }

  bool object(unsigned depth) {
    take('{');
    space();
    if (take('}')) {
      return true;
    }
    for (;;) {
      space();
      if (!string()) {
        return false;
      }
      space();
      if (!take(':')) {
        return false;
      }
      space();
      if (!value(depth)) {
        return false;
      }
      space();
      if (!take(',')) {
        return take('}');
      }
    }
  }

  bool array(unsigned depth) {
    take('[');
    space();
    if (take(']')) {
      return true;
    }
    for (;;) {
      space();
      if (!value(depth)) {
        return false;
      }
      space();
      if (!take(',')) {
        return take(']');
      }
    }
  }

  bool digits() {
    const std::size_t from = at_;
    while (is_digit(peek())) {
      ++at_;
    }
    return at_ != from;
  }

  bool number() {
    take('-');
    if (!take('0') && !digits()) {
      return false;
    }
    if (take('.') && !digits()) {
      return false;
    }
    if (take('e') || take('E')) {
      if (!take('+')) {
        take('-');
      }
      return digits();
    }
    return true;
  }

  bool string() {
    if (!take('"')) {
      return false;
    }
    while (at_ < text_.size()) {
      const auto c = static_cast<std::uint8_t>(text_[at_]);
      if (c == '"') {
        ++at_;
        return true;
      }
      if (c < 0x20 || !(c == '\\' ? escape() : character())) {
        return false;
      }
    }
    return false;
  }

  bool escape() {
    ++at_;
    if (!take('u')) {
      constexpr std::string_view simple = "\"\\/bfnrt";
      const bool good = at_ < text_.size() && simple.find(peek()) != simple.npos;
      ++at_;
      return good;
    }
    const std::string_view code = text_.substr(at_, 4);
    at_ += code.size();
    return code.size() == 4 && std::all_of(code.begin(), code.end(), is_hex);
  }

  bool character() {
    const std::size_t length = utf8_sequence_length(text_.substr(at_));
    at_ += length;
    return length != 0;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

bool is_json(std::string_view text) noexcept {
  return json_reader(text).whole();
}

}  // namespace weir::tessera
