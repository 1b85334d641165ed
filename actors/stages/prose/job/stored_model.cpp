// SPDX-License-Identifier: Apache-2.0
/// @file
/// Builds models from checkpoints and from parameters.
///
/// A model is built empty from its configuration and then filled: from the sections of a
/// checkpoint, with all lanes and their contexts, or from parameters alone, with one
/// empty lane.
#include "stages/prose/job/stored_model.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "stages/prose/job/stored_config.hpp"
#include "stages/prose/model_state.hpp"
#include "weir/base/file.hpp"
#include "weir/storage/checkpoint.hpp"

namespace weir::actors {

/// Makes a model with an engine of its own, which has one worker.
result<stored_model> new_model(const models::prose_config& config,
                               std::string_view kernels) {
  stored_model m;
  runtime::engine_options options;
  options.workers = 1;
  WEIR_TRY(m.engine, runtime::engine::create(options));
  WEIR_TRY(m.model, models::prose::create(*m.engine, config, kernels));
  return m;
}

/// Opens the newest checkpoint of a run. The folder may be that of the run or that of its
/// checkpoints.
result<stored_model> open_stored_model(const std::string& folder,
                                       std::string_view kernels) {
  file_system& fs = posix_file_system();
  const std::string inner = join_path(folder, "checkpoint");
  WEIR_TRY(auto store,
           storage::checkpoint_store::open(fs, fs.exists(inner) ? inner : folder));
  WEIR_TRY(auto newest, store.load_newest());
  WEIR_TRY(const auto stored, read_run(std::move(newest)));
  return model_of_run(stored, kernels);
}

/// Builds the model of a run with its whole state.
result<stored_model> model_of_run(const stored_run& run, std::string_view kernels) {
  WEIR_TRY(const auto config, model_in(run.config));
  WEIR_TRY(auto m, new_model(config, kernels));
  // Errors of the sections get the path of the file.
  const auto restored = restore_model(
      *m.model, [&](const std::string& name) { return run.model_part(name); });
  if (!restored) {
    return error(restored.error()).located(run.file.path());
  }
  return m;
}

result<stored_model> model_with(const parameter_set& parameters, std::uint32_t lanes,
                                std::string_view kernels) {
  WEIR_TRY(auto config, model_in(parameters.model));
  config.lanes = lanes;
  WEIR_TRY(auto m, new_model(config, kernels));
  std::set<std::string> missing;
  for (const models::named_region& region : m.model->regions()) {
    if (region.kind == models::region_kind::parameter) {
      missing.insert(region.name);
    }
  }
  for (const parameter_set::entry& e : parameters.entries) {
    WEIR_CHECK(m.model->load_parameter(e.name, e.shape, e.bytes));
    missing.erase(e.name);
  }
  if (!missing.empty()) {
    return error(
        errc::corrupt,
        fmt::format(
            "loading the parameters failed: expected {}, found no object of that name",
            *missing.begin()));
  }
  return m;
}

}  // namespace weir::actors
