// SPDX-License-Identifier: Apache-2.0
/// @file
/// Ranges of files that the user names, so that they are left out.
#include <gtest/gtest.h>

#include "storage/context_support.hpp"
#include "weir/base/bytes.hpp"
#include "weir/storage/mix_source.hpp"
#include "weir/storage/token_files.hpp"

namespace weir::storage {
namespace {

using test::temp_folder;
using test::tokens;

/// A text in two files, and streams over it.
class SkippedRanges : public testing::Test {
 protected:
  void SetUp() override {
    write("a", first_);
    write("b", second_);
    options_.format = token_format::bytes;
    config_.chunk = 100;
    config_.frequencies = {1};
  }
  void write(const char* name, const tokens& bytes) {
    test::write_text(folder_ / name, std::string(bytes.begin(), bytes.end()));
  }
  [[nodiscard]] file_range range(const char* name, std::uint64_t begin,
                                 std::uint64_t end) const {
    return {folder_ / name, begin, end};
  }
  /// Opens both files. A source that is not resumed begins at its first token.
  [[nodiscard]] result<std::unique_ptr<token_source>> source(std::vector<file_range> skip,
                                                             bool resumes = false) const {
    token_file_options options = options_;
    options.skip = std::move(skip);
    WEIR_TRY(auto opened, open_token_files(posix_file_system(),
                                           {folder_ / "a", folder_ / "b"}, options));
    if (!resumes) {
      WEIR_CHECK(opened->go_on_at(0));
    }
    return opened;
  }
  [[nodiscard]] std::unique_ptr<context_stream> stream(std::vector<file_range> skip,
                                                       bool resumes = false) const {
    return or_throw(context_stream::open(config_, or_throw(source(skip, resumes))));
  }
  /// Returns the tokens of both files without ranges of them.
  [[nodiscard]] tokens text(const std::vector<file_range>& skip) const {
    tokens out = rest_of(folder_ / "a", first_, skip);
    out.push_back(end_of_text);
    const tokens behind = rest_of(folder_ / "b", second_, skip);
    out.insert(out.end(), behind.begin(), behind.end());
    return out;
  }
  [[nodiscard]] static tokens rest_of(const std::string& path, const tokens& all,
                                      const std::vector<file_range>& skip) {
    tokens out;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const bool skipped = std::any_of(skip.begin(), skip.end(), [&](const auto& r) {
        return r.file == path && r.begin <= i && i < r.end;
      });
      if (!skipped) {
        out.push_back(all[i]);
      }
    }
    return out;
  }
  [[nodiscard]] static tokens all_of(token_source& source) {
    tokens all(source.size());
    EXPECT_EQ(or_throw(source.read(0, all)), all.size());
    return all;
  }

  const temp_folder folder_;
  const tokens first_ = test::random_tokens(5000, 21);
  const tokens second_ = test::random_tokens(3000, 22);
  token_file_options options_;
  stream_config config_;
};

TEST_F(SkippedRanges, AreNoPartOfTheText) {
  const std::vector<file_range> cases[] = {
      {range("a", 0, 1)},
      {range("a", 10, 20), range("a", 15, 40), range("b", 2999, 3000)},
      {range("a", 4000, 5000), range("b", 0, 100)},
      {{"b", 7, 8}}};
  for (const auto& skip : cases) {
    std::vector<file_range> full = skip;
    full[0].file = skip[0].file == "b" ? folder_ / "b" : skip[0].file;
    const auto opened = or_throw(source(skip));
    EXPECT_EQ(all_of(*opened), text(full));
    // The identity is that of the whole files.
    EXPECT_EQ(opened->identity().digest(), or_throw(source({}))->identity().digest());
  }
}

TEST_F(SkippedRanges, CountIdsInTokenFiles) {
  options_.format = token_format::u16;
  options_.vocabulary = 65536;
  const auto whole = all_of(*or_throw(source({})));
  tokens expected = whole;
  expected.erase(expected.begin() + 5, expected.begin() + 9);
  EXPECT_EQ(all_of(*or_throw(source({range("a", 5, 9)}))), expected);
}

TEST_F(SkippedRanges, AreRefusedOutsideOfTheFiles) {
  const auto code_of = [&](file_range one) {
    return source({std::move(one)}).error().code();
  };
  EXPECT_EQ(code_of(range("a", 4999, 5001)), errc::out_of_range);
  EXPECT_EQ(code_of(range("a", 5, 5)), errc::out_of_range);
  EXPECT_EQ(code_of(range("c", 0, 1)), errc::not_found);
}

TEST_F(SkippedRanges, StayInTheCursorAndCountForEveryLaterResume) {
  const std::vector<file_range> skip = {range("a", 1000, 1500), range("b", 10, 2000)};
  const tokens expected = text(skip);
  const auto run = stream(skip);
  const auto chunks = test::read_all(*run, config_.chunk);
  ASSERT_EQ(test::concatenated(chunks), expected);
  const auto last = encode(or_throw(run->cursor(1)));
  auto current = stream(skip);
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    // The setting may be repeated or not.
    auto next = stream(i % 2 == 0 ? skip : std::vector<file_range>(), true);
    const auto cursor = encode(or_throw(current->cursor(1)));
    if (i > 0) {  // a cursor at the begin has no state
      or_throw(next->restore(or_throw(decode_cursor(cursor))));
      ASSERT_EQ(encode(or_throw(next->cursor(1))), cursor) << i;
      current = std::move(next);
    }
    const auto chunk = or_throw(current->next_chunk(config_.chunk));
    ASSERT_TRUE(chunk && test::same(*chunk, chunks[i])) << i;
  }
  EXPECT_EQ(encode(or_throw(current->cursor(1))), last);
  const auto shown = or_throw(left_out_of(or_throw(decode_cursor(last)).source_state));
  ASSERT_EQ(shown.size(), 2U);
  EXPECT_EQ(shown[1].file, "b");
  EXPECT_EQ(shown[1].range, (left_out_range{1, 10, 1990, true}));
}

