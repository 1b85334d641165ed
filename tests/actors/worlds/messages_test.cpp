// SPDX-License-Identifier: Apache-2.0
/// @file
/// World tensors in Tensogram files, on one and on several ranks.
#include "weir/worlds/messages.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <thread>

#include "storage/hn4/faulty_device.hpp"
#include "support/temp_folder.hpp"
#include "weir/base/file.hpp"
#include "weir/formats/tensogram.hpp"
#include "weir/runtime/in_process.hpp"
#include "weir/storage/hn4_tensors.hpp"
#include "weir/worlds/volumes.hpp"

namespace weir {
namespace {

/// Runs a program on each of `ranks` threads.
void on_world(runtime::rank_id ranks, const std::function<void(world&)>& body) {
  runtime::in_process_network net({.ranks = ranks});
  std::vector<std::thread> threads;
  for (runtime::rank_id r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      engine e(1 + r % 2);
      world w(e, net.transport_of(r));
      body(w);
    });
  }
  for (std::thread& t : threads) {
    t.join();
  }
}
/// Returns the value that the tests give to an element.
double value_at(std::int64_t i, std::int64_t j) {
  return static_cast<double>(i * 100 + j) / 3;
}
void fill(world& w, const world_tensor<double, 2>& t) {
  for (const auto& box : t.tiles()) {
    w.submit(
        "fill",
        [box](view<double, 2> out) {
          for (std::int64_t i = 0; i < out.extent(0); ++i) {
            for (std::int64_t j = 0; j < out.extent(1); ++j) {
              out(i, j) = value_at(box.lo[0] + i, box.lo[1] + j);
            }
          }
        },
        write(t.of_tile(box)));
  }
}
/// Writes a message of other objects than worlds write.
void write_other(const std::string& path, dtype type, const std::string& compression) {
  byte_vector elements(static_cast<std::size_t>(10 * 7 * info_of(type).size));
  for (std::size_t i = 0; type == dtype::fp64 && i < 70; ++i) {
    const double value =
        value_at(static_cast<std::int64_t>(i / 7), static_cast<std::int64_t>(i % 7));
    std::memcpy(elements.data() + 8 * i, &value, 8);
  }
  formats::object_to_write one;
  one.descriptor.type = type;
  one.descriptor.shape = {10, 7};
  one.descriptor.compression = compression;
  one.metadata.set("name", "depth");
  one.data = elements;
  const auto message = or_throw(formats::encode_message({&one, 1}));
  or_throw(write_file_atomically(posix_file_system(), path, message));
}
/// Expects that this rank has the elements of its own tiles and zeros elsewhere, before
/// any piece has moved.
void expect_own_tiles_alone(world& w, const world_tensor<double, 2>& t) {
  const auto* const local = t.all().bytes().as<double>();
  for (const auto& box : t.tiles()) {
    const bool own = box.index * w.base().ranks() / t.tile_count() == w.base().rank();
    for (std::int64_t i = box.lo[0]; i < box.hi[0]; ++i) {
      for (std::int64_t j = box.lo[1]; j < box.hi[1]; ++j) {
        ASSERT_EQ(local[i * t.all().extent(1) + j], own ? value_at(i, j) : 0)
            << "rank " << w.base().rank() << " tile " << box.index;
      }
    }
  }
}
/// Reads the object "depth" on two ranks and compares it.
void expect_readable(const std::string& path) {
  on_world(2, [&](world& w) {
    const auto t = w.make<double>(blocks(3, 2), 10, 7);
    const auto done = read_object(w, path, "depth", t);
    ASSERT_TRUE(done) << done.error().message();
    expect_own_tiles_alone(w, t);
    const auto all = or_throw(w.elements(t));
    for (std::int64_t i = 0; i < 10; ++i) {
      for (std::int64_t j = 0; j < 7; ++j) {
        ASSERT_EQ(all(i, j), value_at(i, j));
      }
    }
  });
}
/// Expects that a read fails on one and on three ranks with the code and the file of its
/// cause, and with words in its message.
void expect_refused(const std::string& path, const std::string& object, errc code,
                    const std::string& words) {
  for (const runtime::rank_id ranks : {1U, 3U}) {
    on_world(ranks, [&](world& w) {
      const auto t = w.make<double>(rows(2), 10, 7);
      const auto done = read_object(w, path, object, t);
      ASSERT_FALSE(done);
      EXPECT_EQ(done.error().code(), code) << done.error().message();
      for (const std::string& word : {words, std::string("depth.tgm")}) {
        EXPECT_NE(done.error().message().find(word), std::string::npos)
            << done.error().message();
      }
    });
  }
}

TEST(WorldMessages, AreTheSameBytesOnAnyNumberOfRanks) {
  test::temp_folder folder;
  std::vector<byte_vector> files;
  for (const runtime::rank_id ranks : {1U, 3U}) {
    const std::string path = folder / "depth.tgm";
    on_world(ranks, [&](world& w) {
      const auto t = w.make<double>(blocks(4, 3), 10, 7);
      fill(w, t);
      or_throw(write_message(w, path, t, "depth"));
      or_throw(write_message(w, path, t, "depth"));  // it replaces the first one
    });
    expect_readable(path);
    files.push_back(or_throw(read_file(posix_file_system(), path)));
  }
  EXPECT_EQ(files[0], files[1]);
  const auto reader = or_throw(formats::message_reader::open(files[0]));
  EXPECT_EQ(reader.object_count(), 1U);
  EXPECT_EQ(reader.find("depth"), std::size_t{0});
  EXPECT_TRUE(reader.verify());
}

