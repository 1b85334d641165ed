// SPDX-License-Identifier: Apache-2.0
/// @file
/// The parts of an address: the server, the file on it, and the identity of the caller.
#pragma once

#include <string>
#include <string_view>

#include "tensogram/remote/settings.hpp"
#include "weir/base/error.hpp"

namespace weir::formats {

/// A parsed address.
struct remote_address {
  bool s3 = false;       ///< the scheme was s3 or s3a
  std::string url;       ///< to request; http or https, without user and password
  std::string name;      ///< for messages; contains no secrets
  std::string user;      ///< for the server alone; empty without a user
  std::string password;  ///< for the server alone
};

/// Parses an address. @error{invalid_argument, a malformed address; unsupported, a store
/// that is not built}
[[nodiscard]] result<remote_address> parse_address(std::string_view address,
                                                   const remote_settings& settings);

/// Returns an address without user, password, query and fragment, for messages. The
/// address may be malformed; anything that may be a password is replaced.
[[nodiscard]] std::string public_part(std::string_view address);

/// Returns true if scheme, host and port of two http addresses are equal.
[[nodiscard]] bool same_server(const std::string& one, const std::string& other);
/// Returns true if an address has the scheme https.
[[nodiscard]] bool is_https(std::string_view url);

/// Returns the key of an object as the path that S3 signs: letters, digits and "-._~/"
/// stay, other bytes become %XX.
[[nodiscard]] std::string encode_key(std::string_view key);

}  // namespace weir::formats
