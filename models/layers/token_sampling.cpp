// SPDX-License-Identifier: Apache-2.0
/// @file
/// Draws a token: filters the candidates step by step, then decides by one number.
#include "weir/models/token_sampling.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include "weir/base/math/elementary.hpp"
#include "weir/base/philox.hpp"

namespace weir::models {

namespace {

/// Stream of the random numbers that decide about tokens.
constexpr std::uint64_t token_stream = 0x746F6B656E;  // "token"

struct candidate {
  float logit = 0;
  std::uint32_t id = 0;
  double weight = 0;  ///< probability, not divided by the sum of all
};

bool likelier(const candidate& a, const candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

/// Changes the logits of recent tokens and of those with a bias.
void adjust_logits(std::vector<candidate>& all, std::span<const std::uint32_t> history,
                   const sampling_options& options) {
  for (const auto& entry : options.bias) {
    all[entry.first].logit += entry.second;
  }
  std::map<std::uint32_t, int> counts;
  const std::size_t recent = std::min(history.size(), recent_tokens);
  for (const std::uint32_t token : history.last(recent)) {
    if (token < all.size()) {
      ++counts[token];
    }
  }
  for (const auto& entry : counts) {
    float& logit = all[entry.first].logit;
    logit = logit > 0 ? logit / options.repetition_penalty
                      : logit * options.repetition_penalty;
    logit -= options.presence_penalty +
             options.frequency_penalty * static_cast<float>(entry.second);
  }
}

/// Keeps the `top_k` first candidates in order, and all of them without a limit.
void sort_candidates(std::vector<candidate>& all, std::uint32_t top_k) {
  const std::size_t kept =
      top_k == 0 ? all.size() : std::min<std::size_t>(top_k, all.size());
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(kept),
                    all.end(), likelier);
  all.resize(kept);
}

/// Computes the weights of sorted candidates and returns their sum.
double weigh(std::vector<candidate>& sorted, float temperature) {
  const float top = sorted.front().logit / temperature;
  double total = 0;
  for (candidate& c : sorted) {
    c.weight = static_cast<double>(math::exp(c.logit / temperature - top));
    total += c.weight;
  }
  return total;
}

/// Keeps the first candidates that reach a part of the sum together.
void keep_top_p(std::vector<candidate>& sorted, float top_p, double total) {
  double sum = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    sum += sorted[i].weight;
    if (sum >= static_cast<double>(top_p) * total) {
      sorted.resize(i + 1);
      return;
    }
  }
}

/// Drops candidates whose weight is below a part of the first one's.
void keep_min_p(std::vector<candidate>& sorted, float min_p) {
  const double limit = static_cast<double>(min_p) * sorted.front().weight;
  const auto end = std::find_if(sorted.begin() + 1, sorted.end(),
                                [&](const candidate& c) { return c.weight < limit; });
  sorted.erase(end, sorted.end());
}

/// Returns the candidate into whose share of the sum a random number falls.
std::uint32_t decide(const std::vector<candidate>& kept, std::uint64_t seed,
                     std::uint64_t index) {
  double total = 0;
  for (const candidate& c : kept) {
    total += c.weight;
  }
  const std::uint64_t bits = philox(seed, token_stream).bits(index);
  double left = static_cast<double>(bits >> 11) * 0x1p-53 * total;
  for (const candidate& c : kept) {
    left -= c.weight;
    if (left < 0) {
      return c.id;
    }
  }
  return kept.front().id;  // rounding can leave a rest behind the last candidate
}

result<void> check_option(std::string_view name, float value, float low, float high) {
  if (!(value >= low && value <= high)) {
    return error(
        errc::invalid_argument,
        fmt::format("option of drawn tokens \"{}\": expected a number between {} "
                    "and {}, found {}",
                    name, low, high, value));
  }
  return {};
}

}  // namespace

result<void> check_options(const sampling_options& options, std::uint32_t vocab) {
  WEIR_CHECK(check_option("repetition_penalty", options.repetition_penalty, 0.01F, 100));
  WEIR_CHECK(check_option("presence_penalty", options.presence_penalty, -100, 100));
  WEIR_CHECK(check_option("frequency_penalty", options.frequency_penalty, -100, 100));
  WEIR_CHECK(check_option("temperature", options.temperature, 0, 100));
  if (options.temperature > 0) {
    // Below, the quotient of a logit could be infinite.
    WEIR_CHECK(check_option("temperature", options.temperature, 1e-4F, 100));
  }
  WEIR_CHECK(check_option("top_p", options.top_p, 0, 1));
  WEIR_CHECK(check_option("min_p", options.min_p, 0, 1));
  for (const auto& entry : options.bias) {
    if (entry.first >= vocab || !std::isfinite(entry.second)) {
      return error(errc::invalid_argument,
                   fmt::format("bias of a drawn token: expected a token below {} and a "
                               "finite number, found token {} and {}",
                               vocab, entry.first, entry.second));
    }
  }
  return {};
}

std::uint32_t draw_token(std::span<const float> logits,
                         std::span<const std::uint32_t> history,
                         const sampling_options& options, std::uint64_t index) {
  std::vector<candidate> all(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    // NaN would have no place in the order.
    const float logit = std::isnan(logits[i]) ? -INFINITY : logits[i];
    all[i] = {logit, static_cast<std::uint32_t>(i), 0};
  }
  adjust_logits(all, history, options);
  if (!(options.temperature > 0)) {
    return std::min_element(all.begin(), all.end(), likelier)->id;
  }
  sort_candidates(all, options.top_k);
  const double total = weigh(all, options.temperature);
  keep_top_p(all, options.top_p, total);
  keep_min_p(all, options.min_p);
  return decide(all, options.seed, index);
}

}  // namespace weir::models
