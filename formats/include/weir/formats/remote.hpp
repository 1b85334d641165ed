// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tensogram files behind http, https and s3 addresses, read by ranges. Library
/// weir::remote, which is the only one that needs libcurl.
///
/// A file is opened with one request. Everything else is read as ranges of it, in batches
/// that go over several connections, and small ranges stay in a cache of bounded size. A
/// request that fails for a passing reason (no connection, a connection that is cut,
/// status 408, 429, 500, 502, 503, 504) is sent again after a pause that doubles, or
/// after the time that the server asks for; what had arrived before is kept. Every answer
/// must belong to the file that was opened: its size, its ETag and its time of change are
/// compared.
///
/// Errors have these codes, so that a caller can tell them apart:
///   invalid_argument    the address or an option is malformed
///   unsupported         Azure or Google storage; a server without ranges for a big file
///   not_found           status 404 or 410 when the file is opened
///   source_unavailable  everything else that a server or network does wrong, and a file
///                       that was changed or removed after it was opened
///   timeout             the time limit of the call, or of a request and all its repeats
///   interrupted         the call was cancelled
/// No message shows a password, a key, a token, or the query of an address.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weir/formats/byte_source.hpp"
#include "weir/formats/tensogram.hpp"
#include "weir/formats/tensogram_outline.hpp"

namespace weir::formats {

/// Returns true if `text` is an address and not the name of a file: it begins with
/// http://, https://, s3://, s3a://, or with the scheme of a store that is known and not
/// built (gs, az, azure, abfs, abfss, adl). Capital letters count as small ones.
[[nodiscard]] bool is_remote_address(std::string_view text) noexcept;

/// Name and value, as `tgm_async_file_open_remote` takes them: `aws_access_key_id`,
/// `aws_secret_access_key`, `aws_session_token`, `aws_region`, `aws_endpoint_url`,
/// `aws_virtual_hosted_style_request`, `aws_skip_signature`, `aws_request_payer`,
/// `allow_http`, `allow_invalid_certificates`, `connect_timeout`, `timeout` ("30s"),
/// `http1_only`, `http2_only`, `proxy_url`, `proxy_excludes`, `user_agent`, and their
/// other names in the Rust crate object_store.
using storage_option = std::pair<std::string, std::string>;
/// Returns whether a store knows an option of this name, in capital or small letters.
/// Options of Azure and Google storage count, although they have no effect here.
[[nodiscard]] bool is_storage_option(std::string_view name);

/// Limits of a call.
struct call_limits {
  std::stop_token stop;                  ///< once requested, the call ends within 0.1 s
  std::chrono::milliseconds timeout{0};  ///< limit of later calls; 0: none
};

/// Options of a remote file.
struct remote_options {
  std::vector<storage_option> storage;  ///< options of the store, by name
  /// True to read options that `storage` does not have from the environment:
  /// AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION or
  /// AWS_DEFAULT_REGION, AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, the other options as
  /// AWS_*, SSL_CERT_FILE or CURL_CA_BUNDLE, SSL_CERT_DIR. Proxies come from https_proxy
  /// and no_proxy always.
  bool environment = true;
  unsigned repeats = 5;                        ///< largest number of repeats of a request
  std::chrono::milliseconds first_pause{100};  ///< pause before the first repeat
  std::uint64_t cache_bytes = 32 << 20;        ///< size of the cache of small ranges
  /// Largest file that is read as a whole from a server that does not know ranges, in
  /// bytes.
  std::uint64_t whole_file_bytes = 64 << 20;
  /// Largest number of bytes that are read to find the messages of a file.
  std::uint64_t scan_bytes = 64 << 20;
};

/// Traffic of a source so far.
struct remote_traffic {
  std::uint64_t requests = 0;  ///< requests, repeats included
  std::uint64_t repeats = 0;   ///< repeated requests
  std::uint64_t bytes = 0;     ///< bytes of bodies
};

/// A file behind an address. @threads{safe to call concurrently}
class remote_source final : public byte_source {
 public:
  /// Opens a file by a request for its first 64 KiB, whose answer contains the size.
  /// `limits` count for this call.
  /// @error{invalid_argument; the address or an option is malformed}
  /// @error{unsupported; a store that is not built, or a big file of a server without
  /// ranges}
  /// @error{not_found; status 404 or 410}
  /// @error{source_unavailable; server or network fail} @error{timeout; a limit passed}
  /// @error{interrupted; the call was cancelled}
  [[nodiscard]] static result<std::shared_ptr<remote_source>> open(
      std::string_view address, const remote_options& options = {},
      const call_limits& limits = {});

  /// Returns the file with limits on its calls. Connections, cache and counts are shared.
  [[nodiscard]] std::shared_ptr<remote_source> limited(const call_limits& limits) const;

