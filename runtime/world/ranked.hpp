// SPDX-License-Identifier: Apache-2.0
/// @file
/// The part of a world that exists on several ranks: ledgers, pieces on their way, tasks
/// that wait for pieces, and the agreement at waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "weir/runtime/copy_ledger.hpp"
#include "weir/runtime/world.hpp"
#include "world/call_inquiry.hpp"
#include "world/call_log.hpp"
#include "world/pieces.hpp"
#include "world/repetition.hpp"
#include "world/stop_agreement.hpp"

namespace weir::runtime {

/// Runs tasks until all of an engine have ended. Their failures stay in the engine.
void run_all(engine& tasks);

/// State of a rank that all ranks exchange at a wait.
struct rank_report {
  /// Value of `failed_step` for tasks that the world has not submitted.
  static constexpr std::uint64_t no_step = ~std::uint64_t{0};

  call_count count;               ///< calls
  std::uint64_t fold = 0;         ///< hash of all calls
  std::uint64_t failed_step = 0;  ///< oldest failure; 0: none
  std::uint32_t code = 0;         ///< code of it
  std::array<char, 60> name{};    ///< task that failed
  std::array<char, 400> text{};   ///< text of the failure
  std::array<char, 200> location{};
  std::array<char, 200> hint{};
};

/// A world of several ranks, seen from one of them.
///
/// Invariant: the tasks of this rank, its sends and its receives are submitted to the
/// engine in the order of the stream. Take the unfinished one that is oldest on all
/// ranks: everything before it has ended, so it is in the window of its ranks or next to
/// enter it, and its piece is sent or its sender fails. Therefore it ends.
///
/// While a world waits, the other worlds of its transport move on, because a rank that
/// waits for the same world may need a piece of another one first.
class world::ranked final : public transport_user {
 public:
  ranked(engine& tasks, transport& link);
  ~ranked() override;
  ranked(const ranked&) = delete;
  ranked& operator=(const ranked&) = delete;

  /// Makes a storage on all ranks, whose zeros all of them hold.
  [[nodiscard]] result<storage> allocate(std::int64_t bytes, std::string_view owner);
  /// Waits for all tasks of the engine and releases the storage of this rank.
  [[nodiscard]] result<void> release(storage_id id);
  /// Moves the pieces of a task. Returns true if this rank runs the task, which the
  /// caller submits to the engine next.
  [[nodiscard]] result<bool> submit(const world_submission& with, const char* name,
                                    std::span<const access> accesses,
                                    std::uint64_t identity);
  /// Submits the tasks of a series of which this rank is the executor, and moves the
  /// pieces of all of them.
  [[nodiscard]] result<void> submit_series(const std::shared_ptr<const task_series>& all);
  /// Returns true if the newest submission is recorded.
  [[nodiscard]] bool records() const noexcept {
    return repetition_.now == repeat_mode::recording;
  }
  /// Keeps the function that submits the newest submission to the engine again.
  void record_start(std::function<result<void>(std::uint64_t)> start) {
    repetition_.recorded->calls.back().start = std::move(start);
  }
  /// Keeps an object that replays of a task of a series use.
  void record_kept(kept_object keep) {
    repetition_.recorded->kept.push_back(std::move(keep));
  }
  /// Begins a step of a loop. The period that was found decides how its calls are
  /// treated.
  void begin_step();
  /// Returns true if the whole step was taken from the recorded period without its calls.
  [[nodiscard]] result<bool> pass_step();
  /// Takes back passed steps that were not submitted, and returns their number.
  [[nodiscard]] std::int64_t take_back_steps() noexcept;
  /// Ends a step and compares it with the steps before.
  [[nodiscard]] result<void> end_step();
  /// Ends the loop. Deferred calls are submitted, and what was recorded is dropped.
  [[nodiscard]] result<void> end_steps();
  /// Moves the pieces that bring the bytes to all ranks.
  [[nodiscard]] result<void> bring(std::span<const access> accesses);
  /// Ends the world because of a failure of this rank.
  [[nodiscard]] error fail(error cause);
  /// Waits for all ranks and returns the oldest failure, the same one on all of them.
  [[nodiscard]] result<void> wait();
  /// Waits, and returns the counters of all ranks.
  [[nodiscard]] result<std::vector<world_counters>> gather_counters();
  /// Comes to the boundary before the next step. Returns true if all ranks stop there.
  [[nodiscard]] result<bool> stops_here();
  void ask_to_stop() noexcept { stop_.ask(); }
  void explain_failures(std::function<std::string()> advice) {
    advice_ = std::move(advice);
  }
  /// Moves this world on while another world of the transport waits.
  bool move_on_for_others() override;

