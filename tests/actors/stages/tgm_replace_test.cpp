// SPDX-License-Identifier: Apache-2.0
/// @file
/// The sink tgm.replace: the file holds the newest item, also behind a crash.
#include "stages/file_runs.hpp"
#include "weir/formats/tensogram.hpp"

namespace weir::test {
namespace {

/// Replaces a file by each of six items of one number.
file_builder replacing(const std::string& path, given_settings settings = {},
                       int count = 6) {
  settings.emplace("path", path);
  return [=](pipeline& p) {
    add_stage(p, "source", "generator", {{"count", count}, {"element", "f64"}}) >>
        add_stage(p, "sink", "tgm.replace", settings);
  };
}

/// Returns the number that the only message of a file holds.
double number_in(const std::string& path) {
  const byte_vector bytes = content_of(path);
  EXPECT_EQ(formats::scan(bytes_view(bytes)).size(), 1U);
  const auto message = or_throw(formats::message_reader::open(bytes));
  const byte_vector data = or_throw(message.decode(0));
  double number = -1;
  std::memcpy(&number, data.data(), std::min(sizeof(number), data.size()));
  return number;
}

TEST(TgmReplace, HoldsTheNewestItemFromEveryCheckpointOn) {
  const temp_folder folder;
  const std::string path = folder / "newest.tgm";
  const auto build = replacing(path, {{"about", texts({"title=newest"})}});
  const auto images = images_of(build, 1);
  const byte_vector whole = content_of(path);
  EXPECT_EQ(number_in(path), 5);
  for (const flow::image& image : unfinished(images)) {
    for (const bool lost : {false, true}) {
      if (lost) {
        std::filesystem::remove(path);
      }
      const auto done = resume_files(build, image);
      ASSERT_TRUE(done) << done.error().message();
      EXPECT_EQ(content_of(path), whole) << "item " << image.next_item;
    }
  }
}

TEST(TgmReplace, TakesTheFileBackToTheCheckpointBeforeTheRunContinues) {
  const temp_folder folder;
  const std::string path = folder / "newest.tgm";
  const auto images = images_of(replacing(path), 2);
  ASSERT_EQ(number_in(path), 5);
  for (const flow::image& image : unfinished(images)) {
    const auto made = or_throw(make_stage("tgm.replace", {{"path", path}}));
    opening::facts facts;
    facts.resuming = true;
    opening run(facts);
    ASSERT_TRUE(made.object->open(run));
    ASSERT_TRUE(made.object->restore_state(flow::state_reader(image, "sink")));
    ASSERT_TRUE(made.object->rewind(image.find("OFFSET/sink")->data));
    EXPECT_EQ(number_in(path), static_cast<double>(image.next_item - 1));
  }
}

TEST(TgmReplace, LeavesOtherFilesAloneAndRefusesSettings) {
  const temp_folder folder;
  const std::string path = folder / "notes.txt";
  write_text(path, "important");
  expect_error(run_files(replacing(path)), errc::already_exists, "something else");
  EXPECT_EQ(as_text(content_of(path)), "important");
  expect_refused("tgm.replace", {}, errc::invalid_argument, "path");
  expect_refused("tgm.replace", {{"path", "a"}, {"about", texts({"title"})}},
                 errc::invalid_argument, "key=text");
  expect_refused("tgm.replace", {{"path", "a"}, {"units", texts({"m", "s"})}},
                 errc::invalid_argument, "units");
}

}  // namespace
}  // namespace weir::test
