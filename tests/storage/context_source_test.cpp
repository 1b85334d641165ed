// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests token sources: memory, lists of files, pipes and chains, and the expansion of
/// paths.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "storage/context_support.hpp"
#include "weir/storage/live_source.hpp"

using namespace weir;
using namespace weir::storage;
using namespace weir::test;

namespace {

/// Returns all tokens as text, with "|" for the end of a document.
std::string text_of(token_source& source) {
  tokens all(source.size());
  EXPECT_EQ(or_throw(source.read(0, all)), all.size());
  std::string out;
  for (const std::uint32_t token : all) {
    out += token == end_of_text ? '|' : static_cast<char>(token);
  }
  return out;
}

/// Returns the code of a failed result, or `internal` if it succeeded.
errc code_of(const result<std::unique_ptr<token_source>>& r) {
  return r ? errc::internal : r.error().code();
}

}  // namespace

TEST(FileSet, KeepsTheOrderWithEndOfTextBetween) {
  const temp_folder folder;
  write_text(folder / "b", "two");
  write_text(folder / "B", "one");
  write_text(folder / "a10", "ten");
  write_text(folder / "a2", "2");
  auto& fs = posix_file_system();
  const std::vector<std::string> given = {folder / "b", folder / "a2", folder / "B",
                                          folder / "a10"};
  const auto set = or_throw(open_file_set(fs, given));
  EXPECT_EQ(text_of(*set), "two|2|one|ten");
  const auto plain = or_throw(open_file_set(fs, given, {.separate_documents = false}));
  EXPECT_EQ(text_of(*plain), "two2oneten");
  EXPECT_EQ(set->place_text(4), folder / "a2" + ":0");
  EXPECT_EQ(set->place_text(3), folder / "b" + ":3");
  EXPECT_EQ(plain->place_text(4), folder / "B" + ":0");
  const auto twice =
      or_throw(open_file_set(fs, {folder / "b", folder / "a2", folder / "b"}));
  EXPECT_EQ(text_of(*twice), "two|2|two");
}

TEST(FileSet, ReadsAtAnyIndexEqualTheWhole) {
  const temp_folder folder;
  std::string expected;
  std::vector<std::string> paths;
  for (int i = 0; i < 40; ++i) {
    const std::string text(static_cast<std::size_t>(i % 7 + 1),
                           static_cast<char>('a' + i % 26));
    paths.push_back(folder / std::to_string(1000 + i));
    write_text(paths.back(), text);
    expected += (i == 0 ? "" : "|") + text;
  }
  const auto set = or_throw(open_file_set(posix_file_system(), paths));
  ASSERT_EQ(text_of(*set), expected);
  const philox random(4, 4);
  for (std::uint64_t i = 0; i < 500; ++i) {
    const std::size_t offset = random.below(2 * i, expected.size());
    tokens some(1 + random.below(2 * i + 1, 60));
    const std::size_t got = or_throw(set->read(offset, some));
    ASSERT_EQ(got, std::min(some.size(), expected.size() - offset));
    for (std::size_t k = 0; k < got; ++k) {
      ASSERT_EQ(some[k] == end_of_text ? '|' : static_cast<char>(some[k]),
                expected[offset + k]);
    }
  }
}

TEST(FileSet, NextDocumentIsTheStartOfTheNextFile) {
  const temp_folder folder;
  write_text(folder / "1", "abc");
  write_text(folder / "2", "de");
  const std::vector<std::string> paths = {folder / "1", folder / "2"};
  const auto set = or_throw(open_file_set(posix_file_system(), paths));
  EXPECT_EQ(or_throw(set->next_document(0)), 0U);
  EXPECT_EQ(or_throw(set->next_document(1)), 4U);
  EXPECT_EQ(or_throw(set->next_document(4)), 4U);
  EXPECT_EQ(or_throw(set->next_document(5)), 6U);
}

TEST(FileSet, MissingAndEmptyFilesAreErrorsWhenItIsAttached) {
  const temp_folder folder;
  auto& fs = posix_file_system();
  write_text(folder / "a", "x");
  write_text(folder / "empty", "");
  const auto missing = open_file_source(fs, folder / "none");
  EXPECT_EQ(code_of(missing), errc::source_unavailable);
  EXPECT_EQ(missing.error().root().code(), errc::not_found);
  const auto empty = open_file_set(fs, {folder / "a", folder / "empty"});
  EXPECT_EQ(code_of(empty), errc::source_unavailable);
  EXPECT_NE(empty.error().location().find("empty"), std::string::npos);
  EXPECT_EQ(code_of(open_file_set(fs, {})), errc::invalid_argument);
  EXPECT_EQ(code_of(open_memory_tokens(tokens{})), errc::source_unavailable);
}

