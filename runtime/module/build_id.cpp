// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reading the linker's note of the object that this code lies in.
#include "build_id.hpp"

#include <link.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "weir/base/bytes.hpp"
#include "weir/runtime/module/digest.hpp"

namespace weir::runtime {
namespace {

constexpr std::string_view gnu_owner("GNU", 4);  // with its terminating zero

std::size_t aligned(std::size_t size) {
  constexpr std::size_t word = 4;
  return (size + word - 1) / word * word;
}

/// The id in a segment of notes; empty if it has none.
std::string id_in(bytes_view notes) {
  ElfW(Nhdr) head{};
  while (notes.size() >= sizeof head) {
    std::memcpy(&head, notes.data(), sizeof head);
    notes = notes.subspan(sizeof head);
    const std::size_t name = aligned(head.n_namesz);
    const std::size_t content = aligned(head.n_descsz);
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

struct search {
  std::uintptr_t address = 0;  ///< of code in the object that is looked for
  std::string found;
};

/// True if the object's segments contain the address.
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

/// Called for each object of the process; returns 1 to end the search.
int look_into(dl_phdr_info* object, std::size_t, void* user) {
  auto& wanted = *static_cast<search*>(user);
  if (!contains(*object, wanted.address)) {
    return 0;
  }
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

const std::string& library_build() {
  static const std::string id = [] {
    search wanted;
    wanted.address = reinterpret_cast<std::uintptr_t>(&look_into);
    ::dl_iterate_phdr(&look_into, &wanted);
    return wanted.found;
  }();
  return id;
}

}  // namespace weir::runtime
