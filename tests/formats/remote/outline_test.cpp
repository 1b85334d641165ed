// SPDX-License-Identifier: Apache-2.0
/// @file
/// Compares the outline of a message, which reads single objects, with the reader of the
/// whole message.
#include "weir/formats/tensogram_outline.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "formats/support.hpp"
#include "support/fixtures.hpp"
#include "support/folders.hpp"
#include "tensogram/wire/metadata.hpp"
#include "tensogram/wire/wire.hpp"

namespace weir::test {
namespace {

using formats::message_outline;
using formats::message_reader;
using formats::message_span;

/// A source that counts the bytes that are read from it. It offers no view of its memory,
/// so every access is counted.
class counting_source final : public formats::byte_source {
 public:
  explicit counting_source(bytes_view content) : inner_(content) {}
  std::uint64_t size() const noexcept override { return inner_.size(); }
  result<void> read(std::uint64_t offset, mutable_bytes to) const override {
    bytes_read += to.size();
    return inner_.read(offset, to);
  }
  const std::string& name() const noexcept override { return inner_.name(); }

  mutable std::uint64_t bytes_read = 0;

 private:
  formats::memory_byte_source inner_;
};

/// Expects that the reader of a single object agrees with the reader of the whole
/// message.
void expect_same_object(const message_reader& whole, std::size_t i,
                        const result<message_reader>& alone) {
  ASSERT_TRUE(alone) << alone.error().message();
  ASSERT_EQ(alone->object_count(), 1u);
  EXPECT_TRUE(alone->descriptor(0) == whole.descriptor(i));
  EXPECT_TRUE(alone->metadata(0) == whole.metadata(i));
  EXPECT_TRUE(alone->metadata().extra == whole.metadata().extra);
  EXPECT_EQ(alone->object_bytes(0), whole.object_bytes(i));
  const auto wanted = whole.decode(i);
  const auto found = alone->decode(0);
  ASSERT_EQ(static_cast<bool>(found), static_cast<bool>(wanted));
  if (wanted) {
    EXPECT_EQ(*found, *wanted);
  } else {
    EXPECT_EQ(found.error().code(), wanted.error().code());
    EXPECT_EQ(found.error().message(), wanted.error().message());
  }
}

/// Compares all objects of all messages of a file. Returns the number of objects.
std::size_t compare_file(bytes_view file) {
  const auto source = std::make_shared<counting_source>(file);
  std::size_t objects = 0;
  for (const message_span span : formats::scan(file)) {
    const auto whole = message_reader::open(source, span);
    if (!whole) {
      continue;
    }
    const auto outline = message_outline::open(source, span);
    EXPECT_TRUE(outline) << outline.error().message();
    if (!outline) {
      continue;
    }
    EXPECT_EQ(outline->object_count(), whole->object_count());
    for (std::size_t i = 0; i < whole->object_count(); ++i) {
      SCOPED_TRACE(i);
      expect_same_object(*whole, i, outline->object(i));
      ++objects;
    }
  }
  return objects;
}

TEST(TensogramOutline,
     ReadsEveryObjectOfTheConformanceSuiteLikeTheReaderOfWholeMessages) {
  std::size_t objects = 0;
  const std::string suite = source_folder() + "/tests/conformance/tensogram";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(suite)) {
    if (entry.path().extension() == ".tgm") {
      SCOPED_TRACE(entry.path().string());
      objects += compare_file(load(entry.path().string()));
    }
  }
  EXPECT_GT(objects, 30u);
}

TEST(TensogramOutline, ReadsEveryObjectOfTheReferencesFilesLikeTheReaderOfWholeMessages) {
  WEIR_NEEDS_FIXTURES(folder, "tensogram");
  std::size_t objects = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == ".tgm") {
      SCOPED_TRACE(entry.path().string());
      objects += compare_file(load(entry.path().string()));
    }
  }
  EXPECT_GT(objects, 2900u);
}

/// Returns a stream of three objects with metadata in preceders.
byte_vector stream_with_preceders(bool hashes) {
  byte_vector out;
  formats::message_options options;
  options.hashes = hashes;
  auto writer = or_throw(formats::stream_writer::open(
      [&](bytes_view bytes) -> result<void> {
        append(out, bytes);
        return {};
      },
      options));
  for (std::uint64_t i = 0; i < 3; ++i) {
    auto object = sample(i, dtype::fp32, {5 + static_cast<std::int64_t>(i)});
    object.metadata = {{"name", "part" + std::to_string(i)}, {"step", i}};
    or_throw(writer.write(object.to_write()));
  }
  or_throw(writer.finish());
  return out;
}

