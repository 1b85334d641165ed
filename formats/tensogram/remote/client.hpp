// SPDX-License-Identifier: Apache-2.0
/// @file
/// Ranges of one file, asked for together and again where that may help.
#pragma once

#include <curl/curl.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "tensogram/remote/transfer.hpp"
#include "weir/formats/remote.hpp"

namespace weir::formats {

using steady_time = std::chrono::steady_clock::time_point;

/// What ends a call early, with the end of its time.
struct call_end {
  std::stop_token stop;
  steady_time deadline = steady_time::max();
};

/// A range of the file and the memory that it fills.
struct range_request {
  std::uint64_t offset = 0;
  mutable_bytes to;
};

/// Asks one server for parts of one file. @threads{safe to call concurrently}
class range_client {
 public:
  range_client(remote_address address, remote_settings settings,
               const remote_options& options);

  [[nodiscard]] const remote_address& address() const noexcept { return address_; }
  [[nodiscard]] const remote_settings& settings() const noexcept { return settings_; }
  [[nodiscard]] remote_traffic traffic() const noexcept;

  /// The first request: up to `bytes` from the start of the file, into `first`, or all of
  /// it, where the server knows no ranges. Tells the version that all later answers must
  /// have, and whether `first` is the whole file.
  struct opened {
    byte_vector first;
    bool whole = false;
    std::uint64_t size = 0;
  };
  [[nodiscard]] result<opened> open(std::uint64_t bytes, const call_end& end);

  /// Fills all ranges. After an error their memory holds anything.
  /// @pre open() has succeeded @error{source_unavailable; timeout; interrupted}
  [[nodiscard]] result<void> fetch(std::span<const range_request> ranges,
                                   const call_end& end);

 private:
  friend class range_batch;
  [[nodiscard]] std::string current_url() const;
  void remember_url(std::string url);

  remote_address address_;
  remote_settings settings_;
  unsigned repeats_;
  std::chrono::milliseconds first_pause_;
  std::uint64_t whole_file_bytes_;
  file_version version_;

  mutable std::mutex mutex_;
  std::string url_;  ///< of the address, or where the last redirect has led

  struct multi_closer {
    void operator()(CURLM* multi) const noexcept { curl_multi_cleanup(multi); }
  };
  using multi_handle = std::unique_ptr<CURLM, multi_closer>;
  /// Handles that no call uses, with their open connections.
  std::vector<multi_handle> idle_;
  [[nodiscard]] multi_handle take_handle();
  void give_handle(multi_handle multi);

  std::atomic<std::uint64_t> requests_{0};
  std::atomic<std::uint64_t> repeated_{0};
  std::atomic<std::uint64_t> bytes_{0};
};

}  // namespace weir::formats
