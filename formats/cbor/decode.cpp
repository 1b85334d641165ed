// SPDX-License-Identifier: Apache-2.0
/// @file
/// Decoding of CBOR (RFC 8949) with an explicit stack.
///
/// The decoder is iterative: containers whose end has not come yet stand on a vector, so
/// hostile nesting cannot exhaust the program's stack, and `cbor_depth_limit` bounds the
/// vector. Lengths are compared with the bytes that remain before memory is taken for
/// them. Malformed input is an error. Well-formed input that is not canonical (RFC 8949,
/// 4.2.1) is decoded all the same; the first deviation is noted in the result and becomes
/// an error only under `cbor_rules::canonical`.
///
/// A container that begins is pushed with the place (`target`) that its value will have.
/// The place lies in the vector of the container around it or is the result. It does not
/// move while the container is open: the vector around it grows only for its next value,
/// and moving an `open_item` within the stack does not move the elements of its vectors.
#include <fmt/core.h>

#include <algorithm>
#include <memory>

#include "cbor/tokens.hpp"
#include "weir/base/utf8.hpp"
#include "weir/formats/cbor.hpp"

namespace weir::formats {

namespace {

/// Largest number of places that a container gets in advance. Longer containers grow as
/// their values come, because an announced value may not exist in the input.
constexpr std::uint64_t max_reserved = 16;

/// Constructs a `T` in a value that is null, which holds nothing to be destroyed.
template <class T, class... From>
void put(cbor_value& to, From&&... from) noexcept {
  std::construct_at(&to, std::in_place_type<T>, std::forward<From>(from)...);
}

/// Constructs a text in a value that is null. `input` is the whole input, in which `text`
/// lies. A short text is copied with the fixed size of a string's inline storage and then
/// cut to its length: the compiler turns a copy of constant size into a few moves without
/// a call. That reads up to 15 bytes, hence the check of the bytes behind `text`.
void put_text(cbor_value& to, std::string_view text, bytes_view input) {
  constexpr std::size_t at_once = 15;
  const std::size_t behind =
      input.size() - static_cast<std::size_t>(text.data() - as_text(input).data());
  if (text.size() > at_once || behind < at_once) {
    put<std::string>(to, std::string(text));
    return;
  }
  put<std::string>(to, text.data(), at_once);
  const_cast<std::string*>(to.text())->resize(text.size());  // of `to`, just made
}

/// A container, tag or string in chunks that has begun and not ended yet.
struct open_item {
  open_item(cbor_value& to, const cbor_token& t, std::size_t start)
      : target(&to),
        kind(t.kind),
        indefinite(t.indefinite),
        left(t.kind == token_kind::tag ? 1
                                       : t.number * (t.kind == token_kind::map ? 2 : 1)),
        tag(t.number),
        offset(start) {}

  /// Returns the place of the next key or value. Places for the announced number of
  /// values exist already, up to `max_reserved`.
  cbor_value& next() {
    left -= indefinite ? 0 : 1;
    const std::size_t place = taken++;
    if (kind != token_kind::map) {
      return place < items.size() ? items[place] : items.emplace_back();
    }
    cbor_entry& entry =
        place / 2 < entries.size() ? entries[place / 2] : entries.emplace_back();
    return place % 2 == 0 ? entry.key : entry.value;
  }
  /// Returns how many of the next values have a place already and do not end the
  /// container. The last place is left out, because filling it closes the container.
  std::size_t ready() const {
    const std::size_t places =
        kind == token_kind::map ? 2 * entries.size() : items.size();
    return places > taken + 1 ? places - taken - 1 : 0;
  }
  /// Returns the next of the places that ready() has counted.
  cbor_value& next_ready() {
    --left;
    const std::size_t place = taken++;
    if (kind != token_kind::map) {
      return items[place];
    }
    cbor_entry& entry = entries[place / 2];
    return place % 2 == 0 ? entry.key : entry.value;
  }
  /// Returns whether this is a map whose last entry has a key and no value yet.
  bool has_key() const { return kind == token_kind::map && taken % 2 != 0; }

  cbor_value* target;  ///< becomes its value; stays where it is until then
  token_kind kind;
  bool indefinite;
  std::uint64_t left;     ///< values still to come, if definite
  std::size_t taken = 0;  ///< values that have come
  std::uint64_t tag;
  std::size_t offset;
  cbor_array items;                 ///< of an array or a tag
  std::vector<cbor_entry> entries;  ///< of a map
};

class decoder {
 public:
  decoder(bytes_view from, cbor_rules rules) : from_(from), rules_(rules) {}

