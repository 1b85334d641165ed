// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the public interface of the model on an engine: equal bits for any number of
/// workers and for any chunks, snapshots and resuming, and errors.
#include "weir/models/prose.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "models/some_tokens.hpp"
#include "prose/kernels/select.hpp"

namespace weir::test {
namespace {

using models::prose;
using models::prose_config;
using models::pulse;
using models::pulse_phase;
using models::pulse_result;

/// A model with its own engine, which reads one random text per lane.
class session {
 public:
  session(const prose_config& config, unsigned workers, const char* kernels = "auto")
      : texts_(config.lanes) {
    runtime::engine_options options;
    options.workers = workers;
    engine_ = or_throw(runtime::engine::create(options));
    model_ = or_throw(prose::create(*engine_, config, kernels));
    for (std::uint32_t lane = 0; lane < config.lanes; ++lane) {
      texts_[lane] = some_tokens(8192, config.vocab, 40 + lane);
    }
  }
  prose& model() { return *model_; }
  void drop_model() { model_.reset(); }
  runtime::engine& engine() { return *engine_; }
  std::vector<std::uint32_t>& text() { return texts_[0]; }

  /// Runs a pulse over the next `n` tokens of every lane. Without `lookahead`, the model
  /// is not told the token behind them.
  result<pulse_result> step(pulse_phase phase, std::size_t n, bool lookahead = true) {
    WEIR_TRY(const auto ticket, submit(phase, n, lookahead));
    return model_->finish(ticket);
  }
  /// Submits such a pulse without waiting for it.
  result<models::pulse_ticket> submit(pulse_phase phase, std::size_t n,
                                      bool lookahead = true) {
    std::vector<prose::lane_input> inputs;
    const std::uint64_t position = model_->position(0);
    for (std::uint32_t lane = 0; lane < texts_.size(); ++lane) {
      const std::uint64_t from = model_->position(lane);
      prose::lane_input in;
      in.tokens = std::span(texts_[lane]).subspan(from, n);
      in.position = from;
      if (lookahead) {
        in.lookahead = texts_[lane][from + n];
      }
      inputs.push_back(in);
    }
    pulse p;
    p.id = pulses_++;
    p.phase = phase;
    p.update = p.id;
    p.total_updates = 100;
    p.active_levels =
        models::active_mask(model_->config().frequencies, position, position + n);
    return model_->submit(p, inputs);
  }
  /// Runs pulses over `tokens` tokens in chunks of `n`. Returns the sum of the losses in
  /// units of 2^-32 nat.
  std::uint64_t run(pulse_phase phase, std::size_t tokens, std::size_t n,
                    bool lookahead = true) {
    std::uint64_t nats = 0;
    while (tokens > 0) {
      const std::size_t now = std::min(n, tokens);
      nats += or_throw(step(phase, now, lookahead)).nats_q32;
      tokens -= now;
    }
    return nats;
  }
  /// Takes a snapshot and waits for it.
  std::vector<std::byte> snapshot() {
    const auto out = std::make_shared<byte_vector>(model_->state_bytes());
    or_throw(model_->finish(or_throw(model_->submit_snapshot(out))));
    return std::move(*out);
  }
  /// Restores all sections from a snapshot that was taken after `pulses` pulses.
  void restore(const std::vector<std::byte>& snapshot, std::uint64_t pulses) {
    for (const auto& s : model_->sections()) {
      or_throw(model_->restore(s.kind, s.lane,
                               std::span(snapshot).subspan(s.offset, s.bytes)));
    }
    pulses_ = pulses;
  }

