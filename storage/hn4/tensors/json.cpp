// SPDX-License-Identifier: Apache-2.0
/// @file
/// JSON of container headers.
#include "hn4/tensors/json.hpp"

#include <charconv>

namespace weir::storage::hn4 {

namespace {

constexpr unsigned deepest = 64;

void append_utf8(std::string& to, std::uint32_t point) {
  const auto put = [&](std::uint32_t byte) { to += static_cast<char>(byte); };
  if (point < 0x80) {
    put(point);
  } else if (point < 0x800) {
    put(0xC0 | point >> 6);
    put(0x80 | (point & 0x3F));
  } else if (point < 0x10000) {
    put(0xE0 | point >> 12);
    put(0x80 | (point >> 6 & 0x3F));
    put(0x80 | (point & 0x3F));
  } else {
    put(0xF0 | point >> 18);
    put(0x80 | (point >> 12 & 0x3F));
    put(0x80 | (point >> 6 & 0x3F));
    put(0x80 | (point & 0x3F));
  }
}

}  // namespace

void json_walker::blanks() {
  while (at_ < text_.size() &&
         std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos) {
    ++at_;
  }
}

bool json_walker::ended() {
  blanks();
  return at_ == text_.size();
}

bool json_walker::take(char c) {
  blanks();
  if (at_ == text_.size() || text_[at_] != c) {
    return false;
  }
  ++at_;
  return true;
}

bool json_walker::hex4(std::uint32_t& to) {
  if (text_.size() - at_ < 4) {
    return false;
  }
  const char* begin = text_.data() + at_;
  const auto [end, problem] = std::from_chars(begin, begin + 4, to, 16);
  at_ += 4;
  return problem == std::errc() && end == begin + 4;
}

bool json_walker::escape(std::string& to) {
  if (at_ == text_.size()) {
    return false;
  }
  const char c = text_[at_++];
  constexpr std::string_view names = "\"\\/bfnrt", values = "\"\\/\b\f\n\r\t";
  const std::size_t index = names.find(c);
  if (index != std::string_view::npos) {
    to += values[index];
    return true;
  }
  std::uint32_t high = 0, low = 0;
  if (c != 'u' || !hex4(high)) {
    return false;
  }
  if (high >= 0xD800 && high < 0xDC00) {
    if (text_.substr(at_, 2) != "\\u") {
      return false;
    }
    at_ += 2;
    if (!hex4(low) || low < 0xDC00 || low > 0xDFFF) {
      return false;
    }
    high = 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
  } else if (high >= 0xDC00 && high < 0xE000) {
    return false;
  }
  append_utf8(to, high);
  return true;
}

bool json_walker::string(std::string& to) {
  to.clear();
  if (!take('"')) {
    return false;
  }
  while (at_ < text_.size()) {
    const char c = text_[at_++];
    if (c == '"') {
      return true;
    }
    if (static_cast<unsigned char>(c) < 0x20) {
      return false;
    }
    if (c != '\\') {
      to += c;
    } else if (!escape(to)) {
      return false;
    }
  }
  return false;
}

bool json_walker::number(std::uint64_t& to) {
  blanks();
  const char* begin = text_.data() + at_;
  const auto [end, problem] = std::from_chars(begin, text_.data() + text_.size(), to);
  at_ += static_cast<std::size_t>(end - begin);
  return problem == std::errc() && end != begin;
}

bool json_walker::members(char close, bool named, unsigned depth) {
  if (take(close)) {
    return true;
  }
  std::string name;
  do {
    if ((named && (!string(name) || !take(':'))) || !skip(depth + 1)) {
      return false;
    }
  } while (take(','));
  return take(close);
}

bool json_walker::skip(unsigned depth) {
  blanks();
  if (depth > deepest || at_ == text_.size()) {
    return false;
  }
  std::string ignored;
  if (text_[at_] == '"') {
    return string(ignored);
  }
  if (take('{')) {
    return members('}', true, depth);
  }
  if (take('[')) {
    return members(']', false, depth);
  }
  const std::size_t begin = at_;
  while (at_ < text_.size() &&
         (std::string_view("+-.").find(text_[at_]) != std::string_view::npos ||
          (text_[at_] >= '0' && text_[at_] <= '9') ||
          (text_[at_] >= 'A' && text_[at_] <= 'z'))) {
    ++at_;
  }
  return at_ > begin;
}

}  // namespace weir::storage::hn4
