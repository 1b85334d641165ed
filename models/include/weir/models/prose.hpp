// SPDX-License-Identifier: Apache-2.0
/// @file
/// The prose model: a byte-level language model whose blocks have delta memories of
/// several frequencies. It runs as tasks of an engine that are ordered by their accesses.
///
/// Terms: the *state* is everything that lasts from pulse to pulse. It consists of named
/// *regions*. A snapshot writes all regions one after another into one run of bytes, the
/// *image*, which consists of *sections* that a checkpoint stores. A *level* is a set of
/// memories that fire with the same frequency. A prediction is *pending* if its row has
/// no known next token yet.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"
#include "weir/base/hash.hpp"
#include "weir/base/philox.hpp"
#include "weir/models/pulse.hpp"
#include "weir/runtime/engine.hpp"

namespace weir {
template <class Owner>
class settings_table;
}

namespace weir::models {

/// Version of the equations by which the model is computed. It is stored with every state
/// and changes whenever the same state and text would give other numbers than before.
/// In version 2 a firing of a memory steps and then decays, with rates of at most 1.
/// @source{docs/decisions/415-stored-models-name-their-equations.md}
inline constexpr int prose_equations = 2;

/// Shape, schedule and seed of a model. They are fixed when a run begins and stored with
/// it. `prose_settings` gives the range of each member.
struct prose_config {
  std::uint32_t vocab =
      256;  ///< number of token ids; 257 if the source emits end-of-text
  std::uint32_t width = 128;   ///< features of a row
  std::uint32_t blocks = 2;    ///< blocks, one after another
  std::uint32_t heads = 2;     ///< memories per level, of 32 x 32 elements each
  std::uint32_t hidden = 256;  ///< hidden units of a block's two-layer part
  /// Tokens per firing, by level; the fastest level first.
  std::vector<std::uint64_t> frequencies = {1, 8, 64, 512};
  double rate = 1.5e-3;          ///< step size after the warm-up
  std::uint32_t warm_up = 100;   ///< Build pulses over which the step size rises
  double final_rate = 0.1;       ///< step size at the end, as a fraction of `rate`
  double beta1 = 0.9;            ///< AdamW: decay of the first moment
  double beta2 = 0.99;           ///< AdamW: decay of the second moment
  double epsilon = 1e-8;         ///< AdamW: added to the root of the second moment
  double decay = 0.01;           ///< AdamW: weight decay of matrices
  double clip = 1.0;             ///< largest norm of the gradient of a pulse
  std::uint32_t lanes = 1;       ///< lanes of the context stream
  std::uint32_t max_chunk = 64;  ///< largest number of tokens of a lane in a pulse
  std::uint64_t seed = 0;        ///< seed of the initial parameters
};

/// Returns the settings of a prose model, with the ranges that `prose::create` accepts.
/// Include "weir/base/settings.hpp" to use the table.
/// @threads{safe to call concurrently}
[[nodiscard]] const settings_table<prose_config>& prose_settings();

/// Checks a configuration as `prose::create` does, without building a model.
/// @error{invalid_argument, names the first setting that is out of range, with its range}
/// @threads{safe to call concurrently}
[[nodiscard]] result<void> check_config(const prose_config& config);

/// Kind of a region of the state. A checkpoint has one section for each kind, and for
/// `context` one for each lane.
enum class region_kind : std::uint8_t {
  parameter,
  moment,        ///< moments of AdamW
  error_buffer,  ///< sums of gradients of levels that did not step yet
  counter,       ///< counters of the optimizer
  context        ///< memories and open window of a lane
};
/// Returns the name of a kind, e.g. "error_buffer".
/// @threads{pure}
[[nodiscard]] std::string_view name_of(region_kind kind) noexcept;

/// A region of the state.
struct named_region {
  std::string name;  ///< e.g. "block0.level2.query", "lane0.block1.level3.head0.memory"
  /// Kind of the region.
  region_kind kind = region_kind::parameter;
  std::uint32_t lane = 0;  ///< 0 unless the kind is `context`
  runtime::tensor data;    ///< the memory of the model itself, not a copy
};

/// A section of the image: a run of regions of one kind and lane.
struct state_section {
  /// Kind of all regions in the section.
  region_kind kind = region_kind::parameter;
  std::uint32_t lane = 0;    ///< 0 unless the kind is `context`
  std::uint64_t offset = 0;  ///< place in the image, in bytes
  std::uint64_t bytes = 0;   ///< length in bytes
};

/// Names a submitted pulse until it is finished.
struct pulse_ticket {
  /// Number of the submitted pulse.
  std::uint64_t serial = 0;
};

/// Names a submitted snapshot until it is finished.
struct snapshot_ticket {
  /// Number of the submitted snapshot.
  std::uint64_t serial = 0;
};

/// The Frobenius norm of a memory, and the place of that memory in the model.
struct memory_norm {
  double norm = 0;  ///< NaN if the memory holds a NaN
  /// Lane whose context holds the memory.
  std::uint32_t lane = 0;
  /// Block of the model.
  std::uint32_t block = 0;
  /// Level within the block.
  std::uint32_t level = 0;
  /// Head within the level.
  std::uint32_t head = 0;
};

/// The predictions of a lane in a pulse that keeps them.
struct lane_predictions {
  /// Id with the largest logit behind each token of the chunk; the lowest one among
  /// equals.
  std::vector<std::uint32_t> likeliest;
  /// Negative log-likelihood, in nats, of the token that follows each token of the chunk;
  /// NaN if that token is not known yet.
  std::vector<float> nats;
  /// Negative log-likelihood, in nats, of the first token of the chunk, if an earlier
  /// pulse left its prediction pending.
  std::optional<float> pending_nats;
};

/// The result of a pulse.
struct pulse_result {
  std::uint64_t scored = 0;  ///< number of tokens that were scored
  /// Sum of their negative log-likelihoods in units of 2^-32 nat. It is an integer so
  /// that sums over lanes and pulses do not depend on their order.
  std::uint64_t nats_q32 = 0;
  double gradient_norm = 0;  ///< norm before clipping; 0 outside of the Build phase
  /// Predictions of the lanes, in their order; empty unless the pulse keeps them.
  std::vector<lane_predictions> predictions;
  /// Returns the sum of the negative log-likelihoods in nats.
  [[nodiscard]] double nats() const noexcept {
    return static_cast<double>(nats_q32) * 0x1p-32;
  }
};

/// Computes the digest of named tensors that `prose::parameter_hash` returns.
///
/// The digest is XXH3-64 over the tensors in the order in which they are added. Each
/// tensor contributes its name, a zero byte, the number of its dimensions and its extents
/// as little-endian u64, and its bytes.
/// @threads{thread-compatible}
class parameter_digest {
 public:
  /// Adds a tensor.
  void add(std::string_view name, std::span<const std::int64_t> shape, bytes_view bytes);
  /// Returns the digest of the tensors added so far.
  [[nodiscard]] std::uint64_t value() const noexcept { return hash_.digest(); }

