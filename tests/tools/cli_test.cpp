// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the shared parts of the command line: elements as JSON, sizes, output, input,
/// time slices and the progress line.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <thread>

#include "cli/elements.hpp"
#include "cli/output.hpp"
#include "cli/time_slice.hpp"
#include "watch/progress.hpp"

namespace weir::tools {
namespace {

/// Returns the JSON of an element.
template <class T>
std::string shown(dtype type, T value, std::size_t index = 0) {
  return element_json(type, bytes_view(std::as_bytes(std::span(&value, 1))), index);
}

TEST(Elements, SmallFloatsAreExact) {
  EXPECT_EQ(shown(dtype::fp16, std::uint16_t{0x3C00}), "1");
  EXPECT_EQ(shown(dtype::fp16, std::uint16_t{0xC000}), "-2");
  EXPECT_EQ(shown(dtype::fp16, std::uint16_t{0x0001}), "5.9604645e-08");
  EXPECT_EQ(shown(dtype::fp16, std::uint16_t{0x7BFF}), "65504");
  EXPECT_EQ(shown(dtype::fp16, std::uint16_t{0x7C00}), "\"inf\"");
  EXPECT_EQ(shown(dtype::bf16, std::uint16_t{0x3FC0}), "1.5");
  EXPECT_EQ(shown(dtype::bf16, std::uint16_t{0xFF80}), "\"-inf\"");
  EXPECT_EQ(shown(dtype::fp8_e5m2, std::uint8_t{0x7B}), "57344");
  EXPECT_EQ(shown(dtype::fp8_e5m2, std::uint8_t{0x7C}), "\"inf\"");
  EXPECT_EQ(shown(dtype::fp8_e4m3, std::uint8_t{0x7E}), "448");
  EXPECT_EQ(shown(dtype::fp8_e4m3, std::uint8_t{0x38}), "1");
  EXPECT_EQ(shown(dtype::fp8_e4m3, std::uint8_t{0x01}), "0.001953125");
  EXPECT_EQ(shown(dtype::fp8_e4m3, std::uint8_t{0xFF}), "\"nan\"");
}

TEST(Elements, EveryOtherTypeIsShown) {
  EXPECT_EQ(shown(dtype::fp32, 0.1F), "0.1");
  EXPECT_EQ(shown(dtype::fp64, 0.1), "0.1");
  EXPECT_EQ(shown(dtype::int8, std::int8_t{-5}), "-5");
  EXPECT_EQ(shown(dtype::uint8, std::uint8_t{250}), "250");
  EXPECT_EQ(shown(dtype::int64, std::int64_t{-1}), "-1");
  EXPECT_EQ(shown(dtype::uint64, ~std::uint64_t{0}), "18446744073709551615");
  EXPECT_EQ(shown(dtype::boolean, std::uint8_t{1}), "true");
  EXPECT_EQ(shown(dtype::complex64, std::array<float, 2>{1.5F, -2.0F}), "[1.5, -2]");
  EXPECT_EQ(shown(dtype::bitmask, std::uint8_t{0x40}, 1), "true");
  EXPECT_EQ(shown(dtype::bitmask, std::uint8_t{0x40}, 0), "false");
}

TEST(Sizes, TakeBinaryUnitsOnly) {
  EXPECT_EQ(or_throw(parse_size("4096")), 4096U);
  EXPECT_EQ(or_throw(parse_size("128MiB")), std::uint64_t{128} << 20);
  EXPECT_EQ(or_throw(parse_size("2GiB")), std::uint64_t{2} << 30);
  for (const char* bad : {"", "MiB", "1MB", "-1", "1.5GiB", "99999999999GiB", "1 MiB"}) {
    EXPECT_FALSE(parse_size(bad)) << bad;
  }
}

TEST(Output, AFullDeviceIsAFailure) {
  const int full = ::open("/dev/full", O_WRONLY);
  ASSERT_GE(full, 0);
  output out(full);
  out.print("{}\n", "text");
  const auto closed = out.close();
  ::close(full);
  ASSERT_FALSE(closed);
  EXPECT_EQ(exit_code_of(closed.error().code()), 5);
}

TEST(Input, IsReadWholeButNeverBeyondItsLimit) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], "0123456789", 10), 10);
  ::close(ends[1]);
  const auto read = read_descriptor(ends[0], "pipe", 5);
  ::close(ends[0]);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code(), errc::out_of_range);
}

TEST(TimeSlices, AreLongWhereTheKernelKnowsThemAndLeaveTheShareAlone) {
  // These are the words of 32 bits of the structure sched_attr: word 4 is the niceness,
  // words 6 and 7 are the slice.
  std::array<std::uint32_t, 12> before{}, child{};
  std::thread([&] {
    ASSERT_EQ(::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), 5), 0);
    ASSERT_EQ(::syscall(SYS_sched_getattr, 0, before.data(), sizeof(before), 0), 0);
    prefer_long_time_slices();
    std::thread([&] {
      ASSERT_EQ(::syscall(SYS_sched_getattr, 0, child.data(), sizeof(child), 0), 0);
    }).join();
  }).join();
  EXPECT_EQ(child[1], std::uint32_t{SCHED_OTHER});
  EXPECT_EQ(child[4], 5U);
  const bool knows_slices = before[6] != 0;
  EXPECT_EQ(child[6], knows_slices ? 100'000'000U : 0U);
  EXPECT_EQ(child[7], 0U);
}

TEST(Progress, ShowsShareSpeedLossTimeAndCheckpoint) {
  actors::run_progress p;
  p.phase = "build";
  p.phase_tokens = 150000;
  p.phase_budget = 300000;
  p.tokens_per_second = 28123.4;
  p.bits_per_byte = 2.1042;
  p.seconds_left = 5.3;
  p.durable_generation = 3;
  EXPECT_EQ(progress_text(p, false),
            "build 50.0 %  28,123 tokens/s  2.104 bits/byte  ETA 5.3 s  checkpoint 3");
  EXPECT_NE(progress_text(p, true).find("\x1b[1m28,123\x1b[0m"), std::string::npos);
  p.mix = {"code: 66.67 %", "text: 33.33 %"};
  EXPECT_EQ(progress_text(p, false),
            "build 50.0 %  28,123 tokens/s  2.104 bits/byte  ETA 5.3 s  "
            "code: 66.67 %, text: 33.33 %  checkpoint 3");
  p.durable_generation = 0;
  EXPECT_NE(progress_text(p, false).find("no checkpoint yet"), std::string::npos);
}

TEST(Progress, LinesAreCutBetweenCharacters) {
  // Characters of 1, 2, 3 and 4 bytes.
  const std::string line = "a\u00e9\u20ac\U0001F600z";
  const std::size_t begins[] = {0, 1, 3, 6, 10, 11};
  for (std::size_t bytes = 0; bytes <= line.size() + 1; ++bytes) {
    std::size_t expected = 0;
    for (const std::size_t begin : begins) {
      expected = begin <= bytes ? begin : expected;
    }
    EXPECT_EQ(cut_line(line, bytes), line.substr(0, expected)) << bytes;
  }
}

}  // namespace
}  // namespace weir::tools
