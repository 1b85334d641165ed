// SPDX-License-Identifier: Apache-2.0
/// @file
/// SHA-256 as text, for comparing with the digests of fixture manifests.
#pragma once

#include <array>
#include <string>

#include <fmt/format.h>
#include <sodium.h>

#include "weir/base/bytes.hpp"

namespace weir::test {

/// Returns the digest of bytes as 64 lower-case hexadecimal digits.
inline std::string sha256_text(bytes_view bytes) {
  std::array<unsigned char, crypto_hash_sha256_BYTES> digest{};
  crypto_hash_sha256(digest.data(), reinterpret_cast<const unsigned char*>(bytes.data()),
                     bytes.size());
  return fmt::format("{:02x}", fmt::join(digest, ""));
}

}  // namespace weir::test
