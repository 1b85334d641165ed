// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads the metadata of GGUF files and makes headers of such files.
///
///   "GGUF", version, number of tensors, number of entries
///   entries   key, type of the value, value
///   tensors   name, dimensions, type, offset
///   zeros up to the alignment, then the data of the tensors
///
/// Reading keeps views of the header and interprets a value when it is asked for. Writing
/// collects entries and tensors separately, because their numbers stand in front.
#include "weir/base/container/gguf_metadata.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "weir/base/text.hpp"

namespace weir {

namespace {

/// Returns the error of a header at a byte of the file.
/// The offset is where the walker has stopped.
error bad_metadata(const gguf_walker& at, const std::string& name,
                   std::string_view expected) {
  return error(errc::corrupt,
               fmt::format("cannot read the GGUF header: expected {}, found {}", expected,
                           at.ran_out() ? "the end of the bytes" : "a wrong value"))
      .located(fmt::format("{}:{}", name, at.offset()));
}

/// Reads one entry; returns false if it is wrong or cut.
/// The view of the value begins behind the lengths in front of it: a text without its
/// length, a list without type and count.
bool read_entry(gguf_walker& at, bytes_view head, gguf_entry& to) {
  std::uint32_t number = 0;
  // The key comes first in an entry.
  if (!at.text(to.key) || !at.number(number)) {
    return false;
  }
  // Numbers that are no type fail in `at.value` below.
  to.type = gguf_value{number};
  std::uint64_t begin = at.offset();
  if (to.type == gguf_value::list) {
    // A copy of the walker looks at the head of the list, and the original then skips all
    // of it.
    gguf_walker ahead = at;
    // The walker itself finds out again what is wrong, and whether bytes are missing.
    if (!ahead.list(to.item, to.count)) {
      return at.value(to.type);
    }
    begin = ahead.offset();
  } else if (to.type == gguf_value::text) {
    // A text has its length in front, in eight bytes.
    begin += sizeof(std::uint64_t);
  }
  if (!at.value(to.type)) {
    return false;
  }
  to.value = head.subspan(static_cast<std::size_t>(begin),
                          // The view may be empty, but always lies within the header.
                          static_cast<std::size_t>(at.offset() - begin));
  return true;
}

/// Appends a little-endian number.
template <std::unsigned_integral T>
void put_number(byte_vector& out, T value) {
  out.resize(out.size() + sizeof(T));
  store_le(out.data() + out.size() - sizeof(T), value);
}

/// Appends a text with its length.
void put_text(byte_vector& out, std::string_view text) {
  put_number(out, std::uint64_t{text.size()});
  append(out, as_view(text));
}

/// Reads a whole number of a type of any width; returns nothing for other types and for
/// negative numbers.
std::optional<std::uint64_t> whole_value(const gguf_entry& e) {
  const std::byte* at = e.value.data();
  std::int64_t number = 0;
  // The bytes need not be aligned.
  switch (e.type) {
    case gguf_value::uint8: return load_le<std::uint8_t>(at);
    case gguf_value::uint16: return load_le<std::uint16_t>(at);
    case gguf_value::uint32: return load_le<std::uint32_t>(at);
    case gguf_value::uint64: return load_le<std::uint64_t>(at);
    case gguf_value::int8:
      number = static_cast<std::int8_t>(load_le<std::uint8_t>(at));
      break;
    case gguf_value::int16:
      number = static_cast<std::int16_t>(load_le<std::uint16_t>(at));
      break;
    case gguf_value::int32:
      number = static_cast<std::int32_t>(load_le<std::uint32_t>(at));
      break;
    case gguf_value::int64:
      number = static_cast<std::int64_t>(load_le<std::uint64_t>(at));
      break;
    default: return std::nullopt;
  }
  // A count or size in a file is never negative.
  return number < 0 ? std::nullopt : std::optional(static_cast<std::uint64_t>(number));
}

}  // namespace

result<gguf_metadata> gguf_metadata::read(bytes_view head, std::string name) {
  gguf_metadata out;
  out.head_ = head;
  out.name_ = std::move(name);
  // The walker knows nothing of the file behind the header, so its end is the end of the
  // bytes.
  gguf_walker at(head, head.size());
  gguf_start start;
  if (!at.start(start)) {
    return bad_metadata(at, out.name_, "24 bytes that begin with \"GGUF\"");
  }
  // Version 1 had lengths of 32 bits. Version 3 only adds other byte orders.
  if (start.version != 2 && start.version != 3) {
    return error(
               errc::unsupported_version,
               fmt::format("cannot read the GGUF header: expected version 2 or 3, found "
                           "version {}",
                           start.version))
        .located(fmt::format("{}:4", out.name_));
  }
  // The count is checked before memory is taken for entries.
  if (start.entries > gguf_walker::max_entries) {
    return bad_metadata(at, out.name_,
                        fmt::format("at most {} entries", gguf_walker::max_entries));
  }
  for (std::uint64_t i = 0; i < start.entries; ++i) {
    gguf_entry entry;
    if (!read_entry(at, head, entry)) {
      return bad_metadata(at, out.name_, fmt::format("a key and a value as entry {}", i));
    }
    // The entry refers to the header, which the caller keeps.
    out.entries_.push_back(entry);
  }
  // Sorting finds equal keys in time that a hostile header cannot make quadratic.
  std::vector<std::string_view> keys;
  keys.reserve(out.entries_.size());
  for (const gguf_entry& e : out.entries_) {
    keys.push_back(e.key);
  }
  std::sort(keys.begin(), keys.end());
  const auto twice = std::adjacent_find(keys.begin(), keys.end());
  if (twice != keys.end()) {
    // Two values for one key leave open which of them holds.
    return out.wrong(errc::corrupt, *twice, "one value", "two");
  }
  return out;
}

/// Headers have a few dozen keys, so a search through all is fast enough.
const gguf_entry* gguf_metadata::find(std::string_view key) const noexcept {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const gguf_entry& e) { return e.key == key; });
  return found == entries_.end() ? nullptr : &*found;
}

