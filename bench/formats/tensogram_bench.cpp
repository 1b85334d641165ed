// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rows about whole messages, compared with memcpy and XXH3 in the same seconds.
#include <malloc.h>

#include <cstring>

#include "bench.hpp"
#include "formats/rows.hpp"
#include "weir/base/hash.hpp"
#include "weir/formats/tensogram.hpp"

namespace {

using namespace weir;
using namespace weir::formats;

constexpr int raw_repeats = 201;

object_to_write object_of(const byte_vector& data, dtype type, const char* compression) {
  object_to_write out;
  out.descriptor.type = type;
  out.descriptor.shape = {static_cast<std::int64_t>(data.size() / info_of(type).size)};
  out.descriptor.compression = compression;
  out.data = data;
  return out;
}

/// Returns the speed relative to one copy and one digest of the same bytes. All buffers
/// are warm.
double against_floor(const byte_vector& data, const std::function<void()>& run) {
  byte_vector target(data.size());
  const auto floor = [&] {
    std::memcpy(target.data(), data.data(), data.size());
    bench::keep(xxh3_64(data));
  };
  floor();
  run();
  return 1 / bench::median_ratio(raw_repeats, run, floor);
}

double raw_encode(dtype type) {
  const byte_vector data = bench::field();
  const object_to_write object = object_of(data, type, "none");
  byte_vector message;
  return against_floor(data, [&] {
    or_throw(encode_message_into(message, {&object, 1}));
  });
}

double raw_decode() {
  const byte_vector data = bench::field();
  const object_to_write object = object_of(data, dtype::uint8, "none");
  const byte_vector message = or_throw(encode_message({&object, 1}));
  byte_vector out(data.size());
  return against_floor(data, [&] {
    read_options options;
    options.hashes = hash_check::required;
    or_throw(or_throw(message_reader::open(message, options)).decode_into(0, out));
  });
}

/// Returns the processor time of one call in microseconds, from the best of some batches.
double per_message_us(const std::function<void()>& run) {
  const auto batches = bench::repeat(21, [&] {
    return bench::thread_seconds_of([&] {
      for (int i = 0; i < 1000; ++i) {
        run();
      }
    });
  });
  return *std::min_element(batches.begin(), batches.end()) * 1e6 / 1000;
}

/// Returns the microseconds per small message, whose cost is frames, metadata and
/// digests.
double small_encode_us() {
  const byte_vector data(16);
  const object_to_write object = object_of(data, dtype::fp32, "none");
  byte_vector message;
  return per_message_us([&] { or_throw(encode_message_into(message, {&object, 1})); });
}

double small_decode_us() {
  const byte_vector data(16);
  const object_to_write object = object_of(data, dtype::fp32, "none");
  const byte_vector message = or_throw(encode_message({&object, 1}));
  return 1e6 / 1000 * bench::min_seconds(21, [&] {
           for (int i = 0; i < 1000; ++i) {
             bench::keep(
                 or_throw(or_throw(message_reader::open(message)).decode(0)).size());
           }
         });
}

}  // namespace

int main(int argc, char** argv) {
  // Keeps freed memory in the process, so that buffers stay warm.
  ::mallopt(M_MMAP_THRESHOLD, 32 << 20);
  ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
  weir::bench::program bench;
  bench.add("tgm_raw_encode_bytes_ratio", "ratio", weir::bench::at_least(0.8),
            [] { return raw_encode(weir::dtype::uint8); });
  bench.add("tgm_raw_encode_ratio", "ratio", weir::bench::at_least(0.8),
            [] { return raw_encode(weir::dtype::fp64); });
  bench.add("tgm_raw_decode_ratio", "ratio", weir::bench::at_least(0.8),
            [] { return raw_decode(); });
  bench.add("tgm_small_encode_us", "us", weir::bench::no_bar,
            [] { return small_encode_us(); });
  bench.add("tgm_small_decode_us", "us", weir::bench::no_bar,
            [] { return small_decode_us(); });
  add_codec_rows(bench);
  add_access_rows(bench);
  add_token_rows(bench);
  return bench.run(argc, argv);
}
