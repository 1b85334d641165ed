// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests how remote files behave when servers and networks misbehave.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <thread>

#include "formats/remote/support.hpp"
#include "formats/support.hpp"

namespace weir::test {
namespace {

using formats::call_limits;
using formats::remote_options;
using formats::remote_source;
using std::chrono::milliseconds;

/// A file of 300,000 bytes on a server; opening it reads the first 64 KiB.
class RemoteFaults : public testing::Test {
 protected:
  RemoteFaults() { server.put("a.bin", content); }

  result<std::shared_ptr<remote_source>> try_open(const call_limits& limits = {}) {
    return remote_source::open(server.url("a.bin"), options, limits);
  }
  /// Opens the file and then reads a part that opening did not bring, while the server
  /// misbehaves.
  result<byte_vector> read_under(const std::vector<std::string>& list,
                                 const std::string& then = "",
                                 const call_limits& limits = {}) {
    server.faults("a.bin", {});
    source = or_throw(try_open());
    server.log();
    server.faults("a.bin", list, then);
    byte_vector out(100'000);
    auto done = source->limited(limits)->read(150'000, out);
    if (!done) {
      return std::move(done).error();
    }
    return out;
  }
  /// Returns the bytes that `read_under` must return.
  byte_vector wanted() const {
    return {content.begin() + 150'000, content.begin() + 250'000};
  }
  /// Expects that a read under these faults returns the right bytes.
  void expect_sound(const std::vector<std::string>& list) {
    const auto found = read_under(list);
    ASSERT_TRUE(found) << found.error().message();
    EXPECT_EQ(*found, wanted());
  }
  /// Expects that a read under a lasting fault fails with this code and text, and that
  /// the error names the address and the offset.
  void expect_refused(const std::string& fault, errc code, const std::string& text) {
    SCOPED_TRACE(fault);
    const auto found = read_under({}, fault);
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().code(), code) << found.error().message();
    EXPECT_TRUE(says(found.error(), text));
    EXPECT_TRUE(says(found.error(), "at " + server.url("a.bin") + ":147456"));
  }

  test_server server;
  const byte_vector content = random_bytes(11, 300'000);
  remote_options options = quick_options();
  std::shared_ptr<remote_source> source;
};

TEST_F(RemoteFaults, ATransientFailureIsRetried) {
  for (const char* status : {"408", "429", "500", "502", "503", "504"}) {
    SCOPED_TRACE(status);
    const std::string fault = std::string("status:") + status;
    expect_sound({fault, fault, fault, fault, fault});
    EXPECT_EQ(source->traffic().repeats, 5u);
  }
  // libcurl itself repeats a request on a connection that was open before, and such
  // repeats are not counted here.
  expect_sound({"silent", "silent", "silent"});
  EXPECT_GE(source->traffic().repeats, 1u);
}

TEST_F(RemoteFaults, APersistentFailureIsRetriedALimitedNumberOfTimes) {
  expect_refused("status:503", errc::source_unavailable,
                 "expected status 206, found 503 after 6 requests");
  expect_refused("silent", errc::source_unavailable, "Empty reply from server");
}

TEST_F(RemoteFaults, AFinalAnswerIsNotRetried) {
  expect_refused("status:404", errc::source_unavailable,
                 "expected the file as it was opened, found status 404; it was removed");
  EXPECT_EQ(server.log().size(), 1u);
  expect_refused("status:400", errc::source_unavailable, "found 400");
  EXPECT_EQ(server.log().size(), 1u);
  expect_refused("status:403", errc::source_unavailable,
                 "the server asks for a user and password");
  EXPECT_EQ(server.log().size(), 1u);
}

// The ranges of the repeated requests show that each goes on where the connection broke.
TEST_F(RemoteFaults, BytesThatArrivedBeforeAConnectionBrokeAreKept) {
  expect_sound({"cut:70000", "cut:20000"});
  const auto log = server.log();
  ASSERT_EQ(log.size(), 3u);
  EXPECT_EQ(log[1]["range"], "bytes=217456-262143");
  EXPECT_EQ(log[2]["range"], "bytes=237456-262143");
}

TEST_F(RemoteFaults, AConnectionThatBreaksWhileOpeningIsRetried) {
  server.faults("a.bin", {"cut:1000", "status:500", "cut:30000"});
  source = or_throw(try_open());
  EXPECT_EQ(source->size(), content.size());
  byte_vector found(content.size());
  or_throw(source->read(0, found));
  EXPECT_EQ(found, content);
}

TEST_F(RemoteFaults, ARetryWaitsAsLongAsTheServerAsks) {
  const auto start = std::chrono::steady_clock::now();
  expect_sound({"status:503:1", "status:429:1"});
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(2000));
}

TEST_F(RemoteFaults, AServerThatAsksToWaitForHoursIsUnavailable) {
  expect_refused("status:503:7200", errc::source_unavailable,
                 "found 503 and Retry-After 7200 s");
  EXPECT_EQ(server.log().size(), 1u);
}

TEST_F(RemoteFaults, AnswersThatDoNotFitTheirHeadersAreRefused) {
  const errc code = errc::source_unavailable;
  expect_refused("long", code, "expected 114688 bytes as Content-Range says, found more");
  expect_refused("short", code, "expected 3584 bytes, found 1792 after 6 requests");
  expect_refused("shifted:1", code,
                 "expected Content-Range from 147456 to 262143 at most, found \"bytes "
                 "147457-262144/300000\"");
  expect_refused("shifted:-1", code, "found \"bytes 147455-262142/300000\"");
  expect_refused("no-content-range", code, "at most, found \"\"");
  expect_refused("gzip", code, "found Content-Encoding gzip");
  expect_refused("whole", code, "expected status 206 and a range, found 200");
}

TEST_F(RemoteFaults, AServerMaySendLessThanItWasAskedFor) {
  const auto found = read_under({}, "at-most:70000");
  ASSERT_TRUE(found) << found.error().message();
  EXPECT_EQ(*found, wanted());
}

TEST_F(RemoteFaults, AServerWithoutRangesIsReadWholeUpToALimit) {
  server.faults("a.bin", {}, "whole");
  source = or_throw(try_open());
  ASSERT_TRUE(source->view());
  EXPECT_TRUE(std::equal(content.begin(), content.end(), source->view()->begin(),
                         source->view()->end()));
  EXPECT_FALSE(source->distant());
  byte_vector found(1000);
  or_throw(source->read(299'000, found));
  EXPECT_TRUE(std::equal(found.begin(), found.end(), content.begin() + 299'000));
  EXPECT_EQ(server.log().size(), 1u);
  options.whole_file_bytes = 299'999;
  const auto refused = try_open();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), errc::unsupported);
  EXPECT_TRUE(says(refused.error(), "whole file of 300000 bytes"));
}

TEST_F(RemoteFaults, AWholeFileThatBreaksOffIsRequestedAgain) {
  server.faults("a.bin", {"whole-length:300000", "whole"});
  source = or_throw(try_open());
  EXPECT_EQ(source->size(), content.size());
}

/// Returns the largest amount of memory that the process has had, in bytes.
std::uint64_t peak_memory() {
  struct rusage usage {};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) << 10;
}

TEST_F(RemoteFaults, AnAbsurdLengthTakesNoMemory) {
  const std::uint64_t before = peak_memory();
  server.faults("a.bin", {}, "whole-length:1000000000000000000");
  const auto whole = try_open();
  ASSERT_FALSE(whole);
  EXPECT_EQ(whole.error().code(), errc::unsupported);
  EXPECT_TRUE(says(whole.error(), "whole file of 1000000000000000000 bytes"));
  // The server claims a size of 2^62 bytes. Reads that the file can answer still work.
  server.faults("a.bin", {}, "total:4611686018427387904");
  source = or_throw(try_open());
  EXPECT_EQ(source->size(), std::uint64_t{1} << 62);
  const auto spans = scan_remote(*source, formats::scan_order::both_ends, 1 << 20);
  ASSERT_FALSE(spans);
  byte_vector to(1000);
  const auto far = source->read(std::uint64_t{1} << 61, to);
  ASSERT_FALSE(far);
  EXPECT_TRUE(says(far.error(), ":2305843009213693952"));
  server.faults("a.bin", {}, "endless-error");
  const auto endless = try_open();
  ASSERT_FALSE(endless);
  EXPECT_TRUE(says(endless.error(), "found 403"));
  EXPECT_LT(peak_memory() - before, std::uint64_t{64} << 20);
}

TEST_F(RemoteFaults, ASizeThatNoFileCanHaveIsRefused) {
  for (const char* fault : {"total:9223372036854775808", "total:18446744073709551615"}) {
    server.faults("a.bin", {}, fault);
    const auto opened = try_open();
    ASSERT_FALSE(opened) << fault;
    EXPECT_EQ(opened.error().code(), errc::source_unavailable);
    EXPECT_TRUE(says(opened.error(),
                     "expected a file of at most 9223372036854775807 bytes, found a "
                     "server that claims "));
  }
}

TEST_F(RemoteFaults, AFileThatChangesIsNoticed) {
  expect_refused("total:300001", errc::source_unavailable,
                 "expected the file as it was opened, of 300000 bytes, found another "
                 "version of 300001 bytes");
  // The request requires the version that was opened, and the server answers that it is
  // gone.
  source = or_throw(try_open());
  server.put("a.bin", random_bytes(12, 300'000));
  byte_vector to(100);
  const auto gone = source->read(200'000, to);
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code(), errc::source_unavailable);
  EXPECT_TRUE(says(gone.error(), "found status 412"));
  EXPECT_TRUE(says(gone.error(), "it was changed while it was read: open it again"));
  EXPECT_TRUE(try_open());
}

TEST_F(RemoteFaults, AFileThatChangesIsNoticedWithoutHelpOfTheServer) {
  // A request cannot require a weak ETag, so the answers are compared.
  server.faults("a.bin", {}, "weak-etag");
  source = or_throw(try_open());
  byte_vector to(100);
  or_throw(source->read(200'000, to));
  server.put("a.bin", random_bytes(12, 300'000));
  const auto changed = source->read(100'000, to);
  ASSERT_FALSE(changed);
  EXPECT_TRUE(says(changed.error(), "found another version of 300000 bytes"));
  // Without an ETag only the size can show a change.
  server.faults("a.bin", {}, "no-etag");
  source = or_throw(try_open());
  server.put("a.bin", random_bytes(12, 200'000));
  const auto shorter = source->read(100'000, to);
  ASSERT_FALSE(shorter);
  EXPECT_TRUE(says(shorter.error(), "of 300000 bytes, found another version of 200000"));
  const auto beyond = source->read(250'000, to);
  ASSERT_FALSE(beyond);
  EXPECT_TRUE(
      says(beyond.error(), "expected the file as it was opened, found status 416"));
}

TEST_F(RemoteFaults, ASlowTransferEndsAtTheTimeLimitOfItsRequest) {
  options.storage = {{"timeout", "300ms"}};
  options.repeats = 1;
  source = or_throw(try_open());
  server.faults("a.bin", {}, "drip:20");
  byte_vector to(100'000);
  const auto start = std::chrono::steady_clock::now();
  const auto done = source->read(150'000, to);
  const auto took = std::chrono::steady_clock::now() - start;
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), errc::timeout);
  EXPECT_TRUE(says(done.error(), "after 2 requests"));
  EXPECT_GE(took, milliseconds(600));
  EXPECT_LT(took, milliseconds(10'000));
}

TEST_F(RemoteFaults, ACallEndsAtItsTimeLimit) {
  for (const char* fault : {"hang", "drip:20", "status:503:5"}) {
    SCOPED_TRACE(fault);
    const auto start = std::chrono::steady_clock::now();
    const auto found = read_under({}, fault, {{}, milliseconds(300)});
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().code(), errc::timeout) << found.error().message();
    EXPECT_LT(std::chrono::steady_clock::now() - start, milliseconds(5'000));
  }
  server.faults("a.bin", {}, "hang");
  const auto opened = try_open({{}, milliseconds(200)});
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code(), errc::timeout);
}

TEST_F(RemoteFaults, ATimeLimitBeyondTheRangeOfTheClockIsNoLimit) {
  const auto found =
      read_under({}, "", {.stop = {}, .timeout = std::chrono::milliseconds::max()});
  ASSERT_TRUE(found) << found.error().message();
  EXPECT_EQ(*found, wanted());
}

TEST_F(RemoteFaults, ACallEndsWhenItIsCancelled) {
  for (const char* fault : {"hang", "drip:20", "status:503:30"}) {
    SCOPED_TRACE(fault);
    source = or_throw(try_open());
    server.log();
    server.faults("a.bin", {}, fault);
    std::stop_source stop;
    // Cancels as soon as the server has got the request.
    std::jthread canceller([&] {
      while (server.log().empty()) {
        std::this_thread::yield();
      }
      stop.request_stop();
    });
    byte_vector to(1000);
    const auto done = source->limited({stop.get_token(), {}})->read(200'000, to);
    canceller.join();
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code(), errc::interrupted) << done.error().message();
    server.faults("a.bin", {});
    EXPECT_TRUE(source->read(200'000, to))
        << "only the call is cancelled and not the file";
  }
}

TEST_F(RemoteFaults, AServerThatIsKilledAndComesBackIsAskedAgain) {
  options.first_pause = milliseconds(200);
  source = or_throw(try_open());
  server.faults("a.bin", {"hang"});
  server.log();
  std::jthread killer([&] {
    while (server.log().empty()) {
      std::this_thread::yield();
    }
    server.kill();
    server.start_again();
  });
  byte_vector to(100'000);
  const auto done = source->read(150'000, to);
  killer.join();
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_EQ(to, wanted());
}

TEST_F(RemoteFaults, AServerThatIsNotThereIsAnErrorThatNamesIt) {
  server.kill();
  const auto done = try_open();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), errc::source_unavailable);
  EXPECT_TRUE(says(done.error(), server.url("a.bin")));
  EXPECT_TRUE(says(done.error(), "after 6 requests"));
  const auto nowhere = remote_source::open("http://nowhere.invalid/a.tgm", options);
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().code(), errc::source_unavailable);
  EXPECT_TRUE(says(nowhere.error(), "nowhere.invalid"));
}

TEST_F(RemoteFaults, AFailedReadAheadDoesNotFailTheRead) {
  // After two equal steps the third place is requested ahead of time. That request fails,
  // and the read of the place must succeed all the same.
  server.put("big.bin", random_bytes(13, 2'000'000));
  source = or_throw(remote_source::open(server.url("big.bin"), options));
  byte_vector to(10);
  or_throw(source->read(300'000, to));
  or_throw(source->read(600'000, to));
  server.faults("big.bin", {"status:404"});
  EXPECT_TRUE(source->read(900'000, to));
}

}  // namespace
}  // namespace weir::test
