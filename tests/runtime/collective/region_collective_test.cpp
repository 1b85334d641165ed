// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests collectives over tensors of a task engine: results, order among other tasks,
/// failed inputs, replays, and arguments that are refused.
#include "weir/collective/region_collective.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <random>

#include "plans.hpp"

namespace weir::collective {
namespace {

using namespace runtime;  // NOLINT: tasks and collectives are used side by side

using test::bytes;

/// Tensors of one engine: an input and an output for each rank.
class ranks_of_engine {
 public:
  ranks_of_engine(unsigned workers, int ranks, const collective_call& call,
                  bool in_place = false)
      : call_(call) {
    engine_options options;
    options.workers = workers;
    engine_ = or_throw(engine::create(options));
    for (int r = 0; r < ranks; ++r) {
      inputs.push_back(make(test::input_bytes(call, ranks)));
      outputs.push_back(in_place ? inputs.back() : make(test::output_bytes(call, ranks)));
    }
  }
  engine& task_engine() { return *engine_; }

  region_collective plan(const plan_options& how = {}) {
    return or_throw(region_collective::create(*engine_, call_, inputs, outputs, how));
  }
  /// Submits tasks that fill all inputs with numbers that depend on `seed` and the rank.
  void write_inputs(std::uint32_t seed) {
    for (std::size_t r = 0; r < inputs.size(); ++r) {
      write(r, seed, [](const tensor& t, std::uint32_t from) -> result<void> {
        fill(t, from);
        return {};
      });
    }
  }
  template <class Kernel>
  void write(std::size_t rank, std::uint32_t seed, const Kernel& kernel) {
    const tensor t = inputs[rank];
    const access a = writes(t);
    const auto from = static_cast<std::uint32_t>(seed * 100 + rank);
    static_cast<void>(or_throw(engine_->submit(
        "write an input", {&a, 1},
        [p = t.data(), n = t.count(), kernel, from](const task_context&) -> result<void> {
          return kernel(view_of(p, n), from);
        })));
  }
  /// Returns the contents of the inputs after `write_inputs(seed)`.
  [[nodiscard]] std::vector<bytes> expected_inputs(std::uint32_t seed) const {
    std::vector<bytes> out;
    for (std::size_t r = 0; r < inputs.size(); ++r) {
      out.emplace_back(size_of(inputs[r]));
      fill_bytes(out.back().data(), out.back().size(),
                 static_cast<std::uint32_t>(seed * 100 + r));
    }
    return out;
  }
  [[nodiscard]] static bytes content(const tensor& t) {
    return {t.data(), t.data() + size_of(t)};
  }

  std::vector<tensor> inputs;
  std::vector<tensor> outputs;

 private:
  /// A kernel may capture 128 bytes, so it captures an address and a length instead of a
  /// tensor.
  static tensor view_of(std::byte* address, std::int64_t count) {
    const storage s{{0, 1}, address, count * 4};
    return or_throw(tensor::over(s, dtype::fp32, {&count, 1}));
  }
  static std::size_t size_of(const tensor& t) {
    return static_cast<std::size_t>(t.count()) * 4;
  }
  static void fill(const tensor& t, std::uint32_t seed) {
    fill_bytes(t.data(), size_of(t), seed);
  }
  static void fill_bytes(std::byte* to, std::size_t size, std::uint32_t seed) {
    std::mt19937 dice(seed);
    std::normal_distribution<float> normal;
    for (std::size_t i = 0; i < size; i += 4) {
      const float x = std::ldexp(normal(dice), static_cast<int>(i % 7));
      std::memcpy(to + i, &x, 4);
    }
  }
  tensor make(std::size_t size) {
    const storage s =
        or_throw(engine_->allocate(static_cast<std::int64_t>(size), "ranks"));
    const std::int64_t count = s.size / 4;
    return or_throw(tensor::over(s, dtype::fp32, {&count, 1}));
  }

