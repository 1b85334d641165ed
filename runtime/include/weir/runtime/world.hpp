// SPDX-License-Identifier: Apache-2.0
/// @file
/// One stream of tasks on several ranks: every rank submits all tasks, the executor of a
/// task runs it, and messages between ranks follow from what tasks read and write.
/// @source{docs/ranks.md}
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weir/runtime/calls/task_series.hpp"
#include "weir/runtime/engine.hpp"
#include "weir/runtime/transport.hpp"

namespace weir::runtime {

/// Counters of a rank since its world was made.
struct world_counters {
  std::uint64_t own_tasks = 0;      ///< tasks that this rank has run or will run
  std::uint64_t foreign_tasks = 0;  ///< tasks of other ranks
  std::uint64_t pieces_sent = 0;    ///< pieces that this rank sends
  std::int64_t bytes_sent = 0;      ///< bytes of these pieces
  /// Times at which the rank had nothing to do because a piece had not arrived.
  std::uint64_t waits = 0;
  std::int64_t waited_ns = 0;   ///< length of all waits @units{nanoseconds}
  std::int64_t longest_ns = 0;  ///< length of the longest wait @units{nanoseconds}
  rank_id longest_for = 0;      ///< rank that sent the piece of the longest wait
  std::array<char, 48> longest_task{};  ///< task that needed it; cut off if it is longer
};

/// Returns a table with a row for each rank: tasks, bytes sent, waits, and the longest
/// wait with the rank and the task that it was for.
[[nodiscard]] std::string counter_table(std::span<const world_counters> ranks);
/// Returns the counters of all ranks as a JSON array of objects.
[[nodiscard]] std::string counters_as_json(std::span<const world_counters> ranks);

/// Returns the name of this machine.
[[nodiscard]] std::string machine_name();
/// Returns the begin of a line that a rank writes beside the output of rank 0:
/// "[rank 2 machine] ".
[[nodiscard]] std::string line_prefix(rank_id rank);

/// From now on SIGUSR1, SIGTERM and SIGINT ask the worlds of this process to stop, see
/// `world::stops_here`. A second one of SIGTERM and SIGINT ends the process as usual, and
/// so does the first one after a world of the process has failed. A SIGTERM within a
/// second of the first one is not a second one, since Slurm sends two at once.
/// @threads{call it once, before worlds are made}
void stop_at_signals() noexcept;
/// Returns true if one of these signals has arrived. @threads{safe from any thread}
[[nodiscard]] bool stop_signal_arrived() noexcept;

/// Hash of what a kernel does: its type, the bytes of its captures and the views that it
/// gets. Kernels with the same identity do the same. @threads{thread-compatible}
class kernel_identity {
 public:
  /// Begins with the type of a kernel and, unless it is empty, with its bytes.
  template <class Kernel>
  explicit kernel_identity(const Kernel& kernel) {
    add(reinterpret_cast<std::uintptr_t>(&tag<Kernel>));
    if constexpr (!std::is_empty_v<Kernel>) {
      known_ = std::is_trivially_copyable_v<Kernel>;
      add(std::as_bytes(std::span(&kernel, 1)));
    }
  }
  /// Adds a number.
  void add(std::uint64_t number) noexcept {
    value_ = (value_ ^ number) * 0x9E3779B97F4A7C15U;
    value_ ^= value_ >> 29U;
  }
  /// Adds bytes.
  void add(std::span<const std::byte> bytes) noexcept;
  /// Returns the hash; 0 for a kernel whose captures cannot be compared.
  [[nodiscard]] std::uint64_t value() const noexcept { return known_ ? value_ | 1 : 0; }

