// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests messages that tasks write object by object.
#include <limits>

#include "conformance/tensogram_c/support.hpp"
#include "support/temp_folder.hpp"

namespace weir::test::tgm {
namespace {

/// A stream to a file that tasks write.
struct task_stream {
  temp_folder folder;
  std::string path = folder / "stream.tgm";
  made<async_encoder> open;

  explicit task_stream(const char* json = "{}") {
    const auto creating = make<task>(tgm_async_streaming_encoder_create, path.c_str(),
                                     json, "xxh3", 0u, nullptr, 0u);
    EXPECT_EQ(creating.code, TGM_ERROR_OK) << last_error();
    open =
        make<async_encoder>(tgm_async_task_join_async_streaming_encoder, creating.get());
    EXPECT_EQ(open.code, TGM_ERROR_OK) << last_error();
  }
  [[nodiscard]] tgm_async_streaming_encoder_t* get() const { return open.get(); }
  /// Launches the write of four floats that begin with `first`.
  [[nodiscard]] made<task> write(float first, tgm_cancellation_token_t* cancel = nullptr,
                                 std::uint64_t timeout = 0,
                                 std::size_t length = 16) const {
    // The array is gone when the task runs, so the library must have copied it.
    const float values[4] = {first, 2, 3, 4};
    return make<task>(tgm_async_streaming_encoder_write_object, get(),
                      four_floats_descriptor, as_u8(values), length, cancel, timeout);
  }
  [[nodiscard]] made<task> write_preceder(const char* json) const {
    return make<task>(tgm_async_streaming_encoder_write_preceder, get(), json, nullptr,
                      0u);
  }
  [[nodiscard]] made<task> finish(bool backfill = false,
                                  tgm_cancellation_token_t* cancel = nullptr) const {
    return make<task>(tgm_async_streaming_encoder_finish, get(), backfill, cancel, 0u);
  }
  /// Returns the status of the stream, and expects its number of objects in both forms.
  [[nodiscard]] TgmObjectCountStatus status(std::size_t expected = 0) const {
    std::size_t count = expected;
    const auto found = tgm_async_streaming_encoder_try_object_count(get(), &count);
    EXPECT_EQ(count, expected);
    EXPECT_EQ(tgm_async_streaming_encoder_object_count(get()),
              found == TGM_OBJECT_COUNT_STATUS_OK
                  ? expected
                  : std::numeric_limits<std::size_t>::max());
    return found;
  }
  /// Returns the first element of every object in the file.
  [[nodiscard]] std::vector<float> first_elements() const {
    const auto found = decode(read_whole(path), true);
    EXPECT_EQ(found.code, TGM_ERROR_OK) << last_error();
    std::vector<float> out(tgm_message_num_objects(found.get()));
    for (std::size_t i = 0; i < out.size(); ++i) {
      std::memcpy(&out[i], tgm_object_data(found.get(), i, nullptr), sizeof(float));
    }
    return out;
  }
};

/// Joins a task without a result.
tgm_error concatenated(const made<task>& launched) {
  EXPECT_EQ(launched.code, TGM_ERROR_OK) << last_error();
  return tgm_async_task_join_void(launched.get());
}

TEST(tensogram_c, writes_by_tasks_are_carried_out_in_the_order_of_their_launches) {
  const task_stream stream(R"({"run": "first"})");
  EXPECT_EQ(tgm_async_streaming_encoder_path(stream.get()), stream.path);
  EXPECT_EQ(stream.status(0), TGM_OBJECT_COUNT_STATUS_OK);
  std::vector<made<task>> tasks;
  for (int i = 0; i < 20; ++i) {
    tasks.push_back(stream.write(static_cast<float>(i)));
  }
  tasks.push_back(stream.write_preceder(R"({"name": "late"})"));
  const auto refused = stream.write(100, nullptr, 0, 15);
  tasks.push_back(stream.write(20));
  const auto stored = make<task>(tgm_async_streaming_encoder_write_pre_encoded,
                                 stream.get(), four_floats_descriptor, as_u8(four_floats),
                                 std::size_t{16}, nullptr, 0u);
  for (const auto& each : tasks) {
    EXPECT_EQ(concatenated(each), TGM_ERROR_OK) << last_error();
  }
  EXPECT_EQ(concatenated(refused), TGM_ERROR_METADATA);
  EXPECT_EQ(concatenated(stored), TGM_ERROR_OK) << last_error();
  EXPECT_EQ(stream.status(22), TGM_OBJECT_COUNT_STATUS_OK);
  EXPECT_EQ(concatenated(stream.finish()), TGM_ERROR_OK) << last_error();
  EXPECT_EQ(stream.status(), TGM_OBJECT_COUNT_STATUS_FINISHED);
  const auto elements = stream.first_elements();
  ASSERT_EQ(elements.size(), 22u);
  for (int i = 0; i <= 20; ++i) {
    EXPECT_EQ(elements[static_cast<std::size_t>(i)], static_cast<float>(i));
  }
  EXPECT_EQ(elements[21], four_floats[0]);
  const std::string bytes = read_whole(stream.path);
  const auto meta = make<metadata>(tgm_message_metadata, decode(bytes).get());
  EXPECT_STREQ(tgm_metadata_get_string_at(meta.get(), 20, "name"), "late");
  EXPECT_STREQ(tgm_metadata_get_string(meta.get(), "run"), "first");
}

TEST(tensogram_c, faults_of_a_write_that_are_known_are_reported_at_its_launch) {
  const task_stream stream;
  const auto write = [&](const char* json) {
    return make<task>(tgm_async_streaming_encoder_write_object, stream.get(), json,
                      as_u8(four_floats), std::size_t{16}, nullptr, 0u)
        .code;
  };
  EXPECT_EQ(write("["), TGM_ERROR_METADATA);
  EXPECT_EQ(write(R"({"x": 1})"), TGM_ERROR_METADATA);
  EXPECT_EQ(write("\"\xff\""), TGM_ERROR_INVALID_ARG);
  EXPECT_EQ(stream.write_preceder("[1]").code, TGM_ERROR_METADATA);
  const auto create = [&](const std::string& path, const char* json, const char* hash) {
    return make<task>(tgm_async_streaming_encoder_create, path.c_str(), json, hash, 0u,
                      nullptr, 0u);
  };
  const std::string other = stream.folder / "other.tgm";
  EXPECT_EQ(create(other, "x", nullptr).code, TGM_ERROR_METADATA);
  EXPECT_EQ(create(other, "{}", "sha1").code, TGM_ERROR_INVALID_ARG);
  EXPECT_EQ(create("\xff", "{}", nullptr).code, TGM_ERROR_INVALID_ARG);
  const auto creating = create(stream.folder / "absent/x.tgm", "{}", nullptr);
  ASSERT_EQ(creating.code, TGM_ERROR_OK);
  EXPECT_EQ(
      make<async_encoder>(tgm_async_task_join_async_streaming_encoder, creating.get())
          .code,
      TGM_ERROR_IO);
  EXPECT_EQ(stream.status(0), TGM_OBJECT_COUNT_STATUS_OK);
}

TEST(tensogram_c, a_stream_by_tasks_that_is_finished_takes_nothing_more) {
  const task_stream stream;
  EXPECT_EQ(concatenated(stream.write_preceder("{}")), TGM_ERROR_OK);
  EXPECT_EQ(concatenated(stream.write_preceder("{}")), TGM_ERROR_FRAMING);
  EXPECT_EQ(concatenated(stream.finish()), TGM_ERROR_FRAMING)
      << "a preceder without an object behind it is a framing error";
  EXPECT_EQ(concatenated(stream.write(1)), TGM_ERROR_OK) << last_error();
  EXPECT_EQ(concatenated(stream.finish()), TGM_ERROR_OK) << last_error();
  EXPECT_EQ(concatenated(stream.write(2)), TGM_ERROR_FRAMING);
  EXPECT_EQ(concatenated(stream.write_preceder("{}")), TGM_ERROR_FRAMING);
  EXPECT_EQ(concatenated(stream.finish()), TGM_ERROR_FRAMING);
  EXPECT_EQ(stream.status(), TGM_OBJECT_COUNT_STATUS_FINISHED);
  EXPECT_EQ(stream.first_elements(), std::vector<float>{1});
}

TEST(tensogram_c, a_finished_stream_gets_its_length_back_if_that_is_asked_for) {
  for (const bool backfill : {false, true}) {
    const task_stream stream;
    EXPECT_EQ(concatenated(stream.write(1)), TGM_ERROR_OK);
    EXPECT_EQ(concatenated(stream.finish(backfill)), TGM_ERROR_OK) << last_error();
    const std::string bytes = read_whole(stream.path);
    std::uint64_t length = 0;
    for (std::size_t i = 16; i < 24; ++i) {
      length = length << 8 | as_u8(bytes)[i];
    }
    EXPECT_EQ(length, backfill ? bytes.size() : 0u);
    EXPECT_EQ(stream.first_elements(), std::vector<float>{1});
  }
}

TEST(tensogram_c, writes_that_end_before_they_begin_leave_no_trace) {
  const task_stream stream;
  EXPECT_EQ(concatenated(stream.write(0)), TGM_ERROR_OK);
  token cancel(tgm_cancellation_token_create());
  std::vector<made<task>> tasks;
  {
    const blocked_workers blocked(stream.folder / "pipe");
    tasks.push_back(stream.write(1));
    tasks.push_back(stream.write(2));
    tasks.push_back(stream.write(3, cancel.get()));
    tasks.push_back(stream.write(4, nullptr, 10));
    tasks.push_back(stream.write(5));
    EXPECT_EQ(stream.status(), TGM_OBJECT_COUNT_STATUS_BUSY);
    tgm_async_task_cancel(tasks[1].get());
    tgm_cancellation_token_cancel(cancel.get());
    EXPECT_EQ(concatenated(tasks[1]), TGM_ERROR_CANCELLED);
    EXPECT_EQ(concatenated(tasks[2]), TGM_ERROR_CANCELLED);
    EXPECT_EQ(concatenated(tasks[3]), TGM_ERROR_TIMEOUT);
  }
  EXPECT_EQ(concatenated(tasks[0]), TGM_ERROR_OK) << last_error();
  EXPECT_EQ(concatenated(tasks[4]), TGM_ERROR_OK) << last_error();
  EXPECT_EQ(stream.status(3), TGM_OBJECT_COUNT_STATUS_OK);
  EXPECT_EQ(concatenated(stream.write(6, cancel.get())), TGM_ERROR_CANCELLED);
  EXPECT_EQ(concatenated(stream.finish(false, cancel.get())), TGM_ERROR_CANCELLED);
  EXPECT_EQ(concatenated(stream.write(7)), TGM_ERROR_OK)
      << "the stream accepts writes until it is finished";
  EXPECT_EQ(concatenated(stream.finish()), TGM_ERROR_OK) << last_error();
  EXPECT_EQ(stream.first_elements(), (std::vector<float>{0, 1, 5, 7}));
}

TEST(tensogram_c, writes_are_carried_out_after_their_stream_and_tasks_were_freed) {
  task_stream stream;
  made<task> finishing;
  {
    const blocked_workers blocked(stream.folder / "pipe");
    (void)stream.write(1);
    (void)stream.write(2);
    finishing = stream.finish();
    stream.open.handle.reset();
  }
  EXPECT_EQ(concatenated(finishing), TGM_ERROR_OK) << last_error();
  EXPECT_EQ(stream.first_elements(), (std::vector<float>{1, 2}));
}

}  // namespace
}  // namespace weir::test::tgm
