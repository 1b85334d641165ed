// SPDX-License-Identifier: Apache-2.0
/// @file
/// A chain of sources, at least one of which cannot seek, such as a pipe or a child
/// process. Such a part of the chain is called live.
///
/// The chain reads forward. It finds the end of a live part by reading it; a separator
/// and the next part follow. A chunk ends with a live part, so that no chunk waits for
/// the first token of the next part. Each part keeps its own newest tokens; tokens before
/// the place of a resume come from the cursor.
#include "context/live/live_chain.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "context/identity.hpp"
#include "context/source_states.hpp"
#include "weir/base/clock.hpp"
#include "weir/base/record.hpp"

/// `starts_` grows as ends are found. Once the ends of all parts are known, it has one
/// element more than there are parts.
namespace weir::storage {

namespace {

constexpr std::uint32_t live_chain_version = 1;
/// Number by which the identity differs from other joins of the same leaves.
constexpr std::uint32_t live_chain_rule = 5;

/// Methods take indices of the whole chain and pass indices of a part on.
class live_chain final : public token_source {
 public:
  explicit live_chain(std::vector<std::unique_ptr<token_source>> parts)
      : parts_(std::move(parts)) {
    std::vector<source_leaf> leaves;
    bool listed = true;
    for (const auto& part : parts_) {
      first_leaf_.push_back(leaves.size());
      const source_identity& one = part->identity();
      leaves.insert(leaves.end(), one.leaves.begin(), one.leaves.end());
      // One further leaf per part has the digest of its list.
      leaves.push_back({"", one.list_digest, 0});
      listed = listed && !one.leaves.empty();
    }
    set_leaves(identity_, std::move(leaves), live_chain_rule);
    if (!listed) {
      identity_.leaves.clear();
    }
    starts_ = {0};
    // Parts of known length in front are placed at once.
    find_known_ends();
  }

  std::uint64_t size() const noexcept override { return unknown_size; }
  bool seekable() const noexcept override { return false; }
  bool has_turns() const noexcept override {
    return std::ranges::any_of(parts_, [](const auto& p) { return p->has_turns(); });
  }
  const source_identity& identity() const noexcept override { return identity_; }
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

