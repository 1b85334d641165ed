// SPDX-License-Identifier: Apache-2.0
/// @file
/// Files with signing keys, each one line of hexadecimal digits.
#pragma once

#include <string>

#include "weir/base/error.hpp"
#include "weir/tessera/module/signature.hpp"

namespace weir::tools {

/// Reads a secret key.
/// @error{not_found, io, the file cannot be read}
/// @error{invalid_argument, the file does not hold a secret key}
[[nodiscard]] result<tessera::secret_key> read_secret_key(const std::string& path);
/// Writes the secret key to `path`, readable for its owner alone, and the public key to
/// `path`.pub.
/// @error{already_exists, one of the files exists} @error{not_found, the folder does not}
/// @error{io, no_space, a file cannot be written}
[[nodiscard]] result<void> write_key_files(const std::string& path,
                                           const tessera::key_pair& keys);

}  // namespace weir::tools
