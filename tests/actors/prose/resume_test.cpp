// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests that a run that is interrupted or killed, and then resumed, ends with the state
/// of an uninterrupted run.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <thread>

#include "actors/prose/small_run.hpp"
#include "weir/actors/run.hpp"
#include "weir/base/clock.hpp"
#include "weir/base/file.hpp"

namespace weir::actors {
namespace {

/// Runs until `tokens` tokens were consumed, and stops the run then.
result<run_report> run_until(const run_config& config, std::uint64_t tokens,
                             bool resuming) {
  run_control control;
  run_callbacks callbacks;
  callbacks.control = &control;
  callbacks.progress = [&](const run_progress& p) {
    if (p.tokens >= tokens) {
      control.request_stop();
    }
  };
  return resuming ? resume(config, callbacks) : run(config, callbacks);
}

/// Returns a configuration that runs long enough to be interrupted.
run_config longer(const test::small_runs& runs, const std::string& name) {
  run_config c = runs.config(name);
  c.phase.build.tokens = 60'000;
  c.phase.test.tokens = 1000;
  c.every_tokens = 3000;
  return c;
}

TEST(resume, of_an_interrupted_run_ends_with_the_state_of_an_uninterrupted_one) {
  test::small_runs runs(80'000);
  const auto whole = run(longer(runs, "whole"));
  ASSERT_TRUE(whole) << whole.error().message();
  const auto first = run_until(longer(runs, "parts"), 1, false);
  ASSERT_TRUE(first) << first.error().message();
  EXPECT_EQ(first->ended, "interrupted");
  EXPECT_LT(first->tokens, whole->tokens);
  std::uint64_t before = first->tokens;
  for (int i = 0; i < 2; ++i) {
    auto config = longer(runs, "parts");
    config.workers = 2;
    config.prefetch = static_cast<std::uint64_t>(i);
    const auto part = run_until(config, before + 1, true);
    ASSERT_TRUE(part) << part.error().message();
    EXPECT_GE(part->tokens, before);
    EXPECT_EQ(part->resumed, static_cast<std::uint64_t>(i) + 1);
    before = part->tokens;
  }
  const auto last = resume(longer(runs, "parts"));
  ASSERT_TRUE(last) << last.error().message();
  EXPECT_EQ(last->ended, "finished");
  EXPECT_EQ(last->resumed, 3U);
  EXPECT_EQ(last->state_hash, whole->state_hash);
  EXPECT_EQ(last->parameter_hash, whole->parameter_hash);
  EXPECT_EQ(last->context_hash, whole->context_hash);
  EXPECT_EQ(last->bits_cumulative, whole->bits_cumulative);
  EXPECT_EQ(last->bits_last_quarter, whole->bits_last_quarter);
  EXPECT_EQ(last->curve.size(), whole->curve.size());
}

TEST(resume, of_a_finished_run_rewrites_its_metrics) {
  test::small_runs runs;
  const auto config = runs.config("a");
  const auto first = run(config);
  ASSERT_TRUE(first) << first.error().message();
  ASSERT_TRUE(std::filesystem::remove(config.folder + "/metrics.json"));
  const auto again = resume(config);
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(again->ended, "finished");
  EXPECT_EQ(again->state_hash, first->state_hash);
  EXPECT_EQ(again->context_hash, first->context_hash);
  EXPECT_EQ(again->tokens, first->tokens);
  EXPECT_EQ(again->generation, first->generation);
  EXPECT_TRUE(std::filesystem::exists(config.folder + "/metrics.json"));
}

TEST(resume, starts_over_without_a_checkpoint) {
  test::small_runs runs;
  const auto whole = run(runs.config("whole"));
  std::filesystem::create_directory(runs.path("empty"));
  const auto r = resume(runs.config("empty"));
  ASSERT_TRUE(whole && r) << r.error().message();
  EXPECT_EQ(r->state_hash, whole->state_hash);
  EXPECT_EQ(r->resumed, 0U);
}

TEST(resume, of_an_absent_folder_is_not_found) {
  test::small_runs runs;
  const auto r = resume(runs.config("nowhere"));
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code(), errc::not_found);
}

TEST(resume, refuses_another_configuration_by_name_and_values) {
  test::small_runs runs;
  ASSERT_TRUE(run(runs.config("a")));
  auto config = runs.config("a");
  config.seed = 9;
  const auto r = resume(config);
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code(), errc::config_mismatch);
  EXPECT_EQ(r.error().text(), "resuming the run failed for seed: expected 1, found 9");
}

TEST(resume, refuses_a_changed_corpus_with_file_and_offset) {
  test::small_runs runs;
  ASSERT_TRUE(run(runs.config("a")));
  std::string text = test::some_text(6000);
  text[2100] = '#';
  test::write_text(runs.corpus(), text);
  const auto r = resume(runs.config("a"));
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code(), errc::history_mismatch);
  EXPECT_NE(r.error().message().find("2100"), std::string::npos) << r.error().message();
  EXPECT_NE(r.error().message().find("text"), std::string::npos);
}

