// SPDX-License-Identifier: Apache-2.0
/// @file
/// The sink tgm.write: files of any pipeline, resumed after crashes that leave more, less
/// or other bytes, and pipes.
#include <fmt/format.h>
#include <sys/stat.h>

#include <atomic>
#include <thread>

#include "stages/file_runs.hpp"
#include "weir/base/clock.hpp"
#include "weir/formats/tensogram.hpp"

namespace weir::test {
namespace {

/// Writes ten items of random numbers to a file.
file_builder writing(const std::string& path, given_settings settings = {},
                     int count = 10) {
  settings.emplace("path", path);
  return [=](pipeline& p) {
    add_stage(p, "source", "generator",
              {{"count", count}, {"element", "f64"}, {"kind", "philox"}}) >>
        add_stage(p, "sink", "tgm.write", settings);
  };
}

std::vector<given_settings> all_modes() {
  return {{},
          {{"mode", "append"}},
          {{"compression", "zstd"}, {"level", 7}},
          {{"compression", "lz4"}, {"filter", "shuffle"}},
          {{"encoding", "simple_packing"}, {"bits", 24}, {"object", "field"}},
          {{"encoding", "simple_packing"},
           {"bits", 16},
           {"filter", "shuffle"},
           {"compression", "zstd"}}};
}

TEST(TgmWrite, EqualsAnUninterruptedRunFromEveryCheckpoint) {
  for (const given_settings& settings : all_modes()) {
    const temp_folder folder;
    ASSERT_TRUE(run_files(writing(folder / "whole.tgm", settings)));
    const byte_vector expected = content_of(folder / "whole.tgm");
    EXPECT_EQ(formats::scan(bytes_view(expected)).size(), 10U);
    const auto build = writing(folder / "out.tgm", settings);
    const auto images = images_of(build, 1);
    EXPECT_EQ(content_of(folder / "out.tgm"), expected);
    for (const flow::image& image : unfinished(images)) {
      byte_vector more = expected;
      append(more, as_view("TENSOGRM and garbage"));
      for (const byte_vector& left : {expected, more}) {
        write_content(folder / "out.tgm", left);
        const auto done = resume_files(build, image);
        ASSERT_TRUE(done) << done.error().message();
        ASSERT_EQ(content_of(folder / "out.tgm"), expected) << "item " << image.next_item;
      }
    }
  }
}

TEST(TgmWrite, AppendsBehindMessagesOfAnEarlierRun) {
  const temp_folder folder;
  const std::string path = folder / "out.tgm";
  ASSERT_TRUE(run_files(writing(path, {}, 3)));
  const byte_vector before = content_of(path);
  const auto build = writing(path, {{"mode", "append"}});
  const auto images = unfinished(images_of(build, 4));
  const byte_vector expected = content_of(path);
  EXPECT_EQ(formats::scan(bytes_view(expected)).size(), 13U);
  EXPECT_TRUE(std::equal(before.begin(), before.end(), expected.begin()));
  for (const flow::image& image : images) {
    ASSERT_TRUE(resume_files(build, image));
    EXPECT_EQ(content_of(path), expected);
  }
}

TEST(TgmWrite, ReplacesMessagesButNoOtherFiles) {
  const temp_folder folder;
  const std::string path = folder / "out.tgm";
  ASSERT_TRUE(run_files(writing(path)));
  ASSERT_TRUE(run_files(writing(path, {}, 2)));
  EXPECT_EQ(formats::scan(bytes_view(content_of(path))).size(), 2U);
  write_text(path, "a letter");
  expect_error(run_files(writing(path)), errc::already_exists,
               "8 bytes of something else");
  EXPECT_EQ(as_text(content_of(path)), "a letter");
}

TEST(TgmWrite, RefusesAFileThatLostDurableMessages) {
  const temp_folder folder;
  const std::string path = folder / "out.tgm";
  const auto build = writing(path);
  const flow::image image = unfinished(images_of(build, 4)).back();
  const byte_vector whole = content_of(path);
  const auto spans = formats::scan(bytes_view(whole));
  const std::uint64_t offset = spans[7].offset + spans[7].length;
  write_content(path, bytes_view(whole).first(offset - 1));
  expect_error(resume_files(build, image), errc::torn,
               fmt::format("expected at least the {} bytes", offset));
  EXPECT_EQ(content_of(path).size(), offset - 1) << "a refused file stays as it was";
  std::filesystem::remove(path);
  expect_error(resume_files(build, image), errc::torn, "found 0");
  EXPECT_FALSE(std::filesystem::exists(path));
  byte_vector other = whole;
  other[spans[7].offset + 20] ^= std::byte{1};
  write_content(path, other);
  const auto refused = resume_files(build, image);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("message that the checkpoint knows"),
            std::string::npos)
      << refused.error().message();
  write_content(path, bytes_view(whole).first(offset));
  ASSERT_TRUE(resume_files(build, image));
  EXPECT_EQ(content_of(path), whole);
}

/// Gives items attributes of all kinds.
struct attributed {
  in<double, 1> x;
  out<double, 1> y;
  static void describe(stage_spec<attributed>& s) {
    s.name("test.attributed", "adds attributes").forwards();
    s.port("x", &attributed::x, "n").port("y", &attributed::y, "n");
  }
  result<void> on_item(step& s) {
    s.emitted() = {{"name", std::string("item")},
                   {"below", std::int64_t{-5}},
                   {"count", std::uint64_t{1} << 63},
                   {"rate", 0.25}};
    s.forward(x, y);
    return s.emit();
  }
};

TEST(TgmWrite, StoresAttributesAsMetadataThatTgmReadReturns) {
  const temp_folder folder;
  ASSERT_TRUE(run_files([&](pipeline& p) {
    add_stage(p, "source", "generator", {{"count", 2}, {"element", "f64"}}) >>
        p.add<attributed>("about") >>
        add_stage(p, "sink", "tgm.write", {{"path", folder / "a.tgm"}, {"object", "y"}});
  }));
  const byte_vector bytes = content_of(folder / "a.tgm");
  const auto message = formats::message_reader::open(bytes);
  ASSERT_TRUE(message);
  EXPECT_EQ(message->find("y"), std::size_t{0});
  EXPECT_EQ(*message->metadata().extra.find("name")->text(), "item");
  const auto tapes = run_tapes(
      [&](pipeline& p, std::vector<tape>& all) {
        add_stage(p, "source", "tgm.read", {{"path", folder / "a.tgm"}}) >>
            add_recorder(p, "sink", all[0]);
      },
      1);
  ASSERT_TRUE(tapes) << tapes.error().message();
  const attributes expected = {{"name", std::string("item")},
                               {"below", std::int64_t{-5}},
                               {"count", std::uint64_t{1} << 63},
                               {"rate", 0.25},
                               {"message", std::uint64_t{1}}};
  EXPECT_EQ((*tapes)[0][1].about, expected);
  EXPECT_EQ((*tapes)[0][1].values<double>(), std::vector<double>{1.0});
}

TEST(TgmWrite, HandsPipesItsMessagesAtCheckpoints) {
  for (const std::int64_t hold : {std::int64_t{0}, std::int64_t{1} << 20}) {
    const temp_folder folder;
    ASSERT_TRUE(run_files(writing(folder / "whole.tgm")));
    const std::string fifo = folder / "fifo";
    ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
    byte_vector received;
    std::thread reader([&] {
      std::ifstream in(fifo, std::ios::binary);
      std::string all((std::istreambuf_iterator<char>(in)), {});
      append(received, as_view(all));
    });
    const auto images = images_of(writing(fifo, {{"hold", hold}}), 3);
    reader.join();
    EXPECT_EQ(received, content_of(folder / "whole.tgm"));
    // A resumed run repeats the items behind its checkpoint, byte for byte.
    byte_vector again;
    std::thread second([&] {
      std::ifstream in(fifo, std::ios::binary);
      std::string all((std::istreambuf_iterator<char>(in)), {});
      append(again, as_view(all));
    });
    EXPECT_TRUE(resume_files(writing(fifo, {{"hold", hold}}), images[1]));
    second.join();
    const auto spans = formats::scan(bytes_view(received));
    EXPECT_EQ(again,
              byte_vector(received.begin() + static_cast<std::ptrdiff_t>(spans[6].offset),
                          received.end()));
    const auto made = make_stage("tgm.write", {{"path", fifo}});
    ASSERT_TRUE(made);
    EXPECT_EQ(made->info.promise, flow::guarantee::at_least_once);
  }
  const auto standard = make_stage("tgm.write", {{"path", "-"}});
  EXPECT_EQ(standard->info.promise, flow::guarantee::at_least_once);
  EXPECT_EQ(make_stage("tgm.write", {{"path", "a.tgm"}})->info.promise,
            flow::guarantee::exactly_once);
}

/// A source of two items, the second of which comes only after a flag was set.
struct waiting_source {
  struct settings {
    std::uint64_t address = 0;  ///< of a `std::atomic<bool>`
  };
  struct cursor {
    std::uint64_t next;
  };
  out<double, 1> x;
  const std::atomic<bool>* flag = nullptr;
  std::uint64_t at = 0;
  static void describe(stage_spec<waiting_source>& s) {
    s.name("test.waiting", "waits for a flag").port("x", &waiting_source::x, "1");
    s.set("address", &settings::address, "address of the flag");
  }
  result<void> open(opening&, const settings& s) {
    flag = reinterpret_cast<const std::atomic<bool>*>(s.address);  // NOLINT
    return {};
  }
  result<bool> next(pull& p) {
    if (at == 2) {
      return false;
    }
    if (at == 1 && !*flag) {
      p.nothing_yet();
      return true;
    }
    WEIR_TRY(auto v, p.fill(x, 1));
    v[0] = static_cast<double>(at++);
    return true;
  }
  [[nodiscard]] cursor position() const { return {at}; }
  result<void> seek(cursor c) {
    at = c.next;
    return {};
  }
};

TEST(TgmWrite, WritesToAPipeEarlierIfMoreBytesWaitThanAllowed) {
  for (const std::int64_t hold : {std::int64_t{0}, std::int64_t{1} << 20}) {
    const temp_folder folder;
    const std::string fifo = folder / "fifo";
    ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
    std::atomic<bool> arrived{false};
    std::thread reader([&] {
      std::ifstream in(fifo, std::ios::binary);
      while (in.get() != std::ifstream::traits_type::eof()) {
        arrived = true;
      }
    });
    bool early = false;
    // Long enough for a busy machine if the bytes come, and short if they do not.
    const std::int64_t end = now_ns() + (hold == 0 ? 20'000'000'000 : 300'000'000);
    flow::here_options options;
    options.stop = [&] {
      early = arrived;
      return early || now_ns() > end;
    };
    const auto done = run_files(
        [&](pipeline& p) {
          p.add<waiting_source>("source",
                                {reinterpret_cast<std::uint64_t>(&arrived)}) >>  // NOLINT
              add_stage(p, "sink", "tgm.write", {{"path", fifo}, {"hold", hold}});
        },
        options);
    reader.join();
    ASSERT_TRUE(done) << done.error().message();
    EXPECT_EQ(early, hold == 0);
    EXPECT_TRUE(arrived);
  }
}

TEST(TgmWrite, RefusesElementsThatItCannotStoreAsAsked) {
  const temp_folder folder;
  const auto build = [&](const given_settings& settings, const char* element) {
    given_settings with_path = settings;
    with_path.emplace("path", folder / "out.tgm");
    return file_builder([=](pipeline& p) {
      add_stage(p, "source", "generator", {{"count", 1}, {"element", element}}) >>
          add_stage(p, "divide", "elementwise",
                    {{"op", "divide"},
                     {"operand", std::string_view(element) == "f64" ? 0 : 1},
                     {"type", std::string(element) + "[n]"}}) >>
          add_stage(p, "sink", "tgm.write", with_path);
    });
  };
  expect_error(run_files(build({{"encoding", "simple_packing"}}, "f32")),
               errc::invalid_argument, "expected f64 elements, found f32");
  expect_error(run_files(build({{"non_finite", false}}, "f64")), errc::invalid_argument,
               "item 0 in stage \"sink\"");
  EXPECT_TRUE(run_files(build({}, "f64")));
}

TEST(TgmWrite, RefusesSettingsOutsideOfTheirRanges) {
  expect_refused("tgm.write", {}, errc::invalid_argument, "path");
  expect_refused("tgm.write", {{"path", "a"}, {"mode", "old"}}, errc::invalid_argument,
                 "mode");
  expect_refused("tgm.write", {{"path", "a"}, {"bits", 65}}, errc::invalid_argument,
                 "bits");
  expect_refused("tgm.write", {{"path", "a"}, {"level", 23}}, errc::invalid_argument,
                 "level");
  expect_refused("tgm.write", {{"path", "a"}, {"compresion", "lz4"}}, errc::unknown_key,
                 "compression");
}

}  // namespace
}  // namespace weir::test
