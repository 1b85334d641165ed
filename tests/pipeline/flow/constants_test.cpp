// SPDX-License-Identifier: Apache-2.0
/// @file
/// Constants of stages: their values, and runs that are resumed with other contents.
#include <gtest/gtest.h>

#include "pipeline/support/memory_store.hpp"
#include "pipeline/support/number_stages.hpp"
#include "weir/pipeline/run_here.hpp"

namespace weir::test {
namespace {

/// y = x + w.
struct shifted {
  struct settings {
    std::string file = "w.hn4";
    std::string name = "w";
  };
  in<std::uint64_t, 1> x;
  out<std::uint64_t, 1> y;
  tensor<std::uint64_t, 1> w;
  static void describe(stage_spec<shifted>& s) {
    s.name("test.shifted", "adds a constant").stateless();
    s.port("x", &shifted::x, "3").port("y", &shifted::y, "3");
    s.set("file", &settings::file, "volume that holds the constant");
    s.set("name", &settings::name, "name of the constant");
  }
  result<void> open(opening& o, const settings& s) {
    WEIR_TRY(w, o.constant<std::uint64_t, 1>(o.path(s.file), s.name));
    return {};
  }
  result<void> on_item(step& s) {
    WEIR_TRY(auto to, s.make(y, width));
    s.submit(
        "shift",
        [](auto a, auto b, auto out) {
          for (std::size_t i = 0; i < elements; ++i) {
            out[i] = a[i] + b[i];
          }
        },
        read(s[x]), read(w), write(to));
    return s.emit();
  }
};

/// Returns a loader of three numbers that begin with `first`.
opening::loader loader_of(std::uint64_t first) {
  return [first](weir::engine& host, const std::string& path,
                 const std::string& name) -> result<runtime::tensor> {
    if (path != "data/w.hn4" || name != "w") {
      return error(errc::not_found, "no such tensor");
    }
    const auto made = host.make<std::uint64_t>(width);
    const auto all = made.elements<std::uint64_t>();
    for (std::size_t i = 0; i < elements; ++i) {
      all[i] = first + i;
    }
    return made.bytes();
  };
}

result<flow::here_report> run_shifted(durable_items& d, memory_store& store,
                                      const opening::loader& load, bool resume,
                                      const shifted::settings& with = {}) {
  pipeline p("constants");
  p.add<number_source>("source", {.count = 20, .seed = 4}) >>
      p.add<shifted>("middle", with) >> p.add<number_sink>("sink", sink_of(d));
  flow::here_options options;
  options.every_items = 6;
  options.store = &store;
  options.load = load;
  options.folder = "data";
  options.resume = resume;
  return flow::run_here(p, options);
}

TEST(PipelineConstants, AreReadAtOpenAndComparedAtAResume) {
  durable_items d;
  memory_store store;
  const auto report = run_shifted(d, store, loader_of(100), false);
  ASSERT_TRUE(report) << report.error().message();
  ASSERT_EQ(d.items.size(), 20U);
  for (std::uint64_t n = 0; n < 20; ++n) {
    EXPECT_EQ(d.items[n].second[2], number_source::make(4, n)[2] + 102);
  }
  for (std::size_t i = 0; i + 1 < store.images.size(); ++i) {
    memory_store old;
    old.images = {store.images[i]};
    durable_items again = d;
    const auto same = run_shifted(again, old, loader_of(100), true);
    ASSERT_TRUE(same) << same.error().message();
    EXPECT_EQ(again.items, d.items);
    old.images = {store.images[i]};
    const auto other = run_shifted(again, old, loader_of(101), true);
    ASSERT_FALSE(other);
    EXPECT_EQ(other.error().code(), errc::history_mismatch);
    const std::string text = other.error().message();
    for (const char* part : {"\"middle\"", "\"w\"", "\"data/w.hn4\"", "u64[3]"}) {
      EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
    }
  }
}

TEST(PipelineConstants, CheckpointsHoldOnlyTheirDigest) {
  durable_items d;
  memory_store store;
  ASSERT_TRUE(run_shifted(d, store, loader_of(7), false));
  const flow::image_section* s = store.images.front().find("CONSTANT/middle/0");
  ASSERT_NE(s, nullptr);
  EXPECT_EQ(as_text(s->data).substr(0, 9), "w\nu64[3] ");
  EXPECT_EQ(s->data.size(), 9U + 16U);
}

TEST(PipelineConstants, ErrorsOfTheLoaderNameTheStage) {
  durable_items d;
  memory_store store;
  const auto missing = run_shifted(d, store, loader_of(7), false, {.name = "v"});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), errc::not_found);
  EXPECT_NE(missing.error().message().find("\"middle\""), std::string::npos);
  const auto none = run_shifted(d, store, {}, false);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code(), errc::unsupported);
  const auto other = run_shifted(
      d, store,
      [](weir::engine& host, const std::string&, const std::string&) {
        return result<runtime::tensor>(host.make<float>(3).bytes());
      },
      false);
  ASSERT_FALSE(other);
  EXPECT_NE(other.error().message().find("expected u64 with 1 dimensions, found f32[3]"),
            std::string::npos)
      << other.error().message();
}

}  // namespace
}  // namespace weir::test
