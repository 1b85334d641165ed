// SPDX-License-Identifier: Apache-2.0
/// @file
/// The sink hn4.put: the tags of any pipeline, resumed after crashes, on volumes and
/// disks that are full and devices that fail.
#include <fmt/format.h>

#include "stages/factories.hpp"
#include "stages/file_runs.hpp"
#include "stages/name_pattern.hpp"
#include "storage/hn4/support.hpp"
#include "weir/storage/hn4_tensors.hpp"

namespace weir::test {
namespace {

/// The bytes of all tags of a volume.
using tag_map = std::map<std::string, byte_vector>;

tag_map tags_of(const storage::hn4_volume& volume) {
  tag_map all;
  EXPECT_TRUE(or_throw(volume.damaged_tags()).empty());
  for (const storage::hn4_tag& tag : or_throw(volume.tags())) {
    all[tag.name] = or_throw(or_throw(volume.stream(tag.name)).read_all());
  }
  return all;
}
tag_map tags_of(const std::string& path) {
  return tags_of(or_throw(storage::hn4_volume::open(path)));
}
/// Returns the names of the tags.
std::vector<std::string> names_of(const tag_map& tags) {
  std::vector<std::string> all;
  for (const auto& [name, content] : tags) {
    all.push_back(name);
  }
  return all;
}
using name_list = std::vector<std::string>;

/// Stores items of random numbers in a volume.
file_builder storing(const std::string& path, given_settings settings = {}, int count = 6,
                     const char* element = "f32") {
  settings.emplace("path", path);
  return [=](pipeline& p) {
    given_settings made{{"count", count}, {"element", element}, {"kind", "philox"}};
    made.emplace("shape", given_value(setting_value{setting_value::list{
                              {std::int64_t{3}}, {std::int64_t{5}}}}));
    add_stage(p, "source", "generator", made) >>
        add_stage(p, "sink", "hn4.put", settings);
  };
}
/// Makes a small volume.
void make_small(const std::string& path,
                std::uint64_t capacity = std::uint64_t{2} << 20) {
  storage::hn4_format_options options = storage::test::fixed_format();
  options.profile = storage::hn4_profile::pico;
  options.capacity = capacity;
  or_throw(storage::hn4_format(path, options));
}

TEST(Hn4Put, StoresItemsAsTensorsThatHn4TensorsReturns) {
  const temp_folder folder;
  const std::string path = folder / "out.hn4";
  for (const char* element : {"f32", "f64", "i8", "u8", "i64", "u16"}) {
    std::filesystem::remove(path);
    make_small(path);
    const auto build =
        storing(path, {{"tag", "run/{item:3}"}, {"tensor", "t{item}"}}, 12, element);
    ASSERT_TRUE(run_files(build));
    EXPECT_EQ(names_of(tags_of(path)).front(), "run/000");
    EXPECT_EQ(names_of(tags_of(path)).back(), "run/011");
    const auto stored = run_tapes(
        [&](pipeline& p, std::vector<tape>& all) {
          add_stage(p, "source", "hn4.tensors", {{"path", path}}) >>
              add_recorder(p, "sink", all[0]);
        },
        1);
    const auto made = run_tapes(
        [&](pipeline& p, std::vector<tape>& all) {
          given_settings settings{
              {"count", 12}, {"element", element}, {"kind", "philox"}};
          settings.emplace("shape", given_value(setting_value{setting_value::list{
                                        {std::int64_t{3}}, {std::int64_t{5}}}}));
          add_stage(p, "source", "generator", settings) >>
              add_recorder(p, "sink", all[0]);
        },
        1);
    ASSERT_TRUE(stored) << stored.error().message();
    ASSERT_EQ((*stored)[0].size(), 12U);
    for (std::size_t i = 0; i < 12; ++i) {
      const recorded& one = (*stored)[0][i];
      EXPECT_EQ(one.data, (*made)[0][i].data);
      EXPECT_EQ(one.type, (*made)[0][i].type);
      EXPECT_EQ(one.shape, (*made)[0][i].shape);
      EXPECT_EQ(one.about.at("name"), attribute(fmt::format("t{}", i)));
    }
  }
}

TEST(Hn4Put, MakesAMissingVolumeWhoseBytesDependOnTheRunAlone) {
  const temp_folder folder;
  std::vector<byte_vector> volumes;
  for (int i = 0; i < 2; ++i) {
    const std::string path = folder / "out.hn4";
    ASSERT_TRUE(run_files(storing(path, {{"compress", true}})));
    EXPECT_EQ(names_of(tags_of(path)), (name_list{"00000000", "00000001", "00000002",
                                                  "00000003", "00000004", "00000005"}));
    volumes.push_back(content_of(path));
    std::filesystem::remove(path);
  }
  EXPECT_TRUE(volumes[0] == volumes[1]);
}

TEST(Hn4Put, OfNoItemsLeavesAVolumeWithoutTags) {
  const temp_folder folder;
  const std::string path = folder / "out.hn4";
  const auto images = images_of(storing(path, {}, 0), 1);
  EXPECT_TRUE(tags_of(path).empty());
  ASSERT_FALSE(images.empty());
  EXPECT_TRUE(resume_files(storing(path, {}, 0), images.back()));
  EXPECT_TRUE(tags_of(path).empty());
}

TEST(Hn4Put, OfOneItemStoresOneTag) {
  const temp_folder folder;
  const std::string path = folder / "out.hn4";
  ASSERT_TRUE(run_files(storing(path, {{"format", "raw"}, {"tag", "only"}}, 1, "u8")));
  const tag_map tags = tags_of(path);
  ASSERT_EQ(names_of(tags), name_list{"only"});
  EXPECT_EQ(tags.at("only").size(), 15U);
}

TEST(Hn4Put, EqualsAnUninterruptedRunFromEveryCheckpoint) {
  const std::vector<given_settings> all = {{},
                                           {{"compress", true}, {"tag", "a{item}"}},
                                           {{"format", "raw"}, {"tag", "newest"}}};
  for (const given_settings& settings : all) {
    const temp_folder folder;
    const std::string path = folder / "out.hn4";
    make_small(path);
    std::filesystem::copy_file(path, folder / "whole.hn4");
    ASSERT_TRUE(run_files(storing(folder / "whole.hn4", settings)));
    const tag_map expected = tags_of(folder / "whole.hn4");
    const auto build = storing(path, settings);
    for (const flow::image& image : unfinished(images_of(build, 1))) {
      const auto done = resume_files(build, image);
      ASSERT_TRUE(done) << done.error().message();
      EXPECT_EQ(tags_of(path), expected) << "item " << image.next_item;
    }
    // A run that begins anew finds its tags and leaves them where they are.
    ASSERT_TRUE(run_files(build));
    EXPECT_EQ(tags_of(path), expected);
  }
}

TEST(Hn4Put, DoesNotStoreTagsAgainThatAreThereAlready) {
  const temp_folder folder;
  const std::string path = folder / "out.hn4";
  make_small(path);
  ASSERT_TRUE(run_files(storing(path)));
  const byte_vector before = content_of(path);
  ASSERT_TRUE(run_files(storing(path)));
  EXPECT_TRUE(content_of(path) == before);
}

TEST(Hn4Put, KeepsTagsOfOthersAndReplacesThoseOfItsItems) {
  const temp_folder folder;
  const std::string path = folder / "out.hn4";
  make_small(path);
  {
    auto volume =
        or_throw(storage::hn4_volume::open(path, storage::device_mode::writable));
    or_throw(volume.put("letter", as_view("dear reader")));
    or_throw(volume.put("00000002", as_view("something else")));
  }
  ASSERT_TRUE(run_files(storing(path)));
  tag_map tags = tags_of(path);
  EXPECT_EQ(tags.size(), 7U);
  EXPECT_EQ(as_text(tags["letter"]), "dear reader");
  EXPECT_EQ(tags["00000002"].size(), tags["00000001"].size());
}

TEST(Hn4Put, RefusesAVolumeThatLostDurableTags) {
  const temp_folder folder;
  const std::string path = folder / "out.hn4";
  make_small(path);
  const auto build = storing(path);
  const flow::image image = unfinished(images_of(build, 4)).back();
  const auto change = [&](const auto& how) {
    auto volume =
        or_throw(storage::hn4_volume::open(path, storage::device_mode::writable));
    or_throw(how(volume));
  };
  change([](auto& volume) { return volume.put("00000003", as_view("other bytes")); });
  expect_error(resume_files(build, image), errc::hash_mismatch, "\"00000003\"");
  change([](auto& volume) { return volume.remove("00000003"); });
  const auto refused = resume_files(build, image);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("the tag \"00000003\" of the last item"),
            std::string::npos)
      << refused.error().message();
  std::filesystem::remove(path);
  const auto lost = resume_files(build, image);
  ASSERT_FALSE(lost);
  EXPECT_NE(lost.error().message().find("the tag \"00000003\" of the last item"),
            std::string::npos)
      << lost.error().message();
  EXPECT_FALSE(std::filesystem::exists(path)) << "a lost volume is not replaced";
}

TEST(Hn4Put, NamesVolumeAndTagIfTheVolumeIsFull) {
  const temp_folder folder;
  const std::string path = folder / "out.hn4";
  make_small(path);
  const file_builder build = [&](pipeline& p) {
    given_settings made{{"count", 100}};
    made.emplace(
        "shape",
        given_value(setting_value{setting_value::list{{std::int64_t{100'000}}}}));
    add_stage(p, "source", "generator", made) >>
        add_stage(p, "sink", "hn4.put", {{"path", path}, {"tag", "big{item}"}});
  };
  memory_store store;
  flow::here_options options;
  options.every_items = 1;
  options.store = &store;
  const auto full = run_files(build, options);
  expect_error(full, errc::no_space, "out.hn4");
  const tag_map before = tags_of(path);
  EXPECT_GE(before.size(), 2U);
  EXPECT_NE(full.error().message().find(fmt::format("\"big{}\"", before.size())),
            std::string::npos)
      << full.error().message();
  expect_error(resume_files(build, store.images.back()), errc::no_space, "out.hn4");
  EXPECT_EQ(tags_of(path), before) << "a refused tag leaves the others as they were";
}

/// A disk that is full from its n-th write on, until there is space again.
class full_disk final : public storage::test::borrowed_device {
 public:
  full_disk(storage::block_device& to, std::size_t writes)
      : borrowed_device(to), writes_(writes) {}
  result<void> write(std::uint64_t offset, bytes_view from) override {
    if (writes_ == 0) {
      return error(errc::no_space, "the disk is full").located(name());
    }
    --writes_;
    return borrowed_device::write(offset, from);
  }

 private:
  std::size_t writes_;
};

/// Stores six items on a device that has space for a number of writes.
file_builder storing_on(storage::block_device& device, std::size_t writes) {
  const actors::device_opener opener = [&device, writes](const std::string&) {
    return result<std::unique_ptr<storage::block_device>>(
        std::make_unique<full_disk>(device, writes));
  };
  return [opener](pipeline& p) {
    flow::described_stage made;
    or_throw(actors::make_hn4_put(made, {{"path", "vol.img"}}, opener));
    add_stage(p, "source", "generator", {{"count", 6}, {"element", "u16"}}) >>
        p.add_made("sink", std::move(made));
  };
}

TEST(Hn4Put, EndsWithOneErrorOnAFullDiskAndContinuesWhenThereIsSpace) {
  const auto plain = storage::test::formatted_small();
  ASSERT_TRUE(run_files(storing_on(*plain, SIZE_MAX)));
  const tag_map expected = tags_of(or_throw(storage::test::open_on(*plain)));
  EXPECT_EQ(expected.size(), 6U);
  std::size_t writes = 0;
  for (bool failed = true; failed; ++writes) {
    const auto device = storage::test::formatted_small();
    memory_store store;
    flow::here_options options;
    options.every_items = 2;
    options.store = &store;
    const auto done = run_files(storing_on(*device, writes), options);
    failed = !done;
    if (failed) {
      expect_error(done, errc::no_space, "the disk is full");
      EXPECT_NE(done.error().message().find("\"0000000"), std::string::npos)
          << done.error().message();
      const auto again =
          store.images.empty()
              ? run_files(storing_on(*device, SIZE_MAX))
              : resume_files(storing_on(*device, SIZE_MAX), store.images.back());
      ASSERT_TRUE(again) << again.error().message();
    }
    EXPECT_EQ(tags_of(or_throw(storage::test::open_on(*device))), expected)
        << "space for " << writes << " writes";
  }
  EXPECT_GE(writes, 6U * 4U) << "each tag needs at least four writes";
}

TEST(Hn4Put, RefusesWhatItCannotStore) {
  const temp_folder folder;
  const std::string path = folder / "out.hn4";
  make_small(path);
  expect_error(run_files(storing(path, {{"type", "f64[n,5]"}})), errc::invalid_argument,
               "f64[n,5]");
  const auto no_name = run_files(storing(path, {{"tag", "{nmae}"}}));
  expect_error(no_name, errc::not_found, "expected the attribute \"nmae\"");
  expect_error(run_files(storing(path, {{"tag", std::string(256, 'a')}})),
               errc::invalid_argument, "1 to 255 bytes");
  expect_error(run_files(storing(path, {{"tensor", "__metadata__"}})),
               errc::invalid_argument, "another name than __metadata__");
  EXPECT_TRUE(tags_of(path).empty());
  write_text(folder / "letter", "dear reader");
  EXPECT_FALSE(run_files(storing(folder / "letter")));
  EXPECT_EQ(as_text(content_of(folder / "letter")), "dear reader");
}

TEST(Hn4Put, RefusesSettingsOutsideOfTheirRanges) {
  expect_refused("hn4.put", {}, errc::invalid_argument, "path");
  for (const char* tag : {"{", "}", "{}", "{a", "a}", "{item:}", "{item:0}", "{item:21}",
                          "{item:2x}", "{a{b}}"}) {
    expect_refused("hn4.put", {{"path", "a"}, {"tag", tag}}, errc::invalid_argument,
                   "names in braces");
  }
  expect_refused("hn4.put", {{"path", "a"}, {"format", "gguf"}}, errc::invalid_argument,
                 "format");
  expect_refused("hn4.put", {{"path", "a"}, {"type", "f31"}}, errc::invalid_argument,
                 "type");
  expect_refused("hn4.put", {{"path", "a"}, {"capacity", 4096}}, errc::invalid_argument,
                 "capacity");
  expect_refused("hn4.put", {{"path", "a"}, {"capcity", 4096}}, errc::unknown_key,
                 "capacity");
}

TEST(NamePattern, ReplacesNamesInBraces) {
  const attributes about = {
      {"name", std::string("wq")}, {"level", std::int64_t{-2}}, {"rate", 0.5}};
  const auto named = [&](const char* pattern, std::uint64_t item) {
    return or_throw(or_throw(actors::name_pattern::parse(pattern)).name_of(item, about));
  };
  EXPECT_EQ(named("", 3), "");
  EXPECT_EQ(named("a/{item}", 3), "a/3");
  EXPECT_EQ(named("{item:4}", 12345), "12345");
  EXPECT_EQ(named("{item:20}", UINT64_MAX), "18446744073709551615");
  EXPECT_EQ(named("{level}.{name}@{item:2}{rate}", 3), "-2.wq@030.5");
  const auto file = [](const char* pattern, const std::string& value) {
    const attributes values = {{"name", value}};
    return or_throw(or_throw(actors::name_pattern::parse(pattern)).file_of(3, values));
  };
  EXPECT_EQ(file("../{name}/{item}", ".."), "../_./3");
  EXPECT_EQ(file("{name}{item}", "/a/b"), "_a_b3");
  EXPECT_EQ(file("{name}/{item}", ""), "_/3");
  EXPECT_EQ(file("a{name}.{item}", ""), "a.3");
  // The system would cut a path at a NUL.
  EXPECT_EQ(file("{name}-{item}", std::string("a\0b", 3)), "a_b-3");
  EXPECT_EQ(file("{name}-{item}", std::string("\0", 1)), "_-3");
  EXPECT_FALSE(actors::name_pattern::parse(std::string_view("a\0{item}", 8)));
  // No name consists of points, whatever the values are.
  for (const char* value : {"", ".", ".."}) {
    EXPECT_EQ(file("{item}/.{name}", value).substr(0, 4), "3/._") << value;
    EXPECT_EQ(file("{item}/..{name}/x", value).substr(0, 5), "3/.._") << value;
    EXPECT_EQ(file("..{name}/{item}", value).substr(0, 3), ".._") << value;
  }
  const auto unique = [](const char* pattern) {
    return or_throw(actors::name_pattern::parse(pattern)).is_unique();
  };
  EXPECT_TRUE(unique("a{item:3}b"));
  EXPECT_FALSE(unique("newest"));
  EXPECT_FALSE(unique("{name}{item}"));
}

}  // namespace
}  // namespace weir::test
