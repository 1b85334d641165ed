// SPDX-License-Identifier: Apache-2.0
/// @file
/// Joins several token sources into one, with a separator between them.
///
/// A token belongs to a part or is the separator behind one. `starts_` has the index of
/// the first token of each part, so a bisection finds the part. Leaves are numbered
/// across all parts, with one further leaf per part that carries the digest of its list.
///
/// An example: parts of 5 and 3 tokens have the starts 0 and 6, and a size of 9; token 5
/// is the separator. No separator follows the last part.
#include <fmt/core.h>

#include <algorithm>

#include "context/identity.hpp"
#include "context/live/live_chain.hpp"
#include "context/source_states.hpp"

namespace weir::storage {

namespace {

constexpr std::uint32_t chain_version = 1;

/// Several sources, one after another, with their separator between two of them.
///
/// Parts are seekable and have a known length. Sources that are read once are joined by
/// live_chain.cpp.
class chained_tokens final : public token_source {
 public:
  explicit chained_tokens(std::vector<std::unique_ptr<token_source>> parts)
      : parts_(std::move(parts)) {}

  /// Determines size and identity of the whole. The identity consists of the leaves of
  /// all parts and of digests of segments of the joined tokens, if every part has them.
  result<void> attach() {
    std::vector<source_leaf> leaves;
    bool digested = true;
    bool listed = true;
    // The separators count; ranges that a part leaves out belong to its state, not to
    // the identity.
    identity_.tokens = parts_.size() - 1;
    for (const auto& part : parts_) {
      first_leaf_.push_back(leaves.size());
      const source_identity& identity = part->identity();
      identity_.tokens += identity.tokens;
      leaves.insert(leaves.end(), identity.leaves.begin(), identity.leaves.end());
      // A part with too many files to list them is still covered: its list digest takes
      // the place of a leaf.
      leaves.push_back({"", identity.list_digest, 0});
      // Without digests in one part, or if it leaves tokens out, the whole has none.
      digested =
          digested && identity.segment_tokens != 0 && identity.tokens == part->size();
      listed = listed && !identity.leaves.empty();
    }
    place_parts();
    // The list is dropped if one part has none, because it would be incomplete; its
    // digest stays.
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
  // Large enough for every part and for the separator.
  std::uint32_t vocabulary() const noexcept override {
    std::uint32_t all = separator() + 1;
    for (const auto& part : parts_) {
      all = std::max(all, part->vocabulary());
    }
    return all;
  }

  // A read may go over several parts. It returns fewer tokens only at the end of the
  // chain.
  result<std::size_t> read(std::uint64_t index, std::span<std::uint32_t> to) override {
    std::size_t done = 0;
    while (done < to.size() && index + done < size_) {
      const std::size_t part = part_of(index + done);
      const std::uint64_t inside = index + done - starts_[part];
      // The token behind the last one of a part.
      if (inside == parts_[part]->size()) {
        to[done++] = separator();
        continue;
      }
      WEIR_TRY(const std::size_t got, parts_[part]->read(inside, to.subspan(done)));
      // A part that ends before its size has become shorter.
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
  std::vector<std::uint64_t> chained_starts() const override { return starts_; }
  std::string place_text(std::uint64_t index) const override {
    const std::size_t part = part_of(index);
    return parts_[part]->place_text(index - starts_[part]);
  }
  // The leaf is renumbered for the whole chain.
  place place_of(std::uint64_t index) const override {
    const std::size_t part = part_of(index);
    place p = parts_[part]->place_of(index - starts_[part]);
    p.leaf += first_leaf_[part];
    return p;
  }
  const source_identity& identity() const noexcept override { return identity_; }
  // A document may begin behind a separator.
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

  // One state per part, each behind its length. Parts that were not reached are at 0,
  // and parts that were passed are at their end. Empty if no part has a state.
  result<byte_vector> state(std::uint64_t index) const override {
    record_writer out;
    bool any = false;
    out.put(chain_version);
    out.put(static_cast<std::uint32_t>(parts_.size()));
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      const std::uint64_t inside = index - std::min(index, starts_[p]);
      WEIR_TRY(const byte_vector nested,
               pack_states(*parts_[p], {std::min(inside, parts_[p]->size())}));
      any = any || !nested.empty();
      out.put(static_cast<std::uint64_t>(nested.size()));
      out.put_bytes(nested);
    }
    return any ? std::move(out).take() : byte_vector();
  }
  // Decodes everything first, so that a damaged state changes no part.
  result<void> restore_state(std::uint64_t index, bytes_view state) override {
    record_reader from(state);
    const auto version = from.get<std::uint32_t>();
    const auto count = from.get<std::uint32_t>();
    std::vector<bytes_view> nested;
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      nested.push_back(from.get_bytes(from.get<std::uint64_t>()));
    }
    if (from.failed() || !from.rest().empty() || version != chain_version ||
        count != parts_.size()) {
      return error(errc::corrupt,
                   fmt::format("cannot read the state of a chain at token {}: expected "
                               "the states of {} sources, found {} bytes that are none",
                               index, parts_.size(), state.size()));
    }
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      // From here on a failure leaves the chain half restored; the caller gives it up.
      WEIR_CHECK(unpack_states(*parts_[p], nested[p]));
    }
    place_parts();  // the size of a part may depend on its state
    return {};
  }
  // Passes the place on to every part, as in `state`.
  result<void> go_on_at(std::uint64_t index) override {
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      const std::uint64_t inside = index - std::min(index, starts_[p]);
      WEIR_CHECK(parts_[p]->go_on_at(std::min(inside, parts_[p]->size())));
    }
    place_parts();
    return {};
  }
  // Ranges of all parts, with the numbers of their leaves.
  std::vector<left_out_range> left_out(std::uint64_t index) const override {
    std::vector<left_out_range> all;
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      const std::uint64_t inside = index - std::min(index, starts_[p]);
      append_left_out(all, *parts_[p], std::min(inside, parts_[p]->size()),
                      first_leaf_[p]);
    }
    return all;
  }

