// SPDX-License-Identifier: Apache-2.0
/// @file
/// Names, shapes and places of all parameters. They lie in one flat array; gradients have
/// an array of the same layout, and moments and error buffers lie group by group.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "weir/models/prose.hpp"

namespace weir::models {

/// Distribution of a parameter's initial elements: normal, with this mean and deviation.
struct start_value {
  double mean = 0;            ///< of all rows but the first
  double deviation = 0;       ///< standard deviation of all rows
  double first_row_mean = 0;  ///< mean of the first row
};

/// One parameter tensor: dense and row-major, of shape [rows, columns], or of shape
/// [columns] if `rows` is 0.
struct parameter_info {
  std::string name;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t offset = 0;        ///< in the flat array, in elements; a multiple of 16
  std::uint32_t level = 0;        ///< level whose frequency says when it steps
  bool decays = false;            ///< steps apply weight decay; true for matrices
  int group = 0;                  ///< index of its `step_group`
  std::int64_t group_offset = 0;  ///< in the arrays of its group, in elements
  start_value start;

  /// Returns the number of elements.
  [[nodiscard]] std::int64_t count() const noexcept {
    return (rows == 0 ? 1 : rows) * columns;
  }
  /// Returns the number of elements with padding, so that whole vectors can be processed.
  [[nodiscard]] std::int64_t padded() const noexcept {
    return align_up<std::int64_t>(count(), 16);
  }
  [[nodiscard]] shape_vector shape() const {
    return rows == 0 ? shape_vector{columns} : shape_vector{rows, columns};
  }
};

/// The parameters that one optimizer task steps: whole parameters of one level, together
/// about 32 Ki elements.
struct step_group {
  std::uint32_t level = 0;
  std::int64_t size = 0;        ///< number of elements with padding
  std::vector<int> parameters;  ///< indices in the layout
};

/// Indices of one level's parameters in a block.
struct level_parameters {
  int query = 0;        ///< [heads * 32, width]
  int gate_weight = 0;  ///< [2 * heads, width]: theta of every head, then alpha
  int gate_bias = 0;    ///< [2 * heads]
  int out = 0;          ///< [heads * 32, width]
};
/// Indices of one block's parameters.
///
/// Key, value, the gate weights of all levels and the queries of all levels lie one after
/// another without gaps, so that one product can take them as one matrix. So do the `out`
/// matrices of all levels.
struct block_parameters {
  int gain1 = 0;    ///< [width]
  int conv = 0;     ///< [4, width]
  int key = 0;      ///< [heads * 32, width]
  int value = 0;    ///< [heads * 32, width]
  int gain2 = 0;    ///< [width]
  int mlp_in = 0;   ///< [hidden, width]
  int mlp_out = 0;  ///< [hidden, width]
  std::vector<level_parameters> levels;
};

/// All parameters of a model, in the order of the flat array.
class parameter_layout {
 public:
  /// Lays out the parameters of a configuration.
  explicit parameter_layout(const prose_config& config);

  [[nodiscard]] const std::vector<parameter_info>& all() const noexcept { return all_; }
  [[nodiscard]] const parameter_info& operator[](int index) const noexcept {
    return all_[static_cast<std::size_t>(index)];
  }
  /// Returns the step groups, in the order in which their steps are submitted.
  [[nodiscard]] const std::vector<step_group>& groups() const noexcept { return groups_; }
  /// Returns the number of elements of the flat array, with padding.
  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  /// Returns the number of elements without padding.
  [[nodiscard]] std::int64_t parameter_count() const noexcept;

  int embedding = 0;    ///< [vocab, width]
  int unembedding = 0;  ///< [vocab, width]
  int final_gain = 0;   ///< [width]
  std::vector<block_parameters> blocks;

 private:
  /// Appends a parameter and returns its index.
  int put(std::string name, std::int64_t rows, std::int64_t columns, start_value start,
          std::uint32_t level = 0);
  void put_block(const prose_config& config, std::uint32_t b);

  /// Cuts the parameters from index `from` on into step groups. Each block has its own
  /// groups, in the order of the blocks. The next pulse can then begin as soon as the
  /// first block has stepped, and the steps of later blocks run in the gaps of its work.
  void make_groups(std::size_t from);

  std::vector<parameter_info> all_;
  std::vector<step_group> groups_;
  std::int64_t size_ = 0;
};

/// Writes the initial elements of one parameter to `data`. They depend only on the seed
/// and on the parameter's name, shape and `start`. Padding becomes zero.
template <class R>
void initialise(const parameter_info& info, std::uint64_t seed, R* data);

}  // namespace weir::models
