// SPDX-License-Identifier: Apache-2.0
/// @file
/// The row about allocations: a program of its own, because counting slows every
/// allocation of the peers.
#include "allocation_counter.hpp"
#include "chains.hpp"

namespace weir::bench {
namespace {

constexpr std::uint64_t warm = 1'000;
constexpr std::uint64_t items = 10'000;

std::uint64_t at_begin = 0;  ///< allocations before item `warm`
std::uint64_t at_end = 0;    ///< allocations behind the last item

/// A late stage, which looks at its item.
struct looking {
  in<std::uint64_t, 1> x;
  out<std::uint64_t, 1> y;
  scratch<std::uint64_t, 1> sum;
  static void describe(stage_spec<looking>& s) {
    s.name("bench.looking", "looks at values").forwards();
    s.port("x", &looking::x, "n").port("y", &looking::y, "n");
    s.memory("sum", &looking::sum, "1");
  }
  result<void> on_item(step& s) {
    WEIR_TRY(const auto to, s.make(sum, 1));
    s.submit(
        "sum", [](auto from, auto out) { out[0] = from[0]; }, read(s[x]), write(to));
    return {};
  }
  result<void> on_done(step& s) {
    keep(s.value(sum)[0]);
    s.forward(x, y);
    return s.emit();
  }
};

/// A sink that reads the counter at two items.
struct counting_sink {
  using offset = std::uint64_t;
  any_in x;
  offset count = 0;
  static void describe(stage_spec<counting_sink>& s) {
    s.name("bench.counting", "reads the counter").port("x", &counting_sink::x);
  }
  result<void> put(taken& t) {
    ++count;
    if (t.seq() == warm) {
      at_begin = allocations();
    } else if (t.seq() == warm + items) {
      at_end = allocations();
    }
    return {};
  }
  result<offset> settle() { return count; }
  result<void> rewind(offset o) {
    count = o;
    return {};
  }
};

/// Returns the allocations per item of a pipeline with a stage of each face.
double allocations_per_item() {
  pipeline p("bench");
  p.add<item_source<8>>("source", {.count = warm + items + 1}) >>
      p.add<passing>("passing") >> p.add<empty_task>("task") >>
      p.map("map", "u64[n]", "u64[n]",
            [](view<const std::uint64_t, 1> a, view<std::uint64_t, 1> b) {
              b[0] = a[0];
            }) >>
      p.add<looking>("late") >> p.add<counting_sink>("sink");
  keep(or_throw(flow::run_here(p, {})).items);
  return static_cast<double>(at_end - at_begin) / static_cast<double>(items);
}

}  // namespace
}  // namespace weir::bench

int main(int argc, char** argv) {
  weir::bench::program bench;
  bench.add("pipe_allocs", "per item", weir::bench::at_most(0),
            [] { return weir::bench::allocations_per_item(); });
  return bench.run(argc, argv);
}
