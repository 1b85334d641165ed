// SPDX-License-Identifier: Apache-2.0
/// @file
/// Who vouches for a module: Ed25519 over its content hash, and whose word counts.
#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"
#include "weir/tessera/module/digest.hpp"

namespace weir::tessera {

using public_key = std::array<std::byte, 32>;
using secret_key = std::array<std::byte, 64>;  ///< seed, then public key
using signature_bytes = std::array<std::byte, 64>;

struct key_pair {
  public_key open{};
  secret_key secret{};
};

/// A new pair from the system's random numbers.
/// @error{unsupported, the machine gives no random numbers}
[[nodiscard]] result<key_pair> make_key_pair();
/// The pair that belongs to 32 bytes; for tests.
[[nodiscard]] result<key_pair> key_pair_from_seed(const std::array<std::byte, 32>& seed);
/// Public half of a secret key.
[[nodiscard]] public_key public_half(const secret_key& secret);

/// @source{RFC 8032, Ed25519}
[[nodiscard]] result<signature_bytes> sign_digest(const secret_key& secret,
                                                  const digest256& digest);
/// False also for keys of small order and signatures that are not canonical.
[[nodiscard]] bool verify_digest(const public_key& key, const digest256& digest,
                                 const signature_bytes& signature);

/// Whose signatures count, and whether one has to be there.
struct trust_policy {
  std::vector<public_key> keys;
  bool required = false;

  [[nodiscard]] bool trusts(const public_key& key) const noexcept;
};

/// Reads keys of 64 hexadecimal digits, separated by commas, colons, spaces or lines; in
/// a file also comments from '#' to the end of the line. `text` is such a list, or else
/// the name of a file that holds one; empty is no key.
/// @error{invalid_argument, neither a list nor a file of keys; a file of more than 1 MiB}
[[nodiscard]] result<std::vector<public_key>> read_trusted_keys(std::string_view text);

/// TESS_TRUSTED_KEYS (as in `read_trusted_keys`) and TESS_REQUIRE_SIGNED, which is
/// required for every value but "" and "0". @error as of `read_trusted_keys`
[[nodiscard]] result<trust_policy> trust_from_environment();

}  // namespace weir::tessera
