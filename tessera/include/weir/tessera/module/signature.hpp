// SPDX-License-Identifier: Apache-2.0
/// @file
/// Signatures of modules: Ed25519 over the content hash, and the keys that are trusted.
/// @threads{values; the functions are safe to call concurrently}
#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"
#include "weir/tessera/module/digest.hpp"

namespace weir::tessera {

/// A public key.
using public_key = std::array<std::byte, 32>;
using secret_key = std::array<std::byte, 64>;  ///< seed, then public key
/// A signature.
using signature_bytes = std::array<std::byte, 64>;

/// A public and a secret key.
struct key_pair {
  public_key open{};    ///< public key
  secret_key secret{};  ///< secret key
};

/// Makes a pair from random numbers of the system.
/// @error{unsupported; the machine gives no random numbers}
[[nodiscard]] result<key_pair> make_key_pair();
/// Makes the pair that belongs to 32 bytes, for tests.
/// @error{unsupported; the machine gives no random numbers}
[[nodiscard]] result<key_pair> key_pair_from_seed(const std::array<std::byte, 32>& seed);
/// Returns the public half of a secret key.
[[nodiscard]] public_key public_half(const secret_key& secret);

/// Signs a digest. @source{RFC 8032, Ed25519} @error{unsupported; no random numbers}
/// @error{invalid_argument; the second half of the key is not its public key}
[[nodiscard]] result<signature_bytes> sign_digest(const secret_key& secret,
                                                  const digest256& digest);
/// Returns true if the signature is one of the digest by the key. Keys of small order and
/// signatures that are not canonical are false.
[[nodiscard]] bool verify_digest(const public_key& key, const digest256& digest,
                                 const signature_bytes& signature);

/// Keys that are trusted, and if a module needs a signature.
struct trust_policy {
  std::vector<public_key> keys;  ///< trusted keys; empty: no key is trusted
  bool required = false;         ///< true if a module needs a signature

  /// Returns true if the key is trusted.
  [[nodiscard]] bool trusts(const public_key& key) const noexcept;
};

/// Reads keys of 64 hexadecimal digits, separated by commas, colons, spaces or lines; in
/// a file also comments from '#' to the end of the line. `text` is such a list, or else
/// the name of a file that holds one; empty is no key.
/// @error{invalid_argument; neither a list nor a file of keys; a file of more than 1 MiB}
[[nodiscard]] result<std::vector<public_key>> read_trusted_keys(std::string_view text);

/// Returns the policy of TESS_TRUSTED_KEYS, see `read_trusted_keys`, and
/// TESS_REQUIRE_SIGNED, which is true for every value except "" and "0".
/// @error{invalid_argument; see read_trusted_keys}
[[nodiscard]] result<trust_policy> trust_from_environment();

}  // namespace weir::tessera
