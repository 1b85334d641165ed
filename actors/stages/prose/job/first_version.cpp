// SPDX-License-Identifier: Apache-2.0
/// @file
/// The map from the sections of the first version to those of a pipeline.
///
/// The first version of a run stored a fixed list of sections (CONDUCTOR, CURSOR, PARAM,
/// ...). The same state stands in a pipeline's image as `STATE/STAGE/PART`, with counters
/// and positions of each stage beside it. This file makes such an image, so that an old
/// run continues as a pipeline.
#include "stages/prose/job/first_version.hpp"

#include "stages/prose/job/curve.hpp"
#include "stages/prose/model_state.hpp"
#include "weir/base/hash.hpp"
#include "weir/base/record.hpp"
#include "weir/pipeline/host/identity.hpp"

namespace weir::actors {
namespace {

/// Builds an image section by section.
/// It refers to nothing of the checkpoint; all bytes are copied.
class image_builder {
 public:
  void add(std::string name, bytes_view bytes) {
    flow::image_section& s = image_.sections.emplace_back();
    s.name = std::move(name);
    s.shape = {static_cast<std::int64_t>(bytes.size())};
    s.data.assign(bytes.begin(), bytes.end());
  }
  /// Adds a section of little-endian numbers of 64 bits.
  void add_numbers(std::string name, std::initializer_list<std::uint64_t> numbers) {
    record_writer record;
    for (const std::uint64_t number : numbers) {
      record.put(number);
    }
    add(std::move(name), record.view());
  }
  /// Adds the counters of a stage that has processed `items` items and goes on.
  /// The record is that of `flow`: items processed, items made, and whether it has ended.
  void add_stage(const char* stage, std::uint64_t items) {
    record_writer numbers;
    numbers.put(items);
    numbers.put(std::uint64_t{0});
    numbers.put(std::uint8_t{0});
    add(std::string("STAGE/") + stage, numbers.view());
  }
  [[nodiscard]] flow::image take(const storage::checkpoint& from, std::uint64_t items) {
    image_.epoch = from.header().generation;
    image_.next_item = items;
    return std::move(image_);
  }

 private:
  flow::image image_;
};

/// Adds the curve so far as the newest message of the sink: the first version wrote its
/// file only at the end of a run.
/// Its offset is the number of messages and their digest.
result<void> add_curve(image_builder& to, const run_accounts& accounts,
                       const std::string& name) {
  std::vector<curve_point> points;
  for (const curve_window& w : accounts.curve) {
    points.push_back({w.tokens, w.sum.bits_per_byte()});
  }
  byte_vector message;
  if (!points.empty()) {
    WEIR_TRY(message, encode_curve(points, name));
  }
  to.add("STATE/curve/MESSAGE", message);
  to.add_numbers("OFFSET/curve",
                 {message.empty() ? 0U : 1U, message.empty() ? 0U : xxh3_64(message)});
  return {};
}

}  // namespace

/// Returns the image from which the pipeline of the run continues. `from` must be of the
/// first version.
result<flow::image> image_of_run(const stored_run& from, const flow::graph& stages,
                                 const std::string& name) {
  const std::uint64_t pulses = from.record.pulses;
  image_builder to;
  to.add(std::string(flow::identity_section), as_view(flow::identity_of(stages)));
  to.add_numbers("CURSOR/text", {pulses});
  // The source continues at the cursor, with the plan of phases.
  to.add("STATE/text/CURSOR", from.cursor);
  to.add("STATE/text/CONDUCTOR", encode(from.record));
  to.add_numbers("STATE/text/BUDGET", {from.build_budget});
  // The parts of the model have the same names in both versions.
  for (const auto& section : from.file.sections()) {
    if (is_of_model(section.name)) {
      to.add("STATE/learn/" + section.name, section.data);
    }
  }
  // Without the kernels of the first run, a difference of results cannot be told.
  if (const auto build = from.file.find("BUILD_ID")) {
    to.add("STATE/learn/KERNELS", (*build)->data);
  } else {
    to.add("STATE/learn/KERNELS", as_view(std::string_view("unknown")));
  }
  to.add("STATE/accounts/METRICS", encode(from.accounts));
  to.add_numbers("STATE/accounts/BUILD_TOKENS", {from.record.used[0].tokens});
  WEIR_CHECK(add_curve(to, from.accounts, name));
  // All stages stood behind the same pulse.
  for (const char* stage : {stage_names::text, stage_names::learn, stage_names::accounts,
                            stage_names::curve}) {
    to.add_stage(stage, pulses);
  }
  return to.take(from.file, pulses);
}

}  // namespace weir::actors
