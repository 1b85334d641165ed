// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <set>
#include <stdexcept>
#include <string>

#include "weir/base/capi/guard.hpp"
#include "weir/base/capi/handle_table.hpp"

namespace weir {
namespace {

/// Code and text of the failure of a guarded call, or "none" if it does not fail.
template <class Run>
std::string outcome_of(Run&& run) {
  return guarded_call(
      [&]() -> std::string {
        run();
        return "none";
      },
      [](errc code, const char* text) {
        return std::string(name_of(code)) + ": " + text;
      });
}

TEST(GuardedCall, ReturnsTheValueOfACallThatDoesNotThrow) {
  EXPECT_EQ(guarded_call([] { return 7; }, [](errc, const char*) { return -1; }), 7);
}

TEST(GuardedCall, TellsLackOfMemoryFromOtherExceptions) {
  EXPECT_EQ(outcome_of([] { throw std::bad_alloc(); }),
            std::string("out_of_memory: ") + std::bad_alloc().what());
  EXPECT_EQ(outcome_of([] { throw std::runtime_error("full"); }), "internal: full");
  EXPECT_EQ(outcome_of([] { throw 1; }), "internal: an exception of an unknown type");
}

TEST(LastErrorText, IsTheTextThatWasKeptLast) {
  last_error_text last;
  EXPECT_FALSE(last.any());
  EXPECT_STREQ(last.text(), "");
  last.keep("");
  EXPECT_TRUE(last.any());
  last.keep_literal("no memory");
  EXPECT_STREQ(last.text(), "no memory");
  last.keep("a text");
  EXPECT_STREQ(last.text(), "a text");
}

TEST(HandleTable, FindsAnObjectUntilItIsRemoved) {
  handle_table<int> table(3);
  const auto seven = table.add(std::make_shared<int>(7));
  const auto eight = table.add(std::make_shared<int>(8));
  EXPECT_NE(seven, eight);
  EXPECT_EQ(*table.get(seven), 7);
  EXPECT_TRUE(table.live(eight));
  EXPECT_EQ(*table.remove(seven), 7);
  EXPECT_EQ(table.get(seven), nullptr);
  EXPECT_EQ(table.remove(seven), nullptr);
  EXPECT_FALSE(table.live(seven));
  EXPECT_EQ(*table.get(eight), 8);
}

TEST(HandleTable, DoesNotTakeTheHandleOfAnEarlierObjectInTheSameSlot) {
  handle_table<int> table(3);
  const auto first = table.add(std::make_shared<int>(1));
  (void)table.remove(first);
  const auto second = table.add(std::make_shared<int>(2));
  EXPECT_NE(first, second);
  EXPECT_EQ(table.get(first), nullptr);
  EXPECT_EQ(*table.get(second), 2);
}

TEST(HandleTable, DoesNotTakeHandlesOfOtherKindsOrGenerations) {
  handle_table<int> meshes(2);
  handle_table<int> streams(3);
  handle_table<int> later(2, 1U << 16);
  const auto mesh = meshes.add(std::make_shared<int>(1));
  (void)streams.add(std::make_shared<int>(2));
  (void)later.add(std::make_shared<int>(3));
  EXPECT_EQ(streams.get(mesh), nullptr);
  EXPECT_EQ(later.get(mesh), nullptr);
  EXPECT_EQ(meshes.get(0), nullptr);
  EXPECT_EQ(meshes.get(~std::uintptr_t{0}), nullptr);
}

TEST(HandleTable, GrowsAndRemovesWhatACallerSelects) {
  handle_table<int> table(1);
  std::set<std::uintptr_t> handles;
  for (int i = 0; i < 1000; ++i) {
    handles.insert(table.add(std::make_shared<int>(i)));
  }
  EXPECT_EQ(handles.size(), 1000u);
  EXPECT_EQ(table.remove_if([](int value) { return value % 2 == 0; }).size(), 500u);
  int sum = 0;
  table.for_each([&](int value) { sum += value; });
  EXPECT_EQ(sum, 250'000);
  EXPECT_EQ(*table.any(), 1);
}

}  // namespace
}  // namespace weir
