// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests which code a failure has: the code of the reference.
#include <cmath>
#include <limits>

#include "conformance/tensogram_c/support.hpp"
#include "support/temp_folder.hpp"

namespace weir::test::tgm {
namespace {

constexpr float with_nan[4] = {1, std::numeric_limits<float>::quiet_NaN(), 3, 4};

/// Returns the code of encoding `count` objects of four float32 each.
tgm_error encoding(const std::string& json, std::size_t count,
                   const float* data = four_floats, std::size_t length = 16) {
  const std::vector<const std::uint8_t*> pointers(count, as_u8(data));
  const std::vector<std::size_t> lengths(count, length);
  owned out;
  return tgm_encode(json.c_str(), pointers.data(), lengths.data(), count, "xxh3", 0,
                    &out.bytes);
}

/// Returns the code of encoding four float32, one of them NaN, with these masks.
tgm_error masking(const TgmEncodeMaskOptions& masks) {
  const std::string json = four_floats_json();
  const std::uint8_t* const data = as_u8(with_nan);
  const std::size_t length = 16;
  owned out;
  return tgm_encode_with_options(json.c_str(), &data, &length, 1, "xxh3", 0, &masks,
                                 &out.bytes);
}

TEST(tensogram_c, messages_that_cannot_be_encoded_have_the_codes_of_the_reference) {
  const std::string one = four_floats_json();
  EXPECT_EQ(encoding(one, 1), TGM_ERROR_OK) << last_error();
  EXPECT_EQ(encoding(one, 2), TGM_ERROR_INVALID_ARG)
      << "one descriptor with two objects is refused";
  EXPECT_EQ(encoding(one, 0), TGM_ERROR_INVALID_ARG)
      << "one descriptor without an object is refused";
  EXPECT_EQ(encoding("{\"a\":\"\xff\xfe\"}", 0), TGM_ERROR_INVALID_ARG)
      << "metadata that is not UTF-8 is refused";
  EXPECT_EQ(encoding("nonsense", 0), TGM_ERROR_METADATA);
  EXPECT_EQ(encoding("[1]", 0), TGM_ERROR_METADATA);
  EXPECT_EQ(encoding("[", 0), TGM_ERROR_METADATA);
  EXPECT_NE(last_error().find("JSON"), std::string::npos) << last_error();
  EXPECT_EQ(encoding(R"({"descriptors":5})", 0), TGM_ERROR_METADATA);
  EXPECT_EQ(encoding(R"({"base":{},"descriptors":[]})", 0), TGM_ERROR_METADATA);
  EXPECT_EQ(encoding(R"({"base":[{}],"descriptors":[]})", 0), TGM_ERROR_METADATA);
  EXPECT_EQ(encoding(four_floats_json("", R"("base":[{"_reserved_":{}}],)"), 1),
            TGM_ERROR_METADATA);
  EXPECT_EQ(encoding(four_floats_json("", R"("_reserved_":{},)"), 1), TGM_ERROR_METADATA);
  EXPECT_EQ(encoding(one, 1, four_floats, 15), TGM_ERROR_METADATA);
  EXPECT_EQ(encoding(R"({"descriptors":[{"type":"ntensor","shape":[4],
                        "dtype":"floaty"}]})",
                     1),
            TGM_ERROR_METADATA);
  EXPECT_EQ(encoding(one, 1, with_nan), TGM_ERROR_ENCODING);
  EXPECT_NE(last_error().find("NaN"), std::string::npos) << last_error();
  EXPECT_EQ(encoding(four_floats_json(R"(, "strides": [1, 1])"), 1), TGM_ERROR_METADATA);
}

