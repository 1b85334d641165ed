// SPDX-License-Identifier: Apache-2.0
/// @file
/// Actors for programs: a system in which they live, and handles by which any thread
/// sends them requests and waits for the answers. A program needs no CAF for this header;
/// `handles.hpp` has the same actors for programs that use CAF.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "weir/actors/streams.hpp"
#include "weir/actors/tensograms.hpp"
#include "weir/actors/tensor_loader.hpp"
#include "weir/actors/volumes.hpp"

namespace weir::actors {

struct system_core;

/// The answer to a request. `get` waits for it and returns it once.
///
/// Every request is answered. Besides the errors of the request there are `timeout` (no
/// answer within the deadline of the system), `stopping` (the actor or its system has
/// ended) and `abandoned` (the actor has dropped the request). Actors answer on threads
/// of the system, so code that runs inside an actor must not wait for an answer.
/// @threads{thread-compatible}
template <class T>
using reply = std::future<result<T>>;

/// An actor of an `actor_system`. Copies name the same actor. A handle may outlive the
/// actor and the system; its requests are then answered `stopping`.
/// @threads{safe to call concurrently; requests of one thread arrive in their order}
class actor_handle {
 public:
  /// Ends the actor and waits for its end. Before that, an appender makes durable what
  /// was appended, and a stream waits for its operations. Unanswered requests are
  /// answered `stopping` or `abandoned`. Further calls do nothing.
  /// @error{timeout, the actor has not ended within the deadline of the system}
  /// @error{io, an appender could not make its messages durable}
  /// @error{kernel_failed, an operation of a stream has failed; other codes of it, too}
  [[nodiscard]] result<void> close() const;

 protected:
  /// Makes the handle of an actor. For the system.
  actor_handle(std::shared_ptr<system_core> core, std::uint64_t number)
      : core_(std::move(core)), number_(number) {}

  std::shared_ptr<system_core> core_;  ///< the system
  std::uint64_t number_;               ///< number of the actor in the system

 private:
  friend struct handle_access;
};

/// A volume reader: reads byte streams of HN4 volumes ahead of its clients, and verifies
/// every checksum. Everything that reads may be answered with the errors corrupt, hole,
/// generation_skew and io, and with interrupted if the stream was closed.
/// @threads{as `actor_handle`}
class volume_reader_handle : public actor_handle {
 public:
  /// Opens tags of a volume and begins to read ahead. Answers one stream for each tag, in
  /// the order of the tags.
  /// @error{not_found, there is no such volume or tag} @error{corrupt, it is damaged}
  [[nodiscard]] reply<opened_streams> open(volume_spec spec) const;
  /// Answers the next piece of a stream, or a piece without bytes at its end. The n-th
  /// pull gets the n-th piece. After an error all later pulls get the same error.
  /// @param stream  Number of an open stream.
  /// @error{out_of_range, too many requests of the stream have no answer yet}
  [[nodiscard]] reply<volume_piece> pull(std::uint64_t stream) const;
  /// Answers bytes of a stream: at most a piece, and not beyond the end of the stream.
  /// @units{offset, count: bytes} @error{out_of_range, the offset lies behind the end}
  [[nodiscard]] reply<volume_piece> read(std::uint64_t stream, std::uint64_t offset,
                                         std::uint64_t count) const;
  /// Fills memory, several workers at a time. Answers the number of bytes.
  /// @error{out_of_range, the stream is shorter}
  [[nodiscard]] reply<std::uint64_t> fill(fill_order order) const;
  /// Closes a stream. Its unanswered requests are answered `interrupted`. Streams that
  /// nobody closes end with the reader.
  void close_stream(std::uint64_t stream) const;
  /// Returns a source for `tensor_loader` that fills memory through this reader, with its
  /// deadlines. The bytes pass through memory of their own, because a worker that is late
  /// may still write after a request was answered `timeout`.
  /// @param stream  Number of a stream, which must stay open.
  [[nodiscard]] stream_source source_of(std::uint64_t stream) const;
  /// Answers the numbers of streams, requests and free credits, and what each worker
  /// reads, in one line.
  [[nodiscard]] reply<std::string> status() const;

