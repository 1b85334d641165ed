// SPDX-License-Identifier: Apache-2.0
/// @file
/// Helpers that the tests of files behind addresses share.
#pragma once

#include <chrono>
#include <limits>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "conformance/tensogram_c/support.hpp"
#include "formats/remote/test_server.hpp"

namespace weir::test::tgm {

/// Number of elements of each object of big_message().
inline constexpr std::size_t big_object_elements = 100'000;

/// Returns the elements of an object of big_message().
inline std::vector<float> big_object(std::size_t message, std::size_t object) {
  std::vector<float> out(big_object_elements);
  std::iota(out.begin(), out.end(),
            static_cast<float>(1'000'000 * message + 100'000 * object));
  return out;
}

/// Returns a message of `count` objects of 400,000 bytes without compression, named o0,
/// o1 and so on.
inline std::string big_message(std::size_t message, std::size_t count) {
  std::string base;
  std::string descriptors;
  std::vector<std::vector<float>> elements;
  std::vector<const std::uint8_t*> data;
  std::vector<std::size_t> lengths;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string comma = i == 0 ? "" : ",";
    base += comma + "{\"name\": \"o" + std::to_string(i) + "\"}";
    descriptors += comma + R"({"dtype": "float32", "shape": [)" +
                   std::to_string(big_object_elements) + "]}";
    elements.push_back(big_object(message, i));
    data.push_back(as_u8(elements.back().data()));
    lengths.push_back(elements.back().size() * sizeof(float));
  }
  const std::string json =
      "{\"base\": [" + base + "], \"descriptors\": [" + descriptors + "]}";
  owned out;
  EXPECT_EQ(
      tgm_encode(json.c_str(), data.data(), lengths.data(), count, "xxh3", 0, &out.bytes),
      TGM_ERROR_OK)
      << last_error();
  return out.text();
}

using storage_options = std::vector<std::pair<std::string, std::string>>;

/// Launches the opening of an address.
inline made<task> opening_of(const std::string& url, const storage_options& options = {},
                             bool both_ends = false,
                             tgm_cancellation_token_t* cancel = nullptr,
                             std::uint64_t timeout_ms = 0) {
  std::vector<const char*> keys;
  std::vector<const char*> values;
  for (const auto& [key, value] : options) {
    keys.push_back(key.c_str());
    values.push_back(value.c_str());
  }
  return make<task>(tgm_async_file_open_remote, url.c_str(), keys.data(), values.data(),
                    options.size(), both_ends, cancel, timeout_ms);
}
/// Opens an address and waits for the handle.
inline made<async_file> opened_at(const std::string& url,
                                  const storage_options& options = {},
                                  bool both_ends = false) {
  const auto opening = opening_of(url, options, both_ends);
  EXPECT_EQ(opening.code, TGM_ERROR_OK) << last_error();
  return make<async_file>(tgm_async_task_join_async_file, opening.get());
}

/// Launches the decoding of one object.
inline made<task> object_of(const made<async_file>& file, std::size_t message,
                            std::size_t object,
                            tgm_cancellation_token_t* cancel = nullptr,
                            std::uint64_t timeout_ms = 0) {
  return make<task>(tgm_async_file_decode_object, file.get(), message, object, true, 0u,
                    true, false, cancel, timeout_ms);
}
/// These functions launch the reading of a part of a file.
inline made<task> message_of(const made<async_file>& file, std::size_t message) {
  return make<task>(tgm_async_file_decode_message, file.get(), message, true, 0u, true,
                    false, nullptr, 0u);
}
inline made<task> bytes_of(const made<async_file>& file, std::size_t message) {
  return make<task>(tgm_async_file_read_message, file.get(), message, nullptr, 0u);
}
inline made<task> metadata_of(const made<async_file>& file, std::size_t message) {
  return make<task>(tgm_async_file_decode_metadata, file.get(), message, nullptr, 0u);
}
inline made<task> range_of(const made<async_file>& file, std::size_t message,
                           std::size_t object, std::uint64_t offset,
                           std::uint64_t count) {
  return make<task>(tgm_async_file_decode_range, file.get(), message, object, &offset,
                    &count, std::size_t{1}, true, 0u, nullptr, 0u);
}

/// Joins a task that reads ranges and returns its code; drops the ranges.
inline tgm_error joined_ranges(const made<task>& launched) {
  tgm_bytes_t* parts = nullptr;
  std::size_t count = 0;
  const tgm_error code = tgm_async_task_join_multi_bytes(launched.get(), &parts, &count);
  tgm_multi_bytes_free(parts, count);
  return code;
}
/// Joins a task that reads bytes and returns its code; drops the bytes.
inline tgm_error joined_bytes(const made<task>& launched) {
  owned bytes;
  return tgm_async_task_join_bytes(launched.get(), &bytes.bytes);
}

/// Returns whether the last error contains a text; a failure shows the error.
inline testing::AssertionResult last_error_says(const std::string& text) {
  return (last_error().find(text) != std::string::npos ? testing::AssertionSuccess()
                                                       : testing::AssertionFailure())
         << "\"" << text << "\" in:\n"
         << last_error();
}

/// Number of requests that a server has answered, and of the bytes of bodies that it has
/// sent.
struct traffic {
  std::size_t requests = 0;
  std::uint64_t bytes = 0;
};
/// Returns the traffic since the log of the server was last read.
inline traffic traffic_of(test_server& server) {
  traffic out;
  for (const auto& entry : server.log()) {
    ++out.requests;
    out.bytes += entry["sent"].get<std::uint64_t>();
  }
  return out;
}

/// Waits up to five seconds until the server answers no request any more. Returns false
/// if it still does.
inline bool becomes_idle(test_server& server) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (server.active() != 0) {
    if (std::chrono::steady_clock::now() > end) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}
/// Waits until the server has received a request since its log was last read.
inline void wait_for_request(test_server& server) {
  while (server.log().empty()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace weir::test::tgm
