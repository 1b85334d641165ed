// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests files to which messages are appended: offsets, a failure of each operation, and
/// each state that a crash can leave.
#include <gtest/gtest.h>

#include "actors/tensogram_support.hpp"
#include "support/temp_folder.hpp"

namespace weir::test {
namespace {

using namespace actors;

/// Returns the target of all tests here.
message_target append_to(bool repair = false) {
  message_target out;
  out.path = "out/log.tgm";
  out.repair = repair;
  return out;
}
/// Opens the file in memory, without a lock.
result<std::unique_ptr<message_file>> open_log(faulty_files& fs, bool repair = false) {
  target_environment environment;
  environment.fs = &fs;
  environment.lock = false;
  return message_file::open(environment, append_to(repair));
}
/// Returns the content of the file.
const byte_vector& log_of(const disk& d) {
  return d.at("out/log.tgm");
}

TEST(message_file, offsets_are_those_of_the_messages_also_after_opening_again) {
  faulty_files fs;
  std::vector<formats::message_span> spans;
  for (std::uint64_t round = 0; round < 3; ++round) {
    const auto log = or_throw(open_log(fs));
    EXPECT_EQ(log->info().messages, spans.size());
    for (std::uint64_t i = 0; i < 2; ++i) {
      spans.push_back(or_throw(log->append(numbered_order(2 * round + i, 1 + i))));
    }
    EXPECT_LT(log->durable(), log->end());
    EXPECT_EQ(or_throw(log->sync()), log->end());
  }
  const byte_vector bytes = log_of(fs.visible());
  EXPECT_EQ(formats::scan(bytes_view(bytes)), spans);
}

TEST(message_file, takes_whole_messages_if_they_are_sound) {
  faulty_files fs;
  const auto log = or_throw(open_log(fs));
  byte_vector whole = numbered_message(4);
  message_order order;
  order.encoded = std::make_shared<const byte_vector>(whole);
  EXPECT_EQ(or_throw(log->append(order)).length, whole.size());
  order.encoded = std::make_shared<const byte_vector>(with_flipped_payload(whole));
  EXPECT_EQ(log->append(order).error().code(), errc::hash_mismatch);
  whole = concatenated({numbered_message(4), numbered_message(5)});
  order.encoded = std::make_shared<const byte_vector>(whole);
  EXPECT_EQ(log->append(order).error().code(), errc::corrupt)
      << "bytes of two messages are not accepted as one message";
  EXPECT_EQ(log_of(fs.visible()), numbered_message(4));
}

TEST(message_file, bytes_behind_the_last_sound_message_are_cut_only_on_request) {
  const byte_vector flipped = with_flipped_payload(numbered_message(2));
  byte_vector cut = numbered_message(3);
  cut.resize(60);
  const byte_vector sound = concatenated({numbered_message(0), numbered_message(1)});
  faulty_files fs({{"out/log.tgm", concatenated({sound, flipped, cut})}});
  const auto refused = open_log(fs);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), errc::torn);
  EXPECT_EQ(refused.error().location(), "out/log.tgm:" + std::to_string(sound.size()));
  const auto log = or_throw(open_log(fs, true));
  EXPECT_EQ(log->info().cut_bytes, flipped.size() + 60);
  EXPECT_EQ(log->info().messages, 2u);
  EXPECT_EQ(log_of(fs.visible()), sound);
}

TEST(message_file, a_message_that_does_not_fit_leaves_the_file_as_it_was) {
  faulty_files fs;
  const auto log = or_throw(open_log(fs));
  or_throw(log->append(numbered_order(0)));
  fs.fail = [](std::size_t, op_kind kind) -> std::optional<error> {
    return kind == op_kind::write ? std::optional(error(errc::no_space, "disk is full"))
                                  : std::nullopt;
  };
  EXPECT_EQ(log->append(numbered_order(1)).error().code(), errc::no_space);
  EXPECT_EQ(log_of(fs.visible()), numbered_message(0));
  fs.fail = nullptr;
  or_throw(log->append(numbered_order(2)));
  EXPECT_EQ(or_throw(log->sync()), log->end());
  EXPECT_EQ(log_of(fs.visible()),
            concatenated({numbered_message(0), numbered_message(2)}));
}

TEST(message_file, is_broken_after_a_failure_that_cannot_be_undone) {
  for (const op_kind broken : {op_kind::resize, op_kind::sync}) {
    faulty_files fs;
    const auto log = or_throw(open_log(fs));
    or_throw(log->append(numbered_order(0)));
    const std::uint64_t durable = or_throw(log->sync());
    fs.fail = [&](std::size_t, op_kind kind) -> std::optional<error> {
      const bool now =
          kind == broken || (kind == op_kind::write && broken == op_kind::resize);
      return now ? std::optional(error(errc::io, "gone")) : std::nullopt;
    };
    const auto appended = log->append(numbered_order(1));
    EXPECT_EQ(appended.has_value(), broken == op_kind::sync);
    EXPECT_EQ(log->sync().error().code(), errc::io);
    fs.fail = nullptr;
    EXPECT_EQ(log->append(numbered_order(2)).error().text(), "gone");
    EXPECT_EQ(log->sync().error().text(), "gone");
    EXPECT_EQ(log->durable(), durable);
  }
}

/// Checks a disk after a crash: every message that was durable is at its offset, and
/// messages can be appended again.
void expect_recovery(const disk& found, std::uint64_t durable, std::uint64_t messages) {
  faulty_files fs(found);
  const auto log = or_throw(open_log(fs, true));
  EXPECT_GE(log->end(), durable);
  EXPECT_GE(log->info().messages, messages);
  or_throw(log->append(numbered_order(77)));
  or_throw(log->sync());
  const byte_vector bytes = log_of(fs.visible());
  ASSERT_GE(bytes.size(), durable);
  byte_vector expected;
  for (std::uint64_t i = 0; i < messages; ++i) {
    expected = concatenated({expected, numbered_message(i)});
  }
  ASSERT_EQ(expected.size(), durable);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), bytes.begin()));
}

// Every state that a crash may leave is recovered, at every change of the disk. Messages
// that a sync has made durable must be there at their offsets.
TEST(message_file, no_crash_removes_a_durable_message) {
  std::size_t states = 0;
  for (const disk_model model : {disk_model::posix, disk_model::ext4}) {
    faulty_files fs;
    std::uint64_t durable = 0;
    std::uint64_t messages = 0;
    fs.max_bytes = 300;  // a message takes two writes
    fs.after_change = [&] {
      const auto all = fs.crash_states(model, [](const std::string&) { return true; });
      for (const disk& found : all) {
        expect_recovery(found, durable, messages);
        ++states;
      }
    };
    const auto log = or_throw(open_log(fs));
    for (std::uint64_t i = 0; i < 6; ++i) {
      or_throw(log->append(numbered_order(i)));
      if (i % 2 == 1) {
        durable = or_throw(log->sync());
        messages = i + 1;
      }
    }
  }
  EXPECT_GT(states, 100u);
}

TEST(message_file, a_file_has_one_appender) {
  const temp_folder folder;
  message_target target;
  target.path = folder.path() + "/log.tgm";
  const auto first = or_throw(message_file::open({}, target));
  const auto second = message_file::open({}, target);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), errc::locked);
}

}  // namespace
}  // namespace weir::test
