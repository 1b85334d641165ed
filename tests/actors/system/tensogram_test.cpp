// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the message reader and the message appender on the deterministic scheduler,
/// where a seed decides which actor handles its next message.
#include <gtest/gtest.h>

#include "actors/tensogram_support.hpp"
#include "stepped_system.hpp"
#include "support/case_count.hpp"
#include "tensogram/message_appender.hpp"
#include "tensogram/message_reader.hpp"

namespace weir::test {
namespace {

using namespace actors;
using namespace std::chrono_literals;

/// A pipe into which no program writes.
class silent_pipe final : public byte_pipe {
 public:
  result<std::optional<std::size_t>> read_some(mutable_bytes) override {
    return std::optional<std::size_t>();
  }
};

/// The results of a flow of messages from a reader to an appender.
struct flow_log {
  std::vector<std::uint64_t> pulled;
  std::vector<errc> pull_errors;
  std::vector<appended_message> appended;
  std::vector<errc> append_errors;
  std::size_t max_pulls_open = 0;
  std::size_t pulls_open = 0;
  std::size_t appends_open = 0;
  bool ended = false;
};

/// Configuration of an actor that pulls messages, several at a time, and appends them.
struct copier_config {
  message_reader_actor from;
  message_appender_actor to;
  std::size_t window = 1;
  flow_log* log = nullptr;
  std::size_t max_errors = 100;
};
using copier_actor = caf::typed_actor<caf::reacts_to<launch_atom>>;
struct copier_shell {
  static constexpr const char* name = "test.copier";
};
using copier_pointer = copier_actor::stateful_pointer<copier_shell>;

void pull_more(copier_pointer self, const copier_config& c);

/// Appends a message and logs the answer.
void append_one(copier_pointer self, const copier_config& c, std::uint64_t number) {
  ++c.log->appends_open;
  self->request(c.to, 3600s, write_atom_v, by_reference(numbered_order(number)))
      .then(
          [c](const local<appended_message>& done) {
            --c.log->appends_open;
            c.log->appended.push_back(*done);
          },
          [c](const caf::error& e) {
            --c.log->appends_open;
            c.log->append_errors.push_back(from_caf(e, "append").code());
          });
}
/// Keeps `window` pulls open until the reader has ended or has failed too often.
void pull_more(copier_pointer self, const copier_config& c) {
  while (!c.log->ended && c.log->pulls_open < c.window) {
    ++c.log->pulls_open;
    c.log->max_pulls_open = std::max(c.log->max_pulls_open, c.log->pulls_open);
    self->request(c.from, 3600s, pull_atom_v)
        .then(
            [self, c](const local<message_delivery>& got) {
              --c.log->pulls_open;
              c.log->ended = c.log->ended || !got->message;
              if (got->message) {
                c.log->pulled.push_back(number_of(*got->message));
                append_one(self, c, c.log->pulled.back());
              }
              pull_more(self, c);
            },
            [self, c](const caf::error& e) {
              --c.log->pulls_open;
              c.log->pull_errors.push_back(from_caf(e, "pull").code());
              c.log->ended = c.log->ended || c.log->pull_errors.size() > c.max_errors;
              pull_more(self, c);
            });
  }
}
/// Starts to pull when it is launched.
copier_actor::behavior_type copier(copier_pointer self, copier_config c) {
  return {[self, c](launch_atom) { pull_more(self, c); }};
}

/// A system that lets time pass, so that readers try pipes again.
class flow : public stepped_system {
 public:
  using stepped_system::stepped_system;

