// SPDX-License-Identifier: Apache-2.0
/// @file
/// The public functions of the model: they check arguments, keep the records of pulses
/// and snapshots in flight, and call the replicas.
#include "weir/models/prose.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "prose/kernels/select.hpp"
#include "prose/replicas.hpp"
#include "prose/state_regions.hpp"

namespace weir::models {

/// What the public class keeps.
struct prose::impl {
  // Owns the graphs and the state.
  std::unique_ptr<replicas> devices;
  state_regions regions;
  // The name of the products, for reports.
  std::string kernel_set;
  // That of our own kernels.
  std::string_view instruction_set;
  /// Records of the pulses in flight: a ring by ticket; in each entry one by device.
  /// Tasks point to the records. A caller may have this many pulses in flight.
  std::array<std::vector<pulse_record>, max_in_flight> records;
  /// Ticket that uses the entry of the ring; 0 if the entry is free.
  std::array<std::uint64_t, max_in_flight> serials{};
  std::uint64_t last_serial = 0;
  // The image and the copies that fill it.
  struct snapshot {
    std::shared_ptr<byte_vector> image;
    std::vector<runtime::task_id> tasks;
  };
  std::map<std::uint64_t, snapshot> snapshots;  ///< those in flight, by ticket
  std::uint64_t last_snapshot = 0;
  std::vector<lane_clock> clocks;  ///< as of the pulses submitted so far, by lane

  /// Waits until no task runs. Fails with the first error of a task.
  [[nodiscard]] result<void> idle() { return devices->runner().wait_all(); }
  /// Reads the clocks of all lanes from the state, after something else than a pulse has
  /// changed them. No task may be running.
  void read_clocks();
};

namespace {

/// Checks the input of one lane, whose position is `position`.
///
/// Nothing is changed before all lanes are checked.
result<void> check_input(const prose_config& config, const prose::lane_input& in,
                         std::size_t lane, std::uint64_t position) {
  // Longer chunks have no space in the buffers.
  if (in.tokens.size() > config.max_chunk) {
    return error(errc::invalid_argument,
                 fmt::format("chunk of lane {}: expected at most {} tokens, found {}",
                             lane, config.max_chunk, in.tokens.size()));
  }
  // A caller that has lost count would mix up contexts.
  if (!in.tokens.empty() && in.position != position) {
    return error(errc::invalid_argument,
                 fmt::format("chunk of lane {}: expected position {}, found {}", lane,
                             position, in.position));
  }
  // The same message for tokens and lookahead.
  const auto bad = [&](std::uint32_t t) {
    return error(errc::invalid_argument,
                 fmt::format("token of lane {}: expected an id below {}, found {}", lane,
                             config.vocab, t));
  };
  for (std::uint32_t t : in.tokens) {
    if (t >= config.vocab) {
      return bad(t);
    }
  }
  // The lookahead is a target only.
  if (in.lookahead && *in.lookahead >= config.vocab) {
    return bad(*in.lookahead);
  }
  return {};
}

}  // namespace

prose::prose(std::unique_ptr<impl> state) : impl_(std::move(state)) {}
prose::~prose() {
  // Tasks point to this object and to the images of snapshots, which it owns, so all
  // tasks must end before any of it is destroyed. Failures are ignored here: a caller
  // that wants the result of a pulse or a snapshot has finished it before.
  static_cast<void>(impl_->idle());
}

/// Kernels are chosen by name, so that checks can compare them.
result<std::unique_ptr<prose>> prose::create(runtime::engine& engine,
                                             const prose_config& config,
                                             std::string_view kernels,
                                             std::uint32_t devices) {
  WEIR_CHECK(check_config(config));
  WEIR_TRY(const kernel_table<float>* table, select_kernels(kernels));
  auto state = std::make_unique<impl>();
  // Allocates everything that the model ever needs.
  WEIR_TRY(state->devices, replicas::create(engine, config, *table, devices));
  state->regions =
      state_regions(config, state->devices->layout(), state->devices->state());
  state->kernel_set = gemm_name();
  state->instruction_set = table->name;
  // All clocks are 0, as the state is.
  state->clocks.resize(config.lanes);
  return std::unique_ptr<prose>(new prose(std::move(state)));
}

/// The tasks are submitted in the order of the calls.
result<pulse_ticket> prose::submit(const pulse& p, std::span<const lane_input> lanes) {
  // A lane without tokens is an empty input, not a missing one.
  const prose_config& config = impl_->devices->config();
  if (lanes.size() != config.lanes) {
    return error(errc::invalid_argument,
                 fmt::format("pulse {}: expected {} lanes, found {}", p.id, config.lanes,
                             lanes.size()));
  }
  bool empty = true;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    // The clocks are those after all pulses in flight.
    WEIR_CHECK(check_input(config, lanes[i], i, impl_->clocks[i].position));
    empty = empty && lanes[i].tokens.empty();
  }
  // The ring entry of the next ticket.
  const std::size_t slot = (impl_->last_serial + 1) % max_in_flight;
  if (empty || impl_->serials[slot] != 0) {
    return error(
        errc::invalid_argument,
        fmt::format("pulse {}: expected {}, found {}", p.id,
                    empty ? "tokens in at least one lane" : "a finished pulse before",
                    empty ? "none" : fmt::format("{} in flight", max_in_flight)));
  }
  // The pulse that used these records before is finished, but that only waits for the
  // tasks with results. Others may still run and use the records.
  std::vector<pulse_record>& records = impl_->records[slot];
  // Ids are consecutive per device.
  for (const pulse_record& record : records) {
    for (runtime::task_id id = record.first; id != 0 && id <= record.last; ++id) {
      if (!impl_->devices->runner().ended(id)) {
        // Its failure is that of a pulse before, not of this one.
        static_cast<void>(impl_->devices->runner().wait(id));
      }
    }
  }
  // The records hold copies of the tokens, so the caller's arrays may go.
  impl_->devices->fill(records, p, lanes, impl_->clocks);
  WEIR_CHECK(impl_->devices->submit_pulse(records));
  // The clocks run ahead of the tasks.
  auto clock = impl_->clocks.begin();
  for (const pulse_record& record : records) {
    for (const lane_record& lane : record.lanes) {
      *clock++ = lane.after;
    }
  }
  impl_->serials[slot] = ++impl_->last_serial;
  return pulse_ticket{impl_->last_serial};
}

