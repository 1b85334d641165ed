// SPDX-License-Identifier: Apache-2.0
/// @file
/// The source tgm.read: files, folders and pipes, resumed, and data that changed.
#include <sys/stat.h>

#include <thread>

#include "stages/file_runs.hpp"
#include "tensogram_support.hpp"

namespace weir::test {
namespace {

/// Reads messages and records them.
tape_builder reading(const std::string& path, given_settings settings = {}) {
  settings.emplace("path", path);
  return [=](pipeline& p, std::vector<tape>& all) {
    add_stage(p, "source", "tgm.read", settings) >> add_recorder(p, "sink", all[0]);
  };
}
/// Returns `count` messages of numbers from `first` on.
byte_vector messages_from(std::uint64_t first, std::uint64_t count,
                          std::size_t elements = 3) {
  byte_vector all;
  for (std::uint64_t n = first; n < first + count; ++n) {
    append(all, numbered_message(n, elements));
  }
  return all;
}
/// Returns the first element of each item.
std::vector<std::uint64_t> first_elements(const tape& t) {
  std::vector<std::uint64_t> all;
  for (const recorded& one : t) {
    all.push_back(one.values<std::uint64_t>()[0]);
  }
  return all;
}
using number_list = std::vector<std::uint64_t>;

TEST(TgmRead, ReadsAFileAndContinuesFromEveryCheckpoint) {
  const temp_folder folder;
  byte_vector content = messages_from(0, 4);
  append(content, messages_from(4, 3, 20'000));  // larger than what is read as a whole
  append(content, messages_from(7, 2));
  write_content(folder / "in.tgm", content);
  const auto tapes = expect_resumable(reading(folder / "in.tgm"), 1, 1);
  EXPECT_EQ(first_elements(tapes[0]), (number_list{0, 1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(tapes[0][5].shape, std::vector<std::int64_t>{20'000});
  EXPECT_EQ(tapes[0][5].about.at("message"), attribute(std::uint64_t{5}));
}

TEST(TgmRead, ReadsTheFilesOfAFolder) {
  const temp_folder folder;
  write_content(folder / "b.tgm", messages_from(2, 2));
  write_content(folder / "a.tgm", messages_from(0, 2));
  write_content(folder / "c.tgm", {});
  write_content(folder / "d.tgm", messages_from(4, 1));
  write_text(folder / "note.txt", "no message");
  const auto tapes = expect_resumable(reading(folder.path()), 1, 1);
  EXPECT_EQ(first_elements(tapes[0]), (number_list{0, 1, 2, 3, 4}));
}

/// Writes two objects of different types into each message.
void write_pairs(const std::string& path) {
  byte_vector all;
  for (double n = 0; n < 3; ++n) {
    const std::array<double, 2> a{n, n};
    const std::array<std::int32_t, 1> b{static_cast<std::int32_t>(-n)};
    formats::object_to_write first;
    first.descriptor.type = dtype::fp64;
    first.descriptor.shape = {2};
    first.data = std::as_bytes(std::span(a));
    formats::object_to_write second;
    second.descriptor.type = dtype::int32;
    second.descriptor.shape = {1};
    second.data = std::as_bytes(std::span(b));
    first.metadata.set("name", "wind");
    second.metadata.set("name", "code");
    second.metadata.set("level", std::int64_t{-7});
    second.metadata.set("flag", false);  // that of the message counts
    formats::cbor_map inner;
    inner.set("param", "2t");
    second.metadata.set("mars", inner);
    const formats::object_to_write objects[] = {first, second};
    formats::message_options options;
    options.extra.set("long", std::string(300, 'x'));
    options.extra.set("list", formats::cbor_array{1, 2});
    options.extra.set("flag", true);
    append(all, or_throw(formats::encode_message(objects, options)));
  }
  write_content(path, all);
}

TEST(TgmRead, FindsObjectsByNameAndByIndex) {
  const temp_folder folder;
  const std::string path = folder / "in.tgm";
  write_pairs(path);
  for (const given_settings& settings :
       {given_settings{{"object", "code"}}, given_settings{{"index", 1}},
        given_settings{{"index", 1}, {"type", "i32[1]"}}}) {
    const auto tapes = run_tapes(reading(path, settings), 1);
    ASSERT_TRUE(tapes) << tapes.error().message();
    EXPECT_EQ((*tapes)[0][2].values<std::int32_t>(), std::vector<std::int32_t>{-2});
    const attributes expected = {{"flag", std::uint64_t{1}},
                                 {"level", std::int64_t{-7}},
                                 {"mars.param", std::string("2t")},
                                 {"message", std::uint64_t{2}}};
    EXPECT_EQ((*tapes)[0][2].about, expected) << "texts that are too long are left out";
  }
  expect_error(run_tapes(reading(path, {{"object", "rain"}}), 1), errc::not_found,
               "found none of that name");
  expect_error(run_tapes(reading(path, {{"index", 2}}), 1), errc::not_found,
               "found 2 objects");
  expect_error(run_tapes(reading(path, {{"type", "f32[n]"}}), 1), errc::corrupt,
               "expected a tensor of type f32[n], found f64[2]");
  expect_refused("tgm.read", {{"path", path}, {"object", "a"}, {"index", 1}},
                 errc::invalid_argument, "a name or an index");
}

TEST(TgmRead, RefusesOtherAndShorterData) {
  const temp_folder folder;
  const std::string path = folder / "in.tgm";
  const byte_vector whole = messages_from(0, 6);
  write_content(path, whole);
  std::vector<tape> tapes(1);
  const file_builder build = [&](pipeline& p) { reading(path)(p, tapes); };
  const flow::image image = unfinished(images_of(build, 4)).front();
  const auto resumed = [&](const byte_vector& content) {
    write_content(path, content);
    return resume_files(build, image);
  };
  byte_vector other = messages_from(0, 3);
  append(other, messages_from(9, 3));
  expect_error(resumed(other), errc::history_mismatch, "in.tgm");
  expect_error(resumed(messages_from(0, 3)), errc::position_out_of_bounds,
               "expected at least");
  byte_vector longer = whole;
  append(longer, messages_from(6, 2));
  EXPECT_TRUE(resumed(longer));
  EXPECT_EQ(first_elements(tapes[0]), (number_list{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(TgmRead, RefusesAFolderThatLostItsFile) {
  const temp_folder folder;
  write_content(folder / "a.tgm", messages_from(0, 2));
  write_content(folder / "b.tgm", messages_from(2, 3));
  std::vector<tape> tapes(1);
  const file_builder build = [&](pipeline& p) { reading(folder.path())(p, tapes); };
  const flow::image image = unfinished(images_of(build, 3)).front();
  std::filesystem::rename(folder / "b.tgm", folder / "c.tgm");
  expect_error(resume_files(build, image), errc::history_mismatch, "found none");
}

TEST(TgmRead, ReportsGarbageUnlessItIsSkipped) {
  const temp_folder folder;
  byte_vector content = messages_from(0, 2);
  append(content, as_view("garbage"));
  append(content, messages_from(2, 2));
  write_content(folder / "in.tgm", content);
  expect_error(run_tapes(reading(folder / "in.tgm"), 1), errc::corrupt, "7 bytes");
  const auto tapes =
      expect_resumable(reading(folder / "in.tgm", {{"skip_garbage", true}}), 1, 1);
  EXPECT_EQ(first_elements(tapes[0]), (number_list{0, 1, 2, 3}));
  content = messages_from(0, 2);
  content.resize(content.size() - 3);
  write_content(folder / "in.tgm", content);
  expect_error(run_tapes(reading(folder / "in.tgm"), 1), errc::torn, "cut short");
}

TEST(TgmRead, NamesTheMessageWhosePayloadIsDamaged) {
  const temp_folder folder;
  byte_vector content = messages_from(0, 1);
  append(content, with_flipped_payload(numbered_message(1)));
  write_content(folder / "in.tgm", content);
  const auto tapes = run_tapes(reading(folder / "in.tgm"), 1);
  expect_error(tapes, errc::hash_mismatch, "item 1 in stage \"source\"");
}

TEST(TgmRead, ReadsAPipeButCannotContinueIt) {
  const temp_folder folder;
  const std::string fifo = folder / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  std::thread writer([&] {
    std::ofstream out(fifo, std::ios::binary);
    for (std::uint64_t n = 0; n < 5; ++n) {
      const byte_vector message = numbered_message(n);
      out.write(reinterpret_cast<const char*>(message.data()),  // NOLINT
                static_cast<std::streamsize>(message.size()));
      out.flush();
      std::this_thread::sleep_for(std::chrono::milliseconds(n == 2 ? 120 : 1));
    }
  });
  std::vector<tape> tapes(1);
  const file_builder build = [&](pipeline& p) { reading(fifo)(p, tapes); };
  const auto images = images_of(build, 2);
  writer.join();
  EXPECT_EQ(first_elements(tapes[0]), (number_list{0, 1, 2, 3, 4}));
  expect_error(resume_files(build, images.front()), errc::unsupported, "found a pipe");
  EXPECT_EQ(make_stage("tgm.read", {{"path", "-"}})->info.promise, flow::guarantee::none);
}

TEST(TgmRead, RefusesAMissingPathAndSettings) {
  expect_error(run_tapes(reading("/does/not/exist.tgm"), 1), errc::not_found,
               "exist.tgm");
  expect_refused("tgm.read", {}, errc::invalid_argument, "path");
  expect_refused("tgm.read", {{"path", "a"}, {"type", "f32["}}, errc::invalid_argument,
                 "type");
  expect_refused("tgm.read", {{"path", "a"}, {"index", -1}}, errc::invalid_argument,
                 "index");
}

}  // namespace
}  // namespace weir::test
