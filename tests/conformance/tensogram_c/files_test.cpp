// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests files and buffers of messages: finding, reading, appending, iterating and
/// validating.
#include <sys/resource.h>
#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>

#include "conformance/tensogram_c/support.hpp"
#include "support/temp_folder.hpp"

namespace weir::test::tgm {
namespace {

/// Returns the number of messages in an open file.
std::size_t messages_in(tgm_file_t* open) {
  std::size_t count = 999;
  EXPECT_EQ(tgm_file_message_count(open, &count), TGM_ERROR_OK) << last_error();
  return count;
}

TEST(tensogram_c, a_buffer_is_scanned_for_messages) {
  const std::string one = encode_two();
  const std::string all = "rubbish" + one + "more rubbish" + one;
  const auto found = make<scan_result>(tgm_scan, as_u8(all), all.size());
  ASSERT_EQ(found.code, TGM_ERROR_OK) << last_error();
  ASSERT_EQ(tgm_scan_count(found.get()), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    const tgm_scan_entry_t entry = tgm_scan_entry(found.get(), i);
    EXPECT_EQ(entry.length, one.size());
    EXPECT_TRUE(all.substr(entry.offset, entry.length) == one);
  }
  for (const std::size_t index :
       {std::size_t{2}, std::numeric_limits<std::size_t>::max()}) {
    const tgm_scan_entry_t none = tgm_scan_entry(found.get(), index);
    EXPECT_EQ(none.offset, std::numeric_limits<std::size_t>::max());
    EXPECT_EQ(none.length, 0u);
    EXPECT_NE(last_error().find("out of range"), std::string::npos) << last_error();
  }
  const auto empty = make<scan_result>(tgm_scan, as_u8(all), std::size_t{0});
  EXPECT_EQ(empty.code, TGM_ERROR_OK);
  EXPECT_EQ(tgm_scan_count(empty.get()), 0u);
}

TEST(tensogram_c, a_buffer_is_walked_message_by_message) {
  const std::string one = encode_two();
  const std::string all = one + "rubbish" + one + one.substr(0, 100);
  const auto walk = make<buffer_iter>(tgm_buffer_iter_create, as_u8(all), all.size());
  ASSERT_EQ(walk.code, TGM_ERROR_OK) << last_error();
  EXPECT_EQ(tgm_buffer_iter_count(walk.get()), 2u);
  const std::uint8_t* place = nullptr;
  std::size_t length = 0;
  EXPECT_EQ(tgm_buffer_iter_next(walk.get(), &place, &length), TGM_ERROR_OK);
  EXPECT_EQ(place, as_u8(all)) << "the message is a part of the buffer and not a copy";
  EXPECT_EQ(length, one.size());
  EXPECT_EQ(tgm_buffer_iter_next(walk.get(), &place, &length), TGM_ERROR_OK);
  EXPECT_EQ(place, as_u8(all) + one.size() + 7);
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(tgm_buffer_iter_next(walk.get(), &place, &length), TGM_ERROR_END_OF_ITER);
  }
  EXPECT_EQ(tgm_buffer_iter_count(walk.get()), 2u)
      << "the count includes messages that the iterator has passed";
}

TEST(tensogram_c, a_file_is_created_appended_to_and_read) {
  const temp_folder folder;
  const std::string path = folder / "new/folder/a.tgm";
  const std::string one = encode_two();
  const auto open = make<file>(tgm_file_create, path.c_str());
  ASSERT_EQ(open.code, TGM_ERROR_OK) << last_error();
  EXPECT_STREQ(tgm_file_path(open.get()), path.c_str());
  EXPECT_EQ(messages_in(open.get()), 0u);
  const two_arrays arrays;
  ASSERT_EQ(tgm_file_append(open.get(), two_objects, arrays.data.data(),
                            arrays.lengths.data(), 2, "xxh3", 0),
            TGM_ERROR_OK)
      << last_error();
  EXPECT_EQ(messages_in(open.get()), 1u);
  ASSERT_EQ(tgm_file_append_raw(open.get(), as_u8(one), one.size()), TGM_ERROR_OK);
  EXPECT_EQ(messages_in(open.get()), 2u);
  const float nan[4] = {1, std::numeric_limits<float>::quiet_NaN(), 3, 4};
  const std::uint8_t* const data = as_u8(nan);
  const std::size_t length = 16;
  const std::string json = four_floats_json();
  const TgmEncodeMaskOptions masks{true, false, nullptr, nullptr, nullptr, -1};
  EXPECT_EQ(tgm_file_append(open.get(), json.c_str(), &data, &length, 1, "xxh3", 0),
            TGM_ERROR_ENCODING);
  EXPECT_EQ(messages_in(open.get()), 2u);
  EXPECT_EQ(tgm_file_append_with_options(open.get(), json.c_str(), &data, &length, 1,
                                         "xxh3", 0, &masks),
            TGM_ERROR_OK)
      << last_error();
  const auto again = make<file>(tgm_file_open, path.c_str());
  ASSERT_EQ(messages_in(again.get()), 3u);
  owned raw;
  ASSERT_EQ(tgm_file_read_message(again.get(), 1, &raw.bytes), TGM_ERROR_OK);
  EXPECT_TRUE(raw.text() == one);
  const auto decoded =
      make<message>(tgm_file_decode_message, again.get(), std::size_t{2}, 1, 0u, 1);
  EXPECT_EQ(decoded.code, TGM_ERROR_OK) << last_error();
  EXPECT_EQ(tgm_message_num_objects(decoded.get()), 1u);
  EXPECT_EQ(tgm_file_read_message(again.get(), 3, &raw.bytes), TGM_ERROR_OBJECT);
  EXPECT_EQ(
      make<message>(tgm_file_decode_message, again.get(), std::size_t{3}, 1, 0u, 0).code,
      TGM_ERROR_OBJECT);
  EXPECT_EQ(messages_in(make<file>(tgm_file_create, path.c_str()).get()), 0u)
      << "creating a file that exists empties it";
}

TEST(tensogram_c, a_file_is_walked_message_by_message_also_after_it_was_closed) {
  const temp_folder folder;
  const std::string path = folder / "two.tgm";
  const std::string one = encode_two();
  write_whole(path, "rubbish" + one + one);
  auto open = make<file>(tgm_file_open, path.c_str());
  const auto walk = make<file_iter>(tgm_file_iter_create, open.get());
  ASSERT_EQ(walk.code, TGM_ERROR_OK) << last_error();
  ASSERT_EQ(tgm_file_append_raw(open.get(), as_u8(one), one.size()), TGM_ERROR_OK);
  EXPECT_EQ(messages_in(open.get()), 3u);
  open.handle.reset();
  for (int i = 0; i < 2; ++i) {
    owned bytes;
    ASSERT_EQ(tgm_file_iter_next(walk.get(), &bytes.bytes), TGM_ERROR_OK) << last_error();
    EXPECT_TRUE(bytes.text() == one);
  }
  owned none;
  EXPECT_EQ(tgm_file_iter_next(walk.get(), &none.bytes), TGM_ERROR_END_OF_ITER)
      << "a message that was appended later is not found by the iterator";
  EXPECT_EQ(none.bytes.data, nullptr);
}

// Each thread has a handle of its own, as two processes would.
TEST(tensogram_c, appends_of_several_writers_do_not_overwrite_each_other) {
  const temp_folder folder;
  const std::string path = folder / "shared.tgm";
  const std::string one = encode_two();
  write_whole(path, "");
  constexpr std::size_t each = 1000;
  std::atomic<int> ready{0};
  const auto write = [&] {
    const auto open = make<file>(tgm_file_open, path.c_str());
    // Both begin at the same time.
    for (++ready; ready < 2;) {
      std::this_thread::yield();
    }
    for (std::size_t i = 0; i < each; ++i) {
      EXPECT_EQ(tgm_file_append_raw(open.get(), as_u8(one), one.size()), TGM_ERROR_OK)
          << last_error();
    }
  };
  std::thread other(write);
  write();
  other.join();
  EXPECT_EQ(std::filesystem::file_size(path), 2 * each * one.size());
}

// A limit on the size of files makes the append fail in the middle of the message.
TEST(tensogram_c, an_append_that_fails_leaves_the_file_as_it_was) {
  const temp_folder folder;
  const std::string path = folder / "one.tgm";
  const std::string one = encode_two();
  write_whole(path, one);
  const auto open = make<file>(tgm_file_open, path.c_str());
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit little{one.size() + 100, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &little), 0);
  const tgm_error code = tgm_file_append_raw(open.get(), as_u8(one), one.size());
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(code, TGM_ERROR_IO) << last_error();
  EXPECT_TRUE(read_whole(path) == one);
  EXPECT_EQ(tgm_file_append_raw(open.get(), as_u8(one), one.size()), TGM_ERROR_OK);
  EXPECT_EQ(messages_in(open.get()), 2u);
}

