// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests metadata: paths, sections, values, shortcuts and JSON.
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "conformance/tensogram_c/support.hpp"

namespace weir::test::tgm {
namespace {

/// Decodes the metadata of a message.
made<metadata> metadata_of(const std::string& bytes) {
  return make<metadata>(tgm_decode_metadata, as_u8(bytes), bytes.size());
}
/// Returns the metadata of a message without objects.
made<metadata> metadata_of_json(const std::string& json) {
  owned out;
  EXPECT_EQ(tgm_encode(json.c_str(), nullptr, nullptr, 0, nullptr, 0, &out.bytes),
            TGM_ERROR_OK)
      << last_error();
  return metadata_of(out.text());
}
/// Returns a text, or "(no text)" for a value of another kind.
std::string string_of(const tgm_value_t* value) {
  std::size_t length = 99;
  const char* text = tgm_value_as_string(value, &length);
  return text != nullptr ? std::string(text, length) : "(no text)";
}

TEST(tensogram_c, paths_lead_to_values_of_objects_and_of_the_message) {
  const auto meta = metadata_of(encode_two());
  ASSERT_EQ(meta.code, TGM_ERROR_OK) << last_error();
  const tgm_metadata_t* m = meta.get();
  EXPECT_EQ(tgm_metadata_version(m), 3u);
  EXPECT_EQ(tgm_metadata_num_objects(m), 2u);
  EXPECT_EQ(string_of(tgm_metadata_get(m, "name")), "a")
      << "the key is taken from the first object that has it";
  EXPECT_EQ(string_of(tgm_metadata_get_at(m, 1, "name")), "b");
  EXPECT_EQ(string_of(tgm_metadata_get(m, "grid.type")), "regular")
      << "the key is taken from object 1";
  EXPECT_EQ(string_of(tgm_metadata_get(m, "deep.class")), "od");
  EXPECT_EQ(string_of(tgm_metadata_get(m, "run")), "first")
      << "the key is taken from the message";
  for (const char* path : {"extra.run", "_extra_.run"}) {
    EXPECT_EQ(string_of(tgm_metadata_get(m, path)), "first");
    EXPECT_EQ(tgm_metadata_get_at(m, 0, path), nullptr) << "no object has the key";
  }
  EXPECT_EQ(tgm_metadata_get(m, "extra.name"), nullptr)
      << "a path into the extra map does not find a key of one object";
  EXPECT_EQ(tgm_metadata_get_at(m, 0, "grid.type"), nullptr);
  EXPECT_EQ(tgm_metadata_get_at(m, 0, "run"), nullptr);
  EXPECT_EQ(tgm_metadata_get_at(m, 2, "name"), nullptr);
  EXPECT_EQ(tgm_metadata_get_at(m, std::numeric_limits<std::size_t>::max(), "name"),
            nullptr);
  for (const char* absent : {"absent", "", ".", ".name", "name.", "deep..class", "extra",
                             "_extra_", "extra.", "deep.list.0", "name.x", "\xff"}) {
    EXPECT_EQ(tgm_metadata_get(m, absent), nullptr) << absent;
    EXPECT_EQ(tgm_metadata_get_at(m, 0, absent), nullptr) << absent;
    EXPECT_FALSE(tgm_metadata_has(m, absent)) << absent;
    EXPECT_FALSE(tgm_metadata_has_at(m, 0, absent)) << absent;
  }
  EXPECT_TRUE(tgm_metadata_has(m, "nothing")) << "a key with the value null exists";
  EXPECT_TRUE(tgm_metadata_has_at(m, 0, "nothing"));
  EXPECT_FALSE(tgm_metadata_has_at(m, 1, "nothing"));
}

TEST(tensogram_c, the_reserved_key_is_hidden_from_paths_and_shown_in_maps) {
  const auto meta = metadata_of(encode_two());
  const tgm_metadata_t* m = meta.get();
  for (const char* path : {"_reserved_", "_reserved_.tensor", "_reserved_.tensor.dtype",
                           "extra._reserved_", "_extra_._reserved_"}) {
    EXPECT_EQ(tgm_metadata_get(m, path), nullptr) << path;
    EXPECT_EQ(tgm_metadata_get_at(m, 0, path), nullptr) << path;
    EXPECT_FALSE(tgm_metadata_has(m, path)) << path;
    EXPECT_FALSE(tgm_metadata_has_at(m, 0, path)) << path;
    EXPECT_EQ(tgm_metadata_get_string(m, path), nullptr) << path;
    EXPECT_EQ(tgm_metadata_get_string_at(m, 0, path), nullptr) << path;
  }
  const tgm_value_t* object = tgm_metadata_object(m, 0);
  EXPECT_EQ(tgm_value_get_type(object), TGM_VALUE_TYPE_MAP);
  const tgm_value_t* tensor =
      tgm_value_map_get(tgm_value_map_get(object, "_reserved_"), "tensor");
  EXPECT_EQ(string_of(tgm_value_map_get(tensor, "dtype")), "float32");
  EXPECT_EQ(tgm_metadata_object(m, 2), nullptr);
  EXPECT_EQ(string_of(tgm_value_map_get(tgm_metadata_extra(m), "run")), "first");
  const tgm_value_t* reserved = tgm_metadata_reserved(m);
  EXPECT_EQ(tgm_value_get_type(reserved), TGM_VALUE_TYPE_MAP);
  EXPECT_NE(tgm_value_map_get(reserved, "uuid"), nullptr);
  EXPECT_EQ(string_of(tgm_value_map_get(tgm_value_map_get(reserved, "encoder"), "name")),
            "weir");
  const auto none = metadata_of_json("{}");
  EXPECT_EQ(tgm_value_get_type(tgm_metadata_extra(none.get())), TGM_VALUE_TYPE_MAP);
  EXPECT_EQ(tgm_value_map_len(tgm_metadata_extra(none.get())), 0u);
  EXPECT_EQ(tgm_metadata_num_objects(none.get()), 0u);
}

TEST(tensogram_c, values_keep_their_type_and_only_integers_widen) {
  const auto meta = metadata_of(encode_two());
  const auto value = [&](const char* path) { return tgm_metadata_get(meta.get(), path); };
  std::int64_t number = -1;
  std::uint64_t size = 99;
  double real = -1;
  bool flag = false;
  EXPECT_EQ(tgm_value_get_type(value("count")), TGM_VALUE_TYPE_INT);
  EXPECT_TRUE(tgm_value_as_i64(value("count"), &number));
  EXPECT_EQ(number, 42);
  EXPECT_TRUE(tgm_value_as_u64(value("count"), &size));
  EXPECT_EQ(size, 42u);
  EXPECT_TRUE(tgm_value_as_f64(value("count"), &real));
  EXPECT_EQ(real, 42.0);
  EXPECT_TRUE(tgm_value_as_i64(value("negative"), &number));
  EXPECT_EQ(number, -5);
  EXPECT_FALSE(tgm_value_as_u64(value("negative"), &size));
  EXPECT_EQ(size, 42u) << "a failed call must not write its result";
  EXPECT_TRUE(tgm_value_as_f64(value("negative"), &real));
  EXPECT_EQ(real, -5.0);
  EXPECT_EQ(tgm_value_get_type(value("ratio")), TGM_VALUE_TYPE_FLOAT);
  EXPECT_TRUE(tgm_value_as_f64(value("ratio"), &real));
  EXPECT_EQ(real, 0.5);
  EXPECT_FALSE(tgm_value_as_i64(value("ratio"), &number));
  EXPECT_EQ(tgm_value_get_type(value("flag")), TGM_VALUE_TYPE_BOOL);
  EXPECT_TRUE(tgm_value_as_bool(value("flag"), &flag));
  EXPECT_TRUE(flag);
  EXPECT_FALSE(tgm_value_as_i64(value("flag"), &number));
  EXPECT_FALSE(tgm_value_as_f64(value("flag"), &real));
  EXPECT_EQ(tgm_value_get_type(value("nothing")), TGM_VALUE_TYPE_NULL);
  EXPECT_EQ(tgm_value_get_type(value("empty")), TGM_VALUE_TYPE_STRING);
  EXPECT_EQ(string_of(value("empty")), "");
  EXPECT_STREQ(tgm_value_as_string(value("name"), nullptr), "a");
  EXPECT_EQ(tgm_value_as_string(value("count"), nullptr), nullptr);
  EXPECT_FALSE(tgm_value_as_bool(value("count"), &flag));
  EXPECT_EQ(tgm_value_get_type(value("absent")), TGM_VALUE_TYPE_NULL);
  EXPECT_FALSE(tgm_value_as_i64(value("absent"), &number));
}

TEST(tensogram_c, integers_of_64_bits_are_exact) {
  const auto meta = metadata_of_json(R"({"largest": 18446744073709551615,
      "smallest": -9223372036854775808, "odd": 9007199254740993})");
  const auto value = [&](const char* path) { return tgm_metadata_get(meta.get(), path); };
  std::int64_t number = 0;
  std::uint64_t size = 0;
  double real = 0;
  EXPECT_TRUE(tgm_value_as_u64(value("largest"), &size));
  EXPECT_EQ(size, std::numeric_limits<std::uint64_t>::max());
  EXPECT_FALSE(tgm_value_as_i64(value("largest"), &number));
  EXPECT_TRUE(tgm_value_as_f64(value("largest"), &real));
  EXPECT_EQ(real, 0x1p64);
  EXPECT_EQ(tgm_metadata_get_int(meta.get(), "largest", -1), -1);
  EXPECT_STREQ(tgm_metadata_get_string(meta.get(), "largest"), "18446744073709551615");
  EXPECT_TRUE(tgm_value_as_i64(value("smallest"), &number));
  EXPECT_EQ(number, std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(tgm_metadata_get_int(meta.get(), "odd", 0), 9007199254740993);
  EXPECT_TRUE(tgm_value_as_f64(value("odd"), &real));
  EXPECT_EQ(real, 9007199254740992.0) << "the integer is rounded to 53 bits";
}

TEST(tensogram_c, arrays_and_maps_are_walked) {
  const auto meta = metadata_of(encode_two());
  const tgm_value_t* list = tgm_metadata_get(meta.get(), "deep.list");
  ASSERT_EQ(tgm_value_get_type(list), TGM_VALUE_TYPE_ARRAY);
  ASSERT_EQ(tgm_value_array_len(list), 4u);
  double real = 0;
  bool flag = false;
  EXPECT_TRUE(tgm_value_as_f64(tgm_value_array_get(list, 1), &real));
  EXPECT_EQ(real, 2.5);
  EXPECT_TRUE(tgm_value_as_bool(tgm_value_array_get(list, 2), &flag));
  EXPECT_EQ(tgm_value_get_type(tgm_value_array_get(list, 3)), TGM_VALUE_TYPE_NULL);
  EXPECT_NE(tgm_value_array_get(list, 3), nullptr);
  EXPECT_EQ(tgm_value_array_get(list, 4), nullptr);
  EXPECT_EQ(tgm_value_map_len(list), 0u);
  EXPECT_EQ(tgm_value_map_get(list, "x"), nullptr);
  const tgm_value_t* map = tgm_metadata_get(meta.get(), "deep");
  ASSERT_EQ(tgm_value_map_len(map), 2u);
  EXPECT_EQ(tgm_value_array_len(map), 0u);
  std::size_t length = 0;
  std::string keys;
  for (std::size_t i = 0; i < 2; ++i) {
    const char* key = tgm_value_map_key_at(map, i, &length);
    keys += std::string(key, length) + " ";
    EXPECT_EQ(tgm_value_map_value_at(map, i), tgm_value_map_get(map, key));
  }
  EXPECT_EQ(keys, "list class ") << "shorter keys come before longer ones";
  EXPECT_EQ(tgm_value_map_key_at(map, 2, &length), nullptr);
  EXPECT_EQ(length, 0u);
  EXPECT_EQ(tgm_value_map_value_at(map, 2), nullptr);
  EXPECT_EQ(tgm_value_map_get(map, "y"), nullptr);
  EXPECT_EQ(tgm_value_map_get(tgm_metadata_object(meta.get(), 0), "deep.class"), nullptr)
      << "a key of a map is not read as a path";
}

/// Returns the metadata of a message with the key "v", whose value of two bytes is
/// replaced by `value`.
made<metadata> metadata_with(const std::string& value) {
  owned out;
  EXPECT_EQ(tgm_encode(R"({"v": 42})", nullptr, nullptr, 0, nullptr, 0, &out.bytes),
            TGM_ERROR_OK);
  std::string bytes = out.text();
  const std::size_t place = bytes.find("\x61v\x18\x2A");
  EXPECT_NE(place, std::string::npos);
  return metadata_of(bytes.replace(place + 2, 2, value));
}

TEST(tensogram_c, values_that_json_does_not_have_are_read) {
  const auto bytes = metadata_with("\x41\xAB");
  const tgm_value_t* value = tgm_metadata_get(bytes.get(), "v");
  std::size_t length = 0;
  EXPECT_EQ(tgm_value_get_type(value), TGM_VALUE_TYPE_BYTES);
  ASSERT_NE(tgm_value_as_bytes(value, &length), nullptr);
  EXPECT_EQ(length, 1u);
  EXPECT_EQ(*tgm_value_as_bytes(value, nullptr), 0xAB);
  EXPECT_EQ(tgm_value_as_string(value, &length), nullptr);
  EXPECT_EQ(length, 0u);
  EXPECT_EQ(tgm_metadata_get_string(bytes.get(), "v"), nullptr);
  const auto tagged = metadata_with("\xC1\x05");
  value = tgm_metadata_get(tagged.get(), "v");
  std::int64_t number = 0;
  std::uint64_t tag = 0;
  EXPECT_EQ(tgm_value_get_type(value), TGM_VALUE_TYPE_INT)
      << "the value inside the tag is returned";
  EXPECT_TRUE(tgm_value_as_i64(value, &number));
  EXPECT_EQ(number, 5);
  EXPECT_EQ(tgm_metadata_get_int(tagged.get(), "v", 0), 5);
  EXPECT_TRUE(tgm_x_value_tag(value, &tag));
  EXPECT_EQ(tag, 1u);
  EXPECT_FALSE(tgm_x_value_tag(tgm_metadata_extra(tagged.get()), &tag));
}

TEST(tensogram_c, shortcuts_convert_and_fall_back_to_a_default) {
  const auto meta = metadata_of(encode_two());
  const tgm_metadata_t* m = meta.get();
  EXPECT_STREQ(tgm_metadata_get_string(m, "name"), "a");
  EXPECT_STREQ(tgm_metadata_get_string_at(m, 1, "name"), "b");
  EXPECT_STREQ(tgm_metadata_get_string(m, "count"), "42");
  EXPECT_STREQ(tgm_metadata_get_string(m, "negative"), "-5");
  EXPECT_STREQ(tgm_metadata_get_string(m, "ratio"), "0.5");
  EXPECT_STREQ(tgm_metadata_get_string(m, "flag"), "true");
  EXPECT_STREQ(tgm_metadata_get_string(m, "empty"), "");
  for (const char* none : {"nothing", "tags", "deep", "absent"}) {
    EXPECT_EQ(tgm_metadata_get_string(m, none), nullptr) << none;
  }
  EXPECT_EQ(tgm_metadata_get_int(m, "count", -1), 42);
  EXPECT_EQ(tgm_metadata_get_int(m, "level", -1), 0);
  EXPECT_EQ(tgm_metadata_get_int_at(m, 1, "level", -1), 500);
  EXPECT_EQ(tgm_metadata_get_int_at(m, 2, "level", -1), -1);
  EXPECT_EQ(tgm_metadata_get_int(m, "revision", -1), 7);
  for (const char* none : {"ratio", "name", "flag", "nothing", "absent"}) {
    EXPECT_EQ(tgm_metadata_get_int(m, none, -1), -1) << none;
  }
  EXPECT_EQ(tgm_metadata_get_float(m, "ratio", -1), 0.5);
  EXPECT_EQ(tgm_metadata_get_float(m, "count", -1), 42.0);
  EXPECT_EQ(tgm_metadata_get_float_at(m, 1, "level", -1), 500.0);
  for (const char* none : {"name", "flag", "nothing", "absent"}) {
    EXPECT_EQ(tgm_metadata_get_float(m, none, -1), -1) << none;
    EXPECT_EQ(tgm_metadata_get_float_at(m, 0, none, -1), -1) << none;
  }
  EXPECT_STREQ(tgm_metadata_get_string(m, "version"), "3")
      << "the text is the version of the format";
  EXPECT_EQ(tgm_metadata_get_int(m, "version", -1), 3);
  EXPECT_EQ(tgm_metadata_get_float(m, "version", -1), -1);
  EXPECT_EQ(tgm_metadata_get(m, "version"), nullptr)
      << "the metadata has no key of this name";
  const char* first = tgm_metadata_get_string(m, "name");
  (void)tgm_metadata_get_string(m, "grid.type");
  EXPECT_EQ(tgm_metadata_get_string(m, "name"), first)
      << "texts stay valid as long as the handle";
  EXPECT_STREQ(first, "a");
}

TEST(tensogram_c, keys_at_the_top_join_extra_which_takes_precedence) {
  for (const char* name : {"_extra_", "extra"}) {
    const auto meta = metadata_of_json(R"({"a": 1, "b": 2, ")" + std::string(name) +
                                       R"(": {"a": 10, "c": 3}})");
    EXPECT_EQ(tgm_metadata_get_int(meta.get(), "a", 0), 10) << name;
    EXPECT_EQ(tgm_metadata_get_int(meta.get(), "extra.b", 0), 2) << name;
    EXPECT_EQ(tgm_metadata_get_int(meta.get(), "_extra_.c", 0), 3) << name;
    EXPECT_EQ(tgm_value_map_len(tgm_metadata_extra(meta.get())), 3u) << name;
  }
  owned out;
  for (const char* json :
       {R"({"extra": {"a": 1}, "_extra_": {"b": 1}})", R"({"_extra_": 5})",
        R"({"extra": []})", R"({"_extra_": {"_reserved_": {}}})"}) {
    EXPECT_EQ(tgm_encode(json, nullptr, nullptr, 0, nullptr, 0, &out.bytes),
              TGM_ERROR_METADATA)
        << json;
  }
}