  /// Returns the size of the file. @units{bytes}
  [[nodiscard]] std::uint64_t size() const noexcept override;
  /// Reads `to.size()` bytes from `offset` on. @error{torn; the range exceeds size()}
  /// @error{source_unavailable; server or network fail} @error{timeout; a limit passed}
  /// @error{interrupted; the call was cancelled}
  [[nodiscard]] result<void> read(std::uint64_t offset, mutable_bytes to) const override;
  /// Returns the content of a file that the server has sent as a whole.
  [[nodiscard]] std::optional<bytes_view> view() const noexcept override;
  /// Returns the address without user, password and query.
  [[nodiscard]] const std::string& name() const noexcept override;
  /// Returns true unless the server has sent the whole file.
  [[nodiscard]] bool distant() const noexcept override;
  /// Fetches these ranges over several connections and keeps them for the reads that
  /// follow.
  /// @error{torn; a range exceeds size()} @error{source_unavailable; server or network
  /// fail}
  /// @error{timeout; a limit passed} @error{interrupted; the call was cancelled}
  [[nodiscard]] result<void> prefetch(std::span<const byte_range> ranges) const override;
  /// Returns the traffic so far.
  [[nodiscard]] remote_traffic traffic() const noexcept;

 private:
  struct shared;
  friend class remote_file;
  remote_source(std::shared_ptr<shared> file, const call_limits& limits);
  std::shared_ptr<shared> shared_;
  std::stop_token stop_;
  std::chrono::steady_clock::time_point deadline_;
};

/// Finds the messages of a remote file; the list is that of scan(). It reads a few bytes
/// per message of an undamaged file, and at most `scan_bytes` bytes of any file.
/// @error{out_of_range; more bytes would have to be searched}
/// @error{source_unavailable; server or network fail} @error{timeout; a limit passed}
/// @error{interrupted; the call was cancelled}
[[nodiscard]] result<std::vector<message_span>> scan_remote(const remote_source& source,
                                                            scan_order order,
                                                            std::uint64_t scan_bytes);

/// The messages of a remote file.
/// @threads{safe to call concurrently}
class remote_file {
 public:
  /// Opens the file and finds its messages.
  /// @error{invalid_argument; the address or an option is malformed}
  /// @error{unsupported; see remote_source::open} @error{not_found; status 404 or 410}
  /// @error{out_of_range; see scan_remote}
  /// @error{source_unavailable; server or network fail} @error{timeout; a limit passed}
  /// @error{interrupted; the call was cancelled}
  [[nodiscard]] static result<std::shared_ptr<const remote_file>> open(
      std::string_view address, const remote_options& options = {},
      scan_order order = scan_order::forward, const call_limits& limits = {});

  /// Returns the number of messages.
  [[nodiscard]] std::size_t message_count() const noexcept { return spans_.size(); }
  /// Returns the places of the messages.
  [[nodiscard]] const std::vector<message_span>& spans() const noexcept { return spans_; }
  /// Returns the address without user, password and query.
  [[nodiscard]] const std::string& name() const noexcept { return source_->name(); }
  /// Returns the source, without limits.
  [[nodiscard]] const std::shared_ptr<remote_source>& source() const noexcept {
    return source_;
  }

  /// Reads the bytes of message `m`. Memory is allocated as they arrive.
  /// @error{not_found; no such message}
  /// @error{source_unavailable; server or network fail} @error{timeout; a limit passed}
  /// @error{interrupted; the call was cancelled}
  [[nodiscard]] result<byte_vector> read_message(std::size_t m,
                                                 const call_limits& limits = {}) const;
  /// Reads the metadata and the places of the objects of message `m`. Errors are those of
  /// message_outline::open and remote_source::read.
  /// @error{not_found; no such message} @error{corrupt; the message is damaged}
  [[nodiscard]] result<message_outline> outline(std::size_t m,
                                                const read_options& options = {},
                                                const call_limits& limits = {}) const;
  /// Opens object `i` of message `m` alone. The limits count for later reads too. Errors
  /// are those of message_outline::object and remote_source::read.
  /// @error{not_found; no such message or object} @error{corrupt; the message is damaged}
  [[nodiscard]] result<message_reader> object(std::size_t m, std::size_t i,
                                              const read_options& options = {},
                                              const call_limits& limits = {}) const;
  /// Opens message `m`. The limits count for later reads too. Errors are those of
  /// message_reader::open and remote_source::read.
  /// @error{not_found; no such message} @error{corrupt; the message is damaged}
  [[nodiscard]] result<message_reader> reader(std::size_t m,
                                              const read_options& options = {},
                                              const call_limits& limits = {}) const;

 private:
  remote_file(std::shared_ptr<remote_source> source, std::vector<message_span> spans)
      : source_(std::move(source)), spans_(std::move(spans)) {}
  [[nodiscard]] result<message_span> span_of(std::size_t m) const;

  std::shared_ptr<remote_source> source_;
  std::vector<message_span> spans_;
};

}  // namespace weir::formats
