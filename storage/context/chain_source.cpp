// SPDX-License-Identifier: Apache-2.0
/// @file
/// Joins several token sources into one, with a separator between them.
///
/// A token belongs to a part or is the separator behind one. `starts_` has the index of
/// the first token of each part, so a bisection finds the part. Leaves are numbered
/// across all parts, with one further leaf per part that carries the digest of its list.
#include <fmt/core.h>

#include <algorithm>

#include "context/identity.hpp"

namespace weir::storage {

namespace {

/// Several sources, one after another, with their separator between two of them.
class chained_tokens final : public token_source {
 public:
  explicit chained_tokens(std::vector<std::unique_ptr<token_source>> parts)
      : parts_(std::move(parts)) {}

  /// Determines size and identity of the whole.
  result<void> attach() {
    std::vector<source_leaf> leaves;
    bool digested = true;
    bool listed = true;
    for (const auto& part : parts_) {
      starts_.push_back(size_);
      first_leaf_.push_back(leaves.size());
      size_ += part->size() + 1;
      const source_identity& identity = part->identity();
      leaves.insert(leaves.end(), identity.leaves.begin(), identity.leaves.end());
      // A part with too many files to list them is still covered: its list digest takes
      // the place of a leaf.
      leaves.push_back({"", identity.list_digest, 0});
      digested = digested && identity.segment_tokens != 0;
      listed = listed && !identity.leaves.empty();
    }
    // No separator follows the last part.
    --size_;
    identity_.tokens = size_;
    set_leaves(identity_, std::move(leaves), 2);
    if (!listed) {
      identity_.leaves.clear();
    }
    return digested ? digest_content(*this, identity_) : result<void>();
  }
  std::uint64_t size() const noexcept override { return size_; }
  std::uint32_t separator() const noexcept override {
    return parts_.front()->separator();
  }
  std::uint32_t vocabulary() const noexcept override {
    std::uint32_t all = separator() + 1;
    for (const auto& part : parts_) {
      all = std::max(all, part->vocabulary());
    }
    return all;
  }

  result<std::size_t> read(std::uint64_t index, std::span<std::uint32_t> to) override {
    std::size_t done = 0;
    while (done < to.size() && index + done < size_) {
      const std::size_t part = part_of(index + done);
      const std::uint64_t inside = index + done - starts_[part];
      if (inside == parts_[part]->size()) {
        to[done++] = separator();
        continue;
      }
      WEIR_TRY(const std::size_t got, parts_[part]->read(inside, to.subspan(done)));
      if (got == 0) {
        return error(errc::source_unavailable,
                     fmt::format("cannot read source: expected {} tokens, found {}",
                                 parts_[part]->size(), inside))
            .located(parts_[part]->place_text(inside));
      }
      done += got;
    }
    return done;
  }
  std::string place_text(std::uint64_t index) const override {
    const std::size_t part = part_of(index);
    return parts_[part]->place_text(index - starts_[part]);
  }
  place place_of(std::uint64_t index) const override {
    const std::size_t part = part_of(index);
    place p = parts_[part]->place_of(index - starts_[part]);
    p.leaf += first_leaf_[part];
    return p;
  }
  const source_identity& identity() const noexcept override { return identity_; }
  result<std::uint64_t> next_document(std::uint64_t index) override {
    if (index >= size_) {
      return size_;
    }
    const std::size_t part = part_of(index);
    const std::uint64_t end = starts_[part] + parts_[part]->size();
    WEIR_TRY(const std::uint64_t inside,
             parts_[part]->next_document(index - starts_[part]));
    const std::uint64_t next = starts_[part] + inside;
    // If the part holds no further document, the next one begins behind the separator.
    return next < end || next >= size_ ? std::min(next, size_) : end + 1;
  }

 private:
  /// Returns the number of the part that holds a token. The separator behind a part
  /// belongs to it.
  std::size_t part_of(std::uint64_t index) const {
    const auto after = std::upper_bound(starts_.begin(), starts_.end(), index);
    return static_cast<std::size_t>(after - starts_.begin()) - 1;
  }

  std::vector<std::unique_ptr<token_source>> parts_;
  std::vector<std::uint64_t> starts_;    ///< index of the first token of each part
  std::vector<std::size_t> first_leaf_;  ///< number of the first leaf of each part
  std::uint64_t size_ = 0;
  source_identity identity_;
};

}  // namespace

result<std::unique_ptr<token_source>> chain_sources(
    std::vector<std::unique_ptr<token_source>> sources) {
  if (sources.empty()) {
    return error(errc::invalid_argument,
                 "cannot chain sources: expected at least 1, found 0");
  }
  for (const auto& source : sources) {
    if (!source->seekable() || source->rng() || source->size() == unknown_size) {
      return error(
          errc::invalid_argument,
          fmt::format("cannot chain source {}: expected a sequential one of known length "
                      "that can seek",
                      source->place_text(0)));
    }
    if (source->separator() != sources.front()->separator()) {
      return error(
          errc::invalid_argument,
          fmt::format("cannot chain source {}: expected the end-of-text token {} of the "
                      "first one, found {}",
                      source->place_text(0), sources.front()->separator(),
                      source->separator()));
    }
  }
  auto chained = std::make_unique<chained_tokens>(std::move(sources));
  WEIR_CHECK(chained->attach());
  return std::unique_ptr<token_source>(std::move(chained));
}

}  // namespace weir::storage
