// SPDX-License-Identifier: Apache-2.0
/// @file
/// PNG images: every form, damaged files, and the memory that a damaged file costs.
#include <sys/stat.h>
#include <zlib.h>

#include <filesystem>
#include <set>

#include <fmt/format.h>

#include "stages/file_runs.hpp"
#include "stages/files/file_list.hpp"
#include "stages/files/png_codec.hpp"
#include "support/allocation_meter.hpp"
#include "weir/base/philox.hpp"

namespace weir::test {
namespace {

using actors::png_form;

/// Returns samples that compress badly.
byte_vector noisy(const png_form& form) {
  byte_vector out(form.bytes());
  const philox numbers(7, form.bytes());
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<std::byte>(numbers.bits(i) & 0xffU);
  }
  return out;
}
byte_vector encoded(const png_form& form) {
  return or_throw(actors::encode_png(form, noisy(form), 6));
}
/// Decodes a file. Returns its samples.
result<byte_vector> decoded(bytes_view file, std::uint64_t max_bytes = 1 << 24) {
  byte_vector samples;
  WEIR_CHECK(actors::decode_png(file, max_bytes,
                                [&](const png_form& form) -> result<mutable_bytes> {
                                  samples.resize(form.bytes());
                                  return mutable_bytes(samples);
                                }));
  return samples;
}

TEST(Png, EveryFormComesBackBitByBit) {
  for (const std::uint32_t channels : {1U, 2U, 3U, 4U}) {
    for (const bool wide : {false, true}) {
      for (const std::uint32_t width : {1U, 7U, 64U}) {
        const png_form form{5, width, channels, wide};
        const auto found = decoded(encoded(form));
        ASSERT_TRUE(found) << found.error().message();
        EXPECT_EQ(*found, noisy(form)) << channels << " " << wide << " " << width;
      }
    }
  }
}

/// A chunk of a file, without its length and checksum.
struct chunk {
  std::string type;
  byte_vector data;
};
std::vector<chunk> chunks_of(const byte_vector& file) {
  std::vector<chunk> all;
  for (std::size_t at = 8; at < file.size();) {
    const auto length = load_be<std::uint32_t>(file.data() + at);
    const bytes_view body = bytes_view(file).subspan(at + 8, length);
    all.push_back({std::string(as_text(bytes_view(file).subspan(at + 4, 4))),
                   byte_vector(body.begin(), body.end())});
    at += 12 + length;
  }
  return all;
}
/// Writes chunks with correct checksums.
byte_vector file_of(const std::vector<chunk>& all) {
  byte_vector out;
  append(out, as_view("\x89PNG\r\n\x1a\n"));
  for (const chunk& one : all) {
    byte_vector head(4);
    store_be(head.data(), static_cast<std::uint32_t>(one.data.size()));
    append(out, head);
    byte_vector body;
    append(body, as_view(one.type));
    append(body, one.data);
    append(out, body);
    const auto crc = ::crc32(0, reinterpret_cast<const Bytef*>(body.data()),  // NOLINT
                             static_cast<uInt>(body.size()));
    store_be(head.data(), static_cast<std::uint32_t>(crc));
    append(out, head);
  }
  return out;
}
/// Returns a file with other numbers in its header and a correct checksum.
byte_vector with_header(const byte_vector& good, std::size_t place, std::uint32_t value,
                        std::size_t width) {
  std::vector<chunk> all = chunks_of(good);
  for (std::size_t i = 0; i < width; ++i) {
    all[0].data[place + i] = static_cast<std::byte>(value >> (8 * (width - 1 - i)));
  }
  return file_of(all);
}

/// Returns 40 damaged files with a name for each damage.
std::vector<std::pair<std::string, byte_vector>> damaged_files() {
  std::vector<std::pair<std::string, byte_vector>> all;
  const byte_vector good = encoded({16, 16, 3, false});
  for (const std::size_t length :
       {std::size_t{0}, std::size_t{4}, std::size_t{8}, std::size_t{20}, std::size_t{33},
        std::size_t{40}, good.size() / 4, good.size() / 2, good.size() - 100,
        good.size() - 12, good.size() - 4, good.size() - 1}) {
    all.emplace_back(
        fmt::format("cut to {}", length),
        byte_vector(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(length)));
  }
  // A wrong byte in signature, header, checksums, samples and the end chunk.
  for (const std::size_t at :
       {std::size_t{0}, std::size_t{5}, std::size_t{8}, std::size_t{12}, std::size_t{17},
        std::size_t{24}, std::size_t{30}, std::size_t{36}, std::size_t{41},
        good.size() / 2, good.size() - 20, good.size() - 8, good.size() - 2}) {
    byte_vector file = good;
    file[at] ^= std::byte{0x55};
    all.emplace_back(fmt::format("byte {}", at), file);
  }
  // Headers that say something else than the samples.
  all.emplace_back("2^31-1 columns", with_header(good, 0, 0x7fffffff, 4));
  all.emplace_back("2^31-1 rows", with_header(good, 4, 0x7fffffff, 4));
  all.emplace_back("2^32-1 columns", with_header(good, 0, 0xffffffff, 4));
  all.emplace_back("no columns", with_header(good, 0, 0, 4));
  all.emplace_back("no rows", with_header(good, 4, 0, 4));
  all.emplace_back("more rows", with_header(good, 4, 17, 4));
  all.emplace_back("depth 3", with_header(good, 8, 3, 1));
  all.emplace_back("colour 5", with_header(good, 9, 5, 1));
  all.emplace_back("compression 1", with_header(good, 10, 1, 1));
  all.emplace_back("filters 1", with_header(good, 11, 1, 1));
  all.emplace_back("interlace 2", with_header(good, 12, 2, 1));
  // Chunks that are missing, in another order, or hold other data.
  std::vector<chunk> parts = chunks_of(good);
  all.emplace_back("no samples", file_of({parts[0], parts.back()}));
  all.emplace_back("no header", file_of({parts[1], parts.back()}));
  std::vector<chunk> garbage = parts;
  std::fill(garbage[1].data.begin(), garbage[1].data.end(), std::byte{0xaa});
  all.emplace_back("no zlib", file_of(garbage));
  // A row with filter 9: zlib is sound, the row is not.
  byte_vector rows(16 * 49, std::byte{9});
  byte_vector packed(4096);
  uLongf size = packed.size();
  ::compress(reinterpret_cast<Bytef*>(packed.data()), &size,             // NOLINT
             reinterpret_cast<const Bytef*>(rows.data()), rows.size());  // NOLINT
  packed.resize(size);
  std::vector<chunk> filter = parts;
  filter.resize(1);
  filter.push_back({"IDAT", packed});
  filter.push_back(parts.back());
  all.emplace_back("filter 9", file_of(filter));
  return all;
}

TEST(Png, FortyDamagedFilesGiveErrorsWithNamesAndCostNoMemory) {
  std::size_t files = 0;
  for (const auto& [damage, file] : damaged_files()) {
    ++files;
    std::int64_t peak = 0;
    result<byte_vector> found = byte_vector();
    {
      const allocation_meter meter;
      found = decoded(file, 1 << 16);
      peak = meter.peak();
    }
    ASSERT_FALSE(found) << damage;
    const errc code = found.error().code();
    EXPECT_TRUE(code == errc::corrupt || code == errc::torn || code == errc::out_of_range)
        << damage << ": " << found.error().message();
    EXPECT_NE(found.error().message().find("PNG"), std::string::npos) << damage;
    // The limit, and what libpng and zlib need for themselves.
    EXPECT_LT(peak, (1 << 16) + (256 << 10)) << damage;
  }
  EXPECT_GE(files, 40U);
}

/// Reads the images of a folder by a pipeline of a source and a sink.
result<std::vector<tape>> read_images(const temp_folder& folder, const std::string& type,
                                      std::int64_t max_bytes) {
  return run_tapes(
      [&](pipeline& p, std::vector<tape>& all) {
        add_stage(
            p, "source", "png.read",
            {{"path", folder / "images"}, {"type", type}, {"max_bytes", max_bytes}}) >>
            add_recorder(p, "sink", all[0]);
      },
      1);
}

TEST(PngRead, FortyDamagedFilesStopTheRunWithTheirNameAndCostNoMemory) {
  const temp_folder folder;
  std::filesystem::create_directory(folder / "images");
  write_content(folder / "images/1.png", encoded({16, 16, 3, false}));
  std::int64_t usual = 0;  // of a run whose files are sound
  {
    const allocation_meter meter;
    ASSERT_TRUE(read_images(folder, "u8[?,?,?]", 1 << 16));
    usual = meter.peak();
  }
  std::size_t files = 0;
  for (const auto& [damage, file] : damaged_files()) {
    ++files;
    write_content(folder / "images/2.png", file);
    for (const char* type : {"u8[?,?,?]", "u8[16,16,3]"}) {
      const allocation_meter meter;
      const auto found = read_images(folder, type, 1 << 16);
      const std::int64_t peak = meter.peak();
      ASSERT_FALSE(found) << damage;
      const std::string text = found.error().message();
      EXPECT_NE(text.find("2.png"), std::string::npos) << damage << ": " << text;
      EXPECT_NE(text.find("item 1 in stage \"source\""), std::string::npos) << text;
      EXPECT_NE(text.find("expected"), std::string::npos) << damage << ": " << text;
      EXPECT_LT(peak, usual + (1 << 16) + (64 << 10)) << damage;
    }
  }
  EXPECT_GE(files, 40U);
}

TEST(Png, ALimitIsCheckedBeforeMemoryIsTaken) {
  const byte_vector good = encoded({256, 256, 4, true});
  const allocation_meter meter;
  const auto found = decoded(good, 1000);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code(), errc::out_of_range);
  EXPECT_LT(meter.peak(), 256 << 10);
}

