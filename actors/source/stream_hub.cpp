// SPDX-License-Identifier: Apache-2.0
/// @file
/// Opening of a corpus, and the handlers of the hub's messages.
#include "source/stream_hub.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace weir::actors {

/// Opens the source of tokens: standard input, or files in the order that `expand_paths`
/// gives them. Standard input cannot be combined with files.
result<std::unique_ptr<storage::token_source>> open_corpus(
    file_system& fs, const std::vector<std::string>& paths, bool eot,
    std::vector<std::string>* files) {
  if (paths.size() == 1 && paths.front() == "-") {
    *files = {"stdin"};
    return storage::open_pipe_source(0);
  }
  for (const std::string& path : paths) {
    if (path == "-") {
      return error(errc::invalid_argument,
                   "opening the corpus failed: expected standard input alone, found it "
                   "beside files");
    }
  }
  WEIR_TRY(*files, storage::expand_paths(fs, paths));
  storage::source_options options;
  options.separate_documents = eot;
  return storage::open_file_set(fs, *files, options);
}

/// Opens the stream, at the cursor if there is one. Earlier versions sorted all files and
/// read each once, so a cursor that does not fit is tried with that list, too.
result<stream_info> hub_state::open(const stream_spec& spec) {
  auto info = open_as_listed(spec);
  if (info || !spec.cursor || info.error().code() != errc::history_mismatch) {
    return info;
  }
  stream_spec sorted = spec;
  WEIR_TRY(sorted.paths, storage::expand_paths(*fs_, spec.paths));
  std::sort(sorted.paths.begin(), sorted.paths.end());
  sorted.paths.erase(std::unique(sorted.paths.begin(), sorted.paths.end()),
                     sorted.paths.end());
  auto older = open_as_listed(sorted);
  return older ? std::move(older) : std::move(info);
}

/// The stream replaces the old one only if everything has succeeded.
result<stream_info> hub_state::open_as_listed(const stream_spec& spec) {
  stream_info info;
  WEIR_TRY(auto source, open_corpus(*fs_, spec.paths, spec.eot, &info.corpus));
  info.seekable = source->seekable();
  info.tokens = source->size() == storage::unknown_size ? 0 : source->size();
  info.identity = source->identity().digest();
  WEIR_TRY(auto stream, storage::context_stream::open(spec.config, std::move(source)));
  if (spec.cursor) {
    WEIR_CHECK(stream->restore(*spec.cursor));
  }
  info.warning = stream->warning();
  stream_ = std::move(stream);
  return info;
}

/// Takes the next chunk for each order. The reply to a lane whose text has ended has no
/// chunk.
result<chunk_replies> hub_state::pull(const chunk_orders& orders) {
  if (!stream_) {
    return error(errc::stopping,
                 "pulling chunks failed: expected an open stream, found none");
  }
  chunk_replies out;
  out.reserve(orders.size());
  for (const chunk_order& order : orders) {
    WEIR_TRY(auto chunk, stream_->next_lane_chunk(order.tokens, order.lane));
    out.push_back({order, std::move(chunk)});
  }
  return out;
}

result<storage::stream_cursor> hub_state::cursor(const cursor_order& order) {
  if (!stream_) {
    return error(errc::stopping,
                 "making a cursor failed: expected an open stream, found none");
  }
  return stream_->cursor_at(order.marks, order.pulse_id);
}

stream_hub_actor::behavior_type stream_hub_io(
    stream_hub_actor::stateful_pointer<hub_shell> self, hub_config config) {
  install_defaults(self);
  self->state.core = std::make_unique<hub_state>(*config.fs);
  return {
      answers("stream hub, pull",
              [self](pull_atom,
                     const local<chunk_orders>& orders) -> result<local<chunk_replies>> {
                WEIR_TRY(auto replies, self->state.core->pull(*orders));
                return by_reference(std::move(replies));
              }),
      answers("stream hub, open",
              [self](open_atom,
                     const local<stream_spec>& spec) -> result<local<stream_info>> {
                WEIR_TRY(auto info, self->state.core->open(*spec));
                return by_reference(std::move(info));
              }),
      answers("stream hub, cursor",
              [self](cursor_atom, const local<cursor_order>& order)
                  -> result<local<storage::stream_cursor>> {
                WEIR_TRY(auto cursor, self->state.core->cursor(*order));
                return by_reference(std::move(cursor));
              }),
  };
}

}  // namespace weir::actors
