// SPDX-License-Identifier: Apache-2.0
/// @file
/// Records the times of operations and calls of a context and writes a Chrome trace.
///
/// A recorder is one of the observers of a context. It is attached when a profiler starts
/// and detached when the profiler stops.
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
  /// Keeps the first `max_records` operations and calls, and counts the rest.
  recorder(const context& observed, std::uint64_t max_records);

  /// Records one device chain of an operation. Called by a worker.
  void ended(const operation& operation, unsigned chain, std::int64_t start_ns,
             std::int64_t end_ns) noexcept override;
  void called(const observed_call& call) noexcept override;
  /// Notes the context's policy at the end of the recording.
  void note_policy(const numerics_policy& policy);
  /// Writes the trace. Process n + 1 is device n, and its threads are streams. Process 0
  /// is the host, and its threads are those of the program: they show each call, with an
  /// arrow from the call that enqueued an operation to the start of the operation. Each
  /// device has a counter of the bytes of its copies and collectives in flight.
  /// @error{invalid_argument; the file cannot be written}
  [[nodiscard]] result<void> write(const std::string& path) const;
  /// Returns the trace as text.
  [[nodiscard]] std::string to_json() const;

 private:
  /// One device chain of an operation. Times are monotonic, in nanoseconds.
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

  /// Returns true if one more record fits. Otherwise counts it as dropped. The caller
  /// holds the mutex.
  [[nodiscard]] bool accept_record() noexcept;
  void add_events(const record& r, std::uint64_t flow,
                  std::vector<std::string>& events) const;
  void add_call(const observed_call& c, std::vector<std::string>& events) const;
  void add_counters(const std::vector<record>& all,
                    std::vector<std::string>& events) const;
  [[nodiscard]] std::string metadata() const;

  std::vector<std::pair<std::string, std::string>> settings_;
  numerics_policy policy_;     ///< policy when recording began
  std::int64_t since_;         ///< beginning of the recording, in nanoseconds
  std::uint64_t max_records_;  ///< largest number of operations and calls
  mutable std::mutex mutex_;
  std::vector<record> records_;
  std::vector<observed_call> calls_;
  std::uint64_t dropped_ = 0;
  std::optional<numerics_policy> last_policy_;
};

}  // namespace weir::tessera
