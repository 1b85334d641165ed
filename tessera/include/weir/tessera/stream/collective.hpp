// SPDX-License-Identifier: Apache-2.0
/// @file
/// Collectives in streams: all ranks at once, or the share of one rank that meets the
/// others.
/// @threads{the functions are safe from any thread; operations belong to their stream}
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weir/collective/choice.hpp"
#include "weir/collective/plan.hpp"
#include "weir/tessera/stream/operation.hpp"
#include "weir/tessera/stream/stream.hpp"

namespace weir::tessera {

/// Request for a collective.
struct collective_request {
  /// Kind, type, count and root; the policy sets its level.
  collective::collective_call call;
  /// Axes of the mesh along which ranks take part.
  collective::axis_set axes = collective::whole_mesh;
  /// Address of the input on rank 0 of the mesh, or on the stream's rank.
  const void* input = nullptr;
  void* output = nullptr;  ///< address of the output; equal to `input`: in place
  std::optional<collective::algorithm> how;  ///< algorithm; unset: chosen
  std::size_t chunk_bytes = 0;               ///< size of a chunk in bytes; 0: chosen
  /// Number format between ranks.
  collective::wire_format wire = collective::wire_format::plain;
  /// Limit of the wait of one rank's share for the others. See arrival::patience_ns.
  std::int64_t patience_ns = 0;
  bool in_graph = false;  ///< true: it replaces a node of a graph, so it is not measured
};

/// Makes a collective. Returns null if there is nothing to do.
/// @error{invalid_argument; see check_call; or buffers that are not memory of the mesh or
/// are too short}
/// @error{unsupported; see check_call}
/// @error{determinism_violation; a wire format that the policy forbids}
[[nodiscard]] result<ref<operation>> make_collective(stream& target,
                                                     const collective_request& request);

/// One call of a group of collectives that begin together.
struct grouped_call {
  std::shared_ptr<stream> target;  ///< the stream
  collective_request request;      ///< the collective
};
/// Makes all collectives and, if all can be made, enqueues them at once.
/// No operation of another thread comes between those of one context. Collectives on mesh
/// streams run in the order of the list. Those on the stream of one rank wait for their
/// peers together and may run in any order. If one cannot be made, none is enqueued.
/// @error{invalid_argument; see make_collective; or a stream in a capture of another
/// thread}
/// @error{unsupported; see make_collective}
/// @error{determinism_violation; see make_collective}
[[nodiscard]] result<void> enqueue_group(std::span<const grouped_call> calls);

/// Copies of the buffers of a group on the host, while a collective runs.
struct host_copies {
  std::unique_ptr<std::byte[]> bytes;    ///< all copies
  pooled_list<const std::byte*> inputs;  ///< copy of the input of each rank
  pooled_list<std::byte*> outputs;       ///< copy of the output of each rank
};

/// The buffers and device chains of one group of ranks.
struct collective_group {
  pooled_list<int> ranks;  ///< the ranks, as positions in the mesh
  /// Allocations of the buffers, which are held while operations use them.
  pooled_list<allocation_ptr> memory;
  pooled_list<const std::byte*> inputs;  ///< input of each rank
  pooled_list<std::byte*> outputs;       ///< output of each rank
  pooled_list<device_chain*> chains;     ///< device chain of each rank, set at submission
  /// Backend that copies the buffers to and from the host, where the ranks meet; null if
  /// the host may use the buffers as they are.
  device_backend* copies_by = nullptr;
  pooled_list<std::int32_t> devices;  ///< device of each rank, if buffers are copied
  /// Runs the collective on the devices instead of the host; null: the host runs it.
  group_collectives* by_devices = nullptr;
  std::shared_ptr<context> owner;  ///< the context, if devices run or copy
  /// Number of each rank's own stream; empty if ranks have none.
  std::vector<std::uint64_t> streams;
  std::int64_t started = 0;              ///< monotonic time of the start in nanoseconds
  std::unique_ptr<std::byte[]> scratch;  ///< scratch memory, while the collective runs
  std::unique_ptr<host_copies> on_host;  ///< copies of the buffers, while it runs
  std::vector<std::byte> before;  ///< copy of the inputs, if the result is verified
  bool skip = false;              ///< true: an input has failed, so the steps do nothing
  /// True: pieces are processed from last to first, to begin where the last collective
  /// ended.
  bool backwards = false;
  failure broken;  ///< failure of a step; guarded by the operation's mutex