/// Writes shorter CBOR over the body of the first frame of a type. Readers ignore bytes
/// behind a CBOR item.
void overwrite_frame(byte_vector& message, std::uint16_t type, bytes_view cbor) {
  const auto reader = or_throw(message_reader::open(bytes_view(message)));
  for (const auto& frame : reader.frames()) {
    if (frame.type == type) {
      std::copy(cbor.begin(), cbor.end(),
                message.begin() + static_cast<std::ptrdiff_t>(
                                      frame.offset + formats::frame_header_size));
      return;
    }
  }
  throw std::runtime_error("no such frame");
}

TEST(TensogramOutline, FindsTheKeysOfPreceders) {
  byte_vector file = stream_with_preceders(false);
  EXPECT_EQ(compare_file(file), 3u);
  // Now the footer does not repeat the keys of the preceders.
  const formats::message_metadata bare{std::vector<formats::cbor_map>(3), {}, {}};
  overwrite_frame(file, formats::frame_type::footer_metadata,
                  formats::encode_cbor(formats::make_metadata(bare)));
  EXPECT_EQ(compare_file(file), 3u);
  const auto source = std::make_shared<counting_source>(file);
  const auto outline = or_throw(message_outline::open(source, {0, file.size()}));
  EXPECT_TRUE(outline.metadata().base[2].empty());
  const auto reader = or_throw(outline.object(2));
  ASSERT_NE(reader.metadata(0).find("name"), nullptr);
  EXPECT_EQ(*reader.metadata(0).find("name")->text(), "part2");
}

TEST(TensogramOutline, NamesTheObjectByItsNumberInTheMessage) {
  std::vector<sample_object> objects;
  for (std::uint64_t i = 0; i < 4; ++i) {
    objects.push_back(sample(i, dtype::fp32, {64}));
    objects.back().metadata = {{"name", "o" + std::to_string(i)}};
  }
  byte_vector file = or_throw(formats::encode_message(to_write(objects)));
  const auto clean = or_throw(message_outline::open(
      std::make_shared<formats::memory_byte_source>(file), {0, file.size()}));
  EXPECT_EQ(clean.find("o2"), std::size_t{2});
  EXPECT_EQ(clean.find("o9"), std::nullopt);
  file[clean.frame(2).offset + formats::frame_header_size] ^= std::byte{1};
  const auto source =
      std::make_shared<formats::memory_byte_source>(bytes_view(file), "a.tgm");
  const auto outline = or_throw(message_outline::open(source, {0, file.size()}));
  const auto damaged = or_throw(outline.object(2)).decode(0);
  ASSERT_FALSE(damaged);
  EXPECT_EQ(damaged.error().code(), errc::hash_mismatch);
  EXPECT_NE(damaged.error().message().find("(object 2 \"o2\")"), std::string::npos)
      << damaged.error().message();
  EXPECT_TRUE(or_throw(outline.object(3)).decode(0));
  const auto beyond = outline.object(4);
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().code(), errc::not_found);
}

TEST(TensogramOutline, ReadsOfABigMessageOnlyTheObjectThatIsAskedFor) {
  std::vector<sample_object> objects;
  for (std::uint64_t i = 0; i < 50; ++i) {
    objects.push_back(sample(i, dtype::fp32, {20000}));
  }
  const byte_vector file = or_throw(formats::encode_message(to_write(objects)));
  const auto source = std::make_shared<counting_source>(file);
  const auto outline = or_throw(message_outline::open(source, {0, file.size()}));
  EXPECT_LT(source->bytes_read, 24u << 10);
  EXPECT_EQ(or_throw(or_throw(outline.object(33)).decode(0)), objects[33].data);
  EXPECT_LT(source->bytes_read, (24u << 10) + 80000 + 1024);
  EXPECT_GT(file.size(), 50u * 80000);
}

