// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the check of UTF-8 for every code point in every length, and for damaged texts,
/// and where a text can be cut.
#include "weir/base/utf8.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <random>
#include <string>
#include <vector>

namespace weir {
namespace {

/// Returns the UTF-8 of a code point by definition. The caller chooses the number of
/// bytes, so that longer forms than the shortest can be written as well.
std::string encoded(std::uint32_t code_point, std::size_t bytes) {
  std::string text(bytes, '\0');
  for (std::size_t i = bytes; i-- > 1; code_point >>= 6) {
    text[i] = static_cast<char>(0x80 | (code_point & 0x3F));
  }
  constexpr unsigned marks[] = {0, 0, 0xC0, 0xE0, 0xF0};
  text[0] = static_cast<char>(marks[bytes] | code_point);
  return text;
}

/// Returns the number of bytes of the shortest form of a code point.
std::size_t shortest_form(std::uint32_t code_point) {
  return code_point < 0x80 ? 1 : code_point < 0x800 ? 2 : code_point < 0x10000 ? 3 : 4;
}

TEST(Utf8, TakesEveryCodePointInItsShortestFormAndNoOther) {
  for (std::uint32_t code_point = 0; code_point < 0x11'0000; ++code_point) {
    const bool surrogate = code_point >= 0xD800 && code_point < 0xE000;
    const std::size_t shortest = shortest_form(code_point);
    for (std::size_t bytes = shortest; bytes <= 4; ++bytes) {
      const std::string text = encoded(code_point, bytes);
      const bool well_formed = bytes == shortest && !surrogate;
      ASSERT_EQ(is_utf8(text), well_formed) << code_point << " in " << bytes;
      ASSERT_EQ(utf8_sequence_length(text), well_formed ? bytes : 0) << code_point;
    }
  }
}

TEST(Utf8, RefusesCodePointsBeyondTheLastOne) {
  for (std::uint32_t code_point = 0x11'0000; code_point < 0x20'0000;
       code_point += 0xFFF) {
    EXPECT_FALSE(is_utf8(encoded(code_point, 4))) << code_point;
  }
  for (const char* never : {"\xF5\x80\x80\x80", "\xF8\x88\x80\x80\x80", "\xFE", "\xFF"}) {
    EXPECT_FALSE(is_utf8(never));
  }
}

TEST(Utf8, RefusesASequenceThatIsCutOrLacksItsFirstByte) {
  for (const std::uint32_t code_point : {0xE4U, 0x20ACU, 0x1F600U}) {
    const std::string whole = encoded(code_point, shortest_form(code_point));
    for (std::size_t size = 1; size < whole.size(); ++size) {
      EXPECT_FALSE(is_utf8(whole.substr(0, size))) << code_point;
      EXPECT_FALSE(is_utf8(whole.substr(0, size) + "a")) << code_point;
      EXPECT_FALSE(is_utf8(whole.substr(size))) << code_point;
    }
  }
}

// Texts of up to 39 bytes reach the path that checks eight ASCII characters at a time as
// well as the path for single characters, wherever the bad byte stands.
TEST(Utf8, FindsOneBadByteAtEveryPlaceOfEveryLength) {
  EXPECT_TRUE(is_utf8(""));
  EXPECT_EQ(utf8_sequence_length(""), 0U);
  for (std::size_t size = 1; size < 40; ++size) {
    const std::string good(size, 'a');
    ASSERT_TRUE(is_utf8(good)) << size;
    for (std::size_t place = 0; place < size; ++place) {
      std::string bad = good;
      bad[place] = '\x80';
      ASSERT_FALSE(is_utf8(bad)) << size << " bytes, bad byte " << place;
    }
  }
}

// Random texts, half of them with a flipped bit. The check of a whole text must agree
// with a walk from sequence to sequence.
TEST(Utf8, TextIsWellFormedIfAllItsSequencesAre) {
  constexpr unsigned seed = 11;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  int refused = 0;
  for (int trial = 0; trial < 20'000; ++trial) {
    std::string text;
    for (auto i = random() % 12; i > 0; --i) {
      const auto code_point = static_cast<std::uint32_t>(
          random() % 3 == 0 ? random() % 0x80 : random() % 0xD800);
      text += encoded(code_point, shortest_form(code_point));
    }
    if (!text.empty() && random() % 2 == 0) {
      text[random() % text.size()] ^= static_cast<char>(1U << random() % 8);
    }
    std::string_view rest = text;
    while (const std::size_t length = utf8_sequence_length(rest)) {
      rest.remove_prefix(length);
    }
    ASSERT_EQ(is_utf8(text), rest.empty());
    refused += rest.empty() ? 0 : 1;
  }
  EXPECT_GT(refused, 1000) << "too few of the damaged texts are malformed";
}

// Characters of all four lengths in every order. The boundary is compared with a list of
// the starts of the characters, which the test knows because it has written them.
TEST(Utf8, ABoundaryIsTheStartOfTheCharacterThatWouldBeCut) {
  for (unsigned order = 0; order < 256; ++order) {
    std::string text;
    std::vector<std::size_t> starts;
    for (unsigned i = 0; i < 4; ++i) {
      constexpr std::uint32_t code_points[] = {0x61, 0xE4, 0x20AC, 0x1F600};
      const std::uint32_t code_point = code_points[(order >> (2 * i)) & 3];
      starts.push_back(text.size());
      text += encoded(code_point, shortest_form(code_point));
      EXPECT_EQ(announced_utf8_length(text[starts.back()]), text.size() - starts.back());
    }
    starts.push_back(text.size());
    for (std::size_t position = 0; position <= text.size(); ++position) {
      const auto behind = std::upper_bound(starts.begin(), starts.end(), position);
      ASSERT_EQ(utf8_boundary(text, position), *std::prev(behind)) << text;
      ASSERT_TRUE(is_utf8(text.substr(0, utf8_boundary(text, position)))) << text;
    }
  }
}

TEST(Utf8, BoundariesOfTextsWithoutACharacterAreTheirStart) {
  EXPECT_EQ(utf8_boundary("", 0), 0U);
  EXPECT_EQ(utf8_boundary("\x80\xBF\x80", 2), 0U);
  EXPECT_EQ(utf8_boundary("\x80\xBF\x80", 3), 3U) << "nothing is cut at the end";
}

TEST(Utf8, EachByteContinuesACharacterOrAnnouncesALengthOrIsNeverUsed) {
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    EXPECT_EQ(continues_utf8(c), byte >= 0x80 && byte < 0xC0) << byte;
    const bool begins = byte < 0x80 || (byte >= 0xC2 && byte < 0xF5);
    EXPECT_EQ(announced_utf8_length(c) != 0, begins) << byte;
  }
}

}  // namespace
}  // namespace weir
