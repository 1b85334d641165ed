// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs the fuzz targets on the kept corpus and on mutations of messages with every stage
/// and mask. A seed names each mutation.
#include <gtest/gtest.h>

#include <filesystem>

#include "formats/fuzz/targets.hpp"
#include "formats/support.hpp"
#include "support/folders.hpp"

namespace weir::test {
namespace {

using namespace formats;

/// Returns the descriptor of 40 doubles with these stages.
object_descriptor staged(const char* encoding, const char* filter, const char* codec,
                         cbor_map parameters) {
  object_descriptor d;
  d.type = dtype::fp64;
  d.shape = {40};
  d.encoding = encoding;
  d.filter = filter;
  d.compression = codec;
  d.parameters = std::move(parameters);
  return d;
}

/// Returns small messages with every stage and mask, each with and without digests.
/// Without digests, damage reaches the codecs.
std::vector<byte_vector> corpus() {
  byte_vector field(40 * 8);
  for (std::size_t i = 0; i < 40; ++i) {
    const double value = 250 + static_cast<double>(i % 7) / 4;
    std::memcpy(field.data() + 8 * i, &value, 8);
  }
  cbor_map szip{{"szip_rsi", 2}, {"szip_block_size", 8}, {"szip_flags", 8}};
  cbor_map packed_szip = szip;
  packed_szip.set("sp_bits_per_value", 16);
  cbor_map shuffled_szip = szip;
  shuffled_szip.set("shuffle_element_size", 8);
  const std::vector<object_descriptor> all{
      staged("none", "none", "none", {}),
      staged("none", "none", "lz4", {}),
      staged("none", "shuffle", "zstd", {{"shuffle_element_size", 8}}),
      staged("none", "none", "blosc2", {}),
      staged("none", "shuffle", "szip", shuffled_szip),
      staged("simple_packing", "none", "none", {{"sp_bits_per_value", 12}}),
      staged("simple_packing", "none", "szip", packed_szip),
      staged("none", "none", "zfp", {{"zfp_mode", "fixed_rate"}, {"zfp_rate", 16}})};
  std::vector<byte_vector> out;
  for (const bool hashes : {false, true}) {
    for (const object_descriptor& d : all) {
      message_options options;
      options.hashes = hashes;
      const object_to_write one{d, {{"name", "field"}}, field};
      out.push_back(or_throw(encode_message({&one, 1}, options)));
    }
    for (const mask_method method :
         {mask_method::none, mask_method::rle, mask_method::roaring, mask_method::zstd}) {
      byte_vector holes = field;
      store_le<std::uint64_t>(holes.data() + 16, 0x7FF8'0000'0000'0000);
      store_le<std::uint64_t>(holes.data() + 80, 0xFFF0'0000'0000'0000);
      message_options options;
      options.hashes = hashes;
      options.masks = {true, true, method, method, method, 0};
      const object_to_write one{staged("none", "none", "lz4", {}), {}, holes};
      out.push_back(or_throw(encode_message({&one, 1}, options)));
    }
    for (const char* codec : {"rle", "roaring"}) {
      sample_object bits = sample(3, dtype::bitmask, {200});
      bits.descriptor.compression = codec;
      message_options options;
      options.hashes = hashes;
      out.push_back(or_throw(encode_message(to_write({bits}), options)));
    }
  }
  return out;
}

/// Calls every target.
void feed(bytes_view input) {
  fuzz::scan(input);
  fuzz::decode(input);
  fuzz::metadata(input);
  fuzz::codecs(input);
  fuzz::validate(input);
}

/// A target and the name of its corpus.
struct fuzz_target {
  const char* name;
  void (*run)(bytes_view);
};
constexpr fuzz_target fuzz_targets[] = {{"scan", fuzz::scan},
                                        {"decode", fuzz::decode},
                                        {"metadata", fuzz::metadata},
                                        {"codecs", fuzz::codecs},
                                        {"validate", fuzz::validate}};

TEST(tensogram_fuzz, no_input_of_the_corpus_does_harm) {
  const std::string tests = source_folder() + "/tests/";
  for (const auto& [name, run] : fuzz_targets) {
    SCOPED_TRACE(name);
    const byte_vector stored = load(tests + "formats/fuzz/corpus/" + name + ".bin");
    const auto count = fuzz::each_input(stored, run);
    ASSERT_TRUE(count) << count.error().message();
    EXPECT_GT(*count, 50u) << "the corpus has too few inputs";
  }
}

TEST(message_splitter, finds_what_scan_finds_however_the_bytes_are_cut) {
  const auto messages = corpus();
  byte_vector all = from_hex("00 54454E534F47524D 0003");
  for (std::size_t i = 0; i < messages.size(); ++i) {
    all.insert(all.end(), messages[i].begin(), messages[i].end());
    const byte_vector garbage = random_bytes(i, i % 5);
    all.insert(all.end(), garbage.begin(), garbage.end());
  }
  const auto expected = scan(bytes_view(all));
  ASSERT_EQ(expected.size(), messages.size());
  for (const std::size_t step : {1U, 7U, 24U, 333U, 1U << 20}) {
    EXPECT_EQ(fuzz::split(all, step), expected) << step;
  }
}

// The payload of the stream contains markers of starts and ends, and a splitter must not
// stop at them. The last message lacks a byte when the input ends.
TEST(message_splitter, gives_a_message_with_its_last_byte_and_counts_what_is_none) {
  byte_vector stream;
  auto writer = or_throw(stream_writer::open([&](bytes_view bytes) -> result<void> {
    stream.insert(stream.end(), bytes.begin(), bytes.end());
    return {};
  }));
  sample_object trap = sample(5, dtype::uint8, {64});
  const std::string_view text = "39277777TENSOGRMFR";
  std::memcpy(trap.data.data(), text.data(), text.size());
  or_throw(writer.write(trap.to_write()));
  or_throw(writer.finish());
  message_splitter splitter;
  splitter.put(from_hex("AA BB"));
  splitter.put(bytes_view(stream).first(stream.size() - 1));
  EXPECT_FALSE(splitter.take());
  EXPECT_EQ(splitter.held(), stream.size() - 1);
  splitter.put(bytes_view(stream).last(1));
  const auto piece = splitter.take();
  ASSERT_TRUE(piece);
  EXPECT_EQ(piece->bytes, stream);
  EXPECT_EQ(piece->offset, 2u);
  EXPECT_EQ(piece->skipped, 2u);
  const byte_vector whole = or_throw(encode_message({}));
  splitter.put(bytes_view(whole).first(whole.size() - 1));
  splitter.end();
  EXPECT_FALSE(splitter.take());
  EXPECT_EQ(splitter.skipped(), whole.size() - 1);
  EXPECT_TRUE(splitter.cut_short());
}

TEST(message_splitter, waits_for_no_message_that_is_larger_than_allowed) {
  byte_vector large = or_throw(encode_message({}));
  store_be<std::uint64_t>(large.data() + 16, std::uint64_t{1} << 40);
  const byte_vector next = or_throw(encode_message({}));
  message_splitter splitter(1 << 20);
  splitter.put(large);
  splitter.put(next);
  const auto piece = splitter.take();
  ASSERT_TRUE(piece);
  EXPECT_EQ(piece->offset, large.size());
  EXPECT_EQ(piece->bytes, next);
}

TEST(tensogram_fuzz, a_corpus_that_is_cut_short_says_so) {
  const auto cut = fuzz::each_input(from_hex("01000000 AA 02000000 BB"), fuzz::scan);
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().code(), errc::torn);
}

TEST(tensogram_fuzz, no_file_of_the_conformance_suite_does_harm) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(
           source_folder() + "/tests/conformance/tensogram")) {
    if (entry.path().extension() == ".tgm") {
      SCOPED_TRACE(entry.path().string());
      feed(load(entry.path().string()));
      ++files;
    }
  }
  EXPECT_GT(files, 25u);
}

TEST(tensogram_fuzz, every_byte_of_every_stage_may_be_flipped) {
  for (const byte_vector& message : corpus()) {
    for (std::size_t offset = 0; offset < message.size(); ++offset) {
      byte_vector damaged = message;
      damaged[offset] ^= static_cast<std::byte>(1u << (offset % 8));
      fuzz::decode(damaged);
    }
  }
}

TEST(tensogram_fuzz, every_message_may_end_anywhere) {
  for (const byte_vector& message : corpus()) {
    for (std::size_t size = 0; size < message.size(); size += 3) {
      const bytes_view cut = bytes_view(message).first(size);
      EXPECT_FALSE(message_reader::open(cut).has_value());
      fuzz::metadata(cut);
    }
  }
}

TEST(tensogram_fuzz, mutations_of_a_seed_do_no_harm) {
  const auto messages = corpus();
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const philox random(seed, 11);
    byte_vector input = messages[random.bits(0) % messages.size()];
    for (std::uint64_t k = 0; k < 1 + random.bits(1) % 6; ++k) {
      const std::size_t offset = random.bits(10 + 3 * k) % input.size();
      switch (random.bits(11 + 3 * k) % 4) {
        case 0:
          input[offset] = static_cast<std::byte>(random.bits(12 + 3 * k) & 0xFF);
          break;
        case 1: input[offset] = std::byte{0xFF}; break;
        case 2: input.erase(input.begin() + static_cast<std::ptrdiff_t>(offset)); break;
        default: {
          const std::size_t from = random.bits(12 + 3 * k) % input.size();
          const std::size_t n =
              std::min({std::size_t{8}, input.size() - offset, input.size() - from});
          std::copy_n(input.begin() + static_cast<std::ptrdiff_t>(from), n,
                      input.begin() + static_cast<std::ptrdiff_t>(offset));
        }
      }
    }
    feed(input);
  }
}

}  // namespace
}  // namespace weir::test
