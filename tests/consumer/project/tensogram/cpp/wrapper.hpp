// SPDX-License-Identifier: Apache-2.0
/// @file
/// A C++17 wrapper around the C interface, as a user might write it: handles that free
/// themselves, one exception type per code, and futures. It calls every function of
/// tensogram.h.
#pragma once

extern "C" {
#include "tensogram.h"
}

#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace wrapped {

// ---- errors --------------------------------------------------------------------------

/// An error of the library: its code, and the text of the last error.
class failure : public std::runtime_error {
 public:
  failure(tgm_error code, const std::string& text)
      : std::runtime_error(std::string(tgm_error_string(code)) + ": " + text),
        code_(code) {}
  tgm_error code() const noexcept { return code_; }

 private:
  tgm_error code_;
};
/// The exception type of one code.
template <tgm_error Code>
struct failure_with : failure {
  explicit failure_with(const std::string& text) : failure(Code, text) {}
};

/// Throws the exception type of a code; recursion over the codes finds the type.
template <int Candidate = TGM_ERROR_FRAMING>
[[noreturn]] void raise(tgm_error code) {
  if constexpr (Candidate > TGM_ERROR_CANCELLED) {
    throw std::logic_error("a code that the interface does not have");
  } else {
    if (code == Candidate) {
      const char* text = tgm_last_error();
      throw failure_with<static_cast<tgm_error>(Candidate)>(text != nullptr ? text : "");
    }
    raise<Candidate + 1>(code);
  }
}
/// Throws the exception of a code other than TGM_ERROR_OK.
inline void check(tgm_error code) {
  if (code != TGM_ERROR_OK) {
    raise(code);
  }
}

// ---- handles -------------------------------------------------------------------------

/// A deleter that calls a function of the interface.
template <auto Free>
struct freed_by {
  template <class T>
  void operator()(T* handle) const noexcept {
    static_assert(std::is_same_v<decltype(Free), void (*)(T*)>);
    Free(handle);
  }
};
template <class T, void (*Free)(T*)>
using owner = std::unique_ptr<T, freed_by<Free>>;

/// Calls a function that writes a handle to its last parameter, and returns the handle.
template <class Owner, class... Parameters, class... Arguments>
Owner made_by(tgm_error (*create)(Parameters...), Arguments&&... arguments) {
  typename Owner::pointer handle = nullptr;
  check(create(std::forward<Arguments>(arguments)..., &handle));
  return Owner(handle);
}

/// Bytes that the library has allocated.
class bytes {
 public:
  bytes() = default;
  explicit bytes(tgm_bytes_t raw) : raw_(raw) {}
  bytes(bytes&& other) noexcept : raw_(std::exchange(other.raw_, {nullptr, 0})) {}
  bytes& operator=(bytes&& other) noexcept {
    std::swap(raw_, other.raw_);
    return *this;
  }
  ~bytes() { tgm_bytes_free(raw_); }
  const std::uint8_t* data() const noexcept { return raw_.data; }
  std::size_t size() const noexcept { return raw_.len; }
  std::string_view text() const noexcept {
    return {reinterpret_cast<const char*>(raw_.data), raw_.len};
  }
  tgm_bytes_t* raw() noexcept { return &raw_; }

 private:
  tgm_bytes_t raw_{nullptr, 0};
};
/// Calls a function that writes bytes to its last parameter, and returns them.
template <class... Parameters, class... Arguments>
bytes bytes_by(tgm_error (*create)(Parameters...), Arguments&&... arguments) {
  bytes out;
  check(create(std::forward<Arguments>(arguments)..., out.raw()));
  return out;
}

// ---- values and metadata -------------------------------------------------------------

