// SPDX-License-Identifier: Apache-2.0
/// @file
/// Translation of patterns from Oniguruma to PCRE2, and matching with limits.
///
/// The reference matches with Oniguruma. A translated pattern must match the same texts,
/// so escapes of properties are widened by the characters that PCRE2's older Unicode
/// lacks (`pattern_ranges.hpp`), and everything that means something else in PCRE2 is
/// refused. Matching runs as machine code with its own stack, so that a text cannot
/// exhaust the stack of the thread.
#include "tokens/pattern.hpp"

#include <fmt/format.h>

#include <array>
#include <new>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "tokens/pattern_ranges.hpp"

namespace weir::formats::tokens {

namespace {

// Limits of one match. A match of a pre-tokenizer takes a few steps for each byte; a text
// that makes a pattern backtrack without end reaches the limit and is an error.
constexpr std::uint32_t match_limit = 50'000'000;
constexpr std::uint32_t depth_limit = 100'000;
/// Stack of the compiled pattern, in bytes: it begins small and grows on demand.
constexpr std::size_t stack_start = 32 * 1024;
constexpr std::size_t stack_limit = 8 * 1024 * 1024;

/// Returns the text of PCRE2 for an error code.
std::string message_of(int code) {
  // The longest message of PCRE2 is shorter than this.
  std::array<PCRE2_UCHAR, 200> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

// White space of the reference; PCRE2 counts U+180E too.
constexpr std::string_view spaces =
    "\\t-\\r\\x20\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}"
    "\\x{205F}\\x{3000}";

/// Writes a pattern of Oniguruma as one of PCRE2 that matches the same texts, and refuses
/// syntax that means something else there.
/// Reads from left to right and is always either inside a bracket expression
/// (`in_class_`) or outside. Every step copies or replaces at least one byte, and refuses
/// what it does not know.
class translator {
 public:
  explicit translator(std::string_view text) : text_(text) {}

  // Returns the translated pattern.
  result<std::string> run() {
    while (at_ < text_.size()) {
      // Escapes are alike inside and outside of brackets.
      const char c = text_[at_];
      if (c == '\\') {
        WEIR_CHECK(escape());
      } else if (in_class_) {
        WEIR_CHECK(member(c));
      } else {
        WEIR_CHECK(outside(c));
      }
    }
    return std::move(out_);
  }

 private:
  // Looks ahead without moving.
  [[nodiscard]] bool next_is(std::string_view part) const {
    return text_.substr(at_, part.size()) == part;
  }
  // Copies bytes that mean the same in both.
  void copy(std::size_t count) {
    out_ += text_.substr(at_, count);
    at_ += count;
  }
  // Returns an error that shows the next `count` bytes.
  [[nodiscard]] error refuse(std::size_t count) const {
    return error(errc::unsupported,
                 fmt::format("cannot use the pattern \"{}\": expected syntax that this "
                             "build knows, found \"{}\" at byte {}",
                             text_, text_.substr(at_, count), at_));
  }

  // Handles a character outside brackets. "[]" and "[^]" are refused: the two libraries
  // need not agree on a closing bracket that comes first. Of groups with a question mark
  // only those pass that mean the same in both.
  result<void> outside(char c) {
    if (c == '[') {
      in_class_ = true;
      // The caret is copied with the bracket, since it has no other meaning there.
      copy(next_is("[^") ? 2 : 1);
      if (next_is("]")) {
        return refuse(1);
      }
      return {};
    }
    // A question mark behind an opening bracket begins a special group.
    if (c == '(' && text_.substr(at_ + 1, 1) == "?") {
      for (const std::string_view known :
           {"(?:", "(?i:", "(?=", "(?!", "(?>", "(?<=", "(?<!"}) {
        if (next_is(known)) {
          copy(known.size());
          return {};
        }
      }
      return refuse(4);
    }
    // A quantifier in braces followed by a plus is not possessive in Oniguruma.
    if (next_is("}+") || next_is("(*")) {
      return refuse(2);
    }
    // All other characters have one meaning in both.
    copy(1);
    return {};
  }

  // Handles a character inside brackets.
  result<void> member(char c) {
    // A class within a class is a union in Oniguruma, and two ampersands intersect.
    if (c == '[' || next_is("&&")) {
      return refuse(2);
    }
    in_class_ = c != ']';
    copy(1);
    return {};
  }

  // Handles an escape. An escaped character that is no letter or digit stands for itself,
  // and so do the control characters of `rntfx` in both syntaxes. Sets become bracket
  // expressions; back references, anchors, `\w` and `\h` are refused.
  result<void> escape() {
    // The end of the pattern reads as a zero, which is refused below.
    const char c = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
    const bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                      (c >= '0' && c <= '9') || c == '\0';
    if (!word || std::string_view("rntfx").find(c) != std::string_view::npos) {
      copy(2);
      return {};
    }
    if (c == 's' || c == 'S') {
      return set(std::string(spaces), c == 'S', 2);
    }
    // Oniguruma counts all decimal digits of Unicode.
    if (c == 'd' || c == 'D') {
      return property("Nd", c == 'D', 2);
    }
    if (c != 'p' && c != 'P') {
      return refuse(2);
    }
    // The name of a property stands in braces.
    const std::size_t close = text_.find('}', at_);
    if (text_.substr(at_ + 2, 1) != "{" || close == std::string_view::npos) {
      return refuse(3);
    }
    const std::string_view name = text_.substr(at_ + 3, close - at_ - 3);
    return property(name, c == 'P', close + 1 - at_);
  }

  // Replaces a property by the same property of PCRE2 and the characters that it lacks.
  result<void> property(std::string_view name, bool negated, std::size_t taken) {
    for (const pattern_property& known : pattern_properties) {
      if (known.name == name) {
        return set(fmt::format("\\p{{{}}}{}", name, known.missing), negated, taken);
      }
    }
    // A property that is not in the table may differ in ways that are not known.
    return refuse(taken);
  }

  // Writes members of a set: alone they need brackets, inside brackets they join the
  // other members. A negated set inside brackets cannot be written as members.
  result<void> set(const std::string& members, bool negated, std::size_t taken) {
    if (in_class_ && negated) {
      return refuse(taken);
    }
    out_ += in_class_ ? members : fmt::format("[{}{}]", negated ? "^" : "", members);
    at_ += taken;
    return {};
  }

  std::string_view text_;  ///< the pattern of Oniguruma
  std::string out_;        ///< what has been translated
  std::size_t at_ = 0;     ///< the next byte
  bool in_class_ = false;  ///< within square brackets
};

}  // namespace

/// Handles of PCRE2. Each may be null if memory is short; `find` throws then.
struct pattern_memory::handles {
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(stack_start, stack_limit, nullptr);
};

pattern_memory::pattern_memory() : handles_(std::make_unique<handles>()) {
  // Limits belong to the context, which is used for each match.
  if (handles_->context != nullptr) {
    pcre2_set_match_limit(handles_->context, match_limit);
    pcre2_set_depth_limit(handles_->context, depth_limit);
    pcre2_jit_stack_assign(handles_->context, nullptr, handles_->stack);
  }
}

pattern_memory::~pattern_memory() {
  // All three accept null.
  pcre2_match_data_free(handles_->data);
  pcre2_match_context_free(handles_->context);
  pcre2_jit_stack_free(handles_->stack);
}

/// Compiles a pattern and asks what a stream must know: whether a match can depend on
/// text before it. PCRE2 tells about look-behind, but not about `^`, which matches at the
/// start of every line (PCRE2_MULTILINE, as in Oniguruma), so the text is searched for
/// it. A `^` behind a bracket negates a class.
result<pattern> pattern::compile(const std::string& text) {
  // What cannot be translated is refused here.
  WEIR_TRY(const std::string shared, translator(text).run());
  int code = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* made =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(shared.data()), shared.size(),
                    // Letters and digits are those of Unicode, and single bytes can never
                    // match.
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                    &code, &offset, nullptr);
  if (made == nullptr) {
    return error(
        errc::unsupported,
        fmt::format("cannot use the pattern \"{}\": expected a pattern of PCRE2, "
                    "found at byte {}: {}",
                    text, offset, message_of(code)));
  }
  pattern out;
  out.text_ = text;
  // Shared, because copies of a tokenizer use one pattern.
  out.code_ = std::shared_ptr<void>(
      made, [](void* p) { pcre2_code_free(static_cast<pcre2_code*>(p)); });
  std::uint32_t matches_empty = 0;
  std::uint32_t look_behind = 0;
  pcre2_pattern_info(made, PCRE2_INFO_MATCHEMPTY, &matches_empty);
  pcre2_pattern_info(made, PCRE2_INFO_MAXLOOKBEHIND, &look_behind);
  // A match without text would split between all characters.
  if (matches_empty != 0) {
    return error(
        errc::unsupported,
        fmt::format("cannot use the pattern \"{}\": expected a pattern that does "
                    "not match the empty text, found one that does",
                    text));
  }
  bool anchored = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    anchored |= text[i] == '^' && (i == 0 || text[i - 1] != '[');
  }
  // A stream cannot cut text for such a pattern.
  out.looks_back_ = look_behind != 0 || anchored;
  // Without machine code PCRE2 interprets the pattern, so a failure here is no error.
  pcre2_jit_compile(made, PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD);
  return out;
}

