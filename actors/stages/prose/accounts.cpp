// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sums of likelihoods, and the encoding of the CONDUCTOR and METRICS sections.
///
/// A likelihood is a number of nats with 32 bits behind the binary point. Sums of them
/// are kept as whole numbers, because sums of floating point numbers depend on their
/// order, and a resumed run must have the same sums as a run without a break.
#include "stages/prose/accounts.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "weir/base/record.hpp"

namespace weir::actors {

namespace {

/// Natural logarithm of 2: nats per bit.
constexpr double nats_per_bit = 0.693147180559945309417232121458;
/// Version of the records CONDUCTOR and STEPS.
constexpr std::uint64_t record_version = 1;
/// Version of the record METRICS. Version 1 has no sum of the Stream phase.
constexpr std::uint64_t metrics_version = 2;

/// Writes a record of little-endian u64 that begins with its version.
/// The version stands first, so a reader can refuse the rest.
class word_writer {
 public:
  explicit word_writer(std::uint64_t version = record_version) { put(version); }
  void put(std::uint64_t value) { out_.put(value); }
  /// Three words: whole nats, fraction, bytes.
  void put(const nat_sum& s) {
    put(s.whole);
    put(s.fraction);
    put(s.bytes);
  }
  [[nodiscard]] byte_vector take() { return std::move(out_).take(); }

 private:
  record_writer out_;
};

/// Reads such a record. Reading past its end returns zeros; `end` tells whether that has
/// happened, so that callers check once.
/// Every read takes eight bytes.
class word_reader {
 public:
  word_reader(bytes_view bytes, const char* section)
      : in_(bytes), size_(bytes.size()), section_(section) {}
  /// Returns the version of the record, which is at least 1 and at most `newest`.
  [[nodiscard]] result<std::uint64_t> version(std::uint64_t newest = record_version) {
    const std::uint64_t found = take();
    // A newer version may have other words.
    if (found == 0 || found > newest) {
      return error(errc::unsupported_version,
                   fmt::format("reading section {} failed: expected version {}, found {}",
                               section_, newest, found));
    }
    return found;
  }
  [[nodiscard]] std::uint64_t take() { return in_.get<std::uint64_t>(); }
  [[nodiscard]] nat_sum sum() {
    nat_sum s;
    s.whole = take();
    s.fraction = take();
    s.bytes = take();
    return s;
  }
  /// Reads the number of entries that follow, each of `words` u64. The number is limited
  /// by the bytes that are left, so a damaged record cannot make the reader allocate
  /// more.
  [[nodiscard]] std::size_t count(std::size_t words) {
    return in_.get_count<std::uint64_t>(8 * words);
  }
  /// Fails if bytes are missing or left. Called once, after everything was read.
  [[nodiscard]] result<void> end() const {
    if (in_.failed() || !in_.rest().empty()) {
      // Both missing and additional bytes are damage.
      return error(
          errc::corrupt,
          fmt::format(
              "reading section {} failed: expected as many bytes as its counts say, "
              "found {}",
              section_, size_));
    }
    return {};
  }

