// SPDX-License-Identifier: Apache-2.0
/// @file
/// The rules by which epochs begin: each rule alone, and all short sequences of events.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "epochs/epoch_orders.hpp"
#include "epochs/epoch_plan.hpp"

namespace weir::actors {
namespace {

flow::stand at(std::uint64_t items, bool ended = false) {
  return {items, items, ended};
}

TEST(EpochPlan, OrdersBoundariesByNumberOneAhead) {
  epoch_plan plan({.every_items = 10});
  const auto first = plan.launch(at(0), false, 0);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->at, 10U);
  EXPECT_EQ(first->then, 20U);
  EXPECT_FALSE(first->last);
  const auto second = plan.complete(at(10), 1);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->at, 20U);
  EXPECT_EQ(second->then, 30U);
  EXPECT_TRUE(plan.saving());
  plan.saved();
  EXPECT_EQ(plan.durable().next_item, 10U);
}

TEST(EpochPlan, AResumedRunKeepsItsBoundaries) {
  epoch_plan plan({.every_items = 10});
  EXPECT_EQ(plan.launch(at(25), true, 0)->at, 30U);
}

TEST(EpochPlan, BoundariesEndBeforeTheLargestNumber) {
  constexpr std::uint64_t huge = epoch_order::no_boundary / 2 + 1;
  epoch_plan plan({.every_items = huge});
  const auto first = plan.launch(at(0), false, 0);
  EXPECT_EQ(first->at, huge);
  EXPECT_EQ(first->then, epoch_order::no_boundary);
}

TEST(EpochPlan, OrdersByTimeOnlyIfThereIsSomethingNew) {
  epoch_plan plan({.every_ns = 100});
  EXPECT_FALSE(plan.launch(at(0), false, 0));
  EXPECT_FALSE(plan.tick(at(5), 99));
  const auto due = plan.tick(at(5), 100);
  ASSERT_TRUE(due);
  EXPECT_EQ(due->at, 0U);
  EXPECT_FALSE(plan.tick(at(6), 500)) << "the epoch was ordered already";
  EXPECT_FALSE(plan.complete(at(6), 500));
  EXPECT_FALSE(plan.tick(at(9), 700)) << "an image is being saved";
  plan.saved();
  EXPECT_FALSE(plan.tick(at(6), 700)) << "a checkpoint holds all items";
  EXPECT_TRUE(plan.tick(at(7), 701)) << "late is better than never";
}

TEST(EpochPlan, TheTimeBeginsAnewWithEveryEpoch) {
  epoch_plan plan({.every_items = 10, .every_ns = 100});
  ASSERT_TRUE(plan.launch(at(0), false, 0));
  ASSERT_TRUE(plan.complete(at(10), 90));
  plan.saved();
  EXPECT_FALSE(plan.tick(at(15), 150));
  EXPECT_TRUE(plan.tick(at(15), 190));
}

TEST(EpochPlan, AfterAFailedSaveTheNextEpochIsDueAsUsual) {
  epoch_plan plan({.every_ns = 100});
  EXPECT_FALSE(plan.launch(at(0), false, 0));
  ASSERT_TRUE(plan.tick(at(5), 100));
  EXPECT_FALSE(plan.complete(at(5), 100));
  plan.not_saved();
  EXPECT_EQ(plan.barrier().next_item, 5U);
  EXPECT_FALSE(plan.tick(at(5), 150));
  EXPECT_TRUE(plan.tick(at(5), 200)) << "no checkpoint holds the items";
}

TEST(EpochPlan, StopsOnceAndAlsoBeforeTheLaunch) {
  epoch_plan plan({.every_items = 10});
  EXPECT_FALSE(plan.stop());
  const auto last = plan.launch(at(0), false, 0);
  ASSERT_TRUE(last);
  EXPECT_TRUE(last->last);
  EXPECT_EQ(last->at, 0U);
  EXPECT_FALSE(plan.stop());
  EXPECT_FALSE(plan.complete(at(3), 1)) << "the order for the last epoch stands";
}

TEST(EpochPlan, ARunEndsInFrontOfAnItem) {
  epoch_plan plan({.end = 7});
  const auto first = plan.launch(at(0), false, 0);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->at, 7U);
  EXPECT_EQ(first->then, 7U) << "no source reads the item";
  EXPECT_FALSE(first->last);
  const auto last = plan.complete(at(7), 1);
  ASSERT_TRUE(last);
  EXPECT_TRUE(last->last);
  plan.saved();
  EXPECT_FALSE(plan.stop());
}

/// A run with a conductor and a host, in which nothing happens by itself: orders and
/// samples are on their way until an event delivers them.
struct small_run {
  enum class event : std::uint8_t {
    item,
    deliver,
    tick,
    complete,
    saved,
    not_saved,
    stop,
    end
  };
  static constexpr std::uint64_t count = 5;  ///< items of the source
  static constexpr std::int64_t period = 2;  ///< ticks between checkpoints

  explicit small_run(epoch_rules r) : rules(r), plan(r) {
    orders.launch({}, false, r.every_items != 0 || r.end != epoch_order::no_boundary);
    give(plan.launch({}, false, 0));
  }

