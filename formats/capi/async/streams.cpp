// SPDX-License-Identifier: Apache-2.0
/// @file
/// C functions that write a message in tasks.
///
/// Writes of one stream must happen in the order of their launches, but any worker may
/// execute a task. So each write is placed in the line of its stream first, and a worker
/// that runs a task of the stream carries out whatever is in the line, in order.
///
/// The writes of a stream never run at the same time, so `message_stream` needs no lock
/// of its own. A task that ended early while it was in the line is skipped when its turn
/// comes; one whose write has begun is finished.
#include "capi/async/streams.hpp"

#include <algorithm>
#include <limits>

namespace weir::capi {

void ordered_stream::line_up(std::shared_ptr<task_state> task, write operation) {
  const std::lock_guard lock(mutex_);
  line_.push_back({std::move(task), std::move(operation)});
}

/// The mutex is released while a write runs and while its task ends, because the end may
/// call code of the program. `busy_` keeps other threads out meanwhile. If the line is
/// empty after a write, `busy_` is cleared before the task ends: a program that has
/// waited for the task then finds the stream at rest.
void ordered_stream::carry_out() {
  std::unique_lock lock(mutex_);
  // The other thread will find the new entry: it looks at the line after each write.
  if (busy_) {
    return;
  }
  busy_ = true;
  while (!line_.empty()) {
    // The entry is taken out, so the mutex is not needed while it runs.
    const entry next = std::move(line_.front());
    line_.pop_front();
    if (next.task->ended()) {  // it ended early and must leave no trace
      continue;
    }
    lock.unlock();
    // Exceptions become failures of this write and do not stop the line.
    outcome<void> done = without_exceptions([&] { return next.operation(stream_); });
    lock.lock();
    const bool more = !line_.empty();
    busy_ = more;  // set before a waiting thread learns that the write has ended
    lock.unlock();
    next.task->end(done ? outcome<task_value>(task_value())
                        : outcome<task_value>(std::move(done).error()));
    if (!more) {
      return;
    }
    lock.lock();
  }
  // The last entries of the line had all ended early.
  busy_ = false;
}

/// Tasks that have ended early no longer count as waiting.
ordered_stream::object_count ordered_stream::count() const {
  const std::lock_guard lock(mutex_);
  const bool waiting = std::any_of(line_.begin(), line_.end(),
                                   [](const entry& each) { return !each.task->ended(); });
  // A number in between would be out of date at once.
  if (busy_ || waiting) {
    return {TGM_OBJECT_COUNT_STATUS_BUSY, 0};
  }
  return stream_.finished()
             // A finished stream has no number any more.
             ? object_count{TGM_OBJECT_COUNT_STATUS_FINISHED, 0}
             : object_count{TGM_OBJECT_COUNT_STATUS_OK, stream_.object_count()};
}

}  // namespace weir::capi

using namespace weir::capi;  // NOLINT: the functions below are C

namespace {

/// Launches a write on the stream of a handle. The place in the line is taken before the
/// launch, so that the order is that of the calls.
outcome<void> launch_write(const tgm_async_streaming_encoder_t& enc,
                           const task_limits& limits, tgm_async_task_t** out_task,
                           ordered_stream::write operation) {
  auto task = std::make_shared<task_state>();
  enc.stream->line_up(task, [operation = std::move(operation)](message_stream& stream) {
    // The check is made when the turn comes, since an earlier entry may be the end.
    return stream.finished()
               ? outcome<void>(failure(
                     TGM_ERROR_FRAMING,
                     "cannot write stream: expected one that is open, found it finished"))
               : operation(stream);
  });
  auto launched =
      // Any worker may run this, and may then carry out other writes first.
      launch(task, limits, out_task, [stream = enc.stream] { stream->carry_out(); });
  if (!launched) {
    task->fail(launched.error());  // it stays in the line and is skipped
  }
  return launched;
}

/// Launches the write of an object, whose bytes are copied.
tgm_error launch_object(tgm_async_streaming_encoder_t* enc, const char* descriptor_json,
                        const std::uint8_t* data, std::size_t length, bool stored,
                        const task_limits& limits, tgm_async_task_t** out_task) {
  return guarded(given(enc, descriptor_json, data, out_task), [&]() -> outcome<void> {
    // Mistakes in the arguments are reported by the call itself.
    WEIR_TRY(auto descriptor, parse_descriptor(descriptor_json));
    const weir::bytes_view view = view_of(data, length);
    // The bytes are copied, because the caller may free them when the call returns.
    const auto copy = std::make_shared<const weir::byte_vector>(view.begin(), view.end());
    return launch_write(*enc, limits, out_task,
                        [descriptor, copy, stored](message_stream& stream) {
                          return stream.write({descriptor, *copy, stored});
                        });
  });
}

}  // namespace

