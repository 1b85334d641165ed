// SPDX-License-Identifier: Apache-2.0
/// @file
/// The steps of normalizers. Text of ASCII characters alone takes the short way.
///
/// Every step writes its result into the other one of two strings, `text` and `spare`,
/// which then change places, so that a thread normalizes any number of texts with the
/// same memory. All steps work on well-formed UTF-8; the caller has checked it.
#include "tokens/normalize.hpp"

#include <algorithm>

namespace weir::formats::tokens {

namespace {

bool is_ascii(char c) noexcept {
  return static_cast<unsigned char>(c) < 0x80;
}

/// Returns where the run of characters that are not ASCII ends that begins at `from`.
std::size_t foreign_end(std::string_view text, std::size_t from) noexcept {
  while (from < text.size() && !is_ascii(text[from])) {
    ++from;
  }
  return from;
}

/// Appends `text` with every occurrence of `from` replaced, from left to right. A
/// replacement is not searched again. `from` is not empty.
void append_replaced(std::string& out, std::string_view text, const std::string& from,
                     const std::string& to) {
  std::size_t begin = 0;
  for (std::size_t at = text.find(from); at != std::string_view::npos;
       at = text.find(from, begin)) {
    out += text.substr(begin, at - begin);
    out += to;
    begin = at + from.size();
  }
  out += text.substr(begin);
}

}  // namespace

/// Applies the step to `text`. `spare` gets the memory of the old text. Prepending leaves
/// an empty text empty, as in the reference.
void normalize_step::apply(std::string& text, std::string& spare) const {
  spare.clear();
  switch (type) {
    case kind::bert: apply_bert(text, spare); return;
    case kind::form: append_normal_form(spare, text, form); break;
    case kind::lower:
      for (std::size_t i = 0; i < text.size();) {
        const character c = first_character(text.data() + i);
        append_lower(spare, c.code);
        i += c.bytes;
      }
      break;
    case kind::prepend:
      if (!text.empty()) {
        spare += to;
        spare += text;
      }
      break;
    case kind::replace: append_replaced(spare, text, from, to); break;
  }
  text.swap(spare);
}

/// The order is that of the reference: clean, put spaces around Chinese characters, strip
/// accents, make lower case. `spare` is empty when this is called; `text` receives the
/// result. Cleaning removes NUL, U+FFFD and control characters and writes all white space
/// as spaces.
void normalize_step::apply_bert(std::string& text, std::string& spare) const {
  // Cleaning and spaces, character by character.
  for (std::size_t i = 0; i < text.size();) {
    const character c = first_character(text.data() + i);
    const std::string_view bytes(text.data() + i, c.bytes);
    i += c.bytes;
    if (clean && (c.code == 0 || c.code == 0xFFFD || is_control(c.code))) {
      continue;
    }
    if (clean && is_space(c.code)) {
      spare.push_back(' ');
    } else if (chinese && is_chinese(c.code)) {
      spare.push_back(' ');
      spare += bytes;
      spare.push_back(' ');
    } else {
      spare += bytes;
    }
  }
  // Accents are stripped by decomposing and leaving the marks out. ASCII characters
  // neither decompose nor change places with others, so each run of other characters is
  // decomposed on its own.
  text.clear();
  std::string run;
  for (std::size_t i = 0; i < spare.size();) {
    if (is_ascii(spare[i])) {
      text.push_back(lower && spare[i] >= 'A' && spare[i] <= 'Z'
                         ? static_cast<char>(spare[i] + ('a' - 'A'))
                         : spare[i]);
      ++i;
      continue;
    }
    const std::size_t end = foreign_end(spare, i);
    run.clear();
    if (strip_accents) {
      append_normal_form(run, std::string_view(spare).substr(i, end - i),
                         normal_form::nfd);
    } else {
      run.assign(spare, i, end - i);
    }
    for (std::size_t k = 0; k < run.size();) {
      const character c = first_character(run.data() + k);
      if (!(strip_accents && is_accent(c.code))) {
        if (lower) {
          append_lower(text, c.code);
        } else {
          text.append(run, k, c.bytes);
        }
      }
      k += c.bytes;
    }
    i = end;
  }
}

}  // namespace weir::formats::tokens
