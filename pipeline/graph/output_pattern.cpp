// SPDX-License-Identifier: Apache-2.0
/// @file
/// Compares patterns of files.
///
/// A pattern is a sequence of pieces: a character, a digit, any digits, or any text
/// without a slash. Two patterns can name one file if both sequences can be gone through
/// with the same characters. A pair of places in both sequences is looked at once.
#include "graph/output_pattern.hpp"

#include <algorithm>
#include <charconv>
#include <string>
#include <utility>

namespace weir::flow {
namespace {

constexpr std::string_view item_name = "item";
constexpr std::uint32_t max_digits = 20;  // of a number of 64 bits

bool is_decimal(char c) {
  return c >= '0' && c <= '9';
}

}  // namespace

output_pattern::output_pattern(std::string_view path) {
  bool valid = true;
  for (std::size_t at = 0; at < path.size() && valid;) {
    const std::size_t brace = std::min(path.find_first_of("{}", at), path.size());
    add_text(path.substr(at, brace - at));
    at = brace;
    if (at == path.size()) {
      break;
    }
    const std::size_t end = path.find_first_of("{}", at + 1);
    valid = path[at] == '{' && end != std::string_view::npos && path[end] == '}' &&
            add_name(path.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  if (!valid || !has_number_) {
    has_number_ = false;
    pieces_.clear();
    add_text(path);
  }
}

void output_pattern::add_text(std::string_view text) {
  for (const char c : text) {
    pieces_.push_back({kind::character, c, false});
  }
}

/// Adds what the name in a pair of braces stands for. Returns false if it is no name.
bool output_pattern::add_name(std::string_view name) {
  const bool with_digits = name.starts_with("item:");
  if (name != item_name && !with_digits) {
    pieces_.push_back({kind::text, 0, true});
    return !name.empty();
  }
  std::uint32_t digits = 1;
  if (with_digits) {
    const char* const last = name.data() + name.size();
    const auto [rest, code] =
        std::from_chars(name.data() + item_name.size() + 1, last, digits);
    if (code != std::errc() || rest != last || digits == 0 || digits > max_digits) {
      return false;
    }
  }
  pieces_.insert(pieces_.end(), digits, {kind::digit, 0, false});
  // A number has more digits if it is large.
  pieces_.push_back({kind::digit, 0, true});
  has_number_ = true;
  return true;
}

/// Values of attributes have no slash, see `name_pattern` of the stages.
bool output_pattern::share_a_character(const piece& a, const piece& b) noexcept {
  if (a.is != kind::character) {
    // Every text can have a digit.
    return b.is != kind::character || share_a_character(b, a);
  }
  switch (b.is) {
    case kind::character: return a.character == b.character;
    case kind::digit: return is_decimal(a.character);
    case kind::text: return a.character != '/';
  }
  return false;
}

bool output_pattern::may_meet(const output_pattern& other) const {
  const std::size_t width = other.pieces_.size() + 1;
  std::vector<bool> seen((pieces_.size() + 1) * width, false);
  std::vector<std::pair<std::size_t, std::size_t>> open;
  const auto visit = [&](std::size_t i, std::size_t j) {
    if (!seen[i * width + j]) {
      seen[i * width + j] = true;
      open.emplace_back(i, j);
    }
  };
  visit(0, 0);
  while (!open.empty()) {
    const auto [i, j] = open.back();
    open.pop_back();
    const bool first_ends = i == pieces_.size();
    const bool second_ends = j == other.pieces_.size();
    if (first_ends && second_ends) {
      return true;
    }
    // Pieces that repeat may have no character at all.
    if (!first_ends && pieces_[i].repeats) {
      visit(i + 1, j);
    }
    if (!second_ends && other.pieces_[j].repeats) {
      visit(i, j + 1);
    }
    if (!first_ends && !second_ends && share_a_character(pieces_[i], other.pieces_[j])) {
      visit(pieces_[i].repeats ? i : i + 1, other.pieces_[j].repeats ? j : j + 1);
    }
  }
  return false;
}

}  // namespace weir::flow
