// SPDX-License-Identifier: Apache-2.0
/// @file
/// XXH3-64 by the xxHash library, and hexadecimal text of digests.
///
/// A stream hashes in pieces and gives the digest of all bytes together, wherever the
/// pieces end.
#include "weir/base/hash.hpp"

#include <fmt/core.h>
#include <xxhash.h>

#include <new>

namespace weir {

std::uint64_t xxh3_64(bytes_view bytes) noexcept {
  return XXH3_64bits(bytes.data(), bytes.size());
}

/// The state of the library is aligned to 64 bytes, hence its own allocation.
struct xxh3_stream::state {
  XXH3_state_t* handle = XXH3_createState();
  state() {
    if (handle == nullptr) {
      throw std::bad_alloc();
    }
  }
  ~state() { XXH3_freeState(handle); }
};

xxh3_stream::xxh3_stream() : state_(std::make_unique<state>()) {
  XXH3_64bits_reset(state_->handle);
}
xxh3_stream::~xxh3_stream() = default;
xxh3_stream::xxh3_stream(xxh3_stream&&) noexcept = default;
xxh3_stream& xxh3_stream::operator=(xxh3_stream&&) noexcept = default;

/// The library must not get a null pointer.
void xxh3_stream::update(bytes_view bytes) noexcept {
  if (!bytes.empty()) {
    XXH3_64bits_update(state_->handle, bytes.data(), bytes.size());
  }
}

std::uint64_t xxh3_stream::digest() const noexcept {
  return XXH3_64bits_digest(state_->handle);
}

/// 16 digits with zeros in front, as digests are written in files and messages.
std::string hex64(std::uint64_t value) {
  return fmt::format("{:016x}", value);
}

}  // namespace weir