  /// Runs until nothing is left to do. Up to `timers` milliseconds may pass.
  void run(std::size_t timers = 100'000) {
    for (std::size_t idle = 0; idle < 50 && timers > 0; ++idle, --timers) {
      while (step()) {
        idle = 0;
      }
      advance(1ms);
    }
  }
  template <class T, class Handle, class... As>
  result<T> ask(const Handle& to, As... as) {
    return ask_while<T>([this] { run(); }, to, std::move(as)...);
  }
};

/// Returns twelve messages of different lengths, one behind the other.
byte_vector twelve_messages() {
  std::vector<byte_vector> parts;
  for (std::uint64_t i = 0; i < 12; ++i) {
    parts.push_back(numbered_message(i, 1 + i % 3));
  }
  return concatenated(parts);
}
/// Returns the configuration of an appender to a file in memory.
message_appender_config appending_to(faulty_files& fs) {
  message_appender_config out;
  out.environment.fs = &fs;
  out.environment.lock = false;
  return out;
}

/// Copies messages from a pipe to a file.
flow_log copy(std::uint32_t seed, faulty_files& fs,
              const std::shared_ptr<byte_pipe>& pipe) {
  flow f(seed);
  flow_log log;
  message_reader_config reading;
  reading.environment.pipe = pipe;
  const auto reader = f.spawn(message_reader_io, reading);
  const auto appender = f.spawn(message_appender_io, appending_to(fs));
  message_source source;
  source.path = "pipe";
  source.prefetch = seed % 4;
  message_target target;
  target.path = "out/log.tgm";
  target.sync_bytes = seed % 3 == 0 ? 1000 : 1 << 20;
  or_throw(f.ask<local<message_source_info>>(reader, open_atom_v, by_reference(source)));
  or_throw(
      f.ask<local<message_target_info>>(appender, open_atom_v, by_reference(target)));
  const auto by = f.spawn(copier, copier_config{reader, appender, 1 + seed % 5, &log});
  f.self()->send(by, launch_atom_v);
  f.run();
  EXPECT_EQ(log.pulls_open, 0u) << "each pull is answered";
  EXPECT_EQ(log.appends_open, 0u) << "each append is answered";
  EXPECT_LE(log.max_pulls_open, 1 + seed % 5);
  return log;
}

// Each answer to an append says how far the file is durable, which must include the
// appended message. A sync for every append and one more would be 13 in each round; there
// must be fewer, so some appends share a sync.
TEST(message_flow, copies_a_pipe_into_a_file_whatever_the_order_of_events) {
  std::size_t syncs = 0;
  const std::uint64_t seeds = case_count("WEIR_TEST_INTERLEAVINGS", 300);
  for (std::uint32_t seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    faulty_files fs;
    fs.fail = [&](std::size_t, op_kind kind) -> std::optional<error> {
      syncs += kind == op_kind::sync ? 1 : 0;
      return std::nullopt;
    };
    const auto pipe = std::make_shared<scripted_pipe>(
        in_pieces(twelve_messages(), 100 + 37 * (seed % 20), 1 + seed % 4));
    const flow_log log = copy(seed, fs, pipe);
    EXPECT_TRUE(log.ended);
    EXPECT_TRUE(log.pull_errors.empty() && log.append_errors.empty());
    ASSERT_EQ(log.pulled.size(), 12u);
    EXPECT_TRUE(std::is_sorted(log.pulled.begin(), log.pulled.end()));
    const byte_vector written = fs.visible().at("out/log.tgm");
    const auto spans = formats::scan(bytes_view(written));
    ASSERT_EQ(log.appended.size(), spans.size());
    for (std::size_t i = 0; i < spans.size(); ++i) {
      EXPECT_EQ(log.appended[i].offset, spans[i].offset);
      EXPECT_EQ(log.appended[i].length, spans[i].length);
      EXPECT_GE(log.appended[i].durable, spans[i].offset + spans[i].length);
    }
  }
  EXPECT_LT(syncs, seeds * 13u) << "several appends share one sync";
}

TEST(message_flow, a_pipe_that_fails_answers_every_pull_and_earlier_messages_are_kept) {
  const byte_vector all = twelve_messages();
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    faulty_files fs;
    const std::size_t cut = all.size() * (seed + 1) / 101;
    const auto pipe = std::make_shared<scripted_pipe>(
        in_pieces(bytes_view(all).first(cut), 333, 2), error(errc::io, "no cable"));
    const flow_log log = copy(seed, fs, pipe);
    EXPECT_EQ(log.pulled.size(), formats::scan(bytes_view(all).first(cut)).size());
    ASSERT_GT(log.pull_errors.size(), 100u) << "each later pull gets the same error";
    EXPECT_EQ(log.pull_errors.front(), errc::io);
    EXPECT_EQ(log.appended.size(), log.pulled.size());
  }
}

TEST(message_flow, any_operation_on_the_file_may_fail_and_every_answer_is_true) {
  std::size_t refused = 0;
  const std::uint64_t seeds = case_count("WEIR_TEST_FAULTS", 150);
  for (std::uint32_t seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    faulty_files fs;
    // Opening takes fewer than ten operations. Each later operation fails in one of the
    // seeds.
    fs.fail = [&](std::size_t number, op_kind kind) -> std::optional<error> {
      const bool now = number == 10 + seed % 30 && kind != op_kind::read;
      return now ? std::optional(error(errc::no_space, "disk is full")) : std::nullopt;
    };
    const auto pipe =
        std::make_shared<scripted_pipe>(in_pieces(twelve_messages(), 400, 3));
    const flow_log log = copy(seed, fs, pipe);
    EXPECT_EQ(log.appended.size() + log.append_errors.size(), log.pulled.size());
    refused += log.append_errors.size();
    // Every message that was answered as durable is there after the worst crash.
    fs.fail = nullptr;
    std::uint64_t durable = 0;
    for (const appended_message& m : log.appended) {
      durable = std::max(durable, m.offset + m.length);
    }
    const auto states =
        fs.crash_states(disk_model::posix, [](const std::string&) { return true; });
    for (const disk& found : states) {
      const auto log_file = found.find("out/log.tgm");
      ASSERT_TRUE(durable == 0 || log_file != found.end());
      for (const appended_message& m : log.appended) {
        const bytes_view bytes = bytes_view(log_file->second).subspan(m.offset, m.length);
        const auto reader = formats::message_reader::open(bytes);
        EXPECT_TRUE(reader && reader->verify());
      }
    }
  }
  EXPECT_GT(refused, seeds / 8);
}

TEST(message_reader_actor, answers_the_fault_of_a_request) {
  flow f(1);
  faulty_files fs({{"in/a.tgm", numbered_message(5)}});
  message_reader_config config;
  config.environment.fs = &fs;
  const auto reader = f.spawn(message_reader_io, config);
  EXPECT_EQ(f.ask<local<message_delivery>>(reader, pull_atom_v).error().code(),
            errc::stopping);
  message_source source;
  source.path = "in/a.tgm";
  const auto order = by_reference(source);
  EXPECT_TRUE(f.ask<local<message_source_info>>(reader, open_atom_v, order));
  EXPECT_EQ(f.ask<local<message_source_info>>(reader, open_atom_v, order).error().code(),
            errc::already_exists);
  EXPECT_NE(or_throw(f.ask<std::string>(reader, status_atom_v)).find("1 held"),
            std::string::npos);
  EXPECT_EQ(
      number_of(*or_throw(f.ask<local<message_delivery>>(reader, pull_atom_v))->message),
      5u);
  EXPECT_FALSE(or_throw(f.ask<local<message_delivery>>(reader, pull_atom_v))->message);
}

TEST(message_reader_actor, keeps_no_more_pulls_than_allowed_and_drops_none) {
  flow f(2);
  message_reader_config config;
  config.environment.pipe = std::make_shared<silent_pipe>();
  const auto reader = f.spawn(message_reader_io, config);
  message_source source;
  source.path = "pipe";
  f.self()->send(reader, open_atom_v, by_reference(source));
  flow_log log;
  const auto appender = f.spawn(message_appender_io, message_appender_config{});
  const auto by =
      f.spawn(copier, copier_config{reader, appender, max_pulls + 3, &log, 2});
  f.run(5);  // open first
  f.self()->send(by, launch_atom_v);
  f.run(100);
  EXPECT_GE(log.pull_errors.size(), 3u);
  EXPECT_EQ(
      std::count(log.pull_errors.begin(), log.pull_errors.end(), errc::out_of_range),
      static_cast<std::ptrdiff_t>(log.pull_errors.size()));
  EXPECT_EQ(log.pulls_open, max_pulls);
  f.self()->send_exit(reader, caf::exit_reason::user_shutdown);
  f.run();
  EXPECT_EQ(log.pulls_open, 0u);
  EXPECT_EQ(log.pull_errors.back(), errc::abandoned);
}

TEST(message_appender_actor, answers_the_fault_of_a_request) {
  flow f(3);
  faulty_files fs;
  const auto appender = f.spawn(message_appender_io, appending_to(fs));
  const auto order = by_reference(numbered_order(1));
  EXPECT_EQ(f.ask<local<appended_message>>(appender, write_atom_v, order).error().code(),
            errc::stopping);
  EXPECT_EQ(f.ask<std::uint64_t>(appender, flush_atom_v).error().code(), errc::stopping);
  message_target target;
  target.path = "out/log.tgm";
  const auto opened = by_reference(target);
  EXPECT_TRUE(f.ask<local<message_target_info>>(appender, open_atom_v, opened));
  EXPECT_EQ(
      f.ask<local<message_target_info>>(appender, open_atom_v, opened).error().code(),
      errc::already_exists);
  message_order wrong = numbered_order(1);
  wrong.objects[0].descriptor.shape = {17};
  EXPECT_EQ(f.ask<local<appended_message>>(appender, write_atom_v, by_reference(wrong))
                .error()
                .code(),
            errc::invalid_argument);
  const auto done =
      or_throw(f.ask<local<appended_message>>(appender, write_atom_v, order));
  EXPECT_EQ(done->durable, done->offset + done->length);
  EXPECT_EQ(or_throw(f.ask<std::uint64_t>(appender, flush_atom_v)), done->durable);
}

}  // namespace
}  // namespace weir::test