TEST(FileList, SaysSoIfNoFileOfAFolderMatches) {
  const temp_folder folder;
  write_content(folder / "a.jpg", byte_vector(3));
  const auto problems = [&](const char* pattern) {
    const auto list = or_throw(actors::file_list::find(
        posix_file_system(), folder.path(), pattern, actors::name_order::natural));
    figures found;
    list.report(found);
    return found.problems();
  };
  EXPECT_EQ(problems("*.png"), std::vector<std::string>{fmt::format(
                                   "it has no items: expected files in \"{}\" that match "
                                   "\"*.png\", found none",
                                   folder.path())});
  EXPECT_TRUE(problems("*.jpg").empty());
}

TEST(PngRead, NamesTheDamagedFileAndTheTypeThatDiffers) {
  const temp_folder folder;
  std::filesystem::create_directory(folder / "images");
  write_content(folder / "images/a1.png", encoded({4, 4, 3, false}));
  write_content(folder / "images/a2.png", encoded({4, 5, 3, false}));
  const auto reading = [&](const std::string& type) {
    return run_tapes(
        [&](pipeline& p, std::vector<tape>& all) {
          add_stage(p, "source", "png.read",
                    {{"path", folder / "images"}, {"type", type}}) >>
              add_recorder(p, "sink", all[0]);
        },
        1);
  };
  expect_error(reading("u8[4,4,3]"), errc::corrupt, "a2.png");
  const auto both = reading("u8[?,?,3]");
  ASSERT_TRUE(both) << both.error().message();
  EXPECT_EQ((*both)[0][1].shape, (std::vector<std::int64_t>{4, 5, 3}));
  EXPECT_EQ((*both)[0][1].about.at("file"), attribute(std::string("a2.png")));
  byte_vector cut = encoded({4, 5, 3, false});
  cut.resize(cut.size() - 5);
  write_content(folder / "images/a2.png", cut);
  expect_error(reading("u8[?,?,3]"), errc::torn, "a2.png");
}

