// SPDX-License-Identifier: Apache-2.0
/// @file
/// Collectives as lists of steps: copies and reductions between buffers of ranks, and the
/// order of the steps.
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

/// Options of a plan.
struct plan_options {
  algorithm how = algorithm::direct;  ///< algorithm of the plan
  /// Size of a piece in bytes of one rank; 0: about one piece per worker and 64 KiB
  /// each for `direct`, and pieces of 64 KiB to 1 MiB that travel one behind the other
  /// for the others.
  std::size_t chunk_bytes = 0;
  /// Form to which numbers are rounded once per phase: before they are added, and sums
  /// before they are distributed. A form other than plain needs `direct`.
  wire_format wire = wire_format::plain;
};

/// Kinds of steps.
enum class step_kind : std::uint8_t {
  copy,      ///< from one place to one or more
  fold,      ///< adds (or multiplies, ...) sources into targets
  exchange,  ///< two places, each with the bytes of the other
  encode,    ///< elements to their wire format
  add_wire,  ///< adds what is in wire format
  decode,    ///< wire format to elements
  join,      ///< nothing: ranks meet
};
/// Returns the name of a kind of steps.
[[nodiscard]] std::string_view name_of(step_kind kind) noexcept;

/// Place of an operand of a step.
struct plan_operand {
  /// Buffers in which an operand can lie.
  enum class place : std::uint8_t { input, output, scratch };
  /// Forms of the elements of an operand.
  enum class form : std::uint8_t { element, node, wire };

  place buffer = place::input;  ///< buffer
  form as = form::element;      ///< form of the elements
  int rank = 0;                 ///< first rank of the buffers; for scratch, its user
  int ranks = 1;                ///< number of consecutive ranks with this operand
  std::uint32_t slot = 0;       ///< slot of the scratch memory
  std::size_t offset = 0;       ///< offset in the buffer or slot in bytes
};

/// One step, which one worker runs without waiting.
struct plan_step {
  step_kind kind = step_kind::join;  ///< kind of the step
  int rank = 0;                      ///< rank in whose queue it runs
  /// True if a fold makes results, and false if it makes partial results.
  bool finishes = true;
  std::uint32_t first_after = 0;    ///< first predecessor: collective_plan::after
  std::uint32_t after_count = 0;    ///< number of predecessors
  std::uint32_t first_operand = 0;  ///< first operand: sources, then targets
  std::uint32_t source_count = 0;   ///< number of sources
  std::uint32_t target_count = 0;   ///< number of targets
  std::size_t count = 0;            ///< elements of each operand
};

/// A collective of one group of ranks, ready to be run any number of times on any
/// buffers.
/// @threads{immutable}
class collective_plan {
 public:
  /// Returns the call.
  [[nodiscard]] const collective_call& call() const noexcept { return call_; }
  /// Returns the options.
  [[nodiscard]] const plan_options& options() const noexcept { return options_; }
  /// Returns the number of ranks.
  [[nodiscard]] int ranks() const noexcept { return ranks_; }
  /// Returns the steps in an order in which they may run one after another.
  [[nodiscard]] std::span<const plan_step> steps() const noexcept { return steps_; }
  /// Returns the indices of the steps that end before this one begins; all are smaller.
  [[nodiscard]] std::span<const std::uint32_t> after(const plan_step& s) const noexcept {
    return std::span(after_).subspan(s.first_after, s.after_count);
  }
  /// Returns the operands that a step reads.
  [[nodiscard]] std::span<const plan_operand> sources(const plan_step& s) const noexcept {
    return std::span(operands_).subspan(s.first_operand, s.source_count);
  }
  /// Returns the operands that a step writes.
  [[nodiscard]] std::span<const plan_operand> targets(const plan_step& s) const noexcept {
    return std::span(operands_).subspan(s.first_operand + s.source_count, s.target_count);
  }
  /// Returns the size of the scratch memory of one run, which is aligned to 64 bytes.
  /// @units{bytes}
  [[nodiscard]] std::size_t scratch_bytes() const noexcept {
    return slots_ * slot_bytes_;
  }
  /// Returns the number of bytes that a step reads and writes.
  [[nodiscard]] std::size_t traffic(const plan_step& s) const noexcept;
  /// Returns the size of an operand of a step in each of its ranks. @units{bytes}
  [[nodiscard]] std::size_t bytes(const plan_step& s,
                                  const plan_operand& o) const noexcept;
  /// Returns the size of a slot of the scratch memory. @units{bytes}
  [[nodiscard]] std::size_t slot_bytes() const noexcept { return slot_bytes_; }
  /// Returns the arithmetic of kinds that reduce, and nothing for other kinds.
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
/// @error{invalid_argument; the call is malformed, see check_call}
/// @error{unsupported; an operation, algorithm or wire format that the call does not
/// have, or a wire format with another algorithm than `direct`}
/// @error{out_of_memory; no memory for the list}
[[nodiscard]] result<collective_plan> plan_collective(const collective_call& call,
                                                      int ranks, const topology& shape,
                                                      const plan_options& options);

/// The memory of one run: an input and an output per rank, each of the size of the call.
/// The two may be the same buffer. Ranks that the call does not read or write may have
/// null.
struct collective_buffers {
  std::span<const std::byte* const> inputs;  ///< input of each rank
  std::span<std::byte* const> outputs;       ///< output of each rank
  std::byte* scratch = nullptr;              ///< `scratch_bytes()`, aligned to 64
  transport* via = nullptr;                  ///< null: ranks of one process
  /// True to add whole inputs from the end of each piece, whose bytes are more likely to
  /// be in the cache. Bits and the order of steps do not change.
  bool backwards = false;
};

/// Runs one step. Steps that wait for each other through `after` must not overlap in
/// time; all others may, on any threads.
/// @error{io; the transport did not deliver; its other errors are returned too}
result<void> run_step(const collective_plan& plan, std::size_t index,
                      const collective_buffers& buffers) noexcept;

}  // namespace weir::collective
