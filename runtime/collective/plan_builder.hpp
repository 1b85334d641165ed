// SPDX-License-Identifier: Apache-2.0
/// @file
/// Makes the steps of a plan: works out which have to wait for which, hands out scratch,
/// and carries partial results from rank to rank.
#pragma once

#include <cstdint>
#include <vector>

#include "weir/collective/plan.hpp"

namespace weir::collective {

/// Elements of the buffers that are reduced or moved on their own. No two pieces of a
/// plan share a byte of a rank's buffer.
struct plan_piece {
  std::size_t first = 0;  ///< in the input
  std::size_t count = 0;
  int owner = 0;
  std::size_t out_first = 0;  ///< in the output
};

/// Values of some ranks, added already if they are more than one. Where the order counts
/// they are all of [first, last).
struct partial_result {
  int first = 0;
  int last = 0;
  int ranks = 0;
  plan_operand at;
};

class plan_builder {
 public:
  plan_builder(const collective_call& call, int ranks, const topology& shape,
               const plan_options& options, std::optional<reducer> arithmetic);

  [[nodiscard]] int ranks() const noexcept { return plan_.ranks_; }
  [[nodiscard]] bool shares_memory() const noexcept { return shape_.shared_memory; }
  [[nodiscard]] const topology& shape() const noexcept { return shape_; }
  [[nodiscard]] const collective_call& call() const noexcept { return plan_.call_; }
  [[nodiscard]] const plan_options& options() const noexcept { return plan_.options_; }

  /// Pieces that can be on their way at the same time; scratch is used again after that.
  void set_window(std::size_t pieces) noexcept { window_ = pieces; }
  void begin(const plan_piece& piece);
  void end();

  [[nodiscard]] std::size_t piece_count() const noexcept { return piece_.count; }
  [[nodiscard]] plan_operand input(int rank) const noexcept;
  [[nodiscard]] plan_operand output(int rank) const noexcept;
  /// The piece in every rank's output.
  [[nodiscard]] plan_operand outputs() const noexcept;
  /// Fresh scratch for the piece, or for `count` elements of it.
  plan_operand scratch(int rank, plan_operand::form as);
  plan_operand scratch(int rank, plan_operand::form as, std::size_t count);

  /// Adds a step and finds out what it waits for.
  void step(step_kind what, int lane, std::span<const plan_operand> sources,
            std::span<const plan_operand> targets, std::size_t count,
            bool finishes = true);
  /// Copies the piece from one rank's output to another's.
  void pass_on(int from, int to);

  /// Every rank holds its own input.
  void hold_inputs();
  /// Sends the partial results of rank `from` to rank `to`, which adds as many of them as
  /// the order of the sum allows.
  void hop(int from, int to);
  /// Adds what `rank` holds, which is all there is, into the output of `target`.
  void deliver(int rank, int target);

  [[nodiscard]] collective_plan take() noexcept;

 private:
  using operand_list = std::span<const plan_operand>;
  struct access {
    plan_operand at;
    std::size_t bytes;
    std::uint32_t step;
    bool writes;
  };
  /// The steps that a step of this piece waits for, directly and by way of others: one
  /// bit for each step.
  using ancestry = std::vector<std::uint64_t>;

  void note_accesses(const plan_step& s, operand_list list, bool writes,
                     std::vector<std::uint32_t>& waits);
  void keep_direct(std::vector<std::uint32_t>& waits);
  [[nodiscard]] bool may_join(const partial_result& a, const partial_result& b) const;
  bool join_one_pair(int rank, std::vector<partial_result>& held);
  partial_result join(int rank, const partial_result& a, const partial_result& b);
  partial_result brought(int rank, const partial_result& from);
  void give_back(const plan_operand& at);

  collective_plan plan_;
  topology shape_;
  std::size_t element_bytes_;
  std::size_t window_ = 4;
  std::size_t piece_number_ = 0;
  plan_piece piece_;
  std::size_t unit_ = 0;  ///< bytes of scratch for one operand of the piece
  std::size_t used_ = 0;  ///< of the piece's slot
  std::vector<std::size_t> free_;
  std::vector<std::vector<partial_result>> held_;
  std::vector<access> accesses_;
  std::vector<std::vector<access>> slot_accesses_;  ///< by who had the slot before
  std::uint32_t first_step_ = 0;
  std::vector<ancestry> ancestors_;
};

}  // namespace weir::collective
