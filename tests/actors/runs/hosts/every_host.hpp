// SPDX-License-Identifier: Apache-2.0
/// @file
/// The fixture of tests that run a pipeline with its stages on the usual hosts, each on a
/// thread of its own, and each in a child process.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "actors/runs/hosts/host_stages.hpp"
#include "pipeline/support/random_pipeline.hpp"
#include "support/temp_folder.hpp"
#include "weir/actors/pipelines.hpp"
#include "weir/base/file.hpp"

namespace weir::test {

/// Where stages work.
struct every_host_places {
  const char* name;
  flow::host_kind ends;    ///< of sources and sinks
  flow::host_kind middle;  ///< of all others
};

/// A test that runs with its stages on each kind of host.
class every_host_fixture : public testing::TestWithParam<every_host_places> {
 protected:
  using builder = std::function<void(pipeline&)>;

  every_host_fixture() {
    ::setenv("WEIR_STAGE_HOST", WEIR_NUMBER_HOST_PROGRAM, 1);  // NOLINT
    add_standard_stages();
  }
  ~every_host_fixture() override { ::unsetenv("WEIR_STAGE_HOST"); }  // NOLINT

  /// Moves a stage to its host.
  static node place(node stage, bool end = false) {
    return stage.host(end ? GetParam().ends : GetParam().middle);
  }
  static node source(pipeline& p, std::uint64_t count, std::uint64_t seed = 1) {
    return place(add_named<number_source>(p, "source", {count, seed}), true);
  }
  static node sink(pipeline& p, const std::string& file = "out.tgm") {
    return place(p.add(std::filesystem::path(file).stem(), "tgm.write", {{"path", file}}),
                 true);
  }
  template <class S>
  static node middle(pipeline& p, const std::string& name,
                     flow::settings_of<S> settings = {}) {
    return place(add_named<S>(p, name, settings));
  }

  /// Returns the options of a run whose files lie in its folder.
  [[nodiscard]] run_options options_in(const std::string& name) const {
    run_options options;
    options.folder = options.files = folder_ / name;
    options.keep = 1000;
    std::filesystem::create_directories(options.folder);
    return options;
  }
  static result<pipeline_report> run_once(const builder& build,
                                          const run_options& options) {
    pipeline p("every host");
    build(p);
    return run(p, options);
  }
  static result<pipeline_report> resume_once(const builder& build,
                                             const run_options& options) {
    pipeline p("every host");
    build(p);
    return resume(p, options);
  }
  static std::string bytes_in(const run_options& options, const std::string& file) {
    std::ifstream in(join_path(options.files, file), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  /// Runs a pipeline, resumes it from each of its checkpoints, and returns its output.
  static std::string output_from_all(const builder& build, const run_options& options) {
    const auto end = or_throw(run_once(build, options));
    EXPECT_GT(end.generation, 1U) << "no checkpoint before the end";
    std::string whole = bytes_in(options, "out.tgm");
    run_options again = options;
    for (again.generation = end.generation - 1; again.generation != 0;
         --again.generation) {
      or_throw(resume_once(build, again));
      EXPECT_EQ(bytes_in(options, "out.tgm"), whole) << again.generation;
    }
    return whole;
  }
  static void expect_failure(const result<pipeline_report>& end, errc code,
                             const std::string& text) {
    ASSERT_FALSE(end) << "expected: " << text;
    EXPECT_EQ(end.error().root().code(), code) << end.error().message();
    EXPECT_NE(end.error().message().find(text), std::string::npos)
        << end.error().message();
  }

  temp_folder folder_;
};

/// Returns the number of messages in the content of a Tensogram file.
inline std::size_t number_of_messages(const std::string& content) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = content.find("TENSOGRM", at)) != std::string::npos;
       ++at) {
    ++count;
  }
  return count;
}

/// The kinds of hosts, for `INSTANTIATE_TEST_SUITE_P`.
inline auto all_hosts() {
  using flow::host_kind;
  return testing::Values(
      every_host_places{"usual", host_kind::automatic, host_kind::automatic},
      every_host_places{"own", host_kind::own, host_kind::own},
      every_host_places{"children", host_kind::process, host_kind::process});
}
/// Returns the name of a kind of host, for `INSTANTIATE_TEST_SUITE_P`.
inline std::string name_of_hosts(const testing::TestParamInfo<every_host_places>& one) {
  return one.param.name;
}

}  // namespace weir::test