  collective_call call_;
  std::unique_ptr<engine> engine_;
};

/// Returns a call of this kind.
collective_call call_of(collective_kind kind, std::size_t count = 6 * 997) {
  collective_call call;
  call.kind = kind;
  call.count = count;
  call.peer = 1;
  return call;
}

TEST(RegionCollective, EveryKindGivesTheBitsThatTheCallDefines) {
  for (const collective_kind kind : test::all_kinds) {
    if (kind == collective_kind::barrier) {
      continue;
    }
    for (const bool packed : {false, true}) {
      for (const int level : {1, 2}) {
        collective_call call = call_of(kind);
        call.packed_shards = packed;
        call.level = level;
        ranks_of_engine e(2, 3, call);
        e.write_inputs(5);
        const auto inputs = e.expected_inputs(5);
        const std::vector<bytes> empty(3, bytes(test::output_bytes(call, 3)));
        region_collective sums = e.plan({algorithm::direct, 1024});
        ASSERT_TRUE(sums.submit().has_value());
        ASSERT_TRUE(e.task_engine().wait_all().has_value());
        const auto expected = test::expected_outputs(call, inputs, empty);
        for (std::size_t r = 0; r < 3; ++r) {
          EXPECT_EQ(e.content(e.outputs[r]), expected[r])
              << test::text_of(call, 3) << ", rank " << r;
        }
      }
    }
  }
}

TEST(RegionCollective, EveryAlgorithmGivesTheSameBitsInPlaceWithAnyNumberOfWorkers) {
  const collective_call call = call_of(collective_kind::all_reduce, 4 * 5003);
  for (const algorithm how : {algorithm::direct, algorithm::ring, algorithm::tree}) {
    for (const unsigned workers : {1U, 2U, 4U}) {
      for (const bool in_place : {false, true}) {
        ranks_of_engine e(workers, 4, call, in_place);
        region_collective sum = e.plan({how, 4096});
        EXPECT_GT(sum.tasks(), 4U);
        const auto inputs = e.expected_inputs(1);
        e.write_inputs(1);
        ASSERT_TRUE(sum.submit().has_value());
        ASSERT_TRUE(e.task_engine().wait_all().has_value());
        const auto expected = test::expected_outputs(call, inputs, inputs);
        for (std::size_t r = 0; r < 4; ++r) {
          EXPECT_EQ(e.content(e.outputs[r]), expected[r])
              << name_of(how) << ", " << workers << " workers, in place " << in_place;
        }
      }
    }
  }
}

/// Submits a task that copies a tensor to host memory.
void submit_copy(engine& e, const tensor& from, std::byte* to) {
  const access a = reads(from);
  static_cast<void>(
      or_throw(e.submit("copy", {&a, 1},
                        [p = from.data(), n = static_cast<std::size_t>(from.count()) * 4,
                         to](const task_context&) { std::memcpy(to, p, n); })));
}

TEST(RegionCollective, ComesBetweenTheTasksBeforeAndBehindItOnTheSameRegions) {
  const collective_call call = call_of(collective_kind::all_reduce, 3 * 4001);
  for (const unsigned workers : {1U, 3U}) {
    ranks_of_engine e(workers, 3, call, true);
    region_collective sum = e.plan({algorithm::ring, 2048});
    constexpr std::uint32_t rounds = 20;
    std::vector<bytes> seen(rounds * 3, bytes(call.count * 4));
    // The rounds are not separated by waits. The next inputs are written into tensors
    // that the sum and the copies of this round still read, so only their order protects
    // them.
    for (std::uint32_t round = 0; round < rounds; ++round) {
      e.write_inputs(round);
      ASSERT_TRUE(sum.submit().has_value());
      for (std::size_t r = 0; r < 3; ++r) {
        submit_copy(e.task_engine(), e.outputs[r], seen[round * 3 + r].data());
      }
    }
    ASSERT_TRUE(e.task_engine().wait_all().has_value());
    for (std::uint32_t round = 0; round < rounds; ++round) {
      const auto inputs = e.expected_inputs(round);
      const auto expected = test::expected_outputs(call, inputs, inputs);
      for (std::size_t r = 0; r < 3; ++r) {
        ASSERT_EQ(seen[round * 3 + r], expected[r]) << "round " << round;
      }
    }
  }
}

TEST(RegionCollective, AFailedInputPoisonsTheOutputsOfAllRanks) {
  const collective_call call = call_of(collective_kind::all_reduce, 3 * 4001);
  for (const algorithm how : {algorithm::direct, algorithm::ring, algorithm::tree}) {
    ranks_of_engine e(3, 3, call);
    region_collective sum = e.plan({how, 2048});
    e.write_inputs(1);
    e.write(1, 0, [](const tensor&, std::uint32_t) -> result<void> {
      return error(errc::io, "the input cannot be read");
    });
    ASSERT_TRUE(sum.submit().has_value());
    for (const tensor& out : e.outputs) {
      const auto waited = e.task_engine().wait(out);
      ASSERT_FALSE(waited.has_value()) << name_of(how);
      EXPECT_EQ(waited.error().code(), errc::upstream_failed);
      EXPECT_NE(waited.error().text().find("the input cannot be read"),
                std::string::npos);
    }
    EXPECT_EQ(e.task_engine().wait_all().error().code(), errc::kernel_failed);
    for (const tensor& out : e.outputs) {
      EXPECT_EQ(e.content(out), bytes(call.count * 4))
          << "the output must not be a sum of only some of the inputs";
    }
  }
}

TEST(RegionCollective, AFailedPartOfAnInputPoisonsThatPartOnAllRanksAndNoOther) {
  const collective_call call = call_of(collective_kind::all_reduce, 16 * 1024);
  ranks_of_engine e(2, 2, call);
  region_collective sum = e.plan({algorithm::direct, 4096});
  const auto inputs = e.expected_inputs(1);
  e.write_inputs(1);
  const tensor part = or_throw(e.inputs[0].slice(0, 2048, 3072));  // the third piece
  const access a = writes(part);
  static_cast<void>(or_throw(
      e.task_engine().submit("fail", {&a, 1}, [](const task_context&) -> result<void> {
        return error(errc::io, "the part cannot be read");
      })));
  ASSERT_TRUE(sum.submit().has_value());
  const auto expected = test::expected_outputs(call, inputs, inputs);
  for (std::size_t r = 0; r < 2; ++r) {
    const tensor& out = e.outputs[r];
    EXPECT_TRUE(e.task_engine().wait(or_throw(out.slice(0, 0, 2048))).has_value());
    EXPECT_FALSE(e.task_engine().wait(or_throw(out.slice(0, 2048, 3072))).has_value());
    EXPECT_TRUE(
        e.task_engine().wait(or_throw(out.slice(0, 3072, 16 * 1024))).has_value());
    const bytes got = e.content(out);
    EXPECT_TRUE(std::equal(got.begin(), got.begin() + 2048 * 4, expected[r].begin()));
    EXPECT_TRUE(
        std::equal(got.begin() + 3072 * 4, got.end(), expected[r].begin() + 3072 * 4));
  }
}

TEST(RegionCollective, RunsAgainWhenItsCaptureIsReplayed) {
  const collective_call call = call_of(collective_kind::all_reduce, 3 * 4001);
  for (const algorithm how : {algorithm::direct, algorithm::tree}) {
    ranks_of_engine e(2, 3, call, true);
    std::optional<region_collective> sum = e.plan({how, 2048});
    e.write_inputs(0);
    ASSERT_TRUE(e.task_engine().begin_capture().has_value());
    ASSERT_TRUE(sum->submit().has_value());
    const capture recorded = or_throw(e.task_engine().end_capture());
    EXPECT_EQ(recorded.size(), sum->tasks());
    std::vector<bytes> seen(10, bytes(call.count * 4));
    for (std::uint32_t round = 1; round < 10; ++round) {
      e.write_inputs(round);
      ASSERT_TRUE(e.task_engine().replay(recorded).has_value());
      submit_copy(e.task_engine(), e.outputs[2], seen[round].data());
    }
    sum.reset();  // waits for the replays
    ASSERT_TRUE(e.task_engine().wait_all().has_value());
    for (std::uint32_t round = 1; round < 10; ++round) {
      const auto inputs = e.expected_inputs(round);
      EXPECT_EQ(seen[round], test::expected_outputs(call, inputs, inputs)[2])
          << name_of(how) << ", round " << round;
    }
    const auto after = e.task_engine().replay(recorded);
    ASSERT_FALSE(after.has_value())
        << "a replay must fail after its collective has been destroyed";
    EXPECT_EQ(after.error().code(), errc::not_found);
  }
}

TEST(RegionCollective, SubmitsNothingIfATensorHasBeenReleased) {
  const collective_call call = call_of(collective_kind::all_reduce, 3 * 4001);
  for (std::size_t released = 0; released < 3; ++released) {
    ranks_of_engine e(1, 3, call);
    region_collective sum = e.plan({algorithm::ring, 2048});
    ASSERT_TRUE(e.task_engine().release(e.outputs[released].store().id).has_value());
    const std::uint64_t before = e.task_engine().counters().submitted;
    const auto refused = sum.submit();
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code(), errc::not_found);
    EXPECT_EQ(e.task_engine().counters().submitted, before);
  }
}

TEST(RegionCollective, RefusesTensorsThatTheCallCannotUse) {
  const collective_call call = call_of(collective_kind::all_reduce, 600);
  ranks_of_engine e(1, 3, call);
  const auto refused = [&](std::vector<tensor> inputs, std::vector<tensor> outputs,
                           std::string_view text) {
    const auto got = region_collective::create(e.task_engine(), call, inputs, outputs);
    ASSERT_FALSE(got.has_value()) << text;
    EXPECT_EQ(got.error().code(), errc::invalid_argument);
    EXPECT_NE(got.error().text().find(text), std::string::npos) << got.error().text();
  };
  auto inputs = e.inputs;
  inputs[1] = or_throw(e.inputs[1].reinterpret(dtype::int32));
  refused(inputs, e.outputs, "type fp32 as input of rank 1");
  inputs[1] = or_throw(e.inputs[1].slice(0, 0, 599));
  refused(inputs, e.outputs, "at least 2400 bytes as input of rank 1, found 2396");
  inputs[1] = or_throw(e.inputs[1].slice(0, 599, -1, -1));
  refused(inputs, e.outputs, "a row-major tensor as input of rank 1");
  refused(e.inputs, {e.outputs[0], e.outputs[1], e.outputs[1]},
          "an output of rank 1 of its own");
  refused(e.inputs, {e.outputs[0], e.outputs[1], e.inputs[0]},
          "an output of rank 2 beside all inputs");
  refused({e.inputs[0], e.inputs[1]}, e.outputs, "2 inputs and 3 outputs");
  EXPECT_EQ(region_collective::create(e.task_engine(), call_of(collective_kind::barrier),
                                      e.inputs, e.outputs)
                .error()
                .code(),
            errc::unsupported);
}

}  // namespace
}  // namespace weir::collective
