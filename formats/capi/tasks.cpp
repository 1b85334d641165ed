// SPDX-License-Identifier: Apache-2.0
/// @file
/// C functions that decode on threads of their own, and object by object.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "capi/handles.hpp"

struct tgm_object_iterator {
  tgm_message message;
  weir::bytes_view bytes;
  weir::byte_vector elements;
  std::size_t next = 0;
};

struct tgm_task {
  std::atomic<bool> cancelled = false;
  std::mutex mutex;
  std::condition_variable ended;
  std::optional<weir::result<std::unique_ptr<tgm_message>>> outcome;  ///< under `mutex`
  bool taken = false;
  std::thread thread;

  ~tgm_task() {
    cancelled = true;
    if (thread.joinable()) {
      thread.join();
    }
  }
};

namespace weir::formats {

namespace {

error cancelled_task() {
  return error(errc::interrupted,
               "cannot decode: expected the task to go on, found it cancelled");
}

/// A message with its elements, object by object, so that it can be cancelled.
result<std::unique_ptr<tgm_message>> decode_until_cancelled(
    result<byte_vector> bytes, const read_options& options,
    const std::atomic<bool>& cancelled) {
  if (cancelled) {
    return cancelled_task();
  }
  WEIR_TRY(byte_vector content, std::move(bytes));
  WEIR_TRY(auto out, make_message(std::move(content), options, false));
  for (std::size_t i = 0; i < out->elements.size(); ++i) {
    if (cancelled) {
      return cancelled_task();
    }
    auto elements = out->reader->decode(i);
    if (!elements) {
      return of_kind(elements.error(), out->bytes);
    }
    out->elements[i] = std::move(*elements);
  }
  return out;
}

tgm_error ended_with(const result<std::unique_ptr<tgm_message>>& outcome) {
  if (outcome) {
    return TGM_OK;
  }
  return outcome.error().code() == errc::interrupted ? TGM_CANCELLED
                                                     : keep_error(outcome.error());
}

/// Starts a task that decodes what `read()` gives.
template <class Read>
result<std::unique_ptr<tgm_task>> start_task(const Read& read,
                                             const read_options& options, tgm_done done,
                                             void* context) {
  auto task = std::make_unique<tgm_task>();
  task->thread = std::thread([t = task.get(), read, options, done, context] {
    auto outcome = [&]() -> result<std::unique_ptr<tgm_message>> {
      try {
        return decode_until_cancelled(read(), options, t->cancelled);
      } catch (const std::exception& failure) {
        return error(errc::out_of_memory,
                     std::string("cannot decode: expected no exception, found \"") +
                         failure.what() + "\"");
      }
    }();
    const tgm_error code = ended_with(outcome);
    {
      const std::lock_guard lock(t->mutex);
      t->outcome.emplace(std::move(outcome));
    }
    t->ended.notify_all();
    if (done != nullptr) {
      done(context, code);
    }
  });
  return task;
}

}  // namespace

}  // namespace weir::formats

using namespace weir::formats;  // NOLINT: the functions below are C

extern "C" {

tgm_error tgm_object_iterator_open(const void* data, size_t length,
                                   const tgm_decode_options* options,
                                   tgm_object_iterator** out) {
  return guarded([&]() -> weir::result<void> {
    auto made = std::make_unique<tgm_object_iterator>();
    made->bytes = view_of(data, length);
    auto reader = message_reader::open(made->bytes, options_of(options));
    if (!reader) {
      return of_kind(reader.error(), made->bytes);
    }
    made->message.reader.emplace(std::move(*reader));
    made->message.elements.resize(made->message.reader->object_count());
    *out = made.release();
    return {};
  });
}
tgm_error tgm_object_iterator_next(tgm_object_iterator* iterator, size_t* object,
                                   const uint8_t** data, size_t* length) {
  if (iterator->next == iterator->message.elements.size()) {
    return TGM_END_OF_ITER;
  }
  return guarded([&]() -> weir::result<void> {
    const std::size_t i = iterator->next++;
    auto elements = iterator->message.reader->decode(i);
    if (!elements) {
      return of_kind(elements.error(), iterator->bytes);
    }
    iterator->elements = std::move(*elements);
    *object = i;
    *data = reinterpret_cast<const std::uint8_t*>(iterator->elements.data());
    *length = iterator->elements.size();
    return {};
  });
}
const tgm_message* tgm_object_iterator_message(const tgm_object_iterator* iterator) {
  return &iterator->message;
}
void tgm_object_iterator_free(tgm_object_iterator* iterator) {
  delete iterator;
}

tgm_error tgm_decode_async(const void* data, size_t length,
                           const tgm_decode_options* options, tgm_done done,
                           void* context, tgm_task** out) {
  return guarded([&] {
    const auto read = [bytes =
                           view_of(data, length)]() -> weir::result<weir::byte_vector> {
      return weir::byte_vector(bytes.begin(), bytes.end());
    };
    return give(start_task(read, options_of(options), done, context), out);
  });
}
tgm_error tgm_file_decode_message_async(const tgm_file* file, size_t index,
                                        const tgm_decode_options* options, tgm_done done,
                                        void* context, tgm_task** out) {
  if (index >= file->spans.size()) {
    return keep_error(TGM_OBJECT, "no such message in " + file->path);
  }
  return guarded([&] {
    const auto read = [source = file->source, span = file->spans[index]] {
      return read_span(*source, span);
    };
    return give(start_task(read, options_of(options), done, context), out);
  });
}
int tgm_task_is_ready(const tgm_task* task) {
  auto* t = const_cast<tgm_task*>(task);  // for its mutex
  const std::lock_guard lock(t->mutex);
  return t->outcome.has_value() ? 1 : 0;
}
tgm_error tgm_task_join(tgm_task* task, uint32_t timeout_ms, tgm_message** out) {
  std::unique_lock lock(task->mutex);
  const auto done = [&] { return task->outcome.has_value(); };
  if (timeout_ms == 0) {
    task->ended.wait(lock, done);
  } else if (!task->ended.wait_for(lock, std::chrono::milliseconds(timeout_ms), done)) {
    return keep_error(TGM_TIMEOUT, "the task has not ended yet");
  }
  if (std::exchange(task->taken, true)) {
    return keep_error(TGM_INVALID_ARG, "the task was joined before");
  }
  auto& outcome = *task->outcome;
  if (!outcome && outcome.error().code() == weir::errc::interrupted) {
    return keep_error(TGM_CANCELLED, outcome.error().message());
  }
  return guarded([&] { return give(std::move(outcome), out); });
}
void tgm_task_cancel(tgm_task* task) {
  task->cancelled = true;
}
void tgm_task_free(tgm_task* task) {
  delete task;
}

}  // extern "C"
