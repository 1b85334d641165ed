// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests files behind addresses whose server or network misbehaves, and tasks that end
/// early.
#include <algorithm>
#include <cstdlib>

#include "conformance/tensogram_c/remote/support.hpp"

namespace weir::test::tgm {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// A file of one message with three objects of 400,000 bytes on a server. Opening it
/// reads the first 64 KiB and the last bytes.
class tensogram_c_remote_faults : public ::testing::Test {
 protected:
  tensogram_c_remote_faults() { server.put("big.tgm", content); }
  ~tensogram_c_remote_faults() override { ::unsetenv("SSL_CERT_FILE"); }

  /// Opens the file while the server behaves.
  made<async_file> open(const storage_options& options = {}) {
    server.faults("big.tgm", {});
    auto file = opened_at(server.url("big.tgm"), options);
    EXPECT_EQ(file.code, TGM_ERROR_OK) << last_error();
    (void)server.log();
    return file;
  }
  /// Returns an address with TLS and a certificate of this kind.
  std::string secure_url(const std::string& kind) {
    const auto answer = server.ask({{"do", "tls"}, {"kind", kind}});
    ::setenv("SSL_CERT_FILE", answer["authority"].get<std::string>().c_str(), 1);
    return "https://localhost:" + std::to_string(answer["port"].get<int>()) + "/big.tgm";
  }

