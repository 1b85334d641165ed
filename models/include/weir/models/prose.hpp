// SPDX-License-Identifier: Apache-2.0
/// @file
/// The prose model: a byte-level language model with delta memories of several
/// frequencies per block, as tasks over regions of an engine.
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

/// Number of the equations that the model is computed by. It changes whenever the same
/// state and the same text give other numbers than before, and is stored beside every
/// state. 2: a firing of a memory steps, then decays, with rates of at most 1.
/// @source{docs/decisions/415-stored-models-name-their-equations.md}
inline constexpr int prose_equations = 2;

/// Shape, schedule and seed of a model: fixed when a run begins, and stored with it.
/// `prose_settings` says what each member takes.
struct prose_config {
  std::uint32_t vocab = 256;  ///< 257 where the source emits end-of-text
  std::uint32_t width = 128;
  std::uint32_t blocks = 2;
  std::uint32_t heads = 2;
  std::uint32_t hidden = 256;
  std::vector<std::uint64_t> frequencies = {1, 8, 64, 512};
  double rate = 1.5e-3;
  std::uint32_t warm_up = 100;
  double final_rate = 0.1;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double epsilon = 1e-8;
  double decay = 0.01;
  double clip = 1.0;
  std::uint32_t lanes = 1;
  std::uint32_t max_chunk = 64;
  std::uint64_t seed = 0;
};

/// The settings of a prose model, with the ranges that `prose::create` accepts. Include
/// "weir/base/settings.hpp" to use the table.
/// @threads{safe to call concurrently}
[[nodiscard]] const settings_table<prose_config>& prose_settings();

/// Checks a configuration as `prose::create` does, without building a model.
/// @error{invalid_argument, names the first setting that is out of range, with its range}
/// @threads{safe to call concurrently}
[[nodiscard]] result<void> check_config(const prose_config& config);

/// What a region of the state is. A checkpoint has a section per kind (and per lane for
/// `context`).
enum class region_kind : std::uint8_t {
  parameter,
  moment,
  error_buffer,
  counter,
  context
};
[[nodiscard]] std::string_view name_of(region_kind kind) noexcept;

/// One piece of the state: its stable name and where it lives.
struct named_region {
  std::string name;  ///< "block0.level2.query", "lane0.block1.level3.memory", ...
  region_kind kind = region_kind::parameter;
  std::uint32_t lane = 0;  ///< of `context` regions
  runtime::tensor data;
};

/// A run of regions of one kind and lane in the image that `submit_snapshot` writes.
struct state_section {
  region_kind kind = region_kind::parameter;
  std::uint32_t lane = 0;
  std::uint64_t offset = 0;  ///< bytes, in the image
  std::uint64_t bytes = 0;
};

/// Names a submitted pulse until it is finished.
struct pulse_ticket {
  std::uint64_t serial = 0;
};

/// Names a submitted snapshot until it is finished.
struct snapshot_ticket {
  std::uint64_t serial = 0;
};

/// A memory and its Frobenius norm.
struct memory_norm {
  double norm = 0;
  std::uint32_t lane = 0;
  std::uint32_t block = 0;
  std::uint32_t level = 0;
  std::uint32_t head = 0;
};

/// What came out of a pulse.
struct pulse_result {
  std::uint64_t scored = 0;  ///< tokens whose probability is in the sum
  std::uint64_t nats_q32 =
      0;  ///< sum of negative log-likelihoods in units of 2^-32 nat: exact to add up
  double gradient_norm = 0;  ///< before clipping; Build only
  [[nodiscard]] double nats() const noexcept {
    return static_cast<double>(nats_q32) * 0x1p-32;
  }
};

/// Digest over named tensors, in the order given: what `parameter_hash` is.
/// Per tensor: the name, a zero byte, number of dimensions and extents as little-endian
/// u64, then the bytes.
class parameter_digest {
 public:
  void add(std::string_view name, std::span<const std::int64_t> shape, bytes_view bytes);
  [[nodiscard]] std::uint64_t value() const noexcept { return hash_.digest(); }

