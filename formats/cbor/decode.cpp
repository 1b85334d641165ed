// SPDX-License-Identifier: Apache-2.0
/// @file
/// Decoding of CBOR; every length is checked before it is trusted.
// Nesting, order, duplicates and widths are judged here, on a stack of our own, so that
// hostile nesting cannot exhaust the program's.
#include <fmt/core.h>

#include <algorithm>
#include <memory>

#include "cbor/tokens.hpp"
#include "weir/base/utf8.hpp"
#include "weir/formats/cbor.hpp"

namespace weir::formats {

namespace {

/// Longer containers grow: what is announced need not come.
constexpr std::uint64_t most_reserved = 16;

/// Puts a `T` made of `from` where a null stands: there is nothing to destroy first.
template <class T, class... From>
void put(cbor_value& to, From&&... from) noexcept {
  std::construct_at(&to, std::in_place_type<T>, std::forward<From>(from)...);
}

/// Puts a text that lies in `room`. A short one is copied by a fixed size and cut: that
/// takes no call.
void put_text(cbor_value& to, std::string_view text, bytes_view room) {
  constexpr std::size_t at_once = 15;
  const std::size_t behind =
      room.size() - static_cast<std::size_t>(text.data() - as_text(room).data());
  if (text.size() > at_once || behind < at_once) {
    put<std::string>(to, std::string(text));
    return;
  }
  put<std::string>(to, text.data(), at_once);
  const_cast<std::string*>(to.text())->resize(text.size());  // of `to`, just made
}

/// An item whose end has not come yet.
struct open_item {
  open_item(cbor_value& to, const cbor_token& t, std::size_t at)
      : target(&to),
        kind(t.kind),
        indefinite(t.indefinite),
        left(t.kind == token_kind::tag ? 1
                                       : t.number * (t.kind == token_kind::map ? 2 : 1)),
        tag(t.number),
        offset(at) {}

  /// Returns the place of the next key or value. Places for the announced number of
  /// values exist already, up to `most_reserved`.
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
  /// How many of the next places are there, and will hold no container's end.
  std::size_t ready() const {
    const std::size_t places =
        kind == token_kind::map ? 2 * entries.size() : items.size();
    return places > taken + 1 ? places - taken - 1 : 0;
  }
  /// The next of them.
  cbor_value& next_ready() {
    --left;
    const std::size_t place = taken++;
    if (kind != token_kind::map) {
      return items[place];
    }
    cbor_entry& entry = entries[place / 2];
    return place % 2 == 0 ? entry.key : entry.value;
  }
  /// Of a map: the last entry has no value yet.
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

  result<cbor_item> run() {
    stack_.reserve(8);
    do {
      cbor_token t;
      if (!stack_.empty()) {
        take_scalars(stack_.back());
      }
      if (!short_token(from_.subspan(at_), t)) {
        WEIR_CHECK(long_token(t));
      }
      start_ = at_;
      at_ += t.size;
      WEIR_CHECK(accept(t));
    } while (!stack_.empty());
    if (at_ < from_.size()) {
      deviate(at_, "bytes after the item");
    }
    if (rules_ == cbor_rules::canonical && !item_.deviation.empty()) {
      return error(errc::corrupt, "cannot accept CBOR: expected canonical form, found " +
                                      item_.deviation);
    }
    item_.used = at_;
    return std::move(item_);
  }

 private:
  /// Integers and texts in a row, but for the last value of a container: what
  /// accept() would do with each.
  void take_scalars(open_item& top) {
    cbor_token t;
    for (std::size_t n = top.ready(); n > 0; --n) {
      if (!short_token(from_.subspan(at_), t) || t.kind > token_kind::text ||
          (t.kind == token_kind::text && !is_utf8(t.content))) {
        return;
      }
      at_ += t.size;
      cbor_value& to = top.next_ready();
      if (t.kind == token_kind::text) {
        put_text(to, t.content, from_);
      } else {
        put<cbor_integer>(to,
                          cbor_integer{t.kind == token_kind::negative_integer, t.number});
      }
    }
  }

  result<void> long_token(cbor_token& t) {
    auto read = next_token(from_.subspan(at_));
    if (!read) {
      return std::move(read).error().located(place());
    }
    t = *read;
    if (const std::string_view excess = excess_of(t); !excess.empty()) {
      deviate(at_, excess);
    }
    return {};
  }

  std::string place() const { return fmt::format("CBOR byte {}", at_); }
  error bad(std::string_view expected, std::string_view found) const {
    return error(errc::corrupt, fmt::format("cannot decode CBOR: expected {}, found {}",
                                            expected, found))
        .located(place());
  }

  /// Only the first departure is kept.
  void deviate(std::size_t offset, std::string_view what) {
    if (item_.deviation.empty()) {
      item_.deviation = fmt::format("{} at CBOR byte {}", what, offset);
    }
  }

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
      default: break;  // null, and undefined, which becomes null
    }
  }

  bool in_chunks() const {
    return !stack_.empty() && (stack_.back().kind == token_kind::text_chunks ||
                               stack_.back().kind == token_kind::byte_chunks);
  }

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

  result<void> open(const cbor_token& t) {
    const bool container =
        t.kind != token_kind::text_chunks && t.kind != token_kind::byte_chunks;
    if (container && ++depth_ > cbor_depth_limit) {
      return bad(fmt::format("at most {} nested containers", cbor_depth_limit),
                 "one more");
    }
    const std::uint64_t per_item = t.kind == token_kind::map ? 2 : 1;
    if (t.kind != token_kind::tag && t.number > (from_.size() - at_) / per_item) {
      return bad(fmt::format("{} items", t.number),
                 fmt::format("{} bytes", from_.size() - at_));
    }
    open_item& item = stack_.emplace_back(next_slot(), t, start_);
    const std::uint64_t reserved = std::min(t.number, most_reserved);
    if (t.kind == token_kind::map) {
      item.entries.resize(reserved);
    } else if (t.kind == token_kind::array) {
      item.items.resize(reserved);
    }
    return container ? close_full() : result<void>();
  }

  /// Closes the containers that are full now.
  result<void> close_full() {
    while (!stack_.empty() && !stack_.back().indefinite && stack_.back().left == 0) {
      close();
    }
    return {};
  }

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

  /// Bignums that fit become integers, as a writer would have to write them.
  void finish_tag(open_item& item) {
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
  std::size_t at_ = 0;
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
