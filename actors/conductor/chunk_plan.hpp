// SPDX-License-Identifier: Apache-2.0
/// @file
/// Which chunks to order, and how they form pulses. Sizes depend on budgets and on
/// earlier chunks alone, never on how far ahead or in what order they arrive.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "weir/actors/orders.hpp"

namespace weir::actors {

inline constexpr std::size_t phase_count = 3;

/// What a phase has used of its budget.
struct phase_use {
  std::uint64_t tokens = 0;
  std::uint64_t pulses = 0;
  friend bool operator==(const phase_use&, const phase_use&) = default;
};
using phase_budgets = std::array<phase_budget, phase_count>;
using phase_uses = std::array<phase_use, phase_count>;

/// Chunks of one pulse, by lane; a lane without one takes no part.
struct pulse_chunks {
  std::size_t phase = 0;
  std::vector<std::optional<storage::token_chunk>> lanes;
  [[nodiscard]] std::uint64_t tokens() const;
};

/// Orders chunks slot by slot (a slot becomes a pulse) and lane by lane.
///
/// The next order is min(chunk, what is left of the phase after everything before it). A
/// full one is given out ahead while even the most that is outstanding leaves room for
/// it; a shorter one only once nothing is outstanding. So prefetching cannot change a
/// size, also where chunks come back shorter than ordered.
/// @invariant granted tokens + tokens of the phase resolved so far <= its budget
/// @threads{thread-compatible}
class chunk_plan {
 public:
  struct settings {
    std::uint32_t lanes = 1;
    std::uint64_t chunk = 64;
    phase_budgets budgets;
  };
  chunk_plan(settings s, const phase_uses& used);

  /// Orders that may go out now while at most `slots` pulses are prepared or on their
  /// way.
  [[nodiscard]] chunk_orders take_orders(std::size_t slots);
  /// An order was answered. Per lane in the order of the orders.
  /// @error{internal, nobody ordered it, or it has more tokens than ordered}
  [[nodiscard]] result<void> resolve(chunk_reply reply);
  /// Chunks of the next pulse, once all of its orders are answered.
  [[nodiscard]] std::optional<pulse_chunks> take_pulse();
  /// True if a pulse can be taken.
  [[nodiscard]] bool ready();
  /// Nothing more will come: budgets are met, or all lanes have ended.
  [[nodiscard]] bool exhausted();
  /// All lanes have ended before the budgets were met.
  [[nodiscard]] bool ended_early() const noexcept { return ended_early_; }
  [[nodiscard]] std::uint64_t outstanding() const noexcept { return orders_out_; }
  /// Pulses that are prepared or on their way.
  [[nodiscard]] std::size_t prepared() const noexcept { return open_.size(); }

 private:
  enum class cell_state : std::uint8_t { open, ordered, ready, absent };
  struct cell {
    cell_state state = cell_state::open;
    std::optional<storage::token_chunk> chunk;
  };
  struct slot {
    std::size_t phase = 0;
    std::vector<cell> cells;
    std::uint32_t assigned = 0;  ///< lanes that are ordered, ready or absent
  };

  [[nodiscard]] bool open_slot();
  [[nodiscard]] bool fill_slot(slot& s, chunk_orders& out);
  void drop_empty_slots();
  [[nodiscard]] std::uint64_t left() const noexcept;
  [[nodiscard]] bool all_ended() const noexcept;
  void close_phase();

  settings settings_;
  std::size_t phase_ = 0;
  std::uint64_t tokens_ = 0;   ///< of the phase, resolved
  std::uint64_t slots_ = 0;    ///< of the phase, opened (with those before a resume)
  std::uint64_t granted_ = 0;  ///< tokens ordered and not answered
  std::uint64_t orders_out_ = 0;
  bool ended_early_ = false;
  phase_uses used_;
  std::vector<bool> ended_;
  std::deque<slot> open_;
};

}  // namespace weir::actors
