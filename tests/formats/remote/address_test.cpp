// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests addresses, storage options, headers and the block cache of remote files without
/// a server.
#include "tensogram/remote/address.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "formats/remote/support.hpp"
#include "tensogram/remote/block_cache.hpp"
#include "tensogram/remote/settings.hpp"
#include "tensogram/remote/transfer.hpp"

namespace weir::test {
namespace {

using formats::is_remote_address;
using formats::make_settings;
using formats::parse_address;
using formats::parse_content_range;
using formats::parse_duration;
using formats::remote_address;
using formats::remote_settings;
using formats::storage_option;

/// Returns the settings of storage options, without those of the environment.
remote_settings settings_of(const std::vector<storage_option>& options) {
  return or_throw(make_settings(options, false));
}
/// Parses an address that must be accepted.
remote_address address_of(const std::string& text,
                          const std::vector<storage_option>& options = {}) {
  return or_throw(parse_address(text, settings_of(options)));
}

/// Sets variables of the environment and removes them at the end.
class environment {
 public:
  explicit environment(const std::vector<storage_option>& variables)
      : variables_(variables) {
    for (const auto& [name, value] : variables) {
      ::setenv(name.c_str(), value.c_str(), 1);
    }
  }
  environment(const environment&) = delete;
  environment& operator=(const environment&) = delete;
  ~environment() {
    for (const auto& [name, value] : variables_) {
      ::unsetenv(name.c_str());
    }
  }

