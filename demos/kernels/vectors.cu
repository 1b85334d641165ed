// SPDX-License-Identifier: Apache-2.0
/// @file
/// Kernels for GPUs on vectors: a x + y, sums with barriers and with an atomic, and a
/// persistent diffusion. They have the names, the parameters and the bits of those for
/// processors (`kernels.hpp`).
#include "kernels/device.hpp"
#include "kernels/grid_barrier.hpp"

/// Computes y = a x + y. The product and the sum are rounded each.
WEIR_KERNEL saxpy(const float* x, float* y, std::int64_t n, float a) {
  using namespace weir::device_code;
  const std::int64_t step = block_count() * thread_count();
  WEIR_ROLLED
  for (std::int64_t i = block_number() * thread_count() + thread_number(); i < n;
       i += step) {
    store(y, i, canonical(load(y, i) + a * load(x, i)));
  }
}

/// Computes the sum of a part of x in each block, which has at most 1024 threads.
WEIR_KERNEL block_sum(const float* x, float* sums, std::int64_t n) {
  using namespace weir::device_code;
  WEIR_SHARED(float, shared, 1024);
  const std::int32_t threads = thread_count();
  const std::int32_t t = thread_number();
  const std::int64_t step = threads * block_count();
  float sum = 0;
  WEIR_ROLLED
  for (std::int64_t i = block_number() * threads + t; i < n; i += step) {
    sum += load(x, i);
  }
  store(shared, t, sum);
  std::int32_t half = 1;
  WEIR_ROLLED
  while (half < threads) {
    half *= 2;
  }
  WEIR_ROLLED
  while ((half /= 2) > 0) {
    barrier();
    if (t < half && t + half < threads) {
      store(shared, t, load(shared, t) + load(shared, t + half));
    }
  }
  if (t == 0) {
    store(sums, block_number(), canonical(load(shared, 0)));
  }
}

/// Adds the sum of x to total[0]. The last bits depend on the order in which blocks end.
/// The atomic addition of the device takes subnormal numbers for zero, so the sum is
/// exchanged instead.
WEIR_KERNEL atomic_sum(const float* x, float* total, std::int64_t n) {
  using namespace weir::device_code;
  const std::int64_t step = block_count() * thread_count();
  float sum = 0;
  WEIR_ROLLED
  for (std::int64_t i = block_number() * thread_count() + thread_number(); i < n;
       i += step) {
    sum += load(x, i);
  }
  auto* bits = reinterpret_cast<std::uint32_t*>(total);
  std::uint32_t before = atomic_load(bits);
  for (;;) {
    const std::uint32_t after = bits_of(canonical(float_from(before) + sum));
    const std::uint32_t found = atomic_exchange_if(bits, before, after);
    if (found == before) {
      return;
    }
    before = found;
  }
}

/// Simulates diffusion in a rod until it has done its steps or is stopped. The backend
/// passes the facts behind the arguments.
WEIR_KERNEL persistent_heat(float* a, float* b, std::int64_t* done, std::int64_t n,
                            std::int64_t steps, weir::tessera::cuda::launch_facts facts) {
  using namespace weir::device_code;
  const std::int64_t stride = block_count() * thread_count();
  WEIR_ROLLED
  for (std::int64_t step = 0; steps < 0 || step < steps; ++step) {
    const float* from = step % 2 == 0 ? a : b;
    float* to = step % 2 == 0 ? b : a;
    WEIR_ROLLED
    for (std::int64_t i = block_number() * thread_count() + thread_number(); i < n;
         i += stride) {
      const float middle = load(from, i);
      float next = middle;
      if (i != 0 && i != n - 1) {
        next = 0.25F * load(from, i - 1) + 0.5F * middle + 0.25F * load(from, i + 1);
      }
      store(to, i, canonical(next));
    }
    if (grid_barrier(facts)) {
      return;
    }
    if (block_number() == 0 && thread_number() == 0) {
      store(done, 0, step + 1);
    }
  }
}

/// Does nothing.
WEIR_KERNEL empty() {}
