// SPDX-License-Identifier: Apache-2.0
/// @file
/// Helpers that the tests of the C interface share: handles that free themselves, and
/// sample messages that are made through the interface alone.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <tensogram/tensogram_x.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

namespace weir::test::tgm {

/// A deleter that calls a function of the interface.
template <auto Free>
struct freeing {
  template <class T>
  void operator()(T* handle) const noexcept {
    Free(handle);
  }
};
template <class T, auto Free>
using handle = std::unique_ptr<T, freeing<Free>>;

using message = handle<tgm_message_t, tgm_message_free>;
using metadata = handle<tgm_metadata_t, tgm_metadata_free>;
using file = handle<tgm_file_t, tgm_file_close>;
using scan_result = handle<tgm_scan_result_t, tgm_scan_free>;
using buffer_iter = handle<tgm_buffer_iter_t, tgm_buffer_iter_free>;
using file_iter = handle<tgm_file_iter_t, tgm_file_iter_free>;
using object_iter = handle<tgm_object_iter_t, tgm_object_iter_free>;
using encoder = handle<tgm_streaming_encoder_t, tgm_streaming_encoder_free>;
using token = handle<tgm_cancellation_token_t, tgm_cancellation_token_free>;
using task = handle<tgm_async_task_t, tgm_async_task_free>;
using async_file = handle<tgm_async_file_t, tgm_async_file_close>;
using async_encoder =
    handle<tgm_async_streaming_encoder_t, tgm_async_streaming_encoder_free>;
using splitter = handle<tgm_x_splitter_t, tgm_x_splitter_free>;

/// The handle that a function has made and its code. After an error the handle is empty.
template <class Handle>
struct made {
  tgm_error code = TGM_ERROR_OK;
  Handle handle;
  auto* get() const { return handle.get(); }
};
/// Calls a function whose last argument receives a handle.
template <class Handle, class Call, class... Arguments>
made<Handle> make(const Call& call, Arguments... arguments) {
  typename Handle::pointer raw = nullptr;
  made<Handle> out;
  out.code = call(arguments..., &raw);
  out.handle.reset(raw);
  return out;
}

/// Bytes that the library has allocated, freed with the object.
struct owned {
  tgm_bytes_t bytes{nullptr, 0};
  owned() = default;
  owned(owned&& other) noexcept : bytes(std::exchange(other.bytes, {nullptr, 0})) {}
  owned& operator=(owned&& other) noexcept {
    std::swap(bytes, other.bytes);
    return *this;
  }
  ~owned() { tgm_bytes_free(bytes); }
  [[nodiscard]] std::string text() const {
    return {reinterpret_cast<const char*>(bytes.data), bytes.len};
  }
};

/// Returns data as the pointer type of the interface.
inline const std::uint8_t* as_u8(const void* data) {
  return static_cast<const std::uint8_t*>(data);
}
inline const std::uint8_t* as_u8(const std::string& bytes) {
  return as_u8(bytes.data());
}

/// Returns the text of the last error, or an empty text if there is none.
inline std::string last_error() {
  const char* text = tgm_last_error();
  return text != nullptr ? text : "";
}

/// Stores a number outside of an enumeration, as a program in C could.
template <class Enumeration>
void put_number(Enumeration& to, int number) {
  static_assert(sizeof to == sizeof number);
  std::memcpy(&to, &number, sizeof to);
}

/// The JSON of a message of two objects, with metadata of every type that JSON has.
inline constexpr const char* two_objects = R"({
  "base": [{"name": "a", "level": 0, "count": 42, "negative": -5, "ratio": 0.5,
            "empty": "", "flag": true, "nothing": null, "tags": ["x", "y"],
            "deep": {"class": "od", "list": [1, 2.5, true, null]}},
           {"name": "b", "level": 500, "grid": {"type": "regular"}}],
  "_extra_": {"run": "first", "revision": 7},
  "descriptors": [
    {"type": "ntensor", "ndim": 2, "shape": [2, 2], "strides": [2, 1],
     "dtype": "float32", "byte_order": "little", "encoding": "none", "filter": "none",
     "compression": "none"},
    {"type": "ntensor", "ndim": 1, "shape": [3], "strides": [1], "dtype": "float64",
     "byte_order": "little", "encoding": "none", "filter": "none",
     "compression": "lz4"}]})";

