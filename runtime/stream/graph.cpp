// SPDX-License-Identifier: Apache-2.0
/// @file
/// Recording operations, and running recordings by the engine's replay.
#include "weir/runtime/stream/graph.hpp"

#include <algorithm>
#include <deque>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "weir/base/clock.hpp"
#include "weir/runtime/stream/stream.hpp"
#include "weir/runtime/stream/work.hpp"

namespace weir::runtime {
namespace {

error lost(std::string_view why) {
  return {
      errc::invalid_argument,
      fmt::format("capture not ended: expected one that is whole, found that {}", why)};
}

/// Takes over failures at the start of a run, gives them back at its end as those of the
/// run.
class frame : public operation {
 public:
  /// `began` gets the time at which a run enters; null: this leaves.
  frame(lane_set& outside, std::vector<lane_set*> inside,
        std::atomic<std::int64_t>* began)
      : operation(kind::other),
        outside_(outside),
        inside_(std::move(inside)),
        began_(began) {}

  void submit(submission& to) override {
    std::vector<access> accesses;
    for (unsigned i = 0; i < outside_.devices(); ++i) {
      accesses.push_back(holds(outside_.of(i)));
    }
    for (lane_set* lanes : inside_) {
      for (unsigned i = 0; i < lanes->devices(); ++i) {
        accesses.push_back(holds(lanes->of(i)));
      }
    }
    to.add(*this, 0, 0, accesses);
  }

  /// A run of this number in its stream comes. Runs leave in the order of these calls.
  void expect(std::uint64_t run) {
    const std::lock_guard lock(mutex_);
    runs_.push_back(run);
  }

  void step(lane_set&, unsigned, std::uint32_t) noexcept override {
    if (began_ != nullptr) {
      enter();
    } else {
      leave();
    }
  }

 private:
  void enter() {
    began_->store(now_ns(), std::memory_order_relaxed);
    const failure any = outside_.first_failure();
    for (lane_set* lanes : inside_) {
      for (unsigned i = 0; i < lanes->devices(); ++i) {
        lanes->of(i).poison = corresponds(*lanes) ? outside_.of(i).poison : any;
      }
      if (corresponds(*lanes)) {
        lanes->outside().add_all(outside_.outside(), 0);
      }
    }
  }
  void leave() {
    const std::uint64_t run = next_run();
    for (lane_set* lanes : inside_) {
      if (corresponds(*lanes)) {
        outside_.outside().add_all(lanes->outside(), run);
      }
      for (unsigned i = 0; i < lanes->devices(); ++i) {
        failure left = std::exchange(lanes->of(i).poison, {});
        left.operation = run;  // inside, numbers are those of nodes
        outside_.of(corresponds(*lanes) ? i : 0).poison.merge(left);
      }
      static_cast<void>(lanes->take_failures());
    }
  }
  [[nodiscard]] bool corresponds(const lane_set& lanes) const noexcept {
    return lanes.devices() == outside_.devices();
  }
  [[nodiscard]] std::uint64_t next_run() {
    const std::lock_guard lock(mutex_);
    const std::uint64_t run = runs_.front();
    runs_.pop_front();
    return run;
  }

