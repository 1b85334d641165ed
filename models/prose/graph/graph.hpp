// SPDX-License-Identifier: Apache-2.0
/// @file
/// The task graph of the model: its buffers, and for each kind of task a member that
/// submits it with its accesses. `submit_pulse` submits the whole graph of a pulse.
///
/// A chunk is computed in windows of 64 rows. Every task works on one window, or on the
/// gradients of one parameter or group. Tasks are not ordered explicitly: the engine
/// orders them by what they read and write, so several windows and pulses overlap.
///
/// Names: `x` is the input of a block, `u` its norm, `z` the convolution of `u`, `y` the
/// rows read from the memories, and `x1` the sum of `x` and the projected `y`. A name
/// that begins with `d_` is the gradient of the loss by the rest of the name. `far` and
/// `near` are the two products that project `z`: see `graph_sizes`. A comment like
/// [64][32] gives a shape, row-major.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "buffers.hpp"
#include "gemm.hpp"
#include "prose/kernels/table.hpp"
#include "prose/layout.hpp"
#include "prose/record.hpp"
#include "prose/state.hpp"
#include "weir/collective/reduction.hpp"

namespace weir::models {

/// Buffers of one level of one head in a window. `head` points to the pieces.
template <class R>
struct level_buffers {
  buffer<R> saved;    ///< everything that the forward kernel writes for the backward one
  buffer<R> d_saved;  ///< gradients of key and value [64][32], of theta and alpha [64]
  memory_head<R> head;         ///< arguments of the kernels, as far as they stay the same
  runtime::footprint y;        ///< columns of the block's `y`
  runtime::footprint d_y;      ///< columns of `d_y` in the half that holds them
  runtime::footprint d_query;  ///< columns of the block's `d_stack`
};
/// Buffers that all levels of a head share in a window.
template <class R>
struct key_buffers {
  buffer<R> saved;             ///< everything that the `keys` kernel writes
  key_head<R> head;            ///< arguments of the kernels, as far as they stay the same
  runtime::footprint d_key;    ///< columns of the block's `d_stack`
  runtime::footprint d_value;  ///< columns of the block's `d_stack`
};
/// Buffers of one half of the second part of a block: half of the hidden units, or half
/// of the columns of `out`. A half reads only its own weights, so that each weight passes
/// through the caches once.
template <class R>
struct half_buffers {
  buffer<R> wide;         ///< `relu`, then `hidden`
  R* relu = nullptr;      ///< [64][hidden / 2]: the first layer, negative numbers as 0
  R* hidden = nullptr;    ///< [64][hidden / 2]: squares of `relu`
  buffer<R> out;          ///< [64][width]: summand of the block's output
  buffer<R> back;         ///< `d_hidden`, then `d_normed`
  R* d_hidden = nullptr;  ///< [64][hidden / 2]
  R* d_normed = nullptr;  ///< [64][width]: summand of the gradient of `normed2`
  buffer<R> d_y;          ///< [64][columns of `y` in this half]
};
/// Activations and gradients of one block in a window. The arrays that one task writes
/// lie in one buffer, side by side.
template <class R>
struct block_buffers {
  buffer<R> past;         ///< three rows before the window, then `u`, `z` and `inverse1`
  R* u = nullptr;         ///< [64][width]; rows -3 to -1 are those before the window
  R* z = nullptr;         ///< [64][width]
  R* inverse1 = nullptr;  ///< [64]: 1 / root mean square of the rows of `x`
  buffer<R> near;  ///< [64][`near`]: keys, values, gates, queries of the near levels
  buffer<R> far;   ///< [64][stack - `near`]: queries of the far levels
  std::vector<key_buffers<R>> heads;
  std::vector<std::vector<level_buffers<R>>> levels;  ///< [level][head]
  buffer<R> y;                                        ///< [64][levels * heads * 32]
  buffer<R> x1;                                       ///< [64][width]
  buffer<R> normed2;      ///< [64][width]: the norm of `x1`; then `inverse2`
  R* inverse2 = nullptr;  ///< [64]: 1 / root mean square of the rows of `x1`
  std::array<half_buffers<R>, 2> halves;
  buffer<R> d_x1;              ///< [64][width]; then [width], the gradient of `gain2`
  buffer<R> d_stack;           ///< [64][stack]: of keys, values, gates and queries
  buffer<R> d_z;               ///< [67][width]; the last 3 rows are of the next window
  runtime::footprint d_gates;  ///< columns of the gates in `d_stack`
  runtime::footprint d_near;   ///< columns of `near` in `d_stack`
  runtime::footprint d_far;    ///< columns of `far` in `d_stack`
  std::array<runtime::footprint, 2> x1_halves;   ///< columns of `x1`, by half
  std::array<runtime::footprint, 2> d_z_halves;  ///< columns of the 64 rows, by half
};
/// All buffers of a window.
template <class R>
struct window_buffers {
  std::vector<buffer<R>> x;    ///< [blocks + 1]: input of each block and of the head
  std::vector<buffer<R>> d_x;  ///< [blocks + 1]
  std::vector<block_buffers<R>> blocks;
  /// [64][`head_stride`]: in each row the norm of the head's input, its inverse, and the
  /// logits, which their gradients replace.
  buffer<R> head;
  matrix<R> normed, inverse, logits;  ///< columns of `head`
  buffer<R> d_gain;                   ///< [2][width]: of the final gain, by half
};

/// Gradients of a lane.
template <class R>
struct lane_gradients {
  buffer<R> all;  ///< of the parameters, in the layout of their flat array
  /// [block][level][head], each [2][32][32]: of memory and accumulator at the boundary
  /// between the window that is computed and the one after it.
  std::vector<std::vector<std::vector<buffer<R>>>> memories;
};

/// Sizes that are derived from the configuration. Columns are those of row-major arrays
/// with one row per token.
struct graph_sizes {
  /// Computes the sizes.
  explicit graph_sizes(const prose_config& c);
  int vocab, width, blocks, levels, heads, hidden, lanes;  ///< as in the configuration
  int inner;        ///< columns of one of key, value, query: heads * 32
  int gates;        ///< columns of the gates: 2 * heads * levels
  int stack;        ///< columns of keys, values, gates and queries together
  int outs;         ///< columns of `y`: levels * inner
  int key_columns;  ///< columns of keys, values and gates together
  int near_levels;  ///< levels whose queries are computed along with the keys
  int near;         ///< columns of keys, values, gates and the near levels' queries
  int half_hidden;  ///< hidden units of one half
  int first_outs;   ///< columns of `y` in the first half; whole heads
  int head_stride;  ///< columns of `window_buffers::head`
};

/// A part of a pulse's tasks: all of them, those up to the sum of the gradients over the
/// graph's lanes, or those that step by the sum.
enum class pulse_part : std::uint8_t { whole, gradients, step };

/// The model on one device: its state, its buffers and its tasks.
/// @threads{thread-compatible: belongs to the engine's submitter}
template <class R>
class graph {
 public:
  /// Allocates the state and the gradients. If the sum of the gradients over the lanes is
  /// one summand of a larger sum, `shared_sum` is the memory for it, in the layout of the
  /// parameters.
  /// @error{out_of_memory}
  [[nodiscard]] static result<std::unique_ptr<graph>> create(
      task_runner runner, const prose_config& config, const kernel_table<R>& kernels,
      const buffer<R>& shared_sum = {});

