// SPDX-License-Identifier: Apache-2.0
/// @file
/// Failures of worlds: ranks whose calls differ, ranks that fail, end or are silent, and
/// pieces that do not come. None of them hangs another rank.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tensors.hpp"
#include "weir/runtime/copy_ledger.hpp"
#include "world/ranks.hpp"

namespace weir::runtime {
namespace {

/// Expects words in a text that names a difference. Ranks find it in their waits or by
/// asking each other, so it may be that of any two ranks, or the failure of one that has
/// found it.
void expect_difference(const std::string& text, const std::string& difference) {
  EXPECT_NE(text.find(difference), std::string::npos) << text;
}

TEST(WorldFailures, DifferentProgramsAreFoundAtTheWait) {
  in_process_network net({.ranks = 3});
  on_ranks(net, 3, [&](rank_id r, transport& link) {
    const auto e = engine_of_rank(1);
    world w(*e, link);
    const tensor m = matrix_of(w, 8, 1);
    or_throw(set_rows(w, 0, m, 1));
    const tensor half = or_throw(m.slice(0, 0, r == 1 ? 3 : 4));
    or_throw(add_column(w, 2, half, half));
    const auto waited = w.wait();
    ASSERT_FALSE(waited);
    EXPECT_EQ(waited.error().code(), errc::diverged);
    expect_difference(waited.error().text(),
                      "differ in call 3: expected \"add\", found \"add\" with other "
                      "arguments");
    EXPECT_EQ(set_rows(w, 0, m, 1).error().code(), errc::stopping);
  });
}

TEST(WorldFailures, ASilentRankIsNamedAfterTheDeadline) {
  std::atomic<std::int64_t> now{0};
  in_process_network net({.ranks = 2, .deadline_ns = 500'000'000, .clock = [&now] {
                            return now.fetch_add(1'000'000);  // each look takes 1 ms
                          }});
  const auto e = engine_of_rank(1);
  world w(*e, net.transport_of(0));
  const tensor m = matrix_of(w, 4, 1);
  or_throw(set_rows(w, 1, m, 1));  // rank 1 never runs
  or_throw(add_column(w, 0, m, m));
  const auto waited = w.wait();
  ASSERT_FALSE(waited);
  EXPECT_EQ(waited.error().code(), errc::rank_lost);
  EXPECT_NE(waited.error().text().find("sign of life of rank 1"), std::string::npos);
  expect_difference(waited.error().text(), "\"add\" needs bytes that have not come");
  EXPECT_EQ(w.wait().error().code(), errc::rank_lost);
}

/// A clock of two ranks. It moves on by 1 ms each time that both have looked at it again,
/// so that no rank is silent for long, however slow its thread is.
class common_clock {
 public:
  /// Says which rank the calling thread is.
  static void set_rank(rank_id rank) { rank_ = rank; }
  std::int64_t now() {
    const std::lock_guard lock(mutex_);
    if (rank_ < looked_.size()) {
      looked_[rank_] = true;
    }
    if (looked_[0] && looked_[1]) {
      looked_ = {};
      now_ns_ += 1'000'000;
    }
    return now_ns_;
  }

