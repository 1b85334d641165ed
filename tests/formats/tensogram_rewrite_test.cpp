// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests that what a reader reads, a writer can write again: fields of a descriptor that
/// nothing here interprets, objects of a codec that is not built, and metadata of the
/// largest depth.
#include "formats/support.hpp"
#include "support/fixtures.hpp"
#include "tensogram/wire/wire.hpp"
#include "weir/formats/tensogram_validate.hpp"

namespace weir::formats {
namespace {

using namespace weir::test;

/// Returns an object with the strides of a column-major array and with unknown keys.
sample_object foreign_object() {
  sample_object out = sample(1, dtype::int16, {2, 3});
  out.descriptor.strides = {1, 2};
  out.descriptor.object_type = "other";
  out.descriptor.parameters = {
      {"unit", "K"}, {"history", cbor_array{1, 2.5, cbor_map{{"by", "someone"}}}}};
  out.descriptor.parameters.set(7, byte_vector(3, std::byte{9}));
  out.metadata = {{"name", "t"}};
  return out;
}

/// Expects the descriptor, the elements and the strides in the metadata of an object.
void expect_same_object(const message_reader& reader, const sample_object& object) {
  EXPECT_EQ(reader.descriptor(0), object.descriptor);
  EXPECT_EQ(or_throw(reader.decode(0)), object.data);
  const cbor_value* strides = find_path(reader.metadata(0), "_reserved_.tensor.strides");
  ASSERT_NE(strides, nullptr);
  EXPECT_EQ(to_json(*strides), "[1,2]");
}

TEST(tensogram_rewrite, every_field_of_a_descriptor_survives) {
  const sample_object object = foreign_object();
  const byte_vector message = or_throw(encode_message(to_write({object})));
  const auto reader = or_throw(message_reader::open(message));
  expect_same_object(reader, object);

  const object_to_write decoded{reader.descriptor(0), object.metadata, object.data};
  EXPECT_EQ(or_throw(encode_message({&decoded, 1})), message);
  const byte_vector region = or_throw(reader.stored_region(0));
  const object_to_write stored{reader.descriptor(0), object.metadata, region, true};
  EXPECT_EQ(or_throw(encode_message({&stored, 1})), message);

  byte_vector streamed;
  auto writer = or_throw(stream_writer::open([&](bytes_view piece) {
    append(streamed, piece);
    return result<void>();
  }));
  or_throw(writer.write(decoded));
  or_throw(writer.finish());
  expect_same_object(or_throw(message_reader::open(streamed)), object);
}

TEST(tensogram_rewrite, strides_are_as_many_as_dimensions_or_those_of_c_order) {
  sample_object object = sample(1, dtype::uint8, {2, 3, 4});
  const byte_vector derived = or_throw(encode_message(to_write({object})));
  const std::vector<std::uint64_t> c_order{12, 4, 1};
  EXPECT_EQ(or_throw(message_reader::open(derived)).descriptor(0).strides, c_order);
  object.descriptor.strides = {4, 1};
  const auto refused = encode_message(to_write({object}));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), errc::invalid_argument);
  EXPECT_NE(refused.error().text().find("expected 3 strides"), std::string::npos);
}

/// Returns a message with one object that this build decodes and one of sz3, which it
/// does not.
byte_vector with_unbuilt_codec() {
  const sample_object plain = sample(1, dtype::fp32, {5});
  sample_object unbuilt = sample(2, dtype::fp64, {100});
  unbuilt.descriptor.compression = "sz3";
  unbuilt.descriptor.parameters = {{"sz3_error_bound_mode", "abs"},
                                   {"sz3_error_bound", 0.5}};
  unbuilt.metadata = {{"name", "u"}};
  unbuilt.data = random_bytes(3, 77);
  std::vector<object_to_write> objects{plain.to_write(), unbuilt.to_write()};
  objects[1].stored = true;
  return or_throw(encode_message(objects));
}

/// Expects that everything but the elements of object `i` can be read, and that the
/// object is written again without a change.
void expect_usable_but_for_decoding(const byte_vector& message, std::size_t i) {
  const auto reader = or_throw(message_reader::open(message));
  or_throw(reader.verify());
  const auto refused = reader.decode(i);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), errc::unsupported);
  EXPECT_NE(refused.error().text().find("sz3"), std::string::npos);

  const byte_vector region = or_throw(reader.stored_region(i));
  cbor_map metadata = reader.metadata(i);
  metadata.erase("_reserved_");
  const object_to_write one{reader.descriptor(i), metadata, region, true};
  const byte_vector again = or_throw(encode_message({&one, 1}));
  const auto copy = or_throw(message_reader::open(again));
  EXPECT_EQ(copy.descriptor(0), reader.descriptor(i));
  EXPECT_EQ(copy.metadata(0), reader.metadata(i));
  EXPECT_EQ(or_throw(copy.stored_region(0)), region);
  const auto digest_of = [](const message_reader& from, std::size_t object) {
    for (const frame_info& frame : from.frames()) {
      if (frame.type == frame_type::object && object-- == 0) {
        return frame.digest;
      }
    }
    return std::uint64_t{0};
  };
  EXPECT_EQ(digest_of(copy, 0), digest_of(reader, i));
  for (const auto level : {validation_level::structure, validation_level::fidelity}) {
    EXPECT_TRUE(validate(again, {level}).ok());
  }
}