  /// Decodes one item. The loop takes one token per turn: by the fast path if it is an
  /// integer, text, array or map in shortest form, and through libcbor otherwise. It ends
  /// when no container is open. Bytes behind the item are a deviation, and an error if
  /// the rules are strict.
  result<cbor_item> run() {
    stack_.reserve(8);
    // `start_` is where the token begins, for the deviations of a container.
    do {
      cbor_token t;
      if (!stack_.empty()) {
        take_scalars(stack_.back());
      }
      if (!short_token(from_.subspan(offset_), t)) {
        WEIR_CHECK(long_token(t));
      }
      start_ = offset_;
      offset_ += t.size;
      WEIR_CHECK(accept(t));
    } while (!stack_.empty());
    if (offset_ < from_.size()) {
      deviate(offset_, "bytes after the item");
    }
    if (rules_ == cbor_rules::canonical && !item_.deviation.empty()) {
      return error(errc::corrupt, "cannot accept CBOR: expected canonical form, found " +
                                      item_.deviation);
    }
    item_.used = offset_;
    return std::move(item_);
  }

 private:
  /// Decodes integers and texts that follow each other directly into the places of `top`,
  /// with the effect that accept() would have for each. Metadata consists mostly of such
  /// values, and this loop saves them the handling of the stack. Stops before any other
  /// token, before one that is malformed or not in its shortest form, and before the last
  /// value of the container, so that accept() treats those.
  void take_scalars(open_item& top) {
    cbor_token t;
    for (std::size_t n = top.ready(); n > 0; --n) {
      if (!short_token(from_.subspan(offset_), t) || t.kind > token_kind::text ||
          (t.kind == token_kind::text && !is_utf8(t.content))) {
        return;
      }
      offset_ += t.size;
      cbor_value& to = top.next_ready();
      if (t.kind == token_kind::text) {
        put_text(to, t.content, from_);
      } else {
        put<cbor_integer>(to,
                          cbor_integer{t.kind == token_kind::negative_integer, t.number});
      }
    }
  }

  /// Reads any token through libcbor and notes if it is not in its shortest form.
  result<void> long_token(cbor_token& t) {
    auto read = next_token(from_.subspan(offset_));
    if (!read) {
      return std::move(read).error().located(place());
    }
    t = *read;
    if (const std::string_view excess = excess_of(t); !excess.empty()) {
      deviate(offset_, excess);
    }
    return {};
  }

  std::string place() const { return fmt::format("CBOR byte {}", offset_); }
  error bad(std::string_view expected, std::string_view found) const {
    return error(errc::corrupt, fmt::format("cannot decode CBOR: expected {}, found {}",
                                            expected, found))
        .located(place());
  }

  /// Only the first departure is kept.
  void deviate(std::size_t offset, std::string_view text) {
    if (item_.deviation.empty()) {
      item_.deviation = fmt::format("{} at CBOR byte {}", text, offset);
    }
  }

  /// Takes one token: it ends an item, continues a string in chunks, opens a container or
  /// is a value of its own.
  result<void> accept(const cbor_token& t) {
    if (t.kind == token_kind::stop) {
      return close_indefinite();
    }
    if (in_chunks()) {
      return add_chunk(t);
    }
    if (t.kind == token_kind::text && !is_utf8(t.content)) {
      return bad("text in UTF-8", "other bytes");
    }
    if (t.kind >= token_kind::text_chunks) {
      return open(t);
    }
    fill(next_slot(), t);
    return close_full();
  }

  /// Returns the place of the next value.
  cbor_value& next_slot() {
    if (stack_.empty()) {
      return item_.value;
    }
    return stack_.back().next();
  }

  /// Stores a value that contains no others in a place that is null.
  void fill(cbor_value& to, const cbor_token& t) const {
    switch (t.kind) {
      case token_kind::boolean: put<bool>(to, t.boolean); break;
      case token_kind::unsigned_integer:
        put<cbor_integer>(to, cbor_integer{false, t.number});
        break;
      case token_kind::negative_integer:
        put<cbor_integer>(to, cbor_integer{true, t.number});
        break;
      case token_kind::real: put<double>(to, t.real); break;
      case token_kind::text: put_text(to, t.content, from_); break;
      case token_kind::bytes: {
        const bytes_view content = as_view(t.content);
        put<byte_vector>(to, byte_vector(content.begin(), content.end()));
        break;
      }
      default: break;  // null stays as it is; undefined becomes null too
    }
  }

  bool in_chunks() const {
    return !stack_.empty() && (stack_.back().kind == token_kind::text_chunks ||
                               stack_.back().kind == token_kind::byte_chunks);
  }

  /// Appends a piece to the open string. Only definite strings of the same kind may occur
  /// in an indefinite one, and each piece of a text is UTF-8 by itself (RFC 8949, 3.2.3).
  /// Text and bytes share the buffer. Strings in chunks do not nest, so one buffer is
  /// enough.
  result<void> add_chunk(const cbor_token& t) {
    const bool text = stack_.back().kind == token_kind::text_chunks;
    if (t.kind != (text ? token_kind::text : token_kind::bytes)) {
      return bad("a piece of the string", "another item");
    }
    if (text && !is_utf8(t.content)) {
      return bad("text in UTF-8", "other bytes");
    }
    chunks_ += t.content;
    return {};
  }