 private:
  xxh3_stream hash_;
};

/// Returns how many neighbouring lanes a device has if `devices` devices share `lanes`.
///
/// The number is a power of two; the last device may have fewer lanes. A sum over the
/// lanes of each device and then over the devices is therefore a sum over all lanes along
/// the tree by which one device adds them.
/// @error{invalid_argument, no such number gives lanes to exactly `devices` devices; the
/// message lists the numbers of devices that are possible}
/// @threads{pure}
[[nodiscard]] result<std::uint32_t> lanes_per_device(std::uint32_t lanes,
                                                     std::uint32_t devices);

/// The model of one run: parameters, moments, error buffers, counters and one context per
/// lane.
///
/// `submit` turns a pulse into tasks. They are ordered by the regions that they access
/// and by nothing else, so several pulses may be in flight. Rows are computed in windows
/// of 64 tokens that are aligned to the position of the lane. The bits of a row therefore
/// depend on its window and on earlier rows only, and not on the chunks, the number of
/// workers or the number of devices.
///
/// Functions that wait for all tasks return the error of a task that failed, besides the
/// errors that are listed.
/// @threads{thread-compatible: belongs to the engine's submitter}
/// @source{Context stream design, section 3}
class prose {
 public:
  /// Allocates a model and initialises its parameters from the seed; contexts are empty.
  ///
  /// Each device has a replica of the parameters and computes a run of lanes; an
  /// all-reduce at determinism level 1 adds their gradients. The state is the same for
  /// every number of devices.
  /// @param engine  Runs the tasks of the model; must outlive it.
  /// @param config  Shape, schedule and seed.
  /// @param kernels  "auto", or one of `instruction_sets_here`. The dense products are
  /// those of a library and do not depend on it.
  /// @param devices  Number of devices that share the lanes.
  /// @error{invalid_argument, a setting is outside of its range in `prose_settings`}
  /// @error{invalid_argument, `lanes_per_device` refuses the number of devices}
  /// @error{invalid_argument, the processor does not have the instruction set}
  /// @error{out_of_memory}
  [[nodiscard]] static result<std::unique_ptr<prose>> create(
      runtime::engine& engine, const prose_config& config,
      std::string_view kernels = "auto", std::uint32_t devices = 1);
  /// Waits for all tasks of the model, because they use its memory.
  ~prose();
  prose(const prose&) = delete;
  prose& operator=(const prose&) = delete;

