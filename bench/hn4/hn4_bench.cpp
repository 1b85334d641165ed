// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rows about verified reads of HN4 streams, compared with memcpy and CRC-32 of the same
/// bytes.
#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "bench.hpp"
#include "weir/base/file.hpp"
#include "weir/base/hash.hpp"
#include "weir/base/philox.hpp"
#include "weir/storage/hn4.hpp"

namespace {

using namespace weir;
using namespace weir::storage;

constexpr std::size_t shards = 8;
constexpr std::size_t stream_bytes = std::size_t{192} << 20;
constexpr std::uint64_t capacity = std::uint64_t{768} << 20;
constexpr int repeats =
    31;  // of about 30 ms each: bursts of other programs must not decide

using crc_function = std::uint32_t (*)(std::uint32_t, const void*, std::size_t);

std::uint32_t own_crc(std::uint32_t crc, const void* from, std::size_t size) {
  return crc32(crc, {static_cast<const std::byte*>(from), size});
}
std::uint32_t (*isal_crc)(std::uint32_t, const unsigned char*, std::uint64_t) = nullptr;
std::uint32_t through_isal(std::uint32_t crc, const void* from, std::size_t size) {
  return isal_crc(crc, static_cast<const unsigned char*>(from), size);
}

/// Returns a function of a library, which stays loaded. Returns nullptr, with a remark on
/// standard error, if it is not installed.
void* symbol_of(const char* library, const char* name) {
  void* handle = ::dlopen(library, RTLD_NOW);
  void* symbol = handle != nullptr ? ::dlsym(handle, name) : nullptr;
  if (symbol == nullptr) {
    std::fprintf(stderr, "note: no %s in %s: ratios are without its CRC-32\n", name,
                 library);
  }
  return symbol;
}

/// Returns the fastest of the installed CRC-32 functions. Each must give the check value.
crc_function fastest_crc() {
  std::vector<crc_function> all{&own_crc};
  if (void* f = symbol_of("libdeflate.so.0", "libdeflate_crc32")) {
    all.push_back(reinterpret_cast<crc_function>(f));
  }
  if (void* f = symbol_of("libisal.so.2", "crc32_gzip_refl")) {
    isal_crc = reinterpret_cast<decltype(isal_crc)>(f);
    all.push_back(&through_isal);
  }
  const byte_vector bytes(std::size_t{8} << 20, std::byte{7});
  crc_function best = all.front();
  double least = 1e9;
  for (const crc_function f : all) {
    if (f(0, "123456789", 9) != 0xCBF43926U) {
      continue;
    }
    const double s =
        bench::min_seconds(5, [&] { bench::keep(f(0, bytes.data(), bytes.size())); });
    if (s < least) {
      least = s;
      best = f;
    }
  }
  return best;
}

/// Returns that function; it is chosen at the first call.
crc_function reference_crc() {
  static const crc_function f = fastest_crc();
  return f;
}

/// Returns the random bytes that are stored.
const byte_vector& source() {
  static const byte_vector bytes = [] {
    byte_vector b(stream_bytes);
    const philox random(1, 1);
    for (std::size_t i = 0; i < b.size(); i += 8) {
      store_le(b.data() + i, random.bits(i));
    }
    return b;
  }();
  return bytes;
}

/// Returns the folder for all files of a run. It is removed at the end.
const std::string& folder() {
  struct owned {
    owned() {
      path = (std::filesystem::temp_directory_path() / "weir-bench-XXXXXX").string();
      if (::mkdtemp(path.data()) == nullptr) {
        throw std::runtime_error("cannot create a temporary folder");
      }
    }
    owned(const owned&) = delete;
    owned& operator=(const owned&) = delete;
    ~owned() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
    std::string path;
  };
  static const owned o;
  return o.path;
}

/// Returns an image that contains the source, with blocks of 4 KiB (GENERIC) or 64 KiB
/// (USB). It is made at the first call.
const std::string& image(hn4_profile profile) {
  static std::array<std::string, 8> paths;
  std::string& path = paths[static_cast<std::size_t>(profile)];
  if (path.empty()) {
    path = folder() + "/" + std::string(name_of(profile));
    hn4_format_options options;
    options.capacity = capacity;
    options.profile = profile;
    or_throw(hn4_format(path, options));
    hn4_volume volume = or_throw(hn4_volume::open(path, device_mode::writable));
    hn4_put_options put;
    put.shards = shards;
    or_throw(volume.put("bench", source(), put));
  }
  return path;
}

/// Opens the stream of an image and checks once that it is the source.
hn4_stream stream_of(hn4_profile profile, bool mapped) {
  const std::string& path = image(profile);
  auto device =
      mapped ? open_mapped_device(path) : open_file_device(path, device_mode::read_only);
  const hn4_volume volume =
      or_throw(hn4_volume::open(or_throw(std::move(device)), device_mode::read_only));
  hn4_stream stream = or_throw(volume.stream("bench"));
  if (or_throw(stream.read_all()) != source()) {
    throw std::runtime_error("the stream is not its source");
  }
  return stream;
}

/// A way to read through a stream: about 1 MiB at a time, from shard to shard.
struct walk {
  std::size_t step;  ///< bytes per read
  std::size_t skew;  ///< distance of reads from the start of a block
};

/// Reads some shards through the stream, which verifies them.
void read_verified(const hn4_stream& stream, std::size_t first, std::size_t last,
                   const walk& w) {
  static thread_local byte_vector buffer;
  buffer.resize(w.step);
  for (std::size_t i = first; i < last; ++i) {
    const hn4_shard& s = stream.shards()[i];
    for (std::uint64_t offset = s.offset + w.skew; offset < s.offset + s.bytes;
         offset += w.step) {
      const auto n = static_cast<std::size_t>(
          std::min<std::uint64_t>(w.step, s.offset + s.bytes - offset));
      or_throw(stream.read(offset, mutable_bytes(buffer).first(n)));
    }
  }
  bench::keep(buffer[0]);
}

/// Copies the same bytes and computes their CRC-32: the least that a verified read can
/// cost.
void copy_and_check(const hn4_stream& stream, std::size_t first, std::size_t last,
                    const walk& w) {
  static thread_local byte_vector buffer;
  buffer.resize(w.step);
  const crc_function crc = reference_crc();
  std::uint32_t sum = 0;
  for (std::size_t i = first; i < last; ++i) {
    const hn4_shard& s = stream.shards()[i];
    for (std::uint64_t offset = s.offset + w.skew; offset < s.offset + s.bytes;
         offset += w.step) {
      const auto n = static_cast<std::size_t>(
          std::min<std::uint64_t>(w.step, s.offset + s.bytes - offset));
      std::memcpy(buffer.data(), source().data() + offset, n);
      sum ^= crc(0, buffer.data(), n);
    }
  }
  bench::keep(sum);
}

using work = void (*)(const hn4_stream&, std::size_t, std::size_t, const walk&);

/// Distributes the shards to threads.
void on_threads(std::size_t count, const hn4_stream& stream, const walk& w, work read) {
  if (count == 1) {
    read(stream, 0, shards, w);
    return;
  }
  std::vector<std::thread> threads;
  const std::size_t part = shards / count;
  for (std::size_t i = 0; i < count; ++i) {
    threads.emplace_back([&, i] { read(stream, i * part, (i + 1) * part, w); });
  }
  for (std::thread& t : threads) {
    t.join();
  }
}

/// Returns the speed of the stream over the speed of the reference.
double ratio(hn4_profile profile, bool mapped, std::size_t threads, std::size_t skew) {
  const hn4_stream stream = stream_of(profile, mapped);
  const std::size_t cap = stream.payload();
  const walk w{(std::size_t{1} << 20) / cap * cap, skew};
  on_threads(threads, stream, w, read_verified);
  on_threads(threads, stream, w, copy_and_check);
  return bench::median_ratio(
      repeats, [&] { on_threads(threads, stream, w, copy_and_check); },
      [&] { on_threads(threads, stream, w, read_verified); });
}

/// Returns the lower one of the ratios with blocks of 4 KiB and of 64 KiB.
double lower_ratio(std::size_t threads, std::size_t skew) {
  return std::min(ratio(hn4_profile::generic, true, threads, skew),
                  ratio(hn4_profile::usb, true, threads, skew));
}

/// Returns the nanoseconds per verified read of 4 KiB at random offsets, and per pread.
bench::measured random_reads() {
  constexpr int count = 20000;
  const hn4_stream stream = stream_of(hn4_profile::generic, true);
  const auto plain =
      or_throw(open_file_device(image(hn4_profile::generic), device_mode::read_only));
  const philox random(2, 1);
  byte_vector buffer(4096);
  const auto each = [&](auto&& read) {
    return 1e9 / count * bench::median_seconds(5, [&] {
             for (std::uint64_t i = 0; i < count; ++i) {
               read(random.below(i, stream_bytes - 4096));
             }
           });
  };
  const double mine =
      each([&](std::uint64_t offset) { or_throw(stream.read(offset, buffer)); });
  const double peer =
      each([&](std::uint64_t offset) { or_throw(plain->read(offset, buffer)); });
  return {mine, peer};
}

/// Returns a volume with 10^5 shards and one more tag, and with an index file.
const std::string& crowded() {
  static const std::string path = [] {
    std::string p = folder() + "/many";
    hn4_format_options options;
    options.capacity = std::uint64_t{2} << 30;
    or_throw(hn4_format(p, options));
    hn4_volume volume = or_throw(hn4_volume::open(p, device_mode::writable));
    const byte_vector bytes(4000);
    hn4_put_options put;
    put.shards = 4000;
    for (int i = 0; i < 25; ++i) {
      or_throw(volume.put("many" + std::to_string(i), bytes, put));
    }
    or_throw(volume.put("one", bytes));
    or_throw(volume.write_index());
    return p;
  }();
  return path;
}

/// Returns the milliseconds for opening the volume and the tag.
double open_ms() {
  const std::string& path = crowded();
  return 1e3 * bench::median_seconds(9, [&] {
           const hn4_volume volume = or_throw(hn4_volume::open(path));
           bench::keep(or_throw(volume.stream("one")).size());
         });
}

/// Measures the same while the index file is away.
double open_without_index_ms() {
  const std::string index = crowded() + ".index";
  std::filesystem::rename(index, index + ".away");
  const double ms = open_ms();
  std::filesystem::rename(index + ".away", index);
  return ms;
}

}  // namespace

int main(int argc, char** argv) {
  bench::program program;
  program.add("hn4_stream_ratio", "ratio", bench::at_least(0.8),
              [] { return lower_ratio(1, 0); });
  program.add("hn4_stream_2_ratio", "ratio", bench::at_least(0.8),
              [] { return lower_ratio(2, 0); });
  program.add("hn4_stream_unaligned_ratio", "ratio", bench::at_least(0.75),
              [] { return lower_ratio(1, 1001); });
  program.add("hn4_stream_file_ratio", "ratio", bench::no_bar,
              [] { return ratio(hn4_profile::generic, false, 1, 0); });
  program.add("hn4_random_4k_ns", "ns", bench::no_bar, random_reads);
  program.add("hn4_open_index_ms", "ms", bench::at_most(1), open_ms);
  program.add("hn4_open_scan_ms", "ms", bench::no_bar, open_without_index_ms);
  return program.run(argc, argv);
}
