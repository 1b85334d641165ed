// SPDX-License-Identifier: Apache-2.0
/// @file
/// Collectives over regions of a task engine.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "weir/collective/plan.hpp"
#include "weir/runtime/engine.hpp"

namespace weir::collective {

/// A collective whose inputs and outputs are tensors of one engine, one of each per rank.
///
/// `submit` adds the steps of the collective to the engine as tasks that read and write
/// exactly the bytes that the step touches. Nothing else orders them: a step waits for
/// the tasks that write its sources, and a task that reads an output waits for the steps
/// that write those bytes, as with any other tasks. Failures pass in the same way: if a
/// task that writes a part of an input fails, the steps that read this part are not run,
/// and the bytes that they would have written are poisoned on every rank.
///
/// The bits of the outputs depend on the call and the inputs alone, as for any plan of
/// the same call (see `plan_collective`). `submit` may be called any number of times,
/// also while a capture is recorded. A replay of that capture runs the collective again
/// on the same tensors.
/// @threads{thread-compatible: belongs to the engine's submitter}
class region_collective {
 public:
  /// Plans the collective. Rank r reads `inputs[r]` and writes `outputs[r]`; the same
  /// tensor in both places is a collective in place. Each tensor is row-major, has the
  /// type of the call, and has at least the elements that the table of `collective_call`
  /// says. Where the table says that a rank reads or writes nothing, the tensor is not
  /// looked at and may be empty.
  /// @error{invalid_argument, as check_call; numbers of inputs and outputs that differ; a
  ///        tensor of another type, not row-major or too short; an output that overlaps
  ///        another output, or overlaps an input other than in place}
  /// @error{unsupported, as plan_collective; a barrier, as there is nothing that it would
  ///        order}
  /// @error{out_of_memory, no memory for the plan or its scratch}
  [[nodiscard]] static result<region_collective> create(
      runtime::engine& e, const collective_call& call,
      std::span<const runtime::tensor> inputs, std::span<const runtime::tensor> outputs,
      const plan_options& how = {});

  /// Takes over the collective of `from`. After that, `from` may only be destroyed.
  region_collective(region_collective&& from) noexcept;
  /// Exchanges the two collectives.
  region_collective& operator=(region_collective&& from) noexcept;
  /// Waits for the tasks of the collective, those of replays included. A replay after
  /// this is refused. The engine must still exist.
  ~region_collective();

  /// Submits all steps. If the engine refuses, it refuses the first, and no step has been
  /// submitted.
  /// @error{not_found, the storage of a tensor has been released}
  /// @error{out_of_range, more accesses than a task may have}
  [[nodiscard]] result<void> submit();

  /// Tasks that one `submit` adds.
  [[nodiscard]] std::size_t tasks() const noexcept;

 private:
  struct state;
  explicit region_collective(std::unique_ptr<state> s) noexcept;
  std::unique_ptr<state> state_;
};

}  // namespace weir::collective