TEST(tensogram_c, names_that_arguments_do_not_know_are_invalid_arguments) {
  const std::string json = four_floats_json();
  owned out;
  for (const char* name : {"XXH3", "", "sha256", "xxh3 ", "\xff"}) {
    EXPECT_EQ(encode_one(json, four_floats, 16, out, name), TGM_ERROR_INVALID_ARG)
        << name;
    EXPECT_EQ(tgm_compute_hash(as_u8("x"), 1, name, &out.bytes), TGM_ERROR_INVALID_ARG)
        << name;
  }
  TgmEncodeMaskOptions masks{true, true, nullptr, nullptr, nullptr, -1};
  ASSERT_EQ(masking(masks), TGM_ERROR_OK) << last_error();
  for (const char* TgmEncodeMaskOptions::*method :
       {&TgmEncodeMaskOptions::nan_mask_method,
        &TgmEncodeMaskOptions::pos_inf_mask_method,
        &TgmEncodeMaskOptions::neg_inf_mask_method}) {
    for (const char* name : {"bogus", "", "\xff"}) {
      masks.*method = name;
      EXPECT_EQ(masking(masks), TGM_ERROR_INVALID_ARG) << name;
    }
    for (const char* name : {"none", "rle", "roaring", "lz4", "zstd"}) {
      masks.*method = name;
      EXPECT_EQ(masking(masks), TGM_ERROR_OK) << name << ": " << last_error();
    }
  }
  masks.allow_nan = false;
  EXPECT_EQ(masking(masks), TGM_ERROR_ENCODING)
      << "only infinities are allowed, so NaN is refused";
  const std::string bytes = encode_two();
  for (const char* level : {"bogus", "", "metadata", "Quick", "\xff"}) {
    EXPECT_EQ(tgm_validate(as_u8(bytes), bytes.size(), level, 0, &out.bytes),
              TGM_ERROR_INVALID_ARG)
        << level;
    EXPECT_EQ(tgm_validate_file("/dev/null", level, 0, &out.bytes), TGM_ERROR_INVALID_ARG)
        << level;
  }
}

/// Returns the code of storing a payload that was encoded before.
tgm_error storing(const std::string& json, std::size_t length) {
  const std::uint8_t* const data = as_u8(four_floats);
  owned out;
  return tgm_encode_pre_encoded(json.c_str(), &data, &length, 1, "xxh3", 0, &out.bytes);
}

TEST(tensogram_c, stored_payloads_that_cannot_be_are_failures_of_metadata) {
  const std::string szip = R"({"descriptors": [{"type": "ntensor", "shape": [16],
      "dtype": "uint8", "byte_order": "little", "compression": "szip", "szip_rsi": 1,
      "szip_block_size": 8, "szip_flags": 0, "szip_block_offsets": )";
  EXPECT_EQ(storing(four_floats_json(), 16), TGM_ERROR_OK) << last_error();
  EXPECT_EQ(storing("x", 16), TGM_ERROR_METADATA);
  EXPECT_EQ(storing(four_floats_json(), 15), TGM_ERROR_METADATA);
  EXPECT_EQ(storing(four_floats_json(R"(, "szip_block_offsets": [0])"), 16),
            TGM_ERROR_METADATA)
      << "offsets of szip blocks are refused without szip";
  EXPECT_EQ(storing(szip + "[9, 3]}]}", 16), TGM_ERROR_METADATA)
      << "offsets that decrease are refused";
  EXPECT_EQ(storing(szip + "[0, 9999]}]}", 16), TGM_ERROR_METADATA)
      << "offsets beyond the payload are refused";
  EXPECT_EQ(storing(szip + "[0, 30]}]}", 16), TGM_ERROR_OK) << last_error();
  EXPECT_EQ(storing(four_floats_json(R"(, "encoding": "x")"), 16), TGM_ERROR_ENCODING);
  EXPECT_EQ(storing(four_floats_json(), 0), TGM_ERROR_METADATA);
}

