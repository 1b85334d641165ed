// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests ranks that join a collective in every order: sums, calls that differ, ranks that
/// do not join, and failures.
#include "collective/collective_state.hpp"

#include <algorithm>

#include "devices.hpp"

namespace weir::actors {
namespace {

using test::hand_engine;

constexpr std::size_t elements = 33;

/// Four ranks with known numbers, and a collective over them.
struct collective_state_test : testing::Test {
  explicit collective_state_test(collective::mesh_axes axes = {1, 1, 4, 1})
      : engine(axes), x(engine->memory(elements)) {
    for (int r = 0; r < static_cast<int>(engine->mesh->ranks()); ++r) {
      for (std::size_t i = 0; i < elements; ++i) {
        engine->instance(x, r)[i] =
            static_cast<float>((r + 1) * 100) + static_cast<float>(i);
      }
    }
    open();
  }
  /// Opens the collective of the group of a rank along axes.
  void open(collective::axis_set axes = collective::whole_mesh, int member = 0) {
    collective_spec spec;
    spec.name = "gradients";
    spec.mesh = engine->mesh;
    spec.axes = axes;
    spec.member = member;
    spec.deadline_ns = 1000;
    group = or_throw(collective_state::make(spec, [] {}));
  }
  /// Returns the order with which a rank joins.
  [[nodiscard]] join_order share_of(int rank) const {
    join_order out;
    out.rank = rank;
    out.request.call.count = elements;
    out.request.input = x;
    out.request.output = x;
    return out;
  }
  void take(std::int64_t now = 0) {
    for (auto& a : group->take_answers(now)) {
      EXPECT_TRUE(answers.emplace(a.asked, std::move(a.outcome)).second)
          << "a share was answered twice";
    }
  }
  void join(int rank, std::int64_t now = 0) { join(share_of(rank), now); }
  void join(const join_order& order, std::int64_t now = 0) {
    tickets.push_back(or_throw(group->join(order, now)));
    take(now);
  }
  /// Checks that every rank that joined got an error with this code and these words.
  void expect_all(errc code, const std::vector<std::string>& words) {
    ASSERT_EQ(answers.size(), tickets.size());
    for (const auto& [ticket, outcome] : answers) {
      ASSERT_FALSE(outcome.has_value());
      EXPECT_EQ(outcome.error().code(), code);
      for (const std::string& word : words) {
        EXPECT_NE(outcome.error().message().find(word), std::string::npos)
            << outcome.error().message();
      }
    }
  }
  void forget() {
    tickets.clear();
    answers.clear();
  }
  /// Checks that a collective after a failed one works.
  void expect_next_works() {
    forget();
    for (int r = 0; r < 4; ++r) {
      join(r);
    }
    engine.run_all();
    take();
    ASSERT_EQ(answers.size(), 4U);
    for (const auto& [ticket, outcome] : answers) {
      EXPECT_TRUE(outcome.has_value()) << outcome.error().message();
    }
    EXPECT_EQ(engine->instance(x, 2)[7], 1000.0F + 4 * 7);
  }