 private:
  xxh3_stream hash_;
};

/// Length of the runs of neighbouring lanes in which `devices` share `lanes`: a power of
/// two; the last run may be shorter. Sums over runs and then over devices are sums over
/// lanes along one tree. @error{invalid_argument, no such length gives so many runs}
[[nodiscard]] result<std::uint32_t> lanes_per_device(std::uint32_t lanes,
                                                     std::uint32_t devices);

/// The model of one run: parameters, moments, error buffers and one ContextMemory per
/// lane.
///
/// `submit` turns a pulse into tasks; nothing but the regions orders them, so several
/// pulses may be in flight. Rows are computed in windows of 64 tokens aligned to the
/// lane's position: their bits depend on their window and on earlier rows alone, for any
/// chunking and number of workers.
/// @threads{thread-compatible: belongs to the engine's submitter}
/// @source{Context stream design, section 3}
class prose {
 public:
  /// Allocates and initialises everything from the seed; contexts are empty.
  /// @error{invalid_argument, a setting that `prose_settings` does not accept}
  /// @error{invalid_argument, a number of devices that `lanes_per_device` does not know}
  /// `kernels` is "auto", or an instruction set that this processor has: "x86-64",
  /// "x86-64-v3", "x86-64-v4". Each of several `devices` has a replica of the parameters
  /// and computes a run of lanes; gradients meet in a level 1 all-reduce. The state is
  /// the same for every number of devices.
  [[nodiscard]] static result<std::unique_ptr<prose>> create(
      runtime::engine& engine, const prose_config& config,
      std::string_view kernels = "auto", std::uint32_t devices = 1);
  ~prose();
  prose(const prose&) = delete;
  prose& operator=(const prose&) = delete;

  /// What a lane gets in a pulse; copied by `submit`.
  struct lane_input {
    std::span<const std::uint32_t> tokens;   ///< at most `max_chunk`; may be empty
    std::optional<std::uint32_t> lookahead;  ///< the next token, if known
    std::uint64_t position = 0;              ///< of the first token; must be the lane's
  };

  /// Most pulses that may be submitted and not finished.
  static constexpr std::uint64_t max_in_flight = 8;

  /// Submits all tasks of a pulse: one input per lane, in lane order.
  /// A row without a known next token is kept as pending prediction and scored, not
  /// learned, by the first token that follows.
  /// @error{invalid_argument, a token >= vocab, a wrong position or count of lanes, too
  /// many in flight}
  [[nodiscard]] result<pulse_ticket> submit(const pulse& p,
                                            std::span<const lane_input> lanes);
  /// Waits for the pulse's results. Tickets may be finished in any order, each once.
  /// @error{not_found, no such ticket; or what failed in a kernel}
  [[nodiscard]] result<pulse_result> finish(pulse_ticket ticket);
  /// True once the results of the pulse are there: `finish` will not wait.
  [[nodiscard]] bool ended(pulse_ticket ticket) const noexcept;

  /// All state, in the order of the image: parameters, moments, error buffers, counters,
  /// contexts by lane.
  [[nodiscard]] const std::vector<named_region>& regions() const noexcept;
  [[nodiscard]] const std::vector<state_section>& sections() const noexcept;
  [[nodiscard]] std::uint64_t state_bytes() const noexcept;
  /// Copies the state as of the pulses submitted so far into `to`, `state_bytes()` long:
  /// a few reader tasks, which later pulses wait for only where they overwrite. The model
  /// keeps `to` alive until the snapshot is finished, or until the model is destroyed,
  /// which waits for the tasks first.
  /// @error{invalid_argument, `to` is missing or has another size}
  [[nodiscard]] result<snapshot_ticket> submit_snapshot(std::shared_ptr<byte_vector> to);
  /// Waits for the copies and lets go of their destination. Tickets may be finished in
  /// any order, each once. @error{not_found, no such ticket; or what failed in a task}
  [[nodiscard]] result<void> finish(snapshot_ticket ticket);
  /// True once the copies have ended, in whatever way: `finish` will not wait.
  [[nodiscard]] bool ended(snapshot_ticket ticket) const noexcept;
  /// Replaces one section. Waits for all tasks before.
  /// @error{config_mismatch, another size than the section has; corrupt, counters that
  /// cannot be}
  [[nodiscard]] result<void> restore(region_kind kind, std::uint32_t lane,
                                     bytes_view bytes);

