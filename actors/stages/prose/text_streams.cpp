// SPDX-License-Identifier: Apache-2.0
/// @file
/// Opening, reading and cursors of the streams of a run.
#include "stages/prose/text_streams.hpp"

#include "stages/prose/job/resume/contexts.hpp"

namespace weir::actors {

std::string cursor_part_of(const std::string& source) {
  return source.empty() ? "CURSOR" : "CURSOR/" + source;
}

text_streams::text_streams(corpus_order main, std::vector<std::string> names)
    : lanes_(main.config.lanes) {
  for (std::string& name : names) {
    corpus_order other = main;
    other.source = main.sources.at(name);
    other.chain.clear();
    streams_.push_back({std::move(name), std::move(other)});
  }
  streams_.insert(streams_.begin(), stream{"", std::move(main)});
}

result<void> text_streams::open(file_system& fs, stream& one) {
  WEIR_TRY(one.corpus, open_corpus(fs, one.order));
  one.positions.assign(lanes_, 0);
  one.marks.assign(lanes_, std::nullopt);
  return {};
}

result<void> text_streams::open(file_system& fs) {
  for (stream& one : streams_) {
    WEIR_CHECK(open(fs, one));
  }
  return {};
}

result<std::uint32_t> text_streams::restore(file_system& fs,
                                            const stored_cursors& stored) {
  std::uint32_t lanes = lanes_;
  for (stream& one : streams_) {
    WEIR_TRY(const auto bytes, stored(cursor_part_of(one.name)));
    if (!bytes) {
      WEIR_CHECK(open(fs, one));
      continue;
    }
    WEIR_TRY(const auto where, storage::decode_cursor(*bytes));
    WEIR_TRY(one.corpus, continue_corpus(fs, one.order, where));
    const bool same = where.lanes.size() == lanes_;
    one.positions = first_positions(same ? context_policy::keep : one.order.contexts,
                                    where.lanes, lanes_);
    one.marks.assign(lanes_, std::nullopt);
    lanes = static_cast<std::uint32_t>(where.lanes.size());
  }
  return lanes;
}

result<bool> text_streams::ready(const chunk_order& order, int wait_ms) {
  return streams_[order.stream].corpus.stream->ready(order.tokens, order.lane, wait_ms);
}

result<std::optional<storage::token_chunk>> text_streams::read(const chunk_order& order) {
  return streams_[order.stream].corpus.stream->next_lane_chunk(order.tokens, order.lane);
}

void text_streams::commit(pulse_chunks& pulse) {
  stream& read = streams_[pulse.stream];
  for (auto& chunk : pulse.lanes) {
    if (!chunk) {
      continue;
    }
    read.marks[chunk->lane] = chunk->mark;
    for (const stream& other : streams_) {
      chunk->lane_position += &other == &read ? 0 : other.positions[chunk->lane];
    }
    read.positions[chunk->lane] = chunk->mark.after.position;
  }
}

result<void> text_streams::make_cursors(std::uint64_t pulse_id) {
  for (stream& one : streams_) {
    std::vector<storage::chunk_mark> marks;
    for (const auto& mark : one.marks) {
      if (mark) {
        marks.push_back(*mark);
      }
    }
    WEIR_TRY(const auto made, one.corpus.stream->cursor_at(marks, pulse_id));
    one.cursor = storage::encode(made);
  }
  return {};
}

}  // namespace weir::actors
