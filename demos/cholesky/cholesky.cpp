// SPDX-License-Identifier: Apache-2.0
/// @file
/// Computes a blocked Cholesky factorization with three kernels. The engine finds the
/// order of the tasks from the blocks that they read and write. A serial version with the
/// same kernels must give the same bits. Usage: cholesky [WORKERS [BLOCKS [PICTURE.svg]]]
#include <weir/weir.hpp>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <vector>

namespace {

constexpr int size = 32;  // rows and columns of a block
using block = weir::view<double, 2>;
using block_in = weir::view<const double, 2>;

/// Replaces the lower triangle of a by its Cholesky factor.
void factor(block a) {
  for (int j = 0; j < size; ++j) {
    for (int k = 0; k < j; ++k) {
      for (int i = j; i < size; ++i) {
        a(i, j) -= a(i, k) * a(j, k);
      }
    }
    const double root = std::sqrt(a(j, j));
    for (int i = j; i < size; ++i) {
      a(i, j) /= root;
    }
  }
}
/// Computes b := b * l^-T for a lower triangular l.
void solve(block_in l, block b) {
  for (int j = 0; j < size; ++j) {
    for (int k = 0; k < j; ++k) {
      for (int i = 0; i < size; ++i) {
        b(i, j) -= b(i, k) * l(j, k);
      }
    }
    for (int i = 0; i < size; ++i) {
      b(i, j) /= l(j, j);
    }
  }
}
/// Computes c := c - a * b^T.
void subtract(block_in a, block_in b, block c) {
  for (int i = 0; i < size; ++i) {
    for (int j = 0; j < size; ++j) {
      double sum = 0;
      for (int k = 0; k < size; ++k) {
        sum += a(i, k) * b(j, k);
      }
      c(i, j) -= sum;
    }
  }
}

/// Returns an element of a symmetric, positive definite matrix of n rows.
double element(std::int64_t i, std::int64_t j, std::int64_t n) {
  return i == j ? static_cast<double>(2 * n) : 1.0 / static_cast<double>(1 + i + j);
}

/// Calls the kernels in the order of the right-looking algorithm.
template <class Factor, class Solve, class Subtract>
void each_step(int blocks, Factor&& factor_at, Solve&& solve_at, Subtract&& subtract_at) {
  for (int k = 0; k < blocks; ++k) {
    factor_at(k);
    for (int i = k + 1; i < blocks; ++i) {
      solve_at(k, i);
    }
    for (int i = k + 1; i < blocks; ++i) {
      for (int j = k + 1; j <= i; ++j) {
        subtract_at(k, i, j);
      }
    }
  }
}

/// Returns the seconds since `start`.
double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

int main(int argc, char** argv) {
  const unsigned workers = argc > 1 ? static_cast<unsigned>(std::atoi(argv[1])) : 2;
  const int blocks = argc > 2 ? std::atoi(argv[2]) : 12;
  const std::int64_t n = std::int64_t{size} * blocks;
  weir::engine e(workers);
  auto parallel = e.make<double>(n, n);
  auto serial = e.make<double>(n, n);
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      parallel.elements<double>()(i, j) = serial.elements<double>()(i, j) =
          element(i, j, n);
    }
  }
  const auto tile = [](const auto& matrix, int i, int j) {
    return matrix.slice(0, i * size, (i + 1) * size).slice(1, j * size, (j + 1) * size);
  };

  const char* const picture = argc > 3 ? argv[3] : nullptr;
  if (picture != nullptr) {
    weir::or_throw(e.base().begin_capture());
  }
  auto start = std::chrono::steady_clock::now();
  each_step(
      blocks,
      [&](int k) { e.submit("factor", factor, weir::update(tile(parallel, k, k))); },
      [&](int k, int i) {
        e.submit("solve", solve, weir::read(tile(parallel, k, k)),
                 weir::update(tile(parallel, i, k)));
      },
      [&](int k, int i, int j) {
        e.submit("subtract", subtract, weir::read(tile(parallel, i, k)),
                 weir::read(tile(parallel, j, k)), weir::update(tile(parallel, i, j)));
      });
  weir::or_throw(e.wait());
  const double with_engine = seconds_since(start);
  if (picture != nullptr) {
    std::ofstream(picture) << weir::or_throw(e.base().end_capture(
                                                 weir::runtime::capture_use::drawing))
                                  .to_svg();
  }

  start = std::chrono::steady_clock::now();
  const auto to = [&](int i, int j) { return tile(serial, i, j).elements<double>(); };
  const auto from = [&](int i, int j) {
    return tile(serial, i, j).elements<const double>();
  };
  each_step(
      blocks, [&](int k) { factor(to(k, k)); },
      [&](int k, int i) { solve(from(k, k), to(i, k)); },
      [&](int k, int i, int j) { subtract(from(i, k), from(j, k), to(i, j)); });
  const double alone = seconds_since(start);

  const auto bytes = static_cast<std::size_t>(n * n) * sizeof(double);
  const bool same = std::memcmp(parallel.elements<double>().data(),
                                serial.elements<double>().data(), bytes) == 0;
  std::printf("%lld x %lld: %u workers %.1f ms, serial %.1f ms, results %s\n",
              static_cast<long long>(n), static_cast<long long>(n), workers,
              with_engine * 1e3, alone * 1e3, same ? "equal" : "differ");
  return same ? 0 : 1;
}
