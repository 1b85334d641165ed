// SPDX-License-Identifier: Apache-2.0
/// @file
/// Waits of a world: all ranks compare their streams and agree on the oldest failure.
///
/// Several exchanges may be under way: each has a number, and all ranks make them in the
/// same order. A failure of the transport ends the world; a failure of a task does not.
#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/core.h>

#include "world/ranked.hpp"
#include "world/stop_signals.hpp"

namespace weir::runtime {
namespace {

/// Copies as much of a text as fits in front of a zero.
///
/// Reports have fixed sizes, since they are sent as bytes of structures.
template <std::size_t Size>
void put_text(std::array<char, Size>& to, std::string_view text) {
  to.fill('\0');
  std::copy_n(text.begin(), std::min(text.size(), Size - 1), to.begin());
}

}  // namespace

/// Keeps the failure with the lowest step. Kernels of several workers call it.
///
/// Step 0 stands for none, so steps begin with 1.
void world::ranked::note_failure(std::uint64_t step, const char* name,
                                 const error& cause) {
  const std::lock_guard lock(mutex_);
  if (failure_.failed_step != 0 && failure_.failed_step <= step) {
    return;
  }
  failure_.failed_step = step;
  failure_.code = static_cast<std::uint32_t>(cause.code());
  put_text(failure_.name, name);
  put_text(failure_.text, cause.text());
  // All texts are cut to the size of the message.
  put_text(failure_.location, cause.location());
  put_text(failure_.hint, cause.hint());
}

/// Ends the use of the transport and tells the other ranks `for_others`.
///
/// All later calls return `cause`. Tasks that are under way end first, since they use
/// memory of the world.
error world::ranked::end(error cause, const error& for_others) {
  if (records()) {
    end_recording(false);
  }
  // Channels are abandoned with the reason, so that other ranks do not wait for a limit
  // of time.
  pieces_.abandon(for_others);
  link_.abandon(control_, for_others);
  inquiry_.close();
  stop_.abandon(for_others);
  run_all(tasks_);
  // The advice may say where the reason is found, for instance in another log.
  if (const std::string hint = advice_ && cause.hint().empty() ? advice_() : "";
      !hint.empty()) {
    static_cast<void>(std::move(cause).hint(hint));
  }
  broken_ = cause;
  return cause;
}

/// Adds the task that needs a piece which did not come, if there is one.
///
/// Only errors of a rank that is silent or gone are completed.
error world::ranked::with_task(error cause) {
  if (cause.code() != errc::rank_lost && cause.code() != errc::timeout) {
    return cause;
  }
  std::string name;
  {
    const std::lock_guard lock(mutex_);
    // The failure was noted with its step.
    if (failure_.failed_step != 0 && static_cast<errc>(failure_.code) == cause.code()) {
      name = fmt::format("step {} \"{}\"", failure_.failed_step, failure_.name.data());
    }
  }
  if (const auto awaited = pieces_.oldest_awaited(); name.empty() && awaited) {
    name = fmt::format("\"{}\"", awaited->task);
  }
  return name.empty() ? cause
                      : error(cause.code(), fmt::format("{}; the task {} needs bytes "
                                                        "that have not come",
                                                        cause.text(), name));
}

/// Ends the world because of a failure of this rank. From now on SIGTERM ends the
/// process, since its worlds cannot agree on a step and save their state.
/// The others get a text that names this rank, because to them the cause is this rank.
error world::ranked::fail(error cause) {
  end_at_stop_signals();
  const error for_others(
      cause.code(), fmt::format("rank {} has failed: expected it to go on, found: {}",
                                link_.rank(), cause.text()));
  return end(std::move(cause), for_others);
}

/// Sends the own bytes to all ranks and receives theirs. Tasks and pieces move on
/// meanwhile, because other ranks may need them before they come to the exchange.
///
/// @param all  Memory for the bytes of each rank; their sizes are known to all ranks.
result<void> world::ranked::exchange(std::span<const std::byte> own,
                                     const bytes_of_ranks& all) {
  if (link_.is_pretended()) {
    return {};
  }
  const message_key key{control_, exchanges_++};
  std::vector<transfer_id> open;
  for (rank_id r = 0; r < link_.ranks(); ++r) {
    if (r == link_.rank()) {
      // Sends and receives of all ranks are begun first, then all are awaited.
      continue;
    }
    auto sent = link_.send(r, key, own);
    auto begun = sent ? link_.receive(r, key, all[r]) : std::move(sent);
    if (!begun) {
      return fail(std::move(begun).error());
    }
    open.push_back(*begun);
    if (sent) {
      open.push_back(*sent);
    }
  }
  while (!open.empty()) {
    std::vector<transfer_end> ended;
    link_.poll(control_, ended);
    for (transfer_end& one : ended) {
      if (!one.outcome) {
        error cause = std::move(one.outcome).error();
        // A rank that has abandoned its channel gives its reason, which is then the
        // reason of all.
        if (!one.abandoned) {
          return fail(with_task(std::move(cause)));
        }
        end_at_stop_signals();
        return end(cause, cause);
      }
      std::erase(open, one.id);
    }
    // Lets tasks end that others may wait for.
    if (!open.empty()) {
      WEIR_CHECK(advance());
    }
  }
  return {};
}

/// Returns the reports of all ranks. The report of the own rank is copied, not sent.
result<std::vector<rank_report>> world::ranked::exchange(const rank_report& own) {
  std::vector<rank_report> all(link_.ranks());
  all[link_.rank()] = own;
  bytes_of_ranks bytes;
  for (rank_report& one : all) {
    bytes.push_back(std::as_writable_bytes(std::span(&one, 1)));
  }
  WEIR_CHECK(exchange(std::as_bytes(std::span(&own, 1)), bytes));
  return all;
}

/// Compares the calls before pieces are awaited that no rank may send.
///
/// Every rank comes to the same result, because all have the same reports.
result<void> world::ranked::check_equal_streams() {
  rank_report own;
  own.count = log_.count();
  own.fold = log_.folded();
  WEIR_TRY(const auto all, exchange(own));
  for (rank_id r = 1; r < all.size(); ++r) {
    // Number and hash of all calls since the begin.
    if (all[r].count.calls != all[0].count.calls || all[r].fold != all[0].fold) {
      return find_difference(all, r);
    }
  }
  // The calls that were compared need not be kept.
  log_.forget();
  return {};
}

/// Fails with the first call in which rank 0 and another one differ. All ranks come here
/// together, and give each other their newest calls.
/// Reports are equal on all ranks, so all ranks choose the same `other` and come to the
/// same text. The numbers of remembered calls are in the reports, so each rank knows the
/// sizes.
result<void> world::ranked::find_difference(const std::vector<rank_report>& reports,
                                            rank_id other) {
  std::vector<call_history> all(link_.ranks());
  bytes_of_ranks bytes;
  for (rank_id r = 0; r < all.size(); ++r) {
    all[r].count = reports[r].count;
    // Ranks may remember different numbers of calls.
    all[r].newest.resize(all[r].count.remembered());
    bytes.push_back(std::as_writable_bytes(std::span(all[r].newest)));
  }
  const call_history own = log_.history();
  WEIR_CHECK(exchange(std::as_bytes(std::span(own.newest)), bytes));
  all[link_.rank()] = own;
  // The hashes differ, so the calls must.
  auto equal = compare_calls(0, all[0], other, all[other]);
  WEIR_EXPECT(!equal);
  return fail(std::move(equal).error());
}

/// Returns the failure that is oldest in the stream, the same on all ranks. Pieces may
/// not have arrived because of it, so all ranks forget copies.
///
/// A wait reports a failure once; `failure_` is empty afterwards.
result<void> world::ranked::agree() {
  rank_report own;
  {
    const std::lock_guard lock(mutex_);
    own = std::exchange(failure_, {});
  }
  WEIR_TRY(const auto all, exchange(own));
  const rank_report* oldest = nullptr;
  rank_id failed = 0;
  for (rank_id r = 0; r < all.size(); ++r) {
    // At equal steps the lowest rank counts.
    if (all[r].failed_step != 0 &&
        (oldest == nullptr || all[r].failed_step < oldest->failed_step)) {
      oldest = &all[r];
      failed = r;
    }
  }
  if (oldest == nullptr) {
    return {};
  }
  // The pieces that were missing are asked for again.
  note_ledger_change();
  for (auto& [key, s] : storages_) {
    s.ledger.forget_copies();
  }
  // A failure of the engine has no step.
  const std::string task =
      oldest->failed_step == rank_report::no_step
          ? "a task"
          : fmt::format("step {} \"{}\"", oldest->failed_step, oldest->name.data());
  return error(static_cast<errc>(oldest->code),
               fmt::format("{} failed on rank {}: expected success, found: {}", task,
                           failed, oldest->text.data()))
      .located(oldest->location.data())
      .hint(oldest->hint.data());
}

/// All ranks call it together. The order: submit what was deferred, compare the streams,
/// end all tasks, and agree on the oldest failure. With ranks that are pretended there is
/// nobody to agree with.
result<void> world::ranked::wait() {
  if (broken_) {
    return *broken_;
  }
  WEIR_CHECK(disturb());
  if (link_.is_pretended()) {
    return drain();
  }
  log_.begin_wait();
  WEIR_CHECK(check_equal_streams());
  WEIR_CHECK(drain());
  result<void> outcome = agree();
  log_.end_wait();
  return outcome;
}

/// Comes to the boundary before the next step. Moves on while the ranks agree.
///
/// All ranks call it with the same steps. Returns whether the program should stop here;
/// the answer is the same on all ranks.
result<bool> world::ranked::stops_here() {
  if (broken_) {
    return *broken_;
  }
  if (link_.is_pretended()) {
    return stop_signal_arrived();
  }
  stop_.arrive();
  for (;;) {
    if (auto moved = stop_.move_on(); !moved) {
      return fail(std::move(moved).error());
    }
    // Holds only while the ranks ask each other for their boundaries.
    if (!stop_.holds()) {
      break;
    }
    WEIR_CHECK(advance());
  }
  stop_.pass();
  return stop_.stops();
}

/// The ranks exchange their counters as they exchange reports.
///
/// Ends in a wait, so that counters of all ranks belong to the same place of the stream.
result<std::vector<world_counters>> world::ranked::gather_counters() {
  WEIR_CHECK(wait());
  log_.begin_wait();
  std::vector<world_counters> all(link_.ranks());
  all[link_.rank()] = counters_;
  const world_counters own = counters_;
  bytes_of_ranks bytes;
  for (world_counters& one : all) {
    bytes.push_back(std::as_writable_bytes(std::span(&one, 1)));
  }
  WEIR_CHECK(exchange(std::as_bytes(std::span(&own, 1)), bytes));
  log_.end_wait();
  return all;
}

}  // namespace weir::runtime
