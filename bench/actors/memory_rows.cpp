// SPDX-License-Identifier: Apache-2.0
/// @file
/// The row about the memory of items: the growth of the resident memory, measured in a
/// process of its own, over the bound of the plan.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>

#include "pipeline/stages.hpp"
#include "rows.hpp"
#include "weir/actors/pipelines.hpp"

namespace weir::bench {
namespace {

/// A stage whose task writes the whole item.
struct filling {
  in<std::uint64_t, 1> x;
  out<std::uint64_t, 1> y;
  static void describe(stage_spec<filling>& s) {
    s.name("bench.filling", "writes whole items").stateless();
    s.port("x", &filling::x, "n").port("y", &filling::y, "n");
  }
  result<void> on_item(step& s) {
    const auto from = s[x];
    WEIR_TRY(const auto to, s.make(y, from.extent(0)));
    s.submit(
        "fill",
        [](auto a, auto b) {
          for (std::uint64_t& word : b) {
            word = a[0];
          }
        },
        read(from), write(to));
    return s.emit();
  }
};

/// A sink that is much slower than the source.
struct slow_sink {
  using offset = std::uint64_t;
  any_in x;
  offset count = 0;
  static void describe(stage_spec<slow_sink>& s) {
    s.name("bench.slow", "takes its time").port("x", &slow_sink::x);
  }
  result<void> put(taken& t) {
    keep(t.seq());
    ++count;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return {};
  }
  result<offset> settle() { return count; }
  result<void> rewind(offset o) {
    count = o;
    return {};
  }
};

/// Runs items of `Words` numbers through three stages. Returns the bound of the plan.
template <std::int64_t Words>
std::int64_t run_slowly(std::uint64_t count) {
  pipeline p("bench");
  node last = p.add<item_source<Words>>("source", {.count = count, .whole = true});
  for (int i = 0; i < 3; ++i) {
    last = last >> p.add<filling>("stage" + std::to_string(i));
  }
  last >> p.add<slow_sink>("sink");
  return or_throw(run(p, {})).memory_bound;
}

/// Returns a line of /proc/self/status in bytes.
double status_bytes(const std::string& key) {
  std::ifstream lines("/proc/self/status");
  std::string word;
  while (lines >> word) {
    if (word == key + ":") {
      double kib = 0;
      lines >> kib;
      return kib * 1024;
    }
  }
  throw std::runtime_error("/proc/self/status has no line " + key);
}

double memory_ratio() {
  const std::string command = "exec \"$(readlink /proc/" + std::to_string(::getpid()) +
                              "/exe)\" " + memory_argument;
  FILE* child = ::popen(command.c_str(), "r");
  if (child == nullptr) {
    throw std::runtime_error("cannot start the process that measures its memory");
  }
  double ratio = 0;
  const int fields = std::fscanf(child, "%lf", &ratio);
  if (::pclose(child) != 0 || fields != 1) {
    throw std::runtime_error("the process that measures its memory failed");
  }
  return ratio;
}

}  // namespace

/// The first run uses code, threads and the engine, so that they are not counted.
int memory_child() {
  keep(run_slowly<8>(3));
  const double before = status_bytes("VmRSS");
  const auto bound = static_cast<double>(run_slowly<(4 << 20) / 8>(100));
  std::printf("%g\n", (status_bytes("VmHWM") - before) / bound);
  return 0;
}

void add_memory_rows(program& bench) {
  bench.add("pipe_memory_ratio", "ratio", at_most(1), [] { return memory_ratio(); });
}

}  // namespace weir::bench
