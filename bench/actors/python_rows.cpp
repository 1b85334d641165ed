// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rows about a stage in Python, which works in a child process.
#include "clean.hpp"
#include "pipeline/chains.hpp"
#include "rows.hpp"
#include "weir/actors/pipelines.hpp"
#include "weir/actors/python_stages.hpp"

namespace weir::bench {
namespace {

constexpr std::size_t samples = 5;
/// Lets a message to the child have 32 items while the next 32 are made.
constexpr std::uint32_t window = 64;

/// Returns the seconds per item of a source, the stage in Python and a sink.
template <std::int64_t Words>
double python_seconds(std::uint64_t count) {
  watch() = {};
  watch().first = count / 10;
  watch().last = watch().first + count - 1;
  pipeline p("bench");
  node source = p.add<item_source<Words>>("source", {.count = watch().last + 1});
  node stage = p.add("stage", "bench.touch");
  stage.window(window, std::int64_t{1} << 30);
  node sink = p.add<watch_sink>("sink");
  sink.window(window, std::int64_t{1} << 30);
  source >> stage >> sink;
  keep(or_throw(run(p, {})).items);
  return watch().seconds_per_item();
}

/// Adds the stage once. Without Python or NumPy the rows fail with the reason.
void add_touch() {
  static const bool added = [] {
    or_throw(add_python_stages(flow::stages(), WEIR_BENCH_FOLDER "/actors/touch.py"));
    return true;
  }();
  keep(added);
}

template <std::int64_t Words>
double python_us(std::uint64_t count) {
  add_touch();
  return 1e6 * median(clean_samples(
                   2, samples, [=] { return python_seconds<Words>(count); },
                   thread_pair(), threads::more));
}

}  // namespace

void add_python_rows(program& bench) {
  bench.add("pipe_python_us", "us", at_most(2), [] { return python_us<8>(50'000); });
  bench.add("pipe_python_mib_ratio", "ratio", at_most(1.3), [] {
    constexpr std::int64_t mib = 1 << 17;
    return python_us<mib>(2'000) / python_us<8>(50'000);
  });
}

}  // namespace weir::bench
