// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the library's threads. They are configured once and shut down once in a process,
/// so each of these tests has a process of its own.
#include <chrono>
#include <cstdlib>

#include "conformance/tensogram_c/remote/support.hpp"
#include "support/temp_folder.hpp"

namespace weir::test::tgm {
namespace {

/// Collects checks in a child process and ends it with the number of checks that failed.
class verdict {
 public:
  void ask(bool holds, const char* text) {
    if (!holds) {
      std::fprintf(stderr, "%s; last error: %s\n", text, last_error().c_str());
      ++failures_;
    }
  }
  [[noreturn]] void end() const {
    std::fflush(stderr);
    std::_Exit(failures_);
  }

 private:
  int failures_ = 0;
};
#define ASK(verdict, condition) (verdict).ask(condition, #condition)
#define EXPECT_VERDICT(statement) EXPECT_EXIT(statement, ::testing::ExitedWithCode(0), "")

/// Writes a file with one message and returns its path.
std::string file_of_two(const temp_folder& folder) {
  const std::string path = folder / "two.tgm";
  write_whole(path, encode_two());
  return path;
}
/// Launches the opening of a file.
made<task> opening(const std::string& path) {
  return make<task>(tgm_async_file_open, path.c_str(), nullptr, 0u);
}
/// Returns the code of an opening.
tgm_error opened(const made<task>& launched) {
  return make<async_file>(tgm_async_task_join_async_file, launched.get()).code;
}

/// Runs the statements of its tests in fresh processes, because a fork would copy the
/// state of the library.
class tensogram_c_process : public ::testing::Test {
 protected:
  tensogram_c_process() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  temp_folder folder;
};

void configure_then_use(const std::string& path) {
  verdict v;
  ASK(v, tgm_last_error() == nullptr);
  ASK(v, tgm_runtime_configure(1, 1, 1 << 20) == TGM_ERROR_OK);
  ASK(v, tgm_runtime_configure(2, 2, 0) == TGM_ERROR_INVALID_ARG);
  ASK(v, tgm_last_error() != nullptr);
  ASK(v, opened(opening(path)) == TGM_ERROR_OK);
  ASK(v, tgm_runtime_configure(2, 2, 0) == TGM_ERROR_INVALID_ARG);
  v.end();
}
TEST_F(tensogram_c_process, the_runtime_is_configured_once) {
  EXPECT_VERDICT(configure_then_use(file_of_two(folder)));
}

void use_then_configure(const std::string& path) {
  verdict v;
  ASK(v, opened(opening(path)) == TGM_ERROR_OK);
  ASK(v, tgm_runtime_configure(0, 0, 0) == TGM_ERROR_INVALID_ARG);
  v.end();
}
TEST_F(tensogram_c_process, the_runtime_is_not_configured_once_it_runs) {
  EXPECT_VERDICT(use_then_configure(file_of_two(folder)));
}

void shut_down_idle(const std::string& path) {
  verdict v;
  const auto before = opening(path);
  ASK(v, tgm_runtime_shutdown_blocking(60'000) == 0);
  ASK(v, tgm_async_task_is_ready(before.get()));
  ASK(v, opened(before) == TGM_ERROR_OK);
  ASK(v, opening(path).code == TGM_ERROR_IO);
  ASK(v, tgm_runtime_shutdown_blocking(0) == 0);
  ASK(v, tgm_runtime_configure(1, 1, 0) == TGM_ERROR_INVALID_ARG);
  ASK(v, decode(encode_two()).code == TGM_ERROR_OK);
  v.end();
}
TEST_F(tensogram_c_process, a_shutdown_waits_for_tasks_and_is_final) {
  EXPECT_VERDICT(shut_down_idle(file_of_two(folder)));
}

void stream_after_shutdown(const std::string& path) {
  verdict v;
  const auto creating = make<task>(tgm_async_streaming_encoder_create, path.c_str(), "{}",
                                   nullptr, 0u, nullptr, 0u);
  const auto stream =
      make<async_encoder>(tgm_async_task_join_async_streaming_encoder, creating.get());
  ASK(v, stream.code == TGM_ERROR_OK);
  ASK(v, tgm_runtime_shutdown_blocking(60'000) == 0);
  const auto write = make<task>(tgm_async_streaming_encoder_write_object, stream.get(),
                                four_floats_descriptor, as_u8(four_floats),
                                std::size_t{16}, nullptr, 0u);
  ASK(v, write.code == TGM_ERROR_IO);
  std::size_t count = 99;
  ASK(v, tgm_async_streaming_encoder_try_object_count(stream.get(), &count) ==
             TGM_OBJECT_COUNT_STATUS_OK);
  ASK(v, count == 0);
  v.end();
}
TEST_F(tensogram_c_process, a_write_that_cannot_be_launched_is_not_queued) {
  EXPECT_VERDICT(stream_after_shutdown(folder / "stream.tgm"));
}

void shut_down_before_use(const std::string& path) {
  verdict v;
  ASK(v, tgm_runtime_shutdown_blocking(0) == 0);
  ASK(v, opening(path).code == TGM_ERROR_IO);
  v.end();
}
TEST_F(tensogram_c_process, a_runtime_may_be_shut_down_before_it_is_used) {
  EXPECT_VERDICT(shut_down_before_use(file_of_two(folder)));
}

void shut_down_busy(const std::string& path, const std::string& pipe) {
  verdict v;
  const blocked_workers blocked(pipe);
  std::vector<made<task>> waiting;
  for (int i = 0; i < 3; ++i) {
    waiting.push_back(opening(path));
  }
  const auto begin = std::chrono::steady_clock::now();
  ASK(v, tgm_runtime_shutdown_blocking(30) == 8 + 3);
  const auto took = std::chrono::steady_clock::now() - begin;
  ASK(v, took >= std::chrono::milliseconds(30));
  for (const auto& each : waiting) {
    ASK(v, tgm_async_task_is_ready(each.get()));
    ASK(v, opened(each) == TGM_ERROR_CANCELLED);
  }
  v.end();
}
TEST_F(tensogram_c_process, a_shutdown_counts_and_cancels_what_does_not_end) {
  const std::string path = file_of_two(folder);
  const std::string pipe = folder / "pipe";
  EXPECT_VERDICT(shut_down_busy(path, pipe));
}

void shut_down_with_a_server_that_hangs() {
  verdict v;
  {
    test_server server;
    server.put("two.tgm", encode_two());
    server.faults("two.tgm", {}, "hang");
    const auto waiting = opening_of(server.url("two.tgm"));
    wait_for_request(server);
    ASK(v, tgm_runtime_shutdown_blocking(30) == 1);
    ASK(v, opened(waiting) == TGM_ERROR_CANCELLED);
    ASK(v, becomes_idle(server));
  }
  v.end();
}
TEST_F(tensogram_c_process, a_shutdown_ends_requests_that_a_server_does_not_answer) {
  EXPECT_VERDICT(shut_down_with_a_server_that_hangs());
}

void set_limit() {
  verdict v;
  const std::string bytes = encode_two();
  const std::uint64_t normal = tgm_x_get_max_object_bytes();
  ASK(v, normal == std::uint64_t{16} << 30);
  tgm_x_set_max_object_bytes(23);
  ASK(v, tgm_x_get_max_object_bytes() == 23);
  ASK(v, decode(bytes).code == TGM_ERROR_OBJECT);
  ASK(v, last_error().find("24") != std::string::npos);
  tgm_x_set_max_object_bytes(24);
  ASK(v, decode(bytes).code == TGM_ERROR_OK);
  tgm_x_set_max_object_bytes(0);
  ASK(v, tgm_x_get_max_object_bytes() == normal);
  v.end();
}
TEST_F(tensogram_c_process, the_limit_of_an_object_holds_for_all_functions) {
  EXPECT_VERDICT(set_limit());
}

}  // namespace
}  // namespace weir::test::tgm
