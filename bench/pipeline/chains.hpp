// SPDX-License-Identifier: Apache-2.0
/// @file
/// Pipelines of a source, equal stages in a chain and a sink, and their time per item.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "stages.hpp"
#include "weir/pipeline/run_here.hpp"

namespace weir::bench {

/// Items that are alive on an edge; the peers have as many tokens.
inline constexpr std::uint32_t chain_window = 16;
/// Numbers of stages whose times per item give the time of one further stage.
inline constexpr int few_stages = 1;
inline constexpr int many_stages = 8;

/// Runs a pipeline on the calling thread and returns the seconds per item. `count` items
/// follow a tenth as many that are not measured. With one worker the time is processor
/// time.
template <class Build>
double seconds_per_item(unsigned workers, std::uint64_t count, Build&& build) {
  watch() = {};
  watch().first = count / 10;
  watch().last = watch().first + count - 1;
  watch().clock = workers == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
  pipeline p("bench");
  build(p, watch().last + 1);
  flow::here_options options;
  options.workers = workers;
  keep(or_throw(flow::run_here(p, options)).items);
  return watch().seconds_per_item();
}

/// Adds a chain of `stages` equal stages with items of `Words` numbers to a pipeline.
template <class Stage, std::int64_t Words = 8>
void build_chain(pipeline& p, int stages, std::uint64_t items,
                 std::uint32_t window = chain_window) {
  node last = p.add<item_source<Words>>("source", {.count = items});
  for (int i = 0; i < stages; ++i) {
    node next = p.add<Stage>("stage" + std::to_string(i));
    next.window(window);
    last >> next;
    last = next;
  }
  node sink = p.add<watch_sink>("sink");
  sink.window(window);
  last >> sink;
}

/// Returns the seconds per item of a chain of `stages` equal stages with items of `Words`
/// numbers.
template <class Stage, std::int64_t Words = 8>
double chain_seconds(unsigned workers, int stages, std::uint64_t count) {
  return seconds_per_item(workers, count, [&](pipeline& p, std::uint64_t items) {
    build_chain<Stage, Words>(p, stages, items);
  });
}

/// Returns the seconds of one further stage. `seconds(stages)` returns the time per item.
template <class Seconds>
double further_stage(Seconds&& seconds) {
  const double few = seconds(few_stages);
  return (seconds(many_stages) - few) / (many_stages - few_stages);
}

}  // namespace weir::bench
