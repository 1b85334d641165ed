// SPDX-License-Identifier: Apache-2.0
/// @file
/// Names, shapes and initial values of the parameters, and their step groups.
#include "prose/layout.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "prose/kernels/table.hpp"
#include "weir/base/hash.hpp"
#include "weir/base/philox.hpp"

namespace weir::models {

namespace {

/// Initial biases of the gates by level; levels behind the last entry use the last entry.
/// The rates (theta) of slow levels begin higher. All levels begin with little
/// forgetting: sigmoid(-4) is 0.018.
constexpr double theta_bias[] = {0, 0, 1, 2};
constexpr double alpha_bias[] = {-4, -4, -4, -3};

}  // namespace

/// Parameters stand one after another, each padded.
int parameter_layout::put(std::string name, std::int64_t rows, std::int64_t columns,
                          start_value start, std::uint32_t level) {
  parameter_info info;
  info.name = std::move(name);
  info.rows = rows;
  info.columns = columns;
  info.offset = size_;
  info.level = level;
  // Vectors are not pulled towards zero.
  info.decays = rows > 0;
  info.start = start;
  size_ += info.padded();
  all_.push_back(std::move(info));
  return static_cast<int>(all_.size()) - 1;
}

/// The order of the calls is the order of the parameters in checkpoints.
void parameter_layout::put_block(const prose_config& config, std::uint32_t b) {
  const std::int64_t width = config.width;
  const std::int64_t inner = std::int64_t{config.heads} * head_width;
  const std::int64_t gates = 2 * std::int64_t{config.heads};
  const auto levels = static_cast<std::uint32_t>(config.frequencies.size());
  const double fan_in = 1 / std::sqrt(static_cast<double>(width));
  // Matrices whose product is added to the residual stream begin smaller, so that the
  // stream does not grow with the number of blocks.
  const auto back = [&](std::int64_t rows) {
    return 0.5 / std::sqrt(static_cast<double>(rows * config.blocks));
  };
  block_parameters p;
  p.levels.resize(levels);
  // Gains are 1 and do not decay.
  p.gain1 = put(fmt::format("block{}.gain1", b), 0, width, {1, 0, 1});
  p.conv = put(fmt::format("block{}.conv", b), conv_taps, width, {0, 0.3, 0.7});
  p.key = put(fmt::format("block{}.key", b), inner, width, {0, fan_in, 0});
  p.value = put(fmt::format("block{}.value", b), inner, width, {0, fan_in, 0});
  // All levels of one kind are neighbours, so one product can compute them.
  for (std::uint32_t l = 0; l < levels; ++l) {
    p.levels[l].gate_weight = put(fmt::format("block{}.level{}.gate_weight", b, l), gates,
                                  width, {0, fan_in, 0}, l);
  }
  for (std::uint32_t l = 0; l < levels; ++l) {
    p.levels[l].query =
        put(fmt::format("block{}.level{}.query", b, l), inner, width, {0, fan_in, 0}, l);
  }
  for (std::uint32_t l = 0; l < levels; ++l) {
    p.levels[l].gate_bias =
        put(fmt::format("block{}.level{}.gate_bias", b, l), 0, gates, {}, l);
  }
  for (std::uint32_t l = 0; l < levels; ++l) {
    p.levels[l].out = put(fmt::format("block{}.level{}.out", b, l), inner, width,
                          {0, back(inner), 0}, l);
  }
  p.gain2 = put(fmt::format("block{}.gain2", b), 0, width, {1, 0, 1});
  p.mlp_in = put(fmt::format("block{}.mlp_in", b), config.hidden, width, {0, fan_in, 0});
  p.mlp_out = put(fmt::format("block{}.mlp_out", b), config.hidden, width,
                  {0, back(config.hidden), 0});
  blocks.push_back(std::move(p));
}

/// Groups do not cross the borders of blocks, whose gradients are complete at different
/// times.
parameter_layout::parameter_layout(const prose_config& config) {
  const double fan_in = 1 / std::sqrt(static_cast<double>(config.width));
  embedding = put("embedding", config.vocab, config.width, {0, 0.5, 0});
  make_groups(0);
  for (std::uint32_t b = 0; b < config.blocks; ++b) {
    const std::size_t from = all_.size();
    put_block(config, b);
    make_groups(from);
  }
  const std::size_t from = all_.size();
  final_gain = put("final_gain", 0, config.width, {1, 0, 1});
  unembedding = put("unembedding", config.vocab, config.width, {0, 0.3 * fan_in, 0});
  make_groups(from);
}

/// Without the padding.
std::int64_t parameter_layout::parameter_count() const noexcept {
  std::int64_t total = 0;
  for (const parameter_info& info : all_) {
    total += info.count();
  }
  return total;
}

/// Numbers depend on the name, not on the place in the array.
template <class R>
void initialise(const parameter_info& info, std::uint64_t seed, R* data) {
  const philox random(seed, xxh3_64(as_view(info.name)));
  const bool gate = info.name.ends_with(".gate_bias");
  for (std::int64_t i = 0; i < info.padded(); ++i) {
    // The padding is 0 and stays 0.
    if (i >= info.count()) {
      data[i] = 0;
      continue;
    }
    // The first half of the biases is for the rates, the second one for the forgetting.
    if (gate) {
      const std::size_t level = std::min<std::size_t>(info.level, 3);
      data[i] =
          static_cast<R>(i < info.columns / 2 ? theta_bias[level] : alpha_bias[level]);
      continue;
    }
    // The first row may have a mean of its own: the current token of the convolution.
    const double mean = i < info.columns ? info.start.first_row_mean : info.start.mean;
    const double noise =
        info.start.deviation == 0
            ? 0
            : info.start.deviation *
                  static_cast<double>(random.normal(static_cast<std::uint64_t>(i)));
    data[i] = static_cast<R>(mean + noise);
  }
}
template void initialise<float>(const parameter_info&, std::uint64_t, float*);
template void initialise<double>(const parameter_info&, std::uint64_t, double*);

/// A group holds parameters of one level only, because levels step at different times.
void parameter_layout::make_groups(std::size_t from) {
  // Large enough to be worth a task, small enough for several workers to share the steps.
  // The 512 elements let a matrix of 32 Ki elements share a group with a few vectors.
  constexpr std::int64_t max_size = 32 * 1024 + 512;
  std::uint32_t levels = 0;
  for (std::size_t i = from; i < all_.size(); ++i) {
    levels = std::max(levels, all_[i].level + 1);
  }
  for (std::uint32_t level = 0; level < levels; ++level) {
    bool fresh = true;
    for (std::size_t i = from; i < all_.size(); ++i) {
      parameter_info& info = all_[i];
      if (info.level != level) {
        continue;
      }
      // A parameter is never split.
      if (fresh || groups_.back().size + info.padded() > max_size) {
        groups_.push_back({level, 0, {}});
        fresh = false;
      }
      step_group& group = groups_.back();
      // Moments and error buffers are stored by group.
      info.group = static_cast<int>(groups_.size()) - 1;
      info.group_offset = group.size;
      group.size += info.padded();
      group.parameters.push_back(static_cast<int>(i));
    }
  }
}

}  // namespace weir::models