 private:
  friend class actor_system;
  using actor_handle::actor_handle;
};

/// A message reader: reads the Tensogram messages of a file, a folder or a pipe ahead of
/// its pulls.
/// @threads{as `actor_handle`}
class message_reader_handle : public actor_handle {
 public:
  /// Returns information about the source.
  [[nodiscard]] const message_source_info& info() const noexcept { return info_; }
  /// Answers the next message as soon as it was read, or a null message at the end. The
  /// n-th pull gets the n-th message. An error takes the place of the message or of the
  /// bytes that it is about, and the next pull continues behind them.
  /// @error{corrupt; torn; hash_mismatch; io, the message is damaged or cannot be read}
  /// @error{out_of_range, too many pulls have no answer yet}
  [[nodiscard]] reply<std::shared_ptr<const message_delivery>> pull() const;
  /// Answers how many messages were delivered, are held and are waited for, in one line.
  [[nodiscard]] reply<std::string> status() const;

 private:
  friend class actor_system;
  using actor_handle::actor_handle;
  message_source_info info_;
};

/// A message appender: appends Tensogram messages to a file, or writes them into a pipe.
/// @threads{as `actor_handle`}
class message_appender_handle : public actor_handle {
 public:
  /// Returns information about the target as it was when it was opened.
  [[nodiscard]] const message_target_info& info() const noexcept { return info_; }
  /// Appends a message; answers with its place when it is durable. Appends that are under
  /// way together share one sync. After a failed sync all later appends get the same
  /// error.
  /// @error{invalid_argument, the message cannot be encoded}
  /// @error{corrupt, an encoded message is damaged} @error{no_space; io, writing failed}
  /// @error{out_of_range, more appends than the window have no answer yet}
  [[nodiscard]] reply<appended_message> append(message_order order) const;
  /// Makes durable what was appended; answers the number of durable bytes of the file.
  /// @error{io, the sync failed}
  [[nodiscard]] reply<std::uint64_t> flush() const;

 private:
  friend class actor_system;
  using actor_handle::actor_handle;
  message_target_info info_;
};

/// A stream: one ordered queue of operations on the devices of a mesh, or on one rank.
/// @threads{as `actor_handle`}
class stream_handle : public actor_handle {
 public:
  /// Enqueues a launch; answers its number in the queue at once.
  /// @error{invalid_argument; unsupported, the launch cannot run}
  /// @error{out_of_range, more operations than the window are under way}
  [[nodiscard]] reply<std::uint64_t> launch(launch_order order) const;
  /// Enqueues a copy; answers its number in the queue at once, or 0 if there is nothing
  /// to copy.
  /// @error{invalid_argument, the copy cannot run}
  /// @error{out_of_range, more operations than the window are under way}
  [[nodiscard]] reply<std::uint64_t> copy(copy_order order) const;
  /// Answers a point behind everything enqueued so far, for other queues to wait for.
  [[nodiscard]] reply<event_ptr> record() const;
  /// Lets later operations wait for a point; they fail if the operations before it
  /// failed. Answers the number of operations enqueued so far.
  [[nodiscard]] reply<std::uint64_t> wait_for(event_ptr point) const;
  /// Answers when everything enqueued so far has ended: the number of operations, or the
  /// first failure, which is then forgotten.
  /// @error{timeout, the deadline of the queue has passed}
  /// @error{kernel_failed, an operation failed; or the code of its error}
  [[nodiscard]] reply<std::uint64_t> synchronize() const;
  /// Answers how many operations were enqueued and have ended, in one line.
  [[nodiscard]] reply<std::string> status() const;

 private:
  friend class actor_system;
  using actor_handle::actor_handle;
};

/// A collective: brings the ranks of one axis group together.
/// @threads{as `actor_handle`}
class collective_handle : public actor_handle {
 public:
  /// Joins with one rank's share. Answers when the collective has ended: its number in
  /// the group. A program that speaks for several ranks joins with all of them before it
  /// waits for an answer. A share that cannot run is refused at once and does not count.
  /// @error{invalid_argument; unsupported, this rank's share cannot run}
  /// @error{collective_mismatch, the calls of the ranks differ}
  /// @error{determinism_violation, the policies of the ranks or of the context differ}
  /// @error{timeout, a rank did not join in time, or the collective has not ended}
  [[nodiscard]] reply<std::uint64_t> join(join_order order) const;
  /// Answers how many shares run and how many wait for other ranks, in one line.
  [[nodiscard]] reply<std::string> status() const;

