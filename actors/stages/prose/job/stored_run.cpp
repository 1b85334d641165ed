// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reading of both versions of a run's checkpoint.
///
/// The first version of a checkpoint has sections named after parts (CURSOR, CONDUCTOR);
/// a pipeline stores `STATE/STAGE/PART`. `stored_run` has the same members for both. A
/// checkpoint is one of a pipeline if it has the section of an epoch.
#include "stages/prose/job/stored_run.hpp"

#include "stages/prose/job/stored_config.hpp"
#include "stages/prose/model_state.hpp"
#include "weir/base/hash.hpp"
#include "weir/base/record.hpp"

namespace weir::actors {
namespace {

/// Name of a section of a stage's state.
std::string state_of(const char* stage, const std::string& part) {
  return "STATE/" + std::string(stage) + "/" + part;
}

/// Returns what the names of all parts of the model begin with.
std::string parts_prefix(bool first_version) {
  return first_version ? std::string() : state_of(stage_names::learn, "");
}

/// Returns the bytes of a section.
result<bytes_view> section_of(const storage::checkpoint& from, const std::string& name) {
  WEIR_TRY(const auto* found, from.find(name));
  return found->data;
}

/// Adds the place of the file to an error.
template <class T>
result<T> located(result<T> r, const storage::checkpoint& from) {
  return r ? std::move(r) : error(std::move(r.error())).located(from.path());
}

/// Reads sums and curve; without the section, they begin anew.
result<void> read_accounts(stored_run& run, const std::string& section) {
  if (run.file.has(section)) {
    WEIR_TRY(const bytes_view metrics, section_of(run.file, section));
    WEIR_TRY(run.accounts, located(decode_accounts(metrics), run.file));
  }
  return {};
}

/// The pulse of the CONDUCTOR section must be the one in the header of the file, since
/// both describe the same state.
result<void> read_first_version(stored_run& run) {
  WEIR_TRY(run.record, located(decode_conductor(run.file.conductor()), run.file));
  if (run.record.pulses != run.file.header().pulse_id) {
    return error(errc::corrupt,
                 "reading section CONDUCTOR failed: expected the pulse of the file, "
                 "found another one")
        .located(run.file.path());
  }
  run.cursor = storage::encode(run.file.cursor());
  // The first version had one step per phase, in their order.
  run.steps.assign(run.record.used.begin(), run.record.used.end());
  WEIR_TRY(run.build_budget, number_in(run.config, "phase.build.tokens"));
  return read_accounts(run, "METRICS");
}

/// Reads the state of the stages `text` and `accounts`.
result<void> read_stages(stored_run& run) {
  WEIR_TRY(const bytes_view record,
           section_of(run.file, state_of(stage_names::text, "CONDUCTOR")));
  WEIR_TRY(run.record, located(decode_conductor(record), run.file));
  WEIR_TRY(const bytes_view cursor,
           section_of(run.file, state_of(stage_names::text, "CURSOR")));
  run.cursor.assign(cursor.begin(), cursor.end());
  // Phases with sources of their own have a cursor for each.
  const std::string others = state_of(stage_names::text, "CURSOR/");
  for (const auto& section : run.file.sections()) {
    if (section.name.starts_with(others)) {
      run.other_cursors[section.name.substr(others.size())].assign(section.data.begin(),
                                                                   section.data.end());
    }
  }
  run.steps.assign(run.record.used.begin(), run.record.used.end());
  // Without the section, the steps are the phases.
  if (const std::string steps = state_of(stage_names::text, "STEPS");
      run.file.has(steps)) {
    WEIR_TRY(const bytes_view stored, section_of(run.file, steps));
    WEIR_TRY(run.steps, located(decode_steps(stored), run.file));
  }
  WEIR_TRY(const bytes_view budget,
           section_of(run.file, state_of(stage_names::text, "BUDGET")));
  if (budget.size() != sizeof(run.build_budget)) {
    return error(errc::corrupt,
                 fmt::format("reading section {} failed: expected {} bytes, found {}",
                             state_of(stage_names::text, "BUDGET"),
                             sizeof(run.build_budget), budget.size()))
        .located(run.file.path());
  }
  run.build_budget = record_reader(budget).get<std::uint64_t>();
  return read_accounts(run, state_of(stage_names::accounts, "METRICS"));
}

}  // namespace

/// Returns the bytes of a part of the model; `name` as in `section_name`.
result<bytes_view> stored_run::model_part(const std::string& name) const {
  return section_of(file, parts_prefix(first_version) + name);
}

/// Computes the hash that the report shows, of all bytes of the model and of the cursors.
/// It does not depend on the version of the file.
std::uint64_t stored_run::state_hash() const {
  const std::string prefix = parts_prefix(first_version);
  xxh3_stream model;
  for (const auto& section : file.sections()) {
    if (section.name.starts_with(prefix) &&
        is_of_model(std::string_view(section.name).substr(prefix.size()))) {
      model.update(section.data);
    }
  }
  byte_vector cursors = cursor;
  for (const auto& [name, bytes] : other_cursors) {
    cursors.insert(cursors.end(), bytes.begin(), bytes.end());
  }
  return state_hash_of(model.digest(), cursors);
}

/// Positions of the lanes over all sources: a lane has one clock.
result<std::vector<storage::lane_state>> stored_run::lanes() const {
  WEIR_TRY(const auto main, storage::decode_cursor(cursor));
  std::vector<storage::lane_state> sum = main.lanes;
  for (const auto& [name, bytes] : other_cursors) {
    WEIR_TRY(const auto other, storage::decode_cursor(bytes));
    for (std::size_t l = 0; l < sum.size() && l < other.lanes.size(); ++l) {
      sum[l].position += other.lanes[l].position;
    }
  }
  return sum;
}

/// Reads a checkpoint of either version. The bytes of the model stay in the file.
result<stored_run> read_run(storage::checkpoint from) {
  stored_run run;
  run.file = std::move(from);
  run.first_version = !run.file.has(storage::section::epoch);
  WEIR_TRY(const bytes_view config,
           section_of(run.file, std::string(storage::section::config)));
  run.config = as_text(config);
  if (run.file.has(storage::section::history)) {
    WEIR_TRY(const auto* history, run.file.find(storage::section::history));
    WEIR_TRY(run.history, located(storage::decode_history(history->data), run.file));
  }
  WEIR_CHECK(run.first_version ? read_first_version(run) : read_stages(run));
  return run;
}

}  // namespace weir::actors
