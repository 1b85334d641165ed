// SPDX-License-Identifier: Apache-2.0
/// @file
/// The loops of `reduction_kernels`. They are written once and compiled for each
/// instruction set, with the attribute `target` instead of separate files, so that the
/// portable build needs no special flags.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collective/kernels/elements.hpp"
#include "collective/kernels/reduction_kernels.hpp"

#if defined(__x86_64__)
#define WEIR_HAS_AVX2 1
#define WEIR_AVX2 [[gnu::target("avx2")]]
#else
#define WEIR_HAS_AVX2 0
#define WEIR_AVX2
#endif

namespace weir::collective {

/// An element at an address of any alignment.
template <class T>
struct [[gnu::packed, gnu::may_alias]] unaligned_value {
  T value;
};
/// A node at an aligned address, in memory without a type of its own.
template <class T>
struct [[gnu::may_alias]] aligned_value {
  T value;
};

/// The loops for elements S, nodes N and an operation. Each is a type with a function, so
/// that `run_avx2` can inline it.
template <class S, class N, class Op>
struct tile_loops {
  /// Elements to nodes.
  struct widen {
    WEIR_INLINE static void run(const std::byte* from, std::byte* to,
                                std::size_t count) noexcept {
      const auto* const __restrict x = reinterpret_cast<const unaligned_value<S>*>(from);
      auto* const __restrict y = reinterpret_cast<aligned_value<N>*>(to);
      for (std::size_t i = 0; i < count; ++i) {
        y[i].value = widened<N>(S(x[i].value));
      }
    }
  };
  /// Two lists of elements to nodes.
  struct pair {
    WEIR_INLINE static void run(const std::byte* left, const std::byte* right,
                                std::byte* to, std::size_t count) noexcept {
      const auto* const __restrict a = reinterpret_cast<const unaligned_value<S>*>(left);
      const auto* const __restrict b = reinterpret_cast<const unaligned_value<S>*>(right);
      auto* const __restrict y = reinterpret_cast<aligned_value<N>*>(to);
      for (std::size_t i = 0; i < count; ++i) {
        y[i].value =
            Op::template apply<N>(widened<N>(S(a[i].value)), widened<N>(S(b[i].value)));
      }
    }
  };
  /// Two lists of nodes to nodes.
  struct join {
    WEIR_INLINE static void run(const std::byte* left, const std::byte* right,
                                std::byte* to, std::size_t count) noexcept {
      const auto* const __restrict b = reinterpret_cast<const aligned_value<N>*>(right);
      auto* const __restrict y = reinterpret_cast<aligned_value<N>*>(to);
      if (left == to) {  // a separate loop: __restrict would be wrong for equal addresses
        for (std::size_t i = 0; i < count; ++i) {
          y[i].value = Op::template apply<N>(y[i].value, b[i].value);
        }
        return;
      }
      const auto* const __restrict a = reinterpret_cast<const aligned_value<N>*>(left);
      for (std::size_t i = 0; i < count; ++i) {
        y[i].value = Op::template apply<N>(a[i].value, b[i].value);
      }
    }
  };
  /// Nodes to elements. The test of the divisor is outside of the loops.
  struct finish {
    WEIR_INLINE static void run(const std::byte* from, std::byte* to, std::size_t count,
                                std::uint32_t divisor) noexcept {
      const auto* const __restrict x = reinterpret_cast<const aligned_value<N>*>(from);
      auto* const __restrict y = reinterpret_cast<unaligned_value<S>*>(to);
      if (divisor > 1) {
        for (std::size_t i = 0; i < count; ++i) {
          y[i].value = finished<S>(x[i].value, divisor);
        }
      } else {
        for (std::size_t i = 0; i < count; ++i) {
          y[i].value = finished<S>(x[i].value, 0);
        }
      }
    }
  };
};

/// Compile a loop for the common instruction set, or for AVX2.
template <class Body, class... Args>
void run_portable(Args... args) {
  Body::run(args...);
}
template <class Body, class... Args>
WEIR_AVX2 void run_avx2(Args... args) {
  Body::run(args...);
}

/// The tables of loops for both instruction sets.
template <class S, class N, class Op>
struct tile_tables {
  using loops = tile_loops<S, N, Op>;
  static constexpr reduction_kernels portable = {sizeof(S),
                                                 sizeof(N),
                                                 run_portable<typename loops::widen>,
                                                 run_portable<typename loops::pair>,
                                                 run_portable<typename loops::join>,
                                                 run_portable<typename loops::finish>,
                                                 nullptr};
  static constexpr reduction_kernels avx2 = {sizeof(S),
                                             sizeof(N),
                                             run_avx2<typename loops::widen>,
                                             run_avx2<typename loops::pair>,
                                             run_avx2<typename loops::join>,
                                             run_avx2<typename loops::finish>,
                                             nullptr};
  static const reduction_kernels* table(instructions set) noexcept {
    return set == instructions::avx2 ? &avx2 : &portable;
  }
};

}  // namespace weir::collective
