// SPDX-License-Identifier: Apache-2.0
/// @file
/// The data that the parts of this program share, and the functions that add rows.
#pragma once

#include <cmath>
#include <cstring>

#include "bench.hpp"
#include "weir/base/bytes.hpp"

namespace weir::bench {

/// Returns the test field of the reference: waves with a little noise from SplitMix64, as
/// doubles.
[[nodiscard]] inline byte_vector field(std::size_t n = 1'000'000) {
  const auto columns =
      static_cast<std::size_t>(std::ceil(std::sqrt(static_cast<double>(n))));
  const double rows = static_cast<double>((n + columns - 1) / columns);
  constexpr double waves = 2 * 3.14159265358979323846 * 4;
  byte_vector out(8 * n);
  std::uint64_t state = 42;
  for (std::size_t i = 0; i < n; ++i) {
    state += 0x9E3779B97F4A7C15;
    std::uint64_t z = state;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    z ^= z >> 31;
    const double noise = static_cast<double>(z >> 11) * 0x1p-52 - 1;
    const double value = 280 +
                         30 * std::sin(waves * static_cast<double>(i / columns) / rows) *
                             std::cos(waves * static_cast<double>(i % columns) /
                                      static_cast<double>(columns)) +
                         0.1 * noise;
    std::memcpy(out.data() + 8 * i, &value, 8);
  }
  return out;
}

/// Returns the milliseconds that the reference's package takes for a case of wheel.py
/// beyond those of its case "none", which is its cost of copying and framing. Returns
/// nothing if the package is not there.
/// @source{WEIR_TENSOGRAM_PYTHON, or the environment that tests/interop made}
[[nodiscard]] std::optional<double> wheel_ms(const std::string& name, bool encode);

/// Adds the rows that compare pipelines with their libraries, packing with memcpy, and
/// two threads with one.
void add_codec_rows(program& bench);
/// Adds the rows about ranges, scans and metadata.
void add_access_rows(program& bench);
/// Adds the rows about tokenizers.
void add_token_rows(program& bench);

}  // namespace weir::bench
