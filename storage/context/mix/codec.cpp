// SPDX-License-Identifier: Apache-2.0
/// @file
/// Encodes states of mixtures, and makes identities of composed sources.
#include "context/mix/codec.hpp"

#include <fmt/core.h>

#include "context/identity.hpp"
#include "context/source_states.hpp"
#include "weir/base/hash.hpp"

/// The state of a mixture is the place in its plan, and the states of its parts at the
/// places that the plan has reached there.
namespace weir::storage {

namespace {

constexpr std::uint32_t mix_version = 1;
/// Number by which the identity of a mixture differs from other joins of its leaves.
constexpr std::uint32_t mix_rule = 3;

/// Returns the indices of a part whose states a resume needs. A part that was begun again
/// may know more at its end than at its offset.
std::vector<std::uint64_t> needed_states(const token_source& part, std::uint64_t rounds,
                                         std::uint64_t offset) {
  return rounds > 0 && part.size() != unknown_size
             ? std::vector<std::uint64_t>{offset, part.size()}
             : std::vector<std::uint64_t>{offset};
}

/// One text for all contradictions.
error not_a_state(std::size_t bytes) {
  return error(errc::corrupt,
               fmt::format("cannot read the state of a mixture: expected its counters, "
                           "found {} bytes that contradict each other",
                           bytes));
}

}  // namespace

/// `reached` says how far each part was read, which may be further than `state.place`.
result<byte_vector> encode_mix_state(const mix_state& state,
                                     std::span<token_source* const> parts,
                                     const mix_place& reached) {
  record_writer out;
  out.put(mix_version);
  out.put(static_cast<std::uint32_t>(parts.size()));
  out.put(state.inside);
  put_place(out, state.place);
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const part_place& part = reached.parts[p];
    WEIR_TRY(const byte_vector nested,
             pack_states(*parts[p], needed_states(*parts[p], part.rounds, part.offset)));
    out.put(static_cast<std::uint64_t>(nested.size()));
    out.put_bytes(nested);
  }
  return std::move(out).take();
}

/// Decodes everything first, so that a damaged state changes no part.
result<mix_state> decode_mix_state(bytes_view bytes,
                                   std::span<token_source* const> parts) {
  record_reader from(bytes);
  const auto version = from.get<std::uint32_t>();
  const auto count = from.get<std::uint32_t>();
  if (from.failed() || version != mix_version || count != parts.size()) {
    return not_a_state(bytes.size());
  }
  mix_state out;
  out.inside = from.get<std::uint64_t>();
  // The plan checks its own counters.
  const std::optional<mix_place> place = get_place(from, count);
  if (!place || out.inside >= position_bound) {
    return not_a_state(bytes.size());
  }
  out.place = *place;
  std::vector<bytes_view> nested;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    nested.push_back(from.get_bytes(from.get<std::uint64_t>()));
  }
  if (from.failed() || !from.rest().empty()) {
    return not_a_state(bytes.size());
  }
  // From here on parts are changed.
  for (std::size_t p = 0; p < parts.size(); ++p) {
    WEIR_CHECK(unpack_states(*parts[p], nested[p]));
    // The size of a part may depend on its state.
    const std::uint64_t size = parts[p]->size();
    // A part cannot have been read behind its end.
    if (size != unknown_size && out.place.parts[p].offset > size) {
      return not_a_state(bytes.size());
    }
  }
  return out;
}

/// `first_leaf` gets the number of the first leaf of each part. The digest of the plan
/// is a leaf of its own, so other weights make another identity.
source_identity mix_identity(std::span<token_source* const> parts, const mix_plan& plan,
                             std::vector<std::size_t>& first_leaf) {
  source_identity out;
  std::vector<source_leaf> leaves;
  bool listed = true;
  for (const token_source* part : parts) {
    first_leaf.push_back(leaves.size());
    append_identity(leaves, part->identity());
    listed = listed && !part->identity().leaves.empty();
  }
  leaves.push_back({"", plan.digest(), 0});
  set_leaves(out, std::move(leaves), mix_rule);
  if (!listed) {
    out.leaves.clear();
  }
  return out;
}

/// Returns a generator state for a cursor if the mixture or any part draws random
/// numbers. Its fields are digests by which a resume compares; `own` counts the draws of
/// the mixture itself.
std::optional<rng_state> composed_rng(std::uint64_t own, std::uint64_t seed,
                                      std::span<token_source* const> parts) {
  record_writer nested;
  bool random = own != 0;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    if (const auto rng = parts[p]->rng()) {
      random = true;
      nested.put(static_cast<std::uint64_t>(p));
      nested.put(rng->key);
      nested.put(rng->counter_low);
      nested.put(rng->counter_high);
    }
  }
  if (!random) {
    return std::nullopt;
  }
  const std::uint64_t digest = nested.size() == 0 ? 0 : xxh3_64(nested.view());
  return rng_state{1, 1, own == 0 ? 0 : seed, own, digest};
}

}  // namespace weir::storage