 private:
  inline static thread_local rank_id rank_ = 2;  // a thread that is no rank
  std::mutex mutex_;                             ///< guards all below
  std::array<bool, 2> looked_{};
  std::int64_t now_ns_ = 0;
};

/// Returns the failures of two ranks, of which rank 1 needs a piece of rank 0, if all
/// messages from rank 0 to rank 1 in the channels below `channels` are lost.
std::vector<error> failures_of_losses(std::uint32_t channels) {
  common_clock clock;
  in_process_network net({.ranks = 2,
                          .loses =
                              [channels](rank_id from, rank_id, message_key key) {
                                return from == 0 && key.channel < channels;
                              },
                          .deadline_ns = 500'000'000,
                          .clock = [&clock] { return clock.now(); }});
  std::vector<error> failures(2, error(errc::internal, "no failure"));
  on_ranks(net, 2, [&](rank_id r, transport& link) {
    common_clock::set_rank(r);
    const auto e = engine_of_rank(1);
    world w(*e, link);
    const tensor m = matrix_of(w, 4, 1);
    const tensor sum = matrix_of(w, 4, 1);
    or_throw(set_rows(w, 0, m, 3));
    or_throw(add_column(w, 1, m, sum));
    const auto waited = w.wait();
    ASSERT_FALSE(waited);
    failures[r] = waited.error();
    EXPECT_EQ(sum.as<double>()[0], 0);
  });
  return failures;
}

TEST(WorldFailures, ALostPieceIsNamedWithRankTransferAndTask) {
  for (const error& one : failures_of_losses(1)) {
    EXPECT_EQ(one.code(), errc::timeout);
    EXPECT_EQ(one.text(),
              "step 2 \"add\" failed on rank 1: expected success, found: message 0 of "
              "channel 0 from rank 0 not received: expected the 1 messages that the rank "
              "has sent in the channel, found 0; the others were lost");
  }
}

// The ranks compare their calls in channel 1, so that rank 1 ends without an agreement.
TEST(WorldFailures, ALostReportIsNamedWithTheTaskThatLacksItsPiece) {
  const auto failures = failures_of_losses(2);
  const std::string& own = failures[1].text();
  EXPECT_EQ(failures[1].code(), errc::timeout);
  EXPECT_EQ(own.find("message 0 of channel 1 from rank 0 not received: expected the "),
            0U)
      << own;
  EXPECT_NE(own.find("found 0; the others were lost; the task "), std::string::npos)
      << own;
  EXPECT_NE(own.find("\"add\" needs bytes that have not come"), std::string::npos) << own;
  EXPECT_EQ(failures[0].code(), errc::timeout);
  EXPECT_EQ(failures[0].text(), "rank 1 has failed: expected it to go on, found: " + own);
}

TEST(WorldFailures, AKernelOfThreeDeadlinesIsNoFailure) {
  constexpr std::int64_t deadline_ns = 2'000'000'000;  // a rank may lose its processor
  in_process_network net({.ranks = 2, .deadline_ns = deadline_ns});
  on_ranks(net, 2, [&](rank_id r, transport& link) {
    const auto e = engine_of_rank(1);  // the only worker of rank 1 is in the kernel
    world w(*e, link);
    const tensor m = matrix_of(w, 4, 1);
    const tensor sum = matrix_of(w, 4, 1);
    double* const first = m.as<double>();
    or_throw(w.submit({1, 1}, "long", std::array{writes(m)}, [=](const task_context&) {
      std::this_thread::sleep_for(std::chrono::nanoseconds(3 * deadline_ns));
      std::fill_n(first, 4, 5.0);
    }));
    or_throw(add_column(w, 0, m, sum));
    const auto waited = w.wait();
    ASSERT_TRUE(waited) << waited.error().message();
    EXPECT_EQ(sum.as<double>()[3], r == 0 ? 5 : 0);
  });
}

/// The transport of a rank as its world left it.
void expect_nothing_left(in_process_network& net, rank_id ranks) {
  for (rank_id r = 0; r < ranks; ++r) {
    EXPECT_EQ(net.waiting(r), 0) << "rank " << r;
  }
}

TEST(WorldFailures, AWorldThatEndsEarlyLeavesNothingBehind) {
  in_process_network net({.ranks = 2, .max_delay = 5});
  on_ranks(net, 2, [&](rank_id r, transport& link) {
    const auto e = engine_of_rank(1);
    world w(*e, link);
    const tensor m = matrix_of(w, 4, 1);
    const tensor sum = matrix_of(w, 4, 1);
    or_throw(set_rows(w, 0, m, 1));
    or_throw(add_column(w, 1, m, sum));  // rank 1 may end before its piece comes
    if (r == 0) {
      EXPECT_EQ(w.wait().error().text(),
                "rank 1 sends nothing more: expected its world to live, found that it "
                "has ended");
    }
  });
  expect_nothing_left(net, 2);
}

/// Runs a world whose rank 1 cannot send, and expects its failure on all ranks.
void expect_failure_everywhere(world_fault fault) {
  in_process_network net({.ranks = 3});
  std::array<std::string, 3> texts;
  on_ranks(net, 3, [&](rank_id r, transport& real) {
    faulty_link link(real, r == 1 ? fault : world_fault::none);
    const auto e = engine_of_rank(1);
    world w(*e, link);
    const tensor m = matrix_of(w, 4, 1);
    or_throw(set_rows(w, 1, m, 1));
    or_throw(w.bring_everywhere(m));
    const auto waited = w.wait();
    ASSERT_FALSE(waited);
    EXPECT_EQ(waited.error().code(), errc::io);
    texts[r] = waited.error().text();
  });
  EXPECT_EQ(texts[1], "injected failure of a send");
  EXPECT_EQ(texts[0],
            "rank 1 has failed: expected it to go on, found: injected failure of a send");
  EXPECT_EQ(texts[2], texts[0]);
  expect_nothing_left(net, 3);
}

TEST(WorldFailures, AWorldThatFailsTellsTheOthers) {
  expect_failure_everywhere(world_fault::refused_pieces);
  expect_failure_everywhere(world_fault::failed_pieces);
}

TEST(WorldFailures, APieceThatDidNotComeIsReportedAndSentAgain) {
  in_process_network net({.ranks = 2});
  on_ranks(net, 2, [&](rank_id r, transport& real) {
    faulty_link link(real, world_fault::first_piece_missing);
    const auto e = engine_of_rank(1);
    world w(*e, link);
    const tensor m = matrix_of(w, 4, 1);
    or_throw(set_rows(w, 0, m, 3));
    or_throw(w.bring_everywhere(m));
    const auto waited = w.wait();  // no kernel has failed
    ASSERT_FALSE(waited);
    EXPECT_EQ(waited.error().text().find("a task failed on rank 1"), 0U)
        << waited.error().text();
    or_throw(w.bring_everywhere(m));
    or_throw(w.wait());
    EXPECT_EQ(m.as<double>()[3], 3) << "rank " << r;
    EXPECT_EQ(w.counters().pieces_sent, r == 0 ? 2U : 0U);
  });
}

TEST(WorldFailures, APieceOneElementShortIsRefused) {
  in_process_network net({.ranks = 2});
  on_ranks(net, 2, [&](rank_id r, transport& real) {
    faulty_link link(real, world_fault::short_piece);
    const auto e = engine_of_rank(1);
    world w(*e, link);
    const tensor m = matrix_of(w, 4, 1);
    const tensor sum = matrix_of(w, 4, 1);
    or_throw(set_rows(w, 0, m, 3));
    or_throw(add_column(w, 1, m, sum));
    const auto waited = w.wait();
    ASSERT_FALSE(waited);
    EXPECT_EQ(waited.error().code(), errc::diverged);
    EXPECT_EQ(waited.error().text(),
              "step 2 \"add\" failed on rank 1: expected success, found: message 0 of "
              "channel 0 from rank 0 not received: expected 32 bytes, found 24");
    EXPECT_EQ(m.as<double>()[0], r == 0 ? 3 : 0) << "nothing of it is unpacked";
    EXPECT_EQ(sum.as<double>()[0], 0) << "the task has not run";
  });
  expect_nothing_left(net, 2);
}

TEST(WorldFailures, AFailureOfAnotherTaskOfTheEngineIsReportedOnAllRanks) {
  in_process_network net({.ranks = 2});
  on_ranks(net, 2, [&](rank_id r, transport& link) {
    const auto e = engine_of_rank(1);
    world w(*e, link);
    if (r == 1) {
      or_throw(e->submit("own", {}, [](const task_context&) -> result<void> {
        return error(errc::io, "injected failure");
      }));
    }
    const auto waited = w.wait();
    ASSERT_FALSE(waited);
    EXPECT_EQ(waited.error().code(), errc::kernel_failed);
    EXPECT_EQ(waited.error().text().find("a task failed on rank 1: expected success"),
              0U);
    EXPECT_TRUE(w.wait());
  });
}

/// Makes a world and its first calls on a rank, then calls that may differ, then waits.
/// Returns the texts of all failures.
std::string differing_calls(
    transport& link,
    const std::function<result<void>(world&, const tensor&, const tensor&)>& calls) {
  const auto e = engine_of_rank(1);
  world w(*e, link);
  const tensor m = matrix_of(w, 4, 1);
  const tensor sum = matrix_of(w, 4, 1);
  const tensor spare = matrix_of(w, 4, 1);
  or_throw(set_rows(w, 1, m, 1));
  std::string texts;
  if (const auto called = calls(w, m, sum); !called) {
    texts += called.error().text();
  } else if (const auto released = w.release(spare.store().id); !released) {
    texts += released.error().text();
  }
  const auto waited = w.wait();
  EXPECT_FALSE(waited);
  return texts + (waited ? "" : waited.error().text());
}

TEST(WorldFailures, ADifferentCallIsFoundOutsideOfWaits) {
  in_process_network net({.ranks = 2});
  on_ranks(net, 2, [&](rank_id r, transport& link) {
    const auto text =
        differing_calls(link, [r](world& w, const tensor& m, const tensor& sum) {
          return r == 0 ? add_column(w, 0, m, sum)  // needs a piece that does not come
                        : set_rows(w, 1, sum, 2);
        });
    expect_difference(text,
                      "ranks 0 and 1 differ in call 5: expected \"add\", found \"set\"");
  });
}

TEST(WorldFailures, RanksThatAwaitPiecesOfEachOtherFindThatTheyDiffer) {
  in_process_network net({.ranks = 2});
  on_ranks(net, 2, [&](rank_id r, transport& link) {
    const auto text = differing_calls(
        link, [r](world& w, const tensor& m, const tensor& sum) -> result<void> {
          WEIR_CHECK(set_rows(w, 1 - r, sum, 2));
          return add_column(w, r, sum, m);
        });
    expect_difference(text,
                      "ranks 0 and 1 differ in call 5: expected \"set\", found \"set\" "
                      "with other arguments");
  });
}

TEST(WorldFailures, ARankThatWaitsTooEarlyIsFound) {
  in_process_network net({.ranks = 3});
  on_ranks(net, 3, [&](rank_id r, transport& link) {
    const auto e = engine_of_rank(1);
    world w(*e, link);
    const tensor m = matrix_of(w, 4, 1);
    or_throw(w.wait());
    if (r != 2) {
      or_throw(set_rows(w, 0, m, 1));
    }
    const auto waited = w.wait();
    ASSERT_FALSE(waited);
    expect_difference(waited.error().text(),
                      "and 2 differ in call 2: expected \"set\", found \"wait\"");
  });
}

TEST(WorldFailures, CallsWithTheSameNumberDiffer) {
  in_process_network net({.ranks = 2});
  on_ranks(net, 2, [&](rank_id r, transport& link) {
    const auto e = engine_of_rank(1);
    world w(*e, link);
    std::vector<storage> made;
    for (int i = 0; i < 3; ++i) {
      made.push_back(or_throw(w.allocate(64, "test")));
    }
    if (r == 0) {
      or_throw(w.allocate(3, "test"));  // 3 bytes
    } else {
      or_throw(w.release(made[2].id));  // the third storage
    }
    const auto waited = w.wait();
    ASSERT_FALSE(waited);
    EXPECT_EQ(waited.error().code(), errc::diverged);
    expect_difference(waited.error().text(),
                      "differ in call 4: expected \"allocate\", found \"release\"");
  });
}

/// A transport of so many ranks that no world can be made of it.
class crowded_link final : public transport {
 public:
  rank_id rank() const noexcept override { return 0; }
  rank_id ranks() const noexcept override { return copy_ledger::max_holders + 1; }
  std::uint32_t open_channel() override { return opened++; }
  void close_channel(std::uint32_t /*channel*/) noexcept override {}
  void abandon(std::uint32_t /*channel*/, const error& /*cause*/) override {}
  result<transfer_id> send(rank_id, message_key, std::span<const std::byte>) override {
    return error(errc::stopping, "nothing is sent");
  }
  result<transfer_id> send_failure(rank_id, message_key) override {
    return error(errc::stopping, "nothing is sent");
  }
  result<transfer_id> receive(rank_id, message_key, std::span<std::byte>) override {
    return error(errc::stopping, "nothing is received");
  }
  void poll(std::uint32_t /*channel*/, std::vector<transfer_end>& /*ended*/) override {
    ++polled;
  }
  std::uint32_t opened = 0;
  std::atomic<int> polled{0};
};

TEST(WorldFailures, AWorldOfTooManyRanksLeavesNothingInItsEngine) {
  const auto e = engine_of_rank(2);
  crowded_link link;
  EXPECT_THROW(const world w(*e, link), std::logic_error);
  EXPECT_EQ(link.opened, 0U);
  or_throw(e->submit("task", {}, [](const task_context&) {}));
  e->idle(1'000'000);  // an idle thread calls the pollers
  or_throw(e->wait_all());
  EXPECT_EQ(link.polled, 0);
}

TEST(WorldFailures, ACaptureOfTheProgramIsRefused) {
  in_process_network net({.ranks = 2});
  on_ranks(net, 2, [&](rank_id, transport& link) {
    const auto e = engine_of_rank(1);
    world w(*e, link);
    const tensor m = matrix_of(w, 4, 1);
    or_throw(e->begin_capture());
    const auto refused = set_rows(w, 0, m, 1);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), errc::unsupported);
    EXPECT_EQ(w.bring_everywhere(m).error().code(), errc::unsupported);
    EXPECT_EQ(or_throw(e->end_capture()).size(), 0U);
    or_throw(set_rows(w, 0, m, 1));  // nothing has changed
    or_throw(w.bring_everywhere(m));
    or_throw(w.wait());
    EXPECT_EQ(m.as<double>()[3], 1);
  });
}

TEST(WorldFailures, RefusesWhatItDoesNotKnow) {
  in_process_network net({.ranks = 2});
  const auto e = engine_of_rank(1);
  world w(*e, net.transport_of(0));
  const storage foreign = or_throw(e->allocate(64, "test"));
  EXPECT_EQ(set_rows(w, 2, matrix_of(w, 1, 1), 0).error().code(), errc::out_of_range);
  const auto refused = w.submit({0, 0}, "use", std::array{reads(bytes_of(foreign))},
                                [](const task_context&) {});
  EXPECT_EQ(refused.error().code(), errc::not_found);
}

}  // namespace
}  // namespace weir::runtime
