// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests whole runs with threads. Their state does not depend on the numbers of workers,
/// ranks and prefetched chunks.
#include "weir/actors/run.hpp"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "actors/prose/small_run.hpp"
#include "weir/base/file.hpp"
#include "weir/base/hash.hpp"
#include "weir/formats/tensogram.hpp"
#include "weir/models/instruction_sets.hpp"

namespace weir::actors {
namespace {

/// Returns the content of a JSON file.
nlohmann::json json_of(const std::string& path) {
  std::ifstream in(path);
  return nlohmann::json::parse(in);
}

TEST(run, meets_its_budgets_and_leaves_a_whole_folder) {
  test::small_runs runs;
  auto config = runs.config("a");
  config.trace = runtime::trace_mode::all;
  const auto r = run(config);
  ASSERT_TRUE(r) << r.error().message();
  EXPECT_EQ(r->ended, "finished");
  EXPECT_EQ(r->build_tokens, 2000U);
  EXPECT_EQ(r->test_tokens, 300U);
  EXPECT_EQ(r->tokens, 2300U);
  EXPECT_EQ(r->pulses, 32U + 5U);
  EXPECT_GT(r->bits_cumulative, 1.0);
  EXPECT_LT(r->bits_cumulative, 9.0);
  EXPECT_GE(r->generations, 1U);
  EXPECT_GT(r->counters.finished, 0U);
  const auto metrics = json_of(config.folder + "/metrics.json");
  EXPECT_EQ(metrics["state_hash"], hex64(r->state_hash));
  EXPECT_EQ(metrics["tokens"], 2300);
  EXPECT_TRUE(metrics["bits_per_byte"].contains("last_quarter"));
  EXPECT_TRUE(json_of(config.folder + "/trace.json").contains("traceEvents"));
  EXPECT_TRUE(std::filesystem::exists(config.folder + "/checkpoint/ck-" +
                                      std::to_string(r->generation) + ".weir"));
}

TEST(run, writes_the_curve_as_a_message) {
  test::small_runs runs;
  const auto r = run(runs.config("a"));
  ASSERT_TRUE(r) << r.error().message();
  const auto bytes = read_file(posix_file_system(), runs.path("a/curve.tgm"));
  ASSERT_TRUE(bytes);
  const auto reader = formats::message_reader::open(*bytes);
  ASSERT_TRUE(reader) << reader.error().message();
  EXPECT_TRUE(reader->find("bits_per_byte"));
  ASSERT_FALSE(r->curve.empty());
  EXPECT_EQ(r->curve.back().tokens, 2000U);
}

/// Settings of a run that must not change its state.
struct variant {
  const char* name;
  unsigned workers;
  std::uint64_t prefetch;
  std::uint32_t ranks;
};

TEST(run, gives_one_state_for_any_workers_and_prefetch) {
  test::small_runs runs;
  std::optional<run_report> first;
  for (const variant& v : {variant{"w1p16", 1, 16, 1}, variant{"w2p16", 2, 16, 1},
                           variant{"w4p16", 4, 16, 1}, variant{"w1p0", 1, 0, 1},
                           variant{"w2p1", 2, 1, 1}, variant{"w2p64", 2, 64, 1}}) {
    SCOPED_TRACE(v.name);
    auto config = runs.config(v.name);
    config.workers = v.workers;
    config.prefetch = v.prefetch;
    const auto r = run(config);
    ASSERT_TRUE(r) << r.error().message();
    first = first ? first : *r;
    EXPECT_EQ(r->state_hash, first->state_hash);
    EXPECT_EQ(r->context_hash, first->context_hash);
    EXPECT_EQ(r->parameter_hash, first->parameter_hash);
    EXPECT_EQ(r->bits_cumulative, first->bits_cumulative);
  }
}

TEST(run, gives_one_state_for_four_lanes_on_any_ranks) {
  test::small_runs runs;
  std::optional<run_report> first;
  for (const variant& v : {variant{"r1", 1, 16, 1}, variant{"r2", 2, 0, 2},
                           variant{"r4", 2, 64, 4}, variant{"r4p1", 1, 1, 4}}) {
    SCOPED_TRACE(v.name);
    auto config = runs.config(v.name);
    config.stream.lanes = 4;
    config.stream.ranks = v.ranks;
    config.workers = v.workers;
    config.prefetch = v.prefetch;
    const auto r = run(config);
    ASSERT_TRUE(r) << r.error().message();
    EXPECT_EQ(r->tokens, 2300U);
    first = first ? first : *r;
    EXPECT_EQ(r->state_hash, first->state_hash);
  }
}

TEST(run, gives_that_state_with_a_replica_on_each_of_the_ranks) {
  test::small_runs runs;
  auto plain = runs.config("one");
  plain.stream.lanes = 4;
  const auto one = run(plain);
  ASSERT_TRUE(one) << one.error().message();
  for (const std::uint32_t ranks : {1U, 2U, 4U}) {
    for (const unsigned workers : {1U, 2U}) {
      auto config = runs.config(fmt::format("r{}w{}", ranks, workers));
      SCOPED_TRACE(config.name);
      config.stream.lanes = 4;
      config.stream.ranks = ranks;
      config.workers = workers;
      config.replicas = replica_policy::per_rank;
      const auto r = run(config);
      ASSERT_TRUE(r) << r.error().message();
      EXPECT_EQ(r->state_hash, one->state_hash);
      EXPECT_EQ(r->parameter_hash, one->parameter_hash);
      EXPECT_EQ(r->bits_cumulative, one->bits_cumulative);
    }
  }
}

TEST(run, gives_different_states_for_different_seeds) {
  test::small_runs runs;
  auto config = runs.config("a");
  const auto a = run(config);
  config = runs.config("b");
  config.seed = 2;
  const auto b = run(config);
  ASSERT_TRUE(a && b);
  EXPECT_NE(a->state_hash, b->state_hash);
}

TEST(run, has_one_context_for_any_chunk_in_the_test_phase) {
  test::small_runs runs;
  std::optional<std::uint64_t> context;
  for (const std::uint64_t chunk : {8U, 64U, 100U, 512U, 1024U}) {
    SCOPED_TRACE(chunk);
    auto config = runs.config(fmt::format("c{}", chunk));
    config.stream.chunk = chunk;
    config.phase.build.tokens = 0;
    config.phase.test.tokens = 3000;
    const auto r = run(config);
    ASSERT_TRUE(r) << r.error().message();
    context = context ? context : r->context_hash;
    EXPECT_EQ(r->context_hash, *context);
  }
}

TEST(run, ends_with_its_stream) {
  test::small_runs runs(1000);
  auto config = runs.config("a");
  const auto r = run(config);
  ASSERT_TRUE(r) << r.error().message();
  EXPECT_EQ(r->ended, "end of stream");
  EXPECT_EQ(r->tokens, 1000U);
}

TEST(run, of_one_pass_takes_all_tokens_of_the_source) {
  test::small_runs runs(1000);
  auto config = runs.config("a");
  config.phase.build.tokens = one_pass;
  config.phase.test.tokens = 0;
  const auto r = run(config);
  ASSERT_TRUE(r) << r.error().message();
  EXPECT_EQ(r->ended, "finished");
  EXPECT_EQ(r->build_tokens, 1000U);
  const auto again = resume(config);
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(again->state_hash, r->state_hash);
}

TEST(run, works_with_every_boundary_policy_on_several_documents) {
  test::small_runs runs;
  std::vector<std::string> paths;
  for (int i = 0; i < 5; ++i) {
    paths.push_back(runs.path(fmt::format("doc{}", i)));
    test::write_text(paths.back(),
                     test::some_text(300 + 77 * static_cast<std::size_t>(i)));
  }
  std::vector<std::uint64_t> hashes;
  for (const auto policy :
       {storage::boundary_policy::never, storage::boundary_policy::at_next_chunk,
        storage::boundary_policy::split}) {
    std::optional<std::uint64_t> hash;
    for (const std::uint64_t prefetch : {0U, 1U, 64U}) {
      auto config =
          runs.config(fmt::format("b{}p{}", static_cast<int>(policy), prefetch));
      config.source.paths = paths;
      config.stream.boundary = policy;
      config.prefetch = prefetch;
      config.phase.build.tokens = 1500;
      config.phase.test.tokens = 200;
      const auto r = run(config);
      ASSERT_TRUE(r) << r.error().message();
      EXPECT_EQ(r->tokens, 1700U);
      hash = hash ? hash : r->state_hash;
      EXPECT_EQ(r->state_hash, *hash);
    }
    hashes.push_back(*hash);
  }
  EXPECT_NE(hashes[0], hashes[1]);
  EXPECT_NE(hashes[1], hashes[2]);
}

TEST(run, loops_over_the_source_if_configured) {
  test::small_runs runs(1000);
  auto config = runs.config("a");
  config.stream.end = storage::end_policy::loop;
  const auto r = run(config);
  ASSERT_TRUE(r) << r.error().message();
  EXPECT_EQ(r->ended, "finished");
  EXPECT_EQ(r->tokens, 2300U);
}

TEST(run, refuses_a_folder_that_holds_a_checkpoint) {
  test::small_runs runs;
  ASSERT_TRUE(run(runs.config("a")));
  const auto r = run(runs.config("a"));
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code(), errc::already_exists);
}

TEST(run, keeps_its_report_if_a_result_cannot_be_written) {
  for (const char* name : {"trace.json", "curve.tgm", "metrics.json"}) {
    test::small_runs runs;
    auto config = runs.config("a");
    config.trace = runtime::trace_mode::all;
    std::filesystem::create_directories(config.folder + "/" + name + "/in the way");
    std::string warned;
    run_callbacks callbacks;
    callbacks.warning = [&](const std::string& text) { warned += text; };
    const auto r = run(config, callbacks);
    ASSERT_TRUE(r) << r.error().message();
    ASSERT_FALSE(r->warnings.empty());
    EXPECT_NE(r->warnings.back().find(name), std::string::npos) << r->warnings.back();
    EXPECT_NE(warned.find(name), std::string::npos) << warned;
    std::filesystem::remove_all(config.folder + "/" + name);
    const auto again = resume(config);
    ASSERT_TRUE(again) << again.error().message();
    EXPECT_EQ(again->state_hash, r->state_hash);
    if (std::string(name) != "trace.json") {
      EXPECT_TRUE(std::filesystem::exists(config.folder + "/" + name)) << name;
    }
  }
}

TEST(run, reports_a_missing_corpus_with_text_and_cause) {
  test::small_runs runs;
  auto config = runs.config("a");
  config.source.paths = {runs.path("nowhere")};
  const auto r = run(config);
  ASSERT_FALSE(r);
  EXPECT_NE(r.error().message().find("nowhere"), std::string::npos)
      << r.error().message();
}

TEST(run, reports_a_setting_that_cannot_be) {
  test::small_runs runs;
  auto config = runs.config("a");
  config.stream.ranks = 3;
  const auto r = run(config);
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code(), errc::invalid_argument);
  EXPECT_FALSE(std::filesystem::exists(config.folder));
}

