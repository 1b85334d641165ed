// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests files behind addresses, as tasks read them from a server that behaves.
#include <atomic>

#include "conformance/tensogram_c/remote/support.hpp"

namespace weir::test::tgm {
namespace {

/// A server for each test.
class tensogram_c_remote : public ::testing::Test {
 protected:
  test_server server;
};

TEST_F(tensogram_c_remote, tasks_read_behind_an_address_what_they_read_in_a_file) {
  const std::string one = encode_two();
  server.put("two.tgm", one + one);
  const std::string url = server.url("two.tgm");
  const auto file = opened_at(url);
  ASSERT_EQ(file.code, TGM_ERROR_OK) << last_error();
  EXPECT_EQ(tgm_async_file_path(file.get()), url);
  std::uint64_t count = 0;
  EXPECT_EQ(joined_size(make<task>(tgm_async_file_message_count, file.get(), nullptr, 0u),
                        count),
            TGM_ERROR_OK);
  EXPECT_EQ(count, 2u);
  owned raw;
  ASSERT_EQ(tgm_async_task_join_bytes(bytes_of(file, 1).get(), &raw.bytes), TGM_ERROR_OK);
  EXPECT_TRUE(raw.text() == one);
  const two_arrays arrays;
  const auto whole =
      make<message>(tgm_async_task_join_message, message_of(file, 0).get());
  ASSERT_EQ(whole.code, TGM_ERROR_OK) << last_error();
  ASSERT_EQ(tgm_message_num_objects(whole.get()), 2u);
  EXPECT_EQ(std::memcmp(tgm_object_data(whole.get(), 0, nullptr), arrays.a.data(), 16),
            0);
  tgm_bytes_t* parts = nullptr;
  std::size_t found = 0;
  ASSERT_EQ(
      tgm_async_task_join_multi_bytes(range_of(file, 1, 1, 1, 2).get(), &parts, &found),
      TGM_ERROR_OK)
      << last_error();
  ASSERT_EQ(found, 1u);
  EXPECT_EQ(parts[0].len, 16u);
  EXPECT_EQ(std::memcmp(parts[0].data, &arrays.b[1], 16), 0);
  tgm_multi_bytes_free(parts, found);
}

TEST_F(tensogram_c_remote, one_object_comes_with_the_metadata_of_its_message) {
  server.put("two.tgm", encode_two());
  const auto file = opened_at(server.url("two.tgm"));
  ASSERT_EQ(file.code, TGM_ERROR_OK) << last_error();
  const two_arrays arrays;
  const auto object =
      make<message>(tgm_async_task_join_message, object_of(file, 0, 1).get());
  ASSERT_EQ(object.code, TGM_ERROR_OK) << last_error();
  ASSERT_EQ(tgm_message_num_objects(object.get()), 1u);
  EXPECT_EQ(std::memcmp(tgm_object_data(object.get(), 0, nullptr), arrays.b.data(), 24),
            0);
  EXPECT_STREQ(tgm_object_compression(object.get(), 0), "lz4");
  EXPECT_EQ(tgm_payload_has_hash(object.get(), 0), 1);
  const auto local = decode(encode_two());
  EXPECT_STREQ(tgm_object_hash_value(object.get(), 0),
               tgm_object_hash_value(local.get(), 1));
  const auto all = make<metadata>(tgm_message_metadata, object.get());
  EXPECT_EQ(tgm_metadata_num_objects(all.get()), 2u);
  EXPECT_STREQ(tgm_metadata_get_string_at(all.get(), 0, "name"), "a");
  const auto alone =
      make<metadata>(tgm_async_task_join_metadata, metadata_of(file, 0).get());
  ASSERT_EQ(alone.code, TGM_ERROR_OK) << last_error();
  EXPECT_STREQ(tgm_metadata_to_json(alone.get()), tgm_metadata_to_json(all.get()));
  EXPECT_EQ(tgm_metadata_get_int(alone.get(), "extra.revision", 0), 7);
}

TEST_F(tensogram_c_remote, a_call_reads_no_more_of_a_big_file_than_it_needs) {
  const std::string one = big_message(0, 10);
  server.put("big.tgm", one + big_message(1, 10) + big_message(2, 10));  // 12 MB
  const auto file = opened_at(server.url("big.tgm"));
  ASSERT_EQ(file.code, TGM_ERROR_OK) << last_error();
  constexpr std::uint64_t block = 16 << 10;
  const traffic open = traffic_of(server);
  EXPECT_LE(open.requests, 4u)
      << "one request reads the first 64 KiB, and three read the ends of the messages";
  EXPECT_LE(open.bytes, 4 * block + 8 * block);
  std::uint64_t count = 0;
  EXPECT_EQ(joined_size(make<task>(tgm_async_file_message_count, file.get(), nullptr, 0u),
                        count),
            TGM_ERROR_OK);
  EXPECT_EQ(count, 3u);
  EXPECT_EQ(traffic_of(server).requests, 0u)
      << "messages are counted when the file is opened, so the count needs no request";

  const auto meta =
      make<metadata>(tgm_async_task_join_metadata, metadata_of(file, 1).get());
  ASSERT_EQ(meta.code, TGM_ERROR_OK) << last_error();
  EXPECT_STREQ(tgm_metadata_get_string_at(meta.get(), 9, "name"), "o9");
  const traffic described = traffic_of(server);
  EXPECT_LE(described.requests, 1u);
  EXPECT_LE(described.bytes, 4 * block);

  const auto object =
      make<message>(tgm_async_task_join_message, object_of(file, 2, 7).get());
  ASSERT_EQ(object.code, TGM_ERROR_OK) << last_error();
  EXPECT_EQ(std::memcmp(tgm_object_data(object.get(), 0, nullptr),
                        big_object(2, 7).data(), 400'000),
            0);
  const traffic decoded = traffic_of(server);
  EXPECT_GE(decoded.bytes, 400'000u);
  EXPECT_LE(decoded.bytes, 400'000u + 8 * block);
  EXPECT_LE(decoded.requests, 3u);

  owned raw;
  ASSERT_EQ(tgm_async_task_join_bytes(bytes_of(file, 0).get(), &raw.bytes), TGM_ERROR_OK);
  EXPECT_TRUE(raw.text() == one);
  EXPECT_LE(traffic_of(server).bytes, one.size() + 8 * block);
}

TEST_F(tensogram_c_remote, a_range_of_a_big_object_takes_few_bytes) {
  std::vector<float> elements(2'000'000);
  std::iota(elements.begin(), elements.end(), 0.0F);
  owned bytes;
  ASSERT_EQ(encode_one(R"({"descriptors": [{"dtype": "float32", "shape": [2000000]}]})",
                       elements.data(), 8'000'000, bytes),
            TGM_ERROR_OK)
      << last_error();
  server.put("one.tgm", bytes.text());
  const auto file = opened_at(server.url("one.tgm"));
  ASSERT_EQ(file.code, TGM_ERROR_OK) << last_error();
  (void)traffic_of(server);
  tgm_bytes_t* parts = nullptr;
  std::size_t found = 0;
  ASSERT_EQ(tgm_async_task_join_multi_bytes(range_of(file, 0, 0, 1'000'000, 100).get(),
                                            &parts, &found),
            TGM_ERROR_OK)
      << last_error();
  ASSERT_EQ(found, 1u);
  ASSERT_EQ(parts[0].len, 400u);
  EXPECT_EQ(std::memcmp(parts[0].data, &elements[1'000'000], 400), 0);
  tgm_multi_bytes_free(parts, found);
  const traffic used = traffic_of(server);
  EXPECT_LE(used.bytes, 200'000u);
  EXPECT_LE(used.requests, 4u);
}

TEST_F(tensogram_c_remote, a_bidirectional_search_begins_at_both_ends) {
  std::string content;
  for (std::size_t m = 0; m < 6; ++m) {
    content += big_message(m, 1 + m % 2);
  }
  server.put("six.tgm", content);
  for (const bool both_ends : {false, true}) {
    (void)server.log();
    const auto file = opened_at(server.url("six.tgm"), {}, both_ends);
    ASSERT_EQ(file.code, TGM_ERROR_OK) << last_error();
    const auto log = server.log();
    ASSERT_GE(log.size(), 3u);
    bool end_among_the_first = false;
    for (std::size_t i = 1; i < 3; ++i) {
      const std::string range = log[i]["range"].get<std::string>().substr(6);
      end_among_the_first =
          end_among_the_first || std::stoull(range) > content.size() - 500'000;
    }
    EXPECT_EQ(end_among_the_first, both_ends) << log;
    const auto object =
        make<message>(tgm_async_task_join_message, object_of(file, 5, 1).get());
    ASSERT_EQ(object.code, TGM_ERROR_OK) << last_error();
    EXPECT_EQ(std::memcmp(tgm_object_data(object.get(), 0, nullptr),
                          big_object(5, 1).data(), 400'000),
              0);
  }
}

TEST_F(tensogram_c_remote, an_address_of_the_scheme_file_opens_a_file_of_this_machine) {
  const std::string one = encode_two();
  server.put("two.tgm", one + one);
  const std::string path = server.folder() + "/two.tgm";
  std::string escaped = path;
  escaped.replace(escaped.rfind("two"), 1, "%74");
  for (const std::string& url :
       {"file://" + path, "file://localhost" + path, "FILE://" + escaped}) {
    const auto file = opened_at(url, {{"timeout", "5s"}}, true);
    ASSERT_EQ(file.code, TGM_ERROR_OK) << last_error();
    EXPECT_EQ(tgm_async_file_path(file.get()), url);
    EXPECT_EQ(joined_message(object_of(file, 1, 1)), TGM_ERROR_OK) << last_error();
  }
  EXPECT_EQ(opened_at("file://" + path + "x").code, TGM_ERROR_REMOTE);
  EXPECT_TRUE(last_error_says("two.tgmx"));
}

TEST_F(tensogram_c_remote, addresses_that_cannot_be_read_are_remote_failures) {
  for (const char* url : {"", "file://relative", "file:///a%00b", "file:///a%2",
                          "gopher://host/a.tgm", "/no/address.tgm", "http://", "s3://"}) {
    EXPECT_EQ(opened_at(url).code, TGM_ERROR_REMOTE) << url;
    EXPECT_TRUE(last_error_says("expected")) << url;
  }
  EXPECT_EQ(opened_at("az://container/a.tgm").code, TGM_ERROR_REMOTE);
  EXPECT_TRUE(last_error_says("Azure storage"));
  EXPECT_EQ(opened_at("gs://bucket/a.tgm").code, TGM_ERROR_REMOTE);
  EXPECT_TRUE(last_error_says("Google storage"));
  EXPECT_EQ(opened_at(server.url("absent.tgm")).code, TGM_ERROR_REMOTE);
  EXPECT_TRUE(last_error_says("404"));
  EXPECT_EQ(opening_of("\xff").code, TGM_ERROR_INVALID_ARG);
}

TEST_F(tensogram_c_remote, an_option_of_no_known_name_is_named_where_opening_fails) {
  server.put("two.tgm", encode_two());
  const storage_options unknown{{"aws_acess_key_id", "secret"}, {"timeout", "5s"}};
  EXPECT_EQ(opened_at(server.url("two.tgm"), unknown).code, TGM_ERROR_OK) << last_error();
  EXPECT_EQ(opened_at(server.url("absent.tgm"), unknown).code, TGM_ERROR_REMOTE);
  EXPECT_TRUE(last_error_says("\"aws_acess_key_id\" had no effect"));
  EXPECT_EQ(last_error().find("secret"), std::string::npos);
  EXPECT_EQ(opened_at(server.url("two.tgm"), {{"timeout", "soon"}}).code,
            TGM_ERROR_REMOTE);
  EXPECT_TRUE(last_error_says("\"timeout\""));
  EXPECT_EQ(opening_of(server.url("two.tgm"), {{"\xff", "x"}}).code,
            TGM_ERROR_INVALID_ARG);
  EXPECT_EQ(opening_of(server.url("two.tgm"), {{"timeout", "\xff"}}).code,
            TGM_ERROR_INVALID_ARG);
}

TEST_F(tensogram_c_remote, requests_to_s3_are_signed_with_the_keys_of_the_options) {
  std::filesystem::create_directory(server.folder() + "/bucket");
  server.put("bucket/two.tgm", encode_two());
  server.ask({{"do", "keys"},
              {"access", "AKIAEXAMPLE"},
              {"secret", "s3cret/key+EXAMPLE"},
              {"region", "eu-central-1"},
              {"token", ""}});
  storage_options options{{"aws_endpoint_url", server.url("")},
                          {"aws_access_key_id", "AKIAEXAMPLE"},
                          {"aws_secret_access_key", "s3cret/key+EXAMPLE"},
                          {"AWS_REGION", "eu-central-1"}};
  const auto file = opened_at("s3://bucket/two.tgm", options);
  ASSERT_EQ(file.code, TGM_ERROR_OK) << last_error();
  EXPECT_EQ(joined_message(object_of(file, 0, 1)), TGM_ERROR_OK) << last_error();
  options[2].second = "another s3cret";
  EXPECT_EQ(opened_at("s3://bucket/two.tgm", options).code, TGM_ERROR_REMOTE);
  EXPECT_TRUE(last_error_says("SignatureDoesNotMatch"));
  EXPECT_EQ(last_error().find("s3cret"), std::string::npos);
}

TEST_F(tensogram_c_remote, numbers_beyond_the_end_have_the_codes_of_a_file) {
  server.put("two.tgm", encode_two());
  const auto file = opened_at(server.url("two.tgm"));
  ASSERT_EQ(file.code, TGM_ERROR_OK) << last_error();
  EXPECT_EQ(joined_bytes(bytes_of(file, 1)), TGM_ERROR_OBJECT);
  EXPECT_EQ(joined_message(message_of(file, 1)), TGM_ERROR_OBJECT);
  EXPECT_EQ(joined_message(object_of(file, 0, 2)), TGM_ERROR_OBJECT);
  EXPECT_EQ(joined_message(object_of(file, 1, 0)), TGM_ERROR_OBJECT);
  EXPECT_TRUE(last_error_says("message 1"));
  EXPECT_EQ(joined_ranges(range_of(file, 0, 2, 0, 1)), TGM_ERROR_OBJECT);
  EXPECT_EQ(joined_ranges(range_of(file, 0, 0, 4, 1)), TGM_ERROR_ENCODING);
}

TEST_F(tensogram_c_remote, a_damaged_message_has_the_code_that_it_has_in_a_file) {
  const std::string sound = encode_two();
  std::size_t refused = 0;
  for (std::size_t i = 0; i < sound.size(); i += 13) {
    std::string damaged = sound;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x41);
    server.put("damaged.tgm", damaged);
    const std::string path = server.folder() + "/damaged.tgm";
    const auto remote = opened_at(server.url("damaged.tgm"));
    const auto local = opened_at("file://" + path);
    ASSERT_EQ(remote.code, TGM_ERROR_OK) << last_error();
    ASSERT_EQ(local.code, TGM_ERROR_OK) << last_error();
    const tgm_error expected = joined_message(message_of(local, 0));
    EXPECT_EQ(joined_message(message_of(remote, 0)), expected) << "byte " << i;
    refused += expected != TGM_ERROR_OK ? 1 : 0;
  }
  EXPECT_GT(refused, 30u) << "too few of the damaged messages are refused";
}

TEST_F(tensogram_c_remote, an_object_is_read_where_another_one_is_damaged) {
  std::string damaged = big_message(0, 3);
  damaged[600'000] = static_cast<char>(damaged[600'000] ^ 1);  // object 1
  server.put("damaged.tgm", damaged);
  const auto file = opened_at(server.url("damaged.tgm"));
  ASSERT_EQ(file.code, TGM_ERROR_OK) << last_error();
  EXPECT_EQ(joined_message(object_of(file, 0, 0)), TGM_ERROR_OK) << last_error();
  EXPECT_EQ(joined_message(object_of(file, 0, 1)), TGM_ERROR_HASH_MISMATCH);
  EXPECT_EQ(joined_message(object_of(file, 0, 2)), TGM_ERROR_OK) << last_error();
  EXPECT_EQ(joined_message(message_of(file, 0)), TGM_ERROR_HASH_MISMATCH);
}

TEST_F(tensogram_c_remote, a_handle_serves_many_threads_and_may_go_before_its_tasks) {
  server.put("big.tgm", big_message(0, 4));
  auto file = opened_at(server.url("big.tgm"));
  ASSERT_EQ(file.code, TGM_ERROR_OK) << last_error();
  std::atomic<int> good = 0;
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < 3; ++round) {
        const auto object =
            make<message>(tgm_async_task_join_message, object_of(file, 0, t).get());
        good += object.code == TGM_ERROR_OK &&
                std::memcmp(tgm_object_data(object.get(), 0, nullptr),
                            big_object(0, t).data(), 400'000) == 0;
        good += joined_ranges(range_of(file, 0, 3 - t, 50'000, 10)) == TGM_ERROR_OK;
      }
    });
  }
  for (std::thread& each : threads) {
    each.join();
  }
  EXPECT_EQ(good, 24);
  const auto last = object_of(file, 0, 2);
  file.handle.reset();
  EXPECT_EQ(joined_message(last), TGM_ERROR_OK) << last_error();
}

}  // namespace
}  // namespace weir::test::tgm
