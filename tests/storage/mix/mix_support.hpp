// SPDX-License-Identifier: Apache-2.0
/// @file
/// Parts of mixtures, and the definition of a mixture as plain loops.
#pragma once

#include <gtest/gtest.h>
#include <functional>
#include <numeric>
#include "storage/context_support.hpp"
#include "support/case_count.hpp"
#include "weir/storage/live_source.hpp"
#include "weir/storage/mix_source.hpp"

namespace weir::test {

using namespace weir::storage;  // NOLINT: a header of tests

inline constexpr std::uint32_t eot = end_of_text;

/// Returns documents of a part: document d has the length of the list at d, its tokens
/// tell part and document, and `end_of_text` stands between two of them.
inline tokens documents(std::uint32_t part, const std::vector<std::size_t>& lengths) {
  tokens out;
  for (std::size_t d = 0; d < lengths.size(); ++d) {
    for (std::size_t i = 0; i < lengths[d]; ++i) {
      out.push_back(static_cast<std::uint32_t>(part * 40 + (d * 7 + i) % 40));
    }
    if (d + 1 < lengths.size()) {
      out.push_back(eot);
    }
  }
  return out;
}

/// Returns some lengths of documents.
inline std::vector<std::size_t> lengths(std::size_t count, std::uint64_t seed) {
  const philox random(seed, 3);
  std::vector<std::size_t> out(count);
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = 1 + random.below(i, 30);
  }
  return out;
}

/// A source that cannot seek, over tokens in memory; it forgets nothing.
class live_tokens final : public token_source {
 public:
  explicit live_tokens(tokens all) : all_(std::move(all)) {}
  std::uint64_t size() const noexcept override { return unknown_size; }
  bool seekable() const noexcept override { return false; }
  result<bool> ready(std::uint64_t index, std::size_t count, int wait_ms) override {
    // Every second question is answered with "not yet", unless the caller waits.
    quiet_ = !quiet_;
    return wait_ms != 0 || (!quiet_ && index + count <= all_.size());
  }
  /// A chunk ends with every seventh token, and a read of more would wait.
  result<std::size_t> chunk_run(std::uint64_t index, std::size_t count) override {
    const std::uint64_t left = all_.size() - std::min<std::size_t>(index, all_.size());
    return static_cast<std::size_t>(
        std::min<std::uint64_t>({count, 7 - index % 7, left}));
  }
  result<std::size_t> read(std::uint64_t index, std::span<std::uint32_t> to) override {
    EXPECT_GE(index, first_);
    EXPECT_LE(to.size(), 7 - index % 7);
    const std::size_t count = std::min<std::size_t>(
        to.size(), all_.size() - std::min<std::size_t>(index, all_.size()));
    std::copy_n(all_.begin() + static_cast<std::ptrdiff_t>(index), count, to.begin());
    return count;
  }
  std::string place_text(std::uint64_t index) const override {
    return "live:" + std::to_string(index);
  }
  place place_of(std::uint64_t index) const override { return {0, index}; }
  const source_identity& identity() const noexcept override { return identity_; }
  result<std::uint64_t> next_document(std::uint64_t index) override { return index; }
  result<void> continue_at(std::uint64_t index, std::span<const std::uint32_t>) override {
    first_ = index;
    return {};
  }

 private:
  tokens all_;
  bool quiet_ = false;
  std::uint64_t first_ = 0;
  source_identity identity_;
};

/// Description of a part, from which it can be opened several times.
struct part_text {
  tokens text;
  std::uint64_t weight = 1;
  exhaustion exhausted = exhaustion::drop;
  bool live = false;
};

inline std::unique_ptr<token_source> open_mix(const std::vector<part_text>& texts,
                                              const mix_options& options) {
  std::vector<mix_part> parts;
  for (const part_text& one : texts) {
    mix_part part;
    part.source = one.live ? std::make_unique<live_tokens>(one.text)
                           : or_throw(open_memory_tokens(one.text));
    part.name = "p" + std::to_string(parts.size());
    part.weight = one.weight;
    part.exhausted = one.exhausted;
    parts.push_back(std::move(part));
  }
  return or_throw(mix_sources(std::move(parts), options));
}

/// Reads a source from its start up to its end or to `limit` tokens.
inline tokens all_of(token_source& source, std::size_t limit = 100000) {
  tokens out(limit);
  out.resize(or_throw(source.read(0, out)));
  return out;
}

/// Cuts a text into units by the definition. Documents end with `end_of_text`.
inline std::vector<tokens> units_of(const tokens& text, std::size_t run, bool loops) {
  std::vector<tokens> out;
  for (std::size_t at = 0; at < text.size();) {
    const auto from = text.begin() + static_cast<std::ptrdiff_t>(at);
    tokens one;
    if (run == 0) {
      const auto end = std::find(from, text.end(), eot);
      one.assign(from, end);
      at += one.size() + 1;
      one.push_back(eot);
    } else {
      const std::size_t count = std::min(run, text.size() - at);
      one.assign(from, from + static_cast<std::ptrdiff_t>(count));
      at += count;
      if (at == text.size() && loops && one.back() != eot) {
        one.push_back(eot);
      }
    }
    out.push_back(std::move(one));
  }
  return out;
}

