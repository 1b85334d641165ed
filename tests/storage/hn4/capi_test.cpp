// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the C interface of volumes: results, lifetimes, arguments and threads.
#include <gtest/gtest.h>

#include <thread>

#include "support.hpp"
#include "support/fixtures.hpp"
#include "support/temp_folder.hpp"
#include "weir/hn4.h"

namespace weir::storage::test {
namespace {

/// A volume in a temporary file with one tag of three shards.
struct stored_file {
  stored_file() : path(scratch / "v.hn4") {
    or_throw(hn4_format(path, fixed_format()));
    hn4_volume volume = or_throw(hn4_volume::open(path, device_mode::writable));
    or_throw(volume.put("model:c", bytes, fixed_put(3)));
  }
  weir::test::temp_folder scratch;
  std::string path;
  byte_vector bytes = noise(100'000, 1);
};

TEST(Hn4C, OpensReadsAndCloses) {
  const stored_file file;
  for (const std::uint32_t flags : {0U, HN4_VOLUME_STRICT}) {
    hn4_volume_t* volume = nullptr;
    ASSERT_EQ(hn4_volume_open(file.path.c_str(), flags, &volume), HN4_OK);
    hn4_tensor_ctx_t* ctx = nullptr;
    ASSERT_EQ(hn4_tensor_open(volume, "model:c", &ctx), HN4_OK);
    EXPECT_EQ(hn4_tensor_size(ctx), file.bytes.size());
    EXPECT_EQ(hn4_tensor_shard_count(ctx), 3U);
    byte_vector all(file.bytes.size() + 10);
    std::uint64_t count = 0;
    EXPECT_EQ(hn4_tensor_read_count(ctx, 0, all.data(), all.size(), &count), HN4_OK);
    EXPECT_EQ(count, file.bytes.size());
    all.resize(file.bytes.size());
    EXPECT_TRUE(all == file.bytes);
    EXPECT_EQ(hn4_volume_close(volume), HN4_ERR_BUSY);
    hn4_tensor_close(ctx);
    EXPECT_EQ(hn4_volume_close(volume), HN4_OK);
  }
}

TEST(Hn4C, ArgumentsAreChecked) {
  const stored_file file;
  hn4_volume_t* volume = nullptr;
  EXPECT_EQ(hn4_volume_open(nullptr, 0, &volume), HN4_ERR_INVALID_ARGUMENT);
  EXPECT_EQ(hn4_volume_open(file.path.c_str(), 4, &volume), HN4_ERR_INVALID_ARGUMENT);
  EXPECT_EQ(hn4_volume_open("/nowhere/at/all", 0, &volume), HN4_ERR_NOT_FOUND);
  EXPECT_EQ(volume, nullptr);
  ASSERT_EQ(hn4_volume_open(file.path.c_str(), 0, &volume), HN4_OK);
  hn4_tensor_ctx_t* ctx = nullptr;
  EXPECT_EQ(hn4_tensor_open(volume, nullptr, &ctx), HN4_ERR_INVALID_ARGUMENT);
  EXPECT_EQ(hn4_tensor_open(volume, "", &ctx), HN4_ERR_NOT_FOUND);
  EXPECT_EQ(hn4_tensor_open(volume, "model:d", &ctx), HN4_ERR_NOT_FOUND);
  EXPECT_EQ(ctx, nullptr);
  ASSERT_EQ(hn4_tensor_open(volume, "model:c", &ctx), HN4_OK);
  std::byte one{};
  EXPECT_EQ(hn4_tensor_read(ctx, 0, nullptr, 1), HN4_ERR_INVALID_ARGUMENT);
  EXPECT_EQ(hn4_tensor_read(nullptr, 0, &one, 1), HN4_ERR_INVALID_ARGUMENT);
  EXPECT_EQ(hn4_tensor_read(ctx, 100'000, &one, 1), HN4_ERR_INVALID_ARGUMENT);
  EXPECT_EQ(hn4_tensor_read(ctx, UINT64_MAX, &one, 1), HN4_ERR_INVALID_ARGUMENT);
  EXPECT_EQ(hn4_tensor_read(ctx, UINT64_MAX, &one, 0), HN4_OK);
  EXPECT_EQ(hn4_tensor_read(ctx, 99'999, &one, 1), HN4_OK);
  EXPECT_EQ(one, file.bytes.back());
  hn4_tensor_close(ctx);
  hn4_tensor_close(nullptr);
  EXPECT_EQ(hn4_volume_close(volume), HN4_OK);
  EXPECT_EQ(hn4_volume_close(nullptr), HN4_OK);
  EXPECT_STREQ(hn4_result_name(-0x451), "PAYLOAD_ROT");
  EXPECT_STREQ(hn4_result_name(-0x608), "GEOMETRY");
  EXPECT_STREQ(hn4_result_name(12345), "UNKNOWN");
}

TEST(Hn4C, OneContextServesManyThreads) {
  const stored_file file;
  hn4_volume_t* volume = nullptr;
  hn4_tensor_ctx_t* ctx = nullptr;
  ASSERT_EQ(hn4_volume_open(file.path.c_str(), 0, &volume), HN4_OK);
  ASSERT_EQ(hn4_tensor_open(volume, "model:c", &ctx), HN4_OK);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (std::size_t i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      byte_vector part(9001);
      for (std::size_t offset = i * 31; offset + part.size() < file.bytes.size();
           offset += 4444) {
        if (hn4_tensor_read(ctx, offset, part.data(), part.size()) != HN4_OK ||
            std::memcmp(part.data(), file.bytes.data() + offset, part.size()) != 0) {
          ++wrong;
        }
      }
    });
  }
  for (std::thread& t : threads) {
    t.join();
  }
  EXPECT_EQ(wrong.load(), 0);
  hn4_tensor_close(ctx);
  EXPECT_EQ(hn4_volume_close(volume), HN4_OK);
}

TEST(Hn4C, DamageHasTheReferencesNumber) {
  WEIR_NEEDS_FIXTURES(folder, "hn4");
  const weir::test::temp_folder scratch;
  const std::string path = scratch / "rot.img";
  {
    const auto to = or_throw(create_file_device(path, small_capacity));
    std::uint64_t offset = 0;
    unpack(folder + "/rot.img.zst", [&](bytes_view piece) {
      if (!all_zero(piece)) {
        or_throw(to->write(offset, piece));
      }
      offset += piece.size();
    });
  }
  hn4_volume_t* volume = nullptr;
  ASSERT_EQ(hn4_volume_open(path.c_str(), HN4_VOLUME_STRICT, &volume), HN4_OK);
  const struct {
    const char* tag;
    hn4_result_t code;
    std::uint64_t good;
  } cases[] = {{"rot:payload", HN4_ERR_PAYLOAD_ROT, 4048},
               {"rot:headercrc", HN4_ERR_HEADER_ROT, 4048},
               {"rot:gen", HN4_ERR_GENERATION_SKEW, 4048},
               {"rot:masslie", HN4_INFO_SPARSE, 20240},
               {"rot:noperm", HN4_OK, 100}};
  for (const auto& c : cases) {
    hn4_tensor_ctx_t* ctx = nullptr;
    ASSERT_EQ(hn4_tensor_open(volume, c.tag, &ctx), HN4_OK) << c.tag;
    byte_vector all(hn4_tensor_size(ctx));
    std::uint64_t count = 0;
    EXPECT_EQ(hn4_tensor_read_count(ctx, 0, all.data(), all.size(), &count), c.code)
        << c.tag;
    EXPECT_EQ(count, c.good) << c.tag;
    hn4_tensor_close(ctx);
  }
  EXPECT_EQ(hn4_volume_close(volume), HN4_OK);
}

}  // namespace
}  // namespace weir::storage::test
