// SPDX-License-Identifier: Apache-2.0
/// @file
/// Results of collectives over the stand-in for NCCL, the table of types, and mistakes of
/// versions.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include <fmt/core.h>

#include "collectives/clique_rig.hpp"

namespace weir::tessera::stand_in {
namespace {

constexpr int newest = 22809;

/// Runs a call over one rank per device and compares the outputs of all ranks.
class result_check {
 public:
  explicit result_check(int devices)
      : rig_(late_machine(devices)),
        clique_(or_throw(rig_.open())),
        memory_(rig_.buffers(max_bytes)),
        ranks_(static_cast<std::size_t>(devices)) {}

  /// Returns what is wrong, or an empty string.
  std::string run(const collective_call& call, bool in_place, std::mt19937_64& dice) {
    cuda::clique_work work;
    work.call = call;
    work.as = *cuda::nccl_elements_of(call, newest, 90);
    const int ranks = static_cast<int>(ranks_);
    const std::size_t read = collective::test::input_bytes(call, ranks);
    const std::size_t written = collective::test::output_bytes(call, ranks);
    std::vector<oracle_bytes> inputs;
    std::vector<oracle_bytes> before;
    for (std::size_t r = 0; r < ranks_; ++r) {
      // Sums of normal numbers: NaN and signed zeros are NCCL's own business in extremes.
      inputs.push_back(collective::test::random_elements(
          dice, call.type, read / info_of(call.type).size,
          collective::test::flavour::normal));
      if (call.type == dtype::boolean) {
        for (std::byte& b : inputs.back()) {
          b &= std::byte{1};
        }
      }
      std::memcpy(memory_[r]->input, inputs[r].data(), read);
      std::memset(memory_[r]->output, 0xA5, written);
      before.push_back(in_place ? inputs[r] : oracle_bytes(written, std::byte{0xA5}));
      work.buffers.push_back(
          {memory_[r]->input, in_place ? memory_[r]->input : memory_[r]->output});
    }
    const auto done = rig_.run(*clique_, work);
    if (!done) {
      return done.error().message();
    }
    const auto expected = collective::test::expected_outputs(call, inputs, before);
    for (std::size_t r = 0; r < ranks_; ++r) {
      // reduce_scatter and other kinds say nothing about the rest of their outputs when
      // they are not in place; here they keep it.
      if (std::memcmp(work.buffers[r].output, expected[r].data(), written) != 0) {
        return fmt::format("rank {} has another result", r);
      }
    }
    return "";
  }

