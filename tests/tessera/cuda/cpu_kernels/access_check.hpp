// SPDX-License-Identifier: Apache-2.0
/// @file
/// Notes which threads accessed each byte last, and finds accesses that nothing orders.
///
/// A byte has its last write and, for each block, the reads since then of the block's
/// newest epoch. That is enough: reads before a barrier come before those behind it, and
/// of several threads that read in one epoch, a thread that writes in it is ordered
/// behind one at most.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kernels/device.hpp"

namespace weir::tessera::kernel_machine {

using access_kind = device_code::host::access;

/// The thread that makes an access.
struct accessor {
  std::uint32_t block = 0;
  std::uint32_t thread = 0;  ///< number of the thread in its block
  std::uint32_t epoch = 0;   ///< barriers that the block has passed
};

/// Checks the accesses of one launch.
class access_check {
 public:
  /// @param blocks  number of blocks of the grid
  explicit access_check(std::size_t blocks);

  /// Adds memory that may be accessed. `written`: its bytes have a value.
  void add(const void* first, std::size_t bytes, bool written);
  /// Removes memory that starts at this address.
  void remove(const void* first);
  /// Notes an access. Returns the text of the fault, or an empty string.
  [[nodiscard]] std::string note(const void* address, std::size_t bytes, access_kind kind,
                                 accessor by);

 private:
  /// An access in the past. `time` is the clock of the block, from 1 on.
  struct mark {
    std::uint32_t block = 0;
    std::uint32_t thread = 0;
    std::uint32_t epoch = 0;
    std::uint32_t time = 0;
  };
  /// The reads of a block in its newest epoch. `last` is the newest of them.
  struct block_reads {
    mark last;
    bool several = false;  ///< threads with different numbers have read
  };
  /// State of a byte: its last write and the reads since then, by block.
  struct byte_state {
    mark write;
    std::vector<block_reads> reads;
    bool atomic = false;  ///< the last write was an atomic operation
    bool written = false;
  };
  struct range {
    std::uintptr_t first;
    std::vector<byte_state> bytes;
  };
  using clock = std::vector<std::uint32_t>;

  [[nodiscard]] range* find(std::uintptr_t first, std::size_t bytes);
  [[nodiscard]] bool ordered(const mark& before, accessor by) const;
  [[nodiscard]] bool ordered(const block_reads& before, accessor by) const;
  void note_read(byte_state& byte, const mark& now);
  [[nodiscard]] const char* fault_of(byte_state& byte, access_kind kind, accessor by);
  void synchronise(std::uintptr_t address, accessor by);

  std::vector<range> ranges_;
  std::vector<clock> clocks_;              ///< clocks_[b][c]: time of c that b has seen
  std::map<std::uintptr_t, clock> atoms_;  ///< clocks of atomic variables
};

}  // namespace weir::tessera::kernel_machine