TEST_F(SkippedRanges, NewOnesMustLieBehindTheCursor) {
  const auto run = stream({range("a", 50, 60)});
  tokens seen = test::concatenated(test::read_all(*run, config_.chunk, 0, 10));
  const auto cursor = or_throw(run->cursor(1));
  // The cursor stands at byte 1010 of the first file.
  const auto restored = [&](file_range more) {
    auto next = stream({std::move(more)}, true);
    return next->restore(cursor).map([&] { return std::move(next); });
  };
  const auto late = restored(range("a", 1009, 1200));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code(), errc::config_mismatch);
  EXPECT_TRUE(late.error().message().starts_with(
      "cannot leave 191 bytes out of \"" + folder_ / "a" +
      "\": expected a range behind the place at which the run goes on, found one of "
      "which tokens were consumed"));
  EXPECT_EQ(late.error().location(), folder_ / "a" + ":1009");
  EXPECT_TRUE(restored(range("a", 52, 58))) << "it is left out already";
  const auto next = restored(range("a", 1010, 1200));
  ASSERT_TRUE(next);
  const tokens rest = test::concatenated(test::read_all(**next, config_.chunk));
  seen.insert(seen.end(), rest.begin(), rest.end());
  EXPECT_EQ(seen, text({range("a", 50, 60), range("a", 1010, 1200)}));
  // A cursor behind the new range has both.
  EXPECT_EQ(or_throw(left_out_of(or_throw((*next)->cursor(2)).source_state)).size(), 2U);
}

TEST_F(SkippedRanges, OfLanesLieBehindTheFurthestOne) {
  config_.lanes = 3;
  const auto run = stream({});
  test::read_all(*run, config_.chunk, 0, 3);
  const auto cursor = or_throw(run->cursor(1));
  EXPECT_FALSE(stream({range("a", 150, 160)}, true)->restore(cursor));
  const auto next = stream({range("a", 300, 350)}, true);
  or_throw(next->restore(cursor));
  const auto chunk = or_throw(next->next_lane_chunk(10, 0));
  EXPECT_TRUE(
      std::equal(chunk->tokens.begin(), chunk->tokens.end(), first_.begin() + 350));
}

TEST_F(SkippedRanges, ComposedSourcesKeepThemToo) {
  using wrap =
      std::function<std::unique_ptr<token_source>(std::unique_ptr<token_source>)>;
  const wrap wraps[] = {
      [](auto source) {
        std::vector<std::unique_ptr<token_source>> parts;
        parts.push_back(std::move(source));
        parts.push_back(or_throw(open_memory_tokens(test::random_tokens(900, 10))));
        return or_throw(chain_sources(std::move(parts)));
      },
      [](auto source) { return or_throw(shuffle_source(std::move(source), 4, 3, 500)); },
      [](auto source) {
        return or_throw(sample_source(std::move(source), 1, 2, 3, 500));
      },
      [](auto source) {
        std::vector<mix_part> parts(1);
        parts[0].source = std::move(source);
        parts[0].exhausted = exhaustion::drop;
        mix_options options;
        options.run_tokens = 500;
        return or_throw(mix_sources(std::move(parts), options));
      }};
  const auto skip = range("a", 100, 3000);
  const auto ahead = range("b", 2000, 2500);
  for (const wrap& one : wraps) {
    const auto open = [&](std::vector<file_range> ranges, bool resumes) {
      auto whole = one(or_throw(source(ranges, true)));
      if (!resumes) {
        or_throw(whole->go_on_at(0));
      }
      return or_throw(context_stream::open(config_, std::move(whole)));
    };
    const auto run = open({skip}, false);
    test::read_all(*run, config_.chunk, 0, 5);
    const auto cursor = encode(or_throw(run->cursor(1)));
    const auto expected = test::read_all(*run, config_.chunk);
    ASSERT_GT(expected.size(), 5U);
    const auto again = open({}, true);
    or_throw(again->restore(or_throw(decode_cursor(cursor))));
    EXPECT_EQ(encode(or_throw(again->cursor(1))), cursor);
    EXPECT_EQ(test::concatenated(test::read_all(*again, config_.chunk)),
              test::concatenated(expected));
    // Further ranges are tried in later_skip_test.cpp.
    const auto more = open({skip, ahead}, true);
    EXPECT_TRUE(more->restore(or_throw(decode_cursor(cursor))));
  }
}

}  // namespace
}  // namespace weir::storage
