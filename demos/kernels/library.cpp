// SPDX-License-Identifier: Apache-2.0
/// @file
/// The function that every kernel library exports: it returns the table of the kernels.
#include "kernels.hpp"

namespace {

// Size of the parameter buffer: the arguments, rounded up to 8 bytes.
template <class Args>
constexpr std::uint32_t padded_bytes() {
  return (sizeof(Args) + 7) / 8 * 8;
}

// Kernels that are called for each block and those that are called for each thread have
// different types; the table stores both as one, and the flags tell which it is.
template <class Entry>
tessKernelEntry entry_of(const char* name, Entry* entry, std::uint32_t bytes,
                         std::uint32_t flags) {
  return {name, reinterpret_cast<void (*)()>(entry), bytes, flags};
}

constexpr std::uint32_t fixed_order = TESS_KERNEL_DETERMINISTIC;

}  // namespace

extern "C" __attribute__((visibility("default"))) const tessKernelLibrary*
tessera_kernel_library() {
  static const tessKernelEntry entries[] = {
      entry_of("flash_attention_fused", flash_attention_fused,
               padded_bytes<flash_attention_args>(), fixed_order),
      entry_of("matmul", matmul, padded_bytes<matmul_args>(), fixed_order),
      entry_of("softmax", softmax, padded_bytes<softmax_args>(), fixed_order),
      entry_of("layer_norm", layer_norm, padded_bytes<layer_norm_args>(), fixed_order),
      entry_of("saxpy", saxpy, padded_bytes<saxpy_args>(), fixed_order),
      entry_of("block_sum", block_sum, padded_bytes<block_sum_args>(),
               fixed_order | TESS_KERNEL_PER_THREAD | TESS_KERNEL_USES_BARRIER),
      entry_of("atomic_sum", atomic_sum, padded_bytes<atomic_sum_args>(), 0),
      entry_of(
          "persistent_heat", persistent_heat, padded_bytes<persistent_heat_args>(),
          fixed_order | TESS_KERNEL_PERSISTENT_ONLY | TESS_KERNEL_PERSISTENT_CAPABLE),
      entry_of("empty", empty, 0, fixed_order),
  };
  static const tessKernelLibrary library = {
      sizeof(tessKernelLibrary), 1,      0, sizeof(entries) / sizeof(entries[0]),
      sizeof(tessKernelEntry),   entries};
  return &library;
}
