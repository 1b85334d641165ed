// SPDX-License-Identifier: Apache-2.0
/// @file
/// Stages over small vectors of integers, for tests. Each has a plain function that says
/// what it computes, so that a serial interpreter can be compared with a run.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "pipeline/support/memory_store.hpp"
#include "weir/pipeline.hpp"

namespace weir::test {

/// Number of elements of each item.
constexpr int width = 3;
/// Number of elements of each item, as an index.
constexpr std::size_t elements = width;
/// Elements of one item.
using numbers = std::array<std::uint64_t, width>;

/// Returns a well-mixed number.
inline std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9E3779B97F4A7C15U + b + 1;
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31U);
}

/// A source of `count` items.
struct number_source {
  struct settings {
    std::uint64_t count = 10;
    std::uint64_t seed = 1;
  };
  struct cursor {
    std::uint64_t next;
  };
  out<std::uint64_t, 1> x;
  settings with;
  std::uint64_t at = 0;

  static void describe(stage_spec<number_source>& s) {
    s.name("test.numbers", "numbers that depend on a seed")
        .port("x", &number_source::x, "3");
    s.set("count", &settings::count, "items");
    s.set("seed", &settings::seed, "start of the numbers");
  }
  static numbers make(std::uint64_t seed, std::uint64_t n) {
    return {mixed(seed, 3 * n), mixed(seed, 3 * n + 1), mixed(seed, 3 * n + 2)};
  }
  result<void> open(opening&, const settings& s) {
    with = s;
    return {};
  }
  result<bool> next(pull& p) {
    if (at == with.count) {
      return false;
    }
    WEIR_TRY(auto v, p.fill(x, width));
    const numbers n = make(with.seed, at);
    std::copy(n.begin(), n.end(), v.begin());
    ++at;
    return true;
  }
  [[nodiscard]] cursor position() const { return {at}; }
  result<void> seek(cursor c) {
    at = c.next;
    return {};
  }
};

/// A source that cannot read one item until it is repaired.
struct damaged_source {
  struct settings {
    std::uint64_t count = 20;
    std::uint64_t damaged = ~std::uint64_t{0} >> 1;
  };
  using cursor = std::uint64_t;
  out<std::uint64_t, 1> x;
  settings with;
  cursor at = 0;
  static void describe(stage_spec<damaged_source>& s) {
    s.name("test.damaged", "fails at one item").port("x", &damaged_source::x, "3");
    s.set("count", &settings::count, "items");
    s.set("damaged", &settings::damaged, "number of the item").may_change();
  }
  result<void> open(opening&, const settings& s) {
    with = s;
    return {};
  }
  result<bool> next(pull& p) {
    if (at == with.damaged) {
      return error(errc::corrupt, "planted damage");
    }
    if (at == with.count) {
      return false;
    }
    WEIR_TRY(auto v, p.fill(x, width));
    std::fill(v.begin(), v.end(), at++);
    return true;
  }
  [[nodiscard]] cursor position() const { return at; }
  result<void> seek(cursor c) {
    at = c;
    return {};
  }
};

/// y = x * factor + number of the item.
struct scaled {
  struct settings {
    std::uint64_t factor = 3;
  };
  in<std::uint64_t, 1> x;
  out<std::uint64_t, 1> y;
  std::uint64_t factor = 0;
  static void describe(stage_spec<scaled>& s) {
    s.name("test.scaled", "multiplies").stateless();
    s.port("x", &scaled::x, "n").port("y", &scaled::y, "n");
    s.set("factor", &settings::factor, "factor");
  }
  static numbers make(numbers x, std::uint64_t factor, std::uint64_t n) {
    for (auto& v : x) {
      v = v * factor + n;
    }
    return x;
  }
  result<void> open(opening&, const settings& s) {
    factor = s.factor;
    return {};
  }
  result<void> on_item(step& s) {
    WEIR_TRY(auto to, s.make(y, s[x].extent(0)));
    s.submit(
        "scale",
        [f = factor, n = s.seq()](auto from, auto out) {
          for (std::size_t i = 0; i < elements; ++i) {
            out[i] = from[i] * f + n;
          }
        },
        read(s[x]), write(to));
    return s.emit();
  }
};

