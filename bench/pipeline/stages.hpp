// SPDX-License-Identifier: Apache-2.0
/// @file
/// The stages of the measured pipelines, and the watch that their sources and sinks stop.
#pragma once

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <string>

#include "bench.hpp"
#include "weir/pipeline.hpp"

namespace weir::bench {

/// Seconds between two items of one run. The first items are not measured, so the start
/// of the run and the first use of its memory are left out.
struct run_watch {
  std::uint64_t first = 0;  ///< the item at whose beginning the watch starts
  std::uint64_t last = 0;   ///< the item after which the watch stops
  clockid_t clock = CLOCK_MONOTONIC;
  double begin = 0;  ///< reading when the source makes item `first`
  double end = 0;    ///< reading when the sink has taken item `last`

  [[nodiscard]] double now() const {
    timespec t{};
    ::clock_gettime(clock, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
  }
  [[nodiscard]] double seconds_per_item() const {
    return (end - begin) / static_cast<double>(last + 1 - first);
  }
};

/// The watch of the run in progress.
/// @threads{one run at a time; its source writes `begin`, its sink the end}
inline run_watch& watch() {
  static run_watch current;
  return current;
}

/// A source of `count` items of `Words` numbers, of which it writes the first, or all.
template <std::int64_t Words>
struct item_source {
  struct settings {
    std::uint64_t count = 1;
    bool whole = false;
  };
  using cursor = std::uint64_t;
  out<std::uint64_t, 1> x;
  settings with;
  std::uint64_t at = 0;
  static void describe(stage_spec<item_source>& s) {
    s.name("bench.items", "items whose first word is their number")
        .port("x", &item_source::x, std::to_string(Words));
    s.set("count", &settings::count, "number of items").may_change();
    s.set("whole", &settings::whole, "write all numbers of an item");
  }
  result<void> open(opening& /*run*/, const settings& s) {
    with = s;
    return {};
  }
  result<bool> next(pull& p) {
    if (at == watch().first) {
      watch().begin = watch().now();
    }
    if (at == with.count) {
      return false;
    }
    WEIR_TRY(auto v, p.fill(x, Words));
    if (with.whole) {
      std::fill(v.begin(), v.end(), at);
    }
    v[0] = at++;
    return true;
  }
  [[nodiscard]] cursor position() const { return at; }
  result<void> seek(cursor c) {
    at = c;
    return {};
  }
};

/// A stage without a task.
struct passing {
  any_in x;
  any_out y;
  static void describe(stage_spec<passing>& s) {
    s.name("bench.passing", "hands items on").stateless();
    s.port("x", &passing::x).port("y", &passing::y);
  }
  result<void> on_item(step& s) {
    s.forward(x, y);
    return s.emit();
  }
};

/// A stage of one task that does nothing: it reads the item and writes another one.
struct empty_task {
  in<std::uint64_t, 1> x;
  out<std::uint64_t, 1> y;
  static void describe(stage_spec<empty_task>& s) {
    s.name("bench.empty", "one empty task").stateless();
    s.port("x", &empty_task::x, "n").port("y", &empty_task::y, "n");
  }
  result<void> on_item(step& s) {
    const auto from = s[x];
    WEIR_TRY(const auto to, s.make(y, from.extent(0)));
    s.submit(
        "empty", [](auto, auto) {}, read(from), write(to));
    return s.emit();
  }
};

/// A sink that stops the watch.
struct watch_sink {
  using offset = std::uint64_t;
  any_in x;
  offset count = 0;
  static void describe(stage_spec<watch_sink>& s) {
    s.name("bench.sink", "forgets items").port("x", &watch_sink::x);
  }
  result<void> put(taken& t) {
    ++count;
    if (t.seq() == watch().last) {
      watch().end = watch().now();
    }
    return {};
  }
  result<offset> settle() { return count; }
  result<void> rewind(offset o) {
    count = o;
    return {};
  }
};

}  // namespace weir::bench
