// SPDX-License-Identifier: Apache-2.0
/// @file
/// The model's tasks: what each reads, writes and does. One object per model;
/// `submit_pulse` is the whole graph.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gemm.hpp"
#include "prose/buffers.hpp"
#include "prose/kernels/table.hpp"
#include "prose/layout.hpp"
#include "prose/record.hpp"
#include "prose/state.hpp"
#include "weir/collective/reduction.hpp"

namespace weir::models {

/// Buffers of one level of one head in a window; each is one array cut into pieces.
template <class R>
struct level_buffers {
  buffer<R> saved;    ///< forward: all that the kernel keeps
  buffer<R> d_saved;  ///< backward: key and value [64][32], then theta and alpha [64]
  memory_head<R> head;
  runtime::footprint y;        ///< its columns of `y`
  runtime::footprint d_y;      ///< of `back`
  runtime::footprint d_query;  ///< of `d_stack`
};
template <class R>
struct key_buffers {
  buffer<R> saved;
  key_head<R> head;
  runtime::footprint d_key;  ///< its columns of `d_stack`
  runtime::footprint d_value;
};
/// Half of the two-layer part: hidden units, or columns of `out`. A half reads only its
/// own weights, so that each weight passes through the caches once.
template <class R>
struct half_buffers {
  buffer<R> wide;  ///< [64][hidden / 2] relu, then hidden
  R* relu = nullptr;
  R* hidden = nullptr;
  buffer<R> out;   ///< [64][width]: what the half adds to the block's output
  buffer<R> back;  ///< [64][hidden / 2] gradient of hidden, [64][width] of normed
  R* d_hidden = nullptr;
  R* d_normed = nullptr;
  buffer<R> d_y;  ///< [64][`first_outs` or the rest]
};
/// Activations of one block in a window. What one task writes lies in one array, side by
/// side.
template <class R>
struct block_buffers {
  buffer<R>
      past;  ///< [67][width] u, 3 rows of the past first; [64][width] z; [64] inverse
  R* u = nullptr;  ///< row 0 of the window
  R* z = nullptr;
  R* inverse1 = nullptr;
  buffer<R> near;  ///< [64][`near`]: keys, values, gates, queries of the first levels
  buffer<R> far;   ///< [64][stack - `near`]: queries of the other levels
  std::vector<key_buffers<R>> heads;
  std::vector<std::vector<level_buffers<R>>> levels;  ///< [level][head]
  buffer<R> y;                                        ///< [64][levels * heads * 32]
  buffer<R> x1;                                       ///< [64][width]
  buffer<R> normed2;                                  ///< [64][width], [64] inverse
  R* inverse2 = nullptr;
  std::array<half_buffers<R>, 2> halves;
  buffer<R> d_x1;              ///< [64][width], [width] gradient of the gain
  buffer<R> d_stack;           ///< [64][stack]: keys, values, gates, queries
  buffer<R> d_z;               ///< [67][width]: 3 rows of the next window last
  runtime::footprint d_gates;  ///< columns of `d_stack`
  runtime::footprint d_near;   ///< of `d_stack`, as `near` and `far`
  runtime::footprint d_far;
  std::array<runtime::footprint, 2> x1_halves;   ///< columns
  std::array<runtime::footprint, 2> d_z_halves;  ///< columns of the window's rows
};
template <class R>
struct window_buffers {
  std::vector<buffer<R>> x;    ///< [blocks + 1], input of each block and of the head
  std::vector<buffer<R>> d_x;  ///< likewise
  std::vector<block_buffers<R>> blocks;
  buffer<R> head;  ///< [64][`head_stride`]: normed, inverse, logits (then their gradient)
  matrix<R> normed, inverse, logits;
  buffer<R> d_gain;  ///< [2][width], by half
};

/// Gradients of a lane.
template <class R>
struct lane_gradients {
  buffer<R> all;  ///< flat, as the parameters
  /// [block][level][head], [2][32][32]: gradients of memory and accumulator between
  /// windows.
  std::vector<std::vector<std::vector<buffer<R>>>> memories;
};

/// Widths that tasks use over and over.
struct graph_sizes {
  explicit graph_sizes(const prose_config& c);
  int vocab, width, blocks, levels, heads, hidden, lanes;
  int inner;        ///< heads * 32
  int gates;        ///< 2 * heads * levels
  int stack;        ///< rows of key, value, gates and queries together
  int outs;         ///< levels * inner
  int key_columns;  ///< columns of keys, values and gates together
  int near_levels;  ///< levels whose queries are computed along with the keys
  int near;         ///< columns of keys, values, gates and those queries
  int half_hidden;
  int first_outs;  ///< columns of `y` in the first half: whole heads
  int head_stride;
};

/// Which tasks of a pulse: all of them, or those up to the sum over the graph's lanes, or
/// those that step by the sum.
enum class pulse_part : std::uint8_t { whole, gradients, step };

template <class R>
class graph {
 public:
  /// `shared_sum` is where the gradients' sum over the lanes goes, flat as the
  /// parameters, if it is one part of a larger sum.
  [[nodiscard]] static result<std::unique_ptr<graph>> create(
      task_place place, const prose_config& config, const kernel_table<R>& kernels,
      const buffer<R>& shared_sum = {});

