// SPDX-License-Identifier: Apache-2.0
/// @file
/// Properties by utf8proc, corrected by the tables of unicode_ranges.hpp.
///
/// White space needs no table: its 25 characters are written out. Every function answers
/// for ASCII characters first, because most text has no others.
#include "tokens/unicode.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <new>
#include <span>

#include "tokens/unicode_ranges.hpp"
#include "weir/base/utf8.hpp"

namespace weir::formats::tokens {

namespace {

/// Returns the general category as a number of utf8proc.
int category(char32_t code) noexcept {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code));
}

/// Returns whether sorted ranges contain a character.
/// The range that may contain it is the last one that does not begin behind it.
bool contains(std::span<const code_range> ranges, char32_t code) noexcept {
  const auto behind =
      std::upper_bound(ranges.begin(), ranges.end(), code,
                       [](char32_t c, const code_range& r) { return c < r.first; });
  // The range before must also reach the character.
  return behind != ranges.begin() && code <= (behind - 1)->last;
}

/// Returns whether a category is one of marks: Mn, Mc or Me.
bool is_mark(int c) noexcept {
  return c == UTF8PROC_CATEGORY_MN || c == UTF8PROC_CATEGORY_MC ||
         c == UTF8PROC_CATEGORY_ME;
}

}  // namespace

/// The text is not empty.
character last_character(std::string_view text) noexcept {
  return first_character(text.data() + utf8_boundary(text, text.size() - 1));
}

void append_character(std::string& text, char32_t code) {
  // The shortest form of UTF-8.
  if (code < 0x80) {
    text.push_back(static_cast<char>(code));
    return;
  }
  std::array<utf8proc_uint8_t, 4> bytes{};
  const auto count =
      utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), bytes.data());
  text.append(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::size_t>(count));
}

/// The characters are those of the property White_Space.
bool is_space(char32_t code) noexcept {
  if (code < 0x80) {
    return code == ' ' || (code >= 0x09 && code <= 0x0D);
  }
  return code == 0x85 || code == 0xA0 || code == 0x1680 ||
         (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 ||
         code == 0x202F || code == 0x205F || code == 0x3000;
}

/// The categories of utf8proc are corrected by exclusive or with the table: a character
/// in the table has the opposite property in the reference.
bool is_numeric(char32_t code) noexcept {
  if (code < 0x80) {
    // Only the ten digits.
    return code >= '0' && code <= '9';
  }
  const int c = category(code);
  return (c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_NL ||
          c == UTF8PROC_CATEGORY_NO) != contains(numeric_differs, code);
}

/// utf8proc numbers the categories Pc, Pd, Ps, Pe, Pi, Pf, Po one after the other.
bool is_punctuation(char32_t code) noexcept {
  if (code < 0x80) {
    return (code >= '!' && code <= '/') || (code >= ':' && code <= '@') ||
           (code >= '[' && code <= '`') || (code >= '{' && code <= '~');
  }
  const int c = category(code);
  return (c >= UTF8PROC_CATEGORY_PC && c <= UTF8PROC_CATEGORY_PO) !=
         contains(punctuation_differs, code);
}

/// The letters in circles and squares (U+24B6, U+1F130 and on) and the two joiners U+200C
/// and U+200D are word characters by the properties Alphabetic and Join_Control, which
/// utf8proc does not have.
bool is_word(char32_t code) noexcept {
  if (code < 0x80) {
    return (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z') ||
           (code >= '0' && code <= '9') || code == '_';
  }
  const int c = category(code);
  const bool word =
      (c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO) || is_mark(c) ||
      c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_NL ||
      c == UTF8PROC_CATEGORY_PC || code == 0x200C || code == 0x200D ||
      (code >= 0x24B6 && code <= 0x24E9) || (code >= 0x1F130 && code <= 0x1F149) ||
      (code >= 0x1F150 && code <= 0x1F169) || (code >= 0x1F170 && code <= 0x1F189);
  return word != contains(word_differs, code);
}

bool is_control(char32_t code) noexcept {
  // Tab and line breaks count as white space in the reference.
  if (code < 0x80) {
    return (code < ' ' && code != '\t' && code != '\n' && code != '\r') || code == 0x7F;
  }
  const int c = category(code);
  return (c == UTF8PROC_CATEGORY_CC || c == UTF8PROC_CATEGORY_CF ||
          c == UTF8PROC_CATEGORY_CO) != contains(control_differs, code);
}

bool is_accent(char32_t code) noexcept {
  // ASCII has no accents.
  return code >= 0x80 &&
         (category(code) == UTF8PROC_CATEGORY_MN) != contains(accent_differs, code);
}

/// The ranges are those of the reference's BERT normalizer. The eighth block begins at
/// U+2B920 there, not at U+2B820 where the block of Unicode begins, and ids must agree.
bool is_chinese(char32_t code) noexcept {
  return (code >= 0x4E00 && code <= 0x9FFF) || (code >= 0x3400 && code <= 0x4DBF) ||
         (code >= 0x20000 && code <= 0x2A6DF) || (code >= 0x2A700 && code <= 0x2B73F) ||
         (code >= 0x2B740 && code <= 0x2B81F) || (code >= 0x2B920 && code <= 0x2CEAF) ||
         (code >= 0xF900 && code <= 0xFAFF) || (code >= 0x2F800 && code <= 0x2FA1F);
}

/// U+0130 has a lower case of two characters in Rust ("i" and a dot above); utf8proc maps
/// a character to one character.
void append_lower(std::string& text, char32_t code) {
  if (code < 0x80) {
    text.push_back(
        static_cast<char>(code >= 'A' && code <= 'Z' ? code + ('a' - 'A') : code));
    return;
  }
  if (code == 0x130) {
    text += "i\xCC\x87";
    return;
  }
  for (const lower_range& r : lower_differs) {
    // The reference knows newer letters than utf8proc.
    if (code >= r.first && code <= r.last) {
      append_character(text, static_cast<char32_t>(static_cast<int>(code) + r.distance));
      return;
    }
  }
  append_character(
      text, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))));
}