 private:
  record_reader in_;
  std::size_t size_;
  const char* section_;
};

}  // namespace

/// Adds the two halves of the number separately and carries from the fraction, so the sum
/// is exact and does not depend on the order of the additions.
/// The fraction has less than 2^32 before, so its sum has less than 2^33.
void nat_sum::add(std::uint64_t nats_q32, std::uint64_t more_bytes) noexcept {
  // The fraction is in units of 2^-32.
  fraction += nats_q32 & 0xFFFF'FFFF;
  whole += (nats_q32 >> 32) + (fraction >> 32);
  fraction &= 0xFFFF'FFFF;
  bytes += more_bytes;
}

/// Adds a sum of another part of the run; the result is exact as well.
void nat_sum::add(const nat_sum& other) noexcept {
  fraction += other.fraction;
  whole += other.whole + (fraction >> 32);
  fraction &= 0xFFFF'FFFF;
  bytes += other.bytes;
}

/// Mean number of bits for a byte of text, 0 without text.
double nat_sum::bits_per_byte() const noexcept {
  if (bytes == 0) {
    return 0;
  }
  // The conversion to floating point is the last step.
  const double nats =
      static_cast<double>(whole) + static_cast<double>(fraction) * 0x1p-32;
  return nats / nats_per_bit / static_cast<double>(bytes);
}

/// Tokens of a point of the curve: a 256th of the Build phase, but at least a pulse, so
/// that a curve has at most about 256 points.
std::uint64_t curve_window_of(std::uint64_t pulse_tokens,
                              std::uint64_t build_budget) noexcept {
  constexpr std::uint64_t curve_points = 256;
  return std::max(pulse_tokens, build_budget / curve_points);
}

/// Counts a pulse. `build_tokens` is the number of tokens of the Build phase before it.
void run_accounts::count(const pulse_score& score, std::uint64_t build_tokens,
                         const score_rules& rules) {
  if (score.phase == models::pulse_phase::test) {
    test.add(score.nats_q32, score.bytes);
  }
  if (score.phase == models::pulse_phase::stream) {
    stream.add(score.nats_q32, score.bytes);
  }
  if (score.phase != models::pulse_phase::build) {
    // Only the Build phase has a curve.
    return;
  }
  build.add(score.nats_q32, score.bytes);
  const std::uint64_t budget = rules.build_budget;
  // The pulse begins in the last quarter of the Build phase.
  if (build_tokens >= budget - budget / 4) {
    last_quarter.add(score.nats_q32, score.bytes);
  }
  window.add(score.nats_q32, score.bytes);
  const std::uint64_t after = build_tokens + score.tokens;
  const std::uint64_t every = rules.curve_window;
  // A point of the curve ends where a multiple of the window is passed, and at the end.
  if (every != 0 && (after / every > build_tokens / every || after == budget)) {
    curve.push_back({after, window});
    // The next window begins empty.
    window = {};
  }
}

/// Order of the words: totals, use of each phase, and the flags of all lanes.
byte_vector encode(const conductor_record& record) {
  word_writer w;
  w.put(record.pulses);
  w.put(record.tokens);
  w.put(record.total_updates);
  for (const phase_use& use : record.used) {
    w.put(use.tokens);
    w.put(use.pulses);
  }
  // One word for each lane.
  w.put(record.reset_due.size());
  for (const std::uint8_t due : record.reset_due) {
    w.put(due);
  }
  return w.take();
}

/// Counts come from the file, so each is limited by the bytes that are left.
result<conductor_record> decode_conductor(bytes_view bytes) {
  word_reader r(bytes, "CONDUCTOR");
  WEIR_CHECK(r.version());
  conductor_record record;
  record.pulses = r.take();
  record.tokens = r.take();
  record.total_updates = r.take();
  // The phases are in a fixed order.
  for (phase_use& use : record.used) {
    use.tokens = r.take();
    use.pulses = r.take();
  }
  const std::uint64_t lanes = r.count(1);
  for (std::uint64_t i = 0; i < lanes; ++i) {
    record.reset_due.push_back(r.take() != 0 ? 1 : 0);
  }
  WEIR_CHECK(r.end());
  return record;
}

/// The use of each step of the order of phases, behind their number.
byte_vector encode(const std::vector<phase_use>& steps) {
  word_writer w;
  w.put(steps.size());
  for (const phase_use& use : steps) {
    w.put(use.tokens);
    w.put(use.pulses);
  }
  return w.take();
}

result<std::vector<phase_use>> decode_steps(bytes_view bytes) {
  word_reader r(bytes, "STEPS");
  WEIR_CHECK(r.version());
  // Two words for each step.
  std::vector<phase_use> steps(r.count(2));
  for (phase_use& use : steps) {
    use.tokens = r.take();
    use.pulses = r.take();
  }
  WEIR_CHECK(r.end());
  return steps;
}

/// A number that is cut would otherwise count as 0.
result<std::uint64_t> decode_number(bytes_view bytes, std::string_view section) {
  if (bytes.size() != sizeof(std::uint64_t)) {
    return error(errc::corrupt,
                 fmt::format("reading section {} failed: expected {} bytes, found {}",
                             section, sizeof(std::uint64_t), bytes.size()));
  }
  return load_le<std::uint64_t>(bytes.data());
}

/// Five sums, five numbers, and the points of the curve.
byte_vector encode(const run_accounts& accounts) {
  word_writer w(metrics_version);
  for (const nat_sum* s : {&accounts.build, &accounts.last_quarter, &accounts.test,
                           &accounts.window, &accounts.stream}) {
    w.put(*s);
  }
  w.put(static_cast<std::uint64_t>(accounts.build_ns));
  w.put(static_cast<std::uint64_t>(accounts.kernel_ns));
  w.put(static_cast<std::uint64_t>(accounts.stall_ns));
  w.put(accounts.generations);
  w.put(accounts.resumed);
  // The number of points limits what a reader accepts.
  w.put(accounts.curve.size());
  for (const curve_window& point : accounts.curve) {
    w.put(point.tokens);
    w.put(point.sum);
  }
  return w.take();
}

result<run_accounts> decode_accounts(bytes_view bytes) {
  word_reader r(bytes, "METRICS");
  WEIR_TRY(const std::uint64_t version, r.version(metrics_version));
  run_accounts accounts;
  for (nat_sum* s :
       {&accounts.build, &accounts.last_quarter, &accounts.test, &accounts.window}) {
    *s = r.sum();
  }
  // Version 1 had no sum for the Stream phase.
  accounts.stream = version >= 2 ? r.sum() : nat_sum();
  // Times are stored as unsigned words.
  accounts.build_ns = static_cast<std::int64_t>(r.take());
  accounts.kernel_ns = static_cast<std::int64_t>(r.take());
  accounts.stall_ns = static_cast<std::int64_t>(r.take());
  accounts.generations = r.take();
  accounts.resumed = r.take();
  // A point has four words: tokens, and a sum of three.
  const std::uint64_t points = r.count(4);
  for (std::uint64_t i = 0; i < points; ++i) {
    curve_window point;
    point.tokens = r.take();
    point.sum = r.sum();
    accounts.curve.push_back(point);
  }
  WEIR_CHECK(r.end());
  return accounts;
}

}  // namespace weir::actors
