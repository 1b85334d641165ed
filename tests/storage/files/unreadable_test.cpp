// SPDX-License-Identifier: Apache-2.0
/// @file
/// Plain files of which the system cannot read a part, as on a failing disk.
#include <gtest/gtest.h>

#include "storage/context_support.hpp"
#include "weir/storage/token_files.hpp"

namespace weir::storage {
namespace {

using test::temp_folder;
using test::tokens;

/// A file whose bytes from `begin` to `end - 1` cannot be read. As of a disk, a read that
/// begins before them ends there.
class failing_file final : public file {
 public:
  failing_file(std::unique_ptr<file> whole, std::uint64_t begin, std::uint64_t end)
      : whole_(std::move(whole)), begin_(begin), end_(end) {}
  result<std::size_t> read_some(std::uint64_t offset, mutable_bytes to) override {
    if (offset >= begin_ && offset < end_) {
      return error(errc::io, "cannot read: Input/output error");
    }
    const std::uint64_t most = offset < begin_ ? begin_ - offset : to.size();
    return whole_->read_some(
        offset,
        to.first(static_cast<std::size_t>(std::min<std::uint64_t>(to.size(), most))));
  }
  result<std::size_t> write_some(std::uint64_t offset, bytes_view bytes) override {
    return whole_->write_some(offset, bytes);
  }
  result<std::uint64_t> size() override { return whole_->size(); }
  result<void> resize(std::uint64_t bytes) override { return whole_->resize(bytes); }
  result<void> sync() override { return whole_->sync(); }
  const std::string& path() const noexcept override { return whole_->path(); }

 private:
  std::unique_ptr<file> whole_;
  std::uint64_t begin_;
  std::uint64_t end_;
};

/// The files of the system, with an unreadable range in each.
class failing_disk final : public file_system {
 public:
  std::uint64_t begin = 0;  ///< first byte that cannot be read
  std::uint64_t end = 0;    ///< behind the last one

  result<std::unique_ptr<file>> open(const std::string& path, open_mode mode) override {
    WEIR_TRY(auto whole, posix_file_system().open(path, mode));
    return std::unique_ptr<file>(
        std::make_unique<failing_file>(std::move(whole), begin, end));
  }
  result<void> rename(const std::string& from, const std::string& to) override {
    return posix_file_system().rename(from, to);
  }
  result<void> remove(const std::string& path) override {
    return posix_file_system().remove(path);
  }
  result<std::vector<std::string>> list(const std::string& folder) override {
    return posix_file_system().list(folder);
  }
  result<void> make_folder(const std::string& path) override {
    return posix_file_system().make_folder(path);
  }
  result<void> sync_folder(const std::string& folder) override {
    return posix_file_system().sync_folder(folder);
  }
  bool exists(const std::string& path) override {
    return posix_file_system().exists(path);
  }
};

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