  /// Submits every task of the pulse. The record stays where it is until its last task
  /// has ended.
  [[nodiscard]] result<void> submit_pulse(pulse_record& record);
  /// The same in two calls, for a graph with a shared sum. Of a Build pulse, the last
  /// task of the first call ends when this graph's part of the sum is there; the second
  /// call steps by what stands in its place by then.
  [[nodiscard]] result<void> submit_gradients(pulse_record& record);
  [[nodiscard]] result<void> submit_step(pulse_record& record);

  [[nodiscard]] task_place& place() { return place_; }
  [[nodiscard]] model_state<R>& state() { return state_; }
  [[nodiscard]] const parameter_layout& layout() const { return layout_; }
  [[nodiscard]] const prose_config& config() const { return config_; }
  /// Gradients of the last Build pulse, summed over lanes, before clipping.
  [[nodiscard]] const R* gradients() const { return gradients_[0].all.p; }
  /// Rows [64][width] that went into the head in the last pulse, of a lane's window of
  /// the chunk.
  [[nodiscard]] const R* final_rows(std::size_t lane, std::size_t index) const {
    return windows_[slot_][lane][index]->x.back().p;
  }
  /// Counters as of the pulses submitted so far: decides which error buffers a pulse
  /// touches.
  [[nodiscard]] step_counters& submitted_counters() { return counters_; }

 private:
  using window = window_buffers<R>;
  using block = block_buffers<R>;
  /// Where a task works.
  struct spot {
    pulse_record* pulse;
    window_record* rows;
    window* w;
    int lane;
    int b;
    std::size_t index;  ///< of the window in the lane's chunk
  };
  /// Everything that decides which tasks a pulse submits, and with which accesses.
  using pulse_shape = std::string;
  /// A pulse's tasks, to be submitted again without look-ups.
  struct recording {
    runtime::capture tasks;
    std::vector<runtime::task_id> results;  ///< relative to the first task
  };

  graph(task_place place, const prose_config& config, const kernel_table<R>& kernels,
        const collective::reducer& over_lanes, bool shares)
      : place_(std::move(place)),
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
  void place_level(block& b, int l, int h, level_buffers<R>& one);
  result<level_buffers<R>> allocate_level(std::uint64_t frequency);
  result<void> allocate_window(window& w);

  // submit.hpp
  [[nodiscard]] pulse_shape shape_of(const pulse_record& record, pulse_part part) const;
  void choose_slot(const pulse_record& record);
  result<void> submit(pulse_record& record, pulse_part part);
  result<void> submit_tasks(pulse_record& record, pulse_part part);
  result<void> replay(pulse_record& record, pulse_part part, const recording& known);
  void count_accumulated(const pulse_record& record);
  [[nodiscard]] static pulse_record& pulse_of(const runtime::task_context& context,
                                              pulse_record* submitted);