  /// Submits all tasks of a pulse. They point to the record, which must stay at its
  /// address until its last task has ended.
  [[nodiscard]] result<void> submit_pulse(pulse_record& record);
  /// Submits the first part of a pulse of a graph with a shared sum. In a Build pulse,
  /// the summand of this graph is complete when `record.last` has ended.
  [[nodiscard]] result<void> submit_gradients(pulse_record& record);
  /// Submits the second part of a Build pulse: the steps, by the sum that has replaced
  /// the summand.
  [[nodiscard]] result<void> submit_step(pulse_record& record);

  /// Returns the runner, by which one can wait for tasks.
  [[nodiscard]] task_runner& runner() { return runner_; }
  [[nodiscard]] model_state<R>& state() { return state_; }
  [[nodiscard]] const parameter_layout& layout() const { return layout_; }
  [[nodiscard]] const prose_config& config() const { return config_; }
  /// Returns the gradients of the last Build pulse, summed over the lanes, before
  /// clipping.
  [[nodiscard]] const R* gradients() const { return gradients_[0].all.data; }
  /// Returns the input of the head in the last pulse, [64][width], for one window of a
  /// lane's chunk.
  [[nodiscard]] const R* final_rows(std::size_t lane, std::size_t index) const {
    return windows_[slot_][lane][index]->x.back().data;
  }
  /// Returns the counters as of the pulses submitted so far. They decide which error
  /// buffers the tasks of the next pulse access.
  [[nodiscard]] step_counters& submitted_counters() { return counters_; }

