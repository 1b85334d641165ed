// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs that had finished before and are resumed, and runs whose stages cannot be opened.
#include <gtest/gtest.h>

#include <map>

#include "pipeline/support/number_stages.hpp"
#include "stages/file_runs.hpp"
#include "weir/pipeline/append_file.hpp"

namespace weir::test {
namespace {

namespace fs = std::filesystem;

/// A sink of a program that appends the first element of each item to a file.
struct raw_file {
  using offset = append_file::offset;
  struct settings {
    std::string path;
  };
  in<float, 1> x;
  append_file to;
  static void describe(stage_spec<raw_file>& s) {
    s.name("test.raw_file", "appends bytes").port("x", &raw_file::x, "n");
    s.set("path", &settings::path, "file to write").required().path(path_use::output);
  }
  result<void> open(opening& run, const settings& s) { return to.open(run, s.path); }
  result<void> put(taken& t) { return to.append(t[x]); }
  result<offset> settle() { return to.settle(); }
  result<void> rewind(offset where) { return to.rewind(where); }
  result<bool> verify(opening& run, const settings& s, offset where) {
    return append_file::verify(run, s.path, where);
  }
};

/// A pipeline with one file of each sink that appends.
file_builder appending(const temp_folder& folder) {
  return [&folder](pipeline& p) {
    setting_value shape{setting_value::list{{std::int64_t{4}}}};
    auto source = add_stage(p, "source", "generator",
                            {{"count", 20}, {"shape", given_value(std::move(shape))}});
    source >> add_stage(p, "messages", "tgm.write", {{"path", folder / "out.tgm"}});
    source >> add_stage(p, "lines", "json.write", {{"path", folder / "out.jsonl"}});
    source >> p.add<raw_file>("raw", {.path = folder / "raw"});
  };
}

TEST(ResumedRun, TellsWhatItCutsOffOutputsThatHaveGrown) {
  const temp_folder folder;
  const auto build = appending(folder);
  const flow::image middle = unfinished(images_of(build, 10)).front();
  ASSERT_EQ(middle.next_item, 10U);
  std::map<std::string, byte_vector> whole;
  for (const std::string name : {"out.tgm", "out.jsonl", "raw"}) {
    whole[name] = content_of(folder / name);
    std::ofstream(folder / name, std::ios::app) << "more";
  }
  const cut_scope scope;
  const auto done = resume_files(build, middle);
  ASSERT_TRUE(done) << done.error().message();
  ASSERT_EQ(scope.cuts().size(), whole.size());
  for (const output_cut& one : scope.cuts()) {
    const std::string name = fs::path(one.file).filename();
    EXPECT_EQ(content_of(one.file), whole[name]);
    EXPECT_GT(one.bytes, 4U) << name;
    if (name == "raw") {
      EXPECT_EQ(one.bytes, whole[name].size() / 2 + 4);
    }
  }
}

/// A pipeline with an appended, a replaced and a raw file, and a sink that only counts.
class finished_run {
 public:
  finished_run() { or_throw(call(&run)); }
  [[nodiscard]] std::string operator/(const std::string& name) const {
    return folder_ / name;
  }
  [[nodiscard]] result<pipeline_report> resumed() const { return call(&resume); }

