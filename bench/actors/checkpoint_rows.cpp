// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rows about checkpoints, starts and resumed runs.
#include <algorithm>
#include <string>
#include <vector>

#include "clean.hpp"
#include "pipeline/stages.hpp"
#include "rows.hpp"
#include "support/temp_folder.hpp"
#include "weir/actors/pipelines.hpp"
#include "weir/base/clock.hpp"
#include "work.hpp"

namespace weir::bench {
namespace {

constexpr double task_ns = 20'000;

/// A stage with a table as its state, which the task of each item changes. The item
/// behind it holds the time at which the task began.
struct stateful {
  struct settings {
    std::uint64_t words = 1;
  };
  in<std::uint64_t, 1> x;
  out<std::int64_t, 1> y;
  tensor<std::uint64_t, 1> table;
  std::int64_t iterations = 0;
  static void describe(stage_spec<stateful>& s) {
    s.name("bench.stateful", "changes a table");
    s.port("x", &stateful::x, "n").port("y", &stateful::y, "1");
    s.state("table", &stateful::table);
    s.set("words", &settings::words, "length of the table");
  }
  result<void> open(opening& run, const settings& s) {
    table = run.host().make<std::uint64_t>(static_cast<std::int64_t>(s.words));
    iterations = static_cast<std::int64_t>(task_ns / best_pace().work_ns);
    return {};
  }
  result<void> on_item(step& s) {
    WEIR_TRY(const auto to, s.make(y, 1));
    s.submit(
        "count",
        [count = iterations](auto from, auto state, auto time) {
          time[0] = now_ns();
          state[0] += from[0];
          work(count);
        },
        read(s[x]), update(table), write(to));
    return s.emit();
  }
};

/// A sink that keeps the times, and asks a run to stop behind an item.
struct time_sink {
  using offset = std::uint64_t;
  in<std::int64_t, 1> x;
  offset count = 0;
  static inline std::vector<std::int64_t> times;
  static inline double first_put = 0;  ///< seconds of the clock at the first item
  static inline std::uint64_t stop_behind = ~std::uint64_t{0};
  static inline actors::run_control* control = nullptr;
  static void describe(stage_spec<time_sink>& s) {
    s.name("bench.times", "keeps times").port("x", &time_sink::x, "n");
  }
  static void reset() {
    times.clear();
    first_put = 0;
    stop_behind = ~std::uint64_t{0};
    control = nullptr;
  }
  result<void> put(taken& t) {
    if (times.empty()) {
      first_put = static_cast<double>(now_ns()) * 1e-9;
    }
    times.push_back(t[x][0]);
    ++count;
    if (times.size() == stop_behind && control != nullptr) {
      control->request_stop();
    }
    return {};
  }
  result<offset> settle() { return count; }
  result<void> rewind(offset o) {
    count = o;
    return {};
  }
};

void build(pipeline& p, std::uint64_t words, std::uint64_t count) {
  node source = p.add<item_source<8>>("source", {.count = count});
  source >> p.add<stateful>("stateful", {.words = words}) >> p.add<time_sink>("sink");
}

constexpr std::uint64_t six_mb = 6'000'000 / 8;
constexpr std::uint64_t hundred_mb = 100'000'000 / 8;
constexpr std::uint64_t endless = std::uint64_t{1} << 40;

run_options in_folder(const test::temp_folder& folder) {
  run_options options;
  options.folder = folder / "run";
  return options;
}

/// Returns the median over the checkpoints of a run of the time by which a checkpoint
/// delays the first task behind it. Tasks of other items follow each other.
double stall_ms() {
  constexpr std::uint64_t every = 10'000;
  constexpr std::uint64_t epochs = 7;
  const test::temp_folder folder;
  pipeline p("bench");
  build(p, six_mb, every * epochs + every / 2);
  time_sink::reset();
  run_options options = in_folder(folder);
  options.every_items = every;
  keep(or_throw(run(p, options)).items);
  const auto& times = time_sink::times;
  std::vector<double> gaps;
  for (std::size_t i = 1; i < times.size(); ++i) {
    gaps.push_back(static_cast<double>(times[i] - times[i - 1]) * 1e-6);
  }
  const double usual = median(gaps);
  std::vector<double> stalls;
  for (std::uint64_t e = 1; e <= epochs; ++e) {
    stalls.push_back(gaps[e * every - 1] - usual);
  }
  return median(stalls);
}

double run_seconds(double every_seconds) {
  constexpr std::uint64_t items = 200'000;
  const test::temp_folder folder;
  pipeline p("bench");
  build(p, six_mb, items);
  time_sink::reset();
  run_options options = in_folder(folder);
  options.every_seconds = every_seconds;
  keep(or_throw(run(p, options)).items);
  const auto& times = time_sink::times;
  return static_cast<double>(times.back() - times[items / 10]) * 1e-9;
}

/// Returns the share of the rate that a checkpoint each second costs.
double checkpoint_share() {
  return 1 - median(clean_samples(
                 2, 3,
                 [] {
                   const double without = run_seconds(0);
                   return without / run_seconds(1);
                 },
                 thread_pair(), threads::more));
}

/// Returns the milliseconds from the first call for a run to its first item at the sink.
/// The run then stops, with a checkpoint.
double first_item_ms(const test::temp_folder& folder, std::uint64_t words, bool resumes) {
  time_sink::reset();
  actors::run_control control;
  time_sink::control = &control;
  time_sink::stop_behind = 100;
  const double begin = static_cast<double>(now_ns()) * 1e-9;
  pipeline p("bench");
  build(p, words, endless);
  run_options options = in_folder(folder);
  options.control = &control;
  keep(or_throw(resumes ? resume(p, options) : run(p, options)).items);
  return (time_sink::first_put - begin) * 1e3;
}

double start_ms() {
  keep(best_pace());
  return median(clean_samples(
      1, 9,
      [] {
        const test::temp_folder folder;
        return first_item_ms(folder, 1, false);
      },
      thread_pair(), threads::more));
}

double resume_ms() {
  keep(best_pace());
  const test::temp_folder folder;
  keep(first_item_ms(folder, hundred_mb, false));
  return median(clean_samples(
      1, 5, [&] { return first_item_ms(folder, hundred_mb, true); }, thread_pair(),
      threads::more));
}

}  // namespace

void add_checkpoint_rows(program& bench) {
  bench.add("pipe_checkpoint_stall_ms", "ms", at_most(1), [] {
    return median(clean_samples(
        2, 3, [] { return stall_ms(); }, thread_pair(), threads::more));
  });
  bench.add("pipe_checkpoint_share", "share", at_most(0.01),
            [] { return checkpoint_share(); });
  bench.add("pipe_start_ms", "ms", at_most(30), [] { return start_ms(); });
  bench.add("pipe_resume_ms", "ms", at_most(300), [] { return resume_ms(); });
}

}  // namespace weir::bench
