// SPDX-License-Identifier: Apache-2.0
/// @file
/// The parts of an address: the server, the file on it, and a user with a password.
#pragma once

#include <string>
#include <string_view>

#include "tensogram/remote/settings.hpp"
#include "weir/base/error.hpp"

namespace weir::formats {

struct remote_address {
  bool s3 = false;
  std::string url;   ///< to request: http or https, without user and password
  std::string name;  ///< for messages, without secrets
  std::string user;
  std::string password;
};

/// @error{invalid_argument, no form of an address; unsupported, a store that is not
/// built}
[[nodiscard]] result<remote_address> parse_address(std::string_view address,
                                                   const remote_settings& settings);

/// The address without user, password, query and fragment. It may be malformed.
[[nodiscard]] std::string public_part(std::string_view address);

/// Returns true if scheme, host and port of two http addresses are equal.
[[nodiscard]] bool same_server(const std::string& one, const std::string& other);
/// Returns true if an address has the scheme https.
[[nodiscard]] bool is_https(std::string_view url);

/// The key of an object as a path that S3 signs: letters, digits and "-._~/" stay, other
/// bytes become %XX.
[[nodiscard]] std::string encode_key(std::string_view key);

}  // namespace weir::formats
