// SPDX-License-Identifier: Apache-2.0
/// @file
/// A text passes the parts of a tokenizer: added tokens, normalizer, added tokens of the
/// normal form, levels of the pre-tokenizer, model.
///
/// If the text goes on behind its end (`open`), the runner also looks for the last safe
/// cut: a place such that the text before it and the text behind it give the same ids
/// apart as together, whatever follows (docs/formats/tokens.md, "Streams"). Every stage
/// can veto a cut:
///
/// 1. keep_cut: no added token of the raw text spans the place, or begins only because
///    the text before it is gone;
/// 2. cut_in_normal: the same for added tokens of the normal form, and the place is a
///    joint, where the normal forms of both sides can be joined;
/// 3. split: every level of the pre-tokenizer splits alike if the text begins there.
///
/// A cut is kept together with the number of ids at that time. Ids behind the best cut
/// are appended too, and the caller removes them.
#include <algorithm>

#include "tokens/pipeline.hpp"
#include "weir/base/utf8.hpp"

namespace weir::formats::tokens {

namespace {

/// Returns whether BERT's cleaning and every normal form leave a character as it is,
/// whatever stands before it, and it often begins a piece.
bool is_joint(char32_t code) noexcept {
  return code == ' ' || code == '\n' || code == '\t' || code == '\r' ||
         (code < 0x80 && is_punctuation(code)) || (code >= 0x4E00 && code <= 0x9FFF);
}

/// Returns whether more bytes can make a character of these one to three bytes.
/// Tried are the smallest completions: 0x80 for most first bytes, 0x90 behind 0xF0, and
/// 0xA0 behind 0xE0, whose second bytes must not be smaller.
bool begins_character(std::string_view bytes) {
  for (const char* rest : {"\x80\x80\x80", "\x90\x80\x80", "\xA0\x80\x80"}) {
    const std::string whole = std::string(bytes) + rest;
    if (utf8_sequence_length(whole) > bytes.size()) {
      return true;
    }
  }
  return false;
}

/// Returns the length of the maximal part of an ill-formed sequence at the start of bytes
/// that begin with no character; 0 if more bytes could make it a character.
/// @source{Unicode 15, section 3.9, U+FFFD substitution of maximal subparts}
std::size_t ill_formed_length(std::string_view bytes) {
  // The maximal part is the longest prefix that more bytes could complete, or one byte if
  // none is.
  for (std::size_t length = 1; length <= bytes.size() && length < 4; ++length) {
    if (!begins_character(bytes.substr(0, length))) {
      return length > 1 ? length - 1 : 1;
    }
  }
  // All bytes at hand could begin a character. Four bytes that do would be one, so three.
  return bytes.size() < 4 ? 0 : 3;
}

/// One run of one text. `ids` may have ids of earlier runs in front.
class runner {
 public:
  runner(const tokenizer_parts& with, std::string_view text, bool inside, bool open,
         std::vector<std::uint32_t>& ids, scratch& memory)
      : with_(with),
        text_(text),
        inside_(inside),
        open_(open),
        ids_(ids),
        memory_(memory) {
    best_.ids = ids.size();
    best_.inside = inside;
  }

  // Runs the parts of the text one after the other. `inside_` is true at most for the
  // first part: behind an added token, a new run of plain text begins.
  result<progress> run() {
    memory_.parts.clear();
    memory_.hidden.clear();
    with_.raw.split(text_, open_, memory_.parts, memory_.hidden);
    for (const text_part& part : memory_.parts) {
      if (part.id != no_id) {
        ids_.push_back(part.id);
        inside_ = false;
        keep_cut(part.end, false);
        continue;
      }
      WEIR_CHECK(run_part(part));
      inside_ = false;
    }
    // The end of a text that is whole needs no cut.
    if (!open_) {
      best_ = {text_.size(), ids_.size(), false};
    }
    return best_;
  }

 private:
  /// Runs text between added tokens.
  /// A part has its own normal form, because the reference splits added tokens off first.
  result<void> run_part(const text_part& part) {
    const std::string_view raw = text_.substr(part.begin, part.end - part.begin);
    part_begin_ = part.begin;
    part_open_ = part.open;
    normal_ = raw;
    memory_.joints.clear();
    if (!with_.normalizer.steps.empty()) {
      normalize(raw);
    }
    memory_.inner_parts.clear();
    memory_.inner_hidden.clear();
    with_.normalized.split(normal_, part.open, memory_.inner_parts, memory_.inner_hidden);
    for (std::size_t i = 0; i < memory_.inner_parts.size(); ++i) {
      const text_part inner = memory_.inner_parts[i];
      if (inner.id != no_id) {
        ids_.push_back(inner.id);
        inside_ = false;
        cut_in_normal(inner.end, false);
        continue;
      }
      WEIR_CHECK(split(0, normal_.substr(inner.begin, inner.end - inner.begin),
                       inner.begin, inner.open, part.open));
      inside_ = false;
    }
    return {};
  }