  // forward.hpp
  void forward(pulse_record& record, int lane);
  void embed(const spot& s);
  void norm_conv(const spot& s);
  void project(const spot& s);
  void keys(const spot& s, int h);
  void memory(const spot& s, int l, int h);
  void run_norm_conv(const spot& s);

  // mlp.hpp
  void out(const spot& s, int half);
  void mlp(const spot& s, int half);
  void mlp_backward(const spot& s, int half);
  void out_backward(const spot& s, int half);
  void run_out(const spot& s, int half);
  void run_mlp(const spot& s, int half);
  void run_mlp_backward(const spot& s, int half);
  void run_out_backward(const spot& s, int half);
  /// Access to rows of the output of block `b`, which it left as a sum of three; and
  /// the sum.
  void reads_output(const spot& s, int b, int row, int rows);
  void sum_output(const spot& s, int b, int row, int rows);

  // head.hpp
  void head(const spot& s, int half);
  void score_pending(pulse_record& record, int lane);
  result<void> run_head(const spot& s, int half);
  void head_gradient(const spot& s, int half);
  [[nodiscard]] bool leaves_pending(const spot& s, int half) const;
  key_head<R> keys_of(const spot& s, int h);
  memory_head<R> memory_of(const spot& s, int l, int h);

  // backward.hpp
  void backward(pulse_record& record, int lane);
  void memory_backward(const spot& s, int l, int h);
  void keys_backward(const spot& s, int h);
  void stack_backward(const spot& s, int half);
  void conv_backward(const spot& s);
  void run_keys_backward(const spot& s, int h);
  void gates_backward(block& b);
  void run_conv_backward(const spot& s);

  // gradients.hpp
  void head_weights(const spot& s);
  void mlp_weights(const spot& s);
  void out_weights(const spot& s);
  void near_weights(const spot& s);
  void far_weights(const spot& s);
  void embedding_weights(const spot& s);
  void run_embedding_weights(const spot& s);
  [[nodiscard]] bool accumulates(const spot& s) const { return !s.rows->ends_chunk; }
  /// gradient[parameter .. parameter + count) (+)= op(a)^T b, and their squares if this
  /// is the last word on them.
  void weight_product(const spot& s, int parameter, int count, matrix<const R> a,
                      matrix<const R> b);
  void halves_product(const spot& s, int parameter, const R* first, const R* second,
                      matrix<const R> b);
  void vector_gradient(const spot& s, int parameter, const R* value);
  void note_squares(const spot& s, int parameter, int count);
  [[nodiscard]] runtime::footprint gradient_part(int lane, int parameter,
                                                 int count = 1) const;
  [[nodiscard]] runtime::footprint squares_part(int parameter, int count = 1) const;
  [[nodiscard]] bool finishes(const spot& s) const;

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

