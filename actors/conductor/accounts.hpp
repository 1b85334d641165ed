// SPDX-License-Identifier: Apache-2.0
/// @file
/// What a run counts about itself, and how its two records are stored: CONDUCTOR, which
/// decides how it goes on, and METRICS, which only tells.
#pragma once

#include <cstdint>
#include <vector>

#include "conductor/chunk_plan.hpp"
#include "weir/actors/run.hpp"
#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"

namespace weir::actors {

/// Sum of negative log-likelihoods, exact: units of 2^-32 nat in two words.
struct nat_sum {
  std::uint64_t whole = 0;     ///< nats
  std::uint64_t fraction = 0;  ///< of 2^32
  std::uint64_t bytes = 0;     ///< that were predicted; end-of-text costs but is no byte

  void add(std::uint64_t nats_q32, std::uint64_t more_bytes) noexcept;
  void add(const nat_sum& other) noexcept;
  /// 0 if there are no bytes.
  [[nodiscard]] double bits_per_byte() const noexcept;
  friend bool operator==(const nat_sum&, const nat_sum&) = default;
};

/// How a run goes on: everything the Conductor must know besides cursor and model.
struct conductor_record {
  std::uint64_t pulses = 0;  ///< completed, all phases: id of the next pulse
  std::uint64_t tokens = 0;  ///< consumed, all phases and lanes
  std::uint64_t total_updates = 0;
  phase_uses used;
  std::vector<std::uint8_t>
      reset_due;  ///< by lane: a boundary was seen, the context is emptied next
  friend bool operator==(const conductor_record&, const conductor_record&) = default;
};
[[nodiscard]] byte_vector encode(const conductor_record& record);
/// @error{corrupt, a length or value is wrong} @error{unsupported_version, written by a
/// later version}
[[nodiscard]] result<conductor_record> decode_conductor(bytes_view bytes);

/// One window of the learning curve.
struct curve_window {
  std::uint64_t tokens = 0;  ///< Build tokens at its end
  nat_sum sum;
  friend bool operator==(const curve_window&, const curve_window&) = default;
};

/// What the metrics say of the whole run, resumes included. Left out of every hash of the
/// state.
struct run_accounts {
  nat_sum build;
  nat_sum last_quarter;
  nat_sum test;
  nat_sum window;  ///< the curve's open window
  std::int64_t build_ns = 0;
  std::int64_t kernel_ns = 0;
  std::int64_t stall_ns = 0;
  std::uint64_t generations = 0;
  std::uint64_t resumed = 0;
  std::vector<curve_window> curve;
  friend bool operator==(const run_accounts&, const run_accounts&) = default;
};
[[nodiscard]] byte_vector encode(const run_accounts& accounts);
/// @error{corrupt, a length is wrong} @error{unsupported_version, written by a later
/// version}
[[nodiscard]] result<run_accounts> decode_accounts(bytes_view bytes);

}  // namespace weir::actors