/// The elements of these two objects, as the arrays of pointers and lengths that the
/// interface takes.
struct two_arrays {
  std::vector<float> a{1, 2, 3, 4};
  std::vector<double> b{5, 6, 7};
  std::vector<const std::uint8_t*> data{as_u8(a.data()), as_u8(b.data())};
  std::vector<std::size_t> lengths{16, 24};
};

/// Returns a message of these two objects.
inline std::string encode_two(const char* hash_algorithm = "xxh3") {
  const two_arrays arrays;
  owned out;
  EXPECT_EQ(tgm_encode(two_objects, arrays.data.data(), arrays.lengths.data(), 2,
                       hash_algorithm, 0, &out.bytes),
            TGM_ERROR_OK)
      << last_error();
  return out.text();
}

/// Returns the JSON of a message of one object of four float32, with more keys in its
/// descriptor.
inline std::string four_floats_json(const std::string& keys = "",
                                    const std::string& around = "") {
  return "{" + around +
         R"("descriptors": [{"type": "ntensor", "ndim": 1, "shape": [4], "strides": [1],
             "dtype": "float32", "byte_order": "little", "encoding": "none",
             "filter": "none", "compression": "none")" +
         keys + "}]}";
}
inline constexpr const char* four_floats_descriptor = R"({"type": "ntensor", "ndim": 1,
    "shape": [4], "strides": [1], "dtype": "float32", "byte_order": "little",
    "encoding": "none", "filter": "none", "compression": "none"})";
inline constexpr float four_floats[4] = {1.5F, 2.5F, 3.5F, 4.5F};

/// Encodes one object.
inline tgm_error encode_one(const std::string& json, const void* data, std::size_t length,
                            owned& out, const char* hash_algorithm = "xxh3") {
  const std::uint8_t* const pointer = as_u8(data);
  return tgm_encode(json.c_str(), &pointer, &length, 1, hash_algorithm, 0, &out.bytes);
}

/// Decodes a message into the byte order of this machine.
inline made<message> decode(const std::string& bytes, bool verify = false) {
  return make<message>(tgm_decode, as_u8(bytes), bytes.size(), 1, 0u, verify ? 1 : 0);
}

/// Returns the content of a file.
inline std::string read_whole(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
/// Writes a file.
inline void write_whole(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

/// Joins a task that counts messages or bytes.
inline tgm_error joined_size(const made<task>& launched, std::uint64_t& out) {
  EXPECT_EQ(launched.code, TGM_ERROR_OK) << last_error();
  return tgm_async_task_join_size(launched.get(), &out);
}
/// Joins a task that decodes and returns its code; drops its message.
inline tgm_error joined_message(const made<task>& launched) {
  EXPECT_EQ(launched.code, TGM_ERROR_OK) << last_error();
  return make<message>(tgm_async_task_join_message, launched.get()).code;
}

/// Keeps all threads of the library busy until it is released. Each of them, at most
/// eight, opens a FIFO that has no writer.
class blocked_workers {
 public:
  explicit blocked_workers(const std::string& pipe) : pipe_(pipe) {
    EXPECT_EQ(::mkfifo(pipe_.c_str(), 0600), 0);
    for (int i = 0; i < 8; ++i) {
      opens_.push_back(make<task>(tgm_async_file_open, pipe_.c_str(), nullptr, 0u));
      EXPECT_EQ(opens_.back().code, TGM_ERROR_OK) << last_error();
    }
  }
  blocked_workers(const blocked_workers&) = delete;
  blocked_workers& operator=(const blocked_workers&) = delete;
  ~blocked_workers() {
    release();
    for (const auto& open : opens_) {
      (void)make<async_file>(tgm_async_task_join_async_file, open.get());
    }
    ::close(writer_);
  }
  /// Opens the FIFO for writing, so that the threads go on.
  void release() {
    writer_ = writer_ < 0 ? ::open(pipe_.c_str(), O_RDWR | O_CLOEXEC) : writer_;
    EXPECT_GE(writer_, 0);
  }

 private:
  std::string pipe_;
  std::vector<made<task>> opens_;
  int writer_ = -1;
};

}  // namespace weir::test::tgm