TEST(run, gives_one_state_for_any_instruction_set) {
  test::small_runs runs;
  std::optional<std::uint64_t> first;
  for (const std::string_view name : models::instruction_sets_here()) {
    auto config = runs.config(std::string(name));
    config.kernels.instruction_set = name;
    const auto r = run(config);
    ASSERT_TRUE(r) << r.error().message();
    first = first.value_or(r->state_hash);
    EXPECT_EQ(r->state_hash, *first) << name;
  }
}

TEST(run, refuses_an_instruction_set_that_is_missing_before_it_makes_a_folder) {
  test::small_runs runs;
  const auto here = models::instruction_sets_here();
  for (const std::string_view name : models::instruction_sets().subspan(here.size())) {
    auto config = runs.config("a");
    config.kernels.instruction_set = name;
    const auto r = run(config);
    ASSERT_FALSE(r);
    EXPECT_EQ(r.error().code(), errc::invalid_argument);
    EXPECT_NE(r.error().text().find(here.back()), std::string::npos) << r.error().text();
  }
  auto config = runs.config("a");
  config.kernels.instruction_set = "avx1024";
  const auto r = run(config);
  ASSERT_FALSE(r);
  // A file with this word gets a message with the word. A program gets the names.
  EXPECT_TRUE(r.error().text().starts_with(
      "cannot use setting \"run.kernels\" of the run: expected one of \"auto\" "
      "\"x86-64\" \"x86-64-v3\" \"x86-64-v4\", found "))
      << r.error().text();
  EXPECT_FALSE(std::filesystem::exists(config.folder));
}

TEST(run, reports_its_progress_on_the_calling_thread) {
  test::small_runs runs;
  const auto here = std::this_thread::get_id();
  int starts = 0;
  run_progress last;
  run_callbacks callbacks;
  callbacks.started = [&](const run_start& s) {
    ++starts;
    EXPECT_EQ(s.corpus.size(), 1U);
    EXPECT_FALSE(s.resumed_from);
  };
  callbacks.progress = [&](const run_progress& p) {
    EXPECT_TRUE(std::this_thread::get_id() == here);
    last = p;
  };
  ASSERT_TRUE(run(runs.config("a"), callbacks));
  EXPECT_EQ(starts, 1);
  EXPECT_GT(last.tokens, 0U);
}

}  // namespace
}  // namespace weir::actors