  lane_set& outside_;
  std::vector<lane_set*> inside_;
  std::atomic<std::int64_t>* began_;
  std::mutex mutex_;
  std::deque<std::uint64_t> runs_;
};

}  // namespace

// Recording.

std::size_t graph_recording::chain_of(stream& by) {
  for (std::size_t i = 0; i < made_.streams.size(); ++i) {
    if (made_.streams[i].get() == &by) {
      return i;
    }
  }
  made_.streams.push_back(by.shared_from_this());
  last_.push_back(0);
  return made_.streams.size() - 1;
}

void graph_recording::add(stream& by, const ref<operation>& what) {
  if (closed_) {
    return;
  }
  graph_node node;
  node.chain = chain_of(by);
  node.what = what;
  if (last_[node.chain] != 0) {
    node.after.push_back(last_[node.chain] - 1);
  }
  for (const ref<point>& p : what->waits) {
    const auto found = points_.find(p.get());
    if (found != points_.end()) {
      node.after.push_back(found->second);
    } else if (!p->submitted()) {
      spoil("a stream waited for a point of another capture");
    }
  }
  if (auto* p = dynamic_cast<point*>(what.get()); p != nullptr) {
    points_.emplace(p, made_.nodes.size());
    if (by.recording_only()) {
      p->capture = weak_from_this();
      p->captured = true;
    }
  }
  made_.nodes.push_back(std::move(node));
  last_[made_.nodes.back().chain] = made_.nodes.size();
}

void graph_recording::join(submission_port::session& in, const point& at, stream& waits) {
  if (const auto recording = at.capture.lock(); recording && !recording->closed_) {
    waits.flush_waits(in);
    waits.record_into(recording, true);
    recording->take_part(waits);
  }
}

void graph_recording::spoil(std::string why) {
  if (spoilt_.empty()) {
    spoilt_ = std::move(why);
  }
}

bool graph_recording::all_reach(std::size_t last) const {
  std::vector<bool> reached(made_.nodes.size(), false);
  std::vector<std::size_t> open{last};
  while (!open.empty()) {
    const std::size_t at = open.back();
    open.pop_back();
    if (!reached[at]) {
      reached[at] = true;
      open.insert(open.end(), made_.nodes[at].after.begin(), made_.nodes[at].after.end());
    }
  }
  for (std::size_t i = 0; i < made_.nodes.size(); ++i) {
    // What only marks a point need not be waited for.
    if (!reached[i] && made_.nodes[i].what->what() != operation::kind::marker) {
      return false;
    }
  }
  return true;
}

result<std::shared_ptr<const graph>> graph_recording::finish(stream* origin) {
  closed_ = true;
  for (const auto& s : made_.streams) {
    if (s->recording().get() == this) {
      s->record_into(nullptr, false);
    }
  }
  if (!spoilt_.empty()) {
    return lost(spoilt_);
  }
  if (origin != nullptr && !made_.nodes.empty()) {
    if (made_.streams.front().get() != origin) {
      return lost("another stream began it");
    }
    if (last_.front() == 0 || !all_reach(last_.front() - 1)) {
      return lost("a stream that joined it has not come back");
    }
  }
  return std::shared_ptr<const graph>(std::make_shared<graph>(std::move(made_)));
}

std::string graph::to_dot() const {
  std::string out = "digraph graph_of_streams {\n";
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    out += fmt::format("  n{} [label=\"{}: {}\\nstream {}\"];\n", i, i,
                       nodes[i].what->name(), streams[nodes[i].chain]->number());
    for (const std::size_t before : nodes[i].after) {
      out += fmt::format("  n{} -> n{};\n", before, i);
    }
  }
  return out + "}\n";
}

std::string graph::to_json() const {
  std::string out = "{\"nodes\":[";
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const operation& what = *nodes[i].what;
    const std::string details = what.details();
    out += fmt::format(
        "{}{{\"index\":{},\"kind\":\"{}\",\"name\":\"{}\",\"stream\":{},\"bytes\":{},"
        "\"after\":[{}]{}{}}}",
        i == 0 ? "" : ",", i, operation::kind_name(what.what()), what.name(),
        streams[nodes[i].chain]->number(), what.bytes(), fmt::join(nodes[i].after, ","),
        details.empty() ? "" : ",", details);
  }
  return out + "]}";
}

// Running.