 private:
  static constexpr std::size_t max_bytes = 1024;
  clique_rig rig_;
  std::unique_ptr<cuda::nccl_clique> clique_;
  std::vector<std::unique_ptr<device_buffers>> memory_;
  std::size_t ranks_;
};

/// Runs all kinds with one type and returns the number of collectives.
int run_all_kinds(result_check& check, int devices, dtype type, std::mt19937_64& dice) {
  int run = 0;
  for (const collective_kind kind : collective::test::all_kinds) {
    for (const reduction_op op : collective::test::all_ops) {
      collective_call call;
      call.kind = kind;
      call.type = type;
      call.op = op;
      call.level = 0;
      call.count = static_cast<std::size_t>(devices) * 6;
      call.root = static_cast<int>(dice() % static_cast<unsigned>(devices));
      call.peer = (call.root + 1) % devices;
      if (kind == collective_kind::barrier ||
          (!collective::reduces(kind) && op != reduction_op::sum) ||
          !collective::check_call(call, devices) ||
          !cuda::nccl_elements_of(call, newest, 90)) {
        continue;
      }
      for (const bool in_place : {false, true}) {
        if (in_place && kind == collective_kind::all_to_all) {
          continue;
        }
        EXPECT_EQ(check.run(call, in_place, dice), "")
            << name_of(kind) << " of type " << static_cast<int>(type) << ", operation "
            << name_of(op) << (in_place ? " in place" : "");
        ++run;
      }
    }
  }
  return run;
}

TEST(NcclResults, EveryKindTypeAndOperationGivesTheResultOfTheOracle) {
  for (const int devices : {1, 2, 3}) {
    std::mt19937_64 dice(static_cast<unsigned>(devices));
    {
      result_check check(devices);
      int run = 0;
      for (const dtype type : collective::test::all_types) {
        run += run_all_kinds(check, devices, type, dice);
      }
      EXPECT_GT(run, 400);
    }
    EXPECT_EQ(broken_rules(), "");
    EXPECT_TRUE(objects() == object_counts{}) << "objects are left";
  }
}

TEST(NcclResults, ShardsMayBePacked) {
  {
    result_check check(3);
    std::mt19937_64 dice(5);
    for (const collective_kind kind :
         {collective_kind::reduce_scatter, collective_kind::all_gather,
          collective_kind::gather, collective_kind::scatter}) {
      collective_call call;
      call.kind = kind;
      call.count = 12;
      call.level = 0;
      call.root = 1;
      call.packed_shards = true;
      EXPECT_EQ(check.run(call, false, dice), "") << name_of(kind);
    }
  }
  EXPECT_EQ(broken_rules(), "");
}

/// What NCCL has for a type: its type and how many of its elements one of ours is.
struct type_case {
  dtype ours;
  int theirs;  ///< number in nccl.h; -1: none
  std::size_t per_element;
};
constexpr type_case type_cases[] = {
    {dtype::fp8_e4m3, 10, 1}, {dtype::fp8_e5m2, 11, 1}, {dtype::fp16, 6, 1},
    {dtype::bf16, 9, 1},      {dtype::fp32, 7, 1},      {dtype::fp64, 8, 1},
    {dtype::int8, 0, 1},      {dtype::int16, -1, 0},    {dtype::int32, 2, 1},
    {dtype::int64, 4, 1},     {dtype::boolean, 1, 1},   {dtype::complex64, 7, 2},
    {dtype::complex128, 8, 2}};

TEST(NcclResults, TheTableOfTypesIsThatOfTheDesign) {
  for (const type_case& c : type_cases) {
    collective_call sum;
    sum.type = c.ours;
    sum.level = 0;
    const auto found = cuda::nccl_elements_of(sum, newest, 90);
    ASSERT_EQ(found.has_value(), c.theirs >= 0) << static_cast<int>(c.ours);
    if (found) {
      EXPECT_EQ(static_cast<int>(found->type), c.theirs) << static_cast<int>(c.ours);
      EXPECT_EQ(found->per_element, c.per_element) << static_cast<int>(c.ours);
    }
    collective_call gather = sum;
    gather.kind = collective_kind::all_gather;
    const auto moved = cuda::nccl_elements_of(gather, newest, 90);
    ASSERT_TRUE(moved.has_value()) << "every type can be moved";
    EXPECT_EQ(static_cast<int>(moved->type), 1);
    EXPECT_EQ(moved->per_element, static_cast<std::size_t>(info_of(c.ours).size));
  }
}

TEST(NcclResults, WhatNcclCannotReduceIsLeftToOthers) {
  collective_call call;
  call.level = 0;
  call.type = dtype::fp8_e4m3;
  EXPECT_FALSE(cuda::nccl_elements_of(call, 22300, 90)) << "a library without fp8";
  EXPECT_FALSE(cuda::nccl_elements_of(call, newest, 80)) << "a device without fp8";
  call.type = dtype::complex64;
  call.op = reduction_op::product;
  EXPECT_FALSE(cuda::nccl_elements_of(call, newest, 90));
  call.type = dtype::int32;
  call.op = reduction_op::average;
  EXPECT_FALSE(cuda::nccl_elements_of(call, newest, 90));
  call.type = dtype::boolean;
  EXPECT_FALSE(cuda::nccl_elements_of(call, newest, 90));
  call.type = dtype::fp32;
  call.op = reduction_op::sum;
  call.wide = true;
  EXPECT_FALSE(cuda::nccl_elements_of(call, newest, 90));
}

TEST(NcclLibrary, WithoutALibraryThereIsAnError) {
  const auto made = cuda::load_nccl("libweir-no-such-nccl.so.2");
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code(), errc::not_found);
  EXPECT_NE(made.error().message().find("libweir-no-such-nccl"), std::string::npos);
}

TEST(NcclLibrary, AnOldLibraryIsRefusedAtOnce) {
  machine shown;
  shown.nccl_version = 21805;
  set_up(shown, nullptr);
  const auto made = cuda::load_nccl(WEIR_STAND_IN_NCCL);
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code(), errc::unsupported);
  EXPECT_NE(made.error().message().find("21805"), std::string::npos)
      << made.error().message();
}

}  // namespace
}  // namespace weir::tessera::stand_in
