// SPDX-License-Identifier: Apache-2.0
/// @file
/// Task graphs as lists of accesses to cells of 64 bytes. @source{Task Bench patterns;
/// docs/tensormap.md}
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "weir/runtime/engine.hpp"

namespace weir::bench {

/// One access of one task: a cell and the mode.
struct cell_access {
  std::int64_t cell;
  runtime::access_mode mode;
};
using cell_task = std::vector<cell_access>;

/// The contents of a cell.
struct alignas(64) stamped_cell {
  std::uint64_t stamp = 0;  ///< of the last writer
  double column = 0;
};

inline constexpr std::int64_t graph_tasks = 4096;

namespace detail {

using runtime::access_mode;

/// SplitMix64, the hash behind the pattern "random_nearest".
inline std::uint64_t splitmix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

/// Returns whether task x of step t reads column i; a quarter of the pairs do.
inline bool random_neighbour(std::int64_t t, std::int64_t i, std::int64_t x) {
  std::uint64_t s = splitmix(5) ^ static_cast<std::uint64_t>(t % 3);
  s = splitmix(splitmix(s) ^ static_cast<std::uint64_t>(i + 1000));
  s = splitmix(s ^ static_cast<std::uint64_t>(x));
  return static_cast<double>(s >> 11) * 0x1p-53 < 0.25;
}

/// Returns the columns of the step before that task (t, x) reads. Columns outside of the
/// graph are dropped by the caller.
inline std::vector<std::int64_t> columns_read(const std::string& pattern, std::int64_t w,
                                              std::int64_t t, std::int64_t x) {
  if (pattern == "stencil") {
    return {x - 1, x, x + 1};
  }
  if (pattern == "fft") {
    const auto l =
        static_cast<std::int64_t>(std::ceil(std::log2(static_cast<double>(w))));
    const std::int64_t d = std::int64_t{1} << ((t + l - 1) % l);
    return {x - d, x, x + d};
  }
  if (pattern == "nearest") {
    return {x - 2, x - 1, x, x + 1, x + 2};
  }
  std::vector<std::int64_t> out;
  if (pattern == "random_nearest") {
    for (std::int64_t i = x - 2; i <= x + 2; ++i) {
      if (i == x || random_neighbour(t, i, x)) {
        out.push_back(i);
      }
    }
  } else if (pattern == "spread") {
    for (std::int64_t i = 0; i < 5; ++i) {
      out.push_back((x + 16 * i / 5 + (i > 0 ? t % 3 : 0)) % 16);
    }
  }
  return out;
}

/// Returns a graph of steps of `w` tasks. Steps alternate between two sets of cells, so
/// each step also waits for the readers of the set that it overwrites.
inline std::vector<cell_task> stepped(const std::string& pattern, std::int64_t w) {
  std::vector<cell_task> out;
  for (std::int64_t t = 0; t < graph_tasks / w; ++t) {
    for (std::int64_t x = 0; x < w; ++x) {
      cell_task task;
      if (t > 0) {
        for (const std::int64_t c : columns_read(pattern, w, t, x)) {
          if (c >= 0 && c < w) {
            task.push_back({(t + 1) % 2 * w + c, access_mode::read});
          }
        }
      }
      task.push_back({t % 2 * w + x, access_mode::write});
      out.push_back(std::move(task));
    }
  }
  return out;
}

/// Returns the tasks of a Cholesky factorisation of n x n tiles.
inline std::vector<cell_task> cholesky(std::int64_t n) {
  std::vector<cell_task> out;
  const auto cell = [n](std::int64_t i, std::int64_t j) { return i * n + j; };
  for (std::int64_t k = 0; k < n; ++k) {
    out.push_back({{cell(k, k), access_mode::read_write}});
    for (std::int64_t i = k + 1; i < n; ++i) {
      out.push_back(
          {{cell(k, k), access_mode::read}, {cell(i, k), access_mode::read_write}});
    }
    for (std::int64_t i = k + 1; i < n; ++i) {
      for (std::int64_t j = k + 1; j < i; ++j) {
        out.push_back({{cell(i, k), access_mode::read},
                       {cell(j, k), access_mode::read},
                       {cell(i, j), access_mode::read_write}});
      }
      out.push_back(
          {{cell(i, k), access_mode::read}, {cell(i, i), access_mode::read_write}});
    }
  }
  return out;
}

/// Returns the tasks of a multiplication of n x n tiles.
inline std::vector<cell_task> gemm(std::int64_t n) {
  std::vector<cell_task> out;
  for (std::int64_t k = 0; k < n; ++k) {
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        out.push_back({{i * n + k, access_mode::read},
                       {n * n + k * n + j, access_mode::read},
                       {2 * n * n + i * n + j, access_mode::read_write}});
      }
    }
  }
  return out;
}

}  // namespace detail

/// Returns the graph with a name such as `stencil_w8` or `cholesky_n28`.
inline std::vector<cell_task> graph_named(const std::string& name) {
  using runtime::access_mode;
  std::vector<cell_task> out;
  if (name == "indep" || name == "indep_w" || name == "chain") {
    for (std::int64_t i = 0; i < graph_tasks; ++i) {
      out.emplace_back();
      if (name == "indep_w") {
        out.back().push_back({i, access_mode::write});
      } else if (name == "chain") {
        out.back().push_back({0, access_mode::read_write});
      }
    }
    return out;
  }
  const std::size_t cut = name.rfind('_');
  const std::int64_t size = std::stoll(name.substr(cut + 2));
  const std::string pattern = name.substr(0, cut);
  if (pattern == "cholesky") {
    return detail::cholesky(size);
  }
  return pattern == "gemm" ? detail::gemm(size) : detail::stepped(pattern, size);
}

}  // namespace weir::bench
