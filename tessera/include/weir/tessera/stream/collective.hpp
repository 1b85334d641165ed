// SPDX-License-Identifier: Apache-2.0
/// @file
/// Collectives in streams: of all ranks at once, or of one rank that meets the others.
#pragma once

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

struct collective_request {
  collective::collective_call call;  ///< its level is set by the policy
  collective::axis_set axes = collective::whole_mesh;
  const void* input = nullptr;
  void* output = nullptr;  ///< the same as `input`: in place
  std::optional<collective::algorithm> how;
  std::size_t chunk_bytes = 0;
  collective::wire_format wire = collective::wire_format::plain;
  /// Of one rank's share; see arrival::patience_ns.
  std::int64_t patience_ns = 0;
  bool in_graph = false;  ///< to be put into a graph, whose schedules are not measured
};

/// Null where there is nothing to do.
/// @error{invalid_argument, as check_call, or buffers that are not memory of the mesh or
/// too short; unsupported, as check_call; determinism_violation, a wire format that the
/// policy forbids}
[[nodiscard]] result<ref<operation>> make_collective(stream& on,
                                                     const collective_request& what);

/// Calls that are to begin together.
struct grouped_call {
  std::shared_ptr<stream> on;
  collective_request what;
};
/// Makes all of them, and if all can be made, puts them into their streams at once: no
/// other thread's operation comes between those of one context. On mesh streams in the
/// order of the list; those on the stream of one rank wait for their peers together, and
/// may run in any order.
/// If one of them fails, none is enqueued. @error{invalid_argument; see make_collective}
/// @error{unsupported; see make_collective} @error{determinism_violation; see
/// make_collective}
[[nodiscard]] result<void> enqueue_group(std::span<const grouped_call> calls);

/// The buffers and lanes of one group of ranks.
struct collective_group {
  room_list<int> ranks;  ///< in the mesh
  /// What the buffers lie in: it stays while there is work on it.
  room_list<allocation_ptr> memory;
  room_list<const std::byte*> inputs;
  room_list<std::byte*> outputs;
  room_list<lane*> lanes;              ///< set when it is submitted
  std::vector<std::uint64_t> streams;  ///< numbers of the ranks' own, if each has one
  std::int64_t started = 0;
  std::unique_ptr<std::byte[]> scratch;
  std::vector<std::byte> before;  ///< inputs, where the result is verified
  bool skip = false;
  bool backwards = false;  ///< each begins where the one before it in the stream ended
  failure broken;          ///< of a step; under the operation's mutex
};

/// A planned collective over one or several groups.
class collective_operation final : public operation {
 public:
  collective_operation(std::shared_ptr<const collective::collective_plan> plan,
                       collective::collective_choice how,
                       room_list<collective_group> groups, std::size_t scratch_limit);

  void submit(submission& to) override;
  /// For groups whose lanes are set already.
  void submit_groups(submission& to);
  void step(lane_set& lanes, unsigned group, std::uint32_t index) noexcept override;
  [[nodiscard]] std::uint32_t tasks(unsigned devices) const override;
  [[nodiscard]] std::string_view name() const noexcept override;
  [[nodiscard]] std::uint64_t bytes() const noexcept override;
  [[nodiscard]] memory_need needs() const noexcept override;
  [[nodiscard]] std::string details() const override;
  [[nodiscard]] std::uint64_t stream_of(unsigned lane) const noexcept override;
  [[nodiscard]] double bus_factor() const noexcept override;
  [[nodiscard]] ref<operation> clone() const override;
  /// Once it has run, `plan` runs on the same inputs, and its bits must be the same.
  void verify_by(std::shared_ptr<const collective::collective_plan> plan) {
    verify_ = std::move(plan);
  }
  /// `by` hears how long this trial took, if it succeeds.
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

  std::shared_ptr<const collective::collective_plan> plan_;
  collective::collective_choice how_;
  room_list<collective_group> groups_;
  std::size_t scratch_limit_;
  std::shared_ptr<const collective::collective_plan> verify_;
  std::optional<collective::tuning_trial> trial_;
  context* measured_by_ = nullptr;  ///< if it is a trial
  std::mutex mutex_;
};

}  // namespace weir::tessera
