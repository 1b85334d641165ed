// SPDX-License-Identifier: Apache-2.0
/// @file
/// Pages of the host for devices, and the table of registered ranges.
#include "device/cuda/host_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <limits>
#include <utility>

#include <fmt/core.h>

/// The pages are mapped, not allocated, so that registering and unregistering never
/// touches other memory of the process.
namespace weir::tessera::cuda {

host_pages::~host_pages() {
  if (data_ != nullptr) {
    (void)::munmap(data_, size_);
  }
}

host_pages::host_pages(host_pages&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

/// The old pages go with the other object.
host_pages& host_pages::operator=(host_pages&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

/// Rounded up to whole pages; a size of 0 gives no memory.
result<host_pages> host_pages::map(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  host_pages made;
  if (bytes == 0) {
    return made;
  }
  // Larger sizes would overflow when they are rounded up to whole pages.
  if (bytes <= std::numeric_limits<std::size_t>::max() / 2) {
    made.size_ = (bytes + page - 1) / page * page;
    void* const address = ::mmap(nullptr, made.size_, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address != MAP_FAILED) {
      made.data_ = static_cast<std::byte*>(address);
      return made;
    }
  }
  return error(errc::out_of_memory,
               fmt::format("cannot allocate {} bytes of the host for devices: expected "
                           "that much memory, found less",
                           bytes));
}

/// Called after the driver has registered the range.
///
/// Ranges do not overlap, which the driver has checked.
void pinned_ranges::add(const std::byte* first, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  ranges_[first] = bytes;
}

/// Returns the size, or nothing if no range begins there.
///
/// The caller then unregisters it.
std::optional<std::size_t> pinned_ranges::remove(const std::byte* first) {
  const std::lock_guard lock(mutex_);
  const auto found = ranges_.find(first);
  if (found == ranges_.end()) {
    return std::nullopt;
  }
  const std::size_t bytes = found->second;
  ranges_.erase(found);
  return bytes;
}

/// True if all bytes lie in one range, as a copy needs it.
bool pinned_ranges::contains(const std::byte* first, std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  // The last range that begins at the address or before.
  auto after = ranges_.upper_bound(first);
  if (after == ranges_.begin()) {
    return false;
  }
  --after;
  const auto offset = static_cast<std::size_t>(first - after->first);
  return offset <= after->second && bytes <= after->second - offset;
}

}  // namespace weir::tessera::cuda