TEST(resume, refuses_a_folder_that_another_run_holds) {
  test::small_runs runs;
  ASSERT_TRUE(run(runs.config("a")));
  const auto lock = file_lock::acquire(runs.path("a/checkpoint/lock"));
  ASSERT_TRUE(lock);
  const auto r = resume(runs.config("a"));
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code(), errc::locked);
}

/// Runs in another process, which is killed after a time.
void run_and_kill(const run_config& config, bool resuming,
                  std::chrono::milliseconds after) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto r = resuming ? resume(config) : run(config);
    ::_exit(r ? 0 : 1);
  }
  std::this_thread::sleep_for(after);
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
}

TEST(resume, of_a_killed_run_ends_with_the_state_of_an_uninterrupted_one) {
  test::small_runs runs(80'000);
  const auto whole = run(longer(runs, "whole"));
  ASSERT_TRUE(whole) << whole.error().message();
  const auto config = longer(runs, "killed");
  run_and_kill(config, false, std::chrono::milliseconds(150));
  for (const int pause : {90, 230}) {
    run_and_kill(config, true, std::chrono::milliseconds(pause));
  }
  const auto r = resume(config);
  ASSERT_TRUE(r) << r.error().message();
  EXPECT_EQ(r->state_hash, whole->state_hash);
}

TEST(resume, of_four_lanes_may_change_ranks) {
  test::small_runs runs(80'000);
  auto config = longer(runs, "whole");
  config.stream.lanes = 4;
  config.stream.ranks = 4;
  const auto whole = run(config);
  ASSERT_TRUE(whole) << whole.error().message();
  config = longer(runs, "parts");
  config.stream.lanes = 4;
  config.stream.ranks = 4;
  const auto part = run_until(config, 1, false);
  ASSERT_TRUE(part) << part.error().message();
  config.stream.ranks = 2;
  const auto r = resume(config);
  ASSERT_TRUE(r) << r.error().message();
  EXPECT_EQ(r->state_hash, whole->state_hash);
}

TEST(resume, of_a_killed_run_may_change_the_number_of_replicas) {
  test::small_runs runs(80'000);
  auto config = longer(runs, "whole");
  config.stream.lanes = 4;
  const auto whole = run(config);
  ASSERT_TRUE(whole) << whole.error().message();
  config.folder = runs.path("killed");
  config.replicas = replica_policy::per_rank;
  config.stream.ranks = 4;
  run_and_kill(config, false, std::chrono::milliseconds(150));
  config.stream.ranks = 2;
  config.workers = 2;
  run_and_kill(config, true, std::chrono::milliseconds(90));
  config.stream.ranks = 4;
  const auto part = run_until(config, 1, true);
  ASSERT_TRUE(part) << part.error().message();
  config.stream.ranks = 1;
  const auto r = resume(config);
  ASSERT_TRUE(r) << r.error().message();
  EXPECT_EQ(r->state_hash, whole->state_hash);
}

TEST(resume, can_go_back_to_an_older_checkpoint) {
  test::small_runs runs;
  const auto whole = run(runs.config("whole"));
  ASSERT_TRUE(whole) << whole.error().message();
  auto config = runs.config("back");
  config.keep = 10;
  ASSERT_TRUE(run(config));
  const auto r = resume(config, {}, 2);
  ASSERT_TRUE(r) << r.error().message();
  EXPECT_EQ(r->state_hash, whole->state_hash);
  EXPECT_EQ(r->resumed, 1U);
  const auto none = resume(config, {}, 77);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code(), errc::not_found);
}

TEST(resume, can_skip_pulses_and_remembers_them) {
  test::small_runs runs;
  auto config = runs.config("skipped");
  config.keep = 10;
  ASSERT_TRUE(run(config));
  run_callbacks callbacks;
  callbacks.skip = {{12, 15}};
  const auto once = resume(config, callbacks, 1);
  ASSERT_TRUE(once) << once.error().message();
  const auto again = resume(config, {}, once->generation - 1);
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(again->state_hash, once->state_hash);
  const auto whole = run(runs.config("whole"));
  ASSERT_TRUE(whole) << whole.error().message();
  EXPECT_NE(once->state_hash, whole->state_hash);
  EXPECT_EQ(once->tokens, whole->tokens);
}

/// Runs with a pipe as standard input, which gets some text and then stays open.
TEST(run, of_a_quiet_pipe_makes_its_checkpoints_and_stops_at_once) {
  test::small_runs runs;
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const int standard_input = ::dup(0);
  ::dup2(ends[0], 0);
  const std::string text = test::some_text(3000);
  ASSERT_EQ(::write(ends[1], text.data(), text.size()), 3000);
  auto config = runs.config("quiet");
  config.source.paths = {"-"};
  config.phase.build.tokens = 100'000;
  config.phase.test.tokens = 0;
  config.every_tokens = 640;
  run_control control;
  run_callbacks callbacks;
  callbacks.control = &control;
  std::int64_t asked_ns = 0;
  std::uint64_t before = 0;
  callbacks.progress = [&](const run_progress& p) {
    if (p.tokens == 46 * 64 && asked_ns == 0) {
      before = p.durable_tokens;
      if (before == 4 * 640) {
        asked_ns = now_ns();
        control.request_stop();
      }
    }
  };
  const auto r = run(config, callbacks);
  const double seconds = seconds_since(asked_ns);
  ::dup2(standard_input, 0);
  ::close(standard_input);
  ::close(ends[0]);
  ::close(ends[1]);
  ASSERT_TRUE(r) << r.error().message();
  EXPECT_EQ(r->ended, "interrupted");
  EXPECT_EQ(r->tokens, 46U * 64U);  // all whole chunks with their lookahead
  EXPECT_EQ(before, 4U * 640U);     // four checkpoints before the stop
  EXPECT_EQ(r->generations, 5U);
  EXPECT_LT(seconds, 5);
}

/// Text that a thread writes into a pipe, which is the standard input meanwhile.
class standard_input {
 public:
  explicit standard_input(std::string text) : text_(std::move(text)) {
    before_ = std::signal(SIGPIPE, SIG_IGN);
    EXPECT_EQ(::pipe(ends_.data()), 0);
    own_ = ::dup(0);
    ::dup2(ends_[0], 0);
    writer_ = std::thread([this] { write(); });
  }
  standard_input(const standard_input&) = delete;
  standard_input& operator=(const standard_input&) = delete;
  ~standard_input() {
    ::dup2(own_, 0);
    ::close(own_);
    ::close(ends_[0]);  // a writer that waits gets an error
    writer_.join();
    ::close(ends_[1]);
    std::signal(SIGPIPE, before_);
  }
  [[nodiscard]] bool written() const { return written_; }

 private:
  void write() {
    for (std::size_t at = 0; at < text_.size();) {
      const ::ssize_t sent = ::write(ends_[1], text_.data() + at, text_.size() - at);
      if (sent < 0) {
        return;
      }
      at += static_cast<std::size_t>(sent);
    }
    written_ = true;
  }
  std::string text_;
  std::array<int, 2> ends_{};
  int own_ = -1;
  std::atomic<bool> written_{false};
  std::thread writer_;
  void (*before_)(int) = SIG_DFL;
};

// As much is read ahead as a window holds, and a pipe cannot be read twice.
TEST(run, of_a_pipe_that_is_read_far_ahead_makes_its_checkpoints_and_stops) {
  test::small_runs runs;
  const standard_input input(test::some_text(std::size_t{3} << 20));
  auto config = runs.config("ahead");
  config.source.paths = {"-"};
  config.phase.build.tokens = 3'000'000;
  config.phase.test.tokens = 0;
  config.every_tokens = 640;
  config.prefetch = 65'536;
  run_control control;
  run_callbacks callbacks;
  callbacks.control = &control;
  callbacks.progress = [&](const run_progress& p) {
    if (p.durable_tokens >= 1280 && (input.written() || p.tokens >= 20'000)) {
      control.request_stop();
    }
  };
  const auto r = run(config, callbacks);
  ASSERT_TRUE(r) << r.error().message();
  EXPECT_EQ(r->ended, "interrupted");
  EXPECT_GE(r->generations, 2U);
}

TEST(signal_scope, turns_a_signal_into_an_ordered_end) {
  test::small_runs runs(80'000);
  run_control control;
  const signal_scope scope(control);
  run_callbacks callbacks;
  callbacks.control = &control;
  // Progress is reported again at the end of the run. Only the first report raises the
  // signal, because a second signal would end this process.
  bool raised = false;
  callbacks.progress = [&](const run_progress&) {
    if (!raised) {
      raised = true;
      ::raise(SIGTERM);
    }
  };
  const auto r = run(longer(runs, "a"), callbacks);
  ASSERT_TRUE(r) << r.error().message();
  EXPECT_EQ(r->ended, "interrupted");
  EXPECT_GE(r->generation, 1U);
}

TEST(signal_scope, ends_at_once_at_the_second_signal) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    run_control control;
    const signal_scope scope(control);
    ::raise(SIGINT);
    ::raise(SIGINT);
    ::_exit(7);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130);
}

}  // namespace
}  // namespace weir::actors
