// SPDX-License-Identifier: Apache-2.0
/// @file
/// Encodes and decodes the items of the stages of texts. Every length is checked against
/// the size of the item before it is used.
///
/// An item of either kind has a head, the entries, the name of the file and the content,
/// in this order. Lines are bytes in an array of u64; token ids are an array of u32, so
/// the name is padded to whole elements before them. The stages of a run make these
/// items, but a user can connect other stages, so the reader trusts nothing.
#include "stages/texts/items.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>

#include "weir/base/bytes.hpp"

namespace weir::actors {
namespace {

/// Set in the length of a line that was too long, and therefore has no bytes.
constexpr std::uint64_t too_long_bit = std::uint64_t{1} << 63;

/// First words of both kinds of items.
/// All fields have eight bytes, so there is no padding.
struct text_item_head {
  std::uint64_t file = 0;
  std::uint64_t ends_file = 0;
  std::uint64_t name_bytes = 0;
  std::uint64_t count = 0;  ///< of lines or texts
  std::uint64_t model = 0;  ///< 0 in items of lines
};
/// Describes a line: its bytes stand behind the name of the file.
struct line_entry {
  std::uint64_t number = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};
/// Describes a text: its ids stand behind the name of the file.
struct text_entry {
  std::uint64_t line = 0;
  std::uint64_t offset = 0;
  std::uint64_t ids = 0;
};

/// Error of an item that no stage of texts has made.
error damaged_item(std::string_view kind, std::uint64_t bytes) {
  return error(errc::corrupt,
               fmt::format("cannot read an item of {}: expected what the stages of texts "
                           "make, found {} bytes whose lengths contradict each other",
                           kind, bytes));
}

/// Appends bytes to elements.
/// The last element is filled up with zeros.
template <class Element>
class item_writer {
 public:
  void add(const void* from, std::size_t count) {
    const std::size_t at = used_;
    used_ += count;
    elements_.resize((used_ + sizeof(Element) - 1) / sizeof(Element));
    if (count != 0) {
      std::memcpy(reinterpret_cast<char*>(elements_.data()) + at, from, count);
    }
  }
  /// Goes on at the next whole element.
  void pad() { used_ = elements_.size() * sizeof(Element); }
  std::vector<Element> take() { return std::move(elements_); }

 private:
  std::vector<Element> elements_;
  std::size_t used_ = 0;
};

/// Takes bytes of an item one after another.
/// Callers compare lengths with `left` first.
class item_reader {
 public:
  explicit item_reader(bytes_view bytes) : rest_(bytes) {}
  [[nodiscard]] std::size_t left() const noexcept { return rest_.size(); }
  /// Returns the next bytes, of which there must be as many.
  bytes_view take(std::size_t count) {
    const bytes_view out = rest_.first(count);
    rest_ = rest_.subspan(count);
    return out;
  }
  template <class T>
  T value() {
    T out;
    std::memcpy(&out, take(sizeof(T)).data(), sizeof(T));
    return out;
  }