  /// Returns the inputs that the steps read.
  [[nodiscard]] const pooled_list<const std::byte*>& inputs_here() const noexcept {
    return on_host != nullptr ? on_host->inputs : inputs;
  }
  /// Returns the outputs that the steps write.
  [[nodiscard]] const pooled_list<std::byte*>& outputs_here() const noexcept {
    return on_host != nullptr ? on_host->outputs : outputs;
  }
};

/// A planned collective over one or several groups.
class collective_operation final : public operation {
 public:
  /// Makes a collective of this plan. `how` says why the plan was chosen. Running it
  /// fails with out_of_memory if it needs more than `scratch_limit` bytes of scratch.
  collective_operation(std::shared_ptr<const collective::collective_plan> plan,
                       collective::collective_choice how,
                       pooled_list<collective_group> groups, std::size_t scratch_limit);

  /// Submits all groups. Sets the device chains of groups that have none.
  void submit(submission& to) override;
  /// Submits the groups, whose device chains are set.
  void submit_groups(submission& to);
  /// Runs one step of the plan for one group, or its beginning or end.
  void step(device_chains& chains, unsigned group, std::uint32_t index) noexcept override;
  [[nodiscard]] std::uint32_t tasks(unsigned devices) const override;
  /// Returns the name of the kind of collective, such as "all_reduce".
  [[nodiscard]] std::string_view name() const noexcept override;
  /// Returns the size of one rank's buffer. @units{bytes}
  [[nodiscard]] std::uint64_t bytes() const noexcept override;
  /// Returns the scratch memory of the plan.
  [[nodiscard]] memory_need needs() const noexcept override;
  [[nodiscard]] std::string details() const override;
  [[nodiscard]] std::uint64_t stream_of(unsigned chain) const noexcept override;
  [[nodiscard]] double bus_factor() const noexcept override;
  [[nodiscard]] ref<operation> clone() const override;
  /// Runs `plan` on the same inputs afterwards and fails unless the bits are equal.
  void verify_by(std::shared_ptr<const collective::collective_plan> plan) {
    verify_ = std::move(plan);
  }
  /// Reports the time of this run to `by` if it succeeds.
  void measure(const collective::tuning_trial& trial, context& by) {
    trial_ = trial;
    measured_by_ = &by;
  }

 private:
  static constexpr std::uint32_t whole = 0xFFFFFFF0;
  static constexpr std::uint32_t opening = 0xFFFFFFF1;
  static constexpr std::uint32_t closing = 0xFFFFFFF2;

  void open(collective_group& g) noexcept;
  [[nodiscard]] result<void> prepare(collective_group& g);
  void close(collective_group& g);
  void keep_inputs(collective_group& g);
  [[nodiscard]] result<void> verify(collective_group& g) const;
  [[nodiscard]] result<void> run_step_of(collective_group& g, std::uint32_t index);
  void fetch(collective_group& g) noexcept;
  void write_back(collective_group& g) noexcept;
  void break_group(collective_group& g, error why);
  void run_on_devices(collective_group& g) noexcept;
  [[nodiscard]] bool runs_on_devices() const noexcept {
    // All groups go one way, because a collective has one number of steps.
    return std::all_of(groups_.begin(), groups_.end(),
                       [](const collective_group& g) { return g.by_devices != nullptr; });
  }
  [[nodiscard]] bool copies() const noexcept {
    return groups_.front().copies_by != nullptr && !runs_on_devices();
  }

  std::shared_ptr<const collective::collective_plan> plan_;
  collective::collective_choice how_;
  pooled_list<collective_group> groups_;
  std::size_t scratch_limit_;
  std::shared_ptr<const collective::collective_plan> verify_;
  std::optional<collective::tuning_trial> trial_;
  context* measured_by_ = nullptr;  ///< if it is a trial
  std::mutex mutex_;
};

}  // namespace weir::tessera
