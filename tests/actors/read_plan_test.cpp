// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the logic of the volume reader: turns of streams, credits, deadlines and
/// failures.
#include "volume/read_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace weir::actors {
namespace {

constexpr std::int64_t second = 1'000'000'000;

/// Returns the byte at an offset of a stream.
std::byte content(std::uint64_t stream, std::uint64_t offset) {
  return static_cast<std::byte>(offset * 31 + stream * 7);
}

/// Returns settings with small pieces, so that short streams have many.
read_plan::settings small_settings() {
  read_plan::settings s;
  s.piece = 100;
  s.window = 3;
  s.credits = 4;
  s.requests = 8;
  s.deadline_ns = 30 * second;
  return s;
}

/// Does what a worker does with a job: fills its memory and reports its end.
void carry_out(read_plan& plan, const read_plan::job& j) {
  for (std::size_t i = 0; i < j.memory.size(); ++i) {
    j.memory[i] = content(j.stream, j.offset + i);
  }
  plan.finished(j.id, j.memory.size());
}

/// Carries out all jobs until none is left.
void run(read_plan& plan, std::int64_t now = 0) {
  while (const auto j = plan.next_job(now)) {
    carry_out(plan, *j);
  }
}

/// Expects the bytes of a piece to be those of its stream.
void expect_content(std::uint64_t stream, const volume_piece& piece) {
  ASSERT_NE(piece.bytes, nullptr);
  ASSERT_EQ(piece.bytes->size(), piece.count);
  for (std::size_t i = 0; i < piece.count; ++i) {
    ASSERT_EQ((*piece.bytes)[i], content(stream, piece.offset + i)) << i;
  }
}

TEST(read_plan, pieces_are_read_ahead_and_answered_at_once) {
  read_plan plan(small_settings(), 1);
  const auto s = plan.add_stream("s", 1050, 1);
  run(plan);
  EXPECT_EQ(plan.ahead(s), 3U) << "as many pieces are read ahead as the window holds";
  EXPECT_EQ(plan.credits_free(), 1U);
  std::uint64_t expected = 0;
  for (int i = 0; i < 11; ++i) {
    const auto ticket = or_throw(plan.pull(s, 0));
    const auto answers = plan.take_answers();
    ASSERT_EQ(answers.size(), 1U) << "the piece had been read ahead";
    EXPECT_EQ(answers[0].ticket, ticket);
    EXPECT_EQ(answers[0].piece->offset, expected);
    expect_content(s, *answers[0].piece);
    expected += answers[0].piece->count;
    run(plan);
  }
  EXPECT_EQ(expected, 1050U);
  EXPECT_EQ(plan.credits_free(), 4U);
  ASSERT_TRUE(plan.pull(s, 0));
  const auto last = plan.take_answers();
  ASSERT_EQ(last.size(), 1U);
  EXPECT_EQ(last[0].piece->count, 0U);
  EXPECT_EQ(last[0].piece->offset, 1050U);
}

TEST(read_plan, a_request_goes_before_reading_ahead) {
  read_plan plan(small_settings(), 1);
  plan.add_stream("ahead", 10'000, 1);
  const auto asked = plan.add_stream("asked", 10'000, 1);
  ASSERT_TRUE(plan.read(asked, 5000, 50, 0));
  const auto first = plan.next_job(0);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->stream, asked);
  EXPECT_EQ(first->offset, 5000U);
  EXPECT_EQ(first->memory.size(), 50U);
}

// Two streams that nobody pulls use up all credits for reading ahead. A third stream is
// still served, because a request needs no credit.
TEST(read_plan, a_client_that_does_not_pull_delays_no_other) {
  read_plan plan(small_settings(), 2);
  const auto idle = plan.add_stream("idle", 10'000, 1);
  const auto other = plan.add_stream("other", 10'000, 1);
  run(plan);
  EXPECT_EQ(plan.credits_free(), 0U) << "all credits are in use";
  EXPECT_GT(plan.ahead(idle), 0U);
  const auto busy = plan.add_stream("busy", 2000, 1);
  for (std::uint64_t offset = 0; offset < 2000; offset += 100) {
    ASSERT_TRUE(plan.pull(busy, 0));
    run(plan);
    const auto answers = plan.take_answers();
    ASSERT_EQ(answers.size(), 1U);
    EXPECT_EQ(answers[0].piece->offset, offset);
  }
  plan.close(idle);
  plan.close(other);
  plan.close(busy);
  EXPECT_EQ(plan.credits_free(), 4U);
}

TEST(read_plan, streams_take_turns) {
  auto settings = small_settings();
  settings.credits = 0;
  read_plan plan(settings, 1);
  std::vector<read_plan::stream_id> ids;
  for (int i = 0; i < 3; ++i) {
    ids.push_back(plan.add_stream("s", 10'000, 1));
    for (int k = 0; k < 4; ++k) {
      ASSERT_TRUE(plan.pull(ids.back(), 0));
    }
  }
  std::vector<std::uint64_t> served;
  while (const auto j = plan.next_job(0)) {
    served.push_back(j->stream);
    carry_out(plan, *j);
  }
  ASSERT_EQ(served.size(), 12U);
  for (std::size_t i = 0; i < served.size(); ++i) {
    EXPECT_EQ(served[i], ids[i % 3]) << i;
  }
}

TEST(read_plan, a_late_request_is_answered_and_its_worker_comes_back) {
  read_plan plan(small_settings(), 1);
  const auto s = plan.add_stream("tag \"x\" of v.hn4", 1000, 1);
  const auto ticket = or_throw(plan.pull(s, 0));
  const auto job = plan.next_job(0);
  ASSERT_TRUE(job);
  EXPECT_EQ(plan.next_deadline(), 30 * second);
  plan.expire(30 * second - 1);
  EXPECT_TRUE(plan.take_answers().empty());
  plan.expire(30 * second);
  auto answers = plan.take_answers();
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].ticket, ticket);
  ASSERT_FALSE(answers[0].piece);
  EXPECT_EQ(answers[0].piece.error().code(), errc::timeout);
  EXPECT_NE(answers[0].piece.error().text().find("tag \"x\" of v.hn4"),
            std::string::npos);
  const auto refused = plan.read(s, 0, 10, 31 * second);
  ASSERT_FALSE(refused) << "the only worker does not answer";
  EXPECT_EQ(refused.error().code(), errc::timeout);
  EXPECT_NE(refused.error().hint().find("worker 0 at byte 0"), std::string::npos)
      << refused.error().hint();
  carry_out(plan, *job);
  EXPECT_TRUE(plan.take_answers().empty()) << "the client no longer waits for the answer";
  ASSERT_TRUE(plan.read(s, 0, 10, 32 * second));
  run(plan, 32 * second);
  ASSERT_EQ(plan.take_answers().size(), 1U);
  EXPECT_EQ(plan.credits_free(), 4U);
}

TEST(read_plan, a_failed_piece_ends_its_sequence_and_no_other) {
  read_plan plan(small_settings(), 1);
  const auto bad = plan.add_stream("bad", 1000, 1);
  const auto good = plan.add_stream("good", 1000, 1);
  while (const auto j = plan.next_job(0)) {
    if (j->stream == bad && j->offset == 100) {
      plan.finished(j->id, error(errc::io, "no luck"));
    } else {
      carry_out(plan, *j);
    }
  }
  ASSERT_TRUE(plan.pull(bad, 0));
  ASSERT_TRUE(plan.pull(bad, 0));
  const auto answers = plan.take_answers();
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_TRUE(answers[0].piece) << "pieces before the failure are delivered";
  ASSERT_FALSE(answers[1].piece);
  EXPECT_EQ(answers[1].piece.error().code(), errc::io);
  const auto again = plan.pull(bad, 0);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().text(), "no luck");
  EXPECT_EQ(plan.ahead(bad), 0U) << "nothing is read ahead behind the failure";
  EXPECT_TRUE(plan.read(bad, 300, 10, 0))
      << "a range request after the failure is still served";
  EXPECT_TRUE(plan.pull(good, 0));
}

TEST(read_plan, fills_in_pieces_by_several_workers_and_says_how_far) {
  read_plan plan(small_settings(), 3);
  auto memory = std::make_shared<byte_vector>(950);
  std::vector<std::uint64_t> reported;
  const auto s = plan.add_stream("s", 1000, 1);
  const auto ticket = or_throw(
      plan.fill(s, 50,
                {*memory, memory,
                 [&](std::uint64_t done, std::uint64_t) { reported.push_back(done); }},
                0));
  std::vector<read_plan::job> running;
  while (const auto j = plan.next_job(0)) {
    running.push_back(*j);
  }
  ASSERT_EQ(running.size(), 3U);
  EXPECT_EQ(running[2].offset, 250U);
  std::reverse(running.begin(), running.end());
  for (const auto& j : running) {
    carry_out(plan, j);
  }
  run(plan);
  const auto answers = plan.take_answers();
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].ticket, ticket);
  EXPECT_EQ(answers[0].piece->count, 950U);
  for (std::size_t i = 0; i < memory->size(); ++i) {
    ASSERT_EQ((*memory)[i], content(s, 50 + i));
  }
  ASSERT_EQ(reported.size(), 10U);
  EXPECT_TRUE(std::is_sorted(reported.begin(), reported.end()));
  EXPECT_EQ(reported.back(), 950U);
}

TEST(read_plan, a_fill_ends_with_the_failure_of_the_lowest_offset) {
  read_plan plan(small_settings(), 2);
  auto memory = std::make_shared<byte_vector>(1000);
  const auto s = plan.add_stream("s", 1000, 1);
  ASSERT_TRUE(plan.fill(s, 0, {*memory, memory, {}}, 0));
  const auto first = plan.next_job(0), second_job = plan.next_job(0);
  ASSERT_TRUE(first && second_job);
  plan.finished(second_job->id, error(errc::io, "second"));
  EXPECT_TRUE(plan.take_answers().empty())
      << "a piece at a lower offset can still fail, so no answer is given yet";
  plan.finished(first->id, error(errc::corrupt, "first"));
  const auto answers = plan.take_answers();
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].piece.error().text(), "first");
  const auto next = plan.next_job(0);
  ASSERT_TRUE(next);
  EXPECT_NE(next->holder, memory) << "no further piece of the failed fill is given out";
}

