// SPDX-License-Identifier: Apache-2.0
/// @file
/// Damaged files of pipelines: each is refused with a message or accepted, and none
/// crashes the reader or the check.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "demo_stages.hpp"
#include "pipeline/file.hpp"

namespace weir::test {
namespace {

constexpr const char* sound = R"(name = "two"
files = "/data"
[run]
workers = 3
stall = "2 min"
[checkpoint]
every = "1000 items, 30 s"
[[stage]]
name = "read"
use = "test.numbers"
count = 20
[[stage]]
name = "head"
use = "test.loop_head"
window = "5 items, 2 MiB"
loop = { token = "tail.y", delay = 2 }
[[stage]]
name = "tail"
use = "test.scaled"
factor = 7
on_error = "skip"
[[stage]]
name = "join"
use = "test.joined"
inlets = { b = "read", a = "tail" }
[[stage]]
name = "four"
use = "test.batched"
[[stage]]
name = "write"
use = "demo.lines"
path = "out.txt"
[set]
"tail.factor" = 9
)";

/// Damages texts at random.
class damage {
 public:
  explicit damage(std::uint64_t seed) : random_(seed) {}

  std::string operator()(std::string text) {
    for (std::size_t n = 1 + pick(3); n > 0 && !text.empty(); --n) {
      change(text);
    }
    return text;
  }

 private:
  std::size_t pick(std::size_t below) { return random_() % below; }

  std::pair<std::size_t, std::size_t> line_of(const std::string& text) {
    const std::size_t inside = pick(text.size());
    const std::size_t begin = text.rfind('\n', inside);
    const std::size_t end = text.find('\n', inside);
    const std::size_t first =
        begin == std::string::npos || begin == inside ? 0 : begin + 1;
    return {first, (end == std::string::npos ? text.size() : end + 1) - first};
  }

  void change(std::string& text) {
    static const std::vector<std::string> pieces{"[[stage]]\n",
                                                 "[set]\n",
                                                 "[run]\n",
                                                 "[",
                                                 "]",
                                                 "{",
                                                 "}",
                                                 "\"",
                                                 "=",
                                                 ".",
                                                 "\n",
                                                 "name",
                                                 "use",
                                                 "from",
                                                 "loop",
                                                 "inlets = {}",
                                                 "delay",
                                                 "-1",
                                                 "1e400",
                                                 "\"\"\"",
                                                 "\xff",
                                                 "\\u0000",
                                                 "999999999999999999999",
                                                 "true",
                                                 "[1, [2, {a = 3}]]",
                                                 "1979-05-27",
                                                 std::string(1, '\0'),
                                                 "from = \"tail\"\n",
                                                 "window = \"4294967295 items\"\n",
                                                 "delay = 4294967295",
                                                 "host = 1\n",
                                                 "a.b.c = 1\n",
                                                 "count = 9223372036854775807\n"};
    switch (pick(6)) {
      case 0: text[pick(text.size())] = static_cast<char>(pick(256)); break;
      case 1: text.erase(pick(text.size()), 1 + pick(8)); break;
      case 2: text.insert(pick(text.size() + 1), pieces[pick(pieces.size())]); break;
      case 3: {
        const auto [begin, size] = line_of(text);
        text.erase(begin, size);
        break;
      }
      case 4: {
        const auto [begin, size] = line_of(text);
        text.insert(begin, text.substr(begin, size));
        break;
      }
      default: {
        const auto [begin, size] = line_of(text);
        const std::string line = text.substr(begin, size);
        text.erase(begin, size);
        text.insert(text.empty() ? 0 : line_of(text).first, line);
      }
    }
  }

  std::mt19937_64 random_;
};

TEST(Mutations, NoTextCrashesTheReaderOrTheCheck) {
  add_demo_stages();
  const char* given = std::getenv("WEIR_SEED");
  const std::uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  std::printf("seed %llu (WEIR_SEED repeats it)\n",
              static_cast<unsigned long long>(seed));
  damage damaged(seed);
  int accepted = 0;
  int refused = 0;
  for (int i = 0; i < 4000; ++i) {
    const std::string text = damaged(sound);
    const auto written = tools::read_pipeline(text, "two.toml", "/data", {});
    if (!written) {
      ++refused;
      EXPECT_NE(written.error().message().find("two.toml"), std::string::npos)
          << written.error().message() << "\n---\n"
          << text;
      continue;
    }
    const auto made = tools::make_pipeline(*written, flow::stages());
    const auto plan = made ? (*made)->check() : result<flow::plan>(made.error());
    plan ? ++accepted : ++refused;
    if (!plan) {
      EXPECT_FALSE(plan.error().message().empty());
      continue;
    }
    const auto copy = tools::read_pipeline(written->copy, "two.toml", "/other", {});
    ASSERT_TRUE(copy) << copy.error().message() << "\n---\n" << written->copy;
    EXPECT_EQ(copy->copy, written->copy) << text;
  }
  EXPECT_GT(accepted, 100);
  EXPECT_GT(refused, 100);
}

TEST(Mutations, DeepTablesDoNotExhaustTheStack) {
  std::string deep = "a";
  for (int i = 0; i < 2000; ++i) {
    deep += ".a";
  }
  for (const std::string& text :
       {"[" + deep + "]\n", deep + " = 1\n", "[[stage]]\n" + deep + " = 1\n",
        "[" + deep + "]\n" + deep + " = 1\n", "x = " + std::string(4000, '[') + "\n",
        "x = " + std::string(4000, '{') + "\n"}) {
    EXPECT_FALSE(tools::read_pipeline(text, "deep.toml", "/", {}));
  }
  const auto refused =
      tools::read_pipeline("[" + deep + deep + "]\n", "deep.toml", "/", {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(
      refused.error().message(),
      "cannot read \"deep.toml\": expected keys of at most 32 parts, found one with "
      "more\n  at deep.toml:1");
}

}  // namespace
}  // namespace weir::test
