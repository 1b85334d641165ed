// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs one suite for every block device, and tests volumes on devices that fail.
#include <gtest/gtest.h>

#include "storage/hn4/faulty_device.hpp"
#include "support/temp_folder.hpp"
#include "weir/storage/hn4_async.hpp"
#include "weir/storage/hn4_check.hpp"

namespace weir::storage::test {
namespace {

constexpr std::uint64_t device_bytes = 1'000'003;

/// A device with known bytes, and the object that keeps them.
struct workbench {
  weir::test::temp_folder scratch;
  std::unique_ptr<memory_device> below;
  std::unique_ptr<block_device> device;
  byte_vector content = noise(device_bytes, 1);
};

using maker = void (*)(workbench&);

/// Writes the content to a file and returns its path.
std::string file_of(const workbench& w) {
  or_throw(write_file_atomically(posix_file_system(), w.scratch / "d", w.content));
  return w.scratch / "d";
}
/// These functions open the device of each kind over the content.
void in_memory(workbench& w) {
  w.device = std::make_unique<memory_device>(device_bytes);
  or_throw(w.device->write(0, w.content));
}
void in_file(workbench& w) {
  w.device = or_throw(open_file_device(file_of(w), device_mode::read_only));
}
void writable_file(workbench& w) {
  w.device = or_throw(open_file_device(file_of(w), device_mode::writable));
}
void mapped(workbench& w) {
  w.device = or_throw(open_mapped_device(file_of(w)));
}
void direct(workbench& w) {
  w.device = or_throw(open_direct_device(file_of(w)));
}
void direct_threads(workbench& w) {
  w.device = or_throw(open_direct_device(file_of(w), direct_reads::threads));
}
void slow(workbench& w) {
  w.below = std::make_unique<memory_device>(device_bytes);
  or_throw(w.below->write(0, w.content));
  fault_plan plan;
  plan.delay = std::chrono::microseconds(1);
  w.device = std::make_unique<faulty_device>(*w.below, plan);
}

/// A kind of device, and whether it can be written.
struct named_maker {
  const char* name;
  maker make;
  bool writable;
};

class Devices : public testing::TestWithParam<named_maker> {};

TEST_P(Devices, GiveTheBytesOfEveryRange) {
  constexpr std::uint64_t seed = 8;
  RecordProperty("seed", static_cast<int>(seed));
  workbench w;
  GetParam().make(w);
  EXPECT_EQ(w.device->size(), device_bytes);
  const philox random(seed, 1);
  for (std::uint64_t i = 0; i < 200; ++i) {
    const std::uint64_t offset = random.below(2 * i, device_bytes);
    byte_vector to(random.below(2 * i + 1, i % 10 == 0 ? 900'000 : 9000));
    to.resize(std::min<std::size_t>(to.size(), device_bytes - offset));
    ASSERT_TRUE(w.device->read(offset, to));
    ASSERT_EQ(std::memcmp(to.data(), w.content.data() + offset, to.size()), 0)
        << "seed " << seed << " case " << i;
    const bytes_view view = w.device->view(offset, to.size());
    if (!view.empty()) {
      ASSERT_EQ(std::memcmp(view.data(), to.data(), to.size()), 0);
    }
  }
}

TEST_P(Devices, ScatterOneRangeOverManyPieces) {
  workbench w;
  GetParam().make(w);
  byte_vector to(600'000);
  std::vector<mutable_bytes> pieces;
  for (std::size_t offset = 0, n = 0; offset < to.size(); offset += n) {
    n = std::min<std::size_t>(pieces.size() % 5 == 3 ? 0 : 1 + pieces.size() * 7 % 900,
                              to.size() - offset);
    pieces.push_back(mutable_bytes(to).subspan(offset, n));
  }
  ASSERT_TRUE(w.device->read_scattered(12'345, pieces));
  EXPECT_EQ(std::memcmp(to.data(), w.content.data() + 12'345, to.size()), 0);
}

TEST_P(Devices, RefuseRangesThatLeaveThem) {
  workbench w;
  GetParam().make(w);
  byte_vector to(100);
  for (const std::uint64_t offset : {device_bytes - 99, device_bytes, device_bytes + 5000,
                                     UINT64_MAX - 10, UINT64_MAX}) {
    const auto read = w.device->read(offset, to);
    ASSERT_FALSE(read) << offset;
    EXPECT_EQ(read.error().code(), errc::torn) << offset;
    EXPECT_FALSE(read.error().location().empty());
    EXPECT_FALSE(w.device->write(offset, to)) << offset;
    EXPECT_TRUE(w.device->view(offset, 100).empty());
  }
  EXPECT_TRUE(w.device->read(device_bytes, {}));
}

TEST_P(Devices, KeepWhatWasWrittenOrSayThatTheyCannot) {
  workbench w;
  GetParam().make(w);
  const byte_vector bytes = noise(70'000, 2);
  const auto wrote = w.device->write(4321, bytes);
  ASSERT_EQ(wrote.has_value(), GetParam().writable);
  if (!wrote) {
    EXPECT_EQ(wrote.error().code(), errc::invalid_argument);
    return;
  }
  byte_vector back(bytes.size());
  ASSERT_TRUE(w.device->sync());
  ASSERT_TRUE(w.device->read(4321, back));
  EXPECT_TRUE(back == bytes);
}

TEST_P(Devices, NameTheirDataInOrder) {
  workbench w;
  GetParam().make(w);
  std::uint64_t covered = 0;
  for (std::uint64_t offset = 0; offset < device_bytes;) {
    const extent e = or_throw(w.device->next_data(offset, device_bytes));
    if (e.size == 0) {
      break;
    }
    ASSERT_GE(e.offset, offset);
    ASSERT_LE(e.end(), device_bytes);
    covered += e.size;
    offset = e.end();
  }
  EXPECT_EQ(covered, device_bytes) << "random data has no holes";
}

INSTANTIATE_TEST_SUITE_P(
    All, Devices,
    testing::Values(named_maker{"memory", &in_memory, true},
                    named_maker{"file", &in_file, false},
                    named_maker{"writable", &writable_file, true},
                    named_maker{"mapped", &mapped, false},
                    named_maker{"direct", &direct, false},
                    named_maker{"direct_threads", &direct_threads, false},
                    named_maker{"slow", &slow, true}),
    [](const auto& device) { return std::string(device.param.name); });

/// Returns a volume with one tag of three shards.
std::unique_ptr<memory_device> stored_device(const byte_vector& bytes) {
  auto device = formatted();
  hn4_volume volume = or_throw(open_on(*device, device_mode::writable));
  or_throw(volume.put("t", bytes, fixed_put(3)));
  return device;
}

// Each read of opening, finding and reading fails once. Each time there must be an error,
// never other bytes.
TEST(FaultyDevices, AFailedOrShortReadIsAnErrorWithAPlaceOrDoesNoHarm) {
  const byte_vector bytes = noise(40'000, 1);
  const auto device = stored_device(bytes);
  std::size_t failures = 0;
  bool quiet = false;
  for (std::uint64_t n = 0; !quiet; ++n) {
    for (const bool is_short : {false, true}) {
      fault_plan plan;
      (is_short ? plan.short_read : plan.failing_read) = n;
      auto faulty = std::make_unique<faulty_device>(*device, plan);
      const faulty_device& calls = *faulty;
      const auto read = [&]() -> result<byte_vector> {
        WEIR_TRY(const hn4_volume volume,
                 hn4_volume::open(std::move(faulty), device_mode::read_only));
        WEIR_TRY(const hn4_stream stream, volume.stream("t"));
        auto all = stream.read_all();
        quiet = calls.reads() <= n;
        return all;
      }();
      if (read) {
        ASSERT_TRUE(*read == bytes) << n;
      } else {
        EXPECT_FALSE(read.error().location().empty()) << read.error().message();
        ++failures;
      }
    }
    ASSERT_LT(n, 1000U);
  }
  EXPECT_GE(failures, 10U);
}

// Each write of a store fails once, without effect or with half of its sectors.
TEST(FaultyDevices, ATornWriteLeavesTheOldOrTheNewStream) {
  const byte_vector old_bytes = noise(40'000, 1), new_bytes = noise(30'000, 2);
  bool finished = false;
  std::size_t unchanged = 0;
  for (std::uint64_t n = 0; !finished; ++n) {
    for (const bool torn : {false, true}) {
      const auto device = stored_device(old_bytes);
      fault_plan plan;
      (torn ? plan.torn_write : plan.failing_write) = n;
      hn4_volume volume = or_throw(hn4_volume::open(
          std::make_unique<faulty_device>(*device, plan), device_mode::writable));
      finished = volume.put("t", new_bytes, fixed_put(2)).has_value();
      const byte_vector now = or_throw(read_tag(*device, "t"));
      ASSERT_TRUE(now == new_bytes || (!finished && now == old_bytes)) << n;
      unchanged += now == old_bytes ? 1 : 0;
    }
  }
  EXPECT_GE(unchanged, 4U);
}

TEST(Parallel, ManyThreadsGiveTheSameBytesAndReportTheirProgress) {
  const byte_vector bytes = noise(9'000'000, 1);
  const auto device = stored_device(bytes);
  const hn4_volume volume = or_throw(open_on(*device));
  const hn4_stream stream = or_throw(volume.stream("t"));
  for (const std::uint32_t threads : {1U, 2U, 8U}) {
    byte_vector all(bytes.size() + 100);
    std::uint64_t reported = 0;
    hn4_parallel_options options;
    options.threads = threads;
    options.progress = [&](std::uint64_t done, std::uint64_t total) {
      EXPECT_GT(done, reported);
      EXPECT_EQ(total, bytes.size() - 5);
      reported = done;
    };
    EXPECT_EQ(or_throw(read_parallel(stream, 5, all, options)), bytes.size() - 5);
    EXPECT_EQ(reported, bytes.size() - 5);
    EXPECT_EQ(std::memcmp(all.data(), bytes.data() + 5, bytes.size() - 5), 0);
  }
  std::stop_source stop;
  stop.request_stop();
  hn4_parallel_options stopped;
  stopped.stop = stop.get_token();
  byte_vector all(bytes.size());
  EXPECT_EQ(read_parallel(stream, 0, all, stopped).error().code(), errc::interrupted);
  EXPECT_EQ(read_parallel(stream, bytes.size(), all).error().code(), errc::out_of_range);
}

TEST(Parallel, TheFirstOfSeveralErrorsIsReturned) {
  const byte_vector bytes = noise(9'000'000, 1);
  const auto device = stored_device(bytes);
  const hn4_volume volume = or_throw(open_on(*device));
  const hn4_stream stream = or_throw(volume.stream("t"));
  const byte_vector junk = noise(4096, 7);
  // The blocks of the first shard lie in order from the start of the data region.
  const std::uint64_t flux = volume.geometry().flux;
  ASSERT_TRUE(device->write(flux + std::uint64_t{300} * 4096, junk));
  ASSERT_TRUE(device->write(flux + std::uint64_t{1400} * 4096, junk));
  for (int i = 0; i < 5; ++i) {
    byte_vector all(bytes.size());
    hn4_parallel_options options;
    options.threads = 4;
    const auto read = read_parallel(stream, 0, all, options);
    ASSERT_FALSE(read);
    EXPECT_NE(read.error().text().find("at byte 1214400"), std::string::npos)
        << read.error().message();
  }
}

TEST(Prefetch, PiecesComeInOrderAndWholeWhateverTheWindow) {
  const byte_vector bytes = noise(3'000'000, 1);
  const auto device = stored_device(bytes);
  const hn4_stream stream = or_throw(or_throw(open_on(*device)).stream("t"));
  for (const std::uint32_t threads : {1U, 3U}) {
    for (const std::size_t window : {std::size_t{1}, std::size_t{5}, SIZE_MAX}) {
      hn4_prefetch_options options;
      options.offset = 777;
      options.piece = 100'000;
      options.window = window;
      options.threads = threads;
      hn4_prefetcher ahead(stream, options);
      byte_vector all;
      for (;;) {
        const auto piece = or_throw(ahead.next());
        if (!piece) {
          break;
        }
        append(all, *piece);
      }
      ASSERT_EQ(all.size(), bytes.size() - 777);
      EXPECT_EQ(std::memcmp(all.data(), bytes.data() + 777, all.size()), 0);
    }
  }
}

TEST(Prefetch, ThePieceMayBeLongerThanTheStream) {
  const byte_vector bytes = noise(10'000, 1);
  const auto device = stored_device(bytes);
  const hn4_stream stream = or_throw(or_throw(open_on(*device)).stream("t"));
  for (const std::size_t piece : {std::size_t{20'000}, SIZE_MAX}) {
    hn4_prefetch_options options;
    options.piece = piece;
    hn4_prefetcher ahead(stream, options);
    EXPECT_EQ(or_throw(ahead.next()), bytes);
    EXPECT_FALSE(or_throw(ahead.next()));
  }
}

TEST(Prefetch, CancellingAndErrorsEndIt) {
  const byte_vector bytes = noise(3'000'000, 1);
  const auto device = stored_device(bytes);
  const hn4_volume volume = or_throw(open_on(*device));
  const hn4_stream stream = or_throw(volume.stream("t"));
  hn4_prefetcher cancelled(stream);
  EXPECT_TRUE(or_throw(cancelled.next()));
  cancelled.cancel();
  EXPECT_EQ(cancelled.next().error().code(), errc::interrupted);
  ASSERT_TRUE(
      device->write(volume.geometry().flux + std::uint64_t{200} * 4096, noise(99, 3)));
  hn4_prefetch_options options;
  options.piece = 400'000;
  hn4_prefetcher failing(stream, options);
  EXPECT_TRUE(or_throw(failing.next()));
  EXPECT_TRUE(or_throw(failing.next()));
  EXPECT_EQ(failing.next().error().code(), errc::corrupt);
  EXPECT_EQ(failing.next().error().code(), errc::corrupt)
      << "every later call returns the error again";
}

TEST(Snapshot, ADirectoryThatChangedIsNoticed) {
  const auto device = stored_device(noise(9000, 1));
  const hn4_stream stream = or_throw(or_throw(open_on(*device)).stream("t"));
  EXPECT_TRUE(stream.verify_snapshot());
  hn4_volume writer = or_throw(open_on(*device, device_mode::writable));
  ASSERT_TRUE(writer.put("other", noise(100, 2), fixed_put()));
  EXPECT_TRUE(stream.verify_snapshot());
  ASSERT_TRUE(writer.put("t", noise(100, 2), fixed_put()));
  EXPECT_FALSE(stream.verify_snapshot());
}

}  // namespace
}  // namespace weir::storage::test
