// SPDX-License-Identifier: Apache-2.0
/// @file
/// Inputs and comparisons of the cases of kernels.
#pragma once

#include <cstring>
#include <random>

#include <fmt/core.h>

#include "cases/kernel_cases.hpp"

namespace weir::tessera::test {

using shape = std::array<std::uint32_t, 3>;

/// A launch under construction. Arguments are copied.
class launch_maker {
 public:
  launch_maker(std::string_view name, shape grid, shape block) {
    launch_.name = name;
    launch_.grid = grid;
    launch_.block = block;
  }
  template <class T>
  launch_maker& number(T value) {
    std::vector<std::byte>& bytes = values_.emplace_back(sizeof value);
    std::memcpy(bytes.data(), &value, sizeof value);
    return *this;
  }
  template <class T>
  launch_maker& memory(const std::vector<T>& of) {
    launch_.memory.push_back({of.data(), of.size() * sizeof(T)});
    return number(of.data());
  }
  /// Adds memory that no argument names.
  template <class T>
  launch_maker& reachable(const std::vector<T>& of) {
    launch_.memory.push_back({of.data(), of.size() * sizeof(T)});
    return *this;
  }
  launch_maker& cooperative() {
    launch_.cooperative = true;
    return *this;
  }
  const kernel_launch& made() {
    launch_.arguments.clear();
    for (const auto& bytes : values_) {
      launch_.arguments.push_back(bytes.data());
      launch_.sizes.push_back(bytes.size());
    }
    return launch_;
  }

 private:
  kernel_launch launch_;
  std::vector<std::vector<std::byte>> values_;
};

/// Returns the number, or the canonical NaN.
inline float plain(float x) {
  return x == x ? x : __builtin_bit_cast(float, 0x7FC00000U);
}

/// Returns normally distributed numbers. With `specials`, some are infinite, NaN, -0 or
/// subnormal.
inline std::vector<float> some_floats(std::size_t n, std::uint32_t seed,
                                      bool specials = false) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  constexpr std::array<std::uint32_t, 6> unusual = {
      0x7F800000U, 0xFFC12345U, 0x80000000U, 0x00000005U, 0x807FFFFFU, 0x00800000U};
  std::vector<float> out(n);
  for (float& x : out) {
    x = normal(random);
    if (specials && random() % 16 == 0) {
      x = __builtin_bit_cast(float, unusual[random() % unusual.size()]);
    }
  }
  return out;
}

/// Returns the first difference between two arrays, or an empty string.
template <class T>
std::string difference(const std::vector<T>& found, const std::vector<T>& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (std::memcmp(&found[i], &expected[i], sizeof(T)) != 0) {
      return fmt::format("element {}: expected {}, found {}", i, expected[i], found[i]);
    }
  }
  return {};
}

/// The cases of `kernel_cases` by file.
void add_vector_cases(std::vector<kernel_case>& cases, bool large);
void add_row_cases(std::vector<kernel_case>& cases, bool large);
void add_memory_cases(std::vector<kernel_case>& cases, bool large);
void add_reduction_cases(std::vector<kernel_case>& cases, bool large);

}  // namespace weir::tessera::test
