// SPDX-License-Identifier: Apache-2.0
/// @file
/// Stages that copy their state themselves, and stages that limit their open calls.
#include <gtest/gtest.h>

#include <algorithm>

#include "pipeline/support/tape.hpp"
#include "weir/pipeline/catalog.hpp"

namespace weir::test {
namespace {

constexpr std::uint64_t items = 20;

/// Keeps all numbers that it has seen, and emits how many are less than the newest one.
/// Its tasks are submitted to the engine itself.
class rank_stage final : public flow::stage_object {
 public:
  explicit rank_stage(std::uint32_t& largest_open) : largest_open_(largest_open) {
    x_.index = 0;
    y_.index = 0;
  }
  result<void> open(opening& run) override {
    engine_ = &run.host().base();
    return {};
  }
  result<void> on_item(step& s) override {
    largest_open_ = std::max(largest_open_, ++open_);
    const auto x = s[x_];
    const std::array accesses{runtime::reads(x.bytes())};
    const auto nothing = [](const runtime::task_context&) {};
    WEIR_TRY(const task_id first, engine_->submit("first", accesses, nothing));
    WEIR_TRY(const task_id last, engine_->submit("last", accesses, nothing));
    s.adopt_tasks(first, last);
    return {};
  }
  result<void> on_done(step& s) override {
    --open_;
    const std::uint64_t x = s.value(x_)[0];
    const auto less =
        std::count_if(seen_.begin(), seen_.end(), [&](auto one) { return one < x; });
    seen_.push_back(x);
    WEIR_TRY(const auto to, s.make(y_, 1));
    to.elements<std::uint64_t>()[0] = static_cast<std::uint64_t>(less);
    return s.emit();
  }
  result<void> copy_state(flow::state_writer& to) override {
    const bytes_view bytes = std::as_bytes(std::span(seen_));
    std::copy(bytes.begin(), bytes.end(), to.add("seen", bytes.size()).begin());
    return {};
  }
  result<void> restore_state(const flow::state_reader& from) override {
    WEIR_TRY(const bytes_view bytes, from.part("seen"));
    seen_.resize(bytes.size() / sizeof(std::uint64_t));
    std::copy(bytes.begin(), bytes.end(),
              std::as_writable_bytes(std::span(seen_)).begin());
    return {};
  }

 private:
  std::uint32_t& largest_open_;
  std::uint32_t open_ = 0;
  runtime::engine* engine_ = nullptr;
  in<std::uint64_t, 1> x_;
  out<std::uint64_t, 1> y_;
  std::vector<std::uint64_t> seen_;
};

/// Adds the stage between random numbers and a recorder.
tape_builder ranking(std::uint32_t& largest_open, std::uint32_t limit) {
  return [&largest_open, limit](pipeline& p, std::vector<tape>& all) {
    flow::described_stage made;
    made.info.name = "test.rank";
    made.info.face = flow::face::late;
    made.info.ports = {{"x", or_throw(flow::port_type::parse("u64[1]")), true},
                       {"y", or_throw(flow::port_type::parse("u64[1]")), false}};
    made.info.max_open_calls = limit;
    made.object = std::make_unique<rank_stage>(largest_open);
    static_cast<void>(flow::add_basic_stages(flow::stages()));
    p.add("source", "generator",
          {{"count", items}, {"element", "u64"}, {"kind", "philox"}}) >>
        p.add_made("rank", std::move(made)) >> add_recorder(p, "sink", all[0]);
  };
}

TEST(OwnState, OfAnySizeContinuesFromEveryCheckpoint) {
  std::uint32_t largest_open = 0;
  const auto tapes = expect_resumable(ranking(largest_open, 0), 1, 3);
  ASSERT_EQ(tapes[0].size(), items);
  std::vector<std::uint64_t> ranks;
  for (const recorded& one : tapes[0]) {
    ranks.push_back(one.values<std::uint64_t>()[0]);
  }
  EXPECT_GT(*std::max_element(ranks.begin(), ranks.end()), items / 2);
}

TEST(OwnState, ThatAnImageLacksIsAnError) {
  flow::image without;
  const auto part = flow::state_reader(without, "rank").part("seen");
  ASSERT_FALSE(part);
  EXPECT_EQ(part.error().code(), errc::corrupt);
  EXPECT_NE(part.error().message().find("STATE/rank/seen"), std::string::npos);
}

TEST(OpenCalls, AreAsManyAsTheWindowUnlessTheStageLimitsThem) {
  std::uint32_t largest_open = 0;
  ASSERT_TRUE(run_tapes(ranking(largest_open, 0), 1));
  EXPECT_EQ(largest_open, flow::default_window_items);
  for (const std::uint32_t limit : {1U, 3U, 100U}) {
    largest_open = 0;
    const auto tapes = run_tapes(ranking(largest_open, limit), 1);
    ASSERT_TRUE(tapes) << tapes.error().message();
    EXPECT_EQ(largest_open, std::min(limit, flow::default_window_items));
    EXPECT_EQ((*tapes)[0].size(), items);
  }
}

}  // namespace
}  // namespace weir::test
