// SPDX-License-Identifier: Apache-2.0
/// @file
/// A program outside of the project that runs two tasks and links the task engine alone.
/// It prints 42.
#include <cstdio>
#include <weir/weir.hpp>

int main() {
  weir::engine e(2);
  auto x = e.make<double>(1);
  auto y = e.make<double>(1);
  e.submit(
      "write", [](auto v) { v[0] = 21; }, weir::write(x));
  e.submit(
      "double", [](auto from, auto to) { to[0] = 2 * from[0]; }, weir::read(x),
      weir::write(y));
  std::printf("%g\n", *e.get(y, 0));
}
