// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the sections of a checkpoint, the fields that its hash covers, and the
/// checkpointer that writes it.
#include "checkpointer/contents.hpp"

#include <gtest/gtest.h>

#include "checkpointer/checkpointer.hpp"
#include "support/temp_folder.hpp"

namespace weir::actors {
namespace {

/// Returns an order to save a small state after three pulses.
save_order an_order() {
  save_order o;
  auto snapshot = std::make_shared<state_snapshot>();
  snapshot->pulses = 3;
  snapshot->bytes.resize(96);
  for (std::size_t i = 0; i < snapshot->bytes.size(); ++i) {
    snapshot->bytes[i] = static_cast<std::byte>(i);
  }
  o.snapshot = std::move(snapshot);
  o.sections = {{models::region_kind::parameter, 0, 0, 32},
                {models::region_kind::counter, 0, 32, 32},
                {models::region_kind::context, 0, 64, 32}};
  auto source = storage::open_memory_source(as_view("some text for a cursor"));
  auto stream = storage::context_stream::open({}, std::move(*source));
  o.cursor = *(*stream)->cursor(3);
  conductor_record record;
  record.pulses = 3;
  o.conductor = encode(record);
  o.metrics = encode(run_accounts{});
  o.config = "seed = 1\n";
  o.build = "kernels";
  return o;
}

TEST(state_hash_of, covers_the_snapshot_and_the_cursor) {
  save_order o = an_order();
  const std::uint64_t before = state_hash_of(o.snapshot->bytes, o.cursor);
  byte_vector other = o.snapshot->bytes;
  other[95] ^= std::byte{1};
  EXPECT_NE(state_hash_of(other, o.cursor), before);
  o.cursor.dataset_index += 1;
  EXPECT_NE(state_hash_of(o.snapshot->bytes, o.cursor), before);
}

TEST(checkpointer_state, writes_what_it_reads_back) {
  test::temp_folder folder;
  checkpointer_state c(posix_file_system());
  ASSERT_TRUE(c.open({folder / "checkpoint", false}));
  const auto saved = c.save(an_order());
  ASSERT_TRUE(saved) << saved.error().message();
  EXPECT_EQ(saved->pulse_id, 3U);
  const auto back = storage::load_checkpoint(
      posix_file_system(),
      folder / ("checkpoint/ck-" + std::to_string(saved->generation) + ".weir"));
  ASSERT_TRUE(back) << back.error().message();
  for (const char* name :
       {"CONFIG", "CONDUCTOR", "CURSOR", "SOURCE_STATE", "RNG", "PARAM", "LEVEL_STEPS",
        "CTX/lane/0", "HASHES", "BUILD_ID", "METRICS"}) {
    EXPECT_TRUE(back->has(name)) << name;
  }
  const auto run = read_run(*back);
  ASSERT_TRUE(run) << run.error().message();
  EXPECT_EQ(run->record.pulses, 3U);
  EXPECT_EQ(run->build, "kernels");
}

TEST(checkpointer_state, refuses_to_begin_where_a_run_is) {
  test::temp_folder folder;
  {
    checkpointer_state c(posix_file_system());
    ASSERT_TRUE(c.open({folder / "checkpoint", false}));
    ASSERT_TRUE(c.save(an_order()));
  }
  checkpointer_state again(posix_file_system());
  const auto r = again.open({folder / "checkpoint", false});
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code(), errc::already_exists);
  EXPECT_NE(r.error().hint().find("weir resume"), std::string::npos);
}

TEST(checkpointer_state, holds_the_lock_of_its_folder) {
  test::temp_folder folder;
  checkpointer_state c(posix_file_system());
  ASSERT_TRUE(c.open({folder / "checkpoint", false}));
  checkpointer_state second(posix_file_system());
  const auto r = second.open({folder / "checkpoint", true});
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code(), errc::locked);
}

TEST(checkpointer_state, falls_back_to_the_generation_before_a_damaged_one_and_says_so) {
  test::temp_folder folder;
  {
    checkpointer_state c(posix_file_system());
    ASSERT_TRUE(c.open({folder / "checkpoint", false}));
    ASSERT_TRUE(c.save(an_order()));
    const auto second = c.save(an_order());
    ASSERT_TRUE(second);
    const std::string newest =
        folder / ("checkpoint/ck-" + std::to_string(second->generation) + ".weir");
    auto bytes = *read_file(posix_file_system(), newest);
    bytes[bytes.size() / 2] ^= std::byte{1};
    ASSERT_TRUE(write_file_atomically(posix_file_system(), newest, bytes));
  }
  checkpointer_state again(posix_file_system());
  const auto info = again.open({folder / "checkpoint", true});
  ASSERT_TRUE(info) << info.error().message();
  ASSERT_TRUE(info->newest);
  EXPECT_EQ(info->newest->header().generation, 1U);
  EXPECT_EQ(info->warnings.size(), 1U);
}

}  // namespace
}  // namespace weir::actors
