// SPDX-License-Identifier: Apache-2.0
/// @file
/// Conformance of collectives over GPUs: from level 1 on they have the bits of the
/// processor's collectives, whatever runs the kernels, and whether or not ranks share a
/// device; at level 0 those that the stand-in for NCCL has.
#include <gtest/gtest.h>

#include <cstring>
#include <future>
#include <random>

#include <fmt/core.h>

#include "collectives/clique_rig.hpp"
#include "cpu_kernels/executor.hpp"
#include "device/cuda/collectives/device_collectives.hpp"
#include "ptx/executor.hpp"

namespace weir::tessera::stand_in {
namespace {

namespace test = collective::test;

/// A group of ranks over the stand-ins.
class group_rig {
 public:
  group_rig(std::shared_ptr<kernel_executor> executor, int devices,
            std::vector<std::int32_t> of_ranks, bool with_nccl)
      : of_ranks_(std::move(of_ranks)) {
    set_up(late_machine(devices), std::move(executor));
    cuda_options options;
    options.library = WEIR_STAND_IN_DRIVER;
    options.staging_bytes = 4096;
    options.staging_buffers = 4;
    backend_ = or_throw(make_cuda_backend(options));
    driver_ = or_throw(cuda::load_driver(WEIR_STAND_IN_DRIVER));
    library_ = or_throw(cuda::load_nccl(WEIR_STAND_IN_NCCL));
    cuda::collective_options how;
    how.from = &driver_;
    how.nccl = with_nccl ? &library_ : nullptr;
    group_ = or_throw(cuda::device_collectives::open(*backend_, of_ranks_, how));
    for (const std::int32_t device : of_ranks_) {
      for (auto* const to : {&inputs_, &outputs_}) {
        to->push_back(or_throw(backend_->allocate(device, max_bytes)));
      }
    }
  }
  ~group_rig() {
    group_.reset();
    for (std::size_t r = 0; r < of_ranks_.size(); ++r) {
      EXPECT_TRUE(backend_->free(of_ranks_[r], inputs_[r]).has_value());
      EXPECT_TRUE(backend_->free(of_ranks_[r], outputs_[r]).has_value());
    }
    for (std::int32_t d = 0; d < backend_->device_count(); ++d) {
      EXPECT_EQ(backend_->memory(d).in_use, 0U) << "scratch memory is left";
    }
    backend_.reset();
    EXPECT_EQ(broken_rules(), "");
    EXPECT_TRUE(objects() == object_counts{}) << "objects are left";
  }
  group_rig(const group_rig&) = delete;
  group_rig& operator=(const group_rig&) = delete;

  [[nodiscard]] int ranks() const { return static_cast<int>(of_ranks_.size()); }
  [[nodiscard]] cuda::device_collectives& group() { return *group_; }
  [[nodiscard]] cuda::rank_buffers buffers(std::size_t r, bool in_place) const {
    return {inputs_[r], in_place ? inputs_[r] : outputs_[r]};
  }
  result<void> run(const std::vector<cuda::rank_call>& calls) {
    std::promise<result<void>> ended;
    group_->submit(calls, [&](result<void> r) { ended.set_value(std::move(r)); });
    return ended.get_future().get();
  }

  /// Runs a call over random inputs. Returns what is wrong, or an empty string.
  std::string compare(const collective_call& call, bool in_place, test::flavour flavour,
                      std::mt19937_64& dice);

