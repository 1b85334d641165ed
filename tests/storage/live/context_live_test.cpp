// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests live sources: child processes, pipes and sockets; turns, commands and resumes.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <thread>

#include "storage/context_support.hpp"
#include "weir/storage/live_source.hpp"
#include "weir/storage/mix_source.hpp"

using namespace weir;
using namespace weir::storage;
using namespace weir::test;

namespace {

std::unique_ptr<context_stream> stream_of(std::unique_ptr<token_source> source,
                                          std::size_t chunk = 48) {
  stream_config c;
  c.chunk = chunk;
  return or_throw(context_stream::open(c, std::move(source)));
}

/// Returns the command of a child that answers with the lines of a file. A state is the
/// number of lines before it.
std::vector<std::string> child_of(const std::string& path) {
  return {"/bin/sh", "-c",
          "echo '{\"hello\": 1, \"dataset\": \"a\"}'; read s; s=${s#*: }; s=${s%\\}}; "
          "[ \"$s\" = null ] && s=0; tail -n +$((s + 1)) \"$0\"",
          path};
}
/// Opens a child that prints a text.
std::unique_ptr<token_source> says(const std::string& text, live_options options = {}) {
  return or_throw(
      open_child_source({"/bin/sh", "-c", "printf '%s' \"$0\"", text}, options));
}
/// Returns the error of reading a source to its end.
error error_of_reading(std::unique_ptr<token_source> source) {
  tokens some(1000);
  for (std::uint64_t index = 0;;) {
    const auto got = source->read(index, some);
    if (!got) {
      return got.error();
    }
    if (*got == 0) {
      return error(errc::internal, "no error");
    }
    index += *got;
  }
}

/// A peer of a socket.
class peer {
 public:
  explicit peer(const std::string& address) {
    if (address.starts_with("unix:")) {
      sockaddr_un un{};
      un.sun_family = AF_UNIX;
      address.copy(un.sun_path, sizeof(un.sun_path) - 1, 5);
      fd_ = ::socket(AF_UNIX, SOCK_STREAM, 0);
      EXPECT_EQ(::connect(fd_, reinterpret_cast<sockaddr*>(&un), sizeof(un)), 0);
    } else {
      sockaddr_in four{};
      four.sin_family = AF_INET;
      four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      four.sin_port = htons(
          static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
      fd_ = ::socket(AF_INET, SOCK_STREAM, 0);
      EXPECT_EQ(::connect(fd_, reinterpret_cast<sockaddr*>(&four), sizeof(four)), 0);
    }
  }
  peer(const peer&) = delete;
  peer& operator=(const peer&) = delete;
  ~peer() { ::close(fd_); }
  void send(const std::string& text) const {
    EXPECT_EQ(::send(fd_, text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }
  /// Returns the next bytes, or nothing once the connection is closed.
  [[nodiscard]] std::string receive() const {
    char piece[100];
    const ssize_t got = ::recv(fd_, piece, sizeof(piece), 0);
    return {piece, piece + (got > 0 ? got : 0)};
  }
  /// Returns whether the other side has closed the connection. Does not wait.
  [[nodiscard]] bool is_closed() const {
    char piece = 0;
    const ssize_t got = ::recv(fd_, &piece, 1, MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno != EAGAIN);
  }

 private:
  int fd_ = -1;
};

/// Returns the address at which a source listens.
std::string address_of(const token_source& source) {
  const std::string text = source.place_text(0);
  return text.substr(0, text.size() - 2);
}

std::string text_of(const tokens& ids) {
  std::string out;
  for (const std::uint32_t id : ids) {
    out += id == end_of_text ? '|' : static_cast<char>(id);
  }
  return out;
}

/// Returns the chunks as text; "^" stands before a chunk with a new context.
std::string chunks_of(context_stream& stream, std::size_t n, std::size_t count = 100) {
  std::string out;
  for (const auto& chunk : read_all(stream, n, 0, count)) {
    out += (out.empty() ? "" : " ") + std::string(chunk.new_context ? "^" : "") +
           text_of(chunk.tokens);
  }
  return out;
}

}  // namespace

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

TEST(LiveTurns, EndChunksAndDoNotWaitForTheNextTurn) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  live_options options;
  options.turns = true;
  auto stream = stream_of(open_pipe_source(ends[0], "stdin", options), 4);
  const auto write = [&](const std::string& text) {
    ASSERT_EQ(::write(ends[1], text.data(), text.size()),
              static_cast<ssize_t>(text.size()));
  };
  EXPECT_FALSE(or_throw(stream->ready(4, 0, 0)));
  write("hello\nab");
  EXPECT_TRUE(or_throw(stream->ready(4, 0, 1000)));
  EXPECT_EQ(chunks_of(*stream, 4, 2), "hell o|");
  EXPECT_FALSE(or_throw(stream->ready(4, 0, 0)));
  write("\n/reset\n/res\n//reset\n/reset\n");
  EXPECT_EQ(chunks_of(*stream, 4, 4), "ab| ^/res | /res");
  write("next");
  ::close(ends[1]);
  EXPECT_EQ(chunks_of(*stream, 4), "et| ^next");
  ::close(ends[0]);
}

TEST(LiveTurns, AResumeWithinALineTakesNoTextForACommand) {
  const std::string text = "a/reset\nb//reset\n";
  live_options options;
  options.turns = true;
  /// Opens a pipe that holds a text and has no writer.
  const auto open = [&](const std::string& rest) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    EXPECT_EQ(::write(ends[1], rest.data(), rest.size()),
              static_cast<ssize_t>(rest.size()));
    ::close(ends[1]);
    return std::pair(stream_of(open_pipe_source(ends[0], "stdin", options), 1), ends[0]);
  };
  const auto [whole, whole_end] = open(text);
  const auto chunks = read_all(*whole, 1);
  ASSERT_EQ(text_of(concatenated(chunks)), "a/reset|b//reset|");
  for (std::size_t i = 0; i + 1 < chunks.size(); ++i) {
    const auto [stream, end] = open(text.substr(i + 1));
    or_throw(stream->restore(or_throw(whole->cursor_at(chunks[i].mark, 1))));
    EXPECT_EQ(text_of(concatenated(read_all(*stream, 1))),
              text_of(concatenated(chunks)).substr(i + 1));
    ::close(end);
  }
  ::close(whole_end);
}

TEST(LiveTurns, BehindAResetTheTokensOfTheNextTurnAreAskedFor) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  live_options options;
  options.turns = true;
  auto stream = stream_of(open_pipe_source(ends[0], "stdin", options), 4);
  ASSERT_EQ(::write(ends[1], "abcdefgh\n", 9), 9);
  EXPECT_EQ(chunks_of(*stream, 2, 1), "ab");
  or_throw(stream->reset());
  EXPECT_FALSE(or_throw(stream->ready(2, 0, 0)));
  ASSERT_EQ(::write(ends[1], "ij\n", 3), 3);
  EXPECT_TRUE(or_throw(stream->ready(2, 0, 1000)));
  EXPECT_EQ(chunks_of(*stream, 4, 1), "ij|");
  ::close(ends[1]);
  ::close(ends[0]);
}

