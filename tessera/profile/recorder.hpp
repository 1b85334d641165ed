// SPDX-License-Identifier: Apache-2.0
/// @file
/// Records the times of operations and calls of a context and writes a Chrome trace.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "weir/tessera/stream/context.hpp"
#include "weir/tessera/stream/operation.hpp"

namespace weir::tessera {

/// Records the times of operations and calls. @threads{safe from any thread}
class recorder final : public operation_observer {
 public:
  /// Keeps the first `most` operations and calls, and counts the rest.
  recorder(const context& of, std::uint64_t most);

  void ended(const operation& operation, unsigned lane, std::int64_t start_ns,
             std::int64_t end_ns) noexcept override;
  void called(const observed_call& what) noexcept override;
  /// The context's policy now, at the end.
  void note_policy(const numerics_policy& policy);
  /// Writes the trace. Process ordinal + 1 is a device, its threads are streams. Threads
  /// of process 0, the host, are those of the program: each of their calls, with a flow
  /// from the call that enqueued an operation to the start of the operation. A counter of
  /// each device is the bytes of its copies and collectives that are under way.
  /// @error{invalid_argument; the file cannot be written}
  [[nodiscard]] result<void> write(const std::string& path) const;
  [[nodiscard]] std::string to_json() const;

 private:
  struct record {
    std::string name;
    std::string details;
    operation_kind kind;
    std::uint32_t thread;  ///< number of the thread that enqueued it
    std::uint64_t stream;
    std::uint64_t number;
    std::uint64_t bytes;
    double bus_factor;
    std::int32_t device;
    std::int64_t enqueued;
    std::int64_t started;
    std::int64_t ended;
  };

  /// Returns true if one more fits, and counts it as dropped otherwise. The caller holds
  /// the mutex.
  [[nodiscard]] bool has_room() noexcept;
  void add_events(const record& r, std::uint64_t flow,
                  std::vector<std::string>& events) const;
  void add_call(const observed_call& c, std::vector<std::string>& events) const;
  void add_counters(const std::vector<record>& all,
                    std::vector<std::string>& events) const;
  [[nodiscard]] std::string metadata() const;

  std::vector<std::pair<std::string, std::string>> settings_;
  numerics_policy policy_;  ///< policy when recording began
  std::int64_t since_;
  std::uint64_t most_;
  mutable std::mutex mutex_;
  std::vector<record> records_;
  std::vector<observed_call> calls_;
  std::uint64_t dropped_ = 0;
  std::optional<numerics_policy> last_policy_;
};

}  // namespace weir::tessera
