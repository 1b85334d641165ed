// SPDX-License-Identifier: Apache-2.0
/// @file
/// The stream looks for cuts in windows and keeps the text behind the last cut.
///
/// Text that is pushed is checked, made well-formed and appended to `state::text`. As
/// soon as a window of it has arrived, `run` encodes the window as open text, which gives
/// the ids up to the last safe cut and the place of this cut. The text before the cut is
/// dropped, and the ids behind the cut are dropped too: they are made again from the next
/// window. A window without a cut is doubled, up to `max_uncut_bytes`.
///
///   pushed   |....ids taken....|..ids ready..|..text without ids yet..
///            ^ behind           ^ cursor      ^ cut
///
/// A cursor names a cut at or before the ids that were taken, and how many ids were taken
/// since. A stream that resumes there makes these ids again and skips them. `cuts` has
/// the cuts between `behind` and `cut`, from which `take` picks the next `behind`.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tokens/pipeline.hpp"
#include "weir/base/text.hpp"
#include "weir/base/utf8.hpp"
#include "weir/formats/tokens.hpp"

namespace weir::formats {

namespace {

/// A safe cut and the number of ids before it.
struct cut_place {
  std::uint64_t offset = 0;  ///< bytes of the text before it, as pushed
  std::uint64_t ids = 0;     ///< ids of the stream before it, special ones included
  bool inside = false;       ///< it lies within a run of plain text
  bool begun = false;        ///< the ids before the text lie before it
};

}  // namespace

struct token_stream::state {
  tokenizer with;
  std::shared_ptr<const tokens::tokenizer_parts> parts;
  bool add_special = true;
  invalid_utf8 invalid = invalid_utf8::refuse;
  std::unique_ptr<tokens::scratch> memory;

  byte_vector raw;         ///< bytes at the end of what was pushed that form no character
  std::string text;        ///< well-formed text behind the last cut
  std::size_t window = 1;  ///< bytes of text with which a cut is looked for first
  std::size_t wanted = 1;  ///< bytes of text with which a cut is looked for
  /// Places in `text` behind replacements, and the bytes that each replaced.
  std::vector<std::pair<std::size_t, std::size_t>> replaced;
  std::uint64_t pushed = 0;  ///< offset of the byte behind the last one that was pushed
  cut_place cut;             ///< where `text` begins
  bool finished = false;

  std::vector<std::uint32_t> ids;  ///< known ids; the first `taken_here` are taken
  std::size_t taken_here = 0;
  std::uint64_t taken = 0;      ///< all ids that were taken
  std::uint64_t to_skip = 0;    ///< ids that a resumed stream has given before
  std::vector<cut_place> cuts;  ///< cuts before ids that are not taken yet
  cut_place behind;             ///< newest cut that is not behind the ids taken

  explicit state(tokenizer t, std::shared_ptr<const tokens::tokenizer_parts> p)
      : with(std::move(t)), parts(std::move(p)), memory(parts->pool.take()) {}
  ~state() { parts->pool.give(std::move(memory)); }
  state(const state&) = delete;
  state& operator=(const state&) = delete;

  /// Returns the number of ids that are known, given or not.
  [[nodiscard]] std::uint64_t known() const {
    return taken - to_skip + (ids.size() - taken_here);
  }
  // Adds the ids before a text, unless a resumed stream has them before its cut.
  void begin() {
    if (add_special && !cut.begun) {
      ids.insert(ids.end(), parts->prefix.begin(), parts->prefix.end());
    }
  }
  [[nodiscard]] result<void> add(bytes_view bytes);
  [[nodiscard]] result<void> run(bool open);
  void move_cut(const tokens::progress& to);
  void skip();
};

/// Appends bytes to `text`. Bytes at the end that may begin a character wait in `raw`. In
/// a stream that refuses ill-formed bytes, a replacement is an error; the offset in its
/// message counts from the start of the whole text.
result<void> token_stream::state::add(bytes_view bytes) {
  std::string_view source = as_text(bytes);
  // Bytes that waited come first, so a character that was cut is complete now.
  byte_vector joined;
  if (!raw.empty()) {
    joined = std::exchange(raw, {});
    append(joined, bytes);
    source = as_text(joined);
  }
  const std::size_t before = replaced.size();
  // The offset of the first byte of `source` in the whole text.
  const std::uint64_t begin = pushed + bytes.size() - source.size();
  // At the end of the input, nothing may wait any more.
  const std::size_t read = tokens::append_well_formed(text, source, !finished, &replaced);
  pushed += bytes.size();
  if (invalid == invalid_utf8::refuse && replaced.size() > before) {
    // Finds the byte for the message. The text will not be used any further.
    std::size_t at = 0;
    while (const std::size_t length = utf8_sequence_length(source.substr(at))) {
      at += length;
    }
    return error(errc::corrupt,
                 fmt::format(
                     "cannot encode a text: expected UTF-8, found the byte 0x{:02x} "
                     "at byte {}",
                     static_cast<unsigned char>(source[at]), begin + at))
        .hint("invalid_utf8::replace reads U+FFFD in its place");
  }
  // What was not read is the beginning of a character.
  raw.assign(as_view(source.substr(read)).begin(), as_view(source.substr(read)).end());
  return {};
}

/// Moves the cut forward and translates its place in `text` to an offset in the pushed
/// bytes. The ids that are known end at the cut when this function is called.
void token_stream::state::move_cut(const tokens::progress& to) {
  // A replacement is three bytes of text for other bytes that were pushed.
  // Counts the bytes before the cut as they were pushed.
  std::uint64_t bytes = to.bytes;
  std::size_t passed = 0;
  for (; passed < replaced.size() && replaced[passed].first <= to.bytes; ++passed) {
    bytes = bytes - 3 + replaced[passed].second;
  }
  // Replacements before the cut are done with.
  replaced.erase(replaced.begin(),
                 replaced.begin() + static_cast<std::ptrdiff_t>(passed));
  // All places in the text move with it.
  for (auto& place : replaced) {
    place.first -= to.bytes;
  }
  text.erase(0, to.bytes);
  // From here on, the special ids before the text lie before every cut.
  cut = {cut.offset + bytes, known(), to.inside, true};
  cuts.push_back(cut);
}

/// Drops ids that a resumed stream has given before. They are known before any id of the
/// stream is taken, so they are the first ones.
void token_stream::state::skip() {
  // Some of them may still be unknown.
  const std::size_t count =
      static_cast<std::size_t>(std::min<std::uint64_t>(to_skip, ids.size() - taken_here));
  to_skip -= count;
  ids.erase(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count));
}