  [[nodiscard]] flow::stand reached() const { return {next, next, ended}; }
  void give(const std::optional<epoch_order>& order) {
    if (order) {
      on_its_way.push_back(*order);
    }
  }
  [[nodiscard]] bool may(event e) const {
    switch (e) {
      case event::item: return !ended && !orders.stopping() && next < readable();
      case event::deliver: return !on_its_way.empty();
      case event::complete: return in_flight && !plan.saving();
      case event::saved:
      case event::not_saved: return plan.saving();
      case event::end: return !ended && next == count && !in_flight;
      case event::stop: return !stopped;
      default: return true;
    }
  }
  [[nodiscard]] std::uint64_t readable() const { return std::min(count, orders.limit()); }
  void happen(event e) {
    switch (e) {
      case event::item: ++next; break;
      case event::deliver:
        orders.take(on_its_way.front());
        on_its_way.erase(on_its_way.begin());
        break;
      case event::tick:
        give(plan.tick(sampled, ++now));
        sampled = reached();
        break;
      case event::complete: give(plan.complete(barrier, now)); break;
      case event::saved:
        plan.saved();
        orders.committed(barrier);
        close(true);
        break;
      case event::not_saved:
        plan.not_saved();
        close(false);
        break;
      case event::stop:
        stopped = true;
        give(plan.stop());
        break;
      case event::end:
        ended = true;
        give(plan.stop());
        break;
    }
    carry_out();
  }
  void close(bool durable) {
    in_flight = false;
    finished = finished || orders.last();
    failed = failed || (orders.last() && !durable);
  }
  void carry_out() {
    if (in_flight || finished) {
      return;
    }
    switch (orders.due(reached())) {
      case epoch_orders::action::begin:
        EXPECT_FALSE(orders.durable() && orders.durable()->items == next &&
                     orders.durable()->ended == ended)
            << "two equal checkpoints";
        in_flight = true;
        barrier = reached();
        by_number = by_number && (orders.stopping() || rules.every_items == 0 ||
                                  next % rules.every_items == 0 || next == rules.end);
        orders.begun();
        break;
      case epoch_orders::action::finish: finished = true; break;
      default: break;
    }
  }

  epoch_rules rules;
  epoch_plan plan;
  epoch_orders orders;
  std::vector<epoch_order> on_its_way;
  flow::stand sampled;
  std::uint64_t next = 0;
  std::int64_t now = 0;
  flow::stand barrier;
  bool in_flight = false;
  bool ended = false;
  bool stopped = false;
  bool finished = false;
  bool failed = false;
  bool by_number = true;  ///< all barriers before the last stood at multiples
};

using event = small_run::event;

/// Lets a run go on without further stops or failures and checks that it ends.
void expect_end(small_run run) {
  for (int steps = 0; !run.finished; ++steps) {
    ASSERT_LT(steps, 60) << "the run does not end";
    for (const event e :
         {event::deliver, event::complete, event::saved, event::item, event::end}) {
      if (!run.finished && run.may(e)) {
        run.happen(e);
      }
    }
  }
  ASSERT_TRUE(run.failed || run.orders.durable());
  if (!run.failed) {
    EXPECT_EQ(run.orders.durable()->items, run.next);
    EXPECT_EQ(run.orders.durable()->ended, run.ended);
  }
}

/// Lets time pass while the source is quiet and checks that all items become durable.
void expect_durable(small_run run) {
  for (int steps = 0; steps < 12 && !run.finished; ++steps) {
    for (const event e : {event::deliver, event::complete, event::saved, event::tick}) {
      if (!run.finished && run.may(e)) {
        run.happen(e);
      }
    }
  }
  EXPECT_TRUE(run.next == 0 || run.failed ||
              (run.orders.durable() && run.orders.durable()->items == run.next));
}

/// Tries every sequence of `depth` events.
std::size_t explore(const small_run& run, int depth) {
  if (run.rules.every_items == 0 || run.rules.every_ns != 0) {
    // Barriers by time stand anywhere.
  } else {
    EXPECT_TRUE(run.by_number);
  }
  EXPECT_LE(run.next, run.orders.limit());
  EXPECT_LE(run.next, run.rules.end);
  if (run.finished || depth == 0) {
    expect_end(run);
    if (run.rules.every_ns != 0) {
      expect_durable(run);
    }
    return 1;
  }
  std::size_t leaves = 0;
  for (const event e : {event::item, event::deliver, event::tick, event::complete,
                        event::saved, event::not_saved, event::stop, event::end}) {
    if (run.may(e) && !testing::Test::HasFailure()) {
      small_run after = run;
      after.happen(e);
      leaves += explore(after, depth - 1);
    }
  }
  return leaves;
}

TEST(EpochPlan, EverySequenceOfEventsEndsWithADurableCheckpoint) {
  std::size_t leaves = 0;
  for (const epoch_rules rules :
       {epoch_rules{}, epoch_rules{.every_items = 1}, epoch_rules{.every_items = 2},
        epoch_rules{.every_ns = small_run::period},
        epoch_rules{.every_items = 2, .every_ns = small_run::period},
        epoch_rules{.every_items = 3, .every_ns = 1}, epoch_rules{.end = 3},
        epoch_rules{.every_items = 2, .end = 3},
        epoch_rules{.every_ns = small_run::period, .end = 3}}) {
    leaves += explore(small_run(rules), 10);
  }
  EXPECT_GT(leaves, 100'000U);
}

}  // namespace
}  // namespace weir::actors