TEST(WorldMessages, CompressedObjectsAreRead) {
  test::temp_folder folder;
  write_other(folder / "depth.tgm", dtype::fp64, "zstd");
  expect_readable(folder / "depth.tgm");
}

TEST(WorldMessages, OtherObjectsAreRefusedOnAllRanks) {
  test::temp_folder folder;
  const std::string path = folder / "depth.tgm";
  expect_refused(path, "depth", errc::not_found, "No such file");
  write_other(path, dtype::fp32, "none");
  expect_refused(path, "depth", errc::invalid_argument,
                 "expected float64 [10, 7], found float32 [10, 7]");
  expect_refused(path, "speed", errc::not_found, "cannot read the object \"speed\"");
  write_other(path, dtype::fp64, "none");
  auto bytes = or_throw(read_file(posix_file_system(), path));
  const double value = value_at(5, 3);
  byte_vector pattern(8);
  std::memcpy(pattern.data(), &value, 8);
  const auto place =
      std::search(bytes.begin(), bytes.end(), pattern.begin(), pattern.end());
  ASSERT_NE(place, bytes.end());
  *place ^= std::byte{1};
  or_throw(write_file_atomically(posix_file_system(), path, bytes));
  expect_refused(path, "depth", errc::hash_mismatch, "read tile");
}

TEST(WorldMessages, AFolderThatDoesNotExistIsNamedOnAllRanks) {
  on_world(2, [&](world& w) {
    const auto t = w.make<double>(rows(2), 4, 4);
    const auto done = write_message(w, "/nonexistent/depth.tgm", t);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code(), errc::not_found) << done.error().message();
    EXPECT_NE(done.error().message().find("/nonexistent/depth.tgm"), std::string::npos);
    EXPECT_TRUE(w.wait());
  });
}

/// Makes a volume with the tensor "w".
void make_volume(const std::string& path, std::int64_t n, std::int64_t m) {
  std::vector<double> content;
  for (std::int64_t i = 0; i < n * m; ++i) {
    content.push_back(value_at(i / m, i % m));
  }
  const std::array<std::int64_t, 2> shape{n, m};
  or_throw(storage::hn4_format(path, storage::test::fixed_format()));
  or_throw(or_throw(storage::hn4_volume::open(path, storage::device_mode::writable))
               .put("model",
                    or_throw(storage::make_safetensors(
                        "w", dtype::fp64, shape, std::as_bytes(std::span(content))))));
}
/// Returns the number of bytes that this process has read by system calls so far.
std::int64_t bytes_read_so_far() {
  std::ifstream counters("/proc/self/io");
  std::string name;
  std::int64_t bytes = 0;
  counters >> name >> bytes;
  EXPECT_EQ(name, "rchar:");
  return bytes;
}

TEST(WorldVolumes, AllRanksTogetherReadTheTensorOnce) {
  if (!std::ifstream("/proc/self/io")) {
    GTEST_SKIP() << "expected /proc/self/io, found none: this system does not count";
  }
  test::temp_folder folder;
  const std::string path = folder / "v.hn4";
  constexpr std::int64_t n = 1024;
  make_volume(path, n, n);
  for (const runtime::rank_id ranks : {1U, 4U}) {
    const std::int64_t before = bytes_read_so_far();
    on_world(ranks, [&](world& w) {
      const auto t = w.make<double>(rows(100), n, n);
      or_throw(read_volume(w, path, "w", t));
      expect_own_tiles_alone(w, t);
    });
    // Each rank opens the volume, and reads whole blocks at the ends of its tiles.
    const std::int64_t read = bytes_read_so_far() - before;
    EXPECT_GE(read, n * n * 8) << ranks << " ranks";
    EXPECT_LE(read, n * n * 8 * 5 / 4) << ranks << " ranks";
  }
}

TEST(WorldVolumes, EachRankReadsTheBlocksOfItsTiles) {
  test::temp_folder folder;
  const std::string path = folder / "v.hn4";
  make_volume(path, 64, 48);
  for (const layout& cut : {rows(7), blocks(10, 11)}) {
    on_world(3, [&](world& w) {
      const auto t = w.make<double>(cut, 64, 48);
      const auto done = read_volume(w, path, "w", t);
      ASSERT_TRUE(done) << done.error().message();
      expect_own_tiles_alone(w, t);
      const auto all = or_throw(w.elements(t));
      for (std::int64_t i = 0; i < 64; ++i) {
        for (std::int64_t j = 0; j < 48; ++j) {
          ASSERT_EQ(all(i, j), value_at(i, j));
        }
      }
    });
  }
  on_world(2, [&](world& w) {
    const auto t = w.make<double>(rows(8), 48, 64);
    const auto done = read_volume(w, path, "w", t);
    ASSERT_FALSE(done);
    EXPECT_NE(
        done.error().message().find("expected float64 [48, 64], found F64 [64, 48]"),
        std::string::npos)
        << done.error().message();
    const auto missing = read_volume(w, path, "v", t);
    ASSERT_FALSE(missing);
    EXPECT_NE(missing.error().message().find("\"v\""), std::string::npos);
  });
}

}  // namespace
}  // namespace weir