TEST(tensogram_c, messages_that_cannot_be_decoded_have_the_codes_of_the_reference) {
  const std::string good = encode_two();
  const std::string bare = encode_two(nullptr);
  const std::string garbage(54, 'g');
  EXPECT_EQ(decode(garbage).code, TGM_ERROR_FRAMING);
  EXPECT_EQ(decode("nonsense").code, TGM_ERROR_FRAMING);
  EXPECT_EQ(decode("").code, TGM_ERROR_FRAMING);
  for (std::size_t size = 1; size < good.size(); size += 7) {
    EXPECT_EQ(decode(good.substr(0, size)).code, TGM_ERROR_FRAMING) << size;
  }
  EXPECT_EQ(decode(good.substr(0, good.size() - 1)).code, TGM_ERROR_FRAMING);
  EXPECT_EQ(decode(good + "more bytes").code, TGM_ERROR_OK) << last_error();
  const auto object = [](const std::string& bytes, std::size_t index, int verify) {
    return make<message>(tgm_decode_object, as_u8(bytes), bytes.size(), index, 1, 0u,
                         verify)
        .code;
  };
  EXPECT_EQ(object(good, 1, 1), TGM_ERROR_OK) << last_error();
  EXPECT_EQ(object(good, 2, 0), TGM_ERROR_OBJECT);
  EXPECT_EQ(object(good, std::numeric_limits<std::size_t>::max(), 0), TGM_ERROR_OBJECT);
  EXPECT_EQ(object(bare, 0, 0), TGM_ERROR_OK) << last_error();
  EXPECT_EQ(object(bare, 0, 1), TGM_ERROR_MISSING_HASH);
  EXPECT_EQ(decode(bare, true).code, TGM_ERROR_MISSING_HASH);
  EXPECT_EQ(decode(bare).code, TGM_ERROR_OK) << last_error();
  const auto iterator =
      make<object_iter>(tgm_object_iter_create, as_u8(bare), bare.size(), 1, 1);
  ASSERT_EQ(iterator.code, TGM_ERROR_OK) << last_error();
  EXPECT_EQ(make<message>(tgm_object_iter_next, iterator.get()).code,
            TGM_ERROR_MISSING_HASH);
  std::string changed = good;
  const float two = 2;
  const std::size_t payload =
      good.find(std::string(reinterpret_cast<const char*>(&two), sizeof two));
  changed[payload] ^= 1;
  EXPECT_EQ(decode(changed, true).code, TGM_ERROR_HASH_MISMATCH);
  EXPECT_EQ(decode(changed).code, TGM_ERROR_HASH_MISMATCH)
      << "a digest that does not match its payload is found";
  EXPECT_EQ(object(changed, 0, 1), TGM_ERROR_HASH_MISMATCH);
}

TEST(tensogram_c, ranges_that_cannot_be_decoded_have_the_codes_of_the_reference) {
  const std::string bytes = encode_two();
  const auto range = [&](std::size_t object, std::uint64_t offset, std::uint64_t count,
                         std::size_t ranges = 1) {
    owned out;
    std::size_t found = 99;
    const tgm_error code = tgm_decode_range(as_u8(bytes), bytes.size(), object, &offset,
                                            &count, ranges, 1, 0, 1, &out.bytes, &found);
    EXPECT_EQ(found, code == TGM_ERROR_OK ? 1u : 99u);
    return code;
  };
  constexpr std::uint64_t all_bits = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(range(0, 0, 4), TGM_ERROR_OK) << last_error();
  EXPECT_EQ(range(1, 3, 0), TGM_ERROR_OK) << "an empty range at the end is allowed";
  EXPECT_EQ(range(0, 0, 0, 0), TGM_ERROR_OK) << "a call without ranges is allowed";
  EXPECT_EQ(range(0, 3, 2), TGM_ERROR_ENCODING);
  EXPECT_EQ(range(0, 5, 0), TGM_ERROR_ENCODING);
  EXPECT_EQ(range(0, 1, all_bits), TGM_ERROR_ENCODING);
  EXPECT_EQ(range(0, all_bits, 1), TGM_ERROR_ENCODING);
  EXPECT_EQ(range(2, 0, 1), TGM_ERROR_OBJECT);
}

