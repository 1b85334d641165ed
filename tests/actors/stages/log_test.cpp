// SPDX-License-Identifier: Apache-2.0
/// @file
/// The source log, and tgm.read on a file that grows.
#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "stages/file_runs.hpp"
#include "stages/stage_inputs.hpp"
#include "weir/pipeline/append_file.hpp"

namespace weir::test {
namespace {

/// A message f32[4] that says that it is the last one.
byte_vector last_message(int n) {
  formats::cbor_map extra;
  extra.set("end", std::int64_t{1});
  return float_message(n, extra);
}
byte_vector joined(const std::vector<byte_vector>& parts) {
  byte_vector all;
  for (const byte_vector& one : parts) {
    append(all, one);
  }
  return all;
}
/// Returns the first element of each item.
std::vector<float> firsts(const tape& t) {
  std::vector<float> all;
  for (const recorded& one : t) {
    all.push_back(one.values<float>().at(0));
  }
  return all;
}
using float_list = std::vector<float>;

/// A folder with a pipe that a log reads.
struct live_folder {
  live_folder() { EXPECT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0); }
  /// Sends bytes once somebody reads the pipe, and closes it.
  [[nodiscard]] std::thread sending(byte_vector content) const {
    return std::thread(
        [path = folder / "fifo", bytes = std::move(content)] { put_bytes(path, bytes); });
  }
  [[nodiscard]] file_builder building(tape& to, given_settings settings = {}) const {
    settings.emplace("path", folder / "log.tgm");
    settings.emplace("live", folder / "fifo");
    settings.emplace("type", "f32[4]");
    return [=, &to](pipeline& p) {
      add_stage(p, "source", "log", settings) >> add_recorder(p, "sink", to);
    };
  }
  [[nodiscard]] byte_vector log() const { return content_of(folder / "log.tgm"); }
  temp_folder folder;
};

TEST(Log, DoesNotAcceptWhatCannotBecomeAnItem) {
  const live_folder f;
  formats::object_to_write other;
  other.descriptor.type = dtype::uint8;
  other.descriptor.shape = {1};
  const std::byte one_byte{5};
  other.data = {&one_byte, 1};
  const auto garbage = as_view("no message");
  std::thread sender = f.sending(
      joined({float_message(1), byte_vector(garbage.begin(), garbage.end()),
              or_throw(formats::encode_message({&other, 1})), float_message(2)}));
  tape found;
  const auto done = run_files(f.building(found));
  sender.join();
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_EQ(firsts(found), (float_list{1, 2}));
  EXPECT_EQ(f.log(), joined({float_message(1), float_message(2)}));
  EXPECT_EQ(found[1].about.at("message"), attribute(std::uint64_t{1}));
}

TEST(Log, DoesNotAcceptObjectsOfWhichNoItemCanBeMade) {
  const live_folder f;
  const std::vector<std::byte> bytes(4000);
  const auto message = [&](dtype type, std::vector<std::int64_t> shape,
                           std::size_t size) {
    formats::object_to_write object;
    object.descriptor.type = type;
    object.descriptor.shape = std::move(shape);
    object.data = bytes_view(bytes).first(size);
    return or_throw(formats::encode_message({&object, 1}));
  };
  // Bits, nine dimensions, and more elements than `max_bytes` allows.
  std::thread sender =
      f.sending(joined({message(dtype::bitmask, {8}, 1),
                        message(dtype::uint8, {1, 1, 1, 1, 1, 1, 1, 1, 1}, 1),
                        message(dtype::uint8, {4000}, 4000), float_message(1)}));
  tape found;
  const auto done = run_files(f.building(found, {{"type", "any"}, {"max_bytes", 3000}}));
  sender.join();
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_EQ(firsts(found), float_list{1});
  EXPECT_EQ(f.log(), float_message(1));
}

TEST(Log, BeginsWithWhatItHasAndCutsOffAMessageThatIsNotWhole) {
  const live_folder f;
  byte_vector half = float_message(9);
  half.resize(half.size() / 2);
  write_content(f.folder / "log.tgm", joined({float_message(1), float_message(2), half}));
  std::thread sender = f.sending(float_message(3));
  tape found;
  const cut_scope scope;
  const auto done = run_files(f.building(found));
  sender.join();
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_EQ(firsts(found), (float_list{1, 2, 3}));
  ASSERT_EQ(scope.cuts().size(), 1U);
  EXPECT_EQ(scope.cuts()[0].file, f.folder / "log.tgm");
  EXPECT_EQ(scope.cuts()[0].bytes, half.size());
  EXPECT_EQ(f.log(), joined({float_message(1), float_message(2), float_message(3)}));
}

TEST(Log, EndsWithTheMessageThatSaysSoAlsoWhenItIsContinued) {
  const live_folder f;
  std::thread sender =
      f.sending(joined({float_message(1), last_message(2), float_message(3)}));
  tape found;
  const auto build = f.building(found, {{"until", "end"}});
  const auto images = images_of(build, 1);
  sender.join();
  EXPECT_EQ(firsts(found), (float_list{1, 2}));
  for (const flow::image& image : images) {
    found.resize(2);
    if (!image.finished) {
      const auto done = resume_files(build, image);  // without a writer
      ASSERT_TRUE(done) << done.error().message();
      EXPECT_EQ(firsts(found), (float_list{1, 2}));
    }
  }
}

TEST(Log, RefusesALogWithOtherMessagesBeforeItsCursor) {
  const live_folder f;
  std::thread sender = f.sending(joined({float_message(1), last_message(2)}));
  tape found;
  const auto build = f.building(found, {{"until", "end"}});
  const flow::image image = unfinished(images_of(build, 1)).front();
  sender.join();
  write_content(f.folder / "log.tgm", joined({float_message(5), last_message(2)}));
  expect_error(resume_files(build, image), errc::history_mismatch, "log.tgm");
  write_content(f.folder / "log.tgm", byte_vector(10));
  expect_error(resume_files(build, image), errc::position_out_of_bounds, "log.tgm");
}

TEST(Log, LeavesAFileOfSomethingElseAlone) {
  const live_folder f;
  const auto text = as_view("hello, this is a text");
  const byte_vector before(text.begin(), text.end());
  write_content(f.folder / "log.tgm", before);
  tape found;
  expect_error(run_files(f.building(found)), errc::already_exists, "log.tgm");
  EXPECT_EQ(f.log(), before);
}

TEST(TgmRead, FollowsAFileThatGrowsAndIsCutUntilTheLastMessage) {
  const temp_folder folder;
  const std::string path = folder / "log.tgm";
  write_content(path, float_message(0));
  std::thread writer([&path] {
    const auto pause = std::chrono::milliseconds(70);
    const byte_vector second = float_message(1);
    byte_vector whole = float_message(0);
    // A part of a message, which is cut off and replaced by another one.
    byte_vector half = whole;
    append(half, bytes_view(float_message(9)).first(second.size() / 2));
    write_content(path, half);
    std::this_thread::sleep_for(pause);
    std::filesystem::resize_file(path, whole.size());
    append(whole, second);
    append(whole, bytes_view(last_message(2)).first(50));
    std::ofstream(path, std::ios::binary | std::ios::in)
        .seekp(0)
        .write(reinterpret_cast<const char*>(whole.data()),  // NOLINT
               static_cast<std::streamsize>(whole.size()));
    std::this_thread::sleep_for(pause);
    const byte_vector all = joined({float_message(0), second, last_message(2), second});
    std::ofstream(path, std::ios::binary | std::ios::in)
        .seekp(0)
        .write(reinterpret_cast<const char*>(all.data()),  // NOLINT
               static_cast<std::streamsize>(all.size()));
  });
  const auto tapes = run_tapes(
      [&](pipeline& p, std::vector<tape>& all) {
        add_stage(p, "source", "tgm.read",
                  {{"path", path}, {"follow", true}, {"until", "end"}}) >>
            add_recorder(p, "sink", all[0]);
      },
      1);
  writer.join();
  ASSERT_TRUE(tapes) << tapes.error().message();
  EXPECT_EQ(firsts((*tapes)[0]), (float_list{0, 1, 2}));
}

TEST(TgmRead, FollowsFilesAlone) {
  const temp_folder folder;
  const auto done = run_tapes(
      [&](pipeline& p, std::vector<tape>& all) {
        add_stage(p, "source", "tgm.read", {{"path", folder.path()}, {"follow", true}}) >>
            add_recorder(p, "sink", all[0]);
      },
      1);
  expect_error(done, errc::invalid_argument, "found a pipe or a folder");
}

}  // namespace
}  // namespace weir::test
