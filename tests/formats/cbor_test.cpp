// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests CBOR: the vectors of RFC 8949, malformed items, the depth limit, canonical order
/// of keys, random trees, and the text in JSON.
#include "weir/formats/cbor.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "formats/support.hpp"

namespace weir::test {
namespace {

using namespace formats;

/// An item, its value in JSON, and whether its encoding is the canonical one.
struct vector_case {
  std::string hex;
  std::string json;
  bool canonical;
};

/// Vectors of RFC 8949, appendix A, and some more that are not canonical. Values that
/// JSON cannot express have tests of their own.
const std::vector<vector_case>& rfc_vectors() {
  static const std::vector<vector_case> cases{
      {"00", "0", true},
      {"17", "23", true},
      {"1818", "24", true},
      {"18ff", "255", true},
      {"190100", "256", true},
      {"1a000f4240", "1000000", true},
      {"1bffffffffffffffff", "18446744073709551615", true},
      {"20", "-1", true},
      {"3863", "-100", true},
      {"3bffffffffffffffff", "\"-18446744073709551616\"", true},
      {"c249010000000000000000", "\"010000000000000000\"", true},
      {"f90000", "0.0", true},
      {"f98000", "-0.0", true},
      {"f93c00", "1.0", true},
      {"fb3ff199999999999a", "1.1", true},
      {"f93e00", "1.5", true},
      {"f97bff", "65504.0", true},
      {"fa47c35000", "100000.0", true},
      {"fa7f7fffff", "3.4028234663852886e+38", true},
      {"fb7e37e43c8800759c", "1e+300", true},
      {"f90001", "5.960464477539063e-08", true},
      {"f90400", "6.103515625e-05", true},
      {"f9c400", "-4.0", true},
      {"fbc010666666666666", "-4.1", true},
      {"f97c00", "null", true},
      {"f97e00", "null", true},
      {"fa7f800000", "null", false},
      {"fb7ff8000000000000", "null", false},
      {"f4", "false", true},
      {"f5", "true", true},
      {"f6", "null", true},
      {"f7", "null", false},
      {"c074323031332d30332d32315432303a30343a30305a", "\"2013-03-21T20:04:00Z\"", true},
      {"c11a514b67b0", "1363896240", true},
      {"d74401020304", "\"01020304\"", true},
      {"c645aabbccddee", "\"aabbccddee\"", true},
      {"40", "\"\"", true},
      {"4401020304", "\"01020304\"", true},
      {"60", "\"\"", true},
      {"6449455446", "\"IETF\"", true},
      {"62c3bc", "\"\xc3\xbc\"", true},
      {"80", "[]", true},
      {"8301820203820405", "[1,[2,3],[4,5]]", true},
      {"a0", "{}", true},
      {"a201020304", "{\"1\":2,\"3\":4}", true},
      {"a26161016162820203", "{\"a\":1,\"b\":[2,3]}", true},
      {"5f42010243030405ff", "\"0102030405\"", false},
      {"7f657374726561646d696e67ff", "\"streaming\"", false},
      {"9fff", "[]", false},
      {"9f018202039f0405ffff", "[1,[2,3],[4,5]]", false},
      {"bf6346756ef563416d7421ff", "{\"Amt\":-2,\"Fun\":true}", false},
      {"1801", "1", false},
      {"1b0000000000000001", "1", false},
      {"fa3f800000", "1.0", false},
      {"a2616201616102", "{\"a\":2,\"b\":1}", false},
      {"a2616101616102", "{\"a\":2}", false},
      {"c24101", "1", false},
      {"c34101", "-2", false},
      {"0000", "0", false},
  };
  return cases;
}

TEST(cbor, decodes_the_vectors_of_the_standard) {
  for (const vector_case& c : rfc_vectors()) {
    SCOPED_TRACE(c.hex);
    const byte_vector bytes = from_hex(c.hex);
    const auto item = or_throw(decode_cbor(bytes));
    EXPECT_EQ(to_json(item.value), c.json);
    EXPECT_EQ(item.deviation.empty(), c.canonical) << item.deviation;
    EXPECT_EQ(decode_cbor(bytes, cbor_rules::canonical).has_value(), c.canonical);
    if (c.canonical) {
      EXPECT_EQ(to_hex(encode_cbor(item.value)), c.hex);
    }
  }
}

// Each malformed item is also the only element of an array ("81"), where another part of
// the decoder meets it.
TEST(cbor, refuses_malformed_items_wherever_they_stand) {
  for (const char* hex : {"",
                          "18",
                          "19ff",
                          "1c",
                          "3e",
                          "5c",
                          "41",
                          "5bffffffffffffffff",
                          "61",
                          "7f41aaff",
                          "5f6161ff",
                          "5f5f41aaffff",
                          "61ff",
                          "62c080",
                          "63eda080",
                          "64f4908080",
                          "81",
                          "9bffffffffffffffff",
                          "9a00ffffff00",
                          "9f01",
                          "a1",
                          "a101",
                          "bf01ff",
                          "bbffffffffffffffff00",
                          "ff",
                          "c1",
                          "dbff",
                          "dc",
                          "e0",
                          "f0",
                          "f8",
                          "f820",
                          "f8ff",
                          "f9",
                          "fa00",
                          "fb00000000",
                          "fc",
                          "8201ff",
                          "d9"}) {
    SCOPED_TRACE(hex);
    const auto item = decode_cbor(from_hex(hex));
    ASSERT_FALSE(item.has_value());
    EXPECT_EQ(item.error().code(), errc::corrupt);
    EXPECT_FALSE(item.error().location().empty());
    EXPECT_FALSE(decode_cbor(from_hex("81" + std::string(hex))).has_value());
  }
}

// A million nested arrays would overflow the stack of a decoder that recurses without a
// limit.
TEST(cbor, nests_256_containers_and_no_more) {
  for (const char* opening : {"81", "a100", "c1", "9f"}) {
    std::string hex;
    std::string closing;
    for (std::size_t i = 0; i < cbor_depth_limit; ++i) {
      hex += opening;
      closing += std::string(opening) == "9f" ? "ff" : "";
    }
    const auto item = decode_cbor(from_hex(hex + "00" + closing));
    ASSERT_TRUE(item.has_value()) << item.error().message();
    EXPECT_EQ(depth_of(item->value), cbor_depth_limit);
    const std::string one_more = closing.empty() ? "" : "ff";
    EXPECT_FALSE(
        decode_cbor(from_hex(hex + opening + "00" + closing + one_more)).has_value());
  }
  EXPECT_FALSE(decode_cbor(byte_vector(1'000'000, std::byte{0x81})).has_value());
  EXPECT_FALSE(decode_cbor(byte_vector(1'000'000, std::byte{0x9F})).has_value());
}

TEST(cbor, sorts_keys_by_their_encoding) {
  cbor_map map{{"bb", 1}, {"a", 2}, {"", 3}, {"aaa", 4}, {"z", 5}};
  map.set(10, 6);
  map.set(-1, 7);
  map.set(100, 8);
  map.set(byte_vector{std::byte{1}}, 9);
  map.set(false, 10);
  EXPECT_EQ(
      to_json(cbor_value(map)),
      R"({"10":6,"100":8,"-1":7,"\"01\"":9,"":3,"a":2,"z":5,"bb":1,"aaa":4,"false":10})");
  const byte_vector bytes = encode_cbor(map);
  EXPECT_TRUE(decode_cbor(bytes, cbor_rules::canonical).has_value());
  EXPECT_EQ(or_throw(decode_cbor(bytes)).value, cbor_value(map));
}

TEST(cbor, the_last_of_equal_keys_stays) {
  const auto item = or_throw(decode_cbor(from_hex("a4616201616102616203616104")));
  EXPECT_EQ(to_json(item.value), R"({"a":4,"b":3})");
}

TEST(cbor, finds_sets_and_erases_keys) {
  cbor_map map;
  EXPECT_FALSE(map.set("step", 1));
  EXPECT_TRUE(map.set("step", 2));
  EXPECT_EQ(map.find("step")->int64(), 2);
  EXPECT_EQ(map.find("ste"), nullptr);
  EXPECT_TRUE(map.erase("step"));
  EXPECT_FALSE(map.erase("step"));
  EXPECT_TRUE(map.empty());
}

TEST(cbor, accessors_do_not_convert) {
  EXPECT_EQ(cbor_value(1).real(), std::nullopt);
  EXPECT_EQ(cbor_value(1.0).int64(), std::nullopt);
  EXPECT_EQ(cbor_value(-1).uint64(), std::nullopt);
  EXPECT_EQ(cbor_value("1").int64(), std::nullopt);
  EXPECT_EQ(cbor_value(std::numeric_limits<std::uint64_t>::max()).int64(), std::nullopt);
  EXPECT_EQ(cbor_value(std::numeric_limits<std::int64_t>::min()).int64(),
            std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(cbor_value(true).int64(), std::nullopt);
  EXPECT_EQ(cbor_value().text(), nullptr);
}

/// Returns a random tree; every draw is a function of the seed.
cbor_value random_value(const philox& random, std::uint64_t& draw, int depth) {
  switch (random.below(draw++, depth > 0 ? 9 : 6)) {
    case 0:
      return cbor_integer{random.below(draw++, 2) == 1,
                          random.bits(draw) >> random.below(draw + 1, 64)};
    case 1: return random.below(draw++, 2) == 1;
    case 2: {
      const std::uint64_t bits = random.bits(draw++);
      double value = 0;
      std::memcpy(&value, &bits, sizeof value);
      return random.below(draw++, 2) == 0
                 ? value
                 : static_cast<double>(
                       static_cast<float>(static_cast<std::int32_t>(bits)) / 64);
    }
    case 3: return std::string(random.below(draw++, 30), 'x');
    case 4: return byte_vector(random.below(draw++, 30), std::byte{7});
    case 5: return nullptr;
    case 6: {
      cbor_array out;
      for (std::uint64_t n = random.below(draw++, 5); n > 0; --n) {
        out.push_back(random_value(random, draw, depth - 1));
      }
      return out;
    }
    case 7: {
      cbor_map out;
      for (std::uint64_t n = random.below(draw++, 5); n > 0; --n) {
        cbor_value key = random_value(random, draw, depth > 1 ? 1 : 0);
        out.set(std::move(key), random_value(random, draw, depth - 1));
      }
      return out;
    }
    default:
      return cbor_tag{100 + random.below(draw++, 1000),
                      {random_value(random, draw, depth - 1)}};
  }
}

TEST(cbor, random_trees_come_back_equal_and_canonical) {
  constexpr std::uint64_t seed = 8949;
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  const philox random(seed, 0);
  std::uint64_t draw = 0;
  for (int round = 0; round < 3000; ++round) {
    draw += 2;
    const cbor_value value = random_value(random, draw, 5);
    const byte_vector bytes = encode_cbor(value);
    const auto item = decode_cbor(bytes, cbor_rules::canonical);
    ASSERT_TRUE(item.has_value()) << to_hex(bytes) << ' ' << item.error().message();
    EXPECT_EQ(item->used, bytes.size());
    EXPECT_EQ(item->value, value) << to_hex(bytes);
    EXPECT_EQ(encode_cbor(item->value), bytes);
  }
}

// The lengths lie on both sides of every change of the width of a length. An item that is
// cut at any place must be refused.
TEST(cbor, texts_and_integers_of_every_length_end_where_they_say) {
  for (const std::size_t length :
       {0U, 1U, 14U, 15U, 16U, 23U, 24U, 40U, 255U, 256U, 65535U, 65536U}) {
    const std::uint64_t number = std::uint64_t{length} * length;
    const cbor_value value =
        cbor_array{std::string(length, 'a'), number, std::string(length, 'b')};
    const byte_vector bytes = encode_cbor(value);
    const auto item = decode_cbor(bytes, cbor_rules::canonical);
    ASSERT_TRUE(item.has_value()) << length;
    EXPECT_EQ(item->value, value) << length;
    for (std::size_t cut = bytes.size(); cut-- > 0; cut -= cut > 100 ? cut / 2 : 0) {
      const byte_vector part(bytes.begin(),
                             bytes.begin() + static_cast<std::ptrdiff_t>(cut));
      EXPECT_FALSE(decode_cbor(part).has_value()) << length << " cut at " << cut;
    }
  }
}

TEST(cbor, every_half_is_written_as_a_half) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    byte_vector bytes = from_hex("f90000");
    store_be<std::uint16_t>(bytes.data() + 1, static_cast<std::uint16_t>(bits));
    const auto item = or_throw(decode_cbor(bytes));
    if (std::isnan(*item.value.real())) {
      EXPECT_EQ(to_hex(encode_cbor(item.value)), "f97e00");
    } else {
      EXPECT_EQ(encode_cbor(item.value), bytes);
    }
  }
}

