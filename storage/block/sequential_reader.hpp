// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sequential reads without the page cache, several transfers ahead of their consumer.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <new>
#include <string>

#include "block/queued_reads.hpp"
#include "weir/base/error.hpp"

namespace weir::storage {

/// Alignment of direct transfers in bytes, valid for all sector sizes in use.
inline constexpr std::size_t direct_unit = 4096;

/// Frees the memory of `allocate_aligned`.
struct aligned_delete {
  void operator()(std::byte* p) const {
    ::operator delete (p, std::align_val_t{direct_unit});
  }
};
using aligned_memory = std::unique_ptr<std::byte, aligned_delete>;
/// Allocates memory that is aligned for direct transfers.
[[nodiscard]] aligned_memory allocate_aligned(std::size_t bytes);

/// A file that is open for direct reads.
struct direct_file {
  int descriptor = -1;
  std::uint64_t size = 0;
  std::string name;

  /// Reads from an aligned offset until `to` holds at least `least` bytes.
  /// @param have bytes at the front of `to` that are there already
  /// @error{io, the operating system reports an error} @error{torn, the file is shorter}
  [[nodiscard]] result<void> fill(std::uint64_t offset, mutable_bytes to,
                                  std::size_t have, std::size_t least) const;
  /// Makes the error of a failed read; `number` is an errno, or 0 at the end of the file.
  [[nodiscard]] error failed(std::uint64_t offset, std::size_t bytes, int number) const;
};

/// Reads a file in chunks, several of which are requested ahead. A reader that continues
/// where it stopped finds its chunks in flight; any other read begins afresh with the
/// bytes that the file has then.
/// @threads{thread-compatible}
class sequential_reader {
 public:
  /// Bytes of a chunk, which is one transfer.
  static constexpr std::size_t chunk = std::size_t{128} << 10;
  /// Largest number of chunks in flight.
  static constexpr unsigned depth = 8;

  sequential_reader(const direct_file& file, std::unique_ptr<queued_reads> reads)
      : file_(file), reads_(std::move(reads)), memory_(allocate_aligned(depth * chunk)) {}
  sequential_reader(const sequential_reader&) = delete;
  sequential_reader& operator=(const sequential_reader&) = delete;
  ~sequential_reader() { forget(); }

  /// Returns the offset at which a read must begin to continue the last one.
  [[nodiscard]] std::uint64_t next() const noexcept { return next_; }
  /// Reads a range inside the file. `take` is called with its bytes, in order, in parts.
  template <class Take>
  [[nodiscard]] result<void> read(std::uint64_t offset, std::uint64_t bytes, Take take) {
    begin(offset, bytes);
    while (bytes > 0) {
      WEIR_TRY(const bytes_view there, bytes_at(offset, bytes));
      take(there);
      offset += there.size();
      bytes -= there.size();
    }
    next_ = offset;
    return {};
  }

 private:
  enum class state : std::uint8_t { idle, running, ready };
  /// State of one chunk; it belongs to the memory of the same number.
  struct slot {
    std::uint64_t index = 0;  ///< number of the chunk in the file
    state status = state::idle;
    std::int64_t got = 0;  ///< bytes read, or -errno
  };

  /// Prepares a read: keeps or drops the chunks in flight, and decides how far to read
  /// ahead.
  void begin(std::uint64_t offset, std::uint64_t bytes);
  /// Returns bytes from `offset` on, all of one chunk.
  [[nodiscard]] result<bytes_view> bytes_at(std::uint64_t offset,
                                            std::uint64_t max_bytes);
  /// Requests the chunks from `first` to `last` that have a free slot.
  void start_until(std::uint64_t first, std::uint64_t last);
  /// Waits for the end of any transfer.
  void wait_for_one();
  /// Waits for the end of all transfers and drops their chunks.
  void forget();
  [[nodiscard]] mutable_bytes memory_of(std::uint64_t index) const {
    return {memory_.get() + index % depth * chunk, chunk};
  }

  const direct_file& file_;
  std::unique_ptr<queued_reads> reads_;
  aligned_memory memory_;
  std::array<slot, depth> slots_{};
  unsigned running_ = 0;  ///< slots in state `running`
  std::uint64_t next_ = UINT64_MAX;
  std::uint64_t last_ = 0;  ///< last chunk that is read ahead
};

}  // namespace weir::storage
