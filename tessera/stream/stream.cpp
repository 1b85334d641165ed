// SPDX-License-Identifier: Apache-2.0
/// @file
/// Streams: the order of enqueued operations, waits, and operations that are held back.
///
/// An enqueued operation gets a number and the pending waits, is recorded if there is a
/// capture, and is then submitted to the engine at once (`admit`) or held back. It is
/// held back while the stream is on hold (a persistent kernel or a collective that waits
/// for ranks), while operations before it are held back, or while a point that it waits
/// for has no tasks yet. All of this happens under the submission lock, so calls of
/// several threads take effect one after another. Lock order: the submission lock, then
/// `small_mutex_`.
#include "weir/tessera/stream/stream.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include <fmt/core.h>

#include "stream/collectives/meeting_point.hpp"
#include "stream/notifier.hpp"
#include "weir/base/clock.hpp"
#include "weir/base/hash.hpp"
#include "weir/tessera/stream/graph.hpp"

namespace weir::tessera {
namespace {

/// Number of pending waits at which those for reached points are removed. This is
/// repeated each time the number has doubled, so its cost per wait is constant.
constexpr std::size_t many_waits = 16;

/// Takes and clears all failures for a thread that waits in `synchronize`.
class failure_collector final : public joining_operation {
 public:
  explicit failure_collector(notifier& notifier)
      : joining_operation(operation_kind::other), notifier_(notifier) {}

  [[nodiscard]] bool done() const noexcept {
    return state_.load(std::memory_order_seq_cst) == state::done;
  }
  /// Ends the wait of the thread, so that failures stay for the next synchronization.
  /// Returns false if a worker is already taking them.
  [[nodiscard]] bool give_up() noexcept {
    state expected = state::waiting;
    return state_.compare_exchange_strong(expected, state::given_up);
  }
  [[nodiscard]] const failure& found() const noexcept { return found_; }
  [[nodiscard]] std::string_view name() const noexcept override { return "synchronize"; }

 protected:
  void run(device_chains& chains) override {
    // If the thread has given up, the failures stay in the device chains.
    state expected = state::waiting;
    if (!state_.compare_exchange_strong(expected, state::takes)) {
      return;
    }
    found_ = chains.take_failures();
    state_.store(state::done, std::memory_order_seq_cst);
    notifier_.ring();
  }

 private:
  /// The waiting thread and the worker both leave `waiting` by compare-and-exchange, so
  /// exactly one of them decides.
  enum class state : std::uint8_t { waiting, given_up, takes, done };

  notifier& notifier_;
  failure found_;
  std::atomic<state> state_{state::waiting};
};

/// The last operation of a stream. It keeps the stream alive until all others have ended,
/// and logs a failure that was never returned.
class closing_operation final : public joining_operation {
 public:
  explicit closing_operation(std::shared_ptr<stream> closed)
      : joining_operation(operation_kind::other), closed_(std::move(closed)) {}

 protected:
  void run(device_chains& chains) override {
    if (const failure left = chains.first_failure()) {
      closed_->context().log(
          log_level::info,
          fmt::format("stream {} destroyed with a failure that nobody asked "
                      "for: {}",
                      closed_->number(), left.error->message()));
    }
  }

