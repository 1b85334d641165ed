// SPDX-License-Identifier: Apache-2.0
/// @file
/// Plain files of which the system cannot read a part, as on a failing disk.
#include <gtest/gtest.h>

#include "storage/context_support.hpp"
#include "support/failing_disk.hpp"
#include "weir/storage/token_files.hpp"

namespace weir::storage {
namespace {

using test::failing_disk;
using test::temp_folder;
using test::tokens;

std::string bytes_text(const tokens& bytes) {
  return {bytes.begin(), bytes.end()};
}

/// Returns bytes without those from `begin` to `end - 1`.
tokens cut(tokens all, std::size_t begin, std::size_t end) {
  all.erase(all.begin() + static_cast<std::ptrdiff_t>(begin),
            all.begin() + static_cast<std::ptrdiff_t>(std::min(end, all.size())));
  return all;
}

TEST(UnreadableRanges, PagesThatFailAreCutOutOfAPlainFile) {
  const temp_folder folder;
  const tokens all = test::random_tokens(200'000, 11);
  test::write_text(folder / "a", bytes_text(all));
  failing_disk disk;
  token_file_options options;
  options.format = token_format::bytes;
  options.on_damage = damage_policy::skip;
  options.separate_documents = false;
  const std::pair<std::uint64_t, std::uint64_t> ranges[] = {
      {0, 1}, {4096, 4097}, {70'000, 90'000}, {65'536, 65'537}, {199'999, 200'000}};
  for (const auto& [begin, end] : ranges) {
    disk.begin = begin;
    disk.end = end;
    const auto source = or_throw(open_token_files(disk, {folder / "a"}, options));
    const tokens expected = cut(all, begin / 4096 * 4096, (end + 4095) / 4096 * 4096);
    tokens found(source->size());
    ASSERT_EQ(or_throw(source->read(0, found)), found.size());
    ASSERT_EQ(found, expected) << begin;
  }
  // Ids of 16 bits are cut out whole.
  options.format = token_format::u16;
  options.vocabulary = 65536;
  disk.begin = 4096;
  disk.end = 8192;
  EXPECT_EQ(or_throw(open_token_files(disk, {folder / "a"}, options))->size(),
            (200'000U - 4096) / 2);
}

TEST(UnreadableRanges, WithoutThePolicyTheErrorNamesItAndTheByte) {
  const temp_folder folder;
  test::write_text(folder / "a", std::string(20'000, 'a'));
  failing_disk disk;
  disk.begin = 9000;
  disk.end = 9001;
  token_file_options options;
  options.format = token_format::bytes;
  options.digest_limit = 0;
  const auto source = or_throw(open_token_files(disk, {folder / "a"}, options));
  tokens some(20'000);
  const auto read = source->read(0, some);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code(), errc::source_unavailable);
  EXPECT_EQ(read.error().hint(), "on_damage = \"skip\" leaves unreadable ranges out");
}

TEST(UnreadableRanges, EveryChunkResumesOnTheDiskAndOnItsRepair) {
  const temp_folder folder;
  const tokens all = test::random_tokens(30'000, 12);
  test::write_text(folder / "a", bytes_text(all));
  failing_disk disk;
  disk.begin = 9000;
  disk.end = 12'000;
  token_file_options options;
  options.format = token_format::bytes;
  options.on_damage = damage_policy::skip;
  options.separate_documents = false;
  stream_config config;
  config.chunk = 1000;
  config.frequencies = {1};
  const auto open = [&] {
    return or_throw(context_stream::open(
        config, or_throw(open_token_files(disk, {folder / "a"}, options))));
  };
  const tokens expected = cut(all, 8192, 12'288);
  for (std::size_t count = 1; count < 26; ++count) {
    const auto whole = open();
    tokens seen = test::concatenated(test::read_all(*whole, config.chunk, 0, count));
    const auto cursor = or_throw(whole->cursor(1));
    disk.end = count % 2 == 0 ? 9000 : 12'000;  // a repaired disk, and the failing one
    const auto again = open();
    or_throw(again->restore(cursor));
    const tokens rest = test::concatenated(test::read_all(*again, config.chunk));
    seen.insert(seen.end(), rest.begin(), rest.end());
    EXPECT_EQ(seen, expected) << count;
    disk.end = 12'000;
  }
}

}  // namespace
}  // namespace weir::storage
