// SPDX-License-Identifier: Apache-2.0
/// @file
/// Logs of calls and their comparison.
///
/// A log keeps the hash and the name of each of the newest calls, and a hash over all
/// calls.
#include "world/call_log.hpp"

#include <algorithm>
#include <string>
#include <string_view>

#include <fmt/core.h>

namespace weir::runtime {
namespace {

/// Returns the name of a call; a call that has not been made is the wait of the rank.
std::string name_of_call(const call_history& h, std::uint64_t number) {
  if (number >= h.count.calls) {
    return "wait";
  }
  return number < h.count.first ? "a forgotten call"
                                : h.newest[number - h.count.first].name.data();
}

/// Returns true if a rank waits and the other one, which has made more calls, has not
/// left that wait: it has made these calls before it.
///
/// Such a rank would wait for ever: its wait and a call of the other rank stand at the
/// same place.
bool waits_before(const call_count& fewer, const call_count& more) {
  return fewer.inside != 0 &&
         (more.waits < fewer.waits || (more.waits == fewer.waits && more.inside != 0));
}

/// Returns the error of a difference in a call. `or_earlier` says that older calls are
/// unknown.
/// Both ranks, if they compare, give the error the same words.
error difference(rank_id one_rank, const call_history& one, rank_id other_rank,
                 const call_history& other, std::uint64_t number, bool or_earlier) {
  // A name that is equal on both sides points to the arguments.
  const std::string expected = name_of_call(one, number);
  const std::string found = name_of_call(other, number);
  return error(errc::diverged,
               fmt::format("ranks {} and {} differ in call {}{}: expected \"{}\", found "
                           "\"{}\"{}",
                           one_rank, other_rank, number + 1,
                           or_earlier ? " or an earlier one" : "", expected, found,
                           expected == found ? " with other arguments" : ""))
      .hint("control flow, names and accesses must be the same on all ranks");
}

}  // namespace

/// Returns an error that names the first call in which the two ranks differ, or nothing
/// if they do not differ as far as is known.
result<void> compare_calls(rank_id one_rank, const call_history& one, rank_id other_rank,
                           const call_history& other) {
  if (one_rank > other_rank) {  // all ranks find the same text
    return compare_calls(other_rank, other, one_rank, one);
  }
  // Calls that both remember.
  const std::uint64_t begin = std::max(one.count.first, other.count.first);
  const std::uint64_t end = std::min(one.count.calls, other.count.calls);
  // Older calls may differ as well, if they were not compared.
  const bool forgotten = begin > std::max(one.count.compared, other.count.compared);
  for (std::uint64_t n = begin; n < end; ++n) {
    if (one.newest[n - one.count.first].fold !=
        other.newest[n - other.count.first].fold) {
      return difference(one_rank, one, other_rank, other, n, forgotten && n == begin);
    }
  }
  // All common calls are equal. One rank may have made more of them, which is no
  // difference yet, unless the other one waits.
  const bool swapped = one.count.calls > other.count.calls;
  if (one.count.calls == other.count.calls ||
      !waits_before(swapped ? other.count : one.count,
                    swapped ? one.count : other.count)) {
    return {};
  }
  return difference(one_rank, one, other_rank, other, end, begin > end);
}

/// The name must live as long as the log, for instance as a literal.
void call_log::note(const char* name) {
  ++calls_;
  newest_.push_back({fold_.value(), name});
  if (newest_.size() > max_remembered) {
    newest_.pop_front();
  }
}

/// Called when all ranks have compared their calls.
void call_log::forget() noexcept {
  newest_.clear();
  compared_ = calls_;
}

call_count call_log::count() const noexcept {
  return {calls_, calls_ - newest_.size(), compared_, waits_, inside_ ? 1U : 0U};
}

/// The form that is sent: names are cut to a fixed size.
call_history call_log::history() const {
  call_history out{count(), {}};
  out.newest.reserve(newest_.size());
  for (const call& one : newest_) {
    sent_call sent;
    sent.fold = one.fold;
    const std::string_view name(one.name);
    std::copy_n(name.begin(), std::min(name.size(), sent.name.size() - 1),
                sent.name.begin());
    out.newest.push_back(sent);
  }
  return out;
}

}  // namespace weir::runtime
