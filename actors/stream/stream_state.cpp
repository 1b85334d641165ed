// SPDX-License-Identifier: Apache-2.0
/// @file
/// Enqueuing of operations, and the answers when they have ended.
///
/// The window bounds the operations in flight. Asking the queue about each of them would
/// be costly, so a point follows after every quarter of the window (`marks_`); `ended_`
/// is the count of the last point that was reached, and thus never too large.
#include "stream/stream_state.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "shim/time_behind.hpp"

namespace weir::actors {

/// Opens the stream. With a handover, it begins where the stream before it, which has
/// recorded that event, has ended.
// `ended` is called by workers when a point or a synchronization is reached.
result<std::unique_ptr<stream_state>> stream_state::make(queue_spec spec,
                                                         std::function<void()> ended) {
  if (spec.mesh == nullptr || spec.window == 0) {
    return error(errc::invalid_argument,
                 fmt::format("stream \"{}\" not opened: expected {}", spec.name,
                             spec.mesh == nullptr ? "a mesh, found none"
                                                  : "a window of operations, found 0"));
  }
  std::unique_ptr<stream_state> out(new stream_state(std::move(spec), std::move(ended)));
  const queue_spec& s = out->spec_;
  WEIR_TRY(out->queue_, tessera::stream::make(s.mesh, s.options));
  if (s.handover) {
    WEIR_CHECK(out->queue_->wait(*s.handover));
  }
  return out;
}

/// Closes the stream without waiting for its operations. With a handover, the end is
/// recorded for the stream that follows.
stream_state::~stream_state() {
  if (queue_ == nullptr) {
    return;
  }
  try {
    if (spec_.handover) {
      // This operation takes all failures, so that the next stream begins without them.
      queue_->enqueue(tessera::make_ref<synchronize_operation>());
      queue_->record(*spec_.handover);
    }
    queue_->close();
  } catch (const std::bad_alloc&) {
    queue_->context().log(tessera::log_level::info,
                          "stream not closed: expected memory for its end");
  }
}

/// Refuses an operation if the window is full. The count of ended operations may be old,
/// so it is brought up to date first.
result<void> stream_state::check_window(const char* operation) {
  update_ended();
  if (operations_ - ended_ >= spec_.window) {
    return error(errc::out_of_range,
                 fmt::format("{} not enqueued on stream \"{}\": expected at most {} "
                             "operations in flight, found {}",
                             operation, spec_.name, spec_.window, operations_ - ended_))
        .hint("wait for a synchronization before sending more");
  }
  return {};
}

/// Enqueues an operation, and behind it the operation that keeps its holder alive. After
/// every quarter of the window a point follows, which reports how far the queue has come.
/// Returns the number that the queue has given the operation. @pre `check_window` allows
/// it.
std::uint64_t stream_state::enqueue(tessera::ref<tessera::operation> operation,
                                    const std::shared_ptr<const void>& holder) {
  const auto enqueued = operation;
  queue_->enqueue(std::move(operation));
  if (holder) {
    queue_->enqueue(tessera::make_ref<keep_alive_operation>(holder));
  }
  ++operations_;
  if (operations_ % std::max(1U, spec_.window / 4) == 0) {
    auto point = tessera::make_ref<tessera::point>(queue_->chain_count(),
                                                   queue_->context().notifier());
    point->when_reached(ended_call_);
    queue_->enqueue(point);
    marks_.push_back({std::move(point), operations_});
  }
  return enqueued->number;
}

/// The arguments are used by the operation itself, which copies them before this returns.
/// tessera makes no operation of a request without a kernel, so it is refused here.
result<std::uint64_t> stream_state::launch(const launch_order& order) {
  if (order.request.kernel.kernel == nullptr) {
    return error(errc::invalid_argument,
                 fmt::format("launch not enqueued on stream \"{}\": expected a kernel, "
                             "found none",
                             spec_.name));
  }
  WEIR_CHECK(check_window("launch"));
  tessera::launch_request request = order.request;
  request.args = order.args.data();
  request.args_bytes = order.args.size();
  request.key = reinterpret_cast<std::uintptr_t>(request.kernel.kernel);
  WEIR_TRY(auto operation, tessera::make_launch(*queue_, request));
  return enqueue(std::move(operation), order.holder);
}

/// A copy that needs no operation, for example of nothing, has the number 0.
result<std::uint64_t> stream_state::copy(const copy_order& order) {
  WEIR_CHECK(check_window("copy"));
  WEIR_TRY(auto operation, tessera::make_copy(*queue_, order.request));
  return operation ? enqueue(std::move(operation), order.holder) : 0;
}

/// An event can be waited for by other streams, also of other contexts of this process.
event_ptr stream_state::record() {
  auto out = std::make_shared<tessera::event>();
  queue_->record(*out);
  return out;
}

/// Lets everything behind this call wait for the event.
result<std::uint64_t> stream_state::wait(const tessera::event& point) {
  WEIR_CHECK(queue_->wait(point));
  return operations_;
}

/// Enqueues an end and returns the ticket under which its answer will come.
stream_state::ticket stream_state::synchronize(std::int64_t now_ns) {
  auto end = tessera::make_ref<synchronize_operation>(ended_call_);
  pending_.push_back(
      {++tickets_, end, operations_, time_behind(now_ns, spec_.deadline_ns), false});
  queue_->enqueue(std::move(end));
  return tickets_;
}

/// Points are reached in order, so the loop ends at the first one that is not.
void stream_state::update_ended() {
  while (!marks_.empty() && marks_.front().point->reached()) {
    ended_ = std::max(ended_, marks_.front().operations);
    marks_.pop_front();
  }
}

/// Returns the answer to a synchronization that has ended. It reports the first failure
/// since the last answer, also one that a synchronization found after its deadline.
result<std::uint64_t> stream_state::outcome_of(const pending_synchronization& a) {
  const tessera::failure failed = std::exchange(unreported_, {});
  if (!failed) {
    // Success: the number of operations in front of the synchronization.
    return a.operations;
  }
  return error(failed.error->code(),
               fmt::format("stream \"{}\" not synchronized: expected its operations to "
                           "succeed, found that operation {} failed",
                           spec_.name, failed.operation))
      .located(fmt::format("stream \"{}\"", spec_.name))
      .because(*failed.error);
}

/// Returns the answers that are ready. The operations end in order, so only the front of
/// the line has to be looked at. One that is late is answered with an error and stays in
/// the line, because its operations still count when they end.
std::vector<stream_state::answer> stream_state::take_answers(std::int64_t now_ns) {
  std::vector<answer> out;
  update_ended();
  while (!pending_.empty() && pending_.front().end->done()) {
    const pending_synchronization& a = pending_.front();
    ended_ = std::max(ended_, a.operations);
    // Failures of late synchronizations are kept for the next answer.
    unreported_.merge(a.end->failures());
    if (!a.answered) {
      out.push_back({a.number, outcome_of(a)});
    }
    pending_.pop_front();
  }
  for (pending_synchronization& a : pending_) {
    if (!a.answered && a.deadline_ns <= now_ns) {
      a.answered = true;
      out.push_back(
          {a.number,
           error(errc::timeout,
                 fmt::format("stream \"{}\" not synchronized: expected {} operations to "
                             "end within {} ms, found {} ended",
                             spec_.name, a.operations, spec_.deadline_ns / 1'000'000,
                             ended_))
               .located(fmt::format("stream \"{}\"", spec_.name))
               .hint("the operations still run; only the answer is late")});
    }
  }
  return out;
}

/// Synchronizations that were answered late have no deadline any more.
std::int64_t stream_state::next_deadline() const noexcept {
  const auto first =
      std::find_if(pending_.begin(), pending_.end(),
                   [](const pending_synchronization& a) { return !a.answered; });
  return first == pending_.end() ? std::numeric_limits<std::int64_t>::max()
                                 : first->deadline_ns;
}

std::string stream_state::describe() {
  update_ended();
  const auto waiting =
      std::count_if(pending_.begin(), pending_.end(),
                    [](const pending_synchronization& a) { return !a.answered; });
  return fmt::format(
      "stream \"{}\": {} operations enqueued, {} known to have ended, {} "
      "synchronizations wait",
      spec_.name, operations_, ended_, waiting);
}

}  // namespace weir::actors
