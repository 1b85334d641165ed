// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests tasks: their results, their end, callbacks and tokens, and files that tasks
/// read.
#include <atomic>
#include <chrono>
#include <limits>
#include <thread>

#include "conformance/tensogram_c/support.hpp"
#include "support/temp_folder.hpp"

namespace weir::test::tgm {
namespace {

/// A file of two messages that is open for tasks. Its functions launch tasks.
struct two_messages {
  temp_folder folder;
  std::string path = folder / "two.tgm";
  std::string one = encode_two();
  made<async_file> open;

  two_messages() {
    write_whole(path, one + one);
    const auto opening = make<task>(tgm_async_file_open, path.c_str(), nullptr, 0u);
    EXPECT_EQ(opening.code, TGM_ERROR_OK) << last_error();
    open = make<async_file>(tgm_async_task_join_async_file, opening.get());
    EXPECT_EQ(open.code, TGM_ERROR_OK) << last_error();
  }
  [[nodiscard]] tgm_async_file_t* get() const { return open.get(); }
  /// Launches the counting of messages.
  [[nodiscard]] made<task> count(tgm_cancellation_token_t* cancel = nullptr,
                                 std::uint64_t timeout = 0) const {
    return make<task>(tgm_async_file_message_count, get(), cancel, timeout);
  }
  [[nodiscard]] made<task> read(std::size_t message) const {
    return make<task>(tgm_async_file_read_message, get(), message, nullptr, 0u);
  }
  [[nodiscard]] made<task> decode_one(std::size_t message, bool verify = true) const {
    return make<task>(tgm_async_file_decode_message, get(), message, true, 0u, true,
                      verify, nullptr, 0u);
  }
  [[nodiscard]] made<task> decode_object(std::size_t message, std::size_t object) const {
    return make<task>(tgm_async_file_decode_object, get(), message, object, true, 0u,
                      true, true, nullptr, 0u);
  }
  [[nodiscard]] made<task> decode_ranges(std::size_t message, std::size_t object,
                                         const std::vector<std::uint64_t>& offsets,
                                         const std::vector<std::uint64_t>& counts,
                                         std::size_t ranges) const {
    return make<task>(tgm_async_file_decode_range, get(), message, object, offsets.data(),
                      counts.data(), ranges, true, 0u, nullptr, 0u);
  }
};

TEST(tensogram_c, tasks_read_what_calls_read) {
  const two_messages from;
  EXPECT_STREQ(tgm_async_file_path(from.get()), from.path.c_str());
  std::uint64_t count = 0;
  EXPECT_EQ(joined_size(from.count(), count), TGM_ERROR_OK) << last_error();
  EXPECT_EQ(count, 2u);
  owned raw;
  ASSERT_EQ(tgm_async_task_join_bytes(from.read(1).get(), &raw.bytes), TGM_ERROR_OK);
  EXPECT_TRUE(raw.text() == from.one);
  const two_arrays arrays;
  const auto whole = make<message>(tgm_async_task_join_message, from.decode_one(0).get());
  ASSERT_EQ(whole.code, TGM_ERROR_OK) << last_error();
  EXPECT_EQ(tgm_message_num_objects(whole.get()), 2u);
  EXPECT_EQ(std::memcmp(tgm_object_data(whole.get(), 1, nullptr), arrays.b.data(), 24),
            0);
  const auto object =
      make<message>(tgm_async_task_join_message, from.decode_object(1, 1).get());
  ASSERT_EQ(object.code, TGM_ERROR_OK) << last_error();
  EXPECT_EQ(tgm_message_num_objects(object.get()), 1u);
  EXPECT_EQ(std::memcmp(tgm_object_data(object.get(), 0, nullptr), arrays.b.data(), 24),
            0);
  const auto reading =
      make<task>(tgm_async_file_decode_metadata, from.get(), std::size_t{1}, nullptr, 0u);
  const auto meta = make<metadata>(tgm_async_task_join_metadata, reading.get());
  ASSERT_EQ(meta.code, TGM_ERROR_OK) << last_error();
  EXPECT_STREQ(tgm_metadata_get_string_at(meta.get(), 1, "name"), "b");
  tgm_bytes_t* parts = nullptr;
  std::size_t found = 0;
  ASSERT_EQ(tgm_async_task_join_multi_bytes(
                from.decode_ranges(0, 1, {2, 0}, {1, 2}, 2).get(), &parts, &found),
            TGM_ERROR_OK)
      << last_error();
  ASSERT_EQ(found, 2u);
  EXPECT_EQ(std::memcmp(parts[0].data, &arrays.b[2], 8), 0);
  EXPECT_EQ(parts[1].len, 16u);
  tgm_multi_bytes_free(parts, found);
  ASSERT_EQ(tgm_async_task_join_multi_bytes(from.decode_ranges(0, 1, {2}, {1}, 0).get(),
                                            &parts, &found),
            TGM_ERROR_OK);
  EXPECT_EQ(found, 0u);
  tgm_multi_bytes_free(parts, found);
}

TEST(tensogram_c, failures_of_a_task_are_returned_by_its_join) {
  const two_messages from;
  owned raw;
  EXPECT_EQ(tgm_async_task_join_bytes(from.read(2).get(), &raw.bytes), TGM_ERROR_OBJECT);
  EXPECT_NE(last_error().find("message 2"), std::string::npos) << last_error();
  EXPECT_EQ(joined_message(from.decode_one(2)), TGM_ERROR_OBJECT);
  EXPECT_EQ(joined_message(from.decode_object(0, 2)), TGM_ERROR_OBJECT);
  EXPECT_EQ(joined_message(from.decode_object(2, 0)), TGM_ERROR_OBJECT);
  tgm_bytes_t* parts = nullptr;
  std::size_t found = 0;
  const auto ranges = [&](std::size_t object, std::uint64_t offset) {
    return tgm_async_task_join_multi_bytes(
        from.decode_ranges(0, object, {offset}, {1}, 1).get(), &parts, &found);
  };
  EXPECT_EQ(ranges(0, 4), TGM_ERROR_ENCODING);
  EXPECT_EQ(ranges(2, 0), TGM_ERROR_OBJECT);
  EXPECT_EQ(parts, nullptr);
  write_whole(from.path, encode_two(nullptr));
  const auto opening = make<task>(tgm_async_file_open, from.path.c_str(), nullptr, 0u);
  const auto bare = make<async_file>(tgm_async_task_join_async_file, opening.get());
  const auto decoding = [&](bool verify) {
    return joined_message(make<task>(tgm_async_file_decode_message, bare.get(),
                                     std::size_t{0}, true, 0u, true, verify, nullptr,
                                     0u));
  };
  EXPECT_EQ(decoding(true), TGM_ERROR_MISSING_HASH);
  EXPECT_EQ(decoding(false), TGM_ERROR_OK) << last_error();
  EXPECT_EQ(make<task>(tgm_async_file_open, "\xff", nullptr, 0u).code,
            TGM_ERROR_INVALID_ARG);
  const auto folder =
      make<task>(tgm_async_file_open, from.folder.path().c_str(), nullptr, 0u);
  EXPECT_EQ(make<async_file>(tgm_async_task_join_async_file, folder.get()).code,
            TGM_ERROR_IO);
}

TEST(tensogram_c, a_result_is_handed_out_once_and_only_to_a_join_of_its_kind) {
  const two_messages from;
  const auto counting = from.count();
  std::uint64_t count = 0;
  owned bytes;
  tgm_bytes_t* parts = nullptr;
  std::size_t found = 99;
  EXPECT_EQ(tgm_async_task_join_void(counting.get()), TGM_ERROR_INVALID_ARG);
  EXPECT_EQ(tgm_async_task_join_bytes(counting.get(), &bytes.bytes),
            TGM_ERROR_INVALID_ARG);
  EXPECT_EQ(tgm_async_task_join_multi_bytes(counting.get(), &parts, &found),
            TGM_ERROR_INVALID_ARG);
  EXPECT_EQ(
      joined_message(make<task>(tgm_async_file_message_count, from.get(), nullptr, 0u)),
      TGM_ERROR_INVALID_ARG);
  EXPECT_EQ(make<metadata>(tgm_async_task_join_metadata, counting.get()).code,
            TGM_ERROR_INVALID_ARG);
  EXPECT_EQ(make<async_file>(tgm_async_task_join_async_file, counting.get()).code,
            TGM_ERROR_INVALID_ARG);
  EXPECT_EQ(
      make<async_encoder>(tgm_async_task_join_async_streaming_encoder, counting.get())
          .code,
      TGM_ERROR_INVALID_ARG);
  EXPECT_EQ(found, 99u);
  ASSERT_EQ(tgm_async_task_join_size(counting.get(), &count), TGM_ERROR_OK)
      << "the result was left where it was: " << last_error();
  EXPECT_EQ(count, 2u);
  EXPECT_EQ(tgm_async_task_join_size(counting.get(), &count), TGM_ERROR_INVALID_ARG);
  EXPECT_TRUE(tgm_async_task_is_ready(counting.get()));
  const auto failing = from.read(9);
  EXPECT_EQ(tgm_async_task_join_bytes(failing.get(), &bytes.bytes), TGM_ERROR_OBJECT);
  EXPECT_EQ(tgm_async_task_join_bytes(failing.get(), &bytes.bytes),
            TGM_ERROR_INVALID_ARG);
}

/// Counts the calls of a callback; a test can wait for the first one.
struct called {
  std::atomic<int> times = 0;
  tgm_async_task_t* joins = nullptr;  ///< task that the callback joins and frees
  tgm_error code = TGM_ERROR_IO;

