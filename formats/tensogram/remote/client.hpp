// SPDX-License-Identifier: Apache-2.0
/// @file
/// Requests for ranges of one file: several at the same time, and repeated where that may
/// help.
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

/// When a call must end: at a stop request, or at a point in time.
struct call_end {
  std::stop_token stop;                       ///< asks the call to end
  steady_time deadline = steady_time::max();  ///< after it the call fails with `timeout`
};

/// A range of the file and the memory that it fills.
struct range_request {
  std::uint64_t offset = 0;  ///< in the file
  mutable_bytes to;          ///< memory of the length of the range
};

/// Requests parts of one file from its server. @threads{safe to call concurrently}
class range_client {
 public:
  range_client(remote_address address, remote_settings settings,
               const remote_options& options);

  /// Returns the address of the file.
  [[nodiscard]] const remote_address& address() const noexcept { return address_; }
  /// Returns the settings of the store.
  [[nodiscard]] const remote_settings& settings() const noexcept { return settings_; }
  /// Returns the numbers of requests, repeats and bytes so far.
  [[nodiscard]] remote_traffic traffic() const noexcept;

  /// Sends the first request, for `bytes` bytes from the start of the file. Its answer
  /// fixes the version of which all later answers must be. A server that does not support
  /// ranges sends the whole file instead; then `whole` is true.
  struct opened {
    byte_vector first;       ///< the first bytes, or all of them
    bool whole = false;      ///< `first` has the whole file
    std::uint64_t size = 0;  ///< of the file
  };
  [[nodiscard]] result<opened> open(std::uint64_t bytes, const call_end& end);

  /// Fetches all ranges. After an error the contents of their memory are undefined. @pre
  /// open() has succeeded @error{source_unavailable; timeout; interrupted}
  [[nodiscard]] result<void> fetch(std::span<const range_request> ranges,
                                   const call_end& end);

 private:
  // A batch is one call of `fetch` or `open`; see client.cpp.
  friend class range_batch;
  /// Returns the URL for the next request.
  [[nodiscard]] std::string current_url() const;
  /// Keeps the target of a redirect, so that later requests go there at once.
  void remember_url(std::string url);

  remote_address address_;
  remote_settings settings_;
  unsigned repeats_;  ///< number of times that a request is repeated at most
  std::chrono::milliseconds
      first_pause_;                 ///< before the first repeat; it doubles with each
  std::uint64_t whole_file_bytes_;  ///< largest file that is taken whole
  file_version version_;            ///< of the file; constant after `open`

  mutable std::mutex mutex_;  ///< for `url_` and `idle_`
  std::string url_;  ///< URL to request: the address, or the target of the last redirect

  struct multi_closer {
    void operator()(CURLM* multi) const noexcept { curl_multi_cleanup(multi); }
  };
  using multi_handle = std::unique_ptr<CURLM, multi_closer>;
  /// Handles that no call uses at present. They keep their connections open.
  std::vector<multi_handle> idle_;
  /// Returns a handle that no other call uses.
  [[nodiscard]] multi_handle take_handle();
  /// Keeps a handle and its connections for a later call.
  void give_handle(multi_handle multi);

  // Counters for `traffic`.
  std::atomic<std::uint64_t> requests_{0};
  std::atomic<std::uint64_t> repeated_{0};
  std::atomic<std::uint64_t> bytes_{0};
};

}  // namespace weir::formats
