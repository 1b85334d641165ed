// SPDX-License-Identifier: Apache-2.0
/// @file
/// Pipelines of one line: damaged lines are refused at a column or accepted, and an
/// accepted line means what its file means.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "config/values.hpp"
#include "pipe/line.hpp"
#include "support/case_count.hpp"

namespace weir::test {
namespace {

constexpr const char* sound_line =
    R"(tgm.read path="a b.tgm" type=f32[64] skip_garbage=true ! elementwise op=multiply )"
    R"(operand=0.5 name='two' ! merge inlets={ a = "two.y", b = "x" } ! )"
    R"(generator shape=[64, 3] parts=["a, b", 'c'] ! - hold=5 object=a\ b)";

/// Returns whether two pipelines have the same keys and values in the same order. A key
/// with a dot stands for a table in a file.
bool same_tree(const tools::toml_item& a, const tools::toml_item& b) {
  const auto& first = a.items.front().items;
  const auto& second = b.items.front().items;
  bool same = first.size() == second.size();
  for (std::size_t i = 0; same && i < first.size(); ++i) {
    std::vector<tools::config_entry> left;
    std::vector<tools::config_entry> right;
    tools::add_entries(first[i], "", left);
    tools::add_entries(second[i], "", right);
    same = std::ranges::equal(left, right, [](const auto& x, const auto& y) {
      return x.key == y.key && x.value == y.value;
    });
  }
  return same;
}

TEST(Lines, ALineMeansWhatItsFileMeans) {
  const auto parsed = or_throw(tools::parse_line(sound_line));
  const auto file = or_throw(tools::parse_toml_tree(parsed.text, "line.toml"));
  EXPECT_TRUE(same_tree(parsed.root, file)) << parsed.text;
  EXPECT_EQ(parsed.root.items.front().items.size(), 5U);
  EXPECT_NE(parsed.text.find("use = \"tgm.write\"\nhold = 5\nobject = \"a b\"\n"),
            std::string::npos)
      << parsed.text;
}

TEST(Lines, NoLineCrashesTheReader) {
  std::mt19937_64 random(20261126);
  const std::string letters = "!-= \"'[]{}\\,.aZ09\n\x01\x7f\xff#";
  int accepted = 0;
  int refused = 0;
  const auto lines = static_cast<int>(test::case_count("WEIR_TEST_LINES", 20000));
  for (int i = 0; i < lines; ++i) {
    std::string line = sound_line;
    for (std::uint64_t n = 1 + random() % 3; n > 0; --n) {
      const std::size_t at = random() % line.size();
      switch (random() % 3) {
        case 0: line[at] = letters[random() % letters.size()]; break;
        case 1: line.erase(at, 1 + random() % 8); break;
        default: line.insert(at, 1, letters[random() % letters.size()]);
      }
    }
    const auto parsed = tools::parse_line(line);
    if (!parsed) {
      ++refused;
      EXPECT_NE(parsed.error().message().find("column "), std::string::npos) << line;
      continue;
    }
    ++accepted;
    const auto file = tools::parse_toml_tree(parsed->text, "line.toml");
    if (file) {
      EXPECT_TRUE(same_tree(parsed->root, *file)) << line << "\n" << parsed->text;
    }
  }
  EXPECT_GT(accepted, lines / 200);
  EXPECT_GT(refused, lines / 200);
}

TEST(Lines, DeepValuesDoNotExhaustTheStack) {
  for (const std::string& deep :
       {std::string(100'000, '['), std::string(100'000, '{'),
        std::string(50'000, '[') + std::string(50'000, ']'), std::string(10'000, 'x')}) {
    const auto refused = tools::parse_line("null key=" + deep);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message().find("column 10"), std::string::npos)
        << refused.error().message();
  }
}

TEST(Lines, WordsOfAShellKeepTheirBlanks) {
  const std::vector<std::string> words{"generator", "shape=[2, 3]", "!",
                                       "tgm.write", "path=a b.tgm", "object=\"c d\""};
  EXPECT_EQ(tools::join_words(words),
            "generator shape=[2, 3] ! tgm.write path=\"a b.tgm\" object=\"c d\"");
  EXPECT_EQ(tools::join_words(std::vector<std::string>{"a x=1 ! b"}), "a x=1 ! b");
}

}  // namespace
}  // namespace weir::test