  /// The callback; `userdata` is the object.
  static void now(void* userdata) {
    auto* c = static_cast<called*>(userdata);
    if (c->joins != nullptr) {
      std::uint64_t count = 0;
      c->code = tgm_async_task_join_size(c->joins, &count);
      tgm_async_task_free(c->joins);
    }
    ++c->times;
    c->times.notify_all();
  }
  void wait() const { times.wait(0); }
};

TEST(tensogram_c, a_callback_is_called_once_when_the_task_has_ended) {
  const two_messages from;
  called early;
  called late;
  called never;
  {
    blocked_workers blocked(from.folder / "pipe");
    const auto counting = from.count();
    EXPECT_EQ(tgm_async_task_set_completion(counting.get(), &called::now, &early),
              TGM_ERROR_OK)
        << last_error();
    EXPECT_EQ(tgm_async_task_set_completion(counting.get(), &called::now, &never),
              TGM_ERROR_INVALID_ARG)
        << "a task has at most one completion callback";
    EXPECT_FALSE(tgm_async_task_is_ready(counting.get()));
    EXPECT_EQ(early.times, 0);
    blocked.release();
    early.wait();
    EXPECT_TRUE(tgm_async_task_is_ready(counting.get()));
    std::uint64_t count = 0;
    EXPECT_EQ(joined_size(counting, count), TGM_ERROR_OK);
  }
  const auto ended = from.count();
  while (!tgm_async_task_is_ready(ended.get())) {
    std::this_thread::yield();
  }
  EXPECT_EQ(tgm_async_task_set_completion(ended.get(), &called::now, &late),
            TGM_ERROR_OK);
  late.wait();
  const auto joined = from.count();
  std::uint64_t count = 0;
  ASSERT_EQ(joined_size(joined, count), TGM_ERROR_OK);
  EXPECT_EQ(tgm_async_task_set_completion(joined.get(), &called::now, &never),
            TGM_ERROR_INVALID_ARG)
      << "a task that was joined accepts no callback";
  EXPECT_EQ(early.times, 1);
  EXPECT_EQ(late.times, 1);
  EXPECT_EQ(never.times, 0);
}

TEST(tensogram_c, a_callback_may_join_and_free_its_task) {
  const two_messages from;
  called joins;
  {
    blocked_workers blocked(from.folder / "pipe");
    auto counting = from.count();
    joins.joins = counting.handle.release();
    EXPECT_EQ(tgm_async_task_set_completion(joins.joins, &called::now, &joins),
              TGM_ERROR_OK);
  }
  joins.wait();
  EXPECT_EQ(joins.code, TGM_ERROR_OK);
  called cancelled;
  blocked_workers blocked(from.folder / "pipe2");
  auto counting = from.count();
  EXPECT_EQ(tgm_async_task_set_completion(counting.get(), &called::now, &cancelled),
            TGM_ERROR_OK);
  tgm_async_task_cancel(counting.get());
  counting.handle.reset();
  cancelled.wait();
  EXPECT_EQ(cancelled.times, 1)
      << "the callback of a task that is cancelled and freed is called once";
}

TEST(tensogram_c, a_task_that_is_cancelled_ends_at_once) {
  const two_messages from;
  std::uint64_t count = 0;
  const auto ended = from.count();
  while (!tgm_async_task_is_ready(ended.get())) {
    std::this_thread::yield();
  }
  tgm_async_task_cancel(ended.get());
  EXPECT_EQ(joined_size(ended, count), TGM_ERROR_OK)
      << "a cancellation after the end has no effect";
  const blocked_workers blocked(from.folder / "pipe");
  const auto waiting = from.count();
  const auto other = from.count();
  tgm_async_task_cancel(waiting.get());
  tgm_async_task_cancel(waiting.get());
  EXPECT_TRUE(tgm_async_task_is_ready(waiting.get()));
  EXPECT_EQ(joined_size(waiting, count), TGM_ERROR_CANCELLED);
  EXPECT_NE(last_error().find("cancelled"), std::string::npos) << last_error();
  EXPECT_FALSE(tgm_async_task_is_ready(other.get())) << "the other tasks go on";
}

TEST(tensogram_c, a_token_cancels_the_tasks_that_were_launched_with_it) {
  const two_messages from;
  std::uint64_t count = 0;
  token cancel(tgm_cancellation_token_create());
  ASSERT_NE(cancel, nullptr);
  EXPECT_FALSE(tgm_cancellation_token_is_cancelled(cancel.get()));
  EXPECT_EQ(joined_size(from.count(cancel.get()), count), TGM_ERROR_OK) << last_error();
  std::vector<made<task>> waiting;
  const blocked_workers blocked(from.folder / "pipe");
  for (int i = 0; i < 40; ++i) {
    waiting.push_back(from.count(cancel.get()));
  }
  const auto alone = from.count();
  tgm_cancellation_token_cancel(cancel.get());
  tgm_cancellation_token_cancel(cancel.get());
  EXPECT_TRUE(tgm_cancellation_token_is_cancelled(cancel.get()));
  for (const auto& each : waiting) {
    EXPECT_EQ(joined_size(each, count), TGM_ERROR_CANCELLED);
  }
  EXPECT_FALSE(tgm_async_task_is_ready(alone.get()));
  const auto later = from.count(cancel.get());
  EXPECT_TRUE(tgm_async_task_is_ready(later.get()));
  EXPECT_EQ(joined_size(later, count), TGM_ERROR_CANCELLED);
}

TEST(tensogram_c, a_task_that_takes_too_long_ends_at_its_time) {
  const two_messages from;
  std::uint64_t count = 0;
  constexpr std::uint64_t forever = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(joined_size(from.count(nullptr, forever), count), TGM_ERROR_OK)
      << last_error();
  const blocked_workers blocked(from.folder / "pipe");
  const auto begin = std::chrono::steady_clock::now();
  const auto long_time = from.count(nullptr, 60'000);
  const auto second = from.count(nullptr, 60);
  const auto first = from.count(nullptr, 20);
  EXPECT_EQ(joined_size(first, count), TGM_ERROR_TIMEOUT);
  EXPECT_EQ(joined_size(second, count), TGM_ERROR_TIMEOUT);
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(took, std::chrono::milliseconds(60));
  EXPECT_FALSE(tgm_async_task_is_ready(long_time.get()));
  EXPECT_STREQ(tgm_error_string(TGM_ERROR_TIMEOUT), "async task timed out");
}

TEST(tensogram_c, handles_may_go_before_the_tasks_that_use_them) {
  two_messages from;
  made<task> reading;
  made<task> cancelled;
  {
    const blocked_workers blocked(from.folder / "pipe");
    token cancel(tgm_cancellation_token_create());
    reading = from.read(0);
    cancelled = from.count(cancel.get());
    (void)from.decode_one(0);  // this task is freed before it has ended and never joined
    tgm_cancellation_token_cancel(cancel.get());
    cancel.reset();
    from.open.handle.reset();
  }
  owned bytes;
  ASSERT_EQ(tgm_async_task_join_bytes(reading.get(), &bytes.bytes), TGM_ERROR_OK)
      << last_error();
  EXPECT_TRUE(bytes.text() == from.one);
  std::uint64_t count = 0;
  EXPECT_EQ(joined_size(cancelled, count), TGM_ERROR_CANCELLED);
}

TEST(tensogram_c, a_file_serves_many_threads_at_once) {
  const two_messages from;
  std::atomic<int> good = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (std::size_t round = 0; round < 20; ++round) {
        const auto decoding = from.decode_one(round % 2);
        std::uint64_t count = 0;
        good += joined_size(from.count(), count) == TGM_ERROR_OK && count == 2;
        good += joined_message(decoding) == TGM_ERROR_OK;
      }
    });
  }
  for (std::thread& each : threads) {
    each.join();
  }
  EXPECT_EQ(good, 160);
}

