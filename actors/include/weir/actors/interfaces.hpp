// SPDX-License-Identifier: Apache-2.0
/// @file
/// All typed interfaces of the actors: for each message what the receiver does, who
/// answers, and with which errors.
///
/// Any request may also end in `timeout` (its deadline passed), `stopping` (the receiver
/// is gone or going) or `abandoned` (the receiver dropped it). Errors arrive with text,
/// place and causes.
#pragma once

#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>
#include <string>
#include <vector>

#include "weir/actors/messages.hpp"
#include "weir/actors/orders.hpp"
#include "weir/actors/streams.hpp"

namespace weir::actors {

/// Where a child stands in the order of shutdown: lower ones stop first.
enum class stop_rank : std::uint8_t { source, conductor, sink, engine, last };

/// A child as the supervisor knows it.
struct child_spec {
  std::string name;
  stop_rank rank = stop_rank::last;
  caf::actor handle;
};
/// Children that did not end in time; empty is good.
using survivors = std::vector<std::string>;

/// Watches its children; stops them in order.
using supervisor_actor = caf::typed_actor<
    // Adopts a child: watches it, and reports its failure with its cause chain.
    caf::reacts_to<adopt_atom, local<child_spec>>,
    // Stops all children, ranks in order, each rank within the deadline of the
    // configuration. Answers who survived.
    caf::replies_to<stop_atom>::with<local<survivors>>,
    // A deadline of one rank has passed (from itself).
    caf::reacts_to<settle_atom, std::uint32_t>,
    // Names, ranks and states of all children, one line each.
    caf::replies_to<status_atom>::with<std::string>>;

/// The context stream: owns the source, hands out chunks of lanes, makes cursors. Own
/// thread, because files block.
using stream_hub_actor = caf::typed_actor<
    // Answers the chunks of the orders, in their order. Errors: source_unavailable.
    caf::replies_to<pull_atom, local<chunk_orders>>::with<local<chunk_replies>>,
    // Opens the corpus, and continues behind a cursor if there is one. Errors:
    // source_unavailable, history_mismatch and all of `context_stream::restore`.
    caf::replies_to<open_atom, local<stream_spec>>::with<local<stream_info>>,
    // Answers the cursor after these chunks. Errors: source_unavailable.
    caf::replies_to<cursor_atom,
                    local<cursor_order>>::with<local<storage::stream_cursor>>>;

/// A rank: hosts lanes, pulls their chunks from the hub and hands them on, checking that
/// each continues its lane.
using rank_actor = caf::typed_actor<
    // Answers the chunks of the orders, which must be of its lanes. Errors: those of the
    // hub; internal.
    caf::replies_to<pull_atom, local<chunk_orders>>::with<local<chunk_replies>>>;

/// Owns one task engine and the model built on it; the engine's only submitter. Own
/// thread; runs tasks between messages.
using orchestrator_actor = caf::typed_actor<
    // Runs tasks until a pulse has ended, then looks at its mailbox again (from itself).
    caf::reacts_to<work_atom>,
    // Submits pulses behind those before. Answers when all of them have ended. Errors,
    // of the first that failed: kernel_failed, upstream_failed.
    caf::replies_to<pulse_atom, local<pulse_orders>>::with<local<pulses_done>>,
    // Copies the state behind the pulses submitted so far, while later ones run. Answers
    // when the copy is whole.
    caf::replies_to<snapshot_atom, std::uint64_t>::with<local<state_image>>,
    // Builds engine and model, and fills it from a checkpoint if there is one. Errors:
    // invalid_argument, config_mismatch, corrupt.
    caf::replies_to<open_atom, local<model_spec>>::with<local<model_info>>,
    // Answers digests and counters once all tasks have ended, and writes the trace.
    caf::replies_to<report_atom, local<trace_order>>::with<local<engine_report>>>;

/// Drives the run: pulses, phases, budgets, commits, checkpoints. Ends by telling its
/// configuration's listener.
using conductor_actor = caf::typed_actor<
    // Begins to order chunks and to issue pulses.
    caf::reacts_to<launch_atom>,
    // Ends at the next boundary: pulses in flight are committed, a last checkpoint is
    // written.
    caf::reacts_to<drain_atom>,
    // Looks whether an answer is overdue (from itself, once a second).
    caf::reacts_to<settle_atom>>;

/// Owns the checkpoint folder and its lock. Own thread, because files block.
using checkpointer_actor = caf::typed_actor<
    // Writes a generation; answers when it is durable. Errors: no_space, io.
    caf::replies_to<save_atom, local<save_order>>::with<local<save_done>>,
    // Takes the lock and reads the newest valid generation. Errors: locked,
    // already_exists, those of `checkpoint_store::load_newest` when no generation is
    // valid.
    caf::replies_to<open_atom, local<store_spec>>::with<local<store_info>>>;

/// Reads streams of HN4 volumes for many clients, ahead of them, every checksum verified.
/// Never blocks: it has readers that do. Streams end with the client that opened them.
/// Errors of all that read: corrupt, hole, generation_skew, io, timeout, interrupted (the
/// stream was closed).
using volume_reader_actor = caf::typed_actor<
    // Opens tags of a volume and begins to read ahead; answers them in the order asked
    // for. Errors: not_found, corrupt.
    caf::replies_to<open_atom, local<volume_spec>>::with<local<opened_streams>>,
    // Answers the next piece of a stream, none at its end: the n-th pull gets the n-th
    // piece, as soon as that is there. After an error later pulls get the same. Errors:
    // out_of_range, more unanswered requests than allowed.
    caf::replies_to<pull_atom, std::uint64_t>::with<local<volume_piece>>,
    // Answers bytes of a stream from an offset: as many as asked for, but at most a piece
    // and not beyond the end. Errors: out_of_range.
    caf::replies_to<read_atom, std::uint64_t, std::uint64_t,
                    std::uint64_t>::with<local<volume_piece>>,
    // Fills the client's memory, several readers at a time; answers the bytes. Errors:
    // out_of_range.
    caf::replies_to<fill_atom, local<fill_order>>::with<std::uint64_t>,
    // Closes a stream; what was asked of it is answered `interrupted`.
    caf::reacts_to<close_atom, std::uint64_t>,
    // Looks for requests that are overdue (from itself).
    caf::reacts_to<settle_atom>,
    // Streams, requests, credits, and what each reader is at.
    caf::replies_to<status_atom>::with<std::string>>;

/// Does the reading of a volume reader. Own thread, because devices block.
using volume_worker_actor = caf::typed_actor<
    // Fills memory with bytes of a stream; answers how many.
    caf::replies_to<read_atom, local<read_order>>::with<std::uint64_t>,
    // Opens tags of a volume.
    caf::replies_to<open_atom, local<volume_spec>>::with<local<tag_streams>>>;

/// Writes Tensogram messages to files. Own thread.
using message_writer_actor = caf::typed_actor<
    // Replaces the file with one message that holds the curve; answers its bytes. Errors:
    // io, no_space.
    caf::replies_to<write_atom, local<curve_order>>::with<std::uint64_t>>;

/// Reads the Tensogram messages of a file, a folder or a pipe, ahead of who pulls them.
/// Own thread.
using message_reader_actor = caf::typed_actor<
    // Opens the source and begins to read ahead; once for each reader. Errors: not_found,
    // io, out_of_range, already_exists.
    caf::replies_to<open_atom, local<message_source>>::with<local<message_source_info>>,
    // One credit: answers the next message as soon as it is there; a null one at the end.
    // The n-th pull gets the n-th message. An error stands for the message or the bytes
    // it is about, and the next pull goes on behind them; where a pipe fails, later pulls
    // get the same. Errors: corrupt, torn, hash_mismatch, io; out_of_range, too many
    // pulls without an answer.
    caf::replies_to<pull_atom>::with<local<message_delivery>>,
    // Reads one message if a pull waits or one more may be held (from itself).
    caf::reacts_to<work_atom>,
    // What was delivered and what is held, one line.
    caf::replies_to<status_atom>::with<std::string>>;

/// Appends Tensogram messages to a file, or writes them into a pipe. Own thread.
using message_appender_actor = caf::typed_actor<
    // Opens the file, once for each appender, and finds its end. Errors: torn, io,
    // timeout, already_exists.
    caf::replies_to<open_atom, local<message_target>>::with<local<message_target_info>>,
    // Appends a message; answers when it is durable, with its offset. Appends share a
    // sync. Errors: invalid_argument, corrupt, no_space, io; out_of_range, more than the
    // window without an answer. After a failed sync later appends get the same.
    caf::replies_to<write_atom, local<message_order>>::with<local<appended_message>>,
    // Makes durable what was appended; answers the bytes that are. Errors: io.
    caf::replies_to<settle_atom>::with<std::uint64_t>,
    // Syncs for the appends that wait (from itself).
    caf::reacts_to<work_atom>>;

/// Owns one ordered queue on the devices of a mesh, or on one rank of it. Never blocks:
/// workers tell it what has ended.
using stream_actor = caf::typed_actor<
    // Puts a launch behind all before; answers its number at once. Errors:
    // invalid_argument, unsupported; out_of_range, more operations than the window.
    caf::replies_to<launch_atom, local<launch_order>>::with<std::uint64_t>,
    // The same with a copy. Errors: invalid_argument, out_of_range.
    caf::replies_to<copy_atom, local<copy_order>>::with<std::uint64_t>,
    // Answers a point behind all before, for other queues to wait for.
    caf::replies_to<record_atom>::with<local<tessera::event>>,
    // What comes later waits for the point and inherits failures from there. Answers the
    // operations enqueued so far.
    caf::replies_to<await_atom, local<tessera::event>>::with<std::uint64_t>,
    // Answers when all before has ended: the operations enqueued, or the first failure,
    // which is forgotten with that. Errors: timeout; whatever an operation failed with,
    // its own error as cause.
    caf::replies_to<sync_atom>::with<std::uint64_t>,
    // Operations have ended (from workers).
    caf::reacts_to<ended_atom>,
    // Looks for synchronizations that are overdue (from itself).
    caf::reacts_to<settle_atom>,
    // Operations enqueued and ended, who waits, one line.
    caf::replies_to<status_atom>::with<std::string>>;

/// Brings the ranks of one axis group together. Never blocks.
using collective_actor = caf::typed_actor<
    // One rank's share. Answers the number of the collective in its group when that has
    // ended; a share that makes no sense is refused at once and does not count. Errors:
    // invalid_argument, unsupported; to every rank: collective_mismatch,
    // determinism_violation, timeout; whatever the points waited for or the collective
    // failed with, as cause.
    caf::replies_to<join_atom, local<join_order>>::with<std::uint64_t>,
    // Shares have ended (from workers).
    caf::reacts_to<ended_atom>,
    // Looks for meetings and shares that are overdue (from itself).
    caf::reacts_to<settle_atom>,
    // Who waits for whom, one line.
    caf::replies_to<status_atom>::with<std::string>>;

/// Collects samples and tells the listener of its configuration how the run stands.
using observer_actor = caf::typed_actor<
    // Takes a sample.
    caf::reacts_to<sample_atom, local<run_sample>>,
    // The last thing it told, one line.
    caf::replies_to<status_atom>::with<std::string>>;

}  // namespace weir::actors
