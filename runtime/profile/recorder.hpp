// SPDX-License-Identifier: Apache-2.0
/// @file
/// Notes how long operations of a context took and writes it as a Chrome trace.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "weir/runtime/stream/context.hpp"
#include "weir/runtime/stream/operation.hpp"

namespace weir::runtime {

/// @threads{safe from any thread}
class recorder final : public operation_observer {
 public:
  explicit recorder(const context& of);

  void ended(const operation& what, unsigned lane, std::int64_t start_ns,
             std::int64_t end_ns) noexcept override;
  /// Processes are devices by ordinal + 1 and their threads streams; process 0, the host,
  /// has the moments of enqueueing, from which a flow leads to the start. A counter of
  /// each device is the bytes of its copies and collectives that are under way.
  /// @error{invalid_argument, the file cannot be written}
  [[nodiscard]] result<void> write(const std::string& path) const;
  [[nodiscard]] std::string to_json() const;

 private:
  struct record {
    std::string name;
    std::string details;
    operation::kind kind;
    std::uint64_t stream;
    std::uint64_t number;
    std::uint64_t bytes;
    std::int32_t device;
    std::int64_t enqueued;
    std::int64_t started;
    std::int64_t ended;
  };

  void add_events(const record& r, std::uint64_t flow,
                  std::vector<std::string>& events) const;
  void add_counters(const std::vector<record>& all,
                    std::vector<std::string>& events) const;

  std::vector<std::pair<std::string, std::string>> settings_;
  std::int64_t since_;
  mutable std::mutex mutex_;
  std::vector<record> records_;
};

}  // namespace weir::runtime
