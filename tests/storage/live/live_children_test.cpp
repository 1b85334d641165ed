// SPDX-License-Identifier: Apache-2.0
/// @file
/// Child processes: their protocol, their states and resumes.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <fstream>
#include <thread>

#include "storage/live/live_support.hpp"

using namespace weir;
using namespace weir::storage;
using namespace weir::test;

TEST(LiveSources, GiveTheChunksOfAFile) {
  const temp_folder folder;
  const tokens ids = random_tokens(5000, 13);
  const std::string text = text_of(ids);
  write_text(folder / "bytes", text);
  write_text(folder / "lines",
             fmt::format("{{\"ids\": [{}]}}\n{{\"end\": true}}\n", fmt::join(ids, ",")));
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  std::vector<std::unique_ptr<token_source>> sources;
  sources.push_back(or_throw(open_file_source(posix_file_system(), folder / "bytes")));
  sources.push_back(or_throw(open_child_source(child_of(folder / "lines"))));
  sources.push_back(or_throw(open_fifo_source(folder / "fifo")));
  sources.push_back(or_throw(open_socket_source("unix:" + (folder / "socket"))));
  sources.push_back(or_throw(open_socket_source("tcp:0")));
  std::vector<std::jthread> writers;
  writers.emplace_back([&] { std::ofstream(folder / "fifo", std::ios::binary) << text; });
  for (const std::size_t i : {3U, 4U}) {
    writers.emplace_back([&, address = address_of(*sources[i])] {
      const peer one(address);
      one.send(text.substr(0, 1234));
      one.send(text.substr(1234));
    });
  }
  std::vector<token_chunk> expected;
  stream_cursor cursor;
  for (auto& source : sources) {
    auto stream = stream_of(std::move(source));
    const auto chunks = read_all(*stream, 48);
    auto end = or_throw(stream->cursor(3));
    if (expected.empty()) {
      expected = chunks;
      cursor = end;
      ASSERT_EQ(concatenated(chunks), ids);
    }
    ASSERT_EQ(chunks.size(), expected.size());
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      ASSERT_TRUE(same(chunks[i], expected[i])) << i;
    }
    // Only what names the source may differ.
    end.source_state = cursor.source_state;
    end.stream_identity = cursor.stream_identity;
    EXPECT_EQ(end, cursor);
  }
}

TEST(LiveChild, GoesOnBehindEveryChunk) {
  const temp_folder folder;
  std::string lines;
  std::uint64_t count = 0;
  for (int i = 0; i < 12; ++i) {
    const std::string text(static_cast<std::size_t>(i * 7 % 23),
                           static_cast<char>('a' + i));
    lines += fmt::format("{{\"doc\": {}, \"text\": \"{}\"}}\n", i, text);
    count += 1;
    if (i % 3 != 1) {
      lines += fmt::format("{{\"state\": {}}}\n", ++count);
    }
  }
  write_text(folder / "lines", lines + "{\"end\": true}\n");
  for (const bool turns : {false, true}) {
    live_options options;
    options.turns = turns;
    const auto open = [&] {
      return stream_of(or_throw(open_child_source(child_of(folder / "lines"), options)),
                       8);
    };
    auto whole = open();
    const auto expected = read_all(*whole, 8);
    const auto end = encode(or_throw(whole->cursor(9)));
    for (std::size_t i = turns ? 4 : 0; i + 1 < expected.size(); i += 3) {
      auto stream = open();
      const auto at = or_throw(whole->cursor_at(expected[i].mark, 5));
      or_throw(stream->restore(or_throw(decode_cursor(encode(at)))));
      const auto rest = read_all(*stream, 8);
      ASSERT_EQ(rest.size(), expected.size() - i - 1);
      for (std::size_t k = 0; k < rest.size(); ++k) {
        ASSERT_TRUE(same(rest[k], expected[i + 1 + k])) << i << " " << k;
      }
      EXPECT_EQ(encode(or_throw(stream->cursor(9))), end) << i;
    }
  }
}

