// SPDX-License-Identifier: Apache-2.0
/// @file
/// A sink that records items of any type, and runs that are resumed from each of their
/// checkpoints.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "pipeline/support/memory_store.hpp"
#include "weir/pipeline.hpp"
#include "weir/pipeline/run_here.hpp"

namespace weir::test {

/// An item as a sink has seen it.
struct recorded {
  std::uint64_t seq = 0;
  dtype type = dtype::uint8;
  std::vector<std::int64_t> shape;
  byte_vector data;
  attributes about;

  friend bool operator==(const recorded&, const recorded&) = default;
  /// Returns the elements as numbers of a type.
  template <class T>
  [[nodiscard]] std::vector<T> values() const {
    EXPECT_EQ(type, dtype_of<T>);
    std::vector<T> all(data.size() / sizeof(T));
    if (!all.empty()) {
      std::memcpy(all.data(), data.data(), all.size() * sizeof(T));
    }
    return all;
  }
};
/// The items of a recorder. They outlive a run, as a disk does.
using tape = std::vector<recorded>;

/// A sink that appends items of any type to a tape.
struct recorder {
  struct settings {
    std::uint64_t address = 0;  ///< of a `tape`
  };
  struct offset {
    std::uint64_t items;
  };
  any_in x;
  tape* to = nullptr;
  static void describe(stage_spec<recorder>& s) {
    s.name("test.recorder", "records items in memory").port("x", &recorder::x);
    s.set("address", &settings::address, "where items go").may_change();
  }
  result<void> open(opening&, const settings& s) {
    to = reinterpret_cast<tape*>(s.address);  // NOLINT
    return {};
  }
  result<void> put(taken& t) {
    const runtime::tensor& from = t[x];
    const auto bytes =
        static_cast<std::size_t>(or_throw(byte_size(from.type(), from.count())));
    recorded one{t.seq(), from.type(), {}, {}, t.about()};
    one.shape.assign(from.shape().begin(), from.shape().end());
    one.data.assign(from.data(), from.data() + bytes);
    to->push_back(std::move(one));
    return {};
  }
  result<offset> settle() { return offset{to->size()}; }
  result<void> rewind(offset o) {
    if (to->size() < o.items) {
      return error(errc::torn, "cannot rewind a tape: expected more items");
    }
    to->resize(o.items);
    return {};
  }
};
/// Adds a recorder to a pipeline.
inline node add_recorder(pipeline& p, const std::string& name, tape& to) {
  return p.add<recorder>(name, {reinterpret_cast<std::uint64_t>(&to)});  // NOLINT
}

/// Builds a pipeline that records on tapes.
using tape_builder = std::function<void(pipeline&, std::vector<tape>&)>;

/// Runs a pipeline once and returns its tapes, or the error.
inline result<std::vector<tape>> run_tapes(const tape_builder& build, std::size_t tapes,
                                           const flow::here_options& options = {}) {
  std::vector<tape> all(tapes);
  pipeline p("test");
  build(p, all);
  if (auto done = flow::run_here(p, options); !done) {
    return std::move(done.error());
  }
  return all;
}

/// Runs a pipeline with a checkpoint behind every `every` items, continues it from each
/// of them, and expects what a run without interruption has recorded. Returns its tapes.
inline std::vector<tape> expect_resumable(const tape_builder& build, std::size_t tapes,
                                          std::uint64_t every) {
  auto expected = run_tapes(build, tapes);
  if (!expected) {
    ADD_FAILURE() << expected.error().message();
    return std::vector<tape>(tapes);
  }
  memory_store store;
  flow::here_options options;
  options.every_items = every;
  options.store = &store;
  options.workers = 2;
  auto recorded_tapes = run_tapes(build, tapes, options);
  if (!recorded_tapes) {
    ADD_FAILURE() << recorded_tapes.error().message();
    return *expected;
  }
  EXPECT_EQ(*recorded_tapes, *expected) << "with checkpoints";
  EXPECT_GE(store.images.size(), 2U);
  for (std::size_t i = 0; i < store.images.size(); ++i) {
    memory_store old;
    old.images.assign(store.images.begin(),
                      store.images.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    std::vector<tape> again = *expected;  // a crash leaves more than the offset says
    pipeline p("test");
    build(p, again);
    options.store = &old;
    options.resume = true;
    const auto done = flow::run_here(p, options);
    if (!done) {
      ADD_FAILURE() << "checkpoint " << i << ": " << done.error().message();
      continue;
    }
    EXPECT_EQ(again, *expected) << "resumed from checkpoint " << i;
  }
  return *expected;
}

}  // namespace weir::test
