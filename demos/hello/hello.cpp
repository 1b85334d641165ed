// SPDX-License-Identifier: Apache-2.0
/// @file
/// Fills a tensor and sums it.
#include <weir/weir.hpp>

#include <algorithm>
#include <cstdio>
#include <numeric>

int main() {
  weir::engine e(2);
  auto x = e.make<double>(2000), sum = e.make<double>(1);
  const auto fill = [](auto v) { std::fill(v.begin(), v.end(), 1.5); };
  const auto add = [](auto v, auto s) {
    s[0] = std::accumulate(v.begin(), v.end(), 0.0);
  };
  e.submit("fill", fill, weir::write(x));
  e.submit("add", add, weir::read(x), weir::write(sum));
  std::printf("%g\n", *e.get(sum, 0));
}
