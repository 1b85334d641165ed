// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests that a model whose lanes are spread over devices has the bits of a model on one
/// device.
#include "prose/replicas.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <random>
#include <utility>

#include "models/some_tokens.hpp"
#include "prose/kernels/select.hpp"
#include "prose/state_regions.hpp"

namespace weir::test {
namespace {

using models::prose;
using models::pulse_phase;

constexpr std::size_t tokens_per_lane = 1024;

/// Returns a small model, so that tests take little time.
models::prose_config small(std::uint32_t lanes) {
  models::prose_config config;
  config.width = 32;
  config.hidden = 32;
  config.heads = 1;
  config.blocks = 1;
  config.vocab = 61;
  config.max_chunk = 128;
  config.seed = 5;
  config.warm_up = 2;
  config.lanes = lanes;
  return config;
}

/// A model on several devices, with its own engine and a random text for each lane.
class job {
 public:
  job(std::uint32_t lanes, std::uint32_t devices, unsigned workers) : lanes_(lanes) {
    runtime::engine_options options;
    options.workers = workers;
    engine_ = or_throw(runtime::engine::create(options));
    model_ = or_throw(prose::create(*engine_, small(lanes), "auto", devices));
    for (std::uint32_t lane = 0; lane < lanes; ++lane) {
      texts_.push_back(some_tokens(tokens_per_lane, small(lanes).vocab, 70 + lane));
    }
  }
  prose& model() { return *model_; }

  /// Runs pulse number `i`. In some pulses a lane has no tokens, or its chunk ends inside
  /// a window, or the token behind its chunk is not known.
  result<models::pulse_result> pulse(std::uint64_t i) {
    std::vector<prose::lane_input> inputs(lanes_);
    for (std::uint32_t lane = 0; lane < lanes_; ++lane) {
      const std::uint64_t from = model_->position(lane);
      const bool rests = lanes_ > 1 && (i + lane) % 5 == 4;
      const std::size_t n = rests ? 0 : (i + 2 * lane) % 7 == 3 ? 40 : 64;
      inputs[lane].tokens = std::span(texts_[lane]).subspan(from, n);
      inputs[lane].position = from;
      if ((i + lane) % 4 != 0) {
        inputs[lane].lookahead = texts_[lane][from + n];
      }
    }
    models::pulse p;
    p.id = p.update = i;
    p.phase = i % 6 == 5 ? pulse_phase::test : pulse_phase::build;
    p.total_updates = 20;
    p.active_levels = models::active_mask(small(1).frequencies, i * 64, (i + 1) * 64);
    WEIR_TRY(const auto ticket, model_->submit(p, inputs));
    return model_->finish(ticket);
  }
  /// Runs the pulses [first, last). Returns the sum of their losses, and a snapshot.
  std::pair<std::uint64_t, std::vector<std::byte>> run(std::uint64_t first,
                                                       std::uint64_t last) {
    std::uint64_t nats = 0;
    for (std::uint64_t i = first; i < last; ++i) {
      nats += or_throw(pulse(i)).nats_q32;
    }
    const auto snapshot = std::make_shared<byte_vector>(model_->state_bytes());
    or_throw(model_->finish(or_throw(model_->submit_snapshot(snapshot))));
    or_throw(model_->check_replicas());
    return {nats, std::move(*snapshot)};
  }
  void restore(const std::vector<std::byte>& snapshot) {
    for (const auto& s : model_->sections()) {
      or_throw(model_->restore(s.kind, s.lane,
                               std::span(snapshot).subspan(s.offset, s.bytes)));
    }
  }

