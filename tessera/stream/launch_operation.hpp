// SPDX-License-Identifier: Apache-2.0
/// @file
/// A launch as an operation: arguments for each device, blocks in slices.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "stream/block_tuner.hpp"
#include "weir/tessera/stream/work.hpp"

namespace weir::tessera {

/// A pointer argument that names an allocation of devices. If it is the address of rank
/// 0, each rank gets the address of its own instance.
struct translated {
  std::size_t offset = 0;  ///< in the buffer
  memory_place place;
};

/// What launches on the same terms in a row share, as long as one of them lives.
struct launch_shape : counted {
  alignas(64) module_kernel kernel;  // apart from the count, which workers change
  std::shared_ptr<tessera::mesh> mesh;
  device_backend* backend = nullptr;
  std::vector<grid_launch> grids;  ///< by lane; but for arguments and descriptor
  slice_plan slices;
  int rank = -1;           ///< of the stream; -1: its lanes are those of the mesh
  tessDeterminism told{};  ///< but for number and digest

  /// What all lanes have in common.
  [[nodiscard]] const grid_launch& grid() const noexcept { return grids.front(); }
};

/// What a launch in a graph has ready, as it runs often.
struct prepared_launch {
  tessDeterminism told;
  std::vector<grid_launch> grids;  ///< by lane; but for arguments
};

/// Arguments of one launch, and of its runs in graphs.
struct launch_arguments : counted {
  std::vector<std::byte> bytes;
  std::vector<translated> pointers;
  /// What the pointers reach besides memory of the device that a block runs on.
  std::vector<touched_memory> reached;
};

/// Small: its memory goes from the thread that launches to the worker and back.
class launch_operation : public operation {
 public:
  launch_operation(ref<launch_shape> shape, ref<launch_arguments> args,
                   std::uint64_t ordinal)
      : operation(kind::launch),
        shape_(std::move(shape)),
        args_(std::move(args)),
        ordinal_(ordinal) {
    touches_more = args_ && !args_->reached.empty();
  }

  [[nodiscard]] std::string_view name() const noexcept override {
    return shape_->kernel.kernel->record.name;
  }
  void touched(unsigned lane, std::vector<touched_memory>& all) const override;
  [[nodiscard]] memory_need needs() const noexcept override;
  /// Blocks of one device that are at work, and have shared memory, at a time.
  [[nodiscard]] virtual std::int64_t resident() const noexcept {
    return shape_->slices.slices;
  }
  [[nodiscard]] std::string details() const override;
  [[nodiscard]] std::uint32_t counted_launches() const noexcept override;
  void count_from(std::uint64_t stream, std::uint64_t& next) noexcept override;
  [[nodiscard]] ref<operation> clone() const override;
  [[nodiscard]] std::uint32_t tasks(unsigned devices) const override {
    const auto n = static_cast<std::uint32_t>(shape_->slices.slices);
    return devices * (n <= 1 ? 1 : n + 2);
  }
  void submit(submission& to) override;
  void step(lane_set& lanes, unsigned lane, std::uint32_t index) noexcept override;

 protected:
  // Steps; others are numbers of slices.
  static constexpr std::uint32_t whole = 0xFFFFFFF0;
  static constexpr std::uint32_t opening = 0xFFFFFFF1;
  static constexpr std::uint32_t closing = 0xFFFFFFF2;

  /// The launch on one device; `args` gets its arguments.
  [[nodiscard]] grid_launch placed(unsigned lane, std::byte* args,
                                   const tessDeterminism& of_numbers) const;
  /// What its blocks are told of numbers.
  [[nodiscard]] tessDeterminism told() const noexcept;

  ref<launch_shape> shape_;
  ref<launch_arguments> args_;  ///< null: the kernel takes none

 private:
  static constexpr std::int64_t no_slice = INT64_MAX;

  /// A run in slices on one device, and the failure of the lowest of them, so that timing
  /// does not show.
  struct cut {
    std::int64_t started = 0;
    bool skip = false;
    std::atomic<std::int64_t> failed{no_slice};
    std::mutex mutex;
    std::optional<error> why;
  };

  void submit_on(submission& to, unsigned d, std::span<const runtime::access> held,
                 bool last);
  /// Members of a JSON object: each argument by name, its bytes as a hexadecimal number,
  /// the most significant first.
  [[nodiscard]] std::string listed_arguments() const;
  /// Part of the workers that its blocks on one device can keep busy.
  [[nodiscard]] double occupancy() const;
  void run_slice(unsigned lane, std::uint32_t index) noexcept;
  [[nodiscard]] result<void> run(unsigned lane, std::int64_t first,
                                 std::int64_t last) const;

  std::uint64_t ordinal_;
  std::unique_ptr<cut[]> cut_;                 ///< by lane, if it is cut into slices
  std::unique_ptr<prepared_launch> prepared_;  ///< in a graph
};

/// Whose time counts for the choice of later blocks.
class measured_launch final : public launch_operation {
 public:
  measured_launch(ref<launch_shape> shape, ref<launch_arguments> args,
                  std::uint64_t ordinal, block_trial trial, unsigned lanes)
      : launch_operation(std::move(shape), std::move(args), ordinal),
        trial_(std::move(trial)),
        left_(lanes) {}

  void step(lane_set& lanes, unsigned lane, std::uint32_t index) noexcept override;

 private:
  block_trial trial_;
  std::atomic<std::int64_t> began_{0};
  std::atomic<unsigned> left_;
  std::atomic<bool> failed_{false};
};

}  // namespace weir::tessera
