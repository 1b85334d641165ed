// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests szip: ranges are right whether or not the offsets are, intervals may end at
/// bytes, and damaged streams decode as libaec decodes them.
#include "formats/codec/szip_messages.hpp"

#include <atomic>
#include <cstdlib>

#include "formats/codec/libaec_peer.hpp"
#include "support/case_count.hpp"
#include "tensogram/codec/szip.hpp"
#include "weir/formats/tensogram_validate.hpp"

namespace weir::test {
namespace {

using namespace formats;

/// Returns the number of messages whose ranges are all decoded; `WEIR_TEST_SZIP_MESSAGES`
/// sets another.
std::uint64_t message_count() {
  return case_count("WEIR_TEST_SZIP_MESSAGES", 40);
}

TEST(tensogram_szip, every_range_is_the_slice_of_the_whole) {
  std::uint64_t tried = 0;
  for (std::uint64_t seed = 0; seed < message_count(); ++seed) {
    const byte_vector marked = szip_message(random_szip_object(seed, 120));
    for (const byte_vector& message : {marked, with_small_offsets(marked, 8)}) {
      const range_count ranges = every_range(message);
      EXPECT_EQ(ranges.wrong, 0u) << "seed " << seed << ", of " << ranges.tried;
      tried += ranges.tried;
    }
  }
  std::cout << "[ ranges   ] " << tried << "\n";
}

/// A source that counts the bytes that were read from it.
class counting_source final : public byte_source {
 public:
  explicit counting_source(bytes_view bytes) : bytes_(bytes) {}
  std::uint64_t size() const noexcept override { return bytes_.size(); }
  const std::string& name() const noexcept override { return name_; }
  result<void> read(std::uint64_t offset, mutable_bytes to) const override {
    read_ += to.size();
    return memory_byte_source(bytes_).read(offset, to);
  }
  std::uint64_t take_count() const { return read_.exchange(0); }