/// The ticket is used up, whatever the tasks return.
result<pulse_result> prose::finish(pulse_ticket ticket) {
  const std::size_t slot = ticket.serial % max_in_flight;
  if (ticket.serial == 0 || impl_->serials[slot] != ticket.serial) {
    return error(errc::not_found,
                 fmt::format("pulse ticket {}: expected one in flight, found none",
                             ticket.serial));
  }
  // Free again for a later pulse.
  impl_->serials[slot] = 0;
  const std::vector<pulse_record>& records = impl_->records[slot];
  for (const pulse_record& record : records) {
    // Only the tasks whose results are read here.
    for (runtime::task_id id : record.results) {
      WEIR_CHECK(impl_->devices->runner().wait(id));
    }
  }
  pulse_result out;
  // All devices have the same values.
  out.scored = records.front().scored;
  out.gradient_norm = records.front().gradient_norm;
  // Devices have neighbouring lanes, so the order is that of the lanes.
  for (const pulse_record& record : records) {
    for (const lane_record& lane : record.lanes) {
      if (record.keeps_predictions) {
        out.predictions.push_back(predictions_of(lane));
      }
      // A row that waited for its next token has got it.
      out.nats_q32 += lane.pending_nats_q32;
      out.scored += lane.scores_pending ? 1 : 0;
      for (const window_record& w : lane.windows) {
        // Windows are divided into halves for the tasks.
        out.nats_q32 += w.nats_q32[0] + w.nats_q32[1];
      }
    }
  }
  return out;
}

/// A ticket that is finished counts as ended.
bool prose::ended(pulse_ticket ticket) const noexcept {
  const std::size_t slot = ticket.serial % max_in_flight;
  if (impl_->serials[slot] != ticket.serial) {
    return true;
  }
  // A failed task has ended as well.
  const auto over = [&](runtime::task_id id) {
    return impl_->devices->runner().ended(id);
  };
  const auto& records = impl_->records[slot];
  return std::all_of(records.begin(), records.end(), [&](const pulse_record& record) {
    return std::all_of(record.results.begin(), record.results.end(), over);
  });
}

/// The tasks of the devices are interleaved, so the range covers them all.
prose::task_range prose::tasks(pulse_ticket ticket) const noexcept {
  const auto& records = impl_->records[ticket.serial % max_in_flight];
  task_range all{records.front().first, records.front().last};
  for (const pulse_record& record : records) {
    all.first = std::min(all.first, record.first);
    all.last = std::max(all.last, record.last);
  }
  return all;
}