TEST(tensogram_rewrite, an_object_of_a_codec_that_is_not_built_passes_as_it_is) {
  const byte_vector message = with_unbuilt_codec();
  expect_usable_but_for_decoding(message, 1);
  const auto reader = or_throw(message_reader::open(message));
  EXPECT_EQ(or_throw(reader.decode(0)), sample(1, dtype::fp32, {5}).data);
  EXPECT_EQ(reader.object_bytes(1), 800u);
  EXPECT_EQ(reader.stored_bytes(1), 77u);
}

TEST(tensogram_rewrite, a_stored_object_of_an_unknown_codec_is_refused) {
  sample_object object = sample(1, dtype::uint8, {4});
  object.descriptor.compression = "brotli";
  object_to_write one = object.to_write();
  one.stored = true;
  EXPECT_EQ(encode_message({&one, 1}).error().code(), errc::invalid_argument);
}

TEST(tensogram_rewrite, sz3_objects_of_the_reference_pass_as_they_are) {
  WEIR_NEEDS_FIXTURES(folder, "tensogram");
  const byte_vector message = load(folder + "/wheel/sz3.tgm");
  const auto reader = or_throw(message_reader::open(message));
  ASSERT_GT(reader.object_count(), 0u);
  for (std::size_t i = 0; i < reader.object_count(); ++i) {
    expect_usable_but_for_decoding(message, i);
  }
}

/// Returns a number inside `count` arrays.
cbor_value nested_arrays(std::size_t count) {
  cbor_value out = 1;
  for (std::size_t i = 0; i < count; ++i) {
    out = cbor_array{out};
  }
  return out;
}

TEST(tensogram_rewrite, metadata_nest_as_deep_as_readers_accept) {
  const auto writes = [](const sample_object& object, const cbor_map& extra) {
    message_options options;
    options.extra = extra;
    const auto message = encode_message(to_write({object}), options);
    if (!message) {
      EXPECT_EQ(message.error().code(), errc::invalid_argument);
      return false;
    }
    const auto reader = or_throw(message_reader::open(*message));
    EXPECT_EQ(reader.metadata().extra, extra);
    EXPECT_EQ(reader.descriptor(0).parameters, object.descriptor.parameters);
    return true;
  };
  // The depth counts the containers around a value: the map of the message and those that
  // the comments name.
  sample_object object = sample(1, dtype::uint8, {1});
  // The value lies inside "base" and the entry of the object.
  object.metadata = {{"deep", nested_arrays(cbor_depth_limit - 3)}};
  EXPECT_TRUE(writes(object, {}));
  object.metadata = {{"deep", nested_arrays(cbor_depth_limit - 2)}};
  EXPECT_FALSE(writes(object, {}));
  object.metadata = {};
  object.descriptor.parameters = {{"deep", nested_arrays(cbor_depth_limit - 1)}};
  EXPECT_TRUE(writes(object, {}));
  object.descriptor.parameters = {{"deep", nested_arrays(cbor_depth_limit)}};
  EXPECT_FALSE(writes(object, {}));
  object.descriptor.parameters = {};
  for (const std::size_t under_extra : {2u, 1u}) {  // inside "_extra_", or at the top
    const cbor_value deep = nested_arrays(cbor_depth_limit - under_extra);
    EXPECT_TRUE(writes(object, {{"deep", deep}, {"flat", 1}}));
    EXPECT_EQ(writes(object, {{"base", deep}}), under_extra == 2);
  }
  EXPECT_FALSE(writes(object, {{"deep", nested_arrays(cbor_depth_limit)}}));
}

TEST(tensogram_rewrite, the_deepest_file_of_the_reference_is_written_again) {
  WEIR_NEEDS_FIXTURES(folder, "tensogram");
  const byte_vector message = load(folder + "/wheel/hand_cbor_depth255.tgm");
  const auto reader = or_throw(message_reader::open(message));
  message_options options;
  options.extra = reader.metadata().extra;
  const byte_vector again = or_throw(encode_message({}, options));
  EXPECT_EQ(or_throw(message_reader::open(again)).metadata().extra,
            reader.metadata().extra);
}

}  // namespace
}  // namespace weir::formats
