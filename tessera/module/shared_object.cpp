// SPDX-License-Identifier: Apache-2.0
/// @file
/// Loading of code by the dynamic linker, from memory that has a descriptor.
///
/// The linker takes file names only. An anonymous file has one in /proc/self/fd, from the
/// number of its descriptor. The linker takes a known name for the object that it has
/// already loaded under it, so a name must not be used again as long as an object has it.
///
///   from_memory: memfd_create -> write -> check that the file may be executed -> load
///   from_file:   descriptor of a checked entry of the cache -> load
///   load:        /proc/self/fd/N -> dlopen
///
/// The descriptor stays open as long as the object is loaded, which reserves its name.
#include "shared_object.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>

#include "weir/base/system/fork.hpp"

namespace weir::tessera {

namespace {

/// Limit of the number of entries in a table of kernels; more are taken for damage.
constexpr std::uint32_t max_library_entries = 65536;

/// A descriptor that is closed by the destructor unless it is released.
class owned_descriptor {
 public:
  explicit owned_descriptor(int descriptor) : descriptor_(descriptor) {}
  owned_descriptor(const owned_descriptor&) = delete;
  owned_descriptor& operator=(const owned_descriptor&) = delete;
  ~owned_descriptor() {
    if (descriptor_ >= 0) {
      ::close(descriptor_);
    }
  }
  [[nodiscard]] int get() const { return descriptor_; }
  int release() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_;
};

/// Returns the error of anonymous memory: out_of_memory if resources are short, and
/// unsupported if the system does not allow it, in which case files are tried.
/// ENOSPC comes from memory, because the file is in memory.
error no_memory_file(int code) {
  const bool short_of =
      code == ENOMEM || code == EMFILE || code == ENFILE || code == ENOSPC;
  return error(
      short_of ? errc::out_of_memory : errc::unsupported,
      fmt::format("cannot load code from memory: expected a file without a name, "
                  "found \"{}\"",
                  std::strerror(code)));
}

/// Writes all bytes.
result<void> write_whole(int descriptor, bytes_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(descriptor, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) {
      continue;
    }
    // A short write is repeated.
    if (n <= 0) {
      return no_memory_file(errno);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return {};
}

/// Returns the name under which the linker can open a descriptor.
std::string path_of(int descriptor) {
  return fmt::format("/proc/self/fd/{}", descriptor);
}

// The lock of everything that concerns names: comparing, loading and unloading. It is
// recursive, because code may load modules while it is loaded, and is never destroyed,
// because modules may exist until the program ends.
std::recursive_mutex& linker() {
  static auto* const lock = new std::recursive_mutex;
  static const bool watched = unlock_in_child_of_fork(*lock);
  static_cast<void>(watched);
  return *lock;
}

// Returns true if the dynamic linker has an object of this name. Its count of references
// does not change.
bool is_loaded(const std::string& name) {
  void* const there = ::dlopen(name.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (there != nullptr) {
    ::dlclose(there);
  }
  return there != nullptr;
}

// Returns true if some object was loaded under this name. Only names are compared,
// because one file, which the linker loads once, may have many names. Names are compared
// by the list of the linker itself.
bool is_taken(const std::string& name) {
  const auto compare = [](dl_phdr_info* object, std::size_t, void* wanted) {
    return *static_cast<const std::string*>(wanted) == object->dlpi_name ? 1 : 0;
  };
  std::string wanted = name;
  return ::dl_iterate_phdr(compare, &wanted) != 0;
}

// Checks that the system lets code run from this file; some configurations do not.
result<void> check_executable(int descriptor) {
  void* const page =
      ::mmap(nullptr, 1, PROT_READ | PROT_EXEC, MAP_PRIVATE, descriptor, 0);
  if (page == MAP_FAILED) {
    return no_memory_file(errno);
  }
  ::munmap(page, 1);
  return {};
}

/// The code itself is at fault, so no other way of loading would help.
error refused(std::string_view expected, std::string found) {
  return error(errc::invalid_argument,
               fmt::format("cannot use the code of a module: expected {}, found {}",
                           expected, found));
}

}  // namespace

// If the system lets no code run from anonymous memory, the error is `unsupported`, and
// the loader tries a file.
result<std::unique_ptr<shared_object>> shared_object::from_memory(bytes_view code) {
  owned_descriptor memory(::memfd_create("tessera-module", MFD_CLOEXEC));
  if (memory.get() < 0) {
    return no_memory_file(errno);
  }
  WEIR_CHECK(write_whole(memory.get(), code));
  WEIR_CHECK(check_executable(memory.get()));
  // The descriptor belongs to the object from here on.
  return load(memory.release());
}

result<std::unique_ptr<shared_object>> shared_object::from_file(cached_file file) {
  return load(file.release());
}

// Loads from a descriptor and takes it over.
result<std::unique_ptr<shared_object>> shared_object::load(int descriptor) {
  auto own = std::make_unique<owned_descriptor>(descriptor);
  // From the choice of the name until the object is loaded, no other thread of this
  // library may load or unload.
  const std::lock_guard guard(linker());
  // Another part of the program may have loaded an object under this name and closed its
  // descriptor. The descriptor is duplicated until its number gives a free name. Each
  // duplicate has another number and so another name.
  while (is_taken(path_of(own->get()))) {
    auto other = std::make_unique<owned_descriptor>(
        ::fcntl(own->get(), F_DUPFD_CLOEXEC, own->get() + 1));
    if (other->get() < 0) {
      return no_memory_file(errno);
    }
    own = std::move(other);
  }
  // RTLD_LOCAL keeps symbols of different modules apart.
  std::string name = path_of(own->get());
  // Initializers of the code run here.
  void* const handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = ::dlerror();
    return refused("a shared object that loads",
                   fmt::format("\"{}\"", why == nullptr ? "" : why));
  }
  // The object owns the descriptor and the handle from now on.
  return std::unique_ptr<shared_object>(
      new shared_object(own->release(), handle, std::move(name)));
}

/// Finalizers of the code run here.
shared_object::~shared_object() {
  const std::lock_guard guard(linker());
  ::dlclose(handle_);
  // Some code cannot be unloaded. It keeps its name, so its descriptor must stay open.
  if (!is_loaded(name_)) {
    ::close(descriptor_);
  }
}

// The table is in the loaded code, which may be of any version: sizes and ABI are checked
// before an entry is read.
result<const tessKernelLibrary*> shared_object::library(abi_version abi) const {
  const auto query =
      reinterpret_cast<tessKernelLibraryFn>(::dlsym(handle_, TESS_KERNEL_LIBRARY_SYMBOL));
  const tessKernelLibrary* table = query == nullptr ? nullptr : query();
  // The code tells its table by a function.
  if (table == nullptr) {
    return refused(fmt::format("a table behind {}", TESS_KERNEL_LIBRARY_SYMBOL), "none");
  }
  // A larger structure comes from a newer version.
  if (table->structSize < sizeof(tessKernelLibrary) ||
      table->entrySize < sizeof(tessKernelEntry) ||
      table->entrySize % alignof(tessKernelEntry) != 0 ||
      table->entryCount > max_library_entries ||
      (table->entryCount != 0 && table->entries == nullptr)) {
    return refused(
        "a table of kernels",
        fmt::format("{} entries of {} bytes", table->entryCount, table->entrySize));
  }
  if (table->abiMajor != abi.major || table->abiMinor > abi.minor) {
    return error(
        errc::unsupported_version,
        fmt::format("cannot use the code of a module: expected ABI {}.0 to "
                    "{}.{}, found {}.{}",
                    abi.major, abi.major, abi.minor, table->abiMajor, table->abiMinor));
  }
  return table;
}

}  // namespace weir::tessera
