// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests feeds of messages from files, folders and pipes: order, damage and failures.
#include <gtest/gtest.h>

#include "actors/tensogram_support.hpp"
#include "tensogram/reader_state.hpp"

namespace weir::test {
namespace {

using namespace actors;
using numbers = std::vector<std::uint64_t>;

/// Returns the bytes of a text.
byte_vector plain(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

/// Returns a disk with a folder of three message files, which hold five messages, and two
/// other files that a feed must ignore.
disk folder_of_three() {
  return {{"in/a.tgm", concatenated({numbered_message(0), numbered_message(1)})},
          {"in/b.tgm", numbered_message(2)},
          {"in/b.txt", plain("not a message")},
          {"in/c.tgm", concatenated({numbered_message(3, 500), numbered_message(4)})},
          {"other/d.tgm", numbered_message(9)}};
}
/// Returns a source with default settings.
message_source source_at(std::string path) {
  message_source out;
  out.path = std::move(path);
  return out;
}
/// Opens a feed over files in memory.
std::unique_ptr<message_feed> feed_of(file_system& fs, const message_source& source) {
  feed_environment environment;
  environment.fs = &fs;
  return or_throw(open_feed(environment, source));
}
/// Opens a feed over a pipe.
std::unique_ptr<message_feed> piped(std::shared_ptr<byte_pipe> pipe,
                                    message_source source = source_at("pipe")) {
  feed_environment environment;
  environment.pipe = std::move(pipe);
  return or_throw(open_feed(environment, source));
}

TEST(message_feed, reads_the_files_of_a_folder_in_order_and_goes_on_anywhere) {
  faulty_files fs(folder_of_three());
  const auto feed = feed_of(fs, source_at("in"));
  EXPECT_EQ(feed->info().origin, message_origin::folder);
  EXPECT_EQ(feed->info().files, (std::vector<std::string>{"a.tgm", "b.tgm", "c.tgm"}));
  const fed all = read_all(*feed);
  EXPECT_TRUE(all.errors.empty());
  EXPECT_EQ(all.numbers, (numbers{0, 1, 2, 3, 4}));
  for (std::size_t i = 0; i < all.deliveries.size(); ++i) {
    message_source rest = source_at("in");
    rest.start = all.deliveries[i].next;
    EXPECT_EQ(read_all(*feed_of(fs, rest)).numbers,
              numbers(all.numbers.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                      all.numbers.end()))
        << rest.start.file << ":" << rest.start.offset;
  }
}

TEST(message_feed, reads_one_file_and_decodes_ahead_on_request) {
  faulty_files fs(folder_of_three());
  message_source source = source_at("in/c.tgm");
  source.decode = true;
  source.prefetch_bytes = 2000;  // the first message is larger and stays in its file
  const fed all = read_all(*feed_of(fs, source));
  EXPECT_EQ(all.numbers, (numbers{3, 4}));
  ASSERT_EQ(all.deliveries[0].elements.size(), 1u);
  EXPECT_EQ(all.deliveries[0].elements[0].size(), 4000u);
  EXPECT_EQ(all.deliveries[1].place.offset, all.deliveries[0].length);
}

TEST(message_feed, an_empty_folder_ends_and_a_missing_path_is_an_error) {
  faulty_files fs;
  EXPECT_TRUE(read_all(*feed_of(fs, source_at("nothing"))).numbers.empty());
  message_source file = source_at("nothing");
  file.origin = message_origin::file;
  feed_environment environment;
  environment.fs = &fs;
  EXPECT_EQ(open_feed(environment, file).error().code(), errc::not_found);
  EXPECT_EQ(open_feed({}, source_at("/nowhere/at/all")).error().code(), errc::not_found);
}

TEST(message_feed, positions_that_cannot_be_are_refused) {
  faulty_files fs(folder_of_three());
  feed_environment environment;
  environment.fs = &fs;
  message_source source = source_at("in/b.tgm");
  source.start.offset = 100'000;
  EXPECT_EQ(open_feed(environment, source).error().code(), errc::out_of_range);
  source = source_at("in");
  source.start.file = "bb.tgm";
  EXPECT_EQ(open_feed(environment, source).error().code(), errc::not_found);
  environment.pipe = std::make_shared<scripted_pipe>(std::deque<byte_vector>{});
  EXPECT_EQ(open_feed(environment, source).error().code(), errc::invalid_argument);
}

/// Returns message 0, garbage, message 1 with a flipped bit, message 2, and a message
/// that is cut short.
byte_vector damaged() {
  const byte_vector flipped = with_flipped_payload(numbered_message(1));
  byte_vector cut = numbered_message(3);
  cut.resize(cut.size() - 10);
  return concatenated(
      {numbered_message(0), plain("rubbish"), flipped, numbered_message(2), cut});
}
/// Expects the two sound messages of `damaged()`, and one error with its place for each
/// damaged part.
void expect_damage(const fed& all, const std::string& name) {
  const std::size_t size = numbered_message(0).size();
  EXPECT_EQ(all.numbers, (numbers{0, 2}));
  ASSERT_EQ(all.errors.size(), 3u);
  EXPECT_EQ(all.errors[0].code(), errc::corrupt);
  EXPECT_EQ(all.errors[0].location(), name + ":" + std::to_string(size));
  EXPECT_EQ(all.errors[1].code(), errc::hash_mismatch);
  EXPECT_EQ(all.errors[1].location(), name + ":" + std::to_string(size + 7));
  EXPECT_EQ(all.errors[2].code(), errc::torn);
  EXPECT_EQ(all.errors[2].location(), name + ":" + std::to_string(3 * size + 7));
}

TEST(message_feed, damage_is_one_error_each_and_the_rest_is_read) {
  message_source source = source_at("in/x.tgm");
  source.decode = true;
  faulty_files fs({{"in/x.tgm", damaged()}});
  expect_damage(read_all(*feed_of(fs, source)), "in/x.tgm");
  for (const std::size_t step : {1U, 40U, 100'000U}) {
    const auto script = in_pieces(damaged(), step, 3);
    source.path = "pipe";
    expect_damage(read_all(*piped(std::make_shared<scripted_pipe>(script), source)),
                  "pipe");
  }
}

TEST(message_feed, passes_over_garbage_on_request_and_counts_it) {
  const std::uint64_t cut = numbered_message(3).size() - 10;
  message_source source = source_at("in/x.tgm");
  source.skip_garbage = true;
  source.decode = true;
  faulty_files fs({{"in/x.tgm", damaged()}});
  const fed from_file = read_all(*feed_of(fs, source));
  EXPECT_EQ(from_file.numbers, (numbers{0, 2}));
  EXPECT_EQ(from_file.errors.size(), 1u)
      << "the message with the flipped byte is one error";
  EXPECT_EQ(from_file.skipped, cut)
      << "the bytes before the damaged message are skipped together with it";
  const auto script = in_pieces(damaged(), 64, 2);
  const fed from_pipe = read_all(*piped(std::make_shared<scripted_pipe>(script), source));
  EXPECT_EQ(from_pipe.numbers, from_file.numbers);
  EXPECT_EQ(from_pipe.skipped, cut);
}

TEST(message_feed, a_pipe_that_fails_has_ended_and_says_where) {
  const byte_vector one = numbered_message(7);
  const auto feed = piped(std::make_shared<scripted_pipe>(
      in_pieces(one, 50, 2), error(errc::io, "the cable is out")));
  const fed all = read_all(*feed);
  EXPECT_EQ(all.numbers, (numbers{7}));
  ASSERT_EQ(all.errors.size(), 1u);
  EXPECT_EQ(all.errors[0].location(), "pipe:" + std::to_string(one.size()));
  EXPECT_EQ(all.errors[0].root().text(), "the cable is out");
  EXPECT_TRUE(feed->ended());
}

// Each operation of the file system fails in one of the rounds. The feed may stop early,
// but it then reports one error and has read the messages in order.
TEST(message_feed, any_operation_may_fail_and_nothing_wrong_is_read) {
  faulty_files counting(folder_of_three());
  ASSERT_EQ(read_all(*feed_of(counting, source_at("in"))).numbers.size(), 5u);
  std::size_t partly = 0;
  for (std::size_t n = 0; n < counting.operations(); ++n) {
    SCOPED_TRACE("operation " + std::to_string(n));
    faulty_files fs(folder_of_three());
    fs.fail = [&](std::size_t number, op_kind) -> std::optional<error> {
      return number == n ? std::optional(error(errc::io, "injected")) : std::nullopt;
    };
    feed_environment environment;
    environment.fs = &fs;
    message_source source = source_at("in");
    source.origin = message_origin::folder;
    auto feed = open_feed(environment, source);
    if (!feed) {
      EXPECT_EQ(feed.error().root().code(), errc::io);
      continue;
    }
    const fed all = read_all(**feed);
    EXPECT_LE(all.errors.size(), 1u);
    EXPECT_TRUE(std::is_sorted(all.numbers.begin(), all.numbers.end()));
    EXPECT_EQ(all.errors.empty(), all.numbers.size() == 5);
    partly += all.errors.size();
  }
  EXPECT_GT(partly, 5u);
}

TEST(reader_state, holds_the_requested_messages_within_its_limits) {
  std::vector<byte_vector> parts;
  for (std::uint64_t i = 0; i < 20; ++i) {
    parts.push_back(numbered_message(i));
  }
  faulty_files fs({{"in/x.tgm", concatenated(parts)}});
  message_source source = source_at("in/x.tgm");
  source.prefetch = 3;
  source.prefetch_bytes = 2 * parts[0].size();
  reader_state state(feed_of(fs, source), source);
  EXPECT_FALSE(state.take());
  while (state.wants(0)) {
    EXPECT_EQ(state.read(), reader_state::step::buffered);
  }
  EXPECT_EQ(state.buffered(), 2u) << "the limit of bytes ends reading ahead";
  while (state.wants(5)) {
    EXPECT_EQ(state.read(), reader_state::step::buffered);
  }
  EXPECT_EQ(state.buffered(), 5u) << "pulls are answered beyond the limit of bytes";
  EXPECT_EQ(state.buffered_bytes(), 5 * parts[0].size());
  for (std::uint64_t i = 0; i < 20; ++i) {
    while (state.wants(1)) {
      static_cast<void>(state.read());
    }
    const auto next = state.take();
    ASSERT_TRUE(next && next->has_value());
    EXPECT_EQ(number_of(*(*next)->message), i);
  }
  while (state.wants(1)) {
    static_cast<void>(state.read());
  }
  EXPECT_EQ(state.buffered_bytes(), 0u);
  EXPECT_EQ((*state.take())->message, nullptr)
      << "the first pull behind the end gets the empty message";
  EXPECT_EQ((*state.take())->message, nullptr)
      << "every later pull gets the empty message too";
  EXPECT_EQ(state.delivered(), 20u);
}

TEST(reader_state, reads_nothing_ahead_without_prefetch) {
  faulty_files fs(folder_of_three());
  message_source source = source_at("in");
  source.prefetch = 0;
  reader_state state(feed_of(fs, source), source);
  EXPECT_FALSE(state.wants(0));
  EXPECT_TRUE(state.wants(1));
}

}  // namespace
}  // namespace weir::test