 private:
  std::unique_ptr<runtime::engine> engine_;
  std::unique_ptr<prose> model_;
  std::vector<std::vector<std::uint32_t>> texts_;
  std::uint64_t pulses_ = 0;
};

/// Returns a small configuration, so that tests take little time.
prose_config small_config() {
  prose_config config;
  config.width = 48;
  config.hidden = 64;
  config.vocab = 61;
  config.max_chunk = 1024;
  config.seed = 5;
  config.warm_up = 4;
  return config;
}

TEST(Prose, HasTheParametersOfItsDesign) {
  session s(prose_config{}, 1);
  EXPECT_EQ(s.model().parameter_count(), 366240U);
  prose_config with_end;
  with_end.vocab = 257;
  session t(with_end, 1);
  EXPECT_EQ(t.model().parameter_count(), 366240U + 2 * 128);
  EXPECT_EQ(s.model().product_flops(64, pulse_phase::build), 127401984U);
}

TEST(Prose, StateDoesNotDependOnTheNumberOfWorkers) {
  std::vector<std::uint64_t> hashes;
  for (unsigned workers : {1U, 2U, 4U}) {
    prose_config config = small_config();
    config.lanes = 2;
    session s(config, workers);
    s.run(pulse_phase::build, 640, 64);
    s.run(pulse_phase::build, 300, 100);
    hashes.push_back(or_throw(s.model().state_hash()));
  }
  EXPECT_EQ(hashes[0], hashes[1]);
  EXPECT_EQ(hashes[0], hashes[2]);
}

TEST(Prose, StateDoesNotDependOnTheInstructionSetOfOurKernels) {
  for (const std::uint32_t hidden : {small_config().hidden, 48U}) {
    prose_config config = small_config();
    config.hidden = hidden;
    const auto hash = [&](const char* kernels) {
      session s(config, 1, kernels);
      EXPECT_EQ(s.model().instruction_set(), kernels);
      s.run(pulse_phase::build, 256, 64);
      s.run(pulse_phase::build, 300, 100);
      return or_throw(s.model().state_hash());
    };
    const std::uint64_t plain = hash("x86-64");
    for (const char* kernels : {"x86-64-v3", "x86-64-v4"}) {
      if (models::select_kernels(kernels)) {
        EXPECT_EQ(hash(kernels), plain) << kernels << ", hidden " << hidden;
      }
    }
  }
}

TEST(Prose, ContextAndLossInTestDoNotDependOnTheChunkSize) {
  std::vector<std::uint64_t> hashes;
  std::vector<std::uint64_t> losses;
  for (std::size_t n : {8U, 64U, 100U, 512U, 1024U, 37U}) {
    session s(small_config(), 2);
    losses.push_back(s.run(pulse_phase::test, 2000, n));
    hashes.push_back(or_throw(s.model().context_hash()));
  }
  for (std::size_t i = 1; i < hashes.size(); ++i) {
    EXPECT_EQ(hashes[0], hashes[i]);
    EXPECT_EQ(losses[0], losses[i]);
  }
}

TEST(Prose, BuildWithRateZeroHasTheContextOfTest) {
  prose_config config = small_config();
  session test(config, 1);
  const std::uint64_t loss = test.run(pulse_phase::test, 900, 64);
  config.rate = 0;
  for (std::size_t n : {64U, 100U, 512U}) {
    session build(config, 2);
    EXPECT_EQ(build.run(pulse_phase::build, 900, n), loss);
    EXPECT_EQ(or_throw(build.model().context_hash()),
              or_throw(test.model().context_hash()));
  }
}

TEST(Prose, ContinuesWithEqualBitsAfterRestore) {
  for (std::size_t n : {64U, 100U}) {
    session whole(small_config(), 2);
    session parts(small_config(), 1);
    std::vector<std::byte> snapshot = parts.snapshot();
    for (std::uint64_t i = 0; i < 12; ++i) {
      ASSERT_TRUE(whole.step(pulse_phase::build, n, i % 3 != 0).has_value());
      session resumed(small_config(), 1);
      resumed.restore(snapshot, i);
      ASSERT_TRUE(resumed.step(pulse_phase::build, n, i % 3 != 0).has_value());
      snapshot = resumed.snapshot();
      ASSERT_EQ(or_throw(resumed.model().state_hash()),
                or_throw(whole.model().state_hash()))
          << "chunk " << n << ", pulse " << i;
    }
    EXPECT_EQ(snapshot, whole.snapshot());
  }
}

TEST(Prose, SnapshotIsOfThePulsesSubmittedBeforeIt) {
  session s(small_config(), 2);
  s.run(pulse_phase::build, 128, 64);
  const auto during = std::make_shared<byte_vector>(s.model().state_bytes());
  const auto before = s.snapshot();
  const auto ticket = or_throw(s.model().submit_snapshot(during));
  s.run(pulse_phase::build, 256, 64);
  EXPECT_EQ(during.use_count(), 2) << "the model holds the image until `finish`";
  or_throw(s.model().finish(ticket));
  EXPECT_EQ(during.use_count(), 1);
  EXPECT_TRUE(s.model().ended(ticket));
  EXPECT_EQ(*during, before);
  EXPECT_NE(s.snapshot(), before);
}

TEST(Prose, ASnapshotNeedsADestinationOfTheStatesSize) {
  session s(small_config(), 1);
  const auto refused = s.model().submit_snapshot(nullptr);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), errc::invalid_argument);
  const auto small_one = s.model().submit_snapshot(std::make_shared<byte_vector>(8));
  ASSERT_FALSE(small_one.has_value());
  EXPECT_EQ(small_one.error().code(), errc::invalid_argument);
  EXPECT_EQ(s.model().finish(models::snapshot_ticket{}).error().code(), errc::not_found);
}

