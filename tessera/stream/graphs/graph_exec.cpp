// SPDX-License-Identifier: Apache-2.0
/// @file
/// Executable graphs: launching and changing them.
///
/// Most graphs run by the engine's replay (`graph_body`). The tasks are captured once for
/// each stream on which the graph is launched, because they name the device chains of
/// that stream. If one device can do all work of a graph without the host, it has a graph
/// of its own (`native_`). A launch on a stream of one device is then one task, which
/// gives that graph to the device, unless somebody observes the nodes. Graphs in which
/// ranks meet are enqueued node by node for each run (`graph_reissue`), because a task of
/// the engine must not wait for other ranks. Members are guarded by the submission lock.
#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "stream/graphs/graph_body.hpp"
#include "stream/graphs/graph_memory.hpp"
#include "stream/graphs/graph_reissue.hpp"
#include "stream/graphs/native_graph.hpp"
#include "stream/notifier.hpp"
#include "weir/tessera/stream/device_step.hpp"
#include "weir/tessera/stream/stream.hpp"
#include "weir/tessera/stream/work.hpp"

namespace weir::tessera {
namespace {

/// Returns the error of a graph that cannot be launched.
error not_launched(errc code, std::string_view expected, std::string_view found) {
  return {code,
          fmt::format("graph not launched: expected {}, found {}", expected, found)};
}

/// Returns the error of a node that cannot be replaced.
error not_updated(std::string_view expected, std::string_view found) {
  return {
      errc::invalid_argument,
      fmt::format("node of a graph not updated: expected {}, found {}", expected, found)};
}

/// Returns true if an operation waits for other ranks.
bool has_ranks_that_meet(const graph& recorded) {
  return std::any_of(recorded.nodes.begin(), recorded.nodes.end(),
                     [](const graph_node& n) { return n.operation->waits_for_ranks(); });
}

}  // namespace

/// One run of a graph, as an operation of the stream that it is launched on.
class graph_run final : public operation {
 public:
  /// `recorded` is the operation that a recording of the stream `target` gets, or null.
  // An observer gets the times of the nodes, which devices do not tell.
  graph_run(std::shared_ptr<graph_exec> exec, ref<operation> recorded,
            const stream& target)
      : operation(operation_kind::graph),
        exec_(std::move(exec)),
        recorded_(std::move(recorded)) {
    if (target.chain_count() == 1 && !exec_->context_->observed()) {
      native_ = exec_->native_;
      native_device_ = exec_->native_device_;
    }
  }

  // The frame and the nodes, and a task per device chain for waits.
  [[nodiscard]] std::uint32_t tasks(unsigned devices) const override {
    return exec_->body_->tasks() + devices;
  }
  [[nodiscard]] std::string_view name() const noexcept override { return "graph"; }
  [[nodiscard]] ref<operation> clone() const override {
    return recorded_ ? recorded_->clone() : ref<operation>();
  }
  // The waits of the run are carried out on each device chain before the replay, whose
  // first task holds these device chains.
  void submit(submission& to) override {
    if (native_ != nullptr) {
      submit_native(to);
      return;
    }
    if (!waits.empty()) {
      for (unsigned d = 0; d < to.chain_count().devices(); ++d) {
        to.add(*this, d, 0, {&holds(to.chain_count().chain_of(d)), 1});
      }
    }
    // Made by `capture_for` before the run was enqueued.
    const auto found = exec_->captures_.find(stream_number);
    WEIR_EXPECT(found != exec_->captures_.end());
    static_cast<graph_frame&>(*found->second.frame.front())
        .expect({number, enqueued_ns, enqueued_by, stream_number, first_ordinal});
    auto first = to.guard().engine().replay(found->second.tasks, &graph_runs);
    WEIR_EXPECT(first.has_value());
  }
  // Without a graph of the device it only takes over the failures of points that the run
  // waits for.
  void step(device_chains& chains, unsigned chain, std::uint32_t) noexcept override {
    if (native_ == nullptr) {
      static_cast<void>(may_run(chains, chain));
      return;
    }
    run_later(chains, chain, [&](device_step& to) -> result<void> {
      to.give(exec_->context_->backend(), graph_work{native_, native_device_});
      return {};
    });
  }

