// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests sessions: what they answer together and alone, resumes, repeated turns, refused
/// turns, and what their checkpoints hold.
#include "weir/actors/sessions.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "actors/prose/small_run.hpp"
#include "stages/prose/sessions/session_record.hpp"
#include "weir/actors/speak.hpp"
#include "weir/base/file.hpp"
#include "weir/base/philox.hpp"

namespace weir::actors {
namespace {

/// A finished run "a", and one "b" with other parameters, which all tests share.
struct session_tests : testing::Test {
  static void SetUpTestSuite() {
    runs = std::make_unique<test::small_runs>();
    ASSERT_TRUE(run(runs->config("a")));
    run_config other = runs->config("b");
    other.seed = 77;
    ASSERT_TRUE(run(other));
  }
  static void TearDownTestSuite() { runs.reset(); }

  static std::unique_ptr<session_group> group(const std::string& folder,
                                              const std::string& from = "a",
                                              std::uint32_t limit = 16) {
    session_options options;
    options.folder = runs->path(folder);
    options.from = from.empty() ? from : runs->path(from);
    options.limit = limit;
    auto made = session_group::open(options);
    EXPECT_TRUE(made) << made.error().message();
    return made ? std::move(*made) : nullptr;
  }
  static result<std::unique_ptr<session_group>> refused(const std::string& folder,
                                                        const std::string& from,
                                                        std::uint32_t limit = 16) {
    session_options options;
    options.folder = runs->path(folder);
    options.from = from.empty() ? from : runs->path(from);
    options.limit = limit;
    return session_group::open(options);
  }
  static std::unique_ptr<test::small_runs> runs;
};
std::unique_ptr<test::small_runs> session_tests::runs;

session_turn turn_of(const std::string& session, const std::string& text,
                     std::uint64_t answer_tokens = 12) {
  session_turn out;
  out.session = session;
  out.tokens.assign(text.begin(), text.end());
  out.answer_tokens = answer_tokens;
  return out;
}
session_answer answer_one(session_group& group, const session_turn& turn) {
  auto answers = group.answer({&turn, 1});
  EXPECT_TRUE(answers && answers->front())
      << (answers ? answers->front().error().message() : answers.error().message());
  return answers && answers->front() ? *answers->front() : session_answer();
}
error error_of(session_group& group, const session_turn& turn) {
  auto answers = group.answer({&turn, 1});
  EXPECT_TRUE(answers && !answers->front());
  return answers->front().error();
}

/// Returns the turns of a session: texts of random lengths, longer than a chunk too.
std::vector<session_turn> script(const std::string& session, std::uint64_t seed) {
  const philox random(seed, 3);
  std::vector<session_turn> out;
  for (std::uint64_t i = 0; i < 5; ++i) {
    const auto length = static_cast<std::size_t>(random.uniform(i) * 150);
    std::string text;
    for (std::size_t k = 0; k <= length; ++k) {
      text += static_cast<char>('a' + (seed * 7 + i * 3 + k * k) % 26);
    }
    out.push_back(turn_of(session, text, 3 + seed + i));
    out.back().seed = seed;
    out.back().temperature = i % 2 == 0 ? 0.9 : 0;
  }
  return out;
}

/// Returns the newest checkpoint of a folder of sessions.
storage::checkpoint newest_of(const std::string& folder) {
  auto store = storage::checkpoint_store::open(posix_file_system(),
                                               join_path(folder, "checkpoint"));
  EXPECT_TRUE(store) << store.error().message();
  auto newest = store->load_newest();
  EXPECT_TRUE(newest) << newest.error().message();
  return *newest;
}

TEST_F(session_tests, answer_together_what_each_one_answers_alone) {
  std::vector<std::string> names;
  for (int n = 0; n < 16; ++n) {
    names.push_back("session-" + std::to_string(n));
  }
  std::map<std::string, std::vector<std::vector<std::uint32_t>>> alone;
  std::map<std::string, session_facts> facts;
  std::map<std::string, byte_vector> contexts;
  for (std::size_t n = 0; n < names.size(); ++n) {
    const auto one = group("alone-" + names[n]);
    for (const session_turn& turn : script(names[n], n + 1)) {
      alone[names[n]].push_back(answer_one(*one, turn).tokens);
    }
    ASSERT_TRUE(one->save());
    facts[names[n]] = one->sessions().front();
    const auto stored = newest_of(runs->path("alone-" + names[n]));
    const auto* context = *stored.find("CTX/session/" + names[n]);
    contexts[names[n]].assign(context->data.begin(), context->data.end());
  }
  const auto together = group("together");
  const auto begun = together->parameter_hash();
  for (std::size_t i = 0; i < 5; ++i) {
    std::vector<session_turn> turns;
    for (std::size_t n = 0; n < names.size(); ++n) {
      const std::size_t other = (n + i) % names.size();
      turns.push_back(script(names[other], other + 1)[i]);
    }
    const auto answers = together->answer(turns);
    ASSERT_TRUE(answers) << answers.error().message();
    for (const auto& answer : *answers) {
      ASSERT_TRUE(answer) << answer.error().message();
      EXPECT_EQ(answer->turn, i + 1);
      EXPECT_EQ(answer->tokens, alone[answer->session][i]) << answer->session << i;
    }
  }
  ASSERT_TRUE(together->save());
  const auto stored = newest_of(runs->path("together"));
  for (const session_facts& one : together->sessions()) {
    EXPECT_EQ(one, facts[one.name]);
    const auto* context = *stored.find("CTX/session/" + one.name);
    EXPECT_TRUE(std::equal(context->data.begin(), context->data.end(),
                           contexts[one.name].begin(), contexts[one.name].end()))
        << one.name;
  }
  EXPECT_EQ(together->parameter_hash(), begun);
  EXPECT_NE(alone[names[0]], alone[names[1]]);
}

// The group is opened again behind every turn, and the answers are those of a group that
// stayed open. The context of one turn is that of the run folder `speak` continues, too:
// an empty context and the same parameters.
TEST_F(session_tests, continue_behind_every_turn_as_if_they_had_not_been_closed) {
  const auto whole = group("whole");
  std::vector<session_answer> expected;
  for (const session_turn& turn : script("ann", 4)) {
    expected.push_back(answer_one(*whole, turn));
  }
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto again = group("resumed", i == 0 ? "a" : "");
    ASSERT_TRUE(again);
    EXPECT_EQ(again->problem(), "");
    const auto got = answer_one(*again, script("ann", 4)[i]);
    EXPECT_EQ(got.tokens, expected[i].tokens) << i;
    EXPECT_EQ(got.position, expected[i].position);
    ASSERT_TRUE(again->save());
  }
  EXPECT_EQ(group("resumed", "")->sessions(), whole->sessions());
}

TEST_F(session_tests, checkpoints_hold_the_parameters_twice_and_then_refer_to_them) {
  const auto sessions = group("refer");
  std::uint64_t whole = 0;
  for (std::uint64_t i = 2; i <= 7; ++i) {
    answer_one(*sessions, turn_of("ann", "the weir "));
    const auto generation = sessions->save();
    ASSERT_TRUE(generation) << generation.error().message();
    EXPECT_EQ(*generation, i);
    EXPECT_EQ(*sessions->save(), i) << "nothing has changed";
    const auto newest = newest_of(runs->path("refer"));
    const auto* parameters = *newest.find("PARAM/message");
    EXPECT_EQ(parameters->held_by, i <= 2 ? i : 2 - i % 2);
    EXPECT_EQ((*newest.find("CTX/session/ann"))->held_by, i);
    std::uint64_t bytes = 0;
    ASSERT_TRUE(posix_file_system().open(newest.path(), open_mode::read));
    bytes = *(*posix_file_system().open(newest.path(), open_mode::read))->size();
    whole = i == 2 ? bytes : whole;
    if (i > 2) {
      EXPECT_LE(bytes + parameters->data.size(), whole + 4096);
    }
  }
  EXPECT_EQ(posix_file_system().list(runs->path("refer") + "/checkpoint")->size(), 5U)
      << "four checkpoints and the lock";
  const auto listed = sessions_in(newest_of(runs->path("refer")));
  ASSERT_TRUE(listed);
  EXPECT_EQ(*listed, sessions->sessions());
}

TEST_F(session_tests, the_last_turn_may_be_asked_again) {
  const auto sessions = group("again");
  session_turn turn = turn_of("ann", "the ");
  turn.number = 1;
  const auto first = answer_one(*sessions, turn);
  EXPECT_FALSE(first.repeated);
  const auto second = answer_one(*sessions, turn);
  EXPECT_TRUE(second.repeated);
  EXPECT_EQ(second.tokens, first.tokens);
  EXPECT_EQ(second.position, first.position);
  EXPECT_EQ(sessions->sessions().front().turns, 1U);
  session_turn other = turn;
  other.tokens.back() += 1;
  EXPECT_EQ(
      error_of(*sessions, other).text(),
      "cannot answer session ann: expected turn 1 as it was answered, found another "
      "content");
  turn.number = 3;
  EXPECT_EQ(error_of(*sessions, turn).text(),
            "cannot answer session ann: expected turn 2, or the last one again, found 3");
  turn.number = 2;
  EXPECT_EQ(answer_one(*sessions, turn).turn, 2U);
}

TEST_F(session_tests, refuse_a_turn_and_answer_the_others) {
  const auto sessions = group("refuse", "a", 3);
  answer_one(*sessions, turn_of("ann", "the "));
  struct wrong {
    session_turn turn;
    errc code;
    std::string text;
  };
  session_turn seed = turn_of("ann", "x");
  seed.seed = 9;
  session_turn hot = turn_of("cay", "x");
  hot.temperature = 101;
  session_turn id = turn_of("cay", "x");
  id.tokens = {7, 99999};
  const std::vector<wrong> all = {
      {turn_of("a b", "x"), errc::invalid_argument, "expected a name of 1 to 64 letters"},
      {turn_of("", "x"), errc::invalid_argument, "expected a name of 1 to 64 letters"},
      {hot, errc::invalid_argument, "expected a temperature from 0 to 100, found 101"},
      {id, errc::invalid_argument, "found 99999 as token 1"},
      {turn_of("new", ""), errc::invalid_argument, "expected a text to continue"},
      {turn_of("cay", "x", (1U << 20) + 1), errc::invalid_argument, "at most 1048576"},
      {seed, errc::config_mismatch, "expected the seed 1 with which it began, found 9"},
  };
  for (const wrong& one : all) {
    const std::vector<session_turn> turns = {turn_of("bob", "x"), one.turn};
    const auto answers = sessions->answer(turns);
    ASSERT_TRUE(answers) << answers.error().message();
    EXPECT_TRUE((*answers)[0]);
    ASSERT_FALSE((*answers)[1]) << one.text;
    EXPECT_EQ((*answers)[1].error().code(), one.code);
    EXPECT_NE((*answers)[1].error().text().find(one.text), std::string::npos)
        << (*answers)[1].error().text();
  }
  const std::vector<session_turn> twice = {turn_of("bob", "x"), turn_of("bob", "y")};
  EXPECT_EQ((*sessions->answer(twice))[1].error().code(), errc::invalid_argument);
  answer_one(*sessions, turn_of("cay", "x"));
  const error full = error_of(*sessions, turn_of("dan", "x"));
  EXPECT_EQ(full.code(), errc::out_of_memory);
  EXPECT_EQ(full.text(),
            "cannot answer session dan: expected at most 3 sessions, found another one; "
            "close one, or raise the limit");
  EXPECT_EQ(sessions->sessions().size(), 3U);
}

TEST_F(session_tests, a_session_that_ends_leaves_an_empty_context_to_the_next_one) {
  const auto sessions = group("close", "a", 1);
  session_turn close = turn_of("ann", "", 0);
  close.kind = turn_kind::close;
  const auto first = answer_one(*sessions, turn_of("ann", "the water is "));
  EXPECT_EQ(answer_one(*sessions, close).turn, 2U);
  EXPECT_TRUE(answer_one(*sessions, close).repeated) << "it has ended already";
  EXPECT_TRUE(sessions->sessions().empty());
  session_turn next = turn_of("bob", "the water is ");
  EXPECT_EQ(answer_one(*sessions, next).tokens, first.tokens);
  ASSERT_TRUE(sessions->save());
  EXPECT_FALSE(newest_of(runs->path("close")).has("CTX/session/ann"));
}

TEST_F(session_tests, a_reset_forgets_the_text_and_not_the_place) {
  const auto answer_behind = [&](const std::string& text, bool with_reset) {
    const auto sessions = group("reset-" + text + (with_reset ? "-1" : "-0"));
    answer_one(*sessions, turn_of("ann", text, 0));
    session_turn reset = turn_of("ann", "", 0);
    reset.kind = turn_kind::reset;
    if (with_reset) {
      EXPECT_EQ(answer_one(*sessions, reset).position, text.size());
    }
    const session_turn empty = turn_of("ann", "");
    if (with_reset) {
      EXPECT_EQ(error_of(*sessions, empty).code(), errc::invalid_argument);
    }
    return answer_one(*sessions, turn_of("ann", "in the ", 40)).tokens;
  };
  EXPECT_EQ(answer_behind("aaaaaaaaaaaa", true), answer_behind("the weir or ", true));
  EXPECT_NE(answer_behind("aaaaaaaaaaaa", false), answer_behind("the weir or ", false));
}

TEST_F(session_tests, refuse_other_parameters_and_folders) {
  { ASSERT_TRUE(group("own")->save()); }
  EXPECT_TRUE(group("own", "a")) << "the same parameters may be named again";
  const auto other = refused("own", "b");
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code(), errc::config_mismatch);
  EXPECT_NE(other.error().text().find("begin new sessions in another folder"),
            std::string::npos);
  EXPECT_EQ(refused("a", "").error().code(), errc::config_mismatch) << "a run folder";
  EXPECT_EQ(refused("none", "").error().code(), errc::invalid_argument);
  EXPECT_EQ(refused("none", "nowhere").error().code(), errc::not_found);
  EXPECT_EQ(refused("none", "a", 0).error().code(), errc::invalid_argument);
  EXPECT_EQ(refused("none", "a", 1025).error().code(), errc::invalid_argument);
  const auto held = group("own", "");
  EXPECT_EQ(refused("own", "").error().code(), errc::locked);
  ASSERT_TRUE(store_parameters(runs->path("a"), runs->path("volume"), "prose"));
  const auto of_volume = group("of-volume", "volume");
  ASSERT_TRUE(of_volume);
  EXPECT_EQ(of_volume->parameter_hash(), held->parameter_hash());
}