  [[nodiscard]] std::uint64_t step() const noexcept { return steps_; }
  [[nodiscard]] bool needs_pieces() const noexcept { return needs_pieces_; }
  [[nodiscard]] const world_counters& counters() const noexcept { return counters_; }
  /// Notes a failure of a task or a transfer of this rank. @threads{safe from any thread}
  void note_failure(std::uint64_t step, const char* name, const error& cause);

 private:
  /// A storage of the world: the memory of this rank, and which ranks hold valid bytes.
  struct shared_storage {
    storage local;
    copy_ledger ledger;
    std::uint64_t ordinal;  ///< number among the storages of the world
  };
  using storage_map = std::unordered_map<std::uint64_t, shared_storage>;

  // The stream.
  [[nodiscard]] result<shared_storage*> find(storage_id id, std::int64_t end);
  [[nodiscard]] result<void> check_open();
  [[nodiscard]] result<void> check(const world_submission& with,
                                   std::span<const access> accesses);
  [[nodiscard]] result<bool> is_put_off(std::uint64_t signature);
  [[nodiscard]] result<void> enter(std::uint64_t hash, const world_submission& with,
                                   const char* name, std::span<const access> accesses);
  [[nodiscard]] result<void> enter_accesses(const world_submission& with,
                                            const char* name,
                                            std::span<const access> accesses);
  [[nodiscard]] std::uint64_t hash_of(const world_submission& with, const char* name,
                                      std::span<const access> accesses) const;
  [[nodiscard]] result<bool> count_task(const world_submission& with,
                                        std::size_t accesses);
  [[nodiscard]] result<void> fetch(shared_storage& s, const footprint& bytes, rank_id to,
                                   const char* name);
  [[nodiscard]] result<void> note_writes(std::span<const access> accesses, rank_id first,
                                         rank_id last);
  [[nodiscard]] result<void> move_piece(const shared_storage& s, const footprint& bytes,
                                        rank_id other, const char* name, bool sends);

  // Series.
  /// The storages of the accesses of a series.
  using storages_of_series = std::vector<const shared_storage*>;
  [[nodiscard]] result<storages_of_series> find_storages(const task_series& all);
  [[nodiscard]] result<void> enter_series(std::uint64_t hash, const task_series& all);
  [[nodiscard]] result<void> enter_task(const task_series& all, std::int64_t task,
                                        rank_id executor, std::vector<access>& accesses);

  // Steps that repeat.
  void begin_recording(std::size_t period);
  void end_recording(bool complete);
  [[nodiscard]] result<bool> defers(std::uint64_t signature);
  [[nodiscard]] bool has_deferred() const noexcept;
  [[nodiscard]] result<void> submit_deferred();
  [[nodiscard]] bool submit_deferred_for_others();
  [[nodiscard]] result<void> stop_following();
  [[nodiscard]] result<void> disturb();
  void note_ledger_change();
  [[nodiscard]] result<void> replay_period();

  // Progress.
  [[nodiscard]] result<void> advance();
  [[nodiscard]] result<bool> move_on();
  [[nodiscard]] result<bool> move_on_at_times();
  [[nodiscard]] result<void> question_others();
  void begin_idle();
  void end_idle();
  [[nodiscard]] result<void> wait_for_space(std::size_t accesses);
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
  [[nodiscard]] error with_task(error cause);
  error end(error cause, const error& for_others);

  /// Submissions between two polls while nothing is on its way.
  static constexpr std::uint64_t steps_between_polls = 64;

  engine& tasks_;
  transport& link_;
  pieces pieces_;
  std::uint32_t control_;
  std::uint64_t poller_;
  storage_map storages_;
  std::uint64_t ordinals_ = 0;
  std::vector<std::uint64_t> sent_to_;        ///< messages to each rank
  std::vector<std::uint64_t> received_from_;  ///< messages from each rank
  std::vector<missing_piece> missing_;
  std::uint64_t steps_ = 0;
  bool needs_pieces_ = false;  ///< this rank receives pieces for the newest submission
  call_log log_;
  call_inquiry inquiry_;
  stop_agreement stop_;
  std::uint64_t idle_rounds_ = 0;  ///< since anything has moved
  unsigned waits_inside_ = 0;      ///< calls of `advance` that have not returned
  unsigned held_rounds_ = 0;       ///< idle rounds of others while calls were deferred
  std::int64_t idle_since_ = 0;    ///< time at which a wait for a piece began; 0: none
  rank_id idle_for_ = 0;           ///< rank that sends the piece
  const char* idle_task_ = "";     ///< task that needs the piece
  std::uint64_t exchanges_ = 0;
  repetition repetition_;
  world_counters counters_;
  std::optional<error> broken_;
  std::function<std::string()> advice_;  ///< hint of a failure

  std::mutex mutex_;     ///< guards `failure_`, which kernels write
  rank_report failure_;  ///< oldest failure of this rank since the last wait
};

}  // namespace weir::runtime