error gguf_metadata::wrong(errc code, std::string_view key, std::string_view expected,
                           std::string_view found) const {
  const gguf_entry* e = find(key);
  // An entry that is not there has no place.
  const std::string place =
      // The place is that of the value in the header.
      e == nullptr ? name_ : fmt::format("{}:{}", name_, e->value.data() - head_.data());
  return error(code, fmt::format("cannot use the GGUF key {}: expected {}, found {}",
                                 json_quote(key), expected, found))
      .located(place);
}

/// The four functions below have the same form: no value if the key is absent, an error
/// if it has another type.
result<std::optional<std::string_view>> gguf_metadata::text(std::string_view key) const {
  const gguf_entry* e = find(key);
  if (e == nullptr) {
    // An absent key is no error, because most keys are optional.
    return std::optional<std::string_view>();
  }
  if (e->type != gguf_value::text) {
    return wrong(errc::corrupt, key, "a text", name_of(e->type));
  }
  return std::optional(as_text(e->value));
}

result<std::optional<std::uint64_t>> gguf_metadata::whole(std::string_view key) const {
  const gguf_entry* e = find(key);
  if (e == nullptr) {
    return std::optional<std::uint64_t>();
  }
  const auto number = whole_value(*e);
  if (!number) {
    return wrong(errc::corrupt, key, "a whole number that is not negative",
                 // The message names what was found in its place.
                 e->type == gguf_value::list ? "a list" : name_of(e->type));
  }
  return number;
}

/// GGUF has both widths; models are configured in fp32.
result<std::optional<float>> gguf_metadata::real(std::string_view key) const {
  const gguf_entry* e = find(key);
  if (e == nullptr) {
    return std::optional<float>();
  }
  if (e->type == gguf_value::float32) {
    return std::optional(std::bit_cast<float>(load_le<std::uint32_t>(e->value.data())));
  }
  // A value of double precision is rounded.
  if (e->type == gguf_value::float64) {
    return std::optional(static_cast<float>(
        std::bit_cast<double>(load_le<std::uint64_t>(e->value.data()))));
  }
  return wrong(errc::corrupt, key, "a number with a fraction", name_of(e->type));
}

