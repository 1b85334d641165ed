// SPDX-License-Identifier: Apache-2.0
/// @file
/// Graphs whose nodes are enqueued one by one for each run, in streams of the graph
/// (stand-ins for the recorded streams).
#include "stream/graphs/graph_reissue.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include <fmt/core.h>

#include "stream/collectives/rank_share.hpp"
#include "stream/graphs/graph_body.hpp"
#include "weir/tessera/stream/stream.hpp"

namespace weir::tessera {
namespace {

/// The end of a run in one of the graph's streams. It clears the failures, which have
/// gone to the stream that the graph was launched on, so that the next run begins without
/// them.
///
/// Operations that follow in these streams are those of the next run.
class clear_failures_operation final : public joining_operation {
 public:
  clear_failures_operation() : joining_operation(operation_kind::other) {}

 protected:
  void run(device_chains& chains) override { static_cast<void>(chains.take_failures()); }
};

}  // namespace

// Checks that all operations can be copied, so that a launch does not fail later.
result<std::unique_ptr<graph_reissue>> graph_reissue::make(context& owner,
                                                           const graph& from) {
  // It owns its streams, so they are destroyed with it if a later step fails.
  std::unique_ptr<graph_reissue> out(new graph_reissue(owner));
  // Streams of the graph that nobody else uses.
  for (const auto& s : from.streams) {
    WEIR_TRY(auto made, s->stand_in());
    out->streams_.push_back(std::move(made));
  }
  // The nodes share their operations with the graph.
  out->nodes = from.nodes;
  for (const graph_node& node : from.nodes) {
    if (!node.operation->clone()) {
      return error(errc::unsupported,
                   fmt::format("graph not instantiated: expected operations that can be "
                               "in a graph, found \"{}\"",
                               node.operation->name()));
    }
  }
  return out;
}

// Only collectives of ranks can be unable to run; their groups may be broken.
result<void> graph_reissue::check() const {
  for (const graph_node& node : nodes) {
    // Other operations can always run.
    if (node.operation->waits_for_ranks()) {
      const auto& meets = static_cast<const meeting_operation&>(*node.operation);
      WEIR_CHECK(meets.check(*streams_[node.stream_index]));
    }
  }
  return {};
}

std::uint32_t graph_reissue::tasks() const {
  std::uint32_t out = 0;
  // Allows for the markers at the end of a run.
  for (const auto& s : streams_) {
    out += 4 * s->chain_count();
  }
  for (const graph_node& node : nodes) {
    // A node has tasks on each device chain of its stream.
    out += node.operation->tasks(streams_[node.stream_index]->chain_count());
  }
  return out;
}

// As for bodies: streams may run at the same time, operations of one stream may not.
memory_need graph_reissue::needs() const {
  std::vector<std::size_t> scratch(streams_.size());
  memory_need out;
  for (const graph_node& node : nodes) {
    const memory_need need = node.operation->needs();
    // The largest need of each stream.
    scratch[node.stream_index] = std::max(scratch[node.stream_index], need.scratch);
    out.in_graph += need.in_graph;
  }
  out.scratch = std::accumulate(scratch.begin(), scratch.end(), std::size_t{0});
  return out;
}

// Lets the graph's streams wait for the launching stream and for the end of the last run,
// because runs share the operations' memory.
void graph_reissue::begin(submission_lock::guard& in, stream& target) {
  // A marker behind everything that the target has.
  const auto here = make_ref<point>(target.chain_count(), context_.notifier());
  target.enqueue(in, here);
  for (const auto& s : streams_) {
    s->wait(in, here);
    for (const ref<point>& end : ends_) {
      s->wait(in, end);  // runs follow one another
    }
  }
}

// Lets the launching stream wait for the ends of the graph's streams, from which it takes
// their failures. Then the failures are cleared in the graph's streams.
void graph_reissue::end(submission_lock::guard& in, stream& target) {
  // The ends of the last run have become waits.
  ends_.clear();
  for (const auto& s : streams_) {
    auto done = make_ref<point>(s->chain_count(), context_.notifier());
    s->enqueue(in, done);
    target.wait(in, std::move(done));
    s->enqueue(in, make_ref<clear_failures_operation>());
    auto clean = make_ref<point>(s->chain_count(), context_.notifier());
    clean->order_only = true;  // failures do not pass to the next run
    s->enqueue(in, clean);
    ends_.push_back(std::move(clean));
  }
  target.flush_waits(in);
}

// Nodes are listed under the submission lock and copied without it, because copying a
// node that is a graph takes device chains, which takes the submission lock.
result<std::vector<ref<operation>>> graph_reissue::copies() const {
  std::vector<ref<operation>> recorded;
  {
    const auto in = context_.submission_lock().enter();
    for (const graph_node& node : nodes) {
      recorded.push_back(node.operation);
    }
  }
  std::vector<ref<operation>> out;
  for (const ref<operation>& original : recorded) {
    WEIR_TRY(auto copy, copy_for_graph(*original, context_, nullptr));
    out.push_back(std::move(copy));
  }
  return out;
}

// Enqueues the copies with their waits, in the order of the recording. Points from
// outside of the recording are not waited for here, since `begin` orders the whole run.
void graph_reissue::run(submission_lock::guard& in, stream& target,
                        std::vector<ref<operation>> copies) {
  begin(in, target);
  // The copies of recorded points.
  std::map<const operation*, ref<point>> points;
  // The launches of the run get consecutive numbers of the launching stream.
  std::uint64_t next = target.take_ordinals(std::accumulate(
      copies.begin(), copies.end(), 0U,
      [](std::uint32_t sum, const auto& c) { return sum + c->counted_launches(); }));
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    ref<operation>& copy = copies[i];
    const operation& recorded = *nodes[i].operation;
    stream& s = *streams_[nodes[i].stream_index];
    for (const ref<point>& p : recorded.waits) {
      if (const auto found = points.find(p.get()); found != points.end()) {
        // Points in front of the node are enqueued already.
        s.wait(in, found->second);
      }
    }
    if (recorded.kind() == operation_kind::marker) {
      points.emplace(&recorded, ref<point>(static_cast<point*>(copy.get())));
    }
    copy->urgent = recorded.urgent;
    copy->count_from(target.number(), next);
    s.enqueue(in, std::move(copy));
  }
  end(in, target);
}

/// Ends the streams of the graph.
///
/// Runs in flight go on.
void graph_reissue::close() {
  for (const auto& s : streams_) {
    s->close();
  }
}

}  // namespace weir::tessera