/// Encodes as many windows as there are; without `open`, also the rest of the text. A
/// failure leaves the text and the ids before it as they were.
result<void> token_stream::state::run(bool open) {
  // Windows of a limited size keep cuts near to each other.
  while (text.size() >= wanted || (!open && !text.empty())) {
    // At the end, the rest is one window, if it is not larger than that.
    const bool whole = !open && text.size() <= wanted;
    std::size_t size = whole ? text.size() : wanted;
    // A window must not end inside a character.
    size = whole ? size : utf8_boundary(text, size);
    const std::size_t before = ids.size();
    // With an open end, only ids that no later text can change are valid.
    const auto done = tokens::run_text(*parts, std::string_view(text).substr(0, size),
                                       cut.inside, !whole, ids, *memory);
    if (!done) {
      // The failure leaves no ids of this window.
      ids.resize(before);
      return done.error();
    }
    // Ids behind the cut are made again with the next window.
    ids.resize(done->ids);
    // No cut was found: the next attempt uses twice as much text.
    if (done->bytes == 0 && !whole) {
      if (wanted >= max_uncut_bytes) {
        return error(errc::out_of_range,
                     fmt::format("cannot encode a text from byte {} on: expected a place "
                                 "where the tokenizer splits every text within {}, found "
                                 "none",
                                 cut.offset, human_bytes(max_uncut_bytes)))
            .hint("encode the text whole");
      }
      wanted *= 2;
      continue;
    }
    // A cut was found, so the next window has its usual size.
    wanted = window;
    if (whole) {
      // The end of a text is no safe cut: the text may have grown when it is read again.
      text.clear();
      skip();
      return {};
    }
    move_cut(*done);
    skip();
  }
  return {};
}

token_stream::token_stream(std::unique_ptr<state> s) : state_(std::move(s)) {}
token_stream::token_stream(token_stream&&) noexcept = default;
token_stream& token_stream::operator=(token_stream&&) noexcept = default;
token_stream::~token_stream() = default;

/// A new stream is a stream that is resumed at the start of the text.
result<token_stream> token_stream::open(tokenizer with,
                                        const token_stream_options& options) {
  // The digest and the flags are the same that a cursor of this stream will have.
  token_cursor start;
  start.tokenizer = with.digest();
  start.add_special = options.add_special_tokens ? 1 : 0;
  start.invalid = static_cast<std::uint8_t>(options.invalid);
  return resume(std::move(with), start, options.window);
}