  /// Digests; each waits for all tasks. `context_hash` covers memories, accumulators,
  /// tails, the open window's rows and the position of all lanes in lane order, nothing
  /// else.
  [[nodiscard]] result<std::uint64_t> parameter_hash();
  [[nodiscard]] result<std::uint64_t> context_hash();
  /// The memory with the largest Frobenius norm, the first among equals in the order of
  /// lanes, blocks, levels and heads; waits for all tasks. The norm has a bound for every
  /// text: @source{docs/decisions/414-context-memory-update-is-bounded.md}
  [[nodiscard]] result<memory_norm> largest_memory();
  /// Over every byte of the image.
  [[nodiscard]] result<std::uint64_t> state_hash();
  /// Over names, kinds and shapes of the regions: two models with equal layout can
  /// exchange images.
  [[nodiscard]] std::uint64_t layout_hash() const noexcept;

  /// Waits for all tasks, then compares the devices' replicas.
  /// @error{determinism_violation, they differ: something else than the model wrote}
  [[nodiscard]] result<void> check_replicas();

  /// Empties a lane's memories, window and pending prediction; its position stays.
  [[nodiscard]] result<void> reset_context(std::uint32_t lane);
  /// Position of a lane after the pulses submitted so far, in tokens.
  [[nodiscard]] std::uint64_t position(std::uint32_t lane) const noexcept;
  /// Places a lane with an empty context at a position.
  [[nodiscard]] result<void> start_context(std::uint32_t lane, std::uint64_t position);

  /// A parameter by name, [rows, columns] or [n], fp32, row-major. Read it only after
  /// `wait_all`.
  /// @error{unknown_key, no such name; the message names the nearest}
  [[nodiscard]] result<runtime::tensor> parameter(std::string_view name) const;
  /// Replaces a parameter. Waits for all tasks before. @error{config_mismatch, another
  /// shape}
  [[nodiscard]] result<void> load_parameter(std::string_view name,
                                            std::span<const std::int64_t> shape,
                                            bytes_view bytes);
  [[nodiscard]] std::uint64_t parameter_count() const noexcept;

  /// Logits [vocab] of a lane's last row, if that row has no known next token; waits for
  /// its tasks.
  /// @error{not_found, no prediction is pending}
  [[nodiscard]] result<std::vector<float>> pending_logits(std::uint32_t lane);

  /// Library, version and instruction set of the kernels: bits are promised for equal
  /// names only.
  [[nodiscard]] const std::string& kernel_set() const noexcept;
  /// Floating point operations of the dense products of one pulse with `tokens` rows in a
  /// lane.
  [[nodiscard]] std::uint64_t product_flops(std::uint64_t tokens,
                                            pulse_phase phase) const noexcept;
  [[nodiscard]] const prose_config& config() const noexcept;

 private:
  struct impl;
  explicit prose(std::unique_ptr<impl> state);
  std::unique_ptr<impl> impl_;
};

/// Draws a token. Temperature 0 takes the largest logit, the lowest id among equals; else
/// one uniform number of `random` at `index` decides, through an exponential of our own.
/// @threads{pure}
[[nodiscard]] std::uint32_t sample(std::span<const float> logits, float temperature,
                                   const philox& random, std::uint64_t index) noexcept;

}  // namespace weir::models
