// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests remote files on a server that behaves: they give the same bytes and messages as
/// a local file, with few requests.
#include <gtest/gtest.h>

#include <filesystem>
#include <mutex>
#include <string>
#include <thread>

#include "formats/remote/support.hpp"
#include "formats/support.hpp"
#include "support/fixtures.hpp"
#include "weir/formats/tensogram_validate.hpp"

namespace weir::test {
namespace {

using formats::message_span;
using formats::remote_file;
using formats::remote_options;
using formats::remote_source;
using formats::scan_order;

/// A server and helpers that open its files.
class RemoteSource : public testing::Test {
 protected:
  std::shared_ptr<remote_source> open(const std::string& name) {
    return or_throw(remote_source::open(server.url(name), quick_options()));
  }
  std::shared_ptr<const remote_file> open_file(const std::string& name,
                                               scan_order order = scan_order::forward) {
    return or_throw(remote_file::open(server.url(name), quick_options(), order));
  }
  /// Returns the largest number of requests that were answered at the same time since the
  /// log was last read.
  std::size_t max_concurrency() {
    std::size_t max_beside = 0;
    for (const auto& entry : server.log()) {
      max_beside = std::max(max_beside, entry["beside"].get<std::size_t>());
    }
    return max_beside;
  }
  test_server server;
};

/// Returns messages one behind the other, each with one object of `bytes` bytes.
byte_vector many_messages(std::size_t count, std::int64_t bytes) {
  byte_vector out;
  for (std::size_t m = 0; m < count; ++m) {
    auto object = sample(m, dtype::uint8, {bytes});
    object.metadata = {{"name", "m" + std::to_string(m)}};
    append(out, or_throw(formats::encode_message(to_write({object}))));
  }
  return out;
}

TEST_F(RemoteSource, ReadsTheSameBytesAsTheFileHolds) {
  const byte_vector content = random_bytes(1, 5'000'003);
  server.put("a.bin", content);
  const auto source = open("a.bin");
  ASSERT_EQ(source->size(), content.size());
  const philox random(7, 3);
  for (std::uint64_t i = 0; i < 60; ++i) {
    const std::uint64_t largest = i % 3 == 0 ? 2'000'000 : i % 3 == 1 ? 40'000 : 30;
    const std::uint64_t offset = random.bits(2 * i) % content.size();
    const std::uint64_t length =
        std::min(random.bits(2 * i + 1) % largest, content.size() - offset);
    byte_vector found(length);
    or_throw(source->read(offset, found));
    ASSERT_TRUE(std::equal(found.begin(), found.end(),
                           content.begin() + static_cast<std::ptrdiff_t>(offset)))
        << length << " bytes at " << offset;
  }
}

TEST_F(RemoteSource, AnEmptyFileHasSizeZero) {
  server.put("empty.tgm", std::string());
  EXPECT_EQ(open("empty.tgm")->size(), 0u);
  EXPECT_EQ(open_file("empty.tgm")->message_count(), 0u);
}

TEST_F(RemoteSource, ASmallFileTakesOneRequest) {
  const byte_vector content = many_messages(20, 1000);
  server.put("small.tgm", content);
  const auto file = open_file("small.tgm");
  EXPECT_EQ(file->message_count(), 20u);
  EXPECT_EQ(or_throw(or_throw(file->reader(7)).decode(0)),
            sample(7, dtype::uint8, {1000}).data);
  EXPECT_EQ(file->source()->traffic().requests, 1u);
  EXPECT_EQ(file->source()->traffic().bytes, content.size());
}

TEST_F(RemoteSource, ARangeBeyondTheEndIsTorn) {
  server.put("a.bin", random_bytes(1, 1000));
  byte_vector to(10);
  const auto done = open("a.bin")->read(995, to);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), errc::torn);
  EXPECT_TRUE(says(done.error(), ":995"));
}