  /// Input of one lane in a pulse. `submit` copies the tokens.
  struct lane_input {
    std::span<const std::uint32_t> tokens;   ///< at most `max_chunk`; may be empty
    std::optional<std::uint32_t> lookahead;  ///< token behind the last one, if known
    std::uint64_t position = 0;              ///< must equal `prose::position` of the lane
  };

  /// Largest number of pulses that are submitted and not finished.
  static constexpr std::uint64_t max_in_flight = 8;

  /// Submits all tasks of a pulse.
  ///
  /// If the last row of a lane has no known next token, its prediction stays pending. A
  /// later pulse scores it by the first token that follows; the model does not learn from
  /// it.
  /// @param p  The pulse; its tasks see this value.
  /// @param lanes  One input per lane, in the order of the lanes. At least one must have
  /// tokens.
  /// @error{invalid_argument, a token is not below `vocab`; a lane has too many tokens or
  /// another position; the number of lanes is wrong; no lane has tokens; `max_in_flight`
  /// pulses are not finished}
  [[nodiscard]] result<pulse_ticket> submit(const pulse& p,
                                            std::span<const lane_input> lanes);
  /// Waits for the results of a pulse. Tickets may be finished in any order, each once.
  /// Also returns the error of a task that failed, e.g. `kernel_failed`.
  /// @error{not_found, the ticket is not in flight}
  [[nodiscard]] result<pulse_result> finish(pulse_ticket ticket);
  /// Returns true if `finish` would not wait.
  [[nodiscard]] bool ended(pulse_ticket ticket) const noexcept;
  /// The numbers of a pulse's tasks, which follow each other.
  struct task_range {
    runtime::task_id first = 0;  ///< number of the first task
    runtime::task_id last = 0;   ///< number of the last task
  };
  /// Returns the tasks of a pulse. `finish` waits only for those with results.
  /// @pre The pulse is not finished.
  [[nodiscard]] task_range tasks(pulse_ticket ticket) const noexcept;

  /// Returns all regions in the order of the image: parameters, moments, error buffers,
  /// counters, and contexts by lane.
  [[nodiscard]] const std::vector<named_region>& regions() const noexcept;
  /// Returns the sections of the image, in its order.
  [[nodiscard]] const std::vector<state_section>& sections() const noexcept;
  /// Returns the length of the image in bytes.
  [[nodiscard]] std::uint64_t state_bytes() const noexcept;
  /// Submits tasks that copy the state, as of the pulses submitted so far, to an image.
  ///
  /// Later pulses may run at the same time; a task of theirs waits only if it overwrites
  /// a region that is not copied yet. The model keeps `image` alive until the snapshot is
  /// finished or the model is destroyed; the destructor waits for the tasks.
  /// @param image  Destination, `state_bytes()` long.
  /// @error{invalid_argument, `image` is a null pointer or has another length}
  [[nodiscard]] result<snapshot_ticket> submit_snapshot(
      std::shared_ptr<byte_vector> image);
  /// Submits tasks that copy each section of the state, as of the pulses submitted so
  /// far, to memory of the caller, who keeps it until the returned tasks have ended. The
  /// model must not be destroyed before.
  /// @param to  Destination of each of `sections()`, of the same length.
  /// @error{invalid_argument, there are more or fewer destinations, or one of another
  /// length; or the engine refuses a task, and those before it run}
  [[nodiscard]] result<std::vector<runtime::task_id>> submit_copies(
      std::span<const mutable_bytes> to);
  /// Waits for the copies and releases the image. Tickets may be finished in any order,
  /// each once. Also returns the error of a task that failed.
  /// @error{not_found, the ticket is not in flight}
  [[nodiscard]] result<void> finish(snapshot_ticket ticket);
  /// Returns true if `finish` would not wait.
  [[nodiscard]] bool ended(snapshot_ticket ticket) const noexcept;
  /// Waits for all tasks, then replaces the regions of one section.
  /// @param lane  0 unless the kind is `context`.
  /// @error{config_mismatch, the model has no such section, or it has another length}
  [[nodiscard]] result<void> restore(region_kind kind, std::uint32_t lane,
                                     bytes_view bytes);