TEST(LiveTurns, ChunksTellBoundaries) {
  const std::string hello = "{\"hello\": 1}\n";
  live_options options;
  options.turns = true;
  auto stream = stream_of(says(hello + "{\"text\": \"ab\"}\n{\"reset\": true}\n"
                                       "{\"text\": \"abc\"}\n{\"end\": true}\n",
                               options),
                          8);
  const auto chunks = read_all(*stream, 8);
  ASSERT_EQ(chunks.size(), 2U);
  EXPECT_FALSE(chunks[0].new_context);
  EXPECT_EQ(chunks[0].boundaries, (tokens{3}));
  EXPECT_FALSE(chunks[0].lookahead);
  EXPECT_TRUE(chunks[1].new_context);
  EXPECT_EQ(chunks[1].boundaries, (tokens{0, 4}));
}

TEST(LiveSocket, APeerWithoutTheTokenIsClosedAndAnotherOneIsToldWhereToBegin) {
  const temp_folder folder;
  write_text(folder / "token", "secret\n");
  live_options options;
  options.token_file = folder / "token";
  options.turns = true;
  auto source = or_throw(open_socket_source("tcp:127.0.0.1:0", options));
  const std::string address = address_of(*source);
  auto stream = stream_of(std::move(source), 8);
  {
    const peer wrong(address);
    wrong.send("secreT\nevil\n");
    bool closed = false;
    // The source closes the peer when it is asked for tokens.
    for (int asked = 0; !closed && asked < 10000; ++asked) {
      EXPECT_FALSE(or_throw(stream->ready(8, 0, 10)));
      closed = wrong.is_closed();
    }
    ASSERT_TRUE(closed);
  }
  {
    const peer right(address);
    right.send("secret\none\n/reset\ntw");
    EXPECT_EQ(chunks_of(*stream, 8, 1), "one|");
    EXPECT_EQ(right.receive(), "{\"from\": 0}\n");
  }
  const peer next(address);
  next.send("secret\nthree\n");
  EXPECT_EQ(chunks_of(*stream, 8, 2), "^tw| three|");
  EXPECT_EQ(next.receive(), "{\"from\": 13}\n");
}