  /// A read that finds the end of a part stops before the next part if that is live,
  /// because it might have to wait for its tokens.
  ///
  /// Returns fewer tokens at the end of the chain, or where it would wait.
  result<std::size_t> read(std::uint64_t index, std::span<std::uint32_t> to) override {
    // Tokens of the cursor come first.
    std::size_t done = copy_older(index, to);
    bool found_end = false;
    while (done < to.size()) {
      const std::uint64_t at = index + done;
      const std::size_t p = part_of(at);
      const std::uint64_t inside = at - starts_[p];
      const bool last = p + 1 == parts_.size();
      // The next part is live, and an end was found in this call.
      const bool waits = found_end && !last && !parts_[p + 1]->seekable();
      if (inside == length_of(p)) {
        // Nothing follows, or a part that might wait.
        if (last || (waits && done > 0)) {
          break;
        }
        // The separator belongs to the part that has ended.
        to[done++] = separator();
        if (waits) {
          break;
        }
        continue;
      }
      WEIR_TRY(const std::size_t got, parts_[p]->read(inside, to.subspan(done)));
      done += got;
      // A read without tokens is the end of the part.
      if (got == 0) {
        WEIR_CHECK(check_end(p, inside));
        end_part(p, inside);
        found_end = true;
      }
    }
    return done;
  }
  // Returns whether `count` tokens, or the end of a chunk, are there within `wait_ms`.
  result<bool> ready(std::uint64_t index, std::size_t count, int wait_ms) override {
    const std::int64_t until = now_ns() + std::int64_t{wait_ms} * 1'000'000;
    for (;;) {
      // Each round looks at one part; the end of a part leads to the next.
      const std::size_t p = part_of(index);
      const std::uint64_t inside = index - starts_[p];
      if (index < older_end() || inside == length_of(p) || parts_[p]->seekable()) {
        return true;  // `chunk_run` ends before it would wait
      }
      const std::int64_t left = std::max<std::int64_t>(0, until - now_ns());
      const int wait = static_cast<int>((left + 999'999) / 1'000'000);
      WEIR_TRY(const bool there, parts_[p]->ready(inside, count, wait));
      if (!there) {
        return false;
      }
      // A run of 0 tokens means that the part has ended here.
      WEIR_TRY(const std::size_t run, parts_[p]->chunk_run(inside, count));
      if (run > 0) {
        return true;
      }
      end_part(p, inside);
    }
  }
  /// A chunk ends with a turn, before a new context, and with a live part. Behind a part
  /// of known length it goes on up to the next live part.
  ///
  /// Returns how many of `count` tokens belong to one chunk.
  result<std::size_t> chunk_run(std::uint64_t index, std::size_t count) override {
    std::size_t done = older_in(index, count);
    while (done < count) {
      const std::uint64_t at = index + done;
      const std::size_t p = part_of(at);
      const std::uint64_t inside = at - starts_[p];
      if (inside == length_of(p)) {
        if (p + 1 == parts_.size()) {
          break;
        }
        ++done;  // the separator
        if (!parts_[p + 1]->seekable()) {
          break;
        }
        continue;
      }
      // A part of known length is not divided.
      if (parts_[p]->seekable()) {
        done += static_cast<std::size_t>(
            std::min<std::uint64_t>(count - done, length_of(p) - inside));
        continue;
      }
      WEIR_TRY(const std::size_t run, parts_[p]->chunk_run(inside, count - done));
      if (run > 0) {
        return done + run;
      }
      end_part(p, inside);
    }
    return done;
  }
  // Only live parts begin contexts.
  bool begins_context(std::uint64_t index) const override {
    const std::size_t p = part_of(index);
    return parts_[p]->begins_context(index - starts_[p]);
  }

  // The starts that are known so far, without the end of the chain.
  std::vector<std::uint64_t> chained_starts() const override {
    const std::size_t known = std::min(starts_.size(), parts_.size());
    return {starts_.begin(), starts_.begin() + static_cast<std::ptrdiff_t>(known)};
  }
  std::string place_text(std::uint64_t index) const override {
    const std::size_t p = part_of(index);
    return parts_[p]->place_text(index - starts_[p]);
  }
  place place_of(std::uint64_t index) const override {
    const std::size_t p = part_of(index);
    place found = parts_[p]->place_of(index - starts_[p]);
    found.leaf += first_leaf_[p];
    return found;
  }
  // Behind the last document of a part, the next one begins behind the separator.
  result<std::uint64_t> next_document(std::uint64_t index) override {
    const std::size_t p = part_of(index);
    WEIR_TRY(const std::uint64_t inside, parts_[p]->next_document(index - starts_[p]));
    const bool further = p + 1 < parts_.size() && inside == length_of(p);
    return starts_[p] + inside + (further ? 1 : 0);
  }

  // The state has the part, the starts up to it, and the states of this part alone.
  // Parts before it have ended and are not read again.
  result<byte_vector> state(std::uint64_t index) const override {
    const std::size_t p = part_of(index);
    WEIR_TRY(const byte_vector nested, pack_states(*parts_[p], {index - starts_[p]}));
    record_writer out;
    out.put(live_chain_version);
    out.put(static_cast<std::uint32_t>(p));
    out.put_all(std::span<const std::uint64_t>(starts_).first(p + 1));
    out.put_bytes(nested);
    return std::move(out).take();
  }
  // The starts must begin with 0, rise, and not pass `index`.
  result<void> restore_state(std::uint64_t index, bytes_view state) override {
    record_reader from(state);
    const auto version = from.get<std::uint32_t>();
    const auto p = from.get<std::uint32_t>();
    const bool known = version == live_chain_version && p < parts_.size();
    const auto starts = from.get_all<std::uint64_t>(known ? p + std::size_t{1} : 0);
    if (from.failed() || !known || starts.front() != 0 ||
        !std::ranges::is_sorted(starts) || starts.back() > index) {
      return error(errc::corrupt,
                   fmt::format("cannot read the state of a chain at token {}: expected "
                               "the starts of its sources, found {} bytes that are none",
                               index, state.size()));
    }
    WEIR_CHECK(unpack_states(*parts_[p], from.rest()));
    starts_ = starts;
    // Ends behind the current part can be computed again.
    find_known_ends();
    return {};
  }
  // Parts before the current one were read to their end, those behind it not at all.
  result<void> go_on_at(std::uint64_t index) override {
    const std::size_t current = part_of(index);
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      const std::uint64_t before = p < current ? unknown_size : 0;
      WEIR_CHECK(parts_[p]->go_on_at(p == current ? index - starts_[p] : before));
    }
    // Ends of parts may move when ranges are left out, so they are found anew.
    starts_.resize(current + 1);
    find_known_ends();
    return {};
  }
  // Parts that have ended report all of their ranges.
  std::vector<left_out_range> left_out(std::uint64_t index) const override {
    std::vector<left_out_range> all;
    const std::size_t current = part_of(index);
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      const std::uint64_t before = p < current ? unknown_size : 0;
      append_left_out(all, *parts_[p], p == current ? index - starts_[p] : before,
                      first_leaf_[p]);
    }
    return all;
  }
  // `before` are the last tokens of the cursor, which a live part cannot read again.
  result<void> continue_at(std::uint64_t index,
                           std::span<const std::uint32_t> before) override {
    const std::size_t p = part_of(index);
    const std::uint64_t inside = index - starts_[p];
    older_.assign(before.begin(), before.end());
    older_first_ = index - before.size();
    if (parts_[p]->seekable()) {
      return {};
    }
    // Tokens of this part alone.
    const auto own = before.last(std::min<std::size_t>(before.size(), inside));
    return parts_[p]->continue_at(inside, own);
  }

