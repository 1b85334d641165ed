// SPDX-License-Identifier: Apache-2.0
/// @file
/// Points: markers on all device chains of a stream; and points of native streams.
///
/// A point is reached when the task of each device chain has run. The counter is
/// decremented with sequential consistency, so a thread that sees it at 0 also sees all
/// failures and the time.
///
/// A native stream, which belongs to another library, may wait for the program, so no
/// task waits for it. The tasks of such a wait only collect failures. The stream holds
/// back its later operations until the device has said that the native stream has got
/// there. Then a deferred call, which may wait for the submission lock, lets the stream
/// proceed.
#include "weir/tessera/stream/point.hpp"

#include <functional>
#include <mutex>
#include <optional>
#include <utility>

#include <fmt/core.h>

#include "stream/deferred_calls.hpp"
#include "stream/notifier.hpp"
#include "weir/base/clock.hpp"
#include "weir/tessera/device/backend.hpp"
#include "weir/tessera/stream/native_stream.hpp"
#include "weir/tessera/stream/work.hpp"

namespace weir::tessera {
namespace {

/// The end of the work of a native stream: its outcome, and who waits for it.
/// @threads{safe from any thread}
class native_point {
 public:
  /// Sets the outcome and calls the callback of `then`, if there is one.
  void reach(result<void> outcome) {
    std::function<void(result<void>)> call;
    {
      const std::lock_guard lock(mutex_);
      outcome_.emplace(std::move(outcome));
      call = std::exchange(call_, nullptr);
    }
    if (call) {
      call(*outcome_);
    }
  }
  /// Calls `call` with the outcome, now or when there is one.
  void then(std::function<void(result<void>)> call) {
    {
      const std::lock_guard lock(mutex_);
      if (!outcome_) {
        call_ = std::move(call);
        return;
      }
    }
    call(*outcome_);
  }
  /// Returns true if the work has ended without a failure.
  [[nodiscard]] bool over() {
    const std::lock_guard lock(mutex_);
    return outcome_ && outcome_->has_value();
  }

 private:
  std::mutex mutex_;
  std::optional<result<void>> outcome_;  ///< set once
  std::function<void(result<void>)> call_;
};

/// The wait of a stream. It keeps its stream alive until the work has ended.
class native_wait final : public chain_operation {
 public:
  native_wait(std::shared_ptr<native_point> when, std::shared_ptr<stream> target)
      : chain_operation(operation_kind::other),
        when_(std::move(when)),
        stream_(std::move(target)) {}

  [[nodiscard]] std::string_view name() const noexcept override {
    return "native stream";
  }
  // A graph has no work of other libraries to wait for, so this cannot be in one.
  [[nodiscard]] ref<operation> clone() const override { return {}; }

  // Later operations wait in the stream instead of in the engine's window.
  void admitted(submission_lock::guard&, stream& target) override {
    if (when_->over()) {
      stream_.reset();
      return;
    }
    target.hold();
    when_->then([self = ref<native_wait>(this)](result<void> outcome) {
      // The thread of a device must not wait for the submission lock.
      self->stream_->context().deferred().later(
          [self, outcome = std::move(outcome)] { self->release_stream(outcome); });
    });
  }

 protected:
  result<void> run(unsigned) override { return {}; }

 private:
  /// Reports a failure and lets the stream proceed. @threads{that of the deferred calls}
  // The operation drops its reference to the stream, which would otherwise be a cycle.
  void release_stream(const result<void>& outcome) {
    const std::shared_ptr<stream> target = std::move(stream_);
    auto in = target->context().submission_lock().enter();
    if (!outcome) {
      const auto report = make_failing(outcome.error());
      report->number = number;
      submission to(in, target->chains(), report);
      report->submit(to);
    }
    target->proceed(in);
  }

