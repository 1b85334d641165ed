// SPDX-License-Identifier: Apache-2.0
/// @file
/// Opening, reading and cursors of the streams of a run.
///
/// A run has one stream per source that its phases read. A token has a position in its
/// own stream; the position that the model sees is the sum over all streams, because a
/// lane has one context for all of them.
#include "stages/prose/text_streams.hpp"

#include "stages/prose/job/resume/contexts.hpp"

namespace weir::actors {

/// Name of the part of the state with the cursor of a source.
std::string cursor_part_of(const std::string& source) {
  return source.empty() ? "CURSOR" : "CURSOR/" + source;
}

/// Stream 0 is the main one, and the others follow in the order of `names`.
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

/// Opens one stream at its beginning.
result<void> text_streams::open(file_system& fs, stream& one) {
  WEIR_TRY(one.corpus, open_corpus(fs, one.order));
  one.positions.assign(lanes_, 0);
  one.marks.assign(lanes_, std::nullopt);
  return {};
}

/// Opens all streams; used for new runs.
result<void> text_streams::open(file_system& fs) {
  for (stream& one : streams_) {
    WEIR_CHECK(open(fs, one));
  }
  return {};
}

/// Opens each stream behind its stored cursor, or at its beginning if it was not read
/// before. Returns the number of lanes of the run that is continued.
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
    // With other lanes, the policy says at which positions they begin.
    const bool same = where.lanes.size() == lanes_;
    one.positions = first_positions(same ? context_policy::keep : one.order.contexts,
                                    where.lanes, lanes_);
    one.marks.assign(lanes_, std::nullopt);
    lanes = static_cast<std::uint32_t>(where.lanes.size());
  }
  return lanes;
}

/// Waits at most `wait_ms` for the tokens of an order.
result<bool> text_streams::ready(const chunk_order& order, int wait_ms) {
  return streams_[order.stream].corpus.stream->ready(order.tokens, order.lane, wait_ms);
}

/// Reads the chunk of an order, or nothing if the lane has ended.
result<std::optional<storage::token_chunk>> text_streams::read(const chunk_order& order) {
  return streams_[order.stream].corpus.stream->next_lane_chunk(order.tokens, order.lane);
}

/// Notes that the chunks of a pulse are handed on, and moves their positions to those of
/// the model.
void text_streams::commit(pulse_chunks& pulse) {
  stream& read = streams_[pulse.stream];
  for (auto& chunk : pulse.lanes) {
    if (!chunk) {
      continue;
    }
    // A cursor is made from these marks.
    read.marks[chunk->lane] = chunk->mark;
    for (const stream& other : streams_) {
      chunk->lane_position += &other == &read ? 0 : other.positions[chunk->lane];
    }
    read.positions[chunk->lane] = chunk->mark.after.position;
  }
}

/// Makes the cursors behind the last committed chunks. May read files; see
/// `text_pulses::position`.
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
