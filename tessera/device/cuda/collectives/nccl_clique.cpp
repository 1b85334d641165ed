// SPDX-License-Identifier: Apache-2.0
/// @file
/// The thread that makes the calls of NCCL.
///
/// The clique and its thread share the state; the clique may go while the thread hangs.
/// All calls of NCCL are made by this one thread, because a call may block until all
/// ranks have made theirs. Callers post work into `inbox_` and are told its end by
/// completions.
#include "device/cuda/collectives/nccl_clique.hpp"

#include <future>
#include <utility>

#include <fmt/core.h>

#include "device/cuda/collectives/clique_state.hpp"
#include "device/cuda/status_table.hpp"

namespace weir::tessera::cuda {

/// Waits until the communicators exist, or the limit has passed. The thread is detached,
/// because it cannot be joined if it hangs.
result<void> clique_state::start() {
  std::thread([self = shared_from_this()] { self->serve(); }).detach();
  std::unique_lock lock(mutex_);
  const auto known = [&] { return opened_.has_value(); };
  if (options_.limit_ns <= 0) {
    changed_.wait(lock, known);
  } else if (!changed_.wait_for(lock, 3 * std::chrono::nanoseconds(options_.limit_ns),
                                known)) {
    // Three times the limit: the library is given one to make them and one to end them.
    stopping_ = true;
    return late("make the communicators");
  }
  const result<void> opened = *opened_;
  if (!opened) {
    // The thread gives back what it has opened, unless it hangs.
    const auto over = [&] { return ended_; };
    if (options_.limit_ns <= 0) {
      changed_.wait(lock, over);
    } else {
      (void)changed_.wait_for(lock, std::chrono::nanoseconds(options_.limit_ns), over);
    }
  }
  return opened;
}

/// The completion is called exactly once, by this call if the work is refused.
void clique_state::submit(clique_work work, completion done) {
  std::optional<error> refused;
  {
    const std::lock_guard lock(mutex_);
    refused = broken_;
    if (!refused && stopping_) {
      refused = error(errc::stopping,
                      "cannot post a collective: expected an open "
                      "clique, found one that is closing");
    }
    if (!refused) {
      const std::uint64_t number = next_++;
      pending_.emplace(number, std::move(done));
      inbox_.emplace_back(number, std::move(work));
    }
  }
  changed_.notify_all();
  if (refused && done) {
    done(*std::move(refused));
  }
}

// A thread that hangs keeps the state alive; what was asked of it ends here.
void clique_state::close() {
  std::map<std::uint64_t, completion> left;
  {
    std::unique_lock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
    const auto over = [&] { return ended_; };
    if (options_.limit_ns <= 0) {
      changed_.wait(lock, over);
    } else {
      // Queued collectives end one after another, so the limit holds for each of them.
      std::size_t before = 0;
      do {
        before = pending_.size();
        changed_.wait_for(lock, 3 * std::chrono::nanoseconds(options_.limit_ns), over);
      } while (!ended_ && pending_.size() < before);
      if (!ended_) {
        left.swap(pending_);
      }
    }
  }
  for (const auto& [number, done] : left) {
    if (done) {
      done(late("end a collective"));
    }
  }
}

/// Does nothing if the completion was called already.
void clique_state::finish(std::uint64_t number, result<void> outcome) {
  completion done;
  {
    const std::lock_guard lock(mutex_);
    const auto found = pending_.find(number);
    if (found == pending_.end()) {
      return;
    }
    done = std::move(found->second);
    pending_.erase(found);
  }
  if (done) {
    done(std::move(outcome));
  }
}

/// Opens, serves until the end, and closes, all on the same thread.
void clique_state::serve() {
  result<void> opened = open_here();
  bool usable = opened.has_value();
  {
    const std::lock_guard lock(mutex_);
    opened_ = opened;
    if (!usable) {
      broken_ = opened.error();
    }
  }
  changed_.notify_all();
  for (unsigned step = 0; usable;) {
    std::pair<std::uint64_t, clique_work> next;
    {
      std::unique_lock lock(mutex_);
      // Sleeps only while nothing is posted and nothing runs.
      changed_.wait(lock,
                    [&] { return stopping_ || !inbox_.empty() || !flights_.empty(); });
      if (inbox_.empty() && flights_.empty()) {
        break;
      }
      // The number of collectives under way is limited, so events stay few.
      if (!inbox_.empty() && flights_.size() < options_.max_flights) {
        next = std::move(inbox_.front());
        inbox_.pop_front();
        step = 0;
      }
    }
    if (next.first != 0) {
      flight made;
      made.number = next.first;
      // A failure breaks all ranks, since their communicators do not agree any more.
      const auto posted = post(next.second, made);
      if (flights_.empty()) {
        front_since_ = clique_clock::now();
      }
      flights_.push_back(std::move(made));
      if (!posted) {
        break_all(posted.error());
      }
    } else {
      // Nothing new: a short rest, so that polling costs little.
      rest(step++);
    }
    poll_flights();
    usable = !broken().has_value();
  }
  close_here();
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
}

/// Streams first, then communicators over all of them.
result<void> clique_state::open_here() {
  for (rank_state& rank : ranks_) {
    WEIR_CHECK(open_rank(rank));
  }
  const auto made = make_communicators();
  if (!made) {
    break_all(made.error());
  }
  return made;
}

/// The primary context is shared with other libraries of the process.
result<void> clique_state::open_rank(rank_state& rank) {
  status s = driver_.primary_retain(&rank.context, rank.device);
  if (s != status::success) {
    rank.context = nullptr;
  } else {
    const current_context current(driver_, rank);
    s = current.outcome();
    // The stream does not wait for the default stream, which other libraries may use.
    if (s == status::success) {
      s = driver_.stream_create(&rank.stream, stream_non_blocking, 0);
    }
  }
  if (s != status::success) {
    return failure_of(driver_, s,
                      fmt::format("open device {} for collectives", rank.device));
  }
  return {};
}

/// All ranks are made in one group, so that no call waits for another rank.
result<void> clique_state::make_communicators() {
  constexpr const char* action = "make the communicators";
  const nccl_api& api = library_.api;
  nccl_id id;
  nccl_status s = api.get_unique_id(&id);
  if (s != nccl_status::success) {
    return failure_of(api, s, action);
  }
  s = api.group_start();
  if (s != nccl_status::success) {
    return failure_of(api, s, action);
  }
  // The group is ended even after a failure; otherwise later calls would belong to it.
  result<void> outcome;
  for (std::size_t r = 0; r < ranks_.size() && outcome; ++r) {
    const current_context current(driver_, ranks_[r]);
    if (current.outcome() != status::success) {
      outcome = failure_of(driver_, current.outcome(), action);
      break;
    }
    nccl_config config;
    config.blocking = 0;
    s = api.init_rank(&ranks_[r].communicator, static_cast<int>(ranks_.size()), id,
                      static_cast<int>(r), &config);
    if (s != nccl_status::success && s != nccl_status::in_progress) {
      outcome = failure_of(api, s, action);
    }
  }
  s = api.group_end();
  if (outcome && s != nccl_status::success && s != nccl_status::in_progress) {
    outcome = failure_of(api, s, action);
  }
  WEIR_CHECK(std::move(outcome));
  return wait_until_ready(action);
}

/// True if every communicator has completed its calls.
result<bool> clique_state::ready(const char* action) {
  for (const rank_state& rank : ranks_) {
    nccl_status state = nccl_status::success;
    const nccl_status s = library_.api.async_error(rank.communicator, &state);
    if (s != nccl_status::success) {
      return failure_of(library_.api, s, action);
    }
    if (state == nccl_status::in_progress) {
      return false;
    }
    if (state != nccl_status::success) {
      return failure_of(library_.api, state, action);
    }
  }
  return true;
}

/// Polls until all are ready, the limit has passed, or one has failed.
result<void> clique_state::wait_until_ready(const char* action) {
  const auto since = clique_clock::now();
  for (unsigned step = 0;; ++step) {
    WEIR_TRY(const bool now, ready(action));
    if (now) {
      return {};
    }
    if (passed(since)) {
      return late(action);
    }
    rest(step);
  }
}

// Nothing may follow in a stream before the state of its communicator is success: until
// then the operation may not be in the stream yet.
result<void> clique_state::post(const clique_work& work, flight& made) {
  constexpr const char* action = "post a collective";
  const nccl_api& api = library_.api;
  nccl_status s = api.group_start();
  if (s != nccl_status::success) {
    return failure_of(api, s, action);
  }
  // One call per rank, each in the context of its GPU.
  result<void> outcome;
  for (std::size_t r = 0; r < ranks_.size() && outcome; ++r) {
    const current_context current(driver_, ranks_[r]);
    if (current.outcome() != status::success) {
      outcome = failure_of(driver_, current.outcome(), action);
      break;
    }
    const nccl_place at{ranks_[r].communicator, ranks_[r].stream, static_cast<int>(r),
                        static_cast<int>(ranks_.size())};
    s = call_nccl(api, work.call, work.as, work.buffers[r], at);
    if (s != nccl_status::success && s != nccl_status::in_progress) {
      outcome = failure_of(api, s, action);
    }
  }
  s = api.group_end();
  if (outcome && s != nccl_status::success && s != nccl_status::in_progress) {
    outcome = failure_of(api, s, action);
  }
  WEIR_CHECK(std::move(outcome));
  WEIR_CHECK(wait_until_ready(action));
  return record(made);
}

/// An event of each rank is recorded behind the collective.
result<void> clique_state::record(flight& made) {
  for (rank_state& rank : ranks_) {
    const current_context current(driver_, rank);
    status s = current.outcome();
    event_handle event = nullptr;
    if (s == status::success && rank.events.empty()) {
      s = driver_.event_create(&event, event_disable_timing);
    } else if (s == status::success) {
      event = rank.events.back();
      rank.events.pop_back();
    }
    // Added even if it is null, so that the list has one entry per rank.
    made.events.push_back(event);
    if (s == status::success) {
      s = driver_.event_record(event, rank.stream);
    }
    if (s != status::success) {
      return failure_of(driver_, s, "watch a collective");
    }
  }
  return {};
}

/// Returns true if all ranks have passed the collective.
result<bool> clique_state::over(flight& f) {
  for (std::size_t r = 0; r < f.events.size(); ++r) {
    const current_context current(driver_, ranks_[r]);
    status s = current.outcome();
    if (s == status::success) {
      s = driver_.event_query(f.events[r]);
    }
    if (s == status::not_ready) {
      // A rank that has failed elsewhere shows in the state of a communicator.
      WEIR_TRY(const bool idle, ready("run a collective"));
      static_cast<void>(idle);
      return false;
    }
    if (s != status::success) {
      return failure_of(driver_, s, "run a collective");
    }
  }
  return true;
}

/// Events without a failure can be recorded again.
void clique_state::give_back(flight& f) {
  for (std::size_t r = 0; r < f.events.size(); ++r) {
    if (f.events[r] != nullptr) {
      ranks_[r].events.push_back(f.events[r]);
    }
  }
  f.events.clear();
}

/// Streams end in order, so only the first flight need be asked.
void clique_state::poll_flights() {
  while (!flights_.empty()) {
    const auto now = over(flights_.front());
    if (!now) {
      break_all(now.error());
      return;
    }
    if (!*now) {
      // The limit counts from when the flight became the first.
      if (passed(front_since_)) {
        break_all(late("run a collective"));
      }
      return;
    }
    flight ended = std::move(flights_.front());
    flights_.pop_front();
    front_since_ = clique_clock::now();
    give_back(ended);
    finish(ended.number, {});
  }
}

// The call must not hang, as the communicators do not block, but a damaged library may
// keep it for ever. A thread of its own makes the calls, so that what was asked of the
// clique ends within the limit all the same. Returns false if they have not come back.
bool clique_state::abort_all() {
  std::vector<std::pair<const rank_state*, nccl_communicator>> all;
  for (rank_state& rank : ranks_) {
    if (rank.communicator != nullptr) {
      all.emplace_back(&rank, std::exchange(rank.communicator, nullptr));
    }
  }
  std::promise<void> ended;
  const std::future<void> over = ended.get_future();
  aborting_ = std::thread([this, all, ended = std::move(ended)]() mutable {
    for (const auto& [rank, communicator] : all) {
      // Aborting ends calls and kernels that wait for other ranks.
      const current_context current(driver_, *rank);
      (void)library_.api.abort(communicator);
    }
    ended.set_value();
  });
  if (options_.limit_ns <= 0) {
    over.wait();
    return true;
  }
  return over.wait_for(std::chrono::nanoseconds(options_.limit_ns)) ==
         std::future_status::ready;
}

// After an abort nothing is left in the streams but what ends by itself. The memory is in
// use until then, so the ends are waited for within the limit.
void clique_state::await_streams() {
  const auto since = clique_clock::now();
  for (const rank_state& rank : ranks_) {
    const current_context current(driver_, rank);
    for (unsigned step = 0;
         current.outcome() == status::success && rank.stream != nullptr &&
         driver_.stream_query(rank.stream) == status::not_ready && !passed(since);
         ++step) {
      rest(step);
    }
  }
}

/// Aborts the communicators. Completions are called even if that does not end in time.
void clique_state::break_all(error why) {
  {
    const std::lock_guard lock(mutex_);
    broken_ = why;
    // What was posted and not begun ends with the others below.
    inbox_.clear();
  }
  if (abort_all()) {
    await_streams();
  }
  for (flight& f : flights_) {
    give_back(f);
  }
  flights_.clear();
  std::map<std::uint64_t, completion> left;
  {
    const std::lock_guard lock(mutex_);
    left.swap(pending_);
  }
  for (const auto& [number, done] : left) {
    if (done) {
      done(why);
    }
  }
}

/// Finalizing needs all ranks; after a failure the communicators are aborted. Contexts
/// and streams are not given back before an abort that hangs has come back.
void clique_state::close_here() {
  if (aborting_.joinable()) {
    aborting_.join();
    await_streams();
  }
  bool finalizing = !broken().has_value();
  for (const rank_state& rank : ranks_) {
    if (finalizing && rank.communicator != nullptr) {
      const current_context current(driver_, rank);
      const nccl_status s = library_.api.finalize(rank.communicator);
      finalizing = s == nccl_status::success || s == nccl_status::in_progress;
    }
  }
  finalizing = finalizing && wait_until_ready("finalize the communicators").has_value();
  // Each rank gives back what it has opened, in the reverse order.
  for (rank_state& rank : ranks_) {
    if (rank.context == nullptr) {
      continue;
    }
    {
      const current_context current(driver_, rank);
      if (rank.communicator != nullptr) {
        (void)(finalizing ? library_.api.destroy(rank.communicator)
                          : library_.api.abort(rank.communicator));
      }
      for (const event_handle e : rank.events) {
        (void)driver_.event_destroy(e);
      }
      if (rank.stream != nullptr) {
        (void)driver_.stream_destroy(rank.stream);
      }
    }
    (void)driver_.primary_release(rank.device);
  }
}

/// Returns when the communicators can be used.
result<std::unique_ptr<nccl_clique>> nccl_clique::open(
    const nccl_library& library, const driver_api& from,
    const std::vector<device_number>& devices, const clique_options& options) {
  auto state = std::make_shared<clique_state>(library, from, devices, options);
  WEIR_CHECK(state->start());
  return std::unique_ptr<nccl_clique>(new nccl_clique(std::move(state)));
}

nccl_clique::nccl_clique(std::shared_ptr<clique_state> state)
    : state_(std::move(state)) {}
/// Waits within limits, see `clique_state::close`.
nccl_clique::~nccl_clique() {
  state_->close();
}
void nccl_clique::submit(clique_work work, completion done) {
  state_->submit(std::move(work), std::move(done));
}
std::optional<error> nccl_clique::broken() const {
  return state_->broken();
}

}  // namespace weir::tessera::cuda