TEST(tensogram_c, a_file_that_vanished_or_was_cut_is_a_failure) {
  const temp_folder folder;
  const std::string path = folder / "two.tgm";
  const std::string one = encode_two();
  write_whole(path, one + one);
  const auto open = make<file>(tgm_file_open, path.c_str());
  const auto walk = make<file_iter>(tgm_file_iter_create, open.get());
  std::filesystem::resize_file(path, one.size() + 10);
  owned bytes;
  EXPECT_EQ(tgm_file_iter_next(walk.get(), &bytes.bytes), TGM_ERROR_OK) << last_error();
  owned cut;
  EXPECT_NE(tgm_file_iter_next(walk.get(), &cut.bytes), TGM_ERROR_OK);
  EXPECT_NE(last_error(), "");
  EXPECT_EQ(tgm_file_iter_next(walk.get(), &cut.bytes), TGM_ERROR_END_OF_ITER)
      << "the iterator moves on behind the message that it could not read";
  EXPECT_NE(
      make<message>(tgm_file_decode_message, open.get(), std::size_t{1}, 1, 0u, 0).code,
      TGM_ERROR_OK);
}

/// Returns the report on a message.
nlohmann::json validated(const std::string& bytes, const char* level, int canonical = 0) {
  owned out;
  EXPECT_EQ(tgm_validate(as_u8(bytes), bytes.size(), level, canonical, &out.bytes),
            TGM_ERROR_OK)
      << last_error();
  return nlohmann::json::parse(out.text());
}