TEST(cbor, random_bytes_never_crash_the_decoder) {
  constexpr std::uint64_t seed = 77;
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  for (std::uint64_t round = 0; round < 20000; ++round) {
    const byte_vector bytes = random_bytes(seed + round, 1 + round % 40);
    const auto item = decode_cbor(bytes);
    if (item) {
      EXPECT_LE(item->used, bytes.size());
      (void)to_json(item->value, 2);
      EXPECT_TRUE(
          decode_cbor(encode_cbor(item->value), cbor_rules::canonical).has_value());
    }
  }
}

TEST(cbor, json_breaks_lines_when_asked) {
  const cbor_value value(cbor_map{{"a", cbor_array{1, "x y"}}, {"b", cbor_map{}}});
  EXPECT_EQ(to_json(value, 2),
            "{\n  \"a\": [\n    1,\n    \"x y\"\n  ],\n  \"b\": {}\n}");
}

// A key that is a map becomes quoted JSON text. If each level quoted the text of the
// level below again, 200 levels would double the text 200 times.
TEST(cbor_json, keys_within_keys_do_not_multiply) {
  cbor_value value = 1;
  for (int depth = 0; depth < 200; ++depth) {
    cbor_map outer;
    outer.set(std::move(value), 2);
    value = std::move(outer);
  }
  const std::string json = to_json(value);
  EXPECT_EQ(json.substr(json.size() - 3), ":2}");
  EXPECT_LT(json.size(), 1500u);
}

}  // namespace
}  // namespace weir::test
