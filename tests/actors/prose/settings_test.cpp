// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the settings of a run: ranges, stored configurations, and the settings that a
/// resumed run may change.
#include "stages/prose/job/settings.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "stages/prose/job/stored_config.hpp"
#include "support/temp_folder.hpp"
#include "weir/base/settings.hpp"

namespace weir::actors {
namespace {

/// Returns the smallest configuration that is complete.
run_config a_config() {
  run_config c;
  c.folder = "folder";
  c.source.paths = {"a.txt"};
  c.phase.build.tokens = 1000;
  return c;
}

TEST(config_text, agrees_with_the_configuration_it_was_made_of) {
  EXPECT_TRUE(compare_config(config_text(a_config(), 256), a_config()));
}

TEST(config_text, keeps_a_value_with_a_line_break_on_one_line) {
  run_config c = a_config();
  const std::string plain = config_text(c, 256);
  c.source.paths = {"a\nb.txt"};
  const std::string stored = config_text(c, 256);
  EXPECT_EQ(std::ranges::count(stored, '\n'), std::ranges::count(plain, '\n'));
  const auto changes = compare_config(stored, c);
  ASSERT_TRUE(changes) << changes.error().message();
  EXPECT_TRUE(changes->empty());
  c.source.paths = {"a\nc.txt"};
  EXPECT_EQ(or_throw(compare_config(stored, c)).size(), 1U);
}

TEST(config_text, names_the_setting_and_both_values_that_differ) {
  const std::string stored = config_text(a_config(), 256);
  run_config c = a_config();
  c.model.width = 64;
  const auto r = compare_config(stored, c);
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code(), errc::config_mismatch);
  EXPECT_EQ(r.error().text(),
            "resuming the run failed for model.width: expected 128, found 64");
}

/// Returns a value of a setting that differs from its value in `c`.
setting_value another_value(const setting<run_config>& s, const run_config& c) {
  if (s.name == "stream.path" || s.name == "stream.chain" ||
      s.name == "stream.mix.sources" || s.name == "stream.mix.curriculum") {
    return {setting_value::list{{std::string("b.txt")}}};
  }
  if (s.name == "phase.order") {
    return {setting_value::list{{std::string("test")}}};
  }
  if (s.name == "stream.mix.exhausted") {
    return {std::string("drop")};
  }
  if (s.name == "model.frequencies" || s.name == "stream.mix.weights") {
    return {setting_value::list{{std::int64_t{1}}}};
  }
  for (const setting_value& value :
       std::initializer_list<setting_value>{{std::int64_t{16}},
                                            {std::int64_t{32}},
                                            {0.25},
                                            {true},
                                            {false},
                                            {std::string("split")},
                                            {std::string("loop")},
                                            {std::string("per_rank")},
                                            {std::string("off")},
                                            {std::string("random")},
                                            {std::string("u16")},
                                            {std::string("skip")},
                                            {std::string("grown")},
                                            {std::string("fresh")},
                                            {std::string("x86-64")},
                                            {std::string("other")},
                                            {std::string("a:0-5")}}) {
    run_config changed = c;
    if (s.accepts(value) && (s.set(changed, value), s.get(changed) != s.get(c))) {
      return value;
    }
  }
  ADD_FAILURE() << "no other value is known for " << s.name;
  return {};
}

TEST(config_text, freezes_every_setting_that_may_not_change) {
  const std::string stored = config_text(a_config(), 256);
  std::size_t frozen = 0;
  for (const auto& s : run_settings().entries()) {
    run_config c = a_config();
    s.set(c, another_value(s, c));
    const auto compared = compare_config(stored, c);
    EXPECT_EQ(compared.has_value(), rule_of_change(s.name) != change_rule::fixed)
        << s.name;
    if (compared) {
      EXPECT_EQ(compared->size(), s.may_change ? 0U : 1U) << s.name;
    } else {
      ++frozen;
      EXPECT_EQ(compared.error().code(), errc::config_mismatch);
      EXPECT_NE(compared.error().text().find(s.name + ":"), std::string::npos)
          << compared.error().text();
    }
  }
  EXPECT_EQ(frozen, 29U);
}

TEST(config_text, holds_named_sources_with_what_differs_from_the_defaults) {
  run_config c = a_config();
  const std::string before = config_text(c, 256);
  c.sources["one"].paths = {"b.txt"};
  const std::string stored = config_text(c, 256);
  EXPECT_EQ(value_in(stored, "source.one.path").value_or(""), "b.txt");
  EXPECT_FALSE(value_in(stored, "source.one.eot"));
  EXPECT_TRUE(compare_config(stored, c));
  const auto change = [](const std::string& text, const run_config& config) {
    const auto all = or_throw(compare_config(text, config));
    return all.size() == 1 ? all[0].key + ": " + all[0].from + " -> " + all[0].to : "";
  };
  EXPECT_EQ(change(before, c), "source.one.path:  -> b.txt");
  EXPECT_EQ(change(stored, a_config()), "source.one.path: b.txt -> none");
  c.sources["one"].eot = false;
  EXPECT_EQ(change(stored, c), "source.one.eot: true -> false");
}

TEST(config_text, refuses_another_meaning_of_the_ids_of_a_source_but_not_a_new_source) {
  run_config c = a_config();
  const std::string without = config_text(c, 256);
  c.sources["one"].paths = {"b.bin"};
  const std::string stored = config_text(c, 256);
  c.sources["one"].format = storage::token_format::u16;
  const auto refused = compare_config(stored, c);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), errc::config_mismatch);
  EXPECT_NE(refused.error().text().find("source.one.format:"), std::string::npos);
  EXPECT_EQ(or_throw(compare_config(without, c)).size(), 2U);
  c.sources["one"].format = storage::token_format::automatic;
  c.sources["one"].shuffle.window = 5;
  const auto shuffled = compare_config(stored, c);
  ASSERT_FALSE(shuffled);
  EXPECT_NE(shuffled.error().text().find("source.one.shuffle.window:"),
            std::string::npos);
}