  /// Sets `normal_`. Open text is normalized joint by joint, so that a cut in its normal
  /// form is one in the text.
  /// `joints` receives the places of joints in the text and in the normal form. The text
  /// behind the last joint is left out: characters that follow can still change its form.
  void normalize(std::string_view raw) {
    if (!part_open_) {
      memory_.normal = raw;
      with_.normalizer.apply(memory_.normal, memory_.spare);
      normal_ = memory_.normal;
      return;
    }
    std::string& all = memory_.normal;
    std::string block;
    all.clear();
    std::size_t begin = 0;
    for (std::size_t i = 0; i < raw.size();) {
      const character c = first_character(raw.data() + i);
      if (i > begin && is_joint(c.code)) {
        block = raw.substr(begin, i - begin);
        with_.normalizer.apply(block, memory_.spare);
        all += block;
        memory_.joints.emplace_back(i, all.size());
        begin = i;
      }
      i += c.bytes;
    }
    // The block behind the last joint can still change.
    normal_ = all;
  }

  /// Splits text by a level and those behind it, and encodes the pieces of the last one.
  /// The recursion is as deep as there are levels. Open pieces are not encoded.
  /// @param base     Place of the text in `normal_`.
  /// @param can_cut  The text can be cut inside.
  result<void> split(std::size_t level, std::string_view text, std::size_t base,
                     bool open, bool can_cut) {
    if (level == with_.levels.size()) {
      if (!open && !text.empty()) {
        with_.model.encode(text, ids_, memory_.model);
      }
      return {};
    }
    // The space that ByteLevel puts before a text is not part of the text, so places in
    // it are one smaller (`added`).
    const split_level& at = with_.levels[level];
    std::string own;
    std::size_t added = 0;
    if (at.prefix_space && !inside_ && !text.empty() && text[0] != ' ') {
      // The first level has the memory of the run; levels behind it have short pieces.
      std::string& to = level == 0 ? memory_.prefixed : own;
      to = ' ';
      to += text;
      text = to;
      added = 1;
    }
    const bool last = level + 1 == with_.levels.size();
    splitter pieces(at, text, open, memory_.patterns);
    for (;;) {
      WEIR_TRY(const std::optional<piece> p, pieces.next());
      if (!p) {
        return {};
      }
      const std::string_view part = text.substr(p->begin, p->end - p->begin);
      const std::size_t begin = base + (p->begin == 0 ? 0 : p->begin - added);
      // A level behind may cut where this level lets it: at the end of a piece, or inside
      // a piece that is no match of a pattern.
      if (!last) {
        WEIR_CHECK(split(level + 1, part, begin, p->open, can_cut && p->can_cut));
      } else if (!p->open) {
        with_.model.encode(part, ids_, memory_.model);
      }
      if (can_cut && !p->open) {
        cut_in_normal(base + p->end - added, true);
      }
    }
  }

  /// Notes that the normal form can be cut, if the text can be cut there, too.
  /// `at` is a place in the normal form of the open part. Joints and cuts both come in
  /// increasing order, so the search for a joint goes on where the last one ended.
  void cut_in_normal(std::size_t at, bool inside) {
    if (!part_open_ || at == 0 || !is_clear(normal_, at, with_.normalized) ||
        is_hidden(memory_.inner_hidden, at)) {
      return;
    }
    if (with_.normalizer.steps.empty()) {
      keep_cut(part_begin_ + at, inside);
      return;
    }
    const auto& joints = memory_.joints;
    while (next_joint_ < joints.size() && joints[next_joint_].second < at) {
      ++next_joint_;
    }
    if (next_joint_ < joints.size() && joints[next_joint_].second == at) {
      keep_cut(part_begin_ + joints[next_joint_].first, inside);
    }
  }

  // Keeps a cut of the raw text if it is better than the best one so far. `ids_` has
  // exactly the ids of the text before `at`.
  void keep_cut(std::size_t at, bool inside) {
    if (open_ && at > best_.bytes && is_clear(text_, at, with_.raw) &&
        !is_hidden(memory_.hidden, at)) {
      best_ = {at, ids_.size(), inside};
    }
  }

