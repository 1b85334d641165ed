// SPDX-License-Identifier: Apache-2.0
/// @file
/// One request for a range of a file, and the checks of its answer.
#pragma once

#include <curl/curl.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tensogram/remote/address.hpp"
#include "tensogram/remote/settings.hpp"
#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"

namespace weir::formats {

/// The value of a header Content-Range. @source{RFC 9110, 14.4}
struct content_range {
  std::optional<std::uint64_t> first;  ///< absent in "bytes */N"
  std::uint64_t last = 0;              ///< inclusive
  std::optional<std::uint64_t> total;  ///< absent in "bytes A-B/*"
};
/// Parses the header Content-Range. Returns nothing if the text has another form.
[[nodiscard]] std::optional<content_range> parse_content_range(std::string_view text);

/// The properties by which versions of a file are distinguished.
struct file_version {
  std::uint64_t size = 0;  ///< in bytes
  std::string etag;        ///< as the server sends it; empty if it sends none
  std::string modified;    ///< value of Last-Modified; empty if there is none

  /// Returns true if a request can be limited to this version: If-Match never matches a
  /// weak ETag.
  [[nodiscard]] bool strong() const noexcept {
    return !etag.empty() && etag.rfind("W/", 0) != 0;
  }
};

/// The range that a request is for, and the memory that its bytes fill.
struct range_wanted {
  std::uint64_t offset = 0;  ///< in the file
  mutable_bytes to;          ///< its size is that of the range
  /// The version that the answer must have. A null pointer in the first request of a
  /// file, whose answer may also be shorter than `to`.
  const file_version* version = nullptr;
  /// Receives the whole file, of up to `largest_whole` bytes, if the server does not
  /// support ranges. nullptr: such an answer is an error.
  byte_vector* whole = nullptr;
  std::uint64_t largest_whole = 0;  ///< in bytes
};

/// The server of a request and the identity of the sender.
struct request_target {
  const remote_address& address;
  const remote_settings& settings;
  std::string url;         ///< where the request is sent, perhaps after a redirect
  bool own_server = true;  ///< false: another server, which must not receive secrets
};

/// One GET request, which a multi handle of libcurl executes.
/// @threads{one thread at a time}
class transfer {
 public:
  transfer(request_target target, range_wanted wanted,
           std::chrono::milliseconds time_limit);
  transfer(const transfer&) = delete;
  transfer& operator=(const transfer&) = delete;
  ~transfer();

  /// Returns the handle to be added to a multi handle.
  [[nodiscard]] CURL* handle() const noexcept { return easy_; }

  /// How the request ended.
  enum class outcome : std::uint8_t {
    done,      ///< all bytes have arrived: in `to`, or the whole file in `whole`
    part,      ///< the first received() bytes have arrived
    repeat,    ///< nothing has arrived; another request may succeed
    redirect,  ///< to location()
    failed,    ///< for reason(); another request would fail as well
  };
  /// Determines the outcome. Called once, with the result that libcurl reports.
  [[nodiscard]] outcome finish(CURLcode code);

  // These functions are valid after `finish`.
  /// Returns the number of bytes that have arrived.
  [[nodiscard]] std::uint64_t received() const noexcept { return received_; }
  /// Returns the status of the answer; 0 without one.
  [[nodiscard]] long status() const noexcept { return status_; }
  /// Returns whether the time limit was reached.
  [[nodiscard]] bool timed_out() const noexcept { return timed_out_; }
  /// Returns the time that the server asks to wait before the next request; 0: none.
  [[nodiscard]] std::chrono::seconds retry_after() const noexcept { return retry_after_; }
  /// Returns where a redirect leads to.
  [[nodiscard]] const std::string& location() const noexcept { return location_; }
  /// Returns the version of the file in the answer.
  [[nodiscard]] const file_version& version() const noexcept { return found_; }
  /// Returns whether the answer was the whole file.
  [[nodiscard]] bool got_whole() const noexcept { return got_whole_; }
  /// Returns "expected X, found Y" for every outcome other than `done`.
  [[nodiscard]] const std::string& reason() const noexcept { return reason_; }
  /// Returns the code of the failure.
  [[nodiscard]] errc code() const noexcept { return code_; }
  /// Returns a hint for the user; it may be empty.
  [[nodiscard]] const std::string& hint() const noexcept { return hint_; }

 private:
  /// Called by libcurl with a piece of the body.
  static std::size_t take_body(char* bytes, std::size_t one, std::size_t count,
                               void* self);
  /// Sets all options of the request.
  void set_up(std::chrono::milliseconds time_limit);
  // Steps of the constructor: options, headers, signature, trust in certificates.
  void add_header(const std::string& line);
  void sign();
  void trust();
  /// Checks status and headers. Returns false if the answer must be refused.
  [[nodiscard]] bool accept_head();
  /// Checks an answer with a part of the file.
  [[nodiscard]] bool accept_part();
  /// Checks an answer with the whole file.
  [[nodiscard]] bool accept_whole();
  /// Returns whether the answer is of the version that was asked for.
  [[nodiscard]] bool same_version() const;
  /// Takes a piece of the body.
  [[nodiscard]] bool take(bytes_view bytes);
  /// Returns the value of a header of the answer; empty if there is none.
  [[nodiscard]] std::string header(const char* name) const;
  /// Notes a failure and returns false.
  bool fail(errc code, std::string reason, std::string hint = {});
  /// Determines the outcome of a request that was answered.
  [[nodiscard]] outcome finish_status();
  /// Determines the outcome of a request that was broken off.
  [[nodiscard]] outcome finish_broken(CURLcode code);
  /// Sets the reason for a status that is a failure.
  void explain_status();
  /// Sets the reason if the version is not there any more.
  void explain_lost_version();

  request_target target_;            ///< refers to the client's address and settings
  range_wanted wanted_;              ///< what is asked for
  CURL* easy_ = nullptr;             ///< owned
  curl_slist* headers_ = nullptr;    ///< owned; lines that are sent
  char text_[CURL_ERROR_SIZE] = {};  ///< libcurl's text for the last error

  bool head_seen_ = false;      ///< `accept_head` was called
  bool failed_ = false;         ///< the answer was refused; `reason_` says why
  bool timed_out_ = false;      ///< the time limit was reached
  bool got_whole_ = false;      ///< the answer is the whole file
  long status_ = 0;             ///< status of the answer
  std::uint64_t expected_ = 0;  ///< bytes that the server has announced
  std::uint64_t received_ = 0;  ///< bytes that are in the memory of the caller
  file_version found_;          ///< version that the answer states
  std::string error_body_;      ///< beginning of the body of an answer that is an error
  std::chrono::seconds retry_after_{0};   ///< value of Retry-After
  std::string location_;                  ///< value of Location
  std::string reason_;                    ///< "expected X, found Y"
  std::string hint_;                      ///< for the user
  errc code_ = errc::source_unavailable;  ///< code of the failure
};

}  // namespace weir::formats
