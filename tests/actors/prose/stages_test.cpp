// SPDX-License-Identifier: Apache-2.0
/// @file
/// The stages of the text model as a pipeline: state, pulses and curve equal those of a
/// run of the Conductor with the same settings.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "actors/prose/small_run.hpp"
#include "epochs/epoch_store.hpp"
#include "stages/prose/job/stored_run.hpp"
#include "stages/prose/model_state.hpp"
#include "support/case_count.hpp"
#include "weir/actors/preset.hpp"
#include "weir/base/file.hpp"
#include "weir/base/hash.hpp"
#include "weir/models/instruction_sets.hpp"
#include "weir/pipeline/run_here.hpp"

namespace weir::actors {
namespace {

/// Keeps all images of a run in memory.
class image_list final : public flow::image_store {
 public:
  result<void> save(const flow::image& one) override {
    images.push_back(one);
    return {};
  }
  result<flow::image> load_newest() override { return images.back(); }

  std::vector<flow::image> images;
};

/// Runs the stages of a configuration on this thread and returns all images.
/// @param every  Pulses between two images; 0: at the end only.
/// @param from   Image to continue from, or null.
result<std::vector<flow::image>> run_stages(const run_config& c, std::uint64_t every = 0,
                                            const flow::image* from = nullptr) {
  std::filesystem::create_directories(c.folder);
  WEIR_TRY(const preset p, preset_of(c));
  image_list store;
  flow::here_options options;
  options.workers = c.workers;
  options.seed = c.seed;
  options.every_items = every;
  options.store = &store;
  options.stall_ns = 60'000'000'000;
  if (from != nullptr) {
    store.images.push_back(*from);
    options.resume = true;
  }
  WEIR_TRY([[maybe_unused]] const auto report, flow::run_here(*p.stages, options));
  return std::move(store.images);
}

/// Returns the hash of the state in an image, as a report has it.
std::uint64_t hash_of(const flow::image& image) {
  const std::string prefix = "STATE/learn/";
  xxh3_stream model;
  for (const flow::image_section& section : image.sections) {
    if (section.name.starts_with(prefix) &&
        is_of_model(std::string_view(section.name).substr(prefix.size()))) {
      model.update(section.data);
    }
  }
  const flow::image_section* cursor = image.find("STATE/text/CURSOR");
  EXPECT_NE(cursor, nullptr);
  return cursor == nullptr ? 0 : state_hash_of(model.digest(), cursor->data);
}

byte_vector curve_of(const run_config& c) {
  return or_throw(read_file(posix_file_system(), c.folder + "/curve.tgm"));
}

/// Compares the stages of a configuration with a run of another one.
void expect_same(const run_config& stages, const run_report& expected,
                 const run_config& whole) {
  const auto images = run_stages(stages);
  ASSERT_TRUE(images) << images.error().message();
  EXPECT_EQ(hash_of(images->back()), expected.state_hash);
  EXPECT_EQ(images->back().next_item, expected.pulses);
  EXPECT_EQ(curve_of(stages), curve_of(whole));
}

/// Returns a configuration in another folder.
run_config moved(run_config c, const std::string& folder) {
  c.folder = folder;
  return c;
}

TEST(prose_stages, have_the_state_and_the_curve_of_a_run) {
  test::small_runs runs;
  const auto whole = runs.config("run");
  const auto expected = run(whole);
  ASSERT_TRUE(expected) << expected.error().message();
  for (const unsigned workers : {1U, 2U, 4U}) {
    for (const std::uint64_t prefetch : {0U, 1U, 16U, 100U}) {
      SCOPED_TRACE(std::to_string(workers) + " workers, prefetch " +
                   std::to_string(prefetch));
      auto c = moved(whole, runs.path("stages"));
      c.workers = workers;
      c.prefetch = prefetch;
      expect_same(c, *expected, whole);
    }
  }
}

TEST(prose_stages, have_them_with_lanes_devices_and_all_phases) {
  test::small_runs runs;
  auto whole = runs.config("run");
  whole.stream.lanes = 4;
  whole.stream.lane_block = 2;
  whole.stream.ranks = 2;
  whole.phase.stream.tokens = 500;
  whole.phase.test.pulses = 1;
  const auto expected = run(whole);
  ASSERT_TRUE(expected) << expected.error().message();
  for (const auto replicas : {replica_policy::one, replica_policy::per_rank}) {
    auto c = moved(whole, runs.path("stages"));
    c.replicas = replicas;
    c.workers = 2;
    expect_same(c, *expected, whole);
  }
}

TEST(prose_stages, have_them_with_documents_and_one_pass) {
  test::small_runs runs(1500);
  test::write_text(runs.path("second"), test::some_text(700, 2));
  for (const auto boundary :
       {storage::boundary_policy::at_next_chunk, storage::boundary_policy::split}) {
    const std::string name = "docs" + std::to_string(static_cast<int>(boundary));
    auto whole = runs.config(name);
    whole.source.paths = {runs.corpus(), runs.path("second")};
    whole.stream.boundary = boundary;
    whole.phase.build.tokens = one_pass;
    whole.phase.test.tokens = 0;
    const auto expected = run(whole);
    ASSERT_TRUE(expected) << expected.error().message();
    expect_same(moved(whole, runs.path(name + "-stages")), *expected, whole);
  }
}

TEST(prose_stages, continue_from_every_image) {
  test::small_runs runs;
  auto c = runs.config("stages");
  c.stream.lanes = 2;
  c.stream.end = storage::end_policy::loop;
  c.stream.boundary = storage::boundary_policy::at_next_chunk;
  c.phase.build.tokens = 7000;
  const auto images = run_stages(c, 5);
  ASSERT_TRUE(images) << images.error().message();
  ASSERT_GT(images->size(), 5U);
  const byte_vector curve = curve_of(c);
  for (std::size_t i = 0; i + 1 < images->size(); ++i) {
    SCOPED_TRACE(i);
    c.workers = 1 + static_cast<unsigned>(i % 2);
    c.prefetch = i % 3;
    const auto rest = run_stages(c, 7, &(*images)[i]);
    ASSERT_TRUE(rest) << rest.error().message();
    EXPECT_EQ(hash_of(rest->back()), hash_of(images->back()));
    EXPECT_EQ(curve_of(c), curve);
  }
}

// Every pulse is a place to go on, also within a window of the model, at the end of a
// phase, and before levels that fire rarely. Under sanitizers only some
// of them are tried.
TEST(prose_stages, continue_from_every_pulse_of_two_hundred) {
  test::small_runs runs;
  auto c = runs.config("stages");
  c.stream.chunk = 8;
  c.phase.build.tokens = 400;
  c.phase.test.tokens = 1200;
  const auto images = run_stages(c, 1);
  ASSERT_TRUE(images) << images.error().message();
  ASSERT_GE(images->size(), 200U);
  const std::uint64_t expected = hash_of(images->back());
  for (std::size_t i = 0; i + 1 < images->size(); i += test::case_step()) {
    SCOPED_TRACE(i);
    const auto rest = run_stages(c, 1000, &(*images)[i]);
    ASSERT_TRUE(rest) << rest.error().message();
    ASSERT_EQ(hash_of(rest->back()), expected);
  }
}

TEST(prose_stages, refuse_another_corpus_when_they_continue) {
  test::small_runs runs;
  const auto c = runs.config("a");
  const auto images = run_stages(c, 10);
  ASSERT_TRUE(images) << images.error().message();
  test::write_text(runs.corpus(), test::some_text(6000, 9));
  const auto other = run_stages(c, 10, &images->front());
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().root().code(), errc::history_mismatch)
      << other.error().message();
}

TEST(prose_stages, refuse_numbers_that_were_cut) {
  test::small_runs runs;
  const auto c = runs.config("a");
  const auto images = run_stages(c, 10);
  ASSERT_TRUE(images) << images.error().message();
  for (const char* name : {"STATE/text/BUDGET", "STATE/accounts/BUILD_TOKENS"}) {
    flow::image cut = images->front();
    const auto section =
        std::ranges::find(cut.sections, name, &flow::image_section::name);
    ASSERT_NE(section, cut.sections.end()) << name;
    section->data.resize(7);
    section->shape = {7};
    const auto r = run_stages(c, 10, &cut);
    ASSERT_FALSE(r) << name;
    EXPECT_EQ(r.error().root().code(), errc::corrupt) << r.error().message();
    EXPECT_NE(r.error().message().find("expected 8 bytes, found 7"), std::string::npos)
        << r.error().message();
  }
}

TEST(prose_stages, run_with_actors_and_resume_behind_a_stop) {
  test::small_runs runs;
  const auto whole = runs.config("run");
  const auto expected = run(whole);
  ASSERT_TRUE(expected) << expected.error().message();
  auto c = moved(whole, runs.path("stages"));
  c.workers = 2;
  run_control control;
  auto first = preset_of(c);
  ASSERT_TRUE(first) << first.error().message();
  first->options.control = &control;
  first->options.progress = [&](const pipeline_progress& p) {
    if (p.epochs > 0) {
      control.request_stop();
    }
  };
  const auto stopped = weir::run(*first->stages, first->options);
  ASSERT_TRUE(stopped) << stopped.error().message();
  auto second = preset_of(c);
  ASSERT_TRUE(second) << second.error().message();
  const auto ended = weir::resume(*second->stages, second->options);
  ASSERT_TRUE(ended) << ended.error().message();
  EXPECT_EQ(ended->ended, "finished");
  auto store = epoch_store::open(posix_file_system(), c.folder + "/checkpoint", "");
  ASSERT_TRUE(store) << store.error().message();
  const auto last = store->load_newest();
  ASSERT_TRUE(last) << last.error().message();
  EXPECT_EQ(hash_of(*last), expected->state_hash);
  EXPECT_EQ(curve_of(c), curve_of(whole));
}

TEST(prose_stages, use_the_instruction_set_of_the_run_which_may_change) {
  test::small_runs runs;
  auto c = runs.config("forced");
  c.kernels.instruction_set = "x86-64";
  const auto used = [](const pipeline_report& r) {
    const auto* found = r.stages.at(1).find<std::string>("instruction_set");
    return found == nullptr ? "" : *found;
  };
  const auto forced = preset_of(c);
  ASSERT_TRUE(forced) << forced.error().message();
  run_control control;
  run_options options = forced->options;
  options.control = &control;
  // The run ends at once, so that there is something left to do.
  control.request_stop();
  EXPECT_EQ(used(or_throw(weir::run(*forced->stages, options))), "x86-64");
  // A resumed run may have another one, and the stages see it.
  c.kernels = {};
  const auto best = preset_of(c);
  ASSERT_TRUE(best) << best.error().message();
  const auto ended = or_throw(weir::resume(*best->stages, best->options));
  EXPECT_EQ(used(ended), models::instruction_sets_here().back());
}

TEST(prose_stages, a_stored_budget_of_another_size_is_damage) {
  test::small_runs runs;
  const auto c = runs.config("run");
  const auto done = run(c);
  ASSERT_TRUE(done) << done.error().message();
  auto store =
      or_throw(epoch_store::open(posix_file_system(), c.folder + "/checkpoint", ""));
  flow::image image = or_throw(store.load_newest());
  EXPECT_TRUE(read_run(or_throw(store.read(0))));
  for (flow::image_section& one : image.sections) {
    if (one.name == "STATE/text/BUDGET") {
      one.data.resize(3);
      one.shape = {3};
    }
  }
  or_throw(store.save(image));
  const auto damaged = read_run(or_throw(store.read(0)));
  ASSERT_FALSE(damaged);
  EXPECT_EQ(damaged.error().code(), errc::corrupt);
  EXPECT_NE(damaged.error().message().find("STATE/text/BUDGET"), std::string::npos)
      << damaged.error().message();
}

TEST(prose_stages, must_agree_on_lanes_and_tokens) {
  test::small_runs runs;
  add_standard_stages();
  pipeline p("clash");
  p.add("text", "text.pulses", {{"files", runs.corpus()}, {"lanes", 2}}) >>
      p.add("learn", "prose.learn", {{"lanes", 4}}) >> p.add("end", "null");
  const auto checked = p.check();
  ASSERT_FALSE(checked);
  EXPECT_NE(checked.error().message().find("learn"), std::string::npos);
}

}  // namespace
}  // namespace weir::actors
