// SPDX-License-Identifier: Apache-2.0
/// @file
/// Where every parameter lies in one flat array: gradients, moments and error buffers lie
/// alike.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "weir/models/prose.hpp"

namespace weir::models {

/// How a parameter starts: `mean` + N(0, deviation); the first row may have another mean.
struct start_value {
  double mean = 0;
  double deviation = 0;
  double first_row_mean = 0;
};

/// One parameter tensor: dense, row-major, [rows, columns], or [columns] where `rows` is
/// 0.
struct parameter_info {
  std::string name;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t offset = 0;        ///< elements, a multiple of 16
  std::uint32_t level = 0;        ///< whose frequency its steps follow
  bool decays = false;            ///< weight decay: matrices only
  int group = 0;                  ///< its `step_group`
  std::int64_t group_offset = 0;  ///< elements, in the group's moments
  start_value start;

  [[nodiscard]] std::int64_t count() const noexcept {
    return (rows == 0 ? 1 : rows) * columns;
  }
  [[nodiscard]] std::int64_t padded() const noexcept {
    return align_up<std::int64_t>(count(), 16);
  }
  [[nodiscard]] shape_vector shape() const {
    return rows == 0 ? shape_vector{columns} : shape_vector{rows, columns};
  }
};

/// What one optimizer task steps: whole parameters of one level, about 32 Ki elements.
struct step_group {
  std::uint32_t level = 0;
  std::int64_t size = 0;  ///< elements with padding
  std::vector<int> parameters;
};

/// Indices of one level's parameters in a block.
struct level_parameters {
  int query = 0;        ///< [heads * 32, width]
  int gate_weight = 0;  ///< [2 * heads, width]: theta of every head, then alpha
  int gate_bias = 0;    ///< [2 * heads]
  int out = 0;          ///< [heads * 32, width]
};
/// Indices of one block's parameters. Key, value, all gate weights and all queries lie
/// one after another without gaps, and so do all outs: products take them as one matrix.
struct block_parameters {
  int gain1 = 0;
  int conv = 0;  ///< [4, width]
  int key = 0;   ///< [heads * 32, width]
  int value = 0;
  int gain2 = 0;
  int mlp_in = 0;   ///< [hidden, width]
  int mlp_out = 0;  ///< [hidden, width]
  std::vector<level_parameters> levels;
};

/// All parameters of a configuration.
class parameter_layout {
 public:
  explicit parameter_layout(const prose_config& config);

  [[nodiscard]] const std::vector<parameter_info>& all() const noexcept { return all_; }
  [[nodiscard]] const parameter_info& operator[](int index) const noexcept {
    return all_[static_cast<std::size_t>(index)];
  }
  [[nodiscard]] const std::vector<step_group>& groups() const noexcept { return groups_; }
  /// Elements of the flat array, with padding.
  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  /// Elements without padding.
  [[nodiscard]] std::int64_t parameter_count() const noexcept;

  int embedding = 0;    ///< [vocab, width]
  int unembedding = 0;  ///< [vocab, width]
  int final_gain = 0;
  std::vector<block_parameters> blocks;

 private:
  int put(std::string name, std::int64_t rows, std::int64_t columns, start_value start,
          std::uint32_t level = 0);
  void put_block(const prose_config& config, std::uint32_t b);

  /// Of the parameters from `from` on. A block has groups of its own, in the order of the
  /// blocks: the next pulse begins behind the first block's steps and leaves the others
  /// to fill its gaps.
  void make_groups(std::size_t from);

  std::vector<parameter_info> all_;
  std::vector<step_group> groups_;
  std::int64_t size_ = 0;
};

/// Start values of one parameter: a function of (seed, name) alone. Padding becomes zero.
template <class R>
void initialise(const parameter_info& info, std::uint64_t seed, R* to);

}  // namespace weir::models
