// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests what tensogram_x.h adds to the interface of the reference.
#include <limits>
#include <nlohmann/json.hpp>

#include "conformance/tensogram_c/support.hpp"

namespace weir::test::tgm {
namespace {

/// Returns options whose members are all zero except their size.
template <class Options>
Options defaults() {
  Options out{};
  out.struct_size = sizeof out;
  return out;
}

/// Encodes the two sample objects with these options.
tgm_error encode_two_with(const tgm_x_encode_options_t& options, owned& out) {
  const two_arrays arrays;
  return tgm_x_encode(two_objects, arrays.data.data(), arrays.lengths.data(), 2, &options,
                      &out.bytes);
}
/// Returns the code of decoding with these options.
tgm_error decode_with(const std::string& bytes, const tgm_x_decode_options_t& options) {
  return make<message>(tgm_x_decode, as_u8(bytes), bytes.size(), &options).code;
}

TEST(tensogram_c, payloads_are_aligned_as_asked) {
  for (std::uint32_t alignment = 16; alignment <= 4096; alignment *= 2) {
    auto options = defaults<tgm_x_encode_options_t>();
    options.payload_alignment = alignment;
    owned out;
    ASSERT_EQ(encode_two_with(options, out), TGM_ERROR_OK) << last_error();
    const std::string bytes = out.text();
    const std::uint8_t* elements = nullptr;
    std::size_t length = 0;
    ASSERT_EQ(tgm_x_object_view(as_u8(bytes), bytes.size(), 0, &elements, &length),
              TGM_ERROR_OK)
        << last_error();
    EXPECT_EQ(static_cast<std::size_t>(elements - as_u8(bytes)) % alignment, 0u);
    EXPECT_EQ(length, 16u);
    EXPECT_EQ(std::memcmp(elements, two_arrays().a.data(), 16), 0);
    EXPECT_EQ(decode(bytes).code, TGM_ERROR_OK) << last_error();
  }
  for (const std::uint32_t alignment : {1u, 8u, 24u, 8192u, 0x80000000u}) {
    auto options = defaults<tgm_x_encode_options_t>();
    options.payload_alignment = alignment;
    owned out;
    EXPECT_EQ(encode_two_with(options, out), TGM_ERROR_INVALID_ARG) << alignment;
  }
}

TEST(tensogram_c, elements_are_seen_where_they_lie_if_they_lie_there) {
  const std::string bytes = encode_two();
  const std::uint8_t* elements = nullptr;
  std::size_t length = 0;
  const auto view = [&](const std::string& message, std::size_t object) {
    return tgm_x_object_view(as_u8(message), message.size(), object, &elements, &length);
  };
  EXPECT_EQ(view(bytes, 0), TGM_ERROR_OK) << last_error();
  EXPECT_EQ(view(bytes, 1), TGM_ERROR_ENCODING) << "a compressed payload has no view";
  EXPECT_EQ(view(bytes, 2), TGM_ERROR_OBJECT);
  std::string changed = bytes;
  changed[static_cast<std::size_t>(elements - as_u8(bytes))] ^= 1;
  EXPECT_EQ(view(changed, 0), TGM_ERROR_HASH_MISMATCH);
  EXPECT_EQ(view("nonsense", 0), TGM_ERROR_FRAMING);
}

TEST(tensogram_c, equal_input_gives_equal_bytes_where_that_is_asked_for) {
  auto options = defaults<tgm_x_encode_options_t>();
  owned first;
  owned second;
  ASSERT_EQ(encode_two_with(options, first), TGM_ERROR_OK);
  ASSERT_EQ(encode_two_with(options, second), TGM_ERROR_OK);
  EXPECT_FALSE(first.text() == second.text())
      << "each message has an identifier of its own";
  options.reproducible = true;
  options.hash_algo = "xxh3";
  for (const auto list :
       {TGM_X_HASH_LIST_AUTO, TGM_X_HASH_LIST_NONE, TGM_X_HASH_LIST_HEADER,
        TGM_X_HASH_LIST_FOOTER, TGM_X_HASH_LIST_BOTH}) {
    options.hash_list = list;
    owned one;
    owned other;
    ASSERT_EQ(encode_two_with(options, one), TGM_ERROR_OK) << last_error();
    ASSERT_EQ(encode_two_with(options, other), TGM_ERROR_OK);
    EXPECT_TRUE(one.text() == other.text()) << list;
    EXPECT_EQ(decode(one.text(), true).code, TGM_ERROR_OK) << last_error();
  }
}

TEST(tensogram_c, options_grow_at_their_end_and_are_checked) {
  auto options = defaults<tgm_x_encode_options_t>();
  owned out;
  options.hash_algo = "no such name";
  options.struct_size = offsetof(tgm_x_encode_options_t, hash_algo);
  EXPECT_EQ(encode_two_with(options, out), TGM_ERROR_OK)
      << "a caller from before hash_algo: " << last_error();
  options.struct_size = sizeof options;
  EXPECT_EQ(encode_two_with(options, out), TGM_ERROR_INVALID_ARG);
  for (const std::size_t size : {std::size_t{0}, sizeof(std::size_t) - 1}) {
    options.struct_size = size;
    EXPECT_EQ(encode_two_with(options, out), TGM_ERROR_INVALID_ARG) << size;
  }
  struct later_options {
    tgm_x_decode_options_t known = defaults<tgm_x_decode_options_t>();
    std::uint64_t added = 0;
  } later;
  later.known.struct_size = sizeof later;
  const std::string bytes = encode_two();
  EXPECT_EQ(decode_with(bytes, later.known), TGM_ERROR_OK) << last_error();
  later.added = 1;
  EXPECT_EQ(decode_with(bytes, later.known), TGM_ERROR_INVALID_ARG)
      << "an option that this library does not know is refused if it is set";
  options = defaults<tgm_x_encode_options_t>();
  auto reading = defaults<tgm_x_decode_options_t>();
  const auto whole = make<scan_result>(tgm_x_scan, as_u8(bytes), bytes.size(),
                                       static_cast<tgm_x_scan_order>(3));
  EXPECT_EQ(whole.code, TGM_ERROR_INVALID_ARG);
  for (const int number : {-1, 5, std::numeric_limits<int>::min()}) {
    put_number(options.hash_list, number);
    EXPECT_EQ(encode_two_with(options, out), TGM_ERROR_INVALID_ARG) << number;
    put_number(reading.hash_check, number);
    EXPECT_EQ(decode_with(bytes, reading), TGM_ERROR_INVALID_ARG) << number;
  }
}

TEST(tensogram_c, decoding_checks_digests_and_sizes_as_asked) {
  const std::string good = encode_two();
  const std::string bare = encode_two(nullptr);
  std::string changed = good;
  const float two = 2;
  changed[good.find(std::string(reinterpret_cast<const char*>(&two), 4))] ^= 1;
  auto options = defaults<tgm_x_decode_options_t>();
  EXPECT_EQ(decode_with(bare, options), TGM_ERROR_OK);
  EXPECT_EQ(decode_with(changed, options), TGM_ERROR_HASH_MISMATCH);
  options.hash_check = TGM_X_HASH_CHECK_REQUIRED;
  EXPECT_EQ(decode_with(bare, options), TGM_ERROR_MISSING_HASH);
  options.hash_check = TGM_X_HASH_CHECK_NONE;
  EXPECT_EQ(decode_with(changed, options), TGM_ERROR_OK) << last_error();
  options.max_object_bytes = 23;
  EXPECT_EQ(decode_with(good, options), TGM_ERROR_OBJECT)
      << "the limit is below the 24 bytes of object 1";
  options.max_object_bytes = 24;
  EXPECT_EQ(decode_with(good, options), TGM_ERROR_OK) << last_error();
  const std::uint64_t offset = 1;
  const std::uint64_t count = 2;
  owned part;
  ASSERT_EQ(tgm_x_decode_range(as_u8(good), good.size(), 1, &offset, &count, 1, &options,
                               &part.bytes),
            TGM_ERROR_OK)
      << last_error();
  EXPECT_EQ(std::memcmp(part.bytes.data, &two_arrays().b[1], 16), 0);
  options.max_object_bytes = 23;
  EXPECT_EQ(tgm_x_decode_range(as_u8(good), good.size(), 1, &offset, &count, 1, &options,
                               &part.bytes),
            TGM_ERROR_OBJECT);
}

TEST(tensogram_c, masks_are_returned_beside_the_stored_elements) {
  const float values[4] = {std::numeric_limits<float>::quiet_NaN(), 2,
                           std::numeric_limits<float>::infinity(), 4};
  const TgmEncodeMaskOptions allowed{true, true, nullptr, nullptr, nullptr, -1};
  auto options = defaults<tgm_x_encode_options_t>();
  options.mask_options = &allowed;
  const std::string json = four_floats_json();
  const std::uint8_t* const data = as_u8(values);
  const std::size_t length = 16;
  owned out;
  ASSERT_EQ(tgm_x_encode(json.c_str(), &data, &length, 1, &options, &out.bytes),
            TGM_ERROR_OK)
      << last_error();
  const std::string bytes = out.text();
  tgm_x_masks_t masks{};
  ASSERT_EQ(tgm_x_decode_masks(as_u8(bytes), bytes.size(), 0, &masks), TGM_ERROR_OK);
  ASSERT_EQ(masks.nan.len, 1u);
  EXPECT_EQ(masks.nan.data[0], 0x80)
      << "the highest bit of the mask stands for the first element";
  ASSERT_EQ(masks.positive_infinity.len, 1u);
  EXPECT_EQ(masks.positive_infinity.data[0], 0x20);
  EXPECT_EQ(masks.negative_infinity.len, 0u);
  tgm_x_masks_free(masks);
  EXPECT_EQ(tgm_x_decode_masks(as_u8(bytes), bytes.size(), 1, &masks), TGM_ERROR_OBJECT);
  auto keep = defaults<tgm_x_decode_options_t>();
  keep.keep_masked = true;
  const auto found = make<message>(tgm_x_decode, as_u8(bytes), bytes.size(), &keep);
  const float stored[4] = {0, 2, 0, 4};
  EXPECT_EQ(std::memcmp(tgm_object_data(found.get(), 0, nullptr), stored, 16), 0);
}

TEST(tensogram_c, every_order_of_scanning_finds_the_same_messages) {
  const std::string one = encode_two();
  for (const std::string& all : {one, "rubbish" + one + one + "TENSOGRM", one + one + one,
                                 std::string("no message")}) {
    const auto forward = make<scan_result>(tgm_scan, as_u8(all), all.size());
    for (const auto order :
         {TGM_X_SCAN_FORWARD, TGM_X_SCAN_BACKWARD, TGM_X_SCAN_BOTH_ENDS}) {
      const auto found = make<scan_result>(tgm_x_scan, as_u8(all), all.size(), order);
      ASSERT_EQ(found.code, TGM_ERROR_OK) << last_error();
      ASSERT_EQ(tgm_scan_count(found.get()), tgm_scan_count(forward.get())) << order;
      for (std::size_t i = 0; i < tgm_scan_count(found.get()); ++i) {
        EXPECT_EQ(tgm_scan_entry(found.get(), i).offset,
                  tgm_scan_entry(forward.get(), i).offset);
      }
    }
  }
}

TEST(tensogram_c, a_splitter_finds_messages_in_bytes_that_come_piece_by_piece) {
  const std::string one = encode_two();
  const std::string all = "rubbish" + one + one + one.substr(0, 50);
  for (const std::size_t piece : {std::size_t{1}, std::size_t{100}, all.size()}) {
    const auto split = make<splitter>(tgm_x_splitter_create, std::uint64_t{0});
    ASSERT_EQ(split.code, TGM_ERROR_OK);
    std::vector<std::uint64_t> offsets;
    std::uint64_t skipped_before = 0;
    owned bytes;
    const auto take_all = [&] {
      std::uint64_t offset = 0;
      std::uint64_t skipped = 0;
      for (owned next; tgm_x_splitter_take(split.get(), &next.bytes, &offset, &skipped) ==
                       TGM_ERROR_OK;
           next = owned()) {
        EXPECT_TRUE(next.text() == one);
        offsets.push_back(offset);
        skipped_before += skipped;
      }
    };
    for (std::size_t done = 0; done < all.size(); done += piece) {
      const std::size_t size = std::min(piece, all.size() - done);
      ASSERT_EQ(tgm_x_splitter_put(split.get(), as_u8(all) + done, size), TGM_ERROR_OK);
      take_all();
    }
    EXPECT_EQ(tgm_x_splitter_held(split.get()), 50u);
    ASSERT_EQ(tgm_x_splitter_end(split.get()), TGM_ERROR_OK);
    take_all();
    EXPECT_EQ(offsets, (std::vector<std::uint64_t>{7, 7 + one.size()}));
    EXPECT_EQ(skipped_before, 7u);
    EXPECT_EQ(tgm_x_splitter_skipped(split.get()), 50u);
    EXPECT_TRUE(tgm_x_splitter_cut_short(split.get()));
    EXPECT_EQ(tgm_x_splitter_put(split.get(), as_u8(one), 1), TGM_ERROR_INVALID_ARG);
  }
  const auto small = make<splitter>(tgm_x_splitter_create, std::uint64_t{100});
  EXPECT_EQ(tgm_x_splitter_put(small.get(), as_u8(one), one.size()), TGM_ERROR_OK);
  EXPECT_EQ(tgm_x_splitter_end(small.get()), TGM_ERROR_OK);
  owned none;
  EXPECT_EQ(tgm_x_splitter_take(small.get(), &none.bytes, nullptr, nullptr),
            TGM_ERROR_END_OF_ITER)
      << "a message above the size limit is not returned";
}

TEST(tensogram_c, a_buffer_is_judged_with_a_level_and_a_limit_of_its_own) {
  const std::string bytes = encode_two() + "rubbish" + encode_two();
  const auto judged = [&](const char* level, std::uint64_t limit) {
    auto options = defaults<tgm_x_validate_options_t>();
    options.max_object_bytes = limit;
    owned out;
    EXPECT_EQ(tgm_x_validate(as_u8(bytes), bytes.size(), level, &options, &out.bytes),
              TGM_ERROR_OK)
        << last_error();
    return nlohmann::json::parse(out.text());
  };
  for (const char* level : {"metadata", "quick", "full"}) {
    const auto report = judged(level, 0);
    EXPECT_EQ(report.at("file_issues").size(), 1u) << report;
    EXPECT_EQ(report.at("messages").size(), 2u) << report;
    EXPECT_TRUE(report["messages"][0].at("issues").empty()) << report;
  }
  EXPECT_FALSE(judged("full", 23)["messages"][0].at("issues").empty());
  owned out;
  EXPECT_EQ(tgm_x_validate(as_u8(bytes), bytes.size(), "bogus", nullptr, &out.bytes),
            TGM_ERROR_INVALID_ARG);
  EXPECT_NE(last_error().find("quick, metadata, default"), std::string::npos)
      << last_error();
  EXPECT_EQ(tgm_x_validate(nullptr, 0, nullptr, nullptr, &out.bytes), TGM_ERROR_OK);
}

TEST(tensogram_c, the_library_reports_its_version) {
  const std::string version = tgm_x_version();
  EXPECT_EQ(version.find_first_not_of("0123456789."), std::string::npos) << version;
  EXPECT_NE(version, "");
}

}  // namespace
}  // namespace weir::test::tgm