 private:
  std::shared_ptr<stream> closed_;
};

}  // namespace

result<std::shared_ptr<stream>> stream::make(std::shared_ptr<tessera::mesh> mesh,
                                             const stream_options& options) {
  if (options.rank < -1 || options.rank >= static_cast<int>(mesh->ranks())) {
    return error(errc::invalid_argument,
                 fmt::format("stream not created: expected a rank in [0, {}), found {}",
                             mesh->ranks(), options.rank));
  }
  std::shared_ptr<stream> out(new stream(std::move(mesh), options));
  WEIR_CHECK(out->open());
  out->number_ = out->context().next_stream();
  out->budget_->set_limit(out->context().settings().stream_memory);
  out->limit_ns_ = out->context().settings().wait_limit_ms * 1'000'000;
  out->context().log(log_level::debug, "stream {} created on mesh {} with {} devices",
                     out->number_, out->mesh_->number, out->chain_count());
  return out;
}

// Has the same number as this stream, so that errors and traces name the stream that the
// program knows. It is used for runs of graphs that enqueue their nodes.
result<std::shared_ptr<stream>> stream::stand_in() const {
  std::shared_ptr<stream> out(new stream(mesh_, options_));
  WEIR_CHECK(out->open());
  out->number_ = number_;
  return out;
}

// Device chains are taken without the submission lock, because that may take it.
result<void> stream::open() {
  WEIR_TRY(chains_, context().take_chains(options_.rank < 0 ? mesh_->ranks() : 1));
  chains_->urgent = options_.priority < 0;
  const auto in = context().submission_lock().enter();
  std::erase_if(mesh_->streams, [](const auto& s) { return s.expired(); });
  mesh_->streams.push_back(weak_from_this());
  return {};
}

stream::~stream() {
  if (chains_ != nullptr) {
    context().return_chains(std::move(chains_));
  }
}

// A call from a thread that does not belong to the capture also loses the capture: the
// graph could otherwise depend on the order of two threads.
result<void> stream::check_caller() {
  if (recording_ == nullptr || !recording_only_ ||
      recording_->takes_calls_of_this_thread()) {
    return {};
  }
  recording_->refuse("another thread called on a stream of it");
  return error(errc::invalid_argument,
               fmt::format("stream {} not called: expected a call of the thread that "
                           "captures it, found one of another thread",
                           number_))
      .hint("tessStreamBeginCaptureEx begins a capture that takes calls of all threads");
}

// Only here, `check_caller` is applied: operations of the runtime itself are enqueued by
// any thread. The operation is traced after the submission lock was released, because a
// log function may be slow.
result<void> stream::post(ref<operation> operation) {
  const auto traced =
      context().logs(log_level::trace) ? operation : ref<tessera::operation>();
  {
    auto in = context().submission_lock().enter();
    in.reserve(operation->tasks(chain_count()));
    WEIR_CHECK(check_caller());
    enqueue(in, std::move(operation));
  }
  if (traced) {
    context().log(log_level::trace, "stream {}: operation {}, \"{}\"", number_,
                  traced->number, traced->name());
  }
  return {};
}

void stream::enqueue(ref<operation> operation) {
  auto in = context().submission_lock().enter();
  in.reserve(operation->tasks(chain_count()));
  enqueue(in, std::move(operation));
}

// Gives an operation its number and the stream's identity. The caller holds the
// submission lock.
void stream::number(operation& operation) {
  operations_ += operation.numbers();
  operation.number = operations_;
  operation.stream_number = number_;
  operation.on_devices = devices();
  if (closed_) {
    // the closing operation may have ended and no longer keeps the stream
    operation.keeps = shared_from_this();
  }
}

// The order of the steps matters: waits first become part of the operation, then it is
// recorded with them, then it runs.
void stream::enqueue(submission_lock::guard& in, ref<operation> operation) {
  if (!operation->on_all_chains(chain_count())) {
    flush_waits(in);  // the waits concern all device chains, the operation only one
  }
  number(*operation);
  if (!pending_waits_.empty()) {
    operation->waits = std::exchange(pending_waits_, {});
  }
  if (auto by = context().observer()) {
    operation->observer = std::move(by);
    operation->enqueued_ns = now_ns();
    operation->enqueued_by = number_of_this_thread();
  }
  if (recording_ != nullptr) {
    recording_->add(*this, operation);
    if (recording_only_) {
      return;
    }
  }
  operation->taken(in, *this);
  pass(in, std::move(operation));
}

void stream::enqueue_beside(ref<operation> operation) {
  auto in = context().submission_lock().enter();
  in.reserve(operation->tasks(chain_count()));
  enqueue_beside(in, std::move(operation));
}

void stream::enqueue_beside(submission_lock::guard& in, ref<operation> operation) {
  if (recording_ == nullptr) {
    enqueue(in, std::move(operation));
    return;
  }
  number(*operation);  // without the pending waits, which belong to the recording
  pass(in, std::move(operation));
}

// Preserves the order: nothing passes operations that are held back.
void stream::pass(submission_lock::guard& in, ref<operation> operation) {
  if (holds_ > 0 || !postponed_.empty()) {
    postponed_.push_back(std::move(operation));
  } else {
    admit(in, std::move(operation));
  }
}

point* stream::held_point(const operation& operation) {
  for (const ref<point>& p : operation.waits) {
    if (!p->submitted()) {
      return p.get();
    }
  }
  return nullptr;
}

// Submits an operation to the engine. If a point that it waits for belongs to a held
// operation of another stream, the point has no tasks that could be predecessors. The
// operation then goes back to the front, and the stream holds until the point is
// submitted.
void stream::admit(submission_lock::guard& in, ref<operation> operation) {
  if (point* const first = held_point(*operation); first != nullptr) {
    postponed_.push_front(std::move(operation));
    hold();
    first->when_submitted([self = shared_from_this()](submission_lock::guard& then) {
      self->proceed(then);
    });
    return;
  }
  tessera::operation& here = *operation;
  submission to(in, *chains_, std::move(operation));
  here.submit(to);
  // If the last task took over the reference, the operation may already be gone.
  if (tessera::operation* const left = to.pending(); left != nullptr) {
    left->admitted(in, *this);
  }
}

// `admit` may hold the stream again, which ends the loop. It may also call `proceed`
// again at once; the inner call then only lowers `holds_` and returns, so that the depth
// of recursion does not grow with the number of held operations.
void stream::proceed(submission_lock::guard& in) {
  --holds_;
  if (std::exchange(proceeds_, true)) {
    return;  // the loop of the outer call goes on
  }
  while (holds_ == 0 && !postponed_.empty()) {
    ref<operation> next = std::move(postponed_.front());
    postponed_.pop_front();
    admit(in, std::move(next));
  }
  proceeds_ = false;
}

// `ended_` saves the question whether the engine has ended all tasks if nothing was
// enqueued since the last synchronization.
bool stream::rests(submission_lock::guard& in) {
  if (recording_ != nullptr || holds_ > 0 || !postponed_.empty() ||
      !pending_waits_.empty()) {
    return false;
  }
  // Operations have been enqueued since the last known end, so the engine is asked.
  if (ended_ != operations_) {
    if (!in.all_ended()) {
      return false;
    }
    ended_ = operations_;
  }
  return !chains_->poisoned();
}

result<void> stream::post(event& into) {
  WEIR_CHECK(mark(into, true));
  context().log(log_level::trace, "stream {}: event recorded", number_);
  return {};
}

void stream::record(event& into) {
  static_cast<void>(mark(into, false));
}

// Records an event. On an idle stream no point is enqueued, because the event has
// happened.
result<void> stream::mark(event& into, bool posted) {
  ref<point> here;
  {
    auto in = context().submission_lock().enter();
    if (!rests(in)) {
      // May release the submission lock, so it comes before the check.
      in.reserve(chain_count());
      if (posted) {
        WEIR_CHECK(check_caller());
      }
      here = make_ref<point>(chain_count(), context().notifier());
      enqueue(in, here);
    }
  }
  // The previous point is released without the submission lock: its destructor may take
  // time.
  if (here) {
    into.set(std::move(here));
  } else {
    into.set_over(context().notifier());
  }
  return {};
}

// The checks keep a graph complete: inside a capture an event must belong to it, and
// outside of captures an event must be one that is reached without a launch of a graph.
// If the stream has no capture and the event was recorded in one, the stream joins that
// capture.
result<void> stream::wait(ref<point> p) {
  if (!p) {
    return {};
  }
  auto in = context().submission_lock().enter();
  if (recording_ == nullptr) {
    WEIR_CHECK(graph_recording::join(in, *p, *this));
  }
  WEIR_CHECK(check_caller());
  if (recording_ != nullptr && !p->captured && !recording_->has(*p)) {
    if (recording_only_) {
      // The graph would lack the wait, and its program may rely on it: the capture is
      // lost.
      recording_->refuse("an event from outside of it was waited for");
    }
    return error(errc::invalid_argument,
                 "event not waited for: expected one that was recorded in the capture of "
                 "the stream, found one that was recorded outside of it")
        .hint(
            "a graph cannot wait for it: record it inside the capture, or wait for it "
            "before the capture begins");
  }
  if (p->over() && !p->captured) {
    return {};
  }
  if (p->captured && (recording_ == nullptr || recording_ != p->capture.lock())) {
    return error(errc::invalid_argument,
                 "event not waited for: expected one that will be reached, found one of "
                 "another capture");
  }
  if (pending_waits_.size() >= many_waits && std::has_single_bit(pending_waits_.size())) {
    std::erase_if(pending_waits_, [](const ref<point>& w) { return w->over(); });
  }
  pending_waits_.push_back(std::move(p));
  return {};
}

void stream::wait(submission_lock::guard&, ref<point> p) {
  pending_waits_.push_back(std::move(p));
}

// Enqueues an operation that collects the failures, and waits for it. If the time runs
// out while a worker takes the failures, this thread waits for the worker, because the
// failures would otherwise be lost.
result<void> stream::synchronize(std::int64_t limit_ns) {
  auto last = make_ref<failure_collector>(context().notifier());
  {
    auto in = context().submission_lock().enter();
    in.reserve(1);  // may release the submission lock, so it comes before the checks
    if (recording_ != nullptr && recording_only_) {
      WEIR_CHECK(check_caller());
      recording_->refuse("a stream was synchronized");
      return error(errc::invalid_argument,
                   "stream not synchronized: expected no capture, found one that has "
                   "begun; it is lost");
    }
    if (recording_ != nullptr) {
      recording_->close();
      last_recording_ = recording_;
      record_into(nullptr, false);
    }
    enqueue(in, last);
  }
  const std::int64_t limit = limit_ns >= 0 ? limit_ns : limit_ns_.load();
  const auto done = [&] { return last->done(); };
  if (!context().notifier().wait(done, notifier::deadline_in(limit))) {
    // Giving up fails if a worker has begun to take the failures.
    if (last->give_up()) {
      return error(errc::timeout,
                   fmt::format(
                       "stream {} not synchronized: expected it to end within {} ms",
                       number_, limit / 1'000'000))
          .hint("its work goes on");
    }
    context().notifier().wait(done, -1);
  }
  {
    const auto in = context().submission_lock().enter();
    ended_ = std::max(ended_, last->number);
  }
  forget_launches();
  if (last->found()) {
    note(*last->found().error);
    return error(*last->found().error);
  }
  return {};
}

// Asks a point at the end of the stream. The point is enqueued once for each number of
// operations, so repeated calls cost no tasks.
result<bool> stream::idle() {
  auto in = context().submission_lock().enter();
  if (operations_ == ended_) {
    return true;
  }
  const auto asked = [&] { return looked_for_ && looked_at_ == operations_; };
  if (!asked()) {
    // May release the submission lock, in which another thread may enqueue the point.
    in.reserve(chain_count());
    if (!asked()) {
      looked_for_ = make_ref<point>(chain_count(), context().notifier());
      enqueue_beside(in, looked_for_);
      looked_at_ = operations_;
    }
  }
  if (!looked_for_->reached()) {
    return false;
  }
  if (const failure found = looked_for_->first_failure()) {
    return error(*found.error);
  }
  return true;
}

// Needs no wait: the closing operation keeps the stream alive until the others have
// ended.
void stream::close() {
  auto in = context().submission_lock().enter();
  in.reserve(1);
  if (!std::exchange(closed_, true)) {
    record_into(nullptr, false);
    forget_recording();  // a recording keeps its streams alive
    forget_launches();
    enqueue(in, make_ref<closing_operation>(shared_from_this()));
  }
}

void stream::record_into(std::shared_ptr<graph_recording> recording, bool only) {
  recording_ = std::move(recording);
  recording_only_ = only;
  captures_.store(recording_ != nullptr, std::memory_order_release);
  if (recording_ == nullptr) {
    // A point that exists only in a capture is never reached outside of it.
    std::erase_if(pending_waits_, [](const ref<point>& w) { return w->captured; });
  }
}

void stream::flush_waits(submission_lock::guard& in) {
  if (!pending_waits_.empty()) {
    enqueue(in, make_ref<point>(chain_count(), context().notifier()));
  }
}

// Only rank 0's address of a symmetric allocation stands for the instances of all ranks.
// Memory of a device of the mesh belongs to its device chain, unless the stream has a
// single rank.
std::optional<touched_memory> stream::owner_of(const std::optional<memory_place>& place,
                                               const void* address, std::size_t bytes,
                                               bool writes) const {
  if (place && place->memory->symmetric() && place->rank == 0 && fits(*place)) {
    return std::nullopt;
  }
  if (place && place->device() != allocation::host_device) {
    const auto& ids = mesh_->devices;
    const auto found = std::find(ids.begin(), ids.end(), place->device());
    if (options_.rank < 0 && found != ids.end()) {
      return touched_memory{static_cast<int>(found - ids.begin()), 0, 0, writes};
    }
  }
  return touched_memory::outside(address, bytes, writes);
}

std::string stream::last_message() const {
  const std::lock_guard lock(small_mutex_);
  return last_message_;
}

void stream::note(const error& e) {
  const std::lock_guard lock(small_mutex_);
  last_message_ = e.message();
}

// The digest is computed when it is asked for, because launches are frequent and this is
// not.
tessDeterminism stream::last_determinism() const {
  tessDeterminism out{};
  {
    const std::lock_guard lock(small_mutex_);
    out = determinism_;
  }
  if (out.structSize != 0) {
    seal(out);
  }
  return out;
}

// The descriptor contains what the results of the next operation depend on: level,
// policy, seed, toggles and stream. Launches add their number, collectives their
// schedule.
tessDeterminism stream::describe(const numerics_policy& policy,
                                 std::uint64_t module_seed) const noexcept {
  tessDeterminism out{};
  out.structSize = sizeof out;
  out.version = 1;
  out.level = static_cast<std::uint32_t>(policy.level());
  out.tree = 1;
  out.stableToggles = policy.stable_reductions ? 7 : 0;
  out.fastMath = policy.fast_math ? 1 : 0;
  out.seed = context().settings().seed.value_or(module_seed);
  context().write_determinism(out);
  out.stream = number_;
  out.policy = (policy.stable_reductions ? 1U : 0U) | (policy.deterministic ? 2U : 0U) |
               (policy.stateless_rng ? 4U : 0U) | (policy.fast_math ? 8U : 0U);
  return out;
}

// The digest covers all members behind `structSize`, with the digest itself as 0.
void stream::seal(tessDeterminism& d) noexcept {
  d.digest = 0;
  std::array<std::byte, sizeof d> bytes{};
  std::memcpy(bytes.data(), &d, sizeof d);
  constexpr std::size_t first = sizeof d.structSize;
  d.digest = xxh3_64({bytes.data() + first, sizeof d - first});
}

void stream::note(tessDeterminism& d) {
  seal(d);
  const std::lock_guard lock(small_mutex_);
  determinism_ = d;
}

// The shared launch object is released after the lock, since `before` is destroyed last.
void stream::forget_launches() {
  prepaid_refs before;
  const std::lock_guard lock(small_mutex_);
  before = std::exchange(launches_, {});
  launched_ = {};
}

// A kernel whose stop was requested before it started is stopped here.
void stream::note_persistent(const std::shared_ptr<persistent_run>& run,
                             std::uint64_t number) {
  const std::lock_guard lock(small_mutex_);
  std::erase_if(persistent_, [](const auto& r) { return r.expired(); });
  persistent_.push_back(run);
  if (number <= stopped_) {
    run->request_stop();
  }
}

// The submission lock orders this with calls that enqueue: kernels up to `stopped_` are
// stopped, also those that have not started yet (`note_persistent`).
void stream::stop_persistent() {
  const auto in = context().submission_lock().enter();
  const std::lock_guard lock(small_mutex_);
  stopped_ = operations_;
  for (const auto& weak : persistent_) {
    if (const auto run = weak.lock()) {
      run->request_stop();
    }
  }
}

}  // namespace weir::tessera
