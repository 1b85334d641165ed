// SPDX-License-Identifier: Apache-2.0
/// @file
/// Matches of a level and their behaviors, one piece after another.
///
/// `next_event` cuts the text into events, which alternate between matches and the text
/// between them. `next` joins events to pieces by the behavior of the level. Both give
/// one result for each call, so that a long text is not held as a list of pieces. In open
/// text, the last event is open if bytes that follow could make it longer or change it.
#include "tokens/split.hpp"

namespace weir::formats::tokens {

/// Makes the event [begin, end) and moves on to its end. An open event is the last one. A
/// match of a pattern or literal must not be cut, since its second part could match
/// differently.
splitter::event splitter::made(std::size_t begin, std::size_t end, bool match,
                               bool open) {
  at_ = end;
  // Behind an open event, nothing is known.
  ended_ = ended_ || open;
  // An inverted level takes the text between matches as its matches.
  return {begin, end, match != level_.invert, open,
          !(match && level_.matches_are_whole())};
}

/// Returns the next run of word characters, or of characters that are neither word nor
/// white space (`\w+|[^\w\s]+`).
occurrence splitter::find_word() const {
  // Class of a character: 0 white space, 1 word, 2 neither.
  const auto class_of = [this](std::size_t i, std::uint32_t& bytes) {
    const character c = first_character(text_.data() + i);
    bytes = c.bytes;
    return is_space(c.code) ? 0 : is_word(c.code) ? 1 : 2;
  };
  std::uint32_t bytes = 0;
  // White space is passed over and becomes text between matches.
  std::size_t begin = at_;
  int kind = 0;
  while (begin < text_.size() && (kind = class_of(begin, bytes)) == 0) {
    begin += bytes;
  }
  if (begin == text_.size()) {
    return {};
  }
  // The first character decides the class of the whole run.
  std::size_t end = begin + bytes;
  while (end < text_.size() && class_of(end, bytes) == kind) {
    end += bytes;
  }
  // At the end of open text, the run may go on.
  const bool cut_off = end == text_.size() && open_;
  return {cut_off ? occurrence::kind::open : occurrence::kind::whole, begin, end};
}

/// Returns the first match from `at_` on.
result<occurrence> splitter::find() {
  switch (level_.type) {
    case split_level::kind::whole: return occurrence{};
    case split_level::kind::search: return level_.regex->find(text_, at_, open_, memory_);
    case split_level::kind::words: return find_word();
    case split_level::kind::literal: {
      const std::size_t begin = text_.find(level_.text, at_);
      if (begin != std::string_view::npos) {
        return occurrence{occurrence::kind::whole, begin, begin + level_.text.size()};
      }
      // The end of the text may be the beginning of an occurrence.
      const std::size_t kept = level_.text.size() - 1;
      std::size_t from = text_.size() - at_ > kept ? text_.size() - kept : at_;
      for (; open_ && from < text_.size(); ++from) {
        if (level_.text.starts_with(text_.substr(from))) {
          return occurrence{occurrence::kind::open, from, text_.size()};
        }
      }
      return occurrence{};
    }
    case split_level::kind::predicate:
      // Each character with the property is a match of its own.
      for (std::size_t i = at_; i < text_.size();) {
        const character c = first_character(text_.data() + i);
        if (level_.property(c.code)) {
          return occurrence{occurrence::kind::whole, i, i + c.bytes};
        }
        i += c.bytes;
      }
      return occurrence{};
  }
  return occurrence{};
}

/// A match that does not begin at `at_` is kept in `found_`, while the text before it is
/// returned first. An open match of a pattern ends the events: its piece is not known.
result<std::optional<splitter::event>> splitter::next_event() {
  if (found_) {
    const occurrence match = *found_;
    found_.reset();
    if (match.found == occurrence::kind::open) {
      ended_ = true;
      // A run of one class can be cut; of a pattern, nothing is known about the text.
      if (level_.type == split_level::kind::words) {
        return std::optional(made(match.begin, match.end, true, true));
      }
      return std::optional<event>();
    }
    return std::optional(made(match.begin, match.end, true, false));
  }
  if (ended_ || at_ == text_.size()) {
    return std::optional<event>();
  }
  WEIR_TRY(const occurrence match, find());
  // The rest is text between matches.
  if (match.found == occurrence::kind::none) {
    return std::optional(made(at_, text_.size(), false, open_));
  }
  found_ = match;
  // No text stands before the match. The recursion ends at once, as `found_` is set.
  if (match.begin == at_) {
    return next_event();
  }
  // Behind the text before an open match there may be no match, so its end is not known.
  const bool open = match.found == occurrence::kind::open;
  if (open && level_.type != split_level::kind::words) {
    found_.reset();
    return std::optional(made(at_, match.begin, false, true));
  }
  return std::optional(made(at_, match.begin, false, false));
}

/// "Merged with previous" joins a match to the text before it, "merged with next" to the
/// text behind it; "contiguous" joins neighbouring matches. An event that does not join
/// is kept in `held_` for the next call.
result<std::optional<piece>> splitter::next() {
  const auto take = [this]() -> result<std::optional<event>> {
    if (held_) {
      return std::exchange(held_, std::nullopt);
    }
    return next_event();
  };
  for (;;) {
    WEIR_TRY(const std::optional<event> first, take());
    if (!first) {
      return std::optional<piece>();
    }
    piece out{first->begin, first->end, first->open, first->can_cut};
    // Removed matches give no piece.
    if (level_.behavior == split_behavior::removed && first->match) {
      continue;
    }
    if (level_.behavior == split_behavior::removed ||
        level_.behavior == split_behavior::isolated) {
      return std::optional(out);
    }
    // What joins depends on the last event of the piece.
    bool last_is_match = first->match;
    while (!out.open) {
      WEIR_TRY(const std::optional<event> more, next_event());
      if (!more) {
        // If the text goes on, what follows can belong to this piece.
        out.open = open_;
        break;
      }
      bool joins = false;
      if (level_.behavior == split_behavior::contiguous) {
        joins = more->match == last_is_match;
      } else if (level_.behavior == split_behavior::merged_with_previous) {
        joins = more->match && !last_is_match;
      } else {
        joins = !more->match && last_is_match;
      }
      if (!joins) {
        held_ = more;
        break;
      }
      out.end = more->end;
      out.open = more->open;
      // One part that must not be cut is enough.
      out.can_cut = out.can_cut && more->can_cut;
      last_is_match = more->match;
    }
    return std::optional(out);
  }
}

}  // namespace weir::formats::tokens