 private:
  static constexpr std::size_t max_bytes = 1024;
  std::vector<std::int32_t> of_ranks_;
  std::unique_ptr<cuda_backend> backend_;
  cuda::driver driver_;
  cuda::nccl_library library_;
  std::unique_ptr<cuda::device_collectives> group_;
  std::vector<std::byte*> inputs_;
  std::vector<std::byte*> outputs_;
};

/// Runs the plan of the processor's backend. Returns the outputs.
std::vector<test::bytes> outputs_of_processor(const collective_call& call,
                                              std::vector<test::bytes> inputs,
                                              std::vector<test::bytes> outputs,
                                              bool in_place, std::mt19937_64& dice) {
  const auto plan = or_throw(
      collective::plan_collective(call, static_cast<int>(inputs.size()), {}, {}));
  std::vector<const std::byte*> from;
  std::vector<std::byte*> to;
  for (std::size_t r = 0; r < inputs.size(); ++r) {
    from.push_back(inputs[r].data());
    to.push_back(in_place ? inputs[r].data() : outputs[r].data());
  }
  test::bytes scratch(plan.scratch_bytes() + 64);
  const auto number = reinterpret_cast<std::uintptr_t>(scratch.data());
  test::run_in_random_order(plan, {from, to, scratch.data() + (64 - number % 64) % 64},
                            dice);
  return in_place ? inputs : outputs;
}

std::string group_rig::compare(const collective_call& call, bool in_place,
                               test::flavour flavour, std::mt19937_64& dice) {
  const std::size_t read = test::input_bytes(call, ranks());
  const std::size_t written = test::output_bytes(call, ranks());
  std::vector<test::bytes> inputs;
  std::vector<test::bytes> before;
  std::vector<cuda::rank_call> calls;
  for (std::size_t r = 0; r < of_ranks_.size(); ++r) {
    inputs.push_back(
        test::random_elements(dice, call.type, read / info_of(call.type).size, flavour));
    if (call.level == 0 && call.type == dtype::boolean) {
      for (std::byte& b : inputs.back()) {
        b &= std::byte{1};  // NCCL compares bytes, so only 1 may stand for true
      }
    }
    before.push_back(in_place ? inputs[r] : test::bytes(written, std::byte{0xA5}));
    std::memcpy(inputs_[r], inputs[r].data(), read);
    std::memset(outputs_[r], 0xA5, written);
    calls.push_back({call, buffers(r, in_place)});
  }
  const auto done = run(calls);
  if (!done) {
    return done.error().message();
  }
  const auto expected = call.level > 0
                            ? outputs_of_processor(call, inputs, before, in_place, dice)
                            : test::expected_outputs(call, inputs, before);
  for (std::size_t r = 0; r < of_ranks_.size(); ++r) {
    if (std::memcmp(calls[r].buffers.output, expected[r].data(), written) != 0) {
      return fmt::format("rank {} has other bits", r);
    }
  }
  return "";
}

/// Runs every type, operation and level with a random kind and place, and every kind.
void conform(group_rig& rig, std::initializer_list<int> levels, unsigned seed) {
  std::mt19937_64 dice(seed);
  constexpr std::array reducing{collective_kind::all_reduce,
                                collective_kind::reduce_scatter, collective_kind::reduce};
  const auto complete = [&](collective_call call) {
    const auto ranks = static_cast<std::size_t>(rig.ranks());
    const bool any_count =
        call.kind == collective_kind::all_reduce || call.kind == collective_kind::reduce;
    call.count = ranks * (1 + dice() % 3) + (any_count ? dice() % ranks : 0);
    call.root = static_cast<int>(dice() % ranks);
    call.peer = static_cast<int>(dice() % ranks);
    return call;
  };
  const auto run = [&](const collective_call& call) {
    const bool in_place = dice() % 2 == 0;
    const auto flavour =
        call.level == 0 ? test::flavour::normal : static_cast<test::flavour>(dice() % 4);
    EXPECT_EQ(rig.compare(call, in_place, flavour, dice), "")
        << test::text_of(call, rig.ranks()) << (in_place ? " in place" : "") << ", seed "
        << seed;
  };
  for (const dtype type : test::all_types) {
    for (const collective_call& call :
         test::calls_of(reducing[dice() % reducing.size()], type, levels)) {
      run(complete(call));
    }
  }
  for (const collective_kind kind : test::all_kinds) {
    for (const dtype type : {dtype::int16, dtype::fp64, dtype::complex128}) {
      collective_call call;
      call.kind = kind;
      call.type = type;
      call.level = *levels.begin();
      run(complete(call));
    }
  }
  for (const collective_kind kind :
       {collective_kind::reduce_scatter, collective_kind::all_gather,
        collective_kind::gather, collective_kind::scatter}) {
    collective_call call;
    call.kind = kind;
    call.level = *levels.begin();
    call = complete(call);
    call.packed_shards = true;
    EXPECT_EQ(rig.compare(call, false, test::flavour::normal, dice), "")
        << test::text_of(call, rig.ranks());
  }
}

std::shared_ptr<kernel_executor> sources() {
  return std::make_shared<kernel_machine::source_executor>(3);
}
std::shared_ptr<kernel_executor> texts() {
  return std::make_shared<ptx::ptx_executor>(3);
}

TEST(DeviceCollectives, HaveTheBitsOfTheProcessorFromLevelOneOn) {
  for (const auto& made : {sources, texts}) {
    for (const int devices : {1, 2, 3}) {
      std::vector<std::int32_t> of_ranks;
      for (std::int32_t d = devices; d-- > 0;) {
        of_ranks.push_back(d);
      }
      group_rig rig(made(), devices, of_ranks, false);
      conform(rig, {1, 2}, static_cast<unsigned>(devices));
    }
  }
}

TEST(DeviceCollectives, RanksMayShareADevice) {
  group_rig rig(sources(), 2, {0, 1, 0, 1, 1}, true);
  collective_call call;
  call.level = 0;
  call.count = 5;
  EXPECT_FALSE(rig.group().uses_nccl(call, std::vector<cuda::rank_buffers>(5)));
  conform(rig, {1, 2}, 7);
}

TEST(DeviceCollectives, LevelZeroGoesThroughNcclWhereItCan) {
  {
    group_rig rig(sources(), 3, {0, 1, 2}, true);
    collective_call call;
    call.level = 0;
    call.count = 6;
    const std::vector<cuda::rank_buffers> apart{
        rig.buffers(0, false), rig.buffers(1, false), rig.buffers(2, false)};
    EXPECT_TRUE(rig.group().uses_nccl(call, apart));
    call.level = 1;
    EXPECT_FALSE(rig.group().uses_nccl(call, apart));
    call.level = 0;
    call.type = dtype::int16;
    EXPECT_FALSE(rig.group().uses_nccl(call, apart)) << "NCCL has no int16";
    call.kind = collective_kind::all_to_all;
    EXPECT_TRUE(rig.group().uses_nccl(call, apart));
    conform(rig, {0}, 11);
    EXPECT_GT(calls_of("ncclAllReduce") + calls_of("ncclReduce") +
                  calls_of("ncclReduceScatter"),
              20U);
  }
  group_rig without(sources(), 2, {0, 1}, false);
  conform(without, {0}, 12);
  EXPECT_EQ(calls_of("ncclGroupEnd"), 0U);
}

TEST(DeviceCollectives, CallsThatDifferAreRefusedBeforeAnythingStarts) {
  group_rig rig(sources(), 2, {0, 1}, true);
  const unsigned groups = calls_of("ncclGroupStart");
  const unsigned copies = calls_of("cuMemcpyPeerAsync");
  collective_call call;
  call.level = 0;
  call.count = 4;
  const std::vector<cuda::rank_call> good{{call, rig.buffers(0, false)},
                                          {call, rig.buffers(1, false)}};
  const auto refused = [&](const std::vector<cuda::rank_call>& calls, errc code,
                           const char* text) {
    const auto done = rig.run(calls);
    ASSERT_FALSE(done.has_value()) << text;
    EXPECT_EQ(done.error().code(), code) << done.error().message();
    EXPECT_NE(done.error().message().find(text), std::string::npos)
        << done.error().message();
  };
  auto other = good;
  other[1].call.count = 6;
  refused(other, errc::collective_mismatch, "6 elements");
  other = good;
  other[1].call.op = reduction_op::max;
  refused(other, errc::collective_mismatch, "operation max");
  other = good;
  other[1].call.type = dtype::int32;
  refused(other, errc::collective_mismatch, "by rank 1");
  other = good;
  other[1].call.kind = collective_kind::broadcast;
  refused(other, errc::collective_mismatch, "broadcast");
  other = good;
  other[1].call.level = 1;
  refused(other, errc::determinism_violation, "level 1 of rank 1");
  other = good;
  other[1].buffers.output = nullptr;
  refused(other, errc::invalid_argument, "rank 1");
  refused({good[0]}, errc::invalid_argument, "2 ranks");
  other = good;
  other[0].call.root = other[1].call.root = 2;
  other[0].call.kind = other[1].call.kind = collective_kind::broadcast;
  refused(other, errc::invalid_argument, "root");
  EXPECT_EQ(calls_of("ncclGroupStart"), groups);
  EXPECT_EQ(calls_of("cuMemcpyPeerAsync"), copies);
  EXPECT_TRUE(rig.run(good).has_value()) << "a good call works afterwards";
}

TEST(DeviceCollectives, WithoutMemoryForScratchTheyFailAndLeaveNothing) {
  group_rig rig(sources(), 2, {0, 1}, false);
  fail_call("cuMemAllocFromPoolAsync", 2, cuda::status::out_of_memory);
  collective_call call;
  call.count = 8;
  const std::vector<cuda::rank_call> calls{{call, rig.buffers(0, false)},
                                           {call, rig.buffers(1, false)}};
  const auto done = rig.run(calls);
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().code(), errc::out_of_memory);
  EXPECT_TRUE(rig.run(calls).has_value()) << "the next one has memory";
}

}  // namespace
}  // namespace weir::tessera::stand_in