TEST(LiveSocket, AResumedRunAsksForTheFirstByteThatWasNotCommitted) {
  const temp_folder folder;
  write_text(folder / "token", "secret");
  live_options options;
  options.token_file = folder / "token";
  options.turns = true;
  const std::string address = "unix:" + (folder / "socket");
  byte_vector cursor;
  {
    auto stream = stream_of(or_throw(open_socket_source(address, options)), 8);
    const peer one(address);
    one.send("secret\na\n//reset\nb\n/reset\nc\n");
    const auto chunks = read_all(*stream, 8, 0, 4);
    EXPECT_EQ(chunks[3].tokens, (tokens{'c', end_of_text}));
    cursor = encode(or_throw(stream->cursor_at(chunks[2].mark, 3)));
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "socket"));
  auto stream = stream_of(or_throw(open_socket_source(address, options)), 8);
  or_throw(stream->restore(or_throw(decode_cursor(cursor))));
  const peer two(address);
  two.send("secret\n/reset\nc\n");
  EXPECT_EQ(chunks_of(*stream, 8, 1), "^c|");
  EXPECT_EQ(two.receive(), "{\"from\": 12}\n");
}

TEST(LiveSocket, ReplacesASocketThatNobodyHearsAndNoOtherFile) {
  const temp_folder folder;
  write_text(folder / "notes.txt", "notes");
  const auto refused = open_socket_source("unix:" + (folder / "notes.txt"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), errc::source_unavailable);
  EXPECT_NE(refused.error().text().find("found another file"), std::string::npos);
  EXPECT_EQ(as_text(or_throw(read_file(posix_file_system(), folder / "notes.txt"))),
            "notes");
  const std::string path = folder / "socket";
  sockaddr_un un{};
  un.sun_family = AF_UNIX;
  path.copy(un.sun_path, sizeof(un.sun_path) - 1);
  const int stale = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(::bind(stale, reinterpret_cast<sockaddr*>(&un), sizeof(un)), 0);
  ::close(stale);
  const auto source = or_throw(open_socket_source("unix:" + path));
  EXPECT_FALSE(open_socket_source("unix:" + path));  // the first one listens
}

TEST(LiveSocket, APeerThatSendsNothingIsNotTheEnd) {
  const temp_folder folder;
  const std::string address = "unix:" + (folder / "socket");
  auto stream = stream_of(or_throw(open_socket_source(address)), 8);
  { const peer silent(address); }
  {
    const peer one(address);
    one.send("text");
  }
  EXPECT_EQ(chunks_of(*stream, 8), "text");
}

TEST(LiveSocket, RefusesAddressesThatOthersReachWithoutAToken) {
  const auto code = [](const std::string& address) {
    const auto r = open_socket_source(address);
    return r ? errc::internal : r.error().code();
  };
  for (const char* address : {"tcp:0.0.0.0:0", "tcp:[::]:0", "tcp:192.0.2.1:0", "tcp:x:0",
                              "tcp:", "tcp:99999", "unix:", "udp:1", ""}) {
    EXPECT_EQ(code(address), errc::invalid_argument) << address;
  }
  EXPECT_EQ(code("unix:/nonexistent/socket"), errc::source_unavailable);
  live_options options;
  options.token_file = "/nonexistent/token";
  EXPECT_EQ(open_socket_source("tcp:0", options).error().code(),
            errc::source_unavailable);
  EXPECT_EQ(open_fifo_source("/dev/null").error().code(), errc::source_unavailable);
}

TEST(LiveMemory, ATurnWithoutAnEndIsReadInPieces) {
  const temp_folder folder;
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  live_options options;
  options.turns = true;
  constexpr std::size_t pieces = 60;
  auto stream = stream_of(or_throw(open_fifo_source(folder / "fifo", options)), 1 << 16);
  const std::jthread writer([&] {
    std::ofstream fifo(folder / "fifo", std::ios::binary);
    for (std::size_t i = 0; i <= pieces; ++i) {
      fifo << std::string(1 << 16, 'a');
    }
    fifo << '\n';
  });
  for (std::size_t i = 0; i < pieces; ++i) {
    const auto chunk = or_throw(stream->next_chunk(1 << 16));
    EXPECT_EQ(chunk->tokens.size(), std::size_t{1} << 16);
  }
  EXPECT_TRUE(stream->cursor(1));
  EXPECT_EQ(or_throw(stream->next_chunk(1 << 17))->tokens.size(), (1U << 16) + 1);
}

TEST(LiveMix, AContextOfAPartBeginsAChunk) {
  const auto mixed = [] {
    std::vector<mix_part> parts(2);
    parts[0].source = says(
        "{\"hello\": 1}\n{\"text\": \"ab\"}\n{\"reset\": true}\n"
        "{\"text\": \"cd\"}\n{\"end\": true}\n");
    parts[0].exhausted = exhaustion::drop;
    parts[1].source = or_throw(open_memory_source(as_view(std::string("xyz"))));
    parts[1].exhausted = exhaustion::drop;
    return or_throw(mix_sources(std::move(parts), {}));
  };
  auto whole = stream_of(mixed(), 20);
  // The second document of the child comes behind that of the other part.
  EXPECT_EQ(chunks_of(*whole, 20), "ab|xyz| ^cd|");
  auto small = stream_of(mixed(), 2);
  EXPECT_EQ(chunks_of(*small, 2), "ab |x yz | ^cd |");
}