TEST(FileSet, AGrowingFileKeepsTheSizeItHadAndAShrinkingOneIsAnError) {
  const temp_folder folder;
  write_text(folder / "a", "abcdef");
  const auto source = or_throw(open_file_source(posix_file_system(), folder / "a"));
  std::ofstream(folder / "a", std::ios::app) << "more";
  EXPECT_EQ(text_of(*source), "abcdef");
  std::filesystem::resize_file(folder / "a", 3);
  tokens all(6);
  const auto r = source->read(0, all);
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code(), errc::source_unavailable);
  EXPECT_NE(r.error().location().find("a:0"), std::string::npos);
}

TEST(FileSet, TextThatIsOverwrittenWhileItIsReadIsNoticed) {
  const temp_folder folder;
  const std::string before(20000, 'a');
  std::string after = before;
  after[15000] = 'b';
  const auto overwrite = [&](const std::string& text) {  // in the same file
    std::ofstream(folder / "a", std::ios::trunc) << text;
  };
  for (const std::uint64_t limit : {std::uint64_t{1} << 20, std::uint64_t{0}}) {
    overwrite(before);
    source_options options;
    options.digest_limit = limit;
    const auto source =
        or_throw(open_file_source(posix_file_system(), folder / "a", options));
    tokens some(100);
    ASSERT_TRUE(source->read(0, some));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    overwrite(after);
    // With digests, a segment that has not changed can still be read.
    EXPECT_EQ(source->read(0, some).has_value(), limit != 0);
    const auto changed = source->read(15000, some);
    ASSERT_FALSE(changed);
    EXPECT_EQ(changed.error().code(), errc::history_mismatch);
    EXPECT_NE(changed.error().location().find("a:15000"), std::string::npos);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    overwrite(before + "more");
    EXPECT_TRUE(source->read(15000, some));
  }
}

TEST(ExpandPaths, KeepsTheOrderOfThePatternsAndSortsWhatEachStandsFor) {
  const temp_folder folder;
  std::filesystem::create_directories(folder / "d/e");
  for (const char* name : {"d/x.pod", "d/y.pod", "d/e/z.pod", "d/n.txt", "d/.hidden"}) {
    write_text(folder / name, "x");
  }
  std::filesystem::create_symlink("x.pod", folder / "d/link.pod");
  auto& fs = posix_file_system();
  const auto expand = [&](std::vector<std::string> patterns) {
    for (auto& p : patterns) {
      p = folder / p;
    }
    auto found = expand_paths(fs, patterns);
    std::string out;
    if (found) {
      for (const auto& p : *found) {
        out += p.substr(folder.path().size() + 1) + " ";
      }
    } else {
      out = found.error().code() == errc::not_found ? "not found" : "other";
    }
    return out;
  };
  EXPECT_EQ(expand({"d"}), "d/e/z.pod d/link.pod d/n.txt d/x.pod d/y.pod ");
  EXPECT_EQ(expand({"d/*.pod"}), "d/link.pod d/x.pod d/y.pod ");
  EXPECT_EQ(expand({"d/y.pod", "d/*.pod"}), "d/y.pod d/link.pod d/x.pod d/y.pod ");
  EXPECT_EQ(expand({"d/[xy].po?", "d/x.pod"}), "d/x.pod d/y.pod d/x.pod ");
  EXPECT_EQ(expand({"d/[!x].pod"}), "d/y.pod ");
  EXPECT_EQ(expand({"*/*/z*"}), "d/e/z.pod ");
  EXPECT_EQ(expand({"d/[a-c]*"}), "not found");
  // Two stars mean the same as one, and a leading dot is matched by a dot alone.
  EXPECT_EQ(expand({"**/x.pod"}), "d/x.pod ");
  EXPECT_EQ(expand({"d/*hidden"}), "not found");
  EXPECT_EQ(expand({"d/?hidden"}), "not found");
  EXPECT_EQ(expand({"d/[.]hidden"}), "not found");
  EXPECT_EQ(expand({"d/.h*"}), "d/.hidden ");
  // A backslash is an ordinary character, and so is a bracket that is not closed.
  write_text(folder / "d/a\\[b", "x");
  EXPECT_EQ(expand({"d/?\\[*"}), "d/a\\[b ");
  EXPECT_EQ(expand({"d/?\\*"}), "d/a\\[b ");
  EXPECT_EQ(expand({"nothing"}), "not found");
}