TEST(check_config, asks_for_the_text_of_every_source) {
  run_config c = a_config();
  c.sources["one"].eot = false;
  EXPECT_EQ(check_config(c).error().text(),
            "cannot use setting \"source.one.path\" of the run: expected a string or an "
            "array of strings, none of them empty, found none");
}

TEST(config_text, has_the_bytes_that_checkpoints_have_always_had) {
  run_config c = a_config();
  c.source.paths = {"/x/a.txt", "/x/b.txt"};
  c.source.eot = false;
  c.seed = 12;
  c.stream.chunk = 128;
  c.stream.lanes = 4;
  c.stream.ranks = 2;
  c.stream.end = storage::end_policy::loop;
  c.stream.boundary = storage::boundary_policy::at_next_chunk;
  c.phase.test.tokens = one_pass;
  c.phase.stream.pulses = 7;
  c.model.epsilon = 1e-9;
  c.model.rate = 0.1 + 0.2;
  EXPECT_EQ(config_text(c, 257), R"(seed = 12
stream.path = /x/a.txt | /x/b.txt
stream.eot = false
stream.chunk = 128
stream.lanes = 4
stream.lane_block = 1
stream.end = loop
stream.boundary = at_next_chunk
phase.build.tokens = 1000
phase.build.pulses = 0
phase.test.tokens = 18446744073709551615
phase.test.pulses = 0
phase.stream.tokens = 0
phase.stream.pulses = 7
model.equations = 2
model.width = 128
model.blocks = 2
model.heads = 2
model.hidden = 256
model.frequencies = 1 8 64 512
model.rate = 0.30000000000000004
model.warm_up = 100
model.final_rate = 0.1
model.beta1 = 0.9
model.beta2 = 0.99
model.epsilon = 1e-09
model.decay = 0.01
model.clip = 1
model.vocab = 257
)");
}

TEST(model_text, has_the_bytes_that_volumes_have_always_had) {
  run_config c = a_config();
  c.stream.lanes = 3;
  EXPECT_EQ(model_text(model_of(c, 256)), R"(model.equations = 2
model.width = 128
model.blocks = 2
model.heads = 2
model.hidden = 256
model.frequencies = 1 8 64 512
model.rate = 0.0015
model.warm_up = 100
model.final_rate = 0.1
model.beta1 = 0.9
model.beta2 = 0.99
model.epsilon = 1e-08
model.decay = 0.01
model.clip = 1
model.vocab = 256
seed = 1
stream.lanes = 3
stream.chunk = 64
)");
}