extern "C" {

const char* tgm_async_streaming_encoder_path(const tgm_async_streaming_encoder_t* enc) {
  // The text belongs to the handle.
  return enc != nullptr ? enc->path.c_str() : nullptr;
}

void tgm_async_streaming_encoder_free(tgm_async_streaming_encoder_t* enc) {
  // Tasks share the stream, so it lives as long as they do.
  delete enc;
}

/// The arguments are checked in the call, so mistakes in them are reported at once. Only
/// the file is opened in the task.
tgm_error tgm_async_streaming_encoder_create(const char* path, const char* metadata_json,
                                             const char* hash_algo, uint32_t threads,
                                             tgm_cancellation_token_t* cancel,
                                             uint64_t timeout_ms,
                                             tgm_async_task_t** out_task) {
  return guarded(given(path, metadata_json, out_task), [&]() -> outcome<void> {
    WEIR_TRY(const std::string name, text_argument(path, "the path"));
    WEIR_TRY(const json_message message, parse_stream(metadata_json));
    WEIR_TRY(const auto options, encode_arguments(hash_algo, threads, nullptr));
    return launch_work(
        {cancel, timeout_ms}, out_task,
        [name, message, options](const std::stop_token&) -> outcome<task_value> {
          WEIR_TRY(auto target, open_stream_file(name));
          WEIR_TRY(message_stream stream,
                   message_stream::open(std::move(target), message, options));
          // The result is a handle, which a join hands to the caller.
          return task_value(std::make_unique<tgm_async_streaming_encoder_t>(
              tgm_async_streaming_encoder_t{
                  name, std::make_shared<ordered_stream>(std::move(stream))}));
        });
  });
}

tgm_error tgm_async_streaming_encoder_write_object(tgm_async_streaming_encoder_t* enc,
                                                   const char* descriptor_json,
                                                   const uint8_t* data, size_t len,
                                                   tgm_cancellation_token_t* cancel,
                                                   uint64_t timeout_ms,
                                                   tgm_async_task_t** out_task) {
  // False: the data is encoded by the task.
  return launch_object(enc, descriptor_json, data, len, false, {cancel, timeout_ms},
                       out_task);
}

tgm_error tgm_async_streaming_encoder_write_pre_encoded(
    tgm_async_streaming_encoder_t* enc, const char* descriptor_json, const uint8_t* data,
    size_t len, tgm_cancellation_token_t* cancel, uint64_t timeout_ms,
    tgm_async_task_t** out_task) {
  // True: the data is stored as it is.
  return launch_object(enc, descriptor_json, data, len, true, {cancel, timeout_ms},
                       out_task);
}

tgm_error tgm_async_streaming_encoder_write_preceder(tgm_async_streaming_encoder_t* enc,
                                                     const char* metadata_json,
                                                     tgm_cancellation_token_t* cancel,
                                                     uint64_t timeout_ms,
                                                     tgm_async_task_t** out_task) {
  return guarded(given(enc, metadata_json, out_task), [&]() -> outcome<void> {
    WEIR_TRY(auto metadata, parse_preceder(metadata_json));
    return launch_write(
        *enc, {cancel, timeout_ms}, out_task,
        // A preceder has its place in the line like an object.
        [metadata](message_stream& stream) { return stream.write_preceder(metadata); });
  });
}

tgm_error tgm_async_streaming_encoder_finish(tgm_async_streaming_encoder_t* enc,
                                             bool backfill,
                                             tgm_cancellation_token_t* cancel,
                                             uint64_t timeout_ms,
                                             tgm_async_task_t** out_task) {
  return guarded(given(enc, out_task), [&] {
    // The end has its place in the line, too.
    return launch_write(
        *enc, {cancel, timeout_ms}, out_task,
        [backfill](message_stream& stream) { return stream.finish(backfill); });
  });
}

/// The functions for the number of objects do not wait for writes in progress. While some
/// are in the line, the number is about to change, and the status says so.
TgmObjectCountStatus tgm_async_streaming_encoder_try_object_count(
    const tgm_async_streaming_encoder_t* enc, size_t* out_count) {
  if (!given(enc, out_count)) {
    return TGM_OBJECT_COUNT_STATUS_NULL_HANDLE;
  }
  const auto found = enc->stream->count();
  // Other states leave the output as it is.
  if (found.status == TGM_OBJECT_COUNT_STATUS_OK) {
    *out_count = found.count;
  }
  return found.status;
}

size_t tgm_async_streaming_encoder_object_count(
    const tgm_async_streaming_encoder_t* enc) {
  std::size_t count = 0;
  // Every state but one gives the largest number, which no stream has.
  return tgm_async_streaming_encoder_try_object_count(enc, &count) ==
                 TGM_OBJECT_COUNT_STATUS_OK
             ? count
             : std::numeric_limits<std::size_t>::max();
}

}  // extern "C"