  test_server server;
  const std::string content = big_message(0, 3);
};

TEST_F(tensogram_c_remote_faults, a_server_that_recovers_is_asked_again) {
  const auto file = open();
  for (const std::vector<std::string>& faults : {std::vector<std::string>{"status:500"},
                                                 {"status:503", "silent"},
                                                 {"cut:100000", "cut:50000"},
                                                 {"short"}}) {
    const auto fresh = open();
    server.faults("big.tgm", faults);
    const auto object =
        make<message>(tgm_async_task_join_message, object_of(fresh, 0, 1).get());
    ASSERT_EQ(object.code, TGM_ERROR_OK) << faults[0] << "\n" << last_error();
    EXPECT_EQ(std::memcmp(tgm_object_data(object.get(), 0, nullptr),
                          big_object(0, 1).data(), 400'000),
              0)
        << faults[0];
  }
  server.faults("big.tgm", {"status:500", "cut:1000"});
  const auto opened = opened_at(server.url("big.tgm"));
  ASSERT_EQ(opened.code, TGM_ERROR_OK) << last_error();
}

TEST_F(tensogram_c_remote_faults, a_server_that_does_not_recover_is_a_remote_failure) {
  for (const char* fault :
       {"status:403", "status:400", "shifted:1", "total:5", "no-content-range", "long",
        "gzip", "whole", "other-etag", "redirect:302:gopher://host/"}) {
    SCOPED_TRACE(fault);
    const auto file = open();
    server.faults("big.tgm", {}, fault);
    EXPECT_EQ(joined_message(object_of(file, 0, 1)), TGM_ERROR_REMOTE);
    EXPECT_TRUE(last_error_says(server.url("big.tgm")));
    EXPECT_EQ(joined_ranges(range_of(file, 0, 2, 10, 10)), TGM_ERROR_REMOTE);
    EXPECT_EQ(joined_bytes(bytes_of(file, 0)), TGM_ERROR_REMOTE);
    EXPECT_EQ(joined_message(message_of(file, 0)), TGM_ERROR_REMOTE);
    server.faults("big.tgm", {});
    EXPECT_EQ(joined_message(object_of(file, 0, 1)), TGM_ERROR_OK)
        << "the handle is still good\n"
        << last_error();
  }
}

TEST_F(tensogram_c_remote_faults, requests_are_repeated_so_many_times_and_no_more) {
  const auto file = open();
  server.faults("big.tgm", {}, "status:500");
  EXPECT_EQ(joined_ranges(range_of(file, 0, 1, 50'000, 10)), TGM_ERROR_REMOTE);
  EXPECT_TRUE(last_error_says("found 500"));
  EXPECT_EQ(server.log().size(), 6u);
}

TEST_F(tensogram_c_remote_faults, the_time_of_a_request_is_not_that_of_the_task) {
  const auto file = open({{"timeout", "50ms"}});
  server.faults("big.tgm", {}, "hang");
  EXPECT_EQ(joined_ranges(range_of(file, 0, 1, 50'000, 10)), TGM_ERROR_REMOTE);
  EXPECT_TRUE(becomes_idle(server));
}

TEST_F(tensogram_c_remote_faults,
       a_file_that_was_changed_or_removed_is_a_remote_failure) {
  const auto changed = open();
  server.put("big.tgm", big_message(1, 3));
  EXPECT_EQ(joined_message(object_of(changed, 0, 1)), TGM_ERROR_REMOTE);
  EXPECT_TRUE(last_error_says("it was changed while it was read: open it again"));
  const auto again = open();
  EXPECT_EQ(joined_message(object_of(again, 0, 1)), TGM_ERROR_OK) << last_error();
  const auto removed = open();
  std::filesystem::remove(server.folder() + "/big.tgm");
  EXPECT_EQ(joined_message(object_of(removed, 0, 1)), TGM_ERROR_REMOTE);
  EXPECT_TRUE(last_error_says("it was removed while it was read"));
}

TEST_F(tensogram_c_remote_faults, certificates_that_nobody_vouches_for_are_refused) {
  EXPECT_EQ(opened_at(secure_url("self")).code, TGM_ERROR_REMOTE);
  EXPECT_TRUE(last_error_says("self-signed certificate"));
  EXPECT_EQ(opened_at(secure_url("other")).code, TGM_ERROR_REMOTE);
  EXPECT_TRUE(server.log().empty())
      << "no request may be sent to a server whose certificate is refused";
  const auto trusted = opened_at(secure_url("good"));
  ASSERT_EQ(trusted.code, TGM_ERROR_OK) << last_error();
  EXPECT_EQ(joined_message(object_of(trusted, 0, 1)), TGM_ERROR_OK) << last_error();
  const auto unchecked =
      opened_at(secure_url("self"), {{"allow_invalid_certificates", "true"}});
  EXPECT_EQ(unchecked.code, TGM_ERROR_OK) << last_error();
}

TEST_F(tensogram_c_remote_faults, a_task_whose_time_is_over_ends_with_its_requests) {
  for (const char* fault : {"hang", "drip:20", "status:503:30"}) {
    SCOPED_TRACE(fault);
    const auto file = open();
    server.faults("big.tgm", {}, fault);
    auto begin = steady_clock::now();
    EXPECT_EQ(joined_message(object_of(file, 0, 1, nullptr, 300)), TGM_ERROR_TIMEOUT);
    auto took = steady_clock::now() - begin;
    EXPECT_GE(took, milliseconds(300));
    EXPECT_LT(took, milliseconds(3000));
    EXPECT_TRUE(becomes_idle(server));
    const auto opening = opening_of(server.url("big.tgm"), {}, false, nullptr, 300);
    begin = steady_clock::now();
    EXPECT_EQ(make<async_file>(tgm_async_task_join_async_file, opening.get()).code,
              TGM_ERROR_TIMEOUT);
    EXPECT_LT(steady_clock::now() - begin, milliseconds(3000));
    EXPECT_TRUE(becomes_idle(server));
    server.faults("big.tgm", {});
    EXPECT_EQ(joined_message(object_of(file, 0, 1)), TGM_ERROR_OK) << last_error();
  }
}

TEST_F(tensogram_c_remote_faults, a_cancelled_task_ends_at_once_with_its_requests) {
  for (const char* fault : {"hang", "drip:20", "status:503:30"}) {
    SCOPED_TRACE(fault);
    auto quickest = milliseconds::max();
    for (int attempt = 0; attempt < 3; ++attempt) {
      const auto file = open();
      token cancel(tgm_cancellation_token_create());
      server.faults("big.tgm", {}, fault);
      const auto by_token = object_of(file, 0, 1, cancel.get());
      const auto by_itself = object_of(file, 0, 2);
      wait_for_request(server);
      const auto begin = steady_clock::now();
      tgm_cancellation_token_cancel(cancel.get());
      EXPECT_EQ(joined_message(by_token), TGM_ERROR_CANCELLED);
      tgm_async_task_cancel(by_itself.get());
      EXPECT_EQ(joined_message(by_itself), TGM_ERROR_CANCELLED);
      quickest =
          std::min(quickest,
                   std::chrono::duration_cast<milliseconds>(steady_clock::now() - begin));
      EXPECT_TRUE(becomes_idle(server)) << "the requests of a task end with the task";
      server.faults("big.tgm", {});
      EXPECT_EQ(joined_message(object_of(file, 0, 1)), TGM_ERROR_OK)
          << "a task is cancelled, not the file\n"
          << last_error();
    }
    EXPECT_LT(quickest, milliseconds(200))
        << "the task must end within 200 ms in the best of three attempts";
  }
}

TEST_F(tensogram_c_remote_faults, cancelled_tasks_leave_their_threads_to_others) {
  const auto file = open();
  server.faults("big.tgm", {}, "hang");
  std::vector<made<task>> waiting;
  for (int i = 0; i < 16; ++i) {  // twice the largest number of threads
    waiting.push_back(object_of(file, 0, 1));
  }
  wait_for_request(server);
  for (const auto& each : waiting) {
    tgm_async_task_cancel(each.get());
  }
  server.faults("big.tgm", {});
  const auto begin = steady_clock::now();
  EXPECT_EQ(joined_message(object_of(file, 0, 2)), TGM_ERROR_OK) << last_error();
  EXPECT_LT(steady_clock::now() - begin, milliseconds(5000));
}

TEST_F(tensogram_c_remote_faults,
       opening_is_cancelled_by_a_token_before_or_while_it_runs) {
  token cancel(tgm_cancellation_token_create());
  server.faults("big.tgm", {}, "hang");
  const auto opening = opening_of(server.url("big.tgm"), {}, true, cancel.get());
  wait_for_request(server);
  tgm_cancellation_token_cancel(cancel.get());
  EXPECT_EQ(make<async_file>(tgm_async_task_join_async_file, opening.get()).code,
            TGM_ERROR_CANCELLED);
  EXPECT_TRUE(becomes_idle(server));
  const auto later = opening_of(server.url("big.tgm"), {}, true, cancel.get());
  EXPECT_EQ(make<async_file>(tgm_async_task_join_async_file, later.get()).code,
            TGM_ERROR_CANCELLED);
  EXPECT_TRUE(server.log().empty());
}

}  // namespace
}  // namespace weir::test::tgm