  hand_engine engine;
  float* x;
  std::unique_ptr<collective_state> group;
  std::vector<collective_state::ticket> tickets;
  std::map<collective_state::ticket, result<std::uint64_t>> answers;
};

TEST_F(collective_state_test, ranks_meet_in_every_order) {
  std::vector<int> order{0, 1, 2, 3};
  std::uint64_t number = 0;
  do {
    for (int r = 0; r < 4; ++r) {
      std::fill_n(engine->instance(x, r), elements, static_cast<float>(r) + 0.5F);
    }
    forget();
    for (const int rank : order) {
      EXPECT_TRUE(answers.empty());
      join(rank);
    }
    EXPECT_TRUE(answers.empty()) << "no share is answered before all ranks have joined";
    engine.run_all();
    take();
    ASSERT_EQ(answers.size(), 4U);
    for (const auto& [ticket, outcome] : answers) {
      EXPECT_EQ(or_throw(outcome), number);
    }
    ++number;
    for (int r = 0; r < 4; ++r) {
      EXPECT_EQ(engine->instance(x, r)[elements - 1], 8.0F);
    }
  } while (std::next_permutation(order.begin(), order.end()));
  EXPECT_EQ(number, 24U);
  EXPECT_EQ(group->next_deadline(), std::numeric_limits<std::int64_t>::max());
}

TEST_F(collective_state_test, a_rank_may_be_ahead_of_the_others) {
  join(0);
  join(0);
  for (const int r : {3, 1, 2}) {
    join(r);
  }
  engine.run_all();
  take();
  EXPECT_EQ(answers.size(), 4U);
  for (const int r : {1, 2, 3}) {
    join(r);
  }
  engine.run_all();
  take();
  EXPECT_EQ(answers.size(), 8U);
  EXPECT_EQ(engine->instance(x, 1)[0], 4000.0F);
}

TEST_F(collective_state_test, calls_that_differ_are_an_error_for_every_rank) {
  join(0);
  join(1);
  auto other = share_of(2);
  other.request.call.count = elements - 1;
  join(other);
  join(3);  // joins late, and gets the error of the others
  expect_all(errc::collective_mismatch,
             {"\"gradients\"", "rank 0 with all_reduce of 33", "rank 2", "of 32"});
  engine.run_all();
  EXPECT_EQ(engine->instance(x, 0)[0], 100.0F)
      << "a collective that fails must write nothing";
  expect_next_works();
}

TEST_F(collective_state_test, policies_that_differ_are_an_error_for_every_rank) {
  auto other = share_of(1);
  other.descriptor.stable_reductions = false;
  join(other);
  for (const int r : {0, 2, 3}) {
    join(r);
  }
  expect_all(errc::determinism_violation, {"policy of level 1", "policy of level 2"});
  forget();
  for (int r = 0; r < 4; ++r) {
    auto same = share_of(r);
    same.descriptor.stable_reductions = false;
    join(same);
  }
  expect_all(errc::determinism_violation, {"of the context", "policy of level 1"});
  engine.run_all();
  EXPECT_EQ(engine->instance(x, 0)[0], 100.0F)
      << "a collective that fails must write nothing";
  expect_next_works();
}

TEST_F(collective_state_test, a_rank_that_does_not_come_is_a_timeout_for_all) {
  join(3, 100);
  join(0, 900);
  EXPECT_EQ(group->next_deadline(), 1100);
  take(1099);
  EXPECT_TRUE(answers.empty());
  take(1100);
  expect_all(errc::timeout, {"4 ranks", "found 2", "rank 1, 2 did not join"});
  join(1, 5000);
  join(2, 5000);
  expect_all(errc::timeout, {"rank 1, 2 did not join"});
  expect_next_works();
}

TEST_F(collective_state_test, a_share_whose_deadline_exceeds_63_bits_is_not_overdue) {
  for (int r = 0; r < 4; ++r) {
    join(r, std::numeric_limits<std::int64_t>::max() - 100);
  }
  EXPECT_EQ(group->next_deadline(), std::numeric_limits<std::int64_t>::max());
  take(std::numeric_limits<std::int64_t>::max() - 50);
  EXPECT_TRUE(answers.empty());
  engine.run_all();
  take(std::numeric_limits<std::int64_t>::max() - 50);
  EXPECT_EQ(answers.size(), 4U);
}

TEST_F(collective_state_test, a_share_that_does_not_end_is_overdue) {
  for (int r = 0; r < 4; ++r) {
    join(r);
  }
  EXPECT_EQ(group->next_deadline(), 1000);
  take(1000);
  expect_all(errc::timeout, {"found it running"});
  engine.run_all();
  take(1000);
  EXPECT_EQ(answers.size(), 4U);
}

TEST_F(collective_state_test, a_failure_before_it_is_an_error_for_every_rank) {
  const auto queue = or_throw(tessera::stream::make(engine->mesh, {}));
  queue->enqueue(tessera::make_failing(error(errc::kernel_failed, "stage out of luck")));
  auto point = std::make_shared<tessera::event>();
  queue->record(*point);
  for (int r = 0; r < 4; ++r) {
    auto order = share_of(r);
    if (r == 2) {
      order.wait_points.push_back(point);
    }
    join(order);
  }
  queue->close();
  engine.run_all();
  take();
  expect_all(errc::kernel_failed, {"\"gradients\"", "stage out of luck"});
  EXPECT_EQ(engine->instance(x, 0)[0], 100.0F)
      << "a collective that fails must write nothing";
  expect_next_works();
}

TEST_F(collective_state_test, a_share_that_makes_no_sense_does_not_count) {
  join(0);
  auto wrong = share_of(1);
  wrong.request.input = wrong.request.output = nullptr;
  EXPECT_EQ(group->join(wrong, 0).error().code(), errc::invalid_argument);
  wrong = share_of(1);
  wrong.request.call.count = elements + 1;
  EXPECT_EQ(group->join(wrong, 0).error().code(), errc::invalid_argument);
  EXPECT_EQ(group->join(share_of(4), 0).error().code(), errc::invalid_argument);
  EXPECT_EQ(group->join(share_of(-1), 0).error().code(), errc::invalid_argument);
  for (const int r : {1, 2, 3}) {
    join(r);
  }
  engine.run_all();
  take();
  EXPECT_EQ(answers.size(), 4U);
  EXPECT_EQ(engine->instance(x, 3)[0], 1000.0F);
}

TEST_F(collective_state_test, keeps_the_holder_until_the_share_has_ended) {
  auto memory = std::make_shared<int>(1);
  const std::weak_ptr<int> alive = memory;
  for (int r = 0; r < 4; ++r) {
    auto order = share_of(r);
    order.holder = memory;
    join(order);
  }
  memory.reset();
  take(1000);
  expect_all(errc::timeout, {"found it running"});
  EXPECT_FALSE(alive.expired())
      << "the share has no client any more but has not run, so it keeps its holder";
  engine.run_all();
  EXPECT_TRUE(alive.expired());
}

TEST_F(collective_state_test, shares_that_wait_are_dropped_with_the_group) {
  join(0);
  join(1);
  group = nullptr;
  open();
  expect_next_works();
}

/// A mesh of two axes, so that a group has a part of the ranks.
struct collective_axis_test : collective_state_test {
  collective_axis_test() : collective_state_test({2, 1, 2, 1}) {}
};

TEST_F(collective_axis_test, joins_the_ranks_of_one_group_alone) {
  open(or_throw(collective::parse_axes("dp")), 1);  // ranks 1 and 3
  EXPECT_EQ(group->join(share_of(0), 0).error().code(), errc::invalid_argument);
  join(3);
  join(1);
  engine.run_all();
  take();
  EXPECT_EQ(answers.size(), 2U);
  const float expected[] = {100, 600, 300, 600};
  for (int r = 0; r < 4; ++r) {
    EXPECT_EQ(engine->instance(x, r)[0], expected[r]) << "rank " << r;
  }
}

}  // namespace
}  // namespace weir::actors