  /// number of the first launch that takes numbers from the stream
  std::uint64_t first_ordinal = 0;

 private:
  // One task, which holds what the first task of a replay holds: runs of the graph follow
  // one another, whoever runs them.
  void submit_native(submission& to) {
    std::vector<runtime::access> accesses{holds(to.chain_count().chain_of(0))};
    for (const auto& chains : exec_->body_->chains) {
      accesses.push_back(holds(chains->chain_of(0)));
    }
    to.add(*this, 0, 0, accesses);
  }

  std::shared_ptr<graph_exec> exec_;
  ref<operation> recorded_;
  std::shared_ptr<device_graph> native_;  ///< run by its device; null: by the engine
  std::int32_t native_device_ = 0;        ///< device of `native_`
};

// Chooses the kind of runs once, by whether ranks meet in the graph.
result<std::shared_ptr<graph_exec>> graph_exec::make(std::shared_ptr<const graph> from) {
  if (from->streams.empty()) {
    return error(errc::invalid_argument,
                 "graph not instantiated: expected at least one operation, found none");
  }
  std::shared_ptr<graph_exec> out(new graph_exec);
  out->context_ = from->streams.front()->context().shared_from_this();
  if (has_ranks_that_meet(*from)) {
    WEIR_TRY(out->reissue_, graph_reissue::make(*out->context_, *from));
  } else {
    WEIR_TRY(out->body_, graph_body::make(*out->context_, *from));
  }
  out->left_ = memory_left_by(from->nodes);
  out->from_ = std::move(from);
  out->renew_native();
  return out;
}

// The device makes the graph without the submission lock, because it may take long. If
// the graph is updated meanwhile, that update lets it be made again. A refusal is
// remembered by having none: the engine then runs the nodes until the next update.
void graph_exec::renew_native() {
  device_backend& backend = context_->backend();
  // Threads of the runtime must not wait for devices.
  if (body_ == nullptr || backend.inline_work() || on_worker()) {
    return;
  }
  std::optional<native_plan> plan;
  std::uint64_t seen = 0;
  {
    const auto in = context_->submission_lock().enter();
    seen = changes_;
    plan = native_plan_of(*body_);
  }
  if (!plan) {
    return;
  }
  auto made = backend.make_graph(plan->device, plan->pieces);
  if (!made) {
    context_->log(log_level::debug, "graph run node by node: {}", made.error().message());
    return;
  }
  const auto in = context_->submission_lock().enter();
  if (seen == changes_) {
    native_ = *std::move(made);
    native_device_ = plan->device;
  }
}

graph_exec::~graph_exec() = default;

/// The nodes of whichever kind this graph is.
std::vector<graph_node>& graph_exec::nodes() const noexcept {
  return reissue_ != nullptr ? reissue_->nodes : body_->nodes;
}

memory_need graph_exec::needs() const {
  return reissue_ != nullptr ? reissue_->needs() : body_->needs();
}

// Returns the tasks for launches on a stream and captures them at the first launch. The
// steps run during the capture with the argument `graph_is_made` and do nothing. Captures
// of streams that are gone are removed.
result<const runtime::capture*> graph_exec::capture_for(submission_lock::guard& in,
                                                        stream& target) {
  std::erase_if(captures_, [](const auto& c) { return c.second.target.expired(); });
  made_capture& made = captures_[target.number()];
  if (made.tasks.valid()) {
    return &made.tasks;
  }
  made.target = target.weak_from_this();
  const auto frame = graph_frame::pair(target.chains(), *body_);
  made.frame.assign(frame.begin(), frame.end());
  WEIR_CHECK(in.engine().begin_capture(&graph_is_made));
  submission to(in, target.chains());
  body_->submit(to, made.frame);
  auto tasks = in.engine().end_capture();
  if (!tasks) {
    // Nothing of the attempt stays.
    captures_.erase(target.number());
    return std::move(tasks).error();
  }
  made.tasks = std::move(*tasks);
  return &made.tasks;
}

// Everything that may fail is checked before memory is lent, because a failure after that
// would leave the program with memory of a run that does not take place. A run that
// exceeds the stream's memory limit fails in the order of the stream.
result<void> graph_exec::launch(const std::shared_ptr<stream>& target) {
  if (&target->context() != context_.get()) {
    return not_launched(errc::invalid_argument, "a stream of its context", "another's");
  }
  std::vector<ref<operation>> copies;
  if (reissue_ != nullptr) {
    WEIR_TRY(copies, reissue_->copies());
  }
  auto in = context_->submission_lock().enter();
  // May release the submission lock, so it comes before all checks of state: other
  // threads may update the graph or begin a capture meanwhile.
  in.reserve((reissue_ != nullptr ? reissue_->tasks() : body_->tasks()) +
             target->chain_count());
  WEIR_CHECK(target->check_caller());
  ref<operation> recorded;
  if (target->recording() != nullptr) {
    // A recording of the stream gets the graph as a node.
    WEIR_TRY(recorded, as_node());
    if (target->recording_only()) {
      target->enqueue(in, std::move(recorded));
      return {};
    }
  }
  if (reissue_ != nullptr) {
    WEIR_CHECK(reissue_->check());
  } else {
    WEIR_TRY(const runtime::capture* const tasks, capture_for(in, *target));
    static_cast<void>(tasks);
  }
  const memory_need need = needs();
  const std::size_t free_bytes = target->budget()->free_bytes();
  // Two comparisons, so that the sum cannot overflow.
  if (need.in_graph > free_bytes || need.scratch > free_bytes - need.in_graph) {
    target->enqueue(
        in, make_failing(
                error(errc::out_of_memory,
                      fmt::format("graph not run: expected scratch, shared memory and "
                                  "arguments within the {} bytes that the stream's "
                                  "limit leaves, found {} and {}",
                                  free_bytes, need.scratch, need.in_graph))));
    return {};
  }
  WEIR_TRY(auto first, lend_memory(*target));
  ++runs_;
  for (ref<point>& p : first) {
    target->wait(in, std::move(p));
  }
  if (reissue_ != nullptr) {
    reissue_->run(in, *target, std::move(copies));
    return {};
  }
  auto run = make_ref<graph_run>(shared_from_this(), std::move(recorded), *target);
  run->first_ordinal = target->take_ordinals(body_->counted_launches());
  target->enqueue(in, std::move(run));
  return {};
}

// Returns the graph as a node for another graph's recording.
result<ref<operation>> graph_exec::as_node() const {
  if (reissue_ != nullptr) {
    return not_launched(errc::unsupported, "a graph that can be a node of another",
                        "one with collectives of streams that are bound to ranks");
  }
  if (!left_.empty()) {
    return not_launched(errc::unsupported, "a graph that can be a node of another",
                        "one that does not give back all memory that it takes");
  }
  auto now = std::make_shared<graph>();
  now->nodes = body_->nodes;
  now->streams = from_->streams;
  return ref<operation>(make_ref<child_graph>(std::move(now)));
}

// Lends the memory that the graph leaves to the program. Returns the points that the run
// must wait for, at which the program's last use of this memory ends. If one piece cannot
// be lent, those that were lent before are taken back.
result<std::vector<ref<point>>> graph_exec::lend_memory(stream& to) {
  // Nothing is lent twice.
  for (const auto& memory : left_) {
    if (memory->lent()) {
      return not_launched(
          errc::invalid_argument, "memory that its last run has left to be given back",
          fmt::format("{} bytes at {} that are not", memory->bytes(), memory->data()));
    }
  }
  std::vector<ref<point>> behind;
  for (const auto& memory : left_) {
    const auto ends = memory->ends();
    behind.insert(behind.end(), ends.begin(), ends.end());
    if (auto lent = memory->lend(to.budget()); !lent) {
      // This run does not take place: memory that was lent for it is taken back.
      for (const auto& before : left_) {
        if (before == memory) {
          break;
        }
        before->take_back();
      }
      return std::move(lent).error();
    }
  }
  return behind;
}

// Called when the program destroys the graph. Runs in flight still use it, so a point at
// the end of each stream keeps it alive.
void graph_exec::retire(const std::shared_ptr<graph_exec>& exec) {
  if (exec->reissue_ != nullptr) {
    exec->reissue_->close();
    return;
  }
  auto in = exec->context_->submission_lock().enter();
  for (const auto& [number, made] : exec->captures_) {
    // Streams that are gone have no runs in flight.
    if (const auto s = made.target.lock()) {
      auto end = make_ref<point>(s->chain_count(), exec->context_->notifier());
      end->when_reached([exec] {});
      s->enqueue_beside(in, std::move(end));
    }
  }
}

// Checks that an operation may replace a node: it has the same kind and was made for a
// stream on the same devices.
result<void> graph_exec::check_update(std::size_t node, const operation& operation,
                                      const stream& made_on) const {
  const auto in = context_->submission_lock().enter();
  if (node >= nodes().size()) {
    return not_updated(fmt::format("one in [0, {})", nodes().size()),
                       fmt::format("{}", node));
  }
  const tessera::operation& recorded = *nodes()[node].operation;
  if (operation.kind() != recorded.kind()) {
    return error(errc::invalid_argument,
                 fmt::format("node {} of a graph not updated: expected an operation like "
                             "its \"{}\", found \"{}\"",
                             node, recorded.name(), operation.name()));
  }
  const stream& recorded_on = *from_->streams[nodes()[node].stream_index];
  if (&made_on.context() != context_.get() ||
      made_on.options().rank != recorded_on.options().rank ||
      made_on.mesh()->devices != recorded_on.mesh()->devices) {
    return not_updated("a stream on the devices that it was recorded on", "another");
  }
  if (!operation.clone()) {
    return error(errc::unsupported,
                 fmt::format("node of a graph not updated: expected an operation that "
                             "can be in a graph, found \"{}\"",
                             operation.name()));
  }
  return {};
}

/// Fails without a change if the operation does not fit.
result<void> graph_exec::update(std::size_t node, const operation& operation,
                                const stream& made_on) {
  WEIR_CHECK(check_update(node, operation, made_on));
  // Runs in flight use the old operation. They end first. If another run was launched
  // while this thread waited without the submission lock, it waits again.
  for (bool done = false; !done;) {
    const std::uint64_t seen = wait_for_runs();
    const auto in = context_->submission_lock().enter();
    done = seen == runs_;
    if (done) {
      WEIR_CHECK(replace(node, operation));
    }
  }
  renew_native();
  return {};
}

// Waits for the runs on all streams that have launched the graph. Returns the number of
// runs when the wait began.
std::uint64_t graph_exec::wait_for_runs() {
  std::vector<std::shared_ptr<stream>> used;
  std::uint64_t seen = 0;
  {
    const auto in = context_->submission_lock().enter();
    seen = runs_;
    for (const auto& [number, made] : captures_) {
      if (auto s = made.target.lock()) {
        used.push_back(std::move(s));
      }
    }
  }
  // A wait without a limit, as runs end by themselves.
  for (const auto& s : used) {
    auto end = make_ref<point>(s->chain_count(), context_->notifier());
    s->enqueue_beside(end);
    context_->notifier().wait([&] { return end->reached(); }, -1);
  }
  return seen;
}

// Replaces the operation of a node. The captured tasks name the old one, so all are
// dropped and made again at the next launch. The caller holds the submission lock, and no
// run is unfinished.
result<void> graph_exec::replace(std::size_t node, const operation& operation) {
  if (reissue_ != nullptr) {
    graph_node& here = reissue_->nodes[node];
    ref<tessera::operation> copy = operation.clone();
    copy->waits = here.operation->waits;
    copy->urgent = operation.urgent;
    here.operation = std::move(copy);
    return {};
  }
  WEIR_TRY(ref<tessera::operation> copy,
           copy_for_graph(operation, *context_, &body_->run));
  // The device's graph has the old operation.
  ++changes_;
  native_.reset();
  copy->urgent = operation.urgent;
  body_->replace(node, std::move(copy));
  captures_.clear();
  return {};
}

}  // namespace weir::tessera
