// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests `result`, the text of an `error` with its causes, exit codes, and errors of
/// system calls.
#include "weir/base/error.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <tuple>

using namespace weir;

namespace {

/// Returns half of an even number and fails for an odd one.
result<int> half(int x) {
  if (x % 2 != 0) {
    return error(errc::invalid_argument,
                 "cannot halve 3: expected an even number, found an odd one");
  }
  return x / 2;
}

/// Halves twice, so that either of two `WEIR_TRY` may return the error.
result<int> quarter(int x) {
  WEIR_TRY(const int h, half(x));
  WEIR_TRY(const int q, half(h));
  return q;
}

}  // namespace

TEST(Result, TryReturnsTheFirstErrorOrTheValue) {
  EXPECT_EQ(or_throw(quarter(12)), 3);
  ASSERT_FALSE(quarter(6));
  EXPECT_EQ(quarter(6).error().code(), errc::invalid_argument);
}

TEST(Error, MessageHoldsHintPlaceAndTheWholeChainOfCauses) {
  const error e = error(errc::kernel_failed, "task \"mlp\" failed")
                      .located("pulse 3")
                      .hint("see the log")
                      .because(error(errc::io, "cannot read \"x\"").located("x:12"));
  EXPECT_EQ(e.message(),
            "task \"mlp\" failed; see the log\n  at pulse 3\n  caused by: cannot read "
            "\"x\"\n  at x:12");
  EXPECT_EQ(e.root().code(), errc::io);
}

TEST(Error, FamiliesHaveTheirExitCodes) {
  EXPECT_EQ(exit_code_of(errc::unknown_key), 2);
  EXPECT_EQ(exit_code_of(errc::not_found), 3);
  EXPECT_EQ(exit_code_of(errc::history_mismatch), 4);
  EXPECT_EQ(exit_code_of(errc::locked), 5);
  EXPECT_EQ(exit_code_of(errc::interrupted), 6);
  EXPECT_EQ(exit_code_of(errc::internal), 70);
  EXPECT_EQ(exit_code_of(errc::rank_lost), 6);
  EXPECT_EQ(exit_code_of(errc::cancelled), 6);
}

TEST(Error, CodesOfRanksAndDevicesHaveFixedNumbersAndNames) {
  const std::tuple<errc, int, const char*> codes[] = {
      {errc::rank_lost, 80, "rank_lost"},
      {errc::diverged, 81, "diverged"},
      {errc::device_lost, 82, "device_lost"},
      {errc::overloaded, 83, "overloaded"},
      {errc::cancelled, 84, "cancelled"}};
  for (const auto& [code, number, name] : codes) {
    EXPECT_EQ(static_cast<int>(code), number);
    EXPECT_EQ(name_of(code), name);
  }
}

TEST(Error, OfASystemCallHasTheCodeOfItsErrnoAndNamesTheFile) {
  const std::pair<int, errc> codes[] = {{ENOENT, errc::not_found},
                                        {ENOTDIR, errc::not_found},
                                        {EEXIST, errc::already_exists},
                                        {ENOSPC, errc::no_space},
                                        {EDQUOT, errc::no_space},
                                        {EACCES, errc::io},
                                        {EIO, errc::io}};
  for (const auto& [number, code] : codes) {
    EXPECT_EQ(errc_of_errno(number), code) << number;
    EXPECT_EQ(system_error("open", "a", number).code(), code) << number;
  }
  EXPECT_EQ(system_error("open", "a/b", ENOENT).text(),
            std::string("cannot open \"a/b\": ") + std::strerror(ENOENT));
}

TEST(Contract, ViolationThrowsInEveryBuild) {
  EXPECT_THROW(WEIR_EXPECT(1 > 2), std::logic_error);
}