  /// Returns whether no single word can begin at a place that is one only because the
  /// text before it has been cut off.
  /// A token that must be a single word is rejected behind a word character. If the text
  /// is cut there, nothing stands before it and it would be accepted, unless white space
  /// follows.
  static bool is_clear(std::string_view text, std::size_t at, const added_set& set) {
    if (!set.has_single_words()) {
      return true;
    }
    return at < text.size() && (!is_word(last_character(text.substr(0, at)).code) ||
                                is_space(first_character(text.data() + at).code));
  }
  // Returns whether a place lies inside a rejected token. A text that begins there could
  // match a shorter token that the whole text skips.
  static bool is_hidden(const std::vector<text_part>& hidden, std::size_t at) {
    return std::any_of(hidden.begin(), hidden.end(),
                       [at](const text_part& h) { return at > h.begin && at < h.end; });
  }

  const tokenizer_parts& with_;
  std::string_view text_;
  bool inside_;  ///< the text before this place belongs to the same run of plain text
  bool open_;
  std::vector<std::uint32_t>& ids_;
  scratch& memory_;
  std::string_view normal_;     ///< normal form of the part that runs
  std::size_t part_begin_ = 0;  ///< where that part begins in the text
  bool part_open_ = false;
  std::size_t next_joint_ = 0;
  progress best_;
};

}  // namespace

result<progress> run_text(const tokenizer_parts& with, std::string_view text, bool inside,
                          bool open, std::vector<std::uint32_t>& ids, scratch& memory) {
  return runner(with, text, inside, open, ids, memory).run();
}

/// The check of all bytes at once is much faster than the loop below it, which only
/// handles bytes from the first ill-formed sequence on.
std::size_t append_well_formed(
    std::string& out, std::string_view bytes, bool open,
    std::vector<std::pair<std::size_t, std::size_t>>* replaced) {
  // Nearly every text is well-formed but for a character that is cut off at its end.
  std::size_t last = bytes.size();
  for (std::size_t back = 1; back <= 3 && back <= bytes.size(); ++back) {
    if (static_cast<unsigned char>(bytes[bytes.size() - back]) >= 0xC0) {
      last = bytes.size() - back;
      break;
    }
  }
  std::size_t at = is_utf8(bytes.substr(0, last)) ? last : 0;
  out += bytes.substr(0, at);
  while (at < bytes.size()) {
    const std::size_t whole = utf8_sequence_length(bytes.substr(at));
    if (whole != 0) {
      out += bytes.substr(at, whole);
      at += whole;
      continue;
    }
    const std::size_t bad = ill_formed_length(bytes.substr(at));
    if (bad == 0 && open) {
      return at;
    }
    // At the end of the text, the beginning of a character is ill-formed as a whole.
    const std::size_t taken = bad == 0 ? bytes.size() - at : bad;
    out += "\xEF\xBF\xBD";
    at += taken;
    if (replaced != nullptr) {
      replaced->emplace_back(out.size(), taken);
    }
  }
  return at;
}

/// A thread takes the memory that was given back last, which its cache may still hold.
std::unique_ptr<scratch> scratch_pool::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!kept_.empty()) {
      auto out = std::move(kept_.back());
      kept_.pop_back();
      return out;
    }
  }
  return std::make_unique<scratch>();
}

/// More than `max_kept` are freed, so that a burst of threads leaves no memory behind.
void scratch_pool::give(std::unique_ptr<scratch> memory) {
  const std::lock_guard lock(mutex_);
  if (kept_.size() < max_kept) {
    kept_.push_back(std::move(memory));
  }
}

/// An added token hides a token of the vocabulary with the same id.
std::string_view tokenizer_parts::spelling(std::uint32_t id) const noexcept {
  if (id < added_by_id.size() && !added_by_id[id].empty()) {
    return added_by_id[id];
  }
  if (id < model.tokens.size() && model.present[id]) {
    return model.tokens[id];
  }
  return {};
}

/// Names the first component whose result can depend on all of the text before a place.
/// Prepend acts on the start of a text, which a resumed stream does not see. Replace can
/// match across any place.
std::string_view tokenizer_parts::obstacle() const noexcept {
  for (const normalize_step& step : normalizer.steps) {
    if (step.type == normalize_step::kind::prepend ||
        step.type == normalize_step::kind::replace) {
      return "a normalizer Prepend or Replace";
    }
  }
  for (std::size_t i = 0; i < levels.size(); ++i) {
    if (levels[i].regex && levels[i].regex->looks_back()) {
      return "a pattern that looks back";
    }
    if (levels[i].prefix_space && i > 0) {
      return "add_prefix_space behind another pre-tokenizer";
    }
  }
  if (!raw.can_cut() || !normalized.can_cut()) {
    return "added tokens that begin with white space beside ones that strip it";
  }
  return {};
}

}  // namespace weir::formats::tokens