 private:
  template <class Kernel>
  static constexpr char tag = 0;
  std::uint64_t value_ = 0;
  bool known_ = true;
};

/// Options of one submission to a world, beside its accesses.
struct world_submission {
  rank_id executor = 0;  ///< rank that runs the task
  /// Bit i is set if access i is a write of all of its bytes, so that no old byte is
  /// needed. It counts for plain writes and for i < 64 alone.
  std::uint64_t overwrites = 0;
  /// True if every rank runs the task, from equal inputs. Its writes are then valid on
  /// all ranks, and `executor` is of no meaning.
  bool everywhere = false;
};

/// The tasks of several ranks. Every rank makes the same calls with the same arguments in
/// the same order; kernels alone differ in what they see. The results are those of one
/// rank, bit for bit. On one rank `submit` forwards to the engine.
///
/// Several worlds may use one transport. While one waits, the others move on. Worlds with
/// the same engine wait for each other's tasks, see docs/ranks.md, rule 4.
///
/// A rank whose world fails or ends tells the others. Their worlds then fail as well, at
/// the first wait that needs it, with an error that names the rank and its failure.
///
/// A storage has the whole size on every rank, at addresses that differ; memory is used
/// for the pages that the rank touches. A failed task poisons its readers on all ranks.
/// Bytes of poisoned writes are undefined until they are written again.
/// @threads{thread-compatible; belongs to the submitter of the engine}
class world {
 public:
  /// Largest size of the captures of a kernel in bytes.
  static constexpr std::size_t max_capture = engine::max_capture - 24;

  /// Makes a world of one rank. @pre the engine outlives the world
  explicit world(engine& tasks);
  /// Makes the part of one rank of a world of at most `copy_ledger::max_holders` ranks.
  /// @pre the engine and the transport outlive the world
  world(engine& tasks, transport& link) : world(tasks, &link) {}
  /// Makes the part of one rank, or a world of one rank if `link` is null.
  /// @pre the engine and the transport outlive the world
  world(engine& tasks, transport* link);
  /// Waits for the tasks of this rank that have been started. Others never run. Their
  /// failures stay in the engine.
  ~world();
  world(const world&) = delete;
  world& operator=(const world&) = delete;

  /// Returns the number of this rank. Control flow must not depend on it.
  [[nodiscard]] rank_id rank() const noexcept { return rank_; }
  /// Returns the number of ranks.
  [[nodiscard]] rank_id ranks() const noexcept { return ranks_; }

  /// Returns true if the other ranks do not exist, see `make_pretended_ranks`.
  [[nodiscard]] bool is_pretended() const noexcept { return is_pretended_; }

  /// Allocates zeroed memory on every rank, which all ranks hold. @units{bytes}
  /// @error{out_of_memory; the allocation fails}
  [[nodiscard]] result<storage> allocate(std::int64_t bytes, std::string_view owner);
  /// Waits for the tasks of a storage on this rank, and for the pieces that they need,
  /// and frees it. @error{not_found; no such storage} @error{diverged; see
  /// `submit`}
  [[nodiscard]] result<void> release(storage_id id);