TEST(model_in, refuses_a_value_that_no_model_has) {
  for (const auto& [line, wrong] :
       std::initializer_list<std::pair<std::string, std::string>>{
           {"model.heads = 2\n", "model.heads = 17\n"},
           {"model.heads = 2\n", "model.heads = 4294967298\n"},
           {"model.heads = 2\n", "model.heads = two\n"},
           {"model.rate = 0.0015\n", "model.rate = 0.0015x\n"},
           {"model.frequencies = 1 8 64 512\n", "model.frequencies = 1 8 x\n"},
           {"model.frequencies = 1 8 64 512\n", "model.frequencies = \n"}}) {
    std::string text = model_text(model_of(a_config(), 256));
    text.replace(text.find(line), line.size(), wrong);
    const auto model = model_in(text);
    ASSERT_FALSE(model) << wrong;
    EXPECT_EQ(model.error().code(), errc::corrupt) << wrong;
  }
}

TEST(config_text, refuses_models_stored_under_other_equations) {
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
  c.model.rate = 0.1 + 0.2;
  c.model.frequencies = {1, 4, 256};
  c.stream.lanes = 3;
  const auto back = model_in(config_text(c, 257));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->rate, 0.1 + 0.2);
  EXPECT_EQ(back->frequencies, c.model.frequencies);
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

TEST(check_config, names_the_setting_and_its_range) {
  run_config c = a_config();
  c.stream.ranks = 2;
  const auto r = check_config(c);
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code(), errc::invalid_argument);
  EXPECT_EQ(
      r.error().text(),
      "cannot use setting \"ranks\" of the stream: expected at most 1, one for each "
      "lane, found 2");
  c = a_config();
  c.model.heads = 32;
  EXPECT_EQ(
      check_config(c).error().text(),
      "cannot use setting \"model.heads\" of the run: expected an integer from 1 to "
      "16, found integer 32");
}

TEST(check_config, asks_for_a_text_and_a_folder) {
  run_config c = a_config();
  c.source.paths.clear();
  EXPECT_NE(check_config(c).error().text().find("stream.path"), std::string::npos);
  c = a_config();
  c.folder.clear();
  EXPECT_EQ(check_config(c).error().code(), errc::invalid_argument);
}

TEST(check_config, knows_how_many_replicas_the_lanes_allow) {
  run_config c = a_config();
  c.replicas = replica_policy::per_rank;
  c.stream.lanes = 4;
  for (const std::uint32_t ranks : {1U, 2U, 4U}) {
    c.stream.ranks = ranks;
    EXPECT_TRUE(check_config(c)) << ranks;
  }
  c.stream.ranks = 3;
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
  const test::temp_folder folder;
  for (const char* name : {"a", "b"}) {
    or_throw(write_file_atomically(posix_file_system(), folder / name, as_view("text")));
  }
  run_config c = a_config();
  c.source.paths = {folder / "a"};
  EXPECT_EQ(or_throw(vocabulary_of(c, c.source)), 256U);
  c.source.paths.push_back(folder / "b");
  EXPECT_EQ(or_throw(vocabulary_of(c, c.source)), 257U);
  c.source.eot = false;
  EXPECT_EQ(or_throw(vocabulary_of(c, c.source)), 256U);
  c.stream.end = storage::end_policy::loop;
  EXPECT_EQ(or_throw(vocabulary_of(c, c.source)), 257U);
  c.source.paths = {"-"};
  EXPECT_EQ(or_throw(vocabulary_of(c, c.source)), 257U);
  c.stream.end = storage::end_policy::stop;
  EXPECT_EQ(or_throw(vocabulary_of(c, c.source)), 256U);
}

TEST(needed_vocabulary, covers_the_sources_of_phases_and_of_a_chain) {
  const test::temp_folder folder;
  or_throw(write_file_atomically(posix_file_system(), folder / "a.bin", as_view("text")));
  run_config c = a_config();
  c.source.paths = {folder / "a.bin"};
  c.source.format = storage::token_format::u16;
  c.source.vocabulary = 50257;
  c.source.eot_id = 50256;
  c.sources["wide"] = c.source;
  c.sources["wide"].vocabulary = 0;
  EXPECT_EQ(or_throw(needed_vocabulary(c)), 50257U);
  c.chain = {"wide"};
  c.stream.end = storage::end_policy::chain;
  EXPECT_EQ(or_throw(needed_vocabulary(c)), 65536U);
  c.stream.end = storage::end_policy::stop;
  c.phase.test_source = "wide";
  EXPECT_EQ(or_throw(needed_vocabulary(c)), 65536U);
}

