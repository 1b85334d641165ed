// SPDX-License-Identifier: Apache-2.0
/// @file
/// Damage in token files: ranges that are left out, and segments that were consumed.
#include "storage/files/token_files_support.hpp"

namespace weir::storage {
namespace {

TEST(TokenFiles, DamageIsLeftOutByPolicyAndStaysLeftOut) {
  const temp_folder folder;
  token_file_options options;
  options.format = token_format::u16;
  options.vocabulary = 300;
  options.on_damage = damage_policy::skip;
  const tokens good = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  tokens bad = good;
  bad[4] = bad[5] = 60000;
  bad[11] = 300;
  const auto whole = [](token_source& source) {
    tokens all(source.size());
    EXPECT_EQ(or_throw(source.read(0, all)), all.size());
    return all;
  };
  auto damaged = or_throw(open_one(folder, "a.bin", packed<std::uint16_t>(bad), options));
  const tokens expected = {1, 2, 3, 4, 300, 7, 8, 9, 10, 11};
  EXPECT_EQ(whole(*damaged), expected);
  EXPECT_EQ(damaged->place_text(5), folder / "a.bin" + ":12");
  EXPECT_EQ(damaged->vocabulary(), 301U);
  const byte_vector state = or_throw(damaged->state(3));
  // The repaired file is read as the damaged one once was.
  auto repaired =
      or_throw(open_one(folder, "a.bin", packed<std::uint16_t>(good), options));
  EXPECT_EQ(whole(*repaired), good);
  or_throw(repaired->restore_state(3, state));
  EXPECT_EQ(whole(*repaired), expected);
  EXPECT_EQ(or_throw(repaired->state(3)), state);
  EXPECT_EQ(repaired->identity().digest(), damaged->identity().digest());
  // Damage that came later is left out behind the cursor, and an error before it.
  bad[1] = bad[8] = 999;
  auto worse = or_throw(open_one(folder, "a.bin", packed<std::uint16_t>(bad), options));
  or_throw(worse->restore_state(3, state));
  EXPECT_EQ(worse->size(), 10U);
  tokens some(2);
  EXPECT_FALSE(worse->read(0, some));
  EXPECT_TRUE(worse->read(2, some));
  for (byte_vector wrong : {byte_vector(3), byte_vector(40, std::byte{0xff})}) {
    EXPECT_FALSE(worse->restore_state(3, wrong));
  }
}

/// Expects that a stream over `later` goes on as the one over `first` after `count`
/// chunks.
void expect_resume(const stream_config& config, std::unique_ptr<token_source> first,
                   std::unique_ptr<token_source> later, std::size_t count) {
  const auto whole = or_throw(context_stream::open(config, std::move(first)));
  test::read_all(*whole, config.chunk, 0, count);
  const byte_vector cursor = encode(or_throw(whole->cursor(1)));
  const auto stream = or_throw(context_stream::open(config, std::move(later)));
  or_throw(stream->restore(or_throw(decode_cursor(cursor))));
  EXPECT_EQ(encode(or_throw(stream->cursor(1))), cursor);
  for (int i = 0; i < 4; ++i) {
    const auto a = or_throw(whole->next_chunk(config.chunk));
    const auto b = or_throw(stream->next_chunk(config.chunk));
    ASSERT_EQ(a.has_value(), b.has_value());
    EXPECT_TRUE(!a || test::same(*a, *b)) << i;
  }
}

/// Options of files of ids below 256, without the ranges that have others.
token_file_options skipping() {
  token_file_options options;
  options.format = token_format::u16;
  options.vocabulary = 256;
  options.on_damage = damage_policy::skip;
  return options;
}

TEST(TokenFiles, ALoopOverDamageResumesInEveryPass) {
  const temp_folder folder;
  tokens ids = test::random_tokens(50, 8);
  ids[20] = ids[21] = ids[40] = 999;
  write_plain(folder / "a.bin", packed<std::uint16_t>(ids));
  const auto open = [&] {
    return or_throw(
        open_token_files(posix_file_system(), {folder / "a.bin"}, skipping()));
  };
  stream_config config;
  config.chunk = 7;
  config.frequencies = {1};
  config.end = end_policy::loop;
  for (std::size_t count = 1; count < 24; ++count) {
    expect_resume(config, open(), open(), count);
  }
}

TEST(TokenFiles, DamageThatCameLaterDoesNotShortenWhatWasConsumed) {
  const temp_folder before;
  const temp_folder after;
  tokens ids = test::random_tokens(40000, 9);
  ids[5] = 999;
  tokens worse = ids;
  std::fill(worse.begin() + 100, worse.begin() + 15000, 999);
  using wrap =
      std::function<std::unique_ptr<token_source>(std::unique_ptr<token_source>)>;
  const wrap wraps[] = {
      [](auto source) { return source; },
      [](auto source) {
        std::vector<std::unique_ptr<token_source>> parts;
        parts.push_back(std::move(source));
        parts.push_back(or_throw(open_memory_tokens(test::random_tokens(5000, 10))));
        return or_throw(chain_sources(std::move(parts)));
      },
      [](auto source) { return or_throw(shuffle_source(std::move(source), 4, 3, 1000)); },
      [](auto source) {
        std::vector<mix_part> parts(1);
        parts[0].source = std::move(source);
        parts[0].exhausted = exhaustion::drop;
        mix_options options;
        options.run_tokens = 1000;
        return or_throw(mix_sources(std::move(parts), options));
      }};
  stream_config config;
  config.chunk = 100;
  config.frequencies = {1};
  for (const wrap& one : wraps) {
    const auto open = [&](const temp_folder& folder, const tokens& all) {
      return one(
          or_throw(open_one(folder, "a.bin", packed<std::uint16_t>(all), skipping())));
    };
    expect_resume(config, open(before, ids), open(after, worse), 397);
  }
}

TEST(TokenFiles, MoreDamageThanADiskHasIsAnError) {
  const temp_folder folder;
  tokens ids(4000);
  for (std::size_t i = 0; i < ids.size(); i += 2) {
    ids[i] = 9;
  }
  token_file_options options;
  options.format = token_format::u16;
  options.vocabulary = 5;
  options.on_damage = damage_policy::skip;
  EXPECT_NE(
      refusal(folder, open_one(folder, "a.bin", packed<std::uint16_t>(ids), options))
          .find("expected at most 1024 ranges"),
      std::string::npos);
}

TEST(TokenFiles, DamagedBlocksOfAVolumeAreLeftOut) {
  const temp_folder folder;
  const file_case one = volume_case("", token_format::u16, [](const tokens& ids) {
    return packed<std::uint16_t>(ids);
  });
  const tokens ids = test::random_tokens(3000, 4);
  const auto paths = one.write(folder, {ids});
  std::uint64_t at = 0;
  std::uint64_t payload = 0;
  {
    const auto volume = or_throw(hn4_volume::open(paths[0]));
    const auto stream = or_throw(volume.stream("ids"));
    payload = stream.payload();
    for (const hn4_extent& extent : stream.extents()) {
      if (extent.offset <= 2 * payload && 2 * payload < extent.offset + extent.bytes) {
        const std::uint64_t block = volume.geometry().block;
        at = extent.device_offset + (2 * payload - extent.offset) / payload * block + 60;
      }
    }
  }
  ASSERT_NE(at, 0U);
  std::fstream image(paths[0], std::ios::in | std::ios::out | std::ios::binary);
  image.seekp(static_cast<std::streamoff>(at));
  image.write("\x01\x02\x03\x04\x05\x06\x07", 7);
  image.close();
  tokens all(ids.size());
  token_file_options options = one.options;
  options.digest_limit = 0;
  const auto strict = or_throw(open_token_files(posix_file_system(), paths, options));
  const auto stopped = strict->read(0, all);
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code(), errc::source_unavailable);
  options.on_damage = damage_policy::skip;
  const auto source = or_throw(open_token_files(posix_file_system(), paths, options));
  all.resize(source->size());
  ASSERT_EQ(or_throw(source->read(0, all)), all.size());
  // Block 2 of the stream has the bytes from 2 to 3 payloads.
  tokens expected(ids.begin(), ids.begin() + static_cast<long>(payload));
  expected.push_back(256);
  expected.insert(expected.end(), ids.begin() + static_cast<long>(3 * payload / 2),
                  ids.end());
  EXPECT_EQ(all, expected);
}

TEST(TokenFiles, ConsumedSegmentsOfALargeSetAreComparedWhenTheyAreReadAgain) {
  const temp_folder folder;
  token_file_options options;
  options.format = token_format::u16;
  options.digest_limit = 0;
  const tokens ids = test::random_tokens(3 * 4096 + 10, 6);
  const auto first =
      or_throw(open_one(folder, "a.bin", packed<std::uint16_t>(ids), options));
  EXPECT_TRUE(or_throw(first->state(4095)).empty());
  const byte_vector state = or_throw(first->state(2 * 4096 + 5));
  const byte_vector later = or_throw(first->state(3 * 4096));
  EXPECT_LT(state.size(), later.size());
  // The state does not depend on what was read or asked for before.
  EXPECT_EQ(or_throw(first->state(2 * 4096 + 5)), state);
  tokens changed = ids;
  changed[100] ^= 1;
  const auto second =
      or_throw(open_one(folder, "a.bin", packed<std::uint16_t>(changed), options));
  or_throw(second->restore_state(2 * 4096 + 5, state));
  tokens some(10);
  EXPECT_TRUE(second->read(2 * 4096, some));
  EXPECT_TRUE(second->read(4096, some));
  const auto again = second->read(0, some);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code(), errc::history_mismatch);
}

TEST(TokenFiles, StatesOfALargeSetStaySmall) {
  const temp_folder folder;
  token_file_options options;
  options.format = token_format::bytes;
  options.digest_limit = 0;
  write_plain(folder / "a", "");
  std::filesystem::resize_file(folder / "a", std::uintmax_t{2} << 20);
  const auto source =
      or_throw(open_token_files(posix_file_system(), {folder / "a"}, options));
  const byte_vector state = or_throw(source->state(source->size()));
  // Segments have 8192 tokens; 512 of 4096 tokens would be too many.
  EXPECT_GT(state.size(), 8U * 256);
  EXPECT_LT(state.size(), 8U * 256 + 100);
}

}  // namespace
}  // namespace weir::storage
