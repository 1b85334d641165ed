// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tasks with futures and cancellation; files and streams whose functions return tasks.
#pragma once

#include <exception>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "messages.hpp"

namespace wrapped {

/// Cancels the tasks that were started with it.
class token {
 public:
  void cancel() { tgm_cancellation_token_cancel(h_.get()); }
  bool cancelled() const { return tgm_cancellation_token_is_cancelled(h_.get()); }
  tgm_cancellation_token_t* get() const { return h_.get(); }

 private:
  owner<tgm_cancellation_token_t, tgm_cancellation_token_free> h_{
      tgm_cancellation_token_create()};
};

using task_handle = owner<tgm_async_task_t, tgm_async_task_free>;

/// A task of the library; `join` waits for it and makes its result a T.
template <class T>
class task {
 public:
  using join_function = T (*)(tgm_async_task_t*);
  task(task_handle h, join_function join) : h_(std::move(h)), join_(join) {}
  bool ready() const { return tgm_async_task_is_ready(h_.get()); }
  void cancel() { tgm_async_task_cancel(h_.get()); }
  T get() { return join_(h_.get()); }
  /// Returns the result as a future, which a callback of the library fulfils. The
  /// callback owns the task.
  std::future<T> future() && {
    struct context {
      task self;
      std::promise<T> promise;
    };
    auto* waiting = new context{std::move(*this), {}};
    std::future<T> out = waiting->promise.get_future();
    const auto done = [](void* userdata) {
      const std::unique_ptr<context> c(static_cast<context*>(userdata));
      try {
        if constexpr (std::is_void_v<T>) {
          c->self.get();
          c->promise.set_value();
        } else {
          c->promise.set_value(c->self.get());
        }
      } catch (...) {
        c->promise.set_exception(std::current_exception());
      }
    };
    check(tgm_async_task_set_completion(waiting->self.h_.get(), done, waiting));
    return out;
  }

 private:
  task_handle h_;
  join_function join_;
};

/// These functions wait for a task of each kind and return its result.
template <class T, class Raw, tgm_error (*Join)(tgm_async_task_t*, Raw**)>
T joined_handle(tgm_async_task_t* t) {
  return T(made_by<typename T::handle>(Join, t));
}
inline void joined_nothing(tgm_async_task_t* t) {
  check(tgm_async_task_join_void(t));
}
inline std::uint64_t joined_size(tgm_async_task_t* t) {
  std::uint64_t out = 0;
  check(tgm_async_task_join_size(t, &out));
  return out;
}
inline bytes joined_bytes(tgm_async_task_t* t) {
  return bytes_by(tgm_async_task_join_bytes, t);
}
inline std::vector<std::string> joined_parts(tgm_async_task_t* t) {
  tgm_bytes_t* parts = nullptr;
  std::size_t count = 0;
  check(tgm_async_task_join_multi_bytes(t, &parts, &count));
  std::vector<std::string> out;
  for (std::size_t i = 0; i < count; ++i) {
    out.emplace_back(reinterpret_cast<const char*>(parts[i].data), parts[i].len);
  }
  tgm_multi_bytes_free(parts, count);
  return out;
}

/// Optional limits of every launch: a token that cancels it, and a time.
struct limits {
  const token* cancel = nullptr;
  std::uint64_t milliseconds = 0;
  tgm_cancellation_token_t* raw() const { return cancel ? cancel->get() : nullptr; }
};
/// Launches a task that `join` joins.
template <class T, class... Parameters, class... Arguments>
task<T> launched(T (*join)(tgm_async_task_t*), tgm_error (*launch)(Parameters...),
                 const limits& l, Arguments... arguments) {
  return {made_by<task_handle>(launch, arguments..., l.raw(), l.milliseconds), join};
}

constexpr auto joined_message =
    &joined_handle<message, tgm_message_t, tgm_async_task_join_message>;
constexpr auto joined_metadata =
    &joined_handle<metadata, tgm_metadata_t, tgm_async_task_join_metadata>;

/// A file whose functions return tasks.
class async_file {
 public:
  using handle = owner<tgm_async_file_t, tgm_async_file_close>;
  explicit async_file(handle h) : h_(std::move(h)) {}
  static task<async_file> open(const std::string& path, const limits& l = {}) {
    return launched(joined_file, tgm_async_file_open, l, path.c_str());
  }
  static task<async_file> open_at(const std::string& url, const limits& l = {}) {
    const char* const keys[1] = {"timeout"};
    const char* const values[1] = {"5s"};
    return launched(joined_file, tgm_async_file_open_remote, l, url.c_str(), keys, values,
                    std::size_t{1}, true);
  }
  std::string path() const { return tgm_async_file_path(h_.get()); }
  task<std::uint64_t> size(const limits& l = {}) const {
    return launched(joined_size, tgm_async_file_message_count, l, h_.get());
  }
  task<bytes> read(std::size_t i, const limits& l = {}) const {
    return launched(joined_bytes, tgm_async_file_read_message, l, h_.get(), i);
  }
  task<message> decode(std::size_t i, const limits& l = {}) const {
    return launched(joined_message, tgm_async_file_decode_message, l, h_.get(), i, true,
                    0u, true, true);
  }
  task<message> decode_object(std::size_t i, std::size_t object,
                              const limits& l = {}) const {
    return launched(joined_message, tgm_async_file_decode_object, l, h_.get(), i, object,
                    true, 0u, true, true);
  }
  task<metadata> decode_metadata(std::size_t i, const limits& l = {}) const {
    return launched(joined_metadata, tgm_async_file_decode_metadata, l, h_.get(), i);
  }
  task<std::vector<std::string>> decode_ranges(std::size_t i, std::size_t object,
                                               const std::vector<std::uint64_t>& offsets,
                                               const std::vector<std::uint64_t>& counts,
                                               const limits& l = {}) const {
    return launched(joined_parts, tgm_async_file_decode_range, l, h_.get(), i, object,
                    offsets.data(), counts.data(), offsets.size(), true, 0u);
  }

