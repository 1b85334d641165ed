// SPDX-License-Identifier: Apache-2.0
/// @file
/// The operations that captures record, and the text that describes a recording.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "stream/graphs/graph_memory.hpp"
#include "weir/tessera/stream/graph.hpp"
#include "weir/tessera/stream/stream.hpp"

namespace weir::tessera {
namespace {

error lost(std::string_view why) {
  return {
      errc::invalid_argument,
      fmt::format("capture not ended: expected one that is whole, found that {}", why)};
}

}  // namespace

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

void graph_recording::add(stream& by, const ref<operation>& operation) {
  if (closed_) {
    return;
  }
  graph_node node;
  node.chain = chain_of(by);
  node.operation = operation;
  if (last_[node.chain] != 0) {
    node.after.push_back(last_[node.chain] - 1);
  }
  for (const ref<point>& p : operation->waits) {
    const auto found = points_.find(p.get());
    if (found != points_.end()) {
      node.after.push_back(found->second);
    } else if (!p->submitted()) {
      refuse("a stream waited for a point of another capture");
    }
  }
  if (auto* p = dynamic_cast<point*>(operation.get()); p != nullptr) {
    points_.emplace(p, made_.nodes.size());
    if (by.recording_only()) {
      p->capture = weak_from_this();
      p->captured = true;
    }
  }
  if (operation->kind() == operation_kind::memory) {
    note_memory(static_cast<const memory_node&>(*operation), node.chain);
  }
  made_.nodes.push_back(std::move(node));
  last_[made_.nodes.back().chain] = made_.nodes.size();
}

result<void> graph_recording::join(submission_lock::session& in, const point& recorded,
                                   stream& waits) {
  const auto recording = recorded.capture.lock();
  if (recording == nullptr || recording->closed_) {
    return {};
  }
  if (!recording->takes_calls_of_this_thread()) {
    recording->refuse("a stream of another thread waited for an event of it");
    return error(errc::invalid_argument,
                 fmt::format("stream {} not made a part of a capture: expected a call of "
                             "the thread that captures, found one of another thread",
                             waits.number()))
        .hint(
            "tessStreamBeginCaptureEx begins a capture that takes calls of all threads");
  }
  waits.flush_waits(in);
  waits.record_into(recording, true);
  recording->take_part(waits);
  return {};
}

void graph_recording::refuse(std::string why) {
  const bool concerned =
      mode_ != capture_mode::per_thread || takes_calls_of_this_thread();
  if (concerned && spoilt_.empty()) {
    spoilt_ = std::move(why);
  }
}

void graph_recording::note_memory(const memory_node& node, std::size_t chain) {
  const auto found =
      std::find_if(memories_.begin(), memories_.end(),
                   [&](const taken_memory& m) { return m.memory == node.memory(); });
  taken_memory& of = found != memories_.end()
                         ? *found
                         : memories_.emplace_back(taken_memory{node.memory(), 0});
  of.freed_by = node.takes() ? 0 : chain + 1;
}

std::shared_ptr<graph_memory> graph_recording::reusable(stream& by, std::size_t bytes) {
  const std::size_t chain = chain_of(by);
  for (taken_memory& m : memories_) {
    if (m.freed_by == chain + 1 && m.memory->bytes() == bytes) {
      m.freed_by = 0;
      return m.memory;
    }
  }
  return nullptr;
}

std::shared_ptr<graph_memory> graph_recording::memory_at(const void* address) const {
  for (const taken_memory& m : memories_) {
    if (m.freed_by == 0 && m.memory->data() == address) {
      return m.memory;
    }
  }
  return nullptr;
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
    // Operations that only mark a point need not be waited for.
    if (!reached[i] && made_.nodes[i].operation->kind() != operation_kind::marker) {
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
  for (const taken_memory& m : memories_) {
    if (m.freed_by == 0 && !m.memory->lent()) {
      m.memory->hide();  // the program has it once the graph is launched
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
                       nodes[i].operation->name(), streams[nodes[i].chain]->number());
    for (const std::size_t before : nodes[i].after) {
      out += fmt::format("  n{} -> n{};\n", before, i);
    }
  }
  return out + "}\n";
}

std::string graph::to_json() const {
  std::string out = "{\"nodes\":[";
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const operation& what = *nodes[i].operation;
    const std::string details = what.details();
    out += fmt::format(
        "{}{{\"index\":{},\"kind\":\"{}\",\"name\":\"{}\",\"stream\":{},\"bytes\":{},"
        "\"after\":[{}]{}{}}}",
        i == 0 ? "" : ",", i, operation::kind_name(what.kind()), what.name(),
        streams[nodes[i].chain]->number(), what.bytes(), fmt::join(nodes[i].after, ","),
        details.empty() ? "" : ",", details);
  }
  return out + "]}";
}

}  // namespace weir::tessera