/// The mixture by its definition: draws from lists of units. `order` receives the parts.
inline tokens mixed(const std::vector<part_text>& texts, const mix_options& options,
                    std::size_t limit, std::vector<std::size_t>* order = nullptr) {
  std::vector<std::vector<tokens>> units;
  for (const part_text& one : texts) {
    units.push_back(
        units_of(one.text, options.run_tokens, one.exhausted == exhaustion::loop));
  }
  const std::size_t k = texts.size();
  std::vector<std::size_t> next(k, 0);
  std::vector<std::uint64_t> weights(k);
  std::vector<std::int64_t> drawn(k, 0);
  std::vector<bool> gone(k, false);
  std::int64_t since = 0;
  std::transform(texts.begin(), texts.end(), weights.begin(),
                 [](const part_text& p) { return p.weight; });
  tokens out;
  for (std::uint64_t draw = 0; out.size() < limit;) {
    for (const mix_row& row : options.curriculum) {
      if (row.draw == draw) {
        weights = row.weights;
        drawn.assign(k, 0);
        since = 0;
      }
    }
    std::vector<std::int64_t> w(k);
    for (std::size_t p = 0; p < k; ++p) {
      w[p] = gone[p] ? 0 : static_cast<std::int64_t>(weights[p]);
    }
    const std::int64_t total = std::accumulate(w.begin(), w.end(), std::int64_t{0});
    if (total == 0) {
      break;
    }
    std::size_t chosen = k;
    if (options.mode == mix_mode::random) {
      std::uint64_t u =
          philox(options.seed, 0x4D4958).below(draw, static_cast<std::uint64_t>(total));
      for (chosen = 0; u >= static_cast<std::uint64_t>(w[chosen]); ++chosen) {
        u -= static_cast<std::uint64_t>(w[chosen]);
      }
    } else {
      const auto active = std::count_if(w.begin(), w.end(), [](auto x) { return x > 0; });
      const std::int64_t cut = std::max<std::int64_t>(1, 2 * active - 2);
      long double first = 0;
      for (std::size_t p = 0; p < k; ++p) {
        const std::int64_t deficit = w[p] * (since + 1) - total * drawn[p];
        if (w[p] == 0 || (active > 1 && deficit * cut < total)) {
          continue;
        }
        const long double deadline =
            static_cast<long double>(total * (cut - 1) - deficit * cut) / w[p];
        if (chosen == k || deadline < first) {
          chosen = p;
          first = deadline;
        }
      }
    }
    if (next[chosen] == units[chosen].size()) {
      if (texts[chosen].exhausted == exhaustion::stop) {
        break;
      }
      if (texts[chosen].exhausted == exhaustion::drop) {
        gone[chosen] = true;
        drawn.assign(k, 0);
        since = 0;
        continue;
      }
      next[chosen] = 0;
    }
    const tokens& one = units[chosen][next[chosen]++];
    out.insert(out.end(), one.begin(), one.end());
    drawn[chosen] += 1;
    since += 1;
    draw += 1;
    if (order != nullptr) {
      order->push_back(chosen);
    }
  }
  out.resize(std::min(out.size(), limit));
  return out;
}

/// Returns three parts with policies.
inline std::vector<part_text> three_parts(exhaustion a, exhaustion b, exhaustion c) {
  return {{documents(0, lengths(40, 1)), 3, a},
          {documents(1, lengths(25, 2)), 2, b},
          {documents(2, lengths(9, 3)), 1, c}};
}

/// Returns options in both modes, for documents and runs, with and without a curriculum.
inline std::vector<mix_options> all_options() {
  std::vector<mix_options> out;
  for (const mix_mode mode : {mix_mode::smooth, mix_mode::random}) {
    for (const std::uint64_t run : {0U, 16U}) {
      for (const bool rows : {false, true}) {
        mix_options o;
        o.mode = mode;
        o.seed = 11;
        o.run_tokens = run;
        if (rows) {
          o.curriculum = {{5, {1, 0, 4}}, {6, {1, 1, 1}}, {30, {0, 2, 5}}};
        }
        out.push_back(std::move(o));
      }
    }
  }
  return out;
}

inline stream_config chunks_of(std::size_t n, std::uint32_t lanes = 1) {
  stream_config c;
  c.chunk = n;
  c.lanes = lanes;
  c.frequencies = {1};
  return c;
}

/// Resumes a stream at every chunk, up to three times, and compares chunks and cursors
/// with those of the uninterrupted stream.
inline void resume_everywhere(const std::function<std::unique_ptr<token_source>()>& open,
                              const stream_config& config, std::size_t count) {
  const auto start = [&] { return or_throw(context_stream::open(config, open())); };
  const auto reference = start();
  const std::vector<token_chunk> chunks = read_all(*reference, config.chunk, 0, count);
  std::vector<byte_vector> cursors;
  std::vector<chunk_mark> marks;
  for (const token_chunk& chunk : chunks) {
    marks.push_back(chunk.mark);
    cursors.push_back(encode(or_throw(reference->cursor_at(marks, 1))));
  }
  for (std::size_t k = 0; k < chunks.size(); k += weir::test::case_step()) {
    byte_vector cursor = cursors[k];
    for (std::size_t i = k + 1; i < std::min(k + 4, chunks.size()); ++i) {
      const auto stream = start();
      or_throw(stream->restore(or_throw(decode_cursor(cursor))));
      const auto chunk = or_throw(stream->next_chunk(config.chunk)).value();
      ASSERT_TRUE(same(chunk, chunks[i])) << k << " " << i;
      cursor = encode(or_throw(stream->cursor(1)));
      ASSERT_EQ(cursor, cursors[i]) << k << " " << i;
    }
  }
}

}  // namespace weir::test
