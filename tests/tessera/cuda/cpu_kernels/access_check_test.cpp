// SPDX-License-Identifier: Apache-2.0
/// @file
/// Accesses of three threads or more to one byte: the writer has to be ordered behind
/// every reader, whichever it is.
#include "cpu_kernels/access_check.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

namespace weir::tessera::kernel_machine {
namespace {

constexpr std::uint32_t readers = 4;

/// Lets four blocks read a byte. All but `left_out` then release an atomic variable, from
/// which block 4 acquires before it writes the byte. Returns the text of the fault.
std::string write_behind_all_but(std::uint32_t left_out) {
  std::array<std::uint32_t, 2> memory{};
  access_check check(readers + 1);
  check.add(memory.data(), sizeof memory, true);
  std::string fault;
  const auto access = [&](std::size_t i, access_kind kind, std::uint32_t block) {
    fault += check.note(&memory[i], 4, kind, {block, 0, 0});
  };
  for (std::uint32_t b = 0; b < readers; ++b) {
    access(0, access_kind::read, b);
  }
  for (std::uint32_t b = 0; b < readers; ++b) {
    if (b != left_out) {
      access(1, access_kind::atomic, b);
    }
  }
  access(1, access_kind::atomic, readers);
  access(0, access_kind::write, readers);
  return fault;
}

TEST(AccessCheck, AWriterMissesNoReaderOfAnotherBlock) {
  EXPECT_EQ(write_behind_all_but(readers), "") << "every reader comes before the writer";
  for (std::uint32_t left_out = 0; left_out < readers; ++left_out) {
    EXPECT_NE(write_behind_all_but(left_out).find("a read and a write are not ordered"),
              std::string::npos)
        << "block " << left_out << " is not ordered";
  }
}

/// Lets threads 0 to 3 of a block read a byte in an order, and then a thread write it,
/// `barriers` barriers later.
std::string write_in_block(std::array<std::uint32_t, 4> order, std::uint32_t writer,
                           std::uint32_t barriers) {
  std::uint32_t memory = 0;
  access_check check(1);
  check.add(&memory, sizeof memory, true);
  std::string fault;
  for (const std::uint32_t t : order) {
    fault += check.note(&memory, 4, access_kind::read, {0, t, 0});
  }
  return fault + check.note(&memory, 4, access_kind::write, {0, writer, barriers});
}

TEST(AccessCheck, AWriterOfTheBlockMissesNoReaderOfItsEpoch) {
  std::array<std::uint32_t, 4> order{0, 1, 2, 3};
  do {
    for (std::uint32_t writer = 0; writer < 5; ++writer) {
      EXPECT_NE(write_in_block(order, writer, 0), "");
      EXPECT_EQ(write_in_block(order, writer, 1), "");
    }
  } while (std::next_permutation(order.begin(), order.end()));
  EXPECT_EQ(write_in_block({2, 2, 2, 2}, 2, 0), "") << "the reader itself may write";
  EXPECT_NE(write_in_block({2, 2, 2, 2}, 1, 0), "");
}

}  // namespace
}  // namespace weir::tessera::kernel_machine
