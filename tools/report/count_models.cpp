// SPDX-License-Identifier: Apache-2.0
/// @file
/// Count models with two hash tables per order, and gzip by zlib.
///
/// The models are the reference of a learning curve: simple enough to be understood, and
/// under the same protocol as the model of the run.
#include "count_models.hpp"

#include <fmt/core.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_map>

namespace weir::tools {

namespace {

/// A token is a byte, or one of a few marks above 255.
constexpr unsigned token_bits = 9;
constexpr std::uint32_t max_vocabulary = 1U << token_bits;

// The counts of one context.
struct context_count {
  std::uint32_t total = 0;  // occurrences
  std::uint32_t kinds = 0;  // distinct successors
};

// The model of one order: counts of each context, and of each context with a successor.
// Keys are the tokens of the context, 9 bits each, so that five of them and a successor
// fit into 64 bits.
struct one_order {
  std::unordered_map<std::uint64_t, std::uint32_t> pairs;
  std::unordered_map<std::uint64_t, context_count> contexts;

  // Returns the probability of `token` after `context`, and then counts the token.
  // `below` is the probability that the next lower order gives.
  double predict_and_count(std::uint64_t context, std::uint32_t token, double below) {
    // Both entries are made if they do not exist; new counts are zero.
    std::uint32_t& pair = pairs[(context << token_bits) | token];
    context_count& count = contexts[context];
    const double n = count.total;
    const double t = count.kinds;
    // Witten-Bell: the share of the lower order is the number of distinct successors
    // among all occurrences and distinct successors. So the estimate of a new token is
    // higher in contexts that had many different ones.
    const double p = count.total == 0 ? below : (pair + t * below) / (n + t);
    // A pair that occurs for the first time is a new successor.
    count.kinds += pair == 0 ? 1 : 0;
    ++pair;
    ++count.total;
    return p;
  }
};

// Adds up the bits that a model pays, over the whole text, its last quarter and windows.
class bit_counter {
 public:
  bit_counter(std::size_t tokens, std::size_t window)
      // The size of the last quarter is rounded down.
      : tokens_(tokens), quarter_(tokens - tokens / 4), window_(window) {}

  void add(std::size_t index, double bits) {
    all_ += bits;
    in_window_ += bits;
    last_ += index >= quarter_ ? bits : 0;
    // A window ends at its size or with the text, so the last one may be shorter.
    if ((index + 1) % window_ == 0 || index + 1 == tokens_) {
      const std::size_t size = index % window_ + 1;
      windows_.push_back(static_cast<float>(in_window_ / static_cast<double>(size)));
      in_window_ = 0;
    }
  }

  [[nodiscard]] count_curve finish(unsigned order) && {
    // No tokens give zero bits per token instead of a division by zero.
    const auto per = [](double bits, std::size_t n) {
      return n == 0 ? 0.0 : bits / static_cast<double>(n);
    };
    return {order, per(all_, tokens_), per(last_, tokens_ - quarter_),
            std::move(windows_)};
  }

 private:
  std::size_t tokens_;
  std::size_t quarter_;
  std::size_t window_;
  double all_ = 0;
  double last_ = 0;
  double in_window_ = 0;
  std::vector<float> windows_;
};

}  // namespace

result<std::vector<count_curve>> count_models(std::span<const std::uint32_t> tokens,
                                              std::uint32_t vocabulary,
                                              std::size_t window, unsigned highest) {
  // Five tokens and a successor of nine bits each fill 54 of the 64 bits of a key.
  if (vocabulary == 0 || vocabulary > max_vocabulary || window == 0 || highest > 5) {
    return error(
        errc::out_of_range,
        fmt::format(
            "cannot count tokens: expected a vocabulary of 1 to {}, a window of 1 or "
            "more and an order of 0 to 5, found {}, {} and {}",
            max_vocabulary, vocabulary, window, highest));
  }
  // One table and one counter for each order.
  std::vector<one_order> orders(highest + 1);
  std::vector<bit_counter> bits(highest + 1, bit_counter(tokens.size(), window));
  // Holds the last seven tokens. Older ones are shifted out.
  std::uint64_t history = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    // A token that is too large would mix with its neighbour in the key.
    if (tokens[i] >= vocabulary) {
      return error(errc::out_of_range,
                   fmt::format("cannot count token {}: expected less than {}, found {}",
                               i, vocabulary, tokens[i]));
    }
    // Below order 0, all tokens are equally likely. Each order improves the estimate of
    // the one below.
    double p = 1.0 / vocabulary;
    for (unsigned k = 0; k <= highest; ++k) {
      // The first tokens have no context of order k; lower orders predict them.
      if (i >= k) {
        const std::uint64_t context =
            history & ((std::uint64_t{1} << (token_bits * k)) - 1);
        p = orders[k].predict_and_count(context, tokens[i], p);
      }
      // An order without a context yet pays what the lower order pays.
      bits[k].add(i, -std::log2(p));
    }
    history = history << token_bits | tokens[i];
  }
  std::vector<count_curve> out;
  for (unsigned k = 0; k <= highest; ++k) {
    out.push_back(std::move(bits[k]).finish(k));
  }
  return out;
}

result<double> gzip_bits_per_byte(bytes_view text) {
  // A quotient of zero bytes is not defined.
  if (text.empty()) {
    return 0.0;
  }
  z_stream z{};
  // 15 is the largest window, and 16 more select the format of gzip.
  constexpr int gzip_format = 15 + 16;
  if (deflateInit2(&z, Z_BEST_COMPRESSION, Z_DEFLATED, gzip_format, 8,
                   Z_DEFAULT_STRATEGY) != Z_OK) {
    return error(errc::out_of_memory,
                 "cannot start gzip: expected memory for its tables, found too little");
  }
  // Only the length of the output matters, so one buffer is used again and again.
  std::array<Bytef, 65536> out;
  std::uint64_t written = 0;
  int status = Z_OK;
  // zlib counts input in 32 bits, so a large text is passed in pieces.
  for (std::size_t done = 0; status == Z_OK;) {
    const std::size_t piece =
        std::min<std::size_t>(text.size() - done, std::size_t{1} << 30);
    // zlib does not change its input, but its interface is older than `const`.
    z.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(text.data() + done));
    z.avail_in = static_cast<uInt>(piece);
    done += piece;
    // The last piece ends the stream.
    const int flush = done == text.size() ? Z_FINISH : Z_NO_FLUSH;
    // A full buffer means that there may be more output for the same input.
    do {
      z.next_out = out.data();
      z.avail_out = out.size();
      status = deflate(&z, flush);
      written += out.size() - z.avail_out;
    } while (z.avail_out == 0);
  }
  // Frees the tables. The status is the end of the stream here.
  deflateEnd(&z);
  return 8.0 * static_cast<double>(written) / static_cast<double>(text.size());
}

}  // namespace weir::tools
