// SPDX-License-Identifier: Apache-2.0
/// @file
/// Files of keys: one line of hexadecimal digits.
#pragma once

#include <string>

#include "weir/base/error.hpp"
#include "weir/tessera/module/signature.hpp"

namespace weir::tools {

/// @error{not_found, io; invalid_argument, no secret key}
[[nodiscard]] result<tessera::secret_key> read_secret_key(const std::string& path);
/// Writes the secret key with mode 0600, and the public one to `path`.pub.
/// @error{already_exists, either file; io}
[[nodiscard]] result<void> write_key_files(const std::string& path,
                                           const tessera::key_pair& keys);

}  // namespace weir::tools