TEST(read_plan, refuses_impossible_requests) {
  read_plan plan(small_settings(), 1);
  EXPECT_EQ(plan.pull(9, 0).error().code(), errc::not_found);
  const auto s = plan.add_stream("s", 1000, 1);
  EXPECT_EQ(plan.read(s, 1000, 1, 0).error().code(), errc::out_of_range);
  byte_vector memory(11);
  EXPECT_EQ(plan.fill(s, 990, {memory, nullptr, {}}, 0).error().code(),
            errc::out_of_range);
  EXPECT_EQ(plan.fill(s, UINT64_MAX, {memory, nullptr, {}}, 0).error().code(),
            errc::out_of_range);
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(plan.pull(s, 0));
  }
  EXPECT_EQ(plan.pull(s, 0).error().code(), errc::out_of_range)
      << "the client has more open requests than are allowed";
  const auto job = plan.next_job(0);
  ASSERT_TRUE(job);
  plan.lose_worker(0, error(errc::stopping, "gone"));
  ASSERT_EQ(plan.take_answers().size(), 1U)
      << "the request that the worker was carrying out fails";
  carry_out(plan, *job);
  EXPECT_TRUE(plan.take_answers().empty()) << "the failed request is answered only once";
  const auto other = plan.add_stream("t", 1000, 1);
  EXPECT_EQ(plan.pull(other, 0).error().code(), errc::timeout)
      << "no worker answers any more";
}

