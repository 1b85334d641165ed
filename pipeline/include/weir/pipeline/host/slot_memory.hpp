// SPDX-License-Identifier: Apache-2.0
/// @file
/// Memory that a run shares with another process, from which slots of items come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

namespace weir::flow {

/// Hands out parts of a region of shared memory, so that a child process reaches items
/// where they are, without a copy.
/// @threads{safe to call concurrently}
class slot_memory {
 public:
  /// Alignment of each part. @units{bytes}
  static constexpr std::uint64_t alignment = 64;
  /// Begins with an empty region. @param owner Keeps the region alive; may be null.
  /// @pre `base` is a multiple of `alignment`. @units{bytes: bytes}
  slot_memory(std::byte* base, std::uint64_t bytes, std::shared_ptr<const void> owner);
  slot_memory(const slot_memory&) = delete;
  slot_memory& operator=(const slot_memory&) = delete;
  /// Takes a part, or returns null without space for it. @units{bytes: bytes}
  [[nodiscard]] std::byte* allocate(std::uint64_t bytes) noexcept;
  /// Takes a part back. @pre `allocate` has returned it.
  void free(std::byte* part) noexcept;
  /// Returns whether the bytes lie in the region. @units{bytes: bytes}
  [[nodiscard]] bool holds(const std::byte* first, std::uint64_t bytes) const noexcept;

 private:
  using pieces = std::map<std::uint64_t, std::uint64_t>;  ///< sizes by offset
  void join_free(pieces::iterator piece) noexcept;

  std::byte* base_;
  std::uint64_t bytes_;
  std::shared_ptr<const void> owner_;
  std::mutex lock_;  ///< protects both lists
  pieces free_;
  pieces used_;
};

}  // namespace weir::flow