result<std::shared_ptr<graph_exec>> graph_exec::make(std::shared_ptr<const graph> from) {
  std::shared_ptr<graph_exec> out(new graph_exec);
  if (from->streams.empty()) {
    return error(errc::invalid_argument,
                 "graph not instantiated: expected at least one operation, found none");
  }
  out->of_ = from->streams.front()->of().shared_from_this();
  for (const auto& s : from->streams) {
    WEIR_TRY(auto lanes, out->of_->take_lanes(s->lanes()));
    lanes->urgent = s->options().priority < 0;
    out->lanes_.push_back(std::move(lanes));
  }
  std::map<const operation*, ref<point>> points;
  for (const graph_node& node : from->nodes) {
    ref<operation> copy = node.what->clone();
    if (!copy) {
      return error(errc::unsupported,
                   fmt::format("graph not instantiated: expected operations that can be "
                               "in a graph, found \"{}\"",
                               node.what->name()));
    }
    copy->number = out->nodes_.size() + 1;
    copy->urgent = node.what->urgent;
    out->adopt(*copy, *from->streams[node.chain]);
    for (const ref<point>& p : node.what->waits) {
      if (const auto found = points.find(p.get()); found != points.end()) {
        copy->waits.push_back(found->second);
      }
    }
    if (node.what->what() == operation::kind::marker) {
      auto* p = static_cast<point*>(copy.get());
      points.emplace(node.what.get(), ref<point>(p));
    }
    out->nodes_.push_back({std::move(copy), node.chain, node.after});
  }
  out->from_ = std::move(from);
  out->sum_needs();
  return out;
}

void graph_exec::adopt(operation& what, const stream& recorded_on) const {
  what.graph_of = of_.get();
  what.graph_began = &began_;
  what.stream_number = recorded_on.number();
  what.on_devices = recorded_on.devices();
}

graph_exec::~graph_exec() {
  for (auto& lanes : lanes_) {
    of_->return_lanes(std::move(lanes));
  }
}

result<const capture*> graph_exec::capture_for(submission_port::session& in, stream& on) {
  std::erase_if(captures_, [](const auto& c) { return c.second.on.expired(); });
  made_capture& made = captures_[on.number()];
  if (made.tasks.valid()) {
    return &made.tasks;
  }
  made.on = on.weak_from_this();
  std::vector<lane_set*> inside;
  for (const auto& lanes : lanes_) {
    inside.push_back(lanes.get());
  }
  made.frame = {make_ref<frame>(on.chain(), inside, &began_),
                make_ref<frame>(on.chain(), inside, nullptr)};
  WEIR_CHECK(in.to().begin_capture(&graph_is_made));
  const auto submit = [&](operation& what, lane_set& lanes) {
    submission to(in, lanes);
    what.submit(to);
  };
  submit(*made.frame[0], on.chain());
  for (const graph_node& node : nodes_) {
    submit(*node.what, *lanes_[node.chain]);
  }
  submit(*made.frame[1], on.chain());
  auto tasks = in.to().end_capture();
  if (!tasks) {
    captures_.erase(on.number());
    return std::move(tasks).error();
  }
  made.tasks = std::move(*tasks);
  return &made.tasks;
}

/// One run of a graph, as an operation of the stream that it is launched on.
class graph_run final : public operation {
 public:
  explicit graph_run(std::shared_ptr<graph_exec> what)
      : operation(kind::other), what_(std::move(what)) {}

  [[nodiscard]] std::uint32_t tasks(unsigned) const override {
    return static_cast<std::uint32_t>(what_->size()) + 2;
  }
  [[nodiscard]] std::string_view name() const noexcept override { return "graph"; }
  void submit(submission& to) override {
    if (!waits.empty()) {
      for (unsigned d = 0; d < to.lanes().devices(); ++d) {
        to.add(*this, d, 0, {&holds(to.lanes().of(d)), 1});
      }
    }
    const auto found = what_->captures_.find(stream_number);
    WEIR_EXPECT(found != what_->captures_.end());
    static_cast<frame&>(*found->second.frame.back()).expect(number);
    auto first = to.session().to().replay(found->second.tasks, &graph_runs);
    WEIR_EXPECT(first.has_value());
  }
  void step(lane_set& lanes, unsigned lane, std::uint32_t) noexcept override {
    static_cast<void>(may_run(lanes, lane));
  }

 private:
  std::shared_ptr<graph_exec> what_;
};