  std::shared_ptr<native_point> when_;
  std::shared_ptr<stream> stream_;
};

}  // namespace

point::point(unsigned chains, notifier& notifier)
    : operation(operation_kind::marker),
      notifier_(notifier),
      left_(chains),
      ids_(chains, 0),
      failures_(chains) {}

// Makes a point that is reached already, for a stream without unfinished operations.
ref<point> point::over_now(notifier& notifier) {
  auto out = make_ref<point>(0U, notifier);
  out->submitted_ = true;
  out->when_.store(now_ns(), std::memory_order_relaxed);
  return out;
}

// Uses a reached point again with a new time, which saves an allocation for each record
// of an event on an idle stream. Fails for points that have device chains.
bool point::over_again(const notifier& notifier) noexcept {
  if (!ids_.empty() || &notifier_ != &notifier) {
    return false;
  }
  when_.store(now_ns(), std::memory_order_relaxed);
  return true;
}

ref<operation> point::clone() const {
  return make_ref<point>(static_cast<unsigned>(ids_.size()), notifier_);
}

// Streams that hold operations back for this point are told once its tasks exist, because
// only then can other tasks name them as predecessors.
void point::submit(submission& to) {
  device_chains& chains = to.chain_count();
  for (unsigned d = 0; d < chains.devices(); ++d) {
    ids_[d] = to.add(*this, d, 0, {&holds(chains.chain_of(d)), 1});
  }
  submitted_ = true;
  for (const auto& call : std::exchange(waiting_, {})) {
    call(to.guard());
  }
}

// Copies the device chain's failure, and keeps the latest time of all device chains. The
// last device chain calls the function that `when_reached` has set, and wakes waiting
// threads.
void point::step(device_chains& chains, unsigned chain, std::uint32_t) noexcept {
  static_cast<void>(may_run(chains, chain));
  if (!order_only) {
    failures_[chain] = chains.chain_of(chain).poison;
  }
  const std::int64_t now = now_ns();
  std::int64_t last = when_.load(std::memory_order_relaxed);
  while (last < now &&
         !when_.compare_exchange_weak(last, now, std::memory_order_relaxed)) {
  }
  if (left_.fetch_sub(1, std::memory_order_seq_cst) == 1) {
    if (reached_call_) {
      std::exchange(reached_call_, {})();
    }
    notifier_.ring();
  }
}

failure point::first_failure() const {
  failure out;
  for (const failure& f : failures_) {
    out.merge(f);
  }
  return out;
}

// A limit of 0 means that the wait does not end by time.
result<void> wait_for(const point& p, context& owner) {
  const std::int64_t limit = owner.settings().wait_limit_ms;
  if (!owner.notifier().wait([&] { return p.reached(); },
                             notifier::deadline_in(limit * 1'000'000))) {
    return error(errc::timeout,
                 fmt::format("event not reached: expected it within {} ms", limit));
  }
  if (const auto failed = p.first_failure()) {
    return error(*failed.error);
  }
  return {};
}

// Devices that work on the calling thread are processors.
result<void> check_native_device(const device_backend& backend, std::int32_t device) {
  if (backend.inline_work()) {
    return error(errc::unsupported,
                 fmt::format("native stream not used: expected devices that are GPUs, "
                             "found the backend \"{}\"",
                             backend.name()))
        .hint("TESS_BACKEND=cuda selects GPUs");
  }
  WEIR_CHECK(backend.properties(device));
  return {};
}

// The native stream is asked before the wait is enqueued, so a stream that is refused
// leaves no operation behind.
result<void> wait_native(stream& target, const native_stream& native) {
  WEIR_CHECK(check_native_device(target.context().backend(), native.device));
  if (target.records()) {
    return error(errc::invalid_argument,
                 "native stream not waited for: expected a stream that does not capture, "
                 "found one that does")
        .hint("a graph cannot wait for it: wait before the capture begins");
  }
  const auto when = std::make_shared<native_point>();
  WEIR_CHECK(target.context().backend().follow_native(
      native.device, native.handle,
      [when](result<void> outcome) { when->reach(std::move(outcome)); }));
  return target.post(make_ref<native_wait>(when, target.shared_from_this()));
}

// Operations of a stream are given to the driver one after another, so at the time of the
// call there may be nothing in the driver that a native stream could wait for. The
// calling thread waits instead.
result<void> wait_until_reached(stream& target) {
  event here;
  WEIR_CHECK(target.post(here));
  const ref<point> p = here.latest();
  if (p->captured) {
    return error(
        errc::invalid_argument,
        fmt::format("end of stream {} not waited for: expected no capture, found "
                    "one that another thread has begun",
                    target.number()));
  }
  auto waited = wait_for(*p, target.context());
  if (!waited && waited.error().code() == errc::timeout) {
    return error(errc::timeout,
                 fmt::format("stream {} not waited for: expected its work to end within "
                             "{} ms, the limit TESS_TIMEOUT_MS",
                             target.number(), target.context().settings().wait_limit_ms))
        .hint("the work goes on; tessStreamSynchronize waits for it");
  }
  return waited;
}

}  // namespace weir::tessera
