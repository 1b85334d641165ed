// SPDX-License-Identifier: Apache-2.0
/// @file
/// Keeps the ranges that a source leaves out in order and apart.
///
/// A range is bytes of one leaf. It was found damaged, or a user has named it ("by
/// hand"). The two kinds may touch, but never overlap; of one kind, neighbours are
/// joined.
#include "weir/storage/context/left_out.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace weir::storage {

namespace {

/// The order of the list: by leaf, then by byte.
///
/// Ranges of one leaf do not overlap, so the begin is enough.
bool begins_before(const left_out_range& a, const left_out_range& b) {
  return a.leaf != b.leaf ? a.leaf < b.leaf : a.byte < b.byte;
}

/// Last component of a path.
///
/// The whole path if it has no separator.
std::string_view name_in(std::string_view path) {
  return path.substr(path.find_last_of('/') + 1);
}

}  // namespace

/// Returns the numbers of the files that a range names. The whole path counts first.
/// Else the name alone decides, if only one file has it.
result<std::vector<std::uint64_t>> files_of(const file_range& range,
                                            std::span<const std::string> paths) {
  std::vector<std::uint64_t> out;
  // Files with the same last component.
  std::vector<std::uint64_t> named;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (paths[i] == range.file) {
      out.push_back(i);
    } else if (name_in(paths[i]) == name_in(range.file)) {
      named.push_back(i);
    }
  }
  // Two files of one name cannot be told apart.
  if (out.empty() && named.size() == 1) {
    out = named;
  }
  if (out.empty()) {
    return error(errc::not_found,
                 fmt::format("cannot leave a range out of \"{}\": expected one of the "
                             "files that are read, found {} of that name",
                             range.file, named.size()))
        .located(range.file)
        .hint("name the file as the path of the source does");
  }
  return out;
}

/// The text says which numbers a range consists of.
error outside_of_file(const file_range& range, std::string_view name,
                      std::uint64_t tokens) {
  return error(errc::out_of_range,
               fmt::format("cannot leave a range out of \"{}\": expected a range of its "
                           "{} tokens, found {}-{}",
                           name, tokens, range.begin, range.end))
      .located(fmt::format("{}:{}", name, range.begin))
      .hint("a range is the number of its first token and the one behind its last");
}

/// What was consumed is part of what the model has learned.
///
/// The message names the range by its bytes.
error consumed_range(const left_out_range& range, std::string_view name) {
  return error(errc::config_mismatch,
               fmt::format("cannot leave {} bytes out of \"{}\": expected a range behind "
                           "the place at which the run goes on, found one of which "
                           "tokens were consumed",
                           range.bytes, name))
      .located(fmt::format("{}:{}", name, range.byte))
      .hint("--generation goes on from a checkpoint before the range");
}

/// Such ranges need the newer version of a state.
bool left_out_list::any_by_hand() const noexcept {
  return std::ranges::any_of(all_, &left_out_range::by_hand);
}

/// Null if no range of the leaf ends behind the byte.
const left_out_range* left_out_list::first_behind(std::uint64_t leaf,
                                                  std::uint64_t byte) const noexcept {
  // Ranges are in order and apart, so their ends ascend as well.
  const auto found =
      std::partition_point(all_.begin(), all_.end(), [&](const left_out_range& r) {
        return r.leaf < leaf || (r.leaf == leaf && r.byte + r.bytes <= byte);
      });
  return found == all_.end() || found->leaf != leaf ? nullptr : &*found;
}

/// End of the last range of a leaf that ends at `byte` or before; 0 if there is none.
///
/// Not searched by halves, as it is seldom called.
std::uint64_t left_out_list::last_end(std::uint64_t leaf,
                                      std::uint64_t byte) const noexcept {
  std::uint64_t end = 0;
  for (const left_out_range& r : all_) {
    if (r.leaf == leaf && r.byte + r.bytes <= byte) {
      end = r.byte + r.bytes;
    }
  }
  return end;
}

