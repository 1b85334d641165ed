// SPDX-License-Identifier: Apache-2.0
/// @file
/// The messages of the agreement.
///
/// Any rank may ask to stop. Rank 0 then asks all ranks for the boundary that they can
/// still reach; the largest answer is the step at which all of them stop. Messages on
/// one channel come in their order.
#include "world/stop_agreement.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "weir/runtime/world.hpp"

namespace weir::runtime {

/// The object exists on every rank of the world. Rank 0 talks with all others, and they
/// with rank 0 alone, so a step costs them the same for any number of ranks.
stop_agreement::stop_agreement(transport& link)
    : link_(link), channel_(link.open_channel()) {
  const rank_id ranks = link.rank() == 0 ? link.ranks() : 1;
  for (rank_id r = link.rank() == 0 ? 1 : 0; r < ranks; ++r) {
    peers_.emplace_back().rank = r;
  }
}

/// One receive per peer is always open.
result<void> stop_agreement::await(peer& p) {
  WEIR_TRY(p.receive, link_.receive(p.rank, {channel_, p.received},
                                    std::as_writable_bytes(std::span(&p.next, 1))));
  return {};
}

/// Numbers of messages rise for each peer, as `sent` counts them.
result<void> stop_agreement::send(peer& p, message content) {
  outgoing& out = sends_.emplace_back(outgoing{0, content});
  WEIR_TRY(out.id, link_.send(p.rank, {channel_, p.sent++},
                              std::as_bytes(std::span(&out.content, 1))));
  return {};
}

result<void> stop_agreement::send_to_all(message content) {
  for (peer& p : peers_) {
    WEIR_CHECK(send(p, content));
  }
  return {};
}

/// Called at boundaries and while waiting. Does nothing if nobody asks and nothing has
/// come.
result<void> stop_agreement::move_on() {
  // The first call begins the receives.
  if (peers_.front().receive == 0) {
    for (peer& p : peers_) {
      WEIR_CHECK(await(p));
    }
  }
  const bool asked = asked_.load(std::memory_order_relaxed) || stop_signal_arrived();
  // A rank asks once.
  if (asked && !std::exchange(has_sent_request_, true)) {
    WEIR_CHECK(link_.rank() == 0 ? begin()
                                 : send(peers_.front(), {message_kind::request, 0}));
  }
  std::vector<transfer_end> ended;
  link_.take_ends(channel_, ended);
  for (const transfer_end& one : ended) {
    const auto p = std::find_if(peers_.begin(), peers_.end(), [&one](const peer& other) {
      return other.receive == one.id;
    });
    if (p != peers_.end()) {
      WEIR_CHECK(take(*p, one));
    } else {
      // A message of this rank has been taken.
      sends_.remove_if([&one](const outgoing& out) { return out.id == one.id; });
    }
  }
  // A rank that waits for the verdict would wait for ever if one of the others has gone.
  const auto gone = !holds()
                        ? peers_.end()
                        : std::find_if(peers_.begin(), peers_.end(),
                                       [](const peer& p) { return p.gone.has_value(); });
  return gone == peers_.end() ? result<void>() : result<void>(*gone->gone);
}

/// Rank 0 asks the others for their boundaries.
/// Several ranks may have asked; the first request begins the agreement.
result<void> stop_agreement::begin() {
  if (std::exchange(has_begun_, true)) {
    return {};
  }
  answer();
  // The own answer counts as well.
  WEIR_CHECK(send_to_all({message_kind::question, 0}));
  return note_answer(*answer_);
}

/// A rank that has gone or is silent is a failure only if it keeps others waiting; if
/// not, a piece or a report that it owes fails, and names it.
result<void> stop_agreement::take(peer& p, const transfer_end& one) {
  if (one.outcome) {
    ++p.received;
    WEIR_CHECK(take_message(p));
    return await(p);
  }
  if (one.abandoned) {
    p.gone = one.outcome.error();
    return {};
  }
  // Others cannot go on without this rank.
  if (answer_ && !last_) {
    return one.outcome;
  }
  return await(p);
}

/// Requests and answers go to rank 0, questions and verdicts come from it.
result<void> stop_agreement::take_message(peer& p) {
  const message content = p.next;
  switch (content.kind) {
    case message_kind::request: return begin();
    case message_kind::question:
      answer();
      return send(p, {message_kind::answer, *answer_});
    case message_kind::answer: return note_answer(content.boundary);
    case message_kind::verdict: last_ = content.boundary; break;
  }
  return {};
}

/// Rank 0 has the answer of one more rank.
result<void> stop_agreement::note_answer(std::uint64_t boundary) {
  largest_ = std::max(largest_, boundary);
  // Answers of the peers and the own one.
  if (++answers_ <= peers_.size()) {
    return {};
  }
  last_ = largest_;
  return send_to_all({message_kind::verdict, largest_});
}

}  // namespace weir::runtime
