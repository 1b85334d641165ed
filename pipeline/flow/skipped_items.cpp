// SPDX-License-Identifier: Apache-2.0
/// @file
/// Ranges of items that a run does not process, and their section of an image.
///
/// A user can name ranges of items that cannot be processed. Their numbers become gaps
/// behind the source. The ranges are part of the image, so a resumed run skips the same
/// ones.
#include "flow/skipped_items.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "epoch/item_record.hpp"
#include "weir/base/record.hpp"

namespace weir::flow {
namespace {

constexpr const char* section_name = "SKIPPED";

/// Items before the checkpoint have been processed and cannot be skipped any more.
result<void> check(const item_range& range, std::uint64_t next_item) {
  if (range.first >= range.last) {
    return error(errc::invalid_argument,
                 fmt::format("cannot skip items: expected a first number below the end "
                             "of the range, found {} and {}",
                             range.first, range.last));
  }
  // Only items that were not processed can be skipped.
  if (range.first < next_item) {
    return error(errc::invalid_argument,
                 fmt::format("cannot skip the items from {} on: expected items from {} "
                             "on, because the checkpoint has processed all before",
                             range.first, next_item))
        .hint("continue from an older generation");
  }
  return {};
}

}  // namespace

/// Takes the ranges of an image and those that the caller adds.
result<skipped_items> skipped_items::create(const std::vector<item_range>& added,
                                            const image* from) {
  skipped_items all;
  if (const image_section* s = from != nullptr ? from->find(section_name) : nullptr) {
    record_reader numbers(s->data);
    // A last range that is cut off makes the reader fail.
    for (std::size_t i = 0; i < s->data.size(); i += 2 * sizeof(std::uint64_t)) {
      item_range& range = all.ranges_.emplace_back();
      range.first = numbers.get<std::uint64_t>();
      range.last = numbers.get<std::uint64_t>();
    }
    if (numbers.failed()) {
      return bad_section(section_name, "pairs of 8-byte numbers",
                         fmt::format("{} bytes", s->data.size()));
    }
  }
  for (const item_range& range : added) {
    WEIR_CHECK(check(range, from != nullptr ? from->next_item : 0));
    all.ranges_.push_back(range);
  }
  return all;
}

/// A linear search: there are few ranges.
bool skipped_items::some_contains(std::uint64_t seq) const noexcept {
  return std::any_of(ranges_.begin(), ranges_.end(),
                     [&](const item_range& r) { return r.first <= seq && seq < r.last; });
}

/// Adds the section, if there are ranges.
void skipped_items::store(image& to) const {
  if (ranges_.empty()) {
    return;
  }
  record_writer numbers;
  for (const item_range& range : ranges_) {
    numbers.put(range.first);
    numbers.put(range.last);
  }
  image_section& s = to.sections.emplace_back();
  s.name = section_name;
  s.data = std::move(numbers).take();
  s.shape = {static_cast<std::int64_t>(s.data.size())};
}

}  // namespace weir::flow
