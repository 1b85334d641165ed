// SPDX-License-Identifier: Apache-2.0
/// @file
/// Adds the sink of predictions to an image, or removes it.
///
/// The output is the only stage that a resumed run may add or remove, so the sections of
/// the image are adapted to the new pipeline.
#include "stages/prose/job/resume/output.hpp"

#include <algorithm>

#include "stages/message_output.hpp"
#include "stages/prose/job/stored_run.hpp"
#include "weir/base/record.hpp"

namespace weir::actors {
namespace {

/// Adds a section of the sink.
void add_section(flow::image& image, const char* kind, bytes_view bytes) {
  flow::image_section& one = image.sections.emplace_back();
  one.name = std::string(kind) + stage_names::predictions;
  one.data.assign(bytes.begin(), bytes.end());
  one.shape = {static_cast<std::int64_t>(bytes.size())};
}

}  // namespace

/// Replaces the sections of the sink after a change of its path: the new file begins
/// empty, whatever the old one has.
void replace_output(flow::image& image, const std::vector<storage::run_change>& changes,
                    const run_config& config) {
  const bool changed = std::any_of(
      changes.begin(), changes.end(),
      [](const storage::run_change& one) { return one.key == "phase.stream.output"; });
  if (!changed) {
    return;
  }
  const std::string end = std::string("/") + stage_names::predictions;
  std::erase_if(image.sections, [&](const flow::image_section& one) {
    return one.name == "STAGE" + end || one.name == "OFFSET" + end;
  });
  if (config.phase.stream_output.empty()) {
    return;
  }
  // A sink that has seen all numbers so far, and makes no items.
  record_writer numbers;
  numbers.put(image.next_item);
  numbers.put(std::uint64_t{0});
  numbers.put(std::uint8_t{0});
  add_section(image, "STAGE/", numbers.view());
  const flow::small_record offset = message_output::offset_of_nothing();
  add_section(image, "OFFSET/", offset.view());
}

}  // namespace weir::actors