bool starts_normal_form(char32_t code) {
  // ASCII characters are starters, and none composes with a character before it.
  return code < 0x80;
}

namespace {

/// The code before the first Hangul letter that ends a syllable. It composes with nothing
/// (Unicode 15, section 3.12), but utf8proc 2.8 adds it to a syllable, where it is lost.
constexpr char32_t hangul_base = 0x11A7;

/// Appends a normal form of a text without characters that stand alone.
/// utf8proc returns memory of `malloc`, which is freed here.
void append_form(std::string& out, std::string_view text, normal_form form) {
  if (text.empty()) {
    return;
  }
  const bool compose = form == normal_form::nfc || form == normal_form::nfkc;
  const bool compatible = form == normal_form::nfkc || form == normal_form::nfkd;
  // Stable: what Unicode has once defined does not change.
  const int options = UTF8PROC_STABLE |
                      (compose ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
                      (compatible ? UTF8PROC_COMPAT : 0);
  utf8proc_uint8_t* made = nullptr;
  const auto bytes = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                  static_cast<utf8proc_ssize_t>(text.size()), &made,
                                  static_cast<utf8proc_option_t>(options));
  if (bytes < 0) {
    throw std::bad_alloc();  // the text is well-formed, so memory is what is missing
  }
  out.append(reinterpret_cast<const char*>(made), static_cast<std::size_t>(bytes));
  std::free(made);
}

}  // namespace

/// Characters of the table `stand_alone` are unknown to the reference's tables of normal
/// forms. It copies them, and they keep neighbours from being composed or reordered
/// across them. The text between two of them is therefore normalized on its own. ASCII
/// text equals all of its normal forms.
void append_normal_form(std::string& out, std::string_view text, normal_form form) {
  if (std::all_of(text.begin(), text.end(),
                  [](char c) { return static_cast<unsigned char>(c) < 0x80; })) {
    out += text;
    return;
  }
  // Start of the text that has not been normalized yet.
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size();) {
    const character c = first_character(text.data() + i);
    if (c.code >= 0x80 && (contains(stand_alone, c.code) || c.code == hangul_base)) {
      append_form(out, text.substr(begin, i - begin), form);
      // The character itself is copied.
      out += text.substr(i, c.bytes);
      begin = i + c.bytes;
    }
    i += c.bytes;
  }
  // What is left behind the last of them.
  append_form(out, text.substr(begin), form);
}

}  // namespace weir::formats::tokens
