// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests whole runs on the deterministic scheduler: many interleavings must give one
/// result.
#include <gtest/gtest.h>

#include "actors/system/harness.hpp"

namespace weir::actors {
namespace {

/// A file system in memory for checkpoints. The folder exists on the real disk as well,
/// for the corpus and the lock.
struct disk_with_text {
  disk_with_text() {
    or_throw(write_file_atomically(posix_file_system(), folder / "text", text()));
  }
  static byte_vector text() {
    byte_vector bytes(5000);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<std::byte>((i * i + i / 7) & 0xFF);
    }
    return bytes;
  }
  test::temp_folder folder;
  test::faulty_files fs;
};

/// Returns the hash of the final state; a failed run throws.
std::uint64_t hash_of(const conductor_end& end) {
  if (end.failure) {
    throw std::runtime_error(end.failure->message());
  }
  return state_hash_of(end.snapshot->bytes, *end.cursor);
}

// The seeds vary the order of messages, the ranks, the prefetch, the batches and the
// period of checkpoints. The state hash must be the same for all of them.
TEST(pipeline, ends_in_one_state_for_every_interleaving) {
  std::optional<std::uint64_t> first;
  for (std::uint32_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    disk_with_text disk;
    test::harness_options o;
    o.seed = seed;
    o.lanes = 4;
    o.ranks = seed % 3 == 0 ? 1 : seed % 3 == 1 ? 2 : 4;
    o.prefetch = seed % 4 == 0 ? 0 : seed % 4 == 1 ? 1 : seed % 4 == 2 ? 5 : 64;
    o.batch = 1 + seed % 7;
    o.tokens = 1500;
    o.every_tokens = seed % 5 * 100;
    test::harness h(disk.fs, disk.folder.path(), o);
    const auto end = h.run();
    ASSERT_TRUE(end)
        << "the run does not end: no message is on its way and no event is due";
    ASSERT_FALSE(end->failure) << end->failure->message();
    EXPECT_EQ(end->ended, "finished");
    EXPECT_EQ(end->record.tokens, 1500U);
    first = first ? first : hash_of(*end);
    EXPECT_EQ(hash_of(*end), *first);
  }
}

// A run is asked to end at three places that depend on the seed, and is resumed each
// time. Its final state must be that of a run without a stop.
TEST(pipeline, interrupted_anywhere_and_resumed_ends_in_the_same_state) {
  std::uint64_t whole = 0;
  {
    disk_with_text disk;
    test::harness h(disk.fs, disk.folder.path(), {});
    whole = hash_of(h.run().value());
  }
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    disk_with_text disk;
    std::optional<conductor_end> end;
    std::uint64_t tokens = 0;
    for (std::uint32_t part = 0; part < 4; ++part) {
      test::harness_options o;
      o.seed = seed * 10 + part;
      o.every_tokens = 200;
      o.prefetch = part * 3;
      o.batch = 1 + seed % 4;
      if (part < 3) {
        o.drain_at = (seed * 13 + part * 29) % 120;
      }
      test::harness h(disk.fs, disk.folder.path(), o);
      ASSERT_FALSE(h.open_failure()) << h.open_failure()->message();
      end = h.run();
      ASSERT_TRUE(end) << "the run got stuck in part " << part;
      ASSERT_FALSE(end->failure) << end->failure->message();
      EXPECT_GE(end->record.tokens, tokens);
      tokens = end->record.tokens;
    }
    EXPECT_EQ(end->ended, "finished");
    EXPECT_EQ(hash_of(*end), whole);
  }
}

TEST(pipeline, resumed_after_its_disk_went_away_ends_in_the_same_state) {
  std::uint64_t whole = 0;
  {
    disk_with_text disk;
    test::harness h(disk.fs, disk.folder.path(), {});
    whole = hash_of(h.run().value());
  }
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    disk_with_text disk;
    test::harness_options o;
    o.seed = seed;
    o.batch = 1 + seed % 3;
    o.every_tokens = 150;
    {
      // From one operation on, the disk fails, as if the machine had stopped there.
      disk.fs.fail = [seed](std::size_t number, test::op_kind) -> std::optional<error> {
        return number > 40 + seed * 3
                   ? std::optional<error>(error(errc::io, "the disk is gone"))
                   : std::nullopt;
      };
      test::harness h(disk.fs, disk.folder.path(), o);
      static_cast<void>(h.run());
      disk.fs.fail = nullptr;
    }
    test::harness h(disk.fs, disk.folder.path(), o);
    ASSERT_FALSE(h.open_failure()) << h.open_failure()->message();
    const auto end = h.run();
    ASSERT_TRUE(end);
    ASSERT_FALSE(end->failure) << end->failure->message();
    EXPECT_EQ(hash_of(*end), whole);
  }
}

TEST(pipeline, hands_on_a_kernel_failure_with_text_and_cause) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    disk_with_text disk;
    test::harness_options o;
    o.seed = seed;
    o.batch = 1 + seed % 8;
    o.fail_at = 4;
    test::harness h(disk.fs, disk.folder.path(), o);
    const auto end = h.run();
    ASSERT_TRUE(end);
    ASSERT_TRUE(end->failure);
    EXPECT_EQ(end->failure->code(), errc::kernel_failed);
    EXPECT_EQ(end->failure->text(), "pulse 4 failed");
    EXPECT_EQ(end->failure->root().text(), "a row is out of range");
  }
}

