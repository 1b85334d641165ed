// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the choice of algorithm: the caller, hints and the tuner in that order, and the
/// defaults.
#include <gtest/gtest.h>

#include "weir/collective/choice.hpp"

namespace weir::collective {
namespace {

/// Returns an all-reduce of this many bytes.
collective_call call_of_size(std::size_t bytes, int level = 0) {
  collective_call call;
  call.count = bytes / 4;
  call.level = level;
  return call;
}

/// Returns the choice for a call with these sources.
collective_choice choose(const collective_call& call, int ranks = 8,
                         const topology& shape = {}, const choice_sources& sources = {}) {
  return or_throw(choose_algorithm(call, ranks, shape, sources));
}

TEST(Choice, DefaultsFollowSizeTopologyAndLevel) {
  constexpr std::size_t mib = std::size_t{1} << 20;
  const auto apart = [](int domains) { return topology{domains, 1, false}; };
  EXPECT_EQ(choose(call_of_size(4), 8, apart(1)).how, algorithm::tree);
  EXPECT_EQ(choose(call_of_size(mib / 4), 8, apart(1)).how, algorithm::tree);
  EXPECT_EQ(choose(call_of_size(mib), 8, apart(1)).how, algorithm::tree);
  EXPECT_EQ(choose(call_of_size(8 * mib - 4), 8, apart(1)).how, algorithm::tree);
  EXPECT_EQ(choose(call_of_size(8 * mib), 8, apart(1)).how, algorithm::ring);
  EXPECT_EQ(choose(call_of_size(8 * mib), 8, apart(2)).how, algorithm::hierarchical);
  EXPECT_EQ(choose(call_of_size(8 * mib), 8, apart(8)).how, algorithm::ring);
  EXPECT_EQ(choose(call_of_size(8 * mib), 8, apart(3)).how, algorithm::ring);
  EXPECT_EQ(choose(call_of_size(8 * mib, 1), 8, apart(1)).how, algorithm::direct);
  EXPECT_EQ(choose(call_of_size(4, 2), 8, apart(1)).how, algorithm::direct);
  EXPECT_EQ(choose(call_of_size(4)).level, decided_by::fallback);
  collective_call moves = call_of_size(16 * mib, 1);
  moves.kind = collective_kind::broadcast;
  EXPECT_EQ(choose(moves, 8, apart(1)).how, algorithm::ring);
  moves.kind = collective_kind::all_to_all;
  EXPECT_EQ(choose(moves, 8, apart(1)).how, algorithm::direct);
}

TEST(Choice, RanksThatShareMemoryGoDirectlyByDefault) {
  constexpr std::size_t mib = std::size_t{1} << 20;
  for (const int domains : {1, 2, 8}) {
    for (const std::size_t bytes : {std::size_t{4}, mib, 8 * mib}) {
      EXPECT_EQ(choose(call_of_size(bytes), 8, {domains, 1, true}).how, algorithm::direct)
          << domains << " domains, " << bytes << " bytes";
    }
  }
}

TEST(Choice, HintsComeBeforeTheTunerAndTheCallerBeforeAll) {
  const std::array<collective_hint, 1> hints = {
      collective_hint{collective_kind::all_reduce, 5, 1000, 2000, algorithm::ring, 512}};
  choice_sources sources;
  sources.hints = hints;
  sources.tuner = [](const collective_call& call, int, const topology&) {
    collective_hint found;
    found.kind = call.kind;
    found.how = algorithm::tree;
    found.chunk_bytes = 77;
    return std::optional(found);
  };
  const auto hinted = choose(call_of_size(2000, 1), 8, {}, sources);
  EXPECT_EQ(hinted.how, algorithm::ring);
  EXPECT_EQ(hinted.chunk_bytes, 512U);
  EXPECT_EQ(hinted.level, decided_by::hint);
  for (const std::size_t outside : {996U, 2004U}) {
    const auto tuned = choose(call_of_size(outside, 1), 8, {}, sources);
    EXPECT_EQ(tuned.how, algorithm::tree);
    EXPECT_EQ(tuned.chunk_bytes, 77U);
    EXPECT_EQ(tuned.level, decided_by::tuner);
  }
  collective_call other = call_of_size(2000, 1);
  other.type = dtype::int32;
  EXPECT_EQ(choose(other, 8, {}, sources).level, decided_by::tuner);
  sources.forced = algorithm::direct;
  EXPECT_EQ(choose(call_of_size(2000, 1), 8, {}, sources).level, decided_by::caller);
  sources.forced = algorithm::hierarchical;
  EXPECT_EQ(choose_algorithm(call_of_size(2000, 1), 8, {}, sources).error().code(),
            errc::invalid_argument);
}

TEST(Choice, HintsThatAreNotLegalArePassedOver) {
  std::array<collective_hint, 2> hints;
  hints[0].how = algorithm::hierarchical;
  hints[1].how = algorithm::direct;
  hints[1].wire = wire_format::bf16;
  choice_sources sources;
  sources.hints = hints;
  EXPECT_EQ(choose(call_of_size(4096), 8, {}, sources).level, decided_by::fallback);
  EXPECT_EQ(choose(call_of_size(4096), 8, {2, 1, true}, sources).how,
            algorithm::hierarchical);
  sources.wire_allowed = true;
  const auto rounding = choose(call_of_size(4096), 8, {}, sources);
  EXPECT_EQ(rounding.wire, wire_format::bf16);
  EXPECT_EQ(rounding.level, decided_by::hint);
  // At a level that promises bits, the hint is not used.
  EXPECT_EQ(choose(call_of_size(4096, 1), 8, {}, sources).level, decided_by::fallback);
}

TEST(Choice, TopologiesAndAlgorithmsHaveNames) {
  EXPECT_EQ(or_throw(parse_topology("2x4")).domains, 2);
  EXPECT_EQ(or_throw(parse_topology("3")).domains, 3);
  for (const char* text : {"", "x", "2x", "x4", "0x4", "2x0", "-1x2", "2x4x1", "2 x4"}) {
    EXPECT_FALSE(parse_topology(text)) << text;
  }
  for (const algorithm how :
       {algorithm::direct, algorithm::ring, algorithm::tree, algorithm::hierarchical}) {
    EXPECT_EQ(or_throw(algorithm_named(name_of(how))), how);
  }
  EXPECT_EQ(algorithm_named("star").error().code(), errc::unknown_key);
}

TEST(Choice, DigestsDistinguishCallsByTheirOwnFieldsAlone) {
  collective_call call = call_of_size(400, 1);
  const std::uint64_t digest = digest_of(call);
  collective_call other = call;
  other.root = 3;   // an all_reduce has no root
  other.level = 2;  // the level is part of the descriptor
  EXPECT_EQ(digest_of(other), digest);
  for (int field = 0; field < 5; ++field) {
    other = call;
    switch (field) {
      case 0: other.count = 101; break;
      case 1: other.type = dtype::int32; break;
      case 2: other.op = reduction_op::max; break;
      case 3: other.kind = collective_kind::reduce; break;
      default: other.packed_shards = true; break;
    }
    EXPECT_NE(digest_of(other), digest) << "field " << field;
  }
  call.kind = other.kind = collective_kind::reduce;
  other = call;
  other.root = 1;
  EXPECT_NE(digest_of(other), digest_of(call));
}

}  // namespace
}  // namespace weir::collective