 private:
  using window = window_buffers<R>;
  using block = block_buffers<R>;
  /// The place where a task works: a block in a window of a lane in a pulse.
  struct task_location {
    pulse_record* pulse;
    window_record* rows;
    window* w;  ///< buffers of the window
    int lane;
    int b;              ///< block
    std::size_t index;  ///< index of the window in the lane's chunk
  };
  /// Encodes everything that decides which tasks a pulse submits, and with which
  /// accesses.
  using pulse_shape = std::string;
  /// The recorded tasks of a pulse, which can be replayed for pulses of the same shape.
  struct recording {
    runtime::capture tasks;
    std::vector<runtime::task_id> results;  ///< relative to the first task
  };

  graph(task_runner runner, const prose_config& config, const kernel_table<R>& kernels,
        const collective::reducer& over_lanes, bool shares)
      : runner_(std::move(runner)),
        config_(config),
        layout_(config),
        n_(config),
        k_(&kernels),
        over_lanes_(over_lanes),
        shares_(shares) {}
  result<void> allocate_gradients(const buffer<R>& shared_sum);
  result<window*> window_at(int lane, std::size_t index);
  result<void> allocate_block(block& b);
  result<void> allocate_heads(block& b);
  result<void> allocate_levels(block& b);
  result<void> allocate_halves(block& b);
  void place_level(block& b, int l, int h, level_buffers<R>& buffers);
  result<level_buffers<R>> allocate_level(std::uint64_t frequency);
  result<void> allocate_window(window& w);

  // submit.hpp
  [[nodiscard]] pulse_shape shape_of(const pulse_record& record, pulse_part part) const;
  void choose_slot(const pulse_record& record);
  result<void> submit(pulse_record& record, pulse_part part);
  void submit_all(pulse_record& record, pulse_part part);
  result<void> submit_tasks(pulse_record& record, pulse_part part);
  result<void> replay(pulse_record& record, pulse_part part, const recording& known);
  void count_accumulated(const pulse_record& record);
  [[nodiscard]] static pulse_record& pulse_of(const runtime::task_context& context,
                                              pulse_record* submitted);

  // forward.hpp
  void forward(pulse_record& record, int lane);
  void embed(const task_location& s);
  void norm_conv(const task_location& s);
  void project(const task_location& s);
  void keys(const task_location& s, int h);
  void memory(const task_location& s, int l, int h);
  void run_norm_conv(const task_location& s);

  // mlp.hpp
  void out(const task_location& s, int half);
  void mlp(const task_location& s, int half);
  void mlp_backward(const task_location& s, int half);
  void out_backward(const task_location& s, int half);
  void run_out(const task_location& s, int half);
  void run_mlp(const task_location& s, int half);
  void run_mlp_backward(const task_location& s, int half);
  void run_out_backward(const task_location& s, int half);
  /// Adds the accesses to rows of the output of block `b`, which it has left as three
  /// summands.
  void reads_output(const task_location& s, int b, int row, int rows);
  /// Adds the three summands to the input of the next block.
  void sum_output(const task_location& s, int b, int row, int rows);

