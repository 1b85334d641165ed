// SPDX-License-Identifier: Apache-2.0
/// @file
/// SHA-256 by libsodium, hexadecimal text, and the build id that the linker has put into
/// the object that contains this code.
///
/// The build id tells builds of this library apart even if their version is the same,
/// which makes entries of the cache stale after a rebuild.
#include "weir/tessera/module/digest.hpp"

#include <fmt/core.h>
#include <link.h>
#include <sodium.h>

#include <cstring>

namespace weir::tessera {

namespace {

/// libsodium takes `unsigned char`.
const unsigned char* unsigned_bytes(bytes_view bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

// Returns the value of a digit, or -1 for another character.
int nibble_of(char c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

}  // namespace

// SHA-256 needs no `sodium_init`, so it cannot fail.
digest256 sha256(bytes_view bytes) {
  digest256 out;
  crypto_hash_sha256(reinterpret_cast<unsigned char*>(out.data()), unsigned_bytes(bytes),
                     bytes.size());
  return out;
}

/// The state of libsodium, which is kept out of the header.
struct sha256_stream::state {
  crypto_hash_sha256_state hash;
};

sha256_stream::sha256_stream() : state_(std::make_unique<state>()) {
  crypto_hash_sha256_init(&state_->hash);
}
sha256_stream::~sha256_stream() = default;

/// May be called any number of times before `digest`.
void sha256_stream::update(bytes_view bytes) {
  crypto_hash_sha256_update(&state_->hash, unsigned_bytes(bytes), bytes.size());
}

// Numbers are hashed as 8 bytes, little-endian, on every machine.
void sha256_stream::number(std::uint64_t value) {
  std::array<std::byte, 8> bytes;
  store_le(bytes.data(), value);
  update(bytes);
}

// The length comes first, so that two texts cannot be confused with one.
void sha256_stream::text(std::string_view value) {
  number(value.size());
  update(as_view(value));
}

/// Ends the stream; no `update` may follow.
digest256 sha256_stream::digest() {
  digest256 out;
  crypto_hash_sha256_final(&state_->hash, reinterpret_cast<unsigned char*>(out.data()));
  return out;
}

/// Two lower-case digits per byte.
std::string to_hex(bytes_view bytes) {
  std::string out;
  out.reserve(2 * bytes.size());
  for (const std::byte b : bytes) {
    out += fmt::format("{:02x}", std::to_integer<unsigned>(b));
  }
  return out;
}

// Accepts digits of either case. `to` may have been written in part if there is an error.
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

namespace {

constexpr std::string_view gnu_owner("GNU", 4);  // with its terminating zero

/// Notes are padded to words of 4 bytes.
std::size_t aligned(std::size_t size) {
  constexpr std::size_t word = 4;
  return (size + word - 1) / word * word;
}

/// Returns the build id in a segment of notes as text; empty if it has none. Every size
/// is checked, although the notes come from a loaded object.
std::string id_in(bytes_view notes) {
  ElfW(Nhdr) head{};
  while (notes.size() >= sizeof head) {
    std::memcpy(&head, notes.data(), sizeof head);
    notes = notes.subspan(sizeof head);
    const std::size_t name = aligned(head.n_namesz);
    const std::size_t content = aligned(head.n_descsz);
    // A note that does not fit ends the list.
    if (name > notes.size() || content > notes.size() - name) {
      break;
    }
    const std::string_view owner(reinterpret_cast<const char*>(notes.data()),
                                 head.n_namesz);
    if (head.n_type == NT_GNU_BUILD_ID && owner == gnu_owner) {
      return to_hex(notes.subspan(name, head.n_descsz));
    }
    notes = notes.subspan(name + content);
  }
  return {};
}

/// The object that is searched for, and its build id.
struct search {
  std::uintptr_t address = 0;  ///< address of code in the object
  std::string found;
};

/// Returns true if a loaded segment of the object contains the address.
bool contains(const dl_phdr_info& object, std::uintptr_t address) {
  for (std::size_t i = 0; i < object.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object.dlpi_phdr[i];
    const std::uintptr_t begin = object.dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD && begin <= address &&
        address - begin < segment.p_memsz) {
      return true;
    }
  }
  return false;
}

/// Called for each object of the process. Returns 1 to end the search, once the object
/// with the address has been examined.
int look_into(dl_phdr_info* object, std::size_t, void* user) {
  auto& wanted = *static_cast<search*>(user);
  if (!contains(*object, wanted.address)) {
    return 0;
  }
  // Notes may lie in several segments.
  for (std::size_t i = 0; i < object->dlpi_phnum && wanted.found.empty(); ++i) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[i];
    if (segment.p_type == PT_NOTE) {
      const std::uintptr_t begin = object->dlpi_addr + segment.p_vaddr;
      wanted.found = id_in({reinterpret_cast<const std::byte*>(begin),  // NOLINT
                            static_cast<std::size_t>(segment.p_memsz)});
    }
  }
  return 1;
}

}  // namespace

/// Found once. Empty if the linker has written no build id.
const std::string& library_build() {
  // Never destroyed, because threads of the library may run while the process ends.
  static const auto* const id = [] {
    search wanted;
    // The address of a function of this file lies in the object that contains this
    // library.
    wanted.address = reinterpret_cast<std::uintptr_t>(&look_into);
    ::dl_iterate_phdr(&look_into, &wanted);
    return new std::string(std::move(wanted.found));
  }();
  return *id;
}

}  // namespace weir::tessera