TEST_F(session_tests, a_damaged_record_is_an_error) {
  const auto sessions = group("damaged");
  answer_one(*sessions, turn_of("ann", "the "));
  ASSERT_TRUE(sessions->save());
  const auto newest = newest_of(runs->path("damaged"));
  const auto* record = *newest.find("SESSIONS");
  const auto decoded = decode_sessions(record->data);
  ASSERT_TRUE(decoded) << decoded.error().message();
  const byte_vector again = encode(*decoded);
  EXPECT_TRUE(
      std::equal(again.begin(), again.end(), record->data.begin(), record->data.end()));
  for (std::size_t size = 0; size < record->data.size(); ++size) {
    EXPECT_FALSE(decode_sessions(record->data.first(size))) << size;
  }
  // Lengths that are too large for the record, and a name that no session can have.
  byte_vector wrong(again);
  for (std::size_t at = 8; at < wrong.size(); ++at) {
    wrong[at] = std::byte{0xff};
    static_cast<void>(decode_sessions(wrong));  // sanitizers see reads behind the end
    wrong[at] = again[at];
  }
  session_record renamed = *decoded;
  renamed.sessions[0].facts.name = "a/b";
  EXPECT_EQ(decode_sessions(encode(renamed)).error().code(), errc::corrupt);
  renamed.sessions[0] = decoded->sessions[0];
  renamed.sessions.push_back(renamed.sessions[0]);
  EXPECT_EQ(decode_sessions(encode(renamed)).error().code(), errc::corrupt) << "twice";
  // The number of turns stands in the header of the file, too.
  auto store = storage::checkpoint_store::open(posix_file_system(), runs->path("other"),
                                               storage::checkpoint_store::role::writer);
  ASSERT_TRUE(store);
  std::vector<storage::checkpoint_section> sections;
  for (const auto& s : newest.sections()) {
    sections.push_back({s.name, s.data, dtype::uint8, {}});
  }
  EXPECT_EQ(store->save(sections, newest.header().pulse_id + 1).error().code(),
            errc::invalid_argument);
  EXPECT_TRUE(store->save(sections, newest.header().pulse_id));
}

}  // namespace
}  // namespace weir::actors
