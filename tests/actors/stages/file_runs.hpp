// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs of pipelines that read and write files, for tests.
#pragma once

#include <filesystem>
#include <fstream>

#include "support/tape.hpp"
#include "support/temp_folder.hpp"
#include "weir/actors/pipelines.hpp"
#include "weir/base/file.hpp"

namespace weir::test {

/// Adds a standard stage to a pipeline.
inline node add_stage(pipeline& p, const std::string& name, const std::string& stage,
                      const given_settings& settings = {}) {
  add_standard_stages();
  return p.add(name, stage, settings);
}
/// Makes a standard stage.
inline result<flow::described_stage> make_stage(const std::string& stage,
                                                const given_settings& settings) {
  add_standard_stages();
  return flow::stages().make(stage, settings);
}
/// Returns a setting that is a list of texts.
inline given_value texts(const std::vector<std::string>& items) {
  setting_value::list all;
  for (const std::string& one : items) {
    all.push_back({one});
  }
  return given_value(setting_value{std::move(all)});
}
/// Expects an error with a code and a text anywhere in its message.
template <class T>
void expect_error(const result<T>& found, errc code, const std::string& text) {
  ASSERT_FALSE(found) << "expected: " << text;
  EXPECT_EQ(found.error().root().code(), code) << found.error().message();
  EXPECT_NE(found.error().message().find(text), std::string::npos)
      << found.error().message();
}
/// Expects that the settings of a stage are refused.
inline void expect_refused(const std::string& stage, const given_settings& settings,
                           errc code, const std::string& text) {
  expect_error(make_stage(stage, settings), code, text);
}

/// Returns the bytes of a file.
inline byte_vector content_of(const std::string& path) {
  return or_throw(read_file(posix_file_system(), path));
}
/// Writes a file.
inline void write_content(const std::string& path, bytes_view content) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(content.data()),  // NOLINT
            static_cast<std::streamsize>(content.size()));
}
/// Writes a file of text.
inline void write_text(const std::string& path, std::string_view text) {
  write_content(path, as_view(text));
}

/// Builds a pipeline of files.
using file_builder = std::function<void(pipeline&)>;

/// Runs a pipeline.
inline result<flow::here_report> run_files(const file_builder& build,
                                           const flow::here_options& options = {}) {
  pipeline p("test");
  build(p);
  return flow::run_here(p, options);
}
/// Runs a pipeline with a checkpoint behind every `every` items and returns them.
inline std::vector<flow::image> images_of(const file_builder& build,
                                          std::uint64_t every) {
  memory_store store;
  flow::here_options options;
  options.every_items = every;
  options.store = &store;
  const auto done = run_files(build, options);
  EXPECT_TRUE(done) << done.error().message();
  return store.images;
}
/// Continues a pipeline from a checkpoint.
inline result<flow::here_report> resume_files(const file_builder& build,
                                              const flow::image& from) {
  memory_store store;
  store.images.push_back(from);
  flow::here_options options;
  options.store = &store;
  options.resume = true;
  return run_files(build, options);
}
/// Expects that a source that has continued from a cursor has this cursor, so that a
/// checkpoint before its next item can be continued, too.
inline void expect_cursors_kept(const std::string& stage, const given_settings& settings,
                                const std::vector<flow::image>& images) {
  for (const flow::image& image : images) {
    const flow::image_section* cursor = image.find("CURSOR/source");
    ASSERT_NE(cursor, nullptr);
    const auto made = make_stage(stage, settings);
    ASSERT_TRUE(made) << made.error().message();
    opening::facts facts;
    facts.resuming = true;
    opening run(facts);
    ASSERT_TRUE(made->object->open(run));
    ASSERT_TRUE(made->object->seek(cursor->data));
    const flow::small_record found = made->object->position();
    EXPECT_TRUE(std::equal(found.view().begin(), found.view().end(), cursor->data.begin(),
                           cursor->data.end()))
        << stage << " before item " << image.next_item;
    const auto refused = made->object->seek(bytes_view(cursor->data).first(5));
    expect_error(refused, errc::corrupt, "found 5");
  }
}
/// Returns the checkpoints before the end of a run.
inline std::vector<flow::image> unfinished(std::vector<flow::image> images) {
  std::erase_if(images, [](const flow::image& one) { return one.finished; });
  EXPECT_FALSE(images.empty());
  return images;
}

}  // namespace weir::test
