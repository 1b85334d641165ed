// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sums of fp32 and fp64 by the canonical tree, which are held in registers from the
/// first input to the last output. The shape of the tree is fixed at compile time for
/// each number of ranks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "collective/kernels/elements.hpp"

namespace weir::collective {

/// A vector of `Bytes / sizeof(T)` elements. It is passed by reference only, because
/// functions compiled for different instruction sets pass vectors by value in different
/// ways.
template <class T, std::size_t Bytes>
struct lanes {
  using type __attribute__((vector_size(Bytes))) = T;
};
template <class T, std::size_t Bytes>
using lanes_t = typename lanes<T, Bytes>::type;

template <class V>
WEIR_INLINE void load_lanes(const std::byte* from, V& to) noexcept {
  __builtin_memcpy(&to, from, sizeof to);
}
template <class V>
WEIR_INLINE void store_lanes(const V& from, std::byte* to) noexcept {
  __builtin_memcpy(to, &from, sizeof from);
}

#if defined(__x86_64__)
/// Stores a vector of 32 bytes at an aligned address, past the caches.
template <class V>
WEIR_INLINE void stream_lanes(const V& from, std::byte* to) noexcept {
#if defined(__clang__)
  __builtin_nontemporal_store(from, reinterpret_cast<V*>(to));
#else
  asm volatile("vmovntps %1, (%0)" : : "r"(to), "x"(from) : "memory");
#endif
}
#endif

/// Returns where the canonical tree over [first, last) is split: the left part has the
/// largest power of two of leaves that is less than all.
constexpr int split_of(int first, int last) noexcept {
  int left = 1;
  while (left * 2 < last - first) {
    left *= 2;
  }
  return first + left;
}

/// The sum of a fixed number of ranks, in vectors of `Bytes` bytes.
template <class T, std::size_t Bytes, int Ranks>
struct vector_sum {
  using V = lanes_t<T, Bytes>;
  /// With outputs of this size or more in one call, the outputs push each other out of
  /// the caches.
  static constexpr std::size_t streamed_bytes = std::size_t{4} << 20;
  /// Distance of explicit prefetches in bytes. The processor's own prefetchers begin anew
  /// at each page of each buffer.
  static constexpr std::uintptr_t fetched_ahead = 1024;

  /// Adds the inputs [First, Last) of one vector by the tree.
  template <int First, int Last>
  WEIR_INLINE static void node(const std::byte* const* inputs, std::size_t offset,
                               V& sum) noexcept {
    if constexpr (Last - First == 1) {
      load_lanes(inputs[First] + offset, sum);
    } else {
      constexpr int middle = split_of(First, Last);
      V right;
      node<First, middle>(inputs, offset, sum);
      node<middle, Last>(inputs, offset, right);
      sum += right;
    }
  }

  /// Adds all inputs of one vector, divides, and makes every NaN canonical.
  WEIR_INLINE static void block(const std::byte* const* inputs, std::size_t offset,
                                std::uint32_t divisor, V& sum) noexcept {
    node<0, Ranks>(inputs, offset, sum);
    if (divisor > 1) {
      sum /= static_cast<T>(divisor);
    }
    const V nan = V{} + canonical(std::numeric_limits<T>::quiet_NaN());
    sum = sum == sum ? sum : nan;
  }

  /// Prefetches for reading (`Writes` is 0) or writing (1). The address may lie behind
  /// the end of the buffer.
  template <int Writes>
  WEIR_INLINE static void fetch(const std::byte* buffer, std::size_t offset) noexcept {
    const auto address =
        reinterpret_cast<std::uintptr_t>(buffer) + offset + fetched_ahead;
    __builtin_prefetch(reinterpret_cast<const void*>(address), Writes);  // NOLINT
  }

  /// Adds two vectors at a time and stores them in every output. `Outputs` is the number
  /// of outputs, or 0 if it is known at run time only. With `Streams`, stores go past the
  /// caches, and outputs are aligned for that. Returns the number of elements that are
  /// done.
  template <int Outputs, bool Streams>
  WEIR_INLINE static std::size_t loop(const std::byte* const* given_inputs,
                                      std::byte* const* given_outputs,
                                      std::size_t output_count, std::size_t bytes,
                                      std::uint32_t divisor) noexcept {
    // Local copies: the compiler must assume that a store to an output changes the lists.
    std::array<const std::byte*, Ranks> inputs;
    for (std::size_t r = 0; r < Ranks; ++r) {
      inputs[r] = given_inputs[r];
    }
    std::array<std::byte*, Outputs == 0 ? 1 : Outputs> outputs;
    for (std::size_t r = 0; r < Outputs; ++r) {
      outputs[r] = given_outputs[r];
    }
    std::size_t offset = 0;
    for (; offset + 2 * Bytes <= bytes; offset += 2 * Bytes) {
      V low;
      V high;
      for (const std::byte* input : inputs) {
        fetch<0>(input, offset);
      }
      block(inputs.data(), offset, divisor, low);
      block(inputs.data(), offset + Bytes, divisor, high);
      for (std::size_t r = 0; r < (Outputs == 0 ? output_count : Outputs); ++r) {
        std::byte* const to = (Outputs == 0 ? given_outputs[r] : outputs[r]) + offset;
        if constexpr (!Streams) {
          fetch<1>(to, 0);
        }
        store<Streams>(low, to);
        store<Streams>(high, to + Bytes);
      }
    }
    return offset / sizeof(T);
  }

  template <bool Streams>
  WEIR_INLINE static void store(const V& from, std::byte* to) noexcept {
    if constexpr (Streams) {
      stream_lanes(from, to);
    } else {
      store_lanes(from, to);
    }
  }

  /// Returns true if the outputs would leave the caches anyway and are aligned, so that
  /// they need not be read into the caches first.
  WEIR_INLINE static bool can_stream(std::byte* const* outputs, std::size_t output_count,
                                     std::size_t bytes) noexcept {
    if (bytes * output_count < streamed_bytes) {
      return false;
    }
    bool aligned = true;
    for (std::size_t r = 0; r < output_count; ++r) {
      aligned &= reinterpret_cast<std::uintptr_t>(outputs[r]) % Bytes == 0;
    }
    return aligned;
  }

  /// Adds all elements but the last few that fill no step. Returns their number.
  WEIR_INLINE static std::size_t run(const std::byte* const* inputs,
                                     std::byte* const* outputs, std::size_t output_count,
                                     std::size_t count, std::uint32_t divisor) noexcept {
    const std::size_t bytes = count * sizeof(T);
    if (output_count != Ranks) {
      return loop<0, false>(inputs, outputs, output_count, bytes, divisor);
    }
#if defined(__x86_64__)
    if constexpr (Bytes == 32) {
      if (can_stream(outputs, output_count, bytes)) {
        const std::size_t done =
            loop<Ranks, true>(inputs, outputs, output_count, bytes, divisor);
        // Streaming stores are not ordered with other stores; the fence makes them
        // visible before the task ends.
        __builtin_ia32_sfence();
        return done;
      }
    }
#endif
    return loop<Ranks, false>(inputs, outputs, output_count, bytes, divisor);
  }
};

}  // namespace weir::collective
