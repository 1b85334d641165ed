// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rows about stages whose tasks work: the rate with two workers, and tasks of several
/// stages of one item at the same time.
#include "chains.hpp"
#include "loads.hpp"
#include "rows.hpp"

namespace weir::bench {
namespace {

constexpr std::uint64_t items = 1'500;
constexpr std::size_t samples = 9;
constexpr std::int64_t blocks = 8;

/// A stage of one task that works for 20 us.
struct working {
  in<std::uint64_t, 1> x;
  out<std::uint64_t, 1> y;
  std::int64_t iterations = 0;
  static void describe(stage_spec<working>& s) {
    s.name("bench.working", "one task that works").stateless();
    s.port("x", &working::x, "n").port("y", &working::y, "n");
  }
  result<void> open(opening& /*run*/, const no_settings& /*none*/) {
    iterations = iterations_for(stage_work_ns);
    return {};
  }
  result<void> on_item(step& s) {
    const auto from = s[x];
    WEIR_TRY(const auto to, s.make(y, from.extent(0)));
    s.submit(
        "work", [count = iterations](auto, auto) { work(count); }, read(from), write(to));
    return s.emit();
  }
};

/// A source that makes an item only when the sink has taken the one before.
struct single_source {
  struct settings {
    std::uint64_t count = 1;
  };
  using cursor = std::uint64_t;
  out<std::uint64_t, 2> x;
  std::uint64_t count = 0;
  std::uint64_t at = 0;
  static inline std::uint64_t taken_items = 0;  ///< by the sink of the run
  static void describe(stage_spec<single_source>& s) {
    s.name("bench.single", "one item at a time").port("x", &single_source::x, "8,8");
    s.set("count", &settings::count, "number of items");
  }
  result<void> open(opening& /*run*/, const settings& s) {
    count = s.count;
    taken_items = 0;
    return {};
  }
  result<bool> next(pull& p) {
    if (at == count && taken_items == count) {
      return false;
    }
    if (at != taken_items) {
      p.nothing_yet();
      return true;
    }
    if (at == watch().first) {
      watch().begin = watch().now();
    }
    WEIR_TRY(auto v, p.fill(x, blocks, 8));
    v(0, 0) = at++;
    return true;
  }
  [[nodiscard]] cursor position() const { return at; }
  result<void> seek(cursor c) {
    at = c;
    return {};
  }
};

/// The sink of `single_source`.
struct single_sink : watch_sink {
  static void describe(stage_spec<single_sink>& s) {
    s.name("bench.single_sink", "forgets items");
    s.port("x", static_cast<any_in single_sink::*>(&watch_sink::x));
  }
  result<void> put(taken& t) {
    ++single_source::taken_items;
    return watch_sink::put(t);
  }
};

/// A stage of eight tasks of different length, one for each row of an item. It hands an
/// item on when its tasks are submitted; or, with a barrier, when all of them have ended,
/// as a parallel loop for each stage does.
template <bool Barrier>
struct uneven {
  struct settings {
    std::uint64_t place = 0;  ///< of the stage in the chain
  };
  in<std::uint64_t, 2> x;
  out<std::uint64_t, 2> y;
  settings with;
  static void describe(stage_spec<uneven>& s) {
    s.name(Barrier ? "bench.uneven_barrier" : "bench.uneven", "eight tasks").stateless();
    s.port("x", &uneven::x, "n,m").port("y", &uneven::y, "n,m");
    s.set("place", &settings::place, "place in the chain");
  }
  result<void> open(opening& /*run*/, const settings& s) {
    with = s;
    return {};
  }
  result<void> on_item(step& s) {
    const auto from = s[x];
    WEIR_TRY(const auto to, s.make(y, from.extent(0), from.extent(1)));
    for (std::int64_t k = 0; k < blocks; ++k) {
      const auto eighths = (k * 5 + static_cast<std::int64_t>(with.place) * 3) % 8 + 1;
      const double ns = stage_work_ns * static_cast<double>(eighths) / 36;
      s.submit(
          "block", [count = iterations_for(ns)](auto, auto) { work(count); },
          read(from.slice(0, k, k + 1)), write(to.slice(0, k, k + 1)));
    }
    return Barrier ? result<void>() : s.emit();
  }
  result<void> on_done(step& s) requires Barrier { return s.emit(); }
};

double work_us() {
  return 1e6 * quiet_median(2, samples,
                            [] { return chain_seconds<working>(2, work_stages, items); });
}

template <bool Barrier>
double single_seconds() {
  return seconds_per_item(2, items, [&](pipeline& p, std::uint64_t count) {
    node last = p.add<single_source>("source", {.count = count});
    for (std::uint64_t i = 0; i < work_stages; ++i) {
      last = last >> p.add<uneven<Barrier>>("stage" + std::to_string(i), {.place = i});
    }
    last >> p.add<single_sink>("sink");
  });
}

/// Returns the time of an item over its time with a barrier behind each stage.
double overlap_ratio() {
  return quiet_median(2, samples, [] {
    const double rows = single_seconds<false>();
    return rows / single_seconds<true>();
  });
}

}  // namespace

void add_work_rows(program& bench) {
  // Its limit is that of the ratio, see peers.py.
  bench.add("pipe_work_2_us", "us", no_bar, [] { return work_us(); });
  bench.add("pipe_overlap_ratio", "ratio", at_most(0.9), [] { return overlap_ratio(); });
}

}  // namespace weir::bench