/// Returns the parts of `whole` that no range of the given kind covers.
std::vector<left_out_range> left_out_list::outside(const left_out_range& whole,
                                                   bool by_hand) const {
  std::vector<left_out_range> parts;
  // What is left of the range.
  std::uint64_t at = whole.byte;
  const std::uint64_t end = whole.byte + whole.bytes;
  for (const left_out_range& r : all_) {
    if (r.leaf != whole.leaf || r.by_hand != by_hand || r.byte + r.bytes <= at ||
        r.byte >= end) {
      continue;
    }
    if (r.byte > at) {
      parts.push_back({whole.leaf, at, r.byte - at, whole.by_hand});
    }
    at = r.byte + r.bytes;
  }
  if (at < end) {
    parts.push_back({whole.leaf, at, end - at, whole.by_hand});
  }
  return parts;
}

/// Ranges of the other kind keep their bytes; those of the same kind that touch the new
/// one are joined with it. `name` is that of the leaf, for errors.
result<void> left_out_list::add(const left_out_range& range, std::string_view name) {
  // A part for each gap between ranges of the other kind.
  for (left_out_range one : outside(range, !range.by_hand)) {
    const auto touches = [&](const left_out_range& r) {
      return r.leaf == one.leaf && r.by_hand == one.by_hand &&
             r.byte <= one.byte + one.bytes && one.byte <= r.byte + r.bytes;
    };
    for (auto r = all_.begin(); r != all_.end();) {
      if (!touches(*r)) {
        ++r;
        continue;
      }
      // The union of both.
      const std::uint64_t end = std::max(r->byte + r->bytes, one.byte + one.bytes);
      one.byte = std::min(r->byte, one.byte);
      one.bytes = end - one.byte;
      r = all_.erase(r);
    }
    // At its place in the order.
    all_.insert(std::ranges::lower_bound(all_, one, begins_before), one);
  }
  // A wrong format or vocabulary makes nearly every id a damaged one.
  if (all_.size() > max_left_out) {
    return error(errc::out_of_range,
                 fmt::format("cannot leave ranges out of \"{}\": expected at most {} "
                             "ranges, found more",
                             name, max_left_out))
        .located(fmt::format("{}:{}", name, range.byte))
        .hint("the format or the vocabulary of the file is probably another one");
  }
  return {};
}

/// Drops ranges that begin behind the place.
///
/// A range that begins before it stays whole.
void left_out_list::keep_until(std::uint64_t leaf, std::uint64_t byte) {
  const left_out_range end{leaf, byte, 0};
  std::erase_if(all_, [&](const left_out_range& r) { return begins_before(end, r); });
}

/// Without the kind, all ranges are damage; this is the older form.
void left_out_list::put(record_writer& to, bool with_kind) const {
  // The number cannot exceed the limit of the list.
  to.put(static_cast<std::uint32_t>(all_.size()));
  for (const left_out_range& r : all_) {
    to.put(r.leaf);
    to.put(r.byte);
    to.put(r.bytes);
    if (with_kind) {
      to.put(static_cast<std::uint8_t>(r.by_hand ? 1 : 0));
    }
  }
}

/// Returns false and leaves the list empty if the bytes are not a list in order.
bool left_out_list::get(record_reader& from, bool with_kind) {
  // The number is checked against the bytes that are left.
  all_.assign(from.get_count<std::uint32_t>(with_kind ? 25 : 24), left_out_range());
  bool clean = true;
  for (left_out_range& r : all_) {
    r.leaf = from.get<std::uint64_t>();
    r.byte = from.get<std::uint64_t>();
    r.bytes = from.get<std::uint64_t>();
    const auto kind = with_kind ? from.get<std::uint8_t>() : std::uint8_t{0};
    r.by_hand = kind == 1;
    clean = clean && kind <= 1;
  }
  // A list that is not in order would break the search.
  const bool good = clean && !from.failed() && is_ordered();
  if (!good) {
    all_.clear();
  }
  return good;
}

/// Checks what a decoded list may have wrong: empty ranges, overflows, wrong order and
/// overlaps.
bool left_out_list::is_ordered() const noexcept {
  for (std::size_t i = 0; i < all_.size(); ++i) {
    const left_out_range& r = all_[i];
    if (r.bytes == 0 || r.byte + r.bytes < r.byte) {
      return false;
    }
    // Equal begins are an overlap.
    if (i > 0 &&
        (begins_before(r, all_[i - 1]) ||
         (r.leaf == all_[i - 1].leaf && r.byte < all_[i - 1].byte + all_[i - 1].bytes))) {
      return false;
    }
  }
  return true;
}

}  // namespace weir::storage