 private:
  [[nodiscard]] result<pipeline_report> call(
      result<pipeline_report> (*function)(pipeline&, const run_options&)) const {
    pipeline p("finished");
    auto source =
        add_stage(p, "source", "generator", {{"count", 20}, {"shape", texts_of_four()}});
    source >> add_stage(p, "file", "tgm.write", {{"path", "out.tgm"}});
    source >> add_stage(p, "newest", "tgm.replace", {{"path", "newest.tgm"}});
    source >> p.add<raw_file>("raw", {.path = "raw"});
    source >> add_stage(p, "volume", "hn4.put", {{"path", "tags.hn4"}});
    source >> add_stage(p, "count", "null");
    run_options options;
    options.folder = folder_ / "run";
    options.files = folder_.path();
    return function(p, options);
  }
  static given_value texts_of_four() {
    return given_value(setting_value{setting_value::list{{std::int64_t{4}}}});
  }
  temp_folder folder_;
};

TEST(FinishedRun, IsComparedWithItsOutputsAndChangesNothing) {
  const finished_run before;
  const byte_vector whole = content_of(before / "out.tgm");
  // What others have appended since is theirs.
  std::ofstream(before / "raw", std::ios::app) << "more";
  std::ofstream(before / "out.tgm", std::ios::app) << "more";
  const auto again = before.resumed();
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_TRUE(again->finished_before);
  EXPECT_EQ(again->unverified, std::vector<std::string>{"count"});
  EXPECT_EQ(content_of(before / "out.tgm").size(), whole.size() + 4);
  EXPECT_EQ(content_of(before / "raw").size(), 20U * 16 + 4);
}

TEST(FinishedRun, IsTornIfAnOutputIsGoneOrShorter) {
  for (const char* name : {"out.tgm", "raw", "newest.tgm", "tags.hn4"}) {
    const finished_run before;
    fs::remove(before / name);
    const auto gone = before.resumed();
    ASSERT_FALSE(gone) << name;
    EXPECT_EQ(gone.error().code(), errc::torn);
    EXPECT_NE(gone.error().message().find(name), std::string::npos);
    EXPECT_FALSE(fs::exists(before / name)) << name;
  }
  for (const char* name : {"out.tgm", "raw"}) {
    const finished_run before;
    fs::resize_file(before / name, fs::file_size(before / name) - 1);
    expect_error(before.resumed(), errc::torn, name);
  }
}

TEST(FinishedRun, IsRefusedIfAnOutputIsAnotherOne) {
  const finished_run before;
  write_text(before / "newest.tgm", "something else");
  expect_error(before.resumed(), errc::hash_mismatch, "newest.tgm");
  const finished_run other;
  byte_vector content = content_of(other / "out.tgm");
  content.back() ^= std::byte{1};
  write_content(other / "out.tgm", content);
  expect_error(other.resumed(), errc::history_mismatch, "out.tgm");
}

/// Runs a pipeline from `source` to a file, and notes the last progress.
result<pipeline_report> run_noting(const run_options& options, const std::string& source,
                                   const given_settings& settings, const char* path,
                                   std::vector<pipeline_progress>& seen) {
  pipeline p("noting");
  add_stage(p, "source", source, settings) >>
      add_stage(p, "file", "tgm.write", {{"path", path}});
  run_options noting = options;
  noting.progress = [&](const pipeline_progress& one) { seen.push_back(one); };
  return run(p, noting);
}

TEST(RefusedRun, LeavesNoFolderIfItsStagesCannotBeOpened) {
  const temp_folder folder;
  run_options options;
  options.files = folder.path();
  options.folder = folder / "run";
  std::vector<pipeline_progress> seen;
  for (const bool there : {false, true}) {
    if (there) {
      fs::create_directory(folder / "run");
    }
    const auto refused =
        run_noting(options, "generator", {{"count", 3}}, "none/out.tgm", seen);
    ASSERT_FALSE(refused);
    EXPECT_TRUE(seen.empty());
    EXPECT_EQ(fs::exists(folder / "run"), there);
    EXPECT_FALSE(fs::exists(folder / "run/checkpoint"));
  }
}

TEST(RefusedRun, TellsItsCountersIfItFailsLater) {
  const temp_folder folder;
  write_text(folder / "in", "0123456789");
  run_options options;
  options.files = folder.path();
  options.folder = folder / "run";
  std::vector<pipeline_progress> seen;
  // A message begins, but the file ends within it.
  write_text(folder / "in.tgm", "TENSOGRM and no more");
  const auto failed =
      run_noting(options, "tgm.read", {{"path", "in.tgm"}}, "out.tgm", seen);
  ASSERT_FALSE(failed);
  ASSERT_FALSE(seen.empty());
  ASSERT_NE(seen.back().counters, nullptr);
  EXPECT_EQ(seen.back().counters->stages.size(), 2U);
  EXPECT_TRUE(fs::exists(folder / "run/checkpoint"));
}

TEST(RefusedRun, TwoSinksOfOneFile) {
  const temp_folder folder;
  pipeline p("two");
  auto source = add_stage(p, "source", "generator", {{"count", 3}});
  source >> add_stage(p, "a", "tgm.write", {{"path", "out.tgm"}});
  source >> add_stage(p, "b", "tgm.replace", {{"path", folder / "out.tgm"}});
  run_options options;
  options.files = folder.path();
  options.folder = folder / "run";
  expect_error(run(p, options), errc::invalid_argument, "which the stage \"a\" writes");
  EXPECT_FALSE(fs::exists(folder / "run"));
  EXPECT_FALSE(fs::exists(folder / "out.tgm"));
}

}  // namespace
}  // namespace weir::test
