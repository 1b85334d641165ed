// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests which certificates of servers are trusted.
#include <gtest/gtest.h>

#include "formats/remote/support.hpp"
#include "formats/support.hpp"

namespace weir::test {
namespace {

using formats::remote_options;
using formats::remote_source;

/// A server that can open further ports with TLS.
class RemoteTls : public testing::Test {
 protected:
  RemoteTls() { server.put("a.bin", content); }
  ~RemoteTls() override { ::unsetenv("SSL_CERT_FILE"); }

  /// Opens a port with a certificate of a kind and makes its authority the trusted one.
  /// Returns the address of the file there.
  std::string secure(const std::string& kind) {
    const auto answer = server.ask({{"do", "tls"}, {"kind", kind}});
    ::setenv("SSL_CERT_FILE", answer["authority"].get<std::string>().c_str(), 1);
    return "https://localhost:" + std::to_string(answer["port"].get<int>()) + "/a.bin";
  }
  /// Expects that opening fails before any request is sent, and returns the error.
  error refused(const std::string& url) {
    server.log();
    const auto done = remote_source::open(url, options);
    EXPECT_FALSE(done);
    EXPECT_EQ(done.error().code(), errc::source_unavailable);
    EXPECT_TRUE(says(done.error(), url));
    EXPECT_TRUE(server.log().empty())
        << "no request may be sent to a server whose certificate is refused";
    return done.error();
  }

  test_server server;
  const byte_vector content = random_bytes(11, 300'000);
  remote_options options = [] {
    remote_options out = quick_options();
    out.environment = true;
    return out;
  }();
};

TEST_F(RemoteTls, ACertificateOfATrustedAuthorityIsAccepted) {
  const auto source = or_throw(remote_source::open(secure("good"), options));
  byte_vector found(content.size());
  or_throw(source->read(0, found));
  EXPECT_EQ(found, content);
}

TEST_F(RemoteTls, ACertificateOfAnUnknownAuthorityIsRefused) {
  const std::string url = secure("good");
  ::unsetenv("SSL_CERT_FILE");
  const error e = refused(url);
  EXPECT_TRUE(says(e, "expected a certificate that is trusted, found"));
  EXPECT_TRUE(says(e, "name the file of its authority in SSL_CERT_FILE"));
}

TEST_F(RemoteTls, ASelfSignedCertificateIsRefused) {
  EXPECT_TRUE(says(refused(secure("self")), "self-signed certificate"));
}

TEST_F(RemoteTls, ACertificateOfAnotherHostIsRefused) {
  const error e = refused(secure("other"));
  EXPECT_TRUE(says(e, "no alternative certificate subject name matches"));
  EXPECT_EQ(e.hint(), "") << "the hint about authorities would not help here";
}

TEST_F(RemoteTls, AFileOfCertificatesThatIsNotThereIsAnError) {
  const std::string url = secure("good");
  ::setenv("SSL_CERT_FILE", "/nowhere/authority.pem", 1);
  EXPECT_TRUE(says(refused(url), "/nowhere/authority.pem"));
}

TEST_F(RemoteTls, ChecksAreOffOnlyWhereTheCallerSaysSo) {
  options.storage = {{"allow_invalid_certificates", "true"}};
  EXPECT_TRUE(remote_source::open(secure("self"), options));
}

// A redirect from https to http would send the rest of the conversation in the clear.
TEST_F(RemoteTls, ARedirectToAPlainConnectionIsRefused) {
  const std::string url = secure("good");
  server.faults("a.bin", {}, "redirect:302:" + server.url("b.bin"));
  const auto done = remote_source::open(url, options);
  ASSERT_FALSE(done);
  EXPECT_TRUE(says(done.error(), "expected a redirect to https, found one to"));
}

TEST_F(RemoteTls, AServerWithoutTlsIsRefused) {
  const auto done = remote_source::open(
      "https://localhost:" + std::to_string(server.port()) + "/a.bin", options);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), errc::source_unavailable);
}

}  // namespace
}  // namespace weir::test
