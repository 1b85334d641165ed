// SPDX-License-Identifier: Apache-2.0
/// @file
/// The counters of a run, and the two records in which a checkpoint stores them. The
/// record CONDUCTOR decides how a resumed run continues; METRICS is only reported.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "stages/prose/chunk_plan.hpp"
#include "weir/actors/run.hpp"
#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"

namespace weir::actors {

/// An exact sum of negative log-likelihoods, in units of 2^-32 nat. A run may be too long
/// for one 64-bit word.
struct nat_sum {
  std::uint64_t whole = 0;     ///< whole nats
  std::uint64_t fraction = 0;  ///< units of 2^-32 nat, below 2^32
  /// Number of bytes that were predicted. An end-of-text token adds nats but no byte.
  std::uint64_t bytes = 0;

  /// Adds the likelihood of `more_bytes` bytes.
  void add(std::uint64_t nats_q32, std::uint64_t more_bytes) noexcept;
  /// Adds another sum.
  void add(const nat_sum& other) noexcept;
  /// Returns the mean in bits per byte; 0 if there are no bytes.
  [[nodiscard]] double bits_per_byte() const noexcept;
  friend bool operator==(const nat_sum&, const nat_sum&) = default;
};

/// Everything that the Conductor must know to continue a run, besides cursor and model.
struct conductor_record {
  std::uint64_t pulses = 0;         ///< committed in all phases; id of the next pulse
  std::uint64_t tokens = 0;         ///< consumed in all phases and lanes
  std::uint64_t total_updates = 0;  ///< `models::pulse::total_updates`
  phase_uses used;                  ///< by phase
  /// By lane: 1 if the last chunk of the lane had a boundary behind which its context is
  /// to be emptied, before its next chunk.
  std::vector<std::uint8_t> reset_due;
  friend bool operator==(const conductor_record&, const conductor_record&) = default;
};
/// Returns the bytes of a CONDUCTOR section.
[[nodiscard]] byte_vector encode(const conductor_record& record);
/// Reads a CONDUCTOR section.
/// @error{corrupt, the section is shorter or longer than its counts say}
/// @error{unsupported_version, the section was written by a later version}
[[nodiscard]] result<conductor_record> decode_conductor(bytes_view bytes);

/// Returns the bytes of a STEPS section: what each step of a run has used.
[[nodiscard]] byte_vector encode(const std::vector<phase_use>& steps);
/// Reads a STEPS section.
/// @error{corrupt, the section is shorter or longer than its counts say}
/// @error{unsupported_version, the section was written by a later version}
[[nodiscard]] result<std::vector<phase_use>> decode_steps(bytes_view bytes);

/// Reads a section that holds one number, such as BUDGET.
/// @param section  Name of the section, for messages.
/// @error{corrupt, the section has not 8 bytes}
[[nodiscard]] result<std::uint64_t> decode_number(bytes_view bytes,
                                                  std::string_view section);

/// One window of the learning curve.
struct curve_window {
  std::uint64_t tokens = 0;  ///< Build tokens at the end of the window
  nat_sum sum;               ///< likelihood of the tokens in the window
  friend bool operator==(const curve_window&, const curve_window&) = default;
};

/// The score of one pulse.
struct pulse_score {
  models::pulse_phase phase = models::pulse_phase::build;  ///< phase of the pulse
  std::uint64_t tokens = 0;                                ///< tokens of all lanes
  std::uint64_t nats_q32 = 0;  ///< as `models::pulse_result::nats_q32`
  std::uint64_t bytes = 0;     ///< bytes that were scored
};
/// Numbers of the run that decide how scores are counted.
struct score_rules {
  std::uint64_t build_budget = 0;  ///< tokens of the Build phase
  std::uint64_t curve_window = 0;  ///< Build tokens per point of the curve; 0: no curve
};
/// Returns the window of the curve: 1/256 of the Build budget, but at least a pulse.
[[nodiscard]] std::uint64_t curve_window_of(std::uint64_t pulse_tokens,
                                            std::uint64_t build_budget) noexcept;

/// Metrics of the whole run, including the time before it was resumed. They belong to no
/// hash of the state.
struct run_accounts {
  nat_sum build;                  ///< of the Build phase
  nat_sum last_quarter;           ///< of the last quarter of the Build budget
  nat_sum test;                   ///< of the Test phase
  nat_sum stream;                 ///< of the Stream phase; METRICS has it from version 2
  nat_sum window;                 ///< of the window of the curve that is not complete yet
  std::int64_t build_ns = 0;      ///< duration of the Build phase
  std::int64_t kernel_ns = 0;     ///< time inside kernels during Build, all threads
  std::int64_t stall_ns = 0;      ///< counted by the first version alone
  std::uint64_t generations = 0;  ///< counted by the first version alone
  std::uint64_t resumed = 0;      ///< how often the run was resumed
  std::vector<curve_window> curve;

  /// Adds the score of the next pulse to the sums and to the learning curve.
  /// @param build_tokens  Build tokens of the pulses before.
  void count(const pulse_score& score, std::uint64_t build_tokens,
             const score_rules& rules);
  friend bool operator==(const run_accounts&, const run_accounts&) = default;
};
/// Returns the bytes of a METRICS section.
[[nodiscard]] byte_vector encode(const run_accounts& accounts);
/// Reads a METRICS section.
/// @error{corrupt, the section is shorter or longer than its counts say}
/// @error{unsupported_version, the section was written by a later version}
[[nodiscard]] result<run_accounts> decode_accounts(bytes_view bytes);

}  // namespace weir::actors
