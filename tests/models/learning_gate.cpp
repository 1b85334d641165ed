// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the quality of learning: the model reads a real text once and must reach a
/// number of bits per byte. The text is the first 300,000 bytes of the licences of the
/// base system, and a pulse has 64 tokens.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <numbers>

#include "weir/base/clock.hpp"
#include "weir/models/prose.hpp"

namespace weir::test {
namespace {

using namespace models;

/// Returns the first bytes of all licences, joined in the bytewise order of their paths.
std::string licences(std::size_t bytes) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry :
       std::filesystem::directory_iterator("/usr/share/common-licenses", ignored)) {
    names.push_back(entry.path().string());
  }
  std::sort(names.begin(), names.end());
  std::string text;
  for (const auto& name : names) {
    std::ifstream in(name, std::ios::binary);
    text.append(std::istreambuf_iterator<char>(in), {});
  }
  text.resize(std::min(text.size(), bytes));
  return text;
}

/// The sum of the results of pulses.
struct sums {
  std::uint64_t nats_q32 = 0;
  std::uint64_t scored = 0;
  void add(const pulse_result& r) {
    nats_q32 += r.nats_q32;
    scored += r.scored;
  }
  [[nodiscard]] double bits() const {
    return static_cast<double>(nats_q32) * 0x1p-32 / static_cast<double>(scored) /
           std::numbers::ln2;
  }
};

TEST(Learning, ReachesTheExpectedBitsPerByteInOnePass) {
  constexpr std::size_t n = 64;
  const std::string text = licences(300000);
  if (text.size() < 300000) {
    GTEST_SKIP() << "/usr/share/common-licenses holds " << text.size()
                 << " bytes, 300000 are needed";
  }
  const std::vector<std::uint32_t> tokens = [&] {
    std::vector<std::uint32_t> out;
    for (char c : text) {
      out.push_back(static_cast<unsigned char>(c));
    }
    return out;
  }();
  runtime::engine_options options;
  options.workers = 2;
  const auto engine = or_throw(runtime::engine::create(options));
  prose_config config;
  const auto model = or_throw(prose::create(*engine, config));
  const std::uint64_t total = (tokens.size() - 1) / n;
  sums all;
  sums last_quarter;
  const std::int64_t start = now_ns();
  for (std::uint64_t u = 0; u < total; ++u) {
    pulse p;
    p.id = p.update = u;
    p.total_updates = total;
    p.active_levels = active_mask(config.frequencies, u * n, (u + 1) * n);
    prose::lane_input in;
    in.tokens = std::span(tokens).subspan(u * n, n);
    in.lookahead = tokens[(u + 1) * n];
    in.position = u * n;
    const auto ticket = or_throw(model->submit(p, {&in, 1}));
    const auto result = or_throw(model->finish(ticket));
    all.add(result);
    if (u >= total * 3 / 4) {
      last_quarter.add(result);
    }
  }
  const double seconds = seconds_since(start);
  std::cout << model->kernel_set() << ": " << all.bits()
            << " bits per byte, last quarter " << last_quarter.bits() << ", "
            << static_cast<double>(all.scored) / seconds << " tokens per second with "
            << options.workers << " workers\n";
  EXPECT_LE(all.bits(), 2.23);
  EXPECT_LE(last_quarter.bits(), 1.96);
}

}  // namespace
}  // namespace weir::test
