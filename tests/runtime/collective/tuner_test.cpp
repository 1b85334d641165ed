// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the tuner: which schedules it tries, which it proposes, and its store.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "weir/collective/tuner.hpp"

namespace weir::collective {
namespace {

collective_call call_to_tune(std::size_t count,
                             collective_kind kind = collective_kind::all_reduce) {
  collective_call call;
  call.kind = kind;
  call.count = count;
  return call;
}

/// Runs the trials of a call. `ns` returns the duration of a schedule.
template <class Ns>
int run_trials(collective_tuner& tuner, const collective_call& call, Ns&& ns) {
  int known = 0;
  for (int i = 0; i < 100; ++i) {
    if (const auto trial = tuner.next(call, 4, {})) {
      known += tuner.took(*trial, ns(trial->how)) ? 1 : 0;
    }
  }
  return known;
}

// The tuner must propose nothing before every algorithm had all its trials, and each must
// have the same number of them.
TEST(Tuner, ProposesTheFastestOnceEachWasTried) {
  collective_tuner tuner;
  const collective_call call = call_to_tune(1000);
  std::vector<algorithm> tried;
  for (int i = 0; i < 3 * collective_tuner::trials; ++i) {
    EXPECT_FALSE(or_throw(tuner.fastest(call, 4, {})).has_value());
    const auto trial = tuner.next(call, 4, {});
    ASSERT_TRUE(trial.has_value());
    tried.push_back(trial->how);
    // The ring is the fastest among the first three trials, and equal in later ones.
    const bool last = i + 1 == 3 * collective_tuner::trials;
    EXPECT_EQ(tuner.took(*trial, trial->how == algorithm::ring && i < 3 ? 5 : 10), last);
  }
  for (const algorithm how : {algorithm::direct, algorithm::ring, algorithm::tree}) {
    EXPECT_EQ(std::count(tried.begin(), tried.end(), how), collective_tuner::trials);
  }
  EXPECT_EQ(or_throw(tuner.fastest(call, 4, {})), algorithm::ring);
  EXPECT_FALSE(tuner.next(call, 4, {}).has_value());
  EXPECT_EQ(or_throw(tuner.fastest(call_to_tune(900), 4, {})), algorithm::ring)
      << "a call of a similar size shares the measurement";
  EXPECT_FALSE(or_throw(tuner.fastest(call_to_tune(2000), 4, {})).has_value())
      << "a larger call has no measurement";
  EXPECT_FALSE(or_throw(tuner.fastest(call, 5, {})).has_value())
      << "a call with more ranks has no measurement";
}

TEST(Tuner, HasNothingToTryWhereThereIsNoChoice) {
  collective_tuner tuner;
  for (const collective_kind kind :
       {collective_kind::all_to_all, collective_kind::send, collective_kind::barrier}) {
    EXPECT_FALSE(tuner.next(call_to_tune(8, kind), 4, {}).has_value());
  }
  EXPECT_FALSE(tuner.next(call_to_tune(8), 1, {}).has_value());
  EXPECT_FALSE(tuner.next(call_to_tune(0), 4, {}).has_value());
}

TEST(Tuner, OnlySucceededTrialsCount) {
  collective_tuner tuner;
  const collective_call call = call_to_tune(8);
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(tuner.next(call, 4, {}).has_value())
        << "the tuner proposes trials as long as none has ended";
  }
  EXPECT_EQ(run_trials(tuner, call, [](algorithm) { return 7; }), 1);
  EXPECT_EQ(or_throw(tuner.fastest(call, 4, {})), algorithm::direct)
      << "equally fast candidates: the first one is chosen";
}

TEST(Tuner, KeepsWhatItKnowsInItsStore) {
  std::map<tuning_key, algorithm> stored;
  tuning_store store;
  store.load = [&](const tuning_key& key) {
    const auto found = stored.find(key);
    return found == stored.end() ? std::nullopt : std::optional(found->second);
  };
  store.keep = [&](const tuning_key& key, algorithm how) { stored[key] = how; };
  const collective_call call = call_to_tune(8);
  const tuning_key key = tuning_key::of_call(call, 4, {});
  collective_tuner first(store);
  first.keep(key);
  EXPECT_TRUE(stored.empty()) << "nothing has been measured yet";
  run_trials(first, call, [](algorithm how) { return how == algorithm::tree ? 1 : 2; });
  first.keep(key);
  collective_tuner second(store);
  EXPECT_EQ(or_throw(second.fastest(call, 4, {})), algorithm::tree);
  EXPECT_FALSE(second.next(call, 4, {}).has_value());
  EXPECT_TRUE(second.next(call_to_tune(80), 4, {}).has_value());
}

}  // namespace
}  // namespace weir::collective