TEST(vocabulary_of, has_a_new_id_behind_those_of_a_child_process) {
  run_config c = a_config();
  c.source.paths.clear();
  c.source.command = {"child"};
  EXPECT_EQ(or_throw(vocabulary_of(c, c.source)), 257U);
  c.source.vocabulary = 300;
  EXPECT_EQ(or_throw(vocabulary_of(c, c.source)), 301U);
  c.source.eot = false;
  EXPECT_EQ(or_throw(vocabulary_of(c, c.source)), 300U);
  c.source.turns = true;
  EXPECT_EQ(or_throw(vocabulary_of(c, c.source)), 301U);
}

TEST(check_config, refuses_settings_of_token_files_beside_a_tokenizer) {
  run_config c = a_config();
  c.source.tokenizer = "tokenizer.json";
  EXPECT_TRUE(check_config(c));
  c.source.format = storage::token_format::u16;
  EXPECT_EQ(
      check_config(c).error().text(),
      "cannot use setting \"stream.format\" of the run: expected its default beside "
      "a tokenizer, found another value");
  c.source = a_config().source;
  c.sources["one"].paths = {"a"};
  c.sources["one"].tokenizer = "tokenizer.json";
  c.sources["one"].vocabulary = 5;
  EXPECT_NE(check_config(c).error().text().find("source.one.vocabulary"),
            std::string::npos);
}

TEST(check_config, refuses_ranges_that_no_file_has) {
  run_config c = a_config();
  for (const char* text :
       {"a", "a:", "a:5", "a:5-5", "a:9-5", ":1-2", "a:1-2x", "a:-1-2"}) {
    c.source.skip = {text};
    EXPECT_FALSE(check_config(c)) << text;
  }
  c.source.skip = {"folder/a:b:1-2"};
  EXPECT_TRUE(check_config(c));
  EXPECT_EQ(or_throw(skipped_ranges(c.source)),
            (std::vector<storage::file_range>{{"folder/a:b", 1, 2}}));
  c.source.paths = {"-"};
  EXPECT_EQ(check_config(c).error().text(),
            "cannot use setting \"stream.skip\" of the run: expected files in "
            "stream.path, found none");
}

TEST(replace_paths, replaces_those_of_ranges_and_commands) {
  source_settings source;
  source.paths = {"a", "-"};
  source.skip = {"a:1-2"};
  source.command = {"bin/program", "./script", "../other", "word", "in/side"};
  replace_paths(source, [](const std::string& path) { return "/at/" + path; });
  EXPECT_EQ(source.paths, (std::vector<std::string>{"/at/a", "-"}));
  EXPECT_EQ(source.skip, (std::vector<std::string>{"/at/a:1-2"}));
  EXPECT_EQ(source.command,
            (std::vector<std::string>{"/at/bin/program", "/at/./script", "/at/../other",
                                      "word", "in/side"}));
  source.command = {"python3", "./feed.py"};
  replace_paths(source, [](const std::string& path) { return "/at/" + path; });
  EXPECT_EQ(source.command, (std::vector<std::string>{"python3", "/at/./feed.py"}));
}

TEST(vocabulary_of, is_that_of_token_files) {
  const test::temp_folder folder;
  or_throw(write_file_atomically(posix_file_system(), folder / "a.bin", as_view("text")));
  run_config c = a_config();
  c.source.paths = {folder / "a.bin"};
  c.source.format = storage::token_format::u16;
  EXPECT_EQ(or_throw(vocabulary_of(c, c.source)), 65536U);
  c.source.vocabulary = 50257;
  EXPECT_EQ(or_throw(vocabulary_of(c, c.source)), 50257U);
  c.stream.end = storage::end_policy::loop;
  EXPECT_EQ(or_throw(vocabulary_of(c, c.source)), 50258U);
  c.source.eot_id = 50256;
  EXPECT_EQ(or_throw(vocabulary_of(c, c.source)), 50257U);
  c.stream.end = storage::end_policy::stop;
  c.source.eot_id = new_id;
  c.source.on_damage = storage::damage_policy::skip;
  EXPECT_EQ(or_throw(vocabulary_of(c, c.source)), 50258U);
}

}  // namespace
}  // namespace weir::actors
