// SPDX-License-Identifier: Apache-2.0
/// @file
/// A mixture of three sources, as a share of the rate of one source in the same run.
#include <algorithm>
#include <stdexcept>

#include "bench.hpp"
#include "weir/base/philox.hpp"
#include "weir/storage/context.hpp"
#include "weir/storage/mix_source.hpp"

namespace {

using namespace weir;
using namespace weir::storage;

constexpr std::size_t text_tokens = std::size_t{1} << 22;
constexpr std::size_t mean_document = 1000;
constexpr std::size_t chunk = 64;
constexpr int repeats = 5;

/// Makes a text of documents of 500 to 1500 tokens.
std::vector<std::uint32_t> make_text(std::uint64_t seed) {
  const philox random(seed, 1);
  std::vector<std::uint32_t> text(text_tokens);
  for (std::size_t i = 0; i < text.size(); ++i) {
    text[i] = static_cast<std::uint32_t>(random.bits(i) & 0x7F);
  }
  for (std::size_t at = 0, d = 0; at < text.size(); ++d) {
    text[at] = end_of_text;
    at += mean_document / 2 + random.below(text.size() + d, mean_document);
  }
  return text;
}

std::unique_ptr<token_source> open_text(std::uint64_t seed) {
  return or_throw(open_memory_tokens(make_text(seed)));
}

std::unique_ptr<token_source> open_mixture() {
  std::vector<mix_part> parts(3);
  for (std::size_t p = 0; p < parts.size(); ++p) {
    parts[p].source = open_text(p);
    parts[p].weight = 3 - p;
  }
  return or_throw(mix_sources(std::move(parts), {}));
}

/// Reads `text_tokens` in chunks, and counts processor seconds of this thread.
double tokens_per_second(std::unique_ptr<token_source> source) {
  stream_config config;
  config.chunk = chunk;
  config.frequencies = {1};
  const auto stream = or_throw(context_stream::open(config, std::move(source)));
  const double seconds = bench::thread_seconds_of([&] {
    for (std::size_t i = 0; i < text_tokens / chunk; ++i) {
      bench::keep(or_throw(stream->next_chunk(chunk))->tokens.back());
    }
    bench::keep(or_throw(stream->cursor(1)).content_hash);
  });
  if (stream->position() != text_tokens) {
    throw std::runtime_error("the stream did not hand out the tokens of the text");
  }
  return static_cast<double>(text_tokens) / seconds;
}

double mix_ratio() {
  double one = 0;
  double mixed = 0;
  for (int i = 0; i < repeats; ++i) {
    one = std::max(one, tokens_per_second(open_text(0)));
    mixed = std::max(mixed, tokens_per_second(open_mixture()));
  }
  return mixed / one;
}

}  // namespace

int main(int argc, char** argv) {
  bench::program all;
  all.add("context_mix_ratio", "of one source", bench::at_least(0.5), mix_ratio);
  return all.run(argc, argv);
}