/// A view of a value; it lives as long as its metadata.
class value {
 public:
  explicit value(const tgm_value_t* raw) : raw_(raw) {}
  explicit operator bool() const noexcept { return raw_ != nullptr; }
  tgm_value_type type() const { return tgm_value_get_type(raw_); }
  std::optional<bool> as_bool() const { return as(tgm_value_as_bool); }
  std::optional<std::int64_t> as_i64() const { return as(tgm_value_as_i64); }
  std::optional<std::uint64_t> as_u64() const { return as(tgm_value_as_u64); }
  std::optional<double> as_f64() const { return as(tgm_value_as_f64); }
  std::optional<std::string_view> as_string() const {
    std::size_t length = 0;
    const char* text = tgm_value_as_string(raw_, &length);
    return text != nullptr ? std::optional(std::string_view(text, length)) : std::nullopt;
  }
  std::optional<std::vector<std::uint8_t>> as_bytes() const {
    std::size_t length = 0;
    const std::uint8_t* data = tgm_value_as_bytes(raw_, &length);
    return data != nullptr ? std::optional(std::vector(data, data + length))
                           : std::nullopt;
  }
  std::vector<value> items() const {
    std::vector<value> out;
    for (std::size_t i = 0; i < tgm_value_array_len(raw_); ++i) {
      out.emplace_back(tgm_value_array_get(raw_, i));
    }
    return out;
  }
  std::vector<std::pair<std::string, value>> entries() const {
    std::vector<std::pair<std::string, value>> out;
    for (std::size_t i = 0; i < tgm_value_map_len(raw_); ++i) {
      std::size_t length = 0;
      const char* key = tgm_value_map_key_at(raw_, i, &length);
      out.emplace_back(std::string(key, length), tgm_value_map_value_at(raw_, i));
    }
    return out;
  }
  value operator[](const char* key) const { return value(tgm_value_map_get(raw_, key)); }

 private:
  template <class T>
  std::optional<T> as(bool (*get)(const tgm_value_t*, T*)) const {
    T out{};
    return get(raw_, &out) ? std::optional<T>(out) : std::nullopt;
  }
  const tgm_value_t* raw_;
};

/// Metadata of a message.
class metadata {
 public:
  using handle = owner<tgm_metadata_t, tgm_metadata_free>;
  explicit metadata(handle h) : h_(std::move(h)) {}
  std::uint64_t version() const { return tgm_metadata_version(h_.get()); }
  std::size_t objects() const { return tgm_metadata_num_objects(h_.get()); }
  value get(const char* path) const { return value(tgm_metadata_get(h_.get(), path)); }
  value get(std::size_t object, const char* path) const {
    return value(tgm_metadata_get_at(h_.get(), object, path));
  }
  bool has(const char* path) const { return tgm_metadata_has(h_.get(), path); }
  bool has(std::size_t object, const char* path) const {
    return tgm_metadata_has_at(h_.get(), object, path);
  }
  value object(std::size_t i) const { return value(tgm_metadata_object(h_.get(), i)); }
  value extra() const { return value(tgm_metadata_extra(h_.get())); }
  value reserved() const { return value(tgm_metadata_reserved(h_.get())); }
  std::string text(const char* key) const {
    return or_none(tgm_metadata_get_string(h_.get(), key));
  }
  std::string text(std::size_t object, const char* key) const {
    return or_none(tgm_metadata_get_string_at(h_.get(), object, key));
  }
  std::int64_t integer(const char* key, std::int64_t otherwise) const {
    return tgm_metadata_get_int(h_.get(), key, otherwise);
  }
  std::int64_t integer(std::size_t object, const char* key,
                       std::int64_t otherwise) const {
    return tgm_metadata_get_int_at(h_.get(), object, key, otherwise);
  }
  double number(const char* key, double otherwise) const {
    return tgm_metadata_get_float(h_.get(), key, otherwise);
  }
  double number(std::size_t object, const char* key, double otherwise) const {
    return tgm_metadata_get_float_at(h_.get(), object, key, otherwise);
  }
  std::string json() const { return or_none(tgm_metadata_to_json(h_.get())); }
  std::string json(std::size_t object) const {
    return or_none(tgm_metadata_object_to_json(h_.get(), object));
  }

 private:
  static std::string or_none(const char* text) {
    return text != nullptr ? text : "(none)";
  }
  handle h_;
};

