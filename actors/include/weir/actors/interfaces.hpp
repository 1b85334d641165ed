// SPDX-License-Identifier: Apache-2.0
/// @file
/// The typed interfaces of all actors: for each message what the receiver does, what it
/// answers, and with which errors.
///
/// The comment before a message describes the receiver. "Errors" lists the codes that the
/// answer may have. Besides these, every request may be answered with `timeout` (its
/// deadline passed), `stopping` (the receiver has ended or is about to, or was not
/// opened) or `abandoned` (the receiver dropped the request). Errors arrive with their
/// text, their place and their causes. A message that is marked "from itself" is sent by
/// the actor itself and by nobody else.
///
/// Actors whose interface says "own thread" may block; all others never do.
/// @threads{handles may be used from any thread; an actor processes one message at a
/// time}
#pragma once

#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>
#include <string>
#include <vector>

#include "weir/actors/messages.hpp"
#include "weir/actors/streams.hpp"
#include "weir/actors/tensograms.hpp"
#include "weir/actors/volumes.hpp"

namespace weir::actors {

/// Groups in which actors are stopped, first to last: sources first, so that nothing new
/// arrives, and the engine late, so that work in flight can end.
enum class stop_group : std::uint8_t { source, conductor, sink, engine, last };

/// An actor that a supervisor is to watch.
struct child_spec {
  std::string name;  ///< in errors and in the status
  /// Group with which the actor is stopped.
  stop_group group = stop_group::last;
  /// The actor itself.
  caf::actor handle;
};
/// Names of the actors that did not end in time. Empty if all have ended.
using survivors = std::vector<std::string>;

/// Watches its children and stops them in order.
using supervisor_actor = caf::typed_actor<
    // Adopts a child. If the child ends without having been asked to, the supervisor
    // reports that with the causes.
    caf::reacts_to<adopt_atom, local<child_spec>>,
    // Stops all children, one group after another. The next group is stopped when all of
    // a group have ended or the time that the configuration gives it has passed. Answers
    // the names of the children that have not ended by then.
    caf::replies_to<stop_atom>::with<local<survivors>>,
    // Ends one child, which is no failure. Answers when it has ended: true, or false if
    // it had ended before or is no child.
    caf::replies_to<close_atom, caf::actor>::with<bool>,
    // From itself: the deadline of a group has passed. The number is that of the
    // group's turn; the deadline of an earlier group is ignored.
    caf::reacts_to<deadline_atom, std::uint32_t>,
    // Answers the names, groups and states of all children, one line for each.
    caf::replies_to<status_atom>::with<std::string>>;

/// Reads byte streams of HN4 volumes for many clients. It reads ahead of them, and
/// verifies every checksum. It never blocks: its workers do. A stream ends with the
/// client that opened it.
///
/// Everything that reads may be answered with the errors corrupt, hole, generation_skew
/// and io, and with interrupted if the stream was closed.
using volume_reader_actor = caf::typed_actor<
    // Opens tags of a volume and begins to read ahead. Answers one stream for each tag,
    // in the order of the tags. Errors: not_found, corrupt.
    caf::replies_to<open_atom, local<volume_spec>>::with<local<opened_streams>>,
    // Answers the next piece of a stream, or a piece without bytes at its end. The n-th
    // pull gets the n-th piece as soon as that was read. After an error all later pulls
    // of the stream get the same error. Errors: out_of_range, too many requests of the
    // stream have no answer yet.
    caf::replies_to<pull_atom, std::uint64_t>::with<local<volume_piece>>,
    // Answers bytes of a stream: the arguments are the stream, the offset and the number
    // of bytes. The answer has at most one piece and ends with the stream. Errors:
    // out_of_range, the offset lies behind the end.
    caf::replies_to<read_atom, std::uint64_t, std::uint64_t,
                    std::uint64_t>::with<local<volume_piece>>,
    // Fills the client's memory, several workers at a time. Answers the number of bytes.
    // Errors: out_of_range, the stream is shorter.
    caf::replies_to<fill_atom, local<fill_order>>::with<std::uint64_t>,
    // Closes a stream. Its unanswered requests are answered `interrupted`.
    caf::reacts_to<close_atom, std::uint64_t>,
    // From itself: answers `timeout` to the requests whose deadline has passed.
    caf::reacts_to<deadline_atom>,
    // Answers the numbers of streams, requests and free credits, and what each worker
    // reads at the moment.
    caf::replies_to<status_atom>::with<std::string>>;

/// Reads for a volume reader, one request at a time. Own thread, because devices block.
using volume_worker_actor = caf::typed_actor<
    // Fills memory with bytes of a stream; answers their number. Errors: those of
    // `storage::hn4_stream::read`.
    caf::replies_to<read_atom, local<read_order>>::with<std::uint64_t>,
    // Opens tags of a volume. Errors: not_found, corrupt, io.
    caf::replies_to<open_atom, local<volume_spec>>::with<local<tag_streams>>>;

/// Reads the Tensogram messages of a file, a folder or a pipe, ahead of the client that
/// pulls them. Own thread, because files and pipes block.
using message_reader_actor = caf::typed_actor<
    // Opens the source and begins to read ahead. Each reader is opened once. Errors:
    // not_found, io; out_of_range, the start lies behind the end of the file;
    // already_exists, the reader is open already.
    caf::replies_to<open_atom, local<message_source>>::with<local<message_source_info>>,
    // Answers the next message as soon as it was read, or a null message at the end. The
    // n-th pull gets the n-th message. An error takes the place of the message or of the
    // bytes that it is about, and the next pull continues behind them. After a failure of
    // a pipe, all later pulls get the same error. Errors: corrupt, torn, hash_mismatch,
    // io; out_of_range, too many pulls have no answer yet.
    caf::replies_to<pull_atom>::with<local<message_delivery>>,
    // From itself: reads one message, if a pull waits for it or it may be read ahead.
    caf::reacts_to<work_atom>,
    // Answers how many messages were delivered, are held and are waited for, in one line.
    caf::replies_to<status_atom>::with<std::string>>;

/// Appends Tensogram messages to a file, or writes them into a pipe. Own thread, because
/// files and pipes block.
using message_appender_actor = caf::typed_actor<
    // Opens the file and finds its end. Each appender is opened once. Errors: torn, there
    // are bytes behind the last sound message; io, timeout; already_exists, the appender
    // is open already.
    caf::replies_to<open_atom, local<message_target>>::with<local<message_target_info>>,
    // Appends a message; answers with its place when it is durable. Appends that arrive
    // together share one sync. After a failed sync all later appends get the same error.
    // Errors: invalid_argument, corrupt, no_space, io; out_of_range, more appends than
    // the window have no answer yet.
    caf::replies_to<write_atom, local<message_order>>::with<local<appended_message>>,
    // Makes durable what was appended; answers the number of durable bytes. Errors: io.
    caf::replies_to<flush_atom>::with<std::uint64_t>,
    // From itself: syncs the file for the appends that wait.
    caf::reacts_to<work_atom>>;

/// Owns one ordered queue of operations on the devices of a mesh, or on one rank of it.
/// It never blocks: workers of the engine report what has ended.
using stream_actor = caf::typed_actor<
    // Enqueues a launch; answers its number in the queue at once. Errors:
    // invalid_argument, unsupported; out_of_range, more operations than the window.
    caf::replies_to<launch_atom, local<launch_order>>::with<std::uint64_t>,
    // Enqueues a copy; answers its number in the queue at once, or 0 if there is nothing
    // to copy. Errors: invalid_argument, out_of_range.
    caf::replies_to<copy_atom, local<copy_order>>::with<std::uint64_t>,
    // Answers a point behind everything enqueued so far, for other queues to wait for.
    caf::replies_to<record_atom>::with<local<tessera::event>>,
    // Later operations wait for the point, and fail if the operations before it failed.
    // Answers the number of operations enqueued so far.
    caf::replies_to<await_atom, local<tessera::event>>::with<std::uint64_t>,
    // Answers when everything enqueued so far has ended: the number of operations, or the
    // first failure, which is then forgotten. Errors: timeout; the code of the operation
    // that failed, with its error as the cause.
    caf::replies_to<sync_atom>::with<std::uint64_t>,
    // From workers: operations have ended.
    caf::reacts_to<ended_atom>,
    // From itself: answers `timeout` to the synchronizations whose deadline has passed.
    caf::reacts_to<deadline_atom>,
    // Answers how many operations were enqueued and have ended, and how many
    // synchronizations wait, in one line.
    caf::replies_to<status_atom>::with<std::string>>;

/// Brings the ranks of one axis group together and runs their collectives. It never
/// blocks: workers of the engine report what has ended.
using collective_actor = caf::typed_actor<
    // Joins with one rank's share. Answers when the collective has ended: its number in
    // the group. A share that cannot run is refused at once and does not count as one of
    // the rank's collectives. Errors, to this rank alone: invalid_argument, unsupported.
    // Errors, to every rank of the collective: collective_mismatch, the calls differ;
    // determinism_violation, the policies differ; timeout, a rank did not join in time.
    // If a point that was waited for or the collective itself failed: the code of that
    // failure, with its error as the cause.
    caf::replies_to<join_atom, local<join_order>>::with<std::uint64_t>,
    // From workers: shares have ended.
    caf::reacts_to<ended_atom>,
    // From itself: answers `timeout` to the shares whose deadline has passed.
    caf::reacts_to<deadline_atom>,
    // Answers how many shares run and how many wait for other ranks, in one line.
    caf::replies_to<status_atom>::with<std::string>>;

}  // namespace weir::actors