TEST(tensogram_c, a_file_that_cannot_be_opened_is_a_failure_of_the_file_system) {
  const temp_folder folder;
  const std::string absent = folder / "absent/x.tgm";
  owned out;
  EXPECT_EQ(make<file>(tgm_file_open, absent.c_str()).code, TGM_ERROR_IO);
  EXPECT_NE(last_error().find(absent), std::string::npos) << last_error();
  EXPECT_EQ(make<file>(tgm_file_open, folder.path().c_str()).code, TGM_ERROR_IO);
  EXPECT_EQ(make<file>(tgm_file_open, "").code, TGM_ERROR_IO);
  EXPECT_EQ(make<file>(tgm_file_open, "/dev/null").code, TGM_ERROR_OK);
  EXPECT_EQ(make<file>(tgm_file_create, folder.path().c_str()).code, TGM_ERROR_IO);
  EXPECT_EQ(make<file>(tgm_file_create, "/dev/null/x/y.tgm").code, TGM_ERROR_IO);
  EXPECT_EQ(tgm_validate_file(absent.c_str(), nullptr, 0, &out.bytes), TGM_ERROR_IO);
  EXPECT_EQ(tgm_validate_file(folder.path().c_str(), nullptr, 0, &out.bytes),
            TGM_ERROR_IO);
  EXPECT_EQ(
      make<encoder>(tgm_streaming_encoder_create, absent.c_str(), "{}", nullptr, 0u).code,
      TGM_ERROR_IO);
  const char* const not_text = "\xff\xfe";
  EXPECT_EQ(make<file>(tgm_file_open, not_text).code, TGM_ERROR_INVALID_ARG);
  EXPECT_EQ(make<file>(tgm_file_create, not_text).code, TGM_ERROR_INVALID_ARG);
  EXPECT_EQ(tgm_validate_file(not_text, nullptr, 0, &out.bytes), TGM_ERROR_INVALID_ARG);
  const auto opening = make<task>(tgm_async_file_open, absent.c_str(), nullptr, 0u);
  ASSERT_EQ(opening.code, TGM_ERROR_OK);
  EXPECT_EQ(make<async_file>(tgm_async_task_join_async_file, opening.get()).code,
            TGM_ERROR_IO);
  EXPECT_NE(last_error().find(absent), std::string::npos) << last_error();
}

TEST(tensogram_c, packing_parameters_are_those_of_the_values_or_a_failure_of_encoding) {
  const double values[4] = {1, 2, 3, std::numeric_limits<double>::quiet_NaN()};
  double reference = 0;
  std::int32_t binary = 99;
  const auto parameters = [&](std::size_t count, std::uint32_t bits, std::int32_t scale) {
    return tgm_simple_packing_compute_params(values, count, bits, scale, &reference,
                                             &binary);
  };
  EXPECT_EQ(parameters(3, 8, 0), TGM_ERROR_OK) << last_error();
  EXPECT_EQ(reference, 1);
  EXPECT_EQ(binary, -6) << "255 steps of 1/64 reach beyond 2, and steps of 1/128 do not";
  EXPECT_EQ(parameters(4, 16, 0), TGM_ERROR_ENCODING) << "NaN";
  EXPECT_EQ(parameters(3, 65, 0), TGM_ERROR_ENCODING);
  EXPECT_EQ(parameters(1, 64, 0), TGM_ERROR_OK) << last_error();
}

TEST(tensogram_c, codes_have_the_texts_of_the_reference) {
  const std::vector<const char*> texts{"ok",
                                       "framing error",
                                       "metadata error",
                                       "encoding error",
                                       "compression error",
                                       "object error",
                                       "I/O error",
                                       "hash mismatch",
                                       "invalid argument",
                                       "end of iteration",
                                       "remote error",
                                       "missing hash",
                                       "async task timed out",
                                       "async task cancelled"};
  for (std::size_t i = 0; i < texts.size(); ++i) {
    EXPECT_STREQ(tgm_error_string(static_cast<tgm_error>(i)), texts[i]);
  }
  // The consumer in C tries other numbers, which are undefined behaviour in C++.
  for (const int other : {14, 15}) {
    EXPECT_STREQ(tgm_error_string(static_cast<tgm_error>(other)), "unknown error");
  }
}

}  // namespace
}  // namespace weir::test::tgm
