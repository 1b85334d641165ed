// SPDX-License-Identifier: Apache-2.0
// The C interface: tasks on threads of their own, tokens that cancel them.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>

#include "formats/tgm_c/messages.hpp"
#include "support/temp_folder.hpp"

namespace weir::test {
namespace {

/// What a task told when it ended.
struct told {
  std::atomic<int> calls = 0;
  std::atomic<int> code = -1;
  static void done(void* context, tgm_error code) {
    auto* t = static_cast<told*>(context);
    t->code = code;
    ++t->calls;
  }
};

TEST(tgm_c, a_task_decodes_on_a_thread_of_its_own) {
  const tgm_bytes bytes = encoded();
  told end;
  tgm_task* task = nullptr;
  ASSERT_EQ(tgm_decode_async(bytes.data, bytes.length, nullptr, &told::done, &end, &task),
            TGM_OK);
  tgm_message* message = nullptr;
  ASSERT_EQ(tgm_task_join(task, 0, &message), TGM_OK) << tgm_last_error();
  EXPECT_EQ(tgm_task_is_ready(task), 1);
  const std::uint8_t* data = nullptr;
  std::size_t length = 0;
  ASSERT_EQ(tgm_object_data(message, 1, &data, &length), TGM_OK);
  EXPECT_EQ(std::memcmp(data, two_arrays().b.data(), 24), 0);
  EXPECT_EQ(tgm_task_join(task, 1, &message), TGM_INVALID_ARG) << "it was handed out";
  tgm_task_free(task);
  EXPECT_EQ(end.calls, 1);
  EXPECT_EQ(end.code, TGM_OK);
  tgm_message_free(message);
  tgm_bytes_free(bytes);
}

TEST(tgm_c, a_task_tells_what_went_wrong_and_can_be_cancelled) {
  const tgm_bytes bytes = encoded();
  tgm_task* task = nullptr;
  tgm_message* message = nullptr;
  ASSERT_EQ(tgm_decode_async(bytes.data, 20, nullptr, nullptr, nullptr, &task), TGM_OK);
  EXPECT_EQ(tgm_task_join(task, 0, &message), TGM_FRAMING);
  EXPECT_NE(std::string(tgm_last_error()), "");
  tgm_task_free(task);
  // Whether it ended before it was cancelled is a race that both may win.
  ASSERT_EQ(tgm_decode_async(bytes.data, bytes.length, nullptr, nullptr, nullptr, &task),
            TGM_OK);
  tgm_task_cancel(task);
  const tgm_error code = tgm_task_join(task, 0, &message);
  EXPECT_TRUE(code == TGM_CANCELLED || code == TGM_OK) << code;
  if (code == TGM_OK) {
    tgm_message_free(message);
  }
  tgm_task_free(task);
  tgm_bytes_free(bytes);
}

TEST(tgm_c, a_token_cancels_whatever_was_started_with_it) {
  const tgm_bytes bytes = encoded();
  tgm_token* token = nullptr;
  ASSERT_EQ(tgm_token_create(&token), TGM_OK);
  tgm_decode_options options = tgm_decode_options_default();
  options.token = token;
  tgm_task* task = nullptr;
  tgm_message* message = nullptr;
  ASSERT_EQ(tgm_decode_async(bytes.data, bytes.length, &options, nullptr, nullptr, &task),
            TGM_OK);
  EXPECT_EQ(tgm_task_join(task, 0, &message), TGM_OK);
  tgm_message_free(message);
  tgm_task_free(task);
  EXPECT_EQ(tgm_token_is_cancelled(token), 0);
  tgm_token_cancel(token);
  EXPECT_EQ(tgm_token_is_cancelled(token), 1);
  ASSERT_EQ(tgm_decode_async(bytes.data, bytes.length, &options, nullptr, nullptr, &task),
            TGM_OK);
  tgm_token_free(token);
  EXPECT_EQ(tgm_task_join(task, 0, &message), TGM_CANCELLED);
  tgm_task_free(task);
  tgm_bytes_free(bytes);
}

/// A sink that stops its thread, once it is told to, until it may go on.
struct gated_sink {
  byte_vector got;
  std::atomic<bool> closed = false;
  std::atomic<bool> reached = false;
  static int take(void* context, const std::uint8_t* bytes, std::size_t n) {
    auto* s = static_cast<gated_sink*>(context);
    s->reached = s->closed.load();
    s->reached.notify_all();
    s->closed.wait(true);
    append(s->got, std::as_bytes(std::span(bytes, n)));
    return 0;
  }
  static int patch(void* context, std::uint64_t at, const std::uint8_t* bytes,
                   std::size_t n) {
    std::memcpy(static_cast<gated_sink*>(context)->got.data() + at, bytes, n);
    return 0;
  }
  void open() {
    closed = false;
    closed.notify_all();
  }
};

constexpr const char* two_floats = R"({"dtype": "float32", "shape": [2]})";

TEST(tgm_c, a_stream_is_written_on_a_thread_of_its_own_in_order) {
  const std::array<float, 2> first{1.5F, 2.5F};
  const std::array<float, 2> second{3, 4};
  gated_sink sink;
  told end;
  tgm_async_stream* stream = nullptr;
  ASSERT_EQ(tgm_async_stream_open("{}", &gated_sink::take, &sink, nullptr, &stream),
            TGM_OK)
      << tgm_last_error();
  std::array<tgm_task*, 4> tasks{};
  const auto write = [&](const char* json, const void* data, tgm_task** task) {
    return tgm_async_stream_write(stream, json, data, 8, nullptr, 0, &told::done, &end,
                                  task);
  };
  EXPECT_EQ(write("[", first.data(), &tasks[0]), TGM_METADATA) << "said at once";
  ASSERT_EQ(write(two_floats, first.data(), &tasks[0]), TGM_OK) << tgm_last_error();
  ASSERT_EQ(write(R"({"dtype": "float32", "shape": [3]})", first.data(), &tasks[1]),
            TGM_OK);
  ASSERT_EQ(write(two_floats, second.data(), &tasks[2]), TGM_OK);
  ASSERT_EQ(tgm_async_stream_finish(stream, &gated_sink::patch, &sink, &told::done, &end,
                                    &tasks[3]),
            TGM_OK);
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    EXPECT_EQ(tgm_task_join(tasks[i], 0, nullptr), i == 1 ? TGM_METADATA : TGM_OK) << i;
    tgm_task_free(tasks[i]);
  }
  EXPECT_EQ(end.calls, 4);
  EXPECT_EQ(tgm_async_stream_object_count(stream), 2u) << "three values were refused";
  EXPECT_EQ(tgm_async_stream_bytes_written(stream), sink.got.size());
  tgm_async_stream_free(stream);
  const auto reader = or_throw(formats::message_reader::open(sink.got));
  EXPECT_FALSE(reader.streamed());
  ASSERT_EQ(reader.object_count(), 2u);
  EXPECT_EQ(std::memcmp(or_throw(reader.decode(1)).data(), second.data(), 8), 0);
}

TEST(tgm_c, writes_that_wait_can_be_cancelled_one_by_one_or_all) {
  const std::array<float, 2> values{1.5F, 2.5F};
  gated_sink sink;
  tgm_token* token = nullptr;
  ASSERT_EQ(tgm_token_create(&token), TGM_OK);
  tgm_encode_options options = tgm_encode_options_default();
  options.token = token;
  tgm_async_stream* stream = nullptr;
  ASSERT_EQ(tgm_async_stream_open("{}", &gated_sink::take, &sink, &options, &stream),
            TGM_OK);
  sink.closed = true;
  std::array<tgm_task*, 4> tasks{};
  for (tgm_task*& task : tasks) {
    ASSERT_EQ(tgm_async_stream_write(stream, two_floats, values.data(), 8, nullptr, 0,
                                     nullptr, nullptr, &task),
              TGM_OK);
  }
  sink.reached.wait(false);  // the first is under way
  EXPECT_EQ(tgm_task_join(tasks[0], 1, nullptr), TGM_TIMEOUT);
  tgm_task_cancel(tasks[1]);
  sink.open();
  EXPECT_EQ(tgm_task_join(tasks[0], 0, nullptr), TGM_OK);
  EXPECT_EQ(tgm_task_join(tasks[1], 0, nullptr), TGM_CANCELLED);
  EXPECT_EQ(tgm_task_join(tasks[2], 0, nullptr), TGM_OK);
  EXPECT_EQ(tgm_task_join(tasks[3], 0, nullptr), TGM_OK);
  EXPECT_EQ(tgm_async_stream_object_count(stream), 3u);
  tgm_token_cancel(token);
  tgm_token_free(token);
  tgm_task* last = nullptr;
  ASSERT_EQ(tgm_async_stream_finish(stream, nullptr, nullptr, nullptr, nullptr, &last),
            TGM_OK);
  tgm_async_stream_free(stream);
  EXPECT_EQ(tgm_task_join(last, 0, nullptr), TGM_CANCELLED);
  tgm_task_free(last);
  for (tgm_task* task : tasks) {
    tgm_task_free(task);
  }
}

TEST(tgm_c, messages_of_a_file_are_decoded_by_tasks) {
  const temp_folder folder;
  const std::string path = folder / "two.tgm";
  const tgm_bytes bytes = encoded();
  const bytes_view content(reinterpret_cast<const std::byte*>(bytes.data), bytes.length);
  or_throw(write_file_atomically(posix_file_system(), path, content));
  tgm_file* file = nullptr;
  ASSERT_EQ(tgm_file_open(path.c_str(), &file), TGM_OK);
  tgm_task* task = nullptr;
  EXPECT_EQ(tgm_file_decode_message_async(file, 1, nullptr, nullptr, nullptr, &task),
            TGM_OBJECT);
  ASSERT_EQ(tgm_file_decode_message_async(file, 0, nullptr, nullptr, nullptr, &task),
            TGM_OK);
  tgm_message* message = nullptr;
  EXPECT_EQ(tgm_task_join(task, 60'000, &message), TGM_OK);
  EXPECT_EQ(tgm_message_num_objects(message), 2u);
  tgm_message_free(message);
  tgm_task_free(task);
  tgm_file_close(file);
  tgm_bytes_free(bytes);
}

}  // namespace
}  // namespace weir::test
