// SPDX-License-Identifier: Apache-2.0
/// @file
/// The plan of chunks: which are ordered next, and how they form pulses. The sizes of
/// chunks depend on budgets and on earlier chunks, but not on how far ahead chunks are
/// ordered or in which order they arrive.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "weir/actors/run.hpp"
#include "weir/storage/context.hpp"

namespace weir::actors {

/// Order for the next tokens of one lane.
struct chunk_order {
  std::uint32_t lane = 0;    ///< lane of the context stream
  std::uint64_t tokens = 0;  ///< number of tokens wanted, at least 1
  std::size_t stream = 0;    ///< number of the stream
  friend bool operator==(const chunk_order&, const chunk_order&) = default;
};
/// Orders of several lanes.
using chunk_orders = std::vector<chunk_order>;
/// Answer to one order.
struct chunk_reply {
  chunk_order order;  ///< the order that is answered
  /// At most as many tokens as ordered. Empty if the lane has ended.
  std::optional<storage::token_chunk> chunk;
};

/// Number of phases: Build, Test and Stream.
inline constexpr std::size_t phase_count = 3;

/// The part of its budget that a phase has used.
struct phase_use {
  std::uint64_t tokens = 0;
  std::uint64_t pulses = 0;
  friend bool operator==(const phase_use&, const phase_use&) = default;
};
using phase_budgets = std::array<phase_budget, phase_count>;
using phase_uses = std::array<phase_use, phase_count>;

/// Returns the number of a phase: 0 for "build", 1 for "test" and 2 for "stream";
/// `phase_count` for any other name.
[[nodiscard]] std::size_t number_of_phase(std::string_view name) noexcept;
/// Returns whether all names are those of phases.
[[nodiscard]] bool are_phases(const std::vector<std::string>& names);

/// One step of a run: a phase, and the stream that it reads.
struct phase_step {
  std::size_t phase = 0;   ///< number of the phase
  std::size_t stream = 0;  ///< number of the stream
  friend bool operator==(const phase_step&, const phase_step&) = default;
};
using phase_steps = std::vector<phase_step>;
/// Returns Build, Test and Stream, all of which read the first stream.
[[nodiscard]] phase_steps standard_steps();

/// The chunks of one pulse.
struct pulse_chunks {
  std::size_t phase = 0;   ///< number of the phase
  std::size_t step = 0;    ///< number of the step
  std::size_t stream = 0;  ///< number of the stream
  /// By lane; a lane without a chunk takes no part in the pulse.
  std::vector<std::optional<storage::token_chunk>> lanes;
  /// Returns the number of tokens of all lanes.
  [[nodiscard]] std::uint64_t tokens() const;
  /// Returns the number of end-of-text tokens among the tokens that all lanes predict.
  [[nodiscard]] std::uint64_t ends_of_text(std::uint32_t separator) const;
};
/// Returns the largest number of pulses that a budget allows, if a pulse has up to
/// `pulse_tokens` tokens.
[[nodiscard]] std::uint64_t max_pulses(const phase_budget& budget,
                                       std::uint64_t pulse_tokens) noexcept;

/// Orders chunks slot by slot and in each slot lane by lane; a slot becomes a pulse.
///
/// The size of an order is min(chunk, tokens that are left of the phase's budget behind
/// all earlier orders). Chunks may come back shorter than ordered, so what is left is
/// known exactly only when no order is outstanding. An order of full size is certain to
/// be right as long as the budget suffices even if all outstanding orders are filled; it
/// may go out ahead. An order of a smaller size waits until nothing is outstanding.
/// Prefetching therefore never changes a size. A phase ends with its budget, or when all
/// lanes of its stream have ended; a step that reads the same stream then has none.
/// @invariant ordered tokens without an answer + tokens received in the phase <= its
/// budget
/// @threads{thread-compatible}
class chunk_plan {
 public:
  struct settings {
    std::uint32_t lanes = 1;
    std::uint64_t chunk = 64;  ///< tokens of a full chunk
    phase_budgets budgets;     ///< by phase
    phase_steps steps = standard_steps();
  };
  /// Makes a plan that continues behind what the steps have used.
  /// @param used  By step; further steps have used nothing.
  chunk_plan(settings s, std::span<const phase_use> used);

  /// Returns the orders that may go out now. At most `slots` pulses are prepared at a
  /// time.
  [[nodiscard]] chunk_orders take_orders(std::size_t slots);
  /// Takes the answer to an order. The answers of a lane must come in the order of its
  /// orders.
  /// @error{internal, no such order is outstanding, or it has more tokens than ordered}
  [[nodiscard]] result<void> resolve(chunk_reply reply);
  /// Returns the chunks of the next pulse, if all of its orders are answered.
  [[nodiscard]] std::optional<pulse_chunks> take_pulse();
  /// Returns whether `take_pulse` would return a pulse.
  [[nodiscard]] bool ready();
  /// Returns whether nothing more will come: the budgets are used up, or all lanes have
  /// ended.
  [[nodiscard]] bool exhausted();
  /// Returns whether all lanes have ended before the budgets were used up.
  [[nodiscard]] bool ended_early() const noexcept { return ended_early_; }
  /// Returns the number of orders without an answer.
  [[nodiscard]] std::uint64_t outstanding() const noexcept { return orders_out_; }
  /// Returns the number of pulses that are prepared, complete or not.
  [[nodiscard]] std::size_t prepared() const noexcept { return open_.size(); }

 private:
  enum class cell_state : std::uint8_t { open, ordered, ready, absent };
  /// The chunk of one lane in a slot.
  struct cell {
    cell_state state = cell_state::open;
    std::optional<storage::token_chunk> chunk;  ///< if the state is ready
  };
  /// A pulse that is being prepared.
  struct slot {
    std::size_t step = 0;
    std::vector<cell> cells;     ///< by lane
    std::uint32_t assigned = 0;  ///< lanes [0, assigned) are not open any more
  };

  [[nodiscard]] bool open_slot();
  [[nodiscard]] bool fill_slot(slot& s, chunk_orders& out);
  void drop_empty_slots();
  [[nodiscard]] std::uint64_t left() const noexcept;
  [[nodiscard]] const phase_budget& budget() const noexcept;
  [[nodiscard]] bool all_ended(std::size_t stream) const noexcept;
  void close_step();

  settings settings_;
  std::size_t step_ = 0;
  std::uint64_t tokens_ = 0;      ///< tokens received in the step
  std::uint64_t slots_ = 0;       ///< slots of the step, with those before a resume
  std::uint64_t granted_ = 0;     ///< tokens of the orders without an answer
  std::uint64_t orders_out_ = 0;  ///< number of the orders without an answer
  bool ended_early_ = false;
  std::vector<phase_use> used_;           ///< when the plan was made, by step
  std::vector<std::vector<bool>> ended_;  ///< by stream and lane
  std::deque<slot> open_;  ///< pulses that are prepared, the next one first
};

}  // namespace weir::actors