TEST(read_plan, a_deadline_that_exceeds_63_bits_never_passes) {
  constexpr std::int64_t year = 365 * 24 * 3600 * second;
  auto settings = small_settings();
  settings.deadline_ns = INT64_MAX;
  read_plan plan(settings, 1);
  const auto by_settings = plan.add_stream("s", 1000, 1);
  const auto by_itself = plan.add_stream("t", 1000, 1, INT64_MAX - second);
  ASSERT_TRUE(plan.pull(by_settings, 2 * second));
  ASSERT_TRUE(plan.pull(by_itself, 2 * second));
  ASSERT_TRUE(plan.open(2 * second, INT64_MAX - second));
  EXPECT_EQ(plan.next_deadline(), INT64_MAX);
  plan.expire(3 * second);
  plan.expire(year);
  EXPECT_TRUE(plan.take_answers().empty());
  EXPECT_EQ(plan.unanswered(), 3U);
}

TEST(read_plan, a_short_answer_is_an_error) {
  read_plan plan(small_settings(), 1);
  const auto s = plan.add_stream("s", 1000, 1);
  ASSERT_TRUE(plan.pull(s, 0));
  const auto j = plan.next_job(0);
  plan.finished(j->id, 99);
  EXPECT_EQ(plan.take_answers().at(0).piece.error().code(), errc::torn);
}

