// SPDX-License-Identifier: Apache-2.0
/// @file
/// The parts of every benchmark program: measurements that are registered by id, and
/// printed as one JSON object per line.
///
/// ```
/// int main(int argc, char** argv) {
///   weir::bench::program bench;
///   bench.add("crc32_ns_per_kib", "ns", weir::bench::at_most(90), [] { return measure();
///   }); return bench.run(argc, argv);
/// }
/// ```
/// `prog --list` prints the ids; `prog [PATTERN...]` measures those whose id matches a
/// shell pattern.
#pragma once

#include <fnmatch.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weir::bench {

/// The limit that a value must keep, for example `<= 150`.
struct bar {
  enum class side { at_most, at_least } sense;
  double limit;

  [[nodiscard]] bool holds(double value) const noexcept {
    return sense == side::at_most ? value <= limit : value >= limit;
  }
};
[[nodiscard]] inline bar at_most(double limit) noexcept {
  return {bar::side::at_most, limit};
}
[[nodiscard]] inline bar at_least(double limit) noexcept {
  return {bar::side::at_least, limit};
}
/// A row without a limit, which informs and cannot fail.
inline constexpr std::nullopt_t no_bar = std::nullopt;

/// Two values between which the true one lies with a probability of 99 %.
struct interval {
  double low;
  double high;

  /// Returns true if the limit holds for all values of the interval, or for none.
  [[nodiscard]] bool decides(const bar& limit) const noexcept {
    return limit.holds(low) == limit.holds(high);
  }
};

/// Result of one measurement; converts from a plain number.
struct measured {
  measured(double v) : value(v) {}  // NOLINT: implicit on purpose
  measured(double v, std::optional<double> p, std::optional<bar> b = std::nullopt)
      : value(v), peer(p), own_bar(b) {}
  /// A value beside a figure of another library that was measured on another machine or
  /// day. The row shows that figure and is not judged by it.
  [[nodiscard]] static measured beside_record(double value, double recorded) {
    measured out(value);
    if (recorded > 0) {
      out.elsewhere = recorded;
    }
    return out;
  }

  double value;
  /// The same figure of another library, in the same unit, measured in this run.
  std::optional<double> peer;
  std::optional<bar> own_bar;  ///< replaces the registered bar, e.g. a share of the peer
  /// The same figure of another library, measured on another machine or day.
  std::optional<double> elsewhere;
  /// Of a ratio whose sides were measured in turn and had too few quiet samples: where
  /// the true value lies. The row has a verdict if the interval lies on one side of the
  /// bar, since noise affects both sides alike.
  std::optional<interval> range;
  /// Facts about what was measured, such as digests of files; no quotes or backslashes.
  std::string note;
};

/// How the value of a row was sampled. A sample is quiet if nothing else used the
/// processors before, during and after it (`clean.hpp`). A row that is made of such
/// samples has a verdict only if most sets of samples had enough quiet ones, because
/// otherwise noise would decide.
struct sampling {
  /// Least number of quiet samples whose median can be judged.
  static constexpr std::size_t least_quiet = 3;

  std::size_t quiet = 0;       ///< quiet samples, all sets together
  std::size_t taken = 0;       ///< samples, all sets together
  std::size_t sets = 0;        ///< 0 if the row does not look for quiet samples
  std::size_t quiet_sets = 0;  ///< sets with at least `least_quiet` quiet samples

  void add_set(std::size_t quiet_in_set, std::size_t taken_in_set) {
    quiet += quiet_in_set;
    taken += taken_in_set;
    ++sets;
    quiet_sets += quiet_in_set >= least_quiet ? 1 : 0;
  }
  [[nodiscard]] bool decides() const { return sets == 0 || 2 * quiet_sets > sets; }
};

/// Sampling of the row that is being measured; `program` resets it before each row.
/// @threads{the thread that measures}
[[nodiscard]] inline sampling& sampling_of_row() {
  static sampling current;
  return current;
}

/// Returns true if the slow peers are measured too (`make bench PEERS=all`).
[[nodiscard]] inline bool all_peers() {
  const char* peers = std::getenv("WEIR_PEERS");
  return peers != nullptr && std::string_view(peers) == "all";
}

/// Keeps the optimiser from removing the computation of `value`.
template <class T>
inline void keep(const T& value) {
  asm volatile("" : : "r,m"(value) : "memory");
}

/// Returns the wall-clock seconds of one call.
template <class F>
[[nodiscard]] double seconds_of(F&& run) {
  const auto start = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}
