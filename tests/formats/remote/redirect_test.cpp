// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests redirects and passwords, and that secrets reach neither other servers nor error
/// texts.
#include <gtest/gtest.h>

#include "formats/remote/support.hpp"
#include "formats/support.hpp"

namespace weir::test {
namespace {

using formats::remote_options;
using formats::remote_source;

/// Two servers with the same content; the first sends clients to the second.
class RemoteRedirects : public testing::Test {
 protected:
  RemoteRedirects() {
    one.put("a.bin", content);
    two.put("b.bin", content);
  }
  /// Returns an address on the first server with a user and a password.
  std::string with_password(const std::string& name) const {
    return "http://ada:s3cret%2Fword@127.0.0.1:" + std::to_string(one.port()) + "/" +
           name;
  }
  test_server one;
  test_server two;
  const byte_vector content = random_bytes(11, 300'000);
  remote_options options = quick_options();
};

TEST_F(RemoteRedirects, LeadToTheFileAndAreRemembered) {
  for (const char* code : {"301", "302", "303", "307", "308"}) {
    SCOPED_TRACE(code);
    one.log();
    one.faults("moved.bin", {}, std::string("redirect:") + code + ":" + two.url("b.bin"));
    const auto source = or_throw(remote_source::open(one.url("moved.bin"), options));
    EXPECT_EQ(source->name(), one.url("moved.bin"));
    byte_vector found(content.size());
    or_throw(source->read(0, found));
    EXPECT_EQ(found, content);
    EXPECT_EQ(one.log().size(), 1u)
        << "the second request goes straight to the target of the redirect";
  }
}

TEST_F(RemoteRedirects, ThatStopWorkingAreRequestedAgain) {
  one.faults("moved.bin", {}, "redirect:302:" + two.url("b.bin"));
  const auto source = or_throw(remote_source::open(one.url("moved.bin"), options));
  two.faults("b.bin", {"status:403"});
  byte_vector found(1000);
  or_throw(source->read(200'000, found));
  EXPECT_TRUE(std::equal(found.begin(), found.end(), content.begin() + 200'000));
  // If the new target fails as well, the read fails.
  two.faults("b.bin", {}, "status:403");
  EXPECT_FALSE(source->read(100'000, found));
}

TEST_F(RemoteRedirects, InACircleEnd) {
  one.faults("circle", {}, "redirect:302:" + one.url("circle"));
  const auto done = remote_source::open(one.url("circle"), options);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), errc::source_unavailable);
  EXPECT_TRUE(says(done.error(), "expected at most 5 redirects, found one more to"));
  EXPECT_EQ(one.log().size(), 6u);
}

TEST_F(RemoteRedirects, ToOtherProtocolsAreRefused) {
  const std::string local = "file:///etc/passwd";
  for (const std::string& to : {local, std::string("ftp://127.0.0.1/x")}) {
    one.faults("away", {}, "redirect:302:" + to);
    const auto done = remote_source::open(one.url("away"), options);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code(), errc::source_unavailable);
    EXPECT_TRUE(says(done.error(), "Protocol \"" + to.substr(0, to.find(':')) + "\""));
  }
}

TEST_F(RemoteRedirects, SendThePasswordToNoOtherServer) {
  one.faults("a.bin", {}, "basic:ada:s3cret/word");
  const auto source = or_throw(remote_source::open(with_password("a.bin"), options));
  EXPECT_EQ(source->name(), one.url("a.bin"));
  EXPECT_EQ(source->size(), content.size());
  one.faults("moved.bin", {}, "redirect:302:" + two.url("b.bin"));
  EXPECT_TRUE(remote_source::open(with_password("moved.bin"), options));
  bool authorized = false;
  for (const auto& entry : one.log()) {
    authorized = authorized || entry["headers"].contains("authorization");
  }
  EXPECT_TRUE(authorized) << "the server of the address gets the authorization";
  const auto elsewhere = two.log();
  ASSERT_FALSE(elsewhere.empty());
  for (const auto& entry : elsewhere) {
    EXPECT_FALSE(entry["headers"].contains("authorization")) << entry;
  }
  // A redirect to the same server gets the password again.
  one.faults("near.bin", {}, "redirect:302:/a.bin");
  EXPECT_TRUE(remote_source::open(with_password("near.bin"), options));
}

TEST_F(RemoteRedirects, ErrorsNameNoPasswordAndNoQuery) {
  one.faults("a.bin", {}, "status:403");
  for (const std::string& address :
       {with_password("a.bin?X-Amz-Signature=s3cret"), with_password("missing?s3cret=1"),
        std::string("http://ada:s3cret@nowhere.invalid/x?token=s3cret"),
        std::string("http://ada:s3cret/word@127.0.0.1/x"),
        std::string("http://ada:s3cret@127.0.0.1:99999/"),
        std::string("s3://k:s3cret@b/k"), std::string("s3://bucket/key?s3cret"),
        std::string("gs://ada:s3cret@b/x?s3cret"), std::string("foo://ada:s3cret@b/x")}) {
    const auto done = remote_source::open(address, options);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().message().find("s3cret"), std::string::npos)
        << done.error().message();
  }
  one.faults("loop", {}, "redirect:302:" + with_password("loop?s3cret"));
  const auto loop = remote_source::open(one.url("loop"), options);
  ASSERT_FALSE(loop);
  EXPECT_EQ(loop.error().message().find("s3cret"), std::string::npos)
      << loop.error().message();
}

TEST_F(RemoteRedirects, AProxyAndANameAreTakenFromTheOptions) {
  options.storage = {{"proxy_url", one.url("")}, {"user_agent", "a test"}};
  const auto source =
      or_throw(remote_source::open("http://nowhere.invalid/a.bin", options));
  EXPECT_EQ(source->size(), content.size());
  EXPECT_EQ(one.log()[0]["headers"]["user-agent"], "a test");
  options.storage.emplace_back("proxy_excludes", "nowhere.invalid");
  EXPECT_FALSE(remote_source::open("http://nowhere.invalid/a.bin", options));
  EXPECT_TRUE(one.log().empty());
}

}  // namespace
}  // namespace weir::test
