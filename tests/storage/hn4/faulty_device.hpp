// SPDX-License-Identifier: Apache-2.0
/// @file
/// A device that fails as real devices do: errors, short reads, delays and torn sectors.
#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <thread>

#include "support.hpp"

namespace weir::storage::test {

/// Says which calls fail and how. Calls are counted from 0, reads and writes separately.
struct fault_plan {
  std::optional<std::uint64_t> failing_read;   ///< this read is an I/O error
  std::optional<std::uint64_t> short_read;     ///< this one ends half way, `torn`
  std::optional<std::uint64_t> failing_write;  ///< this write is an I/O error
  std::optional<std::uint64_t> torn_write;  ///< half of its sectors arrive, then an error
  std::chrono::microseconds delay{0};       ///< before every call
};

/// Passes calls on to a device, except those that the plan names.
class faulty_device final : public borrowed_device {
 public:
  static constexpr std::uint64_t sector = 512;

  faulty_device(block_device& to, fault_plan plan) : borrowed_device(to), plan_(plan) {}

  result<void> read(std::uint64_t offset, mutable_bytes to) override {
    const std::uint64_t call = count(reads_);
    if (call == plan_.failing_read) {
      return injected(errc::io, offset);
    }
    if (call == plan_.short_read) {
      WEIR_CHECK(borrowed_device::read(offset, to.first(to.size() / 2)));
      return injected(errc::torn, offset);
    }
    return borrowed_device::read(offset, to);
  }
  result<void> write(std::uint64_t offset, bytes_view from) override {
    const std::uint64_t call = count(writes_);
    if (call == plan_.failing_write) {
      return injected(errc::io, offset);
    }
    if (call == plan_.torn_write) {
      const std::uint64_t half = align_down(offset + from.size() / 2, sector);
      const std::uint64_t end = std::max(offset, half);
      WEIR_CHECK(borrowed_device::write(
          offset, from.first(static_cast<std::size_t>(end - offset))));
      return injected(errc::io, offset);
    }
    return borrowed_device::write(offset, from);
  }
  [[nodiscard]] std::uint64_t reads() const {
    const std::lock_guard lock(mutex_);
    return reads_;
  }

 private:
  std::uint64_t count(std::uint64_t& calls) {
    if (plan_.delay.count() != 0) {
      std::this_thread::sleep_for(plan_.delay);
    }
    const std::lock_guard lock(mutex_);
    return calls++;
  }
  error injected(errc code, std::uint64_t offset) const {
    return error(code, "injected failure of a transfer")
        .located(name() + ":" + std::to_string(offset));
  }

  fault_plan plan_;
  mutable std::mutex mutex_;
  std::uint64_t reads_ = 0, writes_ = 0;
};

}  // namespace weir::storage::test