/// Returns the processor seconds that this thread spends in one call, which busy
/// neighbours hardly change.
template <class F>
[[nodiscard]] double thread_seconds_of(F&& run) {
  const auto read = [] {
    timespec now{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
  };
  const double start = read();
  run();
  return read() - start;
}

/// Returns the median of an unsorted list; 0 if it is empty.
[[nodiscard]] inline double median(std::vector<double> values) {
  if (values.empty()) {
    return 0;
  }
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}
/// Returns an interval that contains the true median of values that are independent of
/// each other, whatever their distribution is: the number of values below the median is
/// binomial. Returns nothing for fewer than 32 values.
[[nodiscard]] inline std::optional<interval> interval_of_median(
    std::vector<double> values) {
  if (values.size() < 32) {
    return std::nullopt;
  }
  std::sort(values.begin(), values.end());
  const auto count = static_cast<double>(values.size());
  constexpr double deviations = 2.576;  // of a normal distribution, for 99 %
  const auto below = static_cast<std::size_t>(
      std::max(0.0, (count - deviations * std::sqrt(count)) / 2));
  return interval{values[below], values[values.size() - 1 - below]};
}
/// Returns the results of calling `measure` (which returns a double) `repeats` times.
template <class F>
[[nodiscard]] std::vector<double> repeat(int repeats, F&& measure) {
  std::vector<double> values;
  for (int i = 0; i < repeats; ++i) {
    values.push_back(measure());
  }
  return values;
}
/// Returns the median of the wall-clock seconds of `repeats` calls.
template <class F>
[[nodiscard]] double median_seconds(int repeats, F&& run) {
  return median(repeat(repeats, [&] { return seconds_of(run); }));
}
/// Returns the smallest of the wall-clock seconds of `repeats` calls.
template <class F>
[[nodiscard]] double min_seconds(int repeats, F&& run) {
  const std::vector<double> all =
      repeat(std::max(repeats, 1), [&] { return seconds_of(run); });
  return *std::min_element(all.begin(), all.end());
}
/// Returns the median over `repeats` of seconds(run) / seconds(reference). The two calls
/// of a pair follow each other, so that a slow spell of the machine affects both.
template <class F, class G>
[[nodiscard]] double median_ratio(int repeats, F&& run, G&& reference) {
  return median(repeat(repeats, [&] {
    const double mine = seconds_of(run);
    return mine / seconds_of(reference);
  }));
}

namespace detail {

/// Returns a JSON number; null for a value that JSON cannot express.
inline std::string number(double value) {
  if (!std::isfinite(value)) {
    return "null";
  }
  char text[40];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}
inline std::string number(const std::optional<double>& value) {
  return value ? number(*value) : "null";
}
/// Returns a JSON object, or null for a row that does not look for quiet samples.
inline std::string samples(const sampling& s) {
  return s.sets == 0 ? "null"
                     : "{\"quiet\": " + std::to_string(s.quiet) +
                           ", \"taken\": " + std::to_string(s.taken) +
                           ", \"enough\": " + (s.decides() ? "true" : "false") + "}";
}
/// Returns a JSON array of two numbers, or null.
inline std::string range(const std::optional<interval>& of) {
  if (!of) {
    return "null";
  }
  // Some versions of g++ warn of "[" + number(...) without a reason.
  std::string text = "[";
  text += number(of->low) + ", " + number(of->high) + "]";
  return text;
}

}  // namespace detail

/// A benchmark program: registered measurements and the command line.
/// @threads{thread-compatible}
class program {
 public:
  using function = std::function<measured()>;

  /// Registers a measurement. `id` consists of [a-z0-9A-Z_]; ids are unique over all
  /// programs.
  void add(std::string id, std::string unit, std::optional<bar> limit, function measure) {
    entries_.push_back({std::move(id), std::move(unit), limit, std::move(measure)});
  }

  /// Measures the selected rows. Returns 0 if all of them could be measured, whether or
  /// not their limits hold.
  int run(int argc, char** argv) const {
    std::vector<std::string> patterns;
    for (int i = 1; i < argc; ++i) {
      if (std::string_view(argv[i]) == "--list") {
        return list();
      }
      patterns.emplace_back(argv[i]);
    }
    bool all_measured = true;
    for (const entry& e : entries_) {
      if (selected(e.id, patterns)) {
        all_measured = print(e) && all_measured;
      }
    }
    return all_measured ? 0 : 1;
  }

 private:
  struct entry {
    std::string id;
    std::string unit;
    std::optional<bar> limit;
    function measure;
  };

  int list() const {
    for (const entry& e : entries_) {
      std::printf("%s\n", e.id.c_str());
    }
    return 0;
  }
  static bool selected(const std::string& id, const std::vector<std::string>& patterns) {
    return patterns.empty() ||
           std::any_of(patterns.begin(), patterns.end(), [&](const std::string& p) {
             return ::fnmatch(p.c_str(), id.c_str(), 0) == 0;
           });
  }
  /// Measures one row. Without enough quiet samples, or an interval that decides, the row
  /// gets no verdict. A measurement that throws is reported as a row without a value.
  static bool print(const entry& e) {
    sampling_of_row() = {};
    try {
      const measured m = e.measure();
      std::optional<bar> limit = m.own_bar ? m.own_bar : e.limit;
      // A row with an interval takes its verdict from it.
      const bool decided =
          m.range ? limit && m.range->decides(*limit) : sampling_of_row().decides();
      if (!decided) {
        limit.reset();
      }
      const bool holds = !limit || limit->holds(m.value);
      print_row(e, detail::number(m.value), limit, holds, m);
      return true;
    } catch (const std::exception& failure) {
      std::fprintf(stderr, "cannot measure \"%s\": %s\n", e.id.c_str(), failure.what());
      print_row(e, "null", e.limit, false, measured(0));
      return false;
    }
  }
  static void print_row(const entry& e, const std::string& value,
                        const std::optional<bar>& limit, bool holds, const measured& m) {
    const char* sense = !limit                               ? "null"
                        : limit->sense == bar::side::at_most ? "\"<=\""
                                                             : "\">=\"";
    std::printf(
        "{\"id\": \"%s\", \"value\": %s, \"unit\": \"%s\", \"bar\": %s, \"sense\": %s, "
        "\"holds\": %s, \"peer\": %s, \"elsewhere\": %s, \"samples\": %s, "
        "\"interval\": %s, \"note\": %s}\n",
        e.id.c_str(), value.c_str(), e.unit.c_str(),
        limit ? detail::number(limit->limit).c_str() : "null", sense,
        holds ? "true" : "false", detail::number(m.peer).c_str(),
        detail::number(m.elsewhere).c_str(), detail::samples(sampling_of_row()).c_str(),
        detail::range(m.range).c_str(),
        m.note.empty() ? "null" : ('"' + m.note + '"').c_str());
    std::fflush(stdout);
  }

  std::vector<entry> entries_;
};

}  // namespace weir::bench
