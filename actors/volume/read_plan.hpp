// SPDX-License-Identifier: Apache-2.0
/// @file
/// The logic of the volume reader, without actors: which request or which piece is read
/// next, by which worker.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weir/actors/volumes.hpp"
#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"

namespace weir::actors {

/// A plan for few workers, which block, and many clients, which must not wait for each
/// other.
///
/// A stream is cut into pieces of equal size. A pull requests the next piece. Pieces in
/// the window behind the pulls are read ahead; each holds one of the credits until it is
/// pulled, so memory is bounded by the credits and the unanswered requests. Requests need
/// no credit and go before reading ahead, so a client that does not pull delays no other.
/// Streams take turns. A pull that fails ends the sequence of its stream: all later pulls
/// of that stream get the same error.
///
/// The owner of the plan calls `next_job` as long as it returns jobs, gives them to
/// workers, calls `finished` or `opened` with their results, and delivers `take_answers`.
/// All times are in nanoseconds of one clock.
/// @invariant credits in use == pieces that were read ahead or are being read ahead
/// @threads{thread-compatible}
class read_plan {
 public:
  struct settings {
    /// Bytes of a piece; rounded up to whole blocks of the stream.
    std::uint64_t piece = std::uint64_t{1} << 20;
    std::size_t window = 4;     ///< pieces of a stream that may be ahead of its pulls
    std::size_t credits = 16;   ///< pieces of all streams that may be ahead
    std::size_t requests = 64;  ///< largest number of unanswered requests of a stream
    std::int64_t deadline_ns = 30'000'000'000;  ///< of requests that have no other
  };
  using stream_id = std::uint64_t;  ///< number of a stream, at least 1
  using ticket_id = std::uint64_t;  ///< number of a request, at least 1

  /// Work for one worker: reading bytes of a stream to memory, or opening a volume.
  struct job {
    std::uint64_t id = 0;
    std::size_t worker = 0;
    stream_id stream = 0;  ///< 0: the job is to open the volume of `ticket`
    ticket_id ticket = 0;
    std::uint64_t offset = 0;
    mutable_bytes memory;
    std::shared_ptr<const void> holder;  ///< keeps `memory` alive
  };
  /// The answer to a request.
  struct answer {
    ticket_id ticket = 0;
    result<volume_piece> piece;
  };

  /// Makes a plan for workers 0 to `workers` - 1.
  read_plan(settings s, std::size_t workers);

  /// Adds a stream and returns its number. Reading ahead begins at once.
  /// @param name  Name of the stream in messages.
  /// @param bytes  Length of the stream.
  /// @param payload  Bytes of a block.
  /// @param deadline_ns  For its requests; 0 means that of the settings.
  stream_id add_stream(std::string name, std::uint64_t bytes, std::uint32_t payload,
                       std::int64_t deadline_ns = 0);
  /// Removes a stream. Its unanswered requests are answered `interrupted`.
  void close(stream_id stream);

  // The four functions below make a request, which is answered later.

  /// Requests the next piece of a stream. Also returns the error that has ended the
  /// sequence of the stream.
  /// @error{not_found, there is no such stream}
  /// @error{out_of_range, too many requests of the stream have no answer}
  /// @error{timeout, no worker answers any more}
  [[nodiscard]] result<ticket_id> pull(stream_id stream, std::int64_t now);
  /// Requests bytes from an offset: at most a piece, and not beyond the end.
  /// @error{not_found; out_of_range; timeout, as `pull`}
  /// @error{out_of_range, the offset lies behind the end}
  [[nodiscard]] result<ticket_id> read(stream_id stream, std::uint64_t offset,
                                       std::uint64_t bytes, std::int64_t now);
  /// Requests that a range is read to the memory of `target`.
  /// @error{not_found; out_of_range; timeout, as `pull`}
  /// @error{out_of_range, the range ends behind the end of the stream}
  [[nodiscard]] result<ticket_id> fill(stream_id stream, std::uint64_t offset,
                                       fill_target target, std::int64_t now);
  /// Requests that a worker opens a volume. `opened` ends the request; only an error is
  /// an answer.
  /// @error{timeout, no worker answers any more}
  [[nodiscard]] result<ticket_id> open(std::int64_t now, std::int64_t deadline_ns = 0);

  /// Returns a job for an idle worker; nothing if all are busy or there is nothing to do.
  [[nodiscard]] std::optional<job> next_job(std::int64_t now);
  /// Takes the result of a job: the number of bytes that were read, or an error.
  void finished(std::uint64_t job, result<std::uint64_t> outcome);
  /// Notes that a job to open a volume has succeeded. Returns false if the request was
  /// answered already, because its deadline has passed.
  [[nodiscard]] bool opened(std::uint64_t job);
  /// Notes that a worker has ended: it gets no more jobs, and the job that it has fails.
  void lose_worker(std::size_t worker, const error& reason);
  /// Answers `timeout` to the requests whose deadline has passed.
  void expire(std::int64_t now);
  /// Returns the earliest deadline; nothing if no request is unanswered.
  [[nodiscard]] std::optional<std::int64_t> next_deadline() const;
  /// Returns the answers since the last call.
  [[nodiscard]] std::vector<answer> take_answers();