TEST(Prose, CopiesEachSectionToItsOwnMemory) {
  session s(small_config(), 2);
  s.run(pulse_phase::build, 128, 64);
  const auto image = s.snapshot();
  std::vector<byte_vector> parts;
  std::vector<mutable_bytes> to;
  for (const auto& section : s.model().sections()) {
    to.push_back(parts.emplace_back(section.bytes));
  }
  EXPECT_FALSE(or_throw(s.model().submit_copies(to)).empty());
  s.run(pulse_phase::build, 128, 64);
  or_throw(s.model().state_hash());  // waits for all tasks
  byte_vector joined;
  for (const byte_vector& part : parts) {
    append(joined, part);
  }
  EXPECT_EQ(joined, image);
  std::swap(to.front(), to.back());
  const auto swapped = s.model().submit_copies(to);
  ASSERT_FALSE(swapped);
  EXPECT_EQ(swapped.error().code(), errc::invalid_argument);
  to.pop_back();
  EXPECT_FALSE(s.model().submit_copies(to));
}

/// A run that fails drops everything at once: its pulses, the image of a snapshot and the
/// model. The copies of the snapshot have not begun at that time, and would write to
/// freed memory if the model did not own the image until they have ended.
void fail_behind_a_snapshot(unsigned workers, bool kernel_fails) {
  session s(small_config(), workers);
  s.run(pulse_phase::build, 128, 64);
  if (kernel_fails) {
    const auto t = or_throw(s.model().parameter("embedding"));
    std::fill_n(t.as<float>(), t.count(), std::numeric_limits<float>::quiet_NaN());
  }
  const auto pulse = or_throw(s.submit(pulse_phase::build, 1024));
  auto snapshot = std::make_shared<byte_vector>(s.model().state_bytes());
  const std::weak_ptr<byte_vector> watched = snapshot;
  const auto ticket = or_throw(s.model().submit_snapshot(std::move(snapshot)));
  s.text()[s.model().position(0)] = small_config().vocab;
  ASSERT_FALSE(s.submit(pulse_phase::build, 64).has_value())
      << "submission fails because the text has a token outside the vocabulary";
  EXPECT_FALSE(watched.expired()) << "only the model holds the image now";
  if (workers == 1) {  // the only worker is this thread, which has not run the tasks yet
    EXPECT_FALSE(s.model().ended(pulse));
    EXPECT_FALSE(s.model().ended(ticket));
  }
  s.drop_model();
  EXPECT_TRUE(watched.expired()) << "the image is freed when the engine is idle";
}

TEST(Prose, TheImageOfASnapshotOutlivesItsTasksWhenTheTextFails) {
  fail_behind_a_snapshot(1, false);
  fail_behind_a_snapshot(2, false);
}

TEST(Prose, TheImageOfASnapshotOutlivesItsTasksWhenAKernelFails) {
  fail_behind_a_snapshot(1, true);
  fail_behind_a_snapshot(2, true);
}

