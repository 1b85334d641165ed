// SPDX-License-Identifier: Apache-2.0
/// @file
/// The report of a run as the text of metrics.json.
///
/// The keys are read again by `weir report`, the tests and scripts of users, so they
/// change only together with the documentation. Numbers that do not exist are null.
#include <nlohmann/json.hpp>

#include "weir/actors/run.hpp"
#include "weir/base/hash.hpp"

namespace weir::actors {

namespace {

/// Keeps keys in the order in which they were added.
using json = nlohmann::ordered_json;

/// Counters of the task engine.
json json_counters_of(const runtime::engine_counters& c) {
  // Stalls are counts of waits, by what the engine was short of.
  return {{"tasks", c.submitted},
          {"replayed", c.replayed},
          {"finished", c.finished},
          {"failed", c.failed},
          {"poisoned", c.poisoned},
          {"edges_raw", c.edges_raw},
          {"edges_war", c.edges_war},
          {"edges_waw", c.edges_waw},
          {"edges_asked", c.edges_asked},
          {"edges_pruned", c.edges_pruned},
          {"lookups", c.lookups},
          {"candidates", c.candidates},
          {"exact_tests", c.exact_tests},
          {"maybe", c.maybe},
          {"pruned", c.pruned},
          {"window_stalls", c.window_stalls},
          {"access_stalls", c.access_stalls},
          {"edge_stalls", c.edge_stalls},
          {"heap_stalls", c.heap_stalls},
          {"parks", c.parks}};
}

/// The learning curve, a point per window.
json curve_of(const std::vector<curve_point>& curve) {
  json points = json::array();
  for (const curve_point& p : curve) {
    points.push_back({{"tokens", p.tokens}, {"bits_per_byte", p.bits_per_byte}});
  }
  return points;
}

/// Tokens and rate of each lane.
json lanes_of(const std::vector<lane_report>& lanes) {
  json all = json::array();
  // Rates are those of this process.
  for (const lane_report& one : lanes) {
    all.push_back({{"tokens", one.tokens}, {"tokens_per_second", one.tokens_per_second}});
  }
  return all;
}

/// Changes with which the run was resumed.
json changes_of(const std::vector<storage::run_change>& history) {
  json all = json::array();
  for (const storage::run_change& one : history) {
    // Values are texts, as in the configuration.
    all.push_back({{"pulse", one.pulse},
                   {"token", one.token},
                   {"key", one.key},
                   {"from", one.from},
                   {"to", one.to}});
  }
  return all;
}

/// Bytes of memory by owner.
json memory_of(const std::vector<std::pair<std::string, std::int64_t>>& memory) {
  json owners = json::object();
  for (const auto& [owner, bytes] : memory) {
    owners[owner] = bytes;
  }
  return owners;
}

}  // namespace

/// Returns the text of metrics.json. The order of the keys is that of the file.
std::string metrics_json(const run_report& r) {
  json j;
  j["ended"] = r.ended;
  j["state_hash"] = hex64(r.state_hash);
  j["context_hash"] = hex64(r.context_hash);
  j["parameter_hash"] = hex64(r.parameter_hash);
  j["history_hash"] = hex64(r.history_hash);
  j["content_hash"] = hex64(r.content_hash);
  // The largest norm of a memory, and where it is.
  j["memory_norm"] = {{"largest", r.largest_memory.norm},
                      {"lane", r.largest_memory.lane},
                      {"block", r.largest_memory.block},
                      {"level", r.largest_memory.level},
                      {"head", r.largest_memory.head}};
  j["tokens"] = r.tokens;
  j["pulses"] = r.pulses;
  j["phases"] = {{"build", {{"tokens", r.build_tokens}, {"pulses", r.build_pulses}}},
                 {"test", {{"tokens", r.test_tokens}}},
                 {"stream", {{"tokens", r.stream_tokens}}}};
  j["bits_per_byte"] = {{"cumulative", r.bits_cumulative},
                        {"last_quarter", r.bits_last_quarter},
                        {"test", r.bits_test},
                        {"stream", r.bits_stream}};
  // Times and rates are those of the Build phase.
  j["tokens_per_second"] = r.tokens_per_second;
  j["build_seconds"] = r.build_seconds;
  j["kernel_seconds"] = r.kernel_seconds;
  // With several workers the overhead cannot be told apart from idle time.
  j["engine_overhead"] = r.workers == 1 ? json(r.engine_overhead) : json(nullptr);
  j["idle_seconds"] = r.idle_seconds;
  j["stall_seconds"] = r.stall_seconds;
  j["next_seconds"] = {{"p50", r.next.p50}, {"p99", r.next.p99}};
  j["pulse_seconds"] = {{"p50", r.pulse.p50}, {"p99", r.pulse.p99}};
  j["queue_deepest"] = r.queue_deepest;
  j["lanes"] = lanes_of(r.lanes);
  j["generation"] = r.generation;
  j["generations"] = r.generations;
  j["checkpoint_stall_ms"] = r.checkpoint_stall_ms;
  j["resumed"] = r.resumed;
  j["peak_rss_bytes"] = r.peak_rss_bytes;
  j["wall_seconds"] = r.wall_seconds;
  j["workers"] = r.workers;
  j["kernel_set"] = r.kernel_set;
  j["parameters"] = r.parameters;
  j["corpus"] = {{"files", r.corpus},
                 {"tokens", r.corpus_tokens},
                 {"identity", hex64(r.corpus_identity)}};
  if (!r.mix.empty()) {
    j["mix"] = r.mix;
  }
  j["engine"] = json_counters_of(r.counters);
  j["memory"] = memory_of(r.memory);
  j["changes"] = changes_of(r.history);
  j["warnings"] = r.warnings;
  j["curve"] = curve_of(r.curve);
  // File names may contain bytes that are not UTF-8; JSON requires UTF-8, so they are
  // replaced.
  return j.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace weir::actors
