// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rows about the way of an item from one host to another, and about progress.
#include <string>

#include "clean.hpp"
#include "one_processor.hpp"
#include "pipeline/chains.hpp"
#include "rows.hpp"
#include "weir/actors/pipelines.hpp"

namespace weir::bench {
namespace {

constexpr std::size_t samples = 5;
/// Lets a source or sink have 32 items at once.
constexpr std::uint32_t window = 64;

/// Returns the seconds per item of a run by a clock: CLOCK_MONOTONIC for the time,
/// CLOCK_PROCESS_CPUTIME_ID for the processor time of all threads.
template <class Run>
double seconds_of_item(clockid_t clock, std::uint64_t count, int stages, Run&& run) {
  watch() = {};
  watch().first = count / 10;
  watch().last = watch().first + count - 1;
  watch().clock = clock;
  pipeline p("bench");
  build_chain<passing>(p, stages, watch().last + 1, window);
  run(p);
  return watch().seconds_per_item();
}

double actors_seconds(clockid_t clock, std::uint64_t count, int stages, bool publishes) {
  return seconds_of_item(clock, count, stages, [publishes](pipeline& p) {
    run_options options;
    if (publishes) {
      options.progress = [](const pipeline_progress& now) { keep(now.items); };
    }
    keep(or_throw(run(p, options)).items);
  });
}

/// Returns the messages of all actors per crossing of an item. The sources and sinks of
/// the row have 32 items with a message, if so many are ready.
double messages_per_crossing() {
  constexpr std::uint64_t count = 100'000;
  pipeline p("bench");
  build_chain<passing>(p, 0, count, window);
  const pipeline_report report = or_throw(run(p, {}));
  return static_cast<double>(report.messages) / static_cast<double>(2 * count);
}

/// An item crosses twice, from the source to the engine and from there to the sink. The
/// work of the same pipeline on one thread is not part of the figure.
double cross_ns(clockid_t clock) {
  constexpr std::uint64_t count = 100'000;
  return 1e9 * median(clean_samples(
                   2, samples,
                   [clock] {
                     const double here =
                         seconds_of_item(clock, count, 0, [](pipeline& p) {
                           keep(or_throw(flow::run_here(p, {})).items);
                         });
                     return (actors_seconds(clock, count, 0, false) - here) / 2;
                   },
                   thread_pair(), threads::more));
}

/// Returns the share by which the processor time of an item grows if progress is
/// published ten times a second. Stages and edges always count, so what counting costs
/// cannot be measured. On several processors, hosts that wait for each other would take
/// most of the time.
double observe_share() {
  constexpr std::uint64_t count = 1'000'000;
  return median(clean_samples(
             2, samples,
             [] {
               const one_processor here;
               constexpr clockid_t clock = CLOCK_PROCESS_CPUTIME_ID;
               const double silent = actors_seconds(clock, count, 3, false);
               return actors_seconds(clock, count, 3, true) / silent;
             },
             thread_pair(), threads::more)) -
         1;
}

}  // namespace

void add_crossing_rows(program& bench) {
  bench.add("pipe_cross_ns", "ns", at_most(130),
            [] { return cross_ns(CLOCK_MONOTONIC); });
  // Hosts that wait for each other take processor time, too, so it has no bar.
  bench.add("pipe_cross_processor_ns", "ns", no_bar,
            [] { return cross_ns(CLOCK_PROCESS_CPUTIME_ID); });
  bench.add("pipe_messages", "per item", at_most(0.125),
            [] { return messages_per_crossing(); });
  bench.add("pipe_observe_share", "share", at_most(0.02), [] { return observe_share(); });
}

}  // namespace weir::bench
