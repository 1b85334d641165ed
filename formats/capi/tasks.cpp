// SPDX-License-Identifier: Apache-2.0
/// @file
/// C functions that decode on threads of their own, and object by object.
#include "capi/tasks.hpp"

#include <chrono>
#include <utility>

struct tgm_object_iterator {
  tgm_message message;
  weir::bytes_view bytes;
  weir::byte_vector elements;
  std::size_t next = 0;
};

namespace weir::formats {

error cancelled_task() {
  return error(errc::interrupted,
               "cannot go on: expected the task to go on, found it cancelled");
}

void task_state::end(outcome with, tgm_done done, void* context) {
  const tgm_error code = with ? TGM_OK : keep_error(with.error());
  {
    const std::lock_guard lock(mutex_);
    outcome_.emplace(std::move(with));
  }
  changed_.notify_all();
  if (done != nullptr) {
    done(context, code);
  }
  const std::lock_guard lock(mutex_);
  told_ = true;
  changed_.notify_all();
}

bool task_state::ended() const {
  const std::lock_guard lock(mutex_);
  return outcome_.has_value();
}

void task_state::wait() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return told_; });
}

tgm_error task_state::take(std::uint32_t timeout_ms, std::unique_ptr<tgm_message>& to) {
  std::unique_lock lock(mutex_);
  const auto done = [&] { return outcome_.has_value(); };
  if (timeout_ms == 0) {
    changed_.wait(lock, done);
  } else if (!changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), done)) {
    return keep_error(TGM_TIMEOUT, "the task has not ended yet");
  }
  if (std::exchange(taken_, true)) {
    return keep_error(TGM_INVALID_ARG, "the task was joined before");
  }
  if (!*outcome_) {
    return keep_error(outcome_->error());
  }
  to = std::move(**outcome_);
  return TGM_OK;
}

namespace {

/// A message with its elements, object by object, so that it can be cancelled.
task_state::outcome decode_until_cancelled(result<byte_vector> bytes,
                                           const read_options& options,
                                           const task_state& task) {
  if (task.cancelled()) {
    return cancelled_task();
  }
  WEIR_TRY(byte_vector content, std::move(bytes));
  WEIR_TRY(auto out, make_message(std::move(content), options, false));
  for (std::size_t i = 0; i < out->elements.size(); ++i) {
    if (task.cancelled()) {
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

/// Starts a task that decodes what `read()` gives.
template <class Read>
result<std::unique_ptr<tgm_task>> start_task(const Read& read,
                                             const tgm_decode_options* options,
                                             tgm_done done, void* context) {
  const tgm_token* token = options != nullptr ? options->token : nullptr;
  auto task = std::make_unique<tgm_task>(std::make_shared<task_state>(token));
  task->thread = std::thread([state = task->state, read, how = options_of(options), done,
                              context] {
    state->end(carried_out([&] { return decode_until_cancelled(read(), how, *state); }),
               done, context);
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
  return guarded(given(out) && held(data, length), [&]() -> weir::result<void> {
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
  if (given(iterator) && iterator->next == iterator->message.elements.size()) {
    return TGM_END_OF_ITER;
  }
  return guarded(given(iterator, object, data, length), [&]() -> weir::result<void> {
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
  return guarded(given(out) && held(data, length), [&] {
    const auto read = [bytes =
                           view_of(data, length)]() -> weir::result<weir::byte_vector> {
      return weir::byte_vector(bytes.begin(), bytes.end());
    };
    return give(start_task(read, options, done, context), out);
  });
}
tgm_error tgm_file_decode_message_async(const tgm_file* file, size_t index,
                                        const tgm_decode_options* options, tgm_done done,
                                        void* context, tgm_task** out) {
  if (given(file) && index >= file->spans.size()) {
    return keep_error(TGM_OBJECT, "no such message in " + file->path);
  }
  return guarded(given(file, out), [&] {
    const auto read = [source = file->source, span = file->spans[index]] {
      return read_span(*source, span);
    };
    return give(start_task(read, options, done, context), out);
  });
}
int tgm_task_is_ready(const tgm_task* task) {
  return task->state->ended() ? 1 : 0;
}
tgm_error tgm_task_join(tgm_task* task, uint32_t timeout_ms, tgm_message** out) {
  if (!given(task)) {
    return missing_pointer();
  }
  std::unique_ptr<tgm_message> made;
  const tgm_error code = task->state->take(timeout_ms, made);
  if (code == TGM_OK && out != nullptr) {
    *out = made.release();
  }
  return code;
}
void tgm_task_cancel(tgm_task* task) {
  task->state->cancel();
}
void tgm_task_free(tgm_task* task) {
  delete task;
}

tgm_error tgm_token_create(tgm_token** out) {
  return guarded(given(out), [&]() -> weir::result<void> {
    *out = new tgm_token();
    return {};
  });
}
void tgm_token_cancel(tgm_token* token) {
  *token->cancelled = true;
}
int tgm_token_is_cancelled(const tgm_token* token) {
  return *token->cancelled ? 1 : 0;
}
void tgm_token_free(tgm_token* token) {
  delete token;
}

}  // extern "C"
