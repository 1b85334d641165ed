// SPDX-License-Identifier: Apache-2.0
/// @file
/// The part of a world that exists on several ranks: ledgers, pieces on their way, tasks
/// that wait for pieces, and the agreement at waits.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "weir/runtime/copy_ledger.hpp"
#include "weir/runtime/world.hpp"
#include "world/call_inquiry.hpp"
#include "world/call_log.hpp"

namespace weir::runtime {

/// Runs tasks until all of an engine have ended. Their failures stay in the engine.
void run_all(engine& tasks);

/// A piece that this rank sends. A task packs it; then the transport gets it.
struct outgoing_piece {
  footprint bytes;
  const std::byte* base = nullptr;
  rank_id to = 0;
  message_key key;
  std::vector<std::byte> packed;
  std::atomic<bool> is_packed{
      false};                ///< false after the task has ended: it was poisoned
  task_id task = 0;          ///< task that packs; 0: not submitted
  transfer_id transfer = 0;  ///< 0: not begun
};

/// A piece that this rank receives. A task unpacks it after it has arrived.
struct incoming_piece {
  footprint bytes;
  std::byte* base = nullptr;
  rank_id from = 0;
  std::vector<std::byte> packed;
  transfer_id transfer = 0;
  bool on_its_way = true;
  std::optional<error> failure;  ///< reason why it has not arrived
  bool is_absent = false;        ///< true if the reason is a failed task of its sender
  task_id task = 0;              ///< task that unpacks; 0: not submitted
};

/// One entry of the stream as this rank sees it. Entries start in the order of the
/// stream.
struct stream_entry {
  outgoing_piece* send = nullptr;
  incoming_piece* receive = nullptr;
  std::function<result<void>(engine&)> run;
  std::uint64_t step = 0;
  const char* name = "";  ///< task that needs the piece
};

/// State of a rank that all ranks exchange at a wait.
struct rank_report {
  /// Value of `failed_step` for tasks that the world has not submitted.
  static constexpr std::uint64_t no_step = ~std::uint64_t{0};

  call_count count;               ///< calls
  std::uint64_t fold = 0;         ///< hash of all calls
  std::uint64_t failed_step = 0;  ///< oldest failure; 0: none
  std::uint32_t code = 0;         ///< code of it
  std::array<char, 60> name{};    ///< task that failed
  std::array<char, 320> text{};   ///< text of the failure
};

/// A world of several ranks, seen from one of them.
///
/// Invariant: entries of the stream are submitted to the engine in order, so the engine
/// sees the order of one rank. A receive holds back the entries behind it until its piece
/// has arrived. The oldest entry of all ranks is never held back for ever: everything
/// before it has been started, so its piece has been sent or its sender has failed.
/// While a world waits, the other worlds of its transport move on, because a rank that
/// waits for the same world may need a piece of another one first.
class world::ranked final : public transport_user {
 public:
  ranked(engine& tasks, transport& link);
  ~ranked() override;
  ranked(const ranked&) = delete;
  ranked& operator=(const ranked&) = delete;

  [[nodiscard]] result<storage> allocate(std::int64_t bytes, std::string_view owner);
  [[nodiscard]] result<void> release(storage_id id);
  [[nodiscard]] result<void> submit(const world_submission& with, const char* name,
                                    std::span<const access> accesses, start run);
  [[nodiscard]] result<void> wait();
  [[nodiscard]] result<std::vector<world_counters>> gather_counters();
  bool move_on_for_others() override;

  [[nodiscard]] std::uint64_t next_step() const noexcept { return steps_ + 1; }
  [[nodiscard]] const world_counters& counters() const noexcept { return counters_; }
  void note_failure(std::uint64_t step, const char* name, const error& cause);

 private:
  struct shared_storage {
    storage local;
    copy_ledger ledger;
    std::uint64_t ordinal;  ///< number among the storages of the world
  };
  using storage_map = std::unordered_map<std::uint64_t, shared_storage>;

  // The stream.
  [[nodiscard]] result<shared_storage*> find(storage_id id, std::int64_t end);
  [[nodiscard]] result<void> check(const world_submission& with,
                                   std::span<const access> accesses);
  void fold_submission(const world_submission& with, const char* name,
                       std::span<const access> accesses);
  [[nodiscard]] result<void> fetch(shared_storage& s, const footprint& bytes, rank_id to,
                                   const char* name);
  [[nodiscard]] result<void> note_writes(std::span<const access> accesses, rank_id first,
                                         rank_id last);
  void send_piece(const shared_storage& s, const footprint& bytes, rank_id to);
  [[nodiscard]] result<void> receive_piece(const shared_storage& s,
                                           const footprint& bytes, rank_id from,
                                           const char* name);

  // Progress.
  [[nodiscard]] result<void> advance();
  [[nodiscard]] result<bool> move_on();
  [[nodiscard]] result<void> question_others();
  void begin_idle();
  void end_idle();
  [[nodiscard]] result<bool> end_transfers();
  [[nodiscard]] result<bool> start_entries();
  [[nodiscard]] result<bool> start_entry(stream_entry& entry);
  [[nodiscard]] result<bool> hand_over_sends();
  [[nodiscard]] bool receives_open() const noexcept;
  [[nodiscard]] result<void> drain();

  // Agreement.
  /// Bytes of each rank in an exchange.
  using bytes_of_ranks = std::vector<std::span<std::byte>>;
  [[nodiscard]] result<void> exchange(std::span<const std::byte> own,
                                      const bytes_of_ranks& all);
  [[nodiscard]] result<std::vector<rank_report>> exchange(const rank_report& own);
  [[nodiscard]] result<void> agree();
  [[nodiscard]] result<void> check_equal_streams();
  [[nodiscard]] result<void> find_difference(const std::vector<rank_report>& reports,
                                             rank_id other);
  [[nodiscard]] error fail(error cause);
  error end(error cause, const error& told);

  engine& tasks_;
  transport& link_;
  std::uint32_t data_;
  std::uint32_t control_;
  storage_map storages_;
  std::uint64_t ordinals_ = 0;
  std::vector<std::uint64_t> sent_to_;        ///< messages to each rank
  std::vector<std::uint64_t> received_from_;  ///< messages from each rank
  std::deque<stream_entry> held_;
  std::list<outgoing_piece> sends_;
  std::list<incoming_piece> receives_;
  std::vector<missing_piece> missing_;
  std::uint64_t steps_ = 0;
  call_log log_;
  call_inquiry inquiry_;
  std::uint64_t idle_rounds_ = 0;  ///< since anything has moved
  std::int64_t idle_since_ = 0;    ///< time at which a wait for a piece began; 0: none
  rank_id idle_for_ = 0;           ///< rank that sends the piece
  const char* idle_task_ = "";     ///< task that needs the piece
  std::uint64_t exchanges_ = 0;
  world_counters counters_;
  std::optional<error> broken_;

  std::mutex mutex_;     ///< guards `failure_`, which kernels write
  rank_report failure_;  ///< oldest failure of this rank since the last wait
};

}  // namespace weir::runtime
