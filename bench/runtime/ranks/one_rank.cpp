// SPDX-License-Identifier: Apache-2.0
/// @file
/// The steps of a heat program whose kernels do nothing, by an engine or by a world of
/// one rank: one_rank engine|world STEPS. Callgrind counts its instructions.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>
#include <utility>

#include "weir/world.hpp"

namespace {

constexpr std::int64_t n = 64;
constexpr std::int64_t tile = 4;

void nothing(weir::view<const double, 2> /*in*/, weir::view<double, 2> /*out*/) {}

void by_engine(std::int64_t steps) {
  weir::engine e(1);
  auto a = e.make<double>(n, n);
  auto b = e.make<double>(n, n);
  for (std::int64_t s = 0; s < steps; ++s) {
    for (std::int64_t lo = 0; lo < n; lo += tile) {
      const std::int64_t first = std::max<std::int64_t>(lo, 1);
      const std::int64_t last = std::min(lo + tile, n - 1);
      e.submit("sweep", nothing,
               weir::read(a.slice(0, first - 1, last + 1).slice(1, 0, n)),
               weir::write(b.slice(0, first, last).slice(1, 1, n - 1)));
    }
    std::swap(a, b);
    weir::or_throw(e.wait());
  }
}

void by_world(std::int64_t steps) {
  weir::engine e(1);
  weir::world w(e);
  auto a = w.make<double>(weir::rows(tile), n, n);
  auto b = w.make<double>(weir::rows(tile), n, n);
  const auto boxes = a.tiles_inside(1);
  w.repeat(steps, [&](std::int64_t) {
    for (const auto& box : boxes) {
      w.submit("sweep", nothing, weir::read(a.around(box, 1)),
               weir::write(b.of_tile(box)));
    }
    std::swap(a, b);
    weir::or_throw(w.wait());
  });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: one_rank engine|world STEPS\n");
    return 2;
  }
  try {
    const std::int64_t steps = std::strtoll(argv[2], nullptr, 10);
    if (std::string_view(argv[1]) == "engine") {
      by_engine(steps);
    } else {
      by_world(steps);
    }
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "one_rank: %s\n", e.what());
    return 1;
  }
}