TEST(tensogram_c, metadata_become_json) {
  const auto meta = metadata_of(encode_two());
  const auto whole = nlohmann::json::parse(tgm_metadata_to_json(meta.get()));
  EXPECT_EQ(whole.size(), 3u);
  EXPECT_EQ(whole.at("_extra_"), nlohmann::json({{"run", "first"}, {"revision", 7}}));
  EXPECT_EQ(whole.at("_reserved_").at("encoder").at("name"), "weir");
  EXPECT_EQ(whole.at("base").size(), 2u);
  const auto object = nlohmann::json::parse(tgm_metadata_object_to_json(meta.get(), 0));
  EXPECT_EQ(object, whole.at("base")[0]);
  const auto given = nlohmann::json::parse(two_objects).at("base")[0];
  for (const auto& [key, value] : given.items()) {
    EXPECT_EQ(object.at(key), value) << key;
  }
  EXPECT_EQ(object.at("_reserved_").at("tensor").at("dtype"), "float32");
  EXPECT_EQ(tgm_metadata_object_to_json(meta.get(), 2), nullptr);
  EXPECT_EQ(tgm_metadata_to_json(meta.get()), tgm_metadata_to_json(meta.get()));
  const auto of_bytes = metadata_with("\x41\xAB");
  const auto with_bytes = nlohmann::json::parse(tgm_metadata_to_json(of_bytes.get()));
  EXPECT_EQ(with_bytes.at("_extra_").at("v"), "ab")
      << "bytes are written as hexadecimal digits";
  EXPECT_FALSE(with_bytes.contains("base")) << "an empty part is left out";
}

TEST(tensogram_c, metadata_are_read_before_the_message_is_complete) {
  std::vector<double> values(1000);
  owned out;
  ASSERT_EQ(encode_one(R"({"run": "first",
                           "descriptors": [{"dtype": "float64", "shape": [1000]}]})",
                       values.data(), 8000, out),
            TGM_ERROR_OK);
  const std::string bytes = out.text();
  std::size_t enough = 0;
  for (std::size_t size = 0; size <= bytes.size(); size += size < 600 ? 1 : 997) {
    const auto meta = metadata_of(bytes.substr(0, size));
    if (meta.code != TGM_ERROR_OK) {
      EXPECT_EQ(meta.code, TGM_ERROR_FRAMING) << size << ": " << last_error();
      EXPECT_EQ(enough, 0u) << "a longer buffer gives the metadata as well";
      continue;
    }
    enough = enough == 0 ? size : enough;
    EXPECT_STREQ(tgm_metadata_get_string(meta.get(), "run"), "first") << size;
  }
  EXPECT_GT(enough, 0u);
  EXPECT_LT(enough, 600u) << "the metadata is available before the payload has arrived";
}

}  // namespace
}  // namespace weir::test::tgm
