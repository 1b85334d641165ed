// SPDX-License-Identifier: Apache-2.0
/// @file
/// The sources of the kernels for GPUs, compiled for the host, and their table.
#include "cpu_kernels/calls.hpp"

#include "demos/kernels/matmul.cu"
#include "demos/kernels/rows.cu"
#include "demos/kernels/vectors.cu"
#include "tessera/device/cuda/kernels/memory.cu"
#include "tessera/device/cuda/kernels/reductions.cu"

namespace weir::tessera::kernel_machine {

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
      caller<&::weir_reduce_tree>::made("weir_reduce_tree"),
      caller<&::weir_sum_exact>::made("weir_sum_exact"),
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