 private:
  /// Returns the number of the part that holds a token. The separator behind a part
  /// belongs to it, and so does all that follows if the end of the part is not known.
  std::size_t part_of(std::uint64_t index) const {
    const auto after = std::ranges::upper_bound(starts_, index);
    const auto found = static_cast<std::size_t>(after - starts_.begin()) - 1;
    return std::min(found, parts_.size() - 1);
  }
  /// Returns the length of a part, or `unknown_size`.
  ///
  /// A part that has not ended has the length that it states itself.
  std::uint64_t length_of(std::size_t p) const {
    return p + 1 < starts_.size() ? starts_[p + 1] - starts_[p] - 1 : parts_[p]->size();
  }
  /// Checks that a part ends where it said.
  result<void> check_end(std::size_t p, std::uint64_t inside) const {
    if (length_of(p) == unknown_size) {
      return {};
    }
    return error(errc::source_unavailable,
                 fmt::format("cannot read source: expected {} tokens, found {}",
                             length_of(p), inside))
        .located(parts_[p]->place_text(inside));
  }
  /// Notes the end of a part, so that the next one has a first token.
  ///
  /// Does nothing if the end is known.
  void end_part(std::size_t p, std::uint64_t length) {
    if (p + 2 > starts_.size()) {
      starts_.push_back(starts_[p] + length + 1);
      find_known_ends();
    }
  }
  /// Notes the ends of the parts that follow and have known lengths. Behind the last part
  /// stands an index that no token has.
  void find_known_ends() {
    while (starts_.size() <= parts_.size()) {
      const token_source& part = *parts_[starts_.size() - 1];
      if (part.size() == unknown_size) {
        return;
      }
      starts_.push_back(starts_.back() + part.size() + 1);
    }
  }
  std::uint64_t older_end() const { return older_first_ + older_.size(); }
  /// Returns how many of `count` tokens from `index` on come from the cursor.
  std::size_t older_in(std::uint64_t index, std::size_t count) const {
    return index < older_first_ || index >= older_end()
               ? 0
               : static_cast<std::size_t>(
                     std::min<std::uint64_t>(count, older_end() - index));
  }
  // Returns how many tokens were copied.
  std::size_t copy_older(std::uint64_t index, std::span<std::uint32_t> to) const {
    const std::size_t count = older_in(index, to.size());
    for (std::size_t i = 0; i < count; ++i) {
      to[i] = older_[static_cast<std::size_t>(index - older_first_) + i];
    }
    return count;
  }

  std::vector<std::unique_ptr<token_source>> parts_;
  std::vector<std::uint64_t> starts_;    ///< first tokens of the parts that are known
  std::vector<std::size_t> first_leaf_;  ///< number of the first leaf of each part
  std::vector<std::uint32_t> older_;     ///< tokens of the cursor
  std::uint64_t older_first_ = 0;        ///< index of the first of them
  source_identity identity_;
};

}  // namespace

/// At least one part is live.
std::unique_ptr<token_source> make_live_chain(
    std::vector<std::unique_ptr<token_source>> parts) {
  return std::make_unique<live_chain>(std::move(parts));
}

}  // namespace weir::storage
