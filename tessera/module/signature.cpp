// SPDX-License-Identifier: Apache-2.0
/// @file
/// Signatures with Ed25519 by libsodium, and lists of trusted keys.
///
/// A signature covers the hash of a container's content. A key is trusted only if the
/// program or the environment lists it; that a signature is valid for the key beside it
/// says nothing about who made it.
#include "weir/tessera/module/signature.hpp"

#include <fmt/core.h>
#include <sodium.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "weir/base/file.hpp"

namespace weir::tessera {

namespace {

/// Limit of the size of a key file, and the characters that separate keys.
constexpr std::uint64_t max_key_file_bytes = std::uint64_t{1} << 20;
constexpr std::string_view separators = ",: \t\r\n";

/// libsodium takes `unsigned char`.
unsigned char* raw(std::byte* bytes) {
  return reinterpret_cast<unsigned char*>(bytes);
}
const unsigned char* raw(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}

// Prepares libsodium. May be called by several threads at once, and again.
result<void> ready() {
  if (sodium_init() < 0) {
    return error(errc::unsupported,
                 "cannot use keys: expected random numbers of the system, found none");
  }
  return {};
}

/// Replaces comments, from # to the end of the line, by spaces.
/// Keeps the line ends, which separate keys.
std::string without_comments(std::string_view text) {
  std::string out;
  bool comment = false;
  for (const char c : text) {
    // A line feed ends a comment.
    comment = c == '\n' ? false : comment || c == '#';
    out += comment ? ' ' : c;
  }
  return out;
}

/// Reads keys of 64 hexadecimal digits, separated by commas, colons or white space.
result<std::vector<public_key>> parse_keys(std::string_view text) {
  std::vector<public_key> keys;
  std::size_t start = text.find_first_not_of(separators);
  while (start != std::string_view::npos) {
    const std::size_t end = std::min(text.find_first_of(separators, start), text.size());
    public_key key;
    // Anything that is no key makes the whole text wrong.
    WEIR_CHECK(from_hex(text.substr(start, end - start), key));
    keys.push_back(key);
    start = text.find_first_not_of(separators, end);
  }
  return keys;
}

/// Reads a file of keys. @error{invalid_argument; it cannot be read or is too large}
result<std::string> read_key_file(const std::string& path) {
  const auto refused = [&](error e) {
    return error(errc::invalid_argument,
                 fmt::format("cannot read trusted keys: expected 64 hexadecimal digits "
                             "per key or a file of them, found \"{}\"",
                             path))
        .because(std::move(e));
  };
  auto opened = posix_file_system().open(path, open_mode::read);
  if (!opened) {
    return refused(std::move(opened).error());
  }
  const auto size = (*opened)->size();
  // A larger file is no list of keys.
  if (!size || *size > max_key_file_bytes) {
    return refused(error(errc::invalid_argument,
                         fmt::format("cannot read key file {}: expected at most {} bytes",
                                     path, max_key_file_bytes)));
  }
  // The size was limited above, so this allocation is small.
  std::string text(*size, '\0');
  if (auto read = read_exactly(
          **opened, 0, std::as_writable_bytes(std::span(text.data(), text.size())));
      !read) {
    return refused(std::move(read).error());
  }
  return text;
}

}  // namespace

// The keys come from random numbers of the system.
result<key_pair> make_key_pair() {
  WEIR_CHECK(ready());
  key_pair pair;
  crypto_sign_ed25519_keypair(raw(pair.open.data()), raw(pair.secret.data()));
  return pair;
}

/// Equal seeds give equal keys, for tests.
result<key_pair> key_pair_from_seed(const std::array<std::byte, 32>& seed) {
  WEIR_CHECK(ready());
  key_pair pair;
  crypto_sign_ed25519_seed_keypair(raw(pair.open.data()), raw(pair.secret.data()),
                                   raw(seed.data()));
  return pair;
}

// The second half of a secret key is the public key.
public_key public_half(const secret_key& secret) {
  public_key out;
  std::copy_n(secret.begin() + 32, out.size(), out.begin());
  return out;
}

/// `secret` has the seed and the public key.
result<signature_bytes> sign_digest(const secret_key& secret, const digest256& digest) {
  WEIR_CHECK(ready());
  // Libsodium copies the public half into the signature's hash without checking it. Two
  // signatures with different halves would reveal the secret, so it is derived again and
  // compared.
  std::array<std::byte, 32> seed;
  std::copy_n(secret.begin(), seed.size(), seed.begin());
  WEIR_TRY(const key_pair own, key_pair_from_seed(seed));
  if (own.secret != secret) {
    return error(
        errc::invalid_argument,
        "cannot sign with this key: expected its own public half, found another");
  }
  signature_bytes out;
  crypto_sign_ed25519_detached(raw(out.data()), nullptr, raw(digest.data()),
                               digest.size(), raw(secret.data()));
  return out;
}

// Returns false also if libsodium cannot be used.
bool verify_digest(const public_key& key, const digest256& digest,
                   const signature_bytes& signature) {
  return ready() &&
         crypto_sign_ed25519_verify_detached(raw(signature.data()), raw(digest.data()),
                                             digest.size(), raw(key.data())) == 0;
}

/// A linear search, since lists are short.
bool trust_policy::trusts(const public_key& key) const noexcept {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

// The text is a list of keys, or else the name of a file with such a list.
result<std::vector<public_key>> read_trusted_keys(std::string_view text) {
  // An empty text is an empty list and no file.
  if (auto keys = parse_keys(text)) {
    return keys;
  }
  const std::string path(text);
  WEIR_TRY(const std::string content, read_key_file(path));
  // Only files have comments.
  auto keys = parse_keys(without_comments(content));
  if (!keys) {
    return std::move(keys.error()).located(path);
  }
  return keys;
}

// The same variables as a context reads, for tools that load modules without one.
result<trust_policy> trust_from_environment() {
  trust_policy out;
  const char* required = std::getenv("TESS_REQUIRE_SIGNED");
  // Unset, empty and "0" mean that no signature is required.
  out.required =
      required != nullptr && *required != '\0' && std::string_view(required) != "0";
  if (const char* keys = std::getenv("TESS_TRUSTED_KEYS")) {
    WEIR_TRY(out.keys, read_trusted_keys(keys));
  }
  return out;
}

}  // namespace weir::tessera