/// y = sum of all items so far, times the number of calls so far: a tensor and a value as
/// state.
struct running_sum {
  in<std::uint64_t, 1> x;
  out<std::uint64_t, 1> y;
  tensor<std::uint64_t, 1> sum;
  std::uint64_t calls = 0;
  static void describe(stage_spec<running_sum>& s) {
    s.name("test.running_sum", "sums all items");
    s.port("x", &running_sum::x, "3").port("y", &running_sum::y, "3");
    s.state("sum", &running_sum::sum).state("calls", &running_sum::calls);
  }
  result<void> open(opening& o, const no_settings&) {
    sum = o.host().make<std::uint64_t>(width);
    return {};
  }
  result<void> on_item(step& s) {
    ++calls;
    WEIR_TRY(auto to, s.make(y, width));
    s.submit(
        "sum",
        [n = calls](auto from, auto total, auto out) {
          for (std::size_t i = 0; i < elements; ++i) {
            total[i] += from[i];
            out[i] = total[i] * n;
          }
        },
        read(s[x]), update(sum), write(to));
    return s.emit();
  }
};

/// Hands items on whose first element, as a task has seen it, is no multiple of 3. Keeps
/// count of them as state of `on_done`.
struct late_filter {
  in<std::uint64_t, 1> x;
  out<std::uint64_t, 1> y;
  scratch<std::uint64_t, 0> first;
  std::uint64_t passed = 0;
  static void describe(stage_spec<late_filter>& s) {
    s.name("test.late_filter", "drops multiples of 3").forwards();
    s.port("x", &late_filter::x, "n").port("y", &late_filter::y, "n");
    s.memory("first", &late_filter::first, "");
    s.state("passed", &late_filter::passed);
  }
  static bool keeps(const numbers& x) { return x[0] % 3 != 0; }
  result<void> on_item(step& s) {
    WEIR_TRY(auto to, s.make(first));
    s.submit(
        "look", [](auto from, auto out) { out() = from[0]; }, read(s[x]), write(to));
    return {};
  }
  result<void> on_done(step& s) {
    if (s.value(first)() % 3 == 0) {
      s.skip();
      return {};
    }
    ++passed;
    s.forward(x, y);
    return s.emit();
  }
};

/// Drops every fourth number; hands the others on without a task.
struct early_filter {
  in<std::uint64_t, 1> x;
  out<std::uint64_t, 1> y;
  static void describe(stage_spec<early_filter>& s) {
    s.name("test.early_filter", "drops every fourth number").forwards();
    s.port("x", &early_filter::x, "n").port("y", &early_filter::y, "n");
  }
  static bool keeps(std::uint64_t n) { return n % 4 != 1; }
  result<void> on_item(step& s) {
    if (!keeps(s.seq())) {
      s.skip();
      return {};
    }
    s.forward(x, y);
    return s.emit();
  }
};

/// y = 31 a + b.
struct joined {
  in<std::uint64_t, 1> a;
  in<std::uint64_t, 1> b;
  out<std::uint64_t, 1> y;
  static void describe(stage_spec<joined>& s) {
    s.name("test.joined", "joins two items");
    s.port("a", &joined::a, "n").port("b", &joined::b, "n").port("y", &joined::y, "n");
  }
  static numbers make(const numbers& a, const numbers& b) {
    return {31 * a[0] + b[0], 31 * a[1] + b[1], 31 * a[2] + b[2]};
  }
  result<void> on_item(step& s) {
    WEIR_TRY(auto to, s.make(y, s[a].extent(0)));
    s.submit(
        "join",
        [](auto one, auto two, auto out) {
          for (std::size_t i = 0; i < elements; ++i) {
            out[i] = 31 * one[i] + two[i];
          }
        },
        read(s[a]), read(s[b]), write(to));
    return s.emit();
  }
};

/// Sends odd numbers to one outlet and even ones to the other.
struct selected {
  in<std::uint64_t, 1> x;
  out<std::uint64_t, 1> odd;
  out<std::uint64_t, 1> even;
  static void describe(stage_spec<selected>& s) {
    s.name("test.selected", "divides items").forwards();
    s.port("x", &selected::x, "n");
    s.port("odd", &selected::odd, "n").port("even", &selected::even, "n");
  }
  result<void> on_item(step& s) {
    s.forward(x, s.seq() % 2 == 1 ? odd : even);
    return s.emit();
  }
};

/// Hands on the item of the inlet that has one.
struct merged {
  in<std::uint64_t, 1> a;
  in<std::uint64_t, 1> b;
  out<std::uint64_t, 1> y;
  static void describe(stage_spec<merged>& s) {
    s.name("test.merged", "merges branches").forwards().accept_gaps();
    s.port("a", &merged::a, "n").port("b", &merged::b, "n").port("y", &merged::y, "n");
  }
  result<void> on_item(step& s) {
    if (s.has(a) && s.has(b)) {
      return error(errc::invalid_argument, "two branches have an item");
    }
    s.forward(s.has(a) ? a : b, y);
    return s.emit();
  }
};

