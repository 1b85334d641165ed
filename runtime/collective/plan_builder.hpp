// SPDX-License-Identifier: Apache-2.0
/// @file
/// The builder of plans: it finds which steps wait for which, hands out scratch, and
/// moves partial results between ranks.
///
/// plan.cpp decides the route of each piece; the builder turns it into steps.
#pragma once

#include <cstdint>
#include <vector>

#include "weir/collective/plan.hpp"

namespace weir::collective {

/// A range of elements that is reduced or moved independently of others. No two pieces of
/// a plan share a byte of a rank's buffer.
struct plan_piece {
  std::size_t first = 0;  ///< first element in the input
  std::size_t count = 0;
  int owner = 0;
  std::size_t out_first = 0;  ///< first element in the output
};

/// The values of some ranks, added if there are several. Where the order matters, they
/// are all ranks in [first, last).
struct partial_result {
  int first = 0;
  int last = 0;
  int ranks = 0;
  plan_operand location;
};

/// Collects the steps of one plan. Calls come in the order `begin`, steps, `end` for each
/// piece. @threads{thread-compatible}
class plan_builder {
 public:
  plan_builder(const collective_call& call, int ranks, const topology& shape,
               const plan_options& options, std::optional<reducer> arithmetic);

  /// Return the properties of the plan: ranks, memory, mesh, call and options.
  [[nodiscard]] int ranks() const noexcept { return plan_.ranks_; }
  [[nodiscard]] bool shares_memory() const noexcept { return shape_.shared_memory; }
  [[nodiscard]] const topology& shape() const noexcept { return shape_; }
  [[nodiscard]] const collective_call& call() const noexcept { return plan_.call_; }
  [[nodiscard]] const plan_options& options() const noexcept { return plan_.options_; }

  /// Sets how many pieces can be under way at the same time. Scratch is used again after
  /// so many pieces.
  void set_window(std::size_t pieces) noexcept { window_ = pieces; }
  /// Begins a piece. Its steps may depend on each other in any way.
  void begin(const plan_piece& piece);
  /// Ends the piece. Its scratch can be used again after `window_` further pieces.
  void end();

  /// Returns the number of elements of the piece.
  [[nodiscard]] std::size_t piece_count() const noexcept { return piece_.count; }
  /// Return the piece in a rank's input or output.
  [[nodiscard]] plan_operand input(int rank) const noexcept;
  [[nodiscard]] plan_operand output(int rank) const noexcept;
  /// Returns the piece in every rank's output.
  [[nodiscard]] plan_operand outputs() const noexcept;
  /// Returns scratch for the piece, or for `count` elements of it.
  plan_operand scratch(int rank, plan_operand::form as);
  plan_operand scratch(int rank, plan_operand::form as, std::size_t count);

  /// Adds a step and finds its predecessors.
  void step(step_kind kind, int lane, std::span<const plan_operand> sources,
            std::span<const plan_operand> targets, std::size_t count,
            bool finishes = true);
  /// Copies the piece from one rank's output to another's.
  void pass_on(int from, int to);

  /// Makes every rank hold its own input as a partial result.
  void hold_inputs();
  /// Moves the partial results of rank `from` to rank `to`, which adds as many of them as
  /// the order of the sum allows.
  void move_partials(int from, int to);
  /// Adds the partial results that `rank` holds, which are all, into the output of
  /// `target`.
  void deliver(int rank, int target);

  /// Returns the finished plan. The builder must not be used afterwards.
  [[nodiscard]] collective_plan take() noexcept;

 private:
  using operand_list = std::span<const plan_operand>;
  /// Bytes that a step reads or writes.
  struct access {
    plan_operand location;
    std::size_t bytes;
    std::uint32_t step;
    bool writes;
  };
  /// The steps that a step of this piece waits for, directly and by way of others: one
  /// bit for each step.
  using ancestry = std::vector<std::uint64_t>;

  /// Adds earlier steps to `waits` that a new step with these operands must wait for.
  void note_accesses(const plan_step& s, operand_list list, bool writes,
                     std::vector<std::uint32_t>& waits);
  /// Removes predecessors that are implied by others.
  void keep_direct(std::vector<std::uint32_t>& waits);
  /// Returns true if the order of the sum allows adding a and b.
  [[nodiscard]] bool may_join(const partial_result& a, const partial_result& b) const;
  /// Adds the first pair that may be added; returns false if there is none.
  bool join_one_pair(int rank, std::vector<partial_result>& partials);
  /// Adds a step that adds two partial results.
  partial_result join(int rank, const partial_result& a, const partial_result& b);
  /// Adds a step that copies a partial result to scratch of `rank`.
  partial_result copied_to(int rank, const partial_result& from);
  /// Returns scratch of the piece, which later steps may use again.
  void give_back(const plan_operand& location);

  collective_plan plan_;
  topology shape_;
  std::size_t element_bytes_;
  std::size_t window_ = 4;
  std::size_t piece_number_ = 0;
  plan_piece piece_;
  std::size_t unit_ = 0;           ///< bytes of scratch for one operand of the piece
  std::size_t used_ = 0;           ///< bytes of the piece's slot that are in use
  std::vector<std::size_t> free_;  ///< offsets of returned scratch
  std::vector<std::vector<partial_result>> partials_;  ///< partial results by rank
  std::vector<access> accesses_;                       ///< accesses of the present piece
  /// accesses of the previous piece in each slot
  std::vector<std::vector<access>> slot_accesses_;
  std::uint32_t first_step_ = 0;
  std::vector<ancestry> ancestors_;  ///< ancestors of each step of the present piece
};

}  // namespace weir::collective