  // head.hpp
  void head(const task_location& s, int half);
  void score_pending(pulse_record& record, int lane);
  result<void> run_head(const task_location& s, int half);
  void note_likeliest(const task_location& s, int row, matrix<R> logits);
  void head_gradient(const task_location& s, int half);
  [[nodiscard]] bool leaves_pending(const task_location& s, int half) const;
  key_head<R> keys_of(const task_location& s, int h);
  memory_head<R> memory_of(const task_location& s, int l, int h);

  // backward.hpp
  void backward(pulse_record& record, int lane);
  void memory_backward(const task_location& s, int l, int h);
  void keys_backward(const task_location& s, int h);
  void stack_backward(const task_location& s, int half);
  void conv_backward(const task_location& s);
  void run_keys_backward(const task_location& s, int h);
  void gates_backward(block& b);
  void run_conv_backward(const task_location& s);

  // gradients.hpp
  void head_weights(const task_location& s);
  void mlp_weights(const task_location& s);
  void out_weights(const task_location& s);
  void near_weights(const task_location& s);
  void far_weights(const task_location& s);
  void embedding_weights(const task_location& s);
  void run_embedding_weights(const task_location& s);
  /// Returns whether gradients are added to those of the windows behind this one.
  [[nodiscard]] bool accumulates(const task_location& s) const {
    return !s.rows->ends_chunk;
  }
  /// Adds a^T b to the gradients of `count` parameters that lie one after another, or
  /// sets them in the chunk's last window. Computes their squares if they are then
  /// complete.
  void weight_product(const task_location& s, int parameter, int count, matrix<const R> a,
                      matrix<const R> b);
  void halves_product(const task_location& s, int parameter, const R* first,
                      const R* second, matrix<const R> b);
  void vector_gradient(const task_location& s, int parameter, const R* value);
  void note_squares(const task_location& s, int parameter, int count);
  [[nodiscard]] runtime::footprint gradient_part(int lane, int parameter,
                                                 int count = 1) const;
  [[nodiscard]] runtime::footprint squares_part(int parameter, int count = 1) const;
  [[nodiscard]] bool finishes(const task_location& s) const;

  // optimize.hpp
  void reduce(pulse_record& record);
  void hand_over();
  void measure();
  void clip(pulse_record& record);
  void step(const pulse_record& record);
  result<void> run_clip(pulse_record& record);
  void run_reduce(int group);
  void run_squares(int group);
  void run_step(int group, bool active, bool accumulated);
  [[nodiscard]] double rate_at(const pulse_record& record) const;

  /// Returns the footprint of the rows of one half.
  [[nodiscard]] static runtime::footprint half_of(const buffer<R>& b, int half) {
    const std::int64_t n = b.count / 2;
    return b.part(half * n, n);
  }
  [[nodiscard]] static half_buffers<R>& half_at(const task_location& s, int half) {
    return block_at(s).halves[static_cast<std::size_t>(half)];
  }
  [[nodiscard]] static matrix<R> rows_from(matrix<R> m, int row) {
    return {m.data + row * m.stride, m.stride};
  }
  [[nodiscard]] static matrix<const R> constant(matrix<R> m) {
    return {m.data, m.stride};
  }
  [[nodiscard]] matrix<R> rows_of(const buffer<R>& b, int row) const {
    return {b.data + row * n_.width, n_.width};
  }
  [[nodiscard]] const parameter_info& info(int parameter) const {
    return layout_[parameter];
  }
  /// Returns the elements of a parameter.
  [[nodiscard]] R* value(int parameter) {
    return state_.parameters.data + info(parameter).offset;
  }
  /// Returns the footprint of `count` parameters that lie one after another.
  [[nodiscard]] runtime::footprint values(int parameter, int count = 1) const;
  [[nodiscard]] R* gradient(int lane, int parameter) {
    return gradients_[static_cast<std::size_t>(lane)].all.data + info(parameter).offset;
  }
  [[nodiscard]] lane_context<R>& context(int lane) {
    return state_.lanes[static_cast<std::size_t>(lane)];
  }
  [[nodiscard]] block_context<R>& context(const task_location& s) {
    return context(s.lane).blocks[static_cast<std::size_t>(s.b)];
  }
  [[nodiscard]] const block_parameters& parameters(const task_location& s) const {
    return layout_.blocks[static_cast<std::size_t>(s.b)];
  }
  [[nodiscard]] static block& block_at(const task_location& s) {
    return s.w->blocks[static_cast<std::size_t>(s.b)];
  }
  /// Returns whether the pulse computes only some rows of the window.
  [[nodiscard]] static bool partial(const task_location& s) {
    return s.rows->first > 0 || s.rows->last < window_rows;
  }