/// Makes one item of four: the sum of item i times (i + 1).
struct batched {
  static constexpr std::uint32_t size = 4;
  in<std::uint64_t, 1> x;
  out<std::uint64_t, 1> y;
  static void describe(stage_spec<batched>& s) {
    s.name("test.batched", "sums four items").rate(size, 1);
    s.port("x", &batched::x, "3").port("y", &batched::y, "3");
  }
  result<void> on_item(step& s) {
    WEIR_TRY(auto to, s.make(y, width));
    for (std::size_t i = 0; i < s.count(); ++i) {
      s.submit(
          "add",
          [i](auto from, auto out) {
            for (std::size_t k = 0; k < elements; ++k) {
              out[k] = (i == 0 ? 0 : out[k]) + from[k] * (i + 1);
            }
          },
          read(s.input(x, i)), update(to));
    }
    return s.emit();
  }
};

/// Makes two items of one: x and x + 1.
struct doubled {
  in<std::uint64_t, 1> x;
  out<std::uint64_t, 1> y;
  static void describe(stage_spec<doubled>& s) {
    s.name("test.doubled", "makes two items of one").rate(1, 2);
    s.port("x", &doubled::x, "3").port("y", &doubled::y, "3");
  }
  result<void> on_item(step& s) {
    for (std::uint64_t n = 0; n < 2; ++n) {
      WEIR_TRY(auto to, s.make(y, width));
      s.submit(
          "copy",
          [n](auto from, auto out) {
            for (std::size_t k = 0; k < elements; ++k) {
              out[k] = from[k] + n;
            }
          },
          read(s[x]), write(to));
      WEIR_CHECK(s.emit());
    }
    return {};
  }
};

/// A blocking stage with state: y = (sum of all items so far) * (number of calls so far).
/// Drops multiples of 5.
struct outside_sum {
  in<std::uint64_t, 1> x;
  out<std::uint64_t, 1> y;
  tensor<std::uint64_t, 1> sum;
  std::uint64_t calls = 0;
  static void describe(stage_spec<outside_sum>& s) {
    s.name("test.outside_sum", "sums items on a thread of its own");
    s.port("x", &outside_sum::x, "3").port("y", &outside_sum::y, "3");
    s.state("sum", &outside_sum::sum).state("calls", &outside_sum::calls);
  }
  static bool keeps(const numbers& x) { return x[0] % 5 != 0; }
  result<void> open(opening& o, const no_settings&) {
    sum = o.host().make<std::uint64_t>(width);
    return {};
  }
  result<void> on_ready(taken& from, pull& to) {
    const auto v = from[x];
    if (v[0] % 5 == 0) {
      to.skip();
      return {};
    }
    ++calls;
    const auto total = sum.elements<std::uint64_t>();
    WEIR_TRY(auto made, to.fill(y, width));
    for (std::size_t i = 0; i < elements; ++i) {
      total[i] += v[i];
      made[i] = total[i] * calls;
    }
    return {};
  }
};

/// A step loop with state: as many steps y = 3 y + round as the first element says, and
/// then y[0] + number of steps so far.
struct iterated {
  in<std::uint64_t, 1> x;
  out<std::uint64_t, 1> y;
  scratch<std::uint64_t, 0> steps;
  tensor<std::uint64_t, 1> making;  ///< what the loop of the item works on
  std::uint64_t total = 0;
  static void describe(stage_spec<iterated>& s) {
    s.name("test.iterated", "works in steps").looping();
    s.port("x", &iterated::x, "3").port("y", &iterated::y, "3");
    s.memory("steps", &iterated::steps, "");
    s.state("total", &iterated::total);
  }
  static numbers make(numbers x, std::uint64_t& total) {
    const std::uint64_t steps = x[0] % 4;
    for (std::uint64_t round = 1; round <= steps; ++round) {
      for (auto& v : x) {
        v = v * 3 + round;
      }
    }
    x[0] += total += steps;
    return x;
  }
  result<void> on_item(step& s) {
    WEIR_TRY(making, s.make(y, width));
    WEIR_TRY(auto count, s.make(steps));
    s.submit(
        "begin",
        [](auto from, auto out, auto n) {
          n() = from[0] % 4;
          std::copy(from.begin(), from.end(), out.begin());
        },
        read(s[x]), write(making), write(count));
    return {};
  }
  result<bool> on_step(step& s) {
    const std::uint64_t wanted = s.value(steps)();
    if (s.round() <= wanted) {
      s.submit(
          "step",
          [n = s.round()](auto out) {
            for (std::size_t i = 0; i < elements; ++i) {
              out[i] = out[i] * 3 + n;
            }
          },
          update(making));
      return true;
    }
    total += wanted;
    s.submit(
        "total", [n = total](auto out) { out[0] += n; }, update(making));
    WEIR_CHECK(s.emit());
    return false;
  }
};

