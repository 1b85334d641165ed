// SPDX-License-Identifier: Apache-2.0
/// @file
/// C functions that write a stream on a thread of its own.
#include <deque>
#include <functional>
#include <utility>

#include "capi/tasks.hpp"

struct tgm_async_stream {
  struct job {
    std::shared_ptr<weir::formats::task_state> state;
    std::function<weir::result<void>()> run;
    tgm_done done;
    void* context;
  };

  explicit tgm_async_stream(const tgm_token* token) {
    if (token != nullptr) {
      whole.cancelled = token->cancelled;
    }
  }
  ~tgm_async_stream() {
    {
      const std::lock_guard lock(mutex);
      closing = true;
    }
    changed.notify_all();
    thread.join();
  }
  void work();

  std::optional<weir::formats::stream_writer> writer;  ///< of the thread alone
  tgm_token whole;                                     ///< what all its tasks look at
  std::atomic<std::size_t> objects = 0;
  std::atomic<std::uint64_t> bytes = 0;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<job> jobs;  ///< under `mutex`
  bool closing = false;  ///< under `mutex`
  std::thread thread;
};

/// Jobs in order; those that wait when the stream is freed end as cancelled.
void tgm_async_stream::work() {
  using namespace weir::formats;
  for (;;) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return closing || !jobs.empty(); });
    if (jobs.empty()) {
      return;
    }
    job next = std::move(jobs.front());
    jobs.pop_front();
    const bool skip = closing || next.state->cancelled();
    lock.unlock();
    auto outcome = carried_out([&]() -> task_state::outcome {
      if (skip) {
        return cancelled_task();
      }
      WEIR_CHECK(next.run());
      return std::unique_ptr<tgm_message>();
    });
    objects = writer->object_count();
    bytes = writer->bytes_written();
    next.state->end(std::move(outcome), next.done, next.context);
  }
}

namespace weir::formats {

namespace {

result<void> add_job(tgm_async_stream& stream, std::function<result<void>()> run,
                     tgm_done done, void* context, tgm_task** out) {
  auto task = std::make_unique<tgm_task>(std::make_shared<task_state>(&stream.whole));
  {
    const std::lock_guard lock(stream.mutex);
    stream.jobs.push_back({task->state, std::move(run), done, context});
  }
  stream.changed.notify_all();
  *out = task.release();
  return {};
}

}  // namespace

}  // namespace weir::formats

using namespace weir::formats;  // NOLINT: the functions below are C

extern "C" {

tgm_error tgm_async_stream_open(const char* json, tgm_sink sink, void* context,
                                const tgm_encode_options* options,
                                tgm_async_stream** out) {
  return guarded(given(json, sink, out), [&]() -> weir::result<void> {
    auto made =
        std::make_unique<tgm_async_stream>(options != nullptr ? options->token : nullptr);
    WEIR_TRY(weir::formats::stream_writer writer,
             open_stream(json, sink, context, options));
    made->writer.emplace(std::move(writer));
    made->bytes = made->writer->bytes_written();
    made->thread = std::thread([stream = made.get()] { stream->work(); });
    *out = made.release();
    return {};
  });
}
tgm_error tgm_async_stream_write(tgm_async_stream* stream, const char* json,
                                 const void* data, size_t length, const char* preceder,
                                 int pre_encoded, tgm_done done, void* context,
                                 tgm_task** out) {
  return guarded(
      given(stream, json, out) && held(data, length), [&]() -> weir::result<void> {
        WEIR_TRY(object_to_write one,
                 parse_object(json, view_of(data, length), preceder, pre_encoded != 0));
        const auto run = [stream, object = std::move(one)] {
          return write_object(*stream->writer, object);
        };
        return add_job(*stream, run, done, context, out);
      });
}
tgm_error tgm_async_stream_finish(tgm_async_stream* stream, tgm_patch patch,
                                  void* patch_context, tgm_done done, void* context,
                                  tgm_task** out) {
  return guarded(given(stream, out), [&] {
    const auto run = [stream, patch, patch_context] {
      return finish_stream(*stream->writer, patch, patch_context);
    };
    return add_job(*stream, run, done, context, out);
  });
}
size_t tgm_async_stream_object_count(const tgm_async_stream* stream) {
  return stream->objects;
}
uint64_t tgm_async_stream_bytes_written(const tgm_async_stream* stream) {
  return stream->bytes;
}
void tgm_async_stream_free(tgm_async_stream* stream) {
  delete stream;
}

}  // extern "C"