/// The regions point to the memory of the model.
const std::vector<named_region>& prose::regions() const noexcept {
  return impl_->regions.regions();
}
const std::vector<state_section>& prose::sections() const noexcept {
  return impl_->regions.sections();
}
/// The size of an image.
std::uint64_t prose::state_bytes() const noexcept {
  return impl_->regions.bytes();
}
/// Equal for equal configurations, whatever the devices are.
std::uint64_t prose::layout_hash() const noexcept {
  return impl_->regions.layout_hash();
}

/// The copies run between pulses, ordered by their accesses.
result<snapshot_ticket> prose::submit_snapshot(std::shared_ptr<byte_vector> image) {
  if (!image) {
    return error(errc::invalid_argument,
                 "snapshot: expected a destination, found a null pointer");
  }
  if (image->size() != state_bytes()) {
    return error(errc::invalid_argument,
                 fmt::format("snapshot: expected a destination of {} bytes, found one of "
                             "{}",
                             state_bytes(), image->size()));
  }
  // Each section is copied to its own part of the image.
  std::vector<mutable_bytes> parts;
  for (const state_section& s : sections()) {
    parts.push_back(mutable_bytes(*image).subspan(s.offset, s.bytes));
  }
  auto tasks = submit_copies(parts);
  if (!tasks) {
    // Some copies may have been submitted. They must end before this call does, because
    // the caller may free the image then.
    static_cast<void>(impl_->idle());
    return std::move(tasks).error();
  }
  // The map keeps the image alive until the copies have ended.
  impl_->snapshots[++impl_->last_snapshot] = {std::move(image), *std::move(tasks)};
  return snapshot_ticket{impl_->last_snapshot};
}

/// The destinations belong to the caller until the tasks have ended.
result<std::vector<runtime::task_id>> prose::submit_copies(
    std::span<const mutable_bytes> to) {
  return impl_->regions.submit_copies(impl_->devices->runner(), to);
}

/// Waits for the copies of one snapshot.
result<void> prose::finish(snapshot_ticket ticket) {
  const auto found = impl_->snapshots.find(ticket.serial);
  if (found == impl_->snapshots.end()) {
    return error(errc::not_found,
                 fmt::format("snapshot ticket {}: expected one in flight, found none",
                             ticket.serial));
  }
  result<void> first;
  // All copies must end before the image is released, even if one has failed.
  for (const runtime::task_id id : found->second.tasks) {
    // The first error is returned.
    auto ended = impl_->devices->runner().wait(id);
    if (!ended && first) {
      first = std::move(ended);
    }
  }
  impl_->snapshots.erase(found);
  return first;
}

/// A finished ticket counts as ended.
bool prose::ended(snapshot_ticket ticket) const noexcept {
  const auto found = impl_->snapshots.find(ticket.serial);
  return found == impl_->snapshots.end() ||
         std::all_of(
             found->second.tasks.begin(), found->second.tasks.end(),
             [&](runtime::task_id id) { return impl_->devices->runner().ended(id); });
}

void prose::impl::read_clocks() {
  for (std::size_t i = 0; i < clocks.size(); ++i) {
    const std::uint64_t* clock = devices->state().lanes[i].clock.data;
    // Position, and whether a prediction waits.
    clocks[i] = {clock[0], clock[1]};
  }
}

/// No task may read the bytes while they change.
result<void> prose::restore(region_kind kind, std::uint32_t lane, bytes_view bytes) {
  WEIR_CHECK(impl_->idle());
  WEIR_CHECK(impl_->regions.restore(kind, lane, bytes));
  // Contexts have clocks, and parameters have copies on other devices.
  if (kind == region_kind::context) {
    impl_->read_clocks();
  } else {
    impl_->devices->spread();
  }
  return {};
}

/// Waits first, so the hash is that of all pulses submitted.
result<std::uint64_t> prose::parameter_hash() {
  WEIR_CHECK(impl_->idle());
  return impl_->regions.parameter_hash();
}
/// Contexts of other engines can be compared by it.
result<std::uint64_t> prose::context_hash() {
  WEIR_CHECK(impl_->idle());
  return context_digest(impl_->devices->config(), impl_->devices->state());
}
/// Reads all memories, so it is slow.
result<memory_norm> prose::largest_memory() {
  WEIR_CHECK(impl_->idle());
  return largest_memory_of(impl_->devices->state());
}
/// Covers everything that a checkpoint has.
result<std::uint64_t> prose::state_hash() {
  WEIR_CHECK(impl_->idle());
  return impl_->regions.state_hash();
}