/// Returns an szip object of noise with many intervals, so that its payload is large and
/// its writer marks the offsets of the intervals.
sample_object marked_szip_object() {
  sample_object out = sample(7, dtype::uint16, {100000});
  out.descriptor.compression = "szip";
  out.descriptor.parameters = {
      {"szip_rsi", 64u}, {"szip_block_size", 16u}, {"szip_flags", 8u}};
  return out;
}

/// Returns a stream of one object. Its `_reserved_` entry stands in the footer alone,
/// because an object without metadata gets no preceder.
byte_vector stream_of(const sample_object& object) {
  byte_vector out;
  auto writer = or_throw(formats::stream_writer::open([&](bytes_view bytes) {
    append(out, bytes);
    return result<void>();
  }));
  or_throw(writer.write(object.to_write()));
  or_throw(writer.finish());
  return out;
}

TEST(TensogramOutline, ReadsOfASzipObjectWithMarkedOffsetsOnlyTheRange) {
  sample_object object = marked_szip_object();
  const formats::object_to_write alone = object.to_write();
  object.metadata = {{"name", "noise"}};
  for (const byte_vector& file : {or_throw(formats::encode_message({&alone, 1})),
                                  stream_of(marked_szip_object()), stream_of(object)}) {
    ASSERT_NE(or_throw(message_reader::open(bytes_view(file))).descriptor(0).szip_offsets,
              0u);
    EXPECT_EQ(compare_file(file), 1u);
    const auto source = std::make_shared<counting_source>(file);
    const auto outline = or_throw(message_outline::open(source, {0, file.size()}));
    const auto reader = or_throw(outline.object(0));
    source->bytes_read = 0;
    const byte_vector part = or_throw(reader.decode_range(0, 90000, 10));
    ASSERT_EQ(part.size(), 20u);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), object.data.begin() + 180000));
    // An interval has 2048 bytes of noise; the payload has about 200000.
    EXPECT_LT(source->bytes_read, 8192u);
  }
}

// Every byte is damaged in turn. The outline may refuse, but an object that it decodes
// must be the one with that number in the undamaged message.
TEST(TensogramOutline, OfADamagedMessageNoObjectIsTakenForAnother) {
  const byte_vector stream = stream_with_preceders(true);
  const byte_vector whole = or_throw(formats::encode_message(to_write(small_objects())));
  for (const byte_vector& sound : {stream, whole}) {
    const auto truth = or_throw(message_reader::open(bytes_view(sound)));
    std::size_t refused = 0;
    for (std::size_t offset = 0; offset < sound.size(); ++offset) {
      for (const unsigned bit : {0u, 3u, 7u}) {
        byte_vector file = sound;
        file[offset] ^= static_cast<std::byte>(1u << bit);
        const auto source = std::make_shared<counting_source>(file);
        const auto outline = message_outline::open(source, {0, file.size()});
        refused += !outline;
        for (std::size_t i = 0; outline && i < outline->object_count(); ++i) {
          const auto reader = outline->object(i);
          const auto found =
              reader ? reader->decode(0) : result<byte_vector>(reader.error());
          refused += !found;
          if (found && i < truth.object_count()) {
            ASSERT_EQ(*found, or_throw(truth.decode(i)))
                << "byte " << offset << " bit " << bit;
          }
        }
      }
    }
    EXPECT_GT(refused, sound.size());
  }
}

// The index in the header is replaced by one that lists the first object only. Without
// digests nothing else shows the damage.
TEST(TensogramOutline, AnIndexThatLeavesAnObjectOutIsRefused) {
  formats::message_options options;
  options.hashes = false;
  byte_vector file =
      or_throw(formats::encode_message(to_write(small_objects()), options));
  const auto whole = or_throw(message_reader::open(bytes_view(file)));
  formats::object_index index;
  for (const auto& frame : whole.frames()) {
    if (frame.type == formats::frame_type::object && index.offsets.empty()) {
      index = {{frame.offset}, {frame.length}};
    }
  }
  overwrite_frame(file, formats::frame_type::header_index,
                  formats::encode_cbor(formats::make_index(index)));
  const auto outline = message_outline::open(
      std::make_shared<formats::memory_byte_source>(file), {0, file.size()});
  ASSERT_FALSE(outline);
  EXPECT_EQ(outline.error().code(), errc::corrupt);
  EXPECT_NE(outline.error().message().find("cannot trust index"), std::string::npos);
}

}  // namespace
}  // namespace weir::test