TEST(LiveChild, IsNotResumedWithOtherDocuments) {
  const temp_folder folder;
  const std::string end = "{\"end\": true}\n";
  const std::string first = "{\"doc\": 1, \"text\": \"abcdefghijkl\"}\n";
  write_text(folder / "lines", first + end);
  auto whole = stream_of(or_throw(open_child_source(child_of(folder / "lines"))), 8);
  const auto cursor = or_throw(whole->cursor_at(read_all(*whole, 8)[0].mark, 1));
  const auto resume = [&](const std::string& lines, std::vector<std::string> command) {
    write_text(folder / "lines", lines);
    auto stream = stream_of(or_throw(open_child_source(std::move(command))), 8);
    or_throw(stream->restore(cursor));
    const auto r = stream->next_chunk(8);
    return r ? errc::internal : r.error().code();
  };
  const auto same_child = child_of(folder / "lines");
  EXPECT_EQ(resume(first + end, same_child), errc::internal);
  EXPECT_EQ(resume("{\"doc\": 2, \"text\": \"abcdefghijkl\"}\n" + end, same_child),
            errc::history_mismatch);
  EXPECT_EQ(resume("{\"doc\": 1, \"text\": \"abcdeXghijkl\"}\n" + end, same_child),
            errc::history_mismatch);
  auto other = same_child;
  other[2].replace(other[2].find("\"a\""), 3, "\"b\"");
  EXPECT_EQ(resume(first + end, other), errc::history_mismatch);
}

TEST(LiveChild, StatesThatContradictEachOtherAreAnError) {
  const temp_folder folder;
  write_text(
      folder / "lines",
      "{\"ids\": [1, 2, 3]}\n{\"state\": 2}\n{\"ids\": [4, 5]}\n{\"end\": true}\n");
  tokens some(5);
  auto whole = or_throw(open_child_source(child_of(folder / "lines")));
  ASSERT_EQ(or_throw(whole->read(0, some)), 5U);
  const byte_vector behind_three = or_throw(whole->state(4));
  // The child goes on behind three tokens, and the source has been read up to one.
  auto source = or_throw(open_child_source(child_of(folder / "lines")));
  or_throw(source->restore_state(1, {}));
  or_throw(source->restore_state(4, behind_three));
  const auto read = source->read(1, some);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code(), errc::corrupt) << read.error().message();
  // A place has no more tokens before it than its number says.
  auto fresh = or_throw(open_child_source(child_of(folder / "lines")));
  const auto behind = fresh->continue_at(2, std::array<std::uint32_t, 3>{1, 2, 3});
  ASSERT_FALSE(behind);
  EXPECT_EQ(behind.error().code(), errc::corrupt) << behind.error().message();
}

TEST(LiveChild, FaultsHaveNames) {
  const std::string hello = "{\"hello\": 1}\n";
  const auto code = [](std::unique_ptr<token_source> source) {
    return error_of_reading(std::move(source)).code();
  };
  EXPECT_EQ(code(says("no JSON\n")), errc::corrupt);
  EXPECT_EQ(code(says("{\"hello\": 2}\n")), errc::unsupported_version);
  EXPECT_EQ(code(says(hello + "[1]\n")), errc::corrupt);
  EXPECT_EQ(code(says(hello + "{\"ids\": [1, 257]}\n")), errc::corrupt);
  EXPECT_EQ(code(says(hello + "{\"ids\": [-1]}\n")), errc::corrupt);
  EXPECT_EQ(code(says(hello + "{\"text\": 5}\n")), errc::corrupt);
  EXPECT_EQ(code(says(hello + "{\"text\": \"\xff\"}\n")), errc::corrupt);
  const auto nested = [&](std::size_t depth) {
    return code(says(hello + "{\"text\": \"\\\"" + std::string(200, '[') +
                     "\"}\n{\"state\": " + std::string(depth, '[') +
                     std::string(depth, ']') + "}\n{\"end\": true}\n"));
  };
  EXPECT_EQ(nested(63), errc::internal);
  EXPECT_EQ(nested(64), errc::corrupt);
  EXPECT_EQ(code(says(hello + "{\"state\": \"" + std::string(2000, 'x') + "\"}\n" +
                      "{\"end\": true}\n")),
            errc::internal);
  const error twice = error_of_reading(
      says(hello + "{\"doc\": 7, \"text\": \"a\"}\n{\"doc\": 7, \"text\": \"a\"}\n"));
  EXPECT_EQ(twice.code(), errc::corrupt);
  EXPECT_NE(twice.text().find("found 7 again"), std::string::npos) << twice.text();
  const error gone =
      error_of_reading(or_throw(open_child_source({"/bin/sh", "-c", "exit 3"})));
  EXPECT_EQ(gone.code(), errc::source_unavailable);
  // The output may end a moment before the program.
  const bool named = gone.text().find("status 3") != std::string::npos ||
                     gone.text().find("closed its output") != std::string::npos;
  EXPECT_TRUE(named) << gone.text();
  const error longest = error_of_reading(or_throw(open_child_source(
      {"/bin/sh", "-c", "echo '{\"hello\": 1}'; tr '\\0' a </dev/zero"})));
  EXPECT_EQ(longest.code(), errc::out_of_range);
  live_options impatient;
  impatient.hello_ms = 1;
  EXPECT_EQ(code(or_throw(open_child_source({"/bin/sleep", "1000"}, impatient))),
            errc::timeout);
  const auto missing = open_child_source({"/nonexistent/program"});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), errc::source_unavailable);
  EXPECT_EQ(open_child_source({}).error().code(), errc::invalid_argument);
}

