// SPDX-License-Identifier: Apache-2.0
/// @file
/// Collectives as lists of steps: who reads what, who adds, who passes it on, and which
/// steps wait for which.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "weir/base/error.hpp"
#include "weir/collective/call.hpp"
#include "weir/collective/transport.hpp"

namespace weir::collective {

struct plan_options {
  algorithm how = algorithm::direct;
  /// Bytes of one rank's elements in one piece; 0: about one piece per worker and 64 KiB
  /// each for `direct`, and pieces of 64 KiB to 1 MiB that travel one behind the other
  /// for the others.
  std::size_t chunk_bytes = 0;
  /// Numbers are rounded to it once per phase: before they are added, and the sums before
  /// they are spread. Needs `direct`.
  wire_format wire = wire_format::plain;
};

enum class step_kind : std::uint8_t {
  copy,      ///< from one place to one or more
  fold,      ///< adds (or multiplies, ...) sources into targets
  exchange,  ///< two places, each with the bytes of the other
  encode,    ///< elements to their wire format
  add_wire,  ///< adds what is in wire format
  decode,    ///< wire format to elements
  join,      ///< nothing: ranks meet
};
[[nodiscard]] std::string_view name_of(step_kind what) noexcept;

/// Where an operand of a step lies.
struct plan_operand {
  enum class place : std::uint8_t { input, output, scratch };
  enum class form : std::uint8_t { element, node, wire };

  place where = place::input;
  form as = form::element;
  int rank = 0;            ///< the first rank whose buffer it is; of scratch: its user
  int ranks = 1;           ///< the same offset in so many consecutive ranks' buffers
  std::uint32_t slot = 0;  ///< of scratch
  std::size_t offset = 0;  ///< bytes from the buffer's or the slot's beginning
};

/// One thing to do, by one worker, without waiting.
struct plan_step {
  step_kind what = step_kind::join;
  int rank = 0;  ///< whose lane it belongs to
  /// A fold of whole inputs into results, not into a partial one.
  bool finishes = true;
  std::uint32_t first_after = 0;  ///< see collective_plan::after
  std::uint32_t after_count = 0;
  std::uint32_t first_operand = 0;  ///< sources, then targets
  std::uint32_t source_count = 0;
  std::uint32_t target_count = 0;
  std::size_t count = 0;  ///< elements of each operand
};

/// A collective of one group of ranks, ready to be run any number of times on any
/// buffers.
/// @threads{immutable}
class collective_plan {
 public:
  [[nodiscard]] const collective_call& call() const noexcept { return call_; }
  [[nodiscard]] const plan_options& options() const noexcept { return options_; }
  [[nodiscard]] int ranks() const noexcept { return ranks_; }
  /// In an order in which they may be run one after another.
  [[nodiscard]] std::span<const plan_step> steps() const noexcept { return steps_; }
  /// Indices of the steps that have to end before this one begins; all are smaller.
  [[nodiscard]] std::span<const std::uint32_t> after(const plan_step& s) const noexcept {
    return std::span(after_).subspan(s.first_after, s.after_count);
  }
  [[nodiscard]] std::span<const plan_operand> sources(const plan_step& s) const noexcept {
    return std::span(operands_).subspan(s.first_operand, s.source_count);
  }
  [[nodiscard]] std::span<const plan_operand> targets(const plan_step& s) const noexcept {
    return std::span(operands_).subspan(s.first_operand + s.source_count, s.target_count);
  }
  /// Bytes that one run needs beside the ranks' buffers, aligned to 64.
  [[nodiscard]] std::size_t scratch_bytes() const noexcept {
    return slots_ * slot_bytes_;
  }
  /// Bytes that a step reads and writes together.
  [[nodiscard]] std::size_t traffic(const plan_step& s) const noexcept;
  /// Bytes of an operand of a step, in each of its ranks.
  [[nodiscard]] std::size_t bytes(const plan_step& s,
                                  const plan_operand& o) const noexcept;
  [[nodiscard]] std::size_t slot_bytes() const noexcept { return slot_bytes_; }
  /// The arithmetic, for kinds that reduce.
  [[nodiscard]] const std::optional<reducer>& arithmetic() const noexcept {
    return arithmetic_;
  }

 private:
  friend class plan_builder;
  collective_plan() = default;

  collective_call call_;
  plan_options options_;
  int ranks_ = 1;
  std::optional<reducer> arithmetic_;
  std::vector<plan_step> steps_;
  std::vector<std::uint32_t> after_;
  std::vector<plan_operand> operands_;
  std::size_t slots_ = 0;
  std::size_t slot_bytes_ = 0;
};

/// Plans a collective over `ranks` ranks. For the same call at level 1 or 2 every
/// algorithm, topology and chunk size gives the same bits.
///
/// A group of one rank copies its input to its output and rounds nothing.
/// @error{as check_call and check_wire}
/// @error{unsupported, an algorithm that the call does not have, see `is_legal`, or a
/// wire format with another algorithm than `direct`}
/// @error{out_of_memory, no room for the list}
[[nodiscard]] result<collective_plan> plan_collective(const collective_call& call,
                                                      int ranks, const topology& shape,
                                                      const plan_options& options);

/// The memory of one run: an input and an output per rank, each of the size that the call
/// says; in place where they are equal. Ranks that the call does not read or write may
/// have null.
struct collective_buffers {
  std::span<const std::byte* const> inputs;
  std::span<std::byte* const> outputs;
  std::byte* scratch = nullptr;  ///< `scratch_bytes()`, aligned to 64
  transport* via = nullptr;      ///< null: ranks of one process
  /// Sums of whole inputs begin at the end of each piece, where that may help: bits and
  /// the order of steps are the same.
  bool backwards = false;
};

/// Runs one step. Steps that wait for each other through `after` must not overlap in
/// time; all others may, on any threads.
/// @error{as transport::move; io and others of its own}
result<void> run_step(const collective_plan& plan, std::size_t index,
                      const collective_buffers& buffers) noexcept;

}  // namespace weir::collective