result<std::optional<bool>> gguf_metadata::boolean(std::string_view key) const {
  const gguf_entry* e = find(key);
  if (e == nullptr) {
    return std::optional<bool>();
  }
  // Other bytes than 0 and 1 are refused, although some readers take them for true.
  if (e->type != gguf_value::boolean || static_cast<unsigned>(e->value[0]) > 1) {
    return wrong(errc::corrupt, key, "a boolean of 0 or 1",
                 e->type == gguf_value::boolean ? "another value" : name_of(e->type));
  }
  return std::optional(e->value[0] == std::byte{1});
}

/// Every entry begins with its key and the type of its value.
void gguf_maker::begin_entry(std::string_view key, gguf_value type) {
  ++entry_count_;
  // The length of the key stands in front of it.
  put_text(entries_, key);
  put_number(entries_, static_cast<std::uint32_t>(type));
}

void gguf_maker::text(std::string_view key, std::string_view value) {
  begin_entry(key, gguf_value::text);
  put_text(entries_, value);
}

/// The functions for values differ only in the type that they write.
void gguf_maker::whole(std::string_view key, std::uint32_t value) {
  begin_entry(key, gguf_value::uint32);
  put_number(entries_, value);
}

void gguf_maker::real(std::string_view key, float value) {
  begin_entry(key, gguf_value::float32);
  put_number(entries_, std::bit_cast<std::uint32_t>(value));
}

void gguf_maker::boolean(std::string_view key, bool value) {
  begin_entry(key, gguf_value::boolean);
  put_number(entries_, static_cast<std::uint8_t>(value));
}

/// A list has the type of its elements and their number in front of them.
void gguf_maker::texts(std::string_view key, std::span<const std::string> values) {
  begin_entry(key, gguf_value::list);
  put_number(entries_, static_cast<std::uint32_t>(gguf_value::text));
  put_number(entries_, std::uint64_t{values.size()});
  for (const std::string& value : values) {
    put_text(entries_, value);
  }
}

void gguf_maker::wholes(std::string_view key, std::span<const std::int32_t> values) {
  begin_entry(key, gguf_value::list);
  put_number(entries_, static_cast<std::uint32_t>(gguf_value::int32));
  put_number(entries_, std::uint64_t{values.size()});
  for (const std::int32_t value : values) {
    put_number(entries_, static_cast<std::uint32_t>(value));
  }
}

/// Adds the description of a tensor. The data itself is written by the caller, in the
/// order of these calls.
void gguf_maker::tensor(std::string_view name, std::span<const std::int64_t> shape,
                        std::uint32_t type, std::uint64_t bytes) {
  ++tensor_count_;
  put_text(tensors_, name);
  put_number(tensors_, static_cast<std::uint32_t>(shape.size()));
  // The innermost dimension comes first in the file.
  for (std::size_t i = shape.size(); i-- > 0;) {
    put_number(tensors_, static_cast<std::uint64_t>(shape[i]));
  }
  put_number(tensors_, type);
  // Offsets count from the start of the data.
  put_number(tensors_, data_);
  // The next tensor begins at a multiple of the alignment.
  data_ = align_up(data_ + bytes, alignment);
}

/// Puts the parts together, now that both numbers are known.
byte_vector gguf_maker::header() const {
  const bytes_view magic = as_view("GGUF");
  byte_vector out(magic.begin(), magic.end());
  // The version of the format.
  put_number(out, std::uint32_t{3});
  put_number(out, tensor_count_);
  put_number(out, entry_count_);
  append(out, entries_);
  append(out, tensors_);
  // The data follows at the alignment.
  out.resize(static_cast<std::size_t>(align_up<std::uint64_t>(out.size(), alignment)));
  return out;
}

}  // namespace weir