  /// Object that a kernel uses.
  using kept_object = std::shared_ptr<const void>;
  /// Submits one task, see `engine::submit`. The executor receives the bytes that it
  /// needs and lacks; other ranks send them. `keep` lives until the task has ended, on
  /// the ranks that run it. `identity` is equal for kernels that do the same, see
  /// `begin_step`; 0 if that is unknown.
  /// @error{out_of_range; no such rank} @error{not_found; a storage that the world has
  /// not allocated} @error{stopping; the world has failed}
  /// @error{unsupported; the program has begun a capture of the engine, and there are
  /// several ranks}
  /// @error{diverged; the ranks have made different calls, found while this
  /// one waited for a piece}
  template <class Kernel>
  [[nodiscard]] result<void> submit(const world_submission& with, const char* name,
                                    std::span<const access> accesses,
                                    const Kernel& kernel, kept_object keep = {},
                                    std::uint64_t identity = 0) {
    if (!kept_.empty()) {
      drop_kept();
    }
    if (ranks_ == 1) {
      return start_task(*tasks_, name, accesses, kernel, keep);
    }
    WEIR_TRY(const bool runs, submit_with(with, name, accesses, identity));
    if (!runs) {
      return {};
    }
    noted<Kernel> noting{kernel, this, step(), name};
    if (records()) {
      record_start(
          [noting, keep, all = std::vector<access>(accesses.begin(), accesses.end())](
              std::uint64_t step) mutable {
            noting.step = step;
            return noting.owner->start_task(*noting.owner->tasks_, noting.name, all,
                                            noting, keep);
          });
    }
    auto started = start_task(*tasks_, name, accesses, noting, keep);
    return started ? result<void>() : fail(std::move(started).error());
  }
  /// Submits the tasks of a series in the order of their numbers. The effect is that of
  /// one call of `submit` for each; the cost of the tasks of other ranks is one look at
  /// each rank, unless pieces or the ledger of copies need more.
  /// @error{out_of_range; the executor of a task is no rank} @error{not_found; see
  /// `submit`} @error{stopping; see `submit`} @error{unsupported; see `submit`}
  /// @error{diverged; see `submit`}
  [[nodiscard]] result<void> submit_series(const std::shared_ptr<const task_series>& all);
  /// Starts a task of a series, for `task_series::start` alone. Also returns the errors
  /// of `engine::submit`.
  template <class Kernel>
  [[nodiscard]] result<void> start(std::uint64_t step, const char* name,
                                   std::span<const access> accesses, const Kernel& kernel,
                                   const kept_object& keep = {}) {
    if (ranks_ == 1) {
      return start_task(*tasks_, name, accesses, kernel, keep);
    }
    if (keep && records()) {
      record_kept(keep);
    }
    auto started = start_task(*tasks_, name, accesses,
                              noted<Kernel>{kernel, this, step, name}, keep);
    return started ? result<void>() : fail(std::move(started).error());
  }
  /// Says that a step of a loop begins. If steps submit the same tasks as earlier ones,
  /// alternating between up to four, the world records them and submits them as replays
  /// of the engine, at the end of a step or later; see `docs/ranks.md`. The calls of
  /// steps are made as outside of them and have the same effect. Tasks with an identity
  /// of 0 end a recording. A kernel must not use `task_context::argument`.
  void begin_step();
  /// Makes the calls of the present step instead of the program, if they are known: the
  /// steps are the ones of a recorded period. Returns false if the program is to make
  /// them. @pre begin_step was called last, and the program would make the recorded calls
  /// @error{stopping; see `submit`}
  [[nodiscard]] result<bool> pass_step();
  /// Forgets the newest steps that `pass_step` has made and that were not submitted yet,
  /// and returns their number. The program makes them before it calls anything else.
  [[nodiscard]] std::int64_t take_back_steps() noexcept;
  /// Ends a step. @error{stopping; see `submit`}
  [[nodiscard]] result<void> end_step();
  /// Ends the loop, and submits what was not submitted yet. @error{stopping; see
  /// `submit`}
  [[nodiscard]] result<void> end_steps();
  /// Brings the bytes of a tensor to all ranks. Does not wait.
  /// @error{not_found; see `submit`} @error{stopping; the world has failed}
  /// @error{unsupported; see `submit`}
  [[nodiscard]] result<void> bring_everywhere(const tensor& t);
  /// Waits for all tasks of all ranks. All ranks call it, and get the same answer: the
  /// failure that is oldest in the stream. It has the code, the text, the location and
  /// the hint of the kernel's error, and may so have any code.
  /// @error{kernel_failed; a kernel threw an exception}
  /// @error{diverged; the ranks have submitted different tasks}
  /// @error{rank_lost; a rank shows no sign of life} @error{timeout; a message was lost}
  /// @error{stopping; a rank has ended its world}
  [[nodiscard]] result<void> wait();

  /// Says that the program is between two steps. Returns true if it is to stop here,
  /// because a rank was asked to: all ranks then get true at the same call, counted from
  /// the first one. Waits for other ranks only while they agree. All ranks make these
  /// calls as they make others.
  /// @error{stopping; the world has failed} @error{rank_lost; a rank is silent}
  [[nodiscard]] result<bool> stops_here();
  /// Asks all ranks to stop at a call of `stops_here`, as the signals of
  /// `stop_at_signals` do. @threads{safe from any thread}
  void ask_to_stop() noexcept;