 private:
  std::uint32_t lanes_;
  std::vector<std::vector<std::uint32_t>> texts_;
  std::unique_ptr<runtime::engine> engine_;
  std::unique_ptr<prose> model_;
};

TEST(LanesPerDevice, IsAPowerOfTwoThatGivesSoManyRuns) {
  for (std::uint32_t lanes = 1; lanes <= 40; ++lanes) {
    for (std::uint32_t devices = 1; devices <= 48; ++devices) {
      bool possible = false;
      for (std::uint32_t run = 1; run <= 64; run *= 2) {
        possible = possible || (lanes + run - 1) / run == devices;
      }
      const auto run = models::lanes_per_device(lanes, devices);
      ASSERT_EQ(run.has_value(), possible) << lanes << " lanes, " << devices;
      if (run) {
        EXPECT_TRUE(std::has_single_bit(*run));
        EXPECT_EQ((lanes + *run - 1) / *run, devices);
      }
    }
  }
  EXPECT_EQ(models::lanes_per_device(4, 3).error().text(),
            "spreading 4 lanes over devices: expected 1, 2, 4 of them, so that each has "
            "a run of neighbours whose length is a power of two, found 3");
}

/// Returns a random number of a kind for which the order of a sum matters: sums of such
/// numbers round, cancel, and become denormal.
float hard_number(std::mt19937& random) {
  const float tiny = std::numeric_limits<float>::min();
  const auto r = static_cast<float>(random() % 4096) - 2048.0F;
  return random() % 2 == 0 ? r * tiny / 1024 : r * 0.37F;
}

// A device sums its own run of lanes, and the devices sum their results. The bits must be
// those of one sum over all lanes, or the state would depend on the number of devices.
TEST(LanesPerDevice, SumsOfRunsAddUpToTheSumOverLanes) {
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  const auto tree = or_throw(collective::reducer::make({dtype::fp32}));
  constexpr std::size_t count = 32;
  using row = std::array<float, count>;
  const auto sum = [&](std::span<const row> rows) {
    std::vector<const std::byte*> inputs;
    for (const row& r : rows) {
      inputs.push_back(reinterpret_cast<const std::byte*>(r.data()));
    }
    row out{};
    auto* const to = reinterpret_cast<std::byte*>(out.data());
    tree.reduce(inputs, {&to, 1}, count);
    return out;
  };
  for (std::uint32_t lanes = 1; lanes <= 33; ++lanes) {
    std::vector<row> rows(lanes);
    for (row& r : rows) {
      std::generate(r.begin(), r.end(), [&] { return hard_number(random); });
    }
    for (std::uint32_t devices = 1; devices <= lanes; ++devices) {
      const auto run = models::lanes_per_device(lanes, devices);
      std::vector<row> runs;
      for (std::uint32_t first = 0; run && first < lanes; first += *run) {
        runs.push_back(
            sum(std::span(rows).subspan(first, std::min(*run, lanes - first))));
      }
      if (run) {
        const row whole = sum(rows);
        const row parts = sum(runs);
        ASSERT_EQ(std::memcmp(whole.data(), parts.data(), sizeof whole), 0)
            << lanes << " lanes, " << devices << " devices, seed " << seed;
      }
    }
  }
}

TEST(Replicas, HaveTheStateOfOneDeviceForAnyDevicesAndWorkers) {
  for (const std::uint32_t lanes : {4U, 5U}) {
    const auto [nats, snapshot] = job(lanes, 1, 1).run(0, 14);
    for (std::uint32_t devices = 2; devices <= lanes; ++devices) {
      for (const unsigned workers : {1U, 2U}) {
        if (models::lanes_per_device(lanes, devices)) {
          const auto found = job(lanes, devices, workers).run(0, 14);
          EXPECT_EQ(found.first, nats) << lanes << "/" << devices << "/" << workers;
          EXPECT_TRUE(found.second == snapshot)
              << lanes << "/" << devices << "/" << workers;
        }
      }
    }
  }
}

TEST(Replicas, ContinueOnAnotherNumberOfDevices) {
  const auto whole = job(4, 1, 1).run(0, 12).second;
  std::vector<std::byte> snapshot = job(4, 2, 1).run(0, 2).second;
  std::uint64_t done = 2;
  for (const std::uint32_t devices : {4U, 1U, 2U, 4U, 2U}) {
    job next(4, devices, 2);
    next.restore(snapshot);
    snapshot = next.run(done, done + 2).second;
    done += 2;
  }
  EXPECT_TRUE(snapshot == whole);
}

TEST(Replicas, OfWhichOneDiffersAreFound) {
  runtime::engine_options options;
  const auto engine = or_throw(runtime::engine::create(options));
  const auto r = or_throw(models::replicas::create(
      *engine, small(4), *or_throw(models::select_kernels("auto")), 2));
  ASSERT_TRUE(r->check().has_value());
  r->device(1).state().moments[0].data[7] = 1e-30F;
  const auto found = r->check();
  ASSERT_FALSE(found.has_value());
  EXPECT_EQ(found.error().code(), errc::determinism_violation);
  EXPECT_EQ(found.error().text(),
            "comparing the replicas: expected the moments of device 0 on device 1, found "
            "others");
}

TEST(Replicas, EndAPulseWithTheErrorOfOneDevice) {
  job j(4, 4, 2);
  ASSERT_TRUE(j.pulse(0).has_value());
  ASSERT_TRUE(j.model().check_replicas().has_value());  // this also waits for all steps
  const auto t = or_throw(j.model().parameter("unembedding"));
  float& broken = t.as<float>()[5];  // in the replica of the first device
  const float before = std::exchange(broken, std::numeric_limits<float>::quiet_NaN());
  for (std::uint64_t i = 1; i < 3; ++i) {
    const auto r = j.pulse(i);
    ASSERT_FALSE(r.has_value());
    EXPECT_NE(r.error().message().find("nan"), std::string::npos) << r.error().message();
  }
  broken = before;
  EXPECT_FALSE(j.model().check_replicas().has_value())
      << "the first wait reports failures since the wait before it";
  const auto same = j.model().check_replicas();
  EXPECT_TRUE(same.has_value()) << "a device stepped: " << same.error().message();
}

TEST(Replicas, AreAsManyAsTheLanesAllow) {
  const auto engine = or_throw(runtime::engine::create({}));
  EXPECT_EQ(prose::create(*engine, small(4), "auto", 3).error().code(),
            errc::invalid_argument);
  EXPECT_EQ(prose::create(*engine, small(1), "auto", 2).error().code(),
            errc::invalid_argument);
  EXPECT_EQ(prose::create(*engine, small(4), "auto", 0).error().code(),
            errc::invalid_argument);
}

}  // namespace
}  // namespace weir::test