/// For tests of determinism.
result<void> prose::check_replicas() {
  WEIR_CHECK(impl_->idle());
  return impl_->devices->check();
}

/// Waits for pulses in flight.
result<void> prose::reset_context(std::uint32_t lane) {
  if (lane >= impl_->clocks.size()) {
    return error(errc::lane_mismatch,
                 fmt::format("reset of lane {}: expected a lane below {}", lane,
                             impl_->clocks.size()));
  }
  WEIR_CHECK(impl_->idle());
  clear_context(impl_->devices->state().lanes[lane]);
  impl_->read_clocks();
  return {};
}

/// A lane that does not exist is at 0.
std::uint64_t prose::position(std::uint32_t lane) const noexcept {
  return lane < impl_->clocks.size() ? impl_->clocks[lane].position : 0;
}

/// A fresh context whose tokens are counted from a position.
result<void> prose::start_context(std::uint32_t lane, std::uint64_t position) {
  WEIR_CHECK(reset_context(lane));
  impl_->devices->state().lanes[lane].clock.data[0] = position;
  impl_->read_clocks();
  return {};
}

/// The tensor points to the memory of the first device.
result<runtime::tensor> prose::parameter(std::string_view name) const {
  return impl_->regions.parameter(name);
}

/// Tasks must not run while the parameter changes.
result<void> prose::load_parameter(std::string_view name,
                                   std::span<const std::int64_t> shape,
                                   bytes_view bytes) {
  WEIR_TRY(const runtime::tensor t, impl_->regions.parameter(name));
  // Shape and size both must fit.
  const bool same =
      std::equal(shape.begin(), shape.end(), t.shape().begin(), t.shape().end());
  const std::size_t size = static_cast<std::size_t>(t.count()) * sizeof(float);
  if (!same || bytes.size() != size) {
    return error(
        errc::config_mismatch,
        fmt::format("parameter {}: expected shape [{}] in {} bytes, found [{}] in {}",
                    name, fmt::join(t.shape(), ", "), size, fmt::join(shape, ", "),
                    bytes.size()));
  }
  WEIR_CHECK(impl_->idle());
  std::memcpy(t.data(), bytes.data(), size);
  // Other devices get copies.
  impl_->devices->spread();
  return {};
}

/// Without the padding between parameters.
std::uint64_t prose::parameter_count() const noexcept {
  return static_cast<std::uint64_t>(impl_->devices->layout().parameter_count());
}

/// The row is that of the last token of the last chunk.
result<std::vector<float>> prose::pending_logits(std::uint32_t lane) {
  if (lane >= impl_->clocks.size() || impl_->clocks[lane].pending == 0) {
    return error(
        errc::not_found,
        fmt::format("prediction of lane {}: expected a last row without a known next "
                    "token, found none",
                    lane));
  }
  // The task that computes the row may still run.
  WEIR_CHECK(impl_->idle());
  const buffer<float>& pending = impl_->devices->state().lanes[lane].pending;
  return std::vector<float>(pending.data, pending.data + pending.count);
}

/// For reports of runs.
const std::string& prose::kernel_set() const noexcept {
  return impl_->kernel_set;
}

std::string_view prose::instruction_set() const noexcept {
  return impl_->instruction_set;
}

std::uint64_t prose::product_flops(std::uint64_t tokens,
                                   pulse_phase phase) const noexcept {
  // All matrices but two are factors of a product: the embedding is looked up, and the
  // convolution works element by element. Backward work has two products for each forward
  // one. One multiplication and one addition per parameter of a product.
  std::uint64_t per_row = 0;
  const parameter_layout& layout = impl_->devices->layout();
  for (int i = 0; i < static_cast<int>(layout.all().size()); ++i) {
    const bool product = layout[i].rows > 0 && i != layout.embedding &&
                         layout[i].name.find(".conv") == std::string::npos;
    per_row += product ? static_cast<std::uint64_t>(layout[i].count()) : 0;
  }
  return tokens * per_row * 2 * (phase == pulse_phase::build ? 3 : 1);
}

/// The configuration does not change.
const prose_config& prose::config() const noexcept {
  return impl_->devices->config();
}

}  // namespace weir::models
