// SPDX-License-Identifier: Apache-2.0
/// @file
/// Decoding of CBOR; every length is checked before it is trusted.
// Tokens come from libcbor's streaming decoder; nesting, order, duplicates and widths are
// judged here, on a stack of our own, so that hostile nesting cannot exhaust the
// program's.
#include <cbor.h>
#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "cbor/utf8.hpp"
#include "weir/formats/cbor.hpp"

namespace weir::formats {

namespace {

enum class token_kind : std::uint8_t {
  value,  ///< a complete scalar
  text_chunks,
  byte_chunks,
  array,
  map,
  tag,
  stop,  ///< "break": ends an indefinite item
};

struct token {
  token_kind kind = token_kind::value;
  cbor_value scalar;
  std::uint64_t count = 0;  ///< items of an array, pairs of a map, number of a tag
  bool indefinite = false;
};

token& as_token(void* context) {
  return *static_cast<token*>(context);
}

void take_uint(void* context, std::uint64_t v) {
  as_token(context).scalar = cbor_integer{false, v};
}
void take_negative(void* context, std::uint64_t v) {
  as_token(context).scalar = cbor_integer{true, v};
}
void take_real(void* context, double v) {
  as_token(context).scalar = v;
}
void take_container(void* context, token_kind kind, std::uint64_t count,
                    bool indefinite) {
  token& t = as_token(context);
  t.kind = kind;
  t.count = count;
  t.indefinite = indefinite;
}

cbor_callbacks make_callbacks() {
  cbor_callbacks c = cbor_empty_callbacks;
  c.uint8 = [](void* x, std::uint8_t v) { take_uint(x, v); };
  c.uint16 = [](void* x, std::uint16_t v) { take_uint(x, v); };
  c.uint32 = [](void* x, std::uint32_t v) { take_uint(x, v); };
  c.uint64 = [](void* x, std::uint64_t v) { take_uint(x, v); };
  c.negint8 = [](void* x, std::uint8_t v) { take_negative(x, v); };
  c.negint16 = [](void* x, std::uint16_t v) { take_negative(x, v); };
  c.negint32 = [](void* x, std::uint32_t v) { take_negative(x, v); };
  c.negint64 = [](void* x, std::uint64_t v) { take_negative(x, v); };
  c.float2 = [](void* x, float v) { take_real(x, static_cast<double>(v)); };
  c.float4 = [](void* x, float v) { take_real(x, static_cast<double>(v)); };
  c.float8 = [](void* x, double v) { take_real(x, v); };
  c.boolean = [](void* x, bool v) { as_token(x).scalar = v; };
  c.string = [](void* x, cbor_data from, std::size_t n) {
    as_token(x).scalar = std::string(reinterpret_cast<const char*>(from), n);
  };
  c.byte_string = [](void* x, cbor_data from, std::size_t n) {
    const auto* first = reinterpret_cast<const std::byte*>(from);
    as_token(x).scalar = byte_vector(first, first + n);
  };
  c.string_start = [](void* x) { take_container(x, token_kind::text_chunks, 0, true); };
  c.byte_string_start = [](void* x) {
    take_container(x, token_kind::byte_chunks, 0, true);
  };
  c.array_start = [](void* x, std::size_t n) {
    take_container(x, token_kind::array, n, false);
  };
  c.map_start = [](void* x, std::size_t n) {
    take_container(x, token_kind::map, n, false);
  };
  c.indef_array_start = [](void* x) { take_container(x, token_kind::array, 0, true); };
  c.indef_map_start = [](void* x) { take_container(x, token_kind::map, 0, true); };
  c.indef_break = [](void* x) { take_container(x, token_kind::stop, 0, false); };
  return c;
}

/// An item whose end has not come yet. A map collects keys and values in turn.
struct open_item {
  token_kind kind = token_kind::array;
  bool indefinite = false;
  std::uint64_t left = 0;  ///< values still to come, if definite
  std::uint64_t tag = 0;
  std::size_t offset = 0;
  cbor_array items;
  std::string text;
  byte_vector bytes;
};

class decoder {
 public:
  decoder(bytes_view from, cbor_rules rules) : from_(from), rules_(rules) {}