TEST(ExpandPaths, ALinkThatLeadsBackIsAnError) {
  const temp_folder folder;
  std::filesystem::create_directory_symlink(folder.path(), folder / "loop");
  const std::vector<std::string> patterns = {folder.path()};
  const auto r = expand_paths(posix_file_system(), patterns);
  ASSERT_FALSE(r);
  EXPECT_TRUE(r.error().code() == errc::invalid_argument || r.error().code() == errc::io);
}

TEST(PipeSource, ChunksDoNotDependOnTheTimingOfTheWriter) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const tokens expected = random_tokens(100000, 12);
  std::thread writer([&] {
    std::string bytes;
    for (const std::uint32_t token : expected) {
      bytes.push_back(static_cast<char>(token));
    }
    for (std::size_t offset = 0, i = 0; offset < bytes.size(); ++i) {
      const std::size_t count = std::min(bytes.size() - offset, 1 + i * 37 % 5000);
      const ssize_t put = ::write(ends[1], bytes.data() + offset, count);
      if (put <= 0) {
        break;
      }
      offset += static_cast<std::size_t>(put);
    }
    ::close(ends[1]);
  });
  stream_config c;
  c.chunk = 100;
  auto stream = or_throw(context_stream::open(c, or_throw(open_pipe_source(ends[0]))));
  const auto chunks = read_all(*stream, 100);
  writer.join();
  ::close(ends[0]);
  EXPECT_EQ(concatenated(chunks), expected);
  EXPECT_EQ(chunks[3].lookahead, expected[400]);
}

TEST(TokenSource, FileSetPipeAndMemoryGiveTheSameChunks) {
  const temp_folder folder;
  const tokens ids = random_tokens(5000, 13);
  std::string text;
  for (const std::uint32_t id : ids) {
    text.push_back(static_cast<char>(id));
  }
  write_text(folder / "all", text);
  write_text(folder / "part1", text.substr(0, 1234));
  write_text(folder / "part2", text.substr(1234));
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], text.data(), text.size()),
            static_cast<ssize_t>(text.size()));
  ::close(ends[1]);
  auto& fs = posix_file_system();
  std::vector<std::unique_ptr<token_source>> sources;
  sources.push_back(or_throw(open_memory_tokens(ids)));
  sources.push_back(or_throw(open_memory_tokens(as_view(text))));
  sources.push_back(or_throw(open_file_source(fs, folder / "all")));
  sources.push_back(or_throw(open_file_set(fs, {folder / "part1", folder / "part2"},
                                           {.separate_documents = false})));
  sources.push_back(or_throw(open_pipe_source(ends[0])));
  std::vector<token_chunk> reference;
  for (auto& source : sources) {
    stream_config c;
    c.chunk = 48;
    auto stream = or_throw(context_stream::open(c, std::move(source)));
    auto chunks = read_all(*stream, 48);
    if (reference.empty()) {
      reference = std::move(chunks);
      ASSERT_EQ(concatenated(reference), ids);
      continue;
    }
    ASSERT_EQ(chunks.size(), reference.size());
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      ASSERT_TRUE(same(chunks[i], reference[i])) << i;
      ASSERT_EQ(chunks[i].mark.after, reference[i].mark.after) << i;
    }
  }
  ::close(ends[0]);
}

TEST(PipeSource, FeedsOneLaneAndCannotLoop) {
  stream_config c;
  c.lanes = 2;
  EXPECT_EQ(context_stream::open(c, or_throw(open_pipe_source(0))).error().code(),
            errc::invalid_argument);
  c.lanes = 1;
  c.end = end_policy::loop;
  EXPECT_EQ(context_stream::open(c, or_throw(open_pipe_source(0))).error().code(),
            errc::invalid_argument);
}

TEST(ChainedSource, NextDocumentCrossesTheSeam) {
  std::vector<std::unique_ptr<token_source>> parts;
  parts.push_back(or_throw(open_memory_tokens(tokens{1, 256, 2})));
  parts.push_back(or_throw(open_memory_tokens(tokens{3, 4})));
  const auto chain = or_throw(chain_sources(std::move(parts)));
  EXPECT_EQ(chain->size(), 6U);
  EXPECT_EQ(or_throw(chain->next_document(1)), 2U);
  EXPECT_EQ(or_throw(chain->next_document(3)), 4U);
  EXPECT_EQ(or_throw(chain->next_document(4)), 4U);
  EXPECT_EQ(or_throw(chain->next_document(5)), 6U);
  EXPECT_EQ(text_of(*chain), std::string("\1|\2|\3\4"));
}