// Without a lookahead the last row of a chunk has no target. The next chunk scores it, so
// the sums of both models must become equal.
TEST(Prose, PendingPredictionIsScoredByTheNextToken) {
  session known(small_config(), 1);
  session pending(small_config(), 1);
  const std::uint64_t loss = known.run(pulse_phase::test, 640, 64);
  std::uint64_t found = pending.run(pulse_phase::test, 640, 64, false);
  const auto logits = or_throw(pending.model().pending_logits(0));
  EXPECT_EQ(logits.size(), small_config().vocab);
  EXPECT_LT(found, loss) << "the prediction of the last row has no next token yet, so "
                            "its loss is not counted";
  EXPECT_EQ(or_throw(pending.model().context_hash()),
            or_throw(known.model().context_hash()));
  const auto next_known = or_throw(known.step(pulse_phase::test, 1));
  const auto next_pending = or_throw(pending.step(pulse_phase::test, 1));
  EXPECT_EQ(next_pending.scored, 2U);
  EXPECT_EQ(found + next_pending.nats_q32, loss + next_known.nats_q32);
}

TEST(Prose, FrozenLevelsKeepTheirParametersAndFillTheirErrorBuffers) {
  session s(small_config(), 1);
  const auto copy = [&](const char* name) {
    const auto t = or_throw(s.model().parameter(name));
    return std::vector<float>(t.as<float>(), t.as<float>() + t.count());
  };
  const auto errors = [&] {
    double sum = 0;
    for (const auto& r : s.model().regions()) {
      if (r.name == "block1.level3.query.error") {
        for (std::int64_t i = 0; i < r.data.count(); ++i) {
          sum += std::abs(static_cast<double>(r.data.as<float>()[i]));
        }
      }
    }
    return sum;
  };
  // Until the level has fired once, its memory is empty and its queries have no gradient.
  s.run(pulse_phase::build, 512, 64);
  or_throw(s.engine().wait_all());
  const auto start = copy("block1.level3.query");
  s.run(pulse_phase::build, 448, 64);
  or_throw(s.engine().wait_all());
  EXPECT_EQ(copy("block1.level3.query"), start);
  EXPECT_GT(errors(), 0);
  s.run(pulse_phase::build, 64, 64);
  or_throw(s.engine().wait_all());
  EXPECT_NE(copy("block1.level3.query"), start);
  EXPECT_EQ(errors(), 0);
}

TEST(Prose, LearnsAText) {
  session s(small_config(), 2);
  for (std::size_t i = 0; i < s.text().size(); ++i) {
    s.text()[i] = static_cast<std::uint32_t>(i * i % 47);
  }
  const auto first = or_throw(s.step(pulse_phase::build, 64));
  s.run(pulse_phase::build, 64 * 90, 64);
  const auto last = or_throw(s.step(pulse_phase::build, 64));
  EXPECT_LT(last.nats(), first.nats() * 0.8);
  EXPECT_GT(first.gradient_norm, 0);
}

TEST(Prose, ParametersTravelByName) {
  session a(small_config(), 1);
  session b(small_config(), 1);
  a.run(pulse_phase::build, 256, 64);
  EXPECT_NE(or_throw(a.model().parameter_hash()), or_throw(b.model().parameter_hash()));
  for (const auto& r : a.model().regions()) {
    if (r.kind == models::region_kind::parameter) {
      const bytes_view bytes(r.data.data(), static_cast<std::size_t>(r.data.count()) * 4);
      ASSERT_TRUE(b.model().load_parameter(r.name, r.data.shape(), bytes).has_value());
    }
  }
  EXPECT_EQ(or_throw(a.model().parameter_hash()), or_throw(b.model().parameter_hash()));
  const std::int64_t wrong[] = {3, 3};
  EXPECT_EQ(b.model().load_parameter("embedding", wrong, {}).error().code(),
            errc::config_mismatch);
  const auto unknown = b.model().parameter("embeding");
  ASSERT_FALSE(unknown.has_value());
  EXPECT_NE(unknown.error().message().find("embedding"), std::string::npos);
}

