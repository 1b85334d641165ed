// SPDX-License-Identifier: Apache-2.0
/// @file
/// Who reads what next: requests of many clients for many streams, read ahead of them,
/// given to a few workers that block.
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

/// The volume reader without actors.
///
/// A pull asks for the next piece of a stream; pieces within its window are read before
/// they are asked for. Every piece that is read ahead holds one of the credits until it
/// is pulled, so memory is bounded by credits and unanswered requests. Requests need no
/// credit and go before reading ahead: whoever does not pull delays nobody. Streams take
/// turns. A pull that fails ends the sequence of its stream: later ones get the same
/// error.
/// @invariant credits in use == pieces that were read ahead or are being read ahead
/// @threads{thread-compatible}
class read_plan {
 public:
  struct settings {
    std::uint64_t piece = std::uint64_t{1}
                          << 20;                ///< bytes, rounded up to whole payloads
    std::size_t window = 4;                     ///< pieces of a stream ahead of its pulls
    std::size_t credits = 16;                   ///< pieces ahead, all streams together
    std::size_t requests = 64;                  ///< unanswered, per stream
    std::int64_t deadline_ns = 30'000'000'000;  ///< for a request, unless it has its own
  };
  using stream_id = std::uint64_t;
  using ticket_id = std::uint64_t;

  /// Work for one worker: bytes of a stream into memory, or (stream 0) to open volumes.
  struct job {
    std::uint64_t id = 0;
    std::size_t worker = 0;
    stream_id stream = 0;
    ticket_id ticket = 0;  ///< of an opening
    std::uint64_t offset = 0;
    mutable_bytes memory;
    std::shared_ptr<const void> holder;
  };
  struct answer {
    ticket_id ticket = 0;
    result<volume_piece> piece;
  };

  read_plan(settings s, std::size_t workers);

  /// `name` is for messages. `payload`: bytes per block. @return its number, at least 1
  stream_id add_stream(std::string name, std::uint64_t bytes, std::uint32_t payload,
                       std::int64_t deadline_ns = 0);
  /// Ends it; what was asked of it is answered `interrupted`.
  void close(stream_id stream);

  /// Each answers later, or is refused. @error{not_found, no such stream; out_of_range,
  /// too many unanswered requests, or (not `pull`) an offset behind the end; timeout, all
  /// workers hang; pull: what ended the sequence}
  [[nodiscard]] result<ticket_id> pull(stream_id stream, std::int64_t now);
  [[nodiscard]] result<ticket_id> read(stream_id stream, std::uint64_t offset,
                                       std::uint64_t bytes, std::int64_t now);
  [[nodiscard]] result<ticket_id> fill(stream_id stream, std::uint64_t offset,
                                       fill_target target, std::int64_t now);
  [[nodiscard]] result<ticket_id> open(std::int64_t now, std::int64_t deadline_ns = 0);

  /// Something to do for a worker that has nothing to do.
  [[nodiscard]] std::optional<job> next_job(std::int64_t now);
  /// A worker is done. Its error, or the bytes that it filled, become answers.
  void finished(std::uint64_t job, result<std::uint64_t> outcome);
  /// An opening is done; false if it is too late for it.
  [[nodiscard]] bool opened(std::uint64_t job);
  /// A worker is gone: it gets no more work, and what it was at has failed.
  void lose_worker(std::size_t worker, const error& why);
  /// Answers `timeout` to whatever is overdue.
  void expire(std::int64_t now);
  [[nodiscard]] std::optional<std::int64_t> next_deadline() const;
  [[nodiscard]] std::vector<answer> take_answers();

  [[nodiscard]] std::size_t credits_free() const noexcept { return credits_; }
  [[nodiscard]] std::size_t streams() const noexcept { return streams_.size(); }
  [[nodiscard]] std::size_t unanswered() const noexcept { return tickets_.size(); }
  /// Pieces read ahead of `stream` and not pulled, those being read included.
  [[nodiscard]] std::size_t ahead(stream_id stream) const;
  [[nodiscard]] std::string describe(std::int64_t now) const;

 private:
  struct slot {
    std::shared_ptr<byte_vector> bytes;
    std::optional<result<std::uint64_t>> outcome;  ///< nothing: being read
    ticket_id wanted_by = 0;
  };
  struct stream {
    std::string name;
    std::uint64_t bytes = 0;
    std::uint64_t piece = 0;
    std::int64_t deadline_ns = 0;
    std::uint64_t next_pull = 0;          ///< index of a piece
    std::uint64_t next_ahead = 0;         ///< first index that nobody reads yet
    std::map<std::uint64_t, slot> slots;  ///< ahead, by index
    std::deque<ticket_id> waiting;        ///< requests with bytes that nobody reads yet
    std::size_t requests = 0;
    std::optional<error> failure;
  };
  struct ticket {
    stream_id stream = 0;  ///< 0: an opening
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
    std::int64_t deadline = 0;
    bool pulls = false;
    std::shared_ptr<byte_vector> bytes;  ///< null: the caller's memory
    fill_target target;
    std::uint64_t begun = 0, done = 0;  ///< bytes
    std::size_t running = 0;            ///< jobs
    std::uint64_t failed_at = UINT64_MAX;
    std::optional<error> failure;
  };
  struct running {
    std::size_t worker = 0;
    stream_id stream = 0;
    std::optional<std::uint64_t> ahead;  ///< index of a piece
    ticket_id ticket = 0;
    std::uint64_t offset = 0, size = 0;
    std::int64_t since = 0;
  };
  struct worker_state {
    bool lost = false;
    std::optional<std::uint64_t> job;
  };

  [[nodiscard]] result<stream*> usable(stream_id id, std::int64_t now);
  [[nodiscard]] result<void> check_workers(std::int64_t now) const;
  [[nodiscard]] bool is_stuck(const worker_state& r, std::int64_t now) const;
  ticket_id add_ticket(stream& s, ticket t, std::int64_t now);
  /// As `add_ticket`, and in line for a worker; nothing to read is answered at once.
  ticket_id queue(stream& s, ticket t, std::int64_t now);
  ticket_id take_ready(stream& s, ticket_id id, std::uint64_t index);
  job begin(std::size_t worker, running r, mutable_bytes memory,
            std::shared_ptr<const void> holder);
  [[nodiscard]] std::optional<job> next_opening(std::size_t worker, std::int64_t now);
  [[nodiscard]] std::optional<job> next_request(std::size_t worker, std::int64_t now);
  [[nodiscard]] std::optional<job> next_ahead(std::size_t worker, std::int64_t now);
  void drop_ended(stream& s) const;
  void end_sequence(stream& s, const error& why);
  void finish_ahead(const running& r, result<std::uint64_t> outcome);
  void finish_request(const running& r, result<std::uint64_t> outcome);
  void answer_ticket(ticket_id id, result<volume_piece> outcome);
  [[nodiscard]] error overdue(const ticket& t, std::int64_t now) const;

  settings settings_;
  std::size_t credits_;
  std::vector<worker_state> workers_;
  std::map<stream_id, stream> streams_;
  std::map<ticket_id, ticket> tickets_;
  std::map<std::uint64_t, running> jobs_;
  std::deque<ticket_id> openings_;
  std::vector<answer> answers_;
  stream_id turn_ = 0;  ///< stream that was served last
  std::uint64_t last_stream_ = 0, last_ticket_ = 0, last_job_ = 0;
};

}  // namespace weir::actors