 private:
  bytes_view bytes_;
  std::string name_ = "counted";
  mutable std::atomic<std::uint64_t> read_{0};
};

/// Returns an object whose payload is much larger than one of its ranges.
sample_object large_object() {
  sample_object out = random_szip_object(3, 1);
  out.descriptor.type = dtype::uint16;
  out.descriptor.order = native_byte_order;
  out.descriptor.encoding = "none";
  out.descriptor.shape = {50'000};
  out.data = random_bytes(4, 100'000);
  return out;
}

TEST(tensogram_szip, a_range_reads_its_intervals_alone_where_the_offsets_are_marked) {
  const sample_object object = large_object();
  const byte_vector marked = szip_message(object);
  const byte_vector unmarked = with_small_offsets(marked, 0);
  const auto bytes_read = [&](const byte_vector& message) {
    const auto source = std::make_shared<counting_source>(message);
    const auto reader = or_throw(message_reader::open(source, {0, message.size()}));
    (void)source->take_count();
    const bytes_view expected = bytes_view(object.data).subspan(60'000, 200);
    EXPECT_EQ(or_throw(reader.decode_range(0, 30'000, 100)),
              byte_vector(expected.begin(), expected.end()));
    return source->take_count();
  };
  EXPECT_LT(bytes_read(marked), 3'000u);
  EXPECT_GT(bytes_read(unmarked), 90'000u);
}

// A message is written again from its stored payload, first with its offsets, then with a
// changed one. With the changed offset the mark must not count, so the range still comes
// out right.
TEST(tensogram_szip, a_mark_vouches_for_its_own_offsets_alone) {
  const sample_object object = large_object();
  const byte_vector message = szip_message(object);
  const auto reader = or_throw(message_reader::open(message));
  const byte_vector region = or_throw(reader.stored_region(0));
  const auto again = [&](const object_descriptor& descriptor) {
    const object_to_write one{descriptor, {}, region, true};
    return or_throw(encode_message({&one, 1}));
  };
  object_descriptor descriptor = reader.descriptor(0);
  EXPECT_NE(descriptor.szip_offsets, 0u);
  EXPECT_EQ(again(descriptor), message) << "the mark is stored with the payload";
  EXPECT_TRUE(validate(message, {validation_level::fidelity}).ok());

  cbor_array& offsets = *descriptor.parameters.find("szip_block_offsets")->array();
  offsets[20] = *offsets[20].uint64() - 1;
  const byte_vector changed = again(descriptor);
  const auto other = or_throw(message_reader::open(changed));
  const std::size_t interval =
      object.descriptor.parameters.find("szip_rsi")->uint64().value() *
      object.descriptor.parameters.find("szip_block_size")->uint64().value();
  const byte_vector part = or_throw(other.decode_range(0, 20 * interval, 5));
  EXPECT_TRUE(
      std::equal(part.begin(), part.end(),
                 object.data.begin() + static_cast<std::ptrdiff_t>(2 * 20 * interval)));

  descriptor.order = byte_order::little;
  const object_to_write decoded{descriptor, {}, object.data};
  EXPECT_EQ(or_throw(encode_message({&decoded, 1})), message)
      << "a writer that computes the offsets marks them";
}

/// A stream in which every interval ends at a byte, as some writers leave it.
struct padded_stream {
  byte_vector bytes;
  std::vector<std::uint64_t> offsets;
};
/// Copies the intervals of a dense stream so that each starts at a byte.
padded_stream pad_intervals(const aec_code& code) {
  padded_stream out;
  const bytes_view from = code.code.bytes;
  for (std::size_t i = 0; i < code.offsets.size(); ++i) {
    const std::uint64_t end =
        i + 1 < code.offsets.size() ? code.offsets[i + 1] : 8 * from.size();
    out.offsets.push_back(8 * out.bytes.size());
    std::uint64_t first_bit = code.offsets[i];
    for (; first_bit < end; first_bit += 8) {
      unsigned byte = 0;
      for (unsigned k = 0; k < 8; ++k) {
        const std::uint64_t bit = first_bit + k;
        const unsigned value =
            bit < end ? std::to_integer<unsigned>(from[bit / 8]) >> (7 - bit % 8) & 1u
                      : 0u;
        byte = byte << 1 | value;
      }
      out.bytes.push_back(static_cast<std::byte>(byte));
    }
  }
  return out;
}

// Writers set the flag for padded intervals without padding them, so the decoder has to
// find out from the stream. Few streams are ambiguous without offsets; these may be
// refused.
TEST(tensogram_szip, the_flag_for_padded_intervals_is_looked_up_in_the_stream) {
  std::size_t ambiguous = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    numbers random(seed);
    aec_parameters p;
    p.rsi = static_cast<unsigned>(1 + random.below(4));
    byte_vector samples;
    for (const std::uint64_t value : szip_values(random, 1 + random.below(3000))) {
      samples.push_back(static_cast<std::byte>(value));
    }
    const aec_code dense = or_throw(aec_encode(samples, p, 1));
    const padded_stream padded = pad_intervals(dense);
    p.padded = true;
    const auto decodes = [&](bytes_view bytes,
                             const std::vector<std::uint64_t>& offsets) {
      byte_vector back(samples.size());
      const auto done = szip_decode({bytes, p, offsets, samples.size()}, back, 1);
      if (!done && done.error().code() == errc::unsupported) {
        ++ambiguous;
        return offsets.empty();  // only offsets can tell the two layouts apart
      }
      return done.has_value() && back == samples;
    };
    EXPECT_TRUE(decodes(dense.code.bytes, dense.offsets));
    EXPECT_TRUE(decodes(padded.bytes, padded.offsets));
    EXPECT_TRUE(decodes(dense.code.bytes, {}));
    EXPECT_TRUE(decodes(padded.bytes, {}));
  }
  EXPECT_LT(ambiguous, 20u);
}

/// Returns what libaec decodes, or nothing if it refuses the stream or finds fewer
/// samples.
std::optional<byte_vector> libaec_decode(bytes_view from, const aec_parameters& p,
                                         std::size_t size) {
  byte_vector copy(from.begin(), from.end());
  copy.resize(from.size() + 4096);  // libaec reads behind the end of damaged streams
  byte_vector out(size);
  ::aec_stream stream = libaec_stream(bytes_view(copy).first(from.size()), out, p);
  const int code = aec_buffer_decode(&stream);
  return code == AEC_OK && stream.total_out == size ? std::optional(out) : std::nullopt;
}

/// Returns a stream that is cut, changed in some bytes, or replaced by random bytes.
byte_vector damaged(numbers& random, bytes_view from) {
  byte_vector out(from.begin(), from.end());
  switch (random.below(3)) {
    case 0: out.resize(random.below(out.size() + 1)); break;
    case 1:
      for (std::uint64_t n = 1 + random.below(3); n > 0; --n) {
        out[random.below(out.size())] ^= static_cast<std::byte>(1 + random.below(255));
      }
      break;
    default: out = random_bytes(random.next(), 1 + random.below(out.size() + 40));
  }
  return out;
}

/// About one stream in 80,000 has a very long code near its end. The verdict of libaec on
/// it depends on how libaec fills its buffers, so the seeds contain no such stream.
TEST(tensogram_szip, damaged_streams_decode_as_libaec_decodes_them) {
  std::size_t decoded = 0;
  for (std::uint64_t seed = 0; seed < 4000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    numbers random(seed);
    aec_parameters p;
    p.sample_bytes = static_cast<unsigned>(1 + random.below(4));
    p.bits = 8 * p.sample_bytes;
    p.block = 8u << random.below(4);
    p.rsi = static_cast<unsigned>(1 + random.below(130));
    p.preprocess = random.below(4) != 0;
    p.is_signed = random.below(3) == 0;
    p.big_endian = random.below(2) == 0;
    byte_vector samples;
    for (const std::uint64_t value : szip_values(random, 1 + random.below(800))) {
      samples.resize(samples.size() + p.sample_bytes);
      samples[samples.size() - 1] = static_cast<std::byte>(value);
    }
    const aec_code code = or_throw(aec_encode(samples, p, 1));
    const byte_vector payload = damaged(random, code.code.bytes);
    byte_vector back(samples.size());
    const auto done = aec_decode(payload, 0, p, back);
    const auto expected = libaec_decode(payload, p, samples.size());
    ASSERT_EQ(done.has_value(), expected.has_value())
        << (done ? "read" : done.error().text());
    if (expected) {
      ASSERT_EQ(back, *expected);
      ++decoded;
    }
  }
  EXPECT_GT(decoded, 500u);
}

TEST(tensogram_szip, a_message_with_the_flag_for_padded_intervals_is_read) {
  // The reference sets the flag and pads no interval.
  sample_object object = random_szip_object(5, 1);
  object.descriptor.type = dtype::uint8;
  object.descriptor.shape = {300};
  numbers random(8);
  object.data.clear();
  for (const std::uint64_t value : szip_values(random, 300)) {
    object.data.push_back(static_cast<std::byte>(value));
  }
  const byte_vector plain = szip_message(object);
  const auto reader = or_throw(message_reader::open(plain));
  object_descriptor descriptor = reader.descriptor(0);
  const auto flags = descriptor.parameters.find("szip_flags")->uint64().value();
  descriptor.parameters.set("szip_flags", flags | 32);
  const byte_vector region = or_throw(reader.stored_region(0));
  const object_to_write one{descriptor, {}, region, true};
  const byte_vector message = or_throw(encode_message({&one, 1}));
  const auto flagged = or_throw(message_reader::open(message));
  EXPECT_EQ(or_throw(flagged.decode(0)), object.data);
  EXPECT_EQ(every_range(message).wrong, 0u);
  EXPECT_TRUE(validate(message).ok());
}

}  // namespace
}  // namespace weir::test
