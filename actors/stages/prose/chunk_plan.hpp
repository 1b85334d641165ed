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
#include <vector>

#include "weir/actors/run.hpp"
#include "weir/storage/context.hpp"

namespace weir::actors {

/// Order for the next tokens of one lane.
struct chunk_order {
  std::uint32_t lane = 0;    ///< lane of the context stream
  std::uint64_t tokens = 0;  ///< number of tokens wanted, at least 1
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

/// The chunks of one pulse.
struct pulse_chunks {
  std::size_t phase = 0;
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
/// Prefetching therefore never changes a size.
/// @invariant ordered tokens without an answer + tokens received in the phase <= its
/// budget
/// @threads{thread-compatible}
class chunk_plan {
 public:
  struct settings {
    std::uint32_t lanes = 1;
    std::uint64_t chunk = 64;  ///< tokens of a full chunk
    phase_budgets budgets;     ///< by phase
  };
  /// Makes a plan that continues behind what the phases have used.
  chunk_plan(settings s, const phase_uses& used);

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
    std::size_t phase = 0;
    std::vector<cell> cells;     ///< by lane
    std::uint32_t assigned = 0;  ///< lanes [0, assigned) are not open any more
  };

  [[nodiscard]] bool open_slot();
  [[nodiscard]] bool fill_slot(slot& s, chunk_orders& out);
  void drop_empty_slots();
  [[nodiscard]] std::uint64_t left() const noexcept;
  [[nodiscard]] bool all_ended() const noexcept;
  void close_phase();

  settings settings_;
  std::size_t phase_ = 0;
  std::uint64_t tokens_ = 0;      ///< tokens received in the phase
  std::uint64_t slots_ = 0;       ///< slots of the phase, with those before a resume
  std::uint64_t granted_ = 0;     ///< tokens of the orders without an answer
  std::uint64_t orders_out_ = 0;  ///< number of the orders without an answer
  bool ended_early_ = false;
  phase_uses used_;          ///< when the plan was made, by phase
  std::vector<bool> ended_;  ///< by lane
  std::deque<slot> open_;    ///< pulses that are prepared, the next one first
};

}  // namespace weir::actors