  /// Rows of one half.
  [[nodiscard]] static runtime::footprint half_of(const buffer<R>& b, int half) {
    const std::int64_t n = b.count / 2;
    return b.part(half * n, n);
  }
  [[nodiscard]] static half_buffers<R>& half_at(const spot& s, int half) {
    return at(s).halves[static_cast<std::size_t>(half)];
  }
  [[nodiscard]] static matrix<R> rows_from(matrix<R> m, int row) {
    return {m.at + row * m.step, m.step};
  }
  [[nodiscard]] static matrix<const R> constant(matrix<R> m) { return {m.at, m.step}; }
  [[nodiscard]] matrix<R> rows_of(const buffer<R>& b, int row) const {
    return {b.p + row * n_.width, n_.width};
  }
  [[nodiscard]] const parameter_info& info(int parameter) const {
    return layout_[parameter];
  }
  [[nodiscard]] R* value(int parameter) {
    return state_.parameters.p + info(parameter).offset;
  }
  [[nodiscard]] runtime::footprint values(int parameter, int count = 1) const;
  [[nodiscard]] R* gradient(int lane, int parameter) {
    return gradients_[static_cast<std::size_t>(lane)].all.p + info(parameter).offset;
  }
  [[nodiscard]] lane_context<R>& context(int lane) {
    return state_.lanes[static_cast<std::size_t>(lane)];
  }
  [[nodiscard]] block_context<R>& context(const spot& s) {
    return context(s.lane).blocks[static_cast<std::size_t>(s.b)];
  }
  [[nodiscard]] const block_parameters& parameters(const spot& s) const {
    return layout_.blocks[static_cast<std::size_t>(s.b)];
  }
  [[nodiscard]] static block& at(const spot& s) {
    return s.w->blocks[static_cast<std::size_t>(s.b)];
  }
  [[nodiscard]] static bool partial(const spot& s) {
    return s.rows->first > 0 || s.rows->last < window_rows;
  }

  /// What the next layer waits for goes before gradients of weights and steps, which fill
  /// the gaps: a pulse's chain of layers has stages of one task.
  enum class turn : bool { filler, chain };
  /// Halves and heads stay with one worker, as far as there is one for each, so that most
  /// of what a task reads is in its core's cache.
  static constexpr int shared_part = runtime::submit_options::anywhere;

  /// Submits, keeping the first failure for the end of the pulse.
  template <class Kernel>
  runtime::task_id task(const char* name, const Kernel& kernel, turn t = turn::chain,
                        int part = shared_part) {
    runtime::submit_options options;
    options.urgent = t == turn::chain;
    options.worker = static_cast<std::uint8_t>(part);
    auto id = failed_ ? result<runtime::task_id>(*failed_)
                      : place_.submit(name, accesses_, kernel, options);
    accesses_.clear();
    if (!id) {
      failed_ = failed_ ? failed_ : std::make_shared<error>(id.error());
      return 0;
    }
    first_ = first_ == 0 ? *id : first_;
    last_ = *id;
    return *id;
  }

  /// As above; the kernel gets the spot in the pulse that is running, which need not be
  /// the one that was submitted task by task.
  template <class Kernel>
  runtime::task_id task(const char* name, const spot& s, const Kernel& kernel,
                        turn t = turn::chain, int part = shared_part) {
    const auto in_pulse = [s, kernel](const runtime::task_context& context) {
      spot here = s;
      here.pulse = &pulse_of(context, s.pulse);
      here.rows = &here.pulse->lanes[static_cast<std::size_t>(s.lane)].windows[s.index];
      return kernel(here);
    };
    return task(name, in_pulse, t, part);
  }
  /// A task of the chain that calls `Run` for one half.
  template <void (graph::*Run)(const spot&, int)>
  void half_task(const char* name, const spot& s, int half) {
    task(
        name, s,
        [this, half](const spot& here) -> result<void> {
          (this->*Run)(here, half);
          return {};
        },
        turn::chain, half);
  }

  task_place place_;
  prose_config config_;
  parameter_layout layout_;
  graph_sizes n_;
  const kernel_table<R>* k_;
  collective::reducer over_lanes_;
  bool shares_;  ///< the sum over the lanes is a part of a larger one
  model_state<R> state_;
  std::vector<lane_gradients<R>> gradients_;
  buffer<double> squares_;     ///< per parameter
  buffer<step_plan<R>> plan_;  ///< per level
  step_counters counters_;
  /// [slot][lane][window], made when first needed.
  std::vector<std::vector<std::vector<std::unique_ptr<window>>>> windows_;
  std::uint64_t slot_ = 0;
  access_list accesses_;
  std::map<pulse_shape, recording> recordings_;
  std::shared_ptr<error> failed_;
  runtime::task_id first_ = 0;  ///< of the pulse being submitted
  runtime::task_id last_ = 0;
};

}  // namespace weir::models