 private:
  std::vector<storage_option> variables_;
};

TEST(RemoteAddress, IsDistinguishedFromAFileNameByItsScheme) {
  for (const char* text :
       {"http://h/a", "https://h/a", "HTTPS://h/a", "s3://b/k", "s3a://b/k", "gs://b/k",
        "az://c/k", "azure://c/k", "abfs://c/k", "abfss://c/k", "adl://c/k"}) {
    EXPECT_TRUE(is_remote_address(text)) << text;
  }
  for (const char* text : {"", "a.tgm", "-", "/a/b", "foo://bar", "file:///a", "http:/a",
                           "httpx://a", "http", "://", "a/s3://b", "ftp://h/a"}) {
    EXPECT_FALSE(is_remote_address(text)) << text;
  }
}

TEST(RemoteAddress, OfHttpLosesUserAndFragmentAndKeepsTheQuery) {
  const auto plain = address_of("http://example.com:8080/a/b%20c.tgm?v=1#part");
  EXPECT_EQ(plain.url, "http://example.com:8080/a/b%20c.tgm?v=1");
  EXPECT_EQ(plain.name, "http://example.com:8080/a/b%20c.tgm");
  const auto named = address_of("https://ada:a%40b@example.com/x y");
  EXPECT_EQ(named.url, "https://example.com/x%20y");
  EXPECT_EQ(named.user, "ada");
  EXPECT_EQ(named.password, "a@b");
  EXPECT_EQ(named.name, "https://example.com/x y");
}

TEST(RemoteAddress, OfS3NamesBucketAndKey) {
  EXPECT_EQ(address_of("s3://bucket/a/b.tgm").url,
            "https://s3.us-east-1.amazonaws.com/bucket/a/b.tgm");
  EXPECT_EQ(address_of("s3a://bucket/k", {{"region", "eu-west-1"}}).url,
            "https://s3.eu-west-1.amazonaws.com/bucket/k");
  EXPECT_EQ(address_of("s3://bucket/k", {{"aws_default_region", "cn-north-1"}}).url,
            "https://s3.cn-north-1.amazonaws.com.cn/bucket/k");
  EXPECT_EQ(address_of("s3://bucket/k", {{"virtual_hosted_style_request", "true"}}).url,
            "https://bucket.s3.us-east-1.amazonaws.com/k");
  EXPECT_EQ(address_of("s3://bucket/k", {{"endpoint", "http://127.0.0.1:9000/"}}).url,
            "http://127.0.0.1:9000/bucket/k");
  EXPECT_EQ(address_of("s3://bucket/k", {{"endpoint", "https://bucket.example.com"},
                                         {"virtual_hosted_style_request", "1"}})
                .url,
            "https://bucket.example.com/k");
  // Bytes of a key that an address cannot hold are percent-encoded in the form that
  // signatures require.
  EXPECT_EQ(address_of("s3://b/a b+c=d/%C3%A9~%2f%zz.tgm").url,
            "https://s3.us-east-1.amazonaws.com/b/a%20b%2Bc%3Dd/%C3%A9~/%25zz.tgm");
}

TEST(RemoteAddress, OfNoKnownFormIsRefused) {
  const auto refused = [](const std::string& text, errc code,
                          const std::vector<storage_option>& options = {}) {
    const auto done = parse_address(text, settings_of(options));
    EXPECT_FALSE(done) << text;
    const error found = done ? error(errc::internal, "it is accepted") : done.error();
    EXPECT_EQ(found.code(), code) << found.message();
    return found;
  };
  const errc form = errc::invalid_argument;
  for (const char* text :
       {"http://", "http:///a", "s3://", "s3://bucket", "s3://bucket/", "s3:///key",
        "s3://bu cket/k", "s3://b/k?versionId=1", "s3://b/k#f", "http://h:port/a",
        "http://h/a\nb", "foo://a/b", "a.tgm"}) {
    refused(text, form);
  }
  EXPECT_TRUE(says(refused("gs://b/k", errc::unsupported), "Google storage"));
  EXPECT_TRUE(says(refused("az://c/k", errc::unsupported), "Azure storage"));
  EXPECT_TRUE(says(refused("abfss://c/k", errc::unsupported), "Azure storage"));
  refused("http://h/a", form, {{"allow_http", "false"}});
  refused("s3://b/k", form, {{"endpoint", "http://h"}, {"allow_http", "no"}});
  refused("s3://b/k", form, {{"endpoint", "h:9000"}});
  refused("s3://b/k", form, {{"endpoint", "http://ada:x@h"}});
  refused("s3://b/k", form, {{"bucket", "another"}});
}

TEST(RemoteSettings, KnowTheNamesOfObjectStore) {
  for (const char* name : {"aws_access_key_id", "access_key_id", "AWS_ACCESS_KEY_ID"}) {
    EXPECT_EQ(settings_of({{name, "A"}, {"aws_secret_access_key", "S"}}).access_key, "A");
  }
  for (const char* name : {"aws_session_token", "aws_token", "session_token", "token"}) {
    EXPECT_EQ(settings_of({{name, "T"}}).session_token, "T");
  }
  EXPECT_EQ(settings_of({{"region", "r1"}, {"default_region", "r2"}}).region, "r1");
  EXPECT_EQ(settings_of({}).region, "us-east-1");
  EXPECT_TRUE(settings_of({{"skip_signature", "ON"}}).skip_signature);
  EXPECT_EQ(settings_of({{"timeout", "2m"}}).timeout, std::chrono::minutes(2));
  for (const char* two : {"2h", "2 hours", "1hour 60 minutes", "7200 seconds"}) {
    EXPECT_EQ(settings_of({{"timeout", two}}).timeout, std::chrono::hours(2)) << two;
  }
  EXPECT_EQ(settings_of({{"connect_timeout", "500ms"}}).connect_timeout.count(), 500);
  // Options that matter only to writers, to another client or to another store are
  // accepted and ignored.
  settings_of({{"aws_conditional_put", "etag"},
               {"pool_max_idle_per_host", "3"},
               {"azure_storage_account_name", "x"},
               {"google_service_account", "y"}});
}

TEST(RemoteSettings, RefuseWhatTheyDoNotKnowAndShowNoValue) {
  const auto refused = [](const std::vector<storage_option>& options, errc code) {
    const auto done = make_settings(options, false);
    EXPECT_FALSE(done);
    EXPECT_EQ(done.error().code(), code) << done.error().message();
    EXPECT_EQ(done.error().message().find("s3cret"), std::string::npos);
    return done.error();
  };
  const errc form = errc::invalid_argument;
  EXPECT_TRUE(says(refused({{"aws_regoin", "s3cret"}}, form), "did you mean"));
  refused({{"skip_signature", "s3cret"}}, form);
  refused({{"timeout", "s3cret"}}, form);
  refused({{"timeout", "30"}}, form);
  refused({{"region", "a.b/../"}}, form);
  refused({{"access_key_id", "A"}}, form);
  refused({{"secret_access_key", "s3cret"}}, form);
  refused({{"role_arn", "s3cret"}}, errc::unsupported);
  refused({{"aws_s3_express", "true"}}, errc::unsupported);
}

TEST(RemoteSettings, TakeFromTheEnvironmentWhatIsNotGiven) {
  const environment set({{"AWS_ACCESS_KEY_ID", "EA"},
                         {"AWS_SECRET_ACCESS_KEY", "ES"},
                         {"AWS_SESSION_TOKEN", "ET"},
                         {"AWS_DEFAULT_REGION", "r1"},
                         {"AWS_ENDPOINT_URL", "http://general"},
                         {"AWS_ENDPOINT_URL_S3", "http://special"},
                         {"AWS_ROLE_ARN", "of another program"},
                         {"SSL_CERT_FILE", "/file"},
                         {"SSL_CERT_DIR", "/folder"}});
  const auto all = or_throw(make_settings({}, true));
  EXPECT_EQ(all.access_key, "EA");
  EXPECT_EQ(all.secret_key, "ES");
  EXPECT_EQ(all.session_token, "ET");
  EXPECT_EQ(all.region, "r1");
  EXPECT_EQ(all.endpoint, "http://special");
  EXPECT_EQ(all.certificate_file, "/file");
  EXPECT_EQ(all.certificate_folder, "/folder");
  const auto some = or_throw(make_settings({{"endpoint", "http://own"},
                                            {"access_key_id", "A"},
                                            {"secret_access_key", "S"},
                                            {"default_region", "r2"}},
                                           true));
  EXPECT_EQ(some.endpoint, "http://own");
  EXPECT_EQ(some.region, "r2");
  EXPECT_EQ(some.access_key, "A");
  EXPECT_EQ(some.session_token, "") << "a session token of another identity is not used";
  EXPECT_EQ(or_throw(make_settings({}, false)).access_key, "");
  const environment more(std::vector<storage_option>{{"AWS_REGION", "r3"}});
  EXPECT_EQ(or_throw(make_settings({}, true)).region, "r3");
}

TEST(RemoteSettings, HideASecretThatOccursInItsReplacement) {
  formats::remote_settings settings;
  settings.secret_key = "*";
  EXPECT_EQ(settings.without_secrets("a*b*"), "a***b***");
  settings.secret_key = "key";
  settings.session_token = "**";
  EXPECT_EQ(settings.without_secrets("a key"), "a ****");
}

TEST(RemoteSettings, ReadTimesWithTheirUnits) {
  const auto ms = [](const char* text) { return or_throw(parse_duration(text)).count(); };
  EXPECT_EQ(ms("30s"), 30'000);
  EXPECT_EQ(ms("1m 30s"), 90'000);
  EXPECT_EQ(ms("2 seconds"), 2'000);
  EXPECT_EQ(ms("1h"), 3'600'000);
  for (const char* text : {"", "30", "s", "-1s", "1y", "1s2", "99999999999s", "1 s x"}) {
    EXPECT_FALSE(parse_duration(text)) << text;
  }
}

TEST(RemoteAnswers, HaveAContentRangeOfOneForm) {
  const auto range = parse_content_range("bytes 5-9/20");
  ASSERT_TRUE(range);
  EXPECT_EQ(range->first, std::uint64_t{5});
  EXPECT_EQ(range->last, 9u);
  EXPECT_EQ(range->total, std::uint64_t{20});
  EXPECT_FALSE(parse_content_range("bytes 5-9/*")->total);
  EXPECT_EQ(parse_content_range("bytes */7")->total, std::uint64_t{7});
  for (const char* text : {"", "bytes", "bytes 5-9", "bytes 9-5/20", "bytes 5-9/9",
                           "bytes -9/20", "items 5-9/20", "bytes 5-9/20x", "bytes */*",
                           "bytes 5-99999999999999999999/20", "bytes 5 - 9/20"}) {
    EXPECT_FALSE(parse_content_range(text)) << text;
  }
}

constexpr std::uint64_t block = formats::block_cache::block_size;

TEST(RemoteCache, GuessesWhereReadingGoesOn) {
  formats::block_cache cache(1000 * block, 100 * block);
  cache.put(0, byte_vector(4 * block));
  using ranges = std::vector<formats::byte_range>;
  // Four blocks before the request are in the cache, so the four blocks behind it are
  // likely.
  EXPECT_EQ(cache.likely_after({4 * block, 10}), (ranges{{5 * block, 4 * block}}));
  // The same holds for reading backward.
  cache.put(900 * block, byte_vector(2 * block));
  EXPECT_EQ(cache.likely_after({899 * block + 5, 10}),
            (ranges{{897 * block, 2 * block}}));
  // After two equal steps, further equal steps are likely.
  EXPECT_EQ(cache.likely_after({100'000, 10}), ranges());
  EXPECT_EQ(cache.likely_after({300'000, 10}), ranges());
  EXPECT_EQ(cache.likely_after({500'000, 10}), (ranges{{700'000, 10}, {900'000, 10}}));
  EXPECT_EQ(cache.likely_after({1'100'000, 10}).size(), 5u);
}

TEST(RemoteCache, AsksForNeighboursTogether) {
  formats::block_cache cache(100 * block + 7, 100 * block);
  cache.put(10 * block, byte_vector(block));
  using ranges = std::vector<formats::byte_range>;
  const ranges wanted{{0, 10}, {2 * block, 1}, {9 * block, 3 * block}, {100 * block, 7}};
  EXPECT_EQ(cache.to_request({}, wanted, 1000 * block),
            (ranges{{0, 3 * block}, {9 * block, 3 * block}, {100 * block, 7}}));
  EXPECT_EQ(cache.to_request({}, wanted, block).size(), 5u);
}

TEST(RemoteCache, AsksForWhatAReadMissedThoughAnotherReadHasCachedItSince) {
  formats::block_cache cache(100 * block, 100 * block);
  using ranges = std::vector<formats::byte_range>;
  byte_vector read(10);
  const ranges missing = cache.copy(2 * block, read);
  EXPECT_EQ(missing, (ranges{{2 * block, 10}}));
  cache.put(2 * block, byte_vector(2 * block));  // as another thread would
  EXPECT_EQ(cache.to_request(missing, ranges{{3 * block, 5}}, 1000 * block),
            (ranges{{2 * block, block}}))
      << "the read misses its bytes, so they are requested even though a guess has "
         "cached them since";
}

}  // namespace
}  // namespace weir::test