TEST(LiveChild, HasASeparatorBehindItsIds) {
  const std::string documents =
      "{\"hello\": 1}\n{\"ids\": [1, 299]}\n{\"text\": \"a\"}\n{\"end\": true}\n";
  live_options options;
  options.vocabulary = 300;
  const auto with = [&] {
    const auto source = says(documents, options);
    tokens all(100);
    all.resize(or_throw(source->read(0, all)));
    return std::pair(source->vocabulary(), all);
  };
  EXPECT_EQ(with(), std::pair(301U, (tokens{1, 299, 300, 'a'})));
  options.turns = true;
  EXPECT_EQ(with(), std::pair(301U, (tokens{1, 299, 300, 'a', 300})));
  auto turns = stream_of(says(documents, options), 8);
  EXPECT_EQ(read_all(*turns, 8).size(), 2U);
  options.turns = options.separate_documents = false;
  EXPECT_EQ(with(), std::pair(300U, (tokens{1, 299, 'a'})));
  options.vocabulary = byte_vocabulary;
  EXPECT_EQ(says(documents, options)->separator(), end_of_text);
  options.vocabulary = 4'294'967'295;  // no id is left for the separator
  const auto largest = open_child_source({"/bin/true"}, options);
  ASSERT_FALSE(largest);
  EXPECT_EQ(largest.error().code(), errc::invalid_argument);
  EXPECT_NE(largest.error().text().find("expected at most 4294967294 distinct ids"),
            std::string::npos)
      << largest.error().text();
  options.vocabulary = 'a';
  const error wide =
      error_of_reading(says("{\"hello\": 1}\n{\"text\": \"a\"}\n", options));
  EXPECT_EQ(wide.code(), errc::corrupt);
}

TEST(LiveChild, StatesThatAreNearAnotherOneAreNotKept) {
  const temp_folder folder;
  std::string lines;
  for (int i = 0; i < 1000; ++i) {
    lines += fmt::format("{{\"text\": \"0123456789\"}}\n{{\"state\": {}}}\n", 2 * i + 2);
  }
  write_text(folder / "lines", lines + "{\"end\": true}\n");
  const auto open = [&] {
    return or_throw(open_child_source(child_of(folder / "lines")));
  };
  const auto source = open();
  tokens all(20000);
  ASSERT_EQ(or_throw(source->read(0, all)), 11U * 1000 - 1);
  // State n is sent behind token 11 * (n / 2) - 1. The next one lies 4096 tokens behind.
  const std::pair<std::uint64_t, std::string> expected[] = {
      {10, ""}, {11, "2"}, {4113, "2"}, {4114, "748"}, {8216, "748"}, {8217, "1494"}};
  for (const auto& [index, state] : expected) {
    const byte_vector stored = or_throw(source->state(index));
    EXPECT_EQ(as_text(stored).substr(stored.size() - state.size()), state) << index;
    EXPECT_EQ(stored.size(), or_throw(source->state(0)).size() + state.size()) << index;
  }
  auto whole = stream_of(open(), 1000);
  const auto chunks = read_all(*whole, 1000);
  const auto end = encode(or_throw(whole->cursor(9)));
  for (std::size_t i = 0; i + 1 < chunks.size(); i += 2) {
    auto stream = stream_of(open(), 1000);
    or_throw(stream->restore(or_throw(whole->cursor_at(chunks[i].mark, 5))));
    EXPECT_EQ(concatenated(read_all(*stream, 1000)),
              tokens(all.begin() + static_cast<std::ptrdiff_t>(1000 * (i + 1)),
                     all.begin() + 11 * 1000 - 1));
    EXPECT_EQ(encode(or_throw(stream->cursor(9))), end) << i;
  }
}