  result<cbor_item> run() {
    stack_.reserve(8);
    while (!done_) {
      token t;
      WEIR_TRY(const std::size_t size, next_token(t));
      note_width(t, size);
      start_ = at_;
      at_ += size;
      WEIR_CHECK(accept(std::move(t)));
    }
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
  error bad(std::string_view expected, std::string_view found) const {
    return error(errc::corrupt, fmt::format("cannot decode CBOR: expected {}, found {}",
                                            expected, found))
        .at(fmt::format("CBOR byte {}", at_));
  }

  /// Only the first departure is kept.
  void deviate(std::size_t offset, std::string_view what) {
    if (item_.deviation.empty()) {
      item_.deviation = fmt::format("{} at CBOR byte {}", what, offset);
    }
  }

  /// Reads one token at at_ and returns its size.
  result<std::size_t> next_token(token& t) const {
    const bytes_view rest = from_.subspan(at_);
    if (rest.empty()) {
      return bad("another item", "the end");
    }
    // libcbor 0.8 refuses tags 6 to 20 in their short form, so tags are read here.
    if (std::to_integer<unsigned>(rest[0]) >> 5 == 6) {
      return next_tag(rest, t);
    }
    static const cbor_callbacks callbacks = make_callbacks();
    const auto* data = reinterpret_cast<cbor_data>(rest.data());
    const cbor_decoder_result r = cbor_stream_decode(data, rest.size(), &callbacks, &t);
    if (r.status == CBOR_DECODER_NEDATA) {
      return bad("a whole item", "the end");
    }
    if (r.status != CBOR_DECODER_FINISHED || r.read == 0) {
      return bad("a known item",
                 fmt::format("byte 0x{:02x}", std::to_integer<unsigned>(rest[0])));
    }
    return r.read;
  }

  result<std::size_t> next_tag(bytes_view rest, token& t) const {
    const unsigned info = std::to_integer<unsigned>(rest[0]) & 31u;
    const std::size_t extra = info < 24 ? 0 : std::size_t{1} << (info - 24);
    if (info > 27) {
      return bad("a tag",
                 fmt::format("byte 0x{:02x}", std::to_integer<unsigned>(rest[0])));
    }
    if (rest.size() < 1 + extra) {
      return bad("a whole tag", "the end");
    }
    std::uint64_t number = info;
    for (std::size_t i = 0; i < extra; ++i) {
      number = (i == 0 ? 0 : number << 8) | std::to_integer<std::uint64_t>(rest[1 + i]);
    }
    t.kind = token_kind::tag;
    t.count = number;
    return 1 + extra;
  }

  /// Notes integers, lengths and floats that are wider than need be.
  void note_width(const token& t, std::size_t size) {
    const auto first = std::to_integer<unsigned>(from_[at_]);
    if (first == 0xF7) {
      deviate(at_, "undefined");
    } else if (t.indefinite) {
      deviate(at_, "an item of indefinite length");
    } else if (t.kind == token_kind::value && t.scalar.kind() == cbor_kind::real) {
      if (encode_cbor(t.scalar).size() != size) {
        deviate(at_, "a float wider than need be");
      }
    } else if (head_value(t) && cbor_head_size(*head_value(t)) != head_size(t, size)) {
      deviate(at_, "an integer or length wider than need be");
    }
  }
  static std::optional<std::uint64_t> head_value(const token& t) {
    if (t.kind != token_kind::value) {
      return t.kind == token_kind::stop ? std::nullopt : std::optional(t.count);
    }
    if (const cbor_integer* integer = t.scalar.integer()) {
      return integer->bits;
    }
    if (t.scalar.text() != nullptr) {
      return t.scalar.text()->size();
    }
    return t.scalar.bytes() != nullptr
               ? std::optional<std::uint64_t>(t.scalar.bytes()->size())
               : std::nullopt;
  }
  static std::size_t head_size(const token& t, std::size_t size) {
    if (t.kind == token_kind::value && t.scalar.text() != nullptr) {
      return size - t.scalar.text()->size();
    }
    if (t.kind == token_kind::value && t.scalar.bytes() != nullptr) {
      return size - t.scalar.bytes()->size();
    }
    return size;
  }

  result<void> accept(token t) {
    if (t.kind == token_kind::stop) {
      return close_indefinite();
    }
    if (in_chunks()) {
      return add_chunk(t);
    }
    if (t.kind != token_kind::value) {
      return open(t);
    }
    if (t.scalar.text() != nullptr && !is_utf8(*t.scalar.text())) {
      return bad("text in UTF-8", "other bytes");
    }
    return add(std::move(t.scalar));
  }

  bool in_chunks() const {
    return !stack_.empty() && (stack_.back().kind == token_kind::text_chunks ||
                               stack_.back().kind == token_kind::byte_chunks);
  }

  result<void> add_chunk(const token& t) {
    open_item& top = stack_.back();
    const bool text = top.kind == token_kind::text_chunks;
    if (t.kind != token_kind::value ||
        (text ? t.scalar.text() == nullptr : t.scalar.bytes() == nullptr)) {
      return bad("a piece of the string", "another item");
    }
    if (text) {
      if (!is_utf8(*t.scalar.text())) {
        return bad("text in UTF-8", "other bytes");
      }
      top.text += *t.scalar.text();
    } else {
      append(top.bytes, *t.scalar.bytes());
    }
    return {};
  }

  result<void> open(const token& t) {
    const bool container =
        t.kind != token_kind::text_chunks && t.kind != token_kind::byte_chunks;
    if (container && ++depth_ > cbor_depth_limit) {
      return bad(fmt::format("at most {} nested containers", cbor_depth_limit),
                 "one more");
    }
    const std::uint64_t per_item = t.kind == token_kind::map ? 2 : 1;
    if (t.kind != token_kind::tag && t.count > (from_.size() - at_) / per_item) {
      return bad(fmt::format("{} items", t.count),
                 fmt::format("{} bytes", from_.size() - at_));
    }
    open_item item;
    item.kind = t.kind;
    item.indefinite = t.indefinite;
    item.left = t.kind == token_kind::tag ? 1 : t.count * per_item;
    item.tag = t.count;
    item.offset = start_;
    // Longer ones grow: what is announced need not come.
    item.items.reserve(std::min<std::uint64_t>(item.left, 32));
    stack_.push_back(std::move(item));
    return container ? close_full() : result<void>();
  }

  /// Puts a finished value into its container, and closes those that are thereby full.
  result<void> add(cbor_value value) {
    if (stack_.empty()) {
      item_.value = std::move(value);
      done_ = true;
      return {};
    }
    open_item& top = stack_.back();
    top.items.push_back(std::move(value));
    if (!top.indefinite) {
      --top.left;
    }
    return close_full();
  }

  result<void> close_full() {
    while (!stack_.empty() && !stack_.back().indefinite && stack_.back().left == 0) {
      open_item item = std::move(stack_.back());
      stack_.pop_back();
      --depth_;
      cbor_value value = finish(std::move(item));
      if (stack_.empty()) {
        item_.value = std::move(value);
        done_ = true;
        return {};
      }
      stack_.back().items.push_back(std::move(value));
      if (!stack_.back().indefinite) {
        --stack_.back().left;
      }
    }
    return {};
  }

  result<void> close_indefinite() {
    if (stack_.empty() || !stack_.back().indefinite) {
      return bad("an item", "the end of an indefinite one");
    }
    if (stack_.back().kind == token_kind::map && stack_.back().items.size() % 2 != 0) {
      return bad("a value for the last key", "the end of the map");
    }
    open_item item = std::move(stack_.back());
    stack_.pop_back();
    if (item.kind == token_kind::text_chunks) {
      return add(std::move(item.text));
    }
    if (item.kind == token_kind::byte_chunks) {
      return add(std::move(item.bytes));
    }
    --depth_;
    return add(finish(std::move(item)));
  }

  cbor_value finish(open_item item) {
    if (item.kind == token_kind::array) {
      return std::move(item.items);
    }
    return item.kind == token_kind::tag ? finish_tag(std::move(item))
                                        : finish_map(std::move(item));
  }

  cbor_value finish_map(open_item item) {
    std::vector<cbor_entry> entries;
    entries.reserve(item.items.size() / 2);
    for (std::size_t i = 0; i + 1 < item.items.size(); i += 2) {
      entries.push_back({std::move(item.items[i]), std::move(item.items[i + 1])});
    }
    for (std::size_t i = 0; i + 1 < entries.size() && item_.deviation.empty(); ++i) {
      if (!cbor_key_before(entries[i].key, entries[i + 1].key)) {
        deviate(item.offset, entries[i].key == entries[i + 1].key
                                 ? "a map with a key twice"
                                 : "a map with unsorted keys");
      }
    }
    return cbor_map::from_entries(std::move(entries));
  }

  /// Bignums that fit become integers, as a writer would have to write them.
  cbor_value finish_tag(open_item item) {
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
        return cbor_integer{item.tag == 3, bits};
      }
    }
    return cbor_tag{item.tag, std::move(item.items)};
  }

  bytes_view from_;
  cbor_rules rules_;
  std::size_t at_ = 0;
  std::size_t start_ = 0;  ///< of the token under way
  std::size_t depth_ = 0;
  bool done_ = false;
  std::vector<open_item> stack_;
  cbor_item item_;
};

}  // namespace

result<cbor_item> decode_cbor(bytes_view from, cbor_rules rules) {
  return decoder(from, rules).run();
}

}  // namespace weir::formats
