// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the message reader and the message appender with threads, a real FIFO and a real
/// disk.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "actors/tensogram_support.hpp"
#include "support/temp_folder.hpp"
#include "tensogram/message_appender.hpp"
#include "tensogram/message_reader.hpp"

namespace weir::test {
namespace {

using namespace actors;
using namespace std::chrono_literals;

/// An actor system in which a test spawns readers and appenders.
struct message_run : testing::Test {
  temp_folder folder;
  std::unique_ptr<system_config> config = or_throw(system_config::make({}));
  caf::actor_system system{*config};
  caf::scoped_actor self{system};
  std::vector<caf::actor> all;

  ~message_run() override {
    for (const caf::actor& a : all) {
      self->send_exit(a, caf::exit_reason::user_shutdown);
    }
    for (const caf::actor& a : all) {
      self->wait_for(a);
    }
  }
  /// Spawns a reader and opens a path.
  message_reader_actor reader_of(const std::string& path) {
    const auto out =
        spawn_own_thread(system, {}, message_reader_io, message_reader_config{});
    all.push_back(caf::actor_cast<caf::actor>(out));
    message_source source;
    source.path = path;
    or_throw(ask<local<message_source_info>>(self, out, 20s, "open reader", open_atom_v,
                                             by_reference(source)));
    return out;
  }
  /// Spawns an appender and opens a path.
  message_appender_actor appender_to(const std::string& path) {
    const auto out =
        spawn_own_thread(system, {}, message_appender_io, message_appender_config{});
    all.push_back(caf::actor_cast<caf::actor>(out));
    message_target target;
    target.path = path;
    or_throw(ask<local<message_target_info>>(self, out, 20s, "open appender", open_atom_v,
                                             by_reference(target)));
    return out;
  }
  appended_message append(const message_appender_actor& to, std::uint64_t number) {
    return *or_throw(
        ask<local<appended_message>>(self, to, 20s, "append", write_atom_v,
                                     by_reference(numbered_order(number, 100'000))));
  }
  local<message_delivery> pull(const message_reader_actor& from) {
    return or_throw(ask<local<message_delivery>>(self, from, 20s, "pull", pull_atom_v));
  }
};

TEST_F(message_run, messages_appended_to_a_file_are_read_back) {
  const auto to = appender_to(folder / "log.tgm");
  for (std::uint64_t i = 0; i < 5; ++i) {
    const auto done = append(to, i);
    EXPECT_EQ(done.durable, done.offset + done.length);
    EXPECT_EQ(std::filesystem::file_size(folder / "log.tgm"), done.durable);
  }
  for (const std::string& path : {folder / "log.tgm", folder.path()}) {
    const auto from = reader_of(path);
    for (std::uint64_t i = 0; i < 5; ++i) {
      EXPECT_EQ(number_of(*pull(from)->message), i);
    }
    EXPECT_FALSE(pull(from)->message);
  }
}

TEST_F(message_run, a_pipe_carries_messages_larger_than_itself_and_ends_with_its_writer) {
  const std::string path = folder / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const auto from = reader_of(path);
  const auto to = appender_to(path);
  for (std::uint64_t i = 0; i < 5; ++i) {
    static_cast<void>(append(to, i));
    EXPECT_EQ(number_of(*pull(from)->message), i);
  }
  self->send_exit(to, caf::exit_reason::user_shutdown);
  EXPECT_FALSE(pull(from)->message);
}

TEST_F(message_run, a_reader_that_leaves_is_an_error_and_no_signal) {
  const std::string path = folder / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const auto from = reader_of(path);
  const auto to = appender_to(path);
  self->send_exit(from, caf::exit_reason::user_shutdown);
  self->wait_for(from);
  const auto failed = ask<local<appended_message>>(self, to, 20s, "append", write_atom_v,
                                                   by_reference(numbered_order(1)));
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code(), errc::io);
}

TEST_F(message_run, a_reader_whose_pipe_is_silent_can_be_ended) {
  const std::string path = folder / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const auto from = reader_of(path);
  auto pending = self->request(from, 20s, pull_atom_v);
  self->send_exit(from, caf::exit_reason::user_shutdown);
  errc code = errc::internal;
  pending.receive([](const local<message_delivery>&) {},
                  [&](const caf::error& e) { code = from_caf(e, "waiting").code(); });
  EXPECT_TRUE(code == errc::abandoned || code == errc::stopping) << name_of(code);
}

}  // namespace
}  // namespace weir::test
