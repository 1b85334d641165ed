// SPDX-License-Identifier: Apache-2.0
/// @file
/// Live sources of tokens: pipes, sockets and child processes.
///
/// A live source feeds one lane and cannot loop. A read waits until all requested tokens
/// have arrived, so that chunks do not depend on timing; `token_source::ready` waits for
/// a limited time.
///
/// With turns, each line is a document of its own: `end_of_text` stands for its newline,
/// a chunk ends behind it, and no chunk waits for the next turn. The line `/reset` is no
/// turn: a new context begins before the next one (`token_source::begins_context`). The
/// line `//reset` is the turn `/reset`.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weir/storage/context_source.hpp"

namespace weir::storage {

/// Options of live sources.
struct live_options {
  /// Each line, or each document of a child process, is a turn.
  bool turns = false;
  /// Puts `child_separator` between two documents of a child process.
  bool separate_documents = true;
  /// Ids of a child process are below; so are the bytes of its texts.
  std::uint32_t vocabulary = byte_vocabulary;
  /// Milliseconds within which a child process must announce itself.
  int hello_ms = 60'000;
  /// File whose first line is the token that a peer of a socket must send; empty: none.
  std::string token_file;
  /// File in which the bytes of a pipe or a socket are durable before they are read;
  /// empty: none. It is made if it is missing. A source reads what it holds first.
  std::string log;
};

/// Returns the token that ends a document of a child process: `end_of_text` for bytes,
/// else a token of its own behind the ids.
/// @threads{safe to call concurrently}
[[nodiscard]] constexpr std::uint32_t child_separator(std::uint32_t vocabulary) noexcept {
  return vocabulary == byte_vocabulary ? end_of_text : vocabulary;
}

/// Opens the bytes of a file descriptor, for example 0 for standard input, which stays
/// open. The source ends when all writers have closed it.
/// @error{locked, another process has the log} @error{io, the log cannot be used}
/// @threads{safe to call concurrently}
[[nodiscard]] result<std::unique_ptr<token_source>> open_pipe_source(
    int descriptor, std::string name = "stdin", const live_options& options = {});

/// Opens a named pipe for reading, without waiting for a writer. The source ends when all
/// writers have closed it; with turns it never ends.
/// @error{source_unavailable, it cannot be opened, or is no named pipe}
/// @error{locked, another process has the log} @error{io, the log cannot be used}
/// @threads{safe to call concurrently}
[[nodiscard]] result<std::unique_ptr<token_source>> open_fifo_source(
    const std::string& path, const live_options& options = {});

/// Listens for one writer at a time on a socket.
///
/// The address is `unix:PATH`, `tcp:PORT` on the loopback address, or `tcp:HOST:PORT`,
/// where HOST is `localhost` or an address in digits (`[::1]` with brackets). Port 0 is
/// any free one; the messages of the source name it. An address that other machines can
/// reach needs a token file. With a token file, the first line of a peer must be the
/// token; a peer with another line is closed before any further byte is read. The answer
/// is one line, `{"from": N}`: the peer sends the bytes of the stream from byte N on.
/// Without turns the source ends when the peer closes the connection; with turns it waits
/// for the next peer, and a turn that was not complete ends there. A peer that closes
/// before its first byte is ignored. A socket file at PATH is replaced if nobody listens
/// there any more.
/// @error{invalid_argument, the address is malformed, or needs a token file}
/// @error{source_unavailable, the system refuses the address, another file lies at PATH,
/// or the token cannot be read}
/// @error{locked, another process has the log} @error{io, the log cannot be used}
/// @threads{safe to call concurrently}
[[nodiscard]] result<std::unique_ptr<token_source>> open_socket_source(
    const std::string& address, const live_options& options = {});

/// Starts a child process that speaks the protocol of `docs/formats/child-source.md`:
/// lines of JSON on its standard input and output. Its standard error is that of this
/// process. It ends with the source. A state of the source holds the last state that the
/// child has sent before the place; a resumed run gives it to a new child and leaves out
/// what was consumed behind it.
/// @error{invalid_argument, `command` is empty}
/// @error{source_unavailable, the program cannot be started}
/// @threads{safe to call concurrently}
[[nodiscard]] result<std::unique_ptr<token_source>> open_child_source(
    std::vector<std::string> command, const live_options& options = {});

}  // namespace weir::storage
