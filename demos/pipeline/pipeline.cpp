// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sends frames through three stages with a ring of a few buffers. While a stage works on
/// one frame, the next stage works on the frame before it, and a buffer is filled again
/// after its last reader has ended. A serial version must give the same bits.
/// Usage: pipeline [WORKERS [FRAMES [BUFFERS]]]
#include <weir/weir.hpp>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr std::int64_t samples = 20'000;  // samples of a frame

/// Fills a frame with random numbers that depend on its number.
void generate(std::uint64_t frame, weir::view<std::uint64_t, 1> out) {
  std::uint64_t x = frame * 0x9E3779B97F4A7C15U + 1;
  for (std::uint64_t& sample : out) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    sample = x >> 40;
  }
}
/// Averages each sample with the two samples behind it.
void smooth(weir::view<const std::uint64_t, 1> in, weir::view<std::uint64_t, 1> out) {
  for (std::int64_t i = 0; i < samples; ++i) {
    out[i] = (in[i] + in[(i + 1) % samples] + in[(i + 2) % samples]) / 3;
  }
}
/// Adds a frame to the digest of all frames; their order matters.
void digest(weir::view<const std::uint64_t, 1> in, weir::view<std::uint64_t, 0> sum) {
  for (const std::uint64_t sample : in) {
    sum() = sum() * 31 + sample;
  }
}

/// Returns the seconds since `start`.
double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

int main(int argc, char** argv) {
  const unsigned workers = argc > 1 ? static_cast<unsigned>(std::atoi(argv[1])) : 2;
  const int frames = argc > 2 ? std::atoi(argv[2]) : 200;
  const int buffers = argc > 3 ? std::atoi(argv[3]) : 3;
  weir::engine e(workers);
  std::vector<weir::tensor<std::uint64_t, 1>> raw;
  std::vector<weir::tensor<std::uint64_t, 1>> clean;
  for (int i = 0; i < buffers; ++i) {
    raw.push_back(e.make<std::uint64_t>(samples));
    clean.push_back(e.make<std::uint64_t>(samples));
  }
  auto sum = e.make<std::uint64_t>();

  auto start = std::chrono::steady_clock::now();
  for (int frame = 0; frame < frames; ++frame) {
    const auto& in = raw[static_cast<std::size_t>(frame % buffers)];
    const auto& out = clean[static_cast<std::size_t>(frame % buffers)];
    e.submit(
        "generate",
        [number = static_cast<std::uint64_t>(frame)](auto to) { generate(number, to); },
        weir::write(in));
    e.submit("smooth", smooth, weir::read(in), weir::write(out));
    e.submit("digest", digest, weir::read(out), weir::update(sum));
  }
  const std::uint64_t with_ring = weir::or_throw(e.get(sum));
  const double with_engine = seconds_since(start);

  start = std::chrono::steady_clock::now();
  auto serial = e.make<std::uint64_t>();
  const auto in = e.make<std::uint64_t>(samples);
  const auto out = e.make<std::uint64_t>(samples);
  for (int frame = 0; frame < frames; ++frame) {
    generate(static_cast<std::uint64_t>(frame), in.elements<std::uint64_t>());
    smooth(in.elements<const std::uint64_t>(), out.elements<std::uint64_t>());
    digest(out.elements<const std::uint64_t>(), serial.elements<std::uint64_t>());
  }
  const double alone = seconds_since(start);

  const bool same = with_ring == serial.elements<const std::uint64_t>()();
  std::printf("%d frames, %d buffers: %u workers %.1f ms, serial %.1f ms, results %s\n",
              frames, buffers, workers, with_engine * 1e3, alone * 1e3,
              same ? "equal" : "differ");
  return same ? 0 : 1;
}
