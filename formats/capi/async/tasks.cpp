// SPDX-License-Identifier: Apache-2.0
/// @file
/// C functions for tasks and cancellation tokens.
///
/// A task ends exactly once: with the result of its work, with a cancellation, at its
/// deadline, or at the shutdown of the runtime. The first end wins, and later ones have
/// no effect. Work that is no longer wanted is asked to stop but is never killed.
#include "capi/async/tasks.hpp"

#include <algorithm>
#include <utility>

namespace weir::capi {

/// Returns the failure of a cancelled task.
/// The text is the same wherever a cancellation comes from.
failure cancelled() {
  return {TGM_ERROR_CANCELLED,
          "cannot finish the task: expected it to be let finish, found it cancelled"};
}

/// The result is set once, under the lock. Waiting threads are woken and the callback is
/// queued after the lock is released.
void task_state::end(outcome<task_value> with) {
  std::function<void()> callback;
  {
    const std::lock_guard lock(mutex_);
    // A later end, such as a deadline that comes too late, has no effect.
    if (result_) {
      return;
    }
    result_.emplace(std::move(with));
    // Taken out, so that it is called once and what it refers to is released.
    callback = std::exchange(callback_, nullptr);
  }
  // The lock is released first: leave() takes the mutex of the runtime.
  // A task that was never registered may leave; nothing happens then.
  runtime::instance().leave(*this);
  ended_.notify_all();
  if (callback) {
    runtime::instance().dispatch(std::move(callback));
  }
}

/// Ends the task before its work is asked to stop, so that the work cannot end it with an
/// error of its own.
void task_state::fail(failure why) {
  end(std::move(why));
  // The stop token reaches requests to servers and decoding between two objects.
  stop_.request_stop();
}

bool task_state::ended() const {
  const std::lock_guard lock(mutex_);
  return result_.has_value();
}

/// If the task has ended already, the callback is queued at once.
outcome<void> task_state::set_completion(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (has_callback_ || joined_) {
      // One callback for each task, and none after its result was taken.
      return invalid_argument(
          has_callback_
              ? "cannot set the callback: expected a task without one, found another"
              : "cannot set the callback: expected a task that is not joined, found it "
                "joined");
    }
    has_callback_ = true;
    // The callback is queued when the task ends.
    if (!result_) {
      callback_ = std::move(callback);
      return {};
    }
  }
  // On a thread of the runtime, as in the other case, and not on this one.
  runtime::instance().dispatch(std::move(callback));
  return {};
}

/// Waits under the lock of the task. `take` is called under it as well, so a value goes
/// to one caller only. A call for another kind of value leaves the result in place.
outcome<void> task_state::join(const std::function<bool(task_value&)>& take) {
  std::unique_lock lock(mutex_);
  // Woken by `end`. There is no limit: every task ends.
  ended_.wait(lock, [&] { return result_.has_value(); });
  if (joined_) {
    return invalid_argument(
        "cannot join the task: expected one that is not joined, found it joined");
  }
  // A failure is handed out once, like a value.
  if (!*result_) {
    joined_ = true;
    return result_->error();
  }
  // The function says whether the value has the kind that it wants.
  if (!take(**result_)) {
    return invalid_argument(
        "cannot join the task: expected the kind of result that it has, found another "
        "join");
  }
  joined_ = true;
  return {};
}

/// Ends the tasks without the lock, because ending a task may run other code.
void cancellation::cancel() {
  std::vector<std::weak_ptr<task_state>> tasks;
  {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    // Tasks that are attached from now on find `cancelled_`.
    tasks.swap(tasks_);
  }
  for (const auto& each : tasks) {
    // A task that is gone has ended.
    if (const auto task = each.lock()) {
      task->fail(capi::cancelled());
    }
  }
}

bool cancellation::cancelled() const {
  const std::lock_guard lock(mutex_);
  return cancelled_;
}

/// Checks and adds under one lock, so no task is added behind a cancellation unnoticed.
bool cancellation::attach(const std::shared_ptr<task_state>& task) {
  const std::lock_guard lock(mutex_);
  // The caller then ends the task itself.
  if (cancelled_) {
    return false;
  }
  // Ended tasks are removed when the list has doubled, which costs constant time per
  // task.
  if (tasks_.size() >= next_sweep_) {
    std::erase_if(tasks_, [](const auto& each) {
      const auto locked = each.lock();
      return locked == nullptr || locked->ended();
    });
    next_sweep_ = 2 * tasks_.size() + 16;
  }
  // Only a weak reference: the token does not keep tasks alive.
  tasks_.push_back(task);
  return true;
}

/// Order: attach to the token, register with the runtime, hand out. A task that has ended
/// before the registration is removed from the runtime again, since its own leave() came
/// early.
outcome<void> launch(const std::shared_ptr<task_state>& task, const task_limits& limits,
                     tgm_async_task_t** out, std::function<void()> run) {
  // Made first, since it is the only thing that may fail for lack of memory.
  auto handle = std::make_unique<tgm_async_task_t>(tgm_async_task_t{task});
  std::optional<deadline_clock::time_point> deadline;
  if (limits.timeout_ms != 0) {
    // The limit of a year prevents overflow when the time is added to a point in time.
    constexpr std::uint64_t longest = std::uint64_t{1000} * 60 * 60 * 24 * 365;
    deadline = deadline_clock::now() +
               std::chrono::milliseconds(std::min(limits.timeout_ms, longest));
  }
  // The task is attached before its work can begin, so that a cancelled token prevents
  // that.
  // The task ends here if the token was cancelled before. Its work is launched all the
  // same and finds it ended.
  if (limits.token != nullptr && !limits.token->shared->attach(task)) {
    task->fail(cancelled());
  }
  WEIR_CHECK(runtime::instance().launch(task, deadline, std::move(run)));
  if (task->ended()) {  // possibly before the runtime knew of the task
    runtime::instance().leave(*task);
  }
  // The handle is given away last, so a failure above frees it.
  *out = handle.release();
  return {};
}

}  // namespace weir::capi

