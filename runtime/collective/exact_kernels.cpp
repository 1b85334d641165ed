// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sums and averages of bf16, fp32, fp64 and complex numbers that are rounded once.
/// Complex numbers are added by their components.
#pragma GCC diagnostic ignored "-Wpsabi"
#include "collective/kernels/vector_exact.hpp"

namespace weir::collective {
namespace {

template <class S>
std::size_t exact_portable(const std::byte* const* inputs, std::size_t ranks,
                           std::byte* const* outputs, std::size_t output_count,
                           std::size_t count, std::uint32_t divisor) {
  vector_exact<S, false>::run(inputs, ranks, outputs, output_count, count, divisor);
  return count;
}
template <class S>
WEIR_AVX2 std::size_t exact_avx2(const std::byte* const* inputs, std::size_t ranks,
                                 std::byte* const* outputs, std::size_t output_count,
                                 std::size_t count, std::uint32_t divisor) {
  vector_exact<S, true>::run(inputs, ranks, outputs, output_count, count, divisor);
  return count;
}

/// Exact sums have no partial results, so all functions except the whole reduction are
/// null.
template <class S>
const reduction_kernels* of_exact(instructions set) noexcept {
  static constexpr reduction_kernels portable = {
      sizeof(S), sizeof(S), nullptr, nullptr, nullptr, nullptr, exact_portable<S>};
  static constexpr reduction_kernels avx2 = {sizeof(S), sizeof(S), nullptr,      nullptr,
                                             nullptr,   nullptr,   exact_avx2<S>};
  return set == instructions::avx2 ? &avx2 : &portable;
}

}  // namespace

const reduction_kernels* exact_kernels(const reduction& operation,
                                       instructions set) noexcept {
  switch (operation.type) {
    case dtype::bf16: return of_exact<bfloat_bits>(set);
    case dtype::fp32:
    case dtype::complex64: return of_exact<float>(set);
    case dtype::fp64:
    case dtype::complex128: return of_exact<double>(set);
    default: return nullptr;
  }
}

}  // namespace weir::collective
