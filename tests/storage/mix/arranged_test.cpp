// SPDX-License-Identifier: Apache-2.0
/// @file
/// Shuffled sources and samples.
#include "storage/mix/mix_support.hpp"

using namespace weir;
using namespace weir::storage;
using namespace weir::test;

TEST(ShuffleSource, PermutesTheUnitsOfEachWindow) {
  for (const std::uint64_t run : {0U, 16U}) {
    const tokens text = documents(0, lengths(101, 7));
    const auto open = [&](std::uint64_t seed) {
      return or_throw(shuffle_source(or_throw(open_memory_tokens(text)), 10, seed, run));
    };
    const auto source = open(3);
    const tokens out = all_of(*source);
    EXPECT_EQ(out.size(), source->size());
    EXPECT_NE(out, all_of(*open(4)));
    auto units = units_of(text, run, false);
    std::size_t at = 0;
    for (std::size_t w = 0; w < units.size(); w += 10) {
      const std::size_t last = std::min(units.size(), w + 10);
      std::vector<std::pair<std::uint64_t, std::size_t>> keys;
      for (std::size_t i = w; i < last; ++i) {
        keys.emplace_back(philox(3, 0x53485546).bits(i), i);
      }
      std::sort(keys.begin(), keys.end());
      for (const auto& [key, i] : keys) {
        for (const std::uint32_t token : units[i]) {
          ASSERT_EQ(out.at(at++), token) << run << " " << w;
        }
      }
    }
    EXPECT_EQ(at, out.size());
    resume_everywhere([&] { return open(3); }, chunks_of(29), 60);
  }
}

TEST(SampleSource, KeepsTheUnitsThatTheirNumbersChoose) {
  for (const std::uint64_t run : {0U, 16U}) {
    const tokens text = documents(0, lengths(300, 8));
    const auto open = [&] {
      return or_throw(sample_source(or_throw(open_memory_tokens(text)), 1, 3, 9, run));
    };
    tokens expected;
    const auto units = units_of(text, run, false);
    for (std::size_t i = 0; i < units.size(); ++i) {
      if (philox(9, 0x53414D50).below(i, 3) < 1) {
        expected.insert(expected.end(), units[i].begin(), units[i].end());
      }
    }
    const auto source = open();
    const tokens out = all_of(*source);
    if (run == 0 && philox(9, 0x53414D50).below(units.size() - 1, 3) < 1) {
      expected.pop_back();  // the last document of the text has no separator
    }
    EXPECT_EQ(out, expected);
    EXPECT_GT(out.size(), text.size() / 5);
    resume_everywhere(open, chunks_of(29), 60);
  }
}

TEST(SampleSource, HasTheSharesOfItsMixture) {
  const auto texts = three_parts(exhaustion::loop, exhaustion::drop, exhaustion::loop);
  const auto mix = open_mix(texts, {});
  const auto all = or_throw(sample_source(open_mix(texts, {}), 1, 1, 9, 0));
  EXPECT_EQ(or_throw(all->shares(700)), or_throw(mix->shares(700)));
  const auto half = or_throw(sample_source(open_mix(texts, {}), 1, 2, 9, 0));
  const auto shares = or_throw(half->shares(700));
  ASSERT_EQ(shares.size(), texts.size());
  EXPECT_GT(shares[0].tokens, or_throw(mix->shares(700))[0].tokens);
}

TEST(MixSource, NestsShufflesAndSamples) {
  const tokens a = documents(0, lengths(200, 9));
  const tokens b = documents(1, lengths(150, 10));
  const auto open = [&](std::uint64_t seed) {
    std::vector<mix_part> parts(2);
    parts[0].source =
        or_throw(shuffle_source(or_throw(open_memory_tokens(a, "a")), 16, seed, 0));
    parts[1].source =
        or_throw(sample_source(or_throw(open_memory_tokens(b, "b")), 1, 2, 4, 0));
    parts[1].weight = 2;
    return or_throw(mix_sources(std::move(parts), {}));
  };
  resume_everywhere([&] { return open(1); }, chunks_of(64), 70);
  const auto stream = or_throw(context_stream::open(chunks_of(64), open(1)));
  read_all(*stream, 64, 0, 9);
  const auto other = or_throw(context_stream::open(chunks_of(64), open(2)));
  EXPECT_EQ(other->restore(or_throw(stream->cursor(1))).error().code(),
            errc::rng_mismatch);
}
