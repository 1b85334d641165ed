// SPDX-License-Identifier: Apache-2.0
/// @file
/// Verified reads of an HN4 stream against memcpy and CRC-32 of the same bytes.
#include <unistd.h>

#include <array>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "bench.hpp"
#include "weir/base/hash.hpp"
#include "weir/base/philox.hpp"
#include "weir/storage/hn4.hpp"

namespace {

using namespace weir;
using namespace weir::storage;

constexpr std::size_t payload = 4048;
constexpr std::size_t step = 259 * payload;  // about 1 MiB
constexpr std::size_t shards = 8;
constexpr std::size_t shard_bytes = 24 * step;
constexpr std::size_t stream_bytes = shards * shard_bytes;
constexpr std::uint64_t capacity = std::uint64_t{768} << 20;
constexpr int repeats = 7;

void fill(hn4_volume& volume, const byte_vector& source) {
  hn4_put_options options;
  options.shards = shards;
  or_throw(volume.put("bench", source, options));
}

/// The source, and a volume that holds it in memory and in a file.
struct workplace {
  workplace() : source(stream_bytes) {
    const philox random(1, 1);
    for (std::size_t i = 0; i < source.size(); i += 8) {
      store_le(source.data() + i, random.bits(i));
    }
    auto device = std::make_unique<memory_device>(capacity);
    or_throw(hn4_format(*device));
    auto volume = or_throw(hn4_volume::open(std::move(device), device_mode::writable));
    fill(volume, source);
    memory = std::make_unique<hn4_stream>(or_throw(volume.stream("bench")));
    if (or_throw(memory->read_all()) != source) {
      throw std::runtime_error("the stream is not its source");
    }
  }
  workplace(const workplace&) = delete;
  workplace& operator=(const workplace&) = delete;
  ~workplace() {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
  const std::string& file() {
    if (folder.empty()) {
      folder = (std::filesystem::temp_directory_path() / "weir-bench-XXXXXX").string();
      if (::mkdtemp(folder.data()) == nullptr) {
        throw std::runtime_error("cannot create a temporary folder");
      }
      path = folder + "/bench.hn4";
      hn4_format_options options;
      options.capacity = capacity;
      or_throw(hn4_format(path, options));
      auto volume = or_throw(hn4_volume::open(path, device_mode::writable));
      fill(volume, source);
    }
    return path;
  }

  byte_vector source;
  std::unique_ptr<hn4_stream> memory;
  std::string folder;
  std::string path;
};

workplace& place() {
  static workplace w;
  return w;
}

using work = void (*)(const hn4_stream&, std::size_t begin, std::size_t end);

void read_verified(const hn4_stream& stream, std::size_t begin, std::size_t end) {
  static thread_local byte_vector buffer(step);
  for (std::size_t at = begin; at < end; at += step) {
    or_throw(stream.read(at, buffer));
  }
  bench::keep(buffer[0]);
}

void copy_and_check(const hn4_stream&, std::size_t begin, std::size_t end) {
  static thread_local byte_vector buffer(step);
  std::uint32_t sum = 0;
  for (std::size_t at = begin; at < end; at += step) {
    std::memcpy(buffer.data(), place().source.data() + at, step);
    sum ^= crc32(0, buffer);
  }
  bench::keep(sum);
}

void on_threads(std::size_t count, const hn4_stream& stream, work what) {
  if (count == 1) {
    what(stream, 0, stream_bytes);
    return;
  }
  std::vector<std::thread> threads;
  const std::size_t part = stream_bytes / count;
  for (std::size_t i = 0; i < count; ++i) {
    threads.emplace_back([&, i] { what(stream, i * part, (i + 1) * part); });
  }
  for (std::thread& t : threads) {
    t.join();
  }
}

/// Speed of the stream over speed of the reference.
double ratio(const hn4_stream& stream, std::size_t threads) {
  on_threads(threads, stream, read_verified);
  on_threads(threads, stream, copy_and_check);
  return bench::median_ratio(
      repeats, [&] { on_threads(threads, stream, copy_and_check); },
      [&] { on_threads(threads, stream, read_verified); });
}

double file_ratio() {
  const hn4_volume volume = or_throw(hn4_volume::open(place().file()));
  return ratio(or_throw(volume.stream("bench")), 1);
}

double open_ms() {
  const std::string& path = place().file();
  return 1e3 * bench::median_seconds(
                   9, [&] { bench::keep(or_throw(hn4_volume::open(path)).state()); });
}

}  // namespace

int main(int argc, char** argv) {
  bench::program program;
  program.add("hn4_stream_ratio", "ratio", bench::at_least(0.8),
              [] { return ratio(*place().memory, 1); });
  program.add("hn4_stream_2_ratio", "ratio", bench::at_least(0.8),
              [] { return ratio(*place().memory, 2); });
  program.add("hn4_stream_file_ratio", "ratio", bench::no_bar, file_ratio);
  program.add("hn4_open_ms", "ms", bench::no_bar, open_ms);
  return program.run(argc, argv);
}
