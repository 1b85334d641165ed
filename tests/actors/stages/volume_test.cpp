// SPDX-License-Identifier: Apache-2.0
/// @file
/// The sources hn4.tensors, hn4.rows and hn4.read.
#include "stages/file_runs.hpp"
#include "storage/hn4/support.hpp"

namespace weir::test {
namespace {

using storage::test::noise;

/// Returns a safetensors file with the tensors a, b and wide.c.
byte_vector small_file(std::uint64_t seed) {
  const std::string header =
      R"({"a":{"dtype":"F32","shape":[10,50],"data_offsets":[0,2000]},)"
      R"("b":{"dtype":"U8","shape":[3001],"data_offsets":[2000,5001]},)"
      R"("wide.c":{"dtype":"F64","shape":[8],"data_offsets":[5001,5065]}})";
  byte_vector file(8);
  store_le(file.data(), std::uint64_t{header.size()});
  append(file, as_view(header));
  append(file, noise(5065, seed));
  return file;
}
/// Stores a tag in a volume, which is made if it does not exist.
void put(const std::string& path, const std::string& tag, bytes_view content) {
  if (!std::filesystem::exists(path)) {
    storage::hn4_format_options options = storage::test::fixed_format();
    options.profile = storage::hn4_profile::pico;
    options.capacity = std::uint64_t{2} << 20;
    or_throw(storage::hn4_format(path, options));
  }
  auto volume = or_throw(storage::hn4_volume::open(path, storage::device_mode::writable));
  or_throw(volume.put(tag, content, storage::test::fixed_put(2)));
}
tape_builder source(const std::string& stage, const std::string& path,
                    given_settings settings = {}) {
  settings.emplace("path", path);
  return [=](pipeline& p, std::vector<tape>& all) {
    add_stage(p, "source", stage, settings) >> add_recorder(p, "sink", all[0]);
  };
}
std::vector<std::string> names_of(const tape& t) {
  std::vector<std::string> all;
  for (const recorded& one : t) {
    all.push_back(std::get<std::string>(one.about.at("name")));
  }
  return all;
}
using name_list = std::vector<std::string>;

TEST(Hn4Tensors, ReadsAllTensorsAndContinuesFromEveryCheckpoint) {
  const temp_folder folder;
  const std::string path = folder / "model.hn4";
  put(path, "model", small_file(3));
  put(path, "notes", as_view("no tensors here"));
  const auto tapes = expect_resumable(source("hn4.tensors", path), 1, 1);
  const tape& t = tapes[0];
  EXPECT_EQ(names_of(t), (name_list{"a", "b", "wide.c"}));
  const byte_vector file = small_file(3);
  EXPECT_EQ(t[0].type, dtype::fp32);
  EXPECT_EQ(t[0].shape, (std::vector<std::int64_t>{10, 50}));
  EXPECT_TRUE(std::equal(t[1].data.begin(), t[1].data.end(), file.end() - 3065));
  EXPECT_EQ(t[2].about.at("tag"), attribute(std::string("model")));
}

TEST(Hn4Tensors, ChoosesTensorsByNameAndByPattern) {
  const temp_folder folder;
  const std::string path = folder / "model.hn4";
  put(path, "model", small_file(3));
  const auto read = [&](const given_settings& settings) {
    const auto tapes = run_tapes(source("hn4.tensors", path, settings), 1);
    EXPECT_TRUE(tapes) << tapes.error().message();
    return tapes ? names_of((*tapes)[0]) : name_list();
  };
  EXPECT_EQ(read({{"names", texts({"b", "a", "b"})}}), (name_list{"b", "a", "b"}));
  EXPECT_EQ(read({{"pattern", "?"}}), (name_list{"a", "b"}));
  EXPECT_EQ(read({{"pattern", "w*.*c"}, {"tag", "model"}}), name_list{"wide.c"});
  EXPECT_EQ(read({{"names", "a"}, {"type", "f32[10,50]"}}), name_list{"a"});
  expect_error(run_tapes(source("hn4.tensors", path, {{"pattern", "x*"}}), 1),
               errc::not_found, "found none among 3");
  expect_error(run_tapes(source("hn4.tensors", path, {{"names", "wide.d"}}), 1),
               errc::not_found, "did you mean \"wide.c\"?");
  expect_error(run_tapes(source("hn4.tensors", path, {{"tag", "modell"}}), 1),
               errc::not_found, "model");
  put(path, "second", small_file(4));
  expect_error(run_tapes(source("hn4.tensors", path, {{"names", "a"}}), 1),
               errc::invalid_argument, "found it in several");
}

TEST(Hn4Tensors, RefusesAVolumeWithOtherTensors) {
  const temp_folder folder;
  const std::string path = folder / "model.hn4";
  put(path, "model", small_file(3));
  std::vector<tape> tapes(1);
  const file_builder build = [&](pipeline& p) { source("hn4.tensors", path)(p, tapes); };
  const flow::image image = unfinished(images_of(build, 2)).front();
  put(path, "model", small_file(4));
  expect_error(resume_files(build, image), errc::history_mismatch, "digest");
  put(path, "model", as_view("no tensors any more"));
  put(path, "one", small_file(3));
  expect_error(resume_files(build, image), errc::history_mismatch, "found others");
}

TEST(Hn4Read, ReadsATagInBlocksAndContinuesFromEveryCheckpoint) {
  const temp_folder folder;
  const std::string path = folder / "text.hn4";
  const byte_vector content = noise(10'000, 5);
  put(path, "text", content);
  for (const int block : {999, 1000, 20'000}) {
    const auto build = source("hn4.read", path, {{"tag", "text"}, {"block", block}});
    const auto tapes =
        block == 20'000 ? or_throw(run_tapes(build, 1)) : expect_resumable(build, 1, 3);
    byte_vector all;
    for (const recorded& one : tapes[0]) {
      EXPECT_EQ(one.about.at("offset"), attribute(std::uint64_t{all.size()}));
      append(all, one.data);
    }
    EXPECT_EQ(all, content);
    EXPECT_EQ(tapes[0].size(), static_cast<std::size_t>((10'000 + block - 1) / block));
  }
}

TEST(Hn4Read, RefusesOtherAndShorterTags) {
  const temp_folder folder;
  const std::string path = folder / "text.hn4";
  put(path, "text", noise(10'000, 5));
  std::vector<tape> tapes(1);
  const file_builder build = [&](pipeline& p) {
    source("hn4.read", path, {{"tag", "text"}, {"block", 1000}})(p, tapes);
  };
  const flow::image image = unfinished(images_of(build, 4)).front();
  put(path, "text", noise(10'000, 6));
  expect_error(resume_files(build, image), errc::history_mismatch, "digest");
  put(path, "text", noise(3'999, 5));
  expect_error(resume_files(build, image), errc::position_out_of_bounds,
               "expected at least 4000 bytes, found 3999");
}

TEST(Hn4Read, ReadsAWholeTagAsOneItem) {
  const temp_folder folder;
  const std::string path = folder / "a.hn4";
  put(path, "text", noise(5000, 5));
  const auto tapes = expect_resumable(
      source("hn4.read", path, {{"tag", "text"}, {"block", "all"}}), 1, 1);
  ASSERT_EQ(tapes[0].size(), 1U);
  EXPECT_EQ(tapes[0][0].data, noise(5000, 5));
}

TEST(Hn4Rows, ReadsRowsOfATensorAndContinuesFromEveryCheckpoint) {
  const temp_folder folder;
  const std::string path = folder / "model.hn4";
  put(path, "model", small_file(3));
  put(path, "notes", as_view("no tensors here"));
  const auto tapes = expect_resumable(
      source("hn4.rows", path, {{"tensor", "a"}, {"rows", 4}, {"type", "f32[?,50]"}}), 1,
      1);
  const tape& t = tapes[0];
  ASSERT_EQ(t.size(), 3U);
  EXPECT_EQ(t[0].shape, (std::vector<std::int64_t>{4, 50}));
  EXPECT_EQ(t[2].shape, (std::vector<std::int64_t>{2, 50}));
  EXPECT_EQ(t[2].about.at("row"), attribute(std::uint64_t{8}));
  byte_vector all;
  for (const recorded& one : t) {
    append(all, one.data);
  }
  const byte_vector file = small_file(3);
  const auto begin = file.end() - 5065;
  EXPECT_TRUE(std::equal(all.begin(), all.end(), begin, begin + 2000));
}

TEST(Hn4Rows, NamesTheNearestTensorAndOtherData) {
  const temp_folder folder;
  const std::string path = folder / "model.hn4";
  put(path, "model", small_file(3));
  expect_error(run_tapes(source("hn4.rows", path, {{"tensor", "wide.d"}}), 1),
               errc::not_found, "did you mean \"wide.c\"");
  std::vector<tape> tapes(1);
  const file_builder build = [&](pipeline& p) {
    source("hn4.rows", path, {{"tensor", "a"}})(p, tapes);
  };
  const flow::image image = unfinished(images_of(build, 2)).front();
  put(path, "model", small_file(4));
  expect_error(resume_files(build, image), errc::history_mismatch, "digest");
}

TEST(Hn4Stages, KeepTheirCursorsWhenTheyContinue) {
  const temp_folder folder;
  const std::string path = folder / "model.hn4";
  put(path, "model", small_file(3));
  const std::vector<std::pair<std::string, given_settings>> sources = {
      {"hn4.tensors", {{"path", path}}},
      {"hn4.read", {{"path", path}, {"tag", "model"}, {"block", 2000}}}};
  for (const auto& [stage, settings] : sources) {
    std::vector<tape> tapes(1);
    const auto images =
        images_of([&, &stage = stage, &settings = settings](
                      pipeline& p) { source(stage, path, settings)(p, tapes); },
                  1);
    expect_cursors_kept(stage, settings, images);
  }
}

TEST(Hn4Stages, RefuseMissingVolumesAndSettings) {
  const temp_folder folder;
  expect_error(run_tapes(source("hn4.tensors", folder / "none.hn4"), 1), errc::not_found,
               "none.hn4");
  expect_refused("hn4.tensors", {}, errc::invalid_argument, "path");
  expect_refused("hn4.tensors", {{"path", "a"}, {"names", "b"}, {"pattern", "c"}},
                 errc::invalid_argument, "names or a pattern");
  expect_refused("hn4.read", {{"path", "a"}}, errc::invalid_argument, "tag");
  expect_refused("hn4.read", {{"path", "a"}, {"tag", "b"}, {"block", 0}},
                 errc::invalid_argument, "block");
}

}  // namespace
}  // namespace weir::test