TEST(tensogram_c, a_buffer_is_decoded_by_a_task) {
  const std::string bytes = encode_two();
  const auto decoding = [&](std::size_t length, std::uint64_t limit) {
    tgm_x_decode_options_t options{};
    options.struct_size = sizeof options;
    options.max_object_bytes = limit;
    return joined_message(
        make<task>(tgm_x_async_decode, as_u8(bytes), length, &options, nullptr, 0u));
  };
  EXPECT_EQ(decoding(bytes.size(), 0), TGM_ERROR_OK) << last_error();
  EXPECT_EQ(decoding(20, 0), TGM_ERROR_FRAMING);
  EXPECT_EQ(decoding(bytes.size(), 8), TGM_ERROR_OBJECT);
}

TEST(tensogram_c, a_buffer_may_go_before_the_task_that_decodes_it) {
  const temp_folder folder;
  std::string bytes = encode_two();
  made<task> decoding;
  {
    const blocked_workers blocked(folder / "pipe");
    decoding =
        make<task>(tgm_x_async_decode, as_u8(bytes), bytes.size(), nullptr, nullptr, 0u);
    bytes.assign(bytes.size(), '\0');
  }
  EXPECT_EQ(joined_message(decoding), TGM_ERROR_OK) << last_error();
}

}  // namespace
}  // namespace weir::test::tgm
