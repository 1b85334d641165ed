// SPDX-License-Identifier: Apache-2.0
/// @file
/// Live sources with a log: bytes that were taken out of a pipe come back at a resume.
#include <filesystem>

#include "storage/live/live_support.hpp"

using namespace weir;
using namespace weir::storage;
using namespace weir::test;

namespace {

/// A pipe. It ends when the object closes its writer.
class written_pipe {
 public:
  explicit written_pipe(const std::string& text) {
    EXPECT_EQ(::pipe(ends_), 0);
    EXPECT_EQ(::write(ends_[1], text.data(), text.size()),
              static_cast<ssize_t>(text.size()));
    ::close(ends_[1]);
  }
  written_pipe(const written_pipe&) = delete;
  written_pipe& operator=(const written_pipe&) = delete;
  ~written_pipe() { ::close(ends_[0]); }
  [[nodiscard]] int reader() const { return ends_[0]; }

 private:
  int ends_[2] = {};
};

live_options logged(const std::string& path, bool turns) {
  live_options options;
  options.turns = turns;
  options.log = path;
  return options;
}

std::string content_of(const std::string& path) {
  return std::string(as_text(or_throw(read_file(posix_file_system(), path))));
}

}  // namespace

// The pipe is written once. Whatever a run has read and not committed, the next run has:
// behind every chunk, the rest of the text comes out of the log and of a pipe that holds
// only what the first run left in it.
TEST(LiveLog, AResumedRunHasWhatWasTakenOutOfThePipe) {
  for (const bool turns : {false, true}) {
    const std::string text = turns ? "abc\n/reset\ndefghij\n//reset\nk\n/res\nlmn"
                                   : "abcdefghijklmnopqrstuvwxyz\n/reset\n0123456789";
    const temp_folder folder;
    const written_pipe all(text);
    auto whole = stream_of(or_throw(open_pipe_source(all.reader(), "stdin",
                                                     logged(folder / "whole", turns))),
                           4);
    const auto chunks = read_all(*whole, 4);
    EXPECT_EQ(content_of(folder / "whole"), text);
    const auto end = encode(or_throw(whole->cursor(9)));
    ASSERT_GT(chunks.size(), 6U);
    for (std::size_t i = 0; i + 1 < chunks.size(); ++i) {
      SCOPED_TRACE(i);
      const std::string path = folder / ("log" + std::to_string(i));
      byte_vector stored;
      {
        const written_pipe first(text);
        auto stream = stream_of(
            or_throw(open_pipe_source(first.reader(), "stdin", logged(path, turns))), 4);
        read_all(*stream, 4, 0, i + 1);
        stored = encode(or_throw(stream->cursor(5)));
      }  // the process ends: what was in the pipe is gone
      ASSERT_GT(content_of(path).size(), i) << "nothing was written to the log";
      const written_pipe nothing("");
      auto again = stream_of(
          or_throw(open_pipe_source(nothing.reader(), "stdin", logged(path, turns))), 4);
      or_throw(again->restore(or_throw(decode_cursor(stored))));
      EXPECT_EQ(concatenated(read_all(*again, 4)),
                concatenated(
                    {chunks.begin() + static_cast<std::ptrdiff_t>(i) + 1, chunks.end()}));
      EXPECT_EQ(encode(or_throw(again->cursor(9))), end);
    }
  }
}

TEST(LiveLog, ARunWithoutACheckpointBeginsWithTheLog) {
  const temp_folder folder;
  write_text(folder / "log", "from before, ");
  const written_pipe pipe("and new");
  auto stream = stream_of(
      or_throw(open_pipe_source(pipe.reader(), "stdin", logged(folder / "log", false))),
      8);
  EXPECT_EQ(text_of(concatenated(read_all(*stream, 8))), "from before, and new");
  EXPECT_EQ(content_of(folder / "log"), "from before, and new");
}

TEST(LiveLog, TheEndOfATurnWhoseWriterHasLeftIsInIt) {
  const temp_folder folder;
  const std::string address = "unix:" + std::string(folder / "socket");
  auto source = or_throw(open_socket_source(address, logged(folder / "log", true)));
  auto stream = stream_of(std::move(source), 16);
  { peer(address).send("half a turn"); }
  EXPECT_EQ(chunks_of(*stream, 16, 1), "half a turn|");
  { peer(address).send("a whole one\n"); }
  EXPECT_EQ(chunks_of(*stream, 16, 1), "a whole one|");
  EXPECT_EQ(content_of(folder / "log"), "half a turn\na whole one\n");
}

// The system reports a broken connection once, behind the bytes that have come, and then
// calls it closed. A run that took it for the end of the text would lose the rest.
TEST(LiveLog, ABrokenConnectionIsAnErrorBehindItsBytes) {
  const temp_folder folder;
  auto source =
      or_throw(open_socket_source("tcp:127.0.0.1:0", logged(folder / "log", false)));
  peer broken(address_of(*source));
  broken.send("hello");
  broken.reset();
  auto stream = stream_of(std::move(source), 8);
  result<std::optional<token_chunk>> next = std::optional(token_chunk());
  std::string text;
  while (next && *next) {
    next = stream->next_lane_chunk(8, 0);
    if (next && *next) {
      text += text_of((*next)->tokens);
    }
  }
  ASSERT_FALSE(next) << "the text has ended: " << text;
  EXPECT_EQ(next.error().root().code(), errc::source_unavailable);
  EXPECT_EQ(content_of(folder / "log"), "hello");
}

TEST(LiveLog, RefusesALogThatIsTooShortOrInUse) {
  const temp_folder folder;
  const std::string path = folder / "log";
  const written_pipe pipe("abcdefgh");
  auto stream = stream_of(
      or_throw(open_pipe_source(pipe.reader(), "stdin", logged(path, false))), 4);
  read_all(*stream, 4, 0, 1);
  const auto cursor = or_throw(stream->cursor(5));
  const auto in_use = open_pipe_source(0, "stdin", logged(path, false));
  ASSERT_FALSE(in_use);
  EXPECT_EQ(in_use.error().root().code(), errc::locked);
  EXPECT_EQ(in_use.error().text(),
            "cannot use the log \"" + path + "\" of a live source");
  stream.reset();
  std::filesystem::resize_file(path, 3);
  const written_pipe nothing("");
  auto again = stream_of(
      or_throw(open_pipe_source(nothing.reader(), "stdin", logged(path, false))), 4);
  or_throw(again->restore(cursor));
  const auto short_log = again->next_lane_chunk(4, 0);
  ASSERT_FALSE(short_log);
  EXPECT_EQ(short_log.error().root().code(), errc::history_mismatch);
  EXPECT_EQ(short_log.error().root().text(),
            "cannot go on at byte 4 of the log \"" + path +
                "\": expected at least as many bytes, found 3");
  EXPECT_FALSE(open_pipe_source(0, "stdin", logged(folder / "none/log", false)));
}