/// A step loop that makes items x + 1, x + 2, ...; the first element says how many.
struct unrolled {
  in<std::uint64_t, 1> x;
  out<std::uint64_t, 1> y;
  scratch<std::uint64_t, 0> steps;
  static void describe(stage_spec<unrolled>& s) {
    s.name("test.unrolled", "makes several items of one").rate(1, 1).looping();
    s.port("x", &unrolled::x, "3").port("y", &unrolled::y, "3");
    s.memory("steps", &unrolled::steps, "");
  }
  static std::uint64_t count(const numbers& x) { return x[0] % 4; }
  result<void> on_item(step& s) {
    WEIR_TRY(auto n, s.make(steps));
    s.submit(
        "count", [](auto from, auto out) { out() = from[0] % 4; }, read(s[x]), write(n));
    return {};
  }
  result<bool> on_step(step& s) {
    if (s.round() > s.value(steps)()) {
      return false;
    }
    WEIR_TRY(auto to, s.make(y, width));
    s.submit(
        "copy",
        [n = s.round()](auto from, auto out) {
          for (std::size_t i = 0; i < elements; ++i) {
            out[i] = from[i] + n;
          }
        },
        read(s[x]), write(to));
    WEIR_CHECK(s.emit());
    return true;
  }
};

/// The head of a loop: y = x + 7 * token.
struct loop_head {
  in<std::uint64_t, 1> x;
  in<std::uint64_t, 1> token;
  out<std::uint64_t, 1> y;
  static void describe(stage_spec<loop_head>& s) {
    s.name("test.loop_head", "adds what the loop has made");
    s.port("x", &loop_head::x, "3").port("token", &loop_head::token, "3");
    s.port("y", &loop_head::y, "3");
  }
  static numbers make(numbers x, const numbers& token) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] += 7 * token[i];
    }
    return x;
  }
  result<void> on_item(step& s) {
    WEIR_TRY(auto to, s.make(y, width));
    s.submit(
        "add token",
        [](auto one, auto two, auto out) {
          for (std::size_t i = 0; i < elements; ++i) {
            out[i] = one[i] + 7 * two[i];
          }
        },
        read(s[x]), read(s[token]), write(to));
    return s.emit();
  }
};

/// The bytes that sinks of a test have made durable. They outlive a run, as a disk does.
struct durable_items {
  std::vector<std::pair<std::uint64_t, numbers>> items;  ///< number and elements
};

/// A sink that appends to a `durable_items`.
struct number_sink {
  struct settings {
    std::uint64_t address = 0;  ///< of a `durable_items`
  };
  struct offset {
    std::uint64_t items;
  };
  in<std::uint64_t, 1> x;
  durable_items* to = nullptr;
  static void describe(stage_spec<number_sink>& s) {
    s.name("test.sink", "appends items to memory").port("x", &number_sink::x, "3");
    s.set("address", &settings::address, "where items go").may_change();
  }
  result<void> open(opening&, const settings& s) {
    to = reinterpret_cast<durable_items*>(s.address);  // NOLINT
    return {};
  }
  result<void> put(taken& t) {
    numbers n{};
    const auto v = t[x];
    std::copy(v.begin(), v.end(), n.begin());
    to->items.emplace_back(t.seq(), n);
    return {};
  }
  result<offset> settle() { return offset{to->items.size()}; }
  result<void> rewind(offset o) {
    if (to->items.size() < o.items) {
      return error(errc::torn, "cannot rewind a sink: expected more items");
    }
    to->items.resize(o.items);
    return {};
  }
};
/// Returns the settings of a sink that appends to `d`.
inline number_sink::settings sink_of(durable_items& d) {
  return {reinterpret_cast<std::uint64_t>(&d)};  // NOLINT
}

}  // namespace weir::test