// ---- messages ------------------------------------------------------------------------

/// A view of one object of a message.
struct object {
  std::vector<std::uint64_t> shape, strides;
  std::string dtype, type, byte_order, encoding, filter, compression, hash_type, hash;
  std::string_view data;
};

/// A decoded message.
class message {
 public:
  using handle = owner<tgm_message_t, tgm_message_free>;
  explicit message(handle h) : h_(std::move(h)) {}
  std::uint64_t version() const { return tgm_message_version(h_.get()); }
  std::size_t size() const {
    return tgm_message_num_decoded(h_.get()) == tgm_message_num_objects(h_.get())
               ? tgm_message_num_objects(h_.get())
               : 0;
  }
  metadata meta() const {
    return metadata(made_by<metadata::handle>(tgm_message_metadata, h_.get()));
  }
  object at(std::size_t i) const {
    const tgm_message_t* m = h_.get();
    std::size_t length = 0;
    const std::uint8_t* data = tgm_object_data(m, i, &length);
    if (data == nullptr) {
      throw std::out_of_range("no such object");
    }
    const std::uint64_t ndim = tgm_object_ndim(m, i);
    const std::uint64_t* shape = tgm_object_shape(m, i);
    const std::uint64_t* strides = tgm_object_strides(m, i);
    object out{{shape, shape + ndim},
               {strides, strides + ndim},
               tgm_object_dtype(m, i),
               tgm_object_type(m, i),
               tgm_object_byte_order(m, i),
               tgm_payload_encoding(m, i),
               tgm_object_filter(m, i),
               tgm_object_compression(m, i),
               "",
               "",
               {reinterpret_cast<const char*>(data), length}};
    if (tgm_payload_has_hash(m, i) != 0) {
      out.hash_type = tgm_object_hash_type(m, i);
      out.hash = tgm_object_hash_value(m, i);
    }
    return out;
  }

 private:
  handle h_;
};

/// Payloads to encode, as the arrays of pointers and lengths that the interface takes.
struct payloads {
  std::vector<const std::uint8_t*> data;
  std::vector<std::size_t> lengths;
  template <class T>
  payloads& add(const std::vector<T>& values) {
    data.push_back(reinterpret_cast<const std::uint8_t*>(values.data()));
    lengths.push_back(values.size() * sizeof(T));
    return *this;
  }
  /// Returns the leading arguments of every function that encodes.
  auto arguments(const char* json, const char* hash) const {
    return std::tuple(json, data.data(), lengths.data(), data.size(), hash,
                      std::uint32_t{0});
  }
};

using mask_options = TgmEncodeMaskOptions;

/// Encodes a message.
inline bytes encode(const char* json, const payloads& p, const char* hash = "xxh3") {
  return std::apply([](auto... all) { return bytes_by(tgm_encode, all...); },
                    p.arguments(json, hash));
}
/// Encodes a message whose values may be infinite or NaN.
inline bytes encode(const char* json, const payloads& p, const mask_options& masks,
                    const char* hash = "xxh3") {
  return std::apply(
      [&](auto... all) { return bytes_by(tgm_encode_with_options, all..., &masks); },
      p.arguments(json, hash));
}
/// Encodes a message of payloads that were encoded before.
inline bytes encode_stored(const char* json, const payloads& p,
                           const char* hash = "xxh3") {
  return std::apply([](auto... all) { return bytes_by(tgm_encode_pre_encoded, all...); },
                    p.arguments(json, hash));
}
/// Returns the digest of bytes as text.
inline bytes digest(std::string_view content) {
  return bytes_by(tgm_compute_hash, reinterpret_cast<const std::uint8_t*>(content.data()),
                  content.size(), "xxh3");
}
/// Returns reference value and binary scale for packing values into so many bits.
inline std::pair<double, std::int32_t> packing(const std::vector<double>& values,
                                               std::uint32_t bits) {
  std::pair<double, std::int32_t> out;
  check(tgm_simple_packing_compute_params(values.data(), values.size(), bits, 0,
                                          &out.first, &out.second));
  return out;
}