/// With `open`, PCRE2_PARTIAL_HARD makes PCRE2 report a partial match as soon as a match
/// needs to look at the end of the text, even if it has a whole match. A match that is
/// whole then does not depend on what follows.
result<occurrence> pattern::find(std::string_view text, std::size_t from, bool open,
                                 pattern_memory& memory) const {
  const auto& h = *memory.handles_;
  if (h.data == nullptr || h.context == nullptr) {
    throw std::bad_alloc();
  }
  // The text is known to be UTF-8 and `from` to be the start of a character.
  const int found = pcre2_match(
      static_cast<const pcre2_code*>(code_.get()),
      reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
      PCRE2_NO_UTF_CHECK | (open ? PCRE2_PARTIAL_HARD : 0U), h.data, h.context);
  if (found == PCRE2_ERROR_NOMATCH) {
    return occurrence{occurrence::kind::none, text.size(), text.size()};
  }
  // Start and end of the match.
  const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(h.data);
  if (found == PCRE2_ERROR_PARTIAL) {
    return occurrence{occurrence::kind::open, ends[0], text.size()};
  }
  // A limit was reached, or memory has run out.
  if (found < 0) {
    return error(errc::out_of_range,
                 fmt::format("cannot match the pattern \"{}\": expected at most {} steps "
                             "for one match, found: {}",
                             text_, match_limit, message_of(found)));
  }
  return occurrence{occurrence::kind::whole, ends[0], ends[1]};
}

}  // namespace weir::formats::tokens
