// SPDX-License-Identifier: Apache-2.0
/// @file
/// Byte sources over memory, over files that are read, and over files that are mapped.
/// Every read is checked against the size of the source before any byte is copied.
///
/// All three may be read on several threads: memory and mappings do not change, and a
/// file is read at given offsets, without a position that the threads would share.
#include "weir/formats/byte_source.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include <cstring>

namespace weir::formats {

namespace {

/// Returns an error of code `torn` if the range is not within the source. The comparison
/// subtracts from the size, so that no sum of offset and length can overflow.
result<void> check_range(const byte_source& source, std::uint64_t offset,
                         std::size_t bytes) {
  if (offset > source.size() || bytes > source.size() - offset) {
    return error(errc::torn,
                 fmt::format("cannot read {} bytes: expected all of them, found {} "
                             "before the end",
                             bytes, source.size() - std::min(offset, source.size())))
        .located(fmt::format("{}:{}", source.name(), offset));
  }
  return {};
}

}  // namespace

/// Returns true for a failure of the source, after which a repeated call may succeed, and
/// false for a fault of the data.
/// The root of a chain of errors is the failure itself; wrappers only add what it
/// prevented.
bool source_failed(const error& e) noexcept {
  switch (e.root().code()) {
    case errc::io:
    case errc::source_unavailable:
    case errc::interrupted:
    case errc::timeout: return true;
    default: return false;
  }
}

result<void> memory_byte_source::read(std::uint64_t offset, mutable_bytes to) const {
  WEIR_CHECK(check_range(*this, offset, to.size()));
  if (!to.empty()) {
    std::memcpy(to.data(), content_.data() + offset, to.size());
  }
  return {};
}

/// The size is asked once. A file that shrinks afterwards makes reads fail.
result<std::shared_ptr<file_source>> file_source::open(std::unique_ptr<file> f) {
  WEIR_TRY(const std::uint64_t size, f->size());
  return std::shared_ptr<file_source>(new file_source(std::move(f), size));
}

result<void> file_source::read(std::uint64_t offset, mutable_bytes to) const {
  WEIR_CHECK(check_range(*this, offset, to.size()));
  return read_exactly(*file_, offset, to);
}

/// The descriptor is closed as soon as the mapping exists; the mapping keeps the file. An
/// empty file is not mapped, because mmap() refuses a length of zero.
result<std::shared_ptr<mapped_source>> mapped_source::open(const std::string& path) {
  const auto failed = [&](const char* action) {
    return system_error(action, path, errno);
  };
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    return failed("open");
  }
  // An error takes `errno` before `close` can change it.
  struct stat facts {};
  if (::fstat(descriptor, &facts) != 0) {
    error e = failed("look at");
    ::close(descriptor);
    return e;
  }
  const auto size = static_cast<std::size_t>(facts.st_size);
  void* address =
      size == 0 ? nullptr : ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  if (address == MAP_FAILED) {
    error e = failed("map");
    ::close(descriptor);
    return e;
  }
  ::close(descriptor);
  return std::shared_ptr<mapped_source>(
      new mapped_source({static_cast<const std::byte*>(address), size}, path));
}

/// The views of callers end here.
mapped_source::~mapped_source() {
  if (!content_.empty()) {
    ::munmap(const_cast<std::byte*>(content_.data()), content_.size());
  }
}

result<void> mapped_source::read(std::uint64_t offset, mutable_bytes to) const {
  WEIR_CHECK(check_range(*this, offset, to.size()));
  if (!to.empty()) {
    std::memcpy(to.data(), content_.data() + offset, to.size());
  }
  return {};
}

}  // namespace weir::formats
