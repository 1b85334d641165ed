// SPDX-License-Identifier: Apache-2.0
/// @file
/// Files of messages, iteration, and streams that write one.
#pragma once

#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "messages.hpp"

namespace wrapped {

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

}  // namespace wrapped
