// SPDX-License-Identifier: Apache-2.0
/// @file
/// Questions and answers. Question n of a rank has the number 3n; the answer has the
/// numbers 3n + 1, for the number of calls, and 3n + 2, for the calls.
///
/// A rank that waits for long asks the others for their newest calls. If their calls
/// differ from its own, it need not wait for a limit of time to report it.
#include "world/call_inquiry.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace weir::runtime {
namespace {

/// Returns a copy of the bytes of objects, which is kept until it has been sent.
template <class T>
std::vector<std::byte> bytes_of_all(std::span<const T> objects) {
  const auto bytes = std::as_bytes(objects);
  return {bytes.begin(), bytes.end()};
}

}  // namespace

/// A channel of its own keeps questions apart from pieces and reports.
call_inquiry::call_inquiry(transport& link)
    : link_(link), channel_(link.open_channel()) {}

/// The list keeps the bytes; its elements do not move.
result<void> call_inquiry::send(rank_id to, std::uint64_t number,
                                std::vector<std::byte> bytes) {
  outgoing& out = sends_.emplace_back(outgoing{0, std::move(bytes)});
  WEIR_TRY(out.id, link_.send(to, {channel_, number}, out.bytes));
  return {};
}

/// One receive per peer is always open for its next question.
result<void> call_inquiry::await_question(peer& p) {
  WEIR_TRY(p.question,
           link_.receive(p.rank, {channel_, 3 * p.answered}, std::span(&p.asks, 1)));
  return {};
}

/// Begins to receive the first part of an answer, the number of calls. The size of the
/// second part follows from it.
result<void> call_inquiry::await_count(peer& p) {
  WEIR_TRY(p.count, link_.receive(p.rank, {channel_, 3 * p.asked + 1},
                                  std::as_writable_bytes(std::span(&p.answer.count, 1))));
  return {};
}

result<void> call_inquiry::await_calls(peer& p) {
  WEIR_TRY(p.calls, link_.receive(p.rank, {channel_, 3 * p.asked + 2},
                                  std::as_writable_bytes(std::span(p.answer.newest))));
  return {};
}

/// A peer that has not answered yet is not asked again.
result<void> call_inquiry::ask() {
  for (peer& p : peers_) {
    if (!p.open) {
      p.open = true;
      WEIR_CHECK(send(p.rank, 3 * p.asked, std::vector<std::byte>(1)));
      WEIR_CHECK(await_count(p));
    }
  }
  return {};
}

/// Called by a rank that has nothing else to do. `own` are its calls.
result<void> call_inquiry::move_on(const call_log& own) {
  // Receives are begun at the first call, when all ranks have their channels. The memory
  // of a receive must not move.
  if (peers_.empty()) {
    peers_.resize(link_.ranks() - 1);
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      peers_[i].rank = static_cast<rank_id>(i < link_.rank() ? i : i + 1);
      WEIR_CHECK(await_question(peers_[i]));
    }
  }
  std::vector<transfer_end> ended;
  link_.take_ends(channel_, ended);
  for (const transfer_end& one : ended) {
    const auto is_its = [&one](const peer& p) {
      return p.question == one.id || p.count == one.id || p.calls == one.id;
    };
    // The end of a receive, or else of a send.
    if (const auto p = std::find_if(peers_.begin(), peers_.end(), is_its);
        p != peers_.end()) {
      WEIR_CHECK(take(*p, one, own));
    } else {
      sends_.remove_if([&one](const outgoing& out) { return out.id == one.id; });
    }
  }
  return {};
}

/// Takes the end of one receive. That a rank is silent here is no failure of this rank:
/// the transfer of a piece or a report that the silent rank owes fails instead, and its
/// error names the rank. The receive is begun again, because the rank may answer late. A
/// rank that has abandoned the channel neither asks nor answers any more.
result<void> call_inquiry::take(peer& p, const transfer_end& one, const call_log& own) {
  if (one.abandoned) {
    return {};
  }
  const bool came = one.outcome.has_value();
  // A receive that has timed out is begun anew.
  if (one.id == p.question) {
    return came ? reply(p, own) : await_question(p);
  }
  if (one.id == p.calls) {
    return came ? compare(p, own) : await_calls(p);
  }
  if (!came) {
    return await_count(p);
  }
  // Now the memory for the calls can be sized.
  p.answer.newest.resize(p.answer.count.remembered());
  return await_calls(p);
}

/// Answers with the calls as they are now.
result<void> call_inquiry::reply(peer& p, const call_log& own) {
  const call_history h = own.history();
  WEIR_CHECK(send(p.rank, 3 * p.answered + 1,
                  bytes_of_all(std::span<const call_count>(&h.count, 1))));
  WEIR_CHECK(send(p.rank, 3 * p.answered + 2,
                  bytes_of_all(std::span<const sent_call>(h.newest))));
  ++p.answered;
  return await_question(p);
}

/// The next question has the next number.
result<void> call_inquiry::compare(peer& p, const call_log& own) {
  p.open = false;
  ++p.asked;
  return compare_calls(link_.rank(), own.history(), p.rank, p.answer);
}

}  // namespace weir::runtime
