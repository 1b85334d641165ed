// SPDX-License-Identifier: Apache-2.0
/// @file
/// Random schedules of a step model, whose logits are compared with those of each
/// sequence alone.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "models/transformers/some_model.hpp"
#include "weir/base/philox.hpp"
#include "weir/models/llama.hpp"
#include "weir/models/step_model.hpp"

namespace weir::test {

using models::context_id;
using models::row_group;
using models::step_model;
using models::step_ticket;

using rows = std::vector<std::vector<float>>;

inline std::unique_ptr<runtime::engine> engine_with(unsigned workers) {
  runtime::engine_options options;
  options.workers = workers;
  return or_throw(runtime::engine::create(options));
}

inline std::vector<float> copy_logits(step_model& model, step_ticket ticket,
                                      std::size_t group) {
  const auto logits = or_throw(model.logits(ticket, group));
  return {logits.begin(), logits.end()};
}

/// Feeds a sequence token by token and returns the logits behind each.
inline rows logits_one_by_one(step_model& model,
                              const std::vector<std::uint32_t>& tokens) {
  rows out;
  const context_id context = or_throw(model.open_context(tokens.size()));
  for (const std::uint32_t token : tokens) {
    const row_group group{context, {&token, 1}, true};
    const step_ticket ticket = or_throw(model.submit({&group, 1}));
    out.push_back(copy_logits(model, ticket, 0));
    or_throw(model.finish(ticket));
  }
  or_throw(model.close_context(context));
  return out;
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), 4 * a.size()) == 0;
}

/// A sequence and its logits when it was alone.
struct sequence {
  std::vector<std::uint32_t> tokens;
  rows logits;
  std::size_t fed = 0;
  context_id context;
};

/// Feeds sequences in random groups and steps, up to three of which are in flight, and
/// expects the bits of the sequences alone.
inline void feed_at_random(step_model& model, std::vector<sequence> all,
                           std::uint64_t seed) {
  const philox random(seed, 1);
  std::uint64_t draw = 0;
  struct pending {
    step_ticket ticket;
    std::vector<std::pair<std::size_t, std::size_t>> expected;  ///< sequence, token
  };
  std::vector<pending> in_flight;
  const auto finish_oldest = [&] {
    const pending& p = in_flight.front();
    for (std::size_t g = 0; g < p.expected.size(); ++g) {
      const auto [s, t] = p.expected[g];
      if (model.logits(p.ticket, g)) {
        ASSERT_TRUE(same_bits(copy_logits(model, p.ticket, g), all[s].logits[t]))
            << "seed " << seed << " sequence " << s << " token " << t;
      }
    }
    or_throw(model.finish(p.ticket));
    in_flight.erase(in_flight.begin());
  };
  for (sequence& s : all) {
    s.context = or_throw(model.open_context(s.tokens.size()));
    if (random.below(draw++, 2) == 0) {
      s.fed = or_throw(model.reuse_prefix(s.context, s.tokens));
    }
  }
  for (bool left = true; left;) {
    left = false;
    std::vector<row_group> groups;
    pending next;
    for (std::size_t i = 0; i < all.size(); ++i) {
      sequence& s = all[i];
      const std::size_t rest = s.tokens.size() - s.fed;
      left = left || rest > 0;
      if (rest == 0 || random.below(draw++, 4) == 0) {
        continue;
      }
      // Often one token, sometimes many.
      const std::size_t limit = random.below(draw++, 2) == 0 ? 1 : 40;
      const std::size_t count = 1 + random.below(draw++, std::min(rest, limit));
      groups.push_back(
          {s.context, {s.tokens.data() + s.fed, count}, random.below(draw++, 3) != 0});
      s.fed += count;
      next.expected.emplace_back(i, s.fed - 1);
    }
    if (!groups.empty()) {
      next.ticket = or_throw(model.submit(groups));
      in_flight.push_back(next);
    }
    if (in_flight.size() > random.below(draw++, 3)) {
      finish_oldest();
    }
  }
  while (!in_flight.empty()) {
    finish_oldest();
  }
  for (const sequence& s : all) {
    or_throw(model.close_context(s.context));
  }
}

/// Returns sequences of some lengths and their logits, computed one by one with the
/// kernels of the baseline.
inline std::vector<sequence> sequences_alone(const models::llama_config& config,
                                             const some_source& weights,
                                             std::initializer_list<std::size_t> lengths) {
  const auto engine = engine_with(1);
  const auto model =
      or_throw(models::make_llama(*engine, config, weights, {"x86-64", 4096, 128}));
  std::vector<sequence> all;
  for (const std::size_t length : lengths) {
    sequence s{some_token_ids(length, config.vocab, length), {}, 0, {}};
    s.logits = logits_one_by_one(*model, s.tokens);
    all.push_back(std::move(s));
  }
  return all;
}

}  // namespace weir::test