  /// Returns the counters. Zeros on one rank.
  [[nodiscard]] const world_counters& counters() const noexcept;
  /// Sets a function that is called once if the world fails. Its text becomes the hint of
  /// the failure if that has none; an empty text changes nothing.
  void explain_failures(std::function<std::string()> advice);
  /// Waits, and returns the counters of all ranks. All ranks call it.
  /// @error{kernel_failed; see `wait`} @error{timeout; see `wait`}
  [[nodiscard]] result<std::vector<world_counters>> gather_counters();

 private:
  /// Submits a task to the engine and keeps its object until it has ended.
  template <class Kernel>
  [[nodiscard]] result<void> start_task(engine& tasks, const char* name,
                                        std::span<const access> accesses,
                                        const Kernel& kernel, const kept_object& keep) {
    submit_options with;
    with.urgent = needs_pieces();
    WEIR_TRY(const task_id id, tasks.submit(name, accesses, kernel, with));
    if (keep) {
      kept_.emplace_back(id, keep);
    }
    return {};
  }
  /// Tells a transport that watches kernels of one; does nothing for a null pointer.
  class counted_kernel {
   public:
    explicit counted_kernel(transport* watcher) noexcept : watcher_(watcher) {
      if (watcher_ != nullptr) {
        watcher_->kernel_begins();
      }
    }
    ~counted_kernel() {
      if (watcher_ != nullptr) {
        watcher_->kernel_ends();
      }
    }
    counted_kernel(const counted_kernel&) = delete;
    counted_kernel& operator=(const counted_kernel&) = delete;

   private:
    transport* watcher_;
  };
  /// A kernel whose failure is noted with the step of the stream.
  template <class Kernel>
  struct noted {
    Kernel kernel;
    world* owner;
    std::uint64_t step;
    const char* name;
    result<void> operator()(const task_context& context) const {
      if (owner->is_pretended_) {
        return {};
      }
      const counted_kernel counted(owner->watcher_);
      result<void> outcome = run(context);
      if (!outcome) {
        owner->note_failure(step_of(step, context), name, outcome.error());
      }
      return outcome;
    }
    result<void> run(const task_context& context) const {
      try {
        if constexpr (std::is_void_v<
                          std::invoke_result_t<const Kernel&, const task_context&>>) {
          kernel(context);
          return {};
        } else {
          return kernel(context);
        }
      } catch (const std::exception& e) {
        return error(errc::kernel_failed,
                     std::string("kernel threw an exception: ") + e.what());
      } catch (...) {
        return error(errc::kernel_failed, "kernel threw an exception of unknown type");
      }
    }
  };

  void drop_kept();
  /// Number of the newest submission.
  [[nodiscard]] std::uint64_t step() const noexcept;
  /// True if this rank receives pieces for the newest submission.
  [[nodiscard]] bool needs_pieces() const noexcept;
  void note_failure(std::uint64_t step, const char* name, const error& cause);
  [[nodiscard]] result<bool> submit_with(const world_submission& with, const char* name,
                                         std::span<const access> accesses,
                                         std::uint64_t identity);
  [[nodiscard]] bool records() const noexcept;
  void record_start(std::function<result<void>(std::uint64_t)> again);
  void record_kept(kept_object keep);
  /// Returns the number of a submission that was recorded as `step`.
  [[nodiscard]] static std::uint64_t step_of(std::uint64_t step,
                                             const task_context& context) noexcept;
  [[nodiscard]] error fail(error cause);

  class ranked;
  engine* tasks_;
  rank_id rank_ = 0;
  rank_id ranks_ = 1;
  bool is_pretended_ = false;                         ///< see `transport`
  transport* watcher_ = nullptr;                      ///< told of kernels, or null
  std::deque<std::pair<task_id, kept_object>> kept_;  ///< objects of tasks
  std::atomic<bool> asked_to_stop_{false};
  std::size_t sweep_at_ = 64;       ///< number of objects at which all are looked at
  std::unique_ptr<ranked> ranked_;  ///< null on one rank
};

}  // namespace weir::runtime
