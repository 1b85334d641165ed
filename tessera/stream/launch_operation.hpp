// SPDX-License-Identifier: Apache-2.0
/// @file
/// A launch as an operation: what consecutive launches share, the arguments of one
/// launch, and its tasks. The header of launch_operation.cpp describes the tasks.
///
/// Launches are the most frequent operations. Everything that consecutive launches have
/// in common is therefore computed once and shared.
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

/// A pointer argument in symmetric memory. If it is the address on rank 0, each rank gets
/// the address of its own instance.
struct translated {
  std::size_t offset = 0;  ///< offset in the argument buffer in bytes
  memory_place place;
};

/// Properties that consecutive launches on equal terms share. Immutable once made.
struct launch_shape : counted {
  // not on the cache line of the count, which all launches write
  alignas(64) module_kernel kernel;
  std::shared_ptr<tessera::mesh> mesh;
  device_backend* backend = nullptr;
  /// The launch on each device chain, without arguments and descriptor.
  std::vector<grid_launch> grids;
  slice_plan slices;
  int rank = -1;  ///< rank of the stream; -1: it has all ranks of the mesh
  tessDeterminism determinism{};  ///< descriptor without launch number and digest

  /// Returns the launch on the first device chain; others differ in device and position
  /// only.
  [[nodiscard]] const grid_launch& grid() const noexcept { return grids.front(); }
};

/// Parts of a launch that are computed once for all runs of a graph.
struct prepared_launch {
  tessDeterminism determinism;
  std::vector<grid_launch> grids;  ///< the launch on each device chain, without arguments
};

/// Arguments of one launch, and of its runs in graphs.
struct launch_arguments : counted {
  std::vector<std::byte> bytes;
  std::vector<translated> pointers;
  /// Memory that the pointers reach, except memory of the device that a block runs on.
  std::vector<touched_memory> reached;
};

/// A launch of a kernel. The object is small, because its memory passes from the
/// launching thread to a worker and back.
class launch_operation : public operation {
 public:
  launch_operation(ref<launch_shape> shape, ref<launch_arguments> args,
                   std::uint64_t ordinal)
      : operation(operation_kind::launch),
        shape_(std::move(shape)),
        args_(std::move(args)),
        ordinal_(ordinal) {
    touches_more = args_ && !args_->reached.empty();
  }

  [[nodiscard]] std::string_view name() const noexcept override {
    return shape_->kernel.kernel->record.name;
  }
  void touched(unsigned chain, std::vector<touched_memory>& all) const override;
  [[nodiscard]] memory_need needs() const noexcept override;
  /// Returns the number of blocks of one device that run, and use shared memory, at a
  /// time.
  [[nodiscard]] virtual std::int64_t resident() const noexcept {
    return shape_->slices.slices;
  }
  [[nodiscard]] std::string details() const override;
  [[nodiscard]] std::uint32_t counted_launches() const noexcept override;
  void count_from(std::uint64_t stream, std::uint64_t& next) noexcept override;
  [[nodiscard]] ref<operation> clone() const override;
  [[nodiscard]] bool add_native_work(native_pieces& to) const override;
  [[nodiscard]] std::uint32_t tasks(unsigned devices) const override {
    const auto n = static_cast<std::uint32_t>(shape_->slices.slices);
    return devices * (n <= 1 ? 1 : n + 2);
  }
  void submit(submission& to) override;
  void step(device_chains& chains, unsigned chain, std::uint32_t index) noexcept override;

 protected:
  /// Values of the index of a task. Other values are numbers of slices.
  static constexpr std::uint32_t whole = 0xFFFFFFF0;
  static constexpr std::uint32_t opening = 0xFFFFFFF1;
  static constexpr std::uint32_t closing = 0xFFFFFFF2;

  /// Returns the launch on one device. Writes its arguments to `args`.
  [[nodiscard]] grid_launch placed(unsigned chain, std::byte* args,
                                   const tessDeterminism& of_numbers) const;
  /// Returns the numerics descriptor for its blocks.
  [[nodiscard]] tessDeterminism determinism() const noexcept;

  ref<launch_shape> shape_;
  ref<launch_arguments> args_;  ///< null: the kernel has no arguments

 private:
  /// Above the number of every slice: no slice has failed.
  static constexpr std::int64_t no_slice = INT64_MAX;

  /// A run in slices on one device. It keeps the failure of the lowest slice, so that the
  /// reported failure does not depend on timing.
  struct cut {
    std::int64_t started = 0;
    bool skip = false;
    std::atomic<std::int64_t> failed{no_slice};
    std::mutex mutex;
    std::optional<error> why;
  };

  /// Submits the tasks of one device chain, in slices or as a whole.
  void submit_on(submission& to, unsigned d, std::span<const runtime::access> accesses,
                 bool last);
  /// Returns members of a JSON object: each argument by name, as a hexadecimal number
  /// with the most significant byte first.
  [[nodiscard]] std::string listed_arguments() const;
  /// Returns the fraction of the workers that its blocks on one device can use, at most
  /// 1.
  [[nodiscard]] double occupancy() const;
  /// Runs one slice and keeps its failure.
  void run_slice(unsigned chain, std::uint32_t index) noexcept;
  /// Returns the launch of one device chain as work, which points to `keeps`.
  [[nodiscard]] grid_work work_of(unsigned chain,
                                  std::shared_ptr<const void>& keeps) const;
  /// Gives the launch of one device chain to a backend that does not work on this thread.
  result<void> give(device_step& to, unsigned chain) const;
  /// Runs blocks [first, last) of one device chain.
  [[nodiscard]] result<void> run(unsigned chain, std::int64_t first,
                                 std::int64_t last) const;

  std::uint64_t ordinal_;
  /// Number of the launch in its stream.
  std::unique_ptr<cut[]> cut_;  ///< slices of each device chain; null: a single slice
  std::unique_ptr<prepared_launch> prepared_;  ///< set for launches in a graph
};

/// A launch whose duration influences the choice of blocks for later launches.
class measured_launch final : public launch_operation {
 public:
  measured_launch(ref<launch_shape> shape, ref<launch_arguments> args,
                  std::uint64_t ordinal, block_trial trial, unsigned chains)
      : launch_operation(std::move(shape), std::move(args), ordinal),
        trial_(std::move(trial)),
        left_(chains) {}

  void step(device_chains& chains, unsigned chain, std::uint32_t index) noexcept override;

 private:
  block_trial trial_;
  /// Monotonic time at which the first device chain began, or 0 before. Nanoseconds.
  std::atomic<std::int64_t> began_{0};
  std::atomic<unsigned> left_;  ///< device chains that have not ended
  std::atomic<bool> failed_{
      false};  ///< a device chain had a failure: the time does not count
};

}  // namespace weir::tessera