TEST(tensogram_c, a_message_is_judged_at_every_level) {
  const std::string good = encode_two();
  for (const char* level :
       {static_cast<const char*>(nullptr), "quick", "default", "checksum", "full"}) {
    const auto report = validated(good, level, 1);
    EXPECT_EQ(report.size(), 3u) << report;
    EXPECT_TRUE(report.at("issues").empty()) << report;
    EXPECT_EQ(report.at("object_count"), 2) << report;
    const bool quick = level != nullptr && std::string(level) == "quick";
    EXPECT_EQ(report.at("hash_verified"), !quick) << report;
  }
  std::string changed = good;
  const float two = 2;
  changed[good.find(std::string(reinterpret_cast<const char*>(&two), 4))] ^= 1;
  EXPECT_TRUE(validated(changed, "quick").at("issues").empty());
  const auto damaged = validated(changed, "default");
  ASSERT_EQ(damaged.at("issues").size(), 1u) << damaged;
  EXPECT_EQ(damaged["issues"][0].at("code"), "hash_mismatch") << damaged;
  EXPECT_EQ(damaged["issues"][0].at("severity"), "error") << damaged;
  EXPECT_EQ(damaged.at("hash_verified"), false);
  owned out;
  ASSERT_EQ(tgm_validate(nullptr, 0, nullptr, 0, &out.bytes), TGM_ERROR_OK);
  EXPECT_FALSE(nlohmann::json::parse(out.text()).at("issues").empty())
      << "a file without a message is reported as an issue";
}

TEST(tensogram_c, a_file_is_judged_with_what_lies_between_messages) {
  const temp_folder folder;
  const std::string path = folder / "two.tgm";
  write_whole(path, encode_two() + "rubbish" + encode_two());
  owned out;
  ASSERT_EQ(tgm_validate_file(path.c_str(), "full", 1, &out.bytes), TGM_ERROR_OK)
      << last_error();
  const auto report = nlohmann::json::parse(out.text());
  EXPECT_EQ(report.size(), 2u) << report;
  EXPECT_EQ(report.at("file_issues").size(), 1u) << report;
  ASSERT_EQ(report.at("messages").size(), 2u) << report;
  EXPECT_EQ(report["messages"][1].at("object_count"), 2) << report;
  EXPECT_EQ(report["messages"][1].at("hash_verified"), true) << report;
}

TEST(tensogram_c, the_doctor_tries_every_codec) {
  owned out;
  ASSERT_EQ(tgm_doctor_to_json(&out.bytes), TGM_ERROR_OK) << last_error();
  const std::string text = out.text();
  const auto report = nlohmann::json::parse(text);
  for (const char* part : {"build", "features", "self_test"}) {
    EXPECT_TRUE(report.contains(part)) << part;
  }
  for (const char* part : {"\"wire_version\"", "\"roaring\"", "\"multi-message scan\""}) {
    EXPECT_NE(text.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(text.find("failed"), std::string::npos) << text;
  const auto& features = report["features"];
  const auto remote = std::find_if(features.begin(), features.end(), [](const auto& f) {
    return f.at("name") == "remote";
  });
  ASSERT_NE(remote, features.end());
  EXPECT_EQ(remote->at("state"), "on");
  EXPECT_EQ(remote->at("backend"), "libcurl");
}

}  // namespace
}  // namespace weir::test::tgm
