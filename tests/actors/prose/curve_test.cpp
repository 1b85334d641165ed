// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the learning curve as a message.
#include "stages/prose/job/curve.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "weir/formats/tensogram.hpp"

namespace weir::actors {
namespace {

TEST(encode_curve, holds_tokens_and_bits_under_their_names) {
  const auto message = encode_curve({{64, 7.5}, {128, 6.25}}, "demo");
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
  EXPECT_EQ(*encode_curve({{64, 7.5}}, "demo"), *encode_curve({{64, 7.5}}, "demo"));
}

TEST(encode_curve, can_be_empty) {
  EXPECT_TRUE(encode_curve({}, "demo"));
}

}  // namespace
}  // namespace weir::actors
