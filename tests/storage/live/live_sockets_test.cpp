// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sockets: tokens of peers, peers that go and come, addresses, and turns without an end.
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "storage/live/live_support.hpp"

using namespace weir;
using namespace weir::storage;
using namespace weir::test;

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

TEST(LiveSocket, ASystemWithoutASocketIsNamedAsTheCause) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto refused = open_socket_source("tcp:127.0.0.1:0");
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find(std::strerror(EMFILE)), std::string::npos)
      << refused.error().message();
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