  /// Returns the number of free credits.
  [[nodiscard]] std::size_t credits_free() const noexcept { return credits_; }
  /// Returns the number of streams.
  [[nodiscard]] std::size_t streams() const noexcept { return streams_.size(); }
  /// Returns the number of unanswered requests.
  [[nodiscard]] std::size_t unanswered() const noexcept { return tickets_.size(); }
  /// Returns the number of pieces of a stream that were read ahead or are being read
  /// ahead, and were not pulled.
  [[nodiscard]] std::size_t ahead(stream_id stream) const;
  /// Returns one line: streams, requests, credits, and what each worker reads.
  [[nodiscard]] std::string describe(std::int64_t now) const;

 private:
  /// A piece that was read ahead or is being read ahead.
  struct slot {
    std::shared_ptr<byte_vector> bytes;
    std::optional<result<std::uint64_t>> outcome;  ///< nothing while it is being read
    ticket_id wanted_by = 0;  ///< pull that waits for it; 0 if it was not pulled
  };
  struct stream {
    std::string name;
    std::uint64_t bytes = 0;
    std::uint64_t piece = 0;  ///< bytes of a piece
    std::int64_t deadline_ns = 0;
    std::uint64_t next_pull = 0;          ///< index of the piece of the next pull
    std::uint64_t next_ahead = 0;         ///< index of the next piece to read ahead
    std::map<std::uint64_t, slot> slots;  ///< pieces ahead, by index
    std::deque<ticket_id> waiting;        ///< requests with bytes that no job reads yet
    std::size_t requests = 0;             ///< unanswered
    std::optional<error> failure;         ///< the error that ended the sequence of pulls
  };
  /// A request without an answer.
  struct ticket {
    stream_id stream = 0;  ///< 0: a request to open a volume
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
    std::int64_t deadline = 0;
    bool pulls = false;                  ///< it is a pull
    std::shared_ptr<byte_vector> bytes;  ///< null if the memory is that of `target`
    fill_target target;
    std::uint64_t begun = 0;               ///< bytes that jobs read or have read
    std::uint64_t done = 0;                ///< bytes that were read
    std::size_t running = 0;               ///< jobs that run
    std::uint64_t failed_at = UINT64_MAX;  ///< lowest offset of a failed job
    std::optional<error> failure;          ///< error of that job
  };
  /// A job that a worker has.
  struct running {
    std::size_t worker = 0;
    stream_id stream = 0;                ///< 0: the job is to open a volume
    std::optional<std::uint64_t> ahead;  ///< index of the piece that is read ahead
    ticket_id ticket = 0;                ///< request, unless a piece is read ahead
    std::uint64_t offset = 0, size = 0;
    std::int64_t since = 0;  ///< when the worker got it
  };
  struct worker_state {
    bool lost = false;                 ///< it gets no more jobs
    std::optional<std::uint64_t> job;  ///< nothing if it is idle
  };

  /// Returns a stream that may get one more request.
  [[nodiscard]] result<stream*> usable(stream_id id, std::int64_t now);
  /// Checks that at least one worker still answers.
  [[nodiscard]] result<void> check_workers(std::int64_t now) const;
  [[nodiscard]] bool is_stuck(const worker_state& r, std::int64_t now) const;
  ticket_id add_ticket(stream& s, ticket t, std::int64_t now);
  /// Adds a request and puts it in line for a worker. A request of 0 bytes is answered at
  /// once.
  ticket_id queue(stream& s, ticket t, std::int64_t now);
  ticket_id take_ready(stream& s, ticket_id id, std::uint64_t index);
  job begin(std::size_t worker, running r, mutable_bytes memory,
            std::shared_ptr<const void> holder);
  [[nodiscard]] std::optional<job> next_opening(std::size_t worker, std::int64_t now);
  [[nodiscard]] std::optional<job> next_request(std::size_t worker, std::int64_t now);
  [[nodiscard]] std::optional<job> next_ahead(std::size_t worker, std::int64_t now);
  void drop_ended(stream& s) const;
  void end_sequence(stream& s, const error& reason);
  void finish_ahead(const running& r, result<std::uint64_t> outcome);
  void finish_request(const running& r, result<std::uint64_t> outcome);
  void answer_ticket(ticket_id id, result<volume_piece> outcome);
  /// Returns the error of a request whose deadline has passed.
  [[nodiscard]] error overdue(const ticket& t, std::int64_t now) const;

  settings settings_;
  std::size_t credits_;  ///< free ones
  std::vector<worker_state> workers_;
  std::map<stream_id, stream> streams_;
  std::map<ticket_id, ticket> tickets_;
  std::map<std::uint64_t, running> jobs_;  ///< by id
  std::deque<ticket_id> openings_;         ///< requests to open that no worker has
  std::vector<answer> answers_;            ///< not taken yet
  stream_id turn_ = 0;                     ///< stream that was served last
  std::uint64_t last_stream_ = 0, last_ticket_ = 0, last_job_ = 0;
};

}  // namespace weir::actors
