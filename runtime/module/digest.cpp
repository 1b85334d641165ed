// SPDX-License-Identifier: Apache-2.0
/// @file
/// SHA-256 by libsodium, and hexadecimal text.
#include "weir/runtime/module/digest.hpp"

#include <fmt/core.h>
#include <sodium.h>

namespace weir::runtime {

namespace {

const unsigned char* unsigned_bytes(bytes_view bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

// -1 for what is no digit.
int nibble_of(char c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

}  // namespace

digest256 sha256(bytes_view bytes) {
  digest256 out;
  crypto_hash_sha256(reinterpret_cast<unsigned char*>(out.data()), unsigned_bytes(bytes),
                     bytes.size());
  return out;
}

struct sha256_stream::state {
  crypto_hash_sha256_state hash;
};

sha256_stream::sha256_stream() : state_(std::make_unique<state>()) {
  crypto_hash_sha256_init(&state_->hash);
}
sha256_stream::~sha256_stream() = default;

void sha256_stream::update(bytes_view bytes) {
  crypto_hash_sha256_update(&state_->hash, unsigned_bytes(bytes), bytes.size());
}

void sha256_stream::number(std::uint64_t value) {
  std::array<std::byte, 8> bytes;
  store_le(bytes.data(), value);
  update(bytes);
}

void sha256_stream::text(std::string_view value) {
  number(value.size());
  update(as_view(value));
}

digest256 sha256_stream::digest() {
  digest256 out;
  crypto_hash_sha256_final(&state_->hash, reinterpret_cast<unsigned char*>(out.data()));
  return out;
}

std::string to_hex(bytes_view bytes) {
  std::string out;
  out.reserve(2 * bytes.size());
  for (const std::byte b : bytes) {
    out += fmt::format("{:02x}", std::to_integer<unsigned>(b));
  }
  return out;
}

result<void> from_hex(std::string_view text, mutable_bytes to) {
  if (text.size() != 2 * to.size()) {
    return error(errc::invalid_argument,
                 fmt::format("cannot read hexadecimal text: expected {} digits, found {}",
                             2 * to.size(), text.size()));
  }
  for (std::size_t i = 0; i < to.size(); ++i) {
    const int high = nibble_of(text[2 * i]);
    const int low = nibble_of(text[2 * i + 1]);
    if (high < 0 || low < 0) {
      return error(errc::invalid_argument,
                   fmt::format("cannot read hexadecimal text: expected digits, found "
                               "something else near place {}",
                               2 * i));
    }
    to[i] = static_cast<std::byte>(high * 16 + low);
  }
  return {};
}

}  // namespace weir::runtime
