// SPDX-License-Identifier: Apache-2.0
/// @file
/// What an address says: which server to ask, for what, and as whom.
#pragma once

#include <string>
#include <string_view>

#include "tensogram/remote/settings.hpp"
#include "weir/base/error.hpp"

namespace weir::formats {

struct remote_address {
  bool s3 = false;
  std::string url;   ///< what is asked for: http or https, without user and password
  std::string name;  ///< for messages: nothing in it is secret
  std::string user;
  std::string password;
};

/// @error{invalid_argument, no form of an address; unsupported, a store that is not
/// built}
[[nodiscard]] result<remote_address> parse_address(std::string_view address,
                                                   const remote_settings& settings);

/// The address without user, password, query and fragment, whatever else it may be.
[[nodiscard]] std::string public_part(std::string_view address);

/// Whether two http addresses lead to the same server: scheme, host and port are equal.
[[nodiscard]] bool same_server(const std::string& one, const std::string& other);
/// Whether an address is of the scheme https.
[[nodiscard]] bool is_https(std::string_view url);

/// Bytes of a path as S3 signs them: letters, digits, "-._~" and "/" stay, others become
/// %XX.
[[nodiscard]] std::string encode_key(std::string_view key);

}  // namespace weir::formats
