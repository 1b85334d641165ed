// SPDX-License-Identifier: Apache-2.0
/// @file
/// Frozen keys, checks, and the model's shape as text.
#include "run/settings.hpp"

#include <gtest/gtest.h>

namespace weir::actors {
namespace {

run_config a_config() {
  run_config c;
  c.out = "folder";
  c.paths = {"a.txt"};
  c.build.tokens = 1000;
  return c;
}

TEST(config_text, agrees_with_the_configuration_it_was_made_of) {
  EXPECT_TRUE(compare_config(config_text(a_config(), 256), a_config()));
}

TEST(config_text, names_the_key_and_both_values_that_differ) {
  const std::string stored = config_text(a_config(), 256);
  run_config c = a_config();
  c.chunk = 128;
  const auto r = compare_config(stored, c);
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code(), errc::config_mismatch);
  EXPECT_EQ(r.error().text(),
            "resuming the run failed for stream.chunk: expected 64, found 128");
}

TEST(config_text, leaves_out_what_a_resumed_run_may_change) {
  const std::string stored = config_text(a_config(), 256);
  run_config c = a_config();
  c.workers = 7;
  c.replicas = replica_policy::per_rank;
  c.prefetch = 0;
  c.trace = runtime::trace_mode::off;
  c.every_tokens = 5;
  c.deadline_s = 3;
  c.name = "other";
  c.out = "elsewhere";
  EXPECT_TRUE(compare_config(stored, c));
}

TEST(config_text, freezes_every_other_key) {
  const std::string stored = config_text(a_config(), 256);
  const std::vector<std::function<void(run_config&)>> changes = {
      [](run_config& c) { c.seed = 2; },
      [](run_config& c) { c.paths = {"b.txt"}; },
      [](run_config& c) { c.eot = false; },
      [](run_config& c) { c.lanes = 2; },
      [](run_config& c) { c.lane_block = 2; },
      [](run_config& c) { c.build.tokens = 1; },
      [](run_config& c) { c.test.tokens = 1; },
      [](run_config& c) { c.stream.pulses = 1; },
      [](run_config& c) { c.width = 64; },
      [](run_config& c) { c.rate = 1.0; },
      [](run_config& c) { c.frequencies = {1}; },
      [](run_config& c) { c.clip = 2; },
      [](run_config& c) { c.end = storage::end_policy::loop; },
      [](run_config& c) { c.boundary = storage::boundary_policy::split; }};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    run_config c = a_config();
    changes[i](c);
    EXPECT_FALSE(compare_config(stored, c)) << i;
  }
}

TEST(config_text, refuses_what_was_stored_under_other_equations) {
  const std::string now =
      "model.equations = " + std::to_string(models::prose_equations) + "\n";
  for (const std::string other : {"", "model.equations = 1\n"}) {
    std::string stored = config_text(a_config(), 256);
    stored.replace(stored.find(now), now.size(), other);
    const auto resumed = compare_config(stored, a_config());
    const auto spoken = model_in(stored);
    ASSERT_FALSE(resumed);
    ASSERT_FALSE(spoken);
    for (const error& why : {resumed.error(), spoken.error()}) {
      EXPECT_EQ(why.code(), errc::config_mismatch);
      EXPECT_NE(why.text().find("expected 2, found 1"), std::string::npos) << why.text();
    }
  }
}

TEST(config_text, gives_the_model_back_bit_for_bit) {
  run_config c = a_config();
  c.rate = 0.1 + 0.2;
  c.frequencies = {1, 4, 256};
  c.lanes = 3;
  const auto back = model_in(config_text(c, 257));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->rate, 0.1 + 0.2);
  EXPECT_EQ(back->frequencies, c.frequencies);
  EXPECT_EQ(back->vocab, 257U);
  EXPECT_EQ(back->lanes, 3U);
  EXPECT_EQ(model_text(*back), model_text(model_of(c, 257)));
}

TEST(config_text, without_a_line_is_corrupt) {
  const auto r = model_in("model.equations = 2\nmodel.width = 128\n");
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code(), errc::corrupt);
  EXPECT_NE(r.error().text().find("model.vocab"), std::string::npos);
}

TEST(check_config, names_the_key_and_its_range) {
  run_config c = a_config();
  c.ranks = 2;
  const auto r = check_config(c);
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code(), errc::invalid_argument);
  EXPECT_EQ(r.error().text(),
            "checking the settings failed for stream.ranks: expected 1 to 1, found 2");
}

TEST(check_config, knows_how_many_replicas_the_lanes_allow) {
  run_config c = a_config();
  c.replicas = replica_policy::per_rank;
  c.lanes = 4;
  for (const std::uint32_t ranks : {1U, 2U, 4U}) {
    c.ranks = ranks;
    EXPECT_TRUE(check_config(c)) << ranks;
  }
  c.ranks = 3;
  const auto r = check_config(c);
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code(), errc::invalid_argument);
  EXPECT_NE(r.error().text().find("stream.ranks"), std::string::npos);
  EXPECT_NE(r.error().message().find("expected 1, 2, 4 of them"), std::string::npos)
      << r.error().message();
  c.replicas = replica_policy::one;
  EXPECT_TRUE(check_config(c));
}

TEST(check_config, warns_of_a_chunk_that_the_slowest_level_never_fills) {
  const auto r = check_config(a_config());
  ASSERT_TRUE(r);
  EXPECT_EQ(r->size(), 1U);
}

TEST(vocabulary_of, has_end_of_text_only_where_it_can_occur) {
  run_config c = a_config();
  EXPECT_EQ(vocabulary_of(c, 1), 256U);
  EXPECT_EQ(vocabulary_of(c, 2), 257U);
  c.eot = false;
  EXPECT_EQ(vocabulary_of(c, 2), 256U);
  c.end = storage::end_policy::loop;
  EXPECT_EQ(vocabulary_of(c, 1), 257U);
}

TEST(total_updates_of, counts_the_shorter_last_pulse_and_knows_a_limit) {
  run_config c = a_config();
  EXPECT_EQ(total_updates_of(c), 16U);
  c.build.tokens = 1024;
  EXPECT_EQ(total_updates_of(c), 16U);
  c.lanes = 4;
  EXPECT_EQ(total_updates_of(c), 4U);
  c.build.pulses = 3;
  EXPECT_EQ(total_updates_of(c), 3U);
}

}  // namespace
}  // namespace weir::actors
