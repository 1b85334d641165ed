// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sparse memory as a block device.
///
/// Tests use it as a disk that is fast, sparse and easy to copy. Its holes behave like
/// those of a sparse file, so that code which skips holes is exercised, too.
#include <fmt/core.h>

#include <algorithm>

#include "weir/storage/block_device.hpp"

namespace weir::storage {

namespace {

/// Makes the error for a range that leaves the device. `code` tells reading (`torn`)
/// from writing (`out_of_range`).
error outside(const std::string& name, std::uint64_t offset, std::uint64_t count,
              std::uint64_t size, errc code) {
  return error(code, fmt::format("cannot reach {} bytes at {}: expected a range below {}",
                                 count, offset, size))
      .located(fmt::format("{}:{}", name, offset));
}

}  // namespace

/// Pages are allocated when they are first written. The last one may reach beyond the
/// size; `size_` limits all accesses.
memory_device::memory_device(std::uint64_t size, std::string name)
    : size_(size),
      name_(std::move(name)),
      pages_(static_cast<std::size_t>(size / page_bytes +
                                      (size % page_bytes != 0 ? 1 : 0))) {}

/// The copy has the same bytes and the same holes, and shares nothing with the original.
/// Tests continue from a state more than once this way.
std::unique_ptr<memory_device> memory_device::clone() const {
  auto copy = std::make_unique<memory_device>(size_, name_);
  for (std::size_t i = 0; i < pages_.size(); ++i) {
    if (pages_[i]) {
      copy->pages_[i] = std::make_unique<std::byte[]>(page_bytes);
      std::memcpy(copy->pages_[i].get(), pages_[i].get(), page_bytes);
    }
  }
  return copy;
}

/// Bytes that were never written read as zeros, like those of a hole in a file.
result<void> memory_device::read(std::uint64_t offset, mutable_bytes to) {
  if (offset > size_ || to.size() > size_ - offset) {
    return outside(name_, offset, to.size(), size_, errc::torn);
  }
  while (!to.empty()) {
    const std::size_t in_page = static_cast<std::size_t>(offset % page_bytes);
    const std::size_t n = std::min(to.size(), page_bytes - in_page);
    const page& p = pages_[static_cast<std::size_t>(offset / page_bytes)];
    if (p) {
      std::memcpy(to.data(), p.get() + in_page, n);
    } else {
      std::memset(to.data(), 0, n);
    }
    to = to.subspan(n);
    offset += n;
  }
  return {};
}

/// Allocates the pages that it touches, and fills them with zeros where nothing is
/// written.
result<void> memory_device::write(std::uint64_t offset, bytes_view from) {
  if (offset > size_ || from.size() > size_ - offset) {
    return outside(name_, offset, from.size(), size_, errc::out_of_range);
  }
  while (!from.empty()) {
    const std::size_t in_page = static_cast<std::size_t>(offset % page_bytes);
    const std::size_t n = std::min(from.size(), page_bytes - in_page);
    page& p = pages_[static_cast<std::size_t>(offset / page_bytes)];
    if (!p) {
      p = std::make_unique<std::byte[]>(page_bytes);
    }
    std::memcpy(p.get() + in_page, from.data(), n);
    from = from.subspan(n);
    offset += n;
  }
  return {};
}

// Only a range inside one page is contiguous. A page that was never written has no bytes
// to show.
bytes_view memory_device::view(std::uint64_t offset, std::size_t count) const noexcept {
  const std::size_t in_page = static_cast<std::size_t>(offset % page_bytes);
  if (offset > size_ || count > size_ - offset || count > page_bytes - in_page) {
    return {};
  }
  const page& p = pages_[static_cast<std::size_t>(offset / page_bytes)];
  return p ? bytes_view(p.get() + in_page, count) : bytes_view();
}

// Pages that were never written are the holes.
result<extent> memory_device::next_data(std::uint64_t offset, std::uint64_t end) {
  end = std::min(end, size_);
  while (offset < end) {
    // The last page ends with the range.
    const std::uint64_t page_end =
        std::min(end, align_down(offset, std::uint64_t{page_bytes}) + page_bytes);
    if (pages_[static_cast<std::size_t>(offset / page_bytes)]) {
      return extent{offset, page_end - offset};
    }
    offset = page_end;
  }
  return extent{end, 0};
}

}  // namespace weir::storage