/// The cursor may come from a file, so every value is checked before it is used.
result<token_stream> token_stream::resume(tokenizer with, const token_cursor& cursor,
                                          std::size_t window) {
  // Kept, since `with` is moved below.
  auto parts = with.parts_;
  if (cursor.tokenizer != parts->digest) {
    return error(errc::config_mismatch,
                 fmt::format("cannot resume a stream of tokens: expected a cursor of the "
                             "tokenizer {:016x}, found one of {:016x}",
                             parts->digest, cursor.tokenizer))
        .hint("resume with the tokenizer that has made the cursor");
  }
  // Everything that the code below relies on.
  if (cursor.inside > 1 || cursor.begun > 1 || cursor.add_special > 1 ||
      cursor.invalid > 1 || cursor.ids > cursor.taken ||
      (cursor.begun == 0 && cursor.offset != 0)) {
    return error(
        errc::corrupt,
        fmt::format("cannot resume a stream of tokens: expected flags of 0 or 1 "
                    "and at most {} ids since the cut, found inside {}, begun {}, "
                    "special {}, invalid {}, ids {}, offset {}",
                    cursor.taken, cursor.inside, cursor.begun, cursor.add_special,
                    cursor.invalid, cursor.ids, cursor.offset));
  }
  if (window == 0 || window > max_uncut_bytes) {
    return error(
        errc::invalid_argument,
        fmt::format("cannot encode a stream: expected a window of 1 to {} bytes, "
                    "found {}",
                    max_uncut_bytes, window));
  }
  // Some normalizers and splits look at text before any cut.
  if (const std::string_view obstacle = parts->obstacle(); !obstacle.empty()) {
    return error(
               errc::unsupported,
               fmt::format("cannot encode a stream: expected a tokenizer whose splits do "
                           "not depend on the text before them, found {}",
                           obstacle))
        .hint("encode the text whole");
  }
  auto s = std::make_unique<state>(std::move(with), std::move(parts));
  s->add_special = cursor.add_special == 1;
  s->invalid = static_cast<invalid_utf8>(cursor.invalid);
  s->pushed = cursor.offset;
  // `begin` puts the ids before the text in front, so they count as given since the cut.
  s->taken = cursor.taken - cursor.ids;
  s->window = window;
  s->wanted = window;
  s->cut = {cursor.offset, cursor.taken - cursor.ids, cursor.inside == 1,
            cursor.begun == 1};
  // Before any id is taken, the place of the cursor is the cut itself.
  s->behind = s->cut;
  s->begin();
  // The ids since the cut are made again and left out.
  s->taken = cursor.taken;
  s->to_skip = cursor.ids;
  s->skip();
  return token_stream(std::move(s));
}

result<void> token_stream::push(bytes_view bytes) {
  // Pushing behind the end is a mistake of the program.
  WEIR_EXPECT(!state_->finished);
  // A large buffer is not copied whole: each part is encoded before the next one is
  // added.
  for (std::size_t at = 0; at < bytes.size();) {
    // As much as makes a window complete.
    const std::size_t size = std::min(state_->wanted, bytes.size() - at);
    WEIR_CHECK(state_->add(bytes.subspan(at, size)));
    WEIR_CHECK(state_->run(true));
    at += size;
  }
  return {};
}

/// The ids behind the text follow, and a cursor that claims more ids than the text has is
/// refused, because the text is then not the one that the cursor belongs to.
result<void> token_stream::finish() {
  // A second call changes nothing.
  if (state_->finished) {
    return {};
  }
  state_->finished = true;
  // Bytes that wait for the rest of a character are ill-formed now.
  WEIR_CHECK(state_->add({}));
  WEIR_CHECK(state_->run(false));
  if (state_->add_special) {
    state_->ids.insert(state_->ids.end(), state_->parts->suffix.begin(),
                       state_->parts->suffix.end());
  }
  state_->skip();
  if (state_->to_skip > 0) {
    return error(
               errc::history_mismatch,
               fmt::format("cannot resume a stream of tokens: expected at least {} more "
                           "ids behind byte {}, found the end of the text",
                           state_->to_skip, state_->behind.offset))
        .hint("resume with the text that the cursor belongs to");
  }
  return {};
}

std::span<const std::uint32_t> token_stream::ready() const noexcept {
  // The view is valid until the next call.
  return std::span(state_->ids).subspan(state_->taken_here);
}

/// The newest cut that is not behind the ids taken becomes the cut of the cursor. Cuts
/// are in the order of their ids.
void token_stream::take(std::size_t count) {
  state& s = *state_;
  // More ids than are ready cannot be taken.
  WEIR_EXPECT(count <= s.ids.size() - s.taken_here);
  s.taken_here += count;
  s.taken += count;
  // Finds the first cut behind the ids taken.
  const auto next = std::find_if(s.cuts.begin(), s.cuts.end(),
                                 [&](const cut_place& c) { return c.ids > s.taken; });
  if (next != s.cuts.begin()) {
    s.behind = *(next - 1);
    s.cuts.erase(s.cuts.begin(), next);
  }
  // Taken ids leave once they are the larger part, so that each moves once at most.
  if (s.taken_here > s.ids.size() / 2) {
    s.ids.erase(s.ids.begin(), s.ids.begin() + static_cast<std::ptrdiff_t>(s.taken_here));
    s.taken_here = 0;
  }
}

token_cursor token_stream::cursor() const noexcept {
  const state& s = *state_;
  token_cursor out;
  out.offset = s.behind.offset;
  // Ids that a resumed stream makes again and skips.
  out.ids = s.taken - s.behind.ids;
  out.taken = s.taken;
  out.tokenizer = s.parts->digest;
  out.inside = s.behind.inside ? 1 : 0;
  out.begun = s.behind.begun ? 1 : 0;
  out.add_special = s.add_special ? 1 : 0;
  out.invalid = static_cast<std::uint8_t>(s.invalid);
  return out;
}

}  // namespace weir::formats