/// Decodes a message; `verify` requires digests.
inline message decode(const bytes& from, bool verify = true) {
  return message(made_by<message::handle>(tgm_decode, from.data(), from.size(), 1, 0u,
                                          verify ? 1 : 0));
}
/// Decodes a message, with or without the values of its masks.
inline message decode(const bytes& from, const TgmDecodeMaskOptions& options) {
  return message(made_by<message::handle>(tgm_decode_with_options, from.data(),
                                          from.size(), 1, 0u, 0, &options));
}
/// Decodes the metadata of a message alone.
inline metadata decode_metadata(const bytes& from) {
  return metadata(
      made_by<metadata::handle>(tgm_decode_metadata, from.data(), from.size()));
}
/// Decodes one object of a message.
inline message decode_object(const bytes& from, std::size_t index) {
  return message(made_by<message::handle>(tgm_decode_object, from.data(), from.size(),
                                          index, 1, 0u, 1));
}
/// Returns one buffer for each range of (offset, count), or a single one if `join`.
inline std::vector<bytes> decode_ranges(
    const bytes& from, std::size_t index,
    const std::vector<std::pair<std::uint64_t, std::uint64_t>>& ranges,
    bool join = false) {
  std::vector<std::uint64_t> offsets;
  std::vector<std::uint64_t> counts;
  for (const auto& [offset, count] : ranges) {
    offsets.push_back(offset);
    counts.push_back(count);
  }
  std::vector<tgm_bytes_t> parts(join ? 1 : ranges.size());
  std::size_t found = 0;
  check(tgm_decode_range(from.data(), from.size(), index, offsets.data(), counts.data(),
                         ranges.size(), 1, 0, join ? 1 : 0, parts.data(), &found));
  std::vector<bytes> out;
  for (std::size_t i = 0; i < found; ++i) {
    out.emplace_back(parts[i]);
  }
  return out;
}
/// Returns the places of the messages in a buffer.
inline std::vector<tgm_scan_entry_t> scan(const bytes& from) {
  const auto found = made_by<owner<tgm_scan_result_t, tgm_scan_free>>(
      tgm_scan, from.data(), from.size());
  std::vector<tgm_scan_entry_t> out;
  for (std::size_t i = 0; i < tgm_scan_count(found.get()); ++i) {
    out.push_back(tgm_scan_entry(found.get(), i));
  }
  return out;
}
/// Returns the report on a message, or on a file.
inline bytes validate(const bytes& from, const char* level = nullptr) {
  return bytes_by(tgm_validate, from.data(), from.size(), level, 0);
}
inline bytes validate(const std::string& path, const char* level = nullptr) {
  return bytes_by(tgm_validate_file, path.c_str(), level, 0);
}
/// Returns the report of the library on itself.
inline bytes doctor() {
  return bytes_by(tgm_doctor_to_json);
}

// ---- files and iteration -------------------------------------------------------------

/// A file of messages.
class file {
 public:
  using handle = owner<tgm_file_t, tgm_file_close>;
  static file open(const std::string& path) {
    return file(made_by<handle>(tgm_file_open, path.c_str()));
  }
  static file create(const std::string& path) {
    return file(made_by<handle>(tgm_file_create, path.c_str()));
  }
  std::string path() const { return tgm_file_path(h_.get()); }
  std::size_t size() const {
    std::size_t out = 0;
    check(tgm_file_message_count(h_.get(), &out));
    return out;
  }
  message decode(std::size_t index) const {
    return message(
        made_by<message::handle>(tgm_file_decode_message, h_.get(), index, 1, 0u, 1));
  }
  bytes read(std::size_t index) const {
    return bytes_by(tgm_file_read_message, h_.get(), index);
  }
  void append(const bytes& raw) {
    check(tgm_file_append_raw(h_.get(), raw.data(), raw.size()));
  }
  void append(const char* json, const payloads& p) {
    check(std::apply([&](auto... all) { return tgm_file_append(h_.get(), all...); },
                     p.arguments(json, "xxh3")));
  }
  void append(const char* json, const payloads& p, const mask_options& masks) {
    check(std::apply(
        [&](auto... all) {
          return tgm_file_append_with_options(h_.get(), all..., &masks);
        },
        p.arguments(json, "xxh3")));
  }
  tgm_file_t* get() const { return h_.get(); }

