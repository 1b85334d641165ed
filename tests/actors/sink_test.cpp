// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the learning curve as a message, and the rates that an observer computes from
/// samples.
#include <gtest/gtest.h>

#include <cstring>

#include "observer/observer.hpp"
#include "sink/message_writer.hpp"
#include "weir/formats/tensogram.hpp"

namespace weir::actors {
namespace {

TEST(encode_curve, holds_tokens_and_bits_under_their_names) {
  const auto message = encode_curve({"unused", "demo", {{64, 7.5}, {128, 6.25}}});
  ASSERT_TRUE(message) << message.error().message();
  const auto reader = formats::message_reader::open(*message);
  ASSERT_TRUE(reader) << reader.error().message();
  const auto bits = reader->find("bits_per_byte");
  ASSERT_TRUE(bits && reader->find("tokens"));
  const auto bytes = reader->decode(*bits);
  ASSERT_TRUE(bytes);
  double values[2] = {};
  ASSERT_EQ(bytes->size(), sizeof values);
  std::memcpy(values, bytes->data(), sizeof values);
  EXPECT_EQ(values[0], 7.5);
  EXPECT_EQ(values[1], 6.25);
}

TEST(encode_curve, gives_equal_bytes_for_equal_curves) {
  const curve_order order{"unused", "demo", {{64, 7.5}}};
  EXPECT_EQ(*encode_curve(order), *encode_curve(order));
}

TEST(encode_curve, can_be_empty) {
  EXPECT_TRUE(encode_curve({"unused", "demo", {}}));
}

TEST(observer_state, measures_the_rate_over_the_last_seconds) {
  observer_state o;
  run_sample s;
  s.phase_budget = 10'000;
  s.phase_tokens = 1000;
  s.time_ns = 1'000'000'000;
  static_cast<void>(o.take(s));
  s.phase_tokens = 3000;
  s.time_ns += 2'000'000'000;
  const run_progress p = o.take(s);
  EXPECT_DOUBLE_EQ(p.tokens_per_second, 1000);
  EXPECT_DOUBLE_EQ(p.seconds_left, 7);
  EXPECT_EQ(p.phase, "build");
}

TEST(observer_state, begins_anew_with_a_phase) {
  observer_state o;
  run_sample s;
  s.phase_tokens = 5000;
  s.time_ns = 1;
  static_cast<void>(o.take(s));
  s.phase = models::pulse_phase::test;
  s.phase_tokens = 64;
  s.time_ns = 2;
  EXPECT_EQ(o.take(s).phase, "test");
  s.phase_tokens = 128;
  s.time_ns += 1'000'000'000;
  EXPECT_NEAR(o.take(s).tokens_per_second, 64, 1e-6);
}

}  // namespace
}  // namespace weir::actors