 private:
  bytes_view rest_;
};

/// Checks the type of the elements, and that the head is complete.
result<bytes_view> bytes_of_item(const runtime::tensor& x, dtype type,
                                 std::string_view kind) {
  WEIR_TRY(const std::int64_t bytes, byte_size(x.type(), x.count()));
  const auto size = static_cast<std::size_t>(bytes);
  if (x.type() != type || size < sizeof(text_item_head)) {
    return damaged_item(kind, size);
  }
  return bytes_view(x.data(), size);
}

/// Reads the head of an item whose entries have a given size.
/// Counts are compared by division, so that no product can overflow.
result<text_item_head> read_item_head(item_reader& from, std::size_t entry,
                                      std::string_view kind) {
  const std::size_t all = from.left();
  const auto head = from.value<text_item_head>();
  if (head.count > from.left() / entry ||
      head.name_bytes > from.left() - head.count * entry || head.ends_file > 1) {
    return damaged_item(kind, all);
  }
  return head;
}

/// `model` is 0 for lines.
text_item_head head_of(const item_origin& from, std::size_t count, std::uint64_t model) {
  return {from.file, from.ends_file ? 1U : 0U, from.name.size(), count, model};
}

}  // namespace

/// Number of ids, which is the number of rows that a model makes of the item.
std::size_t token_item::tokens() const noexcept {
  std::size_t all = 0;
  for (const token_text& one : texts) {
    all += one.ids.size();
  }
  return all;
}

/// Lengths stand in the entries, and the bytes of all lines behind the name.
std::vector<std::uint64_t> encode_line_item(const line_item& item) {
  item_writer<std::uint64_t> out;
  const text_item_head head = head_of(item.from, item.lines.size(), 0);
  out.add(&head, sizeof head);
  for (const text_line& line : item.lines) {
    const line_entry entry{line.number, line.offset,
                           line.bytes.size() | (line.too_long ? too_long_bit : 0)};
    out.add(&entry, sizeof entry);
  }
  out.add(item.from.name.data(), item.from.name.size());
  for (const text_line& line : item.lines) {
    out.add(line.bytes.data(), line.bytes.size());
  }
  return out.take();
}

/// Every line is compared with what is left of the item.
result<line_item> read_line_item(const runtime::tensor& x) {
  WEIR_TRY(const bytes_view bytes, bytes_of_item(x, dtype::uint64, "lines"));
  item_reader in(bytes);
  WEIR_TRY(const text_item_head head, read_item_head(in, sizeof(line_entry), "lines"));
  item_reader entries(in.take(head.count * sizeof(line_entry)));
  line_item out;
  out.from = {head.file, head.ends_file != 0,
              std::string(as_text(in.take(head.name_bytes)))};
  for (std::uint64_t i = 0; i < head.count; ++i) {
    const auto entry = entries.value<line_entry>();
    const std::uint64_t count = entry.bytes & ~too_long_bit;
    if (count > in.left()) {
      return damaged_item("lines", bytes.size());
    }
    out.lines.push_back({entry.number, entry.offset, std::string(as_text(in.take(count))),
                         (entry.bytes & too_long_bit) != 0});
  }
  return out;
}

/// Ids begin at a whole element.
std::vector<std::uint32_t> encode_token_item(const token_item& item) {
  item_writer<std::uint32_t> out;
  const text_item_head head = head_of(item.from, item.texts.size(), item.model);
  out.add(&head, sizeof head);
  for (const token_text& text : item.texts) {
    const text_entry entry{text.line, text.offset, text.ids.size()};
    out.add(&entry, sizeof entry);
  }
  out.add(item.from.name.data(), item.from.name.size());
  out.pad();
  for (const token_text& text : item.texts) {
    out.add(text.ids.data(), text.ids.size_bytes());
  }
  return out.take();
}

/// The ids of the result point into the tensor, which must outlive them.
result<token_item> read_token_item(const runtime::tensor& x) {
  WEIR_TRY(const bytes_view bytes, bytes_of_item(x, dtype::uint32, "texts"));
  constexpr std::size_t element = sizeof(std::uint32_t);
  item_reader in(bytes);
  WEIR_TRY(const text_item_head head, read_item_head(in, sizeof(text_entry), "texts"));
  item_reader entries(in.take(head.count * sizeof(text_entry)));
  token_item out;
  out.model = head.model;
  out.from = {head.file, head.ends_file != 0,
              std::string(as_text(in.take(head.name_bytes)))};
  (void)in.take(in.left() % element);  // up to the next element
  for (std::uint64_t i = 0; i < head.count; ++i) {
    const auto entry = entries.value<text_entry>();
    // A text without ids is never made.
    if (entry.ids == 0 || entry.ids > in.left() / element) {
      return damaged_item("texts", bytes.size());
    }
    const bytes_view ids = in.take(entry.ids * element);
    out.texts.push_back(
        {entry.line,
         entry.offset,
         {reinterpret_cast<const std::uint32_t*>(ids.data()), entry.ids}});
  }
  return out;
}

}  // namespace weir::actors