  /// Opens an item. The number of values that it announces is compared with the bytes
  /// that remain, of which each value takes one at least. An empty definite container is
  /// closed at once.
  result<void> open(const cbor_token& t) {
    const bool container =
        t.kind != token_kind::text_chunks && t.kind != token_kind::byte_chunks;
    if (container && ++depth_ > cbor_depth_limit) {
      return bad(fmt::format("at most {} nested containers", cbor_depth_limit),
                 "one more");
    }
    const std::uint64_t per_item = t.kind == token_kind::map ? 2 : 1;
    if (t.kind != token_kind::tag && t.number > (from_.size() - offset_) / per_item) {
      return bad(fmt::format("{} items", t.number),
                 fmt::format("{} bytes", from_.size() - offset_));
    }
    // `next_slot` is called before the item is pushed, so the place belongs to the
    // container around it.
    open_item& item = stack_.emplace_back(next_slot(), t, start_);
    const std::uint64_t reserved = std::min(t.number, max_reserved);
    if (t.kind == token_kind::map) {
      item.entries.resize(reserved);
    } else if (t.kind == token_kind::array) {
      item.items.resize(reserved);
    }
    return container ? close_full() : result<void>();
  }

  /// Closes the containers whose announced values have all come, from the innermost
  /// outwards.
  result<void> close_full() {
    while (!stack_.empty() && !stack_.back().indefinite && stack_.back().left == 0) {
      close();
    }
    return {};
  }

  /// Ends the innermost item at a "break", which only an indefinite item may have.
  result<void> close_indefinite() {
    if (stack_.empty() || !stack_.back().indefinite) {
      return bad("an item", "the end of an indefinite one");
    }
    if (stack_.back().has_key()) {
      return bad("a value for the last key", "the end of the map");
    }
    close();
    return close_full();
  }

  /// Moves the values of the innermost item to the place that was reserved for it.
  void close() {
    open_item& item = stack_.back();
    switch (item.kind) {
      case token_kind::text_chunks: *item.target = std::exchange(chunks_, {}); break;
      case token_kind::byte_chunks: {
        const bytes_view content = as_view(chunks_);
        put<byte_vector>(*item.target, byte_vector(content.begin(), content.end()));
        chunks_.clear();
        break;
      }
      case token_kind::map: finish_map(item); break;
      case token_kind::tag: finish_tag(item); break;
      default: put<cbor_array>(*item.target, std::move(item.items));
    }
    depth_ -= in_chunks() ? 0 : 1;
    stack_.pop_back();
  }

  /// Puts a map in place. Sorted input, which canonical writers produce, needs no copy
  /// and no sorting; of equal keys in other input the last one counts.
  void finish_map(open_item& item) {
    std::vector<cbor_entry>& entries = item.entries;
    std::size_t sorted = 1;
    while (sorted < entries.size() &&
           cbor_key_before(entries[sorted - 1].key, entries[sorted].key)) {
      ++sorted;
    }
    if (sorted >= entries.size()) {
      put<cbor_map>(*item.target, cbor_map::from_sorted(std::move(entries)));
      return;
    }
    deviate(item.offset, entries[sorted - 1].key == entries[sorted].key
                             ? "a map with a key twice"
                             : "a map with unsorted keys");
    *item.target = cbor_map::from_entries(std::move(entries));
  }

  /// Bignums (tags 2 and 3) of at most 64 bits become integers, as canonical form would
  /// have written them (RFC 8949, 3.4.3).
  void finish_tag(open_item& item) {
    // A tag holds exactly one value, which has come when the tag is closed.
    const byte_vector* big = item.items.front().bytes();
    if ((item.tag == 2 || item.tag == 3) && big != nullptr) {
      const auto first = std::find_if(big->begin(), big->end(),
                                      [](std::byte b) { return b != std::byte{0}; });
      if (big->end() - first <= 8) {
        deviate(item.offset, "a bignum that fits in an integer");
        std::uint64_t bits = 0;
        for (auto b = first; b != big->end(); ++b) {
          bits = bits << 8 | std::to_integer<std::uint64_t>(*b);
        }
        *item.target = cbor_integer{item.tag == 3, bits};
        return;
      }
    }
    *item.target = cbor_tag{item.tag, std::move(item.items)};
  }

  bytes_view from_;
  cbor_rules rules_;
  std::size_t offset_ = 0;
  std::size_t start_ = 0;  ///< of the token under way
  std::size_t depth_ = 0;
  std::vector<open_item> stack_;
  std::string chunks_;  ///< of the indefinite string that is open
  cbor_item item_;
};

}  // namespace

result<cbor_item> decode_cbor(bytes_view from, cbor_rules rules) {
  return decoder(from, rules).run();
}

}  // namespace weir::formats