result<void> graph_exec::launch(const std::shared_ptr<stream>& on) {
  if (&on->of() != of_.get()) {
    return error(errc::invalid_argument,
                 "graph not launched: expected a stream of its context, found another's");
  }
  auto run = make_ref<graph_run>(shared_from_this());
  auto in = of_->port().enter();
  in.make_room(run->tasks(on->lanes()));  // first: others may update it meanwhile
  if (on->recording() != nullptr) {
    return error(errc::unsupported,
                 "graph not launched: expected a stream that does not capture");
  }
  WEIR_TRY(const capture* const tasks, capture_for(in, *on));
  static_cast<void>(tasks);
  if (const std::size_t room = on->budget()->room(); needs_ > room) {
    on->enqueue(in, make_failing(error(
                        errc::out_of_memory,
                        fmt::format("graph not run: expected scratch, shared memory and "
                                    "arguments within the {} bytes that the stream's "
                                    "limit leaves, found {}",
                                    room, needs_))));
    return {};
  }
  ++runs_;
  on->enqueue(in, std::move(run));
  return {};
}

void graph_exec::sum_needs() {
  std::vector<std::size_t> scratch(lanes_.size());
  needs_ = 0;
  for (const graph_node& node : nodes_) {
    const memory_need need = node.what->needs();
    scratch[node.chain] = std::max(scratch[node.chain], need.scratch);
    needs_ += need.copies;
  }
  needs_ = std::accumulate(scratch.begin(), scratch.end(), needs_);
}

void graph_exec::retire(const std::shared_ptr<graph_exec>& what) {
  auto in = what->of_->port().enter();
  for (const auto& [number, made] : what->captures_) {
    if (const auto s = made.on.lock()) {
      auto end = make_ref<point>(s->lanes(), what->of_->bell());
      end->when_reached([what] {});
      s->enqueue_beside(in, std::move(end));
    }
  }
}

result<void> graph_exec::check_update(std::size_t node, const operation& what,
                                      const stream& made_on) const {
  const auto in = of_->port().enter();
  if (node >= nodes_.size()) {
    return error(
        errc::invalid_argument,
        fmt::format("node of a graph not updated: expected one in [0, {}), found "
                    "{}",
                    nodes_.size(), node));
  }
  const operation& recorded = *nodes_[node].what;
  if (what.what() != recorded.what()) {
    return error(errc::invalid_argument,
                 fmt::format("node {} of a graph not updated: expected an operation like "
                             "its \"{}\", found \"{}\"",
                             node, recorded.name(), what.name()));
  }
  const stream& recorded_on = *from_->streams[nodes_[node].chain];
  if (&made_on.of() != of_.get() ||
      made_on.options().rank != recorded_on.options().rank ||
      made_on.on()->devices != recorded_on.on()->devices) {
    return error(errc::invalid_argument,
                 "node of a graph not updated: expected a stream on the devices that it "
                 "was recorded on, found another");
  }
  if (!what.clone()) {
    return error(errc::unsupported,
                 fmt::format("node of a graph not updated: expected an operation that "
                             "can be in a graph, found \"{}\"",
                             what.name()));
  }
  return {};
}

result<void> graph_exec::update(std::size_t node, ref<operation> what,
                                const stream& made_on) {
  WEIR_CHECK(check_update(node, *what, made_on));
  // Runs in flight have the old operation: let them end, then make the captures anew.
  for (;;) {
    const std::uint64_t seen = wait_for_runs();
    const auto in = of_->port().enter();
    if (seen == runs_) {
      replace(node, std::move(what));
      return {};
    }
  }
}

std::uint64_t graph_exec::wait_for_runs() {
  std::vector<std::shared_ptr<stream>> used;
  std::uint64_t seen = 0;
  {
    const auto in = of_->port().enter();
    seen = runs_;
    for (const auto& [number, made] : captures_) {
      if (auto s = made.on.lock()) {
        used.push_back(std::move(s));
      }
    }
  }
  for (const auto& s : used) {
    auto end = make_ref<point>(s->lanes(), of_->bell());
    s->enqueue_beside(end);
    of_->bell().wait([&] { return end->reached(); }, -1);
  }
  return seen;
}

void graph_exec::replace(std::size_t node, ref<operation> what) {
  what->number = nodes_[node].what->number;
  what->waits = nodes_[node].what->waits;
  adopt(*what, *from_->streams[nodes_[node].chain]);
  nodes_[node].what = std::move(what);
  captures_.clear();
  sum_needs();
}

}  // namespace weir::runtime
