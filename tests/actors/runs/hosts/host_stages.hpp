// SPDX-License-Identifier: Apache-2.0
/// @file
/// Stages that fail, that compute for a long time, and sinks of files, for runs on every
/// kind of host.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>

#include "pipeline/support/number_stages.hpp"
#include "weir/pipeline/append_file.hpp"

namespace weir::test {

/// Hands items on. The task of one item fails.
template <bool HasState>
struct fails_at {
  struct settings {
    std::uint64_t item = 0;
  };
  in<std::uint64_t, 1> x;
  out<std::uint64_t, 1> y;
  std::uint64_t item = 0;
  std::uint64_t calls = 0;
  static void describe(stage_spec<fails_at>& s) {
    s.name(HasState ? "test.fails_at_with_state" : "test.fails_at", "fails at one item");
    s.port("x", &fails_at::x, "3").port("y", &fails_at::y, "3");
    s.set("item", &settings::item, "number of the item");
    if constexpr (HasState) {
      s.state("calls", &fails_at::calls);
    } else {
      s.stateless();
    }
  }
  result<void> open(opening&, const settings& with) {
    item = with.item;
    return {};
  }
  result<void> on_item(step& s) {
    calls += HasState ? 1 : 0;
    WEIR_TRY(auto to, s.make(y, width));
    s.submit(
        "copy",
        [fails = s.seq() == item](auto from, auto out) -> result<void> {
          std::copy(from.begin(), from.end(), out.begin());
          return fails ? result<void>(error(errc::corrupt, "planted failure"))
                       : result<void>();
        },
        read(s[x]), write(to));
    return s.emit();
  }
};

/// Hands items on, and throws an exception in one of its functions.
struct throws_in {
  struct settings {
    std::string where = "open";
  };
  in<std::uint64_t, 1> x;
  out<std::uint64_t, 1> y;
  std::string where;
  static void describe(stage_spec<throws_in>& s) {
    s.name("test.throws_in", "throws at item 3");
    s.port("x", &throws_in::x, "3").port("y", &throws_in::y, "3");
    s.set("where", &settings::where, "open, on_item or on_done");
  }
  void look(const std::string& here, std::uint64_t item) const {
    if (where == here && item == 3) {
      throw std::runtime_error("planted exception in " + here);
    }
  }
  result<void> open(opening&, const settings& with) {
    where = with.where;
    look("open", 3);
    return {};
  }
  result<void> on_item(step& s) {
    look("on_item", s.seq());
    WEIR_TRY(auto to, s.make(y, width));
    s.submit(
        "copy",
        [](auto from, auto out) { std::copy(from.begin(), from.end(), out.begin()); },
        read(s[x]), write(to));
    return {};
  }
  result<void> on_done(step& s) {
    look("on_done", s.seq());
    return s.emit();
  }
};

/// Appends items to a file, much slower than the stages before it make them.
struct slow_file {
  using offset = append_file::offset;
  struct settings {
    std::string path;
  };
  in<std::uint64_t, 1> x;
  append_file to;
  static void describe(stage_spec<slow_file>& s) {
    s.name("test.slow_file", "appends numbers slowly").port("x", &slow_file::x, "3");
    s.set("path", &settings::path, "file to write").required().path(path_use::output);
  }
  result<void> open(opening& run, const settings& s) { return to.open(run, s.path); }
  result<void> put(taken& t) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    return to.append(t[x]);
  }
  result<offset> settle() { return to.settle(); }
  result<void> rewind(offset where) { return to.rewind(where); }
};

