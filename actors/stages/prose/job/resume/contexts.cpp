// SPDX-License-Identifier: Apache-2.0
/// @file
/// Deals the contexts of an image to other lanes.
///
/// A context belongs to a lane: it is what the model remembers of the text of this lane.
/// With another number of lanes, the policy says which lanes continue which context. The
/// contexts are put into a model of the new shape and copied out of it, so that the model
/// alone knows their bytes.
#include "stages/prose/job/resume/contexts.hpp"

#include <fmt/core.h>

#include <utility>

#include "stages/prose/job/settings.hpp"
#include "stages/prose/job/stored_model.hpp"
#include "stages/prose/model_state.hpp"

namespace weir::actors {
namespace {

/// Name of the section of a context in an image.
std::string name_of_context(std::uint32_t lane) {
  return fmt::format("STATE/{}/CTX/lane/{}", stage_names::learn, lane);
}

/// Puts the contexts of a model into an image, in place of those that it has.
/// The contexts are copied by tasks of the model's engine; the call waits for them.
result<void> put_contexts(flow::image& image, stored_model& from) {
  std::vector<flow::image_section> all;
  std::vector<mutable_bytes> parts;
  // All sections are copied, because the model makes them in one order; only contexts get
  // a name and stay.
  for (const models::state_section& section : from.model->sections()) {
    flow::image_section& one = all.emplace_back();
    if (section.kind == models::region_kind::context) {
      one.name = name_of_context(section.lane);
    }
    one.data.resize(section.bytes);
    one.shape = {static_cast<std::int64_t>(section.bytes)};
  }
  for (flow::image_section& one : all) {
    parts.emplace_back(one.data);
  }
  WEIR_CHECK(from.model->submit_copies(parts));
  WEIR_CHECK(from.engine->wait_all());
  const std::string prefix = fmt::format("STATE/{}/CTX/", stage_names::learn);
  std::erase_if(image.sections, [&](const flow::image_section& one) {
    return one.name.starts_with(prefix);
  });
  for (flow::image_section& one : all) {
    if (!one.name.empty()) {
      image.sections.push_back(std::move(one));
    }
  }
  return {};
}

}  // namespace

/// Returns the lane whose context a lane continues, or nothing for an empty one.
/// @param before  Number of lanes so far.
std::optional<std::uint32_t> context_source(context_policy policy, std::uint32_t lane,
                                            std::uint32_t before) {
  switch (policy) {
    case context_policy::fresh: return std::nullopt;
    case context_policy::clone: return lane % before;
    case context_policy::keep:
    case context_policy::drop: break;
  }
  return lane < before ? std::optional(lane) : std::nullopt;
}

/// Returns the positions at which the lanes go on; an empty context begins at 0.
std::vector<std::uint64_t> first_positions(context_policy policy,
                                           const std::vector<storage::lane_state>& before,
                                           std::uint32_t lanes) {
  std::vector<std::uint64_t> out;
  for (std::uint32_t lane = 0; lane < lanes; ++lane) {
    const auto from =
        context_source(policy, lane, static_cast<std::uint32_t>(before.size()));
    out.push_back(from ? before[*from].position : 0);
  }
  return out;
}

// A model with the new lanes has empty contexts, so only the others are filled.
result<void> replace_contexts(flow::image& image,
                              const std::vector<storage::lane_state>& lanes,
                              const run_config& config, std::uint32_t vocab) {
  const auto before = static_cast<std::uint32_t>(lanes.size());
  WEIR_TRY(stored_model made, new_model(model_of(config, vocab)));
  for (std::uint32_t lane = 0; lane < config.stream.lanes; ++lane) {
    const auto from = context_source(config.resume_contexts, lane, before);
    if (!from) {
      // With the same number of lanes, only the context is emptied, and the text goes on.
      const bool stays = config.stream.lanes == before;
      const std::uint64_t position = stays ? lanes[lane].position : 0;
      WEIR_CHECK(made.model->start_context(lane, position));
      continue;
    }
    const flow::image_section* stored = image.find(name_of_context(*from));
    if (stored == nullptr) {
      return error(errc::corrupt,
                   fmt::format("cannot continue lane {}: expected section {}, found none",
                               lane, name_of_context(*from)));
    }
    WEIR_CHECK(made.model->restore(models::region_kind::context, lane, stored->data));
  }
  return put_contexts(image, made);
}

}  // namespace weir::actors