  /// Tasks of the chain are those for which the next layer waits. They run before
  /// fillers, which are the gradients of weights and the steps: the chain has stages with
  /// a single task, in which the other workers would have nothing to do without fillers.
  enum class priority : bool { filler, chain };
  /// The part of a task that may run on any worker. Tasks of one half or of one head name
  /// their half or head as part: all tasks of a part go to one worker, as far as there
  /// are enough workers, so that most of what a task reads is in the cache of its core.
  static constexpr int shared_part = runtime::submit_options::anywhere;

  /// Submits a task with the accesses collected so far. The first failure is kept until
  /// the end of the pulse; after it nothing more is submitted. Returns 0 on failure.
  template <class Kernel>
  runtime::task_id task(const char* name, const Kernel& kernel,
                        priority p = priority::chain, int part = shared_part) {
    runtime::submit_options options;
    options.urgent = p == priority::chain;
    options.worker = static_cast<std::uint8_t>(part);
    auto id = failed_ ? result<runtime::task_id>(*failed_)
                      : runner_.submit(name, accesses_, kernel, options);
    accesses_.clear();
    if (!id) {
      failed_ = failed_ ? failed_ : std::make_shared<error>(id.error());
      return 0;
    }
    first_ = first_ == 0 ? *id : first_;
    last_ = *id;
    return *id;
  }

  /// Submits a task that works at a spot. The kernel gets the spot in the pulse that is
  /// running: in a replay that is another pulse than the one whose tasks were recorded.
  template <class Kernel>
  runtime::task_id task(const char* name, const task_location& s, const Kernel& kernel,
                        priority p = priority::chain, int part = shared_part) {
    const auto in_pulse = [s, kernel](const runtime::task_context& context) {
      task_location here = s;
      here.pulse = &pulse_of(context, s.pulse);
      here.rows = &here.pulse->lanes[static_cast<std::size_t>(s.lane)].windows[s.index];
      return kernel(here);
    };
    return task(name, in_pulse, p, part);
  }
  /// Submits a task of the chain that calls `Run` for one half.
  template <void (graph::*Run)(const task_location&, int)>
  void half_task(const char* name, const task_location& s, int half) {
    task(
        name, s,
        [this, half](const task_location& here) -> result<void> {
          (this->*Run)(here, half);
          return {};
        },
        priority::chain, half);
  }

  task_runner runner_;
  prose_config config_;
  parameter_layout layout_;
  graph_sizes n_;
  const kernel_table<R>* k_;
  collective::reducer over_lanes_;
  bool shares_;  ///< the sum over the lanes is a summand of a larger sum
  model_state<R> state_;
  std::vector<lane_gradients<R>> gradients_;  ///< by lane
  buffer<double> squares_;     ///< by parameter: sum of squares of its gradient
  buffer<step_plan<R>> plan_;  ///< by level
  step_counters counters_;     ///< as of the pulses submitted so far
  /// [slot][lane][window]; a window is allocated when it is first needed.
  std::vector<std::vector<std::vector<std::unique_ptr<window>>>> windows_;
  std::uint64_t slot_ = 0;  ///< set of windows that the pulse being submitted uses
  access_list accesses_;    ///< of the task that is submitted next
  std::map<pulse_shape, recording> recordings_;
  std::shared_ptr<error> failed_;  ///< first failure of the pulse being submitted
  runtime::task_id first_ = 0;     ///< first task of the pulse being submitted
  runtime::task_id last_ = 0;      ///< last task of the pulse being submitted
};

}  // namespace weir::models