/// Lets clients, workers, failures and closings happen in random order. Every request is
/// answered once, and the pieces ahead and the free credits always add up. In the end no
/// request and no credit is left over.
class any_order : public testing::TestWithParam<std::uint32_t> {
 protected:
  /// Does one random thing and checks the invariants.
  void step() {
    const auto choice = random_() % 10;
    if (choice < 4) {
      ask();
    } else if (choice < 6) {
      if (const auto j = plan_.next_job(now_)) {
        running_.push_back(*j);
      }
    } else if (choice < 9 && !running_.empty()) {
      finish();
    } else {
      now_ += static_cast<std::int64_t>(random_() % 2) * second;
      plan_.expire(now_);
      if (random_() % 40 == 0) {
        plan_.close(ids_[random_() % ids_.size()]);
      }
    }
    look();
  }
  /// Pulls a stream or reads a range of it.
  void ask() {
    const auto s = ids_[random_() % ids_.size()];
    const bool pulls = random_() % 3 != 0;
    const auto ticket =
        pulls ? plan_.pull(s, now_) : plan_.read(s, random_() % size, 150, now_);
    if (ticket) {
      asked_.emplace(*ticket, std::pair(s, pulls));
    }
  }
  /// Ends a random running job; one in fifty fails.
  void finish() {
    const std::size_t i = random_() % running_.size();
    const auto j = running_[i];
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
    if (random_() % 50 == 0) {
      plan_.finished(j.id, error(errc::io, "injected"));
    } else {
      carry_out(plan_, j);
    }
  }
  /// Checks the answers and the sums of credits and requests.
  void look() {
    for (const auto& a : plan_.take_answers()) {
      const auto found = asked_.find(a.ticket);
      ASSERT_NE(found, asked_.end()) << "the answer belongs to no open request: it was "
                                        "given twice or never requested";
      const auto [s, pulls] = found->second;
      asked_.erase(found);
      if (!a.piece || a.piece->count == 0) {
        continue;
      }
      expect_content(s, *a.piece);
      if (pulls) {
        EXPECT_TRUE(seen_.emplace(s, a.piece->offset).second)
            << "the same piece was delivered twice";
        bytes_ += a.piece->count;
      }
    }
    std::size_t ahead = 0;
    for (const auto s : ids_) {
      ahead += plan_.ahead(s);
    }
    EXPECT_EQ(ahead + plan_.credits_free(), 4U);
    EXPECT_EQ(plan_.unanswered(), asked_.size());
  }

  static constexpr std::uint64_t size = 3333;
  std::mt19937 random_{GetParam()};
  read_plan plan_{small_settings(), 3};
  std::vector<read_plan::stream_id> ids_{plan_.add_stream("a", size, 7),
                                         plan_.add_stream("b", size, 64),
                                         plan_.add_stream("c", size, 4048)};
  std::int64_t now_ = 0;
  std::vector<read_plan::job> running_;
  std::map<read_plan::ticket_id, std::pair<read_plan::stream_id, bool>> asked_;
  std::set<std::pair<read_plan::stream_id, std::uint64_t>> seen_;
  std::uint64_t bytes_ = 0;
};

TEST_P(any_order, answers_everything_once) {
  for (int i = 0; i < 400; ++i) {
    step();
    if (HasFatalFailure()) {
      return;
    }
  }
  while (!running_.empty()) {
    finish();
  }
  run(plan_, now_);
  look();
  EXPECT_TRUE(asked_.empty());
  EXPECT_LE(bytes_, 3 * size);
  for (const auto s : ids_) {
    plan_.close(s);
  }
  EXPECT_EQ(plan_.credits_free(), 4U);
  EXPECT_EQ(plan_.streams(), 0U);
}
INSTANTIATE_TEST_SUITE_P(seeds, any_order, testing::Range(0U, 200U));

}  // namespace
}  // namespace weir::actors
