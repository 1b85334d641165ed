// SPDX-License-Identifier: Apache-2.0
/// @file
/// Draws a token: filters the candidates step by step, then decides by one number.
#include "weir/models/token_sampling.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <string_view>

#include "weir/base/math/elementary.hpp"
#include "weir/base/philox.hpp"

namespace weir::models {

namespace {

/// Stream of the random numbers that decide about tokens.
constexpr std::uint64_t token_stream = 0x746F6B656E;  // "token"

/// Weights are integers, so that their sum does not depend on the order, and the sum of
/// 2^24 tokens fits into 64 bits.
constexpr double weight_unit = 0x1p39;

struct candidate {
  float logit = 0;
  std::uint32_t id = 0;
  std::uint64_t weight = 0;  ///< probability, not divided by the sum of all
};

/// Equal logits are decided by the id, so the order is complete.
bool likelier(const candidate& a, const candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

/// Changes the logits of recent tokens and of those with a bias. The history may have
/// ids that are no tokens of the model.
void adjust_logits(std::vector<candidate>& all, std::span<const std::uint32_t> history,
                   const sampling_options& options) {
  // The caller has checked the ids.
  for (const auto& entry : options.bias) {
    all[entry.first].logit += entry.second;
  }
  // A token counts once for the penalty of repetition, and each time for that of
  // frequency.
  std::map<std::uint32_t, int> counts;
  const std::size_t recent = std::min(history.size(), recent_tokens);
  for (const std::uint32_t token : history.last(recent)) {
    if (token < all.size()) {
      ++counts[token];
    }
  }
  for (const auto& entry : counts) {
    float& logit = all[entry.first].logit;
    // Both directions make the token less likely.
    logit = logit > 0 ? logit / options.repetition_penalty
                      : logit * options.repetition_penalty;
    logit -= options.presence_penalty +
             options.frequency_penalty * static_cast<float>(entry.second);
  }
}

/// Candidates of which the first ones are in order. Few are needed to draw a token, so
/// only they are sorted.
class ordered_candidates {
 public:
  // Nothing is sorted before it is asked for.
  explicit ordered_candidates(std::vector<candidate> all) : all_(std::move(all)) {}

  [[nodiscard]] std::size_t size() const noexcept { return all_.size(); }
  /// Returns a candidate by its place in the order.
  const candidate& at(std::size_t place) {
    if (place >= sorted_) {
      // Grows by factors, so that long searches stay cheap.
      sort_to(std::max<std::size_t>(place + 1, std::max<std::size_t>(4 * sorted_, 64)));
    }
    return all_[place];
  }
  /// Keeps the first candidates in the order.
  void keep_first(std::size_t count) {
    if (count < all_.size()) {
      sort_to(count);
      // The rest is lost.
      all_.resize(count);
      sorted_ = std::min(sorted_, count);
    }
  }
  /// Drops candidates that are lighter than a limit.
  ///
  /// The order of those that stay has to be found again.
  void drop_lighter(double limit) {
    std::erase_if(
        all_, [&](const candidate& c) { return static_cast<double>(c.weight) < limit; });
    sorted_ = 0;
  }
  /// Computes the weights of all candidates.
  void weigh(float temperature) {
    // The likeliest one gets the whole unit, so no sum is 0.
    const float top = at(0).logit / temperature;
    for (candidate& c : all_) {
      const auto part = static_cast<double>(math::exp(c.logit / temperature - top));
      // Rounded, so the weights of tiny probabilities become 0.
      c.weight = static_cast<std::uint64_t>(std::llround(part * weight_unit));
    }
  }
  /// Returns the sum of all weights. Whole numbers, so the sum is exact.
  [[nodiscard]] std::uint64_t total() const noexcept {
    std::uint64_t sum = 0;
    for (const candidate& c : all_) {
      sum += c.weight;
    }
    return sum;
  }

 private:
  /// Sorts the first `count` candidates. What is in order already is not touched.
  void sort_to(std::size_t count) {
    const auto begin = all_.begin() + static_cast<std::ptrdiff_t>(sorted_);
    sorted_ = std::min(std::max(count, sorted_), all_.size());
    const auto end = all_.begin() + static_cast<std::ptrdiff_t>(sorted_);
    if (end != all_.end()) {
      // Parts the rest before the sort, which then is short.
      std::nth_element(begin, end, all_.end(), likelier);
    }
    std::sort(begin, end, likelier);
  }

  std::vector<candidate> all_;
  std::size_t sorted_ = 0;  ///< first candidates that are in order
};

/// Keeps the first candidates that reach a part of the sum together. The sum is that of
/// the candidates that are left.
void keep_top_p(ordered_candidates& all, float top_p) {
  if (top_p >= 1) {
    return;
  }
  const double limit = static_cast<double>(top_p) * static_cast<double>(all.total());
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    sum += all.at(i).weight;
    if (static_cast<double>(sum) >= limit) {
      all.keep_first(i + 1);
      return;
    }
  }
}

/// Returns the candidate into whose share of the sum a random number falls. The number
/// depends only on seed and index.
std::uint32_t decide(ordered_candidates& kept, std::uint64_t seed, std::uint64_t index) {
  const std::uint64_t bits = philox(seed, token_stream).bits(index);
  // 53 bits, as many as a double holds.
  const double part = static_cast<double>(bits >> 11) * 0x1p-53;
  auto left = static_cast<std::uint64_t>(part * static_cast<double>(kept.total()));
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const candidate& c = kept.at(i);
    if (left < c.weight) {
      return c.id;
    }
    left -= c.weight;
  }
  return kept.at(0).id;  // rounding can reach the end of the last share
}

/// Makes the error for a logit that cannot be weighed. `position` is that of the token to
/// draw in its sequence.
error not_finite(const std::string& logit, float found, std::size_t position) {
  return error(errc::out_of_range,
               fmt::format("cannot draw the token at position {}: expected a finite {}, "
                           "found {}",
                           position, logit, found));
}

/// The comparison is false for NaN.
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
  // The bounds keep the logits of usual models finite.
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

/// The filters come in the order that other programs use.
result<std::uint32_t> draw_token(std::span<const float> logits,
                                 std::span<const std::uint32_t> history,
                                 const sampling_options& options, std::uint64_t index) {
  std::vector<candidate> all(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    // NaN would have no place in the order, and infinities have no weight.
    if (!std::isfinite(logits[i])) {
      return not_finite(fmt::format("logit of token {}", i), logits[i], history.size())
          .hint("the weights of the model may be damaged; import them again");
    }
    all[i] = {logits[i], static_cast<std::uint32_t>(i), 0};
  }
  adjust_logits(all, history, options);
  // Without a temperature the likeliest token is taken.
  if (!(options.temperature > 0)) {
    return std::min_element(all.begin(), all.end(), likelier)->id;
  }
  ordered_candidates candidates(std::move(all));
  if (options.top_k != 0) {
    candidates.keep_first(options.top_k);
  }
  // Weights are needed from here on. They are quotients by that of the largest logit, so
  // this one alone has to be finite.
  if (const float top = candidates.at(0).logit / options.temperature;
      !std::isfinite(top)) {
    // The logits of the model were finite, so its weights are not to blame.
    return not_finite("largest logit after bias, penalties and temperature", top,
                      history.size())
        .hint("choose a temperature closer to 1, or a smaller bias and penalties");
  }
  candidates.weigh(options.temperature);
  keep_top_p(candidates, options.top_p);
  // A limit relative to the likeliest token.
  if (options.min_p > 0) {
    candidates.drop_lighter(static_cast<double>(options.min_p) *
                            static_cast<double>(candidates.at(0).weight));
  }
  return decide(candidates, options.seed, index);
}

}  // namespace weir::models