TEST_F(RemoteSource, OneObjectOfABigFileTakesFewRequestsAndNotTheFile) {
  // The file has three messages of 40 objects of 200,000 bytes each: 24 MB.
  byte_vector content;
  std::vector<sample_object> objects;
  for (std::uint64_t m = 0; m < 3; ++m) {
    objects.clear();
    for (std::uint64_t i = 0; i < 40; ++i) {
      objects.push_back(sample(100 * m + i, dtype::fp32, {50000}));
      objects.back().metadata = {{"name", "o" + std::to_string(i)}};
    }
    append(content, or_throw(formats::encode_message(to_write(objects))));
  }
  server.put("big.tgm", content);
  const auto file = open_file("big.tgm");
  ASSERT_EQ(file->message_count(), 3u);
  const auto outline = or_throw(file->outline(2));
  const auto i = outline.find("o17");
  ASSERT_TRUE(i);
  EXPECT_EQ(or_throw(or_throw(outline.object(*i)).decode(0)), objects[17].data);
  const auto traffic = file->source()->traffic();
  RecordProperty("requests", static_cast<int>(traffic.requests));
  RecordProperty("bytes", static_cast<int>(traffic.bytes));
  // One request opens the file, one reads each end of a message, one reads the object.
  EXPECT_LE(traffic.requests, 6u);
  EXPECT_LE(traffic.bytes, 200'000 + (64 << 10) + 8 * (16 << 10));
  EXPECT_GT(content.size(), 24'000'000u);
  // The counters of the library must agree with the log of the server.
  std::uint64_t sent = 0;
  const auto log = server.log();
  for (const auto& entry : log) {
    sent += entry["sent"].get<std::uint64_t>();
  }
  EXPECT_EQ(log.size(), traffic.requests);
  EXPECT_EQ(sent, traffic.bytes);
}

TEST_F(RemoteSource, ARangeOfABigObjectTakesNotTheObject) {
  const auto object = sample(5, dtype::fp32, {2'000'000});
  server.put("one.tgm", or_throw(formats::encode_message(to_write({object}))));
  const auto file = open_file("one.tgm");
  const auto part =
      or_throw(or_throw(file->object(0, 0)).decode_range(0, 1'000'000, 100));
  EXPECT_TRUE(std::equal(part.begin(), part.end(), object.data.begin() + 4'000'000));
  EXPECT_LE(file->source()->traffic().bytes, 200'000u);
}

TEST_F(RemoteSource, ABigObjectComesInPartsOverSeveralConnections) {
  const auto object = sample(5, dtype::uint8, {20'000'000});
  server.put("one.tgm", or_throw(formats::encode_message(to_write({object}))));
  const auto file = open_file("one.tgm");
  EXPECT_EQ(or_throw(or_throw(file->object(0, 0)).decode(0)), object.data);
  EXPECT_LE(file->source()->traffic().requests, 10u);
  EXPECT_LE(file->source()->traffic().bytes, 20'000'000u + 200'000);
}

TEST_F(RemoteSource, AWholeMessageOfManyObjectsIsOpenedInBatches) {
  std::vector<sample_object> objects;
  for (std::uint64_t i = 0; i < 40; ++i) {
    // The sizes differ, so that no place can be guessed from the places before it.
    const auto elements = static_cast<std::int64_t>(40'000 + i * i * 37);
    objects.push_back(sample(i, dtype::fp32, {elements}));
  }
  server.put("many.tgm", or_throw(formats::encode_message(to_write(objects))));
  const auto file = open_file("many.tgm");
  server.log();
  server.faults("many.tgm", {}, "slow:30");
  const auto before = file->source()->traffic();
  const auto reader = or_throw(file->reader(0));
  EXPECT_EQ(reader.object_count(), 40u);
  const auto after = file->source()->traffic();
  EXPECT_LE(after.requests - before.requests, 42u);
  EXPECT_LE(after.bytes - before.bytes, 42u * (32 << 10));
  EXPECT_GE(max_concurrency(), 4u);
  server.faults("many.tgm", {});
  EXPECT_EQ(or_throw(reader.decode_all()).size(), 40u);
}

TEST_F(RemoteSource, FindsTheMessagesThatAScanOfTheFileFinds) {
  byte_vector content = many_messages(5, 100'000);
  append(content, as_view("garbage that belongs to no message"));
  append(content, many_messages(3, 70'000));
  server.put("mixed.tgm", content);
  const auto wanted = formats::scan(bytes_view(content));
  ASSERT_EQ(wanted.size(), 8u);
  for (const scan_order order :
       {scan_order::forward, scan_order::backward, scan_order::both_ends}) {
    EXPECT_EQ(open_file("mixed.tgm", order)->spans(), wanted);
  }
}

TEST_F(RemoteSource, FindsTheMessagesOfTheReferencesFiles) {
  WEIR_NEEDS_FIXTURES(folder, "tensogram");
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".tgm") {
      continue;
    }
    const std::string name = entry.path().filename().string();
    SCOPED_TRACE(name);
    server.put_link(name, entry.path().string());
    const byte_vector content = load(entry.path().string());
    const auto wanted = formats::scan(bytes_view(content));
    const auto file = open_file(name);
    EXPECT_EQ(file->spans(), wanted);
    EXPECT_EQ(open_file(name, scan_order::both_ends)->spans(), wanted);
    ++files;
    // The largest file has 592,000 bytes in messages of 592 bytes. It must be read in
    // large pieces and not message by message.
    EXPECT_LE(file->source()->traffic().requests, 8u);
    if (!wanted.empty()) {
      const auto last = or_throw(file->read_message(wanted.size() - 1));
      EXPECT_TRUE(std::equal(
          last.begin(), last.end(),
          content.begin() + static_cast<std::ptrdiff_t>(wanted.back().offset)));
    }
  }
  EXPECT_EQ(files, 17u);
}

TEST_F(RemoteSource, MessagesOfEqualLengthAreFoundInBatches) {
  server.put("equal.tgm", many_messages(60, 100'000));
  for (const scan_order order : {scan_order::forward, scan_order::both_ends}) {
    const auto file = open_file("equal.tgm", order);
    EXPECT_EQ(file->message_count(), 60u);
    // The limit is about one request and one or two blocks for each message.
    EXPECT_LE(file->source()->traffic().requests, 75u);
    EXPECT_LE(file->source()->traffic().bytes, 75u * (32 << 10));
  }
  const auto source = open("equal.tgm");
  server.log();
  server.faults("equal.tgm", {}, "slow:10");
  EXPECT_EQ(or_throw(scan_remote(*source, scan_order::forward, 64 << 20)).size(), 60u);
  EXPECT_GE(max_concurrency(), 4u);
}

TEST_F(RemoteSource, OtherBytesAreSearchedOnlySoFar) {
  byte_vector content(6'000'000);
  append(content, many_messages(1, 100));
  server.put("late.tgm", content);
  EXPECT_EQ(open_file("late.tgm")->message_count(), 1u);
  const auto source = open("late.tgm");
  const auto spans = scan_remote(*source, scan_order::forward, 1 << 20);
  ASSERT_FALSE(spans);
  EXPECT_EQ(spans.error().code(), errc::out_of_range);
  EXPECT_TRUE(says(spans.error(), "late.tgm:"));
  EXPECT_LE(source->traffic().bytes, 3u << 20);
}

TEST_F(RemoteSource, IsReadByManyThreadsAtOnce) {
  const byte_vector content = random_bytes(3, 3'000'000);
  server.put("a.bin", content);
  const auto source = open("a.bin");
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::string failures;
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      // Threads 0 and 1 read the same places, and so do 2 and 3, so that one caches what
      // the other is asking for.
      const philox random(t / 2, 9);
      for (std::uint64_t i = 0; i < 25; ++i) {
        const std::uint64_t offset = random.bits(i) % 2'900'000;
        byte_vector found(i % 5 == 0 ? 90'000 : 50);
        const auto read = source->read(offset, found);
        const bool same =
            std::equal(found.begin(), found.end(),
                       content.begin() + static_cast<std::ptrdiff_t>(offset));
        if (!read || !same) {
          const std::scoped_lock lock(mutex);
          failures += std::to_string(offset) + ": " +
                      (read ? "other bytes" : read.error().message()) + "\n";
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(failures, "");
}

TEST_F(RemoteSource, KeepsNoMoreThanItsCacheMayHold) {
  const byte_vector content = random_bytes(3, 3'000'000);
  server.put("a.bin", content);
  remote_options options = quick_options();
  options.cache_bytes = 128 << 10;
  const auto source = or_throw(remote_source::open(server.url("a.bin"), options));
  byte_vector found(100);
  or_throw(source->read(2'000'000, found));
  const auto once = source->traffic().requests;
  or_throw(source->read(2'000'050, found));
  EXPECT_EQ(source->traffic().requests, once) << "the block is still cached";
  for (std::uint64_t offset = 100'000; offset < 1'900'000; offset += 100'000) {
    or_throw(source->read(offset + offset % 7777, found));
  }
  const auto before = source->traffic().requests;
  or_throw(source->read(2'000'000, found));
  EXPECT_GT(source->traffic().requests, before)
      << "the block has been replaced in the cache";
  EXPECT_TRUE(std::equal(found.begin(), found.end(), content.begin() + 2'000'000));
}

TEST_F(RemoteSource, PrefetchesNoMoreThanItsCacheMayHold) {
  server.put("a.bin", random_bytes(3, 3'000'000));
  remote_options options = quick_options();
  options.cache_bytes = 512 << 10;
  const auto source = or_throw(remote_source::open(server.url("a.bin"), options));
  const std::vector<formats::byte_range> all{{100'000, 2'000'000}, {2'900'000, 10}};
  or_throw(source->prefetch(all));
  EXPECT_LE(source->traffic().bytes, (64u << 10) + (256u << 10) + 2 * (16u << 10));
  const std::vector<formats::byte_range> beyond{{2'999'999, 2}};
  EXPECT_EQ(source->prefetch(beyond).error().code(), errc::torn);
  // The memory is bounded for a file that claims a huge size as well.
  server.faults("a.bin", {}, "total:4611686018427387904");
  const auto huge = or_throw(remote_source::open(server.url("a.bin"), options));
  const std::vector<formats::byte_range> ranges{{100'000, std::uint64_t{1} << 61}};
  EXPECT_TRUE(huge->prefetch(ranges));
}

TEST_F(RemoteSource, AFileIsValidatedThroughItsAddress) {
  byte_vector content = many_messages(3, 150'000);
  server.put("good.tgm", content);
  EXPECT_TRUE(or_throw(formats::validate(*open("good.tgm"))).ok());
  content[200'000] ^= std::byte{4};
  server.put("bad.tgm", content);
  const auto report = or_throw(formats::validate(*open("bad.tgm")));
  ASSERT_EQ(report.messages.size(), 3u);
  EXPECT_FALSE(report.messages[1].ok());
  EXPECT_TRUE(report.messages[2].ok());
}

}  // namespace
}  // namespace weir::test