 private:
  static async_file joined_file(tgm_async_task_t* t) {
    return joined_handle<async_file, tgm_async_file_t, tgm_async_task_join_async_file>(t);
  }
  handle h_;
};

/// A stream writer whose functions return tasks.
class async_encoder {
 public:
  using handle = owner<tgm_async_streaming_encoder_t, tgm_async_streaming_encoder_free>;
  explicit async_encoder(handle h) : h_(std::move(h)) {}
  static task<async_encoder> create(const std::string& path, const char* json,
                                    const limits& l = {}) {
    return launched(&joined_handle<async_encoder, tgm_async_streaming_encoder_t,
                                   tgm_async_task_join_async_streaming_encoder>,
                    tgm_async_streaming_encoder_create, l, path.c_str(), json, "xxh3",
                    0u);
  }
  std::string path() const { return tgm_async_streaming_encoder_path(h_.get()); }
  template <class T>
  task<void> write(const char* descriptor, const std::vector<T>& values,
                   const limits& l = {}) {
    return put(tgm_async_streaming_encoder_write_object, descriptor, values, l);
  }
  template <class T>
  task<void> write_stored(const char* descriptor, const std::vector<T>& values,
                          const limits& l = {}) {
    return put(tgm_async_streaming_encoder_write_pre_encoded, descriptor, values, l);
  }
  task<void> describe_next(const char* json, const limits& l = {}) {
    return launched(joined_nothing, tgm_async_streaming_encoder_write_preceder, l,
                    h_.get(), json);
  }
  task<void> finish(bool backfill, const limits& l = {}) {
    return launched(joined_nothing, tgm_async_streaming_encoder_finish, l, h_.get(),
                    backfill);
  }
  std::size_t size() const { return tgm_async_streaming_encoder_object_count(h_.get()); }
  std::optional<std::size_t> size_now() const {
    std::size_t out = 0;
    return tgm_async_streaming_encoder_try_object_count(h_.get(), &out) ==
                   TGM_OBJECT_COUNT_STATUS_OK
               ? std::optional(out)
               : std::nullopt;
  }

 private:
  template <class Put, class T>
  task<void> put(Put call, const char* descriptor, const std::vector<T>& values,
                 const limits& l) {
    return launched(joined_nothing, call, l, h_.get(), descriptor,
                    reinterpret_cast<const std::uint8_t*>(values.data()),
                    values.size() * sizeof(T));
  }
  handle h_;
};

/// Configures the threads of the library on construction and shuts them down on
/// destruction.
class runtime {
 public:
  runtime() { check(tgm_runtime_configure(2, 1, 0)); }
  runtime(const runtime&) = delete;
  runtime& operator=(const runtime&) = delete;
  ~runtime() { (void)tgm_runtime_shutdown_blocking(60'000); }
};

}  // namespace wrapped
