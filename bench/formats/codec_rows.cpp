// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rows about the pipeline alone, compared with direct calls of the codec libraries on
/// the same buffers.
#include <libaec.h>
#include <lz4.h>
#include <zfp.h>
#include <zstd.h>

#include <algorithm>
#include <memory>

#include "formats/rows.hpp"
#include "tensogram/codec/pipeline.hpp"

namespace weir::bench {

namespace {

using namespace weir::formats;

constexpr int repeats = 15;
constexpr std::size_t count = 1'000'000;

/// A test field with its descriptor, its plan and its encoded payload.
struct work {
  byte_vector data = field();
  object_descriptor descriptor;
  byte_vector packed;  ///< input of the compression
  byte_vector out = byte_vector(8 * count);
  code_buffer payload;

  explicit work(const std::string& compression, unsigned bits = 0,
                cbor_map parameters = {}) {
    descriptor.type = dtype::fp64;
    descriptor.shape = {static_cast<std::int64_t>(count)};
    descriptor.compression = compression;
    if (bits > 0) {
      descriptor.encoding = "simple_packing";
      parameters.set("sp_bits_per_value", bits);
    }
    descriptor.parameters = std::move(parameters);
    encode(1);
    packed = data;
    if (bits > 0) {
      object_descriptor plain = descriptor;
      plain.compression = "none";
      const pipeline p = or_throw(plan_writing(plain, data, 1));
      const code_buffer bytes = or_throw(encode_payload(p, plain, data, 1));
      packed.assign(bytes.bytes.begin(), bytes.bytes.end());
    }
  }
  void encode(unsigned threads) {
    payload =
        {};  // freed first, as a direct call frees its memory before it allocates again
    object_descriptor d = descriptor;
    const pipeline p = or_throw(plan_writing(d, data, threads));
    payload = or_throw(encode_payload(p, d, data, threads));
    stored = std::move(d);
  }
  void decode(unsigned threads) {
    const pipeline p = or_throw(plan_reading(stored, payload.bytes.size(), {}));
    or_throw(decode_payload(p, payload.bytes, memory_at(out), threads));
  }
  object_descriptor stored;
};

/// Allocates memory without clearing it.
std::unique_ptr<std::byte[]> uninitialized(std::size_t bytes) {
  return std::unique_ptr<std::byte[]>(new std::byte[bytes]);
}
const char* chars(const byte_vector& from) {
  return reinterpret_cast<const char*>(from.data());
}
char* chars(std::byte* to) {
  return reinterpret_cast<char*>(to);
}

/// Returns direct / ours, so 1 means as fast as the library alone. Takes the median of
/// pairs that are measured back to back, in alternating order, for about a second;
/// `clock` returns the seconds of one call.
template <class Clock>
double against(const std::function<void()>& ours, const std::function<void()>& direct,
               const Clock& clock) {
  ours();
  const double once = std::max(clock(direct), 1e-6);
  const int pairs = static_cast<int>(std::clamp(1 / once, 15.0, 301.0));
  std::vector<double> ratios;
  for (int i = 0; i < pairs; ++i) {
    const double first = clock(i % 2 == 0 ? ours : direct);
    const double second = clock(i % 2 == 0 ? direct : ours);
    ratios.push_back(i % 2 == 0 ? second / first : first / second);
  }
  return median(std::move(ratios));
}
/// Compares the processor times of one thread.
double against(const std::function<void()>& ours, const std::function<void()>& direct) {
  return against(ours, direct,
                 [](const std::function<void()>& run) { return thread_seconds_of(run); });
}

/// Rows of single codecs: each returns library / ours.
double lz4_enc() {
  work w("lz4");
  return against(
      [&] { w.encode(1); },
      [&] {
        const int bound = LZ4_compressBound(8 * count);
        const auto to = uninitialized(static_cast<std::size_t>(bound));
        keep(LZ4_compress_default(chars(w.data), chars(to.get()), 8 * count, bound));
      });
}
double lz4_dec() {
  work w("lz4");
  return against([&] { w.decode(1); },
                 [&] {
                   keep(LZ4_decompress_safe(
                       reinterpret_cast<const char*>(w.payload.bytes.data()) + 4,
                       chars(w.out.data()), static_cast<int>(w.payload.bytes.size()) - 4,
                       8 * count));
                 });
}
double zstd_enc() {
  work w("zstd");
  return against([&] { w.encode(1); },
                 [&] {
                   const std::size_t bound = ZSTD_compressBound(w.data.size());
                   const auto to = uninitialized(bound);
                   keep(ZSTD_compress(to.get(), bound, w.data.data(), w.data.size(), 3));
                 });
}
double zstd_dec() {
  work w("zstd");
  return against([&] { w.decode(1); },
                 [&] {
                   keep(ZSTD_decompress(w.out.data(), w.out.size(),
                                        w.payload.bytes.data(), w.payload.bytes.size()));
                 });
}

cbor_map szip_keys() {
  return {{"szip_rsi", 128}, {"szip_block_size", 16}, {"szip_flags", 8}};
}

/// A stream of libaec with the parameters of the szip rows.
struct libaec_work {
  ::aec_stream stream{};
  libaec_work() {
    stream.bits_per_sample = 24;
    stream.block_size = 16;
    stream.rsi = 128;
    stream.flags = AEC_DATA_PREPROCESS | AEC_DATA_MSB | AEC_DATA_3BYTE;
  }
};

/// Compares the coder alone with the library call, without the pipeline around it.
double szip_enc() {
  work w("szip", 24, szip_keys());
  const pipeline p = or_throw(plan_reading(w.stored, w.payload.bytes.size(), {}));
  return against([&] { keep(or_throw(aec_encode(w.packed, p.aec, 1)).offsets.size()); },
                 [&] {
                   const auto to = uninitialized(w.packed.size() * 2);
                   libaec_work aec;
                   aec.stream.next_in =
                       reinterpret_cast<const unsigned char*>(w.packed.data());
                   aec.stream.avail_in = w.packed.size();
                   aec.stream.next_out = reinterpret_cast<unsigned char*>(to.get());
                   aec.stream.avail_out = w.packed.size() * 2;
                   keep(aec_buffer_encode(&aec.stream));
                 });
}
double szip_dec() {
  work w("szip", 24, szip_keys());
  const pipeline p = or_throw(plan_reading(w.stored, w.payload.bytes.size(), {}));
  byte_vector to(w.packed.size());
  const szip_stream stream{w.payload.bytes, p.aec, p.offsets, to.size()};
  return against([&] { or_throw(szip_decode(stream, to, 1)); },
                 [&] {
                   libaec_work aec;
                   aec.stream.next_in =
                       reinterpret_cast<const unsigned char*>(w.payload.bytes.data());
                   aec.stream.avail_in = w.payload.bytes.size();
                   aec.stream.next_out = reinterpret_cast<unsigned char*>(to.data());
                   aec.stream.avail_out = to.size();
                   keep(aec_buffer_decode(&aec.stream));
                 });
}

cbor_map zfp_keys() {
  return {{"zfp_mode", "fixed_rate"}, {"zfp_rate", 16.0}};
}

/// Runs zfp directly at rate 16, from or to `data`.
void zfp_direct(byte_vector& data, std::byte* bits, std::size_t size, bool encode) {
  zfp_field* f = zfp_field_1d(data.data(), zfp_type_double, count);
  zfp_stream* z = zfp_stream_open(nullptr);
  zfp_stream_set_rate(z, 16, zfp_type_double, 1, zfp_false);
  bitstream* b = stream_open(bits, size);
  zfp_stream_set_bit_stream(z, b);
  zfp_stream_rewind(z);
  keep(encode ? zfp_compress(z, f) : zfp_decompress(z, f));
  stream_close(b);
  zfp_stream_close(z);
  zfp_field_free(f);
}
double zfp_enc() {
  work w("zfp", 0, zfp_keys());
  return against([&] { w.encode(1); },
                 [&] {
                   const auto to = uninitialized(3 * count);
                   zfp_direct(w.data, to.get(), 3 * count, true);
                 });
}
double zfp_dec() {
  work w("zfp", 0, zfp_keys());
  byte_vector bits(w.payload.bytes.begin(), w.payload.bytes.end());
  return against([&] { w.decode(1); },
                 [&] { zfp_direct(w.out, bits.data(), bits.size(), false); });
}

/// Returns memcpy / unpacking for the same number of output bytes.
double pack_dec_ratio(unsigned bits) {
  work w("none", bits);
  byte_vector copy(w.data.size());
  return against([&] { w.decode(1); },
                 [&] {
                   std::memcpy(copy.data(), w.data.data(), copy.size());
                   keep(copy[0]);
                 });
}

/// Returns the shortest time of several runs in milliseconds, after one run to warm up.
double best_ms(const std::function<void()>& run) {
  run();
  return 1e3 * min_seconds(repeats, run);
}

/// Returns our milliseconds. If the reference's package is there, the limit is `times`
/// times its speed.
measured beside_wheel(const std::string& compression, unsigned bits,
                      const std::string& name, bool encode, double times) {
  work w(compression, bits, compression == "szip" ? szip_keys() : cbor_map{});
  const double ours = best_ms([&] { encode ? w.encode(1) : w.decode(1); });
  const auto peer = wheel_ms(name, encode);
  return {ours, peer, peer ? std::optional(at_most(*peer / times)) : std::nullopt};
}

/// Returns the speed with two threads over the speed with one.
double threads_ratio(const std::string& compression, bool encode) {
  work w(compression, 24, compression == "szip" ? szip_keys() : cbor_map{});
  const auto run = [&](unsigned threads) {
    encode ? w.encode(threads) : w.decode(threads);
  };
  return against([&] { run(2); }, [&] { run(1); },
                 [](const std::function<void()>& f) { return seconds_of(f); });
}

void add_pair(program& bench, const std::string& codec, double (*enc)(),
              double (*dec)()) {
  bench.add("tgm_codec_" + codec + "_enc_ratio", "ratio", at_least(0.95),
            [enc] { return enc(); });
  bench.add("tgm_codec_" + codec + "_dec_ratio", "ratio", at_least(0.95),
            [dec] { return dec(); });
}

}  // namespace

void add_codec_rows(program& bench) {
  add_pair(bench, "lz4", &lz4_enc, &lz4_dec);
  add_pair(bench, "zstd", &zstd_enc, &zstd_dec);
  add_pair(bench, "szip", &szip_enc, &szip_dec);
  add_pair(bench, "zfp", &zfp_enc, &zfp_dec);
  for (const unsigned bits : {16u, 24u, 32u}) {
    const std::string name = "tgm_pack" + std::to_string(bits);
    bench.add(name + "_dec_memcpy_ratio", "ratio", at_least(0.6),
              [bits] { return pack_dec_ratio(bits); });
    bench.add(name + "_enc_ms", "ms", no_bar, [bits] {
      return beside_wheel("none", bits, "pack" + std::to_string(bits), true, 3);
    });
  }
  for (const bool encode : {true, false}) {
    bench.add(encode ? "tgm_pack24_szip_enc_ms" : "tgm_pack24_szip_dec_ms", "ms", no_bar,
              [encode] { return beside_wheel("szip", 24, "pack24_szip", encode, 1); });
  }
  for (const char* codec : {"none", "szip"}) {
    const std::string name =
        "tgm_threads_" + std::string(codec == std::string("none") ? "pack" : "szip");
    bench.add(name + "_enc_ratio", "ratio", at_least(1.7),
              [codec] { return threads_ratio(codec, true); });
    bench.add(name + "_dec_ratio", "ratio", at_least(1.7),
              [codec] { return threads_ratio(codec, false); });
  }
}

}  // namespace weir::bench
