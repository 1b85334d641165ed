// SPDX-License-Identifier: Apache-2.0
/// @file
/// The functions that a plug-in for an MPI library gives to the transport. They name no
/// type of MPI, so one program works with plug-ins for several libraries.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weir::mpi {

/// Version of `calls`. A plug-in of another version is refused.
constexpr std::uint32_t calls_version = 4;
/// Bits of the number of a message in its tag; the bits above are the channel's.
constexpr unsigned number_bits = 20;
/// Name of the function that returns the calls of a plug-in.
/// The plug-in is loaded with dlopen, so this is its only name that the program knows.
constexpr const char* entry_name = "weir_mpi_calls";

/// Facts about this process after `start`.
struct start_facts {
  int rank = 0;
  int ranks = 0;
  int max_tag = 0;            ///< largest tag
  int thread_level = 0;       ///< level of threads that the library supports here
  int needed_level = 0;       ///< number of MPI_THREAD_SERIALIZED
  const char* level = "";     ///< name of `thread_level`
  bool is_active = true;      ///< false: the program has not begun MPI, or has ended it
  bool started_here = false;  ///< false if the program had called MPI_Init before
};

/// The end of a send or a receive.
struct operation_end {
  void* owner = nullptr;   ///< value that was given with the operation
  int code = 0;            ///< error code of MPI; 0: success
  std::size_t bytes = 0;   ///< bytes that were received
  bool cancelled = false;  ///< true if it was cancelled before a message came
  bool truncated = false;  ///< true if the message has more bytes than the memory
};

/// Functions of a plug-in. Those that return `int` return an error code of MPI, 0 for
/// success. Communicators are numbered from 0 in the order in which they were made.
/// @threads{one call at a time}
struct calls {
  std::uint32_t version;           ///< `calls_version`
  const char* library;             ///< words in the version of the library
  std::size_t communicator_bytes;  ///< size of MPI_Comm

  /// Starts MPI if `communicator` is null, or uses the communicator at this address.
  int (*start)(const void* communicator, start_facts* facts);
  /// Begins to make the next communicator, a copy. All ranks call it.
  int (*begin_copy)();
  /// Sets `ready` to true if the communicator exists now.
  int (*copy_ready)(bool* ready);
  /// Returns the first rank that has not called `begin_copy` for communicator 0; -1 if
  /// all have, or if there are too many ranks to know.
  int (*absent_rank)();
  /// Begins to send. A synchronous send ends after its receive has begun. Sets `ended`,
  /// if it is not null, to true if the send has ended already; `poll` does not tell it.
  int (*send)(int communicator, int to, int tag, const void* bytes, int count,
              bool synchronous, bool* ended, void* owner);
  /// Begins to receive.
  int (*receive)(int communicator, int from, int tag, void* into, int count, void* owner);
  /// Asks for the end of a receive whose message has not come. It ends in a later `poll`.
  int (*cancel)(void* owner);
  /// Moves messages on and stores ends of operations, others in a later call. Returns
  /// their number, or -1 if there may be more than `capacity`.
  int (*poll)(operation_end* ends, int capacity);
  /// Looks for a message with a tag in communicator 0. Sets `found`, its sender and size.
  int (*probe)(int tag, bool* found, int* from, int* count);
  /// Receives the message that `probe` has found.
  int (*take)(int from, int tag, void* into, int count);
  /// Begins to wait for all ranks.
  int (*begin_barrier)();
  /// Sets `ready` to true if all ranks have come to the barrier.
  int (*barrier_ready)(bool* ready);
  /// Drops the messages that nobody has received. Only after a barrier behind which no
  /// rank needs a message.
  void (*drop)();
  /// Frees the communicators, and ends MPI if `start` has started it.
  int (*finish)();
  /// Writes the text of an error code.
  void (*explain)(int code, char* text, std::size_t size);
  /// Writes the version of the library that the plug-in calls, and its path.
  void (*describe)(char* version, char* path, std::size_t size);
};

/// Type of the function `entry_name`.
using entry_function = const calls* (*)();

}  // namespace weir::mpi