TEST(LiveChain, GoesOnBehindAChildAndResumesInEveryPart) {
  const temp_folder folder;
  write_text(folder / "lines",
             "{\"text\": \"abcdefg\"}\n{\"state\": 1}\n"
             "{\"text\": \"hij\"}\n{\"state\": 2}\n{\"end\": true}\n");
  const auto chained = [&] {
    std::vector<std::unique_ptr<token_source>> parts;
    parts.push_back(or_throw(open_memory_source(as_view(std::string("12345")))));
    parts.push_back(or_throw(open_child_source(child_of(folder / "lines"), {})));
    parts.push_back(or_throw(open_memory_source(as_view(std::string("678")))));
    return or_throw(chain_sources(std::move(parts)));
  };
  for (const std::size_t n : {1U, 3U, 4U, 50U}) {
    const auto whole = stream_of(chained(), n);
    const auto expected = read_all(*whole, n);
    ASSERT_EQ(text_of(concatenated(expected)), "12345|abcdefg|hij|678") << n;
    for (std::size_t count = 0; count <= expected.size(); ++count) {
      const auto first = stream_of(chained(), n);
      read_all(*first, n, 0, count);
      const auto cursor = or_throw(first->cursor(count));
      const auto again = stream_of(chained(), n);
      or_throw(again->restore(or_throw(decode_cursor(encode(cursor)))));
      const auto rest = read_all(*again, n);
      ASSERT_EQ(rest.size(), expected.size() - count) << n << " " << count;
      for (std::size_t i = 0; i < rest.size(); ++i) {
        EXPECT_TRUE(same(rest[i], expected[count + i])) << n << " " << count + i;
      }
      EXPECT_EQ(or_throw(again->cursor(9)), or_throw(whole->cursor(9))) << n;
    }
  }
}

TEST(LiveChain, ANextSourceIsNotAskedForWhileAPipeIsQuiet) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  live_options options;
  options.turns = true;
  std::vector<std::unique_ptr<token_source>> parts;
  parts.push_back(open_pipe_source(ends[0], "stdin", options));
  parts.push_back(or_throw(open_memory_source(as_view(std::string("xy")))));
  auto stream = stream_of(or_throw(chain_sources(std::move(parts))), 8);
  EXPECT_FALSE(or_throw(stream->ready(8, 0, 0)));
  ASSERT_EQ(::write(ends[1], "ab\n", 3), 3);
  EXPECT_TRUE(or_throw(stream->ready(8, 0, 1000)));
  EXPECT_EQ(chunks_of(*stream, 8, 1), "ab|");
  EXPECT_FALSE(or_throw(stream->ready(8, 0, 0)));
  ::close(ends[1]);
  EXPECT_EQ(chunks_of(*stream, 8), "|xy");
  ::close(ends[0]);
}

TEST(LiveTurns, AnInterruptedTurnGoesOnWithItsNextToken) {
  live_options options;
  options.turns = true;
  const std::string text = "hello world\nnext\n";
  const auto reads = [&](const std::string& sent, const stream_cursor* from,
                         std::size_t count) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    EXPECT_EQ(::write(ends[1], sent.data(), sent.size()),
              static_cast<ssize_t>(sent.size()));
    ::close(ends[1]);
    auto stream = stream_of(open_pipe_source(ends[0], "stdin", options), 4);
    if (from != nullptr) {
      or_throw(stream->restore(*from));
    }
    auto chunks = read_all(*stream, 4, 0, count);
    const auto cursor = or_throw(stream->cursor(chunks.size()));
    ::close(ends[0]);
    return std::pair{std::move(chunks), cursor};
  };
  const auto [expected, last] = reads(text, nullptr, 100);
  ASSERT_EQ(expected.size(), 5U);
  std::size_t at = 0;
  for (std::size_t count = 1; count < expected.size(); ++count) {
    at += expected[count - 1].tokens.size();
    // The writer is told the place, and goes on there.
    const auto [first, cursor] = reads(text, nullptr, count);
    const auto [rest, end] = reads(text.substr(at), &cursor, 100);
    ASSERT_EQ(rest.size(), expected.size() - count) << count;
    for (std::size_t i = 0; i < rest.size(); ++i) {
      EXPECT_TRUE(same(rest[i], expected[count + i])) << count << " " << i;
    }
    EXPECT_EQ(end.history_hash, last.history_hash);
    EXPECT_EQ(end.content_hash, last.content_hash);
  }
}
