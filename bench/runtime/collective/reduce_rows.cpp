// SPDX-License-Identifier: Apache-2.0
/// @file
/// What the arithmetic of collectives costs on one thread: its memory traffic against
/// that of copies, and what levels 1 and 2 cost beside level 0. fp32 sums over 4 ranks of
/// 64 MiB, in place.
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "bench.hpp"
#include "weir/collective/reduction.hpp"

namespace {

using namespace weir;
using namespace weir::collective;

constexpr int ranks = 4;
constexpr std::size_t elements = std::size_t{16} << 20;
constexpr int repeats = 7;

/// Inputs of all ranks, and buffers that they are copied to and reduced in.
class buffers {
 public:
  explicit buffers(bool wide) {
    std::mt19937_64 dice(1);
    std::normal_distribution<float> normal;
    std::uniform_int_distribution<int> exponent(-30, 30);
    for (int r = 0; r < ranks; ++r) {
      inputs_.emplace_back(elements);
      work_.emplace_back(elements);
      for (float& x : inputs_.back()) {
        x = normal(dice);
        x = wide ? std::ldexp(x, exponent(dice)) : x;
      }
    }
  }

  void copy() {
    for (std::size_t r = 0; r < ranks; ++r) {
      std::memcpy(work_[r].data(), inputs_[r].data(), elements * sizeof(float));
    }
  }
  /// Seconds of one reduction in place of what was just copied there.
  double reduce(int level) {
    copy();
    const reducer arithmetic =
        or_throw(reducer::make({dtype::fp32, reduction_op::sum, level}));
    std::vector<const std::byte*> from;
    std::vector<std::byte*> to;
    for (auto& buffer : work_) {
      to.push_back(reinterpret_cast<std::byte*>(buffer.data()));
      from.push_back(to.back());
    }
    return bench::thread_seconds_of([&] { arithmetic.reduce(from, to, elements); });
  }
  double copy_seconds() {
    return bench::thread_seconds_of([&] { copy(); });
  }

 private:
  std::vector<std::vector<float>> inputs_;
  std::vector<std::vector<float>> work_;
};

buffers& shared(bool wide) {
  static std::map<bool, std::unique_ptr<buffers>> all;
  auto& place = all[wide];
  if (!place) {
    place = std::make_unique<buffers>(wide);
    place->copy();
  }
  return *place;
}

double against_copies(int level) {
  return bench::median(bench::repeat(repeats, [&] {
    buffers& b = shared(false);
    const double mine = b.reduce(level);
    return b.copy_seconds() / mine;
  }));
}

double against_level_0(int level, bool wide) {
  return bench::median(bench::repeat(repeats, [&] {
    buffers& b = shared(wide);
    const double mine = b.reduce(level);
    return mine / b.reduce(0);
  }));
}

}  // namespace

int main(int argc, char** argv) {
  weir::bench::program bench;
  for (const int level : {0, 1, 2}) {
    bench.add("reduce_fp32_level" + std::to_string(level) + "_ratio", "x of memcpy",
              weir::bench::no_bar, [level] { return against_copies(level); });
  }
  bench.add("reduce_fp32_level1_time", "x of level 0", weir::bench::at_most(1.3),
            [] { return against_level_0(1, false); });
  bench.add("reduce_fp32_level2_time", "x of level 0", weir::bench::at_most(3),
            [] { return against_level_0(2, false); });
  bench.add("reduce_fp32_level2_wide_time", "x of level 0", weir::bench::no_bar,
            [] { return against_level_0(2, true); });
  return bench.run(argc, argv);
}