  /// Waits for all tasks, then returns the digest of all parameters.
  /// @error{kernel_failed, a task has failed}
  [[nodiscard]] result<std::uint64_t> parameter_hash();
  /// Waits for all tasks, then returns the digest of the contexts of all lanes: memories,
  /// accumulators, rows before the convolution, rows of the open window, and positions.
  /// Pending predictions do not count.
  /// @error{kernel_failed, a task has failed}
  [[nodiscard]] result<std::uint64_t> context_hash();
  /// Waits for all tasks, then returns the memory with the largest Frobenius norm. Among
  /// equals it is the first in the order of lanes, blocks, levels and heads. The norm of
  /// a memory has a bound that holds for every text.
  /// @error{kernel_failed, a task has failed}
  /// @source{docs/decisions/414-context-memory-update-is-bounded.md}
  [[nodiscard]] result<memory_norm> largest_memory();
  /// Waits for all tasks, then returns the digest of all bytes of the image.
  /// @error{kernel_failed, a task has failed}
  [[nodiscard]] result<std::uint64_t> state_hash();
  /// Returns the digest of names, kinds and shapes of all regions. Two models with equal
  /// digests can exchange images.
  [[nodiscard]] std::uint64_t layout_hash() const noexcept;

  /// Waits for all tasks, then checks that the replicas of all devices are equal.
  /// @error{determinism_violation, they differ, which only a write from outside of the
  /// model can cause}
  [[nodiscard]] result<void> check_replicas();

  /// Waits for all tasks, then empties the memories, the open window and the pending
  /// prediction of a lane. Its position stays.
  /// @error{lane_mismatch, there is no such lane}
  [[nodiscard]] result<void> reset_context(std::uint32_t lane);
  /// Returns the position of a lane after the pulses submitted so far, in tokens; 0 if
  /// there is no such lane.
  [[nodiscard]] std::uint64_t position(std::uint32_t lane) const noexcept;
  /// Waits for all tasks, then empties the context of a lane and sets its position.
  /// @error{lane_mismatch, there is no such lane}
  [[nodiscard]] result<void> start_context(std::uint32_t lane, std::uint64_t position);

  /// Returns a parameter by its name.
  /// @returns A view of the model's memory, which may only be read while no task runs.
  /// @shape{[rows, columns] or [n], fp32, row-major}
  /// @error{unknown_key, no such name; the message names the nearest}
  [[nodiscard]] result<runtime::tensor> parameter(std::string_view name) const;
  /// Waits for all tasks, then replaces a parameter.
  /// @error{unknown_key, no such name; the message names the nearest}
  /// @error{config_mismatch, the parameter has another shape}
  [[nodiscard]] result<void> load_parameter(std::string_view name,
                                            std::span<const std::int64_t> shape,
                                            bytes_view bytes);
  /// Returns the number of parameters, i.e. of their elements.
  [[nodiscard]] std::uint64_t parameter_count() const noexcept;

  /// Waits for all tasks, then returns the logits of a lane's pending prediction.
  /// @shape{[vocab]}
  /// @error{not_found, there is no such lane, or no prediction of it is pending}
  [[nodiscard]] result<std::vector<float>> pending_logits(std::uint32_t lane);

  /// Returns library, version and instruction set of the dense products. Equal bits are
  /// promised only between models whose kernel sets are equal.
  [[nodiscard]] const std::string& kernel_set() const noexcept;
  /// Returns the instruction set of the model's own kernels, one of `instruction_sets`,
  /// which changes no bit.
  [[nodiscard]] std::string_view instruction_set() const noexcept;
  /// Returns the number of floating point operations of the dense products of a pulse in
  /// which one lane has `tokens` rows.
  [[nodiscard]] std::uint64_t product_flops(std::uint64_t tokens,
                                            pulse_phase phase) const noexcept;
  /// Returns the configuration of the model.
  [[nodiscard]] const prose_config& config() const noexcept;

 private:
  struct impl;
  explicit prose(std::unique_ptr<impl> state);
  std::unique_ptr<impl> impl_;
};

/// Draws a token from a distribution that is given by logits.
/// @param logits  One for each token id.
/// @param temperature  Divides the logits. 0 and below, or NaN: the token with the
/// largest logit, and among equals the one with the lowest id.
/// @param random  Source of random numbers; exactly the number at `index` is used.
/// @param index  Number of the draw.
/// @returns The id of a token.
/// @threads{pure}
[[nodiscard]] std::uint32_t sample(std::span<const float> logits, float temperature,
                                   const philox& random, std::uint64_t index) noexcept;

}  // namespace weir::models
