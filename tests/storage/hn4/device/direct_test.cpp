// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests reads without the page cache, through io_uring and through threads.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <thread>

#include "block/queued_reads.hpp"
#include "block/sequential_reader.hpp"
#include "storage/hn4/support.hpp"
#include "support/temp_folder.hpp"
#include "weir/storage/hn4_async.hpp"

namespace weir::storage::test {
namespace {

constexpr std::size_t file_bytes = 3'000'001;

/// A file with known content.
struct direct_bench {
  direct_bench() { or_throw(write_file_atomically(posix_file_system(), path, content)); }
  weir::test::temp_folder scratch;
  std::string path = scratch / "d";
  byte_vector content = noise(file_bytes, 1);
};

/// Runs each test with reads in the kernel and on threads.
class DirectReads : public testing::TestWithParam<direct_reads> {
 protected:
  void SetUp() override {
    if (GetParam() == direct_reads::queue && !io_uring_allowed()) {
      GTEST_SKIP() << "this kernel does not allow io_uring";
    }
  }
  std::unique_ptr<queued_reads> queue(int descriptor) {
    return GetParam() == direct_reads::queue
               ? queue_in_kernel(descriptor, 8)
               : queue_on_threads(start_read_threads(3), descriptor);
  }
};

TEST_P(DirectReads, EveryTransferEndsOnceWithItsBytes) {
  const direct_bench w;
  const int file = ::open(w.path.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(file, 0);
  {
    const auto q = queue(file);
    ASSERT_NE(q, nullptr);
    std::vector<byte_vector> to(8, byte_vector(50'000));
    for (std::size_t round = 0; round < 10; ++round) {
      for (std::size_t i = 0; i < to.size(); ++i) {
        q->start(i, (round * 8 + i) * 50'000, to[i]);
      }
      std::map<std::size_t, std::int64_t> ended;
      for (std::size_t i = 0; i < to.size(); ++i) {
        const auto e = q->wait();
        EXPECT_TRUE(ended.emplace(e.number, e.bytes).second)
            << "a transfer was reported as ended twice";
      }
      for (std::size_t i = 0; i < to.size(); ++i) {
        const std::size_t offset = (round * 8 + i) * 50'000;
        const std::size_t available = offset < file_bytes ? file_bytes - offset : 0;
        const std::size_t expected = std::min<std::size_t>(50'000, available);
        ASSERT_EQ(ended.at(i), static_cast<std::int64_t>(expected)) << round;
        ASSERT_EQ(std::memcmp(to[i].data(),
                              w.content.data() + std::min(offset, file_bytes), expected),
                  0);
      }
    }
  }
  ::close(file);
}

TEST_P(DirectReads, ABadFileIsAnErrorOfItsTransfer) {
  const auto q = queue(-1);
  ASSERT_NE(q, nullptr);
  byte_vector to(100);
  q->start(7, 0, to);
  const auto e = q->wait();
  EXPECT_EQ(e.number, 7U);
  EXPECT_EQ(e.bytes, -EBADF);
}

TEST_P(DirectReads, ReadsInOrderAreTheFile) {
  const direct_bench w;
  const auto device = or_throw(open_direct_device(w.path, GetParam()));
  for (const std::size_t step : {70'000U, 131'072U, 262'144U, 1'000'001U, 2'999'999U}) {
    byte_vector all(file_bytes);
    for (std::size_t offset = 0; offset < file_bytes; offset += step) {
      const std::size_t n = std::min<std::size_t>(step, file_bytes - offset);
      ASSERT_TRUE(device->read(offset, mutable_bytes(all).subspan(offset, n)));
    }
    EXPECT_TRUE(all == w.content) << step;
  }
}

TEST_P(DirectReads, AReadThatStartsAfreshSeesTheFileAsItIsNow) {
  direct_bench w;
  const auto device = or_throw(open_direct_device(w.path, GetParam()));
  byte_vector to(200'000);
  ASSERT_TRUE(device->read(0, to));
  ASSERT_TRUE(device->read(200'000, to)) << "the read succeeds and starts reading ahead";
  const auto writer = or_throw(open_file_device(w.path, device_mode::writable));
  const byte_vector other = noise(900'000, 2);
  ASSERT_TRUE(writer->write(300'000, other));
  ASSERT_TRUE(writer->sync());
  ASSERT_TRUE(device->read(350'000, to));
  EXPECT_EQ(std::memcmp(to.data(), other.data() + 50'000, to.size()), 0);
}

TEST_P(DirectReads, ManyThreadsShareADevice) {
  const direct_bench w;
  const auto device = or_throw(open_direct_device(w.path, GetParam()));
  std::vector<std::jthread> threads;
  std::atomic<int> wrong{0};
  for (std::uint64_t i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      const philox random(i, 1);
      byte_vector to;
      std::uint64_t offset = 0;
      for (std::uint64_t k = 0; k < 40; ++k) {
        if (k % 3 == 0) {
          offset = random.below(2 * k, file_bytes);
        }
        to.resize(std::min<std::size_t>(random.below(2 * k + 1, 300'000),
                                        file_bytes - static_cast<std::size_t>(offset)));
        if (!device->read(offset, to) ||
            !std::equal(to.begin(), to.end(),
                        w.content.begin() + static_cast<std::ptrdiff_t>(offset))) {
          ++wrong;
        }
        offset = std::min<std::uint64_t>(offset + to.size(), file_bytes);
      }
    });
  }
  threads.clear();
  EXPECT_EQ(wrong.load(), 0);
}

TEST_P(DirectReads, AFileThatShrankIsTorn) {
  direct_bench w;
  const auto device = or_throw(open_direct_device(w.path, GetParam()));
  ASSERT_EQ(::truncate(w.path.c_str(), 500'000), 0);
  for (const std::size_t size : {1000U, 200'000U}) {
    byte_vector to(size);
    const auto read = device->read(499'500, to);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code(), errc::torn) << read.error().message();
    EXPECT_NE(read.error().location().find(w.path), std::string::npos);
  }
}

TEST_P(DirectReads, AVolumeIsReadWhole) {
  const weir::test::temp_folder scratch;
  const std::string path = scratch / "v.hn4";
  or_throw(hn4_format(path, fixed_format()));
  const byte_vector bytes = noise(5'000'000, 4);
  or_throw(or_throw(hn4_volume::open(path, device_mode::writable))
               .put("t", bytes, fixed_put(3)));
  const hn4_volume volume = or_throw(hn4_volume::open(
      or_throw(open_direct_device(path, GetParam())), device_mode::read_only));
  const hn4_stream stream = or_throw(volume.stream("t"));
  EXPECT_TRUE(or_throw(stream.read_all()) == bytes);
  byte_vector to(bytes.size());
  hn4_parallel_options options;
  options.threads = 3;
  EXPECT_EQ(or_throw(read_parallel(stream, 0, to, options)), bytes.size());
  EXPECT_TRUE(to == bytes);
}

INSTANTIATE_TEST_SUITE_P(Queues, DirectReads,
                         testing::Values(direct_reads::queue, direct_reads::threads),
                         [](const auto& each) {
                           return each.param == direct_reads::queue
                                      ? std::string("InKernel")
                                      : std::string("OnThreads");
                         });

}  // namespace
}  // namespace weir::storage::test
