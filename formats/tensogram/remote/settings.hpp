// SPDX-License-Identifier: Apache-2.0
/// @file
/// The settings of a remote store: keys, region, endpoint, time limits, certificates.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/error.hpp"
#include "weir/formats/remote.hpp"

namespace weir::formats {

/// All settings of a store.
struct remote_settings {
  // Identity for S3. Empty keys mean that requests are not signed.
  std::string access_key;
  std::string secret_key;
  std::string session_token;
  std::string region = "us-east-1";
  std::string endpoint;         ///< of S3; empty: Amazon's for the region
  std::string bucket;           ///< if given, the bucket that the address must name
  bool virtual_hosted = false;  ///< the bucket is part of the host name, not of the path
  bool skip_signature = false;  ///< do not sign, even with keys
  bool request_payer = false;   ///< the caller pays for requests, as some buckets demand

  // Properties of connections.
  bool allow_http = true;
  bool allow_invalid_certificates = false;
  bool http1_only = false;
  bool http2_only = false;
  std::chrono::milliseconds connect_timeout{5000};  ///< to connect
  std::chrono::milliseconds timeout{30000};  ///< of one request, including its body
  std::string proxy;               ///< empty: as curl finds it in the environment
  std::string proxy_excludes;      ///< hosts without the proxy, separated by commas
  std::string user_agent;          ///< value of the header; empty: that of Weir
  std::string certificate_file;    ///< authorities to trust; empty: the system's
  std::string certificate_folder;  ///< folder of them; empty: the system's

  /// Returns true if requests to S3 are signed.
  [[nodiscard]] bool signs() const noexcept {
    return !skip_signature && !access_key.empty();
  }
  /// Returns `text` with every secret in it replaced by stars.
  [[nodiscard]] std::string without_secrets(std::string text) const;
};

/// Makes settings from storage options, and from the environment if `environment` is
/// true. Options take precedence. @error{invalid_argument, an unknown option or a
/// malformed value; unsupported, an option that requires a service that is not built}
[[nodiscard]] result<remote_settings> make_settings(
    const std::vector<storage_option>& options, bool environment);

/// Parses a duration such as "30s", "500ms" or "1m 30s". @error{invalid_argument, no
/// number or unit}
[[nodiscard]] result<std::chrono::milliseconds> parse_duration(std::string_view text);

}  // namespace weir::formats