TEST(FileSources, RefuseAPipeWithoutWaitingForItsWriter) {
  const temp_folder folder;
  std::filesystem::create_directory(folder / "all");
  const std::string pipe = folder / "all/a.bin";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const auto expect_refusal = [&](const char* use, given_settings settings) {
    const auto done = run_files([&](pipeline& p) {
      add_stage(p, "source", use, settings) >> add_stage(p, "sink", "null");
    });
    expect_error(done, errc::unsupported, "a.bin\": expected a file, found a ");
  };
  for (const std::string& path : {folder / "all", pipe}) {
    expect_refusal("png.read", {{"path", path}, {"pattern", "*"}});
    expect_refusal("npy.read", {{"path", path}, {"pattern", "*"}, {"type", "u8[?]"}});
    expect_refusal("raw.read", {{"path", path}, {"pattern", "*"}, {"type", "u8[?]"}});
  }
  expect_refusal("text.chunks", {{"files", texts({pipe})}});
  std::filesystem::rename(pipe, folder / "all/a.bin.tgm");
  const auto messages = run_files([&](pipeline& p) {
    add_stage(p, "source", "tgm.read", {{"path", folder / "all"}, {"type", "u8[?]"}}) >>
        add_stage(p, "sink", "null");
  });
  expect_error(messages, errc::unsupported, "a.bin.tgm\": expected a file, found a pipe");
}

TEST(FileList, OrdersNamesAsPeopleCount) {
  std::vector<std::string> names{"b1", "a10", "a2",  "a1", "a02",
                                 "a",  "A3",  "a2b", "10", "9"};
  std::sort(names.begin(), names.end(), actors::natural_less);
  EXPECT_EQ(names, (std::vector<std::string>{"9", "10", "A3", "a", "a1", "a02", "a2",
                                             "a2b", "a10", "b1"}));
  for (const std::string& one : names) {
    EXPECT_FALSE(actors::natural_less(one, one));
  }
}

TEST(PngRead, RefusesAnotherFileBeforeItsCursor) {
  const temp_folder folder;
  std::filesystem::create_directory(folder / "images");
  for (const char* name : {"1.png", "2.png", "10.png"}) {
    write_content(folder / "images/" + name, encoded({4, 4, 1, false}));
  }
  std::vector<tape> tapes(1);
  const file_builder build = [&](pipeline& p) {
    add_stage(p, "source", "png.read", {{"path", folder / "images"}}) >>
        add_recorder(p, "sink", tapes[0]);
  };
  const auto images = unfinished(images_of(build, 1));
  write_content(folder / "images/11.png", encoded({4, 4, 1, false}));
  const auto more = resume_files(build, images[0]);
  ASSERT_TRUE(more) << more.error().message();
  EXPECT_EQ(tapes[0].size(), 4U) << "files may be added behind the cursor";
  write_content(folder / "images/0.png", encoded({4, 4, 1, false}));
  expect_error(resume_files(build, images[0]), errc::history_mismatch, "names");
  std::filesystem::remove(folder / "images/0.png");
  write_content(folder / "images/1.png", encoded({4, 4, 2, false}));
  expect_error(resume_files(build, images[0]), errc::history_mismatch, "1.png");
}

}  // namespace
}  // namespace weir::test
