// SPDX-License-Identifier: Apache-2.0
/// @file
/// What a sample or a shuffled source says about its tokens by asking its source.
///
/// The two kinds say by `offset_of` where a token lies in the source, and the base class
/// asks the source.
#include "context/mix/unit_source.hpp"

#include "context/identity.hpp"
#include "context/mix/codec.hpp"

namespace weir::storage {

/// The separator may be added by this source.
std::uint32_t unit_source::vocabulary() const noexcept {
  return std::max(source().vocabulary(), separator() + 1);
}

/// Both kinds draw random numbers, so there is always a state.
std::optional<rng_state> unit_source::rng() const {
  token_source* const part = &source();
  return composed_rng(kind_, seed_, std::span(&part, 1));
}

std::string unit_source::place_text(std::uint64_t index) const {
  return source().place_text(offset_of(index));
}

token_source::place unit_source::place_of(std::uint64_t index) const {
  return source().place_of(offset_of(index));
}

/// Separators are searched for, as units are in another order or incomplete.
result<std::uint64_t> unit_source::next_document(std::uint64_t index) {
  return find_document(*this, index);
}

/// Passes the place on to the source. Units before it must stay the same.
result<void> unit_source::go_on_at(std::uint64_t index) {
  if (index == 0 || index == unknown_size) {
    WEIR_CHECK(source().go_on_at(index));
    reader_.forget();
    return forget();
  }
  // The first token of the source that may change.
  WEIR_TRY(const std::uint64_t before, free_from(index));
  if (auto went_on = source().go_on_at(before); !went_on) {
    return refused(std::move(went_on).error());
  }
  reader_.forget();
  // Units are found anew.
  WEIR_CHECK(forget());
  // If the place has moved, what was consumed has changed.
  WEIR_TRY(const std::uint64_t after, free_from(index));
  return after == before ? result<void>() : moved_units(place_text(index));
}

/// The shuffled source explains the error further.
error unit_source::refused(error why) const {
  return why;
}

/// All ranges of the source, since units of any place may be read.
std::vector<left_out_range> unit_source::left_out(std::uint64_t /*index*/) const {
  return source().left_out(unknown_size);
}

/// The numbers become leaves of their own, so that other settings make another identity.
void unit_source::identify(std::uint64_t tokens,
                           std::initializer_list<std::uint64_t> numbers,
                           std::uint32_t rule) {
  std::vector<source_leaf> leaves;
  append_identity(leaves, source().identity());
  for (const std::uint64_t number : numbers) {
    leaves.push_back({"", number, 0});
  }
  identity_.tokens = tokens;
  set_leaves(identity_, std::move(leaves), rule);
  if (source().identity().leaves.empty()) {
    identity_.leaves.clear();
  }
}

}  // namespace weir::storage
