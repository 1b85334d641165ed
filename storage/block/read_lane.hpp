// SPDX-License-Identifier: Apache-2.0
/// @file
/// One run of reads past the page cache: several transfers ahead of their consumer.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <new>
#include <string>

#include "block/queued_reads.hpp"
#include "weir/base/error.hpp"

namespace weir::storage {

/// What direct transfers are aligned to.
inline constexpr std::size_t direct_unit = 4096;

struct aligned_delete {
  void operator()(std::byte* p) const {
    ::operator delete (p, std::align_val_t{direct_unit});
  }
};
using aligned_memory = std::unique_ptr<std::byte, aligned_delete>;
[[nodiscard]] aligned_memory allocate_aligned(std::size_t bytes);

/// A file that is read directly.
struct direct_file {
  int descriptor = -1;
  std::uint64_t size = 0;
  std::string name;

  /// Fills `to` from an aligned offset, as far as the file goes; at least `least` bytes.
  /// @error{io; torn, the file is shorter}
  [[nodiscard]] result<void> fill(std::uint64_t offset, mutable_bytes to,
                                  std::size_t have, std::size_t least) const;
  [[nodiscard]] error failed(std::uint64_t offset, std::size_t bytes, int number) const;
};

/// Chunks of a file, read ahead in order. A reader that goes on where it stopped finds
/// the next chunks on their way; any other one starts afresh, with bytes as they are now.
/// @threads{thread-compatible}
class read_lane {
 public:
  static constexpr std::size_t chunk = std::size_t{128} << 10;
  static constexpr unsigned depth = 8;

  read_lane(const direct_file& file, std::unique_ptr<queued_reads> reads)
      : file_(file), reads_(std::move(reads)), memory_(allocate_aligned(depth * chunk)) {}
  read_lane(const read_lane&) = delete;
  read_lane& operator=(const read_lane&) = delete;
  ~read_lane() { forget(); }

  /// Where a read has to begin to go on.
  [[nodiscard]] std::uint64_t next() const noexcept { return next_; }
  /// A range inside the file. `take` gets its bytes in order.
  template <class Take>
  [[nodiscard]] result<void> read(std::uint64_t offset, std::uint64_t bytes, Take take) {
    begin(offset, bytes);
    while (bytes > 0) {
      WEIR_TRY(const bytes_view there, at(offset, bytes));
      take(there);
      offset += there.size();
      bytes -= there.size();
    }
    next_ = offset;
    return {};
  }

 private:
  enum class state : std::uint8_t { idle, running, ready };
  struct slot {
    std::uint64_t index = 0;  ///< of the chunk in the file
    state what = state::idle;
    std::int64_t got = 0;
  };

  void begin(std::uint64_t offset, std::uint64_t bytes);
  [[nodiscard]] result<bytes_view> at(std::uint64_t offset, std::uint64_t most);
  void start_until(std::uint64_t first, std::uint64_t last);
  void wait_for_one();
  void forget();
  [[nodiscard]] mutable_bytes memory_of(std::uint64_t index) const {
    return {memory_.get() + index % depth * chunk, chunk};
  }

  const direct_file& file_;
  std::unique_ptr<queued_reads> reads_;
  aligned_memory memory_;
  std::array<slot, depth> slots_{};
  unsigned running_ = 0;
  std::uint64_t next_ = UINT64_MAX;
  std::uint64_t last_ = 0;  ///< chunk up to which is read ahead
};

}  // namespace weir::storage
