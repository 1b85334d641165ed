// SPDX-License-Identifier: Apache-2.0
/// @file
/// Messages against memcpy and XXH3, compression against zstd alone.
// Tensogram against the floor of the same machine in the same seconds: memcpy and XXH3,
// zstd called directly.
#include <zstd.h>

#include <cstring>

#include "bench.hpp"
#include "tensogram/codec/pipeline.hpp"
#include "weir/base/hash.hpp"
#include "weir/base/philox.hpp"
#include "weir/formats/tensogram.hpp"

namespace {

using namespace weir;
using namespace weir::formats;

constexpr std::size_t raw_bytes = 8'000'000;
constexpr int raw_repeats = 201;
constexpr int codec_repeats = 31;

/// The reference's test field: a smooth wave with a little noise, 1,000,000 doubles.
byte_vector field() {
  const philox random(42, 0);
  constexpr std::size_t n = raw_bytes / sizeof(double);
  byte_vector out(raw_bytes);
  for (std::size_t i = 0; i < n; ++i) {
    const double row = static_cast<double>(i / 1000) / 1000 - 0.5;
    const double column = static_cast<double>(i % 1000) / 1000 - 0.5;
    const double noise = static_cast<double>(random.uniform(i)) - 0.5;
    const double value =
        280 + 30 * (1 - 8 * row * row) * (1 - 8 * column * column) + 0.2 * noise;
    std::memcpy(out.data() + i * sizeof(double), &value, sizeof value);
  }
  return out;
}

object_to_write object_of(const byte_vector& data, dtype type, const char* compression) {
  object_to_write out;
  out.descriptor.type = type;
  out.descriptor.shape = {static_cast<std::int64_t>(data.size() / info_of(type).size)};
  out.descriptor.compression = compression;
  out.data = data;
  return out;
}

/// Speed relative to one copy and one digest of the same bytes, all buffers warm.
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
  const byte_vector data = field();
  const object_to_write object = object_of(data, type, "none");
  byte_vector message;
  return against_floor(data, [&] {
    or_throw(encode_message_into(message, {&object, 1}));
  });
}

double raw_decode() {
  const byte_vector data = field();
  const object_to_write object = object_of(data, dtype::uint8, "none");
  const byte_vector message = or_throw(encode_message({&object, 1}));
  byte_vector out(data.size());
  return against_floor(data, [&] {
    read_options options;
    options.hashes = hash_check::required;
    or_throw(or_throw(message_reader::open(message, options)).decode_into(0, out));
  });
}

double zstd_encode() {
  const byte_vector data = field();
  const object_descriptor descriptor = object_of(data, dtype::fp64, "zstd").descriptor;
  const auto direct = [&] {
    const std::size_t bound = ZSTD_compressBound(data.size());
    const std::unique_ptr<std::byte[]> out(new std::byte[bound]);
    bench::keep(
        ZSTD_compress(out.get(), bound, data.data(), data.size(), ZSTD_CLEVEL_DEFAULT));
  };
  const auto pipeline = [&] {
    bench::keep(or_throw(encode_payload(descriptor, data)).bytes.size());
  };
  direct();
  return 1 / bench::median_ratio(codec_repeats, pipeline, direct);
}

double zstd_decode() {
  const byte_vector data = field();
  const object_descriptor descriptor = object_of(data, dtype::fp64, "zstd").descriptor;
  const encoded_payload payload = or_throw(encode_payload(descriptor, data));
  byte_vector out(data.size());
  const auto direct = [&] {
    bench::keep(ZSTD_decompress(out.data(), out.size(), payload.bytes.data(),
                                payload.bytes.size()));
  };
  const auto pipeline = [&] { or_throw(decode_payload(descriptor, payload.bytes, out)); };
  direct();
  return 1 / bench::median_ratio(codec_repeats, pipeline, direct);
}

/// Processor time of one call, from the best of some batches.
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

/// Microseconds per message: frames, metadata and digests of a small one.
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
  weir::bench::program bench;
  bench.add("tgm_raw_encode_ratio", "ratio", weir::bench::at_least(0.8),
            [] { return raw_encode(weir::dtype::uint8); });
  bench.add("tgm_raw_encode_fp64_ratio", "ratio", weir::bench::no_bar,
            [] { return raw_encode(weir::dtype::fp64); });
  bench.add("tgm_raw_decode_ratio", "ratio", weir::bench::at_least(0.8),
            [] { return raw_decode(); });
  bench.add("tgm_codec_zstd_enc_ratio", "ratio", weir::bench::at_least(0.95),
            [] { return zstd_encode(); });
  bench.add("tgm_codec_zstd_dec_ratio", "ratio", weir::bench::at_least(0.95),
            [] { return zstd_decode(); });
  bench.add("tgm_small_encode_us", "us", weir::bench::no_bar,
            [] { return small_encode_us(); });
  bench.add("tgm_small_decode_us", "us", weir::bench::no_bar,
            [] { return small_decode_us(); });
  return bench.run(argc, argv);
}