 private:
  explicit file(handle h) : h_(std::move(h)) {}
  handle h_;
};

/// Calls `next` until it reports the end of an iteration, and `use` after each call that
/// has given an item.
template <class Next, class Use>
void each(const Next& next, const Use& use) {
  for (;;) {
    const tgm_error code = next();
    if (code == TGM_ERROR_END_OF_ITER) {
      return;
    }
    check(code);
    use();
  }
}
/// Returns views of the messages in a buffer.
inline std::vector<std::string_view> messages_in(const bytes& from) {
  const auto walk = made_by<owner<tgm_buffer_iter_t, tgm_buffer_iter_free>>(
      tgm_buffer_iter_create, from.data(), from.size());
  std::vector<std::string_view> out;
  out.reserve(tgm_buffer_iter_count(walk.get()));
  const std::uint8_t* data = nullptr;
  std::size_t length = 0;
  each([&] { return tgm_buffer_iter_next(walk.get(), &data, &length); },
       [&] { out.emplace_back(reinterpret_cast<const char*>(data), length); });
  return out;
}
/// Returns the messages of a file.
inline std::vector<bytes> messages_in(const file& from) {
  const auto walk = made_by<owner<tgm_file_iter_t, tgm_file_iter_free>>(
      tgm_file_iter_create, from.get());
  std::vector<bytes> out;
  tgm_bytes_t raw{nullptr, 0};
  each([&] { return tgm_file_iter_next(walk.get(), &raw); },
       [&] { out.emplace_back(raw); });
  return out;
}
/// Returns the objects of a message, each as a message of its own.
inline std::vector<message> objects_in(const bytes& from) {
  const auto walk = made_by<owner<tgm_object_iter_t, tgm_object_iter_free>>(
      tgm_object_iter_create, from.data(), from.size(), 1, 1);
  std::vector<message> out;
  tgm_message_t* raw = nullptr;
  each([&] { return tgm_object_iter_next(walk.get(), &raw); },
       [&] { out.emplace_back(message::handle(raw)); });
  return out;
}

// ---- streams -------------------------------------------------------------------------

/// Writes a message to a file object by object.
class encoder {
 public:
  encoder(const std::string& path, const char* json)
      : h_(made_by<handle>(tgm_streaming_encoder_create, path.c_str(), json, "xxh3",
                           0u)) {}
  encoder(const std::string& path, const char* json, const mask_options& masks)
      : h_(made_by<handle>(tgm_streaming_encoder_create_with_options, path.c_str(), json,
                           nullptr, 0u, &masks)) {}
  void describe_next(const char* json) {
    check(tgm_streaming_encoder_write_preceder(h_.get(), json));
  }
  template <class T>
  void write(const char* descriptor, const std::vector<T>& values) {
    put(tgm_streaming_encoder_write, descriptor, values);
  }
  template <class T>
  void write_stored(const char* descriptor, const std::vector<T>& values) {
    put(tgm_streaming_encoder_write_pre_encoded, descriptor, values);
  }
  std::size_t size() const { return tgm_streaming_encoder_count(h_.get()); }
  void finish() { check(tgm_streaming_encoder_finish(h_.get())); }

 private:
  using handle = owner<tgm_streaming_encoder_t, tgm_streaming_encoder_free>;
  template <class Put, class T>
  void put(Put call, const char* descriptor, const std::vector<T>& values) {
    check(call(h_.get(), descriptor, reinterpret_cast<const std::uint8_t*>(values.data()),
               values.size() * sizeof(T)));
  }
  handle h_;
};

// ---- tasks ---------------------------------------------------------------------------

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
