// SPDX-License-Identifier: Apache-2.0
/// @file
/// The sources of the kernels for GPUs, compiled for the host, and their table.
#include <array>

#include "cpu_kernels/calls.hpp"
#include "demos/kernels/matmul.cu"
#include "demos/kernels/rows.cu"
#include "demos/kernels/vectors.cu"
#include "tessera/device/cuda/kernels/memory.cu"
#include "tessera/device/cuda/kernels/reductions.cu"

namespace weir::tessera::kernel_machine {
namespace {

// Collectives reduce parts of one allocation at the same time.
std::vector<stand_in::touched_range> touched_by_reduction(const void* const* arguments) {
  constexpr std::array<std::size_t, 14> element_bytes = {4, 1, 1, 2, 2, 4, 8,
                                                         1, 2, 4, 8, 1, 8, 16};
  const auto* const inputs = value_at<const std::uint64_t*>(arguments[0]);
  const auto ranks = static_cast<std::size_t>(value_at<std::int32_t>(arguments[1]));
  const auto count = static_cast<std::size_t>(value_at<std::int64_t>(arguments[3]));
  const auto type = static_cast<std::size_t>(value_at<std::int32_t>(arguments[4]));
  const std::size_t bytes = count * element_bytes.at(type);
  std::vector<stand_in::touched_range> ranges = {
      {value_at<std::uintptr_t>(arguments[2]), bytes, true},
      {reinterpret_cast<std::uintptr_t>(inputs), ranks * sizeof *inputs, false}};
  for (std::size_t r = 0; r < ranks; ++r) {
    ranges.push_back({inputs[r], bytes, false});
  }
  return ranges;
}

kernel_entry reduction(kernel_entry made) {
  made.touched = &touched_by_reduction;
  return made;
}

}  // namespace

std::span<const kernel_entry> all_kernels() {
  static const std::vector<kernel_entry> entries = {
      caller<&::saxpy>::made("saxpy"),
      caller<&::block_sum>::made("block_sum"),
      caller<&::atomic_sum>::made("atomic_sum"),
      caller<&::persistent_heat>::made("persistent_heat"),
      caller<&::empty>::made("empty"),
      caller<&::matmul>::made("matmul"),
      caller<&::softmax>::made("softmax"),
      caller<&::layer_norm>::made("layer_norm"),
      caller<&::flash_attention_fused>::made("flash_attention_fused"),
      caller<&::weir_fill>::made("weir_fill"),
      caller<&::weir_strided_copy>::made("weir_strided_copy"),
      reduction(caller<&::weir_reduce_tree>::made("weir_reduce_tree")),
      reduction(caller<&::weir_sum_exact>::made("weir_sum_exact")),
  };
  return entries;
}

const kernel_entry* find_kernel(std::string_view name) {
  for (const kernel_entry& entry : all_kernels()) {
    if (entry.name == name) {
      return &entry;
    }
  }
  return nullptr;
}

}  // namespace weir::tessera::kernel_machine
