// SPDX-License-Identifier: Apache-2.0
/// @file
/// Memory of the host that devices may use: pages that the driver has registered.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>

#include "weir/base/error.hpp"

namespace weir::tessera::cuda {

/// Whole pages of the host, unmapped by the destructor.
///
/// The pages come from the system and not from the driver, so that they can be returned
/// even when the driver does not answer any more.
class host_pages {
 public:
  host_pages() = default;
  ~host_pages();
  host_pages(host_pages&& other) noexcept;
  host_pages& operator=(host_pages&& other) noexcept;

  /// Maps at least `bytes` bytes, all zeros. @error{out_of_memory; the system has none}
  [[nodiscard]] static result<host_pages> map(std::size_t bytes);
  /// Returns the first byte, or null.
  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  /// Returns the size in bytes, a multiple of the size of a page.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Keeps the pages mapped for ever, because a device may still use them.
  void abandon() noexcept { data_ = nullptr; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Ranges of the host that the driver has registered.
/// @threads{safe to call concurrently}
class pinned_ranges {
 public:
  /// Notes a range.
  void add(const std::byte* first, std::size_t bytes);
  /// Forgets the range that begins at an address. Returns its size, or nothing if no
  /// range begins there.
  std::optional<std::size_t> remove(const std::byte* first);
  /// Returns true if one registered range contains all of the bytes.
  [[nodiscard]] bool contains(const std::byte* first, std::size_t bytes) const;

 private:
  mutable std::mutex mutex_;
  std::map<const std::byte*, std::size_t> ranges_;
};

}  // namespace weir::tessera::cuda
