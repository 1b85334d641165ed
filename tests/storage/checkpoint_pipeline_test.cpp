// SPDX-License-Identifier: Apache-2.0
/// @file
/// Checkpoints of pipelines: their sections, and the refusal of those that do not fit
/// together.
#include <gtest/gtest.h>

#include "support/temp_folder.hpp"
#include "weir/base/record.hpp"
#include "weir/storage/checkpoint.hpp"

namespace weir::storage {
namespace {

byte_vector epoch_of(std::uint64_t epoch, std::uint64_t next_item) {
  record_writer out;
  out.put(epoch);
  out.put(next_item);
  out.put(std::uint8_t{0});
  return std::move(out).take();
}

TEST(CheckpointPipeline, IsLoadedWithItsSections) {
  const test::temp_folder folder;
  auto store = or_throw(checkpoint_store::open(posix_file_system(), folder.path(),
                                               checkpoint_store::role::writer));
  const byte_vector epoch = epoch_of(3, 700);
  const std::vector<checkpoint_section> sections = {
      {std::string(section::config), as_view("text")},
      {std::string(section::epoch), epoch},
      {std::string(section::pipeline), as_view("stages")},
      {"STATE/sum/total", as_view("12345678"), dtype::fp64, {1}}};
  ASSERT_TRUE(store.save(sections, 700));
  const auto loaded = store.load_newest();
  ASSERT_TRUE(loaded) << loaded.error().message();
  EXPECT_EQ(loaded->header().pulse_id, 700U);
  const auto state = loaded->find("STATE/sum/total");
  ASSERT_TRUE(state);
  EXPECT_EQ(as_text((*state)->data), "12345678");
}

TEST(CheckpointPipeline, IsRefusedIfItsItemDiffersOrASectionIsMissing) {
  const test::temp_folder folder;
  auto store = or_throw(checkpoint_store::open(posix_file_system(), folder.path(),
                                               checkpoint_store::role::writer));
  const byte_vector epoch = epoch_of(3, 700);
  std::vector<checkpoint_section> sections = {
      {std::string(section::config), as_view("text")},
      {std::string(section::epoch), epoch},
      {std::string(section::pipeline), as_view("stages")}};
  const auto other_item = store.save(sections, 701);
  ASSERT_FALSE(other_item);
  EXPECT_EQ(other_item.error().code(), errc::invalid_argument);
  EXPECT_NE(other_item.error().message().find("expected item 701"), std::string::npos)
      << other_item.error().message();
  sections[1].data = bytes_view(epoch).first(15);
  EXPECT_FALSE(store.save(sections, 700));
  sections[1].data = epoch;
  sections.pop_back();
  const auto nameless = store.save(sections, 700);
  ASSERT_FALSE(nameless);
  EXPECT_NE(nameless.error().message().find("PIPELINE"), std::string::npos)
      << nameless.error().message();
}

}  // namespace
}  // namespace weir::storage
