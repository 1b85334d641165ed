// SPDX-License-Identifier: Apache-2.0
/// @file
/// The ends of actors and of their system.
///
/// Ending takes three steps: the last work of an actor (flush, synchronize), the message
/// to end, which goes through the supervisor so that the end is no failure, and the wait
/// for it. The mutex of the core is never held during a wait, because handlers of other
/// threads need it.
#include "system/system_core.hpp"

#include <fmt/format.h>

namespace weir::actors {
namespace {

/// Keeps the first of several errors.
/// Later errors often follow from the first one.
void keep_first(result<void>& first, result<void> next) {
  if (first && !next) {
    first = std::move(next);
  }
}

/// Waits for an answer and forgets its value.
template <class T>
result<void> outcome_of(reply<T> answer) {
  auto got = answer.get();
  return got ? result<void>() : std::move(got.error());
}

}  // namespace

/// Error of requests whose actor cannot be found any more.
error ended_error(const std::string& action) {
  return error(errc::stopping, action + ": the actor has ended");
}

/// Called by the supervisor on a thread of the system. The function of the user runs
/// without the lock, so that it may use handles.
void system_core::note_failure(const error& e) {
  {
    const std::lock_guard lock(mutex);
    // Only the first failure is returned by `stop`.
    failure = failure ? failure : e;
  }
  if (options.failed) {
    options.failed(e);
  }
}

/// The work is an ordinary request, so it comes behind all requests of this thread.
/// Returns nothing to do for an actor that is unknown or has no last work.
result<void> system_core::finish_work(std::uint64_t number) {
  std::unique_lock lock(mutex);
  const auto found = entries.find(number);
  if (found == entries.end() || found->second.before_end == last_work::nothing) {
    return {};
  }
  reply<std::uint64_t> answer;
  if (found->second.before_end == last_work::flush) {
    answer = request<message_appender_actor, std::uint64_t>(
        *this, caf::actor_cast<message_appender_actor>(found->second.main),
        "making messages durable", as_value(), flush_atom_v);
  } else {
    answer = request<stream_actor, std::uint64_t>(
        *this, caf::actor_cast<stream_actor>(found->second.main),
        "waiting for the operations of a stream", as_value(), sync_atom_v);
  }
  lock.unlock();
  return outcome_of(std::move(answer));
}

/// Ends an actor and its helpers. A second call finds no entry and succeeds.
result<void> system_core::close(std::uint64_t number) {
  result<void> first = finish_work(number);
  std::vector<reply<bool>> ends;
  {
    const std::lock_guard lock(mutex);
    const auto found = entries.find(number);
    // `stop` ends it, if that has begun in the meantime.
    if (stopping || found == entries.end()) {
      return first;
    }
    // The main actor first: helpers may still have to answer it.
    std::vector<caf::actor> all = std::move(found->second.helpers);
    all.insert(all.begin(), std::move(found->second.main));
    entries.erase(found);
    // All requests go out before the first wait, so that the actors end at the same time.
    for (const caf::actor& one : all) {
      ends.push_back(request<supervisor_actor, bool>(
          *this, system->supervisor(), "ending an actor", as_value(), close_atom_v, one));
    }
  }
  for (auto& end : ends) {
    keep_first(first, outcome_of(std::move(end)));
  }
  return first;
}

/// Appenders and streams finish their work while all actors still live. After that the
/// supervisor ends the actors group by group.
result<void> system_core::stop() {
  std::vector<std::uint64_t> numbers;
  // New requests are refused from here on; those of `finish_work` are exempt.
  {
    const std::lock_guard lock(mutex);
    if (std::exchange(stopping, true)) {
      return {};
    }
    for (const auto& [number, entry] : entries) {
      numbers.push_back(number);
    }
  }
  result<void> first;
  for (const std::uint64_t number : numbers) {
    keep_first(first, finish_work(number));
  }
  std::unique_ptr<supervised_system> ending;
  // The handles of the entries must not outlive the system.
  {
    const std::lock_guard lock(mutex);
    entries.clear();
    requester = nullptr;
    ending = std::move(system);
  }
  const survivors left = ending->stop();
  ending.reset();
  {
    const std::lock_guard lock(mutex);
    // A failure of an actor is an error of the stop even if everything ended well.
    keep_first(first, failure ? result<void>(*failure) : result<void>());
  }
  if (!left.empty()) {
    keep_first(first, error(errc::timeout,
                            fmt::format("stopping the actor system failed: expected all "
                                        "actors to end, found alive: {}",
                                        fmt::join(left, ", "))));
  }
  return first;
}

}  // namespace weir::actors
