// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests that checkpoints of the first version still resume and speak. The checkpoint in
/// this folder was written by the last program that wrote such files.
#include <gtest/gtest.h>
#include <zstd.h>

#include <filesystem>
#include <fstream>

#include "stages/prose/job/stored_run.hpp"
#include "support/temp_folder.hpp"
#include "weir/actors/run.hpp"
#include "weir/actors/speak.hpp"
#include "weir/base/file.hpp"
#include "weir/base/hash.hpp"

namespace weir::actors {
namespace {

/// State, and kernels, with which the program that wrote the checkpoint ended the run.
constexpr const char* expected_state = "881393a31d374397";
constexpr const char* expected_kernels = "onednn-2.6.3/avx512";

/// Works in a folder of its own, because the checkpoint holds relative paths.
class first_version : public testing::Test {
 protected:
  void SetUp() override {
    before_ = std::filesystem::current_path();
    std::filesystem::current_path(folder_.path());
    std::ofstream first("first");
    for (int i = 0; i < 150; ++i) {
      first << "Line " << i << ": water flows over the weir " << i * i % 97 << ".\n";
    }
    std::ofstream second("second");
    for (int i = 0; i < 60; ++i) {
      second << "Row " << i << ": the level is " << i * i * i % 89
             << ", and the gate is open.\n";
    }
    std::filesystem::create_directories("run/checkpoint");
    const auto packed = or_throw(read_file(
        posix_file_system(), std::string(WEIR_TEST_FOLDER) + "/first_version.weir.zst"));
    byte_vector file(ZSTD_getFrameContentSize(packed.data(), packed.size()));
    ASSERT_EQ(ZSTD_decompress(file.data(), file.size(), packed.data(), packed.size()),
              file.size());
    ASSERT_TRUE(
        write_file_atomically(posix_file_system(), "run/checkpoint/ck-1.weir", file));
  }
  void TearDown() override { std::filesystem::current_path(before_); }

  static run_config config() {
    run_config c;
    c.name = "old";
    c.folder = "run";
    c.seed = 5;
    c.source.paths = {"first", "second"};
    c.stream.lanes = 2;
    c.stream.chunk = 32;
    c.stream.end = storage::end_policy::loop;
    c.stream.boundary = storage::boundary_policy::at_next_chunk;
    c.phase.build.tokens = 3000;
    c.phase.test.tokens = 600;
    c.every_tokens = 192;
    c.model.width = 16;
    c.model.heads = 1;
    c.model.hidden = 16;
    c.model.blocks = 1;
    c.model.frequencies = {1, 32};
    c.trace = runtime::trace_mode::off;
    return c;
  }
  static stored_run newest() {
    auto store =
        or_throw(storage::checkpoint_store::open(posix_file_system(), "run/checkpoint"));
    return or_throw(read_run(or_throw(store.load_newest())));
  }

 private:
  test::temp_folder folder_;
  std::filesystem::path before_;
};

TEST_F(first_version, resumes_to_the_state_that_its_own_program_reached) {
  EXPECT_TRUE(newest().first_version);
  EXPECT_EQ(newest().record.pulses, 3U);
  const auto r = resume(config());
  ASSERT_TRUE(r) << r.error().message();
  EXPECT_EQ(r->ended, "finished");
  EXPECT_EQ(r->tokens, 3600U);
  EXPECT_EQ(r->pulses, 57U);
  EXPECT_EQ(r->resumed, 1U);
  if (r->kernel_set != expected_kernels) {
    GTEST_SKIP() << "kernels " << r->kernel_set << " may round differently from "
                 << expected_kernels << ", so the states are not compared";
  }
  EXPECT_EQ(hex64(r->state_hash), expected_state);
}

TEST_F(first_version, becomes_a_checkpoint_of_a_pipeline_that_resumes) {
  run_control control;
  control.request_stop();
  run_callbacks callbacks;
  callbacks.control = &control;
  const auto stopped = resume(config(), callbacks);
  ASSERT_TRUE(stopped) << stopped.error().message();
  const auto rest = resume(config());
  ASSERT_TRUE(rest) << rest.error().message();
  EXPECT_FALSE(newest().first_version);
  EXPECT_EQ(newest().state_hash(), rest->state_hash);
  if (rest->kernel_set == expected_kernels) {
    EXPECT_EQ(hex64(rest->state_hash), expected_state);
  }
}

TEST_F(first_version, gives_its_parameters_and_continues_a_prompt) {
  const auto parameters = parameters_of_run("run");
  ASSERT_TRUE(parameters) << parameters.error().message();
  speak_request request;
  request.source = "run";
  request.prompt = "Line";
  request.tokens = 5;
  const auto said = speak(request);
  ASSERT_TRUE(said) << said.error().message();
  EXPECT_EQ(said->tokens, 5U);
  EXPECT_EQ(said->parameter_hash, parameters->hash);
}

TEST_F(first_version, is_refused_with_other_settings_by_their_names) {
  auto c = config();
  c.stream.lanes = 4;
  const auto r = resume(c);
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code(), errc::config_mismatch);
  EXPECT_EQ(r.error().text(),
            "resuming the run failed for stream.lanes: expected 2, found 4");
}

}  // namespace
}  // namespace weir::actors