/// The real file system; once `gone` is set, reads fail as if the disk had been removed.
class fading_files final : public file_system {
 public:
  bool gone = false;
  result<std::unique_ptr<file>> open(const std::string& path, open_mode mode) override {
    WEIR_TRY(auto inner, real_.open(path, mode));
    return std::unique_ptr<file>(std::make_unique<fading_file>(std::move(inner), gone));
  }
  result<void> rename(const std::string& a, const std::string& b) override {
    return real_.rename(a, b);
  }
  result<void> remove(const std::string& path) override { return real_.remove(path); }
  result<std::vector<std::string>> list(const std::string& f) override {
    return real_.list(f);
  }
  result<void> make_folder(const std::string& path) override {
    return real_.make_folder(path);
  }
  result<void> sync_folder(const std::string& path) override {
    return real_.sync_folder(path);
  }
  bool exists(const std::string& path) override { return real_.exists(path); }

 private:
  class fading_file final : public file {
   public:
    fading_file(std::unique_ptr<file> inner, const bool& gone)
        : inner_(std::move(inner)), gone_(gone) {}
    result<std::size_t> read_some(std::uint64_t offset, mutable_bytes to) override {
      if (gone_) {
        return error(errc::io, "the disk is gone");
      }
      return inner_->read_some(offset, to);
    }
    result<std::size_t> write_some(std::uint64_t offset, bytes_view from) override {
      return inner_->write_some(offset, from);
    }
    result<std::uint64_t> size() override { return inner_->size(); }
    result<void> resize(std::uint64_t bytes) override { return inner_->resize(bytes); }
    result<void> sync() override { return inner_->sync(); }
    const std::string& path() const noexcept override { return inner_->path(); }

   private:
    std::unique_ptr<file> inner_;
    const bool& gone_;
  };
  file_system& real_ = posix_file_system();
};

TEST(pipeline, hands_on_a_source_failure_with_text_and_cause) {
  disk_with_text disk;
  fading_files files;
  test::harness_options o;
  o.prefetch = 0;
  o.tokens = 5000;
  o.corpus_files = &files;
  test::harness h(disk.fs, disk.folder.path(), o);
  files.gone = true;
  const auto end = h.run();
  ASSERT_TRUE(end);
  ASSERT_TRUE(end->failure);
  EXPECT_EQ(end->failure->code(), errc::source_unavailable);
  EXPECT_NE(end->failure->message().find("the disk is gone"), std::string::npos)
      << end->failure->message();
}

std::int64_t test_now_ns = 0;

TEST(pipeline, ends_by_name_when_a_source_stays_silent_past_the_deadline) {
  disk_with_text disk;
  test::harness_options o;
  o.silent_ranks = true;
  o.now = [] { return test_now_ns; };
  test_now_ns = 1;
  test::harness h(disk.fs, disk.folder.path(), o);
  EXPECT_FALSE(h.run()) << "no answer has come, and the deadline has not passed";
  test_now_ns += 600'000'000'000;
  EXPECT_FALSE(h.pass(std::chrono::seconds(1)))
      << "exactly 600 s have passed, which is within the deadline";
  test_now_ns += 1;
  const auto end = h.pass(std::chrono::seconds(1));
  ASSERT_TRUE(end);
  ASSERT_TRUE(end->failure);
  EXPECT_EQ(end->failure->code(), errc::timeout);
  EXPECT_NE(end->failure->message().find("waiting for a chunk"), std::string::npos)
      << end->failure->message();
}

TEST(pipeline, goes_on_after_a_checkpoint_that_could_not_be_written_and_says_so) {
  disk_with_text disk;
  test::harness_options o;
  o.every_tokens = 200;
  test::harness h(disk.fs, disk.folder.path(), o);
  int syncs = 0;
  disk.fs.fail = [&](std::size_t, test::op_kind kind) -> std::optional<error> {
    return kind == test::op_kind::sync && ++syncs == 1
               ? std::optional<error>(error(errc::no_space, "the disk is full"))
               : std::nullopt;
  };
  const auto end = h.run();
  ASSERT_TRUE(end);
  ASSERT_FALSE(end->failure) << end->failure->message();
  ASSERT_EQ(h.warnings().size(), 1U);
  EXPECT_NE(h.warnings()[0].find("the disk is full"), std::string::npos);
  EXPECT_GE(end->generation, 1U);
}

TEST(pipeline, fails_when_the_last_checkpoint_cannot_be_written) {
  disk_with_text disk;
  test::harness h(disk.fs, disk.folder.path(), {});
  disk.fs.fail = [&](std::size_t, test::op_kind kind) -> std::optional<error> {
    return kind == test::op_kind::sync
               ? std::optional<error>(error(errc::no_space, "full"))
               : std::nullopt;
  };
  const auto end = h.run();
  ASSERT_TRUE(end);
  ASSERT_TRUE(end->failure);
  EXPECT_EQ(end->failure->code(), errc::no_space);
}

TEST(pipeline, of_a_finished_run_does_nothing_and_keeps_its_state) {
  disk_with_text disk;
  std::uint64_t first = 0;
  {
    test::harness h(disk.fs, disk.folder.path(), {});
    first = hash_of(h.run().value());
  }
  test::harness h(disk.fs, disk.folder.path(), {});
  const auto end = h.run();
  ASSERT_TRUE(end);
  EXPECT_EQ(end->ended, "finished");
  EXPECT_EQ(hash_of(*end), first);
  EXPECT_EQ(h.log().pulses, 0U);
}

}  // namespace
}  // namespace weir::actors