using namespace weir::capi;  // NOLINT: the functions below are C

namespace {

/// Joins a task whose value is a `Value`, which `give` hands to the caller.
/// A join for another type than that of the value leaves the value for the right one.
template <class Value, class Give>
tgm_error join_as(tgm_async_task_t* task, bool complete, const Give& give) {
  return guarded(task != nullptr && complete, [&] {
    return task->state->join([&](task_value& value) {
      // Null if the task has a value of another kind.
      auto* found = std::get_if<Value>(&value);
      if (found != nullptr) {
        give(*found);
      }
      return found != nullptr;
    });
  });
}

/// Joins a task whose value is a handle.
template <class Handle>
tgm_error join_handle(tgm_async_task_t* task, Handle** out) {
  return join_as<std::unique_ptr<Handle>>(
      task, out != nullptr,
      // The caller frees the handle.
      [&](std::unique_ptr<Handle>& value) { *out = value.release(); });
}

}  // namespace

extern "C" {

tgm_cancellation_token_t* tgm_cancellation_token_create(void) {
  // NULL if there is no memory.
  return accessed<tgm_cancellation_token_t*>(
      nullptr, [] { return new tgm_cancellation_token_t(); });
}

/// The only possible exception is lack of memory, for which there is no answer.
void tgm_cancellation_token_cancel(tgm_cancellation_token_t* tok) {
  (void)accessed(false, [&] {
    if (tok != nullptr) {
      tok->shared->cancel();
    }
    return true;
  });
}

bool tgm_cancellation_token_is_cancelled(const tgm_cancellation_token_t* tok) {
  // NULL is a token that is never cancelled.
  return accessed(false, [&] { return tok != nullptr && tok->shared->cancelled(); });
}

void tgm_cancellation_token_free(tgm_cancellation_token_t* tok) {
  // Tasks that were attached go on.
  delete tok;
}

tgm_error tgm_async_task_set_completion(tgm_async_task_t* task, void (*cb)(void*),
                                        void* userdata) {
  return guarded(given(task, cb), [&] {
    // The function is called on a thread of the runtime.
    return task->state->set_completion([cb, userdata] { cb(userdata); });
  });
}

bool tgm_async_task_is_ready(const tgm_async_task_t* task) {
  // NULL is never ready.
  return accessed(false, [&] { return task != nullptr && task->state->ended(); });
}

void tgm_async_task_cancel(tgm_async_task_t* task) {
  (void)accessed(false, [&] {
    // Ends the task at once, even if its work goes on for a while.
    if (task != nullptr) {
      task->state->fail(cancelled());
    }
    return true;
  });
}

/// The task goes on without its handle.
void tgm_async_task_free(tgm_async_task_t* task) {
  delete task;
}

tgm_error tgm_async_task_join_void(tgm_async_task_t* task) {
  // For tasks without a value, such as writes.
  return join_as<std::monostate>(task, true, [](std::monostate) {});
}

tgm_error tgm_async_task_join_size(tgm_async_task_t* task, uint64_t* out) {
  return join_as<std::uint64_t>(task, out != nullptr,
                                // For numbers, such as that of the messages in a file.
                                [&](std::uint64_t value) { *out = value; });
}

tgm_error tgm_async_task_join_bytes(tgm_async_task_t* task, tgm_bytes_t* out) {
  return join_as<owned_bytes>(task, out != nullptr,
                              // The caller frees the bytes.
                              [&](owned_bytes& value) { *out = value.release(); });
}

tgm_error tgm_async_task_join_message(tgm_async_task_t* task, tgm_message_t** out) {
  // The functions below differ in the kind of the handle alone.
  return join_handle(task, out);
}

tgm_error tgm_async_task_join_metadata(tgm_async_task_t* task, tgm_metadata_t** out) {
  return join_handle(task, out);
}

tgm_error tgm_async_task_join_async_file(tgm_async_task_t* task, tgm_async_file_t** out) {
  return join_handle(task, out);
}

tgm_error tgm_async_task_join_async_streaming_encoder(
    tgm_async_task_t* task, tgm_async_streaming_encoder_t** out) {
  return join_handle(task, out);
}

tgm_error tgm_async_task_join_multi_bytes(tgm_async_task_t* task, tgm_bytes_t** out_array,
                                          size_t* out_count) {
  return join_as<std::vector<owned_bytes>>(
      task, given(out_array, out_count), [&](std::vector<owned_bytes>& value) {
        // An array of C++ memory, which tgm_multi_bytes_free() frees.
        auto* array = new tgm_bytes_t[value.size()];
        std::transform(value.begin(), value.end(), array,
                       [](owned_bytes& bytes) { return bytes.release(); });
        *out_array = array;
        *out_count = value.size();
      });
}

void tgm_multi_bytes_free(tgm_bytes_t* array, size_t count) {
  // NULL is accepted, as by `free`.
  for (std::size_t i = 0; array != nullptr && i < count; ++i) {
    tgm_bytes_free(array[i]);
  }
  delete[] array;
}

}  // extern "C"