 private:
  friend class actor_system;
  using actor_handle::actor_handle;
};

/// Options of a volume reader.
struct volume_reader_options {
  unsigned workers = 2;  ///< threads that read, at least 1
  /// Size of a piece in bytes, rounded up to whole blocks of the stream.
  std::uint64_t piece = std::uint64_t{1} << 20;
  std::size_t window = 4;    ///< pieces of a stream that may be ahead of its pulls
  std::size_t credits = 16;  ///< pieces of all streams that may be ahead
  /// Time for an answer, in nanoseconds; `volume_spec::deadline_ns` may set another one.
  std::int64_t deadline_ns = 30'000'000'000;
};

/// Options of an actor system.
struct actor_system_options {
  /// Time for the answer to every request; most actors have a shorter one of their own.
  std::chrono::seconds deadline{600};
  /// Gets the error of every actor that ends early, on a thread of the system, so it must
  /// neither wait for a reply nor stop the system. May be empty: `stop` returns the first
  /// such error in any case.
  std::function<void(const error&)> failed{};
};

/// A system of actors under one supervisor. Its destructor stops it.
///
/// Readers and appenders have threads of their own; all other actors share one thread.
/// @threads{safe to call concurrently, except for moves and the destructor}
class actor_system {
 public:
  /// Starts a system without actors.
  /// @error{internal, CAF did not accept the configuration}
  [[nodiscard]] static result<actor_system> start(actor_system_options options = {});
  /// Moves the system; the other object has none.
  actor_system(actor_system&&) noexcept = default;
  /// Stops the system of this object, and takes that of the other one.
  actor_system& operator=(actor_system&& other) noexcept;
  ~actor_system();

  /// Spawns a volume reader and its workers.
  /// @error{invalid_argument, there is no worker} @error{stopping, the system has
  /// stopped}
  [[nodiscard]] result<volume_reader_handle> spawn_volume_reader(
      const volume_reader_options& options = {});
  /// Spawns a message reader, and begins to read ahead.
  /// @error{not_found; io, the source cannot be read}
  /// @error{out_of_range, the start lies behind the end of the file}
  /// @error{stopping, the system has stopped}
  [[nodiscard]] result<message_reader_handle> spawn_message_reader(
      const message_source& source);
  /// Spawns a message appender, and finds the end of its file.
  /// @error{torn, there are bytes behind the last sound message}
  /// @error{locked, somebody else appends to the file} @error{io, it cannot be opened}
  /// @error{timeout, the target is a pipe that nobody reads}
  /// @error{stopping, the system has stopped}
  [[nodiscard]] result<message_appender_handle> spawn_message_appender(
      const message_target& target);
  /// Spawns a stream. The context of the mesh must outlive the system, or the system be
  /// stopped before the context is shut down.
  /// @error{invalid_argument, there is no mesh, no window or no such rank}
  /// @error{stopping, the system has stopped}
  [[nodiscard]] result<stream_handle> spawn_stream(const queue_spec& spec);
  /// Spawns a collective, with a stream for each rank of its group. The rule of
  /// `spawn_stream` about the context holds here, too.
  /// @error{invalid_argument, there is no mesh or no such rank}
  /// @error{stopping, the system has stopped}
  [[nodiscard]] result<collective_handle> spawn_collective(const collective_spec& spec);

  /// Stops the system: appenders make their messages durable and streams wait for their
  /// operations, then the actors end, readers first. Requests that have no answer by then
  /// are answered `stopping` or `abandoned`. Further calls do nothing.
  /// @error{timeout, actors have not ended; the message names them}
  /// @error{io, an appender could not make its messages durable; other failures of
  /// appenders, of streams and of actors that ended early, too}
  [[nodiscard]] result<void> stop();

 private:
  friend struct handle_access;
  explicit actor_system(std::shared_ptr<system_core> core) : core_(std::move(core)) {}

  std::shared_ptr<system_core> core_;
};

}  // namespace weir::actors
