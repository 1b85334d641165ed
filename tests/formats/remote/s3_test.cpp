// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests objects of S3: signatures, which the server computes with an implementation of
/// its own, and the errors of a store.
#include <gtest/gtest.h>

#include "formats/remote/support.hpp"
#include "formats/support.hpp"

namespace weir::test {
namespace {

using formats::remote_file;
using formats::remote_options;
using formats::remote_source;

/// A store with one bucket and a message in it.
class RemoteS3 : public testing::Test {
 protected:
  RemoteS3() {
    std::filesystem::create_directory(server.folder() + "/bucket");
    auto object = sample(1, dtype::fp32, {100'000});
    object.metadata = {{"name", "t2m"}};
    file = or_throw(formats::encode_message(to_write({object})));
    server.put("bucket/a.tgm", file);
    options.storage = {{"aws_endpoint_url", server.url("")}};
  }
  /// Gives the client keys, and a session token if there is one.
  void give_keys(const std::string& token = "") {
    options.storage.insert(options.storage.end(),
                           {{"aws_access_key_id", "AKIAEXAMPLE"},
                            {"aws_secret_access_key", "s3cret/key+EXAMPLE"},
                            {"aws_region", "eu-central-1"}});
    if (!token.empty()) {
      options.storage.emplace_back("aws_session_token", token);
    }
  }
  /// Lets the server refuse every request that is not signed with these keys.
  void demand_keys(const std::string& token = "") {
    server.ask({{"do", "keys"},
                {"access", "AKIAEXAMPLE"},
                {"secret", "s3cret/key+EXAMPLE"},
                {"region", "eu-central-1"},
                {"token", token}});
  }
  /// Expects that opening fails with an error that shows no secret, and returns the
  /// error.
  error refused(const std::string& address) {
    const auto done = remote_source::open(address, options);
    EXPECT_FALSE(done);
    EXPECT_EQ(done.error().code(), errc::source_unavailable);
    EXPECT_EQ(done.error().message().find("s3cret"), std::string::npos);
    return done.error();
  }

  test_server server;
  byte_vector file;
  remote_options options = quick_options();
};

TEST_F(RemoteS3, RequestsAreSignedAsTheStoreComputesIt) {
  for (const std::string token : {"", "a/token+of=a session"}) {
    SCOPED_TRACE(token);
    demand_keys(token);
    options.storage.resize(1);
    give_keys(token);
    const auto opened = remote_file::open("s3://bucket/a.tgm", options);
    ASSERT_TRUE(opened) << opened.error().message();
    EXPECT_EQ((*opened)->name(), "s3://bucket/a.tgm");
    // This request also requires a version, and that header is part of the signature.
    EXPECT_TRUE(or_throw((*opened)->object(0, 0)).decode(0));
    bool required = false;
    for (const auto& entry : server.log()) {
      EXPECT_EQ(entry["status"], 206);
      required = required || entry["headers"].contains("if-match");
    }
    EXPECT_TRUE(required);
  }
}

TEST_F(RemoteS3, KeysOfAnyBytesAreSigned) {
  demand_keys();
  give_keys();
  const std::vector<std::pair<std::string, std::string>> names{
      {"a b+c=d&e.tgm", "s3://bucket/a b+c=d&e.tgm"},
      {"\xC3\xA9~(1)!'*.tgm", "s3://bucket/\xC3\xA9~(1)!'*.tgm"},
      {"50%25.tgm", "s3://bucket/50%2525.tgm"},
      {"q?x#y.tgm", "s3://bucket/q%3Fx%23y.tgm"}};
  for (const auto& [name, address] : names) {
    SCOPED_TRACE(name);
    server.put("bucket/" + name, file);
    const auto opened = remote_source::open(address, options);
    ASSERT_TRUE(opened) << opened.error().message();
    EXPECT_EQ((*opened)->size(), file.size());
  }
}

TEST_F(RemoteS3, WrongKeysAreRefusedWithAHint) {
  demand_keys();
  EXPECT_TRUE(
      says(refused("s3://bucket/a.tgm"),
           "found 403 (AccessDenied); no keys were given: set AWS_ACCESS_KEY_ID"));
  give_keys();
  options.storage.emplace_back("aws_secret_access_key", "another s3cret");
  EXPECT_TRUE(says(refused("s3://bucket/a.tgm"),
                   "found 403 (SignatureDoesNotMatch); the keys do not give access"));
  EXPECT_EQ(server.log().size(), 2u);
}

TEST_F(RemoteS3, APublicBucketNeedsNoKeys) {
  EXPECT_TRUE(remote_source::open("s3://bucket/a.tgm", options));
  give_keys();
  options.storage.emplace_back("aws_skip_signature", "true");
  EXPECT_TRUE(remote_source::open("s3://bucket/a.tgm", options));
  for (const auto& entry : server.log()) {
    EXPECT_FALSE(entry["headers"].contains("authorization"));
  }
}

TEST_F(RemoteS3, ErrorsOfTheStoreArePassedOn) {
  give_keys();
  const auto missing = remote_source::open("s3://bucket/missing", options);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), errc::not_found);
  server.faults("bucket/a.tgm", {}, "xml:400:AuthorizationHeaderMalformed:us-west-2");
  const auto region = refused("s3://bucket/a.tgm");
  EXPECT_TRUE(says(region, "found 400 (AuthorizationHeaderMalformed)"));
  EXPECT_TRUE(says(region, "the bucket is in region \"us-west-2\": set AWS_REGION"));
  server.faults("bucket/a.tgm", {"xml:503:SlowDown:"});
  EXPECT_TRUE(remote_source::open("s3://bucket/a.tgm", options));
  server.faults("bucket/a.tgm", {}, "xml:403:<script>:");
  EXPECT_TRUE(says(refused("s3://bucket/a.tgm"), "found 403; "));
}

TEST_F(RemoteS3, ARedirectIsNotFollowed) {
  test_server elsewhere;
  give_keys("a session's s3cret");
  server.faults("bucket/a.tgm", {}, "redirect:307:" + elsewhere.url("a.tgm"));
  EXPECT_TRUE(says(refused("s3://bucket/a.tgm"), "found 307"));
  EXPECT_TRUE(elsewhere.log().empty());
}

TEST_F(RemoteS3, ThePayerOfARequestIsSent) {
  demand_keys();
  give_keys();
  options.storage.emplace_back("aws_request_payer", "true");
  EXPECT_TRUE(remote_source::open("s3://bucket/a.tgm", options));
  EXPECT_EQ(server.log()[0]["headers"]["x-amz-request-payer"], "requester");
}

}  // namespace
}  // namespace weir::test