 private:
  /// Gives each part its first index. No separator follows the last part.
  void place_parts() {
    starts_.clear();
    size_ = 0;
    for (const auto& part : parts_) {
      starts_.push_back(size_);
      // One more for the separator, which the last part does not have.
      size_ += part->size() + 1;
    }
    --size_;
  }
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

/// Refuses sources that are shuffled (they have a generator) or endless. If one of them
/// is read once, the chain of live sources takes all of them.
result<std::unique_ptr<token_source>> chain_sources(
    std::vector<std::unique_ptr<token_source>> sources) {
  if (sources.empty()) {
    return error(errc::invalid_argument,
                 "cannot chain sources: expected at least 1, found 0");
  }
  for (const auto& source : sources) {
    if (source->rng() || (source->seekable() && source->size() == unknown_size)) {
      return error(
          errc::invalid_argument,
          fmt::format(
              "cannot chain source {}: expected a sequential one, whose length is "
              "known or that is read once",
              source->place_text(0)));
    }
    // Text would otherwise change the meaning of a token at a border.
    if (source->separator() != sources.front()->separator()) {
      return error(
          errc::invalid_argument,
          fmt::format("cannot chain source {}: expected the end-of-text token {} of the "
                      "first one, found {}",
                      source->place_text(0), sources.front()->separator(),
                      source->separator()));
    }
  }
  if (!std::ranges::all_of(sources, [](const auto& s) { return s->seekable(); })) {
    return make_live_chain(std::move(sources));
  }
  auto chained = std::make_unique<chained_tokens>(std::move(sources));
  WEIR_CHECK(chained->attach());
  return std::unique_ptr<token_source>(std::move(chained));
}

}  // namespace weir::storage
