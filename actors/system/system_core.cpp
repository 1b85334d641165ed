// SPDX-License-Identifier: Apache-2.0
/// @file
/// The ends of actors and of their system.
#include "system/system_core.hpp"

#include <fmt/format.h>

namespace weir::actors {
namespace {

/// Keeps the first of several errors.
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

error ended_error(const std::string& action) {
  return error(errc::stopping, action + ": the actor has ended");
}

void system_core::note_failure(const error& e) {
  {
    const std::lock_guard lock(mutex);
    failure = failure ? failure : e;
  }
  if (options.failed) {
    options.failed(e);
  }
}

/// The work is an ordinary request, so it comes behind all requests of this thread.
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

result<void> system_core::close(std::uint64_t number) {
  result<void> first = finish_work(number);
  std::vector<reply<bool>> ends;
  {
    const std::lock_guard lock(mutex);
    const auto found = entries.find(number);
    if (stopping || found == entries.end()) {
      return first;
    }
    std::vector<caf::actor> all = std::move(found->second.helpers);
    all.insert(all.begin(), std::move(found->second.main));
    entries.erase(found);
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
