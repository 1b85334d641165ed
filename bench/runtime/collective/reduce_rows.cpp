// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rows about the arithmetic of collectives on one thread: its memory traffic compared
/// with that of copies, and the cost of levels 1 and 2 compared with level 0. The rows
/// sum fp32 values of 4 ranks with 64 MiB each, in place.
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

/// The inputs of all ranks, and the buffers to which they are copied and in which they
/// are reduced.
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
  /// Returns the seconds of one reduction in place, after the inputs were copied there.
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

/// Returns the buffers, which are made once for each kind of inputs.
buffers& shared(bool wide) {
  static std::map<bool, std::unique_ptr<buffers>> all;
  auto& place = all[wide];
  if (!place) {
    place = std::make_unique<buffers>(wide);
    place->copy();
  }
  return *place;
}

/// Returns the time of the copies over that of the reduction.
double against_copies(int level) {
  return bench::median(bench::repeat(repeats, [&] {
    buffers& b = shared(false);
    const double mine = b.reduce(level);
    return b.copy_seconds() / mine;
  }));
}

/// Returns the time at a level over the time at level 0.
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