/// Appends the number and the elements of each item to a file. Unlike `number_sink` it
/// can work in a child process.
struct numbered_file {
  using offset = append_file::offset;
  struct settings {
    std::string path;
  };
  in<std::uint64_t, 1> x;
  append_file to;
  static void describe(stage_spec<numbered_file>& s) {
    s.name("test.numbered_file", "appends items to a file");
    s.port("x", &numbered_file::x, "3");
    s.set("path", &settings::path, "file to write").required().path(path_use::output);
  }
  result<void> open(opening& run, const settings& s) { return to.open(run, s.path); }
  result<void> put(taken& t) {
    const std::array<std::uint64_t, 1> number{t.seq()};
    WEIR_CHECK(to.append(std::as_bytes(std::span(number))));
    return to.append(t[x]);
  }
  result<offset> settle() { return to.settle(); }
  result<void> rewind(offset where) { return to.rewind(where); }
};

/// Reads the file of a `numbered_file`.
inline durable_items items_in(const std::string& path) {
  durable_items all;
  std::ifstream in(path, std::ios::binary);
  std::array<std::uint64_t, 1 + elements> one{};
  while (in.read(reinterpret_cast<char*>(one.data()), sizeof(one))) {  // NOLINT
    numbers n{};
    std::copy(one.begin() + 1, one.end(), n.begin());
    all.items.emplace_back(one[0], n);
  }
  if (in.gcount() != 0) {
    throw std::runtime_error(path + " ends within an item");
  }
  return all;
}

/// Writes the number of its process to a file, and then computes for ten minutes.
struct computes_long {
  struct settings {
    std::string path;
  };
  in<std::uint64_t, 1> x;
  out<std::uint64_t, 1> y;
  std::string path;
  static void describe(stage_spec<computes_long>& s) {
    s.name("test.computes_long", "computes for ten minutes");
    s.port("x", &computes_long::x, "3").port("y", &computes_long::y, "3");
    s.set("path", &settings::path, "absolute path of the file").required();
  }
  result<void> open(opening&, const settings& with) {
    path = with.path;
    return {};
  }
  result<void> on_item(step& s) {
    std::ofstream(path + ".new") << ::getpid();
    std::filesystem::rename(path + ".new", path);  // the file is whole when it is there
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(10);
    while (std::chrono::steady_clock::now() < end) {
    }
    s.skip();
    return {};
  }
};

/// Hands items on as a type that does not say how large they are, so that the check
/// cannot compare them with the bytes of a window.
struct of_any_size {
  in<std::uint64_t, 1> x;
  out<std::uint64_t, 1> y;
  static void describe(stage_spec<of_any_size>& s) {
    s.name("test.of_any_size", "hides the size of items");
    s.port("x", &of_any_size::x, "3").port("y", &of_any_size::y, "?");
  }
  result<void> on_item(step& s) {
    WEIR_TRY(auto to, s.make(y, width));
    s.submit(
        "copy",
        [](auto from, auto out) { std::copy(from.begin(), from.end(), out.begin()); },
        read(s[x]), write(to));
    return s.emit();
  }
};

/// Makes one item of four, whose size is not known before: the first of them.
struct first_of_four {
  in<std::uint64_t, 1> x;
  out<std::uint64_t, 1> y;
  static void describe(stage_spec<first_of_four>& s) {
    s.name("test.first_of_four", "keeps the first of four items").rate(4, 1);
    s.port("x", &first_of_four::x, "?").port("y", &first_of_four::y, "3");
  }
  result<void> on_item(step& s) {
    WEIR_TRY(auto to, s.make(y, width));
    s.submit(
        "copy",
        [](auto from, auto out) { std::copy(from.begin(), from.end(), out.begin()); },
        read(s.input(x, 0)), write(to));
    return s.emit();
  }
};

/// Adds these stages to a catalog.
inline void add_host_stages(flow::catalog& to) {
  or_throw(to.add<fails_at<false>>());
  or_throw(to.add<fails_at<true>>());
  or_throw(to.add<throws_in>());
  or_throw(to.add<slow_file>());
  or_throw(to.add<numbered_file>());
  or_throw(to.add<computes_long>());
  or_throw(to.add<of_any_size>());
  or_throw(to.add<first_of_four>());
}

}  // namespace weir::test