TEST(Prose, ResetEmptiesTheContextOfALaneOnly) {
  session s(small_config(), 1);
  const auto parameters = or_throw(s.model().parameter_hash());
  s.run(pulse_phase::test, 100, 100);
  session fresh(small_config(), 1);
  ASSERT_TRUE(s.model().reset_context(0).has_value());
  EXPECT_EQ(s.model().position(0), 100U);
  ASSERT_TRUE(s.model().start_context(0, 0).has_value());
  EXPECT_EQ(or_throw(s.model().context_hash()), or_throw(fresh.model().context_hash()));
  EXPECT_EQ(or_throw(s.model().parameter_hash()), parameters);
}

TEST(Prose, RefusesImpossibleRequests) {
  prose_config config = small_config();
  session s(config, 1);
  pulse p;
  const std::uint32_t bad[] = {61};
  prose::lane_input in;
  in.tokens = bad;
  EXPECT_EQ(s.model().submit(p, {&in, 1}).error().code(), errc::invalid_argument);
  const std::uint32_t good[] = {60};
  in.tokens = good;
  in.position = 3;
  EXPECT_EQ(s.model().submit(p, {&in, 1}).error().code(), errc::invalid_argument);
  EXPECT_EQ(s.model().submit(p, {}).error().code(), errc::invalid_argument);
  in = {};
  EXPECT_EQ(s.model().submit(p, {&in, 1}).error().code(), errc::invalid_argument);
  EXPECT_EQ(s.model().finish(models::pulse_ticket{77}).error().code(), errc::not_found);
  EXPECT_EQ(s.model().pending_logits(0).error().code(), errc::not_found);
  for (std::vector<std::uint64_t> f :
       {std::vector<std::uint64_t>{2, 8}, {1, 7}, {1, 96}, {1, 8, 8}, {}}) {
    config.frequencies = f;
    EXPECT_EQ(prose::create(s.engine(), config).error().code(), errc::invalid_argument);
  }
  EXPECT_EQ(prose::create(s.engine(), small_config(), "sparc").error().code(),
            errc::invalid_argument);
}

TEST(Prose, RestoreRefusesSectionsOfAnotherSize) {
  session s(small_config(), 1);
  const std::vector<std::byte> few(12);
  EXPECT_EQ(s.model().restore(models::region_kind::moment, 0, few).error().code(),
            errc::config_mismatch);
  EXPECT_EQ(s.model().restore(models::region_kind::context, 9, few).error().code(),
            errc::config_mismatch);
}

TEST(Prose, ANumberThatIsNoneEndsThePulseWithItsName) {
  session s(small_config(), 2);
  const auto t = or_throw(s.model().parameter("unembedding"));
  t.as<float>()[5] = std::numeric_limits<float>::quiet_NaN();
  const auto r = s.step(pulse_phase::build, 64);
  ASSERT_FALSE(r.has_value());
  EXPECT_NE(r.error().message().find("nan"), std::string::npos) << r.error().message();
}

TEST(Prose, SeveralPulsesMayBeInFlight) {
  prose_config config = small_config();
  session one(config, 1);
  one.run(pulse_phase::test, 64 * 6, 64);
  session many(config, 2);
  const auto text = some_tokens(8192, config.vocab, 40);
  std::vector<models::pulse_ticket> tickets;
  for (std::uint64_t i = 0; i < 6; ++i) {
    prose::lane_input in;
    in.tokens = std::span(text).subspan(i * 64, 64);
    in.position = i * 64;
    in.lookahead = text[(i + 1) * 64];
    pulse p;
    p.phase = pulse_phase::test;
    tickets.push_back(or_throw(many.model().submit(p, {&in, 1})));
  }
  for (auto t = tickets.rbegin(); t != tickets.rend(); ++t) {
    ASSERT_TRUE(many.model().finish(*t).has_value());
    EXPECT_FALSE(many.model().finish(*t).has_value())
        << "a ticket can be finished only once";
  }
  EXPECT_EQ(or_throw(one.model().context_hash()), or_throw(many.model().context_hash()));
}

}  // namespace
}  // namespace weir::test
