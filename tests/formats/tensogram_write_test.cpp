// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests messages that this project writes and reads back: types, shapes, byte orders,
/// compression, options, streams and sources.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <limits>

#include "formats/support.hpp"
#include "support/temp_folder.hpp"
#include "weir/formats/tensogram.hpp"
#include "weir/formats/tensogram_validate.hpp"

namespace weir::test {
namespace {

using namespace formats;

constexpr read_options strict{hash_check::required, false, false};

/// Returns all element types that Tensogram has.
std::vector<dtype> tensogram_types() {
  std::vector<dtype> out;
  for (const dtype_info& row : all_dtypes()) {
    if (!row.tensogram.empty()) {
      out.push_back(row.id);
    }
  }
  return out;
}

/// Collects the bytes of a stream, and lets the writer change bytes that it has written
/// before.
struct collected {
  byte_vector bytes;
  /// Returns the function that takes the bytes of a stream.
  byte_sink sink() {
    return [this](bytes_view piece) {
      append(bytes, piece);
      return result<void>();
    };
  }
  /// Returns the function that replaces bytes.
  byte_patch patch() {
    return [this](std::uint64_t offset, bytes_view piece) {
      std::copy(piece.begin(), piece.end(),
                bytes.begin() + static_cast<std::ptrdiff_t>(offset));
      return result<void>();
    };
  }
};

TEST(tensogram_write, objects_come_back_over_types_shapes_orders_and_compression) {
  constexpr std::uint64_t seed = 42;
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::uint64_t k = seed;
  ASSERT_EQ(tensogram_types().size(), 15u);
  for (const dtype type : tensogram_types()) {
    std::vector<sample_object> objects;
    for (const shape_vector& shape :
         {shape_vector{}, shape_vector{0}, shape_vector{3, 0, 2}, shape_vector{1},
          shape_vector{7, 3}, shape_vector{2, 1, 3, 1, 5}, shape_vector{5000}}) {
      for (const byte_order order : {byte_order::little, byte_order::big}) {
        for (const char* compression : {"none", "zstd"}) {
          objects.push_back(sample(k++, type, shape, order, compression));
          objects.back().metadata = {{"k", k}};
        }
      }
    }
    const byte_vector message = or_throw(encode_message(to_write(objects)));
    EXPECT_EQ(message.size() % 8, 0u);
    EXPECT_TRUE(validate(message, {validation_level::fidelity, true}).ok());
    const auto reader = or_throw(message_reader::open(message, strict));
    ASSERT_EQ(reader.object_count(), objects.size());
    for (std::size_t i = 0; i < objects.size(); ++i) {
      const object_descriptor& d = reader.descriptor(i);
      EXPECT_EQ(d.type, type);
      EXPECT_EQ(d.shape, objects[i].descriptor.shape);
      EXPECT_EQ(d.order, objects[i].descriptor.order);
      EXPECT_EQ(or_throw(reader.decode(i)), objects[i].data);
      EXPECT_EQ(reader.metadata(i).find("k")->uint64(),
                objects[i].metadata.find("k")->uint64());
    }
    const auto native = or_throw(message_reader::open(message));
    for (std::size_t i = 0; i < objects.size(); ++i) {
      byte_vector expected = objects[i].data;
      if (objects[i].descriptor.order != native_byte_order) {
        swap_units(expected, info_of(type).swap_unit);
      }
      EXPECT_EQ(or_throw(native.decode(i)), expected);
    }
  }
}

TEST(tensogram_write, equal_content_gives_equal_bytes_and_provenance_can_be_set) {
  const auto objects = small_objects();
  const byte_vector a = or_throw(encode_message(to_write(objects)));
  EXPECT_EQ(a, or_throw(encode_message(to_write(objects))));
  const auto plain = or_throw(message_reader::open(a));
  EXPECT_EQ(plain.metadata().reserved.find("time"), nullptr);
  EXPECT_EQ(plain.metadata().reserved.find("uuid"), nullptr);
  EXPECT_EQ(*find_path(plain.metadata().reserved, "encoder.name")->text(), "weir");
  message_options options;
  options.writer.time = "2026-01-02T03:04:05Z";
  options.writer.uuid = "00000000-0000-4000-8000-000000000001";
  const byte_vector b = or_throw(encode_message(to_write(objects), options));
  const auto set = or_throw(message_reader::open(b));
  EXPECT_EQ(*set.metadata().reserved.find("time")->text(), "2026-01-02T03:04:05Z");
  options.writer = {};
  options.writer.reproducible = false;
  const byte_vector c = or_throw(encode_message(to_write(objects), options));
  const auto stamped = or_throw(message_reader::open(c));
  const std::string uuid = *stamped.metadata().reserved.find("uuid")->text();
  ASSERT_EQ(uuid.size(), 36u);
  EXPECT_EQ(uuid[14], '4');
  EXPECT_EQ(stamped.metadata().reserved.find("time")->text()->size(), 20u);
  EXPECT_NE(c, or_throw(encode_message(to_write(objects), options)));
}

TEST(tensogram_write, flags_say_what_the_reference_would_say) {
  const auto objects = small_objects();
  const auto flags = [&](bool hashes, hash_list list, std::size_t count = 2) {
    message_options options;
    options.hashes = hashes;
    options.list = list;
    const auto writable = to_write(objects);
    const byte_vector bytes =
        or_throw(encode_message(std::span(writable).first(count), options));
    EXPECT_TRUE(validate(bytes).ok());
    return or_throw(message_reader::open(bytes)).flags();
  };
  EXPECT_EQ(flags(true, hash_list::automatic), 0x95);
  EXPECT_EQ(flags(true, hash_list::header), 0x95);
  EXPECT_EQ(flags(true, hash_list::none), 0x85);
  EXPECT_EQ(flags(true, hash_list::footer), 0xA5);
  EXPECT_EQ(flags(true, hash_list::both), 0xB5);
  EXPECT_EQ(flags(false, hash_list::automatic), 0x05);
  EXPECT_EQ(flags(true, hash_list::automatic, 0), 0x81);
  EXPECT_EQ(flags(false, hash_list::automatic, 0), 0x01);
}

// The length of the index depends on the offsets in it, and these on the length of the
// index. The counts and texts lie around the sizes at which a number needs one byte more.
TEST(tensogram_write, the_index_settles_at_every_size) {
  constexpr std::array<std::size_t, 13> counts{1,   22,  23,  24,  25,  255, 256,
                                               257, 300, 600, 842, 843, 3000};
  for (const std::size_t count : counts) {
    std::vector<sample_object> objects(count, sample(1, dtype::uint8, {1}));
    const byte_vector message = or_throw(encode_message(to_write(objects)));
    const auto reader = message_reader::open(message, strict);
    ASSERT_TRUE(reader.has_value()) << reader.error().message();
    EXPECT_EQ(reader->object_count(), count);
  }
  constexpr std::array<std::size_t, 8> texts{64500, 65000, 65100, 65200,
                                             65300, 65400, 65500, 65600};
  for (const std::size_t text : texts) {
    std::vector<sample_object> objects(30, sample(1, dtype::uint8, {100}));
    message_options options;
    options.extra = {{"note", std::string(text, 'n')}};
    const byte_vector message = or_throw(encode_message(to_write(objects), options));
    EXPECT_TRUE(message_reader::open(message, strict).has_value()) << text;
  }
}

TEST(tensogram_write, an_object_that_cannot_be_written_is_refused_by_name) {
  const auto refusal = [](const sample_object& object) {
    const auto message = encode_message(to_write({object}));
    EXPECT_FALSE(message.has_value());
    EXPECT_EQ(message.error().location(), "object 0");
    return message.error();
  };
  sample_object good = sample(1, dtype::fp32, {4});
  sample_object bad = good;
  bad.data.pop_back();
  EXPECT_EQ(refusal(bad).code(), errc::invalid_argument);
  bad = good;
  bad.descriptor.compression = "sz3";
  EXPECT_EQ(refusal(bad).code(), errc::unsupported);
  EXPECT_NE(refusal(bad).text().find("sz3"), std::string::npos);
  EXPECT_NE(refusal(bad).text().find("none, lz4, zstd"), std::string::npos);
  bad = good;
  bad.descriptor.compression = "brotli";
  EXPECT_EQ(refusal(bad).code(), errc::invalid_argument);
  bad = good;
  bad.descriptor.encoding = "simple_packing";
  EXPECT_EQ(refusal(bad).code(), errc::invalid_argument);
  bad = good;
  bad.descriptor.filter = "shuffle";
  EXPECT_EQ(refusal(bad).code(), errc::unknown_key);
  bad = good;
  bad.descriptor.type = dtype::fp8_e4m3;
  EXPECT_EQ(refusal(bad).code(), errc::unsupported);
  bad = good;
  bad.descriptor.object_type.clear();
  EXPECT_EQ(refusal(bad).code(), errc::invalid_argument);
  bad = good;
  bad.descriptor.parameters = {{"shape", 1}};
  EXPECT_EQ(refusal(bad).code(), errc::invalid_argument);
  bad = good;
  bad.metadata = {{"_reserved_", cbor_map{}}};
  EXPECT_EQ(refusal(bad).code(), errc::invalid_argument);
  bad = good;
  bad.descriptor.shape = {std::int64_t{1} << 40, std::int64_t{1} << 40};
  EXPECT_EQ(refusal(bad).code(), errc::out_of_range);
  bad = sample(1, dtype::uint8, {4}, byte_order::little, "zstd");
  bad.descriptor.parameters = {{"zstd_level", "high"}};
  EXPECT_EQ(refusal(bad).code(), errc::unknown_key);
}

/// Expects that a writer refuses an object with one non-finite element and names the
/// element, that it stores the element when asked to, and that validation then reports
/// it.
template <class T>
void expect_non_finite(dtype type, T pattern, std::size_t components, bool nan) {
  for (const byte_order order : {byte_order::little, byte_order::big}) {
    sample_object object = sample(3, type, {3000}, order);
    const std::size_t component = 2000 * components + (components - 1);
    const T stored = order == native_byte_order ? pattern : byteswap(pattern);
    std::memcpy(object.data.data() + component * sizeof(T), &stored, sizeof(T));
    const auto refused = encode_message(to_write({object}));
    ASSERT_FALSE(refused.has_value());
    EXPECT_NE(refused.error().text().find("element 2000"), std::string::npos)
        << refused.error().text();
    EXPECT_EQ(refused.error().text().find("NaN") != std::string::npos, nan);
    message_options options;
    options.floats = non_finite::store;
    const byte_vector encoded = or_throw(encode_message(to_write({object}), options));
    EXPECT_EQ(or_throw(or_throw(message_reader::open(encoded, strict)).decode(0)),
              object.data);
    EXPECT_TRUE(validate(encoded).ok());
    const file_report report = validate(encoded, {validation_level::fidelity});
    EXPECT_FALSE(report.ok());
    EXPECT_EQ(report.messages[0].issues.back().code,
              nan ? "nan_detected" : "inf_detected");
  }
}

TEST(tensogram_write, non_finite_values_are_refused_unless_stored_on_purpose) {
  expect_non_finite<std::uint16_t>(dtype::fp16, 0x7C01, 1, true);
  expect_non_finite<std::uint16_t>(dtype::fp16, 0xFC00, 1, false);
  expect_non_finite<std::uint16_t>(dtype::bf16, 0x7FC0, 1, true);
  expect_non_finite<std::uint16_t>(dtype::bf16, 0xFF80, 1, false);
  expect_non_finite<std::uint32_t>(dtype::fp32, 0x7F800001, 1, true);
  expect_non_finite<std::uint32_t>(dtype::fp32, 0xFF800000, 1, false);
  expect_non_finite<std::uint32_t>(dtype::complex64, 0xFFC00000, 2, true);
  expect_non_finite<std::uint64_t>(dtype::fp64, 0x7FF0000000000001, 1, true);
  expect_non_finite<std::uint64_t>(dtype::fp64, 0xFFF0000000000000, 1, false);
  expect_non_finite<std::uint64_t>(dtype::complex128, 0x7FF0000000000000, 2, false);
}

TEST(tensogram_write, memory_is_reused_and_a_refusal_names_the_object) {
  auto objects = small_objects();
  byte_vector buffer(1 << 16, std::byte{9});
  or_throw(encode_message_into(buffer, to_write(objects)));
  EXPECT_EQ(buffer, or_throw(encode_message(to_write(objects))));
  objects[1].data.clear();
  const auto refused = encode_message(to_write(objects));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().location(), "object 1");
}

TEST(tensogram_write, unknown_parameters_of_a_descriptor_are_kept) {
  sample_object object = sample(1, dtype::int32, {4}, byte_order::little, "zstd");
  object.descriptor.parameters = {{"zstd_level", 9}, {"note", "kept"}};
  const byte_vector message = or_throw(encode_message(to_write({object})));
  const auto reader = or_throw(message_reader::open(message));
  EXPECT_EQ(reader.descriptor(0).parameters, object.descriptor.parameters);
  EXPECT_EQ(or_throw(reader.decode(0)), object.data);
}

TEST(tensogram_stream, holds_what_a_whole_message_holds) {
  const auto objects = small_objects();
  for (const bool seekable : {false, true}) {
    for (const bool hashes : {false, true}) {
      collected out;
      message_options options;
      options.hashes = hashes;
      options.extra = {{"run", 3}};
      auto writer = or_throw(stream_writer::open(out.sink(), options));
      for (const sample_object& object : objects) {
        or_throw(writer.write(object.to_write()));
      }
      EXPECT_EQ(writer.object_count(), 2u);
      or_throw(seekable ? writer.finish(out.patch()) : writer.finish());
      EXPECT_EQ(writer.bytes_written(), out.bytes.size());
      EXPECT_FALSE(writer.finish().has_value());
      EXPECT_TRUE(validate(out.bytes, {validation_level::fidelity, true}).ok());
      const auto reader = or_throw(message_reader::open(out.bytes));
      EXPECT_EQ(reader.streamed(), !seekable);
      EXPECT_EQ(reader.flags(), hashes ? 0xEB : 0x4B);
      for (std::size_t i = 0; i < objects.size(); ++i) {
        EXPECT_EQ(*reader.metadata(i).find("name"), *objects[i].metadata.find("name"));
        byte_vector expected = objects[i].data;
        if (objects[i].descriptor.order != native_byte_order) {
          swap_units(expected, info_of(objects[i].descriptor.type).swap_unit);
        }
        EXPECT_EQ(or_throw(reader.decode(i)), expected);
      }
      EXPECT_EQ(reader.find("counts"), std::size_t{1});
      EXPECT_EQ(reader.find("absent"), std::nullopt);
      EXPECT_EQ(reader.metadata().extra.find("run")->int64(), 3);
    }
  }
}

TEST(tensogram_stream, may_be_empty_and_may_know_its_metadata_beforehand) {
  collected empty;
  or_throw(or_throw(stream_writer::open(empty.sink())).finish());
  EXPECT_TRUE(validate(empty.bytes).ok());
  EXPECT_EQ(or_throw(message_reader::open(empty.bytes)).object_count(), 0u);
  collected out;
  auto writer = or_throw(
      stream_writer::open(out.sink(), {}, {cbor_map{{"name", "x"}, {"unit", "m"}}}));
  // The metadata announce one object, and none was written.
  EXPECT_FALSE(writer.finish().has_value());
  sample_object object = sample(1, dtype::fp32, {2});
  object.metadata = {{"unit", "km"}};
  or_throw(writer.write(object.to_write()));
  or_throw(writer.finish());
  const auto reader = or_throw(message_reader::open(out.bytes));
  EXPECT_EQ(*reader.metadata(0).find("name")->text(), "x");
  EXPECT_EQ(*reader.metadata(0).find("unit")->text(), "km");
}

TEST(tensogram_stream, a_refused_object_leaves_it_usable_and_a_broken_sink_ends_it) {
  collected out;
  auto writer = or_throw(stream_writer::open(out.sink()));
  sample_object bad = sample(1, dtype::fp32, {2});
  bad.data.clear();
  EXPECT_FALSE(writer.write(bad.to_write()).has_value());
  or_throw(writer.write(sample(2, dtype::fp32, {2}).to_write()));
  or_throw(writer.finish());
  EXPECT_EQ(or_throw(message_reader::open(out.bytes)).object_count(), 1u);

  std::size_t left = 200;
  auto broken = or_throw(stream_writer::open([&](bytes_view piece) -> result<void> {
    if (piece.size() > left) {
      return error(errc::no_space, "cannot write: expected space, found none");
    }
    left -= piece.size();
    return {};
  }));
  EXPECT_EQ(broken.write(sample(3, dtype::fp64, {500}).to_write()).error().code(),
            errc::no_space);
  EXPECT_EQ(broken.write(sample(2, dtype::fp32, {1}).to_write()).error().code(),
            errc::no_space);
  EXPECT_EQ(broken.finish().error().code(), errc::no_space);
  message_options header;
  header.list = hash_list::header;
  EXPECT_EQ(stream_writer::open(out.sink(), header).error().code(),
            errc::invalid_argument);
}

// A stream has no length in its preamble, so a reader searches for its end. Markers
// inside of payloads must not be taken for the end.
TEST(tensogram_stream, payloads_full_of_magic_do_not_cut_it) {
  const std::string evil =
      "TENSOGRM39277777FRENDF3927777700000000392777773927777739277777ENDFFR";
  byte_vector file;
  for (int k = 0; k < 3; ++k) {
    sample_object object =
        sample(1, dtype::uint8, {static_cast<std::int64_t>(evil.size())});
    object.data.assign(as_view(evil).begin(), as_view(evil).end());
    collected out;
    auto writer = or_throw(stream_writer::open(out.sink()));
    or_throw(writer.write(object.to_write()));
    or_throw(writer.write(object.to_write()));
    or_throw(writer.finish());
    append(file, out.bytes);
  }
  const auto spans = scan(file);
  ASSERT_EQ(spans.size(), 3u);
  for (const message_span& span : spans) {
    const auto reader =
        or_throw(message_reader::open(bytes_view(file).subspan(span.offset), strict));
    EXPECT_EQ(reader.span().length, span.length);
    EXPECT_EQ(as_text(or_throw(reader.decode(1))), evil);
  }
  EXPECT_TRUE(validate(file).ok());
}

TEST(tensogram_scan, finds_messages_between_garbage_in_memory_and_in_a_file) {
  const byte_vector message = or_throw(encode_message(to_write(small_objects())));
  byte_vector file = random_bytes(9, 70000);
  const std::uint64_t first = file.size();
  append(file, message);
  append(file, as_view("TENSOGRM and other words, 39277777"));
  const std::uint64_t second = file.size();
  append(file, message);
  append(file, bytes_view(message).first(100));
  const std::vector<message_span> expected{{first, message.size()},
                                           {second, message.size()}};
  EXPECT_EQ(scan(file), expected);
  const temp_folder folder;
  or_throw(write_file_atomically(posix_file_system(), folder / "a.tgm", file));
  const auto source = or_throw(file_source::open(
      or_throw(posix_file_system().open(folder / "a.tgm", open_mode::read))));
  EXPECT_EQ(or_throw(scan(*source)), expected);
  const file_report report = or_throw(validate(*source));
  EXPECT_EQ(report.messages.size(), 2u);
  EXPECT_EQ(report.file_issues.size(), 3u);
  EXPECT_FALSE(report.ok());
}

TEST(tensogram_source, a_message_is_read_where_it_lies) {
  const auto objects = small_objects();
  const byte_vector message = or_throw(encode_message(to_write(objects)));
  byte_vector file(13);
  append(file, message);
  const temp_folder folder;
  or_throw(write_file_atomically(posix_file_system(), folder / "a.tgm", file));
  const auto source = or_throw(file_source::open(
      or_throw(posix_file_system().open(folder / "a.tgm", open_mode::read))));
  const auto reader =
      or_throw(message_reader::open(source, {13, message.size()}, strict));
  for (std::size_t i = 0; i < objects.size(); ++i) {
    EXPECT_EQ(or_throw(reader.decode(i)), objects[i].data);
  }
  EXPECT_TRUE(reader.verify().has_value());
  EXPECT_EQ(reader.view(0).error().code(), errc::unsupported);
  const auto nothing = reader.decode(2);
  EXPECT_EQ(nothing.error().code(), errc::not_found);
  byte_vector small(3);
  EXPECT_EQ(reader.decode_into(0, small).error().code(), errc::invalid_argument);
}

TEST(tensogram_source, errors_name_file_offset_and_object) {
  byte_vector message = or_throw(encode_message(to_write(small_objects())));
  const std::uint64_t offset = or_throw(message_reader::open(message)).frames()[3].offset;
  message[offset + 20] ^= std::byte{1};
  const temp_folder folder;
  or_throw(write_file_atomically(posix_file_system(), folder / "a.tgm", message));
  const auto source = or_throw(file_source::open(
      or_throw(posix_file_system().open(folder / "a.tgm", open_mode::read))));
  const auto reader = or_throw(message_reader::open(source, {0, message.size()}));
  const auto refused = reader.decode(0);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), errc::hash_mismatch);
  EXPECT_EQ(
      refused.error().location(),
      (folder / "a.tgm") + ":" + std::to_string(offset) + " (object 0 \"weights\")");
  EXPECT_EQ(reader.verify().error().code(), errc::hash_mismatch);
  read_options blind;
  blind.hashes = hash_check::none;
  EXPECT_TRUE(or_throw(message_reader::open(message, blind)).decode(0).has_value());
}

TEST(tensogram_source, a_view_shows_raw_elements_in_place_and_verified) {
  byte_vector message = or_throw(encode_message(to_write(small_objects())));
  const auto reader = or_throw(message_reader::open(message, strict));
  const bytes_view view = or_throw(reader.view(0));
  EXPECT_GE(view.data(), message.data());
  EXPECT_EQ(byte_vector(view.begin(), view.end()), small_objects()[0].data);
  EXPECT_EQ(reader.view(1).error().code(), errc::unsupported);
  message[static_cast<std::size_t>(view.data() - message.data())] ^= std::byte{1};
  EXPECT_EQ(reader.view(0).error().code(), errc::hash_mismatch);
}

}  // namespace
}  // namespace weir::test
